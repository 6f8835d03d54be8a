//! Ten training steps of a small GPT-2, compared with PyTorch from the same weights.

use crate::case::Golden;
use regard_tensor::ops::{Attention, CrossEntropy, Function, Layout, Projections, attend};
use regard_tensor::optimiser::{Method, Optimiser, Update, clip_scale, global_norm};
use regard_tensor::{Gradients, Ids, Result, Tensor};
use std::collections::BTreeMap;

const LAYERS: usize = 2;
const HEADS: usize = 3;
const LEARNING_RATE: f32 = 3e-3;

/// The parameters by Hugging Face's names.
struct Gpt(BTreeMap<String, Tensor>);

impl Gpt {
    fn open(golden: &Golden) -> Self {
        let names = golden.names().filter(|name| name.starts_with("transformer."));
        Self(names.map(|name| (name.to_owned(), golden.tensor(name).tracked())).collect())
    }

    fn parameter(&self, name: &str) -> &Tensor {
        &self.0[&format!("transformer.{name}")]
    }

    fn norm(&self, x: &Tensor, name: &str) -> Result<Tensor> {
        let [weight, bias] = ["weight", "bias"].map(|part| self.parameter(&format!("{name}.{part}")));
        x.layer_norm(weight, Some(bias), 1e-5)
    }

    fn linear(&self, x: &Tensor, name: &str, function: Option<Function>) -> Result<Tensor> {
        let [weight, bias] = ["weight", "bias"].map(|part| self.parameter(&format!("{name}.{part}")));
        x.linear(weight, Some(bias), Layout::InOut, function)
    }

    fn attention(&self, x: &Tensor, layer: &str) -> Result<Tensor> {
        let packed = self.linear(x, &format!("{layer}.attn.c_attn"), None)?; // (B, T, 3·C)
        let scale = ((x.shape().last() / HEADS) as f32).sqrt().recip();
        let projections = Projections::Fused { packed: &packed, heads: HEADS, kv_heads: HEADS };
        let heads = attend(projections, &Attention::scaled(scale).causal())?.output; // (B, T, H, D)
        self.linear(&heads.reshape(x.shape())?, &format!("{layer}.attn.c_proj"), None)
    }

    fn feed_forward(&self, x: &Tensor, layer: &str) -> Result<Tensor> {
        let hidden = self.linear(x, &format!("{layer}.mlp.c_fc"), Some(Function::GeluTanh))?;
        self.linear(&hidden, &format!("{layer}.mlp.c_proj"), None)
    }

    fn loss(&self, ids: &Ids, targets: &Ids) -> Result<Tensor> {
        let time = ids.shape()[1] as u32;
        let positions = Ids::new(&(0..time).collect::<Vec<_>>(), [time as usize])?;
        let tokens = self.parameter("wte.weight");
        let mut x = tokens.embedding(ids)?.add(&self.parameter("wpe.weight").embedding(&positions)?)?;
        for layer in (0..LAYERS).map(|layer| format!("h.{layer}")) {
            x = x.add(&self.attention(&self.norm(&x, &format!("{layer}.ln_1"))?, &layer)?)?;
            x = x.add(&self.feed_forward(&self.norm(&x, &format!("{layer}.ln_2"))?, &layer)?)?;
        }
        let logits = self.norm(&x, "ln_f")?.linear(tokens, None, Layout::OutIn, None)?;
        logits.cross_entropy(targets, CrossEntropy::default())
    }

    fn update(&mut self, optimiser: &mut Optimiser, gradients: &Gradients) -> Result<()> {
        let norm = global_norm(self.0.values().filter_map(|parameter| gradients.find(parameter)))?;
        let mut updates: Vec<Update> = self
            .0
            .values_mut()
            .map(|parameter| Update {
                gradient: gradients.find(parameter),
                decays: parameter.shape().rank() == 2,
                parameter,
            })
            .collect();
        optimiser.step(&mut updates, LEARNING_RATE, &clip_scale(&norm, 1.0)?)
    }
}

/// The inputs and, shifted by one position, the targets of a batch (B, T + 1).
fn split(batch: &[u32], time: usize) -> Result<(Ids, Ids)> {
    let shape = [batch.len() / (time + 1), time];
    let cut = |from: usize| -> Vec<u32> {
        batch.chunks(time + 1).flat_map(|row| &row[from..from + time]).copied().collect()
    };
    Ok((Ids::new(&cut(0), shape)?, Ids::new(&cut(1), shape)?))
}

#[test]
fn ten_losses() -> Result<()> {
    let golden = Golden::open("gpt");
    let mut gpt = Gpt::open(&golden);
    let method = Method::Adam { betas: (0.9, 0.95), epsilon: 1e-8, decoupled: true };
    let mut optimiser = Optimiser::new(method, 0.1);
    let ids = golden.ids("ids"); // (steps, B, T + 1)
    let [steps, batch, row] = ids.shape()[..] else { panic!("ids have three axes") };
    let expected = golden.tensor("losses").to_vec();
    assert_eq!(expected.len(), steps);
    for (step, (batch, expected)) in ids.values().chunks(batch * row).zip(expected).enumerate() {
        let (inputs, targets) = split(batch, row - 1)?;
        let loss = gpt.loss(&inputs, &targets)?;
        let value = loss.item()?;
        assert!((value - expected).abs() < 1e-4, "step {step}: got {value}, expected {expected}");
        gpt.update(&mut optimiser, &loss.backward()?)?;
    }
    Ok(())
}
