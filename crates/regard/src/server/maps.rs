//! Requests for the attention maps of a forward pass: only the parts on the screen are sent.

use super::App;
use super::job_queue::JobKind;
use super::packed::Packed;
use super::problem::Problem;
use super::routes::find_pass;
use crate::error::{UsageError, usage_error};
use crate::forward_pass::flow::flow as follow;
use crate::forward_pass::ribbons::{FlowMethod, ribbons as follow_ribbons};
use crate::forward_pass::{
    AttentionMap, Group, MapKey, MapScale, TokenDisplay, measure, thumbnails as draw_thumbnails,
    tile as draw_tile,
};
use anyhow::ensure;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

type Parameters<T> = Result<Query<T>, QueryRejection>;

/// The most exact values in one answer.
const MOST_VALUES: usize = 1 << 18;
/// The most keys whose vectors are sent at once.
const MOST_KEYS: usize = 64;

#[derive(Deserialize)]
pub struct ThumbnailQuery {
    site: String,
    #[serde(default = "usual_side")]
    side: usize,
    #[serde(default)]
    scale: MapScale,
    #[serde(default)]
    merge: bool,
    #[serde(default)]
    hide: bool,
}

fn usual_side() -> usize {
    48
}

/// Small pictures of the heads of an attention.
pub async fn thumbnails(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    parameters: Parameters<ThumbnailQuery>,
) -> Result<Response, Problem> {
    let Query(ThumbnailQuery { site, side, scale, merge, hide }) = parameters?;
    let (_, pass) = find_pass(&app, &id)?;
    let site = pass.find(&site)?;
    let work =
        move |cancel: &_| draw_thumbnails(&pass, site, (side, scale, TokenDisplay { merge, hide }), cancel);
    let drawn = app.jobs.run(JobKind::Lookup, work).await?;
    let tops: Vec<f32> = drawn.tops.iter().map(|top| top.top).collect();
    let about = json!({ "width": drawn.width, "height": drawn.height, "tops": tops });
    Ok(Packed::bytes(&about, &drawn.levels).into_response())
}

#[derive(Deserialize)]
pub struct MeasuresQuery {
    site: String,
}

/// The measures of the heads of an attention.
pub async fn measures(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    parameters: Parameters<MeasuresQuery>,
) -> Result<Response, Problem> {
    let Query(MeasuresQuery { site }) = parameters?;
    let (_, pass) = find_pass(&app, &id)?;
    let site = pass.find(&site)?;
    let measured = app.jobs.run(JobKind::Lookup, move |cancel| measure(&pass, site, cancel)).await?;
    Ok(Json(measured).into_response())
}

#[derive(Deserialize)]
pub struct TileQuery {
    site: String,
    head: usize,
    #[serde(default)]
    scale: MapScale,
    #[serde(default)]
    merge: bool,
    #[serde(default)]
    hide: bool,
    #[serde(default)]
    zoom: u32,
    #[serde(default)]
    x: usize,
    #[serde(default)]
    y: usize,
}

/// One tile of a head's map.
pub async fn tile(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    parameters: Parameters<TileQuery>,
) -> Result<Response, Problem> {
    let Query(TileQuery { site, head, scale, merge, hide, zoom, x, y }) = parameters?;
    let (_, pass) = find_pass(&app, &id)?;
    let which = MapKey { site: pass.find(&site)?, head, scale, shown: TokenDisplay { merge, hide } };
    let work = move |cancel: &_| {
        let grid = AttentionMap::new(&pass, which, cancel)?;
        Ok((grid.size(), draw_tile(&grid, zoom, (x, y), cancel)?))
    };
    let ((rows, columns), tile) = app.jobs.run(JobKind::Lookup, work).await?;
    let about = json!({
        "width": tile.width, "height": tile.height, "top": tile.top.top, "largest": tile.top.largest,
        "rows": rows, "columns": columns,
    });
    Ok(Packed::bytes(&about, &tile.levels).into_response())
}

#[derive(Deserialize)]
pub struct Block {
    site: String,
    head: usize,
    #[serde(default)]
    scale: MapScale,
    #[serde(default)]
    merge: bool,
    #[serde(default)]
    hide: bool,
    top: usize,
    bottom: usize,
    left: usize,
    right: usize,
}

/// Exact values of a part of a head's map.
pub async fn block(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    parameters: Parameters<Block>,
) -> Result<Response, Problem> {
    let Query(Block { site, head, scale, merge, hide, top, bottom, left, right }) = parameters?;
    let (_, pass) = find_pass(&app, &id)?;
    let which = MapKey { site: pass.find(&site)?, head, scale, shown: TokenDisplay { merge, hide } };
    let work = move |cancel: &_| {
        let count = bottom.saturating_sub(top).saturating_mul(right.saturating_sub(left));
        ensure!(
            count <= MOST_VALUES,
            UsageError(format!("{count} values are too many at once: {MOST_VALUES} are sent"))
        );
        AttentionMap::new(&pass, which, cancel)?.block(top..bottom, left..right)
    };
    let values = app.jobs.run(JobKind::Lookup, work).await?;
    Ok(Packed::reals(&json!({ "rows": bottom - top, "columns": right - left }), &values).into_response())
}

#[derive(Deserialize)]
pub struct VectorsQuery {
    site: String,
    head: usize,
    query: usize,
    /// Positions with commas between them.
    #[serde(default)]
    keys: String,
}

/// Why a query attends where it does: its vectors, those of some keys, all its scores and weights.
pub async fn vectors(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    parameters: Parameters<VectorsQuery>,
) -> Result<Response, Problem> {
    let Query(VectorsQuery { site, head, query, keys }) = parameters?;
    let (_, pass) = find_pass(&app, &id)?;
    let site = pass.find(&site)?;
    let work = move |cancel: &_| {
        let wrong = || usage_error("keys are positions with commas between them");
        let keys: Vec<usize> = match keys.is_empty() {
            true => Vec::new(),
            false => keys.split(',').map(|key| key.parse().map_err(|_| wrong())).collect::<Result<_, _>>()?,
        };
        ensure!(
            keys.len() <= MOST_KEYS,
            UsageError(format!("at most {MOST_KEYS} keys can be requested together"))
        );
        let vectors = pass.vectors(site, cancel)?;
        let which = MapKey { site, head, scale: MapScale::Raw, shown: TokenDisplay::default() };
        let grid = AttentionMap::new(&pass, which, cancel)?;
        let (rows, columns) = grid.size();
        ensure!(query < rows, UsageError(format!("there is no query {query}: there are {rows}")));
        let mut parts = Vec::new();
        let mut values = Vec::new();
        let mut add = |name: &str, part: Vec<f32>| {
            parts.push(json!({ "name": name, "count": part.len() }));
            values.extend(part);
        };
        for name in vectors.names() {
            let asking = name.starts_with("query") || name == "heads";
            let part = vectors.rows(name, head, if asking { std::slice::from_ref(&query) } else { &keys })?;
            add(name, part);
        }
        add("weights", grid.block(query..query + 1, 0..columns)?);
        add("norms", vectors.norms(head)?.to_vec());
        if let Some(scores) = vectors.scores(head, query)? {
            add("scores", scores);
        }
        Ok((json!({ "width": vectors.width(), "parts": parts }), values))
    };
    // The vectors of another attention need a pass.
    let (about, values) = app.jobs.run(JobKind::ForwardPass, work).await?;
    Ok(Packed::reals(&about, &values).into_response())
}

#[derive(Deserialize)]
pub struct FlowQuery {
    group: Group,
    position: usize,
}

/// A position through the layers.
pub async fn flow(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    parameters: Parameters<FlowQuery>,
) -> Result<Response, Problem> {
    let Query(FlowQuery { group, position }) = parameters?;
    let (_, pass) = find_pass(&app, &id)?;
    let flow =
        app.jobs.run(JobKind::ForwardPass, move |cancel| follow(&pass, group, position, cancel)).await?;
    let about = json!({ "layers": flow.layers, "tokens": flow.tokens });
    Ok(Packed::reals(&about, &[flow.raw, flow.rollout].concat()).into_response())
}

#[derive(Deserialize)]
pub struct RibbonsQuery {
    group: Group,
    position: usize,
    #[serde(default)]
    method: FlowMethod,
}

/// Ribbons through the layers to a position.
pub async fn ribbons(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    parameters: Parameters<RibbonsQuery>,
) -> Result<Response, Problem> {
    let Query(RibbonsQuery { group, position, method }) = parameters?;
    let (_, pass) = find_pass(&app, &id)?;
    let work = move |cancel: &_| follow_ribbons(&pass, group, position, method, cancel);
    Ok(Json(app.jobs.run(JobKind::ForwardPass, work).await?).into_response())
}
