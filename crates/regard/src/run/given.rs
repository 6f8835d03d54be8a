//! A model that a run begins from: it says what is computed, the preset how it is trained and what for.

use super::config::{ModelConfig, RunConfig};
use super::settings::ensure_length;
use crate::bad_usage;
use crate::model;
use anyhow::Result;
use regard_nn::models::Model;
use regard_nn::tokens::Tokenizer;
use std::collections::HashMap;
use std::path::PathBuf;
use toml::{Table, Value};

/// A model with its tokenizer, and where they are from.
pub struct Given {
    pub(super) model: Model,
    pub(super) tokenizer: Option<Tokenizer>,
    pub(super) folder: PathBuf,
}

/// What the preset says about any model, however it was made: this changes how it learns, not what it computes.
const OF_TRAINING: [&str; 3] = ["dropout", "smoothing", "checkpointing"];

impl Given {
    /// Opens a folder, or a name in the Hugging Face cache.
    pub fn open(argument: &str) -> Result<Self> {
        let opened = model::open(argument)?;
        let folder = std::path::absolute(opened.folder)?;
        Ok(Self { model: opened.model, tokenizer: opened.tokenizer, folder })
    }

    /// Fails if a preset, or a setting such as `model.d_model=64`, asks for something else than this model.
    pub fn ensure_agrees(&self, config: &RunConfig, settings: &[String]) -> Result<()> {
        let wanted = table(&config.model)?;
        let fitted = fitted(&config.model, &self.model)?;
        ensure_length(config, &fitted, settings)?;
        let fitted = table(&fitted)?;
        for setting in settings {
            let key = setting.split('=').next().unwrap_or_default().trim();
            if key.starts_with("tokens.") && self.tokenizer.is_some() {
                bad_usage!(
                    "{setting} contradicts --from: the model there has its tokens; leave the setting out"
                );
            }
            let Some(inner) = key.strip_prefix("model.") else { continue };
            if at(&wanted, inner) != at(&fitted, inner) {
                let has = at(&fitted, inner).map_or_else(|| "none".to_owned(), Value::to_string);
                bad_usage!("{setting} contradicts --from: the model there has {has}; leave the setting out");
            }
        }
        // The presets of the sentiment models differ in this alone.
        if let [Some(asked), Some(has)] = [&wanted, &fitted].map(|table| table.get("pooling"))
            && asked != has
        {
            bad_usage!(
                "the preset has pooling {asked}, but the model of --from has {has}: choose the preset that goes with it"
            );
        }
        Ok(())
    }
}

/// A model of the form that a run needs with the weights of the one given, and a line about what that one did not have.
pub fn fit(
    wanted: &ModelConfig,
    given: &Model,
    classes: usize,
    seed: u64,
) -> Result<(Model, Option<String>)> {
    let mut model = fitted(wanted, given)?.for_classes(classes).model(seed)?;
    let known: HashMap<String, _> = given.module().parameters().into_iter().collect();
    let mut fresh: Vec<String> = Vec::new();
    for (name, parameter) in model.module_mut().parameters_mut() {
        match known.get(&name).filter(|known| known.tensor().shape() == parameter.tensor().shape()) {
            // A copy: the file may be deleted or replaced while the run goes on.
            Some(known) => parameter.tensor_mut().set_values(&known.tensor().values())?,
            None => {
                let part = name.split('.').next().unwrap_or_default();
                if fresh.last().is_none_or(|last| last != part) {
                    fresh.push(part.to_owned());
                }
            }
        }
    }
    let remark = (!fresh.is_empty()).then(|| {
        format!("begins with random weights, as the model given has none that fit: {}", fresh.join(", "))
    });
    Ok((model, remark))
}

/// The configuration of a given model as a run needs it: a BERT gets the heads of the preset.
fn fitted(wanted: &ModelConfig, given: &Model) -> Result<ModelConfig> {
    let (wanted, mut own) = (table(wanted)?, table(&ModelConfig::of(given))?);
    let kind = |table: &Table| table.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    if kind(&wanted) != kind(&own) {
        bad_usage!("the preset trains a {}, but --from is a {}", kind(&wanted), kind(&own));
    }
    for key in OF_TRAINING.into_iter().chain(["heads"]) {
        if let (Some(wanted), Some(own)) = (wanted.get(key), own.get_mut(key)) {
            *own = wanted.clone();
        }
    }
    Ok(Value::Table(own).try_into()?)
}

fn table(config: &ModelConfig) -> Result<Table> {
    Ok(Table::try_from(config)?)
}

/// The value of a key with dots.
fn at<'t>(table: &'t Table, key: &str) -> Option<&'t Value> {
    let (first, rest) = key.split_once('.').map_or((key, None), |(first, rest)| (first, Some(rest)));
    match (table.get(first)?, rest) {
        (value, None) => Some(value),
        (Value::Table(inner), Some(rest)) => at(inner, rest),
        _ => None,
    }
}
