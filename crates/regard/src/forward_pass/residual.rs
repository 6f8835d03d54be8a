//! The residual stream before every layer of a pass: enough to compute any layer again without the layers before it, and the
//! scores that each layer would give.

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

/// The layer of an attention.
fn layer(site: &Site) -> &str {
    site.name.rsplit_once('.').map_or(&site.name, |(layer, _)| layer)
}

/// The last layer of the stack that predicts: the decoder, where there are two.
fn last(sites: &[Site]) -> Option<String> {
    let predicts = |site: &&Site| matches!(site.group, Group::Itself | Group::Decoder);
    sites.iter().rev().find(predicts).map(|site| format!("{}.residual.after", layer(site)))
}

impl Residuals {
    /// A probe that records them.
    pub(super) fn record(probe: Probe, sites: &[Site]) -> Probe {
        let own = sites.iter().filter(|site| site.group != Group::Cross);
        let probe = own.fold(probe, |probe, site| probe.record(format!("{}.residual.before", layer(site))));
        last(sites).into_iter().fold(probe, Probe::record)
    }

    /// What such a probe has recorded; nothing of models without layers.
    pub(super) fn new(probe: &Probe, sites: &[Site]) -> Result<Self> {
        let mut before = Vec::new();
        for site in sites.iter().filter(|site| site.group != Group::Cross) {
            if let Some(value) = probe.get(&format!("{}.residual.before", layer(site)))? {
                before.push((layer(site).to_owned(), value));
            }
        }
        let after = last(sites).map(|site| probe.get(&site)).transpose()?.flatten();
        Ok(Self { before, after })
    }

    /// A probe that runs the layer of an attention alone, and what the model must be given for that; none if what the layer
    /// read is not known, and the probe runs all layers.
    pub(super) fn alone(&self, probe: Probe, site: &Site, inputs: &Inputs) -> (Probe, Option<Inputs>) {
        let layer = layer(site);
        let Some((_, value)) = self.before.iter().find(|(known, _)| known == layer) else {
            return (probe, None);
        };
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
