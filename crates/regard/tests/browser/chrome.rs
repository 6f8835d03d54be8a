//! A browser without a window, driven over the DevTools protocol: commands and answers are JSON over a WebSocket.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tungstenite::stream::MaybeTlsStream;
use tungstenite::{Message, WebSocket};

/// How long anything in the page may take; the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page, which ends with it.
pub struct Chrome {
    process: Child,
    socket: WebSocket<MaybeTlsStream<TcpStream>>,
    session: String,
    next: u64,
    /// What the page complained of.
    pub complaints: Vec<String>,
    pub downloads: TempDir,
    _profile: TempDir,
}

fn program() -> String {
    if let Ok(path) = std::env::var("CHROMIUM") {
        return path;
    }
    let known = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    let works = |name: &&str| {
        Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    };
    known.into_iter().find(works).expect("Chromium is needed: apt-get install chromium").to_owned()
}

impl Chrome {
    /// Starts a browser with a page of some size.
    pub fn start(width: u32, height: u32) -> Self {
        let (profile, downloads) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let mut process = Command::new(program())
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            .args(["--disable-background-networking", "--disable-extensions", "--remote-debugging-port=0"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(format!("--window-size={width},{height}"))
            .arg("about:blank")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let address = lines
            .find_map(|line| line.unwrap().strip_prefix("DevTools listening on ").map(str::to_owned))
            .expect("the browser says where it listens");
        // Its later remarks are of no interest, but someone has to take them.
        std::thread::spawn(move || lines.for_each(drop));
        let (socket, _) = tungstenite::connect(address).unwrap();
        let complaints = Vec::new();
        let mut chrome = Self {
            process,
            socket,
            session: String::new(),
            next: 0,
            complaints,
            downloads,
            _profile: profile,
        };
        let target = chrome.call("Target.createTarget", json!({ "url": "about:blank" }));
        let id = target["targetId"].as_str().unwrap().to_owned();
        let attached = chrome.call("Target.attachToTarget", json!({ "targetId": id, "flatten": true }));
        attached["sessionId"].as_str().unwrap().clone_into(&mut chrome.session);
        for domain in ["Page", "Runtime", "Network", "Log"] {
            chrome.call(&format!("{domain}.enable"), json!({}));
        }
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        chrome.call("Emulation.setDeviceMetricsOverride", size);
        let folder = chrome.downloads.path().display().to_string();
        chrome.call("Page.setDownloadBehavior", json!({ "behavior": "allow", "downloadPath": folder }));
        chrome
    }

    /// Sends a command and waits for its answer.
    #[allow(clippy::needless_pass_by_value)] // it reads better where it is called
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.next += 1;
        let mut command = json!({ "id": self.next, "method": method, "params": parameters });
        if !self.session.is_empty() {
            command["sessionId"] = json!(self.session);
        }
        self.socket.send(Message::text(command.to_string())).unwrap();
        loop {
            let Message::Text(text) = self.socket.read().unwrap() else { continue };
            let answer: Value = serde_json::from_str(&text).unwrap();
            self.note(&answer);
            if answer["id"] == self.next {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
        }
    }

    /// Keeps what the page throws.
    fn note(&mut self, event: &Value) {
        if event["method"] == "Runtime.exceptionThrown" {
            self.complaints.push(event["params"]["exceptionDetails"].to_string());
        }
    }

    /// Opens an address and waits until it is there.
    pub fn open(&mut self, address: &str) {
        self.call("Page.navigate", json!({ "url": address }));
        self.until("document.readyState === 'complete'");
    }

    /// The value of an expression.
    pub fn value(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", asked);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// The text of the first element that a selector finds.
    pub fn text(&mut self, selector: &str) -> String {
        self.value(&format!("document.querySelector({selector:?})?.textContent ?? ''"))
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Waits until an expression is true.
    pub fn until(&mut self, expression: &str) {
        let began = Instant::now();
        while self.value(&format!("Boolean({expression})")) != true {
            if began.elapsed() > PATIENCE {
                let problem = self.text("#problem");
                panic!(
                    "{expression} did not come true; the page says {problem:?}; it threw {:?}",
                    self.complaints
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Clicks the first element that a selector finds, with the mouse.
    pub fn click(&mut self, selector: &str) {
        self.until(&format!("document.querySelector({selector:?})"));
        let place = self.value(&format!(
            "(() => {{ const e = document.querySelector({selector:?}); e.scrollIntoView({{ block: 'center' }}); \
             const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; }})()"
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let event =
                json!({ "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// Puts a text in a field and types the last key.
    pub fn fill(&mut self, selector: &str, text: &str) {
        self.value(&format!(
            "(() => {{ const e = document.querySelector({selector:?}); e.focus(); e.select?.(); }})()"
        ));
        self.call("Input.insertText", json!({ "text": text }));
        if text.is_empty() {
            self.value(&format!("document.querySelector({selector:?}).value = ''"));
        }
    }

    /// Presses a key.
    pub fn press(&mut self, key: &str) {
        let text = if key == "Enter" {
            "\r"
        } else if key.len() == 1 {
            key
        } else {
            ""
        };
        for kind in ["keyDown", "keyUp"] {
            let code = match key {
                "Enter" => 13,
                "ArrowLeft" => 37,
                "ArrowRight" => 39,
                "ArrowDown" => 40,
                "Home" => 36,
                _ => 0,
            };
            let event = json!({ "type": kind, "key": key, "text": text, "windowsVirtualKeyCode": code });
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Opens a view by its tab and waits until it is drawn.
    pub fn view(&mut self, name: &str) {
        self.click(&format!("#tab-{name}"));
        self.shown(name);
    }

    /// Waits until a view is drawn.
    pub fn shown(&mut self, name: &str) {
        self.until(&format!("document.querySelector('#view').dataset.shown === {name:?}"));
    }

    /// Waits for a download whose name ends so, and reads it.
    pub fn downloaded(&mut self, suffix: &str) -> Vec<u8> {
        let began = Instant::now();
        loop {
            let files = std::fs::read_dir(self.downloads.path()).unwrap().flatten();
            // The name is taken by an empty file first, which the whole one replaces.
            let whole = |path: &std::path::PathBuf| path.metadata().is_ok_and(|about| about.len() > 0);
            let mut found = files.map(|file| file.path()).filter(whole);
            let found = found.find(|path| path.to_string_lossy().ends_with(suffix));
            if let Some(path) = found {
                let bytes = std::fs::read(&path).unwrap();
                std::fs::remove_file(path).unwrap();
                return bytes;
            }
            assert!(
                began.elapsed() < PATIENCE,
                "nothing that ends in {suffix} was saved: {}",
                self.text("#problem")
            );
            std::thread::sleep(Duration::from_millis(50));
            // Events only arrive while someone listens.
            self.value("0");
        }
    }

    /// A picture of the page; where REGARD_SCREENSHOTS names a folder it is kept there.
    pub fn screenshot(&mut self, name: &str) {
        let Ok(folder) = std::env::var("REGARD_SCREENSHOTS") else { return };
        let shot =
            self.call("Page.captureScreenshot", json!({ "format": "png", "captureBeyondViewport": true }));
        let bytes = base64_decode(shot["data"].as_str().unwrap());
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(std::path::Path::new(&folder).join(format!("{name}.png")), bytes).unwrap();
    }

    /// Fails if the page has thrown anything.
    pub fn ensure_quiet(&mut self) {
        self.value("0");
        assert!(self.complaints.is_empty(), "{:?}", self.complaints);
    }
}

fn base64_decode(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let text: Vec<u8> = text.bytes().filter(|&byte| byte != b'=').collect();
    let mut bytes = Vec::with_capacity(text.len());
    for four in text.chunks(4) {
        let bits = four.iter().fold(0_u32, |bits, &byte| (bits << 6) | u32::from(value(byte)))
            << (6 * (4 - four.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..four.len()]);
    }
    bytes
}

impl Drop for Chrome {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
