//! Shows a page in the reader's browser.

use crate::terminal;
use std::process::{Command, Stdio};

/// Opens an address or a file. Where no browser can be started, it says where to look instead.
pub fn open(place: &str) {
    let program = match std::env::consts::OS {
        "macos" => "open",
        "windows" => "explorer",
        _ => "xdg-open",
    };
    let started = Command::new(program)
        .arg(place)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match started {
        // Nothing waits for the browser, but somebody has to see it end.
        Ok(mut browser) => drop(std::thread::spawn(move || browser.wait())),
        Err(_) => terminal::remark(format!("no browser could be started; open {place} in one")),
    }
}
