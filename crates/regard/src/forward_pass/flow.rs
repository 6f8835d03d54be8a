//! Attention flow of a position through the layers: raw attention and rollout.

use super::pass::ForwardPass;
use super::site::Group;
use crate::error::usage_error;
use anyhow::Result;
use regard_nn::Error;
use regard_nn::analysis::influence::{rollout, with_residual};
use regard_nn::tensor::Tensor;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most tokens for which flow is computed: it needs all pairs at once.
pub const MOST_TOKENS: usize = 1024;

/// One position through the layers.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// How many layers there are.
    pub layers: usize,
    /// How many tokens there are.
    pub tokens: usize,
    /// Layer by layer: the mean weights of the heads on every token.
    pub raw: Vec<f32>,
    /// Layer by layer: what the position is made of, by rollout (Abnar & Zuidema, 2020).
    pub rollout: Vec<f32>,
}

/// The mean weights of the heads of each layer of a group: (time, time) each. They are kept: every position needs them.
pub(super) fn means(pass: &ForwardPass, group: Group, cancel: &AtomicBool) -> Result<Arc<Vec<Tensor>>> {
    let known = pass.computed().means.clone();
    if let Some((_, means)) = known.filter(|(of, _)| *of == group) {
        return Ok(means);
    }
    let chosen = pass.sites().iter().enumerate().filter(|(_, site)| site.group == group);
    let mean = |(number, _)| {
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::Cancelled.into());
        }
        Ok(pass.weights(number)?.all().mean(1)?.select(0, 0)?)
    };
    let means = Arc::new(chosen.map(mean).collect::<Result<Vec<_>>>()?);
    pass.computed().means = Some((group, Arc::clone(&means)));
    Ok(means)
}

/// Follows a position through the layers of a group.
pub fn flow(pass: &ForwardPass, group: Group, position: usize, cancel: &AtomicBool) -> Result<Flow> {
    check(pass, group, &[position])?;
    let means = means(pass, group, cancel)?;
    let mixed = means.iter().map(with_residual).collect::<regard_nn::Result<Vec<_>>>()?;
    let tokens = pass.sides(group).0.len();
    // One row of each product: multiplied from the left, it takes no product of whole matrices.
    let mut rollout = Vec::with_capacity(mixed.len() * tokens);
    for (layer, last) in mixed.iter().enumerate() {
        let row = last.slice(0, position, 1)?;
        let row = mixed[..layer].iter().rev().try_fold(row, |row, earlier| row.matmul(earlier))?;
        rollout.extend(row.to_vec());
    }
    Ok(Flow { layers: means.len(), tokens, raw: rows(&means, position, tokens), rollout })
}

/// Layer by layer, one row.
fn rows(layers: &[Tensor], position: usize, tokens: usize) -> Vec<f32> {
    layers.iter().flat_map(|layer| layer.values()[position * tokens..][..tokens].to_vec()).collect()
}

/// Whether positions can be followed.
fn check(pass: &ForwardPass, group: Group, positions: &[usize]) -> Result<()> {
    if group == Group::Cross {
        return Err(usage_error("flow follows a text through its own layers: choose self-attention"));
    }
    let tokens = pass.sides(group).0.len();
    if let Some(position) = positions.iter().find(|&&position| position >= tokens) {
        return Err(usage_error(format!("there is no token {position}: there are {tokens}")));
    }
    if tokens > MOST_TOKENS {
        let problem = format!("flow is computed for up to {MOST_TOKENS} tokens; the text has {tokens}");
        return Err(usage_error(problem));
    }
    Ok(())
}

/// Follows several positions.
pub fn flows(
    pass: &ForwardPass,
    group: Group,
    positions: &[usize],
    cancel: &AtomicBool,
) -> Result<Vec<Flow>> {
    check(pass, group, positions)?;
    let tokens = pass.sides(group).0.len();
    let means = means(pass, group, cancel)?;
    let rolled = rollout(&means)?;
    let follow = |&position: &usize| Flow {
        layers: means.len(),
        tokens,
        raw: rows(&means, position, tokens),
        rollout: rows(&rolled, position, tokens),
    };
    Ok(positions.iter().map(follow).collect())
}
