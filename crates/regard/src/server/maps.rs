//! Requests that look at the maps of a reading: nothing is sent that is not looked at.

use super::App;
use super::packed::Packed;
use super::problem::Problem;
use super::routes::reading;
use super::work::Weight;
use crate::error::{UsageError, usage_error};
use crate::inside::flow::flow as follow;
use crate::inside::{
    Grid, Group, Scale, Shown, Which, measure, thumbnails as draw_thumbnails, tile as draw_tile,
};
use anyhow::ensure;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

type Asked<T> = Result<Query<T>, QueryRejection>;

/// The most exact values in one answer.
const MOST_VALUES: usize = 1 << 18;
/// The most keys whose vectors are sent at once.
const MOST_KEYS: usize = 64;

#[derive(Deserialize)]
pub struct Heads {
    site: String,
    #[serde(default = "usual_side")]
    side: usize,
    #[serde(default)]
    scale: Scale,
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
    asked: Asked<Heads>,
) -> Result<Response, Problem> {
    let Query(Heads { site, side, scale, merge, hide }) = asked?;
    let (_, reading) = reading(&app, &id)?;
    let site = reading.find(&site)?;
    let work =
        move |cancel: &_| draw_thumbnails(&reading, site, (side, scale, Shown { merge, hide }), cancel);
    let drawn = app.work.run(Weight::Look, work).await?;
    let tops: Vec<f32> = drawn.tops.iter().map(|top| top.top).collect();
    let about = json!({ "width": drawn.width, "height": drawn.height, "tops": tops });
    Ok(Packed::bytes(&about, &drawn.levels).into_response())
}

#[derive(Deserialize)]
pub struct SiteOnly {
    site: String,
}

/// The measures of the heads of an attention.
pub async fn measures(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    asked: Asked<SiteOnly>,
) -> Result<Response, Problem> {
    let Query(SiteOnly { site }) = asked?;
    let (_, reading) = reading(&app, &id)?;
    let site = reading.find(&site)?;
    let measured = app.work.run(Weight::Look, move |cancel| measure(&reading, site, cancel)).await?;
    Ok(Json(measured).into_response())
}

#[derive(Deserialize)]
pub struct Piece {
    site: String,
    head: usize,
    #[serde(default)]
    scale: Scale,
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
    asked: Asked<Piece>,
) -> Result<Response, Problem> {
    let Query(Piece { site, head, scale, merge, hide, zoom, x, y }) = asked?;
    let (_, reading) = reading(&app, &id)?;
    let which = Which { site: reading.find(&site)?, head, scale, shown: Shown { merge, hide } };
    let work = move |cancel: &_| {
        let grid = Grid::new(&reading, which, cancel)?;
        Ok((grid.size(), draw_tile(&grid, zoom, (x, y), cancel)?))
    };
    let ((rows, columns), tile) = app.work.run(Weight::Look, work).await?;
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
    scale: Scale,
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
    asked: Asked<Block>,
) -> Result<Response, Problem> {
    let Query(Block { site, head, scale, merge, hide, top, bottom, left, right }) = asked?;
    let (_, reading) = reading(&app, &id)?;
    let which = Which { site: reading.find(&site)?, head, scale, shown: Shown { merge, hide } };
    let work = move |cancel: &_| {
        let count = bottom.saturating_sub(top).saturating_mul(right.saturating_sub(left));
        ensure!(
            count <= MOST_VALUES,
            UsageError(format!("{count} values are too many at once: {MOST_VALUES} are sent"))
        );
        Grid::new(&reading, which, cancel)?.block(top..bottom, left..right)
    };
    let values = app.work.run(Weight::Look, work).await?;
    Ok(Packed::reals(&json!({ "rows": bottom - top, "columns": right - left }), &values).into_response())
}

#[derive(Deserialize)]
pub struct Why {
    site: String,
    head: usize,
    query: usize,
    /// Positions with commas between them.
    #[serde(default)]
    keys: String,
}

/// Why a query looks where it looks: its vectors, those of some keys, all its scores and weights.
pub async fn vectors(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    asked: Asked<Why>,
) -> Result<Response, Problem> {
    let Query(Why { site, head, query, keys }) = asked?;
    let (_, reading) = reading(&app, &id)?;
    let site = reading.find(&site)?;
    let work = move |cancel: &_| {
        let wrong = || usage_error("keys are positions with commas between them");
        let keys: Vec<usize> = match keys.is_empty() {
            true => Vec::new(),
            false => keys.split(',').map(|key| key.parse().map_err(|_| wrong())).collect::<Result<_, _>>()?,
        };
        ensure!(
            keys.len() <= MOST_KEYS,
            UsageError(format!("at most {MOST_KEYS} keys are looked at together"))
        );
        let vectors = reading.vectors(site, cancel)?;
        let which = Which { site, head, scale: Scale::Raw, shown: Shown::default() };
        let grid = Grid::new(&reading, which, cancel)?;
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
    let (about, values) = app.work.run(Weight::Pass, work).await?;
    Ok(Packed::reals(&about, &values).into_response())
}

#[derive(Deserialize)]
pub struct Position {
    group: Group,
    position: usize,
}

/// A position through the layers.
pub async fn flow(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    asked: Asked<Position>,
) -> Result<Response, Problem> {
    let Query(Position { group, position }) = asked?;
    let (_, reading) = reading(&app, &id)?;
    let flow = app.work.run(Weight::Pass, move |cancel| follow(&reading, group, position, cancel)).await?;
    let about = json!({ "layers": flow.layers, "tokens": flow.tokens });
    Ok(Packed::reals(&about, &[flow.raw, flow.rollout].concat()).into_response())
}
