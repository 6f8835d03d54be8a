//! `regard serve` on a port of its own, which ends with the test.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

pub struct Serve {
    process: Child,
    pub address: String,
}

/// The program, which knows nothing of whoever runs the tests. REGARD_PROGRAM names another build of it, to measure that one.
pub fn regard(folder: &Path) -> Command {
    let program = std::env::var("REGARD_PROGRAM").unwrap_or_else(|_| env!("CARGO_BIN_EXE_regard").to_owned());
    let mut command = Command::new(program);
    command.current_dir(folder).env("HF_HOME", folder.join("no-cache")).env_remove("HF_HUB_CACHE");
    command.env_remove("HUGGINGFACE_HUB_CACHE").env("REGARD_THREADS", "2");
    command
}

impl Serve {
    pub fn start(folder: &Path, models: &[&str]) -> Self {
        let mut command = regard(folder);
        // While working on the page: its files from disk, without a build.
        let files = std::env::var("PAGE_FILES").ok().map(|files| ["--web-dir".to_owned(), files]);
        let mut process = command
            .arg("serve")
            .args(models)
            .args(["--port", "0"])
            .args(files.into_iter().flatten())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { process, address: line.trim().to_owned() }
    }

    pub fn stop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        self.stop();
    }
}
