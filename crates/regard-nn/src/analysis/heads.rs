//! Every measure of every head over a stream of texts, using memory for one batch.
//!
//! A measure's value for a text is the mean over its queries; a head's value is the mean over texts, with an interval
//! from resampled texts ([`Resampling`]). Padding is left out, so the batch size has no effect on the results.

use super::measures::{Measure, MeasurePlan, SINK, Values};
use super::norms::{normalise_rows, transformed, weigh};
use super::statistics::{Estimate, Resampling};
use super::{Shown, Subject, Tokens};
use crate::attention::Weights;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::models::AttentionSite;
use crate::probe::Probe;
use regard_tensor::Tensor;
use regard_tensor::random::Key;

/// The weights that a measure is computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Weighing {
    /// Attention weights.
    #[default]
    Attention,
    /// Attention weights times the norms of the transformed values, with rows normalised to 1 ([`super::norms`]).
    Norms,
}

/// Settings of [`measure_heads`].
#[derive(Debug, Clone, Copy)]
pub struct HeadSettings {
    /// The number of texts in a batch.
    pub batch: usize,
    /// The weights to measure.
    pub weighing: Weighing,
    /// How intervals are computed.
    pub resampling: Resampling,
}

impl Default for HeadSettings {
    fn default() -> Self {
        Self { batch: 16, weighing: Weighing::Attention, resampling: Resampling::new(0) }
    }
}

/// One measure of one head over texts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// The layer.
    pub layer: usize,
    /// The head in it.
    pub head: usize,
    /// The measure.
    pub measure: Measure,
    /// The mean over texts.
    pub mean: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The standard error of the mean.
    pub error: f64,
    /// The number of texts for which it is defined.
    pub count: u64,
}

/// Measures of heads, one row per layer, head and measure. Measures that are undefined for all texts have no row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// The rows.
    pub rows: Vec<Row>,
}

impl Table {
    /// The row of a head and a measure.
    pub fn find(&self, layer: usize, head: usize, measure: Measure) -> Option<&Row> {
        self.rows.iter().find(|row| (row.layer, row.head, row.measure) == (layer, head, measure))
    }

    /// The rows of a measure, by layer and head.
    pub fn of(&self, measure: Measure) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.measure == measure)
    }

    /// The share of heads that give the first token more than [`SINK`] of their weight: attention sinks (Gu et al., 2024).
    pub fn sink_share(&self) -> f64 {
        let sunk = self.of(Measure::First).filter(|row| row.mean > f64::from(SINK)).count();
        sunk as f64 / self.of(Measure::First).count().max(1) as f64
    }

    /// Adds another table's rows and keeps the order.
    pub fn extend(&mut self, other: Self) {
        self.rows.extend(other.rows);
        self.rows.sort_by_key(|row| (row.layer, row.head, row.measure));
    }
}

/// The attention weights of every attention layer, in order, for a batch of texts.
pub fn record_weights<'a>(subject: impl Into<Subject<'a>>, texts: &[Tokens]) -> Result<Vec<Weights>> {
    let subject = subject.into();
    let probe = record(subject, texts, "weights")?;
    let missing = |site: &str| Error::input("analysis", format!("the model has no site {site}"));
    subject
        .attentions()?
        .iter()
        .map(|site| probe.weights(&site.name).ok_or_else(|| missing(&site.name)))
        .collect()
}

/// Runs texts through a model and records one site of every attention layer.
fn record(subject: Subject, texts: &[Tokens], name: &str) -> Result<Probe> {
    let shown = Shown::new(texts)?;
    let sites = subject.attentions()?;
    let probe = sites.iter().fold(Probe::new(), |probe, site| probe.record(format!("{}.{name}", site.name)));
    shown.attend(subject.model, &Context::inference().with_probe(&probe))?;
    Ok(probe)
}

/// The value vectors of every attention layer, in order: (batch, time, key-value heads, width).
pub fn record_values<'a>(subject: impl Into<Subject<'a>>, texts: &[Tokens]) -> Result<Vec<Tensor>> {
    let subject = subject.into();
    let probe = record(subject, texts, "value")?;
    let value = |site: &AttentionSite| {
        let missing = || Error::input("analysis", format!("the model has no site {}.value", site.name));
        probe.get(&format!("{}.value", site.name))?.ok_or_else(missing)
    };
    subject.attentions()?.iter().map(value).collect()
}

/// The weights of one layer for one text.
pub struct LayerWeights<'a, X> {
    /// The index of the text.
    pub index: u64,
    /// The text.
    pub tokens: &'a Tokens,
    /// The data that the caller attached to the text.
    pub about: &'a X,
    /// The layer.
    pub layer: usize,
    /// The weights of all its heads, (heads, queries, keys), padding included.
    pub weights: &'a [f32],
    /// The number of rows per head.
    pub queries: usize,
    /// The number of columns per head.
    pub keys: usize,
}

impl<X> LayerWeights<'_, X> {
    /// The weights of each head, in rows of `keys`.
    pub fn heads(&self) -> impl Iterator<Item = &[f32]> {
        self.weights.chunks_exact(self.queries * self.keys)
    }
}

/// Calls a function with the weights of every layer for every text. Texts are processed in batches, and within a batch
/// layer by layer.
pub fn for_each_layer<'a, X>(
    subject: impl Into<Subject<'a>>,
    texts: impl Iterator<Item = Result<(Tokens, X)>>,
    (batch, weighing): (usize, Weighing),
    mut visit: impl FnMut(LayerWeights<X>) -> Result<()>,
) -> Result<()> {
    let subject = subject.into();
    let layers = subject.attentions()?;
    let mut texts = texts.fuse();
    let mut first = 0;
    loop {
        let taken: Vec<(Tokens, X)> = texts.by_ref().take(batch.max(1)).collect::<Result<_>>()?;
        if taken.is_empty() {
            return Ok(());
        }
        let (read, about): (Vec<Tokens>, Vec<X>) = taken.into_iter().unzip();
        let values = match weighing {
            Weighing::Attention => Vec::new(),
            Weighing::Norms => record_values(subject, &read)?,
        };
        for (layer, weights) in record_weights(subject, &read)?.into_iter().enumerate() {
            let [_, heads, queries, keys] = weights.sizes();
            let all = match values.get(layer) {
                None => weights.all(),
                Some(values) => normalise_rows(&weigh(
                    &weights.all(),
                    &transformed(layers[layer].projections()?, values)?,
                )?)?,
            };
            let values = all.values();
            let by_text = values.chunks_exact(heads * queries * keys).zip(&read).zip(&about).enumerate();
            for (i, ((weights, tokens), about)) in by_text {
                let index = first + i as u64;
                visit(LayerWeights { index, tokens, about, layer, weights, queries, keys })?;
            }
        }
        first += read.len() as u64;
    }
}

/// Computes every measure of every head over texts.
pub fn measure_heads<'a>(
    subject: impl Into<Subject<'a>>,
    texts: impl Iterator<Item = Result<Tokens>>,
    settings: HeadSettings,
) -> Result<Table> {
    let subject = subject.into();
    let sites = subject.attentions()?;
    // Layers with the same visible keys share a plan, as long as all or none of them have a sink.
    let (mut firsts, mut shared): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    for (layer, site) in sites.iter().enumerate() {
        let alike = |other: &AttentionSite| {
            (other.visibility, other.has_sink()) == (site.visibility, site.has_sink())
        };
        let same = firsts.iter().position(|&first| alike(&sites[first]));
        shared.push(same.unwrap_or(firsts.len()));
        if same.is_none() {
            firsts.push(layer);
        }
    }
    let planned = texts.map(|text| {
        let text = text?;
        let plans =
            firsts.iter().map(|&first| MeasurePlan::of(&sites[first], &text)).collect::<Result<Vec<_>>>()?;
        Ok((text, plans))
    });
    measure_by(subject, planned, settings, |plans, layer| &plans[shared[layer]])
}

/// Like [`measure_heads`], with one plan per text for all layers, which may restrict the measures to some queries.
pub fn measure_planned<'a>(
    subject: impl Into<Subject<'a>>,
    texts: impl Iterator<Item = Result<(Tokens, MeasurePlan)>>,
    settings: HeadSettings,
) -> Result<Table> {
    measure_by(subject.into(), texts, settings, |plan, _| plan)
}

fn measure_by<X>(
    subject: Subject,
    texts: impl Iterator<Item = Result<(Tokens, X)>>,
    settings: HeadSettings,
    plan: impl Fn(&X, usize) -> &MeasurePlan,
) -> Result<Table> {
    let heads = subject.attentions()?.iter().map(|site| site.n_heads).collect::<Vec<_>>();
    let mut estimates = HeadEstimates::new(heads, settings.resampling);
    for_each_layer(subject, texts, (settings.batch, settings.weighing), |layer| {
        let plan = plan(layer.about, layer.layer);
        estimates.add((layer.index, layer.layer), plan, layer.heads(), layer.keys)
    })?;
    estimates.table()
}

/// Collects the measures of heads, text by text and layer by layer, from weights of any origin.
pub struct HeadEstimates {
    resampling: Resampling,
    layers: Vec<Vec<[Estimate; Measure::ALL.len()]>>,
    texts: u64,
}

impl HeadEstimates {
    /// For layers with these numbers of heads.
    pub fn new(heads: impl IntoIterator<Item = usize>, resampling: Resampling) -> Self {
        let layers = heads.into_iter().map(|heads| vec![Default::default(); heads]).collect();
        Self { resampling, layers, texts: 0 }
    }

    /// The number of texts so far.
    pub fn texts(&self) -> u64 {
        self.texts
    }

    /// Adds the weights of the heads of one layer on one text: for each head, rows of `keys` weights.
    pub fn add<'w>(
        &mut self,
        (text, layer): (u64, usize),
        plan: &MeasurePlan,
        heads: impl Iterator<Item = &'w [f32]>,
        keys: usize,
    ) -> Result<()> {
        self.texts = self.texts.max(text + 1);
        let draws = self.resampling.draws(text);
        let missing = || Error::input("analysis", format!("there is no layer {layer}"));
        for (estimates, weights) in self.layers.get_mut(layer).ok_or_else(missing)?.iter_mut().zip(heads) {
            let values: Values = plan.measure(weights, keys)?;
            for (estimate, value) in estimates.iter_mut().zip(values) {
                if let Some(value) = value {
                    estimate.add(value, &draws);
                }
            }
        }
        Ok(())
    }

    /// The means over all texts with their intervals.
    pub fn table(&self) -> Result<Table> {
        if self.texts == 0 {
            return Err(Error::input("analysis", "measuring heads needs at least one text"));
        }
        Ok(tabulate(&self.layers, self.resampling.level))
    }
}

fn tabulate(estimates: &[Vec<[Estimate; Measure::ALL.len()]>], level: f64) -> Table {
    let mut rows = Vec::new();
    for (layer, heads) in estimates.iter().enumerate() {
        for (head, estimates) in heads.iter().enumerate() {
            let measured = Measure::ALL.iter().zip(estimates).filter(|(_, of)| of.moments.count > 0);
            rows.extend(measured.map(|(&measure, estimate)| {
                let interval = estimate.interval(level);
                Row {
                    layer,
                    head,
                    measure,
                    mean: interval.mean,
                    low: interval.low,
                    high: interval.high,
                    error: estimate.moments.error(),
                    count: interval.count,
                }
            }));
        }
    }
    Table { rows }
}

/// Random token sequences, each repeated once: r₁ … rₙ r₁ … rₙ. Ids are drawn from `range`, without repetition within a
/// half if the range is large enough.
pub fn repeated_random(
    range: std::ops::Range<u32>,
    length: usize,
    count: usize,
    key: Key,
) -> impl Iterator<Item = Tokens> {
    let key = key.site("repeated random tokens");
    (0..count as u64).map(move |text| {
        let many = range.len();
        let mut half: Vec<u32> = Vec::with_capacity(length);
        let mut draw = 0;
        while half.len() < length {
            let id = range.start + key.below(text, draw, many) as u32;
            draw += 1;
            if many < 2 * length || !half.contains(&id) {
                half.push(id);
            }
        }
        Tokens::new(half.repeat(2))
    })
}

/// [`Measure::PrefixMatching`]: in the second half of repeated random tokens, the weight on the token that followed the
/// current token the first time.
pub fn prefix_matching<'a>(
    subject: impl Into<Subject<'a>>,
    texts: impl Iterator<Item = Tokens>,
    settings: HeadSettings,
) -> Result<Table> {
    let mut table = measure_heads(subject, texts.map(Ok), settings)?;
    table.rows.retain(|row| row.measure == Measure::Induction);
    for row in &mut table.rows {
        row.measure = Measure::PrefixMatching;
    }
    Ok(table)
}
