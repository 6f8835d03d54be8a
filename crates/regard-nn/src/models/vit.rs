//! ViT: a transformer that reads an image as a text of patches (Dosovitskiy et al., 2020).
//!
//! ```text
//! x = [class; patches·W] + positions
//! x = x + attention(norm(x));  x = x + ffn(norm(x))        for each layer
//! logits = norm(x)[class]·W
//! ```

use super::sizes::{ensure_deviation, ensure_dropout, ensure_epsilon, ensure_sizes};
use crate::attention::{AttentionConfig, MultiHead, Pattern, Rules};
use crate::block::{BlockConfig, BlockDraws, NormPlacement, Stack};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::layers::{Activation, FeedForwardConfig, Linear, LinearConfig, Norm, NormKind};
use crate::parameter::{Draw, Initial, Parameter, module};
use regard_tensor::ops::{CrossEntropy, Layout, concatenate};
use regard_tensor::{Ids, Tensor};
use serde::{Deserialize, Serialize};

/// The sizes and the form of a ViT.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VitConfig {
    /// The height and width of an image in pixels.
    pub image: [usize; 2],
    /// The side of a patch in pixels.
    pub patch: usize,
    /// The number of colours.
    pub channels: usize,
    /// The number of classes; 0 for none, if only vectors are wanted.
    pub classes: usize,
    /// The number of layers.
    pub n_layers: usize,
    /// The number of heads in each.
    pub n_heads: usize,
    /// The width of its vectors.
    pub d_model: usize,
    /// The width inside the feed-forward layers.
    pub d_hidden: usize,
    /// The function in them.
    pub activation: Activation,
    /// Whether something is added in the projections of attention.
    pub attention_bias: bool,
    /// ε of the layer norms.
    pub norm_epsilon: f32,
    /// The deviation of initial weights.
    pub deviation: f32,
    /// The share of values that training drops.
    pub dropout: f32,
    /// Whether training drops each layer's values and computes them again in the backward pass.
    pub checkpointing: bool,
}

impl Default for VitConfig {
    /// Small enough for hand-written digits.
    fn default() -> Self {
        Self {
            image: [28, 28],
            patch: 4,
            channels: 1,
            classes: 10,
            n_layers: 4,
            n_heads: 4,
            d_model: 64,
            d_hidden: 256,
            activation: Activation::Gelu,
            attention_bias: true,
            norm_epsilon: 1e-12,
            deviation: 0.02,
            dropout: 0.0,
            checkpointing: false,
        }
    }
}

/// A ViT.
#[derive(Debug, Clone)]
pub struct Vit {
    class: Parameter,
    positions: Parameter,
    patches: Patches,
    layers: Stack,
    norm: Norm,
    classifier: Option<Linear>,
    config: VitConfig,
}

module!(Vit { class, positions, patches, layers, norm, classifier });

/// The projection of patches, as a convolution has it: (width, channels, side, side).
#[derive(Debug, Clone)]
struct Patches {
    weight: Parameter,
    bias: Parameter,
}

module!(Patches { weight, bias });

impl Vit {
    /// A ViT with random weights.
    pub fn new(config: VitConfig, seed: u64) -> Result<Self> {
        Self::build(config, &Initial::new(seed))
    }

    /// A ViT with weights from a source.
    pub fn build(config: VitConfig, initial: &Initial) -> Result<Self> {
        let VitConfig { image: [height, width], patch, channels, classes, d_model, .. } = config;
        let image = [("height", height), ("width", width), ("patch", patch), ("channels", channels)];
        let others = [("d_model", d_model), ("d_hidden", config.d_hidden), ("n_heads", config.n_heads)];
        ensure_sizes("vit", &[&image[..], &others, &[("classes", classes.max(1))]].concat())?;
        ensure_dropout("vit", config.dropout)?;
        ensure_epsilon("vit", config.norm_epsilon)?;
        ensure_deviation("vit", config.deviation)?;
        if !height.is_multiple_of(patch) || !width.is_multiple_of(patch) {
            let problem = format!("an image of {height}×{width} is not made of patches of {patch}×{patch}");
            return Err(Error::configuration("vit", problem));
        }
        let count = (height / patch) * (width / patch);
        let draw = Draw::Normal(config.deviation);
        let draws = BlockDraws { inner: draw, residual: draw };
        let block = config.block();
        let classifier = match classes {
            0 => None,
            _ => Some(Linear::new(&initial.part("classifier"), LinearConfig::new(d_model, classes), draw)?),
        };
        Ok(Self {
            class: initial.parameter("class", [1, 1, d_model], draw)?,
            positions: initial.parameter("positions", [1, count + 1, d_model], draw)?,
            patches: Patches {
                weight: initial.parameter("patches.weight", [d_model, channels, patch, patch], draw)?,
                bias: initial.parameter("patches.bias", [d_model], Draw::Constant(0.0))?,
            },
            layers: Stack::new(
                &initial.part("layers"),
                config.n_layers,
                |_| block,
                draws,
                config.checkpointing,
            )?,
            norm: Norm::new(&initial.part("norm"), NormKind::Layer, d_model, config.norm_epsilon)?,
            classifier,
            config,
        })
    }

    /// Each attention with its place, such as `layers.0.self`.
    pub fn attentions(&self) -> Vec<(String, &MultiHead)> {
        self.layers.attentions()
    }

    /// What it was built from.
    pub fn config(&self) -> &VitConfig {
        &self.config
    }

    /// The vectors of the class token and of every patch, (batch, 1 + patches, width), of images (batch, channels,
    /// height, width).
    pub fn encode(&self, context: &Context, images: &Tensor) -> Result<Tensor> {
        let VitConfig { image: [height, width], patch, channels, d_model, .. } = self.config;
        if images.shape().rank() != 4 || images.shape()[1..] != [channels, height, width] {
            let problem =
                format!("images must be (batch, {channels}, {height}, {width}), got {}", images.shape());
            return Err(Error::input("vit", problem));
        }
        let context = &context.without_cache();
        let batch = images.shape()[0];
        if batch == 0 {
            return Err(Error::input("vit", "there is nothing to look at: images are 0"));
        }
        let weight = context.parameter(&self.patches.weight).reshape([d_model, channels * patch * patch])?;
        let bias = context.parameter(&self.patches.bias);
        let patches = images.patches(patch)?.linear(&weight, Some(&bias), Layout::OutIn, None)?; // (B, N, C)
        let class = Tensor::zeros([batch, 1, d_model]).add(&context.parameter(&self.class))?;
        let x = concatenate(&[&class, &patches], 1)?.add(&context.parameter(&self.positions))?; // (B, 1 + N, C)
        let x = context.see("embeddings", context.drop_out("embeddings", self.config.dropout, x)?)?;
        let time = x.shape()[1];
        let rules = Rules::new(Pattern::Full, time, time)?;
        let x = self.layers.forward(context, x, &rules, None)?;
        self.norm.forward(context, &x)
    }

    /// Scores of the classes of each image, (batch, classes).
    pub fn forward(&self, context: &Context, images: &Tensor) -> Result<Tensor> {
        let Some(classifier) = &self.classifier else {
            return Err(Error::configuration("vit", "this model has no classifier"));
        };
        let class = self.encode(context, images)?.select(1, 0)?;
        context.see("logits", classifier.forward(context, &class)?)
    }

    /// The mean cross-entropy of the images' classes (batch).
    pub fn loss(&self, context: &Context, images: &Tensor, targets: &Ids) -> Result<Tensor> {
        Ok(self.forward(context, images)?.cross_entropy(targets, CrossEntropy::default())?)
    }
}

impl VitConfig {
    fn block(&self) -> BlockConfig {
        BlockConfig {
            attention: AttentionConfig {
                fused: false,
                bias: self.attention_bias,
                dropout: self.dropout,
                ..AttentionConfig::new(self.d_model, self.n_heads)
            },
            cross: None,
            ffn: FeedForwardConfig {
                d_model: self.d_model,
                d_hidden: self.d_hidden,
                activation: self.activation,
                gated: false,
                bias: true,
                layout: Layout::OutIn,
            },
            norm: NormKind::Layer,
            epsilon: self.norm_epsilon,
            placement: NormPlacement::Pre,
            dropout: self.dropout,
        }
    }
}
