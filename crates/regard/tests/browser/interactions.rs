//! Every view opens, and a head can be switched off, in a large model at 16 and at 512 tokens. Times are not checked; they are
//! written to the file that REGARD_RECORD names.

use crate::chrome::Chrome;
use crate::made;
use crate::program::Serve;
use serde_json::json;
use std::fmt::Write as _;
use tempfile::TempDir;

/// The milliseconds from an action to the frame in which something is true.
fn timed(chrome: &mut Chrome, act: &str, done: &str) -> f64 {
    let script = format!(
        "(async () => {{ const begin = performance.now(); {act}; \
         do await new Promise(requestAnimationFrame); while (!({done}) && performance.now() - begin < 60000); \
         return {done} ? performance.now() - begin : null; }})()"
    );
    let taken = chrome.value(&script).as_f64();
    taken.unwrap_or_else(|| {
        panic!("{done} did not come true after {act}; it says {:?}", chrome.text("#problem"))
    })
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn every_view_opens_at_16_and_at_512_tokens() {
    let folder = TempDir::new().unwrap();
    made::large(&folder.path().join("large"));
    let server = Serve::start(folder.path(), &["large"]);
    let mut chrome = Chrome::start(1400, 1000);
    let mut record = String::from("| tokens | what | first ms | again ms |\n|---|---|---:|---:|\n");
    for tokens in [16, 512] {
        let mut words = "the cat sat on the mat by the dog ".repeat(57);
        words.truncate(words.match_indices(' ').nth(tokens - 1).map_or(words.len(), |(end, _)| end));
        chrome.open("about:blank");
        chrome.open(&format!("{}/#model=large&text={}", server.address, words.replace(' ', "+")));
        chrome.shown("heads");
        let chips = chrome.value("document.querySelectorAll('#tokens [data-token]').length");
        assert!(chips.as_u64().unwrap() >= tokens.min(400) as u64, "{chips} tokens");
        // What the others are compared with: a text that the server has not read yet.
        let mut passes = ["bird", "fish", "tree"].map(|first| {
            let read = json!({ "model": "large", "text": words.replacen("the", first, 1), "changes": [] });
            let headers = json!({ "content-type": "application/json" });
            let request = json!({ "method": "POST", "headers": headers, "body": read.to_string() });
            timed(&mut chrome, &format!("await (await fetch('api/read', {request})).json()"), "true")
        });
        passes.sort_by(f64::total_cmp);
        let _ = writeln!(record, "| {tokens} | a forward pass | {:.0} | |", passes[1]);
        let shown = |name: &str| format!("document.querySelector('#view').dataset.shown === '{name}'");
        let open = |name: &str| format!("document.querySelector('#tab-{name}').click()");
        for view in ["head", "lines", "why", "flow", "lens", "next"] {
            let mut times: [f64; 4] = std::array::from_fn(|_| {
                let time = timed(&mut chrome, &open(view), &shown(view));
                timed(&mut chrome, &open("heads"), &shown("heads"));
                time
            });
            let [first, again @ ..] = &mut times;
            again.sort_by(f64::total_cmp);
            let _ = writeln!(record, "| {tokens} | {view} | {first:.0} | {:.0} |", again[1]);
        }
        // Another head of the same view, and back.
        let head =
            |number: usize| format!("document.querySelector('#at-head').textContent === 'head {number}'");
        for view in ["head", "lines", "why"] {
            timed(&mut chrome, &open(view), &shown(view));
            let at = |number: usize| format!("{} && {}", head(number), shown(view));
            let next = timed(&mut chrome, "document.querySelector('#next-head').click()", &at(1));
            let back = timed(&mut chrome, "document.querySelector('#previous-head').click()", &at(0));
            let _ = writeln!(record, "| {tokens} | {view}: another head; back | {next:.0} | {back:.0} |");
        }
        timed(&mut chrome, &open("heads"), &shown("heads"));
        // However many words there are, flow draws some of them, and no share is lost.
        timed(&mut chrome, &open("flow"), &shown("flow"));
        let shares = "[...document.querySelectorAll('#river [data-level=\"0\"]')].map(bar => Number(bar.dataset.share))";
        let drawn = chrome.value(&format!("{shares}.length")).as_u64().unwrap();
        let sum = chrome.value(&format!("{shares}.reduce((sum, share) => sum + share, 0)")).as_f64().unwrap();
        assert!(drawn <= 98 && (sum - 1.0).abs() < 0.02, "{drawn} words of {tokens} have {sum}");
        timed(&mut chrome, &open("heads"), &shown("heads"));
        let changed = |count: usize| {
            format!(
                "document.querySelectorAll('.change').length === {count} && document.querySelector('#view').dataset.shown === 'heads'"
            )
        };
        // The changed prediction comes before the maps. Each head is switched off for the first time.
        let outcome = "document.querySelector('#outcome tbody tr')";
        for layer in [0, 6, 11] {
            let mut times = [1, 2, 3].map(|head| {
                let switch =
                    |head: usize| format!("document.querySelector('#switch-{layer}-{head}').click()");
                let answer = timed(&mut chrome, &switch(head), outcome);
                chrome.until(&changed(1));
                timed(&mut chrome, "document.querySelector('#undo').click()", &changed(0));
                let off = timed(&mut chrome, &switch(head + 3), &changed(1));
                [answer, off, timed(&mut chrome, "document.querySelector('#undo').click()", &changed(0))]
            });
            let [answer, off, undo] = [0, 1, 2].map(|what| {
                times.sort_by(|a, b| a[what].total_cmp(&b[what]));
                times[1][what]
            });
            let what = format!("| {tokens} | a head of layer {layer} switched off");
            let _ = writeln!(record, "{what}: the prediction | {answer:.0} | |");
            let _ = writeln!(record, "{what}: all maps; undone | {off:.0} | {undo:.0} |");
        }
    }
    chrome.ensure_quiet();
    if let Ok(path) = std::env::var("REGARD_RECORD") {
        std::fs::write(path, record).unwrap();
    }
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn a_view_that_was_left_is_shown_again_as_it_was_unless_something_changed() {
    let folder = TempDir::new().unwrap();
    made::gpt(&folder.path().join("model"));
    let server = Serve::start(folder.path(), &["model"]);
    let mut chrome = Chrome::start(1400, 1000);
    chrome.open(&format!("{}/#model=model&text=The+cat+sat+on+the+mat", server.address));
    chrome.shown("heads");
    let mark = |chrome: &mut Chrome| {
        chrome.value("document.querySelector('#view > .part').dataset.mark = 'drawn before'");
    };
    let marked = "document.querySelector('#view > .part').dataset.mark === 'drawn before'";
    for view in ["flow", "lines", "why", "lens", "next", "heads"] {
        chrome.view(view);
        mark(&mut chrome);
        chrome.view("head");
        chrome.view(view);
        assert_eq!(chrome.value(marked), true, "{view} is drawn again");
        assert_eq!(chrome.value("document.querySelectorAll('#explain').length"), 1, "{view}");
    }
    // Listeners come back with it: a word is pinned, and Escape releases it.
    chrome.view("lines");
    chrome.click("#asks-2");
    chrome.until("document.querySelector('#view svg g[opacity=\"0.05\"]')");
    chrome.view("head");
    chrome.view("lines");
    chrome.press("Escape");
    chrome.until("!document.querySelector('#view svg g[opacity=\"0.05\"]')");
    // Another token, another head, and colours of another theme are drawn anew.
    chrome.view("flow");
    mark(&mut chrome);
    chrome.view("head");
    chrome.click("#tokens [data-token='2']");
    chrome.view("flow");
    assert_eq!(chrome.value(marked), false, "the query is another one");
    mark(&mut chrome);
    chrome.click("#theme");
    chrome.until(&format!("document.querySelector('#view').dataset.shown === 'flow' && !({marked})"));
    // A change is seen in all heads; undone, they are those from before, with their measures to order by.
    chrome.view("heads");
    mark(&mut chrome);
    let before = chrome.value("document.querySelector('#head-2-1').title");
    chrome.value("document.querySelector('#switch-0-1').click()");
    chrome.until(
        "document.querySelector('.heads .off') && document.querySelector('#view').dataset.shown === 'heads'",
    );
    assert_eq!(chrome.value(marked), false, "a head is switched off");
    assert_ne!(chrome.value("document.querySelector('#head-2-1').title"), before);
    chrome.value("document.querySelector('#undo').click()");
    chrome.until(&format!("!document.querySelector('.heads .off') && {marked}"));
    assert_eq!(chrome.value("document.querySelector('#head-2-1').title"), before);
    let orders = chrome.value("document.querySelectorAll('#choose-order option').length");
    assert!(orders.as_u64().unwrap() > 9, "{orders} orders");
    chrome.ensure_quiet();
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn a_change_in_the_last_layer_fetches_the_maps_of_that_layer_alone() {
    let folder = TempDir::new().unwrap();
    made::gpt(&folder.path().join("model"));
    let server = Serve::start(folder.path(), &["model"]);
    let mut chrome = Chrome::start(1400, 1000);
    chrome.open(&format!("{}/#model=model&text=The+cat+sat+on+the+mat", server.address));
    chrome.shown("heads");
    let fetched = "performance.getEntriesByType('resource').map(entry => new URL(entry.name)) \
                   .filter(url => /^.api.*(thumbnails|measures)$/.test(url.pathname)).map(url => url.searchParams.get('site')).sort()";
    let twice = ["layers.0.self", "layers.1.self", "layers.2.self"].map(|layer| [layer; 2]).concat();
    assert_eq!(chrome.value(fetched), json!(twice));
    let titles = "[...document.querySelectorAll('.heads [data-head]')].map(head => head.title)";
    let plain = chrome.value(titles);
    chrome.value("performance.clearResourceTimings()");
    chrome.value("document.querySelector('#switch-2-1').click()");
    chrome.until(
        "document.querySelector('.heads .off') && document.querySelector('#view').dataset.shown === 'heads'",
    );
    assert_eq!(chrome.value(fetched), json!(["layers.2.self", "layers.2.self"]));
    assert_eq!(chrome.value(titles).as_array().unwrap()[..8], plain.as_array().unwrap()[..8]);
    // In the first layer, what the layers after it read is changed.
    chrome.value("performance.clearResourceTimings()");
    chrome.value("document.querySelector('#switch-0-1').click()");
    chrome.until("document.querySelectorAll('.heads .off').length === 2 && document.querySelector('#view').dataset.shown === 'heads'");
    assert_eq!(chrome.value(fetched), json!(twice));
    chrome.ensure_quiet();
}
