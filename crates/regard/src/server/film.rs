//! A run as a film: the steps of which it kept the model, its curves, and how it goes on if it still trains.

use super::App;
use super::job_queue::JobKind;
use super::live_run::{Live, LiveRun};
use super::problem::Problem;
use crate::error::usage_error;
use crate::run::{FACTORS, RunFolder};
use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

/// Steps and losses.
type Curve = Vec<(u64, f64)>;

/// Everything that the page shows of a run besides its models.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Film {
    /// The steps of which the whole model was kept.
    snapshots: Vec<u64>,
    /// These and those still to come.
    planned: Vec<u64>,
    /// The number of steps of the whole run.
    steps: u64,
    /// The step of the model that the run keeps as its best.
    best: Option<u64>,
    /// Steps and losses on the training data.
    curve: Curve,
    /// The same on held-out data.
    held_out: Curve,
    /// How it goes on, if it still trains.
    live: Option<Live>,
}

/// The most points of a curve.
const MOST_POINTS: usize = 1000;

impl Film {
    /// The film of the run in a folder; none if no run made the folder.
    fn of(folder: &Path, live: Option<Live>) -> Option<Self> {
        let config = RunFolder::config_in(folder).ok().flatten()?;
        let snapshots = RunFolder::snapshots(folder);
        let (curve, held_out) = curves(&folder.join("metrics.csv"));
        let last = curve.last().copied();
        let elsewhere = || {
            let (step, loss) = last.map_or((0, None), |(step, loss)| (step, Some(loss)));
            RunFolder::is_taken(folder).then(|| Live::elsewhere(step, loss))
        };
        let live = live.or_else(elsewhere);
        let mut planned = snapshots.clone();
        if live.is_some() {
            planned.extend(config.run.snapshots.iter().filter(|&&step| step <= config.train.steps));
        }
        planned.sort_unstable();
        planned.dedup();
        let best = held_out.iter().min_by(|a, b| a.1.total_cmp(&b.1)).map(|&(step, _)| step);
        let steps = config.train.steps;
        Some(Self { snapshots, planned, steps, best, curve: thinned(curve), held_out, live })
    }
}

/// The losses in a run's metrics: on the training data, and on held-out data.
fn curves(path: &Path) -> (Curve, Curve) {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let (mut training, mut held_out) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |place: usize| fields.get(place)?.parse::<f64>().ok().filter(|value| value.is_finite());
        let Some(step) = fields.first().and_then(|step| step.parse().ok()) else { continue };
        training.extend(number(1).map(|loss| (step, loss)));
        held_out.extend(number(2).map(|loss| (step, loss)));
    }
    (training, held_out)
}

fn thinned(points: Curve) -> Curve {
    let (every, last) = (points.len().div_ceil(MOST_POINTS).max(1), points.len().saturating_sub(1));
    let kept = points.into_iter().enumerate().filter(|(i, _)| i % every == 0 || *i == last);
    kept.map(|(_, point)| point).collect()
}

#[derive(Deserialize)]
pub struct FilmQuery {
    model: String,
}

/// The film of a model that a run made; null for others.
pub async fn film(
    State(app): State<Arc<App>>,
    parameters: Result<Query<FilmQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(FilmQuery { model }) = parameters?;
    let shared = Arc::clone(&app);
    let work = move |_: &_| {
        let Some(folder) = shared.catalogue.run_of(&model) else { return Ok(None) };
        let live = shared.live.as_ref().filter(|run| run.is_in(&folder)).and_then(LiveRun::live);
        Ok(Film::of(&folder, live))
    };
    Ok(Json(app.jobs.run(JobKind::Lookup, work).await?).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControlRequest {
    model: String,
    paused: Option<bool>,
    /// What the schedule's learning rate is multiplied by.
    factor: Option<f32>,
}

/// Pauses a run, lets it go on, or changes its learning rate.
#[allow(clippy::unused_async)] // the router wants it so
pub async fn control(
    State(app): State<Arc<App>>,
    request: Result<Json<ControlRequest>, JsonRejection>,
) -> Result<Response, Problem> {
    let ControlRequest { model, paused, factor } = request?.0;
    let folder = app.catalogue.run_of(&model);
    let run = app.live.as_ref().filter(|run| run.controls.end().is_none());
    let run = run.zip(folder).filter(|(run, folder)| run.is_in(folder)).map(|(run, _)| run);
    let Some(run) = run else {
        return Err(usage_error(format!("{model} is not being trained by this process")).into());
    };
    if let Some(factor) = factor
        && !run.controls.set_factor(factor)
    {
        let (least, most) = (FACTORS.start(), FACTORS.end());
        let problem = match run.controls.rate_is_fixed() {
            true => "several ranks train this run: its learning rate cannot be changed".to_owned(),
            false => format!("the learning rate can be multiplied by {least} to {most}"),
        };
        return Err(usage_error(problem).into());
    }
    if let Some(paused) = paused {
        run.controls.pause(paused);
    }
    Ok(Json(run.live()).into_response())
}
