//! Activation patching: run a corrupted prompt, put in one value from the clean run, and see how much of the clean answer
//! comes back (Vig et al., 2020; Meng et al., 2022).

use super::{Head, Target, Tokens, all_heads, attentions, pad, scores};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::models::Model;
use crate::probe::Probe;
use saccade_tensor::{Ids, Tensor};

/// The target's logit in both runs, and after each patch.
#[derive(Debug, Clone, PartialEq)]
pub struct Patching {
    /// With the clean prompt.
    pub clean: f64,
    /// With the corrupted one.
    pub corrupted: f64,
    /// With the corrupted prompt and one clean head, at all positions.
    pub heads: Vec<(Head, f64)>,
    /// With the corrupted prompt and one clean head at one position: of each head, by position.
    pub head_positions: Vec<(Head, Vec<f64>)>,
    /// With the corrupted prompt and the clean stream before each layer at one position: layer by position. Empty for
    /// models without a stream.
    pub positions: Vec<Vec<f64>>,
}

impl Patching {
    /// The share of the clean answer that a patch brings back: 0 is as corrupted, 1 as clean. None if both answers are equal.
    pub fn restored(&self, patched: f64) -> Option<f64> {
        let range = self.clean - self.corrupted;
        (range != 0.0).then(|| (patched - self.corrupted) / range)
    }
}

/// Patches every head, every head at every position, and the stream before every layer at every position.
pub fn patch(model: &Model, clean: &Tokens, corrupted: &Tokens, target: Target) -> Result<Patching> {
    if clean.len() != corrupted.len() {
        let problem = format!(
            "both prompts need as many tokens, got {} and {}: places would not correspond",
            clean.len(),
            corrupted.len()
        );
        return Err(Error::input("patching", problem));
    }
    let (clean_ids, _) = pad(std::slice::from_ref(clean))?;
    let (ids, _) = pad(std::slice::from_ref(corrupted))?;
    let length = clean.len();
    let run = |probe: &Probe, ids: &Ids| -> Result<f64> {
        let scores = scores(model, &Context::inference().with_probe(probe), ids, &[length])?;
        Ok(f64::from(target.logit(&scores)?.sum_all()?.item()?))
    };
    let sites: Vec<String> = attentions(model)?.into_iter().map(|(site, _)| site).collect();
    let streams: Vec<String> =
        sites.iter().map(|site| format!("{}.residual.before", site.trim_end_matches(".self"))).collect();
    let watched = sites.iter().map(|site| format!("{site}.heads")).chain(streams.iter().cloned());
    let probe = watched.fold(Probe::new(), Probe::record);
    let clean_value = run(&probe, &clean_ids)?;
    let corrupted_value = run(&Probe::new(), &ids)?;
    let mut found = Patching {
        clean: clean_value,
        corrupted: corrupted_value,
        heads: Vec::new(),
        head_positions: Vec::new(),
        positions: Vec::new(),
    };
    for head in all_heads(model)? {
        let site = &sites[head.layer];
        let missing = || Error::input("patching", format!("the model did not pass {site}"));
        let said = probe.get(&format!("{site}.heads"))?.ok_or_else(missing)?;
        let patched = Probe::new().patch_head(site, head.head, said.clone());
        found.heads.push((head, run(&patched, &ids)?));
        let at = |position: usize| run(&one_place(site, head.head, position, &said), &ids);
        found.head_positions.push((head, (0..length).map(at).collect::<Result<_>>()?));
    }
    for stream in &streams {
        let Some(value) = probe.get(stream)? else { continue };
        let at = |position: usize| run(&Probe::new().patch_position(stream, position, value.clone()), &ids);
        found.positions.push((0..length).map(at).collect::<Result<_>>()?);
    }
    Ok(found)
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
