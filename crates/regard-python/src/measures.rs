//! Measures of heads whose attention another program computed.

use crate::analysis::{label_columns, measure_columns};
use crate::arrays::{GivenReals, to_tensor};
use crate::foreign::looks_back;
use crate::table::Columns;
use crate::work::work;
use anyhow::{Result, bail, ensure};
use pyo3::prelude::*;
use regard::corpus_analysis::heads::SIGNIFICANCE;
use regard_nn::analysis::statistics::Resampling;
use regard_nn::analysis::{
    HeadEstimates, MeasurePlan, Part, Tokens, Visibility, Weighing, delimits, label_heads,
};
use regard_nn::models::AttentionSite;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Collects measures text by text, so that the maps of one text are in memory at a time.
#[pyclass(frozen, module = "regard._regard")]
pub struct HeadMeasures(Mutex<HeadEstimates>);

/// The tokens of a text by what they stand for: equal texts are equal tokens.
fn tokens(texts: &[String]) -> Tokens {
    let mut numbers = HashMap::new();
    let ids = texts.iter().map(|text| {
        let next = numbers.len() as u32;
        *numbers.entry(text.as_str()).or_insert(next)
    });
    let mut tokens = Tokens::new(ids.collect());
    let between = |text: &str, open: char, close: char| text.starts_with(open) && text.ends_with(close);
    tokens.special = texts
        .iter()
        .map(|text| text.len() > 2 && (between(text, '[', ']') || between(text, '<', '>')))
        .collect();
    tokens.delimiter = texts.iter().map(|text| delimits(text)).collect();
    tokens
}

#[pymethods]
impl HeadMeasures {
    /// For layers with these numbers of heads.
    #[new]
    fn new(heads: Vec<usize>, seed: u64) -> Self {
        Self(Mutex::new(HeadEstimates::new(heads, Resampling::new(seed))))
    }

    /// Adds a text: its tokens, those of its source if the attention is across, and the weights of each layer, (heads, queries,
    /// keys).
    #[pyo3(signature = (texts, source, layers))]
    fn add(
        &self,
        py: Python<'_>,
        texts: Vec<String>,
        source: Option<Vec<String>>,
        layers: Vec<GivenReals<'_>>,
    ) -> PyResult<()> {
        let layers = layers.iter().map(to_tensor).collect::<PyResult<Vec<_>>>()?;
        work(py, move |_| {
            let mut read = tokens(&texts);
            if let Some(source) = &source {
                read = read.with_source(tokens(source));
            }
            let columns = source.as_ref().map_or(texts.len(), Vec::len);
            let mut causal = source.is_none();
            for (layer, weights) in layers.iter().enumerate() {
                let [_, queries, keys] = weights.shape()[..] else {
                    bail!("layer {layer}: weights must be (heads, queries, keys), got {}", weights.shape());
                };
                ensure!(
                    (queries, keys) == (texts.len(), columns),
                    "layer {layer}: there are {} × {columns} tokens and weights of {queries} × {keys}",
                    texts.len()
                );
                causal = causal && looks_back(&weights.values(), queries, keys);
            }
            let mut site = AttentionSite::named("attention", 1, 1);
            site.part = if source.is_some() { Part::Cross } else { Part::Reader };
            site.visibility = Visibility { causal, window: None };
            let plan = MeasurePlan::of(&site, &read)?;
            let mut estimates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let number = estimates.texts();
            for (layer, weights) in layers.iter().enumerate() {
                let values = weights.values();
                let heads = values.chunks_exact((texts.len() * columns).max(1));
                estimates.add((number, layer), &plan, heads, columns)?;
            }
            Ok(())
        })
    }

    /// The measures, and the labels of heads if they can be compared with those of an untrained model.
    #[pyo3(signature = (baseline))]
    fn tables(&self, py: Python<'_>, baseline: Option<&Self>) -> PyResult<(Columns, Columns)> {
        work(py, |_| {
            let table = |estimates: &Self| -> Result<_> {
                Ok(estimates.0.lock().unwrap_or_else(PoisonError::into_inner).table()?)
            };
            let mut tables = vec![("trained", vec![(Weighing::Attention, table(self)?)])];
            if let Some(baseline) = baseline {
                tables.push(("untrained", vec![(Weighing::Attention, table(baseline)?)]));
            }
            let labels = match &tables[..] {
                [(_, trained), (_, untrained)] => label_heads(&trained[0].1, &untrained[0].1, SIGNIFICANCE),
                _ => Vec::new(),
            };
            Ok((measure_columns(&tables), label_columns(&labels)))
        })
    }
}
