//! Activation patching: run a corrupted prompt with one activation from the clean run, and measure how much of the clean
//! prediction is restored (Vig et al., 2020; Meng et al., 2022).

use super::{Head, Target, Tokens, all_heads, attentions, pad, scores};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::models::Model;
use crate::probe::Probe;
use regard_tensor::{Ids, Tensor};

/// A clean run, a corrupted prompt of the same length, and the target whose logit is measured.
pub struct Patching<'a> {
    /// The target's logit with the clean prompt.
    pub clean: f64,
    /// The target's logit with the corrupted one.
    pub corrupted: f64,
    model: &'a dyn Model,
    target: Target,
    ids: Ids,
    /// The attention layers, and the outputs of their heads in the clean run.
    heads: Vec<(String, Tensor)>,
    /// The residual stream before each layer in the clean run; empty for models without one.
    residuals: Vec<(String, Tensor)>,
}

impl<'a> Patching<'a> {
    /// Runs both prompts.
    pub fn new(model: &'a dyn Model, clean: &Tokens, corrupted: &Tokens, target: Target) -> Result<Self> {
        if clean.len() != corrupted.len() {
            let (a, b) = (clean.len(), corrupted.len());
            let problem = format!(
                "both prompts need the same number of tokens, got {a} and {b}: positions would not correspond"
            );
            return Err(Error::input("patching", problem));
        }
        let (clean_ids, _) = pad(std::slice::from_ref(clean))?;
        let (ids, _) = pad(std::slice::from_ref(corrupted))?;
        let sites: Vec<String> = attentions(model)?.into_iter().map(|site| site.name).collect();
        let before = |site: &String| format!("{}.residual.before", site.trim_end_matches(".self"));
        let recorded = sites.iter().flat_map(|site| [format!("{site}.heads"), before(site)]);
        let probe = recorded.fold(Probe::new(), Probe::record);
        let clean = logit(model, &probe, &clean_ids, target)?;
        let corrupted = logit(model, &Probe::new(), &ids, target)?;
        let (mut heads, mut residuals) = (Vec::new(), Vec::new());
        for site in sites {
            let missing = || Error::input("patching", format!("the model has no site {site}"));
            let output = probe.get(&format!("{site}.heads"))?.ok_or_else(missing)?;
            residuals.extend(probe.get(&before(&site))?.map(|value| (before(&site), value)));
            heads.push((site, output));
        }
        Ok(Self { clean, corrupted, model, target, ids, heads, residuals })
    }

    /// The share of the clean logit that a patch restores: 0 is corrupted, 1 is clean. `None` if both are equal.
    pub fn restored(&self, patched: f64) -> Option<f64> {
        let range = self.clean - self.corrupted;
        (range != 0.0).then(|| (patched - self.corrupted) / range)
    }

    /// The logit with each head patched at all positions.
    pub fn heads(&self) -> Result<Vec<(Head, f64)>> {
        let one = |head: Head| Ok((head, self.head(head)?));
        all_heads(self.model)?.into_iter().map(one).collect()
    }

    /// The logit with one head patched at each single position. Runs the model once per position.
    pub fn head_by_position(&self, head: Head) -> Result<Vec<f64>> {
        let missing = || Error::input("patching", format!("there is no layer {}", head.layer));
        let (site, output) = self.heads.get(head.layer).ok_or_else(missing)?;
        self.positions().map(|position| self.run(&patch_one(site, head.head, position, output))).collect()
    }

    /// The logit with the residual stream before each layer patched at each single position: layer by position.
    pub fn residual_by_position(&self) -> Result<Vec<Vec<f64>>> {
        let layer = |layer| self.positions().map(|position| self.residual_at(layer, position)).collect();
        (0..self.residuals.len()).map(layer).collect()
    }

    /// The logit with the residual stream before one layer patched at one position.
    pub fn residual_at(&self, layer: usize, position: usize) -> Result<f64> {
        let missing =
            || Error::input("patching", format!("there is no residual stream before layer {layer}"));
        let (site, value) = self.residuals.get(layer).ok_or_else(missing)?;
        if position >= self.positions().end {
            return Err(Error::input("patching", format!("there is no position {position}")));
        }
        self.run(&Probe::new().patch_position(site, position, value.clone()))
    }

    /// The logit with one head patched at all positions.
    pub fn head(&self, head: Head) -> Result<f64> {
        let missing =
            || Error::input("patching", format!("there is no head {} of layer {}", head.head, head.layer));
        let (site, output) = self.heads.get(head.layer).ok_or_else(missing)?;
        if head.head >= output.shape()[2] {
            return Err(missing());
        }
        self.run(&Probe::new().patch_head(site, head.head, output.clone()))
    }

    fn positions(&self) -> std::ops::Range<usize> {
        0..self.ids.values().len()
    }

    fn run(&self, probe: &Probe) -> Result<f64> {
        logit(self.model, probe, &self.ids, self.target)
    }
}

/// The target's logit for one prompt under a probe.
fn logit(model: &dyn Model, probe: &Probe, ids: &Ids, target: Target) -> Result<f64> {
    let scores = scores(model, &Context::inference().with_probe(probe), ids, &[ids.values().len()])?;
    Ok(f64::from(target.logit(&scores)?.sum_all()?.item()?))
}

/// A probe that patches a head at one position.
fn patch_one(site: &str, head: usize, position: usize, clean: &Tensor) -> Probe {
    let clean = clean.clone();
    Probe::new().change(format!("{site}.heads"), move |_, current| {
        let part = clean.slice(1, position, 1)?.slice(2, head, 1)?; // (1, 1, 1, D)
        let mut row = current.slice(1, position, 1)?;
        row.overwrite(2, head, &part)?;
        let mut patched = current;
        patched.overwrite(1, position, &row)?;
        Ok(patched)
    })
}
