//! A pass with changes resumes at the first of them, and has the numbers of a pass that was run from the start, bit for bit.

use super::requests::{get, post, serve};
use crate::checkpoints::made;
use regard::forward_pass::{
    ForwardPass, Input, Intervention, MapScale, TokenDisplay, measure, thumbnails, vectors::Vectors,
};
use regard::model::Opened;
use regard::server::Limits;
use regard_nn::block::Placement;
use regard_nn::models::form::Form;
use regard_nn::models::{
    BertConfig, GptConfig, LlamaConfig, Pooling, Sentiment, SentimentConfig, T5Config, VitConfig,
};
use regard_nn::tensor::Tensor;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;

const TEXT: &str = "The cat sat on the mat.";
static GOING: AtomicBool = AtomicBool::new(false);

fn gpt(folder: &Path) -> Form {
    let vocabulary = made::tokenizer(false).vocabulary_size();
    let sizes =
        GptConfig { vocabulary, context: 48, n_layers: 4, n_heads: 2, d_model: 16, ..GptConfig::default() };
    made::save(folder, (sizes.form(), 5), Some(&made::tokenizer(false)));
    sizes.form()
}

/// A PNG of so many pixels, no two of which are alike.
fn picture(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    let pixels: Vec<u8> = (0..3 * width * height).map(|value| (value * 37 % 251) as u8).collect();
    encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
    bytes
}

fn open(folder: &Path) -> Arc<Opened> {
    Arc::new(regard::model::open(made::text(folder)).unwrap())
}

fn changes(written: &[&str]) -> Vec<Intervention> {
    written.iter().map(|change| change.parse().unwrap()).collect()
}

fn bits(tensor: &Tensor) -> Vec<u32> {
    tensor.to_vec().into_iter().map(f32::to_bits).collect()
}

/// All numbers that are read from a pass.
fn numbers(pass: &ForwardPass) -> Vec<Vec<u32>> {
    let mut all: Vec<_> = pass.scores().into_iter().chain(pass.residuals().stream()).map(bits).collect();
    all.extend(pass.pool().map(|pool| pool.iter().map(|value| value.to_bits()).collect()));
    for (number, site) in pass.sites().iter().enumerate() {
        all.push(bits(&pass.weights(number).unwrap().all()));
        let drawn = thumbnails(pass, number, (64, MapScale::Norms, TokenDisplay::default()), &GOING).unwrap();
        all.push(drawn.levels.into_iter().map(u32::from).collect());
        let measured = measure(pass, number, &GOING).unwrap().heads;
        let parts = |value: f64| [value.to_bits() as u32, (value.to_bits() >> 32) as u32];
        all.push(measured.into_iter().flatten().flatten().flat_map(parts).collect());
        let vectors: Arc<Vectors> = pass.vectors(number, &GOING).unwrap();
        let queries: Vec<usize> = (0..pass.sides(site.group).0.len()).collect();
        all.push(
            vectors.rows("heads", site.heads - 1, &queries).unwrap().into_iter().map(f32::to_bits).collect(),
        );
    }
    all
}

/// Compares passes that resume with passes that do not; returns the layers that each of them did not run again.
fn check(opened: &Arc<Opened>, input: &Input, lists: &[&[&str]]) -> Vec<usize> {
    let mut known = ForwardPass::new(opened, input, 100, &GOING).unwrap();
    let plain = numbers(&known);
    let mut shared = Vec::new();
    for list in lists {
        let whole = ForwardPass::changed(opened, input, &[], changes(list), 100, &GOING).unwrap();
        // From the pass with the changes before, which has other ones, and not from the plain one.
        let resumed = known.with_changes(changes(list), 100, &GOING).unwrap();
        assert!(numbers(&resumed) == numbers(&whole), "{list:?} after {:?}", known.changes());
        assert!(list.is_empty() || numbers(&resumed) != plain, "{list:?} changes nothing");
        let layers = known.shared(&changes(list));
        for (site, origin) in resumed.sites().iter().zip(resumed.origins()) {
            assert_eq!(
                origin == resumed.id(),
                !layers.contains(&site.layer_name()),
                "{} with {list:?}",
                site.name
            );
        }
        shared.push(layers.len());
        known = resumed;
    }
    shared
}

#[test]
fn every_kind_of_change_resumes_where_it_is_made() {
    let folder = TempDir::new().unwrap();
    let mut form = gpt(&folder.path().join("model"));
    let input = Input::Text(TEXT.to_owned(), String::new());
    let lists: [&[&str]; 14] = [
        &["zero:layers.2.self:1"],
        &["mean:layers.3.self:0"],
        &["mean:layers.3.self:0", "zero:layers.3.self:1"],
        &["block:layers.1.self:*:4:2"],
        &["off:layers.3.ffn", "block:layers.1.self:*:4:2"],
        &["off:layers.2.self", "off:layers.3.ffn", "block:layers.1.self:*:4:2"],
        &["scale:layers.2.residual.middle:*:0.5"],
        &["scale:layers.2.residual.after:3:2", "scale:layers.2.residual.middle:*:0.5"],
        &["scale:layers.3.residual.before:*:2"],
        &["scale:layers.3.residual.before:*:2", "zero:layers.3.self:1"],
        &["steer:layers.1.residual.after:*:0.7:The dog", "scale:layers.1.residual.after:*:2"],
        // The same in the other order.
        &["scale:layers.1.residual.after:*:2", "steer:layers.1.residual.after:*:0.7:The dog"],
        &["scale:layers.0.residual.before:*:2"],
        &[],
    ];
    let shared = [2, 2, 3, 1, 3, 2, 1, 2, 2, 3, 1, 1, 0, 0];
    assert_eq!(check(&open(&folder.path().join("model")), &input, &lists), shared);
    // Sublayers side by side.
    for layer in form.decoder.iter_mut().flat_map(|stack| &mut stack.layers) {
        layer.placement = Placement::Parallel;
    }
    made::save(&folder.path().join("parallel"), (form, 5), Some(&made::tokenizer(false)));
    assert_eq!(check(&open(&folder.path().join("parallel")), &input, &lists), shared);
}

#[test]
fn every_family_resumes_or_runs_from_the_start() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (plain, ended) = (made::tokenizer(false), made::tokenizer(true));
    let text = Input::Text(TEXT.to_owned(), String::new());
    let vocabulary = plain.vocabulary_size();
    let layers =
        LlamaConfig { context: 48, n_layers: 3, n_heads: 4, n_kv_heads: 2, ..LlamaConfig::default() };
    let llama = LlamaConfig { vocabulary, d_model: 32, d_hidden: 48, ..layers };
    made::save(&path("llama"), (llama.form(), 1), Some(&plain));
    let layers = BertConfig { context: 48, n_layers: 3, n_heads: 2, ..BertConfig::default() };
    let bert = BertConfig { vocabulary, d_model: 16, d_hidden: 20, ..layers };
    made::save(&path("bert"), (bert.form(), 3), Some(&plain));
    let lists: [&[&str]; 4] = [
        &["zero:layers.1.self:1"],
        &["off:layers.2.ffn", "zero:layers.1.self:1"],
        &["scale:layers.2.residual.before:1:3"],
        &[],
    ];
    for name in ["llama", "bert"] {
        assert_eq!(check(&open(&path(name)), &text, &lists), [1, 2, 1, 1], "{name}");
    }
    let vit = VitConfig { n_layers: 3, n_heads: 2, d_model: 16, d_hidden: 20, ..VitConfig::default() };
    let vit = VitConfig { image: [8, 12], patch: 4, channels: 3, classes: 3, ..vit };
    made::save(&path("vit"), (vit.form(), 3), None);
    let picture = Input::Picture(picture(12, 8));
    assert_eq!(check(&open(&path("vit")), &picture, &lists), [1, 2, 1, 1]);
    // The encoder, the decoder over what the encoder has read, and both.
    let t5 = T5Config { n_layers: 3, n_decoder_layers: 3, n_heads: 2, d_model: 16, ..T5Config::default() };
    let t5 = T5Config { vocabulary: ended.vocabulary_size(), d_head: 6, d_hidden: 20, ..t5 };
    made::save(&path("t5"), (t5.form(), 3), Some(&ended));
    let both = Input::Text(TEXT.to_owned(), "The dog".to_owned());
    let lists: [&[&str]; 6] = [
        &["zero:decoder.layers.1.cross:1"],
        &["off:decoder.layers.2.ffn", "zero:decoder.layers.1.cross:1"],
        &["off:decoder.layers.2.ffn", "mean:encoder.layers.1.self:0"],
        &["off:decoder.layers.2.ffn", "mean:encoder.layers.1.self:0", "off:decoder.layers.1.cross"],
        &["zero:decoder.layers.0.self:1", "mean:encoder.layers.1.self:0"],
        &[],
    ];
    assert_eq!(check(&open(&path("t5")), &both, &lists), [4, 5, 1, 4, 3, 1]);
    // Without a residual stream there is nothing to resume from.
    let sizes = SentimentConfig {
        vocabulary,
        d_embedding: 12,
        d_hidden: 8,
        n_heads: 2,
        ..SentimentConfig::default()
    };
    let heads = Sentiment::new(SentimentConfig { pooling: Pooling::Heads, ..sizes }, 3).unwrap();
    regard_nn::checkpoint::save(&heads, &path("heads"), &serde_json::Map::new()).unwrap();
    plain.save(path("heads").join("tokenizer.json")).unwrap();
    let lists: [&[&str]; 2] = [&["zero:layers.0.self:1"], &[]];
    assert_eq!(check(&open(&path("heads")), &text, &lists), [0, 0]);
}

#[test]
fn the_server_resumes_from_the_pass_that_has_most_in_common() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("model");
    gpt(&path);
    let address = serve(folder.path(), &["model"], Limits::default());
    let read = |list: &[&str]| -> Value {
        let body = json!({ "model": made::text(&path), "text": TEXT, "changes": list }).to_string();
        let answer = post(address, "/api/read", &body);
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        let reading = answer.json();
        // The numbers are those of a pass from the start.
        let input = Input::Text(TEXT.to_owned(), String::new());
        let whole = ForwardPass::changed(&open(&path), &input, &[], changes(list), 100, &GOING).unwrap();
        let next = get(address, &format!("/api/readings/{}/next", reading["id"].as_str().unwrap()));
        assert_eq!(next.reals(), whole.scores().unwrap().to_vec(), "{list:?}");
        reading
    };
    let origins = |of: &[&Value]| json!(of.iter().map(|reading| &reading["id"]).collect::<Vec<_>>());
    let plain = read(&[]);
    assert_eq!(plain["origins"], origins(&[&plain; 4]));
    let one = read(&["zero:layers.2.self:1"]);
    assert_eq!(one["origins"], origins(&[&plain, &plain, &one, &one]));
    let two = read(&["zero:layers.2.self:1", "off:layers.3.ffn"]);
    assert_eq!(two["origins"], origins(&[&plain, &plain, &one, &two]));
    assert_eq!(read(&["zero:layers.2.self:1"])["id"], one["id"], "a pass that is known");
    // A text without one of its tokens is another text, which is read from the start.
    let struck = read(&["strike:2", "zero:layers.2.self:1"]);
    assert_eq!(struck["origins"], origins(&[&struck; 4]));
    let again = read(&["strike:2"]);
    assert_eq!(again["origins"], origins(&[&struck, &struck, &again, &again]));
}
