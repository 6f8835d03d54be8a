//! Changes inside the model: made with mouse and keys, kept in the link, with the numbers of the library before and after.

use crate::chrome::Chrome;
use crate::made;
use crate::program::{Serve, regard};
use regard::forward_pass::ForwardPass;
use regard::forward_pass::Input;
use regard::forward_pass::lens::{lens, scores_at};
use regard_nn::models::Inputs;
use regard_nn::tensor::Ids;
use regard_nn::{Context, Probe};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;

const TEXT: &str = "The cat sat on the mat because it was tired.";

fn softmax(scores: &[f32]) -> Vec<f64> {
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights: Vec<f64> = scores.iter().map(|score| f64::from(score - most).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / total).collect()
}

fn number(value: &Value) -> f64 {
    value.as_str().map_or_else(|| value.as_f64().unwrap(), |text| text.parse().unwrap())
}

/// The rows of the table of predictions before and after.
fn rows(chrome: &mut Chrome) -> Vec<Value> {
    chrome.until("document.querySelector('#outcome tbody tr')");
    let rows = chrome.value(
        "[...document.querySelectorAll('#outcome tbody tr')].map(r => [Number(r.dataset.token), r.dataset.before, r.dataset.after, r.dataset.difference])",
    );
    rows.as_array().unwrap().clone()
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn heads_are_switched_off_and_the_next_word_changes_as_in_the_library() {
    let folder = TempDir::new().unwrap();
    made::gpt(&folder.path().join("model"));
    let server = Serve::start(folder.path(), &["model"]);
    let mut chrome = Chrome::start(1300, 1000);
    chrome.open(&format!("{}/#text={}", server.address, TEXT.replace(' ', "+")));
    chrome.shown("heads");
    let opened = Arc::new(regard::model::open(folder.path().join("model").to_str().unwrap()).unwrap());
    let input = Input::Text(TEXT.to_owned(), String::new());
    let pass = ForwardPass::new(&opened, &input, 100, &AtomicBool::new(false)).unwrap();
    let ids: Vec<u32> = pass.source().iter().map(|token| token.id).collect();
    let inputs = Inputs::ids(&Ids::new(&ids, [1, ids.len()]).unwrap());
    let library = |probe: &Probe| {
        opened.model.forward_last(&Context::inference().with_probe(probe), &inputs).unwrap().to_vec()
    };
    let before = library(&Probe::new());
    let check = |chrome: &mut Chrome, after: &[f32]| {
        let (p, q) = (softmax(&before), softmax(after));
        let rows = rows(chrome);
        assert!(rows.len() >= 5);
        for row in rows {
            let token = row[0].as_u64().unwrap() as usize;
            assert!((number(&row[1]) - p[token]).abs() < 1e-6, "{row}");
            assert!((number(&row[2]) - q[token]).abs() < 1e-5, "{row} and {}", q[token]);
            let difference = f64::from(after[token] - before[token]);
            assert!((number(&row[3]) - difference).abs() < 1e-4, "{row} and {difference}");
        }
    };
    // With the switch of a map, then with a key on the focused one.
    chrome.value("document.querySelector('#switch-0-1').click()");
    chrome.until("document.querySelectorAll('.change').length === 1 && document.querySelector('#switch-0-1').ariaPressed === 'true'");
    check(&mut chrome, &library(&Probe::new().zero_head("layers.0.self", 1)));
    chrome.shown("heads");
    chrome.value("document.querySelector('[data-head=\"1.2\"]').focus()");
    chrome.press("x");
    chrome.until("document.querySelectorAll('.change').length === 2");
    let both = || Probe::new().zero_head("layers.0.self", 1).zero_head("layers.1.self", 2);
    chrome.shown("heads");
    check(&mut chrome, &library(&both()));
    chrome.screenshot("interventions");
    // The maps downstream are those of the changed pass.
    chrome.value(
        "location.hash = location.hash.replace('view=heads', '') + '&view=head&layer=2&head=1&query=6&key=2'",
    );
    chrome.shown("head");
    chrome.until("document.querySelector('#readout')?.textContent.includes('(6) →')");
    let probe = both().record("layers.2.self.weights");
    library(&probe);
    let weight = probe.weights("layers.2.self").unwrap().block(0, 1, 6..7, 2..3).unwrap().to_vec()[0];
    assert!((number(&json!(chrome.text("#exact"))) - f64::from(weight)).abs() < 1e-6);
    // A pair is blocked: its weight is 0 and the prediction changes once more.
    chrome.value("document.activeElement.blur()");
    chrome.press("b");
    chrome.until("document.querySelectorAll('.change').length === 3");
    chrome.until("document.querySelector('#exact')?.textContent === '0'");
    check(&mut chrome, &library(&both().block("layers.2.self", Some(1), 6, 2)));
    // The link has it all; undo goes back step by step.
    let link = chrome.value("location.href").as_str().unwrap().to_owned();
    assert!(link.contains("changes="), "{link}");
    chrome.open("about:blank");
    chrome.open(&link);
    chrome.shown("head");
    chrome.until("document.querySelectorAll('.change').length === 3");
    check(&mut chrome, &library(&both().block("layers.2.self", Some(1), 6, 2)));
    chrome.press("u");
    chrome.until("document.querySelectorAll('.change').length === 2");
    chrome.shown("head");
    check(&mut chrome, &library(&both()));
    chrome.click("#undo-all");
    chrome.until("document.querySelectorAll('.change').length === 0");
    chrome.until("!location.hash.includes('changes=')");
    chrome.ensure_quiet();
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn layers_are_switched_off_and_streams_scaled_and_steered() {
    let folder = TempDir::new().unwrap();
    made::gpt(&folder.path().join("model"));
    let server = Serve::start(folder.path(), &["model"]);
    let mut chrome = Chrome::start(1300, 1000);
    chrome.open(&format!("{}/#text={}&view=head&layer=2", server.address, TEXT.replace(' ', "+")));
    chrome.shown("head");
    let opened = Arc::new(regard::model::open(folder.path().join("model").to_str().unwrap()).unwrap());
    let scores = |text: &str, changes: &[&str]| {
        let input = Input::Text(text.to_owned(), String::new());
        let changes = changes.iter().map(|change| change.parse().unwrap()).collect();
        let pass = ForwardPass::changed(&opened, &input, &[], changes, 100, &AtomicBool::new(false)).unwrap();
        pass.scores().unwrap().to_vec()
    };
    let check = |chrome: &mut Chrome, after: &[f32]| {
        let q = softmax(after);
        for row in rows(chrome) {
            assert!((number(&row[2]) - q[row[0].as_u64().unwrap() as usize]).abs() < 1e-5, "{row}");
        }
    };
    chrome.click(".tools summary");
    let one = |chrome: &mut Chrome, count: usize| {
        chrome.until(&format!("document.querySelectorAll('.change').length === {count}"));
        chrome.shown("head");
    };
    for (button, change) in [("attention", "off:layers.2.self"), ("ffn", "off:layers.2.ffn")] {
        chrome.click(&format!("#change-off-{button}"));
        one(&mut chrome, 1);
        check(&mut chrome, &scores(TEXT, &[change]));
        chrome.click("#undo");
        one(&mut chrome, 0);
    }
    chrome.fill("#change-factor", "1");
    chrome.fill("#change-text", "The dog: looked; sat");
    chrome.click("#change-steer");
    one(&mut chrome, 1);
    // Steered all the way after the last layer, the text continues as the other does.
    check(&mut chrome, &scores("The dog: looked; sat", &[]));
    chrome.screenshot("steered");
    assert!(chrome.text(".change").contains("The dog: looked; sat"));
    chrome.click("#undo");
    one(&mut chrome, 0);
    chrome.fill("#change-factor", "0.25");
    chrome.click("#change-scale");
    one(&mut chrome, 1);
    check(&mut chrome, &scores(TEXT, &["scale:layers.2.residual.after:*:0.25"]));
    // A link with a change that the model does not have: the text is read without it, and the page says why.
    chrome.open("about:blank");
    chrome.open(&format!("{}/#text=The+cat&changes=zero:layers.9.self:0", server.address));
    chrome.shown("heads");
    chrome.until("document.querySelector('#problem').textContent.includes('no attention layers.9.self')");
    chrome.ensure_quiet();
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn every_layers_answer_is_that_of_the_logit_lens() {
    let folder = TempDir::new().unwrap();
    for (make, answer) in
        [(made::gpt as fn(&std::path::Path), "after"), (made::bert, "at"), (made::t5, "after")]
    {
        let path = folder.path().join(answer).join("model");
        make(&path);
        let server = Serve::start(path.parent().unwrap(), &["model"]);
        let mut chrome = Chrome::start(1600, 1000);
        chrome.open(&format!("{}/#text=The+cat+sat+on+the+mat&second=the+dog&view=lens", server.address));
        chrome.shown("lens");
        let opened = Arc::new(regard::model::open(path.to_str().unwrap()).unwrap());
        let input = Input::Text("The cat sat on the mat".to_owned(), "the dog".to_owned());
        let going = AtomicBool::new(false);
        let pass = ForwardPass::new(&opened, &input, 100, &going).unwrap();
        let count = pass.predicting().len();
        let grid = lens(&pass, 0..count, None, &going).unwrap();
        assert_eq!(chrome.value("document.querySelectorAll('#lens td').length"), grid.cells.len());
        for layer in 0..grid.layers {
            let position = count - 1 - layer % 2;
            let cell = &grid.cells[layer * count + position];
            let selector = format!("#lens-{layer}-{position}");
            let shown = chrome.value(&format!(
                "(e => [Number(e.dataset.id), Number(e.dataset.probability)])(document.querySelector('{selector}'))"
            ));
            assert_eq!(shown[0], cell.id);
            assert_eq!(shown[1].as_f64().unwrap() as f32, cell.probability);
            // A cell's whole distribution, against the library's.
            chrome.click(&selector);
            chrome.until(&format!("document.querySelector('{selector}').ariaPressed === 'true'"));
            let place = format!("({position})");
            chrome
                .until(&format!("document.querySelector('.inspector h2')?.textContent.includes({place:?})"));
            let expected = softmax(&scores_at(&pass, Some(layer), position).unwrap());
            let best = (0..expected.len()).max_by(|&a, &b| expected[a].total_cmp(&expected[b])).unwrap();
            chrome.until(&format!("document.querySelector('#distribution tr')?.dataset.id === '{best}'"));
            let shown = chrome.value("document.querySelector('#distribution tr').dataset.probability");
            assert!((number(&shown) - expected[best]).abs() < 1e-6);
        }
        chrome.screenshot(&format!("lens-{}", opened.model.kind()));
        // A token is followed through the layers.
        chrome.click("#distribution tr:nth-child(2) button");
        chrome.until("location.hash.includes('token=') && document.querySelector('#choose-colour')");
        chrome.shown("lens");
        // The distribution at any position of the next view, too.
        chrome.value(&format!(
            "location.hash = '#view=next&text=The+cat+sat+on+the+mat&second=the+dog&group={}&query=1'",
            if pass.target().is_empty() { "self" } else { "decoder" }
        ));
        chrome.shown("next");
        chrome.until("document.querySelector('#predicted-at')");
        let expected = softmax(&scores_at(&pass, None, 1).unwrap());
        let bars = chrome.value("[...document.querySelectorAll('#view rect[data-token]')].map(r => [Number(r.dataset.token), Number(r.dataset.probability)])");
        for bar in bars.as_array().unwrap() {
            assert!((bar[1].as_f64().unwrap() - expected[bar[0].as_u64().unwrap() as usize]).abs() < 1e-6);
        }
        chrome.screenshot(&format!("anywhere-{}", opened.model.kind()));
        chrome.ensure_quiet();
    }
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn a_file_of_its_own_holds_the_changes_with_their_numbers() {
    let folder = TempDir::new().unwrap();
    made::gpt(&folder.path().join("model"));
    let arguments =
        ["view", "model", TEXT, "--change", "zero:layers.1.self:2", "--change", "off:layers.0.ffn"];
    let output = regard(folder.path()).args(arguments).args(["-o", "page.html"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut chrome = Chrome::start(1200, 900);
    chrome.open(&format!("file://{}", folder.path().join("page.html").display()));
    chrome.shown("heads");
    assert_eq!(chrome.value("document.querySelectorAll('.change').length"), 2);
    let opened = Arc::new(regard::model::open(folder.path().join("model").to_str().unwrap()).unwrap());
    let changes = ["zero:layers.1.self:2", "off:layers.0.ffn"].map(|change| change.parse().unwrap()).to_vec();
    let input = Input::Text(TEXT.to_owned(), String::new());
    let going = AtomicBool::new(false);
    let before = ForwardPass::new(&opened, &input, 100, &going).unwrap().scores().unwrap().to_vec();
    let after = ForwardPass::changed(&opened, &input, &[], changes, 100, &going).unwrap();
    let (p, q) = (softmax(&before), softmax(&after.scores().unwrap().to_vec()));
    for row in rows(&mut chrome) {
        let token = row[0].as_u64().unwrap() as usize;
        assert!((number(&row[1]) - p[token]).abs() < 1e-6 && (number(&row[2]) - q[token]).abs() < 1e-6);
    }
    chrome.view("lens");
    chrome.screenshot("offline-lens");
    chrome.ensure_quiet();
}
