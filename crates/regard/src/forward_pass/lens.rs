//! The logit lens: what each layer would predict at each position if it were the last (nostalgebraist, 2020).

use super::pass::ForwardPass;
use super::prediction::{PredictionKind, spelled};
use crate::error::usage_error;
use anyhow::Result;
use regard_nn::Context;
use regard_nn::tensor::Tensor;
use serde::Serialize;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most positions of one grid.
pub const MOST_POSITIONS: usize = 64;
/// The number of positions whose scores are computed at once.
const AT_ONCE: usize = 16;

/// The predictions of all layers at some positions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lens {
    /// How many rows there are: the embeddings, and one for each layer.
    pub layers: usize,
    /// Row by row, one cell a position.
    pub cells: Vec<LensCell>,
}

/// The prediction of one layer at one position.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LensCell {
    /// The token with the highest score.
    pub id: u32,
    /// Its text.
    pub text: String,
    /// Its probability.
    pub probability: f32,
    /// The probability of the token that was chosen, if one was.
    pub chosen: Option<f32>,
    /// How many tokens have a higher score than that one.
    pub rank: Option<usize>,
}

/// The scores after a layer (counted from the embeddings; the last one by default) at a position.
pub fn scores_at(pass: &ForwardPass, layer: Option<usize>, position: usize) -> Result<Vec<f32>> {
    check(pass, position)?;
    Ok(scores(pass, layer, position..position + 1)?.to_vec())
}

fn check(pass: &ForwardPass, position: usize) -> Result<()> {
    if !matches!(PredictionKind::of(pass.model()), PredictionKind::Next | PredictionKind::Masked) {
        return Err(usage_error("this model does not predict tokens"));
    }
    let count = pass.predicting().len();
    match position < count {
        true => Ok(()),
        false => Err(usage_error(format!("there is no position {position}: there are {count} tokens"))),
    }
}

/// (positions, vocabulary).
fn scores(pass: &ForwardPass, layer: Option<usize>, positions: Range<usize>) -> Result<Tensor> {
    let residual = pass.residuals().after(layer).map_err(|error| usage_error(error.to_string()))?;
    let residual = residual.slice(1, positions.start, positions.len())?; // (1, T, C)
    Ok(pass.model().lens(&Context::inference(), &residual)?.select(0, 0)?)
}

/// What each layer would predict at some positions, and how it ranks one token.
pub fn lens(
    pass: &ForwardPass,
    positions: Range<usize>,
    token: Option<u32>,
    cancel: &AtomicBool,
) -> Result<Lens> {
    if positions.is_empty() || positions.len() > MOST_POSITIONS {
        return Err(usage_error(format!("from 1 to {MOST_POSITIONS} positions can be requested together")));
    }
    check(pass, positions.end - 1)?;
    let layers = pass.residuals().stream().len();
    let mut cells = Vec::with_capacity(layers * positions.len());
    for layer in 0..layers {
        for start in positions.clone().step_by(AT_ONCE) {
            if cancel.load(Ordering::Relaxed) {
                return Err(regard_nn::Error::Cancelled.into());
            }
            let some = start..(start + AT_ONCE).min(positions.end);
            let scores = scores(pass, Some(layer), some.clone())?;
            let width = scores.shape().last().max(1);
            for (row, position) in scores.values().chunks(width).zip(some) {
                cells.push(cell(pass, row, position, token)?);
            }
        }
    }
    Ok(Lens { layers, cells })
}

fn cell(pass: &ForwardPass, scores: &[f32], position: usize, token: Option<u32>) -> Result<LensCell> {
    let best =
        (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b]).then(b.cmp(&a))).unwrap_or(0);
    let most = scores.get(best).copied().unwrap_or(0.0);
    let total: f64 = scores.iter().map(|score| f64::from(score - most).exp()).sum();
    let probability = |score: f32| (f64::from(score - most).exp() / total) as f32;
    let known = match token {
        None => None,
        Some(id) => {
            let count = scores.len();
            let score = scores.get(id as usize).copied();
            Some(score.ok_or_else(|| usage_error(format!("there is no token {id}: the model has {count}")))?)
        }
    };
    Ok(LensCell {
        id: best as u32,
        text: spelled(pass, position, best as u32)?,
        probability: probability(most),
        chosen: known.map(probability),
        rank: known.map(|known| scores.iter().filter(|&&score| score > known).count()),
    })
}
