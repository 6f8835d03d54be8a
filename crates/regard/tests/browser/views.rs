//! A text is typed, every view is looked at, and the numbers drawn are the library's.

use crate::chrome::Chrome;
use crate::made;
use crate::program::Serve;
use regard::forward_pass::flow::flow;
use regard::forward_pass::prediction::{classes, draw};
use regard::forward_pass::{ForwardPass, Group, Input};
use regard_nn::checkpoint;
use regard_nn::generate::{Continue, GenerationSettings, Sampling, distribution, generate};
use regard_nn::models::Inputs;
use regard_nn::tensor::Ids;
use regard_nn::tokens::{Special, Tokenizer};
use regard_nn::{Context, Probe};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;

const TEXT: &str = "The cat sat on the mat because it was tired.";

/// Numbers that the page shows are those of 32 bits, exactly.
fn same(shown: &Value, expected: f32) {
    let shown = shown.as_str().map_or_else(|| shown.as_f64().unwrap(), |text| text.parse().unwrap());
    assert_eq!(shown as f32, expected, "{shown} is shown");
}

struct Stage {
    chrome: Chrome,
    server: Serve,
    folder: TempDir,
}

fn stage(make: fn(&Path)) -> Stage {
    let folder = TempDir::new().unwrap();
    make(&folder.path().join("model"));
    let server = Serve::start(folder.path(), &["model"]);
    Stage { chrome: Chrome::start(1300, 1000), server, folder }
}

impl Stage {
    fn read(&mut self, text: &str) {
        let address = self.server.address.clone();
        self.chrome.open(&address);
        self.chrome.shown("heads");
        self.chrome.fill("#text", text);
        // Its tokens are seen while it is typed.
        self.chrome.until("document.querySelectorAll('#tokens .chip').length > 2");
        self.chrome.press("Enter");
        let count = self.pass(&Input::Text(text.to_owned(), String::new())).source().len();
        self.chrome.until(&format!("document.querySelectorAll('#tokens [data-token]').length === {count}"));
        self.chrome.shown("heads");
    }

    fn pass(&self, input: &Input) -> ForwardPass {
        let opened = regard::model::open(self.folder.path().join("model").to_str().unwrap()).unwrap();
        ForwardPass::new(&Arc::new(opened), input, 1000, &AtomicBool::new(false)).unwrap()
    }
}

fn text(text: &str) -> Input {
    Input::Text(text.to_owned(), String::new())
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn the_exact_weights_of_a_gpt_are_drawn_and_listed() {
    let mut stage = stage(made::gpt);
    stage.read(TEXT);
    stage.chrome.screenshot("heads");
    assert_eq!(stage.chrome.value("document.querySelectorAll('.heads [data-head]').length"), 12);
    stage.chrome.click("[data-head='1.2']");
    stage.chrome.shown("head");
    let chrome = &mut stage.chrome;
    // The library, on its own.
    let folder = stage.folder.path().join("model");
    let model = checkpoint::load(&folder).unwrap().model;
    let encoding = Tokenizer::from_folder(&folder).unwrap().encode(TEXT, Special::Keep).unwrap();
    let count = encoding.len();
    let probe = Probe::new().record("layers.1.self.weights");
    let ids = Ids::new(&encoding.ids, [1, count]).unwrap();
    model.forward(&Context::inference().with_probe(&probe), &Inputs::ids(&ids)).unwrap();
    let weights = probe.weights("layers.1.self").unwrap().head(0, 2).unwrap().to_vec();
    // Choosing a token and pointing at a cell tells the exact weight.
    chrome.click("#tokens [data-token='5']");
    chrome.until("document.querySelector('#readout').textContent.includes('(5)')");
    chrome.value("location.hash = location.hash + '&key=2'");
    chrome.until("document.querySelector('#readout')?.textContent.includes('(5) →') && document.querySelector('#readout').textContent.includes('(2)')");
    same(&json!(chrome.text("#exact")), weights[5 * count + 2]);
    chrome.screenshot("head");
    // The table has the largest first.
    let told =
        chrome.value("[...document.querySelectorAll('#view tbody tr')].map(r => r.children[2].textContent)");
    let mut row: Vec<f32> = weights[5 * count..6 * count].to_vec();
    row.sort_by(|a, b| b.total_cmp(a));
    for (shown, expected) in told.as_array().unwrap().iter().zip(row) {
        same(shown, expected);
    }
    // Other scales are drawn too.
    for scale in ["log", "rest", "norms"] {
        chrome.value(&format!("location.hash = location.hash.replace(/&scale=\\w+/, '') + '&scale={scale}'"));
        chrome.until(
            "document.querySelector('#view').dataset.shown === 'head' && document.querySelector('#exact')",
        );
        chrome.screenshot(&format!("head-{scale}"));
    }
    chrome.ensure_quiet();
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn lines_why_and_flow_show_the_numbers_of_the_library() {
    let mut stage = stage(made::llama);
    stage.read(TEXT);
    let pass = stage.pass(&text(TEXT));
    let chrome = &mut stage.chrome;
    chrome.view("lines");
    chrome.until("document.querySelectorAll('#view svg path').length > 5");
    chrome.screenshot("lines");
    chrome.view("why");
    let last = pass.source().len() - 1;
    let weights = pass.weights(0).unwrap().block(0, 0, last..last + 1, 0..last + 1).unwrap().to_vec();
    let most = weights.iter().copied().fold(0.0, f32::max);
    let formula = chrome.text("#formula");
    let told = formula.split("weight in the model").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    same(&json!(told), most);
    chrome.screenshot("why");
    // Before rotation the same words have other products.
    let after = chrome.text("#view svg");
    chrome.value("location.hash = location.hash + '&rotated=0'");
    chrome.until("document.querySelector('#formula')?.textContent.includes('before rotation')");
    assert_ne!(chrome.text("#view svg"), after);
    chrome.view("flow");
    let expected = flow(&pass, Group::Itself, last, &AtomicBool::new(false)).unwrap();
    let tips = chrome.value("[...[...document.querySelectorAll('#view svg')].at(-1).querySelectorAll('rect title')].map(t => t.textContent.split(': ').at(-1))");
    assert_eq!(tips.as_array().unwrap().len(), expected.rollout.len());
    for (shown, &expected) in tips.as_array().unwrap().iter().zip(&expected.rollout) {
        same(shown, expected);
    }
    chrome.screenshot("flow");
    chrome.ensure_quiet();
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn why_knows_windows_sinks_and_soft_caps() {
    let mut stage = stage(made::windowed);
    stage.read(TEXT);
    let pass = stage.pass(&text(TEXT));
    let chrome = &mut stage.chrome;
    chrome.view("why");
    let last = pass.source().len() - 1;
    let weights = pass.weights(0).unwrap().block(0, 0, last..last + 1, 0..last + 1).unwrap().to_vec();
    let formula = chrome.text("#formula");
    assert!(formula.contains("soft cap") && formula.contains("like 3 of the other"), "{formula}");
    let number = |after: &str| -> f32 {
        let rest = formula.split(after).nth(1).unwrap();
        rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect::<String>().parse().unwrap()
    };
    let share = 1.0 - weights.iter().sum::<f32>();
    assert!(share > 0.01 && (number("it takes ") / 100.0 - share).abs() < 2e-3, "{share}: {formula}");
    // The softmax written out gives the model's weight.
    let most = weights.iter().copied().fold(0.0, f32::max);
    let sum = number("the sum over all keys ");
    let power = formula.split("softmaxe^(").nth(1).unwrap().split(" = ").nth(1).unwrap();
    let power: f32 = power.split(',').next().unwrap().parse().unwrap();
    assert!((power / sum - most).abs() < 5e-3, "{sum} {most}: {formula}");
    chrome.value("location.hash = location.hash.replace(/&key=\\d+/, '') + '&key=0'");
    // A key outside the window has no weight to explain.
    chrome.until("document.querySelector('#masked-key')?.textContent.includes('(0) is masked')");
    chrome.ensure_quiet();
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn the_next_word_is_drawn_as_the_library_draws_it() {
    let mut stage = stage(made::gpt);
    stage.read(TEXT);
    let pass = stage.pass(&text(TEXT));
    let chrome = &mut stage.chrome;
    chrome.view("next");
    let scores = pass.scores().unwrap().to_vec();
    let check = |chrome: &mut Chrome, sampling: &Sampling| {
        let expected = distribution(&scores, &[], sampling);
        let bars = chrome.value("[...document.querySelectorAll('#view rect[data-token]')].map(r => [Number(r.dataset.token), Number(r.dataset.probability)])");
        let bars = bars.as_array().unwrap();
        assert!(!bars.is_empty());
        for bar in bars {
            let (token, shown) = (bar[0].as_u64().unwrap() as usize, bar[1].as_f64().unwrap());
            assert!(
                (shown - f64::from(expected[token])).abs() < 1e-6,
                "{token}: {shown} and {}",
                expected[token]
            );
        }
    };
    check(chrome, &Sampling { greedy: false, ..Sampling::default() });
    for (name, value) in [("temperature", "0.5"), ("k", "7"), ("p", "0.9")] {
        chrome.value(&format!(
            "(() => {{ const e = document.querySelector('#slider-{name}'); e.value = {value:?}; e.dispatchEvent(new Event('input')); }})()"
        ));
    }
    let sampling = Sampling { greedy: false, temperature: 0.5, top_k: 7, top_p: 0.9, ..Sampling::default() };
    check(chrome, &sampling);
    // Three tokens, as `regard generate` would draw them.
    let prompt: Vec<u32> = pass.source().iter().map(|token| token.id).collect();
    let gpt = Continue::new(pass.model()).unwrap();
    let settings = GenerationSettings { max_tokens: 3, sampling, ..GenerationSettings::default() };
    let said =
        generate(&gpt, &Context::inference(), std::slice::from_ref(&prompt), &settings, &mut |_, _| true)
            .unwrap();
    for step in 1..=3 {
        chrome.click("#generate");
        chrome.until(&format!(
            "document.querySelectorAll('#tokens [data-token]').length === {}",
            prompt.len() + step
        ));
        chrome.shown("next");
    }
    let ids = chrome.value("[...document.querySelectorAll('#tokens [data-token]')].slice(-3).map(t => Number(t.title.split('id ')[1]))");
    assert_eq!(ids, json!(said[0].tokens));
    chrome.until("document.querySelector('#timeline svg')");
    chrome.screenshot("next");
    // The text is as the tokenizer writes it, with what was drawn marked.
    let whole: Vec<u32> = prompt.iter().chain(&said[0].tokens).copied().collect();
    let tokenizer = Tokenizer::from_folder(stage.folder.path().join("model")).unwrap();
    assert_eq!(chrome.text("#prose"), tokenizer.decode(&whole, Special::Drop).unwrap());
    assert_eq!(chrome.value("document.querySelectorAll('#prose mark').length"), 3);
    // The last is taken back and drawn again, with another seed; however often one clicks, one token is drawn.
    let count = |chrome: &mut Chrome, count: usize| {
        chrome.until(&format!("document.querySelectorAll('#tokens [data-token]').length === {count}"));
        chrome.shown("next");
    };
    chrome.click("#take-back");
    count(chrome, whole.len() - 1);
    chrome.value("for (let i = 0; i < 3; i++) document.querySelector('#generate').click()");
    count(chrome, whole.len());
    let opened = Arc::clone(pass.opened());
    let two =
        ForwardPass::continued(&opened, &text(TEXT), &said[0].tokens[..2], 1000, &AtomicBool::new(false));
    let third = draw(&two.unwrap(), &Sampling { seed: 1, ..settings.sampling }, 2).unwrap();
    let ids = "[...document.querySelectorAll('#tokens [data-token]')].slice(-3).map(t => Number(t.title.split('id ')[1]))";
    let drawn = json!([said[0].tokens[0], said[0].tokens[1], third]);
    assert_eq!(chrome.value(ids), drawn);
    // They outlive the page, and can be taken back in the next.
    chrome.call("Page.reload", json!({}));
    chrome.until("document.readyState === 'complete' && document.querySelector('#prose')");
    count(chrome, whole.len());
    assert_eq!(chrome.value(ids), drawn);
    chrome.click("#take-back");
    count(chrome, whole.len() - 1);
    chrome.ensure_quiet();
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn a_sentiment_model_shows_its_words() {
    let mut stage = stage(made::sentiment);
    let address = stage.server.address.clone();
    let chrome = &mut stage.chrome;
    chrome.open(&address);
    chrome.shown("classes"); // it has no heads to show
    chrome.fill("#text", TEXT);
    chrome.press("Enter");
    let expected = classes(&stage.pass(&text(TEXT))).unwrap();
    let chrome = &mut stage.chrome;
    chrome.until(&format!("document.querySelectorAll('.words span').length === {}", expected.weights.len()));
    let shown =
        chrome.value("[...document.querySelectorAll('.words span')].map(s => s.title.split(': ').at(-1))");
    for (shown, &expected) in shown.as_array().unwrap().iter().zip(&expected.weights) {
        same(shown, expected);
    }
    assert!(chrome.text("#view h2").contains("negative") || chrome.text("#view h2").contains("positive"));
    chrome.screenshot("classes");
    chrome.ensure_quiet();
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn a_t5_shows_encoder_decoder_and_cross_attention() {
    let mut stage = stage(made::t5);
    let address = stage.server.address.clone();
    let chrome = &mut stage.chrome;
    chrome.open(&format!("{address}/#text=The+cat+sat&second=the+dog&view=head&group=cross"));
    chrome.shown("head");
    let input = Input::Text("The cat sat".to_owned(), "the dog".to_owned());
    let pass = stage.pass(&input);
    let site = pass.find("decoder.layers.0.cross").unwrap();
    let [_, _, queries, keys] = pass.weights(site).unwrap().sizes();
    let row = pass.weights(site).unwrap().block(0, 0, queries - 1..queries, 0..keys).unwrap().to_vec();
    let chrome = &mut stage.chrome;
    chrome.until("document.querySelector('#exact')");
    same(&json!(chrome.text("#exact")), row.into_iter().fold(0.0, f32::max));
    let sources = pass.source().len();
    assert_eq!(chrome.text("#model-tokens"), format!("{sources} tokens"), "the model reads the source first");
    let groups = chrome.value(
        "[...document.querySelectorAll('#bar select[aria-label=attention] option')].map(o => o.value)",
    );
    assert_eq!(groups, json!(["encoder", "decoder", "cross"]));
    chrome.screenshot("t5");
    // What is typed in the second field is seen as tokens too, and Enter reads it.
    chrome.fill("#second", "the dog sat");
    chrome.until(
        "[...document.querySelectorAll('#tokens .chip, #tokens .more')].some(c => c.textContent === '→')",
    );
    chrome.press("Enter");
    chrome.until("location.hash.includes('second=the+dog+sat')");
    chrome.shown("head");
    // Back at what was read, its tokens are there again.
    chrome.fill("#second", "the dog sat on");
    chrome.until("document.querySelectorAll('#tokens .chip').length > 2");
    chrome.fill("#second", "the dog sat");
    chrome.until("document.querySelectorAll('#tokens .chip').length === 0 && document.querySelectorAll('#tokens [data-token]').length > 2");
    // Flow follows a text through its own layers, and says so.
    chrome.view("flow");
    assert!(chrome.text("#instead").contains("decoder's attention to itself"));
    chrome.ensure_quiet();
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn pieces_are_merged_and_special_tokens_hidden() {
    let mut stage = stage(made::bert);
    stage.read("tattooed the cat sat");
    let pass = stage.pass(&text("tattooed the cat sat"));
    let pieces: Vec<&str> = pass.source().iter().map(|token| token.text.as_str()).collect();
    assert!(pieces.len() > 6, "{pieces:?}");
    let chrome = &mut stage.chrome;
    chrome.view("head");
    chrome.click("#toggle-merge");
    chrome.until("document.querySelector('#toggle-merge').ariaPressed === 'true'");
    chrome.click("#toggle-hide");
    chrome.until("location.hash.includes('hide=1')");
    chrome.until("document.querySelectorAll('#view tbody tr').length === 4");
    chrome.screenshot("bert");
    chrome.ensure_quiet();
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn a_masked_model_opens_at_its_mask() {
    let mut stage = stage(made::bert);
    let address = stage.server.address.clone();
    let chrome = &mut stage.chrome;
    chrome.open(&format!("{address}/#text=the+%5BMASK%5D+sat&view=lens"));
    chrome.shown("lens");
    assert_eq!(chrome.text("#tokens [aria-selected=true]"), "[MASK]");
    let pressed = chrome.value("document.querySelector('#lens [aria-pressed=true]').id.split('-')[2]");
    let mask = chrome.value("document.querySelector('#tokens [aria-selected=true]').dataset.token");
    assert_eq!(pressed, mask);
    assert!(chrome.text("#explain").contains("[MASK]"));
    chrome.view("next");
    assert!(chrome.text("#predicted-at").contains("[MASK]"));
    chrome.ensure_quiet();
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn words_outside_the_vocabulary_are_seen_as_such() {
    let mut stage = stage(made::long);
    let address = stage.server.address.clone();
    let chrome = &mut stage.chrome;
    chrome.open(&format!("{address}/#text=the+zebra+sat&view=next"));
    chrome.shown("next");
    let unknown = chrome.value("[...document.querySelectorAll('#tokens .unknown')].map(t => t.textContent)");
    assert_eq!(unknown, json!(["zebra"]));
    assert!(chrome.text("#prose").contains("the <UNK> sat"), "{}", chrome.text("#prose"));
    let says = chrome.value("document.querySelector('#tokens .unknown').title");
    assert!(says.as_str().unwrap().contains("the model reads <UNK>"), "{says}");
    chrome.ensure_quiet();
}

#[test]
#[ignore = "needs Chromium: ./test runs it"]
fn text_on_coloured_cells_is_legible_in_light_and_dark() {
    let mut stage = stage(made::gpt);
    let address = stage.server.address.clone();
    let chrome = &mut stage.chrome;
    for theme in ["light", "dark"] {
        let feature = json!({ "features": [{ "name": "prefers-color-scheme", "value": theme }] });
        chrome.call("Emulation.setEmulatedMedia", feature);
        chrome.open("about:blank");
        chrome.open(&address);
        chrome.shown("heads");
        // The contrast of WCAG; no choice between the theme's two text colours reaches 4 everywhere.
        let least = chrome.value(
            "(async () => { const { shade, inkOn, signedShade, inkOnSigned } = await import('/js/colours.js'); \
             const light = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255) \
               .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)) \
               .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0); \
             const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05); \
             const shares = Array.from({ length: 129 }, (_, i) => i / 128); \
             return Math.min(...shares.map((share) => contrast(shade(share), inkOn(share))), \
               ...shares.map((share) => contrast(signedShade(2 * share - 1), inkOnSigned(2 * share - 1)))); })()",
        );
        assert!(least.as_f64().unwrap() > 3.7, "{theme}: {least}");
    }
    chrome.ensure_quiet();
}
