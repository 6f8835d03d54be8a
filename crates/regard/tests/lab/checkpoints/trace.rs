//! `regard trace` and `regard verify`.

use super::made::{complaint, gpt, said, t5, text, tokenizer, vit};
use regard_nn::checkpoint::{self, StoredWeights};
use regard_nn::models::Inputs;
use regard_nn::tensor::Ids;
use regard_nn::tokens::Special;
use regard_nn::{Context, Probe};
use serde_json::Value;
use std::path::Path;
use tempfile::tempdir;

const TEXT: &str = "The dög sat.";

#[test]
fn a_trace_has_what_the_library_computes() {
    let folder = tempdir().unwrap();
    let (model, out) = (folder.path().join("model"), folder.path().join("trace.safetensors"));
    gpt(&model, 1);
    said(&["trace", text(&model), "--text", TEXT, "-o", text(&out)]);
    let trace = StoredWeights::from_files(&[&out]).unwrap();
    let names: Vec<&str> = trace.names().collect();
    assert_eq!(names, ["inputs/ids", "layers.0.self.weights", "layers.1.self.weights", "logits"]);

    let library = checkpoint::load(&model).unwrap().model;
    let encoding = tokenizer(false).encode(TEXT, Special::Keep).unwrap();
    let ids = Ids::new(&encoding.ids, [1, encoding.ids.len()]).unwrap();
    assert_eq!(trace.read_ids("inputs/ids").unwrap().unwrap().values(), ids.values());
    let probe = Probe::new().record("layers.1.self.weights");
    let logits = library.forward(&Context::inference().with_probe(&probe), &Inputs::ids(&ids)).unwrap();
    assert_eq!(trace.read("logits").unwrap().unwrap().to_vec(), logits.to_vec());
    let weights = probe.get("layers.1.self.weights").unwrap().unwrap();
    let traced = trace.read("layers.1.self.weights").unwrap().unwrap();
    assert_eq!((traced.shape(), traced.to_vec()), (weights.shape(), weights.to_vec()));

    let tokens: Value = serde_json::from_str(trace.metadata("tokens").unwrap()).unwrap();
    let words = tokens.as_array().unwrap().iter().map(|token| token["text"].as_str().unwrap());
    // Pieces of one character all stand for it; byte-level pieces keep the space before a word.
    assert_eq!(words.count(), encoding.ids.len());
    assert_eq!(tokens[0]["id"], encoding.ids[0]);
    assert_eq!(trace.metadata("text"), Some(TEXT));
}

#[test]
fn a_trace_is_the_same_each_time_and_a_reference_for_the_next() {
    let folder = tempdir().unwrap();
    let (model, other) = (folder.path().join("model"), folder.path().join("other"));
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    gpt(&model, 1);
    gpt(&other, 2);
    for out in [&first, &second] {
        said(&[
            "trace",
            "--ids",
            "3,40,5",
            text(&model),
            "--site",
            "layers.*.residual.after",
            "--site",
            "logits",
            "-o",
            text(out),
        ]);
    }
    assert_eq!(std::fs::read(&first).unwrap(), std::fs::read(&second).unwrap());
    let table = said(&["verify", text(&model), text(&first), "--tolerance", "0"]);
    assert_eq!(table.lines().count(), 3, "{table}");
    let (problem, code) = complaint(&["verify", text(&other), text(&first)]);
    assert!(problem.contains("3 of 3 tensors differ by more than 1e-4"), "{problem}");
    assert_eq!(code, 1);
    let (problem, code) = complaint(&["verify", text(&model), text(&model.join("model.safetensors"))]);
    assert!(problem.contains("is no reference"), "{problem}");
    assert_eq!(code, 1);
}

#[test]
fn an_encoder_and_its_decoder_are_both_seen() {
    let folder = tempdir().unwrap();
    let (model, out) = (folder.path().join("model"), folder.path().join("trace.safetensors"));
    t5(&model);
    said(&["trace", text(&model), "--text", "The cat", "--decoder-text", "sat", "-o", text(&out)]);
    let trace = StoredWeights::from_files(&[&out]).unwrap();
    let source = trace.read_ids("inputs/ids").unwrap().unwrap().values().len();
    let target = trace.read_ids("inputs/decoder_ids").unwrap().unwrap();
    assert_eq!(target.values()[0], 0, "the decoder starts with its start token");
    let cross = trace.read("decoder.layers.1.cross.weights").unwrap().unwrap();
    assert_eq!(cross.shape()[..], [1, 2, target.values().len(), source]);
    assert!(
        trace.contains("encoder.layers.0.self.weights") && trace.contains("decoder.layers.0.self.weights")
    );
}

#[test]
fn sites_that_are_not_there_are_answered_with_those_near_them() {
    let folder = tempdir().unwrap();
    gpt(folder.path(), 1);
    let model = text(folder.path());
    let trace = |more: &[&str]| complaint(&[&["trace", model, "-o", "never"], more].concat());
    let (problem, code) = trace(&["--text", "a", "--site", "layers.0.self.wieghts"]);
    assert!(problem.contains("near it are layers.*.self.weights"), "{problem}");
    assert_eq!(code, 1);
    let (problem, _) = trace(&["--text", "a", "--site", "layers.7.self.weights"]);
    assert!(problem.contains("layers.0.self.weights to layers.1.self.weights"), "{problem}");
    let (problem, _) = trace(&["--ids", "3,999"]);
    assert!(problem.contains("there is no token 999"), "{problem}");
    for usage in [
        &["--text", "a", "--ids", "1"][..],
        &["--text", "a", "--decoder-text", "b"],
        &[],
        &["--image", "x.png"],
    ] {
        assert_eq!(trace(usage).1, 2, "{usage:?}");
    }
    assert!(!Path::new("never").exists());
}

fn write_png(path: &Path, width: u32, height: u32, point: impl Fn(u32, u32) -> [u8; 3]) {
    let mut encoder = png::Encoder::new(std::fs::File::create(path).unwrap(), width, height);
    encoder.set_color(png::ColorType::Rgb);
    let points = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
    let bytes: Vec<u8> = points.flat_map(|(x, y)| point(x, y)).collect();
    encoder.write_header().unwrap().write_image_data(&bytes).unwrap();
}

#[test]
fn pictures_are_preprocessed_by_the_folders_settings() {
    let folder = tempdir().unwrap();
    let (model, picture, out) =
        (folder.path().join("model"), folder.path().join("x.png"), folder.path().join("trace.safetensors"));
    vit(&model);
    let pixels = || {
        said(&["trace", text(&model), "--image", text(&picture), "-o", text(&out)]);
        let trace = StoredWeights::from_files(&[&out]).unwrap();
        assert_eq!(trace.read("logits").unwrap().unwrap().shape()[..], [1, 3]);
        let pixels = trace.read("inputs/pixels").unwrap().unwrap();
        assert_eq!(pixels.shape()[..], [1, 3, 8, 12]);
        pixels.to_vec()
    };
    write_png(&picture, 12, 8, |x, y| [x as u8 * 20, y as u8 * 30, 255]);
    let exact = pixels();
    let want = |value: f32| value / 127.5 - 1.0;
    assert!((exact[5] - want(100.0)).abs() < 1e-6 && (exact[96 + 12 * 3] - want(90.0)).abs() < 1e-6);
    assert!((exact[2 * 96] - 1.0).abs() < 1e-6);
    let settings = r#"{"image_mean": [0.0, 0.5, 0.5], "image_std": [1.0, 0.5, 0.5], "size": {"height": 8, "width": 12}}"#;
    std::fs::write(model.join("preprocessor_config.json"), settings).unwrap();
    assert!((pixels()[5] - 100.0 / 255.0).abs() < 1e-6);
    // A ramp of twice the size has the same ramp's means.
    write_png(&picture, 24, 16, |x, _| [x as u8 * 10, 7, 7]);
    let ramp = pixels();
    assert!(
        (ramp[5] - 105.0 / 255.0).abs() < 1e-6 && (ramp[6] - 125.0 / 255.0).abs() < 1e-6,
        "{:?}",
        &ramp[..12]
    );

    std::fs::write(model.join("preprocessor_config.json"), r#"{"size": {"shortest_edge": 8}}"#).unwrap();
    let (problem, _) = complaint(&["trace", text(&model), "--image", text(&picture), "-o", text(&out)]);
    assert!(problem.contains("which is not implemented"), "{problem}");
    std::fs::write(&picture, b"\x89PNG\r\n\x1a\nnothing").unwrap();
    let (problem, _) = complaint(&["trace", text(&model), "--image", text(&picture), "-o", text(&out)]);
    assert!(problem.contains("is not a PNG"), "{problem}");
}
