//! Every measure of every head over a stream of texts, in memory for one batch.
//!
//! A measure's value for a text is the mean over its queries; a head's is the mean over texts, with an interval from
//! resampled texts ([`Resampling`]). Padding takes no part, so the size of a batch does not matter.

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

/// What counts as a head's weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Weighing {
    /// Its attention.
    #[default]
    Attention,
    /// Its attention times the norms of what it attends to, rows summing to 1 ([`super::norms`]).
    Norms,
}

/// How heads are measured.
#[derive(Debug, Clone, Copy)]
pub struct HeadSettings {
    /// How many texts are read at once.
    pub batch: usize,
    /// What counts as a weight.
    pub weighing: Weighing,
    /// How intervals are found.
    pub resampling: Resampling,
}

impl Default for HeadSettings {
    fn default() -> Self {
        Self { batch: 16, weighing: Weighing::Attention, resampling: Resampling::new(0) }
    }
}

/// A measure of a head over texts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// The layer.
    pub layer: usize,
    /// The head in it.
    pub head: usize,
    /// What was measured.
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

/// Measures of heads, a row each: by layer, head and measure. Measures defined for no text have no row.
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

    /// The share of heads that give the first token more than [`SINK`] of their weight (Gu et al., 2024).
    pub fn sink_share(&self) -> f64 {
        let sunk = self.of(Measure::First).filter(|row| row.mean > f64::from(SINK)).count();
        sunk as f64 / self.of(Measure::First).count().max(1) as f64
    }

    /// Adds another table's rows, in order.
    pub fn extend(&mut self, other: Self) {
        self.rows.extend(other.rows);
        self.rows.sort_by_key(|row| (row.layer, row.head, row.measure));
    }
}

/// The weights of every attention, in order, with which a model reads texts.
pub fn watch<'a>(subject: impl Into<Subject<'a>>, texts: &[Tokens]) -> Result<Vec<Weights>> {
    let subject = subject.into();
    let probe = watched(subject, texts, "weights")?;
    let missing = |site: &str| Error::input("analysis", format!("the model did not pass {site}"));
    subject
        .attentions()?
        .iter()
        .map(|site| probe.weights(&site.name).ok_or_else(|| missing(&site.name)))
        .collect()
}

/// A pass over texts in which one site of every attention was recorded.
fn watched(subject: Subject, texts: &[Tokens], name: &str) -> Result<Probe> {
    let shown = Shown::new(texts)?;
    let sites = subject.attentions()?;
    let probe = sites.iter().fold(Probe::new(), |probe, site| probe.record(format!("{}.{name}", site.name)));
    shown.attend(subject.model, &Context::inference().with_probe(&probe))?;
    Ok(probe)
}

/// The values that every attention reads: (batch, time, key-value heads, width).
pub fn watch_values<'a>(subject: impl Into<Subject<'a>>, texts: &[Tokens]) -> Result<Vec<Tensor>> {
    let subject = subject.into();
    let probe = watched(subject, texts, "value")?;
    let value = |site: &AttentionSite| {
        let missing = || Error::input("analysis", format!("the model did not pass {}.value", site.name));
        probe.get(&format!("{}.value", site.name))?.ok_or_else(missing)
    };
    subject.attentions()?.iter().map(value).collect()
}

/// One layer's weights of one text.
pub struct Look<'a, X> {
    /// The number of the text, from 0.
    pub index: u64,
    /// The text.
    pub tokens: &'a Tokens,
    /// What came with it.
    pub about: &'a X,
    /// The layer.
    pub layer: usize,
    /// The weights of all its heads, (heads, queries, keys), padding included.
    pub weights: &'a [f32],
    /// The number of rows of a head.
    pub queries: usize,
    /// The number of columns of a head.
    pub keys: usize,
}

impl<X> Look<'_, X> {
    /// The weights of each head, in rows of `keys`.
    pub fn heads(&self) -> impl Iterator<Item = &[f32]> {
        self.weights.chunks_exact(self.queries * self.keys)
    }
}

/// Shows every layer's weights of every text to a function, text by text in each layer, a batch at a time.
pub fn look<'a, X>(
    subject: impl Into<Subject<'a>>,
    texts: impl Iterator<Item = Result<(Tokens, X)>>,
    (batch, weighing): (usize, Weighing),
    mut see: impl FnMut(Look<X>) -> Result<()>,
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
            Weighing::Norms => watch_values(subject, &read)?,
        };
        for (layer, weights) in watch(subject, &read)?.into_iter().enumerate() {
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
                see(Look { index: first + i as u64, tokens, about, layer, weights, queries, keys })?;
            }
        }
        first += read.len() as u64;
    }
}

/// Every measure of every head over texts.
pub fn measure_heads<'a>(
    subject: impl Into<Subject<'a>>,
    texts: impl Iterator<Item = Result<Tokens>>,
    settings: HeadSettings,
) -> Result<Table> {
    let subject = subject.into();
    let sites = subject.attentions()?;
    // Layers that see the same keys share a plan.
    let (mut firsts, mut shared): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    for (layer, site) in sites.iter().enumerate() {
        let same = firsts.iter().position(|&first| sites[first].visibility == site.visibility);
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

/// Every measure of every head over texts, each with its own plan for all layers: perhaps for some of its queries alone.
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
    let of_layer = |site: &AttentionSite| vec![Default::default(); site.n_heads];
    let mut estimates: Vec<Vec<[Estimate; Measure::ALL.len()]>> =
        subject.attentions()?.iter().map(of_layer).collect();
    let mut count = 0;
    look(subject, texts, (settings.batch, settings.weighing), |look| {
        count = count.max(look.index + 1);
        let draws = settings.resampling.draws(look.index);
        for (estimates, weights) in estimates[look.layer].iter_mut().zip(look.heads()) {
            let values: Values = plan(look.about, look.layer).measure(weights, look.keys)?;
            for (estimate, value) in estimates.iter_mut().zip(values) {
                if let Some(value) = value {
                    estimate.add(value, &draws);
                }
            }
        }
        Ok(())
    })?;
    if count == 0 {
        return Err(Error::input("analysis", "there are no texts to measure heads on"));
    }
    Ok(tabulate(&estimates, settings.resampling.level))
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

/// Texts of random tokens, each text said twice: r₁ … rₙ r₁ … rₙ. Ids are drawn from `range`, without repetition within
/// the half as long as there are enough.
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

/// [`Measure::PrefixMatching`]: how much of the weight in the second half of repeated random tokens lies on what came next
/// the first time.
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
