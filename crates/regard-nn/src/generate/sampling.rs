//! Sampling: how the next token is chosen from its logits.

use crate::error::{Error, Result};
use regard_tensor::random::Key;
use serde::{Deserialize, Serialize};

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
    let mut best = 0;
    for (token, &score) in scores.iter().enumerate() {
        if score > scores[best] || scores[best].is_nan() {
            best = token;
        }
    }
    best as u32
}

/// The probability of each token after a text, with penalty, temperature, top-k and top-p applied in this order. At a
/// temperature of 0 the most probable token has all of it.
pub fn distribution(scores: &[f32], text: &[u32], sampling: &Sampling) -> Vec<f32> {
    let mut scores = penalised(scores, text, sampling.repetition_penalty);
    if sampling.temperature == 0.0 {
        let best = best(&scores) as usize;
        return (0..scores.len()).map(|token| if token == best { 1.0 } else { 0.0 }).collect();
    }
    for score in &mut scores {
        *score /= sampling.temperature;
    }
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
    if sampling.top_k > 0 {
        order.truncate(sampling.top_k);
    }
    let most = order.first().map_or(0.0, |&first| scores[first]);
    let weight = |token: usize| f64::from(scores[token] - most).exp();
    let total: f64 = order.iter().map(|&token| weight(token)).sum();
    if sampling.top_p < 1.0 {
        // The token that crosses the limit is included.
        let mut before = 0.0;
        let within = order.iter().take_while(|&&token| {
            let inside = before < f64::from(sampling.top_p);
            before += weight(token) / total;
            inside
        });
        let kept = within.count().max(1);
        order.truncate(kept);
    }
    let total: f64 = order.iter().map(|&token| weight(token)).sum();
    let mut probabilities = vec![0.0; scores.len()];
    for &token in &order {
        probabilities[token] = (weight(token) / total) as f32;
    }
    probabilities
}

/// Applies the repetition penalty.
fn penalised(scores: &[f32], text: &[u32], penalty: f32) -> Vec<f32> {
    let mut changed = scores.to_vec();
    if penalty == 1.0 {
        return changed;
    }
    for &token in text {
        if let (Some(to), Some(&from)) = (changed.get_mut(token as usize), scores.get(token as usize)) {
            *to = if from < 0.0 { from * penalty } else { from / penalty };
        }
    }
    changed
}
