//! The model that fine-tuning starts from (`--from`): it decides the architecture, the preset how and for what it is trained.

use super::config::{RunConfig, preset};
use super::settings::ensure_length;
use crate::bad_usage;
use crate::model;
use anyhow::Result;
use regard_nn::models::{Form, Model, Recipe};
use regard_nn::tokens::Tokenizer;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

/// A trained model to start from, with its tokenizer and folder.
pub struct InitialModel {
    pub(super) model: Box<dyn Model>,
    pub(super) tokenizer: Option<Tokenizer>,
    pub(super) folder: PathBuf,
}

impl InitialModel {
    /// Opens a folder, or a name in the Hugging Face cache.
    pub fn open(argument: &str) -> Result<Self> {
        let opened = model::open(argument)?;
        let folder = std::path::absolute(opened.folder)?;
        Ok(Self { model: opened.model, tokenizer: opened.tokenizer, folder })
    }

    /// Fails if a preset, or a setting such as `model.d_model=64`, contradicts this model.
    pub fn ensure_agrees(&self, name: &str, config: &RunConfig, settings: &[String]) -> Result<()> {
        let fitted = fitted(&config.model, &*self.model)?;
        ensure_length(config, &fitted, settings)?;
        let (wanted, has) = (described(&config.model)?, described(&fitted)?);
        for (number, setting) in settings.iter().enumerate() {
            let key = setting.split('=').next().unwrap_or_default().trim();
            if key.starts_with("tokens.") && self.tokenizer.is_some() {
                bad_usage!(
                    "{setting} contradicts --from: the model there has its tokens; leave the setting out"
                );
            }
            if !key.starts_with("model.") {
                continue;
            }
            // What the setting changes is what the model must have.
            let mut others = settings.to_vec();
            others.remove(number);
            let without = described(&preset(name, &others)?.model)?;
            let changed: Vec<(&String, &Value)> =
                wanted.iter().filter(|(path, value)| without.get(*path) != Some(value)).collect();
            // A width also changes the width of heads, which is another setting's to contradict.
            let inner = key.rsplit('.').next();
            let named = |path: &str| path.rsplit('.').next() == inner;
            let any_named = changed.iter().any(|(path, _)| named(path));
            let mut meant = changed.into_iter().filter(|(path, _)| !any_named || named(path));
            if let Some((path, _)) = meant.find(|(path, value)| has.get(*path) != Some(value)) {
                let has = has.get(path).map_or_else(|| "none".to_owned(), Value::to_string);
                bad_usage!("{setting} contradicts --from: the model there has {has}; leave the setting out");
            }
        }
        // The presets of the sentiment models differ in this alone.
        if let [Some(preset), Some(has)] = [&wanted, &has].map(|settings| settings.get("pooling"))
            && preset != has
        {
            bad_usage!(
                "the preset has pooling {preset}, but the model of --from has {has}: choose the preset that goes with it"
            );
        }
        Ok(())
    }
}

/// A model of the form that a run needs with the weights of the given one, and a line about weights that it lacks.
pub fn fit(
    wanted: &Recipe,
    given: &dyn Model,
    classes: usize,
    seed: u64,
) -> Result<(Box<dyn Model>, Option<String>)> {
    let mut model = fitted(wanted, given)?.with_classes(classes).model(seed)?;
    let known: HashMap<String, _> = given.parameters().into_iter().collect();
    let mut fresh: Vec<String> = Vec::new();
    for (name, parameter) in model.parameters_mut() {
        match known.get(&name).filter(|known| known.tensor().shape() == parameter.tensor().shape()) {
            // A copy: the file may be deleted or replaced during the run.
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

/// A given model's settings as a run needs them: with the preset's dropout, and with its head where the given model predicts
/// something else.
fn fitted(wanted: &Recipe, given: &dyn Model) -> Result<Recipe> {
    let Some(form) = given.form() else {
        let own = Recipe::of(given)?;
        let kind = |recipe: &Recipe| Ok::<_, anyhow::Error>(serde_json::to_value(recipe)?["kind"].clone());
        if kind(wanted)? != kind(&own)? {
            bad_usage!("the preset trains a {}, but --from is a {}", kind(wanted)?, given.kind());
        }
        return with_dropout_of(wanted, own);
    };
    let alike = |wanted: &Form| {
        (wanted.encoder.is_some(), wanted.decoder.is_some(), wanted.abilities().pictures().is_some())
            == (form.encoder.is_some(), form.decoder.is_some(), form.abilities().pictures().is_some())
    };
    let wanted = match wanted.form() {
        Ok(wanted) if alike(&wanted) => wanted,
        Ok(wanted) => bad_usage!("the preset trains a {}, but --from is a {}", wanted.family, given.kind()),
        Err(_) => bad_usage!("the preset trains no transformer, but --from is a {}", given.kind()),
    };
    let mut form = form.clone();
    if wanted.abilities().predicts != form.abilities().predicts {
        form.output.clone_from(&wanted.output);
    }
    form.output.smoothing = wanted.output.smoothing;
    (form.dropout, form.checkpointing) = (wanted.dropout, wanted.checkpointing);
    Ok(Recipe::Transformer(Box::new(form)))
}

/// The settings of a small model with the dropout of others.
fn with_dropout_of(wanted: &Recipe, own: Recipe) -> Result<Recipe> {
    let (wanted, mut own) = (serde_json::to_value(wanted)?, serde_json::to_value(own)?);
    if let (Some(wanted), Some(own)) = (wanted.get("dropout"), own.get_mut("dropout")) {
        *own = wanted.clone();
    }
    Ok(serde_json::from_value(own)?)
}

/// The settings of a model as a flat table: of a transformer its form, of others their own.
fn described(recipe: &Recipe) -> Result<BTreeMap<String, Value>> {
    let value = match recipe.form() {
        Ok(form) => serde_json::to_value(form)?,
        Err(_) => serde_json::to_value(recipe)?,
    };
    let mut flat = BTreeMap::new();
    flatten("", &value, &mut flat);
    Ok(flat)
}

fn flatten(path: &str, value: &Value, flat: &mut BTreeMap<String, Value>) {
    let inner = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| flatten(&inner(key), value, flat)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, value)| flatten(&inner(&i.to_string()), value, flat));
        }
        plain => {
            flat.insert(path.to_owned(), plain.clone());
        }
    }
}
