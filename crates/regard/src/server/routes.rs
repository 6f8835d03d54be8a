//! One function for each request.

use super::job_queue::JobKind;
use super::packed::Packed;
use super::problem::Problem;
use super::{App, describe, guard, maps, web};
use crate::error::{UsageError, usage_error};
use crate::forward_pass::{ForwardPass, Input, prediction};
use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use regard_nn::generate::Sampling;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

/// All requests that there are.
pub fn router(app: Arc<App>) -> Router {
    let pictures = DefaultBodyLimit::max(app.limits.picture_bytes);
    let texts = DefaultBodyLimit::max(app.limits.text_bytes);
    Router::new()
        .route("/api/read", post(read).layer(pictures))
        .route("/api/state", get(state))
        .route("/api/tokens", post(tokens))
        .route("/api/readings/{id}", get(again))
        .route("/api/readings/{id}/step", post(step))
        .route("/api/readings/{id}/thumbnails", get(maps::thumbnails))
        .route("/api/readings/{id}/measures", get(maps::measures))
        .route("/api/readings/{id}/tile", get(maps::tile))
        .route("/api/readings/{id}/block", get(maps::block))
        .route("/api/readings/{id}/vectors", get(maps::vectors))
        .route("/api/readings/{id}/flow", get(maps::flow))
        .route("/api/readings/{id}/next", get(next))
        .route("/api/readings/{id}/classes", get(classes))
        .fallback(get(web::file))
        .layer(texts)
        .layer(from_fn_with_state(Arc::clone(&app), guard::guard))
        .with_state(app)
}

/// A cached forward pass by its name.
pub fn find_pass(app: &App, id: &str) -> Result<(String, Arc<ForwardPass>), Problem> {
    let found = app.passes.find(id).ok_or_else(|| {
        Problem::new(StatusCode::GONE, "this reading was let go to make room for others; read the text again")
    })?;
    if !app.catalogue.is_intact(&found.0) {
        return Err(Problem::new(
            StatusCode::GONE,
            "the files of the model have changed; read the text again",
        ));
    }
    Ok(found)
}

/// Which models there are, and how far the training of the demonstration is.
async fn state(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let training = app.demonstration.progress();
    let shared = Arc::clone(&app);
    // Folders may be slow.
    let models = app.jobs.run(JobKind::Lookup, move |_| Ok(shared.catalogue.list())).await?;
    let models = if training.is_some() { Vec::new() } else { models };
    let limits = json!({ "tokens": app.limits.tokens, "bytes": app.limits.text_bytes });
    Ok(Json(json!({ "models": models, "training": training, "limits": limits })).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadRequest {
    model: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    second: String,
    /// A PNG or JPEG as base64.
    #[serde(default)]
    picture: String,
    /// Tokens that were drawn after the text.
    #[serde(default)]
    drawn: Vec<u32>,
}

impl ReadRequest {
    fn input(self, app: &App) -> Result<(String, Input), Problem> {
        if self.text.len() + self.second.len() > app.limits.text_bytes {
            let problem = format!("the text is too long: at most {} bytes are read", app.limits.text_bytes);
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, problem));
        }
        if self.picture.is_empty() {
            return Ok((self.model, Input::Text(self.text, self.second)));
        }
        let bytes = base64::engine::general_purpose::STANDARD.decode(&self.picture);
        let bytes = bytes.map_err(|_| usage_error("the picture is not base64"))?;
        Ok((self.model, Input::Picture(bytes)))
    }
}

/// The tokens of a text.
async fn tokens(
    State(app): State<Arc<App>>,
    request: Result<Json<ReadRequest>, JsonRejection>,
) -> Result<Response, Problem> {
    let (name, input) = request?.0.input(&app)?;
    let (shared, most) = (Arc::clone(&app), app.limits.tokens);
    let work = move |_: &_| ForwardPass::tokens(&*shared.catalogue.open(&name)?, &input, most);
    let (source, target) = app.jobs.run(JobKind::Lookup, work).await?;
    Ok(Json(json!({ "source": source, "target": target })).into_response())
}

/// Reads a text or picture with a model.
async fn read(
    State(app): State<Arc<App>>,
    request: Result<Json<ReadRequest>, JsonRejection>,
) -> Result<Response, Problem> {
    let mut request = request?.0;
    let drawn = std::mem::take(&mut request.drawn);
    let (name, input) = request.input(&app)?;
    let (shared, most, model) = (Arc::clone(&app), app.limits.tokens, name.clone());
    let work = move |cancel: &_| {
        ForwardPass::continued(&shared.catalogue.open(&model)?, &input, &drawn, most, cancel)
    };
    let pass = app.jobs.run(JobKind::ForwardPass, work).await?;
    let (id, pass) = app.passes.insert(name.clone(), pass);
    Ok(Json(describe(&id, &name, &pass)).into_response())
}

/// The description of a cached forward pass.
#[allow(clippy::unused_async)] // the router wants it so
async fn again(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Response, Problem> {
    let (model, pass) = find_pass(&app, &id)?;
    Ok(Json(describe(&id, &model, &pass)).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepRequest {
    /// The token to append; if none is given, one is sampled.
    token: Option<u32>,
    #[serde(default)]
    sampling: Sampling,
    /// Which draw it is.
    #[serde(default)]
    step: u64,
}

/// Appends a token and runs the model again.
async fn step(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    request: Result<Json<StepRequest>, JsonRejection>,
) -> Result<Response, Problem> {
    let StepRequest { token, sampling, step } = request?.0;
    let (name, before) = find_pass(&app, &id)?;
    let most = app.limits.tokens;
    let work = move |cancel: &_| {
        let drawn = prediction::draw(&before, &sampling, step)?;
        let known = before.scores().map_or(0, regard_nn::tensor::Tensor::count);
        let token = token.unwrap_or(drawn);
        anyhow::ensure!(
            (token as usize) < known,
            UsageError(format!("there is no token {token}: the model has {known}"))
        );
        before.extended(token, most, cancel)
    };
    let pass = app.jobs.run(JobKind::ForwardPass, work).await?;
    let (id, pass) = app.passes.insert(name.clone(), pass);
    Ok(Json(describe(&id, &name, &pass)).into_response())
}

/// The number of best next tokens that are spelled out.
const SPELT: usize = 200;

/// The scores of all next tokens, with the best ones spelt.
async fn next(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Response, Problem> {
    let (_, pass) = find_pass(&app, &id)?;
    let work = move |_: &_| {
        let scores = pass.scores().map(regard_nn::tensor::Tensor::to_vec).unwrap_or_default();
        Ok((prediction::candidates(&pass, SPELT)?, scores))
    };
    let (best, scores) = app.jobs.run(JobKind::Lookup, work).await?;
    Ok(Packed::reals(&json!({ "best": best }), &scores).into_response())
}

/// The predicted class, and the contribution of each word.
async fn classes(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Response, Problem> {
    let (_, pass) = find_pass(&app, &id)?;
    let classes = app.jobs.run(JobKind::ForwardPass, move |_| prediction::classes(&pass)).await?;
    Ok(Json(classes).into_response())
}
