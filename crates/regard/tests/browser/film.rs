//! A run as a film: the slider over snapshots, a run that trains while the page shows it, two snapshots side by side.

use crate::chrome::Chrome;
use crate::program::{Serve, regard};
use regard::forward_pass::{ForwardPass, Input};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;

const TEXT: &str = "the old dog saw a small cat";

/// A short run with snapshots at these steps.
fn run(folder: &Path, name: &str) {
    let settings = "data.texts=200 model.n_layers=2 model.d_model=32 model.context=32 train.steps=24 train.batch_size=4 \
                    train.evaluate_every=12 run.log_every=4 run.snapshots=[0,6,12,24]";
    let mut command = regard(folder);
    command.args(["train", "words-gpt", "--out", &format!("runs/{name}")]);
    for setting in settings.split_whitespace() {
        command.args(["--set", setting]);
    }
    assert!(command.output().unwrap().status.success());
}

/// The probabilities of the next token that the library computes with the model in a folder.
fn predicted(folder: &Path) -> Vec<f32> {
    let opened = Arc::new(regard::model::open(folder.to_str().unwrap()).unwrap());
    let input = Input::Text(TEXT.to_owned(), String::new());
    let pass = ForwardPass::new(&opened, &input, 200, &AtomicBool::new(false)).unwrap();
    pass.scores().unwrap().to_vec()
}

/// The logits that the page got for the text with a model.
fn shown(chrome: &mut Chrome, model: &str) -> Vec<f32> {
    let script = format!(
        "(async () => {{ const {{ serverSource }} = await import('./js/server.js'); const s = serverSource(); \
         const r = await s.read({{ model: {model:?}, text: {TEXT:?} }}); return [...(await s.next(r, {{}})).scores]; }})()"
    );
    let values = chrome.value(&script);
    values.as_array().unwrap().iter().map(|value| value.as_f64().unwrap() as f32).collect()
}

fn at_step(chrome: &mut Chrome, text: &str) {
    chrome.until(&format!("document.querySelector('#film-step').textContent === {text:?}"));
}

fn theme(chrome: &mut Chrome, name: &str) {
    // By the button, which also gives the figures their colours. The first click may choose what the system has.
    chrome.value(&format!(
        "for (let i = 0; i < 2 && document.documentElement.dataset.theme !== {name:?}; i++) document.querySelector('#theme').click()"
    ));
    std::thread::sleep(std::time::Duration::from_millis(600));
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn a_slider_shows_the_model_at_each_snapshot() {
    let folder = TempDir::new().unwrap();
    run(folder.path(), "small");
    let server = Serve::start(folder.path(), &[]);
    let mut chrome = Chrome::start(1300, 900);
    chrome.open(&format!("{}/#text={}", server.address, TEXT.replace(' ', "+")));
    chrome.shown("heads");
    // It opens on the run's own model, with the curve and the slider under it.
    at_step(&mut chrome, "best model");
    assert_eq!(chrome.value("document.querySelector('#film-slider').max"), "3");
    assert!(chrome.value("document.querySelectorAll('#film-curve polyline').length").as_u64().unwrap() >= 2);
    assert_eq!(chrome.value("document.querySelector('#film-live').hidden"), true);
    assert_eq!(chrome.value("getComputedStyle(document.querySelector('.film .controls')).display"), "none");
    chrome.until("document.querySelector('#film-text mark')?.textContent.length > 10");
    let moved = |chrome: &mut Chrome, to: usize| {
        chrome.value(&format!(
            "(() => {{ const s = document.querySelector('#film-slider'); s.value = {to}; s.dispatchEvent(new Event('input')); }})()"
        ));
    };
    for (place, step) in [(0, 0), (2, 12), (1, 6)] {
        moved(&mut chrome, place);
        at_step(&mut chrome, &format!("step {step}"));
        chrome.until(&format!("document.title.includes('small@{step}') && document.querySelector('#view').dataset.shown === 'heads'"));
        assert_eq!(
            chrome.value("document.querySelectorAll('#view > *').length"),
            1,
            "the model before is gone"
        );
    }
    // The numbers are those of the snapshot, not of the run's best model.
    let run = folder.path().join("runs/small");
    for (name, model) in [("small@6", run.join("snapshots/step-6")), ("small", run.clone())] {
        let (page, library) = (shown(&mut chrome, name), predicted(&model));
        assert!(page.iter().zip(&library).all(|(a, b)| (a - b).abs() < 1e-5), "{name}");
    }
    assert_ne!(predicted(&run), predicted(&run.join("snapshots/step-6")));
    // In every other view, by the keyboard too, and in the link.
    for view in ["head", "lines", "lens", "next"] {
        chrome.view(view);
        chrome.value("document.querySelector('#film-slider').focus()");
        chrome.press("ArrowRight");
        at_step(&mut chrome, "step 12");
        chrome.shown(view);
        chrome.press("ArrowLeft");
        at_step(&mut chrome, "step 6");
        chrome.shown(view);
    }
    chrome.until("location.hash.includes('step=6')");
    let link = chrome.value("location.href").as_str().unwrap().to_owned();
    chrome.open("about:blank");
    chrome.open(&link);
    chrome.shown("next");
    at_step(&mut chrome, "step 6");
    // The film plays to the end.
    chrome.click("#film-play");
    at_step(&mut chrome, "step 24");
    chrome.until("document.querySelector('#film-play').textContent === '▶'");
    chrome.click("#film-own");
    at_step(&mut chrome, "best model");
    chrome.ensure_quiet();
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn two_snapshots_stand_side_by_side() {
    let folder = TempDir::new().unwrap();
    run(folder.path(), "small");
    let server = Serve::start(folder.path(), &[]);
    let mut chrome = Chrome::start(1300, 1000);
    let text = TEXT.replace(' ', "+");
    chrome.open(&format!("{}/#text={text}&view=compare&step=0&beside=small@24", server.address));
    chrome.shown("compare");
    let headings = chrome.value("[...document.querySelectorAll('.sides h2')].map(h => h.textContent)");
    assert!(headings[0].as_str().unwrap().starts_with("small, step 0"), "{headings}");
    assert!(headings[1].as_str().unwrap().starts_with("small, step 24"), "{headings}");
    let largest = "Math.max(...[...document.querySelectorAll('#difference [data-difference]')].map(b => Math.abs(b.dataset.difference)))";
    let before: Value = chrome.value(largest);
    assert!(before.as_f64().unwrap() > 1e-4, "{before}");
    // The slider moves the left side; at the same step nothing differs.
    chrome.value("(() => { const s = document.querySelector('#film-slider'); s.value = 3; s.dispatchEvent(new Event('input')); })()");
    at_step(&mut chrome, "step 24");
    chrome.until(&format!("document.querySelector('#view').dataset.shown === 'compare' && {largest} < 1e-6"));
    chrome.screenshot("film-compare");
    chrome.ensure_quiet();
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn the_demonstration_trains_while_it_is_watched() {
    let folder = TempDir::new().unwrap();
    let server = Serve::start(folder.path(), &[]);
    let mut chrome = Chrome::start(1300, 900);
    chrome.open(&server.address);
    chrome.shown("heads");
    chrome.until("document.querySelector('#film-live').textContent === 'live'");
    // The newest model is followed.
    chrome.until("Number(document.querySelector('#film-step').textContent.replace('step ', '')) >= 10");
    chrome.until("document.querySelectorAll('#film-curve polyline')[0]?.points.length > 3");
    // Paused, it stays at its step, whose model is shown.
    chrome.click("#film-pause");
    chrome.until("document.querySelector('#film-live').textContent === 'paused'");
    let state =
        |chrome: &mut Chrome| chrome.value("fetch('api/film?model=demonstration').then(a => a.json())");
    let began = std::time::Instant::now();
    let paused = loop {
        let before = state(&mut chrome)["live"]["step"].as_u64().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(700));
        if state(&mut chrome)["live"]["step"] == before {
            break before;
        }
        assert!(began.elapsed().as_secs() < 60, "it does not pause");
    };
    at_step(&mut chrome, &format!("step {paused}"));
    chrome.until(&format!("document.title.includes('demonstration@{paused}')"));
    chrome.until("document.querySelector('#film-text mark')?.textContent.length > 5");
    chrome.screenshot("film-paused");
    // The learning rate is changed.
    let rate = state(&mut chrome)["live"]["rate"].as_f64().unwrap();
    chrome.value("(() => { const r = document.querySelector('#film-rate'); r.value = -1; r.dispatchEvent(new Event('input')); r.dispatchEvent(new Event('change')); })()");
    chrome.until("document.querySelector('#film-rate-text').textContent.includes('× 0.5')");
    chrome.click("#film-pause");
    chrome.until("document.querySelector('#film-live').textContent === 'live'");
    chrome.until(&format!(
        "Number(document.querySelector('#film-step').textContent.replace('step ', '')) > {paused}"
    ));
    // The page may know of a step before its row is written.
    let began = std::time::Instant::now();
    let later = loop {
        let metrics = std::fs::read_to_string(folder.path().join("runs/demonstration/metrics.csv")).unwrap();
        let mut rates = metrics.lines().skip(1).filter_map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            Some((fields[0].parse::<u64>().ok()?, fields.get(3)?.parse::<f64>().ok()?))
        });
        if let Some((_, rate)) = rates.find(|(step, _)| *step > paused + 1) {
            break rate;
        }
        assert!(began.elapsed().as_secs() < 60, "no step after {paused} is written");
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    let most = if paused < 30 { 0.5 * rate * (paused as f64 + 4.0) / paused as f64 } else { 0.51 * rate };
    assert!(later <= most * 1.001, "{rate} at step {paused}, then {later}");
    // An earlier step can be looked at while it goes on.
    chrome.value("(() => { const s = document.querySelector('#film-slider'); s.value = 0; s.dispatchEvent(new Event('input')); })()");
    at_step(&mut chrome, "step 0");
    chrome.until("document.title.includes('demonstration@0')");
    chrome.screenshot("film-first");
    chrome.click("#film-own");
    chrome.until("Number(document.querySelector('#film-step').textContent.replace('step ', '')) > 10");
    for view in ["lens", "next", "head"] {
        chrome.view(view);
    }
    chrome.screenshot("film-live");
    chrome.ensure_quiet();
}

/// For the eye: a trained demonstration in light, dark and on a phone.
#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn the_film_fits_a_phone() {
    let folder = TempDir::new().unwrap();
    run(folder.path(), "small");
    let server = Serve::start(folder.path(), &[]);
    for (width, height, name) in [(1300, 900, "film"), (390, 840, "film-phone")] {
        let mut chrome = Chrome::start(width, height);
        chrome.open(&format!("{}/#text={}&step=12", server.address, TEXT.replace(' ', "+")));
        chrome.shown("heads");
        at_step(&mut chrome, "step 12");
        assert_eq!(chrome.value(&format!("document.documentElement.scrollWidth <= {width}")), true);
        // The player leaves room for the view, and is in sight.
        let room =
            chrome.value("document.querySelector('#film').getBoundingClientRect().height / innerHeight");
        assert!(room.as_f64().unwrap() < 0.3, "{room}");
        let below =
            chrome.value("document.querySelector('#film').getBoundingClientRect().bottom <= innerHeight + 1");
        assert_eq!(below, true);
        chrome.until("document.querySelector('#film-text mark')?.textContent.length > 10");
        for dark in ["light", "dark"] {
            theme(&mut chrome, dark);
            chrome.shown("heads");
            chrome.screenshot(&format!("{name}-{dark}"));
        }
        chrome.ensure_quiet();
    }
}
