//! Which files of a model are needed.

use crate::cache::Name;
use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

const WHOLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// Files that every model may have beside its weights. They are small.
const SMALL: [&str; 12] = [
    "config.json",
    "generation_config.json",
    "preprocessor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "encoder.json",
    "vocab.bpe",
    "vocab.txt",
];

/// The small files; fails if the model cannot be opened anyway, before anything large is downloaded.
pub(super) fn first(name: &Name, files: &BTreeSet<String>) -> Result<Vec<String>> {
    ensure!(files.contains("config.json"), "{name} is not a model of transformers: it has no config.json");
    if !files.contains(WHOLE) && !files.contains(INDEX) {
        if files.iter().any(|file| file.starts_with("pytorch_model")) {
            bail!(
                "{name} has its weights only as a pickle (pytorch_model.bin), which can run any code when it is opened; \
                 convert it with transformers' save_pretrained"
            );
        }
        bail!("{name} has no {WHOLE}");
    }
    let index = (!files.contains(WHOLE)).then_some(INDEX);
    Ok(SMALL.into_iter().chain(index).filter(|file| files.contains(*file)).map(str::to_owned).collect())
}

/// The weights: one file, or those that the index, which is there by now, names.
pub(super) fn weights(name: &Name, files: &BTreeSet<String>, snapshot: &Path) -> Result<Vec<String>> {
    if files.contains(WHOLE) {
        return Ok(vec![WHOLE.to_owned()]);
    }
    let wrong = || format!("{name}: {INDEX} is not an index");
    let bytes = std::fs::read(snapshot.join(INDEX)).with_context(wrong)?;
    let index: Value = serde_json::from_slice(&bytes).with_context(wrong)?;
    let map = index.get("weight_map").and_then(Value::as_object).with_context(wrong)?;
    let shards: BTreeSet<&str> = map.values().filter_map(Value::as_str).collect();
    for shard in &shards {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let safe = shard.ends_with(".safetensors") && !shard.starts_with('.') && shard.chars().all(plain);
        ensure!(safe, "{name}: {INDEX} names {shard:?}, which is no file of weights");
        ensure!(files.contains(*shard), "{name}: {INDEX} names {shard}, which is not there");
    }
    Ok(shards.into_iter().map(str::to_owned).collect())
}
