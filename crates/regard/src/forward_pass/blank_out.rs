//! How much each token of a text matters for the prediction: the text is read without it (blank-out), beside what attention and
//! gradients say, and how far these agree with it.

use super::pass::ForwardPass;
use super::prediction::{PredictionKind, class_position, label, spelled};
use crate::error::usage_error;
use anyhow::Result;
use regard_nn::analysis::influence::{Method, influence};
use regard_nn::analysis::occlusion::{Blank, Quantity, occlusion};
use regard_nn::analysis::statistics::spearman;
use regard_nn::analysis::{Target, Tokens};
use regard_nn::tensor::Tensor;
use serde::Serialize;

/// The most tokens: the text is read once for each.
pub const MOST_TOKENS: usize = 256;

/// The influence of each token on a prediction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BlankOut {
    /// The predicted class or token.
    pub answer: String,
    /// Its number.
    pub class: usize,
    /// The position of the prediction; none for classifiers that pool all words.
    pub position: Option<usize>,
    /// Its probability with the whole text minus that without each token; none for special tokens.
    pub changes: Vec<Option<f64>>,
    /// What the other methods say.
    pub methods: Vec<MethodValues>,
}

/// What one method says of each token.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MethodValues {
    /// The name of the method.
    pub name: &'static str,
    /// A value for each token.
    pub values: Vec<f64>,
    /// Spearman's rank correlation with the size of the changes: 1 is the same order, 0 none.
    pub agreement: Option<f64>,
}

/// Reads a text without each of its tokens in turn. `position` is where a masked word is predicted.
pub fn blank_out(pass: &ForwardPass, position: Option<usize>) -> Result<BlankOut> {
    let count = pass.source().len();
    if !pass.target().is_empty() || pass.inputs().ids.is_none() {
        return Err(usage_error("this view is for models that read one text"));
    }
    if !pass.changes().is_empty() {
        return Err(usage_error(
            "undo the changes inside the model first: the text is read many times without them",
        ));
    }
    if count > MOST_TOKENS {
        let problem = format!("the text has {count} tokens; up to {MOST_TOKENS} are struck out one by one");
        return Err(usage_error(problem));
    }
    let kind = PredictionKind::of(pass.model());
    let (place, scores) = match kind {
        PredictionKind::Class => {
            (class_position(pass), pass.scores().map(Tensor::to_vec).unwrap_or_default())
        }
        PredictionKind::Next => (Some(count - 1), pass.scores().map(Tensor::to_vec).unwrap_or_default()),
        PredictionKind::Masked => {
            let place = position.unwrap_or(count - 1);
            (Some(place), super::lens::scores_at(pass, None, place)?)
        }
        PredictionKind::Nothing => return Err(usage_error("this model predicts nothing")),
    };
    let class =
        (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b]).then(b.cmp(&a))).unwrap_or(0);
    // One logit stands for two classes, and the first has a score of 0 whatever is read: what speaks for it is the difference.
    let against = pass.model().abilities().one_logit.then(|| 1 - class.min(1));
    let target = Target { position: place, class, against };
    let mut tokens: Tokens = ForwardPass::analysis_tokens(pass.source());
    // The token from which the prediction is made cannot be left out of a text that ends there.
    if let (PredictionKind::Masked, Some(place)) = (kind, place) {
        tokens.special[place] = true;
    }
    let changes = occlusion(pass.model(), &tokens, target, (Blank::Delete, Quantity::Probability))?;
    let kept: Vec<usize> = (0..count).filter(|&i| changes[i].is_some()).collect();
    let truth: Vec<f64> = kept.iter().map(|&i| changes[i].unwrap_or(0.0).abs()).collect();
    let mut methods = Vec::new();
    for method in [Method::Attention, Method::Rollout, Method::Gradient] {
        // Models without attention have none of these.
        let Ok(values) = influence(pass.model(), &tokens, target, method, 0) else { continue };
        let own: Vec<f64> = kept.iter().map(|&i| values[i]).collect();
        methods.push(MethodValues { name: method.name(), agreement: spearman(&own, &truth)?, values });
    }
    let answer = match kind {
        PredictionKind::Class => label(pass.opened(), class),
        _ => spelled(pass, place.unwrap_or(0), class as u32)?,
    };
    Ok(BlankOut { answer, class, position: place, changes, methods })
}
