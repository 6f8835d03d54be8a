//! Three classifiers of a text's sentiment that differ only in how they attend.
//!
//! ```text
//! embedding → BiLSTM → max over time                       → classifier
//! embedding → BiLSTM → additive attention, weighted sum     → classifier
//! embedding → BiLSTM → multi-head self-attention, max pool  → classifier
//! ```

use super::sequence::lengths_to_mask;
use super::sizes::{ensure_dropout, ensure_sizes};
use crate::attention::{Additive, AttentionConfig, MultiHead, Pattern, Rules};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::layers::{Embedding, Linear, LinearConfig};
use crate::parameter::{Draw, Initial, module};
use crate::recurrent::Lstm;
use regard_tensor::{Ids, Mask, Tensor};
use serde::{Deserialize, Serialize};

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

    /// Each attention with its place, such as `layers.0.self`.
    pub fn attentions(&self) -> Vec<(String, &MultiHead)> {
        self.heads.iter().map(|heads| ("layers.0.self".to_owned(), heads)).collect()
    }

    /// What it was built from.
    pub fn config(&self) -> &SentimentConfig {
        &self.config
    }

    /// A logit for each text of ids (batch, time): above 0 means positive. `lengths` leave out the padding.
    ///
    /// `pool.weights` (batch, time) shows what each word contributed: the attention weights, or the share of features
    /// in which it was the largest.
    pub fn forward(&self, context: &Context, ids: &Ids, lengths: Option<&[usize]>) -> Result<Tensor> {
        let context = &context.without_cache();
        let present = lengths_to_mask("sentiment", ids, lengths)?;
        let words = context.see("embeddings", self.words.forward(context, ids)?)?; // (B, T, E)
        let words = context.drop_out("embeddings", self.config.dropout, words)?;
        let mut states = self.lstm.forward(context, &words, lengths)?; // (B, T, 2H)
        if let Some(heads) = &self.heads {
            let time = ids.shape().last();
            let rules = Rules::new(Pattern::Full, time, time)?.padded(present.clone());
            let here = context.within("layers").within(0).within("self");
            states = heads.forward(&here, &states, None, &rules)?;
        }
        let pooled = match &self.additive {
            Some(additive) => additive.pool(context, &states, present.as_ref())?.0,
            None => max_pool(context, &states, present.as_ref())?,
        };
        let pooled = context.drop_out("pool", self.config.dropout, pooled)?;
        context.see("logits", self.classifier.forward(context, &pooled)?.reshape([ids.shape()[0]])?)
    }

    /// The mean binary cross-entropy against targets (batch) of 0 or 1.
    pub fn loss(
        &self,
        context: &Context,
        ids: &Ids,
        lengths: Option<&[usize]>,
        targets: &Tensor,
    ) -> Result<Tensor> {
        Ok(self.forward(context, ids, lengths)?.binary_cross_entropy(targets)?)
    }

    /// The table of word embeddings, (vocabulary, width).
    pub fn token_embeddings(&self) -> &Tensor {
        self.words.weight().tensor()
    }

    /// The table of word embeddings, to put trained ones in.
    pub fn token_embeddings_mut(&mut self) -> &mut Tensor {
        self.words.weight_mut().tensor_mut()
    }
}

/// The largest value of each feature over time: (batch, time, width) → (batch, width).
fn max_pool(context: &Context, states: &Tensor, present: Option<&Mask>) -> Result<Tensor> {
    let states = match present {
        // Padding must never win the maximum.
        Some(present) => states.add(&penalty(present)?)?,
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

/// 0 where a word is, a large negative number where padding is: (batch, time, 1).
fn penalty(present: &Mask) -> Result<Tensor> {
    let values: Vec<f32> = present.values().iter().map(|&here| if here { 0.0 } else { -1e30 }).collect();
    Ok(Tensor::new(&values, [present.shape()[0], present.shape()[1], 1])?)
}
