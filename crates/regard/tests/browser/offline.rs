//! The file of its own, with the network off.

use crate::chrome::Chrome;
use crate::made;
use crate::program::regard;
use regard::forward_pass::{ForwardPass, Input};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;

fn view(folder: &Path, arguments: &[&str]) {
    let output = regard(folder).arg("view").args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn open(folder: &Path) -> Chrome {
    let mut chrome = Chrome::start(1200, 900);
    let off = json!({ "offline": true, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1 });
    chrome.call("Network.emulateNetworkConditions", off);
    chrome.open(&format!("file://{}", folder.join("page.html").display()));
    chrome
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn the_file_opens_without_a_network_and_has_the_same_numbers() {
    let folder = TempDir::new().unwrap();
    made::gpt(&folder.path().join("model"));
    view(folder.path(), &["model", "The cat sat </script> on the mat", "-o", "page.html"]);
    let mut chrome = open(folder.path());
    chrome.shown("heads");
    assert_eq!(chrome.value("document.querySelectorAll('.heads [data-head]').length"), 12);
    for name in ["head", "lines", "why", "flow", "next"] {
        chrome.view(name);
        chrome.screenshot(&format!("offline-{name}"));
    }
    assert_eq!(chrome.value("document.querySelector('#generate').disabled"), true);
    chrome.view("head");
    chrome.value("location.hash = '#view=head&layer=1&head=2&query=3&key=1'");
    chrome.until("document.querySelector('#readout')?.textContent.includes('(3) →') && document.querySelector('#at-head')?.textContent === 'head 2'");
    let opened = regard::model::open(folder.path().join("model").to_str().unwrap()).unwrap();
    let input = Input::Text("The cat sat </script> on the mat".to_owned(), String::new());
    let pass = ForwardPass::new(&Arc::new(opened), &input, 100, &AtomicBool::new(false)).unwrap();
    let weight = pass.weights(1).unwrap().block(0, 2, 3..4, 1..2).unwrap().to_vec()[0];
    assert_eq!(chrome.text("#exact").parse::<f32>().unwrap(), weight);
    let asked = chrome
        .value("performance.getEntriesByType('resource').filter(r => !r.name.startsWith('data:')).length");
    assert_eq!(asked, 0, "it asks for nothing");
    chrome.ensure_quiet();
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn a_picture_is_seen_through_its_patches() {
    let folder = TempDir::new().unwrap();
    made::vit(&folder.path().join("model"));
    // A PNG to read: one of the program's own, of another model.
    made::gpt(&folder.path().join("gpt"));
    view(folder.path(), &["gpt", "The cat sat", "--layer", "0", "--head", "1", "-o", "picture.png"]);
    view(
        folder.path(),
        &["model", "--image", "picture.png", "--layer", "1", "--head", "0", "-o", "page.html"],
    );
    let mut chrome = open(folder.path());
    chrome.shown("head");
    chrome.until("document.querySelector('.picture canvas')");
    assert_eq!(chrome.value("[document.querySelector('.picture canvas').width, document.querySelector('.picture canvas').height]"), json!([6, 4]));
    // Another patch is chosen: what lies over the picture is its own.
    let seen = "document.querySelector('.picture canvas').toDataURL()";
    let before = chrome.value(seen);
    assert_eq!(chrome.text("#patch-heading"), "What the class token attends to");
    chrome.click(".picture canvas");
    chrome.until("document.querySelector('#patch-heading').textContent.startsWith('What the patch in row')");
    chrome.until(&format!("{seen} !== {before}"));
    let chosen = chrome.text("#patch-heading");
    chrome.press("ArrowLeft");
    chrome.until(&format!("document.querySelector('#patch-heading').textContent !== {chosen:?}"));
    chrome.screenshot("patches");
    chrome.view("classes");
    chrome.ensure_quiet();
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn one_head_of_a_long_text_fits_in_a_file() {
    let folder = TempDir::new().unwrap();
    made::long(&folder.path().join("model"));
    let words = "the cat sat on the mat by the dog ".repeat(455);
    let words = words.trim();
    view(folder.path(), &["model", words, "--layer", "1", "--head", "2", "-o", "page.html"]);
    let mut chrome = open(folder.path());
    chrome.shown("head");
    let opened = regard::model::open(folder.path().join("model").to_str().unwrap()).unwrap();
    let input = Input::Text(words.to_owned(), String::new());
    let pass = ForwardPass::new(&Arc::new(opened), &input, 5000, &AtomicBool::new(false)).unwrap();
    assert_eq!(pass.source().len(), 4095);
    chrome.value("location.hash = '#view=head&layer=1&head=2&query=4001&key=17'");
    chrome.until("document.querySelector('#readout')?.textContent.includes('(4001) →')");
    let weight = pass.weights(1).unwrap().block(0, 2, 4001..4002, 17..18).unwrap().to_vec()[0];
    assert_eq!(chrome.text("#exact").parse::<f32>().unwrap(), weight);
    // Scores are not held, but computed again.
    chrome.view("why");
    assert!(chrome.text("#formula").contains("softmax"));
    chrome.ensure_quiet();
}

/// In a frame without origin: tells the page around it what is seen and what went wrong, and clicks what that asks for.
const TELLS: &str = "<script>
const tell = (what) => parent.postMessage({ ...what, name: window.name }, '*');
addEventListener('error', (event) => tell({ error: event.message }));
addEventListener('unhandledrejection', (event) => tell({ error: String(event.reason) }));
addEventListener('message', ({ data }) => document.querySelector(data).click());
setInterval(() => tell({
  view: document.querySelector('[role=tab][aria-selected=true]')?.dataset.view ?? '',
  heads: document.querySelectorAll('.heads [data-head]').length,
  tokens: document.body.textContent.includes('dog') ? 'dog' : 'cat',
}), 100);
</script>";

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn pages_in_the_frames_of_a_notebook_do_not_disturb_each_other() {
    let folder = TempDir::new().unwrap();
    made::gpt(&folder.path().join("model"));
    let frame = |name: &str, text: &str| {
        view(folder.path(), &["model", text, "-o", "frame.html"]);
        let page = std::fs::read_to_string(folder.path().join("frame.html")).unwrap();
        let page = page
            .replacen("</title>", &format!("</title>{TELLS}"), 1)
            .replace('&', "&amp;")
            .replace('"', "&quot;");
        format!(r#"<iframe name="{name}" sandbox="allow-scripts allow-downloads" srcdoc="{page}"></iframe>"#)
    };
    let frames = frame("first", "The cat sat") + &frame("second", "The dog sat on");
    let listens = "<script>var seen = {}, errors = [];
        addEventListener('message', ({ data }) => data.error ? errors.push(data.error) : (seen[data.name] = data));</script>";
    let page = format!("<!doctype html><meta charset=\"utf-8\">{listens}{frames}");
    std::fs::write(folder.path().join("page.html"), page).unwrap();
    let mut chrome = open(folder.path());
    chrome.until("seen.first?.heads === 12 && seen.second?.heads === 12");
    assert_eq!(chrome.value("seen.first.tokens + ' ' + seen.second.tokens"), "cat dog");
    chrome.value("frames[0].postMessage('[data-view=lines]', '*')");
    chrome.until("seen.first.view === 'lines'");
    chrome.value("frames[1].postMessage('[data-view=flow]', '*')");
    chrome.until("seen.second.view === 'flow'");
    assert_eq!(chrome.value("seen.first.view"), "lines");
    assert_eq!(chrome.value("errors.join()"), "");
    chrome.ensure_quiet();
}
