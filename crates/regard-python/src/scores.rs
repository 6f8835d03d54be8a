//! One attention score as a sum over what wrote its query and its key.

use crate::model::Model;
use crate::table::{Columns, Values};
use crate::work::work;
use pyo3::prelude::*;
use regard::error::usage_error;
use regard::forward_pass::score_parts::named_parts;
use regard::forward_pass::{ForwardPass, Group, Input};
use std::sync::atomic::AtomicBool;

/// The score, what is added to it by distance, and every pair of writers.
#[pyfunction]
#[pyo3(signature = (model, text, layer, head, query, key))]
pub fn score_parts(
    py: Python<'_>,
    model: &Model,
    text: &str,
    layer: usize,
    head: usize,
    query: usize,
    key: usize,
) -> PyResult<(f64, f64, Columns)> {
    work(py, move |_| {
        let opened = &model.opened;
        let most = opened.model.abilities().context.unwrap_or(usize::MAX);
        let input = Input::Text(text.to_owned(), String::new());
        let pass = ForwardPass::new(opened, &input, most, &AtomicBool::new(false))?;
        let site = pass.sites().iter().position(|site| site.group == Group::Itself && site.layer == layer);
        let site =
            site.ok_or_else(|| usage_error(format!("there is no self-attention in a layer {layer}")))?;
        let found = named_parts(&pass, site, head, (query, key))?;
        let pairs = found.largest();
        let names = |of: fn(&(&str, &str, f64)) -> String| Values::Texts(pairs.iter().map(of).collect());
        let table = Columns::of(vec![
            ("query_writer", names(|pair| pair.0.to_owned())),
            ("key_writer", names(|pair| pair.1.to_owned())),
            ("part", Values::Reals(pairs.iter().map(|pair| pair.2).collect())),
        ]);
        Ok((found.score, found.distance, table))
    })
}
