//! Every model against Hugging Face's own code: logits, attention weights, the residual stream before
//! every layer, and the gradient of every parameter.
//!
//! `tools/golden_models.py` makes the files. What is compared stands here; the models are in the files below.

mod decoders;
mod encoder_decoders;
mod encoders;
mod vision;

use crate::golden::{Golden, agree};
use crate::numbers::same_bits;
use regard_nn::checkpoint;
use regard_nn::models::Model;
use regard_nn::tensor::ops::CrossEntropy;
use regard_nn::tensor::{Gradients, Ids, Mask, Tensor};
use regard_nn::{Context, Parameter, Probe};
use serde_json::Value;

/// How far a value may be from transformers' own, relative to the largest of its tensor.
pub const TOLERANCE: f32 = 1e-5;
/// The same of gradients, which are sums over more of them.
const GRADIENT_TOLERANCE: f32 = 2e-5;

pub struct Case {
    pub golden: Golden,
    pub model: Box<dyn Model>,
    probe: Probe,
}

impl Case {
    /// Loads the model from a folder made of the golden file's weights and configuration.
    pub fn open(name: &str) -> Self {
        let golden = Golden::open(&format!("models/{name}"));
        let folder = tempfile::tempdir().unwrap();
        golden.write_below("weights/", &folder.path().join("model.safetensors"));
        std::fs::write(folder.path().join("config.json"), &golden.metadata["config"]).unwrap();
        let model = checkpoint::load(folder.path()).unwrap_or_else(|error| panic!("{name}: {error}")).model;
        written_as_read(&golden, &*model);
        let mut probe = Probe::new();
        for site in golden.below("attentions/") {
            probe = probe.record(site);
        }
        for state in golden.below("hidden/") {
            probe = probe.record(before(&state));
        }
        if golden.has("pair") {
            probe = probe.record("pair.logits");
        }
        let case = Self { golden, model, probe };
        case.check_written(name);
        case
    }

    /// What is written has the class, the names and the values of what was read.
    fn check_written(&self, name: &str) {
        let written = checkpoint::to_parts(&*self.model).unwrap();
        let config: Value = serde_json::from_str(&self.golden.metadata["config"]).unwrap();
        for key in ["model_type", "architectures"] {
            assert_eq!(written.config.get(key), config.get(key), "{name}: {key}");
        }
        let names: Vec<&String> = written.tensors.keys().collect();
        assert_eq!(names, self.golden.below("weights/").iter().collect::<Vec<_>>(), "{name}");
        for (tensor, value) in &written.tensors {
            same_bits(tensor, value, &self.golden.tensor(&format!("weights/{tensor}")));
        }
    }

    pub fn context(&self) -> Context<'_> {
        Context::differentiated().with_probe(&self.probe)
    }

    /// What the probe saw at a site.
    pub fn recorded(&self, site: &str) -> Tensor {
        self.probe.get(site).unwrap().unwrap_or_else(|| panic!("{site} was not recorded"))
    }

    pub fn ids(&self) -> Ids {
        self.golden.ids("inputs/ids")
    }

    pub fn mask(&self) -> Mask {
        self.golden.mask("inputs/mask")
    }

    /// Compares logits, loss, weights and gradients with the golden ones.
    pub fn check(&self, logits: &Tensor, loss: &Tensor, present: Option<&Mask>) {
        agree_where_present("logits", logits, &self.golden.tensor("logits"), present);
        self.check_loss(loss);
        self.check_sites();
    }

    /// Compares attention weights and the residual stream with the golden ones.
    pub fn check_sites(&self) {
        for site in self.golden.below("attentions/") {
            let got = self.probe.get(&site).unwrap().unwrap_or_else(|| panic!("{site} was not recorded"));
            let want = self.golden.tensor(&format!("attentions/{site}"));
            // Queries are the third axis here.
            let query_mask = match (site.starts_with("encoder"), self.golden.has("inputs/decoder_mask")) {
                (false, true) => Some(self.golden.mask("inputs/decoder_mask")),
                (true, _) => Some(self.mask()),
                _ => self.golden.has("inputs/mask").then(|| self.mask()),
            };
            let by_query = |weights: &Tensor| weights.permute(&[0, 2, 1, 3]).unwrap();
            agree_where_present(&site, &by_query(&got), &by_query(&want), query_mask.as_ref());
        }
        for state in self.golden.below("hidden/") {
            // The last of a stack is after all layers: no layer reads it.
            let Some(got) = self.probe.get(&before(&state)).unwrap() else { continue };
            let want = self.golden.tensor(&format!("hidden/{state}"));
            let mask = match state.starts_with("decoder") {
                true => Some(self.golden.mask("inputs/decoder_mask")),
                false => self.golden.has("inputs/mask").then(|| self.mask()),
            };
            agree_where_present(&state, &got, &want, mask.as_ref());
        }
    }

    pub fn check_loss(&self, loss: &Tensor) {
        agree("loss", &loss.reshape([]).unwrap(), &self.golden.tensor("loss"), TOLERANCE);
        let gradients: Gradients = loss.backward().unwrap();
        let gradient = |(path, parameter): (String, &Parameter)| {
            let got = gradients.get(parameter.tensor()).unwrap_or_else(|| panic!("no gradient of {path}"));
            (path, got)
        };
        let ours: Vec<_> = self.model.parameters().into_iter().map(gradient).collect();
        let ours = checkpoint::as_in_files(&*self.model, &ours).unwrap();
        for (name, got) in &ours {
            agree(name, got, &self.golden.tensor(&format!("gradients/{name}")), GRADIENT_TOLERANCE);
        }
        let ours: Vec<String> = ours.into_keys().collect();
        assert_eq!(ours, self.golden.below("gradients/"), "every parameter of theirs is one of ours");
    }
}

/// A checkpoint is written as it was read: the same type, the same tensors, and a configuration that gives the same form.
fn written_as_read(golden: &Golden, model: &dyn Model) {
    let written = checkpoint::to_parts(model).unwrap();
    let config: serde_json::Value = serde_json::from_str(&golden.metadata["config"]).unwrap();
    assert_eq!(written.config["model_type"], config["model_type"]);
    assert_eq!(written.config["architectures"], config["architectures"]);
    let names: Vec<&String> = written.tensors.keys().collect();
    assert_eq!(names, golden.below("weights/").iter().collect::<Vec<_>>());
    for (name, tensor) in &written.tensors {
        same_bits(name, tensor, &golden.tensor(&format!("weights/{name}")));
    }
    let folder = tempfile::tempdir().unwrap();
    checkpoint::save(model, folder.path(), &serde_json::Map::new()).unwrap();
    let again = checkpoint::load(folder.path()).unwrap().model;
    assert_eq!(again.form(), model.form());
}

/// The site of the residual stream before a layer: `3` or, of one of two stacks, `decoder.3`.
fn before(state: &str) -> String {
    let (stack, layer) = state.rsplit_once('.').map_or(("", state), |(stack, layer)| (stack, layer));
    let site = format!("layers.{layer}.residual.before");
    if stack.is_empty() { site } else { format!("{stack}.{site}") }
}

/// Compares at queries that are not padding: (batch, time, …).
pub fn agree_where_present(what: &str, got: &Tensor, want: &Tensor, present: Option<&Mask>) {
    agree(what, &keep(got, present), &keep(want, present), TOLERANCE);
}

/// The rows (batch, time) of a tensor that a mask keeps.
fn keep(x: &Tensor, present: Option<&Mask>) -> Tensor {
    let Some(present) = present.filter(|_| x.shape().rank() > 2) else { return x.clone() };
    assert_eq!(x.shape()[..2], present.shape()[..2]);
    let width: usize = x.shape()[2..].iter().product();
    let all = x.values();
    let rows = all.chunks(width).zip(present.values()).filter(|(_, here)| **here).collect::<Vec<_>>();
    let values: Vec<f32> = rows.iter().flat_map(|(row, _)| row.iter().copied()).collect();
    Tensor::new(&values, [rows.len(), width]).unwrap()
}

pub const IGNORED: CrossEntropy = CrossEntropy { ignored: Some(u32::MAX), smoothing: 0.0 };

/// Scores of classes as transformers has them, (batch, classes).
pub fn of_texts(scores: &Tensor) -> Tensor {
    scores.reshape([scores.shape()[0], scores.shape().last()]).unwrap()
}
