//! The score of one query and key as a sum over what wrote them, by name.

use super::pass::ForwardPass;
use super::site::Group;
use crate::error::usage_error;
use anyhow::Result;
use regard_nn::analysis::score_parts::{Writer, score_parts};
use serde::Serialize;

/// The parts of a score.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamedParts {
    /// What wrote to the residual stream before the layer.
    pub writers: Vec<NamedWriter>,
    /// One row for each writer at the query, one column for each at the key.
    pub parts: Vec<f64>,
    /// What is added by distance.
    pub distance: f64,
    /// The score, which all parts add up to.
    pub score: f64,
}

/// A writer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamedWriter {
    /// Its name.
    pub name: String,
    /// Its layer, if it is part of one.
    pub layer: Option<usize>,
    /// Its head, if it is one.
    pub head: Option<usize>,
}

impl NamedParts {
    /// Every pair: the writer of the query, the writer of the key, and what they contribute. The largest first.
    pub fn largest(&self) -> Vec<(&str, &str, f64)> {
        let count = self.writers.len().max(1);
        let name = |at: usize| self.writers[at].name.as_str();
        let cells = self.parts.iter().enumerate();
        let mut pairs: Vec<_> = cells.map(|(at, &part)| (name(at / count), name(at % count), part)).collect();
        pairs.sort_by(|a, b| b.2.abs().total_cmp(&a.2.abs()));
        pairs
    }
}

fn named(writer: Writer) -> NamedWriter {
    let (name, layer, head) = match writer {
        Writer::Embeddings => ("embeddings".to_owned(), None, None),
        Writer::Head { layer, head } => (format!("head {layer}.{head}"), Some(layer), Some(head)),
        Writer::AttentionBias { layer } => (format!("attention bias {layer}"), Some(layer), None),
        Writer::FeedForward { layer } => (format!("feed-forward {layer}"), Some(layer), None),
        _ => ("biases".to_owned(), None, None),
    };
    NamedWriter { name, layer, head }
}

/// The parts of the score of a query and a key in a head.
pub fn named_parts(pass: &ForwardPass, site: usize, head: usize, pair: (usize, usize)) -> Result<NamedParts> {
    let about = pass.sites().get(site).ok_or_else(|| usage_error(format!("there is no attention {site}")))?;
    if about.group != Group::Itself || pass.inputs().ids.is_none() {
        return Err(usage_error("scores are split into parts in models that read one text"));
    }
    if !pass.changes().is_empty() {
        return Err(usage_error(
            "scores are split into parts without changes inside the model: undo them first",
        ));
    }
    let tokens = ForwardPass::analysis_tokens(pass.source());
    let found = score_parts(pass.model(), &tokens, (about.layer, head), pair)?;
    let writers = found.writers.iter().map(|&writer| named(writer)).collect();
    Ok(NamedParts { writers, parts: found.parts, distance: found.distance, score: found.score })
}
