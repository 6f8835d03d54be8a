//! Ribbons of attention flow: which positions of which layers the influence on a position runs through.

use super::flow::{MOST_TOKENS, means};
use super::pass::ForwardPass;
use super::prediction::PredictionKind;
use super::site::Group;
use crate::error::usage_error;
use anyhow::Result;
use regard_nn::analysis::influence::{FLOW_LIMIT, gradient_attention, relevance_steps, with_residual};
use regard_nn::analysis::ribbons::{Ribbons, flow_ribbons, path_ribbons};
use regard_nn::analysis::{Target, Tokens};
use regard_nn::tensor::Tensor;
use serde::{Deserialize, Serialize};
use std::sync::atomic::AtomicBool;

/// How influence is followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlowMethod {
    /// Weights multiplied through the layers.
    #[default]
    Rollout,
    /// Maximum flow through the layers.
    Flow,
    /// Gradient × attention.
    Gradient,
}

/// The ribbons to one position that are wide enough to draw.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ShownRibbons {
    /// How many layers there are.
    pub layers: usize,
    /// How many tokens there are.
    pub tokens: usize,
    /// The share of each token, before the first layer, after it, and so on.
    pub shares: Vec<Vec<f64>>,
    /// Layer by layer: position before, position after, share. The widest first.
    pub ribbons: Vec<Vec<(usize, usize, f64)>>,
    /// The share of those that are left out, layer by layer.
    pub left_out: Vec<f64>,
    /// What the influence is on, where that is a prediction: the number of a class or token.
    pub answer: Option<usize>,
}

/// Thinner ribbons are not drawn.
const THINNEST: f64 = 5e-4;
/// The most ribbons of a layer.
const MOST_RIBBONS: usize = 400;

/// Follows the influence on a position through the layers of a group.
pub fn ribbons(
    pass: &ForwardPass,
    group: Group,
    position: usize,
    method: FlowMethod,
    cancel: &AtomicBool,
) -> Result<ShownRibbons> {
    if group == Group::Cross {
        return Err(usage_error("flow follows a text through its own layers: choose self-attention"));
    }
    let tokens = pass.sides(group).0.len();
    if position >= tokens {
        return Err(usage_error(format!("there is no token {position}: there are {tokens}")));
    }
    let most = if method == FlowMethod::Flow { FLOW_LIMIT } else { MOST_TOKENS };
    if tokens > most {
        let hint = if method == FlowMethod::Flow { "; rollout reads more" } else { "" };
        let problem = format!("this flow is computed for up to {most} tokens; there are {tokens}{hint}");
        return Err(usage_error(problem));
    }
    let mut answer = None;
    let found = match method {
        FlowMethod::Rollout => {
            let means = means(pass, group, cancel)?;
            path_ribbons(&means.iter().map(with_residual).collect::<regard_nn::Result<Vec<_>>>()?, position)?
        }
        FlowMethod::Flow => flow_ribbons(&means(pass, group, cancel)?, position)?,
        FlowMethod::Gradient => {
            let (tokens, target) = explained(pass, group, position)?;
            answer = Some(target.class);
            let products = gradient_attention(pass.model(), &tokens, target)?;
            path_ribbons(&relevance_steps(&products)?, position)?
        }
    };
    Ok(shown(&found, position, answer))
}

/// The prediction that gradients are taken of: that of a classifier, or the token predicted at the position.
fn explained(pass: &ForwardPass, group: Group, position: usize) -> Result<(Tokens, Target)> {
    if group != Group::Itself {
        return Err(usage_error("gradients are followed through models that read one text or picture"));
    }
    if !pass.changes().is_empty() {
        return Err(usage_error("gradients are followed without changes inside the model: undo them first"));
    }
    let mut tokens = ForwardPass::analysis_tokens(pass.source());
    tokens.pixels = pass.inputs().pictures.as_ref().map(|pictures| pictures.to_vec().into());
    let (place, scores) = match PredictionKind::of(pass.model()) {
        PredictionKind::Class => (0, pass.scores().map(Tensor::to_vec).unwrap_or_default()),
        PredictionKind::Next | PredictionKind::Masked => {
            (position, super::lens::scores_at(pass, None, position)?)
        }
        PredictionKind::Nothing => {
            return Err(usage_error("this model predicts nothing that gradients could be taken of"));
        }
    };
    let class =
        (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b]).then(b.cmp(&a))).unwrap_or(0);
    // One logit stands for two classes, and the first has a score of 0 whatever is read: what speaks for it is the difference.
    let against = pass.model().abilities().one_logit.then(|| 1 - class.min(1));
    Ok((tokens, Target { position: Some(place), class, against }))
}

fn shown(found: &Ribbons, position: usize, answer: Option<usize>) -> ShownRibbons {
    let mut shares: Vec<Vec<f64>> = (0..found.layers.len()).map(|layer| found.before(layer)).collect();
    let mut last = vec![0.0; found.time];
    last[position] = 1.0;
    shares.push(last);
    let mut left_out = Vec::new();
    let widest = |layer: &Vec<f64>| {
        let cells = layer.iter().enumerate().filter(|(_, share)| **share >= THINNEST);
        let mut wide: Vec<(usize, usize, f64)> =
            cells.map(|(at, &share)| (at % found.time, at / found.time, share)).collect();
        wide.sort_by(|a, b| b.2.total_cmp(&a.2));
        wide.truncate(MOST_RIBBONS);
        left_out.push((1.0 - wide.iter().map(|ribbon| ribbon.2).sum::<f64>()).max(0.0));
        wide
    };
    let ribbons = found.layers.iter().map(widest).collect();
    ShownRibbons { layers: found.layers.len(), tokens: found.time, shares, ribbons, left_out, answer }
}
