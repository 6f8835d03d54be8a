//! What goes wrong is said in the page, and the next try works.

use crate::chrome::Chrome;
use crate::made;
use crate::program::Serve;
use serde_json::json;
use tempfile::TempDir;

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn errors_are_shown_and_the_next_try_works() {
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
    // Nothing of the model before stands under this one's name; Back leads there.
    assert_eq!(chrome.text("#view"), "");
    chrome.value("history.back()");
    chrome.shown("heads");
    assert_eq!(chrome.value("document.querySelector('#model').value"), "model");
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

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn links_are_followed_as_far_as_they_make_sense() {
    let folder = TempDir::new().unwrap();
    made::gpt(&folder.path().join("model"));
    made::vit(&folder.path().join("vit"));
    let server = Serve::start(folder.path(), &["model", "vit"]);
    let mut chrome = Chrome::start(900, 800);
    chrome.open(&format!("{}/#model=other&view=head&layer=1.5&scale=bogus&head=99&query=-7", server.address));
    chrome.shown("head");
    chrome.until(
        "document.querySelector('#problem').textContent.includes('“other”, which is not offered here')",
    );
    assert_eq!(chrome.text("#at-layer"), "layer 0");
    // What was said about one view is gone in the next.
    chrome.view("why");
    assert_eq!(chrome.value("document.querySelector('#problem').hidden"), true);
    assert_eq!(chrome.value("document.title"), "Why · model · Regard");
    // Back leads through the views.
    chrome.value("history.back()");
    chrome.shown("head");
    // A model that reads pictures has one to begin with, and a view that it lacks gives way to one that it has.
    chrome.view("next");
    chrome.value("(() => { const m = document.querySelector('#model'); m.value = 'vit'; m.dispatchEvent(new Event('change')); })()");
    chrome.shown("heads");
    let link = chrome.value("location.href").as_str().unwrap().to_owned();
    chrome.open("about:blank");
    chrome.open(&link);
    chrome.shown("heads");
    // The theme is kept.
    chrome.value("document.querySelector('#theme').click()");
    let theme = chrome.value("document.documentElement.dataset.theme");
    chrome.open("about:blank");
    chrome.open(&link);
    assert_eq!(chrome.value("document.documentElement.dataset.theme"), theme);
    chrome.shown("heads");
    chrome.ensure_quiet();
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn the_focus_stays_where_it_is() {
    let folder = TempDir::new().unwrap();
    made::gpt(&folder.path().join("model"));
    let server = Serve::start(folder.path(), &["model"]);
    let mut chrome = Chrome::start(900, 800);
    chrome.open(&format!("{}/#view=lines", server.address));
    chrome.shown("lines");
    let on = |chrome: &mut Chrome, id: &str| chrome.until(&format!("document.activeElement.id === {id:?}"));
    for (id, done) in [
        ("next-head", "document.querySelector('#at-head').textContent === 'head 1'"),
        ("chip-2", "document.querySelector('#chip-2').ariaPressed === 'true'"),
    ] {
        chrome.value(&format!("document.getElementById({id:?}).focus()"));
        chrome.press("Enter");
        chrome.until(done);
        chrome.shown("lines");
        on(&mut chrome, id);
    }
    // One stop for all tokens, one for each side of the lines; arrows do the rest.
    let stops =
        "[...document.querySelectorAll('#tokens [tabindex=\"0\"], #view svg [tabindex=\"0\"]')].length";
    assert_eq!(chrome.value(stops), 3);
    chrome.value("document.querySelector('#token-2').click()");
    chrome.value("document.querySelector('#token-2').focus()");
    chrome.press("ArrowRight");
    on(&mut chrome, "token-3");
    chrome.until("location.hash.includes('query=3')");
    chrome.view("why");
    chrome.value("document.querySelector('#view svg [tabindex=\"0\"]').focus()");
    chrome.press("Home");
    chrome.press("ArrowDown");
    let key = chrome.value("document.activeElement.id").as_str().unwrap().to_owned();
    chrome.press("Enter");
    chrome.until(&format!("location.hash.includes({:?})", key.replace("key-", "key=")));
    chrome.shown("why");
    on(&mut chrome, &key);
    // The way past the head of the page leaves the selection as it is.
    let hash = chrome.value("location.hash");
    chrome.value("document.querySelector('#skip').click()");
    on(&mut chrome, "view");
    assert_eq!(chrome.value("location.hash"), hash);
    chrome.ensure_quiet();
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn nothing_is_wider_than_a_phone_and_a_finger_scrolls() {
    let folder = TempDir::new().unwrap();
    made::llama(&folder.path().join("model"));
    let server = Serve::start(folder.path(), &["model"]);
    let mut chrome = Chrome::start(360, 740);
    chrome.open(&server.address);
    chrome.shown("heads");
    for view in ["heads", "head", "lines", "why", "flow", "next"] {
        chrome.view(view);
        assert_eq!(chrome.value("document.documentElement.scrollWidth <= 360"), true, "{view}");
        let tab = "document.querySelector('#tabs [aria-selected=true]').getBoundingClientRect()";
        assert_eq!(chrome.value(&format!("{tab}.left >= 0 && {tab}.right <= 360")), true, "{view}");
        chrome.screenshot(&format!("narrow-{view}"));
    }
    // Pictures scroll; they are not made smaller than can be read.
    chrome.view("why");
    assert_eq!(chrome.value("document.querySelector('#view svg').getBoundingClientRect().width > 700"), true);
    chrome.view("head");
    assert_eq!(chrome.value("getComputedStyle(document.querySelector('.map')).touchAction"), "pan-y");
    let wheel = |keys: &str| {
        format!(
            "!document.querySelector('.map canvas').dispatchEvent(new WheelEvent('wheel', {{ deltaY: 5, cancelable: true, {keys} }}))"
        )
    };
    assert_eq!(chrome.value(&wheel("ctrlKey: false")), false, "the wheel is the page's");
    assert_eq!(chrome.value(&wheel("ctrlKey: true")), true);
    chrome.ensure_quiet();
}
