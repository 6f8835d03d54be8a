//! Pooling weights: the share of `pool.weights` on each kind of word, compared with the share of such words in the text.

use super::statistics::{Estimate, Interval, Resampling};
use super::{Shown, Tokens, pad};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::models::Model;
use crate::probe::Probe;

/// The weight of one kind of word, over the texts that contain one.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Share {
    /// Its share of the weight.
    pub weight: Interval,
    /// Its share of the words: its weight under uniform pooling.
    pub uniform: Interval,
    /// The difference of the two.
    pub difference: Interval,
}

/// The shares of `kinds` kinds of words over texts. Each text comes with the kind of every token; larger numbers count as
/// no kind.
pub fn pooled_shares(
    model: &dyn Model,
    texts: impl Iterator<Item = Result<(Tokens, Vec<usize>)>>,
    (kinds, batch): (usize, usize),
    resampling: &Resampling,
) -> Result<Vec<Share>> {
    let mut estimates: Vec<[Estimate; 3]> = vec![Default::default(); kinds];
    let mut texts = texts.fuse();
    let mut index = 0;
    loop {
        let taken: Vec<(Tokens, Vec<usize>)> = texts.by_ref().take(batch.max(1)).collect::<Result<_>>()?;
        if taken.is_empty() {
            break;
        }
        let (read, kinds_of): (Vec<Tokens>, Vec<Vec<usize>>) = taken.into_iter().unzip();
        for (weights, kinds_of) in pool_weights(model, &read)?.iter().zip(&kinds_of) {
            if kinds_of.len() != weights.len() {
                let problem = format!("{} tokens, but kinds for {}", weights.len(), kinds_of.len());
                return Err(Error::input("pooling weights", problem));
            }
            let draws = resampling.draws(index);
            index += 1;
            let total: f64 = weights.iter().sum();
            for (kind, [weight, uniform, difference]) in estimates.iter_mut().enumerate() {
                let of_kind = || kinds_of.iter().zip(weights).filter(|(of, _)| **of == kind);
                let words = of_kind().count();
                if words > 0 && total > 0.0 {
                    let share = of_kind().map(|(_, weight)| weight).sum::<f64>() / total;
                    let equal = words as f64 / weights.len() as f64;
                    weight.add(share, &draws);
                    uniform.add(equal, &draws);
                    difference.add(share - equal, &draws);
                }
            }
        }
    }
    let level = resampling.level;
    let share = |of: &[Estimate; 3]| Share {
        weight: of[0].interval(level),
        uniform: of[1].interval(level),
        difference: of[2].interval(level),
    };
    Ok(estimates.iter().map(share).collect())
}

/// The pooling weight of each token of each text.
pub fn pool_weights(model: &dyn Model, texts: &[Tokens]) -> Result<Vec<Vec<f64>>> {
    let (ids, lengths) = pad(texts)?;
    let probe = Probe::new().record("pool.weights");
    let shown = Shown::padded(ids, lengths);
    shown.read(model, &Context::inference().with_probe(&probe))?;
    let missing = || Error::input("pooling weights", format!("a {} does not pool words", model.kind()));
    let weights = probe.get("pool.weights")?.ok_or_else(missing)?.to_vec();
    let rows = weights.chunks(shown.ids.shape().last().max(1)).zip(&shown.lengths);
    Ok(rows
        .map(|(row, &length)| row.iter().take(length).map(|&weight| f64::from(weight)).collect())
        .collect())
}
