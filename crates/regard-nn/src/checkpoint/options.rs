//! A configuration read key by key, so that nothing in it is overlooked.

use crate::error::{Error, Result};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Keys that say nothing about what a model computes.
const HARMLESS: &[&str] = &[
    "activation_dropout",
    "architectures",
    "attention_dropout",
    "attention_pdrop",
    "attention_probs_dropout_prob",
    "attn_pdrop",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "cls_token_id",
    "decoder_start_token_id",
    "directionality",
    "diversity_penalty",
    "do_sample",
    "dropout",
    "dropout_rate",
    "dtype",
    "early_stopping",
    "embd_pdrop",
    "embedding_dropout",
    "embedding_pdrop",
    "encoder_no_repeat_ngram_size",
    "encoder_stride",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "hidden_dropout",
    "hidden_dropout_prob",
    "id2label",
    "initializer_factor",
    "initializer_range",
    "is_decoder", // where it changes anything, it is looked at
    "is_encoder_decoder",
    "is_llama_config",
    "label2id",
    "layerdrop",
    "length_penalty",
    "mask_token_id",
    "max_length",
    "min_length",
    "model_type",
    "n_ctx",
    "n_positions",
    "n_special",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "output_router_logits",
    "output_scores",
    "pad_token_id",
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_output_size",
    "pooler_size_per_head",
    "pooler_type",
    "predict_special_tokens",
    "prefix",
    "problem_type",
    "qa_dropout",
    "reorder_and_upcast_attn",
    "repetition_penalty",
    "resid_pdrop",
    "residual_dropout",
    "return_dict",
    "return_dict_in_generate",
    "router_aux_loss_coef",
    "sentence_transformers",
    "sep_token_id",
    "seq_classif_dropout",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_weights_",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "use_bfloat16",
    "use_cache",
];

/// What other programs write into configurations for themselves.
const HARMLESS_PREFIXES: &[&str] = &["_", "sbert_", "unsloth_"];

/// A configuration of which each key is taken by someone, or is known to mean nothing here.
pub(super) struct Options {
    values: Map<String, Value>,
}

impl Options {
    pub fn new(values: Map<String, Value>) -> Self {
        Self { values }
    }

    /// Takes a value, if it is there and not null.
    pub fn take<T: DeserializeOwned>(&mut self, key: &str) -> Result<Option<T>> {
        match self.values.remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                let shown = value.to_string();
                serde_json::from_value(value).map(Some).map_err(|error| {
                    Error::checkpoint(format!("config.json: {key} is {}: {error}", shorten(&shown)))
                })
            }
        }
    }

    /// Takes a value that has a default.
    pub fn take_or<T: DeserializeOwned>(&mut self, key: &str, default: T) -> Result<T> {
        Ok(self.take(key)?.unwrap_or(default))
    }

    /// A value that is left in place.
    pub fn peek<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        serde_json::from_value(self.values.get(key)?.clone()).ok()
    }

    /// Gives a key another value.
    pub fn insert(&mut self, key: &str, value: impl Into<Value>) {
        self.values.insert(key.to_owned(), value.into());
    }

    /// Gives a key that is missing the value that its family has then.
    pub fn default(&mut self, key: &str, value: impl Into<Value>) {
        self.values.entry(key).or_insert_with(|| value.into());
    }

    /// Takes a size: a number from 1 to two billion.
    pub fn size(&mut self, key: &str) -> Result<usize> {
        match self.optional_size(key)? {
            Some(size) => Ok(size),
            None => Err(Error::checkpoint(format!("config.json has no {key}"))),
        }
    }

    /// Takes a size that may be missing.
    pub fn optional_size(&mut self, key: &str) -> Result<Option<usize>> {
        match self.take::<u64>(key)? {
            Some(size) if size == 0 || size > 1 << 31 => {
                Err(Error::checkpoint(format!("config.json: {key} is {size}, which cannot be a size")))
            }
            size => Ok(size.map(|size| size as usize)),
        }
    }

    /// Takes a size that may be null, with a default for when it is missing.
    pub fn size_or_null(&mut self, key: &str, default: Option<usize>) -> Result<Option<usize>> {
        match self.values.contains_key(key) {
            true => self.optional_size(key),
            false => Ok(default),
        }
    }

    /// Takes a finite number that may be null, with a default for when it is missing.
    pub fn real_or_null(&mut self, key: &str, default: Option<f32>) -> Result<Option<f32>> {
        match self.values.get(key) {
            None => Ok(default),
            Some(Value::Null) => Ok(None),
            Some(_) => self.needed(key).map(Some),
        }
    }

    /// Gives a value the key that newer files have, where these have none.
    pub fn rename(&mut self, older: &str, newer: &str) {
        if let Some(value) = self.values.remove(older)
            && !self.values.contains_key(newer)
        {
            self.values.insert(newer.to_owned(), value);
        }
    }

    /// Puts a value where neither of two keys has one.
    pub fn default_to(&mut self, key: &str, other: &str, value: Value) {
        let has = |key: &str| self.values.get(key).is_some_and(|value| !value.is_null());
        if !has(key) && !has(other) {
            self.values.insert(key.to_owned(), value);
        }
    }

    /// Whether the class that a configuration names ends so.
    pub fn names_class(&self, ending: &str) -> bool {
        let named = self.values.get("architectures").and_then(|all| all.get(0)?.as_str());
        named.is_some_and(|name| name.ends_with(ending))
    }

    /// Takes a finite number.
    pub fn real(&mut self, key: &str, default: f32) -> Result<f32> {
        let value = self.take_or(key, default)?;
        if value.is_finite() {
            Ok(value)
        } else {
            Err(Error::checkpoint(format!("config.json: {key} is {value}")))
        }
    }

    /// Takes a finite number that has no default.
    pub fn needed(&mut self, key: &str) -> Result<f32> {
        match self.take::<f32>(key)? {
            Some(value) if value.is_finite() => Ok(value),
            Some(value) => Err(Error::checkpoint(format!("config.json: {key} is {value}"))),
            None => Err(Error::checkpoint(format!("config.json has no {key}"))),
        }
    }

    /// Whether a key is there and null, which to some means something else than that it is missing.
    pub fn is_null(&self, key: &str) -> bool {
        self.values.get(key).is_some_and(Value::is_null)
    }

    /// Whether a configuration names a class.
    pub fn names_any_class(&self) -> bool {
        self.names_class("")
    }

    /// Fails if the names of classes are not as many as the classes that the weights tell apart.
    pub fn ensure_labels(&self, classes: Option<usize>) -> Result<()> {
        let labels = self.values.get("id2label").and_then(Value::as_object).map(Map::len);
        match (labels, classes) {
            (Some(labels), Some(classes)) if labels != classes => Err(Error::checkpoint(format!(
                "config.json names {labels} classes in id2label, but the classifier has {classes}"
            ))),
            _ => Ok(()),
        }
    }

    /// Fails unless an option has the one value that is implemented (or is missing).
    pub fn only(&mut self, key: &str, implemented: impl Into<Value>) -> Result<()> {
        let implemented = implemented.into();
        match self.values.remove(key) {
            // 1 and 1.0 are the same.
            Some(value)
                if !value.is_null()
                    && value != implemented
                    && value.as_f64().is_none_or(|v| Some(v) != implemented.as_f64()) =>
            {
                Err(Error::checkpoint(format!(
                    "config.json: {key} is {}, of which only {implemented} is implemented",
                    shorten(&value.to_string())
                )))
            }
            _ => Ok(()),
        }
    }

    /// Fails if there are options left that nobody took and that might change the result.
    pub fn finish(self) -> Result<()> {
        let means_something = |(key, value): &(&String, &Value)| {
            let neutral = match value {
                Value::Null | Value::Bool(false) => true,
                Value::Array(items) => items.is_empty(),
                Value::Object(items) => items.is_empty(),
                _ => false,
            };
            let harmless = HARMLESS.contains(&key.as_str())
                || HARMLESS_PREFIXES.iter().any(|prefix| key.starts_with(prefix));
            !neutral && !harmless
        };
        match self.values.iter().find(means_something) {
            None => Ok(()),
            Some((key, value)) => Err(Error::checkpoint(format!(
                "config.json has {key} = {}, which this program does not implement; if it says nothing about what the \
                 model computes, remove it",
                shorten(&value.to_string())
            ))),
        }
    }
}

fn shorten(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The map inside a JSON object.
pub(super) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
