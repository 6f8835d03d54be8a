//! The files of the page: inside the program, or from a folder during development.

use super::App;
use super::problem::Problem;
use crate::figure::stylesheet;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use std::borrow::Cow;
use std::sync::Arc;

macro_rules! files {
    ($($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!("../../web/", $name))),)+]
    };
}

/// Every file, by its name. Scripts stand after those that they import.
pub const FILES: &[(&str, &str)] = files![
    "index.html",
    "style.css",
    "film.css",
    "icon.svg",
    "js/dom.js",
    "js/roving.js",
    "js/numbers.js",
    "js/colours.js",
    "js/svg.js",
    "js/words.js",
    "js/selection.js",
    "js/explain.js",
    "js/measures.js",
    "js/packed.js",
    "js/maths.js",
    "js/server.js",
    "js/embedded.js",
    "js/download.js",
    "js/drawing.js",
    "js/map.js",
    "js/changes.js",
    "js/outcome.js",
    "js/panel.js",
    "js/view_heads.js",
    "js/patches.js",
    "js/view_head.js",
    "js/view_lines.js",
    "js/steps.js",
    "js/score_parts.js",
    "js/view_why.js",
    "js/ribbons.js",
    "js/view_flow.js",
    "js/view_lens.js",
    "js/view_classes.js",
    "js/view_next.js",
    "js/view_without.js",
    "js/view_patching.js",
    "js/film.js",
    "js/view_compare.js",
    "js/view_search.js",
    "js/overview.js",
    "js/tour.js",
    "js/example.js",
    "js/going_on.js",
    "js/theme.js",
    "js/controls.js",
    "js/keys.js",
    "js/main.js",
];

/// The views of the page, as its links name them.
pub const VIEWS: [&str; 12] = [
    "heads", "head", "lines", "why", "flow", "lens", "classes", "next", "without", "patching", "compare",
    "search",
];

/// The name of the generated file with the colours that figures and the page share.
const COLOURS: &str = "colours.css";

/// A file of the page.
#[allow(clippy::unused_async)] // the router wants it so
pub async fn file(State(app): State<Arc<App>>, address: Uri) -> Result<Response, Problem> {
    let name = address.path().trim_start_matches('/');
    let name = if name.is_empty() { "index.html" } else { name };
    let kind = match name.rsplit_once('.').map(|(_, suffix)| suffix) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/javascript; charset=utf-8",
    };
    let answer =
        |text: Cow<'static, str>| Ok(([(header::CONTENT_TYPE, kind)], text.into_owned()).into_response());
    if name == COLOURS {
        return answer(stylesheet().into());
    }
    let missing = || Problem::new(StatusCode::NOT_FOUND, format!("there is no {name} here"));
    // Only names that are known: none can lead out of the folder.
    let (name, text) = FILES.iter().find(|(known, _)| *known == name).ok_or_else(missing)?;
    match &app.web {
        None => answer((*text).into()),
        Some(folder) => answer(std::fs::read_to_string(folder.join(name)).map_err(|_| missing())?.into()),
    }
}
