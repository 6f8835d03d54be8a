//! Every view opens, and a head can be switched off, in a large model at 16 and at 512 tokens. Times are not checked; they are
//! written to the file that REGARD_RECORD names.

use crate::chrome::Chrome;
use crate::made;
use crate::program::Serve;
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
        // The changed prediction comes before the maps.
        let outcome = "document.querySelector('#outcome tbody tr')";
        let answer = timed(&mut chrome, "document.querySelector('#switch-0-2').click()", outcome);
        chrome.until(&changed(1));
        timed(&mut chrome, "document.querySelector('#undo').click()", &changed(0));
        let _ = writeln!(record, "| {tokens} | a head switched off: the prediction | {answer:.0} | |");
        let off = timed(&mut chrome, "document.querySelector('#switch-0-1').click()", &changed(1));
        let undo = timed(&mut chrome, "document.querySelector('#undo').click()", &changed(0));
        let _ =
            writeln!(record, "| {tokens} | a head switched off: all maps; undone | {off:.0} | {undo:.0} |");
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
