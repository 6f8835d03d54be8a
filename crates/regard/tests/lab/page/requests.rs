//! A server in this process, and a client that sends whatever it is told.

use regard::compute::Placement;
use regard::server::{Limits, Server, ServerSettings};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

/// Serves the models of a folder until the test program ends.
pub fn serve(folder: &Path, models: &[&str], limits: Limits) -> SocketAddr {
    let models = models.iter().map(|name| folder.join(name).display().to_string()).collect();
    let settings = ServerSettings {
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: 0,
        models,
        runs: folder.join("runs"),
        search: false,
        web: None,
        watched: None,
        placement: Placement::CPU,
        limits,
    };
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let server = Server::bind(settings).await.unwrap();
            tell.send(server.address()).unwrap();
            server.run(std::future::pending()).await.unwrap();
        });
    });
    told.recv().unwrap()
}

/// An answer: its status, its head and its body.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&self.body)))
    }

    /// The sentence of a refusal.
    pub fn problem(&self) -> String {
        self.json()["error"].as_str().unwrap_or_default().to_owned()
    }

    /// The JSON and the bytes of a packed answer.
    pub fn unpacked(&self) -> (Value, &[u8]) {
        let length = u32::from_le_bytes(self.body[..4].try_into().unwrap()) as usize;
        (serde_json::from_slice(&self.body[4..4 + length]).unwrap(), &self.body[4 + length..])
    }

    /// The numbers of a packed answer.
    pub fn reals(&self) -> Vec<f32> {
        let bytes = self.unpacked().1;
        bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
    }
}

/// Sends bytes as they are and reads what comes.
pub fn send(address: SocketAddr, request: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // A server that has seen enough may close before everything was sent.
    let _ = stream.write_all(request);
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let split = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(bytes.len());
    let head = String::from_utf8_lossy(&bytes[..split]).into_owned();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body = bytes.get(split + 4..).unwrap_or_default().to_vec();
    Answer { status, head, body }
}

pub fn get(address: SocketAddr, path: &str) -> Answer {
    send(address, format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes())
}

pub fn post(address: SocketAddr, path: &str, body: &str) -> Answer {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    send(address, &[head.as_bytes(), body.as_bytes()].concat())
}
