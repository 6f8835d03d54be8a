//! A mixture of experts: several feed-forward layers, of which a router chooses a few for each token
//! (Shazeer et al., 2017; Fedus et al., 2021).
//!
//! ```text
//! p = softmax(x·W_router)
//! y = Σ p_e · expert_e(x)        over the k experts e with the largest p, renormalised to sum to 1 or not
//! ```

use super::{FeedForward, FeedForwardConfig, Linear, LinearConfig};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::parameter::{Draw, Initial, Module, Parameter, module};
use regard_tensor::ops::{Layout, concatenate};
use regard_tensor::{Ids, Tensor};
use serde::{Deserialize, Serialize};

/// How many experts there are, and how they are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MixtureConfig {
    /// The number of experts.
    pub experts: usize,
    /// How many of them each token takes.
    pub active: usize,
    /// Whether the weights of those are renormalised to sum to 1.
    #[serde(default)]
    pub normalised: bool,
    /// Whether the router has a bias.
    #[serde(default)]
    pub router_bias: bool,
}

impl MixtureConfig {
    /// Fails unless each token finds as many experts as it takes.
    pub(crate) fn check(&self) -> Result<()> {
        if self.active > 0 && self.active <= self.experts && self.experts <= MOST_EXPERTS {
            return Ok(());
        }
        let problem = format!("a token cannot take {} of {} experts", self.active, self.experts);
        Err(Error::configuration("mixture of experts", problem))
    }
}

/// No model has more.
const MOST_EXPERTS: usize = 1 << 16;

/// The router and its experts.
#[derive(Debug, Clone)]
pub struct Mixture {
    router: Linear,
    experts: Vec<FeedForward>,
    config: MixtureConfig,
}

module!(Mixture { router, experts });

impl Mixture {
    /// Experts of one form with drawn weights.
    pub fn new(
        initial: &Initial,
        (config, expert): (MixtureConfig, FeedForwardConfig),
        draws: (Draw, Draw),
    ) -> Result<Self> {
        config.check()?;
        let router = LinearConfig {
            inputs: expert.d_model,
            outputs: config.experts,
            bias: config.router_bias,
            layout: Layout::OutIn,
        };
        let experts =
            (0..config.experts).map(|i| FeedForward::new(&initial.part("experts").part(i), expert, draws));
        Ok(Self {
            router: Linear::new(&initial.part("router"), router, draws.0)?,
            experts: experts.collect::<Result<_>>()?,
            config,
        })
    }

    /// The weighted sum of the chosen experts' values. Shows the weights of all experts, (batch, time, experts), 0 for those
    /// that were not chosen, as `router`, and the sum as `output`.
    pub fn forward(&self, context: &Context, x: &Tensor) -> Result<Tensor> {
        let (shape, width) = (x.shape().clone(), x.shape().last());
        let (tokens, n_experts, active) = (shape.rows(), self.config.experts, self.config.active);
        let rows = x.reshape([tokens, width])?; // (N, C)
        let chances = self.router.forward(context, &rows)?.softmax()?; // (N, E)
        let chosen = chosen(&chances.values(), n_experts, active);

        let mut kept = vec![0.0; tokens * n_experts];
        for &at in &chosen {
            kept[at as usize] = 1.0;
        }
        let kept = Tensor::new(&kept, [tokens, n_experts])?.to(x.device())?;
        let mut weights = chances.multiply(&kept)?;
        if self.config.normalised {
            weights = weights.divide(&weights.sum(-1)?.reshape([tokens, 1])?)?;
        }
        let mut by_token = shape.to_vec();
        if let Some(last) = by_token.last_mut() {
            *last = n_experts;
        }
        let weights = context.see("router", weights.reshape(by_token)?)?;

        let (values, places) = self.values(context, &rows, &chosen)?;
        let values = values.embedding(&Ids::new(&places, [tokens, active])?)?; // (N, k, C)
        let weights =
            weights.reshape([tokens * n_experts, 1])?.embedding(&Ids::new(&chosen, [tokens, active])?)?; // (N, k, 1)
        let sum = values.multiply(&weights)?.sum(1)?; // (N, C)
        context.see("output", sum.reshape(shape)?)
    }

    /// The values of all chosen pairs of token and expert, expert by expert, and for each pair (in the order of the tokens)
    /// the row of its value.
    fn values(&self, context: &Context, rows: &Tensor, chosen: &[u32]) -> Result<(Tensor, Vec<u32>)> {
        // How many tokens an expert reads depends on the text: its inner values have no site.
        let quiet = context.without_probe();
        let (n_experts, active) = (self.config.experts, self.config.active);
        let (mut values, mut places, mut row) = (Vec::new(), vec![0; chosen.len()], 0);
        for (e, expert) in self.experts.iter().enumerate() {
            let pairs: Vec<usize> =
                (0..chosen.len()).filter(|&pair| chosen[pair] as usize % n_experts == e).collect();
            if pairs.is_empty() {
                continue;
            }
            let tokens: Vec<u32> = pairs.iter().map(|pair| (pair / active) as u32).collect();
            let read = rows.embedding(&Ids::new(&tokens, [tokens.len()])?)?;
            values.push(expert.forward(&quiet, &read)?);
            for pair in pairs {
                places[pair] = row;
                row += 1;
            }
        }
        Ok((concatenate(&values.iter().collect::<Vec<_>>(), 0)?, places))
    }
}

/// The entries of (tokens, experts) that are among the `active` largest of their row, largest first; of equal ones the
/// earlier.
fn chosen(chances: &[f32], experts: usize, active: usize) -> Vec<u32> {
    let best = |(token, row): (usize, &[f32])| {
        let mut order: Vec<usize> = (0..experts).collect();
        order.sort_by(|&a, &b| row[b].total_cmp(&row[a]).then(a.cmp(&b)));
        order.truncate(active);
        order.into_iter().map(move |expert| (token * experts + expert) as u32).collect::<Vec<_>>()
    };
    chances.chunks(experts.max(1)).enumerate().flat_map(best).collect()
}

/// What stands in a block's place for a feed-forward layer.
#[derive(Debug, Clone)]
pub(crate) enum AnyFeedForward {
    One(Box<FeedForward>),
    Mixture(Mixture),
}

impl AnyFeedForward {
    pub fn new(initial: &Initial, config: FeedForwardConfig, draws: (Draw, Draw)) -> Result<Self> {
        Ok(match config.mixture {
            None => Self::One(Box::new(FeedForward::new(initial, config, draws)?)),
            Some(mixture) => Self::Mixture(Mixture::new(initial, (mixture, config), draws)?),
        })
    }

    pub fn forward(&self, context: &Context, x: &Tensor) -> Result<Tensor> {
        match self {
            Self::One(layer) => layer.forward(context, x),
            Self::Mixture(mixture) => mixture.forward(context, x),
        }
    }
}

impl Module for AnyFeedForward {
    fn visit<'a>(&'a self, path: &str, f: &mut dyn FnMut(String, &'a Parameter)) {
        match self {
            Self::One(layer) => layer.visit(path, f),
            Self::Mixture(mixture) => mixture.visit(path, f),
        }
    }

    fn visit_mut<'a>(&'a mut self, path: &str, f: &mut dyn FnMut(String, &'a mut Parameter)) {
        match self {
            Self::One(layer) => layer.visit_mut(path, f),
            Self::Mixture(mixture) => mixture.visit_mut(path, f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_chosen_and_of_equal_ones_the_first() {
        let chances = [0.1, 0.5, 0.4, 0.2, 0.2, 0.6];
        assert_eq!(chosen(&chances, 3, 2), [1, 2, 5, 3]);
    }
}
