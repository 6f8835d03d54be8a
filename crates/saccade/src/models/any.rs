//! Any model, for those who do not care which.

use super::sequence::lengths_to_mask;
use super::{Bag, Bert, Gpt, Llama, Sentiment, T5, Tagger, Vit};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::parameter::Module;
use saccade_tensor::ops::concatenate;
use saccade_tensor::{Ids, Tensor};

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
