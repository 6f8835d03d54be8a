//! Files that mean harm: whatever is changed in them, opening ends in a model or in an error, soon and in little memory.
//!
//! `REGARD_FUZZ=100000` tries that many of each kind; `records/fuzzing.md` says what was tried at full size.

use super::{import, made};
use regard_nn::checkpoint::{self, StoredWeights, llama2c};
use regard_nn::tensor::random::Key;
use regard_nn::tokens::Tokenizer;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::tempdir;

/// No file takes longer to be refused.
const LONGEST: Duration = Duration::from_secs(10);

fn count() -> u64 {
    std::env::var("REGARD_FUZZ").ok().and_then(|count| count.parse().ok()).unwrap_or(150)
}

/// Numbers and texts that parsers fear.
const FEARED: [&str; 18] = [
    "0",
    "-1",
    "1e999",
    "18446744073709551615",
    "9223372036854775807",
    "2147483648",
    "4294967296",
    "null",
    "true",
    "[]",
    "{}",
    "\"\"",
    "[[[[[[[[[[[[[[[[",
    "{\"a\":",
    "\"\\ud800\"",
    "NaN",
    "0.5",
    "\"../../x\"",
];

/// One change: bytes flipped, cut, doubled, filled, a number replaced, or something feared put in.
fn mutate(bytes: &[u8], key: Key) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    for round in 0..=key.below(0, 0, 3) as u64 {
        let below = |element: u64, limit: usize| key.below(round + 1, element, limit.max(1));
        let (at, length) = (below(0, changed.len()), below(1, 40));
        let end = (at + length).min(changed.len());
        match below(2, 8) {
            0 => changed.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << below(3, 8)),
            1 => changed.truncate(at),
            2 => drop(changed.drain(at..end)),
            3 => {
                let again = changed[at..end].to_vec();
                changed.splice(at..at, again);
            }
            4 => changed[at..end].fill([0, 0xff, 0x7f, b'9'][below(3, 4)]),
            5 | 6 => replace_number(&mut changed, at, FEARED[below(3, FEARED.len())]),
            _ => drop(changed.splice(at..at, FEARED[below(3, FEARED.len())].bytes())),
        }
    }
    changed
}

/// Puts a text in the place of the next number.
fn replace_number(bytes: &mut Vec<u8>, from: usize, text: &str) {
    let Some(start) = (from..bytes.len()).find(|&i| bytes[i].is_ascii_digit()) else { return };
    let end = (start..bytes.len()).find(|&i| !bytes[i].is_ascii_digit()).unwrap_or(bytes.len());
    bytes.splice(start..end, text.bytes());
}

/// Tries mutations of one file; at least some of them must be refused, or nothing was tested.
fn attack(name: &str, path: &Path, open: impl Fn() -> bool) {
    let good = std::fs::read(path).unwrap();
    assert!(open(), "{name} is fine as it is");
    let mut refused = 0;
    for case in 0..count() {
        let bad = mutate(&good, Key::new(case).site(name));
        std::fs::write(path, &bad).unwrap();
        let before = Instant::now();
        refused += u64::from(!open());
        assert!(before.elapsed() < LONGEST, "{name}, case {case} took {:?}", before.elapsed());
    }
    std::fs::write(path, good).unwrap();
    assert!(refused > count() / 10, "{name}: {refused} of {} refused", count());
}

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
}

#[test]
fn llama2c_tokenizers() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("tokenizer.bin");
    std::fs::write(&path, import::tokenizer()).unwrap();
    attack("llama2c tokenizer", &path, || llama2c::read_tokenizer(&path, import::vocabulary()).is_ok());
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
