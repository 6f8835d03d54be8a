//! Clients that stall, and files that change under a server that uses them.

use super::requests::{get, post, serve};
use crate::checkpoints::made;
use regard::server::Limits;
use serde_json::json;
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

fn impatient() -> Limits {
    let short = Duration::from_millis(300);
    Limits { connections: 8, header_time: short, body_time: short, write_time: short, ..Limits::default() }
}

/// Sends bytes and nothing more; whether the server closes the connection, and what it says before.
fn stalls(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(bytes).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut told = Vec::new();
    match stream.read_to_end(&mut told) {
        Ok(_) => String::from_utf8_lossy(&told).into_owned(),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => String::new(),
        Err(error) => panic!("the connection stayed open: {error}"),
    }
}

#[test]
fn half_open_connections_are_closed() {
    let folder = TempDir::new().unwrap();
    made::gpt(&folder.path().join("model"), 5);
    let address = serve(folder.path(), &["model"], impatient());
    stalls(address, b"");
    stalls(address, b"GET /api/st");
    stalls(address, format!("GET /api/state HTTP/1.1\r\nHost: {address}\r\n").as_bytes());
    // A request, and then nothing on a connection that was kept alive.
    let answered = stalls(address, format!("GET / HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes());
    assert!(answered.starts_with("HTTP/1.1 200"), "{answered}");
    let head = format!(
        "POST /api/read HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n{{"
    );
    let late = stalls(address, head.as_bytes());
    assert!(late.starts_with("HTTP/1.1 408") && late.contains("did not arrive in time"), "{late}");
}

#[test]
fn stalling_clients_do_not_keep_others_out() {
    let folder = TempDir::new().unwrap();
    made::gpt(&folder.path().join("model"), 5);
    let address = serve(folder.path(), &["model"], impatient());
    let stalled: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert_eq!(get(address, "/api/state").status, 200);
    drop(stalled);
}

fn overwrite(path: &Path) {
    let mut file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::End(-64)).unwrap();
    file.write_all(&[0; 64]).unwrap();
    file.set_modified(std::time::SystemTime::now() + Duration::from_secs(5)).unwrap();
}

#[test]
fn weights_that_change_under_the_server_fail_a_request_and_not_the_server() {
    let folder = TempDir::new().unwrap();
    let model = folder.path().join("model");
    made::gpt(&model, 5);
    let weights = model.join("model.safetensors");
    let whole = std::fs::read(&weights).unwrap();
    let address = serve(folder.path(), &["model"], Limits::default());
    let body = json!({ "model": made::text(&model), "text": "The cat sat" }).to_string();
    let read = || post(address, "/api/read", &body);
    let first = read().json()["id"].as_str().unwrap().to_owned();

    overwrite(&weights);
    let answer = read();
    assert_eq!(answer.status, 500);
    assert!(answer.problem().contains("were written to while it was open"), "{}", answer.problem());
    assert_eq!(read().status, 200, "what is there now is opened");

    // Cut to nothing: a mapping of this file would end the process at the next touch.
    std::fs::OpenOptions::new().write(true).open(&weights).unwrap().set_len(16).unwrap();
    let step = post(address, &format!("/api/readings/{first}/step"), "{}");
    assert_eq!(step.status, 200, "the model of an earlier reading is a private copy: {}", step.problem());
    assert_eq!(read().status, 500);
    let damaged = read();
    assert!(damaged.status == 400 && damaged.problem().contains("safetensors"), "{}", damaged.problem());

    // Replaced under the same name, as a training run does it.
    std::fs::write(model.join("new"), &whole).unwrap();
    std::fs::rename(model.join("new"), &weights).unwrap();
    assert_eq!(read().status, 200);
    std::fs::write(model.join("new"), &whole).unwrap();
    std::fs::rename(model.join("new"), &weights).unwrap();
    assert_eq!(read().status, 200, "a file that was replaced is opened without a word");
}

#[test]
fn weights_that_are_cut_again_and_again_never_end_the_server() {
    let folder = TempDir::new().unwrap();
    let model = folder.path().join("model");
    made::gpt(&model, 5);
    let weights = model.join("model.safetensors");
    let whole = std::fs::read(&weights).unwrap();
    let address = serve(folder.path(), &["model"], Limits::default());
    let body = json!({ "model": made::text(&model), "text": "The cat sat" }).to_string();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..200 {
                let part = if round % 2 == 0 { &whole[..whole.len() / 3] } else { &whole[..] };
                std::fs::write(&weights, part).unwrap();
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        while !writer.is_finished() {
            let status = post(address, "/api/read", &body).status;
            assert!([200, 400, 500].contains(&status), "{status}");
        }
    });
    std::fs::write(&weights, &whole).unwrap();
    post(address, "/api/read", &body);
    assert_eq!(post(address, "/api/read", &body).status, 200);
}
