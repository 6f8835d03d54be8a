//! What goes wrong is said in the page, and the next try works.

use crate::chrome::Chrome;
use crate::made;
use crate::program::Serve;
use serde_json::json;
use tempfile::TempDir;

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn errors_are_said_and_the_next_try_works() {
    let folder = TempDir::new().unwrap();
    made::gpt(&folder.path().join("model"));
    // A model that cannot be opened: its weights are cut off.
    made::gpt(&folder.path().join("broken"));
    let weights = folder.path().join("broken/model.safetensors");
    let bytes = std::fs::read(&weights).unwrap();
    std::fs::write(&weights, &bytes[..bytes.len() / 2]).unwrap();
    let mut server = Serve::start(folder.path(), &["model", "broken"]);
    let mut chrome = Chrome::start(900, 800);
    chrome.open(&server.address);
    chrome.shown("heads");
    let said = |chrome: &mut Chrome, what: &str| {
        chrome.until(&format!("!document.querySelector('#problem').hidden && document.querySelector('#problem').textContent.includes({what:?})"));
    };
    let works = |chrome: &mut Chrome| {
        chrome.fill("#text", "The cat sat");
        chrome.press("Enter");
        chrome.until("document.querySelector('#problem').hidden");
        chrome.shown("heads");
    };
    chrome.fill("#text", "");
    chrome.press("Enter");
    said(&mut chrome, "nothing to read");
    works(&mut chrome);
    chrome.fill("#text", &"the cat sat ".repeat(40));
    chrome.press("Enter");
    said(&mut chrome, "too long");
    chrome.screenshot("too-long");
    works(&mut chrome);
    chrome.value("(() => { const m = document.querySelector('#model'); m.value = 'broken'; m.dispatchEvent(new Event('change')); })()");
    said(&mut chrome, "cannot open the model");
    chrome.value("document.querySelector('#model').value = 'model'");
    works(&mut chrome);
    // Without a connection, and with it again.
    let offline =
        |off: bool| json!({ "offline": off, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1 });
    chrome.call("Network.emulateNetworkConditions", offline(true));
    chrome.fill("#text", "The dog sat");
    chrome.press("Enter");
    said(&mut chrome, "does not answer");
    chrome.call("Network.emulateNetworkConditions", offline(false));
    works(&mut chrome);
    server.stop();
    chrome.fill("#text", "The dog sat again");
    chrome.press("Enter");
    said(&mut chrome, "does not answer");
    chrome.ensure_quiet();
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn keys_move_through_views_heads_and_words() {
    let folder = TempDir::new().unwrap();
    made::gpt(&folder.path().join("model"));
    let server = Serve::start(folder.path(), &["model"]);
    let mut chrome = Chrome::start(390, 840);
    chrome.open(&server.address);
    chrome.shown("heads");
    chrome.screenshot("phone");
    // Nothing is wider than a phone.
    assert_eq!(chrome.value("document.documentElement.scrollWidth <= 390"), true);
    chrome.value("document.activeElement.blur()");
    chrome.press("2");
    chrome.shown("head");
    chrome.press("]");
    chrome.until("document.querySelector('#at-layer')?.textContent === 'layer 1'");
    chrome.press(".");
    chrome.until("document.querySelector('#at-head')?.textContent === 'head 1'");
    chrome.press("ArrowLeft");
    chrome.until("location.hash.includes('query=')");
    assert_eq!(chrome.value("document.documentElement.scrollWidth <= 390"), true);
    chrome.screenshot("phone-head");
    // What can be used has a name.
    let nameless = chrome.value(
        "[...document.querySelectorAll('button, select, textarea, canvas, svg[role=img]')].filter(e => e.offsetParent && \
         !(e.textContent.trim() || e.getAttribute('aria-label') || e.closest('label') || e.getAttribute('aria-hidden') || e.closest('.legend'))).length",
    );
    assert_eq!(nameless, 0);
    chrome.ensure_quiet();
}
