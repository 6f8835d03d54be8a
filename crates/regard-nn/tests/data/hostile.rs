//! Malicious tokenizer files: each gives an error, none a panic, and none takes long.

use super::made::{Folder, problem};
use proptest::prelude::*;
use regard_nn::tokens::{BytePairSettings, Special, TOKENIZER_FILE_LIMIT, Tokenizer, WordSettings};
use serde_json::{Value, json};

fn rejected(file: &Value) -> String {
    rejected_text(&file.to_string())
}

fn rejected_text(text: &str) -> String {
    Tokenizer::from_json(text).expect_err("a hostile file").to_string()
}

/// A valid file, to corrupt.
fn good() -> Value {
    let tokenizer = Tokenizer::words(["a good film"], &WordSettings::default()).expect("training");
    serde_json::from_str(&tokenizer.to_json().expect("JSON")).expect("JSON")
}

fn good_byte_pairs() -> Value {
    let settings = BytePairSettings { size: 260, minimum_count: 1, ..BytePairSettings::default() };
    let tokenizer = Tokenizer::byte_pairs(["abab abab"], &settings).expect("training");
    serde_json::from_str(&tokenizer.to_json().expect("JSON")).expect("JSON")
}

#[test]
fn truncated_files_are_rejected_wherever_they_end() {
    let text = good().to_string();
    assert!(Tokenizer::from_json(&text).is_ok());
    for end in (0..text.len()).filter(|&end| text.is_char_boundary(end)) {
        assert!(Tokenizer::from_json(&text[..end]).is_err(), "at {end}");
    }
}

#[test]
fn enormous_files_are_rejected_before_they_are_read() {
    let folder = Folder::new();
    let path = folder.path().join("tokenizer.json");
    let file = std::fs::File::create(&path).expect("a file");
    file.set_len(TOKENIZER_FILE_LIMIT + 1).expect("a sparse file");
    let problem = problem(&folder, Tokenizer::open(&path));
    assert!(problem.contains("larger than the 67108864 bytes"), "{problem}");
}

#[test]
fn deep_json_is_rejected() {
    let mut deep = good();
    for _ in 0..100 {
        deep["pre_tokenizer"] =
            json!({ "type": "Sequence", "pretokenizers": [deep["pre_tokenizer"].take()] });
    }
    assert!(rejected(&deep).contains("recursion limit"));
    let text = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    assert!(rejected_text(&text).contains("recursion limit"));
}

#[test]
fn files_of_another_kind_are_rejected() {
    for text in
        ["", "null", "5", "[]", "{}", "{\"model\": 5}", "{\"model\": {}}", "{\"model\": {\"vocab\": 3}}"]
    {
        assert!(Tokenizer::from_json(text).is_err(), "{text:?}");
    }
    assert!(
        rejected(&json!({ "model": { "type": "WordLevel", "vocab": {}, "unk_token": "x" } }))
            .contains("empty")
    );
    let mut other = good();
    other["model"]["type"] = json!("Telepathy");
    rejected(&other);
    other = good();
    other["version"] = json!("9.0");
    assert!(rejected(&other).contains("version"));
}

#[test]
fn duplicate_and_invalid_ids_are_rejected() {
    for (id, message) in [
        (json!(0), "the same id 0"),
        (json!(-1), "has the id -1"),
        (json!(4_000_000_000_u64), "expected 0 to"),
        (json!("x"), "expected 0 to"),
        (json!(1.5), "expected 0 to"),
    ] {
        let mut file = good();
        file["model"]["vocab"]["film"] = id;
        assert!(rejected(&file).contains(message), "{}", rejected(&file));
    }
    let mut file = good();
    file["added_tokens"][0]["id"] = json!(4_000_000_000_u64);
    assert!(rejected(&file).contains("`added_tokens`: entry 0"), "{}", rejected(&file));
    file["added_tokens"] = json!("x");
    rejected(&file);
}

#[test]
fn invalid_merges_are_rejected_with_their_position() {
    let spoiled = |merges: Value| {
        let mut file = good_byte_pairs();
        file["model"]["merges"] = merges;
        rejected(&file)
    };
    assert!(Tokenizer::from_json(&good_byte_pairs().to_string()).is_ok());
    assert!(spoiled(json!([["a", "b"], ["zz", "b"]])).contains("entry 1: \"zz\" is not in the vocabulary"));
    assert!(spoiled(json!([["b", "b"]])).contains("entry 0: \"bb\" is not in the vocabulary"));
    assert!(spoiled(json!(["a b c"])).contains("entry 0 is not a pair"));
    assert!(spoiled(json!([["a"]])).contains("entry 0 is not a pair"));
    assert!(spoiled(json!([7])).contains("entry 0 is not a pair"));
    assert!(spoiled(json!({})).contains("must be a list"));
    // A prefix that is longer than the token, or ends within a character.
    for prefix in ["#######", "é"] {
        let mut file = good_byte_pairs();
        file["model"]["continuing_subword_prefix"] = json!(prefix);
        assert!(rejected(&file).contains("does not start with"), "{}", rejected(&file));
    }
}

/// A few bytes that would expand a text beyond memory.
#[test]
fn parts_that_grow_texts_without_bound_are_rejected() {
    let growing = |part: Value, count: usize| {
        let mut file = good();
        file["normalizer"] = json!({ "type": "Sequence", "normalizers": vec![part; count] });
        file
    };
    let replace =
        |content: &str| json!({ "type": "Replace", "pattern": { "String": "o" }, "content": content });
    assert!(rejected(&growing(replace(&"o".repeat(20)), 8)).contains("times as long"));
    assert!(
        rejected(&growing(json!({ "type": "Prepend", "prepend": "o".repeat(1 << 20) }), 2)).contains("times")
    );
    let empty = json!({ "type": "Replace", "pattern": { "Regex": "" }, "content": "ooooooooooooooooooooo" });
    assert!(rejected(&growing(empty, 3)).contains("times as long"));
    // What sentence pieces do is nothing of the kind.
    let space = json!({ "type": "Replace", "pattern": { "String": " " }, "content": "▁" });
    assert!(Tokenizer::from_json(&growing(space, 1).to_string()).is_ok());
    assert!(
        Tokenizer::from_json(&growing(json!({ "type": "Prepend", "prepend": "▁" }), 1).to_string()).is_ok()
    );
}

#[test]
fn parts_that_would_panic_are_rejected() {
    let with = |part: &str, value: Value| {
        let mut file = good();
        file[part] = value;
        rejected(&file)
    };
    assert!(with("pre_tokenizer", json!({ "type": "FixedLength", "length": 0 })).contains("at least 1"));
    let nested = json!({ "type": "Sequence", "pretokenizers": [{ "type": "FixedLength", "length": 0 }] });
    assert!(with("pre_tokenizer", nested).contains("at least 1"));
    assert!(with("decoder", json!(5)).contains("object or null"));
    assert!(with("decoder", json!({ "type": "None of these" })).contains("tokenizer: "));
    assert!(with("normalizer", json!({ "type": "Precompiled" })).contains("missing"));
    for (map, message) in [
        ("%%%", "not base64"),
        ("AAA", "shorter than its own length"),
        // A trie of four billion bytes.
        ("/////w==", "longer than the table"),
        // An empty trie.
        ("AAAAAA==", "the trie is empty"),
        // One unit that points outside the trie.
        ("BAAAAAAEAAA=", "outside of itself"),
    ] {
        let problem = with("normalizer", json!({ "type": "Precompiled", "precompiled_charsmap": map }));
        assert!(problem.contains(message), "{map}: {problem}");
    }
    let pattern =
        json!({ "type": "Split", "pattern": { "Regex": "(" }, "behavior": "Removed", "invert": false });
    assert!(with("pre_tokenizer", pattern).contains("tokenizer: "));
}

#[test]
fn truncation_padding_and_dropout_in_files_are_ignored() {
    let mut file = good_byte_pairs();
    let plain = Tokenizer::from_json(&file.to_string()).expect("reading");
    file["model"]["dropout"] = json!(0.5);
    file["truncation"] =
        json!({ "direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0 });
    file["padding"] = json!({
        "strategy": { "Fixed": 1_000_000_000 }, "direction": "Right", "pad_to_multiple_of": null,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "x",
    });
    let tokenizer = Tokenizer::from_json(&file.to_string()).expect("reading");
    let expected = plain.encode("abab abab", Special::Keep).expect("encoding");
    for _ in 0..20 {
        assert_eq!(tokenizer.encode("abab abab", Special::Keep).expect("encoding"), expected);
    }
}

#[test]
fn unknown_words_without_an_unknown_token_are_errors() {
    let mut file = good();
    file["model"]["unk_token"] = json!("nowhere");
    let tokenizer = Tokenizer::from_json(&file.to_string()).expect("reading");
    assert!(tokenizer.encode("film", Special::Keep).is_ok());
    assert!(tokenizer.encode("never", Special::Keep).is_err());
}

/// Any JSON, not too large.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i32>().prop_map(|number| json!(number)),
        any::<f64>().prop_map(|number| json!(number)),
        "[a-zA-Z#<>Ġ ]{0,6}".prop_map(Value::String),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            proptest::collection::btree_map("[a-z_]{1,8}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// The paths of all nested values, as keys and indices.
fn paths(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Array(items) => {
            items.iter().take(5).enumerate().for_each(|(i, item)| paths(item, &format!("{at}/{i}"), found));
        }
        Value::Object(fields) => {
            let escape = |key: &str| key.replace('~', "~0").replace('/', "~1");
            fields
                .iter()
                .take(9)
                .for_each(|(key, item)| paths(item, &format!("{at}/{}", escape(key)), found));
        }
        _ => {}
    }
}

proptest! {
    /// Replacing one value of a valid file never causes a panic.
    #[test]
    fn a_file_with_one_wrong_value_never_panics(bytes in any::<bool>(), place in any::<prop::sample::Index>(), value in any_json()) {
        let mut file = if bytes { good_byte_pairs() } else { good() };
        let mut found = Vec::new();
        paths(&file, "", &mut found);
        *file.pointer_mut(place.get(&found[..]).as_str()).expect("a place") = value;
        if let Ok(tokenizer) = Tokenizer::from_json(&file.to_string()) {
            if let Ok(encoding) = tokenizer.encode("A good, film! ab abé\n", Special::Keep) {
                tokenizer.decode(&encoding.ids, Special::Drop).ok();
            }
            tokenizer.to_json().ok();
        }
    }
}

/// Every kind of part the library knows, and every field that any of them has.
const KINDS: [&str; 31] = [
    "Sequence",
    "BertNormalizer",
    "Strip",
    "StripAccents",
    "NFC",
    "NFD",
    "NFKC",
    "Lowercase",
    "Nmt",
    "Replace",
    "Prepend",
    "ByteLevel",
    "BertPreTokenizer",
    "Delimiter",
    "CharDelimiterSplit",
    "Metaspace",
    "Whitespace",
    "Split",
    "Punctuation",
    "WhitespaceSplit",
    "Digits",
    "UnicodeScripts",
    "FixedLength",
    "RobertaProcessing",
    "BertProcessing",
    "TemplateProcessing",
    "BPEDecoder",
    "WordPiece",
    "CTC",
    "ByteFallback",
    "Fuse",
];
const FIELDS: [&str; 28] = [
    "strip_left",
    "strip_right",
    "start",
    "stop",
    "content",
    "pattern",
    "behavior",
    "invert",
    "prepend",
    "length",
    "prefix",
    "cleanup",
    "pad_token",
    "word_delimiter_token",
    "suffix",
    "replacement",
    "prepend_scheme",
    "split",
    "delimiter",
    "individual_digits",
    "add_prefix_space",
    "trim_offsets",
    "use_regex",
    "sep",
    "cls",
    "single",
    "pair",
    "special_tokens",
];

fn field_value() -> impl Strategy<Value = Value> {
    let piece = || {
        prop_oneof![Just("A".to_owned()), Just("a".to_owned()), Just("é".to_owned()), "[ a-z<>$:0-9]{0,4}"]
    };
    prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        prop_oneof![0_u64..4, Just(u64::MAX), Just(u64::from(u32::MAX))].prop_map(|number| json!(number)),
        piece().prop_map(Value::String),
        prop_oneof![
            Just("Removed"),
            Just("Isolated"),
            Just("MergedWithNext"),
            Just("Contiguous"),
            Just("always"),
            Just("first")
        ]
        .prop_map(|word| json!(word)),
        piece().prop_map(|text| json!({ "String": text })),
        prop_oneof![Just(r"\s*"), Just(""), Just("a|b*"), Just(r"(?=a)"), Just(r"(a*)*b"), Just(r".")]
            .prop_map(|pattern| json!({ "Regex": pattern })),
        (piece(), 0_u32..9).prop_map(|(piece, id)| json!([piece, id])),
        (piece(), 0_u32..9).prop_map(|(piece, id)| json!([{ "Sequence": { "id": piece, "type_id": id } }])),
        (piece(), 0_u32..9)
            .prop_map(|(piece, id)| json!([{ "SpecialToken": { "id": piece, "type_id": id } }])),
        (piece(), 0_u32..9)
            .prop_map(|(piece, id)| json!({ "a": { "id": piece, "ids": [id], "tokens": [piece, piece] } })),
    ]
}

fn part() -> impl Strategy<Value = Value> {
    let fields = proptest::collection::btree_map(proptest::sample::select(&FIELDS[..]), field_value(), 0..8);
    let leaf = (proptest::sample::select(&KINDS[..]), fields).prop_map(|(kind, fields)| {
        let mut part = json!({ "type": kind });
        for (field, value) in fields {
            part[field] = value;
        }
        part
    });
    leaf.prop_recursive(2, 6, 3, |inner| {
        proptest::collection::vec(inner, 0..3).prop_map(|parts| {
            json!({
                "type": "Sequence", "normalizers": parts, "pretokenizers": parts, "processors": parts, "decoders": parts,
            })
        })
    })
}

proptest! {
    /// A valid vocabulary with arbitrary parts never causes a panic.
    #[test]
    fn random_combinations_of_parts_never_panic(
        name in proptest::sample::select(&["normalizer", "pre_tokenizer", "post_processor", "decoder"][..]), part in part()
    ) {
        let mut file = good();
        file[name] = part;
        if let Ok(tokenizer) = Tokenizer::from_json(&file.to_string()) {
            for text in ["A good, film! ab  abé\n", "", " ", "é😀a"] {
                if let Ok(encoding) = tokenizer.encode(text, Special::Keep) {
                    tokenizer.decode(&encoding.ids, Special::Drop).ok();
                }
                tokenizer.encode_pair(text, "a", Special::Keep).ok();
            }
            tokenizer.to_json().ok();
        }
    }
}
