//! Does a head matter? Take it away and look at the loss; or ask the gradient.
//!
//! A head is *zeroed* (it says nothing) or *mean-ablated* (it says what it says on average, everywhere). Its gradient
//! importance is E|Σ hₕ·∂L/∂hₕ|, h being what the head says: the derivative of the loss for a switch on the head, absolute
//! for each text (Michel et al., 2019).

use super::statistics::{Estimate, Interval, Resampling, ascending, spearman};
use super::{Head, all_heads, attentions, scores};
use crate::context::Context;
use crate::data::batches::IGNORED;
use crate::error::{Error, Result};
use crate::models::Model;
use crate::probe::Probe;
use saccade_tensor::ops::CrossEntropy;
use saccade_tensor::{Ids, Pass, Tensor};

/// Texts and what a model should say of them.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Tokens (batch, time).
    pub ids: Ids,
    /// The length of each text.
    pub lengths: Vec<usize>,
    /// The right class at each place, (batch, time), or of each text, (batch, 1); [`IGNORED`] where none is asked.
    pub targets: Ids,
}

impl Batch {
    /// Texts of which a causal model is to say each next token.
    pub fn next_tokens(texts: &[super::Tokens]) -> Result<Self> {
        let (ids, lengths) = super::pad(texts)?;
        let time = ids.shape().last();
        let mut targets = Vec::with_capacity(ids.values().len());
        for text in texts {
            targets.extend_from_slice(text.ids.get(1..).unwrap_or(&[]));
            targets.resize(targets.len() + time + 1 - text.len(), IGNORED);
        }
        Ok(Self { targets: Ids::new(&targets, ids.shape())?, ids, lengths })
    }
}

/// Sums a kind of token each: the last is of all.
#[derive(Debug, Clone, Default)]
struct Sums {
    sums: Vec<f64>,
    counts: Vec<u64>,
}

impl Sums {
    fn new(kinds: usize) -> Self {
        Self { sums: vec![0.0; kinds + 1], counts: vec![0; kinds + 1] }
    }

    fn add(&mut self, losses: &[f32], kinds: &[Option<usize>]) {
        let whole = self.sums.len() - 1;
        for (&loss, kind) in losses.iter().zip(kinds) {
            let Some(kind) = *kind else { continue };
            // A kind beyond those announced counts in the whole alone.
            for at in [Some(kind).filter(|&kind| kind < whole), Some(whole)].into_iter().flatten() {
                self.sums[at] += f64::from(loss);
                self.counts[at] += 1;
            }
        }
    }

    fn means(&self) -> Loss {
        let mean = |at: usize| (self.counts[at] > 0).then(|| self.sums[at] / self.counts[at] as f64);
        let last = self.sums.len() - 1;
        Loss { all: mean(last).unwrap_or(0.0), by_kind: (0..last).map(mean).collect() }
    }
}

/// A mean loss, or a change of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Loss {
    /// Over all tokens.
    pub all: f64,
    /// Over each kind of token; none for kinds that did not occur.
    pub by_kind: Vec<Option<f64>>,
}

impl Loss {
    fn minus(&self, other: &Self) -> Self {
        let pairs = self.by_kind.iter().zip(&other.by_kind);
        Self {
            all: self.all - other.all,
            by_kind: pairs.map(|(a, b)| a.zip(*b).map(|(a, b)| a - b)).collect(),
        }
    }
}

/// What a head is worth.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// The head.
    pub head: Head,
    /// The change of the loss when it says nothing.
    pub zeroed: Loss,
    /// That change as the mean over texts, with an interval from resampled texts.
    pub by_text: Interval,
    /// The change when it says its mean.
    pub averaged: Loss,
    /// Its gradient importance.
    pub importance: f64,
}

/// The worth of all heads.
#[derive(Debug, Clone, PartialEq)]
pub struct Ablation {
    /// The loss of the whole model.
    pub loss: Loss,
    /// Each head's effects.
    pub heads: Vec<Effect>,
    /// Spearman's correlation of gradient importance with the change of the loss when zeroed.
    pub agreement: Option<f64>,
}

impl Ablation {
    /// The heads from the least important, by gradient: the order in which to prune.
    pub fn least_important_first(&self) -> Vec<Head> {
        let importance: Vec<f64> = self.heads.iter().map(|effect| effect.importance).collect();
        ascending(&importance).into_iter().map(|index| self.heads[index].head).collect()
    }
}

/// A kind of token: what a classifier of (batch, text in it, place) says, below `count`.
pub struct Kinds<'a> {
    /// The number of kinds.
    pub count: usize,
    /// The kind of the target at a place.
    pub of: &'a dyn Fn(&Batch, usize, usize) -> usize,
}

/// What is added up of one head.
#[derive(Debug, Clone)]
struct Tally {
    zeroed: Sums,
    averaged: Sums,
    by_text: Estimate,
    importance: f64,
}

impl Tally {
    fn new(kinds: usize) -> Self {
        Self {
            zeroed: Sums::new(kinds),
            averaged: Sums::new(kinds),
            by_text: Estimate::default(),
            importance: 0.0,
        }
    }

    /// Adds each text's mean change of the loss; texts of which nothing is asked are left out.
    fn add_texts(&mut self, batch: &Batch, losses: (&[f32], &[f32]), first: u64, resampling: &Resampling) {
        let time = batch.targets.shape().last().max(1);
        let rows = losses.0.chunks(time).zip(losses.1.chunks(time)).zip(batch.targets.values().chunks(time));
        for (i, ((before, after), targets)) in rows.enumerate() {
            let asked = targets.iter().filter(|&&target| target != IGNORED).count();
            let change: f64 = before.iter().zip(after).map(|(&a, &b)| f64::from(b) - f64::from(a)).sum();
            if asked > 0 {
                self.by_text.add(change / asked as f64, &resampling.draws(first + i as u64));
            }
        }
    }
}

/// Ablates every head over a stream of batches, which is read twice: once for the means.
pub fn ablate(
    model: &Model,
    batches: impl Iterator<Item = Result<Batch>> + Clone,
    kinds: &Kinds,
    resampling: &Resampling,
) -> Result<Ablation> {
    ablate_watched(model, batches, kinds, resampling, &|| {})
}

/// The same, calling a function after each head of each batch: with many heads a batch takes long.
pub fn ablate_watched(
    model: &Model,
    batches: impl Iterator<Item = Result<Batch>> + Clone,
    kinds: &Kinds,
    resampling: &Resampling,
    watch: &dyn Fn(),
) -> Result<Ablation> {
    let heads = all_heads(model)?;
    let sites = attentions(model)?;
    let means = mean_outputs(model, batches.clone())?;
    let mut whole = Sums::new(kinds.count);
    let mut tallies = vec![Tally::new(kinds.count); heads.len()];
    let mut texts = 0;
    for batch in batches {
        let batch = batch?;
        let kind = kinds_of(&batch, kinds);
        let before = losses(model, &Probe::new(), &batch)?;
        whole.add(&before, &kind);
        let importances = importance(model, &batch)?;
        for ((head, tally), importance) in heads.iter().zip(&mut tallies).zip(importances) {
            let site = &sites[head.layer].0;
            let zeroed = losses(model, &Probe::new().zero_head(site, head.head), &batch)?;
            tally.zeroed.add(&zeroed, &kind);
            tally.add_texts(&batch, (&before, &zeroed), texts, resampling);
            let mean = means[head.layer].select(0, head.head)?;
            let averaged = losses(model, &Probe::new().set_head(site, head.head, mean), &batch)?;
            tally.averaged.add(&averaged, &kind);
            tally.importance += importance;
            watch();
        }
        texts += batch.lengths.len() as u64;
    }
    let loss = whole.means();
    let effect = |(&head, tally): (&Head, &Tally)| Effect {
        head,
        zeroed: tally.zeroed.means().minus(&loss),
        by_text: tally.by_text.interval(resampling.level),
        averaged: tally.averaged.means().minus(&loss),
        importance: tally.importance / texts.max(1) as f64,
    };
    let heads: Vec<Effect> = heads.iter().zip(&tallies).map(effect).collect();
    let changes: Vec<f64> = heads.iter().map(|effect| effect.zeroed.all).collect();
    let agreement = spearman(&heads.iter().map(|effect| effect.importance).collect::<Vec<_>>(), &changes)?;
    Ok(Ablation { loss, heads, agreement })
}

/// The loss after zeroing the first 0, 1, 2, … of `order`, or only after those numbers of heads that `counts` names.
pub fn pruning_curve(
    model: &Model,
    batches: &(impl Iterator<Item = Result<Batch>> + Clone),
    order: &[Head],
    counts: &[usize],
) -> Result<Vec<(usize, f64)>> {
    let sites = attentions(model)?;
    let mut curve = Vec::with_capacity(counts.len());
    for &count in counts {
        let mut sums = Sums::new(0);
        for batch in batches.clone() {
            let batch = batch?;
            let mut probe = Probe::new();
            for head in order.iter().take(count) {
                let missing = || Error::input("pruning", format!("there is no layer {}", head.layer));
                probe = probe.zero_head(&sites.get(head.layer).ok_or_else(missing)?.0, head.head);
            }
            let kind = kinds_of(&batch, &Kinds { count: 0, of: &|_, _, _| 0 });
            sums.add(&losses(model, &probe, &batch)?, &kind);
        }
        curve.push((count, sums.means().all));
    }
    Ok(curve)
}

/// The kind of each target; none where it is ignored.
fn kinds_of(batch: &Batch, kinds: &Kinds) -> Vec<Option<usize>> {
    let time = batch.targets.shape().last().max(1);
    let targets = batch.targets.values().iter().enumerate();
    targets.map(|(i, &target)| (target != IGNORED).then(|| (kinds.of)(batch, i / time, i % time))).collect()
}

fn losses(model: &Model, probe: &Probe, batch: &Batch) -> Result<Vec<f32>> {
    Ok(loss_rows(model, probe, batch)?.to_vec())
}

fn loss_rows(model: &Model, probe: &Probe, batch: &Batch) -> Result<Tensor> {
    let scores = scores(model, &Context::inference().with_probe(probe), &batch.ids, &batch.lengths)?;
    Ok(scores.cross_entropy_rows(&batch.targets, CrossEntropy { ignored: Some(IGNORED), smoothing: 0.0 })?)
}

/// What each head says on average over the real tokens: of each layer, (heads, width).
pub fn mean_outputs(model: &Model, batches: impl Iterator<Item = Result<Batch>>) -> Result<Vec<Tensor>> {
    let sites = attentions(model)?;
    let mut sums: Vec<Vec<f64>> = vec![Vec::new(); sites.len()];
    let mut tokens = 0_usize;
    for batch in batches {
        let batch = batch?;
        let probe = sites.iter().fold(Probe::new(), |probe, (site, _)| probe.record(format!("{site}.heads")));
        model.read(&Context::inference().with_probe(&probe), &batch.ids, &batch.lengths)?;
        let time = batch.ids.shape().last();
        for ((site, _), sums) in sites.iter().zip(&mut sums) {
            let said = recorded(&probe, site)?;
            let width = said.count() / batch.ids.values().len().max(1);
            sums.resize(width, 0.0);
            for (place, row) in said.values().chunks_exact(width.max(1)).enumerate() {
                if place % time < batch.lengths[place / time] {
                    sums.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
                }
            }
        }
        tokens += batch.lengths.iter().sum::<usize>();
    }
    if tokens == 0 {
        return Err(Error::input("ablation", "there are no texts"));
    }
    let mean = |((_, attention), sums): (&(String, &crate::attention::MultiHead), Vec<f64>)| {
        let means: Vec<f32> = sums.iter().map(|sum| (sum / tokens as f64) as f32).collect();
        Ok(Tensor::new(&means, [attention.config().n_heads, attention.config().d_head])?)
    };
    sites.iter().zip(sums).map(mean).collect()
}

fn recorded(probe: &Probe, site: &str) -> Result<Tensor> {
    let missing = || Error::input("ablation", format!("the model did not pass {site}"));
    probe.get(&format!("{site}.heads"))?.ok_or_else(missing)
}

/// |Σ hₕ·∂L/∂hₕ| of every head, summed over the texts of a batch; L is a text's mean loss.
pub fn importance(model: &Model, batch: &Batch) -> Result<Vec<f64>> {
    let sites = attentions(model)?;
    let probe = sites.iter().fold(Probe::new(), |probe, (site, _)| probe.track(format!("{site}.heads")));
    let rows = loss_rows(model, &probe, batch)?;
    let time = batch.targets.shape().last().max(1);
    let mut upstream = Vec::with_capacity(batch.targets.values().len());
    for targets in batch.targets.values().chunks(time) {
        let counted = targets.iter().filter(|&&target| target != IGNORED).count();
        upstream.resize(upstream.len() + time, 1.0 / counted.max(1) as f32);
    }
    let mut pass = Pass::new().from_upstream(Tensor::new(&upstream, rows.shape())?);
    let mut tracked = Vec::with_capacity(sites.len());
    for (site, _) in &sites {
        let said = recorded(&probe, site)?;
        pass = pass.with_respect_to(&said);
        tracked.push(said);
    }
    let gradients = rows.gradients(&pass)?;
    let mut all = Vec::new();
    for said in tracked {
        let heads = said.shape()[2];
        let slope = match gradients.get(&said) {
            Some(gradient) => said.detach().multiply(&gradient.detach())?.sum(-1)?.sum(1)?, // (B, H)
            None => Tensor::zeros([batch.lengths.len(), heads]),
        };
        let mut sums = vec![0.0; heads];
        for text in slope.values().chunks_exact(heads) {
            sums.iter_mut().zip(text).for_each(|(sum, &value)| *sum += f64::from(value.abs()));
        }
        all.extend(sums);
    }
    Ok(all)
}
