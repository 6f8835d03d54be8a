//! Names of heads by tested rules: what each head does over sentences and repeated random tokens, compared with the same
//! model untrained.

use crate::corpus::{BUILT_IN, Corpus, CorpusArguments, TokenizedCorpus};
use crate::corpus_analysis::heads::{SIGNIFICANCE, repeated};
use crate::model::Opened;
use anyhow::Result;
use regard_nn::Error;
use regard_nn::analysis::statistics::Resampling;
use regard_nn::analysis::{
    HeadSettings, Measure, Part, Subject, Table, Tokens, Weighing, attentions, label_heads, measure_heads,
    prefix_matching,
};
use regard_nn::models::{Model, Reads};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};

/// How many sentences of the built-in corpus are read, and how many texts of repeated random tokens.
const SENTENCES: usize = 32;
const REPEATED: usize = 16;
/// The most tokens of a sentence.
const LENGTH: u32 = 64;

/// The names of a model's heads.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct HeadNames {
    /// One for each head and rule that it meets.
    pub names: Vec<HeadName>,
    /// What every head does with repeated random tokens: the weight on the token after the earlier occurrence.
    pub induction: Vec<HeadValue>,
    /// How many sentences were read.
    pub sentences: usize,
    /// How many texts of repeated random tokens.
    pub repeated: usize,
}

/// A name of a head, with the evidence for it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeadName {
    /// The attention, such as `layers.0.self`.
    pub site: String,
    /// The head in it.
    pub head: usize,
    /// The name.
    pub name: &'static str,
    /// The measure that must be large.
    pub measure: &'static str,
    /// What it measures.
    pub description: &'static str,
    /// The threshold.
    pub at_least: f64,
    /// The head's mean.
    pub mean: f64,
    /// The largest mean among the heads of the untrained model.
    pub untrained: f64,
    /// The p-value, corrected for all heads and rules.
    pub p_value: f64,
}

/// A number of a head.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeadValue {
    /// The attention.
    pub site: String,
    /// The head in it.
    pub head: usize,
    /// The mean over texts.
    pub mean: f64,
}

/// Names the heads with which a model reads. Empty for models that read pictures or have no tokenizer.
pub fn head_names(opened: &Opened, cancel: &AtomicBool) -> Result<HeadNames> {
    let (Some(tokenizer), false) =
        (&opened.tokenizer, matches!(opened.model.abilities().reads, Reads::Pictures(_)))
    else {
        return Ok(HeadNames::default());
    };
    let corpus = Corpus::open(BUILT_IN)?;
    let length = opened.model.abilities().context.map_or(LENGTH, |most| LENGTH.min(most as u32));
    let arguments = CorpusArguments {
        corpus: BUILT_IN.to_owned(),
        answers: None,
        limit: SENTENCES,
        length: Some(length),
        batch: 8,
        seed: 0,
    };
    let tokenized = TokenizedCorpus::new(&corpus, tokenizer, &*opened.model, &arguments)?;
    let texts = tokenized.encodings()?.collect::<regard_nn::Result<Vec<_>>>()?;
    let texts: Vec<Tokens> = texts.iter().map(Tokens::from_encoding).collect();
    let mut random = repeated(&tokenized, &*opened.model, 0)?.unwrap_or_default();
    random.truncate(REPEATED);
    let untrained = opened.model.untrained(0)?;
    let table = |model: &dyn Model| measured(model, &texts, &random, cancel);
    let (trained, untrained) = (table(&*opened.model)?, table(&*untrained)?);
    let sites = attentions(&*opened.model)?;
    let named = |layer: usize| sites.get(layer).map(|site| site.name.clone()).unwrap_or_default();
    let names = label_heads(&trained, &untrained, SIGNIFICANCE).into_iter().map(|label| HeadName {
        site: named(label.layer),
        head: label.head,
        name: label.rule.label,
        measure: label.rule.measure.name(),
        description: label.rule.measure.description(),
        at_least: label.rule.at_least,
        mean: label.mean,
        untrained: label.untrained,
        p_value: label.p_value,
    });
    let induction = trained.of(Measure::PrefixMatching);
    let induction = induction.map(|row| HeadValue { site: named(row.layer), head: row.head, mean: row.mean });
    Ok(HeadNames {
        names: names.collect(),
        induction: induction.collect(),
        sentences: texts.len(),
        repeated: random.len(),
    })
}

fn measured(model: &dyn Model, texts: &[Tokens], random: &[Tokens], cancel: &AtomicBool) -> Result<Table> {
    let subject = Subject { model, part: Part::Reader };
    let settings = HeadSettings { batch: 8, weighing: Weighing::Attention, resampling: Resampling::new(0) };
    let checked = |tokens: &Tokens| match cancel.load(Ordering::Relaxed) {
        true => Err(Error::Cancelled),
        false => Ok(tokens.clone()),
    };
    let mut table = measure_heads(subject, texts.iter().map(checked), settings)?;
    if !random.is_empty() {
        checked(&random[0])?;
        table.extend(prefix_matching(subject, random.iter().cloned(), settings)?);
    }
    Ok(table)
}
