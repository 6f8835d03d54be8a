//! Three classifiers of a text's sentiment that differ only in how they attend.
//!
//! ```text
//! embedding → BiLSTM → max over time                       → classifier
//! embedding → BiLSTM → additive attention, weighted sum     → classifier
//! embedding → BiLSTM → multi-head self-attention, max pool  → classifier
//! ```

use crate::attention::{AttentionConfig, MultiHead};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::layers::{Embedding, Linear};
use crate::parameter::{Initial, module};
use crate::recurrent::Lstm;
use saccade_tensor::ops::{Allowed, Function, Layout};
use saccade_tensor::{Ids, Mask, Tensor};

/// How the states of all words become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// The largest value of each feature.
    Max,
    /// A weighted sum, the weights from additive attention (Bahdanau et al., 2014).
    Additive,
    /// Self-attention between the words, then the largest value of each feature.
    Heads,
}

/// The sizes of a sentiment model.
#[derive(Debug, Clone, Copy, PartialEq)]
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
}

impl Default for SentimentConfig {
    fn default() -> Self {
        Self { vocabulary: 10_000, d_embedding: 100, d_hidden: 128, pooling: Pooling::Max, n_heads: 4 }
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
}

module!(Sentiment { words, lstm, additive, heads, classifier });

/// Scores of words by a small network: v·tanh(W·h + b).
#[derive(Debug, Clone)]
struct Additive {
    hidden: Linear,
    score: Linear,
}

module!(Additive { hidden, score });

const DEVIATION: f32 = 0.02;

impl Sentiment {
    /// A model with random weights.
    pub fn new(config: SentimentConfig, seed: u64) -> Result<Self> {
        let SentimentConfig { vocabulary, d_embedding, d_hidden, pooling, n_heads } = config;
        if vocabulary == 0 || d_embedding == 0 || d_hidden == 0 {
            return Err(Error::configuration("sentiment", "all sizes must be at least 1"));
        }
        let initial = Initial::new(seed);
        let width = 2 * d_hidden;
        let linear = |name: &str, sizes| Linear::normal(&initial.part(name), sizes, Layout::OutIn, DEVIATION);
        let additive = (pooling == Pooling::Additive).then(|| Additive {
            hidden: linear("additive.hidden", (width, d_hidden)),
            score: linear("additive.score", (d_hidden, 1)),
        });
        let attention = AttentionConfig { d_model: width, n_heads, dropout: 0.0, layout: Layout::OutIn };
        let heads = match pooling {
            Pooling::Heads => {
                Some(MultiHead::new(attention, &initial.part("heads"), (DEVIATION, DEVIATION))?)
            }
            _ => None,
        };
        Ok(Self {
            words: Embedding::normal(&initial.part("words"), (vocabulary, d_embedding), DEVIATION),
            lstm: Lstm::new(&initial.part("lstm"), (d_embedding, d_hidden), true),
            additive,
            heads,
            classifier: linear("classifier", (width, 1)),
        })
    }

    /// A logit for each text of ids (batch, time): above 0 means positive. `lengths` leave out the padding.
    pub fn forward(&self, context: &Context, ids: &Ids, lengths: Option<&[usize]>) -> Result<Tensor> {
        let [batch, time] = ids.shape()[..] else {
            return Err(Error::configuration(
                "sentiment",
                format!("ids must be (batch, time), got {}", ids.shape()),
            ));
        };
        let words = self.words.forward(context, ids)?; // (B, T, E)
        let mut states = self.lstm.forward(context, &words, lengths)?; // (B, T, 2H)
        let present = lengths.map(|lengths| Mask::from_fn([batch, time], |at| at[1] < lengths[at[0]]));
        if let Some(additive) = &self.additive {
            let hidden = additive.hidden.forward_then(context, &states, Some(Function::Tanh))?;
            let scores = additive.score.forward(context, &hidden)?.reshape([batch, time])?;
            let weights = match &present {
                Some(present) => scores.softmax_masked(present)?,
                None => scores.softmax()?,
            };
            let pooled = weights
                .reshape([batch, 1, time])?
                .matmul(&states)?
                .reshape([batch, states.shape().last()])?;
            return self.classify(context, &pooled, batch);
        }
        if let Some(heads) = &self.heads {
            let allowed = Allowed { keys: present.clone(), ..Allowed::default() };
            states = heads.forward(context, "self", &states, &allowed)?;
        }
        let states = match &present {
            // Padding must never win the maximum.
            Some(present) => states.add(&penalty(present)?)?,
            None => states,
        };
        self.classify(context, &states.max(1)?.0, batch)
    }

    fn classify(&self, context: &Context, pooled: &Tensor, batch: usize) -> Result<Tensor> {
        Ok(self.classifier.forward(context, pooled)?.reshape([batch])?)
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
}

/// 0 where a word is, a large negative number where padding is: (batch, time, 1).
fn penalty(present: &Mask) -> Result<Tensor> {
    let values: Vec<f32> = present.values().iter().map(|&here| if here { 0.0 } else { -1e30 }).collect();
    Ok(Tensor::new(&values, [present.shape()[0], present.shape()[1], 1])?)
}
