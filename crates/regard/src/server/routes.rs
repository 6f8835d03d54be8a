//! One function a request.

use super::packed::Packed;
use super::problem::Problem;
use super::work::Weight;
use super::{App, describe, guard, maps, web};
use crate::inside::{Input, Reading, answer};
use crate::usage::Usage;
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

/// A reading by its name.
pub fn reading(app: &App, id: &str) -> Result<(String, Arc<Reading>), Problem> {
    app.store.find(id).ok_or_else(|| {
        Problem::new(StatusCode::GONE, "this reading was let go to make room for others; read the text again")
    })
}

/// Which models there are, and how far the training of the demonstration is.
async fn state(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let training = app.demonstration.progress();
    let shared = Arc::clone(&app);
    // Folders may be slow.
    let models = app.work.run(Weight::Look, move |_| Ok(shared.catalogue.list())).await?;
    let models = if training.is_some() { Vec::new() } else { models };
    let limits = json!({ "tokens": app.limits.tokens, "bytes": app.limits.text_bytes });
    Ok(Json(json!({ "models": models, "training": training, "limits": limits })).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToRead {
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

impl ToRead {
    fn input(self, app: &App) -> Result<(String, Input), Problem> {
        if self.text.len() + self.second.len() > app.limits.text_bytes {
            let problem = format!("the text is too long: at most {} bytes are read", app.limits.text_bytes);
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, problem));
        }
        if self.picture.is_empty() {
            return Ok((self.model, Input::Text(self.text, self.second)));
        }
        let bytes = base64::engine::general_purpose::STANDARD.decode(&self.picture);
        let bytes = bytes.map_err(|_| Usage::error("the picture is not base64"))?;
        Ok((self.model, Input::Picture(bytes)))
    }
}

/// The tokens of a text.
async fn tokens(
    State(app): State<Arc<App>>,
    asked: Result<Json<ToRead>, JsonRejection>,
) -> Result<Response, Problem> {
    let (name, input) = asked?.0.input(&app)?;
    let (shared, most) = (Arc::clone(&app), app.limits.tokens);
    let work = move |_: &_| Reading::tokens(&*shared.catalogue.open(&name)?, &input, most);
    let (source, target) = app.work.run(Weight::Look, work).await?;
    Ok(Json(json!({ "source": source, "target": target })).into_response())
}

/// Reads a text or picture with a model.
async fn read(
    State(app): State<Arc<App>>,
    asked: Result<Json<ToRead>, JsonRejection>,
) -> Result<Response, Problem> {
    let mut asked = asked?.0;
    let drawn = std::mem::take(&mut asked.drawn);
    let (name, input) = asked.input(&app)?;
    let (shared, most, model) = (Arc::clone(&app), app.limits.tokens, name.clone());
    let work =
        move |cancel: &_| Reading::going_on(&shared.catalogue.open(&model)?, &input, &drawn, most, cancel);
    let reading = app.work.run(Weight::Pass, work).await?;
    let (id, reading) = app.store.keep(name.clone(), reading);
    Ok(Json(describe(&id, &name, &reading)).into_response())
}

/// What is known of a reading.
#[allow(clippy::unused_async)] // the router wants it so
async fn again(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Response, Problem> {
    let (model, reading) = reading(&app, &id)?;
    Ok(Json(describe(&id, &model, &reading)).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneMore {
    /// A token to go on with; if none is given, one is drawn.
    token: Option<u32>,
    #[serde(default)]
    sampling: Sampling,
    /// Which draw it is.
    #[serde(default)]
    step: u64,
}

/// Goes on by a token and reads again.
async fn step(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    asked: Result<Json<OneMore>, JsonRejection>,
) -> Result<Response, Problem> {
    let OneMore { token, sampling, step } = asked?.0;
    let (name, before) = reading(&app, &id)?;
    let most = app.limits.tokens;
    let work = move |cancel: &_| {
        let drawn = answer::draw(&before, &sampling, step)?;
        let known = before.scores().map_or(0, regard_nn::tensor::Tensor::count);
        let token = token.unwrap_or(drawn);
        anyhow::ensure!(
            (token as usize) < known,
            Usage(format!("there is no token {token}: the model has {known}"))
        );
        before.extended(token, most, cancel)
    };
    let reading = app.work.run(Weight::Pass, work).await?;
    let (id, reading) = app.store.keep(name.clone(), reading);
    Ok(Json(describe(&id, &name, &reading)).into_response())
}

/// So many of the best next tokens are spelt.
const SPELT: usize = 200;

/// The scores of all next tokens, with the best ones spelt.
async fn next(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Response, Problem> {
    let (_, reading) = reading(&app, &id)?;
    let work = move |_: &_| {
        let scores = reading.scores().map(regard_nn::tensor::Tensor::to_vec).unwrap_or_default();
        Ok((answer::candidates(&reading, SPELT)?, scores))
    };
    let (best, scores) = app.work.run(Weight::Look, work).await?;
    Ok(Packed::reals(&json!({ "best": best }), &scores).into_response())
}

/// Which class, and what each word had to do with it.
async fn classes(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Response, Problem> {
    let (_, reading) = reading(&app, &id)?;
    let classes = app.work.run(Weight::Pass, move |_| answer::classes(&reading)).await?;
    Ok(Json(classes).into_response())
}
