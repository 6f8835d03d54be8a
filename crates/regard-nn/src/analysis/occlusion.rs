//! Occlusion (blank-out): remove a token and measure the change of the prediction (Zeiler & Fergus, 2014; Abnar &
//! Zuidema, 2020). Also the agreement of the methods in [`super::influence`] with it.

use super::influence::{Method, influence};
use super::statistics::{Interval, Resampling, spearman};
use super::{Shown, Target, Tokens};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::models::Model;
use regard_tensor::Tensor;

/// The replacement of an occluded token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Blank {
    /// Another token, such as the mask token or the unknown token.
    Replace(u32),
    /// None: the token is deleted, and the text becomes shorter.
    Delete,
    /// A grey patch, for images.
    Patch(PatchSizes),
}

/// How an image is divided into patches, row by row after other tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PatchSizes {
    /// The number of channels.
    pub channels: usize,
    /// The height of the image.
    pub height: usize,
    /// Its width.
    pub width: usize,
    /// The side length of a patch.
    pub side: usize,
    /// The number of tokens before the patches.
    pub first: usize,
}

impl PatchSizes {
    /// The same image with one patch set to 0, the mean of all images.
    fn without(self, pixels: &[f32], position: usize) -> Vec<f32> {
        let (patch, columns) = (position.saturating_sub(self.first), self.width / self.side.max(1));
        let (top, left) = (patch / columns.max(1) * self.side, patch % columns.max(1) * self.side);
        let inside = |at: usize| {
            let (row, column) = (at / self.width % self.height, at % self.width);
            (top..top + self.side).contains(&row) && (left..left + self.side).contains(&column)
        };
        pixels.iter().enumerate().map(|(at, &pixel)| if inside(at) { 0.0 } else { pixel }).collect()
    }
}

/// The quantity whose change is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Quantity {
    /// The target's logit or difference of logits.
    Logit,
    /// The probability of the target's class.
    Probability,
}

/// The number of variants of a text in a batch.
pub const BATCH: usize = 16;

/// The value for the whole text minus the value without each token. `None` for special tokens, and for the target's own
/// position if it would be deleted. For a decoder's output the tokens of the source are occluded; they come first, and
/// the output's own tokens are `None`.
pub fn occlusion(
    model: &dyn Model,
    tokens: &Tokens,
    target: Target,
    yardstick: (Blank, Quantity),
) -> Result<Vec<Option<f64>>> {
    occlusion_with_progress(model, tokens, target, yardstick, &|| {})
}

/// The same, with a call of `progress` after each pass.
pub fn occlusion_with_progress(
    model: &dyn Model,
    tokens: &Tokens,
    target: Target,
    (blank, quantity): (Blank, Quantity),
    progress: &dyn Fn(),
) -> Result<Vec<Option<f64>>> {
    tokens.check()?;
    let whole = evaluate(model, std::slice::from_ref(tokens), target, quantity)?;
    let whole = whole.first().copied().unwrap_or(0.0);
    // The text whose tokens are occluded, and whether the target's position is in it.
    let (read, own) = match tokens.source.as_deref() {
        Some(source) => (source, false),
        None => (tokens, true),
    };
    let mut changes = vec![None; read.len() + if own { 0 } else { tokens.len() }];
    let target_at = target.position.filter(|_| own);
    let gone = |position: usize| blank == Blank::Delete && (target_at == Some(position) || read.len() == 1);
    let positions: Vec<usize> = (0..read.len()).filter(|&i| !read.special[i] && !gone(i)).collect();
    // Variants with the same target position can share a batch.
    let moved = |position: usize| blank == Blank::Delete && target_at.is_some_and(|at| position < at);
    let (before, others): (Vec<usize>, Vec<usize>) =
        positions.into_iter().partition(|&position| moved(position));
    for (positions, shift) in [(before, 1), (others, 0)] {
        let target = Target { position: target.position.map(|at: usize| at.saturating_sub(shift)), ..target };
        for positions in positions.chunks(BATCH) {
            let variant = |&position: &usize| match own {
                true => without(read, position, blank),
                false => tokens.clone().with_source(without(read, position, blank)),
            };
            let variants: Vec<Tokens> = positions.iter().map(variant).collect();
            for (&position, value) in positions.iter().zip(evaluate(model, &variants, target, quantity)?) {
                changes[position] = Some(whole - value);
            }
            progress();
        }
    }
    Ok(changes)
}

fn without(tokens: &Tokens, position: usize, blank: Blank) -> Tokens {
    let mut changed = tokens.clone();
    match blank {
        Blank::Replace(id) => changed.ids[position] = id,
        Blank::Delete => {
            changed.ids.remove(position);
            changed.special.remove(position);
            changed.delimiter.remove(position);
        }
        Blank::Patch(patches) => {
            changed.pixels = tokens.pixels.as_ref().map(|pixels| patches.without(pixels, position).into());
        }
    }
    changed
}

/// The value of each text.
fn evaluate(model: &dyn Model, texts: &[Tokens], target: Target, quantity: Quantity) -> Result<Vec<f64>> {
    let scores = Shown::new(texts)?.scores(model, &Context::inference())?;
    let values: Tensor = match quantity {
        Quantity::Logit => target.logit(&scores)?,
        Quantity::Probability => Target { against: None, ..target }.logit(&scores.softmax()?)?,
    };
    Ok(values.to_vec().into_iter().map(f64::from).collect())
}

/// The agreement of a method with occlusion.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Agreement {
    /// The method.
    pub method: Method,
    /// Spearman's correlation with the absolute change for each text; `None` where either is constant or the method does
    /// not apply.
    pub texts: Vec<Option<f64>>,
    /// The mean over texts, with an interval from resampled texts.
    pub correlation: Interval,
}

/// The rank correlation of each method with occlusion over texts, each with its target. Attention flow leaves out texts
/// of more than `flow_limit` tokens.
pub fn faithfulness(
    model: &dyn Model,
    texts: impl Iterator<Item = Result<(Tokens, Target)>>,
    yardstick: (Blank, Quantity),
    flow_limit: usize,
    resampling: Resampling,
) -> Result<Vec<Agreement>> {
    let mut found: Vec<Vec<Option<f64>>> = vec![Vec::new(); Method::ALL.len()];
    for text in texts {
        let (tokens, target) = text?;
        let changes = occlusion(model, &tokens, target, yardstick)?;
        let kept: Vec<usize> = (0..changes.len()).filter(|&i| changes[i].is_some()).collect();
        let truth: Vec<f64> = kept.iter().map(|&i| changes[i].unwrap_or(0.0).abs()).collect();
        for (method, found) in Method::ALL.into_iter().zip(&mut found) {
            if method == Method::Flow && tokens.total_len() > flow_limit {
                found.push(None);
                continue;
            }
            let values = influence(model, &tokens, target, method, flow_limit)?;
            let values: Vec<f64> = kept.iter().map(|&i| values[i]).collect();
            found.push(spearman(&values, &truth)?);
        }
    }
    if found.iter().all(Vec::is_empty) {
        return Err(Error::input("faithfulness", "there are no texts"));
    }
    let agreement = |(method, texts): (Method, Vec<Option<f64>>)| {
        let correlation = resampling.mean(&texts.iter().filter_map(|&value| value).collect::<Vec<f64>>());
        Agreement { method, texts, correlation }
    };
    Ok(Method::ALL.into_iter().zip(found).map(agreement).collect())
}
