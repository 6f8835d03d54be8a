//! Activation patching: what each layer and position, or each head, restores of a clean prompt's prediction.

use super::App;
use super::job_queue::JobKind;
use super::problem::Problem;
use crate::error::{UsageError, usage_error};
use crate::forward_pass::prediction::PredictionKind;
use crate::forward_pass::{ForwardPass, Input, ShownToken};
use crate::model::Opened;
use anyhow::{Result, ensure};
use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::response::{IntoResponse, Response};
use regard_nn::analysis::patching::Patching;
use regard_nn::analysis::{Head, Target};
use regard_nn::tensor::Tensor;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most tokens of a prompt: the model runs once for each, layer by layer.
const MOST_TOKENS: usize = 128;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatchRequest {
    model: String,
    clean: String,
    corrupted: String,
    /// The token or class whose logit is measured, and the one that it is compared with.
    answer: Option<usize>,
    against: Option<usize>,
    /// One layer of the grid; without it, the two prompts and their predictions.
    layer: Option<usize>,
    /// Heads instead of positions.
    #[serde(default)]
    heads: bool,
}

/// The two prompts and what they predict.
#[derive(Serialize)]
struct Prompts {
    clean: Vec<ShownToken>,
    corrupted: Vec<ShownToken>,
    /// The answer that is measured, and its alternative.
    answer: usize,
    against: usize,
    layers: usize,
    heads: Vec<usize>,
    /// The difference of logits in the clean and in the corrupted run.
    clean_logit: f64,
    corrupted_logit: f64,
}

/// One row of a grid: the share of the clean difference of logits that each cell restores.
#[derive(Serialize)]
struct PatchRow {
    restored: Vec<Option<f64>>,
}

/// Answers a request about two prompts.
pub async fn patch(
    State(app): State<Arc<App>>,
    request: Result<Json<PatchRequest>, JsonRejection>,
) -> Result<Response, Problem> {
    let request = request?.0;
    let shared = Arc::clone(&app);
    let work = move |cancel: &AtomicBool| {
        let opened = shared.catalogue.open(&request.model)?;
        match request.layer {
            None => Ok(Json(prompts(&opened, &request, cancel)?).into_response()),
            Some(layer) => Ok(Json(row(&opened, &request, layer, cancel)?).into_response()),
        }
    };
    app.jobs.run(JobKind::ForwardPass, work).await
}

fn passes(opened: &Arc<Opened>, request: &PatchRequest, cancel: &AtomicBool) -> Result<[ForwardPass; 2]> {
    let run = |text: &str| {
        let input = Input::Text(text.to_owned(), String::new());
        ForwardPass::new(opened, &input, MOST_TOKENS, cancel)
    };
    let (clean, corrupted) = (run(&request.clean)?, run(&request.corrupted)?);
    let kind = PredictionKind::of(clean.model());
    ensure!(
        matches!(kind, PredictionKind::Next | PredictionKind::Class) && clean.target().is_empty(),
        UsageError("patching is for models that continue or classify one text".to_owned())
    );
    let (a, b) = (clean.source().len(), corrupted.source().len());
    ensure!(
        a == b,
        UsageError(format!(
            "the prompts have {a} and {b} tokens: positions would not correspond. Use words with the same number of tokens"
        ))
    );
    Ok([clean, corrupted])
}

/// The class or token whose probability rises most from one pass to another.
fn rises_most(from: &ForwardPass, to: &ForwardPass) -> Result<usize> {
    let shares = |pass: &ForwardPass| -> Result<Vec<f32>> {
        Ok(pass
            .scores()
            .map(Tensor::softmax)
            .transpose()?
            .map(|shares: Tensor| shares.to_vec())
            .unwrap_or_default())
    };
    let (before, after) = (shares(from)?, shares(to)?);
    let rise = |at: usize| after[at] - before[at];
    Ok((0..before.len().min(after.len()))
        .max_by(|&a, &b| rise(a).total_cmp(&rise(b)).then(b.cmp(&a)))
        .unwrap_or(0))
}

/// Unless they are chosen, the answer is what the clean prompt makes more likely, its alternative what the corrupted one does.
fn target(request: &PatchRequest, [clean, corrupted]: &[ForwardPass; 2]) -> Result<Target> {
    let class = request.answer.map_or_else(|| rises_most(corrupted, clean), Ok)?;
    let against = request.against.map_or_else(|| rises_most(clean, corrupted), Ok)?;
    if class == against {
        return Err(usage_error(
            "the answer and its alternative are the same: choose two different ones, or another corrupted prompt",
        ));
    }
    let position = match PredictionKind::of(clean.model()) {
        PredictionKind::Next => clean.source().len() - 1,
        _ => 0,
    };
    Ok(Target { position: Some(position), class, against: Some(against) })
}

fn patching<'a>(opened: &'a Opened, both: &[ForwardPass; 2], target: Target) -> Result<Patching<'a>> {
    let [clean, corrupted] = both.each_ref().map(|pass| ForwardPass::analysis_tokens(pass.source()));
    Ok(Patching::new(&*opened.model, &clean, &corrupted, target)?)
}

fn prompts(opened: &Arc<Opened>, request: &PatchRequest, cancel: &AtomicBool) -> Result<Prompts> {
    let both = passes(opened, request, cancel)?;
    let target = target(request, &both)?;
    let patching = patching(opened, &both, target)?;
    let shown = |pass: &ForwardPass| ShownToken::all(pass.source(), opened.tokenizer.as_ref());
    Ok(Prompts {
        clean: shown(&both[0]),
        corrupted: shown(&both[1]),
        answer: target.class,
        against: target.against.unwrap_or_default(),
        layers: both[0].sites().len(),
        heads: both[0].sites().iter().map(|site| site.heads).collect(),
        clean_logit: patching.clean,
        corrupted_logit: patching.corrupted,
    })
}

fn row(opened: &Arc<Opened>, request: &PatchRequest, layer: usize, cancel: &AtomicBool) -> Result<PatchRow> {
    let both = passes(opened, request, cancel)?;
    let patching = patching(opened, &both, target(request, &both)?)?;
    let sites = both[0].sites();
    let heads = sites.get(layer).map(|site| site.heads);
    let heads =
        heads.ok_or_else(|| usage_error(format!("there is no layer {layer}: there are {}", sites.len())))?;
    let count = if request.heads { heads } else { both[0].source().len() };
    let cell = |at: usize| -> Result<Option<f64>> {
        if cancel.load(Ordering::Relaxed) {
            return Err(regard_nn::Error::Cancelled.into());
        }
        let patched = match request.heads {
            true => patching.head(Head { layer, head: at })?,
            false => patching.residual_at(layer, at)?,
        };
        Ok(patching.restored(patched))
    };
    Ok(PatchRow { restored: (0..count).map(cell).collect::<Result<_>>()? })
}
