//! `regard trace` and `regard verify`.

use super::made::{complaint, gpt, said, t5, text, tokenizer, vit};
use regard_nn::checkpoint::{self, StoredWeights};
use regard_nn::models::Inputs;
use regard_nn::tensor::Ids;
use regard_nn::tokens::Special;
use regard_nn::{Context, Probe};
use serde_json::Value;
use std::collections::BTreeMap;
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

/// A corpus of ten lines; the third is empty and is no text.
const LINES: &str = "The cat sat.\nA dög\n\nThe mat was flat and the cat was fat.\nx\nThe rat\nA bat sat.\nCats.\nThe end is near.\nThe\n";

#[test]
fn a_cache_has_what_single_traces_have() {
    let folder = tempdir().unwrap();
    let (model, corpus, out) =
        (folder.path().join("model"), folder.path().join("lines.txt"), folder.path().join("cache"));
    gpt(&model, 1);
    std::fs::write(&corpus, LINES).unwrap();
    let sites = ["layers.*.residual.after", "layers.1.self.weights", "layers.*.self.heads", "logits"];
    let named: Vec<&str> = sites.iter().flat_map(|site| ["--site", site]).collect();
    let arguments = ["trace", text(&model), "--corpus", text(&corpus), "--batch", "4", "-o", text(&out)];
    said(&[&arguments[..], &named].concat());
    let index: Value =
        serde_json::from_str(&std::fs::read_to_string(out.join("index.json")).unwrap()).unwrap();
    assert_eq!((&index["complete"], &index["texts"]), (&Value::from(true), &Value::from(9)));
    assert_eq!(index["sites"]["layers.0.self.heads"]["shape"], serde_json::json!([2, 8]));
    let shard = StoredWeights::from_files(&[&out.join("activations-00000.safetensors")]).unwrap();
    let whole = |name: &str| shard.read_ids(name).unwrap().unwrap().values().to_vec();
    let (offsets, pairs, ids) = (whole("token_offsets"), whole("pair_offsets"), whole("ids"));
    assert_eq!(whole("texts"), (0..9).collect::<Vec<u32>>());
    let lines = LINES.lines().filter(|line| !line.is_empty());
    for (number, line) in lines.enumerate() {
        let single = folder.path().join("single.safetensors");
        said(&[&["trace", text(&model), "--text", line, "-o", text(&single)], &named[..]].concat());
        let single = StoredWeights::from_files(&[&single]).unwrap();
        let (from, to) = (offsets[number] as usize, offsets[number + 1] as usize);
        assert_eq!(&ids[from..to], single.read_ids("inputs/ids").unwrap().unwrap().values());
        for site in single.names().filter(|name| !name.starts_with("inputs/")) {
            let expected = single.read(site).unwrap().unwrap();
            let cached = shard.read(site).unwrap().unwrap();
            let found = match site.ends_with("weights") {
                true => {
                    let count = (pairs[number + 1] - pairs[number]) as usize;
                    cached.slice(1, pairs[number] as usize, count).unwrap()
                }
                false => cached.slice(0, from, to - from).unwrap(),
            };
            assert_eq!(found.count(), expected.count(), "{site}");
            for (found, expected) in found.to_vec().iter().zip(expected.to_vec()) {
                assert!((found - expected).abs() < 2e-5, "{site} of {line:?}: {found} and {expected}");
            }
        }
    }
}

/// The bytes of all files of a folder.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect()
}

#[test]
fn a_cache_goes_on_where_it_was_killed() {
    let folder = tempdir().unwrap();
    let (model, corpus) = (folder.path().join("model"), folder.path().join("lines.txt"));
    gpt(&model, 1);
    // About 2.4 MB of weights, in shards of one.
    let lines: Vec<String> =
        (0..40).map(|i| format!("The cat number {i} sat on the mat number {}.", i * 7)).collect();
    std::fs::write(&corpus, lines.join("\n")).unwrap();
    let run = |out: &Path, more: &[&str]| {
        let arguments =
            ["trace", text(&model), "--corpus", text(&corpus), "--shard-size", "1", "-o", text(out)];
        [&arguments[..], &["--site", "layers.*.*.*", "--batch", "3"], more]
            .concat()
            .iter()
            .map(|a| (*a).to_owned())
            .collect::<Vec<_>>()
    };
    let call = |arguments: &[String]| said(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let (whole, cut) = (folder.path().join("whole"), folder.path().join("cut"));
    call(&run(&whole, &[]));
    let expected = contents(&whole);
    assert!(expected.len() > 3, "{:?}", expected.keys());
    // What a kill leaves: some shards with their index, one shard that the index does not have yet, and a file half written.
    call(&run(&cut, &[]));
    let mut index: Value = serde_json::from_slice(&expected["index.json"]).unwrap();
    let first = index["shards"][0].clone();
    index["complete"] = Value::from(false);
    for key in ["texts", "tokens"] {
        index[key] = first[key].clone();
    }
    index["total_size"] = first["bytes"].clone();
    index["shards"] = Value::from(vec![first]);
    for files in index["weight_map"].as_object_mut().unwrap().values_mut() {
        files.as_array_mut().unwrap().truncate(1);
    }
    std::fs::write(cut.join("index.json"), index.to_string()).unwrap();
    std::fs::write(cut.join("activations-00001.safetensors"), "half").unwrap();
    call(&run(&cut, &[]));
    assert!(contents(&cut) == expected, "a continued cache differs");
    // Nothing is done twice, and other settings are not mixed in.
    call(&run(&cut, &[]));
    assert!(contents(&cut) == expected);
    let other = run(&cut, &["--limit", "7"]);
    let (problem, code) = complaint(&other.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(code == 1 && problem.contains("holds a cache of other texts"), "{problem}");
}

#[test]
fn sites_are_listed() {
    let folder = tempdir().unwrap();
    gpt(folder.path(), 1);
    let listed = said(&["trace", text(folder.path()), "--list-sites"]);
    let has = |name: &str| listed.lines().any(|line| line.split_whitespace().next() == Some(name));
    for site in ["embeddings", "layers.*.residual.after", "layers.*.self.weights", "logits"] {
        assert!(has(site), "{site} in {listed}");
    }
    assert!(listed.contains("0 to 1"), "{listed}");
    let encoder = folder.path().join("t5");
    t5(&encoder);
    assert!(said(&["trace", text(&encoder), "--list-sites"]).contains("decoder.layers.*.cross.weights"));
    let picture = folder.path().join("vit");
    vit(&picture);
    assert!(said(&["trace", text(&picture), "--list-sites"]).contains("layers.*.self.weights"));
    assert_eq!(complaint(&["trace", text(&picture), "--corpus", "built-in", "-o", "never"]).1, 2);
    let cache = folder.path().join("cache");
    let arguments = ["trace", text(&encoder), "--corpus", "built-in", "--limit", "5", "-o", text(&cache)];
    said(&arguments);
    assert!(contents(&cache).contains_key("activations-00000.safetensors"));
    assert_eq!(complaint(&[&arguments[..], &["--site", "decoder.layers.0.residual.after"]].concat()).1, 2);
}
