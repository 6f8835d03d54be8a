//! The prediction of a forward pass: the next token, or a class.

use super::pass::ForwardPass;
use super::token::{is_unknown, spell, visible};
use crate::error::usage_error;
use crate::model::Opened;
use anyhow::Result;
use regard_nn::generate::Sampling;
use regard_nn::models::{Inputs, Model, Predicts};
use regard_nn::tensor::{Ids, Tensor};
use regard_nn::tokens::Special;
use regard_nn::{Context, Probe};
use serde::Serialize;

/// What a model predicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PredictionKind {
    /// The next token.
    Next,
    /// The token at each position, masked or not.
    Masked,
    /// The class of the input.
    Class,
    /// Nothing.
    Nothing,
}

impl PredictionKind {
    /// What a model predicts.
    pub fn of(model: &dyn Model) -> Self {
        match model.abilities().predicts {
            Predicts::NextToken => Self::Next,
            Predicts::MaskedToken => Self::Masked,
            Predicts::Class => Self::Class,
            _ => Self::Nothing,
        }
    }
}

/// Of a model's scores, those that are kept: of the last position, or of the classes. They are copied: a part of a tensor
/// would keep all of it.
pub(super) fn kept(model: &dyn Model, logits: &Tensor) -> Result<Tensor> {
    Ok(match (PredictionKind::of(model), logits.shape().len()) {
        (PredictionKind::Next, 3) => {
            let width = logits.shape()[2];
            let values = logits.values();
            Tensor::new(&values[values.len().saturating_sub(width)..], [width])?
        }
        // One logit for two classes: the other's is 0.
        (PredictionKind::Class, 1) => Tensor::new(&[0.0, logits.values()[0]], [2])?,
        (PredictionKind::Class, _) => logits.reshape([logits.count()])?,
        _ => Tensor::zeros([0]),
    })
}

/// The tokens with the highest scores.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Candidate {
    /// The token.
    pub id: u32,
    /// Its text.
    pub text: String,
}

/// The tokens with the highest scores for what follows a text, best first.
pub fn candidates(pass: &ForwardPass, count: usize) -> Result<Vec<Candidate>> {
    match pass.scores().filter(|_| PredictionKind::of(pass.model()) == PredictionKind::Next) {
        Some(scores) => best(pass, pass.predicting().len().saturating_sub(1), &scores.values(), count),
        None => Ok(Vec::new()),
    }
}

/// The tokens with the highest scores at a position, best first.
pub fn best(pass: &ForwardPass, position: usize, scores: &[f32], count: usize) -> Result<Vec<Candidate>> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
    let candidate = |&id: &usize| Ok(Candidate { id: id as u32, text: spelled(pass, position, id as u32)? });
    order.iter().take(count).map(candidate).collect()
}

/// The text of a token that is predicted at a position: after it, or in its place.
pub(super) fn spelled(pass: &ForwardPass, position: usize, id: u32) -> Result<String> {
    let Some(tokenizer) = &pass.opened().tokenizer else { return Ok(id.to_string()) };
    let before = match PredictionKind::of(pass.model()) {
        PredictionKind::Masked => position.checked_sub(1),
        _ => Some(position),
    };
    let before = before.and_then(|before| pass.predicting().get(before)).map(|token| token.id);
    let text = spell(tokenizer, before, id)?;
    let name = || tokenizer.piece(id).unwrap_or_default();
    // Part of a character alone has no text: its bytes are shown.
    let unreadable = text.trim().is_empty() || text.contains('\u{fffd}');
    Ok(if unreadable { visible(text.trim(), &name()) } else { text })
}

/// The ids of the text to continue.
fn continued_ids(pass: &ForwardPass) -> Vec<u32> {
    pass.predicting().iter().map(|token| token.id).collect()
}

/// A text and its continuation, as the tokenizer writes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Continuation {
    /// The given text.
    pub given: String,
    /// The text of each generated token.
    pub drawn: Vec<String>,
}

/// The number of tokens before the first generated one that are enough to decode it as in the whole text.
const BEFORE: usize = 16;

/// The text and its continuation; none without a tokenizer, or where the model predicts no next token.
pub fn continuation(pass: &ForwardPass) -> Result<Option<Continuation>> {
    let tokenizer = pass.opened().tokenizer.as_ref();
    let Some(tokenizer) = tokenizer.filter(|_| PredictionKind::of(pass.model()) == PredictionKind::Next)
    else {
        return Ok(None);
    };
    let ids = continued_ids(pass);
    let (given, drawn) = ids.split_at(ids.len() - pass.drawn().min(ids.len()));
    let mut decoder = tokenizer.decoder(Special::Drop);
    for &id in &given[given.len().saturating_sub(BEFORE)..] {
        decoder.push(id)?;
    }
    let mut parts = Vec::with_capacity(drawn.len());
    for &id in drawn {
        let special = tokenizer.is_special(id).then(|| tokenizer.piece(id)).flatten();
        let text = decoder.push(id)?;
        parts.push(special.or(text).unwrap_or_default());
    }
    if let (Some(rest), Some(last)) = (decoder.finish()?, parts.last_mut()) {
        last.push_str(&rest);
    }
    // Dropped, unknown words would leave no trace.
    let unknown = pass.predicting()[..given.len()].iter().any(|token| is_unknown(token, tokenizer));
    let special = if unknown { Special::Keep } else { Special::Drop };
    Ok(Some(Continuation { given: tokenizer.decode(given, special)?, drawn: parts }))
}

/// The position that a classifier predicts from: the first token in most encoders, the last in decoders, none if it pools.
pub(super) fn class_position(pass: &ForwardPass) -> Option<usize> {
    pass.model().form()?.output.pooling.position(pass.source().len())
}

/// The next token, sampled by the settings, for a given step.
pub fn draw(pass: &ForwardPass, sampling: &Sampling, step: u64) -> Result<u32> {
    let scores = pass.scores().filter(|_| PredictionKind::of(pass.model()) == PredictionKind::Next);
    let scores = scores.ok_or_else(|| usage_error("this model does not predict the next token"))?;
    sampling.check()?;
    Ok(sampling.choose(&scores.values(), &continued_ids(pass), (0, step)))
}

/// The predicted class, and the contribution of each token.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Classes {
    /// The names of the classes.
    pub labels: Vec<String>,
    /// Their probabilities.
    pub probabilities: Vec<f32>,
    /// Their scores (logits).
    pub scores: Vec<f32>,
    /// What `weights` are.
    pub what: &'static str,
    /// Whether a weight may be negative.
    pub signed: bool,
    /// One for each token; none if they are not defined.
    pub weights: Vec<f32>,
}

/// The prediction of a classifier.
pub fn classes(pass: &ForwardPass) -> Result<Classes> {
    let scores = pass.scores().filter(|_| PredictionKind::of(pass.model()) == PredictionKind::Class);
    let scores = scores.ok_or_else(|| usage_error("this model is not a classifier"))?;
    let probabilities = scores.softmax()?.to_vec();
    let labels = (0..probabilities.len()).map(|class| label(pass.opened(), class)).collect();
    let (what, signed, weights) = match (pass.pool(), &pass.inputs().ids) {
        (Some(pool), _) => ("share of each word in the pool", false, pool.to_vec()),
        (None, Some(ids)) => {
            let best = scores.argmax(-1)?.values().first().copied().unwrap_or(0) as usize;
            let of = pull(pass, ids, best)?;
            ("gradient × embedding: what each word adds to the winning class", true, of)
        }
        (None, None) => ("", false, Vec::new()),
    };
    Ok(Classes { labels, probabilities, scores: scores.to_vec(), what, signed, weights })
}

/// The gradient of a class's score times each word's embedding.
fn pull(pass: &ForwardPass, ids: &Ids, class: usize) -> Result<Vec<f32>> {
    let probe = pass.probe().track("embeddings");
    let length = ids.shape().last();
    let inputs = Inputs::padded(ids, &[length])?;
    let context = Context::inference().with_probe(&probe);
    let scores = pass.model().forward(&context, &inputs)?.select(1, 0)?;
    gradient_times_input(&scores, class, &probe)
}

/// The gradient of a class's score times each word's embedding, summed over its features. Of two classes it is the score beyond
/// the other's: a model may have one logit for both, and then the first one's score is 0 whatever is read.
pub fn gradient_times_input(scores: &Tensor, class: usize, probe: &Probe) -> Result<Vec<f32>> {
    let Some(words) = probe.get("embeddings")? else { return Ok(Vec::new()) };
    let score = match scores.shape().last() {
        2 => scores.select(1, class)?.subtract(&scores.select(1, 1 - class.min(1))?)?,
        _ => scores.select(1, class)?,
    };
    let score = score.reshape([])?;
    let Some(gradient) = score.backward()?.get(&words) else { return Ok(Vec::new()) };
    Ok(words.detach().multiply(&gradient)?.sum(-1)?.to_vec())
}

/// The name of a class.
pub fn label(opened: &Opened, class: usize) -> String {
    let name = opened.config.get("id2label").and_then(|labels| labels.get(class.to_string()));
    name.and_then(|name| name.as_str()).map_or_else(|| class.to_string(), str::to_owned)
}

/// The names of a classifier's classes, in order.
pub fn class_names(opened: &Opened) -> Vec<String> {
    let abilities = opened.model.abilities();
    let count = if abilities.predicts == Predicts::Class { abilities.classes } else { 0 };
    (0..count).map(|class| label(opened, class)).collect()
}
