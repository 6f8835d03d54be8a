//! Activation patching: run a corrupted prompt, put in one value from the clean run, and see how much of the clean answer
//! comes back (Vig et al., 2020; Meng et al., 2022).

use super::{Head, Target, Tokens, all_heads, attentions, pad, scores};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::models::Model;
use crate::probe::Probe;
use regard_tensor::{Ids, Tensor};

/// A clean run, a corrupted prompt of as many tokens, and the answer that is looked at.
pub struct Patching<'a> {
    /// The target's logit with the clean prompt.
    pub clean: f64,
    /// The target's logit with the corrupted one.
    pub corrupted: f64,
    model: &'a dyn Model,
    target: Target,
    ids: Ids,
    /// The attentions, and what their heads said in the clean run.
    heads: Vec<(String, Tensor)>,
    /// The streams before each layer in the clean run; none for models without a stream.
    streams: Vec<(String, Tensor)>,
}

impl<'a> Patching<'a> {
    /// Runs both prompts.
    pub fn new(model: &'a dyn Model, clean: &Tokens, corrupted: &Tokens, target: Target) -> Result<Self> {
        if clean.len() != corrupted.len() {
            let (a, b) = (clean.len(), corrupted.len());
            let problem =
                format!("both prompts need as many tokens, got {a} and {b}: places would not correspond");
            return Err(Error::input("patching", problem));
        }
        let (clean_ids, _) = pad(std::slice::from_ref(clean))?;
        let (ids, _) = pad(std::slice::from_ref(corrupted))?;
        let sites: Vec<String> = attentions(model)?.into_iter().map(|site| site.name).collect();
        let before = |site: &String| format!("{}.residual.before", site.trim_end_matches(".self"));
        let watched = sites.iter().flat_map(|site| [format!("{site}.heads"), before(site)]);
        let probe = watched.fold(Probe::new(), Probe::record);
        let clean = answer(model, &probe, &clean_ids, target)?;
        let corrupted = answer(model, &Probe::new(), &ids, target)?;
        let (mut heads, mut streams) = (Vec::new(), Vec::new());
        for site in sites {
            let missing = || Error::input("patching", format!("the model did not pass {site}"));
            let said = probe.get(&format!("{site}.heads"))?.ok_or_else(missing)?;
            streams.extend(probe.get(&before(&site))?.map(|value| (before(&site), value)));
            heads.push((site, said));
        }
        Ok(Self { clean, corrupted, model, target, ids, heads, streams })
    }

    /// The share of the clean answer that a patch brings back: 0 is as corrupted, 1 as clean. None if both are equal.
    pub fn restored(&self, patched: f64) -> Option<f64> {
        let range = self.clean - self.corrupted;
        (range != 0.0).then(|| (patched - self.corrupted) / range)
    }

    /// The answer with each head clean, at all positions.
    pub fn heads(&self) -> Result<Vec<(Head, f64)>> {
        let one = |head: Head| {
            let (site, said) = &self.heads[head.layer];
            Ok((head, self.run(&Probe::new().patch_head(site, head.head, said.clone()))?))
        };
        all_heads(self.model)?.into_iter().map(one).collect()
    }

    /// The answer with one head clean at one position, position by position: a run each.
    pub fn head_by_position(&self, head: Head) -> Result<Vec<f64>> {
        let missing = || Error::input("patching", format!("there is no layer {}", head.layer));
        let (site, said) = self.heads.get(head.layer).ok_or_else(missing)?;
        self.places().map(|position| self.run(&one_place(site, head.head, position, said))).collect()
    }

    /// The answer with the stream before each layer clean at one position: layer by position.
    pub fn stream_by_position(&self) -> Result<Vec<Vec<f64>>> {
        let layer = |(site, value): &(String, Tensor)| {
            let at = |position| self.run(&Probe::new().patch_position(site, position, value.clone()));
            self.places().map(at).collect()
        };
        self.streams.iter().map(layer).collect()
    }

    fn places(&self) -> std::ops::Range<usize> {
        0..self.ids.values().len()
    }

    fn run(&self, probe: &Probe) -> Result<f64> {
        answer(self.model, probe, &self.ids, self.target)
    }
}

/// The target's logit of one prompt under a probe.
fn answer(model: &dyn Model, probe: &Probe, ids: &Ids, target: Target) -> Result<f64> {
    let scores = scores(model, &Context::inference().with_probe(probe), ids, &[ids.values().len()])?;
    Ok(f64::from(target.logit(&scores)?.sum_all()?.item()?))
}

/// A probe that puts a clean head in at one position.
fn one_place(site: &str, head: usize, position: usize, clean: &Tensor) -> Probe {
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
