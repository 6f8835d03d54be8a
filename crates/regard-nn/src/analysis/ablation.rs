//! Head ablation and gradient importance: does a head matter?
//!
//! A head is *zeroed* (its output is set to 0) or *mean-ablated* (its output is replaced by its mean everywhere). Its
//! gradient importance is E|Σ hₕ·∂L/∂hₕ| with h the head's output: the absolute derivative of the loss with respect to a
//! factor on the head, averaged over texts (Michel et al., 2019).

use super::statistics::{Estimate, Interval, Resampling, Total, ascending, spearman};
use super::{Head, Shown, Subject, all_heads};
use crate::context::Context;
use crate::data::batches::IGNORED;
use crate::error::{Error, Result};
use crate::models::{AttentionSite, Model};
use crate::probe::Probe;
use regard_tensor::ops::CrossEntropy;
use regard_tensor::{Ids, Pass, Tensor};

/// Texts and the targets of their predictions.
#[derive(Debug, Clone)]
pub struct AblationBatch {
    /// The texts.
    pub shown: Shown,
    /// The correct class at each position, (batch, time), or of each text, (batch, 1); [`IGNORED`] where there is none.
    pub targets: Ids,
}

impl AblationBatch {
    /// Texts with the next token as the target at each position, for causal models.
    pub fn next_tokens(texts: &[super::Tokens]) -> Result<Self> {
        let shown = Shown::new(texts)?;
        let time = shown.ids.shape().last();
        let mut targets = Vec::with_capacity(shown.ids.values().len());
        for text in texts {
            targets.extend_from_slice(text.ids.get(1..).unwrap_or(&[]));
            targets.resize(targets.len() + time + 1 - text.len(), IGNORED);
        }
        Ok(Self { targets: Ids::new(&targets, shown.ids.shape())?, shown })
    }
}

/// Sums over texts, one per kind of token; the last is over all tokens.
#[derive(Debug, Clone)]
struct Sums(Vec<Total>);

impl Sums {
    fn new(kinds: usize) -> Self {
        Self(vec![Total::default(); kinds + 1])
    }

    /// Adds the values of the targets of each text of a batch.
    fn add(&mut self, values: impl Fn(usize) -> f64, targets: &Targets) {
        let whole = self.0.len() - 1;
        for (text, draws) in targets.draws.iter().enumerate() {
            let mut sums = vec![None; whole + 1];
            for at in text * targets.time..(text + 1) * targets.time {
                let Some(kind) = targets.kinds[at] else { continue };
                // An unknown kind counts only towards the sum over all tokens.
                for kind in [Some(kind).filter(|&kind| kind < whole), Some(whole)].into_iter().flatten() {
                    *sums[kind].get_or_insert(0.0) += values(at);
                }
            }
            for (total, sum) in self.0.iter_mut().zip(sums) {
                if let Some(sum) = sum {
                    total.add(sum, draws);
                }
            }
        }
    }

    /// The mean of each kind, given the numbers of targets.
    fn means(&self, counts: &Self, level: f64) -> Loss {
        let mut all = self.0.iter().zip(&counts.0).map(|(sum, count)| sum.share(count, level));
        let by_kind = all.by_ref().take(self.0.len() - 1).map(|mean| (mean.count > 0).then_some(mean));
        let by_kind = by_kind.collect();
        let none = Interval { mean: 0.0, low: 0.0, high: 0.0, count: 0 };
        Loss { all: all.next().unwrap_or(none), by_kind }
    }
}

/// The kind of each target of a batch (none where it is ignored), and how often each resample draws each text.
struct Targets {
    time: usize,
    kinds: Vec<Option<usize>>,
    draws: Vec<Vec<f64>>,
}

impl Targets {
    fn new(batch: &AblationBatch, kinds: &Kinds, first: u64, resampling: &Resampling) -> Self {
        let time = batch.targets.shape().last().max(1);
        let targets = batch.targets.values().iter().enumerate();
        let kind =
            |(i, &target): (usize, &u32)| (target != IGNORED).then(|| (kinds.of)(batch, i / time, i % time));
        let texts = 0..batch.shown.lengths.len() as u64;
        Self {
            time,
            kinds: targets.map(kind).collect(),
            draws: texts.map(|text| resampling.draws(first + text)).collect(),
        }
    }
}

/// A mean loss, or a change of it, over targets. Intervals come from resampling texts.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Loss {
    /// Over all tokens. Its count is the number of texts.
    pub all: Interval,
    /// Over each kind of token; none for kinds that did not occur.
    pub by_kind: Vec<Option<Interval>>,
}

/// The effects of ablating one head.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Effect {
    /// The head.
    pub head: Head,
    /// The change of the loss when its output is set to zero.
    pub zeroed: Loss,
    /// The change when its output is replaced by its mean.
    pub averaged: Loss,
    /// Its gradient importance, the mean over texts.
    pub importance: Interval,
}

/// The effects of ablating each head of a model.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Ablation {
    /// The loss of the whole model.
    pub loss: Loss,
    /// Each head's effects.
    pub heads: Vec<Effect>,
    /// Spearman's correlation of gradient importance with the change of the loss when zeroed.
    pub agreement: Option<f64>,
}

impl Ablation {
    /// The heads by increasing gradient importance: the order in which to prune.
    pub fn least_important_first(&self) -> Vec<Head> {
        let importance: Vec<f64> = self.heads.iter().map(|effect| effect.importance.mean).collect();
        ascending(&importance).into_iter().map(|index| self.heads[index].head).collect()
    }
}

/// Kinds of tokens, as a function of (batch, index of the text, position) with values below `count`.
pub struct Kinds<'a> {
    /// The number of kinds.
    pub count: usize,
    /// The kind of the target at a position.
    pub of: &'a dyn Fn(&AblationBatch, usize, usize) -> usize,
}

/// The sums of one head.
#[derive(Debug, Clone)]
struct Tally {
    zeroed: Sums,
    averaged: Sums,
    importance: Estimate,
}

impl Tally {
    fn new(kinds: usize) -> Self {
        Self { zeroed: Sums::new(kinds), averaged: Sums::new(kinds), importance: Estimate::default() }
    }
}

/// Ablates every head over a stream of batches. The stream is read twice: first for the means.
pub fn ablate<'a>(
    subject: impl Into<Subject<'a>>,
    batches: impl Iterator<Item = Result<AblationBatch>> + Clone,
    kinds: &Kinds,
    resampling: &Resampling,
) -> Result<Ablation> {
    ablate_with_progress(subject, batches, kinds, resampling, &|| {})
}

/// Like [`ablate`], calling a function after each head of each batch to report progress.
pub fn ablate_with_progress<'a>(
    subject: impl Into<Subject<'a>>,
    batches: impl Iterator<Item = Result<AblationBatch>> + Clone,
    kinds: &Kinds,
    resampling: &Resampling,
    progress: &dyn Fn(),
) -> Result<Ablation> {
    let subject = subject.into();
    let heads = all_heads(subject)?;
    let sites = subject.attentions()?;
    let model = subject.model;
    let means = mean_outputs(subject, batches.clone())?;
    let (mut whole, mut counts) = (Sums::new(kinds.count), Sums::new(kinds.count));
    let mut tallies = vec![Tally::new(kinds.count); heads.len()];
    let mut texts = 0;
    for batch in batches {
        let batch = batch?;
        let targets = Targets::new(&batch, kinds, texts, resampling);
        let before = losses(model, &Probe::new(), &batch)?;
        counts.add(|_| 1.0, &targets);
        whole.add(|at| f64::from(before[at]), &targets);
        let importances = importance(subject, &batch)?;
        for ((head, tally), importances) in heads.iter().zip(&mut tallies).zip(importances) {
            let site = &sites[head.layer].name;
            let change = |losses: &[f32], at: usize| f64::from(losses[at]) - f64::from(before[at]);
            let zeroed = losses(model, &Probe::new().zero_head(site, head.head), &batch)?;
            tally.zeroed.add(|at| change(&zeroed, at), &targets);
            let mean = means[head.layer].select(0, head.head)?;
            let averaged = losses(model, &Probe::new().set_head(site, head.head, mean), &batch)?;
            tally.averaged.add(|at| change(&averaged, at), &targets);
            for (importance, draws) in importances.into_iter().zip(&targets.draws) {
                tally.importance.add(importance, draws);
            }
            progress();
        }
        texts += batch.shown.lengths.len() as u64;
    }
    let level = resampling.level;
    let effect = |(&head, tally): (&Head, &Tally)| Effect {
        head,
        zeroed: tally.zeroed.means(&counts, level),
        averaged: tally.averaged.means(&counts, level),
        importance: tally.importance.interval(level),
    };
    let heads: Vec<Effect> = heads.iter().zip(&tallies).map(effect).collect();
    let changes: Vec<f64> = heads.iter().map(|effect| effect.zeroed.all.mean).collect();
    let importances: Vec<f64> = heads.iter().map(|effect| effect.importance.mean).collect();
    Ok(Ablation { loss: whole.means(&counts, level), agreement: spearman(&importances, &changes)?, heads })
}

/// The loss after zeroing the first 0, 1, 2, … heads of `order`, or only for the numbers of heads in `counts`.
pub fn pruning_curve<'a>(
    subject: impl Into<Subject<'a>>,
    batches: &(impl Iterator<Item = Result<AblationBatch>> + Clone),
    order: &[Head],
    counts: &[usize],
    resampling: &Resampling,
) -> Result<Vec<(usize, Interval)>> {
    let subject = subject.into();
    let (model, sites) = (subject.model, subject.attentions()?);
    let no_kinds = Kinds { count: 0, of: &|_, _, _| 0 };
    let mut curve = Vec::with_capacity(counts.len());
    for &count in counts {
        let mut probe = Probe::new();
        for head in order.iter().take(count) {
            let missing = || Error::input("pruning", format!("there is no layer {}", head.layer));
            probe = probe.zero_head(&sites.get(head.layer).ok_or_else(missing)?.name, head.head);
        }
        let (mut sums, mut counts, mut texts) = (Sums::new(0), Sums::new(0), 0);
        for batch in batches.clone() {
            let batch = batch?;
            let targets = Targets::new(&batch, &no_kinds, texts, resampling);
            let losses = losses(model, &probe, &batch)?;
            counts.add(|_| 1.0, &targets);
            sums.add(|at| f64::from(losses[at]), &targets);
            texts += batch.shown.lengths.len() as u64;
        }
        curve.push((count, sums.means(&counts, resampling.level).all));
    }
    Ok(curve)
}

fn losses(model: &dyn Model, probe: &Probe, batch: &AblationBatch) -> Result<Vec<f32>> {
    Ok(loss_rows(model, probe, batch)?.to_vec())
}

fn loss_rows(model: &dyn Model, probe: &Probe, batch: &AblationBatch) -> Result<Tensor> {
    let scores = batch.shown.scores(model, &Context::inference().with_probe(probe))?;
    Ok(scores.cross_entropy_rows(&batch.targets, CrossEntropy { ignored: Some(IGNORED), smoothing: 0.0 })?)
}

/// The mean output of each head over all tokens except padding: (heads, width) for each layer.
pub fn mean_outputs<'a>(
    subject: impl Into<Subject<'a>>,
    batches: impl Iterator<Item = Result<AblationBatch>>,
) -> Result<Vec<Tensor>> {
    let subject = subject.into();
    let sites = subject.attentions()?;
    let mut sums: Vec<Vec<f64>> = vec![Vec::new(); sites.len()];
    let mut tokens = 0_usize;
    for batch in batches {
        let batch = batch?;
        let probe =
            sites.iter().fold(Probe::new(), |probe, site| probe.record(format!("{}.heads", site.name)));
        batch.shown.attend(subject.model, &Context::inference().with_probe(&probe))?;
        let (lengths, time) = batch.shown.queries(subject.part);
        for (site, sums) in sites.iter().zip(&mut sums) {
            let output = recorded(&probe, &site.name)?;
            let width = output.count() / (lengths.len() * time).max(1);
            sums.resize(width, 0.0);
            for (place, row) in output.values().chunks_exact(width.max(1)).enumerate() {
                if place % time < lengths[place / time] {
                    sums.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
                }
            }
        }
        tokens += lengths.iter().sum::<usize>();
    }
    if tokens == 0 {
        return Err(Error::input("ablation", "there are no texts"));
    }
    let mean = |(site, sums): (&AttentionSite, Vec<f64>)| {
        let means: Vec<f32> = sums.iter().map(|sum| (sum / tokens as f64) as f32).collect();
        Ok(Tensor::new(&means, [site.n_heads, site.d_head])?)
    };
    sites.iter().zip(sums).map(mean).collect()
}

fn recorded(probe: &Probe, site: &str) -> Result<Tensor> {
    let missing = || Error::input("ablation", format!("the model has no site {site}"));
    probe.get(&format!("{site}.heads"))?.ok_or_else(missing)
}

/// |Σ hₕ·∂L/∂hₕ| of every head for each text of a batch, where L is the text's mean loss.
pub fn importance<'a>(subject: impl Into<Subject<'a>>, batch: &AblationBatch) -> Result<Vec<Vec<f64>>> {
    let subject = subject.into();
    let sites = subject.attentions()?;
    let probe = sites.iter().fold(Probe::new(), |probe, site| probe.track(format!("{}.heads", site.name)));
    let rows = loss_rows(subject.model, &probe, batch)?;
    let time = batch.targets.shape().last().max(1);
    let mut upstream = Vec::with_capacity(batch.targets.values().len());
    for targets in batch.targets.values().chunks(time) {
        let counted = targets.iter().filter(|&&target| target != IGNORED).count();
        upstream.resize(upstream.len() + time, 1.0 / counted.max(1) as f32);
    }
    let upstream = Tensor::new(&upstream, rows.shape())?.to(rows.device())?;
    let mut pass = Pass::new().from_upstream(upstream);
    let mut tracked = Vec::with_capacity(sites.len());
    for site in &sites {
        let output = recorded(&probe, &site.name)?;
        pass = pass.with_respect_to(&output);
        tracked.push(output);
    }
    let gradients = rows.gradients(&pass)?;
    let mut all = Vec::new();
    for output in tracked {
        let heads = output.shape()[2];
        let slope = match gradients.get(&output) {
            Some(gradient) => output.detach().multiply(&gradient.detach())?.sum(-1)?.sum(1)?, // (B, H)
            None => Tensor::zeros([batch.shown.lengths.len(), heads]),
        };
        let slopes = slope.values();
        let of_head = |head: usize| {
            slopes.iter().skip(head).step_by(heads).map(|&slope| f64::from(slope.abs())).collect()
        };
        all.extend((0..heads).map(of_head));
    }
    Ok(all)
}
