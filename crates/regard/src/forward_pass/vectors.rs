//! Queries, keys and values of one attention, and the scores between them: why a token attends where it does.

use super::pass::{ForwardPass, run_model};
use super::site::Site;
use crate::error::usage_error;
use anyhow::{Context as _, Result};
use regard_nn::Context;
use regard_nn::analysis::norms::transformed;
use regard_nn::tensor::Tensor;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

/// The vectors of one attention.
pub struct Vectors {
    site: Site,
    /// (1, time, heads, width), in the order of [`NAMES`]; rotated ones only where there is a rotation.
    named: Vec<(&'static str, Tensor)>,
    /// (1, heads, queries, keys), where they are few enough.
    scores: Option<Tensor>,
    /// ‖f(xⱼ)‖ of every head and key.
    norms: Vec<OnceLock<Arc<Vec<f32>>>>,
    /// Of every head: (width, model width).
    outputs: Vec<Tensor>,
}

/// The sites that are recorded.
const NAMES: [&str; 6] = ["query", "key", "query_rotated", "key_rotated", "value", "heads"];
/// Scores of more pairs than these, over all heads, are not kept.
const MOST_SCORES: usize = 64 << 20;

impl ForwardPass {
    /// The vectors of one attention, computed again from what its layer read; those of the last one are remembered.
    pub fn vectors(&self, site: usize, cancel: &AtomicBool) -> Result<Arc<Vectors>> {
        if let Some((_, vectors)) = self.computed().vectors.as_ref().filter(|(known, _)| *known == site) {
            return Ok(Arc::clone(vectors));
        }
        let vectors = Arc::new(self.compute_vectors(site, cancel)?);
        self.computed().vectors = Some((site, Arc::clone(&vectors)));
        Ok(vectors)
    }

    fn compute_vectors(&self, number: usize, cancel: &AtomicBool) -> Result<Vectors> {
        let missing = || usage_error(format!("there is no attention {number}"));
        let site = self.sites().get(number).ok_or_else(missing)?.clone();
        let (queries, keys) = self.sides(site.group);
        let path = |name: &str| format!("{}.{name}", site.name);
        let mut probe = NAMES.iter().fold(self.probe(), |probe, name| probe.record(path(name)));
        if site.heads * queries.len() * keys.len() <= MOST_SCORES {
            probe = probe.record(path("scores"));
        }
        let (probe, alone) = self.residuals().alone(probe, &site, self.inputs());
        let context = Context::inference().with_cancel(cancel).with_probe(&probe);
        match alone {
            Some(inputs) => self.model().hidden(&context, &inputs).map(drop)?,
            // A model without a residual stream: the whole pass again.
            None => run_model(self.inputs(), self.model(), &context)?,
        }
        let mut named = Vec::new();
        for name in NAMES {
            if let Some(value) = probe.get(&path(name))? {
                named.push((name, value));
            }
        }
        let scores = probe.get(&path("scores"))?;
        let attentions = self.model().attentions();
        let attention = attentions.iter().find(|other| other.name == site.name);
        let attention = attention.with_context(|| format!("the model has no {}", site.name))?;
        let Some(attention) = attention.attention else {
            // Weights that another program computed: nothing is known of what they were computed from.
            return Ok(Vectors { site, named, scores, norms: Vec::new(), outputs: Vec::new() });
        };
        let outputs =
            (0..site.heads).map(|head| attention.head_output(head)).collect::<regard_nn::Result<_>>()?;
        let norms = (0..site.heads).map(|_| OnceLock::new()).collect();
        let vectors = Vectors { site, named, scores, norms, outputs };
        // Computed by the library for all heads at once, where that is little; see `norms`.
        if let Some(value) =
            vectors.tensor("value").filter(|value| value.count() * attention.config().d_model <= MOST_SCORES)
        {
            let all = transformed(attention, value)?; // (1, H, T, C)
            let norms = all.multiply(&all)?.sum(-1)?.sqrt()?.to_vec();
            let per_head = norms.chunks(keys.len().max(1));
            for (cell, norms) in vectors.norms.iter().zip(per_head) {
                let _ = cell.set(Arc::new(norms.to_vec()));
            }
        }
        Ok(vectors)
    }
}

impl Vectors {
    fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.named.iter().find(|(known, _)| *known == name).map(|(_, tensor)| tensor)
    }

    /// How many bytes they are.
    pub(super) fn bytes(&self) -> usize {
        let named: usize = self.named.iter().map(|(_, tensor)| tensor.count()).sum();
        let outputs: usize = self.outputs.iter().map(Tensor::count).sum();
        4 * (named + outputs + self.scores.as_ref().map_or(0, Tensor::count))
    }

    /// The names of what there is: `query`, `key`, `value`, …
    pub fn names(&self) -> Vec<&'static str> {
        self.named.iter().map(|(name, _)| *name).collect()
    }

    /// The width of a head's vectors.
    pub fn width(&self) -> usize {
        self.site.width
    }

    /// The vectors of one head at some positions, one after the other.
    pub fn rows(&self, name: &str, head: usize, positions: &[usize]) -> Result<Vec<f32>> {
        let missing = || usage_error(format!("{} has no {name}", self.site.name));
        let tensor = self.tensor(name).ok_or_else(missing)?;
        let [_, time, heads, width] = tensor.shape()[..] else { return Err(missing()) };
        // Several query heads may share one key-value head.
        let head = head * heads / self.site.heads.max(1);
        if head >= heads || positions.iter().any(|&position| position >= time) {
            return Err(usage_error(format!("there is no such head or position among {heads} and {time}")));
        }
        let values = tensor.values();
        let row = |&position: &usize| &values[(position * heads + head) * width..][..width];
        Ok(positions.iter().flat_map(row).copied().collect())
    }

    /// The scores of one query, after scale and bias and before the mask. They come from the library where the site's
    /// scores were recorded, else from the vectors, which is the same where nothing is added by distance.
    pub fn scores(&self, head: usize, query: usize) -> Result<Option<Vec<f32>>> {
        if let Some(scores) = &self.scores {
            let [_, heads, queries, keys] = scores.shape()[..] else { return Ok(None) };
            if head >= heads || query >= queries {
                return Err(usage_error(format!("there is no query {query} of head {head}")));
            }
            return Ok(Some(scores.values()[(head * queries + query) * keys..][..keys].to_vec()));
        }
        if self.site.biased || !self.site.softmax {
            return Ok(None);
        }
        let (query_name, key_name) =
            if self.site.rotary { ("query_rotated", "key_rotated") } else { ("query", "key") };
        if self.tensor(query_name).is_none() {
            return Ok(None);
        }
        let asks = self.rows(query_name, head, &[query])?;
        let time = self.tensor(key_name).map_or(0, |key| key.shape()[1]);
        let keys = self.rows(key_name, head, &(0..time).collect::<Vec<_>>())?;
        let dot = |key: &[f32]| asks.iter().zip(key).map(|(q, k)| q * k).sum::<f32>() * self.site.scale;
        let capped = |score: f32| self.site.soft_cap.map_or(score, |cap| cap * (score / cap).tanh());
        Ok(Some(keys.chunks(self.site.width.max(1)).map(|key| capped(dot(key))).collect()))
    }

    /// Whether the norms of transformed values are known: not for weights that another program computed.
    pub fn has_norms(&self) -> bool {
        !self.norms.is_empty()
    }

    /// ‖f(xⱼ)‖ of each key: how much this head can transfer from it.
    pub fn norms(&self, head: usize) -> Result<Arc<Vec<f32>>> {
        let cell = self.norms.get(head).ok_or_else(|| usage_error(format!("there is no head {head}")))?;
        if let Some(norms) = cell.get() {
            return Ok(Arc::clone(norms));
        }
        let time = self.tensor("value").map_or(0, |value| value.shape()[1]);
        let values = self.rows("value", head, &(0..time).collect::<Vec<_>>())?;
        let spoken = Tensor::new(&values, [time, self.site.width])?.matmul(&self.outputs[head])?;
        let norms = Arc::new(spoken.multiply(&spoken)?.sum(-1)?.sqrt()?.to_vec());
        Ok(Arc::clone(cell.get_or_init(|| norms)))
    }
}
