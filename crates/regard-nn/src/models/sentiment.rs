//! Three classifiers of a text's sentiment that differ only in how they attend.
//!
//! ```text
//! embedding → BiLSTM → max over time                       → classifier
//! embedding → BiLSTM → additive attention, weighted sum     → classifier
//! embedding → BiLSTM → multi-head self-attention, max pool  → classifier
//! ```

use super::inputs::Inputs;
use super::model::{Abilities, AttentionSite, Model, Predicts, two_classes, written};
use super::padding::penalty;
use super::sizes::{ensure_dropout, ensure_sizes};
use crate::attention::{Additive, AttentionConfig, MultiHead, Pattern, Rules};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::layers::{Embedding, Linear, LinearConfig};
use crate::parameter::{Draw, Initial, Module, Parameter, module};
use crate::recurrent::Lstm;
use regard_tensor::{Mask, Tensor};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How the states of all words become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pooling {
    /// The largest value of each feature.
    Max,
    /// A weighted sum, the weights from additive attention (Bahdanau et al., 2014).
    Additive,
    /// Self-attention between the words, then the largest value of each feature.
    Heads,
}

/// The sizes and the form of a sentiment model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SentimentConfig {
    /// The number of words it knows.
    pub vocabulary: usize,
    /// The width of a word's vector.
    pub d_embedding: usize,
    /// The width of the LSTM's state in each direction.
    pub d_hidden: usize,
    /// How the words' states become one vector.
    pub pooling: Pooling,
    /// The number of heads for [`Pooling::Heads`].
    pub n_heads: usize,
    /// The share of embeddings and pooled values that training drops.
    pub dropout: f32,
}

impl Default for SentimentConfig {
    fn default() -> Self {
        Self {
            vocabulary: 10_000,
            d_embedding: 100,
            d_hidden: 128,
            pooling: Pooling::Max,
            n_heads: 4,
            dropout: 0.0,
        }
    }
}

/// A sentiment model.
#[derive(Debug, Clone)]
pub struct Sentiment {
    words: Embedding,
    lstm: Lstm,
    additive: Option<Additive>,
    heads: Option<MultiHead>,
    classifier: Linear,
    config: SentimentConfig,
}

module!(Sentiment { words, lstm, additive, heads, classifier });

/// The deviation of word vectors at the beginning.
const WORDS: f32 = 0.1;

impl Sentiment {
    /// A model with random weights.
    pub fn new(config: SentimentConfig, seed: u64) -> Result<Self> {
        Self::build(config, &Initial::new(seed))
    }

    /// A model with weights from a source.
    pub fn build(config: SentimentConfig, initial: &Initial) -> Result<Self> {
        let SentimentConfig { vocabulary, d_embedding, d_hidden, pooling, n_heads, .. } = config;
        let sizes = [("vocabulary", vocabulary), ("d_embedding", d_embedding), ("d_hidden", d_hidden)];
        ensure_sizes("sentiment", &sizes)?;
        ensure_dropout("sentiment", config.dropout)?;
        let width = 2 * d_hidden;
        // What a layer says has the size of what it reads: words stand apart from the first step on.
        let draw = Draw::Normal((width as f32).powf(-0.5));
        let (mut additive, mut heads) = (None, None);
        match pooling {
            Pooling::Max => {}
            Pooling::Additive => {
                additive = Some(Additive::new(&initial.part("additive"), (None, width, d_hidden), draw)?);
            }
            Pooling::Heads => {
                let config = AttentionConfig::new(width, n_heads);
                heads = Some(MultiHead::new(&initial.part("heads"), config, (draw, draw))?);
            }
        }
        Ok(Self {
            words: Embedding::new(&initial.part("words"), (vocabulary, d_embedding), Draw::Normal(WORDS))?,
            lstm: Lstm::new(&initial.part("lstm"), (d_embedding, d_hidden), true)?,
            additive,
            heads,
            classifier: Linear::new(&initial.part("classifier"), LinearConfig::new(width, 1), draw)?,
            config,
        })
    }

    /// What it was built from.
    pub fn config(&self) -> &SentimentConfig {
        &self.config
    }
}

impl Model for Sentiment {
    fn kind(&self) -> &'static str {
        "sentiment"
    }

    fn abilities(&self) -> Abilities {
        Abilities { one_logit: true, ..Abilities::new(Predicts::Class, 2) }
    }

    fn attentions(&self) -> Vec<AttentionSite<'_>> {
        self.heads.iter().map(AttentionSite::only).collect()
    }

    /// One vector a text. `pool.weights` (batch, time) shows what each word contributed: the attention weights, or the
    /// share of features in which it was the largest.
    fn hidden(&self, context: &Context, inputs: &Inputs) -> Result<Tensor> {
        let context = &context.without_cache();
        let ids = inputs.require_ids("sentiment")?;
        let (present, lengths) = (inputs.present.as_ref(), inputs.lengths("sentiment")?);
        let words = context.see("embeddings", self.words.forward(context, ids)?)?; // (B, T, E)
        let words = context.drop_out("embeddings", self.config.dropout, words)?;
        let mut states = self.lstm.forward(context, &words, lengths.as_ref())?; // (B, T, 2H)
        if let Some(heads) = &self.heads {
            let time = ids.shape().last();
            let rules = Rules::new(Pattern::Full, time, time)?.padded(present.cloned());
            let here = context.within("layers").within(0).within("self");
            states = heads.forward(&here, &states, None, &rules)?;
        }
        let pooled = match &self.additive {
            Some(additive) => additive.pool(context, &states, present)?.0,
            None => max_pool(context, &states, present)?,
        };
        let pooled = context.drop_out("pool", self.config.dropout, pooled)?;
        Ok(pooled.reshape([ids.shape()[0], 1, pooled.shape().last()])?)
    }

    fn scores(&self, context: &Context, hidden: &Tensor) -> Result<Tensor> {
        two_classes(context, &self.classifier, hidden)
    }

    fn token_embeddings(&self) -> Option<&Parameter> {
        Some(self.words.weight())
    }

    fn token_embeddings_mut(&mut self) -> Option<&mut Parameter> {
        Some(self.words.weight_mut())
    }

    fn fresh(&self, seed: u64) -> Result<Box<dyn Model>> {
        Ok(Box::new(Self::new(self.config.clone(), seed)?))
    }

    fn duplicate(&self) -> Box<dyn Model> {
        Box::new(self.independent())
    }

    fn settings(&self) -> Result<(&'static str, Value)> {
        written("sentiment", &self.config)
    }
}

/// The largest value of each feature over time: (batch, time, width) → (batch, width).
fn max_pool(context: &Context, states: &Tensor, present: Option<&Mask>) -> Result<Tensor> {
    let states = match present {
        // Padding must never win the maximum.
        Some(present) => states.add(&penalty(present, states.device())?)?,
        None => states.clone(),
    };
    let (pooled, winners) = states.max(1)?;
    if context.intervenes("pool.weights") {
        let problem =
            "pool.weights tell who had the largest values; they cannot be changed or differentiated";
        return Err(Error::input("sentiment", problem));
    }
    if let Some(probe) = context.probe().filter(|_| !context.watches("pool.weights")) {
        probe.pass(context.site("pool.weights"));
    } else if context.probe().is_some() {
        let (batch, time, width) = (states.shape()[0], states.shape()[1], states.shape()[2]);
        let mut shares = vec![0.0; batch * time];
        for (i, &winner) in winners.values().iter().enumerate() {
            shares[i / width * time + winner as usize] += 1.0 / width as f32;
        }
        context.see("pool.weights", Tensor::new(&shares, [batch, time])?)?;
    }
    Ok(pooled)
}
