//! The measures of every head of an attention on this one text.

use super::attention_map::{AttentionMap, MapKey, MapScale};
use super::pass::ForwardPass;
use super::{Group, TokenDisplay};
use crate::error::usage_error;
use anyhow::Result;
use regard_nn::analysis::{Measure, MeasurePlan};
use serde::Serialize;
use std::sync::atomic::AtomicBool;

/// The measures of the heads of one attention.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeadMeasures {
    /// The names of the measures.
    pub names: Vec<&'static str>,
    /// What they are.
    pub descriptions: Vec<&'static str>,
    /// Head by head, a value a measure; none where it is not defined.
    pub heads: Vec<Vec<Option<f64>>>,
}

/// Above so many tokens the measures are taken on the last queries only, which see most.
const MOST_QUERIES: usize = 1024;

/// Measures the heads of an attention.
pub fn measure(pass: &ForwardPass, site: usize, cancel: &AtomicBool) -> Result<HeadMeasures> {
    let about = pass.sites().get(site).ok_or_else(|| usage_error(format!("no attention {site}")))?;
    let (queries, _) = pass.sides(about.group);
    let count = queries.len();
    let square = about.group != Group::Cross;
    let plan = match square {
        true => {
            let plan = MeasurePlan::new(&ForwardPass::analysis_tokens(queries), about.visibility)?;
            Some(plan.only(|query| query + MOST_QUERIES >= count))
        }
        false => None,
    };
    let mut heads = Vec::with_capacity(about.heads);
    for head in 0..about.heads {
        let which = MapKey { site, head, scale: MapScale::Raw, shown: TokenDisplay::default() };
        let grid = AttentionMap::new(pass, which, cancel)?;
        let (rows, columns) = grid.size();
        let weights = grid.block(0..rows, 0..columns)?;
        heads.push(match &plan {
            Some(plan) => plan.measure(&weights, columns)?.to_vec(),
            None => across(&weights, columns),
        });
        if cancel.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(regard_nn::Error::Cancelled.into());
        }
    }
    // What is defined for no head here is left out.
    let kept: Vec<usize> =
        (0..Measure::ALL.len()).filter(|&i| heads.iter().any(|values| values[i].is_some())).collect();
    Ok(HeadMeasures {
        names: kept.iter().map(|&i| Measure::ALL[i].name()).collect(),
        descriptions: kept.iter().map(|&i| Measure::ALL[i].description()).collect(),
        heads: heads.iter().map(|values| kept.iter().map(|&i| values[i]).collect()).collect(),
    })
}

/// The measures that make sense where queries and keys are of two texts: of the form of a row, and of the first key.
fn across(weights: &[f32], columns: usize) -> Vec<Option<f64>> {
    let rows: Vec<&[f32]> = weights.chunks(columns.max(1)).collect();
    let mean = |of: &dyn Fn(&[f32]) -> f64| {
        (columns > 1 && !rows.is_empty())
            .then(|| rows.iter().map(|row| of(row)).sum::<f64>() / rows.len() as f64)
    };
    let entropy = |row: &[f32]| -> f64 {
        row.iter().map(|&p| f64::from(p)).filter(|&p| p > 0.0).map(|p| -p * p.ln()).sum()
    };
    let value = |measure: &Measure| match measure {
        Measure::Entropy => mean(&entropy),
        Measure::RelativeEntropy => mean(&|row| entropy(row) / (columns as f64).ln()),
        Measure::Confidence => mean(&|row| row.iter().copied().fold(0.0_f32, f32::max).into()),
        Measure::First => mean(&|row| row[0].into()),
        _ => None,
    };
    Measure::ALL.iter().map(value).collect()
}
