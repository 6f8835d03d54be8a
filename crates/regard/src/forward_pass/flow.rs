//! Attention flow of a position through the layers: raw attention and rollout.

use super::pass::ForwardPass;
use super::site::Group;
use crate::error::usage_error;
use anyhow::Result;
use regard_nn::Error;
use regard_nn::analysis::influence::rollout;
use regard_nn::tensor::Tensor;
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

/// The mean weights of the heads of each layer of a group: (time, time) each.
pub(super) fn means(pass: &ForwardPass, group: Group, cancel: &AtomicBool) -> Result<Vec<Tensor>> {
    let chosen = pass.sites().iter().enumerate().filter(|(_, site)| site.group == group);
    chosen
        .map(|(number, _)| {
            if cancel.load(Ordering::Relaxed) {
                return Err(Error::Cancelled.into());
            }
            Ok(pass.weights(number)?.all().mean(1)?.select(0, 0)?)
        })
        .collect()
}

/// Follows a position through the layers of a group.
pub fn flow(pass: &ForwardPass, group: Group, position: usize, cancel: &AtomicBool) -> Result<Flow> {
    let mut flows = flows(pass, group, &[position], cancel)?;
    flows.pop().ok_or_else(|| usage_error("no position"))
}

/// Follows several positions.
pub fn flows(
    pass: &ForwardPass,
    group: Group,
    positions: &[usize],
    cancel: &AtomicBool,
) -> Result<Vec<Flow>> {
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
    let means = means(pass, group, cancel)?;
    let rolled = rollout(&means)?;
    let rows = |layers: &[Tensor], position: usize| -> Vec<f32> {
        let row = |layer: &Tensor| layer.values()[position * tokens..][..tokens].to_vec();
        layers.iter().flat_map(row).collect()
    };
    let follow = |&position: &usize| Flow {
        layers: means.len(),
        tokens,
        raw: rows(&means, position),
        rollout: rows(&rolled, position),
    };
    Ok(positions.iter().map(follow).collect())
}
