//! Every model against Hugging Face's own code: logits, attention weights, and the gradient of every parameter.
//!
//! `tools/golden_models.py` makes the files.

use crate::golden::{Golden, agree};
use crate::zoo::pool;
use regard_nn::checkpoint;
use regard_nn::models::{Inputs, Model};
use regard_nn::tensor::ops::CrossEntropy;
use regard_nn::tensor::{Gradients, Ids, Mask, Tensor};
use regard_nn::{Context, Probe};

/// How far a value may be from transformers' own, relative to the largest of its tensor.
const TOLERANCE: f32 = 2e-5;

struct Case {
    golden: Golden,
    model: Box<dyn Model>,
    probe: Probe,
}

impl Case {
    /// Loads the model from a folder made of the golden file's weights and configuration.
    fn open(name: &str) -> Self {
        let golden = Golden::open(&format!("models/{name}"));
        let folder = tempfile::tempdir().unwrap();
        golden.write_below("weights/", &folder.path().join("model.safetensors"));
        std::fs::write(folder.path().join("config.json"), &golden.metadata["config"]).unwrap();
        let model = checkpoint::load(folder.path()).unwrap_or_else(|error| panic!("{name}: {error}")).model;
        let mut probe = Probe::new();
        for site in golden.below("attentions/") {
            probe = probe.record(site);
        }
        Self { golden, model, probe }
    }

    fn context(&self) -> Context<'_> {
        Context::differentiated().with_probe(&self.probe)
    }

    fn ids(&self) -> Ids {
        self.golden.ids("inputs/ids")
    }

    fn mask(&self) -> Mask {
        self.golden.mask("inputs/mask")
    }

    /// Compares logits, loss, weights and gradients with the golden ones.
    fn check(&self, logits: &Tensor, loss: &Tensor, present: Option<&Mask>) {
        agree_where_present("logits", logits, &self.golden.tensor("logits"), present);
        self.check_loss(loss);
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
    }

    fn check_loss(&self, loss: &Tensor) {
        agree("loss", &loss.reshape([]).unwrap(), &self.golden.tensor("loss"), TOLERANCE);
        let gradients: Gradients = loss.backward().unwrap();
        let names = checkpoint::names(&*self.model).unwrap();
        let mut seen = Vec::new();
        for ((path, parameter), (ours, theirs)) in self.model.parameters().iter().zip(&names) {
            assert_eq!(path, ours);
            let got = gradients.get(parameter.tensor()).unwrap_or_else(|| panic!("no gradient of {path}"));
            let want = self.golden.tensor(&format!("gradients/{theirs}"));
            // Some of theirs have one more axis, of length 1, in front.
            let got = match want.shape()[..] {
                [1, ref rest @ ..] if *rest == got.shape()[..] => got.reshape(want.shape()).unwrap(),
                _ => got,
            };
            agree(theirs, &got, &want, TOLERANCE);
            seen.push(theirs.clone());
        }
        seen.sort();
        let theirs: Vec<String> = self.golden.below("gradients/");
        assert_eq!(seen, theirs, "every parameter of theirs is one of ours");
    }
}

/// Compares at queries that are not padding: (batch, time, …).
fn agree_where_present(what: &str, got: &Tensor, want: &Tensor, present: Option<&Mask>) {
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

const IGNORED: CrossEntropy = CrossEntropy { ignored: Some(u32::MAX), smoothing: 0.0 };

/// A causal model's loss: each token is the target of the one before it.
fn causal_loss(logits: &Tensor, labels: &Ids) -> Tensor {
    let [batch, time] = labels.shape()[..] else { panic!() };
    let targets: Vec<u32> = labels.values().chunks(time).flat_map(|row| row[1..].to_vec()).collect();
    let targets = Ids::new(&targets, [batch, time - 1]).unwrap();
    logits.slice(1, 0, time - 1).unwrap().cross_entropy(&targets, IGNORED).unwrap()
}

fn causal(name: &str) {
    let case = Case::open(name);
    let (ids, mask) = (case.ids(), case.mask());
    let logits = case.model.forward(&case.context(), &Inputs::masked(&ids, Some(&mask))).unwrap();
    case.check(&logits, &causal_loss(&logits, &case.golden.ids("inputs/labels")), Some(&mask));
}

/// Scores of classes as transformers has them, (batch, classes).
fn of_texts(scores: &Tensor) -> Tensor {
    scores.reshape([scores.shape()[0], scores.shape().last()]).unwrap()
}

fn bert(name: &str) {
    let case = Case::open(name);
    let (model, context) = (&*case.model, case.context());
    let types = case.golden.has("inputs/types").then(|| case.golden.ids("inputs/types"));
    let mask = case.mask();
    let inputs = Inputs { types, ..Inputs::masked(&case.ids(), Some(&mask)) };
    let hidden = model.hidden(&context, &inputs).unwrap();
    let last = model.attentions().len();
    agree_where_present("hidden", &hidden, &case.golden.tensor(&format!("hidden/{last}")), Some(&mask));
    if case.golden.has("pooled") {
        agree("pooled", &pool(model, &context, &hidden).unwrap(), &case.golden.tensor("pooled"), TOLERANCE);
    }
    if !case.golden.has("logits") {
        let upstream = |name: &str| case.golden.tensor(&format!("inputs/{name}_upstream"));
        let pooled = pool(model, &context, &hidden).unwrap().multiply(&upstream("pooled")).unwrap();
        let hidden = hidden.multiply(&upstream("hidden")).unwrap();
        let loss = pooled.sum_all().unwrap().add(&hidden.sum_all().unwrap()).unwrap();
        return case.check_loss(&loss);
    }
    let scores = model.scores(&context, &hidden).unwrap();
    let logits = if model.abilities().predicts_tokens() { scores } else { of_texts(&scores) };
    let loss = logits.cross_entropy(&case.golden.ids("inputs/labels"), IGNORED).unwrap();
    case.check(&logits, &loss, Some(&mask));
}

fn t5(name: &str) {
    let case = Case::open(name);
    let target_mask = case.golden.mask("inputs/decoder_mask");
    let inputs = Inputs::masked(&case.ids(), Some(&case.mask()))
        .answered(&case.golden.ids("inputs/decoder_ids"), Some(&target_mask));
    let logits = case.model.forward(&case.context(), &inputs).unwrap();
    let loss = logits.cross_entropy(&case.golden.ids("inputs/labels"), IGNORED).unwrap();
    case.check(&logits, &loss, Some(&target_mask));
}

#[test]
fn gpt2() {
    causal("gpt2");
}

#[test]
fn gpt2_with_scores_scaled_by_layer() {
    causal("gpt2-scale");
}

#[test]
fn llama_with_grouped_queries() {
    causal("llama");
}

#[test]
fn llama_tied_with_biases_and_scaled_rotary_positions() {
    causal("llama-tied");
}

#[test]
fn bert_guessing_words() {
    bert("bert-mlm");
}

#[test]
fn bert_classifying() {
    bert("bert-classifier");
}

#[test]
fn bert_without_a_task() {
    bert("bert-base");
}

#[test]
fn roberta_guessing_words() {
    bert("roberta");
}

#[test]
fn roberta_classifying() {
    bert("roberta-classifier");
}

#[test]
fn distilbert_guessing_words() {
    bert("distilbert");
}

#[test]
fn distilbert_classifying() {
    bert("distilbert-classifier");
}

#[test]
fn t5_of_version_1_0() {
    t5("t5");
}

#[test]
fn t5_of_version_1_1() {
    t5("t5-gated");
}

#[test]
fn vit() {
    let case = Case::open("vit");
    let inputs = Inputs::pictures(&case.golden.tensor("inputs/pixels"));
    let logits = of_texts(&case.model.forward(&case.context(), &inputs).unwrap());
    let loss = logits.cross_entropy(&case.golden.ids("inputs/labels"), IGNORED).unwrap();
    case.check(&logits, &loss, None);
}
