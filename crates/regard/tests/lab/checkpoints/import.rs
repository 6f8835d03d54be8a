//! `regard import llama2c`.

use super::made::{complaint, said, text};
use proptest::prelude::*;
use regard_nn::checkpoint::{self, StoredWeights, llama2c};
use regard_nn::tensor::Tensor;
use regard_nn::tokens::{Special, Tokenizer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use tempfile::tempdir;

const WIDTH: usize = 8;
const HIDDEN: usize = 6;
const LAYERS: usize = 2;
const HEADS: usize = 2;
const KV_HEADS: usize = 1;
const CONTEXT: usize = 16;

/// Pieces after the three special ones and the bytes, the better the earlier, save a tie.
const PIECES: [&str; 16] =
    [" ", "a", "b", "c", "é", "ab", "bc", " a", "abc", "ca", " ab", "éa", "cab", "abab", " abc", "ba"];

pub fn vocabulary() -> usize {
    259 + PIECES.len()
}

/// A model whose every value is its own place in the file, in thousandths.
pub fn model(tied: bool) -> Vec<u8> {
    let size = vocabulary() as i32 * if tied { 1 } else { -1 };
    let header =
        [WIDTH as i32, HIDDEN as i32, LAYERS as i32, HEADS as i32, KV_HEADS as i32, size, CONTEXT as i32];
    let (keys, head) = (WIDTH / HEADS * KV_HEADS, WIDTH / HEADS);
    let layer = 2 * WIDTH + 2 * WIDTH * WIDTH + 2 * keys * WIDTH + 3 * HIDDEN * WIDTH;
    let tables = if tied { 1 } else { 2 } * vocabulary() * WIDTH;
    let count = tables + LAYERS * layer + WIDTH + CONTEXT * head;
    let values = (0..count).flat_map(|place| (place as f32 / 1000.0).to_le_bytes());
    header.iter().flat_map(|number| number.to_le_bytes()).chain(values).collect()
}

pub fn tokenizer() -> Vec<u8> {
    let special = ["<unk>", "\n<s>\n", "\n</s>\n"].map(str::to_owned).into_iter();
    let bytes = (0..256).map(|byte| format!("<0x{byte:02X}>"));
    let all = special.chain(bytes).chain(PIECES.map(str::to_owned));
    let piece = |(id, text): (usize, String)| {
        let score = if id < 259 { 0.0 } else { scores(id - 259) };
        [&score.to_le_bytes()[..], &(text.len() as i32).to_le_bytes(), text.as_bytes()].concat()
    };
    27_i32.to_le_bytes().into_iter().chain(all.enumerate().flat_map(piece)).collect()
}

fn scores(piece: usize) -> f32 {
    // "ca" is as good as "abc".
    -(if PIECES[piece] == "ca" { piece - 1 } else { piece } as f32)
}

/// llama2.c's way, as its source has it: of all neighbours whose union is a piece, join the best, the first of equals.
fn encode(text: &str) -> Vec<u32> {
    let id = |text: &str| PIECES.iter().position(|piece| *piece == text);
    let mut pieces: Vec<Result<usize, u8>> = Vec::new();
    if !text.is_empty() {
        pieces.push(Ok(0));
    }
    for character in text.chars() {
        match id(&character.to_string()) {
            Some(piece) => pieces.push(Ok(piece)),
            None => pieces.extend(character.to_string().bytes().map(Err)),
        }
    }
    loop {
        let mut best: Option<(f32, usize, usize)> = None;
        for place in 1..pieces.len() {
            let (Ok(left), Ok(right)) = (pieces[place - 1], pieces[place]) else { continue };
            let Some(union) = id(&[PIECES[left], PIECES[right]].concat()) else { continue };
            if best.is_none_or(|(score, _, _)| scores(union) > score) {
                best = Some((scores(union), place - 1, union));
            }
        }
        let Some((_, place, union)) = best else { break };
        pieces[place] = Ok(union);
        pieces.drain(place + 1..place + 2);
    }
    let ids = pieces.iter().map(|piece| match piece {
        Ok(piece) => 259 + *piece as u32,
        Err(byte) => 3 + u32::from(*byte),
    });
    [1].into_iter().chain(ids).collect()
}

fn imported(folder: &Path, tied: bool) -> std::path::PathBuf {
    let (file, pieces, out) = (folder.join("model.bin"), folder.join("tokenizer.bin"), folder.join("model"));
    std::fs::write(&file, model(tied)).unwrap();
    std::fs::write(&pieces, tokenizer()).unwrap();
    said(&["import", "llama2c", text(&file), "--tokenizer", text(&pieces), "-o", text(&out)]);
    out
}

#[test]
fn every_weight_is_in_its_place() {
    for tied in [true, false] {
        let folder = tempdir().unwrap();
        let out = imported(folder.path(), tied);
        checkpoint::load(&out).unwrap();
        let weights = StoredWeights::open(&out).unwrap();
        let first = |name: &str| (weights.read(name).unwrap().unwrap().values()[0] * 1000.0).round() as usize;
        let table = vocabulary() * WIDTH;
        assert_eq!(first("model.embed_tokens.weight"), 0);
        assert_eq!(first("model.layers.1.input_layernorm.weight"), table + WIDTH);
        let queries = table + LAYERS * WIDTH;
        let keys = queries + LAYERS * WIDTH * WIDTH;
        assert_eq!(first("model.layers.1.self_attn.k_proj.weight"), keys + WIDTH * WIDTH / 2);
        let output = keys + 2 * LAYERS * WIDTH * WIDTH / 2;
        assert_eq!(first("model.layers.0.self_attn.o_proj.weight"), output);
        let gate = output + LAYERS * WIDTH * WIDTH + LAYERS * WIDTH;
        assert_eq!(first("model.layers.0.mlp.gate_proj.weight"), gate);
        assert_eq!(first("model.layers.0.mlp.down_proj.weight"), gate + LAYERS * HIDDEN * WIDTH);
        assert_eq!(first("model.layers.1.mlp.up_proj.weight"), gate + (2 * LAYERS + 1) * HIDDEN * WIDTH);
        let norm = gate + 3 * LAYERS * HIDDEN * WIDTH;
        assert_eq!(first("model.norm.weight"), norm);
        assert_eq!(weights.contains("lm_head.weight"), !tied);
        if !tied {
            assert_eq!(first("lm_head.weight"), norm + WIDTH + CONTEXT * WIDTH / HEADS);
        }
        // Rows 0, 1, 2, 3 of a head are pairs (0, 1) and (2, 3); here the first of each come first.
        let rows = weights.read("model.layers.0.self_attn.q_proj.weight").unwrap().unwrap().to_vec();
        let order: Vec<usize> =
            rows.chunks(WIDTH).map(|row| ((row[0] * 1000.0).round() as usize - queries) / WIDTH).collect();
        assert_eq!(order, [0, 2, 1, 3, 4, 6, 5, 7]);
    }
}

#[test]
fn an_imported_model_speaks() {
    let folder = tempdir().unwrap();
    let out = imported(folder.path(), false);
    assert!(said(&["generate", text(&out), "abc é!", "--greedy", "-n", "3"]).starts_with("abc é!"));
    let weights = StoredWeights::open(&out).unwrap();
    assert_eq!(weights.shape("model.embed_tokens.weight"), Some(&[vocabulary(), WIDTH][..]));
}

/// A tokenizer of 105 pieces: three special ones, printable characters, and some pairs, without a piece for any byte.
fn small_tokenizer() -> Vec<u8> {
    let special = ["<unk>", "\n<s>\n", "\n</s>\n"].map(str::to_owned).into_iter();
    let characters = (b' '..=b'~').map(|byte| char::from(byte).to_string());
    let pairs = ["th", "he", " t", " th", " the", "an", "é"].map(str::to_owned);
    let all: Vec<String> = special.chain(characters).chain(pairs).collect();
    assert_eq!(all.len(), 105);
    let piece = |(id, text): (usize, &String)| {
        let score = -(id as f32);
        [&score.to_le_bytes()[..], &(text.len() as i32).to_le_bytes(), text.as_bytes()].concat()
    };
    7_i32.to_le_bytes().into_iter().chain(all.iter().enumerate().flat_map(piece)).collect()
}

#[test]
fn tokenizers_without_byte_pieces_open() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("tok105.bin");
    std::fs::write(&path, small_tokenizer()).unwrap();
    let tokenizer = llama2c::read_tokenizer(&path, 105).unwrap();
    let ids = |text: &str| tokenizer.encode(text, Special::Keep).unwrap().ids;
    // Start, " ", "a"; characters that are no pieces are unknown, however many bytes they have.
    assert_eq!(ids("a"), [1, 3, 3 + u32::from(b'a' - b' ')]);
    assert_eq!(ids("a\n"), [1, 3, 3 + u32::from(b'a' - b' '), 0]);
    assert_eq!(ids("é"), [1, 3, 104]);
    // "th" has the best score, then " t" would, but its "t" is gone; " th" joins " " and "th", " the" comes last.
    assert_eq!(ids("the"), [1, 102]);
    assert_eq!(tokenizer.decode(&ids("then, éa!"), Special::Drop).unwrap(), "then, éa!");
    // Some bytes are as wrong as they were.
    let bytes = tokenizer_with(&["<0x00>", "a"]);
    std::fs::write(&path, bytes).unwrap();
    let problem = llama2c::read_tokenizer(&path, 5).unwrap_err().to_string();
    assert!(problem.contains("where the piece <0x01> was expected"), "{problem}");
}

/// The special pieces, then some others.
fn tokenizer_with(others: &[&str]) -> Vec<u8> {
    let piece = |text: &&str| {
        [&0_f32.to_le_bytes()[..], &(text.len() as i32).to_le_bytes(), text.as_bytes()].concat()
    };
    let special = ["<unk>", "\n<s>\n", "\n</s>\n"];
    7_i32.to_le_bytes().into_iter().chain(special.iter().chain(others).flat_map(piece)).collect()
}

#[test]
fn headers_that_lie_are_rejected() {
    let folder = tempdir().unwrap();
    let (file, pieces) = (folder.path().join("model.bin"), folder.path().join("tokenizer.bin"));
    std::fs::write(&pieces, tokenizer()).unwrap();
    let import =
        || complaint(&["import", "llama2c", text(&file), "--tokenizer", text(&pieces), "-o", "never"]);
    let good = model(true);
    for length in [0, 1, 27, 28, good.len() - 1] {
        std::fs::write(&file, &good[..length]).unwrap();
        let (problem, code) = import();
        assert_eq!((code, problem.lines().count()), (1, 1), "{length}: {problem}");
    }
    for number in 0..7 {
        for value in [0, -1, 3, i32::MIN, i32::MAX, 1 << 24] {
            let mut bad = good.clone();
            bad[4 * number..4 * number + 4].copy_from_slice(&value.to_le_bytes());
            std::fs::write(&file, &bad).unwrap();
            let problem = llama2c::read_model(&file).unwrap_err().to_string();
            assert!(problem.contains("model.bin"), "{problem}");
        }
    }
    let mut later = good;
    later[..4].copy_from_slice(&0x616b_3432_u32.to_le_bytes());
    std::fs::write(&file, &later).unwrap();
    assert!(import().0.contains("version 0 can be read"));
    assert!(!Path::new("never").exists());
}

fn read_tokenizer() -> Tokenizer {
    let folder = tempdir().unwrap();
    let path = folder.path().join("tokenizer.bin");
    std::fs::write(&path, tokenizer()).unwrap();
    llama2c::read_tokenizer(&path, vocabulary()).unwrap()
}

proptest! {
    #[test]
    fn texts_are_encoded_as_llama2c_does(texts in prop::collection::vec("[abc é]{0,12}|\\PC{0,6}", 20)) {
        let tokenizer = read_tokenizer();
        for text in texts {
            let got = tokenizer.encode(&text, Special::Keep).unwrap().ids;
            prop_assert_eq!(&got, &encode(&text), "{:?}", text);
            prop_assert_eq!(tokenizer.decode(&got, Special::Drop).unwrap(), text);
        }
    }
}

/// The weights and the configuration of a golden model.
fn golden_model(name: &str) -> (BTreeMap<String, Tensor>, Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../regard-nn/tests/golden/models/{name}.safetensors"));
    let file = StoredWeights::from_files(&[&path]).unwrap();
    let weights = file.names().filter_map(|name| {
        let own = name.strip_prefix("weights/")?;
        Some((own.to_owned(), file.read(name).unwrap()?))
    });
    (weights.collect(), serde_json::from_str(file.metadata("config").unwrap()).unwrap())
}

#[test]
fn combined_models_become_two_towers() {
    for (kind, width) in [("clip", Some("projection_dim")), ("siglip", None)] {
        let folder = tempdir().unwrap();
        let (whole, out) = (folder.path().join("whole"), folder.path().join("towers"));
        std::fs::create_dir_all(&whole).unwrap();
        let mut config = serde_json::json!({"model_type": kind, "architectures": ["Model"]});
        let mut all = BTreeMap::from([("logit_scale".to_owned(), Tensor::new(&[2.0], [1]).unwrap())]);
        for tower in ["text", "vision"] {
            let (weights, own) = golden_model(&format!("{kind}-{tower}"));
            if let Some(width) = width {
                config[width] = own[width].clone();
            }
            let named = |name: String| match name.contains("_model.") || name.contains("_projection.") {
                true => name,
                false => format!("{tower}_model.{name}"),
            };
            all.extend(weights.into_iter().map(|(name, tensor)| (named(name), tensor)));
            config[format!("{tower}_config")] = own;
        }
        checkpoint::write_tensors(&whole.join("model.safetensors"), &all, &[]).unwrap();
        std::fs::write(whole.join("config.json"), config.to_string()).unwrap();
        let (problem, _) = complaint(&["trace", text(&whole), "--list-sites"]);
        assert!(problem.contains("regard import towers"), "{problem}");
        said(&["import", "towers", text(&whole), "-o", text(&out)]);
        for tower in ["text", "vision"] {
            // The same values as the tower alone has.
            let alone = folder.path().join(tower);
            let (weights, own) = golden_model(&format!("{kind}-{tower}"));
            std::fs::create_dir_all(&alone).unwrap();
            checkpoint::write_tensors(&alone.join("model.safetensors"), &weights, &[]).unwrap();
            std::fs::write(alone.join("config.json"), own.to_string()).unwrap();
            let (one, other) =
                (checkpoint::load(&alone).unwrap().model, checkpoint::load(&out.join(tower)).unwrap().model);
            let (one, other) = (one.parameters(), other.parameters());
            assert_eq!(one.len(), other.len());
            for ((name, one), (_, other)) in one.iter().zip(&other) {
                assert_eq!(one.tensor().to_vec(), other.tensor().to_vec(), "{kind} {tower} {name}");
            }
        }
    }
    let folder = tempdir().unwrap();
    super::made::gpt(folder.path(), 1);
    let (problem, code) = complaint(&["import", "towers", text(folder.path()), "-o", "never"]);
    assert!(code == 1 && problem.contains("is not a model with two towers"), "{problem}");
}
