//! `heads`, `ablate` and `influence` on a model of every family: the golden models, with a vocabulary of twenty words.

use crate::checkpoints::made::regard;
use regard_nn::checkpoint;
use regard_nn::tokens::{Tokenizer, WordSettings};
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use tempfile::tempdir;

const TEXTS: [&str; 4] =
    ["the cat sat on a mat", "a dog ran and the cat sat", "it was not good", "the film was bad"];

/// Writes a golden model as a folder, with a tokenizer if it reads text. Returns its type and class.
fn write(golden: &Path, folder: &Path) -> Option<(String, String)> {
    let bytes = std::fs::read(golden).unwrap();
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    let config: Value = serde_json::from_str(header.metadata().as_ref()?.get("config")?).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let weights: Vec<(String, TensorView)> = tensors
        .tensors()
        .into_iter()
        .filter_map(|(name, view)| Some((name.strip_prefix("weights/")?.to_owned(), view)))
        .collect();
    std::fs::create_dir_all(folder).unwrap();
    safetensors::serialize_to_file(weights, None, &folder.join("model.safetensors")).unwrap();
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    if config.get("vocab_size").is_some() {
        let settings = WordSettings { maximum: 20, mask: true, ..WordSettings::default() };
        let tokenizer = Tokenizer::words(TEXTS, &settings).unwrap();
        tokenizer.save(folder.join("tokenizer.json")).unwrap();
        std::fs::write(folder.join("tokenizer_config.json"), tokenizer.configuration_json()).unwrap();
    }
    Some((config["model_type"].as_str()?.to_owned(), config["architectures"][0].as_str()?.to_owned()))
}

/// The golden models: one for each family and kind of head.
fn models() -> BTreeMap<(String, String), PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../regard-nn/tests/golden/models");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let scratch = tempdir().unwrap();
    let mut found = BTreeMap::new();
    for path in paths {
        if let Some(kind) = write(&path, scratch.path()) {
            found.entry(kind).or_insert(path);
        }
    }
    found
}

/// What a class of models cannot do with some command, if anything: the message says why.
fn lacks(class: &str, command: &str) -> Option<&'static str> {
    let ends = |ends: &[&str]| ends.iter().any(|end| class.ends_with(end));
    match command {
        "ablate" if ends(&["ForQuestionAnswering"]) => Some("has no loss without questions"),
        "ablate" if ends(&["Model", "WithProjection"]) && !ends(&["LMHeadModel", "MTModel"]) => {
            Some("has no loss to measure")
        }
        "influence" if ends(&["ForQuestionAnswering"]) => Some("answers with a part of a passage"),
        "influence" if class.starts_with("CLIP") || class.starts_with("Siglip") => {
            Some("answers with a vector")
        }
        "influence" if ends(&["Model"]) && !ends(&["LMHeadModel", "MTModel"]) => {
            Some("has no head that answers anything")
        }
        _ => None,
    }
}

#[test]
fn heads_of_every_family_are_measured() {
    analyse("heads");
}

#[test]
fn heads_of_every_family_are_ablated_or_the_reason_is_given() {
    analyse("ablate");
}

#[test]
fn predictions_of_every_family_are_explained_or_the_reason_is_given() {
    analyse("influence");
}

/// Runs a command on a model of every family.
fn analyse(command: &str) {
    let folder = tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("lines.txt"), TEXTS.join("\n")).unwrap();
    let rows: Vec<String> =
        TEXTS.iter().enumerate().map(|(i, text)| format!("{text}\tLABEL_{}", i % 3)).collect();
    std::fs::write(here.join("table.tsv"), format!("sentence\tlabel\n{}\n", rows.join("\n"))).unwrap();
    let mut seen = BTreeSet::new();
    for ((kind, class), golden) in models() {
        let model = here.join(&class);
        write(&golden, &model);
        let config = checkpoint::read_config(&model).unwrap();
        let corpus = match config.get("image_size") {
            Some(size) => picture(here, size),
            None if class.ends_with("ForSequenceClassification") => "table.tsv".to_owned(),
            None => "lines.txt".to_owned(),
        };
        let out = format!("out/{class}");
        let arguments = [command, &class, "--corpus", &corpus, "--limit", "4", "-o", &out];
        let output = regard(&arguments).current_dir(here).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        match lacks(&class, command) {
            None => assert!(output.status.success(), "{command} {kind} {class}: {said}"),
            Some(reason) => {
                assert_eq!(output.status.code(), Some(1), "{command} {kind} {class}: {said}");
                assert!(said.contains(reason) && said.lines().count() == 1, "{command} {class}: {said}");
            }
        }
        seen.insert(kind);
    }
    for kind in checkpoint::families() {
        assert!(seen.contains(kind), "no golden model of type {kind}");
    }
}

/// Two pictures of a size, in a folder.
fn picture(here: &Path, size: &Value) -> String {
    let side = |at: usize| size.get(at).unwrap_or(size).as_u64().unwrap() as u32;
    let name = format!("pictures-{}-{}", side(0), side(1));
    let folder = here.join(&name);
    std::fs::create_dir_all(&folder).unwrap();
    for number in 0..2_u32 {
        let file = std::fs::File::create(folder.join(format!("{number}.png"))).unwrap();
        let mut encoder = png::Encoder::new(file, side(1), side(0));
        encoder.set_color(png::ColorType::Rgb);
        let pixels: Vec<u8> =
            (0..side(0) * side(1) * 3).map(|i| (i * (37 + number * 20) % 251) as u8).collect();
        encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
    }
    name
}
