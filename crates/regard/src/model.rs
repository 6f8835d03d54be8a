//! Finding and opening the model that a MODEL argument names.

use crate::cache::{Cache, Name};
use crate::compute::Placement;
use anyhow::{Context as _, Result, bail};
use regard_nn::checkpoint::{self, StoredWeights};
use regard_nn::models::Model;
use regard_nn::tokens::Tokenizer;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// A model that was found, with its tokenizer if it has one.
pub struct Opened {
    /// The model.
    pub model: Box<dyn Model>,
    /// Its tokenizer; images and bare ids need none.
    pub tokenizer: Option<Tokenizer>,
    /// Its whole configuration.
    pub config: Map<String, Value>,
    /// Its folder.
    pub folder: PathBuf,
}

impl Opened {
    /// The tokenizer, or an error if there is none.
    pub fn tokenizer(&self) -> Result<&Tokenizer> {
        match &self.tokenizer {
            Some(tokenizer) => Ok(tokenizer),
            None => bail!("{} has no tokenizer; give token ids instead of text", self.folder.display()),
        }
    }

    /// The ids that `generation_config.json` or else `config.json` gives a role, such as `eos_token_id`: one, several or
    /// none.
    pub fn token_ids(&self, role: &str) -> Vec<u32> {
        let settings = self.generation();
        let found = [settings.get(role), self.config.get(role)];
        found.into_iter().flatten().map(ids_in).find(|ids| !ids.is_empty()).unwrap_or_default()
    }

    /// The settings of the folder's `generation_config.json`, if it has one that can be read.
    pub fn generation(&self) -> Value {
        settings(&self.folder.join("generation_config.json")).unwrap_or_default()
    }
}

/// The largest file of settings, in bytes.
const LARGEST_SETTINGS: u64 = 1 << 20;

/// A small file of settings that may be missing.
pub fn settings(path: &Path) -> Result<Value> {
    settings_up_to(path, LARGEST_SETTINGS)
}

/// The same for files that may be larger.
pub fn settings_up_to(path: &Path, largest: u64) -> Result<Value> {
    let Ok(found) = std::fs::metadata(path) else { return Ok(Value::Null) };
    // A device or a pipe might never end.
    if !found.is_file() || found.len() > largest {
        bail!("{} is not a file of settings: it has {} bytes or is no file", path.display(), found.len());
    }
    let wrong = || format!("{} cannot be read", path.display());
    serde_json::from_slice(&std::fs::read(path).with_context(wrong)?).with_context(wrong)
}

/// Ids as configurations write them.
fn ids_in(value: &Value) -> Vec<u32> {
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    match value {
        Value::Array(several) => several.iter().filter_map(id).collect(),
        one => id(one).into_iter().collect(),
    }
}

/// Opens a run or checkpoint folder, or a name in the Hugging Face cache, on the CPU.
pub fn open(argument: &str) -> Result<Opened> {
    open_on(argument, Placement::CPU)
}

/// The same on any device.
pub fn open_on(argument: &str, placement: Placement) -> Result<Opened> {
    open_with(argument, placement, |folder| Ok(StoredWeights::open(folder)?))
}

/// The same with weights that a function of the folder opens.
pub fn open_with(
    argument: &str,
    placement: Placement,
    weights: impl FnOnce(&Path) -> Result<StoredWeights>,
) -> Result<Opened> {
    let folder = find(argument)?;
    let load = || {
        let config = checkpoint::read_config(&folder)?;
        let model = checkpoint::from_parts(&config, weights(&folder)?)?;
        Ok((config, model))
    };
    let loaded: Result<_> = load();
    let (config, model) = loaded.with_context(|| format!("cannot open the model {argument}"))?;
    let tokenizer = match Tokenizer::from_folder(&folder) {
        Ok(tokenizer) => Some(tokenizer),
        Err(error) if has_tokenizer(&folder) => {
            return Err(error).with_context(|| format!("cannot open the tokenizer of {argument}"));
        }
        Err(_) => None,
    };
    if let (Some(tokenizer), Some(table)) = (&tokenizer, model.token_embeddings()) {
        tokenizer.ensure_fits(table.tensor().shape()[0])?;
    }
    let model = placement.place(model)?;
    Ok(Opened { model, tokenizer, config, folder })
}

/// The folder that a MODEL argument means.
pub fn find(argument: &str) -> Result<PathBuf> {
    let path = Path::new(argument);
    if path.join("config.json").is_file() {
        return Ok(path.to_owned());
    }
    if path.exists() {
        bail!("{argument} is not a model: it has no config.json");
    }
    let Ok(name) = argument.parse::<Name>() else {
        bail!("there is no model {argument}: no folder has this path, and it is no name of a model");
    };
    match Cache::from_environment()?.snapshot(&name) {
        Some(folder) => Ok(folder),
        None => bail!(
            "there is no model {argument}: neither a folder here nor in the Hugging Face cache (to download it: regard \
             pull {name})"
        ),
    }
}

fn has_tokenizer(folder: &Path) -> bool {
    ["tokenizer.json", "vocab.json", "encoder.json", "vocab.txt"]
        .iter()
        .any(|name| folder.join(name).is_file())
}
