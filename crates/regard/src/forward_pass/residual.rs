//! The residual stream before every layer of a pass: enough to compute any layer again without the layers before it, and the
//! scores that each layer would give.

use super::intervention::Intervention;
use super::site::{Group, Site};
use anyhow::{Context as _, Result};
use regard_nn::Probe;
use regard_nn::models::Inputs;
use regard_nn::tensor::Tensor;

/// What the layers of a pass read and what the last one wrote.
#[derive(Default)]
pub struct Residuals {
    /// By layer, such as `layers.3` or `decoder.layers.0`: (1, time, width).
    before: Vec<(String, Tensor)>,
    /// After the last layer of the stack that predicts.
    after: Option<Tensor>,
}

/// The last layer of the stack that predicts: the decoder, where there are two.
fn last(sites: &[Site]) -> Option<String> {
    let predicts = |site: &&Site| matches!(site.group, Group::Itself | Group::Decoder);
    sites.iter().rev().find(predicts).map(|site| format!("{}.residual.after", site.layer_name()))
}

/// How many of a stack's layers, from the first on, give the same with both lists of changes. What a layer reads is kept with its
/// changes made: where it is changed, one layer less is shared, so that the pass resumes before the change.
fn alike(layers: &[&str], these: &[Intervention], those: &[Intervention]) -> usize {
    let differ = |layer: &str, entering: bool| {
        let here = |change: &&Intervention| change.layer() == Some((layer, entering));
        !these.iter().filter(here).eq(those.iter().filter(here))
    };
    let first =
        |entering| layers.iter().position(|layer| differ(layer, entering)).unwrap_or(layers.len() + 1);
    first(false).min(first(true).saturating_sub(1)).min(layers.len())
}

impl Residuals {
    /// A probe that records them.
    pub(super) fn record(probe: Probe, sites: &[Site]) -> Probe {
        let own = sites.iter().filter(|site| site.group != Group::Cross);
        let probe =
            own.fold(probe, |probe, site| probe.record(format!("{}.residual.before", site.layer_name())));
        last(sites).into_iter().fold(probe, Probe::record)
    }

    /// What such a probe has recorded; nothing of models without layers. What was not run is as it was in `known`.
    pub(super) fn new(probe: &Probe, sites: &[Site], known: Option<&Self>) -> Result<Self> {
        let mut before = Vec::new();
        for layer in sites.iter().filter(|site| site.group != Group::Cross).map(Site::layer_name) {
            let recorded = probe.get(&format!("{layer}.residual.before"))?;
            if let Some(value) = recorded.or_else(|| known?.before(layer).cloned()) {
                before.push((layer.to_owned(), value));
            }
        }
        let after = last(sites).map(|site| probe.get(&site)).transpose()?.flatten();
        Ok(Self { before, after })
    }

    /// What a layer read.
    fn before(&self, layer: &str) -> Option<&Tensor> {
        self.before.iter().find(|(known, _)| known == layer).map(|(_, value)| value)
    }

    /// The layers of each stack, in the order in which they run: of the encoder, if there are two, then of the one that predicts.
    fn stacks(&self) -> [Vec<&str>; 2] {
        let names = self.before.iter().map(|(layer, _)| layer.as_str());
        let (encoder, last) = names.partition(|layer| layer.starts_with("encoder."));
        [encoder, last]
    }

    /// The layers that give the same with some changes as with others: those before the first in which these differ.
    pub(super) fn shared(&self, these: &[Intervention], those: &[Intervention]) -> Vec<&str> {
        let [encoder, last] = self.stacks();
        let from_encoder = alike(&encoder, these, those);
        let from_last = if from_encoder < encoder.len() { 0 } else { alike(&last, these, those) };
        [&encoder[..from_encoder], &last[..from_last]].concat()
    }

    /// A probe that does not run the layers in `shared`; of an encoder all of whose layers are shared it runs the last one, whose
    /// output the decoder reads.
    pub(super) fn resume(&self, mut probe: Probe, shared: &[&str]) -> Probe {
        for stack in self.stacks() {
            let count = stack.iter().filter(|layer| shared.contains(layer)).count();
            let first = stack.get(count).or(stack.last()).filter(|_| count > 0);
            if let Some((layer, value)) = first.and_then(|layer| Some((layer, self.before(layer)?))) {
                probe = probe.resume(layer, value.clone());
            }
        }
        probe
    }

    /// A probe that runs the layer of an attention alone, and what the model must be given for that; none if what the layer
    /// read is not known, and the probe runs all layers.
    pub(super) fn alone(&self, probe: Probe, site: &Site, inputs: &Inputs) -> (Probe, Option<Inputs>) {
        let layer = site.layer_name();
        let Some(value) = self.before(layer) else { return (probe, None) };
        let mut probe = probe.resume(layer, value.clone()).stop_after(layer);
        let mut inputs = inputs.clone();
        match site.group {
            Group::Encoder => inputs.answer = None,
            // The decoder reads what the encoder's last layer wrote.
            Group::Decoder | Group::Cross => {
                let encoder = self.before.iter().rev().find(|(known, _)| known.starts_with("encoder."));
                if let Some((last, value)) = encoder {
                    probe = probe.resume(last, value.clone());
                }
            }
            Group::Itself => {}
        }
        (probe, Some(inputs))
    }

    /// The residual stream of the stack that predicts: as the first layer reads it, and after each layer.
    pub fn stream(&self) -> Vec<&Tensor> {
        let predicts = |name: &str| !name.starts_with("encoder.");
        let before = self.before.iter().filter(|(layer, _)| predicts(layer)).map(|(_, value)| value);
        before.chain(&self.after).collect()
    }

    /// The residual stream after some layer, by its place in [`Residuals::stream`]; after the last one by default.
    pub fn after(&self, layer: Option<usize>) -> Result<&Tensor> {
        let stream = self.stream();
        let place = layer.unwrap_or(stream.len().saturating_sub(1));
        let missing = || match stream.len() {
            0 => "this model has no residual stream".to_owned(),
            count => format!("there is no layer {place}: there are {count}, the embeddings included"),
        };
        stream.get(place).copied().with_context(missing)
    }

    /// How many bytes they are.
    pub(super) fn bytes(&self) -> usize {
        4 * self.before.iter().map(|(_, value)| value).chain(&self.after).map(Tensor::count).sum::<usize>()
    }
}
