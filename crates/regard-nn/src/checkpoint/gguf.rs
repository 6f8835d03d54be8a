//! Models in [GGUF](https://github.com/ggml-org/ggml/blob/master/docs/gguf.md) files, the format of llama.cpp, as checkpoint folders.
//!
//! A file holds settings, a vocabulary and tensors, which may be quantised. Three things differ from Hugging Face's files besides the
//! names: the rows of Llama's query and key projections have rotary pairs side by side (here in two halves), the norms of Gemma are
//! stored around 1 (here around 0), and quantised values must be widened, since transformers and this program have no such types. A
//! conversion reads and writes one row at a time.

mod blocks;
mod config;
mod file;
mod vocabulary;
mod weights;

pub use weights::{WeightType, WrittenTypes};

use crate::data::file::write_whole;
use crate::error::{Error, Result};
use crate::tokens::Tokenizer;
use file::GgufFile;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

/// Converts a file to a folder that this program and transformers open. Values that are stored as f32, f16 or bf16 keep their type;
/// quantised ones are widened to the given type.
pub fn convert(path: &Path, folder: &Path, quantised: WeightType) -> Result<WrittenTypes> {
    let file = GgufFile::open(path)?;
    let mut config = config::config(&file)?;
    let number = |key: &str| config.get(key).and_then(Value::as_u64).unwrap_or(0) as usize;
    let (vocabulary, head) = (number("vocab_size"), number("head_dim"));
    // Everything is checked before anything is written.
    let plan = weights::plan(&file, quantised, head)?;
    let vocabulary = vocabulary::read(&file, vocabulary)?;
    let tokenizer = vocabulary.tokenizer.to_string();
    Tokenizer::from_json(&tokenizer)
        .map_err(|error| file.wrong(format!("has a vocabulary that fails: {error}")))?;
    std::fs::create_dir_all(folder).map_err(|error| Error::file(folder, error))?;
    let types = plan.write(&folder.join("model.safetensors"))?;
    config.insert("torch_dtype".to_owned(), json!(types.main));
    config.extend(vocabulary.ids.clone());
    for (name, text) in [
        ("tokenizer.json", tokenizer),
        ("tokenizer_config.json", format!("{:#}\n", Value::Object(vocabulary.settings))),
        ("generation_config.json", format!("{:#}\n", Value::Object(vocabulary.ids))),
        ("config.json", format!("{:#}\n", Value::Object(config))),
    ] {
        write_whole(&folder.join(name), |out| out.write_all(text.as_bytes()))?;
    }
    Ok(types)
}

/// The values of a tensor, widened.
pub fn read_tensor(path: &Path, name: &str) -> Result<Option<Vec<f32>>> {
    let file = GgufFile::open(path)?;
    let values = file.tensors().get(name).map(|entry| {
        let mut values = Vec::new();
        entry.block.widen(file.bytes(entry), &mut values);
        values
    });
    Ok(values)
}
