//! Models in files: Hugging Face's folders, both ways.
//!
//! A checkpoint is a folder with `config.json`, `model.safetensors` (or shards and their index) and usually a
//! `tokenizer.json`. The configuration's `model_type` decides what is built; weights are read where they lie in the file,
//! without a copy. Models without a counterpart at Hugging Face have a `model_type` of their own, `regard-…`, in the same
//! form.

mod bert;
mod gpt2;
mod llama;
pub mod llama2c;
mod names;
mod options;
mod own;
mod t5;
mod vit;
mod weights;

pub use names::Names;
pub use weights::{Stored, StoredWeights};

use crate::data::file::write_whole;
use crate::error::{Error, Result};
use crate::models::Model;
use crate::parameter::Initial;
use options::Options;
use regard_tensor::Tensor;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// The families of checkpoints that can be read.
pub const FAMILIES: [&str; 7] = ["gpt2", "bert", "roberta", "distilbert", "t5", "llama", "vit"];

/// No configuration is larger than this.
const LARGEST_CONFIG: u64 = 16 << 20;

/// A model, and what its configuration said beside its form.
pub struct Loaded {
    /// The model.
    pub model: Model,
    /// The whole configuration.
    pub config: Map<String, Value>,
}

/// Builds a model from a source of parameters.
type Build = Box<dyn Fn(&Initial) -> Result<Model>>;

/// A kind of model, how its configuration reads and how its tensors are called.
struct Plan {
    names: Names,
    build: Build,
}

/// Reads a model from a folder.
pub fn load(folder: &Path) -> Result<Loaded> {
    let config = read_config(folder)?;
    let weights = StoredWeights::open(folder)?;
    let model = from_parts(&config, weights)?;
    Ok(Loaded { model, config })
}

/// Builds a model from a configuration and its weights.
pub fn from_parts(config: &Map<String, Value>, weights: StoredWeights) -> Result<Model> {
    let Plan { names, build } = plan(config, &weights)?;
    let reading = Arc::new(weights::Reading::new(weights, names));
    let reader = Arc::clone(&reading);
    let built = build(&Initial::read(Arc::new(move |path, shape| reader.read(path, shape))));
    // A configuration that cannot be built is the better thing to tell: nothing was read then.
    if built.is_ok() || reading.misses_something() {
        reading.problems()?;
    }
    built
}

/// The configuration of a folder.
pub fn read_config(folder: &Path) -> Result<Map<String, Value>> {
    let path = folder.join("config.json");
    let bytes = read_small(&path, LARGEST_CONFIG)?;
    let value = serde_json::from_slice(&bytes)
        .map_err(|error| Error::file(&path, format!("is not a configuration: {error}")))?;
    match value {
        Value::Object(config) => Ok(config),
        _ => Err(Error::file(&path, "is not a configuration: a JSON object was expected")),
    }
}

/// A file that has no business being large.
fn read_small(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let wrong = |error: std::io::Error| Error::file(path, error.to_string());
    let metadata = std::fs::metadata(path).map_err(wrong)?;
    if !metadata.is_file() {
        return Err(Error::file(path, "is not a file"));
    }
    let size = metadata.len();
    if size > limit {
        return Err(Error::file(path, format!("has {size} bytes, at most {limit} were expected")));
    }
    std::fs::read(path).map_err(wrong)
}

fn plan(config: &Map<String, Value>, weights: &StoredWeights) -> Result<Plan> {
    let Some(kind) = config.get("model_type").and_then(Value::as_str) else {
        return Err(Error::checkpoint("config.json names no model_type, such as \"gpt2\""));
    };
    ensure_architecture(config, kind)?;
    let options = Options::new(config.clone());
    match kind {
        "gpt2" => gpt2::plan(options, weights),
        "bert" => bert::plan(bert::Family::Bert, options, weights),
        "roberta" => bert::plan(bert::Family::Roberta, options, weights),
        "distilbert" => bert::plan(bert::Family::DistilBert, options, weights),
        "t5" => t5::plan(options, weights),
        "llama" => llama::plan(options, weights),
        "vit" => vit::plan(options, weights),
        other => match other.strip_prefix("regard-") {
            Some(own) => own::plan(own, config),
            None => Err(Error::checkpoint(format!(
                "models of type {other:?} are not supported; supported are {} and this program's own",
                FAMILIES.join(", ")
            ))),
        },
    }
}

/// What each family is called with the heads that can be read.
const ARCHITECTURES: [(&str, &[&str]); 7] = [
    ("gpt2", &["GPT2LMHeadModel", "GPT2Model"]),
    ("bert", &["BertForMaskedLM", "BertForPreTraining", "BertForSequenceClassification", "BertModel"]),
    ("roberta", &["RobertaForMaskedLM", "RobertaForSequenceClassification", "RobertaModel"]),
    ("distilbert", &["DistilBertForMaskedLM", "DistilBertForSequenceClassification", "DistilBertModel"]),
    ("t5", &["T5ForConditionalGeneration", "T5WithLMHeadModel", "T5Model"]),
    ("llama", &["LlamaForCausalLM", "LLaMAForCausalLM", "LlamaModel"]),
    ("vit", &["ViTForImageClassification", "ViTModel"]),
];

/// Fails if a configuration names heads that are not implemented: their tensors may look like those of one that is.
fn ensure_architecture(config: &Map<String, Value>, kind: &str) -> Result<()> {
    let Some((_, known)) = ARCHITECTURES.iter().find(|(family, _)| *family == kind) else { return Ok(()) };
    let named: Vec<&str> = match config.get("architectures") {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if named.is_empty() || named.iter().any(|name| known.contains(name)) {
        return Ok(());
    }
    let named: String = named.join(", ").chars().take(80).collect();
    Err(Error::checkpoint(format!("{named} is not supported; of {kind}, supported are {}", known.join(", "))))
}

/// A model's configuration and tensors as they are written to files.
pub struct Written {
    /// What `config.json` says.
    pub config: Map<String, Value>,
    /// The tensors by their names in `model.safetensors`.
    pub tensors: BTreeMap<String, Tensor>,
}

/// The names of a model's parameters, here and in files, in their order.
pub fn names(model: &Model) -> Result<Vec<(String, String)>> {
    let (_, names) = form(model)?;
    let named = model.module().parameters().into_iter().map(|(path, _)| match names.theirs(&path) {
        Some(theirs) => Ok((path, theirs)),
        None => Err(Error::checkpoint(format!("{path} has no name in this kind of file"))),
    });
    named.collect()
}

/// A model in the form that files have: Hugging Face's, where there is one for it.
pub fn to_parts(model: &Model) -> Result<Written> {
    let (config, _) = form(model)?;
    let parameters = model.module().parameters();
    let named = names(model)?.into_iter().zip(parameters);
    Ok(Written { config, tensors: named.map(|((_, name), (_, p))| (name, p.tensor().detach())).collect() })
}

/// The configuration that files have for a model, and how they call its tensors.
fn form(model: &Model) -> Result<(Map<String, Value>, Names)> {
    Ok(match model {
        Model::Gpt(gpt) if gpt2::writes(gpt.config()) => gpt2::written(gpt.config()),
        Model::Bert(bert) if bert::writes(bert.config()) => bert::written(bert.config()),
        Model::T5(t5) if t5::writes(t5.config()) => t5::written(t5.config()),
        Model::Llama(llama) => llama::written(llama.config()),
        Model::Vit(vit) => vit::written(vit.config()),
        other => own::written(other)?,
    })
}

/// Writes `config.json` and `model.safetensors` into a folder, each under a temporary name first, so that a crash leaves
/// the earlier files whole. `more` is added to the configuration (token ids, labels).
pub fn save(model: &Model, folder: &Path, more: &Map<String, Value>) -> Result<()> {
    let Written { mut config, tensors } = to_parts(model)?;
    for (key, value) in more {
        // The form of the model is its own; of its classes it knows the number alone.
        if ["id2label", "label2id"].contains(&key.as_str()) {
            config.insert(key.clone(), value.clone());
        } else {
            config.entry(key.clone()).or_insert(value.clone());
        }
    }
    std::fs::create_dir_all(folder).map_err(|error| Error::file(folder, error.to_string()))?;
    let text = serde_json::to_string_pretty(&config).map_err(|error| Error::checkpoint(error.to_string()))?;
    write_tensors(&folder.join("model.safetensors"), &tensors, &[("format", "pt")])?;
    write_whole(&folder.join("config.json"), |file| file.write_all(text.as_bytes()))
}

/// Writes tensors and notes as a `safetensors` file, whole or not at all.
pub fn write_tensors(path: &Path, tensors: &BTreeMap<String, Tensor>, notes: &[(&str, &str)]) -> Result<()> {
    let notes = notes.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    write_whole(path, |file| weights::write(file, tensors, notes))
}
