//! Probes record, change and differentiate any value inside a model.
//!
//! Sites have names: `embeddings`, `layers.<i>.residual.{before,middle,after}`,
//! `layers.<i>.{self,cross}.{query,key,query_rotated,key_rotated,value,scores,weights,heads,output}`,
//! `layers.<i>.ffn.{hidden,output}`, `pool.weights`, `logits`; in encoder–decoder models with `encoder.` or `decoder.` in
//! front. In a pattern, `*` matches one part of a name. Scores are taken after scale and bias and before the mask,
//! weights before dropout. Queries, keys, values and heads are (batch, time, heads, width); scores and weights are
//! (batch, heads, queries, keys).
//!
//! ```
//! use regard_nn::models::{GptConfig, Inputs, Model, Transformer};
//! use regard_nn::tensor::Ids;
//! use regard_nn::{Context, Probe};
//!
//! let sizes = GptConfig { vocabulary: 11, context: 8, n_layers: 2, n_heads: 2, d_model: 8, ..Default::default() };
//! let gpt = Transformer::new(sizes.form(), 0)?;
//! let probe = Probe::new().record("layers.*.self.weights").zero_head("layers.0.self", 1);
//! let inputs = Inputs::ids(&Ids::new(&[3, 1, 4, 1], [1, 4])?);
//! gpt.forward(&Context::inference().with_probe(&probe), &inputs)?;
//! let weights = probe.weights("layers.1.self").unwrap();
//! assert_eq!(weights.block(0, 0, 0..1, 0..4)?.to_vec(), [1.0, 0.0, 0.0, 0.0]); // the first token attends to itself
//! # Ok::<(), regard_nn::Error>(())
//! ```

use crate::attention::Weights;
use crate::error::{Error, Result};
use crate::parameter::join;
use regard_tensor::ops::concatenate;
use regard_tensor::{Mask, Tensor};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

type Change = dyn Fn(&str, Tensor) -> Result<Tensor> + Send + Sync;

/// An action at the sites that match a pattern.
enum Action {
    Record,
    /// Record as part of the graph, so that gradients flow to the value.
    Track,
    Change(Box<Change>),
    /// Mask a pair of positions, in one head or in all.
    Block {
        head: Option<usize>,
        query: usize,
        key: usize,
    },
}

/// A list of sites to record and to change in a forward pass, and the recorded values.
#[derive(Default)]
pub struct Probe {
    actions: Vec<(String, Action)>,
    /// Layers such as `layers.3` that start from a stored residual stream.
    resumed: Vec<(String, Tensor)>,
    /// Layers such as `layers.3` after which their stack ends.
    last: Vec<String>,
    recorded: Mutex<Recorded>,
}

#[derive(Default)]
struct Recorded {
    sites: BTreeSet<String>,
    values: BTreeMap<String, Tensor>,
    weights: BTreeMap<String, Weights>,
}

impl Probe {
    /// A probe without actions.
    pub fn new() -> Self {
        Self::default()
    }

    fn action(mut self, pattern: impl Into<String>, action: Action) -> Self {
        self.actions.push((pattern.into(), action));
        self
    }

    /// Records the values at some sites. Recording attention weights does not change how attention is computed.
    #[must_use]
    pub fn record(self, pattern: impl Into<String>) -> Self {
        self.action(pattern, Action::Record)
    }

    /// Records the values at some sites as parts of the graph, so that a loss can be differentiated with respect to them,
    /// even in a pass without parameter gradients.
    #[must_use]
    pub fn track(self, pattern: impl Into<String>) -> Self {
        self.action(pattern, Action::Track)
    }

    /// Replaces the value at some sites by the result of a function, which also gets the site's name.
    #[must_use]
    pub fn change(
        self,
        pattern: impl Into<String>,
        change: impl Fn(&str, Tensor) -> Result<Tensor> + Send + Sync + 'static,
    ) -> Self {
        self.action(pattern, Action::Change(Box::new(change)))
    }

    /// Zero ablation: sets the output of one head of an attention layer, such as `layers.0.self`, to zero.
    #[must_use]
    pub fn zero_head(self, attention: &str, head: usize) -> Self {
        self.change(join(attention, "heads"), move |_, heads| {
            replace_head(&heads, head, |values| Ok(values.scale(0.0)?))
        })
    }

    /// Mean ablation: replaces the output of one head by its mean over all examples and positions of the batch, padding
    /// included. For texts of different lengths compute the mean beforehand
    /// ([`mean_outputs`](crate::analysis::ablation::mean_outputs)) and use [`set_head`](Self::set_head).
    #[must_use]
    pub fn mean_head(self, attention: &str, head: usize) -> Self {
        self.change(join(attention, "heads"), move |_, heads| {
            replace_head(&heads, head, |values| {
                let width = values.shape().last();
                let rows = values.shape().rows();
                let mean = values.reshape([rows, width])?.mean(0)?.reshape([1, 1, 1, width])?;
                Ok(values.scale(0.0)?.add(&mean)?)
            })
        })
    }

    /// Replaces the output of one head by a vector (head width) at all positions, such as its mean over a corpus.
    #[must_use]
    pub fn set_head(self, attention: &str, head: usize, vector: Tensor) -> Self {
        self.change(join(attention, "heads"), move |_, heads| {
            replace_head(&heads, head, |values| {
                let vector = vector.reshape([1, 1, 1, vector.count()])?.to(values.device())?;
                Ok(values.scale(0.0)?.add(&vector)?)
            })
        })
    }

    /// Activation patching: replaces the value at a site by that of another run.
    #[must_use]
    pub fn patch(self, site: &str, value: Tensor) -> Self {
        self.change(site, move |_, _| Ok(value.clone()))
    }

    /// Activation patching of one head: `heads`, (batch, time, heads, width), is the value of another run.
    #[must_use]
    pub fn patch_head(self, attention: &str, head: usize, heads: Tensor) -> Self {
        self.change(join(attention, "heads"), move |_, current| {
            replace_head(&current, head, |_| Ok(heads.slice(2, head, 1)?))
        })
    }

    /// Activation patching at one position (axis 1) of a site.
    #[must_use]
    pub fn patch_position(self, site: &str, position: usize, value: Tensor) -> Self {
        self.change(site, move |_, current| {
            replace(&current, 1, position, |_| Ok(value.slice(1, position, 1)?))
        })
    }

    /// Attention knockout: masks a pair of query and key positions in one head, or (`None`) in all heads of an attention
    /// layer. Its weight is distributed over the other keys.
    #[must_use]
    pub fn block(self, attention: &str, head: Option<usize>, query: usize, key: usize) -> Self {
        self.action(join(attention, "weights"), Action::Block { head, query, key })
    }

    /// Multiplies the values at a site, at one position (axis 1) or at all.
    #[must_use]
    pub fn scale(self, site: &str, position: Option<usize>, factor: f32) -> Self {
        self.change(site, move |_, current| {
            at_positions(&current, position, |values| Ok(values.scale(factor)?))
        })
    }

    /// Steering: adds factor · (`toward` − x) to the values at a site, where x is the vector at the position `from` and `toward`
    /// that of another text, at one position (axis 1) or at all. With factor 1 at the position `from`, `toward` takes x's place.
    #[must_use]
    pub fn steer(
        self,
        site: &str,
        position: Option<usize>,
        (from, toward): (usize, Tensor),
        factor: f32,
    ) -> Self {
        self.change(site, move |_, current| {
            let here = current.slice(1, from, 1)?; // (B, 1, C)
            let toward = toward.reshape([1, 1, toward.count()])?;
            let vector = toward.subtract(&here)?.scale(factor)?;
            at_positions(&current, position, |values| Ok(values.add(&vector)?))
        })
    }

    /// Resumes from the residual stream before a layer, such as `layers.3`, as an earlier pass over the same input recorded
    /// it at `layers.3.residual.before`. The layers before it are skipped; changes at that site are in it already.
    #[must_use]
    pub fn resume(mut self, layer: &str, residual: Tensor) -> Self {
        self.resumed.push((layer.to_owned(), residual));
        self
    }

    /// Skips the layers after this one, such as `layers.3`. The values recorded up to there are right; the output is not that
    /// of the model.
    #[must_use]
    pub fn stop_after(mut self, layer: &str) -> Self {
        self.last.push(layer.to_owned());
        self
    }

    /// The layers of a stack (`layers`, `decoder.layers`) that a pass runs, of so many, and what the first of them reads if
    /// it is not the first of the stack.
    pub(crate) fn layers(&self, stack: &str, count: usize) -> (Range<usize>, Option<&Tensor>) {
        let number =
            |layer: &str| -> Option<usize> { layer.strip_prefix(stack)?.strip_prefix('.')?.parse().ok() };
        let resumed = self.resumed.iter().find_map(|(layer, value)| Some((number(layer)?, value)));
        let resumed = resumed.filter(|&(layer, _)| layer < count);
        let end = self.last.iter().find_map(|layer| number(layer)).map_or(count, |last| count.min(last + 1));
        (resumed.map_or(0, |(layer, _)| layer)..end, resumed.map(|(_, value)| value))
    }

    /// Whether a site is where the pass resumed: its value has been changed already.
    fn was_changed(&self, site: &str) -> bool {
        let layer = site.strip_suffix(".residual.before");
        layer.is_some_and(|layer| self.resumed.iter().any(|(resumed, _)| resumed == layer))
    }

    fn actions(&self, site: &str) -> impl Iterator<Item = &Action> {
        self.actions.iter().filter(move |(pattern, _)| matches(pattern, site)).map(|(_, action)| action)
    }

    /// Whether any action matches a site.
    pub(crate) fn watches(&self, site: &str) -> bool {
        self.actions(site).next().is_some()
    }

    /// Whether any action changes or differentiates the value at a site.
    pub(crate) fn intervenes(&self, site: &str) -> bool {
        self.actions(site).any(|action| !matches!(action, Action::Record))
    }

    /// Applies the actions at a site in order, and returns the value, changed or not.
    pub(crate) fn visit(&self, site: &str, mut value: Tensor) -> Result<Tensor> {
        let changed = self.was_changed(site);
        for action in self.actions(site) {
            match action {
                Action::Change(_) if changed => {}
                Action::Change(change) => {
                    let shape = value.shape().clone();
                    value = change(site, value).map_err(|error| match error {
                        Error::Tensor(error) => {
                            Error::input("probe", format!("a change at {site} failed: {error}"))
                        }
                        other => other,
                    })?;
                    if *value.shape() != shape {
                        let problem = format!("a change at {site} turned {shape} into {}", value.shape());
                        return Err(Error::input("probe", problem));
                    }
                }
                Action::Track if !value.is_tracked() => value = value.tracked(),
                Action::Track | Action::Record | Action::Block { .. } => {}
            }
        }
        let records = self.actions(site).any(|action| matches!(action, Action::Record | Action::Track));
        let mut recorded = self.lock();
        if records {
            recorded.values.insert(site.to_owned(), value.clone());
        }
        recorded.sites.insert(site.to_owned());
        Ok(value)
    }

    /// Registers a site whose value was not computed.
    pub(crate) fn pass(&self, site: String) {
        self.lock().sites.insert(site);
    }

    /// Keeps attention weights in a form that computes them on demand.
    pub(crate) fn keep_weights(&self, attention: &str, weights: Weights) {
        let site = join(attention, "weights");
        let mut recorded = self.lock();
        if self.actions(&site).next().is_some() {
            recorded.weights.insert(attention.to_owned(), weights);
        }
        recorded.sites.insert(site);
    }

    /// The masked (head, query, key) triples.
    pub(crate) fn blocked(&self, attention: &str) -> Vec<(Option<usize>, usize, usize)> {
        let blocks = self.actions.iter().filter_map(|(pattern, action)| match action {
            Action::Block { head, query, key } if matches(pattern, &join(attention, "weights")) => {
                Some((*head, *query, *key))
            }
            _ => None,
        });
        blocks.collect()
    }

    fn lock(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value recorded at a site. For attention weights this computes all of them; [`Probe::weights`] does not.
    pub fn get(&self, site: &str) -> Result<Option<Tensor>> {
        let recorded = self.lock();
        if let Some(value) = recorded.values.get(site) {
            return Ok(Some(value.clone()));
        }
        let attention = site.strip_suffix("weights").map(|path| path.strip_suffix('.').unwrap_or(path));
        let weights = attention.and_then(|attention| recorded.weights.get(attention)).cloned();
        drop(recorded);
        Ok(weights.map(|weights| weights.all()))
    }

    /// The recorded weights of an attention layer such as `layers.0.self`. Blocks of them are computed on demand.
    pub fn weights(&self, attention: &str) -> Option<Weights> {
        let recorded = self.lock();
        // Attention layers outside the library record their weights like any other value.
        let shown =
            || recorded.values.get(&join(attention, "weights")).filter(|value| value.shape().rank() == 4);
        recorded
            .weights
            .get(attention)
            .cloned()
            .or_else(|| shown().map(|value| Weights::dense(value.detach())))
    }

    /// The names of all sites of the forward pass, recorded or not.
    pub fn sites(&self) -> Vec<String> {
        self.lock().sites.iter().cloned().collect()
    }

    /// The names of the recorded sites.
    pub fn recorded(&self) -> Vec<String> {
        let recorded = self.lock();
        let weights = recorded.weights.keys().map(|attention| join(attention, "weights"));
        recorded.values.keys().cloned().chain(weights).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Patterns that matched no site of the forward pass, probably misspelt.
    pub fn unmatched(&self) -> Vec<&str> {
        let recorded = self.lock();
        let unmatched = |pattern: &&str| !recorded.sites.iter().any(|site| matches(pattern, site));
        self.actions.iter().map(|(pattern, _)| pattern.as_str()).filter(unmatched).collect()
    }
}

/// Whether a pattern matches a site: part by part, where `*` matches any part.
fn matches(pattern: &str, site: &str) -> bool {
    let (mut wanted, mut found) = (pattern.split('.'), site.split('.'));
    loop {
        match (wanted.next(), found.next()) {
            (None, None) => return true,
            (Some("*"), Some(_)) => {}
            (Some(wanted), Some(found)) if wanted == found => {}
            _ => return false,
        }
    }
}

/// (batch, time, heads, width) with one head's values replaced.
fn replace_head(
    heads: &Tensor,
    head: usize,
    change: impl FnOnce(Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    replace(heads, 2, head, change)
}

/// Replaces one index of an axis by a function of its values.
fn replace(
    value: &Tensor,
    axis: isize,
    index: usize,
    change: impl FnOnce(Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let length = value.shape().get(axis as usize).copied().unwrap_or(0);
    let changed = change(value.slice(axis, index, 1)?)?;
    let before = value.slice(axis, 0, index)?;
    let after = value.slice(axis, index + 1, length - index - 1)?;
    Ok(concatenate(&[&before, &changed, &after], axis)?)
}

/// (batch, time, …) with the values at one position, or at all, replaced.
fn at_positions(
    value: &Tensor,
    position: Option<usize>,
    change: impl FnOnce(Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    match position {
        Some(position) => replace(value, 1, position, change),
        None => change(value.clone()),
    }
}

/// A mask (1 or batch, 1 or heads, queries, keys) without the blocked pairs, as (batch, heads, queries, keys).
pub(crate) fn without_blocked(
    mask: Option<&Mask>,
    blocked: &[(Option<usize>, usize, usize)],
    [batch, heads, queries, keys]: [usize; 4],
) -> Option<Mask> {
    if blocked.is_empty() {
        return mask.cloned();
    }
    Some(Mask::from_fn([batch, heads, queries, keys], |at| {
        let &[example, head, query, key] = at else { return false };
        let open = mask.is_none_or(|mask| {
            let (examples, planes) = (mask.shape()[0], mask.shape()[1]);
            let plane = example % examples * planes + head % planes;
            mask.values()[(plane * queries + query) * keys + key]
        });
        open && !blocked.iter().any(|&(h, q, k)| h.is_none_or(|h| h == head) && q == query && k == key)
    }))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_part_by_part() {
        assert!(matches("layers.*.self.weights", "layers.11.self.weights"));
        assert!(!matches("layers.*.self.weights", "decoder.layers.1.self.weights"));
        assert!(!matches("layers.*", "layers.1.self"));
        assert!(matches("logits", "logits"));
    }
}
