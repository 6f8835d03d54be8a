//! Models, or forms of them, without a counterpart at Hugging Face: our configuration, our names.

use super::names::Names;
use super::options::object;
use super::{Build, Plan};
use crate::error::{Error, Result};
use crate::models::{Bag, Bert, Gpt, Model, Sentiment, T5, Tagger};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

pub(super) fn plan(kind: &str, config: &Map<String, Value>) -> Result<Plan> {
    let build: Build = match kind {
        "gpt" => {
            let config = settings(config)?;
            Box::new(move |initial| Ok(Model::Gpt(Gpt::build(Clone::clone(&config), initial)?)))
        }
        "bert" => {
            let config = settings(config)?;
            Box::new(move |initial| Ok(Model::Bert(Bert::build(Clone::clone(&config), initial)?)))
        }
        "t5" => {
            let config = settings(config)?;
            Box::new(move |initial| Ok(Model::T5(T5::build(Clone::clone(&config), initial)?)))
        }
        "sentiment" => {
            let config = settings(config)?;
            Box::new(move |initial| Ok(Model::Sentiment(Sentiment::build(Clone::clone(&config), initial)?)))
        }
        "bag" => {
            let config = settings(config)?;
            Box::new(move |initial| Ok(Model::Bag(Bag::build(Clone::clone(&config), initial)?)))
        }
        "tagger" => {
            let config = settings(config)?;
            Box::new(move |initial| Ok(Model::Tagger(Tagger::build(Clone::clone(&config), initial)?)))
        }
        other => {
            let problem = format!(
                "there is no model \"regard-{other}\"; there are gpt, bert, t5, sentiment, bag and tagger"
            );
            return Err(Error::checkpoint(problem));
        }
    };
    Ok(Plan { names: Names::own(), build })
}

/// Our own configuration, which lies under a key of its own so that others may add theirs beside it.
fn settings<C: DeserializeOwned>(config: &Map<String, Value>) -> Result<C> {
    let Some(value) = config.get("regard").filter(|value| !value.is_null()) else {
        return Err(Error::checkpoint("config.json has no \"regard\" with the model's sizes"));
    };
    serde_json::from_value(value.clone()).map_err(|error| Error::checkpoint(format!("config.json: {error}")))
}

pub(super) fn written(model: &Model) -> Result<(Map<String, Value>, Names)> {
    fn value(config: &impl Serialize) -> Result<Value> {
        serde_json::to_value(config).map_err(|error| Error::checkpoint(error.to_string()))
    }
    let (kind, settings) = match model {
        Model::Gpt(model) => ("gpt", value(model.config())?),
        Model::Bert(model) => ("bert", value(model.config())?),
        Model::T5(model) => ("t5", value(model.config())?),
        Model::Sentiment(model) => ("sentiment", value(model.config())?),
        Model::Bag(model) => ("bag", value(model.config())?),
        Model::Tagger(model) => ("tagger", value(model.config())?),
        _ => return Err(Error::checkpoint("this model has Hugging Face's form")),
    };
    Ok((object(json!({"model_type": format!("regard-{kind}"), "regard": settings})), Names::own()))
}
