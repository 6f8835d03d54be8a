//! What `config.json` says beyond the form of a model.

use regard_nn::tokens::Tokenizer;
use serde_json::{Map, Value, json};

/// The ids of special tokens.
pub fn special_notes(tokenizer: &Tokenizer) -> Map<String, Value> {
    let special = tokenizer.special();
    let ids = [
        ("pad_token_id", special.pad),
        ("bos_token_id", special.bos),
        ("eos_token_id", special.eos),
        ("mask_token_id", special.mask),
    ];
    ids.into_iter().filter_map(|(key, id)| Some((key.to_owned(), json!(id?)))).collect()
}

/// The names of classes, both ways.
pub fn class_notes(notes: &mut Map<String, Value>, classes: &[String]) {
    let names: Map<String, Value> =
        classes.iter().enumerate().map(|(i, class)| (i.to_string(), json!(class))).collect();
    let numbers: Map<String, Value> =
        classes.iter().enumerate().map(|(i, class)| (class.clone(), json!(i))).collect();
    notes.insert("id2label".to_owned(), Value::Object(names));
    notes.insert("label2id".to_owned(), Value::Object(numbers));
}
