//! Files that mean harm: whatever is changed in them, opening ends in a model or in an error, soon and in little memory.
//!
//! `REGARD_FUZZ=100000` tries that many of each kind; `records/fuzzing.md` says what was tried at full size.

use super::{gguf as gguf_files, import, made};
use crate::mutation::{LONGEST, attack, count, mutate, report};
use regard_nn::checkpoint::{self, StoredWeights, gguf, llama2c};
use regard_nn::tensor::random::Key;
use regard_nn::tokens::Tokenizer;
use std::path::Path;
use std::time::Instant;
use tempfile::tempdir;

#[test]
fn configurations() {
    for (name, make) in [
        ("gpt2", (|folder| made::gpt(folder, 1)) as fn(&Path)),
        ("t5", made::t5),
        ("bert", made::bert),
        ("vit", made::vit),
    ] {
        let folder = tempdir().unwrap();
        make(folder.path());
        attack(name, &folder.path().join("config.json"), || checkpoint::load(folder.path()).is_ok());
    }
}

#[test]
fn weights() {
    let folder = tempdir().unwrap();
    made::gpt(folder.path(), 1);
    let path = folder.path().join("model.safetensors");
    // Mostly the header: elsewhere any bytes are weights.
    let bytes = std::fs::read(&path).unwrap();
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let open = || checkpoint::load(folder.path()).is_ok();
    assert!(open());
    for case in 0..count() {
        let mut bad = mutate(&bytes[..header], Key::new(case).site("header"));
        bad.extend_from_slice(&bytes[header..]);
        if case % 4 == 0 {
            // A header as long as it says.
            let length = (bad.len() - (bytes.len() - header)).saturating_sub(8) as u64;
            bad.splice(..8.min(bad.len()), length.to_le_bytes());
        }
        std::fs::write(&path, &bad).unwrap();
        let before = Instant::now();
        open();
        assert!(before.elapsed() < LONGEST, "case {case}");
    }
    report("safetensors header", count());
}

#[test]
fn indices_of_shards() {
    let folder = tempdir().unwrap();
    made::gpt(folder.path(), 1);
    std::fs::rename(folder.path().join("model.safetensors"), folder.path().join("part-1.safetensors"))
        .unwrap();
    let path = folder.path().join("model.safetensors.index.json");
    let index = r#"{"metadata": {"total_size": 12345}, "weight_map": {"transformer.wte.weight": "part-1.safetensors"}}"#;
    std::fs::write(&path, index).unwrap();
    attack("index", &path, || checkpoint::load(folder.path()).is_ok());
    for climbing in ["../part-1.safetensors", "/etc/passwd", "a/../../b", "..", ""] {
        std::fs::write(&path, format!(r#"{{"weight_map": {{"x": {climbing:?}}}}}"#)).unwrap();
        let problem = StoredWeights::open(folder.path()).err().map(|error| error.to_string()).unwrap();
        assert!(problem.contains("outside its folder"), "{problem}");
    }
}

#[test]
fn tokenizers() {
    let folder = tempdir().unwrap();
    made::gpt(folder.path(), 1);
    attack("tokenizer", &folder.path().join("tokenizer.json"), || {
        Tokenizer::from_folder(folder.path()).is_ok()
    });
}

#[test]
fn llama2c_models() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("model.bin");
    std::fs::write(&path, import::model(true)).unwrap();
    let good = std::fs::read(&path).unwrap();
    assert!(llama2c::read_model(&path).is_ok());
    for case in 0..count() {
        // Mostly the header.
        let mut bad = mutate(&good[..28], Key::new(case).site("llama2c"));
        bad.extend_from_slice(&good[28..]);
        std::fs::write(&path, &bad).unwrap();
        let before = Instant::now();
        let _ = llama2c::read_model(&path);
        assert!(before.elapsed() < LONGEST, "case {case}");
    }
    report("llama2c model", count());
}

#[test]
fn llama2c_tokenizers() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("tokenizer.bin");
    std::fs::write(&path, import::tokenizer()).unwrap();
    attack("llama2c tokenizer", &path, || llama2c::read_tokenizer(&path, import::vocabulary()).is_ok());
}

/// GGUF files: mostly their header, which has settings, vocabulary and table, and is most of a small file.
#[test]
fn gguf_models() {
    let folder = tempdir().unwrap();
    let (path, out) = (folder.path().join("model.gguf"), folder.path().join("out"));
    for name in ["gemma2.gguf", "qwen3.gguf"] {
        let good = std::fs::read(gguf_files::golden(name)).unwrap();
        let tensors = good.windows(17).position(|window| window == b"token_embd.weight").unwrap() + 4_000;
        std::fs::write(&path, &good).unwrap();
        let convert = || gguf::convert(&path, &out, gguf::WeightType::F32).is_ok();
        assert!(convert());
        for case in 0..count() {
            let mut bad = mutate(&good[..tensors], Key::new(case).site(name));
            bad.extend_from_slice(&good[tensors..]);
            std::fs::write(&path, &bad).unwrap();
            let before = Instant::now();
            if convert() {
                // It may still be no model, or one of other values.
                let _ = checkpoint::load(&out);
            }
            assert!(before.elapsed() < LONGEST, "{name}, case {case}");
        }
        report(name, count());
    }
}

#[test]
fn a_deep_configuration_is_an_error() {
    let folder = tempdir().unwrap();
    made::gpt(folder.path(), 1);
    let path = folder.path().join("config.json");
    std::fs::write(&path, "[".repeat(1_000_000)).unwrap();
    assert!(checkpoint::load(folder.path()).is_err());
    std::fs::write(&path, format!("{}1{}", r#"{"a":"#.repeat(100_000), "}".repeat(100_000))).unwrap();
    assert!(checkpoint::load(folder.path()).is_err());
}

#[test]
fn a_tokenizer_of_another_model_is_noticed() {
    let folder = tempdir().unwrap();
    made::gpt_of(folder.path(), 100, 1);
    let (problem, code) = made::complaint(&["generate", made::text(folder.path()), "The"]);
    assert!(code == 1 && problem.contains("table has 100 rows: they do not belong together"), "{problem}");
}

#[test]
fn absurd_sizes_are_an_error_and_cost_nothing() {
    let folder = tempdir().unwrap();
    made::gpt(folder.path(), 1);
    let path = folder.path().join("config.json");
    let good = std::fs::read_to_string(&path).unwrap();
    for key in ["vocab_size", "n_positions", "n_layer", "n_head", "n_embd", "n_inner"] {
        for absurd in ["0", "2000000000", "18446744073709551615", "-3", "1.5"] {
            let mut config: serde_json::Value = serde_json::from_str(&good).unwrap();
            config[key] = serde_json::from_str(absurd).unwrap();
            std::fs::write(&path, config.to_string()).unwrap();
            let before = Instant::now();
            assert!(checkpoint::load(folder.path()).is_err(), "{key} = {absurd}");
            assert!(before.elapsed() < LONGEST);
        }
    }
}
