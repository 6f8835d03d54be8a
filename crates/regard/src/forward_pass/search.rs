//! Search over a corpus for the texts on which a head does most of something.

use super::input::Input;
use super::pass::ForwardPass;
use super::site::Group;
use crate::corpus::{BUILT_IN, Corpus};
use crate::error::usage_error;
use crate::model::Opened;
use anyhow::Result;
use regard_nn::Error;
use regard_nn::analysis::{Measure, MeasurePlan};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is searched for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// The attention, such as `layers.0.self`.
    pub site: String,
    /// The head in it.
    pub head: usize,
    /// The name of a measure.
    pub measure: String,
    /// The texts; some of the built-in corpus if there are none.
    #[serde(default)]
    pub texts: Vec<String>,
    /// Whether the smallest values are wanted, not the largest.
    #[serde(default)]
    pub least: bool,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SearchResult {
    /// The name of the measure.
    pub measure: &'static str,
    /// What it is.
    pub description: &'static str,
    /// How many texts were read; some may be too short or without what is measured.
    pub read: usize,
    /// The mean over those with a value.
    pub mean: f64,
    /// The best texts, best first.
    pub texts: Vec<FoundText>,
}

/// A text that was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FoundText {
    /// The text.
    pub text: String,
    /// The value of the measure.
    pub value: f64,
    /// The pair of different tokens, first key apart, with the largest weight: query, key.
    pub pair: Option<(usize, usize)>,
    /// Its weight.
    pub weight: f64,
    /// The texts of its tokens.
    pub tokens: Vec<String>,
}

/// Sentences of the built-in corpus that are read.
const SENTENCES: usize = 96;
/// The most texts.
pub const MOST_TEXTS: usize = 500;
/// The most tokens of a text; longer ones are left out.
const LENGTH: usize = 128;
/// How many texts are returned.
const FOUND: usize = 12;

/// Reads texts and keeps those on which a head has the largest values of a measure.
pub fn search(opened: &Arc<Opened>, wanted: &Search, cancel: &AtomicBool) -> Result<SearchResult> {
    let names = || Measure::ALL.iter().map(|measure| measure.name()).collect::<Vec<_>>().join(", ");
    let number = Measure::ALL.iter().position(|measure| measure.name() == wanted.measure);
    let number =
        number.ok_or_else(|| usage_error(format!("there is no measure {}: {}", wanted.measure, names())))?;
    if wanted.texts.len() > MOST_TEXTS {
        let count = wanted.texts.len();
        return Err(usage_error(format!("{count} texts are too many: up to {MOST_TEXTS} are read")));
    }
    let texts = match wanted.texts.is_empty() {
        // Sentences, not whole reviews: models with a short context read them too.
        true => {
            let corpus = Corpus::open(BUILT_IN)?;
            corpus.parsed(SENTENCES).into_iter().flatten().take(SENTENCES).map(|one| one.text).collect()
        }
        false => wanted.texts.clone(),
    };
    let (mut found, mut read) = (Vec::new(), 0);
    for text in texts.into_iter().filter(|text| !text.trim().is_empty()) {
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::Cancelled.into());
        }
        let Some((value, text)) = one(opened, wanted, number, text, cancel)? else { continue };
        read += 1;
        found.extend(value.map(|value| FoundText { value, ..text }));
    }
    let mean = found.iter().map(|text: &FoundText| text.value).sum::<f64>() / found.len().max(1) as f64;
    let sign = if wanted.least { -1.0 } else { 1.0 };
    found.sort_by(|a, b| (sign * b.value).total_cmp(&(sign * a.value)));
    found.truncate(FOUND);
    let measure = Measure::ALL[number];
    Ok(SearchResult { measure: measure.name(), description: measure.description(), read, mean, texts: found })
}

/// The value of one text, with its strongest pair; none if it cannot be read.
fn one(
    opened: &Arc<Opened>,
    wanted: &Search,
    measure: usize,
    text: String,
    cancel: &AtomicBool,
) -> Result<Option<(Option<f64>, FoundText)>> {
    let most = opened.model.abilities().context.map_or(LENGTH, |most| most.min(LENGTH));
    let input = Input::Text(text.clone(), String::new());
    // Texts that are too long or empty for the model are passed over; whether the head exists is known before the first.
    let Ok((source, _)) = ForwardPass::tokens(opened, &input, most) else { return Ok(None) };
    if source.len() < 2 {
        return Ok(None);
    }
    let pass = ForwardPass::new(opened, &input, most, cancel)?;
    let site = pass.find(&wanted.site)?;
    let about = &pass.sites()[site];
    if about.group == Group::Cross || wanted.head >= about.heads {
        return Err(usage_error(format!("{} has no head {} to search with", wanted.site, wanted.head)));
    }
    let tokens = pass.sides(about.group).0;
    let count = tokens.len();
    let weights = pass.weights(site)?.block(0, wanted.head, 0..count, 0..count)?.to_vec();
    let plan = MeasurePlan::new(&ForwardPass::analysis_tokens(tokens), about.visibility)?;
    let value = plan.measure(&weights, count)?[measure].filter(|value| value.is_finite());
    let pairs = (0..count * count).filter(|at| at % count != 0 && at / count != at % count);
    let best = pairs.max_by(|&a, &b| weights[a].total_cmp(&weights[b]).then(b.cmp(&a)));
    let found = FoundText {
        text,
        value: 0.0,
        pair: best.map(|at| (at / count, at % count)),
        weight: best.map_or(0.0, |at| f64::from(weights[at])),
        tokens: tokens.iter().map(|token| token.text.clone()).collect(),
    };
    Ok(Some((value, found)))
}
