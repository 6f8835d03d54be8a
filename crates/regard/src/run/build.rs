//! Models from their configurations, and configurations from models.

use super::config::ModelConfig;
use crate::usage::Usage;
use anyhow::Result;
use regard_nn::models::{
    Bag, BagConfig, Bert, BertConfig, Gpt, GptConfig, Llama, LlamaConfig, Model, Sentiment, SentimentConfig,
    T5, T5Config, Tagger, TaggerConfig, Vit, VitConfig,
};
use regard_nn::position::Position;

/// A new model, its vocabulary and classes those of the data.
pub fn build(config: &ModelConfig, vocabulary: usize, classes: usize, seed: u64) -> Result<Model> {
    let sized = match config.clone() {
        ModelConfig::Gpt(config) => ModelConfig::Gpt(GptConfig { vocabulary, ..config }),
        ModelConfig::Llama(config) => ModelConfig::Llama(LlamaConfig { vocabulary, ..config }),
        ModelConfig::Bert(config) => ModelConfig::Bert(BertConfig { vocabulary, ..config }),
        ModelConfig::T5(config) => ModelConfig::T5(T5Config { vocabulary, ..config }),
        ModelConfig::Vit(config) => ModelConfig::Vit(config),
        ModelConfig::Sentiment(config) => ModelConfig::Sentiment(SentimentConfig { vocabulary, ..config }),
        ModelConfig::Bag(config) => ModelConfig::Bag(BagConfig { vocabulary, ..config }),
        ModelConfig::Tagger(config) => ModelConfig::Tagger(TaggerConfig { vocabulary, ..config }),
    };
    sized.for_classes(classes).model(seed)
}

impl ModelConfig {
    /// What a model was built from.
    pub fn of(model: &Model) -> Self {
        match model {
            Model::Gpt(model) => Self::Gpt(model.config().clone()),
            Model::Llama(model) => Self::Llama(model.config().clone()),
            Model::Bert(model) => Self::Bert(model.config().clone()),
            Model::T5(model) => Self::T5(model.config().clone()),
            Model::Vit(model) => Self::Vit(model.config().clone()),
            Model::Sentiment(model) => Self::Sentiment(model.config().clone()),
            Model::Bag(model) => Self::Bag(model.config().clone()),
            Model::Tagger(model) => Self::Tagger(model.config().clone()),
        }
    }

    /// The most tokens that it reads, if there is a limit.
    pub fn context(&self) -> Option<usize> {
        match self {
            Self::Gpt(config) => Some(config.context),
            Self::Llama(config) => Some(config.context),
            Self::Bert(config) => Some(config.context),
            Self::Tagger(config) => Some(config.context),
            Self::Bag(config) => (config.positions == Position::Learned).then_some(config.context),
            Self::T5(_) | Self::Vit(_) | Self::Sentiment(_) => None,
        }
    }

    /// The same, with a classifier of so many classes where it has one that tells any number apart.
    #[must_use]
    pub fn for_classes(self, classes: usize) -> Self {
        match self {
            Self::Bert(mut config) => {
                config.heads.classes = config.heads.classes.map(|_| classes);
                Self::Bert(config)
            }
            Self::Vit(config) => Self::Vit(VitConfig { classes, ..config }),
            Self::Tagger(config) => Self::Tagger(TaggerConfig { classes, ..config }),
            other => other,
        }
    }

    /// Whether there can be such a model, whatever the data: known before the data is read, which may take minutes.
    pub fn ensure_possible(&self) -> Result<()> {
        const FEW: usize = 8;
        match build(self, FEW, FEW, 0) {
            Ok(_) => Ok(()),
            Err(problem) => Err(Usage::error(format!("the model's settings (--set model.…): {problem}"))),
        }
    }

    /// A model of exactly this form, with random weights.
    pub fn model(&self, seed: u64) -> Result<Model> {
        Ok(match self.clone() {
            Self::Gpt(config) => Model::Gpt(Gpt::new(config, seed)?),
            Self::Llama(config) => Model::Llama(Llama::new(config, seed)?),
            Self::Bert(config) => Model::Bert(Bert::new(config, seed)?),
            Self::T5(config) => Model::T5(T5::new(config, seed)?),
            Self::Vit(config) => Model::Vit(Vit::new(config, seed)?),
            Self::Sentiment(config) => Model::Sentiment(Sentiment::new(config, seed)?),
            Self::Bag(config) => Model::Bag(Bag::new(config, seed)?),
            Self::Tagger(config) => Model::Tagger(Tagger::new(config, seed)?),
        })
    }
}
