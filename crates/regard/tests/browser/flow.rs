//! Ribbons, the line that explains, the picture of the whole model, search over a corpus, comparison in the file of its own.

use crate::chrome::Chrome;
use crate::made;
use crate::program::{Serve, regard};
use regard::forward_pass::ribbons::{FlowMethod, ribbons};
use regard::forward_pass::search::{Search, search};
use regard::forward_pass::{ForwardPass, Group, Input};
use regard::model::Opened;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;

const TEXT: &str = "The cat sat on the mat because it was tired";

fn served(make: fn(&Path), width: u32, hash: &str) -> (TempDir, Serve, Chrome) {
    let folder = TempDir::new().unwrap();
    make(&folder.path().join("model"));
    let server = Serve::start(folder.path(), &["model"]);
    let mut chrome = Chrome::start(width, 1000);
    chrome.open(&format!("{}/#{hash}", server.address));
    (folder, server, chrome)
}

fn opened(folder: &Path) -> Arc<Opened> {
    Arc::new(regard::model::open(folder.join("model").to_str().unwrap()).unwrap())
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn ribbons_are_those_of_the_library() {
    let hash = format!("text={}&view=flow", TEXT.replace(' ', "+"));
    let (folder, _server, mut chrome) = served(made::gpt, 1300, &hash);
    chrome.shown("flow");
    let input = Input::Text(TEXT.to_owned(), String::new());
    let going = AtomicBool::new(false);
    let pass = ForwardPass::new(&opened(folder.path()), &input, 200, &going).unwrap();
    let position = pass.source().len() - 1;
    for (name, method) in
        [("rollout", FlowMethod::Rollout), ("flow", FlowMethod::Flow), ("gradient", FlowMethod::Gradient)]
    {
        chrome.click(&format!("#flow-{name}"));
        chrome.until(&format!("document.querySelector('#flow-{name}').getAttribute('aria-pressed') === 'true' && document.querySelector('#view').dataset.shown === 'flow'"));
        let found = ribbons(&pass, Group::Itself, position, method, &going).unwrap();
        for (layer, left_out) in found.left_out.iter().enumerate() {
            assert!(*left_out < 0.2, "layer {layer} of {name} leaves out {left_out}");
        }
        // The first token is apart: it is often a sink.
        let shown = chrome.value("[...document.querySelectorAll('#river [data-level=\"0\"]')].map(b => [Number(b.dataset.place), Number(b.dataset.share)])");
        let shown = shown.as_array().unwrap();
        assert!(shown.len() > 3);
        for one in shown {
            let (place, share) = (one[0].as_u64().unwrap() as usize, one[1].as_f64().unwrap());
            let expected =
                if place == pass.source().len() { found.shares[0][0] } else { found.shares[0][place] };
            assert!((share - expected).abs() < 1e-6, "{name} at {place}: {share}, not {expected}");
        }
        let bands = chrome.value("document.querySelectorAll('#river path').length");
        assert!(bands.as_u64().unwrap() > 10);
        assert!(chrome.text("#explain").contains("shown apart"));
        chrome.screenshot(&format!("flow-{name}"));
    }
    chrome.ensure_quiet();
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn a_pictures_flow_is_drawn_over_the_picture() {
    let (_folder, _server, mut chrome) = served(made::vit, 1300, "view=flow");
    chrome.shown("flow");
    assert_eq!(chrome.value("document.querySelectorAll('#flow-levels figure').length"), 2);
    assert!(chrome.text("#flow-levels").contains("other tokens"));
    // Saved, each level has the picture and its shares.
    chrome.click("#save-svg");
    let svg = String::from_utf8(chrome.downloaded(".svg")).unwrap();
    assert_eq!(svg.matches("<image").count(), 4);
    assert!(svg.contains("after layer 0") && svg.contains("largest patch"));
    chrome.screenshot("flow-picture");
    chrome.click("#flow-gradient");
    chrome.until("document.querySelector('#view').dataset.shown === 'flow' && document.querySelectorAll('#flow-levels canvas').length === 2");
    chrome.ensure_quiet();
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn every_view_explains_its_numbers_and_the_model_leads_to_it() {
    let hash = format!("text={}", TEXT.replace(' ', "+"));
    let (_folder, _server, mut chrome) = served(made::gpt, 1300, &hash);
    for name in ["heads", "head", "lines", "why", "flow", "lens", "next", "without", "compare", "search"] {
        chrome.view(name);
        assert!(chrome.text("#explain").chars().any(char::is_alphabetic), "{name}");
        chrome.screenshot(&format!("explained-{name}"));
    }
    chrome.view("why");
    assert!(chrome.text("#explain").contains("imension"));
    // A head of the picture of the model opens that head, and is marked.
    chrome.view("heads");
    chrome.click("[id='model-layers.1.self-2']");
    chrome.shown("head");
    assert!(chrome.text("#at-layer").contains('1') && chrome.text("#at-head").contains('2'));
    assert_eq!(chrome.value("document.querySelector('.dot[aria-current]').id"), "model-layers.1.self-2");
    chrome.click("#model-output");
    chrome.shown("next");
    assert_eq!(chrome.value("document.querySelector('.stage[aria-current]').id"), "model-output");
    // One stop for Tab.
    assert_eq!(chrome.value("[...document.querySelectorAll('#overview .model-row button')].filter(b => b.tabIndex === 0).length"), 1);
    chrome.press("x");
    chrome.until("document.querySelector('.dot.off')");
    chrome.ensure_quiet();
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn search_finds_the_texts_that_the_library_finds() {
    let hash = format!("text={}&view=search&layer=1&head=2", TEXT.replace(' ', "+"));
    let (folder, _server, mut chrome) = served(made::gpt, 1300, &hash);
    chrome.shown("search");
    let wanted = Search {
        site: "layers.1.self".to_owned(),
        head: 2,
        measure: "confidence".to_owned(),
        texts: Vec::new(),
        least: false,
    };
    let found = search(&opened(folder.path()), &wanted, &AtomicBool::new(false)).unwrap();
    assert!(found.read > 5 && found.texts.windows(2).all(|pair| pair[0].value >= pair[1].value));
    let shown = chrome
        .value("[...document.querySelectorAll('#search-found tbody tr')].map(r => Number(r.dataset.value))");
    let shown = shown.as_array().unwrap();
    assert_eq!(shown.len(), found.texts.len());
    for (shown, found) in shown.iter().zip(&found.texts) {
        assert!((shown.as_f64().unwrap() - found.value).abs() < 1e-6);
    }
    chrome.screenshot("search");
    // Texts stand as they were written, with both tokens of the strongest pair marked.
    for (i, found) in found.texts.iter().enumerate() {
        assert_eq!(chrome.text(&format!("#found-{i}")), found.text);
        let marks = chrome.value(&format!("document.querySelectorAll('#found-{i} mark').length"));
        assert_eq!(marks, 2, "{found:?}");
    }
    // A text that was found is read.
    let best = found.texts[0].text.clone();
    chrome.click("#found-0");
    chrome.shown("head");
    chrome.until(&format!("document.querySelector('#text').value === {best:?}"));
    chrome.ensure_quiet();
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn the_file_compares_with_and_without_changes() {
    let folder = TempDir::new().unwrap();
    made::gpt(&folder.path().join("model"));
    let arguments = ["view", "model", TEXT, "--change", "zero:layers.0.self:1", "-o", "page.html"];
    let output = regard(folder.path()).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut chrome = Chrome::start(1300, 1000);
    chrome.open(&format!("file://{}#view=compare&layer=1&head=2", folder.path().join("page.html").display()));
    chrome.shown("compare");
    let opened = opened(folder.path());
    let input = Input::Text(TEXT.to_owned(), String::new());
    let going = AtomicBool::new(false);
    let change = "zero:layers.0.self:1".parse().unwrap();
    let base = ForwardPass::new(&opened, &input, 200, &going).unwrap();
    let changed = ForwardPass::changed(&opened, &input, &[], vec![change], 200, &going).unwrap();
    let weights = |pass: &ForwardPass| pass.weights(1).unwrap().head(0, 2).unwrap().to_vec();
    let (before, after) = (weights(&base), weights(&changed));
    let shown = chrome.value("[...document.querySelectorAll('#difference [data-difference]')].map(b => Number(b.dataset.difference))");
    let shown = shown.as_array().unwrap();
    assert_eq!(shown.len(), before.len());
    for ((shown, before), after) in shown.iter().zip(&before).zip(&after) {
        assert!((shown.as_f64().unwrap() - f64::from(after - before)).abs() < 1e-6);
    }
    chrome.screenshot("offline-compare");
    chrome.view("flow");
    assert!(chrome.value("document.querySelectorAll('#river path').length").as_u64().unwrap() > 10);
    chrome.ensure_quiet();
}
