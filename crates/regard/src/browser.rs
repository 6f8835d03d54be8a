//! Opens a page in the user's browser.

use crate::terminal;
use std::process::{Command, Stdio};

/// Opens an address or a file. Where no browser can be started, it prints the address instead.
pub fn open(address: &str) {
    let program = match std::env::consts::OS {
        "macos" => "open",
        "windows" => "explorer",
        _ => "xdg-open",
    };
    let started = Command::new(program)
        .arg(address)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match started {
        // A thread waits for the browser, so that no zombie process is left.
        Ok(mut browser) => drop(std::thread::spawn(move || browser.wait())),
        Err(_) => terminal::remark(format!("no browser could be started; open {address} in one")),
    }
}
