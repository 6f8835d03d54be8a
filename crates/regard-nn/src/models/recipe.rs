//! Models by their settings: what a configuration file or a program asks for, before anything is built.

use super::form::{Form, Input};
use super::model::{Abilities, Model};
use super::{
    Bag, BagConfig, BertConfig, GptConfig, LlamaConfig, Sentiment, SentimentConfig, T5Config, Tagger,
    TaggerConfig, Transformer, VitConfig,
};
use crate::error::{Error, Result};
use crate::parameter::Initial;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The settings of a model of any kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[allow(missing_docs)] // Each is documented where it is defined.
#[non_exhaustive]
pub enum Recipe {
    Gpt(GptConfig),
    Llama(LlamaConfig),
    Bert(BertConfig),
    T5(T5Config),
    Vit(VitConfig),
    Sentiment(SentimentConfig),
    Bag(BagConfig),
    Tagger(TaggerConfig),
    /// A transformer by its whole form.
    Transformer(Box<Form>),
}

impl Recipe {
    /// The settings that a model was built from.
    pub fn of(model: &dyn Model) -> Result<Self> {
        let (kind, settings) = model.settings()?;
        let mut settings = settings;
        settings["kind"] = Value::from(kind);
        serde_json::from_value(settings).map_err(|error| Error::checkpoint(error.to_string()))
    }

    /// A model with random weights.
    pub fn model(&self, seed: u64) -> Result<Box<dyn Model>> {
        Ok(match self {
            Self::Sentiment(config) => Box::new(Sentiment::new(config.clone(), seed)?),
            Self::Bag(config) => Box::new(Bag::new(config.clone(), seed)?),
            Self::Tagger(config) => Box::new(Tagger::new(config.clone(), seed)?),
            transformer => Box::new(Transformer::new(transformer.form()?, seed)?),
        })
    }

    /// A model with weights from a source.
    pub fn build(&self, initial: &Initial) -> Result<Box<dyn Model>> {
        Ok(match self {
            Self::Sentiment(config) => Box::new(Sentiment::build(config.clone(), initial)?),
            Self::Bag(config) => Box::new(Bag::build(config.clone(), initial)?),
            Self::Tagger(config) => Box::new(Tagger::build(config.clone(), initial)?),
            transformer => Box::new(Transformer::build(transformer.form()?, initial)?),
        })
    }

    /// The form of a transformer.
    pub fn form(&self) -> Result<Form> {
        Ok(match self {
            Self::Gpt(config) => config.form(),
            Self::Llama(config) => config.form(),
            Self::Bert(config) => config.form(),
            Self::T5(config) => config.form(),
            Self::Vit(config) => config.form(),
            Self::Transformer(form) => (**form).clone(),
            Self::Sentiment(_) | Self::Bag(_) | Self::Tagger(_) => {
                return Err(Error::configuration("model", "only a transformer has a form"));
            }
        })
    }

    /// The same for so many tokens.
    #[must_use]
    pub fn with_vocabulary(mut self, vocabulary: usize) -> Self {
        match &mut self {
            Self::Gpt(config) => config.vocabulary = vocabulary,
            Self::Llama(config) => config.vocabulary = vocabulary,
            Self::Bert(config) => config.vocabulary = vocabulary,
            Self::T5(config) => config.vocabulary = vocabulary,
            Self::Sentiment(config) => config.vocabulary = vocabulary,
            Self::Bag(config) => config.vocabulary = vocabulary,
            Self::Tagger(config) => config.vocabulary = vocabulary,
            Self::Transformer(form) => **form = form.as_ref().clone().with_vocabulary(vocabulary),
            Self::Vit(_) => {}
        }
        self
    }

    /// The same for so many classes, if it has a classifier that distinguishes any number.
    #[must_use]
    pub fn with_classes(mut self, classes: usize) -> Self {
        match &mut self {
            Self::Bert(config) => config.classes = config.classes.map(|_| classes),
            Self::Vit(config) => config.classes = classes,
            Self::Tagger(config) => config.classes = classes,
            Self::Transformer(form) => **form = form.as_ref().clone().with_classes(classes),
            _ => {}
        }
        self
    }

    /// What such a model reads and predicts. Rejects invalid settings, before any data is read.
    pub fn abilities(&self) -> Result<Abilities> {
        // Small models are built to be asked, with a tiny vocabulary; transformers may be large, and their form answers.
        const FEW: usize = 8;
        let small = || self.clone().with_vocabulary(FEW).with_classes(FEW);
        match self {
            Self::Sentiment(_) | Self::Bag(_) | Self::Tagger(_) => Ok(small().model(0)?.abilities()),
            _ => {
                let mut form = small().form()?;
                // Answers may start with a token that so few do not have.
                if let Input::Tokens(tokens) = &mut form.input {
                    tokens.start = tokens.start.map(|start| start.min(FEW as u32 - 1));
                }
                form.check()?;
                Ok(form.abilities())
            }
        }
    }
}
