//! Runs that are watched: event files read back record by record, and the page of `train --watch`.

use crate::train::{SMALL, command, regard, succeeds};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::Stdio;
use tempfile::TempDir;

/// A point of a curve: step, name, value.
type Point = (u64, String, f32);

fn number(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
        shift += 7;
    }
}

/// The fields of a message: number and bytes; numbers of fixed and variable size as eight bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = number(&mut bytes);
        let length = match key & 7 {
            0 => {
                found.push((key >> 3, number(&mut bytes).to_le_bytes().to_vec()));
                continue;
            }
            1 => 8,
            2 => number(&mut bytes) as usize,
            5 => 4,
            other => panic!("wire type {other}"),
        };
        found.push((key >> 3, bytes[..length].to_vec()));
        bytes = &bytes[length..];
    }
    found
}

fn field(message: &[(u64, Vec<u8>)], wanted: u64) -> Option<&Vec<u8>> {
    message.iter().find(|(number, _)| *number == wanted).map(|(_, bytes)| bytes)
}

/// The points in all event files of a folder, and the number of files.
fn points(folder: &Path) -> (Vec<Point>, usize) {
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut found = Vec::new();
    for file in &files {
        let bytes = std::fs::read(file).unwrap();
        let (mut rest, mut versions) = (&bytes[..], 0);
        while !rest.is_empty() {
            let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
            let event = fields(&rest[12..12 + length]);
            rest = &rest[16 + length..];
            versions += usize::from(field(&event, 3).is_some_and(|version| version == b"brain.Event:2"));
            let step = field(&event, 2).map_or(0, |bytes| u64::from_le_bytes(bytes[..].try_into().unwrap()));
            for (_, value) in field(&event, 5).map(|summary| fields(summary)).unwrap_or_default() {
                let value = fields(&value);
                let tag = String::from_utf8(field(&value, 1).unwrap().clone()).unwrap();
                let real = f32::from_le_bytes(field(&value, 2).unwrap()[..].try_into().unwrap());
                found.push((step, tag, real));
            }
        }
        assert_eq!(versions, 1, "{}", file.display());
    }
    (found, files.len())
}

#[test]
fn event_files_have_the_curves_of_the_metrics() {
    let folder = TempDir::new().unwrap();
    let mut arguments = vec!["train", "--out=run", "--tensorboard=logs"];
    arguments.extend(SMALL);
    succeeds(&regard(folder.path(), &arguments));
    let (points, files) = points(&folder.path().join("logs"));
    assert_eq!(files, 1);
    let text = std::fs::read_to_string(folder.path().join("run/metrics.csv")).unwrap();
    let mut compared = 0;
    for line in text.lines().skip(1) {
        let columns: Vec<&str> = line.split(',').collect();
        let step: u64 = columns[0].parse().unwrap();
        let named = [(1, "loss/train"), (2, "loss/held_out"), (3, "learning_rate"), (5, "gradient_norm")];
        for (column, tag) in named {
            let point = points.iter().find(|(at, name, _)| *at == step && name == tag);
            match columns[column].parse::<f32>() {
                Ok(value) => {
                    assert!(
                        (point.unwrap().2 - value).abs() <= 1e-5 * value.abs().max(1.0),
                        "{tag} at {step}"
                    );
                    compared += 1;
                }
                Err(_) => assert!(point.is_none(), "{tag} at {step}"),
            }
        }
    }
    assert!(compared > 60, "{compared}");
    assert!(points.iter().any(|(_, name, _)| name == "perplexity"));
}

/// The answer of a server to a request, as JSON.
fn ask(address: &str, request: &str, body: &str) -> Value {
    let host = address.strip_prefix("http://").unwrap();
    let mut stream = std::net::TcpStream::connect(host).unwrap();
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn a_watched_run_is_paused_and_its_rate_is_kept() {
    let folder = TempDir::new().unwrap();
    let mut arguments = vec!["train", "--out=run", "--watch"];
    arguments.extend(SMALL);
    arguments.push("--set=train.steps=100000");
    let mut process = command(folder.path(), &arguments);
    // No browser is started.
    let mut process = process.env("PATH", "").stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
    let address = lines
        .find_map(|line| line.unwrap().strip_prefix("watch it at ").map(str::to_owned))
        .expect("it says where");
    std::thread::spawn(move || lines.for_each(drop));
    let film = || ask(&address, "GET /api/film?model=run", "");
    let until = |what: &dyn Fn(&Value) -> bool| {
        for _ in 0..600 {
            let found = film();
            if what(&found) {
                return found;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("{}", film());
    };
    until(&|film| film["live"]["step"].as_u64() > Some(3));
    let wrong = ask(&address, "POST /api/film", r#"{"model":"run","factor":0}"#);
    assert!(wrong["error"].as_str().unwrap().contains("multiplied"), "{wrong}");
    let changed = ask(&address, "POST /api/film", r#"{"model":"run","factor":4,"paused":true}"#);
    assert_eq!((&changed["factor"], &changed["paused"]), (&Value::from(4.0), &Value::from(true)));
    // The model of the step at which it pauses is kept.
    let paused = until(&|film| film["snapshots"].as_array().unwrap().contains(&film["live"]["step"]));
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(film()["live"]["step"], paused["live"]["step"]);
    let read = format!(r#"{{"model":"run@{}","text":"the dog"}}"#, paused["live"]["step"]);
    assert_eq!(ask(&address, "POST /api/read", &read)["sites"].as_array().unwrap().len(), 1);
    ask(&address, "POST /api/film", r#"{"model":"run","paused":false}"#);
    until(&|film| film["live"]["step"].as_u64() > paused["live"]["step"].as_u64());
    let stopped = std::process::Command::new("kill").args(["-INT", &process.id().to_string()]).status();
    assert!(stopped.unwrap().success());
    assert_eq!(process.wait().unwrap().code(), Some(130));
    // The changed rate was used, and the state keeps the factor for whoever resumes the run.
    let text = std::fs::read_to_string(folder.path().join("run/metrics.csv")).unwrap();
    let last: Vec<&str> = text.lines().last().unwrap().split(',').collect();
    let scheduled = |step: f64| 1e-3 * (step / 100.0).min(1.0);
    let (step, rate): (f64, f64) = (last[0].parse().unwrap(), last[3].parse().unwrap());
    assert!((rate / scheduled(step) - 4.0).abs() < 0.05, "{rate} at step {step}");
    let state = std::fs::read(folder.path().join("run/state.safetensors")).unwrap();
    let head = String::from_utf8_lossy(&state[..state.len().min(20_000)]).into_owned();
    assert!(head.contains("rate_factor"), "the state keeps the factor");
}
