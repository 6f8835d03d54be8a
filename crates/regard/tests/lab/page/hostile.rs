//! Requests that should not be answered, and that must not harm.

use super::requests::{Answer, get, post, send, serve};
use crate::checkpoints::made;
use proptest::prelude::*;
use regard::server::Limits;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::OnceLock;
use tempfile::TempDir;

/// One server for all of these: whatever one test does to it, the others need it.
fn server() -> (SocketAddr, &'static str, &'static str) {
    static SERVER: OnceLock<(SocketAddr, String, String)> = OnceLock::new();
    let (address, model, id) = SERVER.get_or_init(|| {
        let folder = Box::leak(Box::new(TempDir::new().unwrap()));
        let path = folder.path().join("model");
        made::gpt(&path, 5);
        let limits = Limits { text_bytes: 4000, ..Limits::default() };
        let address = serve(folder.path(), &["model"], limits);
        let model = made::text(&path).to_owned();
        let told =
            post(address, "/api/read", &json!({ "model": model, "text": "The cat" }).to_string()).json();
        (address, model, told["id"].as_str().unwrap().to_owned())
    });
    (*address, model, id)
}

fn with_headers(address: SocketAddr, headers: &str) -> Answer {
    send(address, format!("GET /api/state HTTP/1.1\r\n{headers}Connection: close\r\n\r\n").as_bytes())
}

#[test]
fn only_its_own_page_may_ask() {
    let (address, ..) = server();
    let port = address.port();
    for host in [format!("127.0.0.1:{port}"), format!("localhost:{port}")] {
        assert_eq!(with_headers(address, &format!("Host: {host}\r\n")).status, 200, "{host}");
        let own = format!("Host: {host}\r\nOrigin: http://{host}\r\n");
        assert_eq!(with_headers(address, &own).status, 200, "{host}");
    }
    for host in
        ["evil.example".to_owned(), format!("evil.example:{port}"), "127.0.0.1".into(), "127.0.0.1:1".into()]
    {
        assert_eq!(with_headers(address, &format!("Host: {host}\r\n")).status, 403, "{host}");
    }
    for origin in ["http://evil.example", "https://evil.example:1", "null", "http://127.0.0.1:1", "file://"] {
        let headers = format!("Host: {address}\r\nOrigin: {origin}\r\n");
        assert_eq!(with_headers(address, &headers).status, 403, "{origin}");
    }
    let head = get(address, "/").head.to_ascii_lowercase();
    for mark in ["content-security-policy: default-src 'none'", "nosniff", "no-store", "same-origin"] {
        assert!(head.contains(mark), "{mark}");
    }
    assert!(!head.contains("access-control-allow"));
}

#[test]
fn requests_beyond_the_limits_are_rejected() {
    let (address, model, id) = server();
    let read = |text: &str| post(address, "/api/read", &json!({ "model": model, "text": text }).to_string());
    assert!(read("   ").problem().contains("empty"));
    let long = read(&"the cat ".repeat(100));
    assert_eq!(long.status, 400);
    assert!(long.problem().contains("tokens, and the most that can be read is 48"), "{}", long.problem());
    assert_eq!(read(&"x".repeat(5000)).status, 413);
    assert_eq!(post(address, "/api/tokens", &"x".repeat(6000)).status, 413);
    let unknown = post(address, "/api/read", &json!({ "model": "/etc", "text": "x" }).to_string());
    assert_eq!(unknown.status, 400);
    assert!(unknown.problem().contains("no model"));
    assert_eq!(get(address, "/api/readings/0000000000000000").status, 410);
    for question in [
        "tile?site=layers.0.self&head=9",
        "tile?site=layers.9.self&head=0",
        "tile?site=layers.0.self&head=0&zoom=60",
        "tile?site=layers.0.self&head=0&x=99999999999999",
        "tile?site=layers.0.self&head=-1",
        "tile",
        "block?site=layers.0.self&head=0&top=0&bottom=99999999999&left=0&right=999999999999",
        "block?site=layers.0.self&head=0&top=3&bottom=1&left=0&right=1",
        "thumbnails?site=x",
        "measures?site=",
        "vectors?site=layers.0.self&head=0&query=99&keys=",
        "vectors?site=layers.0.self&head=0&query=0&keys=1,x",
        "vectors?site=layers.0.self&head=0&query=0&keys=99",
        "flow?group=self&position=99",
        "flow?group=cross&position=0",
        "flow?group=nobody&position=0",
        "classes",
        "thumbnails?site=layers.0.self&scale=loud",
    ] {
        let answer = get(address, &format!("/api/readings/{id}/{question}"));
        assert_eq!(answer.status, 400, "{question}: {}", String::from_utf8_lossy(&answer.body));
        assert!(!answer.problem().is_empty(), "{question}");
    }
    for body in [
        json!({ "token": 999_999 }),
        json!({ "sampling": { "temperature": -1.0 } }),
        json!({ "sampling": { "top_p": 7 } }),
        json!({ "step": -1 }),
        json!({ "other": 1 }),
        json!("x"),
    ] {
        let answer = post(address, &format!("/api/readings/{id}/step"), &body.to_string());
        assert!((400..500).contains(&answer.status), "{body}: {}", answer.status);
    }
    assert_eq!(get(address, "/api/state").status, 200);
}

#[test]
fn nothing_but_the_pages_files_is_served() {
    let (address, ..) = server();
    for (name, text) in regard::server::web::FILES {
        let answer = get(address, &format!("/{name}"));
        assert_eq!((answer.status, answer.body.as_slice()), (200, text.as_bytes()), "{name}");
    }
    assert_eq!(get(address, "/colours.css").status, 200);
    for path in [
        "/../Cargo.toml",
        "/js/../../Cargo.toml",
        "/%2e%2e/Cargo.toml",
        "/etc/passwd",
        "//etc/passwd",
        "/js",
        "/x",
    ] {
        assert_eq!(get(address, path).status, 404, "{path}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn noise_is_rejected_and_the_server_keeps_running(
        noise in prop::collection::vec(any::<u8>(), 0..400),
        path in "/api/readings/[a-z0-9]{0,20}/[a-z?&=0-9.%]{0,60}",
        body in "[\\[\\]{}\":,a-z0-9 ]{0,80}",
    ) {
        let (address, ..) = server();
        send(address, &[b"GET / HTTP/1.1\r\n".as_slice(), &noise, b"\r\n\r\n"].concat());
        prop_assert!(get(address, &path).status >= 400);
        let answer = post(address, "/api/read", &body);
        prop_assert!((400..500).contains(&answer.status), "{}", answer.status);
        prop_assert_eq!(get(address, "/api/state").status, 200);
    }
}
