//! What a MODEL argument means, in one place for every command.

use anyhow::{Context as _, Result, bail};
use saccade::checkpoint::{self, Loaded};
use saccade::models::Model;
use saccade::tokens::Tokenizer;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// A model that was found, with its tokenizer if it has one.
pub struct Opened {
    /// The model.
    pub model: Model,
    /// How it reads text; images and bare ids need none.
    pub tokenizer: Option<Tokenizer>,
    /// Everything its configuration says.
    pub config: Map<String, Value>,
    /// Where it lies.
    pub folder: PathBuf,
}

impl Opened {
    /// The tokenizer, or an error that says that there is none.
    pub fn tokenizer(&self) -> Result<&Tokenizer> {
        match &self.tokenizer {
            Some(tokenizer) => Ok(tokenizer),
            None => bail!("{} has no tokenizer; give token ids instead of text", self.folder.display()),
        }
    }
}

/// Opens a run or checkpoint folder, or a name in the Hugging Face cache.
pub fn open(argument: &str) -> Result<Opened> {
    let folder = find(argument)?;
    let Loaded { model, config } =
        checkpoint::load(&folder).with_context(|| format!("cannot open the model {argument}"))?;
    let tokenizer = match Tokenizer::from_folder(&folder) {
        Ok(tokenizer) => Some(tokenizer),
        Err(error) if has_tokenizer(&folder) => {
            return Err(error).with_context(|| format!("cannot open the tokenizer of {argument}"));
        }
        Err(_) => None,
    };
    if let (Some(tokenizer), Some(table)) = (&tokenizer, model.token_embeddings()) {
        tokenizer.ensure_fits(table.shape()[0])?;
    }
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
    bail!("there is no model {argument}: neither a folder here nor in the cache")
}

fn has_tokenizer(folder: &Path) -> bool {
    ["tokenizer.json", "vocab.json", "encoder.json", "vocab.txt"]
        .iter()
        .any(|name| folder.join(name).is_file())
}
