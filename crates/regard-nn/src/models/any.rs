//! Any model, for those who do not care which.

use super::sequence::lengths_to_mask;
use super::{Bag, Bert, Gpt, Llama, Sentiment, T5, Tagger, Vit};
use crate::attention::MultiHead;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::parameter::Module;
use regard_tensor::ops::concatenate;
use regard_tensor::{Ids, Tensor};

/// A model of any kind.
#[derive(Debug, Clone)]
#[allow(missing_docs)] // Each is documented where it is defined.
pub enum Model {
    Gpt(Gpt),
    Bert(Bert),
    T5(T5),
    Llama(Llama),
    Vit(Vit),
    Sentiment(Sentiment),
    Bag(Bag),
    Tagger(Tagger),
}

/// Calls something on whatever model it is.
macro_rules! each {
    ($model:expr, $inner:ident => $body:expr) => {
        match $model {
            Model::Gpt($inner) => $body,
            Model::Bert($inner) => $body,
            Model::T5($inner) => $body,
            Model::Llama($inner) => $body,
            Model::Vit($inner) => $body,
            Model::Sentiment($inner) => $body,
            Model::Bag($inner) => $body,
            Model::Tagger($inner) => $body,
        }
    };
}

impl Model {
    /// What kind of model it is.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Gpt(_) => "gpt",
            Self::Bert(_) => "bert",
            Self::T5(_) => "t5",
            Self::Llama(_) => "llama",
            Self::Vit(_) => "vit",
            Self::Sentiment(_) => "sentiment",
            Self::Bag(_) => "bag",
            Self::Tagger(_) => "tagger",
        }
    }

    /// Its parameters.
    pub fn module(&self) -> &dyn Module {
        each!(self, model => model)
    }

    /// Its parameters, to change.
    pub fn module_mut(&mut self) -> &mut dyn Module {
        each!(self, model => model)
    }

    /// Scores of the classes of texts (batch, time) of these lengths: (batch, classes). A model with one logit for two
    /// classes gives the first a score of 0.
    pub fn classify(&self, context: &Context, ids: &Ids, lengths: &[usize]) -> Result<Tensor> {
        let logit = match self {
            Self::Sentiment(model) => model.forward(context, ids, Some(lengths))?,
            Self::Bag(model) => model.forward(context, ids, Some(lengths))?,
            Self::Bert(model) => {
                let present = lengths_to_mask("bert", ids, Some(lengths))?;
                let encoded = model.encode(context, ids, None, present.as_ref())?;
                return model.classify(context, &encoded);
            }
            other => return Err(Error::Checkpoint(format!("a {} cannot classify texts", other.kind()))),
        };
        let batch = logit.count();
        Ok(concatenate(&[&Tensor::zeros([batch, 1]), &logit.reshape([batch, 1])?], 1)?)
    }

    /// A model of the same form with new random weights: the baseline of everything that training is said to bring.
    pub fn fresh(&self, seed: u64) -> Result<Self> {
        Ok(match self {
            Self::Gpt(model) => Self::Gpt(Gpt::new(model.config().clone(), seed)?),
            Self::Bert(model) => Self::Bert(Bert::new(model.config().clone(), seed)?),
            Self::T5(model) => Self::T5(T5::new(model.config().clone(), seed)?),
            Self::Llama(model) => Self::Llama(Llama::new(model.config().clone(), seed)?),
            Self::Vit(model) => Self::Vit(Vit::new(model.config().clone(), seed)?),
            Self::Sentiment(model) => Self::Sentiment(Sentiment::new(model.config().clone(), seed)?),
            Self::Bag(model) => Self::Bag(Bag::new(model.config().clone(), seed)?),
            Self::Tagger(model) => Self::Tagger(Tagger::new(model.config().clone(), seed)?),
        })
    }

    /// Reads texts (batch, time) of these lengths and gives the scores of its classes, (batch, time, classes), or
    /// (batch, 1, classes) if it judges a text as a whole; none if it has no head, or (T5) reads with its encoder alone.
    pub fn read(&self, context: &Context, ids: &Ids, lengths: &[usize]) -> Result<Option<Tensor>> {
        let present = lengths_to_mask(self.kind(), ids, Some(lengths))?;
        let present = present.as_ref();
        Ok(match self {
            Self::Gpt(model) => Some(model.forward(context, ids, present)?),
            Self::Llama(model) => Some(model.forward(context, ids, present)?),
            Self::Tagger(model) => Some(model.forward(context, ids, Some(lengths))?),
            Self::T5(model) => {
                model.encode(context, ids, present)?;
                None
            }
            Self::Bert(model) => {
                let encoded = model.encode(context, ids, None, present)?;
                let heads = model.config().heads;
                if heads.words {
                    Some(model.words(context, &encoded)?)
                } else if heads.classes.is_some() {
                    let scores = model.classify(context, &encoded)?;
                    Some(scores.reshape([lengths.len(), 1, scores.shape().last()])?)
                } else {
                    None
                }
            }
            Self::Sentiment(_) | Self::Bag(_) => {
                Some(self.classify(context, ids, lengths)?.reshape([lengths.len(), 1, 2])?)
            }
            Self::Vit(_) => return Err(Error::Checkpoint("a vit reads pictures, not texts".to_owned())),
        })
    }

    /// Reads texts as [`Self::read`] does, but scores nothing: a large vocabulary costs more than the layers before it. For
    /// those who look at what happens on the way.
    pub fn attend(&self, context: &Context, ids: &Ids, lengths: &[usize]) -> Result<()> {
        let present = lengths_to_mask(self.kind(), ids, Some(lengths))?;
        match self {
            Self::Gpt(model) => model.stream(context, ids, present.as_ref()).map(drop),
            Self::Llama(model) => model.stream(context, ids, present.as_ref()).map(drop),
            Self::Bert(model) => model.encode(context, ids, None, present.as_ref()).map(drop),
            _ => self.read(context, ids, lengths).map(drop),
        }
    }

    /// Whether a token sees only what came before it.
    pub fn is_causal(&self) -> bool {
        matches!(self, Self::Gpt(_) | Self::Llama(_))
    }

    /// Each attention with its place, such as `layers.0.self`.
    pub fn attentions(&self) -> Vec<(String, &MultiHead)> {
        match self {
            Self::Gpt(model) => model.attentions(),
            Self::Bert(model) => model.attentions(),
            Self::T5(model) => model.attentions(),
            Self::Llama(model) => model.attentions(),
            Self::Vit(model) => model.attentions(),
            Self::Sentiment(model) => model.attentions(),
            Self::Bag(model) => model.attentions(),
            Self::Tagger(model) => model.attentions(),
        }
    }

    /// The table of token embeddings, (vocabulary, width), if it reads tokens.
    pub fn token_embeddings(&self) -> Option<&Tensor> {
        match self {
            Self::Vit(_) => None,
            Self::Gpt(model) => Some(model.token_embeddings()),
            Self::Bert(model) => Some(model.token_embeddings()),
            Self::T5(model) => Some(model.token_embeddings()),
            Self::Llama(model) => Some(model.token_embeddings()),
            Self::Sentiment(model) => Some(model.token_embeddings()),
            Self::Bag(model) => Some(model.token_embeddings()),
            Self::Tagger(model) => Some(model.token_embeddings()),
        }
    }
}
