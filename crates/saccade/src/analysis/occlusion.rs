//! Blank-out: take a token away and see how the answer changes (Zeiler & Fergus, 2014; Abnar & Zuidema, 2020), and how
//! well the methods of [`super::influence`] agree with it.

use super::influence::{Method, influence};
use super::statistics::{Interval, Resampling, spearman};
use super::{Target, Tokens, pad, scores};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::models::Model;
use saccade_tensor::Tensor;

/// What takes a token's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blank {
    /// Another token, such as the mask or the unknown one.
    Replace(u32),
    /// Nothing: the text becomes shorter.
    Delete,
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
/// place where it would be deleted.
pub fn occlusion(
    model: &Model,
    tokens: &Tokens,
    target: Target,
    (blank, quantity): (Blank, Quantity),
) -> Result<Vec<Option<f64>>> {
    tokens.check()?;
    let whole = evaluate(model, std::slice::from_ref(tokens), target, quantity)?;
    let whole = whole.first().copied().unwrap_or(0.0);
    let mut changes = vec![None; tokens.len()];
    let gone = |place: usize| blank == Blank::Delete && (target.position == Some(place) || tokens.len() == 1);
    let places: Vec<usize> = (0..tokens.len()).filter(|&i| !tokens.special[i] && !gone(i)).collect();
    // Variants whose target stands at the same place can be read together.
    let moved = |place: usize| blank == Blank::Delete && target.position.is_some_and(|at| place < at);
    let (before, others): (Vec<usize>, Vec<usize>) = places.into_iter().partition(|&place| moved(place));
    for (places, shift) in [(before, 1), (others, 0)] {
        let target = Target { position: target.position.map(|at| at - shift), ..target };
        for places in places.chunks(BATCH) {
            let variants: Vec<Tokens> = places.iter().map(|&place| without(tokens, place, blank)).collect();
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
    }
    changed
}

/// The value of each text.
fn evaluate(model: &Model, texts: &[Tokens], target: Target, quantity: Quantity) -> Result<Vec<f64>> {
    let (ids, lengths) = pad(texts)?;
    let scores = scores(model, &Context::inference(), &ids, &lengths)?;
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
    model: &Model,
    texts: impl Iterator<Item = Result<(Tokens, Target)>>,
    yardstick: (Blank, Quantity),
    flow_limit: usize,
    resampling: Resampling,
) -> Result<Vec<Agreement>> {
    let mut found: Vec<Vec<Option<f64>>> = vec![Vec::new(); Method::ALL.len()];
    for text in texts {
        let (tokens, target) = text?;
        let changes = occlusion(model, &tokens, target, yardstick)?;
        let kept: Vec<usize> = (0..tokens.len()).filter(|&i| changes[i].is_some()).collect();
        let truth: Vec<f64> = kept.iter().map(|&i| changes[i].unwrap_or(0.0).abs()).collect();
        for (method, found) in Method::ALL.into_iter().zip(&mut found) {
            if method == Method::Flow && tokens.len() > flow_limit {
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
