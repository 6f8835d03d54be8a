//! Files that are broken, or lie: an error, no panic, and no work worth mentioning.

use crate::checkpoint_files::Folder;
use crate::zoo;
use regard_nn::checkpoint::{self, StoredWeights};
use regard_nn::tensor::random::Key;
use regard_nn::{Context, Result};
use serde_json::{Value, json};

/// Loads and, if that worked, runs what was loaded.
fn try_all(folder: &Folder) -> Result<()> {
    let model = checkpoint::load(folder.path())?.model;
    zoo::loss(&*model, &Context::inference()).map(|_| ())
}

fn weights_of(folder: &Folder) -> std::path::PathBuf {
    folder.path().join("model.safetensors")
}

#[test]
fn files_cut_short() {
    let folder = Folder::of("tagger");
    let whole = std::fs::read(weights_of(&folder)).unwrap();
    let header = u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize + 8;
    for length in [0, 1, 7, 8, 9, header / 2, header - 1, header, header + 1, whole.len() - 1] {
        std::fs::write(weights_of(&folder), &whole[..length]).unwrap();
        let error = try_all(&folder).unwrap_err().to_string();
        assert!(error.contains("model.safetensors: "), "{length}: {error}");
    }
    std::fs::write(weights_of(&folder), &whole).unwrap();
    try_all(&folder).unwrap();
    std::fs::write(weights_of(&folder), [&whole[..], &[0; 9]].concat()).unwrap();
    assert!(try_all(&folder).is_err(), "nine bytes too many");
}

/// A file with this header and so many bytes behind it.
fn with_header(folder: &Folder, header: &str, data: usize) -> String {
    let text = header.as_bytes();
    let bytes = [&(text.len() as u64).to_le_bytes()[..], text, &vec![0; data]].concat();
    std::fs::write(weights_of(folder), bytes).unwrap();
    StoredWeights::open(folder.path()).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn headers_that_lie() {
    let folder = Folder::of("bag");
    let tensor = |shape: &str, span: &str| {
        format!(r#"{{"x": {{"dtype": "F32", "shape": {shape}, "data_offsets": {span}}}}}"#)
    };
    for header in [
        tensor("[2]", "[0, 99999999999]"),
        tensor("[2]", "[8, 0]"),
        tensor("[3]", "[0, 8]"),
        tensor("[18446744073709551615, 18446744073709551615]", "[0, 8]"),
        tensor("[4611686018427387904, 4]", "[0, 0]"),
        tensor("[-1]", "[0, 8]"),
        tensor("[2]", "[4, 12]"),
        tensor("[2]", "[18446744073709551608, 18446744073709551615]"),
        "{}".to_owned() + &" ".repeat(10),
        "[]".to_owned(),
        "not json".to_owned(),
        "{\"x\": ".repeat(300),
    ] {
        let error = with_header(&folder, &header, 8);
        assert!(error.contains("model.safetensors: is not a safetensors file: "), "{header}: {error}");
    }
    // A header that claims to be longer than the file, up to all there is.
    for length in [9_u64, 1 << 40, u64::MAX] {
        std::fs::write(weights_of(&folder), [&length.to_le_bytes()[..], b"{}"].concat()).unwrap();
        assert!(StoredWeights::open(folder.path()).is_err(), "{length}");
    }
}

#[test]
fn absurd_sizes() {
    let absurd = [0, 1 << 31, 1 << 40, u64::MAX];
    for (name, keys) in [
        ("gpt", &["vocab_size", "n_positions", "n_layer", "n_head", "n_embd", "n_inner"][..]),
        (
            "bert",
            &[
                "vocab_size",
                "num_hidden_layers",
                "intermediate_size",
                "type_vocab_size",
                "max_position_embeddings",
            ],
        ),
        ("bert, like roberta", &["pad_token_id", "max_position_embeddings"]),
        ("t5", &["d_kv", "d_ff", "num_heads", "num_decoder_layers", "relative_attention_num_buckets"]),
        ("llama", &["num_key_value_heads", "head_dim", "hidden_size", "num_hidden_layers"]),
        ("vit", &["image_size", "patch_size", "num_channels"]),
    ] {
        for key in keys {
            for size in absurd {
                let mut folder = Folder::of(name);
                folder.config.insert((*key).to_owned(), json!(size));
                let text = serde_json::to_string(&folder.config).unwrap();
                std::fs::write(folder.path().join("config.json"), text).unwrap();
                // A padding token of 0 is as good as any.
                assert_eq!(
                    try_all(&folder).is_err(),
                    (*key, size) != ("pad_token_id", 0),
                    "{name}: {key} of {size}"
                );
            }
        }
    }
    for name in ["gpt, relative, learned sink", "sentiment, heads", "bag, attention", "tagger"] {
        let folder = Folder::of(name);
        let mut places = Vec::new();
        sizes(&folder.config["regard"], "", &mut places);
        assert!(places.len() > 2, "{name}: {places:?}");
        for place in places {
            for size in absurd {
                let mut config = folder.config.clone();
                *config["regard"].pointer_mut(&place).unwrap() = json!(size);
                std::fs::write(folder.path().join("config.json"), serde_json::to_string(&config).unwrap())
                    .unwrap();
                // Some sizes may be 0, and a table that is not used may have any.
                let outcome = try_all(&folder);
                assert!(
                    outcome.is_err() || size == 0 || place == "/context" || place == "/n_heads",
                    "{name}: {place} of {size}"
                );
            }
        }
    }
}

/// Where whole numbers stand in a configuration.
fn sizes(value: &Value, place: &str, found: &mut Vec<String>) {
    match value {
        Value::Number(number) if number.is_u64() => found.push(place.to_owned()),
        Value::Array(all) => {
            all.iter().enumerate().for_each(|(i, value)| sizes(value, &format!("{place}/{i}"), found));
        }
        Value::Object(all) => {
            all.iter().for_each(|(key, value)| sizes(value, &format!("{place}/{key}"), found));
        }
        _ => {}
    }
}

#[test]
fn relative_distances_of_any_size_are_only_other_models() {
    for (buckets, most) in [(8, 1), (8, 2), (8, 1 << 30)] {
        let mut folder = Folder::of("t5");
        folder.config.insert("relative_attention_num_buckets".to_owned(), json!(buckets));
        folder.config.insert("relative_attention_max_distance".to_owned(), json!(most));
        std::fs::write(folder.path().join("config.json"), serde_json::to_string(&folder.config).unwrap())
            .unwrap();
        try_all(&folder).unwrap();
    }
}

/// A few bytes of a file changed: set to anything, cut out, or repeated.
fn mutated(bytes: &[u8], within: usize, key: Key, number: u64) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    for change in 0..=key.below(number, 0, 3) as u64 {
        let draw = |what: u64, limit: usize| key.below(number, 1 + change * 4 + what, limit);
        let place = draw(0, within.min(changed.len()).max(1));
        match draw(1, 5) {
            0 => drop(changed.drain(place..(place + 1 + draw(2, 9)).min(changed.len()))),
            1 => {
                let piece = changed[place..(place + 1 + draw(2, 9)).min(changed.len())].to_vec();
                changed.splice(place..place, piece);
            }
            2 => changed[place] = b"0123456789{}[],:\"-.eE"[draw(2, 21)],
            3 => changed[place] ^= 1 << draw(2, 8),
            _ => changed[place] = draw(2, 256) as u8,
        }
    }
    changed
}

#[test]
fn any_change_of_a_few_bytes_is_survived() {
    for (i, name) in ["gpt", "bert, classifier", "t5", "llama", "vit", "tagger"].into_iter().enumerate() {
        let folder = Folder::of(name);
        let (config, weights) = (folder.path().join("config.json"), weights_of(&folder));
        let key = Key::new(11).step(i as u64);
        for path in [config, weights] {
            let whole = std::fs::read(&path).unwrap();
            // Of a file of weights the header is what can lie; of the rest only a little.
            let within = whole.len().min(4000);
            let mut refused = 0;
            for number in 0..150 {
                std::fs::write(&path, mutated(&whole, within, key, number)).unwrap();
                refused += usize::from(try_all(&folder).is_err());
            }
            assert!(refused > 75, "{name}: {refused} of 150 changes were noticed");
            std::fs::write(&path, &whole).unwrap();
        }
        try_all(&folder).unwrap();
    }
}
