//! A hub on loopback that keeps what it is told to serve, and can misbehave.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// How the server treats one file.
#[derive(Clone, Copy, PartialEq)]
pub enum Manner {
    Honest,
    /// Closes the connection after so many bytes of every answer.
    Cuts(usize),
    /// The same, and is overloaded when it is asked for the rest.
    Tires(usize),
    /// Promises one size and sends another.
    Lies,
    /// Another version each time it is asked.
    Changes,
    /// Knows nothing of ranges.
    Whole,
    /// Keeps the file at another host, which has ETags of its own.
    Stored,
    /// Keeps the file at another place of its own.
    Moved,
}

pub struct Server {
    pub address: String,
    log: Arc<Mutex<Vec<String>>>,
}

struct Hub {
    files: BTreeMap<String, (Vec<u8>, Manner)>,
    listed: Vec<String>,
    asked: AtomicUsize,
}

impl Server {
    /// Serves files of `owner/tiny`.
    pub fn start(files: Vec<(&str, Vec<u8>, Manner)>, more: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let names = files.iter().map(|(name, _, _)| *name).chain(more.iter().copied()).map(str::to_owned);
        let hub = Arc::new(Hub {
            listed: names.collect(),
            files: files
                .into_iter()
                .map(|(name, bytes, manner)| (name.to_owned(), (bytes, manner)))
                .collect(),
            asked: AtomicUsize::new(0),
        });
        let log = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&log);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (hub, log) = (Arc::clone(&hub), Arc::clone(&kept));
                // A client that hangs up is no failure of the server.
                std::thread::spawn(move || answer(stream, &hub, &log).ok());
            }
        });
        Self { address, log }
    }

    /// What was asked since the last time: method, path, range and who asked.
    pub fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().unwrap())
    }
}

fn answer(stream: TcpStream, hub: &Hub, log: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let (mut range, mut token) = (None, String::new());
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        let lower = line.trim().to_lowercase();
        if let Some(from) = lower.strip_prefix("range: bytes=") {
            range = from.trim_end_matches('-').parse::<usize>().ok();
        }
        if let Some(bearer) =
            line.trim().strip_prefix("authorization: ").or(line.trim().strip_prefix("Authorization: "))
        {
            bearer.clone_into(&mut token);
        }
    }
    let (method, path) = first.trim().trim_end_matches(" HTTP/1.1").split_once(' ').unwrap_or_default();
    log.lock().unwrap().push(format!("{method} {path} {range:?} {token}"));
    respond(stream, hub, method, path, range)
}

fn respond(
    mut stream: TcpStream,
    hub: &Hub,
    method: &str,
    path: &str,
    range: Option<usize>,
) -> std::io::Result<()> {
    if path == "/api/models/owner/tiny/revision/main" {
        let siblings: Vec<_> =
            hub.listed.iter().map(|name| serde_json::json!({ "rfilename": name })).collect();
        let list = serde_json::json!({ "sha": COMMIT, "siblings": siblings }).to_string();
        return write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{list}",
            list.len()
        );
    }
    let resolved = path.strip_prefix(&format!("/owner/tiny/resolve/{COMMIT}/"));
    let name = resolved.or(path.strip_prefix("/kept/")).unwrap_or_default();
    let Some((bytes, manner)) = hub.files.get(name) else {
        return write!(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    };
    if resolved.is_some() && matches!(manner, Manner::Stored | Manner::Moved) {
        let size = bytes.len();
        let place = match manner {
            Manner::Stored => {
                let port = stream.local_addr()?.port();
                format!(
                    "X-Linked-Etag: \"tag-{size}\"\r\nX-Linked-Size: {size}\r\nLocation: http://localhost:{port}/kept/{name}"
                )
            }
            _ => format!("ETag: \"another\"\r\nLocation: /kept/{name}"),
        };
        return write!(
            stream,
            "HTTP/1.1 302 Found\r\n{place}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
    }
    let asked = hub.asked.fetch_add(1, Ordering::Relaxed);
    let etag = match manner {
        Manner::Changes => format!("{asked:08}"),
        Manner::Stored => format!("own-{}", bytes.len()),
        _ => format!("tag-{}", bytes.len()),
    };
    let promised = if *manner == Manner::Lies && method == "HEAD" { bytes.len() + 1 } else { bytes.len() };
    let from = range.filter(|_| *manner != Manner::Whole);
    let start = from.unwrap_or(0).min(bytes.len());
    if matches!(manner, Manner::Tires(_)) && from.is_some() {
        return write!(stream, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    }
    let status = if from.is_some() { "206 Partial Content" } else { "200 OK" };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nETag: \"{etag}\"\r\nContent-Length: {}\r\nConnection: close\r\n",
        promised - start
    )?;
    if from.is_some() {
        write!(stream, "Content-Range: bytes {start}-{}/{}\r\n", bytes.len() - 1, bytes.len())?;
    }
    write!(stream, "\r\n")?;
    if method == "GET" {
        let end = match manner {
            Manner::Cuts(after) | Manner::Tires(after) => (start + after).min(bytes.len()),
            _ => bytes.len(),
        };
        stream.write_all(&bytes[start..end])?;
    }
    stream.flush()
}
