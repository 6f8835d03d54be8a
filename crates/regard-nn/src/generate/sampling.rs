//! Sampling: how the next token is chosen from its logits.

use crate::error::{Error, Result};
use regard_tensor::random::Key;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// How the next token is chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sampling {
    /// Greedy decoding: always the most probable token. Of the other settings only the repetition penalty has an effect.
    pub greedy: bool,
    /// Logits are divided by this: values below 1 give more certain, above 1 more varied texts. 0 is greedy decoding.
    pub temperature: f32,
    /// Only the k most probable tokens are considered; all if 0.
    pub top_k: usize,
    /// Nucleus sampling: only the most probable tokens that together reach this probability are considered (Holtzman et al.,
    /// 2019).
    pub top_p: f32,
    /// Positive logits of tokens that occurred before are divided by this, negative ones multiplied (Keskar et al., 2019).
    pub repetition_penalty: f32,
    /// The seed of the random draws.
    pub seed: u64,
}

impl Default for Sampling {
    /// Greedy decoding.
    fn default() -> Self {
        Self { greedy: true, temperature: 1.0, top_k: 0, top_p: 1.0, repetition_penalty: 1.0, seed: 0 }
    }
}

impl Sampling {
    /// Sampling at a temperature.
    pub fn at_temperature(temperature: f32, seed: u64) -> Self {
        Self { greedy: false, temperature, seed, ..Self::default() }
    }

    /// Returns an error if a setting is invalid.
    pub fn check(&self) -> Result<()> {
        let positive = |value: f32| value > 0.0 && value.is_finite();
        let problem = if self.temperature != 0.0 && !positive(self.temperature) {
            format!("the temperature must be 0 (greedy decoding) or above, got {}", self.temperature)
        } else if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            format!("top-p must be above 0 and at most 1, got {}", self.top_p)
        } else if !positive(self.repetition_penalty) {
            format!("the repetition penalty must be above 0, got {}", self.repetition_penalty)
        } else {
            return Ok(());
        };
        Err(Error::configuration("sampling", problem))
    }

    /// Whether the most probable token is always taken: by request, or because the temperature is 0.
    pub fn is_greedy(&self) -> bool {
        self.greedy || self.temperature == 0.0
    }

    /// The next token after a text, drawn for the given row and step.
    pub fn choose(&self, scores: &[f32], text: &[u32], (row, step): (u64, u64)) -> u32 {
        if self.is_greedy() {
            let scores = penalised(scores, text, self.repetition_penalty);
            return best(&scores);
        }
        let probabilities = distribution(scores, text, self);
        let draw = f64::from(Key::new(self.seed).site("sample").uniform(row, step));
        let mut below = 0.0;
        let mut last = 0;
        for (token, &probability) in probabilities.iter().enumerate() {
            if probability > 0.0 {
                last = token as u32;
                below += f64::from(probability);
                if draw < below {
                    return last;
                }
            }
        }
        // Rounding may leave the sum a little below 1.
        last
    }
}

/// The index of the largest logit; the first one if several are equal. NaN is ignored.
fn best(scores: &[f32]) -> u32 {
    const LANES: usize = 16;
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    // Lane by lane, which compiles to vector instructions: a vocabulary is searched for every token.
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = scores.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, &score) in lanes.iter_mut().zip(chunk) {
            *lane = larger(*lane, score);
        }
    }
    let largest = lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |a, &b| larger(a, b));
    scores.iter().position(|&score| score == largest).unwrap_or(0) as u32
}

/// The probability of each token after a text, with penalty, temperature, top-k and top-p applied in this order. At a
/// temperature of 0 the most probable token has all of it.
pub fn distribution(scores: &[f32], text: &[u32], sampling: &Sampling) -> Vec<f32> {
    let mut scores = penalised(scores, text, sampling.repetition_penalty).into_owned();
    let mut probabilities = vec![0.0; scores.len()];
    if sampling.temperature == 0.0 {
        if let Some(probability) = probabilities.get_mut(best(&scores) as usize) {
            *probability = 1.0;
        }
        return probabilities;
    }
    for score in &mut scores {
        *score /= sampling.temperature;
    }
    let descending = |a: &usize, b: &usize| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b));
    let mut kept: Vec<usize> = (0..scores.len()).collect();
    if (1..kept.len()).contains(&sampling.top_k) {
        kept.select_nth_unstable_by(sampling.top_k - 1, descending);
        kept.truncate(sampling.top_k);
        kept.sort_unstable();
    }
    let most = kept.iter().map(|&token| scores[token]).max_by(f32::total_cmp).unwrap_or(0.0);
    let weights: Vec<f64> = scores.iter().map(|&score| f64::from(score - most).exp()).collect();
    let total = |kept: &[usize]| -> f64 { kept.iter().map(|&token| weights[token]).sum() };
    if sampling.top_p < 1.0 {
        let enough = f64::from(sampling.top_p) * total(&kept);
        let count = nucleus(&mut kept, descending, &weights, enough);
        kept.truncate(count);
    }
    let total = total(&kept);
    for &token in &kept {
        probabilities[token] = (weights[token] / total) as f32;
    }
    probabilities
}

/// Moves the largest tokens to the front, and returns how many of them together reach `enough`, at least one. The token that
/// crosses the limit is included. Only a piece at a time is sorted: a nucleus is small beside a vocabulary.
fn nucleus(
    tokens: &mut [usize],
    descending: impl Fn(&usize, &usize) -> std::cmp::Ordering,
    weights: &[f64],
    enough: f64,
) -> usize {
    let (mut sorted, mut sum) = (0, 0.0);
    while sorted < tokens.len() {
        let rest = &mut tokens[sorted..];
        let piece = sorted.max(64).min(rest.len());
        rest.select_nth_unstable_by(piece - 1, &descending);
        rest[..piece].sort_unstable_by(&descending);
        for (at, &token) in rest[..piece].iter().enumerate() {
            sum += weights[token];
            if sum >= enough {
                return sorted + at + 1;
            }
        }
        sorted += piece;
    }
    tokens.len()
}

/// Applies the repetition penalty.
fn penalised<'a>(scores: &'a [f32], text: &[u32], penalty: f32) -> Cow<'a, [f32]> {
    if penalty == 1.0 {
        return Cow::Borrowed(scores);
    }
    let mut changed = scores.to_vec();
    for &token in text {
        if let (Some(to), Some(&from)) = (changed.get_mut(token as usize), scores.get(token as usize)) {
            *to = if from < 0.0 { from * penalty } else { from / penalty };
        }
    }
    Cow::Owned(changed)
}
