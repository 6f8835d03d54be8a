//! The page as a bench: names of heads, words struck out, patching, side by side, scores split into parts, the tour, many tokens.

use crate::chrome::Chrome;
use crate::made;
use crate::program::Serve;
use regard::forward_pass::blank_out::blank_out;
use regard::forward_pass::head_names::head_names;
use regard::forward_pass::score_parts::named_parts;
use regard::forward_pass::{ForwardPass, Input};
use regard::model::Opened;
use regard_nn::Context;
use regard_nn::analysis::patching::Patching;
use regard_nn::analysis::{Head, Target};
use regard_nn::generate::{Continue, GenerationSettings, Sampling, generate};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;

/// A name and what makes a model of that name.
type Maker = (&'static str, fn(&Path));

struct Stage {
    chrome: Chrome,
    server: Serve,
    folder: TempDir,
}

impl Stage {
    fn new(makers: &[Maker], width: u32) -> Self {
        let folder = TempDir::new().unwrap();
        for (name, make) in makers {
            make(&folder.path().join(name));
        }
        let names: Vec<&str> = makers.iter().map(|(name, _)| *name).collect();
        let server = Serve::start(folder.path(), &names);
        Self { chrome: Chrome::start(width, 1000), server, folder }
    }

    fn open(&mut self, hash: &str) {
        self.chrome.open("about:blank");
        let address = format!("{}/#{hash}", self.server.address);
        self.chrome.open(&address);
    }

    fn opened(&self, name: &str) -> Arc<Opened> {
        Arc::new(regard::model::open(self.folder.path().join(name).to_str().unwrap()).unwrap())
    }
}

fn pass(opened: &Arc<Opened>, text: &str) -> ForwardPass {
    let input = Input::Text(text.to_owned(), String::new());
    ForwardPass::new(opened, &input, 200, &AtomicBool::new(false)).unwrap()
}

fn close(shown: &Value, expected: f64, tolerance: f64) {
    let shown: f64 = shown.as_str().map_or_else(|| shown.as_f64().unwrap(), |text| text.parse().unwrap());
    assert!((shown - expected).abs() <= tolerance, "{shown} is shown, expected {expected}");
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn heads_have_the_names_that_the_rules_give() {
    let mut stage = Stage::new(&[("model", made::gpt)], 1300);
    stage.open("text=The+cat+sat");
    stage.chrome.shown("heads");
    let names = head_names(&stage.opened("model"), &AtomicBool::new(false)).unwrap();
    assert!(names.sentences > 10 && names.repeated > 5 && names.induction.len() == 12);
    let badges = stage.chrome.value("document.querySelectorAll('.badge').length");
    assert_eq!(badges, names.names.len());
    let chrome = &mut stage.chrome;
    assert!(chrome.text("#names").contains("Repeated random tokens"));
    // A chip leaves only the heads with that name.
    if let Some(first) = names.names.first() {
        let count = names.names.iter().filter(|name| name.name == first.name).count();
        chrome.click(&format!("#named-{}", first.name.replace(' ', "-")));
        chrome.until(&format!("document.querySelectorAll('.heads [data-head]').length === {count}"));
        chrome.until("location.hash.includes('named=')");
    }
    chrome.screenshot("names");
    chrome.ensure_quiet();
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn a_word_is_struck_out_and_its_blank_out_score_is_the_librarys() {
    let mut stage = Stage::new(&[("model", made::gpt), ("sentiment", made::sentiment)], 1300);
    for name in ["model", "sentiment"] {
        stage.open(&format!("model={name}&text=The+cat+sat+on+the+mat&view=without"));
        stage.chrome.shown("without");
        let opened = stage.opened(name);
        let found = blank_out(&pass(&opened, "The cat sat on the mat"), None).unwrap();
        let chrome = &mut stage.chrome;
        let shown =
            chrome.value("[...document.querySelectorAll('#strike button')].map(b => b.dataset.change)");
        for (shown, change) in shown.as_array().unwrap().iter().zip(&found.changes) {
            match change {
                Some(change) => close(shown, *change, 1e-6),
                None => assert_eq!(shown, ""),
            }
        }
        // The token that a text is continued after stays; a classifier that pools words reads the text without any of them.
        let staying = chrome.value("document.querySelectorAll('#strike button:disabled').length");
        assert_eq!(staying, u64::from(name == "model"), "{name}");
        // Without the second token: the prediction is that of the shorter text.
        chrome.click("#strike-1");
        chrome.until("document.querySelectorAll('.change').length === 1 && document.querySelector('#outcome tbody tr')");
        chrome.shown("without");
        let change = "strike:1".parse().unwrap();
        let input = Input::Text("The cat sat on the mat".to_owned(), String::new());
        let struck =
            ForwardPass::changed(&opened, &input, &[], vec![change], 200, &AtomicBool::new(false)).unwrap();
        assert_eq!(struck.source().len(), found.changes.len() - 1);
        let scores = struck.scores().unwrap().softmax().unwrap().to_vec();
        let rows = chrome.value("[...document.querySelectorAll('#outcome tbody tr')].map(r => [Number(r.dataset.token), r.dataset.after])");
        for row in rows.as_array().unwrap() {
            close(&row[1], f64::from(scores[row[0].as_u64().unwrap() as usize]), 1e-5);
        }
        assert_eq!(chrome.value("document.querySelector('#strike-1').className"), "struck");
        chrome.screenshot(&format!("without-{name}"));
    }
    stage.chrome.ensure_quiet();
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn patching_restores_what_the_library_says() {
    let mut stage = Stage::new(&[("model", made::gpt)], 1300);
    let (clean, corrupted) = ("The cat sat on the mat", "The mat sat on the mat");
    stage.open(&format!(
        "text={}&view=patching&corrupted={}",
        clean.replace(' ', "+"),
        corrupted.replace(' ', "+")
    ));
    stage.chrome.shown("patching");
    let opened = stage.opened("model");
    let (a, b) = (pass(&opened, clean), pass(&opened, corrupted));
    assert_eq!(a.source().len(), b.source().len(), "the test needs prompts of one length");
    let chrome = &mut stage.chrome;
    let answer = |chrome: &mut Chrome, what: &str| {
        chrome.value(&format!("Number(document.querySelector('#patch-{what}').value)")).as_u64().unwrap()
            as usize
    };
    let (class, against) = (answer(chrome, "answer"), answer(chrome, "against"));
    let target = Target { position: Some(a.source().len() - 1), class, against: Some(against) };
    let tokens = [&a, &b].map(|pass| ForwardPass::analysis_tokens(pass.source()));
    let patching = Patching::new(&*opened.model, &tokens[0], &tokens[1], target).unwrap();
    for layer in 0..3 {
        for position in [1, a.source().len() - 1] {
            let expected = patching.restored(patching.residual_at(layer, position).unwrap()).unwrap();
            let shown = chrome
                .value(&format!("document.querySelector('#patch-at-{layer}-{position}').dataset.restored"));
            close(&shown, expected, 1e-4);
        }
        let expected = patching.restored(patching.head(Head { layer, head: 2 }).unwrap()).unwrap();
        let shown =
            chrome.value(&format!("document.querySelector('#patch-head-{layer}-2').dataset.restored"));
        close(&shown, expected, 1e-4);
    }
    chrome.click("#patch-at-1-1");
    chrome.until("document.querySelector('#patched-cell').textContent.includes('before layer 1')");
    chrome.screenshot("patching");
    // Prompts of different lengths are rejected with a hint.
    chrome.fill("#corrupted", "The dog sat");
    chrome.click("#patch");
    chrome.until("document.querySelector('#no-patching')?.textContent.includes('same number of tokens')");
    chrome.ensure_quiet();
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn what_a_model_lacks_is_not_offered() {
    // An LSTM with attention has no residual stream and no feed-forward layers.
    let mut stage = Stage::new(&[("sentiment", made::sentiment_heads), ("model", made::gpt)], 1300);
    for (name, transformer) in [("sentiment", false), ("model", true)] {
        stage.open(&format!("model={name}&text=The+cat+sat+on+the+mat"));
        stage.chrome.shown("heads");
        for offered in ["#tab-patching:not(.dim)", "#overview .ffn", "#change-scale", "#change-off-ffn"] {
            let found = stage.chrome.value(&format!("document.querySelectorAll({offered:?}).length > 0"));
            assert_eq!(found, transformer, "{offered} in {name}");
        }
    }
    stage.chrome.ensure_quiet();
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn two_texts_and_models_stand_side_by_side() {
    let mut stage = Stage::new(&[("model", made::gpt), ("llama", made::llama)], 1300);
    stage.open("text=The+cat+sat+on+the+mat&view=compare&layer=1&head=2&other=The+mat+sat+on+the+mat");
    stage.chrome.shown("compare");
    let opened = stage.opened("model");
    // Without another text there is no difference to draw.
    stage.chrome.value("location.hash = location.hash.replace(/&other=[^&]*/, '')");
    stage.chrome.until("document.querySelector('#alignment')?.textContent.includes('No weight differs')");
    assert_eq!(stage.chrome.value("document.querySelectorAll('#difference').length"), 0);
    stage.chrome.value("location.hash += '&other=The+mat+sat+on+the+mat'");
    stage.chrome.until("document.querySelector('#difference')");
    stage.chrome.shown("compare");
    let weight =
        |text: &str| pass(&opened, text).weights(1).unwrap().block(0, 2, 5..6, 1..2).unwrap().to_vec()[0];
    let expected = f64::from(weight("The mat sat on the mat")) - f64::from(weight("The cat sat on the mat"));
    let chrome = &mut stage.chrome;
    let count =
        chrome.value("Math.sqrt(document.querySelectorAll('#difference rect').length)").as_u64().unwrap();
    let shown = chrome.value(&format!(
        "document.querySelectorAll('#difference rect')[{}].dataset.difference",
        5 * count + 1
    ));
    close(&shown, expected, 1e-6);
    assert!(chrome.text("#alignment").contains("1 of them with different text"));
    chrome.screenshot("compare");
    // Other lengths are aligned by what they have in common; where there is nothing, the page says so.
    chrome.fill("#other-text", "The cat the mat");
    chrome.click("#compare");
    chrome.until("document.querySelector('#alignment')?.textContent.includes('are aligned')");
    chrome.fill("#other-text", "was tired because it");
    chrome.click("#compare");
    chrome.until("document.querySelector('#alignment.problem')?.textContent.includes('cannot be aligned')");
    // Another model.
    chrome.value("(() => { const m = document.querySelector('#other-model'); m.value = 'llama'; document.querySelector('#other-text').value = ''; m.dispatchEvent(new Event('change')); })()");
    chrome.until("document.querySelector('.sides h2:nth-of-type(1)') && [...document.querySelectorAll('.sides h2')].some(h => h.textContent.startsWith('llama'))");
    chrome.ensure_quiet();
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn a_score_is_split_into_its_parts() {
    let mut stage = Stage::new(&[("model", made::llama)], 1300);
    stage.open("text=The+cat+sat+on+the+mat&view=why&layer=1&head=1&query=4&key=2");
    stage.chrome.shown("why");
    stage.chrome.click("#split-score");
    stage.chrome.until("document.querySelector('#score-parts')");
    let found = named_parts(&pass(&stage.opened("model"), "The cat sat on the mat"), 1, 1, (4, 2)).unwrap();
    let chrome = &mut stage.chrome;
    let sum = chrome.value("document.querySelector('#score-parts').dataset.sum");
    close(&sum, found.score, 1e-4 * (1.0 + found.score.abs()));
    let largest = found
        .parts
        .iter()
        .copied()
        .fold(0.0, |most: f64, part| if part.abs() > most.abs() { part } else { most });
    close(&chrome.value("document.querySelector('#score-parts tbody tr').dataset.part"), largest, 1e-5);
    chrome.screenshot("score-parts");
    // A masked key has no weight to explain.
    chrome.value("location.hash = '#text=The+cat+sat+on+the+mat&view=why&layer=1&head=1&query=2&key=5'");
    chrome.until("document.querySelector('#masked-key')");
    chrome.ensure_quiet();
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn the_tour_leads_from_end_to_end() {
    let mut stage = Stage::new(&[("model", made::gpt)], 1300);
    stage.open("text=The+cat+sat+on+the+mat");
    stage.chrome.shown("heads");
    let chrome = &mut stage.chrome;
    chrome.click("#start-tour");
    for step in 1..=11 {
        chrome.until(&format!("document.querySelector('#tour b')?.textContent.startsWith('{step} of 11')"));
        chrome.until("document.querySelector('.spot')");
        if step == 6 {
            chrome.screenshot("tour");
        }
        let link = chrome.value("location.hash");
        assert!(link.as_str().unwrap().contains(&format!("tour={step}")), "{link}");
        chrome.click("#tour-next");
    }
    chrome.until("document.querySelector('#tour').hidden && !location.hash.includes('tour=')");
    chrome.ensure_quiet();
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn many_tokens_are_sampled_as_the_library_samples_them() {
    let mut stage = Stage::new(&[("model", made::gpt)], 1300);
    stage.open("text=The+cat+sat&view=next&temperature=0.5");
    stage.chrome.shown("next");
    let whole = pass(&stage.opened("model"), "The cat sat");
    let prompt: Vec<u32> = whole.source().iter().map(|token| token.id).collect();
    let sampling = Sampling { greedy: false, temperature: 0.5, ..Sampling::default() };
    let stop_tokens = whole.opened().token_ids("eos_token_id");
    let settings =
        GenerationSettings { max_tokens: 20, sampling, stop_tokens, ..GenerationSettings::default() };
    let model = Continue::new(whole.model()).unwrap();
    let said =
        generate(&model, &Context::inference(), std::slice::from_ref(&prompt), &settings, &mut |_, _| true)
            .unwrap();
    let chrome = &mut stage.chrome;
    chrome.click("#generate-many");
    let count = prompt.len() + said[0].tokens.len();
    chrome.until(&format!("document.querySelectorAll('#tokens [data-token]').length === {count}"));
    chrome.shown("next");
    let ids = chrome.value(&format!("[...document.querySelectorAll('#tokens [data-token]')].slice({}).map(t => Number(t.title.split('id ')[1]))", prompt.len()));
    assert_eq!(ids, serde_json::json!(said[0].tokens));
    chrome.screenshot("many");
    chrome.ensure_quiet();
}
