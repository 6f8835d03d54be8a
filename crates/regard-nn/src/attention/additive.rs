//! Additive attention (Bahdanau et al., 2014): a small network scores each pair.
//!
//! ```text
//! score(q, k) = v · tanh(W_q·q + W_k·k + b)
//! ```
//!
//! Without a query it asks only how much each word matters, as a pooling layer does.

use crate::context::Context;
use crate::error::{Error, Result};
use crate::layers::{Activation, Linear, LinearConfig};
use crate::parameter::{Draw, Initial, module};
use regard_tensor::{Mask, Tensor};

/// The network that scores.
#[derive(Debug, Clone)]
pub struct Additive {
    query: Option<Linear>,
    hidden: Linear,
    score: Linear,
}

module!(Additive { query, hidden, score });

impl Additive {
    /// A network for keys of a given width, with `d_hidden` units; `d_query` is the width of queries, if there are any.
    pub fn new(
        initial: &Initial,
        (d_query, d_key, d_hidden): (Option<usize>, usize, usize),
        draw: Draw,
    ) -> Result<Self> {
        let query = match d_query {
            Some(width) => {
                let config = LinearConfig { bias: false, ..LinearConfig::new(width, d_hidden) };
                Some(Linear::new(&initial.part("query"), config, draw)?)
            }
            None => None,
        };
        Ok(Self {
            query,
            hidden: Linear::new(&initial.part("hidden"), LinearConfig::new(d_key, d_hidden), draw)?,
            score: Linear::new(&initial.part("score"), LinearConfig::new(d_hidden, 1), draw)?,
        })
    }

    /// Scores of keys (batch, keys, width) without a query: (batch, keys).
    pub fn importance(&self, context: &Context, keys: &Tensor) -> Result<Tensor> {
        let [batch, n_keys, _] = sizes(keys)?;
        let hidden = self.hidden.forward_then(context, keys, Activation::Tanh)?;
        Ok(self.score.forward(context, &hidden)?.reshape([batch, n_keys])?)
    }

    /// Scores of every pair of queries (batch, queries, width) and keys (batch, keys, width): (batch, queries, keys).
    pub fn scores(&self, context: &Context, queries: &Tensor, keys: &Tensor) -> Result<Tensor> {
        let [batch, n_queries, _] = sizes(queries)?;
        let [_, n_keys, _] = sizes(keys)?;
        let hidden = self.hidden.forward(context, keys)?;
        let width = hidden.shape().last();
        let hidden = hidden.reshape([batch, 1, n_keys, width])?;
        let asked = match &self.query {
            Some(query) => query.forward(context, queries)?.reshape([batch, n_queries, 1, width])?,
            None => Tensor::full_on(hidden.device(), [batch, n_queries, 1, width], 0.0)?,
        };
        let hidden = asked.add(&hidden)?.tanh()?; // (B, Tq, Tk, hidden)
        Ok(self.score.forward(context, &hidden)?.reshape([batch, n_queries, n_keys])?)
    }

    /// The weighted sum of vectors (batch, keys, width), and the weights (batch, keys): what matters in a text.
    ///
    /// Weights are shown as `pool.weights`. `present` (batch, keys) leaves out the padding.
    pub fn pool(&self, context: &Context, keys: &Tensor, present: Option<&Mask>) -> Result<(Tensor, Tensor)> {
        let scores = self.importance(context, keys)?; // (B, T)
        let weights = match present {
            Some(present) => scores.softmax_masked(present)?,
            None => scores.softmax()?,
        };
        let weights = context.see("pool.weights", weights)?;
        let [batch, time, width] = sizes(keys)?;
        let pooled = weights.reshape([batch, 1, time])?.matmul(keys)?;
        Ok((pooled.reshape([batch, width])?, weights))
    }
}

fn sizes(x: &Tensor) -> Result<[usize; 3]> {
    let [batch, time, width] = x.shape()[..] else {
        let problem = format!("vectors must be (batch, time, width), got {}", x.shape());
        return Err(Error::input("additive attention", problem));
    };
    Ok([batch, time, width])
}
