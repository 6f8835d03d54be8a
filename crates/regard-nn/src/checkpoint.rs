//! Models in files: Hugging Face's folders, both ways.
//!
//! A checkpoint is a folder with `config.json`, `model.safetensors` (or shards and their index) and usually a
//! `tokenizer.json`. The configuration's `model_type` decides what is built; weights are read where they lie in the file,
//! without a copy. Models without a counterpart at Hugging Face have a `model_type` of their own, `regard-…`, in the same
//! form.

mod albert;
mod bart;
mod bert;
mod bloom;
mod clip;
mod cohere;
mod deberta;
mod decoder;
mod deit;
mod dinov2;
mod distilbert;
mod electra;
mod falcon;
mod family;
mod gemma;
#[cfg(feature = "tokenizers")]
pub mod gguf;
mod gpt2;
mod gpt_bigcode;
mod gpt_j;
mod gpt_neo;
mod gpt_neox;
mod gpt_oss;
mod granite;
mod heads;
mod kept_type;
mod llama;
#[cfg(feature = "tokenizers")]
pub mod llama2c;
mod llama_like;
mod mistral;
mod modernbert;
mod mpnet;
mod mpt;
mod names;
mod nearest;
mod olmo;
mod opt;
mod options;
mod part;
mod phi;
mod qwen;
mod roberta;
mod rotary;
#[cfg(feature = "tokenizers")]
mod sentencepiece;
mod smollm3;
mod stablelm;
mod starcoder2;
mod t5;
mod towers;
mod values;
mod vit;
mod weights;

pub use names::Names;
use names::ROW;
pub use towers::split as split_towers;
pub use weights::{Stored, StoredWeights};

use crate::data::file::write_whole;
use crate::error::{Error, Result};
use crate::models::{Model, Recipe};
use crate::parameter::{Initial, Parameter};
use family::{Family, Shapes};
use regard_tensor::Tensor;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// The families of checkpoints that can be opened, in the order in which a form looks for one that it can be written as.
#[rustfmt::skip]
const KNOWN: &[Family] = &[
    // Decoders: first those that many forms fit.
    gpt2::GPT2,
    llama::LLAMA,
    bloom::BLOOM,
    cohere::COHERE,
    cohere::COHERE2,
    falcon::FALCON,
    gemma::GEMMA,
    gemma::GEMMA2,
    gemma::GEMMA3,
    gpt_bigcode::GPT_BIGCODE,
    gpt_j::GPT_J,
    gpt_neo::GPT_NEO,
    gpt_neox::GPT_NEOX,
    gpt_oss::GPT_OSS,
    granite::GRANITE,
    mistral::MISTRAL,
    mistral::MIXTRAL,
    mpt::MPT,
    olmo::OLMO,
    olmo::OLMO2,
    opt::OPT,
    phi::PHI,
    phi::PHI3,
    qwen::QWEN2,
    qwen::QWEN3,
    qwen::QWEN3_MOE,
    smollm3::SMOLLM3,
    stablelm::STABLELM,
    starcoder2::STARCODER2,
    // Encoders.
    bert::BERT,
    albert::ALBERT,
    deberta::DEBERTA,
    distilbert::DISTILBERT,
    electra::ELECTRA,
    modernbert::MODERNBERT,
    mpnet::MPNET,
    roberta::ROBERTA,
    roberta::CAMEMBERT,
    roberta::XLM_ROBERTA,
    // Encoder–decoders.
    t5::T5,
    bart::BART,
    bart::MARIAN,
    t5::MT5,
    t5::UMT5,
    // Vision.
    vit::VIT,
    clip::CLIP_TEXT,
    clip::CLIP_VISION,
    clip::SIGLIP_TEXT,
    clip::SIGLIP_VISION,
    deit::DEIT,
    dinov2::DINOV2,
    dinov2::DINOV2_WITH_REGISTERS,
];

/// The model types of the families that can be opened.
pub fn families() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|family| family.model_type)
}

/// The `architectures` of a family whose heads can be read.
pub fn architectures(model_type: &str) -> &'static [&'static str] {
    KNOWN.iter().find(|family| family.model_type == model_type).map_or(&[], |family| family.architectures)
}

/// Whether a folder's configuration describes a model that can be opened, without reading its weights. Tensors that are missing are not
/// noticed.
pub fn check(folder: &Path) -> Result<()> {
    let config = read_config(folder)?;
    recipe(&config, &StoredWeights::open(folder)?).map(|_| ())
}

/// No configuration is larger than this.
const LARGEST_CONFIG: u64 = 16 << 20;

/// A model, and what its configuration said beside its form.
pub struct Loaded {
    /// The model.
    pub model: Box<dyn Model>,
    /// The whole configuration.
    pub config: Map<String, Value>,
}

/// Reads a model from a folder.
pub fn load(folder: &Path) -> Result<Loaded> {
    let config = read_config(folder)?;
    let weights = StoredWeights::open(folder)?;
    let model = from_parts(&config, weights)?;
    Ok(Loaded { model, config })
}

/// Builds a model from a configuration and its weights.
pub fn from_parts(config: &Map<String, Value>, weights: StoredWeights) -> Result<Box<dyn Model>> {
    let (recipe, names) = recipe(config, &weights)?;
    let reading = Arc::new(weights::Reading::new(weights, names));
    let reader = Arc::clone(&reading);
    let built = recipe.build(&Initial::read(Arc::new(move |path, shape| reader.read(path, shape))));
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

/// What a configuration describes, and how its tensors are called.
fn recipe(config: &Map<String, Value>, weights: &StoredWeights) -> Result<(Recipe, Names)> {
    let Some(kind) = config.get("model_type").and_then(Value::as_str) else {
        return Err(Error::checkpoint("config.json names no model_type, such as \"gpt2\""));
    };
    if let Some(own) = kind.strip_prefix(OWN) {
        return Ok((own_recipe(own, config)?, Names::own()));
    }
    let Some(family) = KNOWN.iter().find(|family| family.model_type == kind) else {
        if towers::is_combined(kind) {
            return Err(Error::checkpoint(format!(
                "models of type {kind:?} are two models, one for texts and one for pictures: regard import towers FOLDER -o OUT \
                 writes them as two folders, which open"
            )));
        }
        let (kind, nearest): (String, _) = (kind.chars().take(80).collect(), nearest::nearest(kind, config));
        return Err(Error::checkpoint(format!(
            "models of type {kind:?} are not supported; the nearest supported type is {nearest} (regard models lists all, \
             docs/families.md shows how to add one)"
        )));
    };
    ensure_architecture(config, family)?;
    let (form, names) = family.open(config, &Shapes::of(weights))?;
    Ok((Recipe::Transformer(Box::new(form)), names))
}

/// What the model types of this program's own models begin with.
const OWN: &str = "regard-";

/// A model without a counterpart at Hugging Face. Its settings lie under a key of their own, so that others may add theirs
/// beside it.
fn own_recipe(kind: &str, config: &Map<String, Value>) -> Result<Recipe> {
    let Some(Value::Object(settings)) = config.get("regard") else {
        return Err(Error::checkpoint("config.json has no \"regard\" with the model's sizes"));
    };
    let mut settings = settings.clone();
    settings.insert("kind".to_owned(), Value::from(kind));
    serde_json::from_value(Value::Object(settings)).map_err(|error| {
        let problem =
            format!("config.json describes a {OWN}{kind}, which cannot be built from its settings: {error}");
        Error::checkpoint(problem)
    })
}

/// Fails if a configuration names heads that are not implemented: their tensors may look like those of one that is.
fn ensure_architecture(config: &Map<String, Value>, family: &Family) -> Result<()> {
    let (kind, known) = (family.model_type, family.architectures);
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
pub fn names(model: &dyn Model) -> Result<Vec<(String, String)>> {
    let (_, names) = described(model)?;
    let named = model.parameters().into_iter().map(|(path, _)| match names.theirs(&path) {
        Some(theirs) => Ok((path, theirs)),
        None => Err(Error::checkpoint(format!("{path} has no name in this kind of file"))),
    });
    named.collect()
}

/// A model as files have it: in Hugging Face's form, where there is one for it.
pub fn to_parts(model: &dyn Model) -> Result<Written> {
    let (config, names) = described(model)?;
    let parameters = model.parameters().into_iter();
    let tensors = parameters.map(|(path, parameter)| (path, parameter.tensor().detach()));
    Ok(Written { config, tensors: in_their_form(&names, tensors)? })
}

/// Tensors that belong to a model's parameters, such as their gradients, as files have the parameters: by their names and in
/// their shapes.
pub fn as_in_files(model: &dyn Model, tensors: &[(String, Tensor)]) -> Result<BTreeMap<String, Tensor>> {
    in_their_form(&described(model)?.1, tensors.iter().cloned())
}

fn in_their_form(
    names: &Names,
    tensors: impl Iterator<Item = (String, Tensor)>,
) -> Result<BTreeMap<String, Tensor>> {
    let (mut whole, mut gathered) = (BTreeMap::new(), BTreeMap::<String, (Vec<usize>, Vec<f32>)>::new());
    for (path, tensor) in tensors {
        let Some(name) = names.theirs(&path) else {
            return Err(Error::checkpoint(format!("{path} has no name in this kind of file")));
        };
        if name.contains(ROW) {
            for row in 0..tensor.shape().first().copied().unwrap_or(0) {
                whole.insert(name.replace(ROW, &row.to_string()), tensor.select(0, row)?);
            }
            continue;
        }
        let shape = names.their_shape(&path, tensor.shape());
        let Some((part, numbers)) = names.part(&path) else {
            whole.insert(name, tensor.reshape(shape)?);
            continue;
        };
        let (_, values) = gathered.entry(name).or_insert_with(|| {
            let count = shape.iter().product();
            (shape, vec![0.0; count])
        });
        if part.put(values, &tensor.values(), &numbers).is_none() {
            return Err(Error::checkpoint(format!("{path} does not fit into its place in a file")));
        }
    }
    for (name, (shape, values)) in gathered {
        whole.insert(name, Tensor::new(&values, shape)?);
    }
    Ok(whole)
}

/// The configuration that files have for a model, and how they call its tensors.
fn described(model: &dyn Model) -> Result<(Map<String, Value>, Names)> {
    if let Some(form) = model.form() {
        let shape = |(path, parameter): (String, &Parameter)| (path, parameter.tensor().shape().to_vec());
        let paths: Vec<_> = model.parameters().into_iter().map(shape).collect();
        // The family that it comes from, before others that could describe it as well.
        let (own, others): (Vec<_>, Vec<_>) =
            KNOWN.iter().partition(|family| family.model_type == form.family);
        if let Some(found) = own.iter().chain(&others).find_map(|family| family.close(form, &paths)) {
            return Ok(found);
        }
    }
    let (kind, settings) = model.settings()?;
    let config = json!({"model_type": format!("{OWN}{kind}"), "regard": settings});
    Ok((options::object(config), Names::own()))
}

/// Writes `config.json` and `model.safetensors` into a folder, each under a temporary name first, so that a crash leaves
/// the earlier files whole. `more` is added to the configuration (token ids, labels).
///
/// A model that was read from a 16-bit file is written in that type: all weights that have not changed since, which loses nothing.
/// Weights that changed are f32.
pub fn save(model: &dyn Model, folder: &Path, more: &Map<String, Value>) -> Result<()> {
    let Written { mut config, mut tensors } = to_parts(model)?;
    kept_type::apply(kept_type::of(model), &mut tensors, &mut config)?;
    for (key, value) in more {
        // The form of the model is its own; of its classes it knows the number alone, of special tokens nothing.
        let known = config.get(key).is_some_and(|value| !value.is_null());
        if !known || ["id2label", "label2id"].contains(&key.as_str()) {
            config.insert(key.clone(), value.clone());
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
