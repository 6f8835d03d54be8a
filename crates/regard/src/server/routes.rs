//! One function for each request.

use super::job_queue::JobKind;
use super::packed::Packed;
use super::pass_cache::PassRequest;
use super::problem::Problem;
use super::{App, KnownNames, describe, film, generation, guard, maps, patching, web};
use crate::error::{UsageError, usage_error};
use crate::forward_pass::{
    ForwardPass, Input, ShownToken, blank_out, head_names, intervention, lens, prediction, score_parts,
    search as corpus_search,
};
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use regard_nn::generate::Sampling;
use serde::Deserialize;
use serde_json::json;
use std::sync::{Arc, PoisonError};

/// All requests that there are.
pub fn router(app: Arc<App>) -> Router {
    let pictures = DefaultBodyLimit::max(app.limits.picture_bytes);
    let texts = DefaultBodyLimit::max(app.limits.text_bytes);
    Router::new()
        .route("/api/read", post(read).layer(pictures))
        .route("/api/state", get(state))
        .route("/api/film", get(film::film).post(film::control))
        .route("/api/tokens", post(tokens))
        .route("/api/patch", post(patching::patch))
        .route("/api/readings/{id}/blank_out", get(blank))
        .route("/api/readings/{id}/parts", get(parts))
        .route("/api/readings/{id}", get(again))
        .route("/api/readings/{id}/step", post(step))
        .route("/api/readings/{id}/generate", post(generation::generate))
        .route("/api/readings/{id}/names", get(names))
        .route("/api/readings/{id}/thumbnails", get(maps::thumbnails))
        .route("/api/readings/{id}/measures", get(maps::measures))
        .route("/api/readings/{id}/tile", get(maps::tile))
        .route("/api/readings/{id}/block", get(maps::block))
        .route("/api/readings/{id}/vectors", get(maps::vectors))
        .route("/api/readings/{id}/flow", get(maps::flow))
        .route("/api/readings/{id}/ribbons", get(maps::ribbons))
        .route("/api/readings/{id}/search", post(search))
        .route("/api/readings/{id}/next", get(next))
        .route("/api/readings/{id}/lens", get(lens_grid))
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
    if !app.catalogue.is_intact(&found.1.opened().folder) {
        return Err(Problem::new(
            StatusCode::GONE,
            "the files of the model have changed; read the text again",
        ));
    }
    Ok(found)
}

/// Which models there are, and whether one is being trained here.
async fn state(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let training = app.live.as_ref().filter(|run| run.is_unfinished());
    let training = training.map(|run| json!({ "problem": run.problem() }));
    let shared = Arc::clone(&app);
    // Folders may be slow.
    let models = app.jobs.run(JobKind::Lookup, move |_| Ok(shared.catalogue.list())).await?;
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
    /// Changes inside the model, as links write them.
    #[serde(default)]
    changes: Vec<String>,
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
    let work = move |_: &_| {
        let opened = shared.catalogue.open(&name)?;
        let (source, target) = ForwardPass::tokens(&opened, &input, most)?;
        let shown = |tokens: &[_]| ShownToken::all(tokens, opened.tokenizer.as_ref());
        Ok((shown(&source), shown(&target)))
    };
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
    let changes = intervention::parse(&std::mem::take(&mut request.changes))?;
    let (name, input) = request.input(&app)?;
    let request = PassRequest { input, drawn, changes };
    let (shared, most, model) = (Arc::clone(&app), app.limits.tokens, name.clone());
    let work = move |cancel: &_| {
        let opened = shared.catalogue.open(&model)?;
        if let Some(known) = shared.passes.same(&opened, &request) {
            return Ok(known);
        }
        let PassRequest { input, drawn, changes } = &request;
        let pass = match shared.passes.nearest(&opened, &request) {
            Some(known) => known.with_changes(changes.clone(), most, cancel)?,
            None => ForwardPass::changed(&opened, input, drawn, changes.clone(), most, cancel)?,
        };
        Ok(shared.passes.insert(model, Some(request), pass))
    };
    let pass = app.jobs.run(JobKind::ForwardPass, work).await?;
    Ok(Json(describe(pass.id(), &name, &pass)).into_response())
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
    let pass = app.passes.insert(name.clone(), None, pass);
    Ok(Json(describe(pass.id(), &name, &pass)).into_response())
}

/// The number of best next tokens that are spelled out.
const SPELT: usize = 200;

#[derive(Deserialize)]
struct NextQuery {
    /// The last one by default.
    position: Option<usize>,
    /// The residual stream after a layer, counted from the embeddings, instead of after all.
    layer: Option<usize>,
}

/// The scores of all tokens at a position, with the best ones spelt.
async fn next(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    parameters: Result<Query<NextQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(NextQuery { position, layer }) = parameters?;
    let (_, pass) = find_pass(&app, &id)?;
    let work = move |_: &_| {
        let last = pass.predicting().len().saturating_sub(1);
        let position = position.unwrap_or(last);
        let known = pass.scores().filter(|known| known.count() > 0 && position == last && layer.is_none());
        let scores = match known {
            Some(known) => known.to_vec(),
            None => lens::scores_at(&pass, layer, position)?,
        };
        Ok((prediction::best(&pass, position, &scores, SPELT)?, scores))
    };
    let (best, scores) = app.jobs.run(JobKind::Lookup, work).await?;
    Ok(Packed::reals(&json!({ "best": best }), &scores).into_response())
}

#[derive(Deserialize)]
struct LensQuery {
    from: usize,
    to: usize,
    /// A token whose probability and rank are wanted.
    token: Option<u32>,
}

/// What each layer would predict at some positions.
async fn lens_grid(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    parameters: Result<Query<LensQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(LensQuery { from, to, token }) = parameters?;
    let (_, pass) = find_pass(&app, &id)?;
    let work = move |cancel: &_| lens::lens(&pass, from..to, token, cancel);
    let grid = app.jobs.run(JobKind::Lookup, work).await?;
    Ok(Json(grid).into_response())
}

/// The names of the model's heads; they depend on the model alone.
async fn names(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Response, Problem> {
    let (_, pass) = find_pass(&app, &id)?;
    let shared = Arc::clone(&app);
    let work = move |cancel: &_| {
        let opened = pass.opened();
        let known = |names: &Vec<KnownNames>| {
            names
                .iter()
                .find(|(model, _)| model.ptr_eq(&Arc::downgrade(opened)))
                .map(|(_, names)| names.clone())
        };
        if let Some(names) = known(&shared.names.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(names);
        }
        let names = Arc::new(head_names::head_names(opened, cancel)?);
        let mut all = shared.names.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(model, _)| model.strong_count() > 0);
        all.push((Arc::downgrade(opened), Arc::clone(&names)));
        Ok(names)
    };
    let names = app.jobs.run(JobKind::ForwardPass, work).await?;
    Ok(Json(&*names).into_response())
}

#[derive(Deserialize)]
struct PartsQuery {
    site: String,
    head: usize,
    query: usize,
    key: usize,
}

/// The parts of a score: what wrote the query, times what wrote the key.
async fn parts(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    parameters: Result<Query<PartsQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(PartsQuery { site, head, query, key }) = parameters?;
    let (_, pass) = find_pass(&app, &id)?;
    let site = pass.find(&site)?;
    let work = move |_: &_| score_parts::named_parts(&pass, site, head, (query, key));
    Ok(Json(app.jobs.run(JobKind::ForwardPass, work).await?).into_response())
}

/// The texts of a corpus on which a head does most of something.
async fn search(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    request: Result<Json<corpus_search::Search>, JsonRejection>,
) -> Result<Response, Problem> {
    let wanted = request?.0;
    let (_, pass) = find_pass(&app, &id)?;
    let work = move |cancel: &_| corpus_search::search(pass.opened(), &wanted, cancel);
    Ok(Json(app.jobs.run(JobKind::ForwardPass, work).await?).into_response())
}

#[derive(Deserialize)]
struct BlankQuery {
    /// Where a masked word is predicted.
    position: Option<usize>,
}

/// How much each token matters for the prediction.
async fn blank(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    parameters: Result<Query<BlankQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(BlankQuery { position }) = parameters?;
    let (_, pass) = find_pass(&app, &id)?;
    let found = app.jobs.run(JobKind::ForwardPass, move |_| blank_out::blank_out(&pass, position)).await?;
    Ok(Json(found).into_response())
}

/// The predicted class, and the contribution of each word.
async fn classes(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Response, Problem> {
    let (_, pass) = find_pass(&app, &id)?;
    let classes = app.jobs.run(JobKind::ForwardPass, move |_| prediction::classes(&pass)).await?;
    Ok(Json(classes).into_response())
}
