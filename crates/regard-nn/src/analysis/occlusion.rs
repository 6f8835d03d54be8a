//! Blank-out: take a token away and see how the answer changes (Zeiler & Fergus, 2014; Abnar & Zuidema, 2020), and how
//! well the methods of [`super::influence`] agree with it.

use super::influence::{Method, influence};
use super::statistics::{Interval, Resampling, spearman};
use super::{Shown, Target, Tokens};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::models::Model;
use regard_tensor::Tensor;

/// What takes a token's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blank {
    /// Another token, such as the mask or the unknown one.
    Replace(u32),
    /// Nothing: the text becomes shorter.
    Delete,
    /// A grey patch, where the tokens are those of a picture.
    Patch(Patches),
}

/// How a picture is cut into patches, row by row after other tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patches {
    /// The number of channels.
    pub channels: usize,
    /// The height of the picture.
    pub height: usize,
    /// Its width.
    pub width: usize,
    /// The side of a patch.
    pub side: usize,
    /// The number of tokens before the patches.
    pub first: usize,
}

impl Patches {
    /// The same picture with one of its tokens at the mean of all pictures, which is 0.
    fn without(self, pixels: &[f32], place: usize) -> Vec<f32> {
        let (patch, columns) = (place.saturating_sub(self.first), self.width / self.side.max(1));
        let (top, left) = (patch / columns.max(1) * self.side, patch % columns.max(1) * self.side);
        let inside = |at: usize| {
            let (row, column) = (at / self.width % self.height, at % self.width);
            (top..top + self.side).contains(&row) && (left..left + self.side).contains(&column)
        };
        pixels.iter().enumerate().map(|(at, &pixel)| if inside(at) { 0.0 } else { pixel }).collect()
    }
}

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// The target's logit, or difference of logits.
    Logit,
    /// The probability of the target's class.
    Probability,
}

/// Variants of a text that are read at once.
const BATCH: usize = 16;

/// The value with the whole text minus the value without each token. None for special tokens, and for the target's own
/// place where it would be deleted. Of an answer, the tokens of what it answers are taken away; they stand first, and its
/// own are none.
pub fn occlusion(
    model: &dyn Model,
    tokens: &Tokens,
    target: Target,
    (blank, quantity): (Blank, Quantity),
) -> Result<Vec<Option<f64>>> {
    tokens.check()?;
    let whole = evaluate(model, std::slice::from_ref(tokens), target, quantity)?;
    let whole = whole.first().copied().unwrap_or(0.0);
    // What tokens are taken from, and whether the answer's place is among them.
    let (read, own) = match tokens.source.as_deref() {
        Some(source) => (source, false),
        None => (tokens, true),
    };
    let mut changes = vec![None; read.len() + if own { 0 } else { tokens.len() }];
    let answers_at = target.position.filter(|_| own);
    let gone = |place: usize| blank == Blank::Delete && (answers_at == Some(place) || read.len() == 1);
    let places: Vec<usize> = (0..read.len()).filter(|&i| !read.special[i] && !gone(i)).collect();
    // Variants whose target stands at the same place can be read together.
    let moved = |place: usize| blank == Blank::Delete && answers_at.is_some_and(|at| place < at);
    let (before, others): (Vec<usize>, Vec<usize>) = places.into_iter().partition(|&place| moved(place));
    for (places, shift) in [(before, 1), (others, 0)] {
        let target = Target { position: target.position.map(|at: usize| at.saturating_sub(shift)), ..target };
        for places in places.chunks(BATCH) {
            let variant = |&place: &usize| match own {
                true => without(read, place, blank),
                false => tokens.clone().answering(without(read, place, blank)),
            };
            let variants: Vec<Tokens> = places.iter().map(variant).collect();
            for (&place, value) in places.iter().zip(evaluate(model, &variants, target, quantity)?) {
                changes[place] = Some(whole - value);
            }
        }
    }
    Ok(changes)
}

fn without(tokens: &Tokens, place: usize, blank: Blank) -> Tokens {
    let mut changed = tokens.clone();
    match blank {
        Blank::Replace(id) => changed.ids[place] = id,
        Blank::Delete => {
            changed.ids.remove(place);
            changed.special.remove(place);
            changed.delimiter.remove(place);
        }
        Blank::Patch(patches) => {
            changed.pixels = tokens.pixels.as_ref().map(|pixels| patches.without(pixels, place).into());
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

/// How well a method agrees with blank-out.
#[derive(Debug, Clone, PartialEq)]
pub struct Agreement {
    /// The method.
    pub method: Method,
    /// Spearman's correlation with the absolute change, text by text; none where either is constant or the method does
    /// not apply.
    pub texts: Vec<Option<f64>>,
    /// The mean over texts, with an interval from resampled texts.
    pub correlation: Interval,
}

/// The rank correlation of each method with blank-out over texts, each with its target. Texts of more than `flow_limit`
/// tokens are left out of flow's.
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
            if method == Method::Flow && tokens.in_all() > flow_limit {
                found.push(None);
                continue;
            }
            let said = influence(model, &tokens, target, method, flow_limit)?;
            let said: Vec<f64> = kept.iter().map(|&i| said[i]).collect();
            found.push(spearman(&said, &truth)?);
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
