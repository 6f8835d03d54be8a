//! Many clients at once: everyone is answered or told that the server is busy, and memory has a limit.

use super::requests::{get, post, serve};
use crate::checkpoints::made;
use regard::server::Limits;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;
use tempfile::TempDir;

#[test]
fn every_request_is_answered_or_rejected_as_busy() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("model");
    made::gpt(&path, 5);
    let limits = Limits { patience: Duration::ZERO, ..Limits::default() };
    let address = serve(folder.path(), &["model"], limits);
    let body = json!({ "model": made::text(&path), "text": "The cat sat on the mat." }).to_string();
    let mut counts = BTreeMap::new();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..24)
            .map(|_| scope.spawn(|| (0..6).map(|_| post(address, "/api/read", &body)).collect::<Vec<_>>()))
            .collect();
        for answer in clients.into_iter().flat_map(|client| client.join().unwrap()) {
            if answer.status == 503 {
                assert!(answer.problem().contains("busy"));
                assert!(answer.head.to_ascii_lowercase().contains("retry-after"));
            }
            *counts.entry(answer.status).or_insert(0) += 1;
        }
    });
    assert!(counts.contains_key(&200), "{counts:?}");
    assert!(counts.keys().all(|status| [200, 503].contains(status)), "{counts:?}");
    assert_eq!(post(address, "/api/read", &body).status, 200, "the next try works");
}

#[test]
fn old_forward_passes_make_room_for_new_ones() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("model");
    made::gpt(&path, 5);
    let address = serve(folder.path(), &["model"], Limits { memory: 60_000, ..Limits::default() });
    let read = |number: u32| {
        let text = format!("The cat sat on the mat {number}.");
        let body = json!({ "model": made::text(&path), "text": text }).to_string();
        post(address, "/api/read", &body).json()["id"].as_str().unwrap().to_owned()
    };
    let first = read(0);
    assert_eq!(get(address, &format!("/api/readings/{first}")).status, 200);
    assert_eq!(read(0), first, "the same text is not read twice");
    for number in 1..20 {
        read(number);
    }
    let last = read(20);
    let gone = get(address, &format!("/api/readings/{first}"));
    assert_eq!(gone.status, 410);
    assert!(gone.problem().contains("make room"));
    assert_eq!(get(address, &format!("/api/readings/{last}")).status, 200);
}

#[test]
fn clients_that_leave_take_their_work_with_them() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("model");
    made::gpt(&path, 5);
    let address = serve(folder.path(), &["model"], Limits::default());
    let body = json!({ "model": made::text(&path), "text": "The cat sat on the mat." }).to_string();
    for _ in 0..50 {
        let mut stream = TcpStream::connect(address).unwrap();
        let head = format!(
            "POST /api/read HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
    }
    assert_eq!(post(address, "/api/read", &body).status, 200);
}
