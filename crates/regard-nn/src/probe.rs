//! Look at, change and differentiate any value inside a model.
//!
//! Sites have names: `embeddings`, `layers.<i>.residual.{before,middle,after}`,
//! `layers.<i>.{self,cross}.{query,key,query_rotated,key_rotated,value,scores,weights,heads,output}`,
//! `layers.<i>.ffn.{hidden,output}`, `pool.weights`, `logits`; in encoder–decoder models with `encoder.` or `decoder.` in
//! front. In a pattern, `*` stands for any one part of a name. Scores are after scale and bias and before the mask;
//! weights are before dropout. Queries, keys, values and heads are (batch, time, heads, width); scores and weights are
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
//! assert_eq!(weights.block(0, 0, 0..1, 0..4)?.to_vec(), [1.0, 0.0, 0.0, 0.0]); // the first token sees only itself
//! # Ok::<(), regard_nn::Error>(())
//! ```

use crate::attention::Weights;
use crate::error::{Error, Result};
use crate::parameter::join;
use regard_tensor::ops::concatenate;
use regard_tensor::{Mask, Tensor};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

type Change = dyn Fn(&str, Tensor) -> Result<Tensor> + Send + Sync;

/// Something to do at the sites that a pattern names.
enum Wish {
    Record,
    /// Record, as part of the graph: gradients flow to it.
    Track,
    Change(Box<Change>),
    /// Take a pair of positions away from those that may attend, in one head or in all.
    Block {
        head: Option<usize>,
        query: usize,
        key: usize,
    },
}

/// What to look at and what to change in a forward pass, and what was seen.
#[derive(Default)]
pub struct Probe {
    wishes: Vec<(String, Wish)>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    sites: BTreeSet<String>,
    values: BTreeMap<String, Tensor>,
    weights: BTreeMap<String, Weights>,
}

impl Probe {
    /// A probe that does nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn wish(mut self, pattern: impl Into<String>, wish: Wish) -> Self {
        self.wishes.push((pattern.into(), wish));
        self
    }

    /// Keeps the values at some sites. Recording attention weights does not change how attention is computed.
    #[must_use]
    pub fn record(self, pattern: impl Into<String>) -> Self {
        self.wish(pattern, Wish::Record)
    }

    /// Keeps the values at some sites as parts of the graph, so that a loss can be differentiated with respect to
    /// them, even in a pass without gradients otherwise.
    #[must_use]
    pub fn track(self, pattern: impl Into<String>) -> Self {
        self.wish(pattern, Wish::Track)
    }

    /// Puts what a function returns in the place of the value at some sites. The function gets the site's name.
    #[must_use]
    pub fn change(
        self,
        pattern: impl Into<String>,
        change: impl Fn(&str, Tensor) -> Result<Tensor> + Send + Sync + 'static,
    ) -> Self {
        self.wish(pattern, Wish::Change(Box::new(change)))
    }

    /// Silences one head of an attention such as `layers.0.self`.
    #[must_use]
    pub fn zero_head(self, attention: &str, head: usize) -> Self {
        self.change(join(attention, "heads"), move |_, heads| {
            replace_head(&heads, head, |values| Ok(values.scale(0.0)?))
        })
    }

    /// Lets one head say the same everywhere: its mean over all examples and positions of the batch, padding included. For
    /// texts of different lengths take the mean beforehand ([`mean_outputs`](crate::analysis::ablation::mean_outputs)) and
    /// [`set_head`](Self::set_head).
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

    /// Lets one head say a given vector (head width) everywhere, such as its mean over a corpus.
    #[must_use]
    pub fn set_head(self, attention: &str, head: usize, vector: Tensor) -> Self {
        self.change(join(attention, "heads"), move |_, heads| {
            replace_head(&heads, head, |values| {
                let vector = vector.reshape([1, 1, 1, vector.count()])?;
                Ok(values.scale(0.0)?.add(&vector)?)
            })
        })
    }

    /// Puts another run's value in the place of a site's.
    #[must_use]
    pub fn patch(self, site: &str, value: Tensor) -> Self {
        self.change(site, move |_, _| Ok(value.clone()))
    }

    /// Puts another run's value of one head, (batch, time, heads, width), in the place of this run's.
    #[must_use]
    pub fn patch_head(self, attention: &str, head: usize, heads: Tensor) -> Self {
        self.change(join(attention, "heads"), move |_, current| {
            replace_head(&current, head, |_| Ok(heads.slice(2, head, 1)?))
        })
    }

    /// Puts another run's value at one position (axis 1) of a site in the place of this run's.
    #[must_use]
    pub fn patch_position(self, site: &str, position: usize, value: Tensor) -> Self {
        self.change(site, move |_, current| {
            replace(&current, 1, position, |_| Ok(value.slice(1, position, 1)?))
        })
    }

    /// Forbids a query position to attend to a key position, in one head or (`None`) in all of an attention. The weight
    /// goes to the other keys.
    #[must_use]
    pub fn block(self, attention: &str, head: Option<usize>, query: usize, key: usize) -> Self {
        self.wish(join(attention, "weights"), Wish::Block { head, query, key })
    }

    fn wishes(&self, site: &str) -> impl Iterator<Item = &Wish> {
        self.wishes.iter().filter(move |(pattern, _)| matches(pattern, site)).map(|(_, wish)| wish)
    }

    /// Whether anyone looks at a site.
    pub(crate) fn watches(&self, site: &str) -> bool {
        self.wishes(site).next().is_some()
    }

    /// Whether anyone changes or differentiates what is at a site.
    pub(crate) fn intervenes(&self, site: &str) -> bool {
        self.wishes(site).any(|wish| !matches!(wish, Wish::Record))
    }

    /// Records a value, changes it, or lets it pass. The order is that of the wishes.
    pub(crate) fn visit(&self, site: &str, mut value: Tensor) -> Result<Tensor> {
        for wish in self.wishes(site) {
            match wish {
                Wish::Change(change) => {
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
                Wish::Track if !value.is_tracked() => value = value.tracked(),
                Wish::Track | Wish::Record | Wish::Block { .. } => {}
            }
        }
        let recorded = self.wishes(site).any(|wish| matches!(wish, Wish::Record | Wish::Track));
        let mut seen = self.seen();
        if recorded {
            seen.values.insert(site.to_owned(), value.clone());
        }
        seen.sites.insert(site.to_owned());
        Ok(value)
    }

    /// Notes that a site was passed without its value having been computed.
    pub(crate) fn pass(&self, site: String) {
        self.seen().sites.insert(site);
    }

    /// Keeps attention weights in the form that computes them on demand.
    pub(crate) fn keep_weights(&self, attention: &str, weights: Weights) {
        let site = join(attention, "weights");
        let mut seen = self.seen();
        if self.wishes(&site).next().is_some() {
            seen.weights.insert(attention.to_owned(), weights);
        }
        seen.sites.insert(site);
    }

    /// The pairs of (head, query, key) that may not attend, if any.
    pub(crate) fn blocked(&self, attention: &str) -> Vec<(Option<usize>, usize, usize)> {
        let blocks = self.wishes.iter().filter_map(|(pattern, wish)| match wish {
            Wish::Block { head, query, key } if matches(pattern, &join(attention, "weights")) => {
                Some((*head, *query, *key))
            }
            _ => None,
        });
        blocks.collect()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value recorded at a site. For attention weights this computes all of them; [`Probe::weights`] does not.
    pub fn get(&self, site: &str) -> Result<Option<Tensor>> {
        let seen = self.seen();
        if let Some(value) = seen.values.get(site) {
            return Ok(Some(value.clone()));
        }
        let attention = site.strip_suffix("weights").map(|path| path.strip_suffix('.').unwrap_or(path));
        let weights = attention.and_then(|attention| seen.weights.get(attention)).cloned();
        drop(seen);
        Ok(weights.map(|weights| weights.all()))
    }

    /// The recorded weights of an attention such as `layers.0.self`, any block of which can be computed.
    pub fn weights(&self, attention: &str) -> Option<Weights> {
        let seen = self.seen();
        // An attention that is not the library's own shows its weights as any value.
        let shown = || seen.values.get(&join(attention, "weights")).filter(|value| value.shape().rank() == 4);
        seen.weights.get(attention).cloned().or_else(|| shown().map(|value| Weights::dense(value.detach())))
    }

    /// The names of all sites the pass went through, whether or not they were recorded.
    pub fn sites(&self) -> Vec<String> {
        self.seen().sites.iter().cloned().collect()
    }

    /// The names of the sites that were recorded.
    pub fn recorded(&self) -> Vec<String> {
        let seen = self.seen();
        let weights = seen.weights.keys().map(|attention| join(attention, "weights"));
        seen.values.keys().cloned().chain(weights).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Patterns that no site of the pass matched: most likely misspelt.
    pub fn unmatched(&self) -> Vec<&str> {
        let seen = self.seen();
        let lonely = |pattern: &&str| !seen.sites.iter().any(|site| matches(pattern, site));
        self.wishes.iter().map(|(pattern, _)| pattern.as_str()).filter(lonely).collect()
    }
}

/// Whether a pattern names a site: part by part, `*` being any.
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

/// One place of an axis replaced by a function of what was there.
fn replace(
    value: &Tensor,
    axis: isize,
    place: usize,
    change: impl FnOnce(Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let length = value.shape().get(axis as usize).copied().unwrap_or(0);
    let changed = change(value.slice(axis, place, 1)?)?;
    let before = value.slice(axis, 0, place)?;
    let after = value.slice(axis, place + 1, length - place - 1)?;
    Ok(concatenate(&[&before, &changed, &after], axis)?)
}

/// Takes blocked pairs out of a mask (1 or batch, 1 or heads, queries, keys), giving (batch, heads, queries, keys).
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
