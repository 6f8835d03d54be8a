//! The block in every placement of its norms, against the same written out.

use crate::golden::agree;
use crate::numbers::{distance, normal};
use crate::zoo;
use regard_nn::attention::{AttentionConfig, MultiHead, Pattern, Rules};
use regard_nn::block::{Block, BlockConfig, BlockDraws, Placement};
use regard_nn::layers::{Activation, FeedForward, FeedForwardConfig, Norm, NormConfig};
use regard_nn::tensor::Tensor;
use regard_nn::tensor::ops::Layout;
use regard_nn::{Context, Draw, Initial, Module};
use std::collections::HashMap;
use std::sync::Arc;

const WIDTH: usize = 12;
const DRAW: (Draw, Draw) = (Draw::Constant(0.0), Draw::Constant(0.0));

fn config(placement: Placement, residual_scale: f32, cross: bool) -> BlockConfig {
    let attention = AttentionConfig { fused: false, ..AttentionConfig::new(WIDTH, 3) };
    BlockConfig {
        attention,
        cross: cross.then_some(attention),
        ffn: FeedForwardConfig {
            d_model: WIDTH,
            d_hidden: 20,
            activation: Activation::Gelu,
            gated: false,
            clamp: None,
            mixture: None,
            bias: true,
            layout: Layout::OutIn,
        },
        norm: NormConfig::layer(1e-5),
        placement,
        residual_scale,
        layer_scale: None,
        dropout: 0.0,
    }
}

/// A block with wide weights, and its parts by name.
struct Parts {
    block: Block,
    initial: Initial,
    config: BlockConfig,
    rules: Rules,
    memory: (Tensor, Rules),
}

impl Parts {
    fn new(config: &BlockConfig) -> Self {
        let draws = BlockDraws { inner: DRAW.0, residual: DRAW.1 };
        let mut block = Block::new(&Initial::new(0), config, draws).unwrap();
        zoo::widen(&mut block);
        let values: HashMap<String, Tensor> =
            block.parameters().into_iter().map(|(name, value)| (name, value.tensor().detach())).collect();
        let initial = Initial::read(Arc::new(move |name, _| Ok(values[name].clone())));
        let rules = Rules::new(Pattern::Causal, 5, 5).unwrap();
        let memory = (normal("memory", [2, 4, WIDTH]), Rules::new(Pattern::Full, 5, 4).unwrap());
        Self { block, initial, config: *config, rules, memory }
    }

    fn norm(&self, name: &str, x: &Tensor) -> Tensor {
        let norm = Norm::new(&self.initial.part(name), self.config.norm, [WIDTH]).unwrap();
        norm.forward(&Context::inference(), x).unwrap()
    }

    /// What the self-attention says of x, as large as it is added.
    fn attention(&self, x: &Tensor) -> Tensor {
        let heads = MultiHead::new(&self.initial.part("attention"), self.config.attention, DRAW).unwrap();
        heads.forward(&Context::inference(), x, None, &self.rules).unwrap()
    }

    fn cross(&self, x: &Tensor) -> Tensor {
        let heads = MultiHead::new(&self.initial.part("cross"), self.config.cross.unwrap(), DRAW).unwrap();
        heads.forward(&Context::inference(), x, Some(&self.memory.0), &self.memory.1).unwrap()
    }

    fn ffn(&self, x: &Tensor) -> Tensor {
        let ffn = FeedForward::new(&self.initial.part("ffn"), self.config.ffn, DRAW).unwrap();
        ffn.forward(&Context::inference(), x).unwrap()
    }

    fn plus(&self, x: &Tensor, output: &Tensor) -> Tensor {
        x.add(&output.scale(self.config.residual_scale).unwrap()).unwrap()
    }

    fn run(&self, x: &Tensor) -> Tensor {
        let memory = self.config.cross.map(|_| (&self.memory.0, &self.memory.1));
        self.block.forward(&Context::inference(), x, &self.rules, memory).unwrap()
    }

    fn by_hand(&self, x: &Tensor) -> Tensor {
        let [n1, n2] = ["attention_norm", "ffn_norm"];
        let [o1, o2] = ["attention_output_norm", "ffn_output_norm"];
        match self.config.placement {
            Placement::Pre => {
                let x = self.plus(x, &self.attention(&self.norm(n1, x)));
                self.plus(&x, &self.ffn(&self.norm(n2, &x)))
            }
            Placement::PreFeedForward => {
                let x = self.plus(x, &self.attention(x));
                self.plus(&x, &self.ffn(&self.norm(n2, &x)))
            }
            Placement::Post => {
                let x = self.norm(n1, &self.plus(x, &self.attention(x)));
                self.norm(n2, &self.plus(&x, &self.ffn(&x)))
            }
            Placement::Sandwich => {
                let x = self.plus(x, &self.norm(o1, &self.attention(&self.norm(n1, x))));
                self.plus(&x, &self.norm(o2, &self.ffn(&self.norm(n2, &x))))
            }
            Placement::Output => {
                let x = self.plus(x, &self.norm(o1, &self.attention(x)));
                self.plus(&x, &self.norm(o2, &self.ffn(&x)))
            }
            Placement::Parallel => {
                let attended = self.plus(x, &self.attention(&self.norm(n1, x)));
                self.plus(&attended, &self.ffn(&self.norm(n2, x)))
            }
            Placement::ParallelShared => {
                let attended = self.plus(x, &self.attention(&self.norm(n1, x)));
                self.plus(&attended, &self.ffn(&self.norm(n1, x)))
            }
        }
    }
}

/// Each placement with the norms it has.
const PLACEMENTS: [(Placement, &[&str]); 7] = [
    (Placement::Pre, &["attention_norm", "ffn_norm"]),
    (Placement::PreFeedForward, &["ffn_norm"]),
    (Placement::Post, &["attention_norm", "ffn_norm"]),
    (Placement::Sandwich, &["attention_norm", "attention_output_norm", "ffn_norm", "ffn_output_norm"]),
    (Placement::Output, &["attention_output_norm", "ffn_output_norm"]),
    (Placement::Parallel, &["attention_norm", "ffn_norm"]),
    (Placement::ParallelShared, &["attention_norm"]),
];

#[test]
fn norms_stand_where_the_formulas_have_them() {
    let x = normal("x", [2, 5, WIDTH]);
    let mut all = Vec::new();
    for (placement, norms) in PLACEMENTS {
        for scale in [1.0, 0.4] {
            let parts = Parts::new(&config(placement, scale, false));
            let output = parts.run(&x);
            agree(&format!("{placement:?} times {scale}"), &output, &parts.by_hand(&x), 2e-6);
            all.push(output);
            let mut names: Vec<String> = parts.block.parameters().into_iter().map(|(name, _)| name).collect();
            names.retain(|name| name.contains("norm") && name.ends_with(".weight"));
            assert_eq!(names, norms.iter().map(|norm| format!("{norm}.weight")).collect::<Vec<_>>());
        }
    }
    for (i, one) in all.iter().enumerate() {
        assert!(all[..i].iter().all(|other| distance(one, other) > 0.01), "no two of them are the same");
    }
}

#[test]
fn learned_scales_multiply_each_feature_of_what_is_added() {
    let x = normal("x", [2, 5, WIDTH]);
    let mut parts = Parts::new(&BlockConfig { layer_scale: Some(0.3), ..config(Placement::Pre, 1.0, false) });
    let first: Vec<_> = parts.block.parameters().into_iter().map(|(name, _)| name).collect();
    assert_eq!(first.iter().filter(|name| name.ends_with("_scale")).count(), 2);
    let scales = ["attention_scale", "ffn_scale"].map(|name| normal(name, [WIDTH]));
    for (name, parameter) in parts.block.parameters_mut() {
        match name.as_str() {
            "attention_scale" => parameter.tensor_mut().set_values(&scales[0].values()).unwrap(),
            "ffn_scale" => parameter.tensor_mut().set_values(&scales[1].values()).unwrap(),
            _ => {}
        }
    }
    let scaled = |output: Tensor, scale: &Tensor| output.multiply(scale).unwrap();
    let attended = x.add(&scaled(parts.attention(&parts.norm("attention_norm", &x)), &scales[0])).unwrap();
    let want = attended.add(&scaled(parts.ffn(&parts.norm("ffn_norm", &attended)), &scales[1])).unwrap();
    agree("layer scale", &parts.run(&x), &want, 2e-6);
    // At first they are what the configuration says.
    let block =
        Block::new(&Initial::new(0), &parts.config, BlockDraws { inner: DRAW.0, residual: DRAW.1 }).unwrap();
    let fresh = block.parameters();
    let fresh = fresh.iter().find(|(name, _)| name == "ffn_scale").unwrap().1;
    assert!(fresh.tensor().values().iter().all(|&value| value == 0.3));
}

#[test]
fn cross_attention_comes_between() {
    let x = normal("x", [2, 5, WIDTH]);
    let parts = Parts::new(&config(Placement::Pre, 1.0, true));
    let attended = parts.plus(&x, &parts.attention(&parts.norm("attention_norm", &x)));
    let answered = parts.plus(&attended, &parts.cross(&parts.norm("cross_norm", &attended)));
    let want = parts.plus(&answered, &parts.ffn(&parts.norm("ffn_norm", &answered)));
    agree("pre-norm", &parts.run(&x), &want, 2e-6);

    let parts = Parts::new(&config(Placement::Post, 1.0, true));
    let attended = parts.norm("attention_norm", &parts.plus(&x, &parts.attention(&x)));
    let answered = parts.norm("cross_norm", &parts.plus(&attended, &parts.cross(&attended)));
    let want = parts.norm("ffn_norm", &parts.plus(&answered, &parts.ffn(&answered)));
    agree("post-norm", &parts.run(&x), &want, 2e-6);
}
