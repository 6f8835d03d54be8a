//! `regard import gguf`, against the package that writes such files and against transformers (`tools/golden_gguf.py`).

use super::made::{complaint, regard, said, text};
use regard_nn::Context;
use regard_nn::checkpoint::{self, StoredWeights, gguf};
use regard_nn::models::Inputs;
use regard_nn::tensor::Ids;
use regard_nn::tokens::{Special, Tokenizer};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use tempfile::tempdir;

const NAMES: [&str; 7] = ["llama", "llama3", "qwen2", "qwen3", "gemma", "gemma2", "gemma3"];

pub fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/golden/gguf").join(name)
}

fn expected() -> Value {
    serde_json::from_str(&std::fs::read_to_string(golden("expected.json")).unwrap()).unwrap()
}

#[test]
fn values_are_those_of_the_package() {
    let mut types = std::collections::BTreeSet::new();
    for name in NAMES {
        let path = golden(&format!("{name}.gguf"));
        for (tensor, entry) in expected()[name]["tensors"].as_object().unwrap() {
            let values = gguf::read_tensor(&path, tensor).unwrap().unwrap();
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let hash = format!("{:x}", Sha256::digest(&bytes));
            assert_eq!(hash, entry[1].as_str().unwrap(), "{name}: {tensor} as {}", entry[0]);
            types.insert(entry[0].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(Vec::from_iter(types), ["BF16", "F16", "F32", "Q4_0", "Q4_K", "Q6_K", "Q8_0"]);
}

#[test]
fn converted_models_have_the_logits_of_transformers() {
    for name in NAMES {
        let (folder, case) = (tempdir().unwrap(), &expected()[name]);
        let out = folder.path().join("model");
        said(&["import", "gguf", text(&golden(&format!("{name}.gguf"))), "-o", text(&out)]);
        let model = checkpoint::load(&out).unwrap().model;
        let ids: Vec<u32> = serde_json::from_value(case["ids"].clone()).unwrap();
        let inputs = Inputs::ids(&Ids::new(&ids, [1, ids.len()]).unwrap());
        let logits = model.forward_last(&Context::inference(), &inputs).unwrap().to_vec();
        let wanted: Vec<f32> = serde_json::from_value(case["logits"].clone()).unwrap();
        assert_eq!(logits.len(), wanted.len(), "{name}");
        let largest = wanted.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
        let differs = logits.iter().zip(&wanted).fold(0.0_f32, |most, (a, b)| most.max((a - b).abs()));
        assert!(differs <= 1e-5 * largest, "{name}: {differs} of {largest}");
    }
}

#[test]
fn converted_tokenizers_encode_as_the_original() {
    for name in NAMES {
        let (folder, case) = (tempdir().unwrap(), &expected()[name]);
        let out = folder.path().join("model");
        said(&["import", "gguf", text(&golden(&format!("{name}.gguf"))), "-o", text(&out)]);
        let tokenizer = Tokenizer::from_folder(&out).unwrap();
        for pair in case["texts"].as_array().unwrap() {
            let (text, ids): (String, Vec<u32>) = serde_json::from_value(pair.clone()).unwrap();
            let found = tokenizer.encode(&text, Special::Keep).unwrap().ids;
            assert_eq!(
                found,
                ids,
                "{name}: {text:?}, as {:?}",
                tokenizer.encode(&text, Special::Keep).unwrap().pieces
            );
            if !text.contains("<s>") {
                assert_eq!(tokenizer.decode(&found, Special::Drop).unwrap(), text, "{name}");
            }
        }
        let settings: Value =
            serde_json::from_str(&std::fs::read_to_string(out.join("tokenizer_config.json")).unwrap())
                .unwrap();
        assert_eq!(settings["chat_template"], "{{ messages[0].content }}");
        assert!(said(&["generate", text(&out), "The cat", "--chat", "-n", "3"]).ends_with('\n'));
    }
}

#[test]
fn quantised_weights_are_widened_with_a_notice() {
    let folder = tempdir().unwrap();
    let run = |name: &str, kind: &str, out: &Path| {
        let file = golden(name);
        let arguments = ["import", "gguf", text(&file), "--type", kind, "-o", text(out)];
        let output = regard(&arguments).assert().success().get_output().clone();
        String::from_utf8(output.stderr).unwrap()
    };
    let (exact, rounded) = (folder.path().join("exact"), folder.path().join("rounded"));
    let notice = run("llama.gguf", "f32", &exact);
    assert!(notice.contains("widened, without loss") && notice.contains("now mostly float32"), "{notice}");
    let notice = run("llama.gguf", "bf16", &rounded);
    assert!(notice.contains("rounded to the nearest") && notice.contains("now mostly bfloat16"), "{notice}");
    let plain = run("qwen2.gguf", "f32", &folder.path().join("plain"));
    assert!(!plain.contains("widened") && plain.contains("float16"), "{plain}");
    let name = "model.layers.0.mlp.up_proj.weight";
    let read = |folder: &Path| StoredWeights::open(folder).unwrap().read(name).unwrap().unwrap().to_vec();
    for (exact, rounded) in read(&exact).iter().zip(read(&rounded)) {
        assert!((exact - rounded).abs() <= exact.abs() / 256.0, "{exact} became {rounded}");
        assert_eq!(rounded.to_bits() & 0xffff, 0);
    }
    // A folder that holds a model is not written over.
    let (problem, code) = complaint(&["import", "gguf", text(&golden("llama.gguf")), "-o", text(&exact)]);
    assert!(code == 2 && problem.contains("holds a model already"), "{problem}");
}

/// The place in a file after a text.
fn after(bytes: &[u8], text: &str) -> usize {
    bytes.windows(text.len()).position(|window| window == text.as_bytes()).unwrap() + text.len()
}

#[test]
fn files_that_cannot_be_converted_are_errors_of_one_line() {
    let folder = tempdir().unwrap();
    let (path, out) = (folder.path().join("model.gguf"), folder.path().join("never"));
    let good = std::fs::read(golden("gemma2.gguf")).unwrap();
    let check = |bytes: &[u8], expected: &str| {
        std::fs::write(&path, bytes).unwrap();
        let (problem, code) = complaint(&["import", "gguf", text(&path), "-o", text(&out)]);
        assert_eq!((code, problem.lines().count()), (1, 1), "{problem}");
        assert!(problem.contains(expected), "{problem}");
        assert!(!out.exists());
    };
    let changed = |at: usize, with: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + with.len()].copy_from_slice(with);
        bytes
    };
    check(b"GGML", "is not a GGUF file");
    check(&changed(4, &9_u32.to_le_bytes()), "has version 9 of GGUF");
    check(&changed(4, &3_u32.to_be_bytes()), "the other byte order");
    check(&changed(8, &u64::MAX.to_le_bytes()), "promises 18446744073709551615 tensors");
    check(&good[..good.len() - 1], "ends before its tensor");
    check(&good[..100], "in the middle of its header");
    check(&changed(after(&good, "general.architecture") + 12, b"gemmaX"), "is a model of type \"gemmaX\"");
    // The type of a tensor follows its two lengths.
    check(
        &changed(after(&good, "token_embd.weight") + 20, &13_u32.to_le_bytes()),
        "as Q5_K, which is not supported",
    );
    check(&changed(after(&good, "tokenizer.ggml.model") + 12, b"lla.a"), "has a tokenizer of type \"lla.a\"");
    check(&changed(after(&good, "blk.1.ffn_up.weight") - 3, b"xxx"), "which has no place in a gemma2 model");
}
