//! Fields of `config.json` beyond the form of a model.

use regard_nn::tokens::Tokenizer;
use serde_json::{Map, Value, json};

/// The ids of special tokens.
pub fn special_token_fields(tokenizer: &Tokenizer) -> Map<String, Value> {
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
pub fn class_name_fields(config_fields: &mut Map<String, Value>, classes: &[String]) {
    let names: Map<String, Value> =
        classes.iter().enumerate().map(|(i, class)| (i.to_string(), json!(class))).collect();
    let numbers: Map<String, Value> =
        classes.iter().enumerate().map(|(i, class)| (class.clone(), json!(i))).collect();
    config_fields.insert("id2label".to_owned(), Value::Object(names));
    config_fields.insert("label2id".to_owned(), Value::Object(numbers));
}
