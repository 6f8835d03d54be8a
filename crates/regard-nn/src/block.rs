//! The transformer's block: attention, then a feed-forward layer, each added to the stream it reads.
//!
//! ```text
//! before the layers (pre-norm)     x = x + attention(norm(x));   x = x + ffn(norm(x))
//! after the sum (post-norm)        x = norm(x + attention(x));   x = norm(x + ffn(x))
//! ```

use crate::attention::{AttentionConfig, MultiHead, Rules};
use crate::context::Context;
use crate::error::Result;
use crate::layers::{FeedForward, FeedForwardConfig, Norm, NormKind};
use crate::parameter::{Draw, Initial, Module, Parameter, module};
use regard_tensor::Tensor;
use serde::{Deserialize, Serialize};

/// Where the norms stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NormPlacement {
    /// Before each layer (Xiong et al., 2020): the stream itself is never normed.
    #[default]
    Pre,
    /// After each sum, as the first transformer had it.
    Post,
}

/// The form of a block.
#[derive(Debug, Clone, Copy)]
pub struct BlockConfig {
    /// The self-attention.
    pub attention: AttentionConfig,
    /// The attention to an encoder's output, if there is any.
    pub cross: Option<AttentionConfig>,
    /// The feed-forward layer.
    pub ffn: FeedForwardConfig,
    /// The kind of norm.
    pub norm: NormKind,
    /// What keeps the norms from dividing by 0.
    pub epsilon: f32,
    /// Where the norms stand.
    pub placement: NormPlacement,
    /// The share of each layer's output that training drops.
    pub dropout: f32,
}

/// How a block's weights are drawn.
#[derive(Debug, Clone, Copy)]
pub struct BlockDraws {
    /// Of layers that read the stream.
    pub inner: Draw,
    /// Of layers that write to it.
    pub residual: Draw,
}

/// One layer of a transformer.
#[derive(Debug, Clone)]
pub struct Block {
    attention_norm: Norm,
    attention: MultiHead,
    cross_norm: Option<Norm>,
    cross: Option<MultiHead>,
    ffn_norm: Norm,
    ffn: FeedForward,
    placement: NormPlacement,
    dropout: f32,
}

module!(Block { attention_norm, attention, cross_norm, cross, ffn_norm, ffn });

impl Block {
    /// A block with drawn weights.
    pub fn new(initial: &Initial, config: &BlockConfig, draws: BlockDraws) -> Result<Self> {
        let norm = |name: &str| {
            Norm::new(&initial.part(name), config.norm, config.attention.d_model, config.epsilon)
        };
        let pair = (draws.inner, draws.residual);
        let (cross_norm, cross) = match config.cross {
            Some(cross) => {
                (Some(norm("cross_norm")?), Some(MultiHead::new(&initial.part("cross"), cross, pair)?))
            }
            None => (None, None),
        };
        Ok(Self {
            attention_norm: norm("attention_norm")?,
            attention: MultiHead::new(&initial.part("attention"), config.attention, pair)?,
            cross_norm,
            cross,
            ffn_norm: norm("ffn_norm")?,
            ffn: FeedForward::new(&initial.part("ffn"), config.ffn, pair)?,
            placement: config.placement,
            dropout: config.dropout,
        })
    }

    /// The stream (batch, time, width) after this block; `memory` is what cross-attention reads, with its rules.
    pub fn forward(
        &self,
        context: &Context,
        x: &Tensor,
        rules: &Rules,
        memory: Option<(&Tensor, &Rules)>,
    ) -> Result<Tensor> {
        context.check()?;
        let x = context.see("residual.before", x.clone())?;
        let mut x = self.add(context, "self", &self.attention_norm, &x, |context, x| {
            self.attention.forward(context, x, None, rules)
        })?;
        if let (Some(cross), Some(norm), Some((memory, rules))) = (&self.cross, &self.cross_norm, memory) {
            x = self.add(context, "cross", norm, &x, |context, x| {
                cross.forward(context, x, Some(memory), rules)
            })?;
        }
        let x = context.see("residual.middle", x)?;
        let x = self.add(context, "ffn", &self.ffn_norm, &x, |context, x| self.ffn.forward(context, x))?;
        context.see("residual.after", x)
    }

    /// The stream with what a layer says added to it, and the norm on one side or the other.
    fn add(
        &self,
        context: &Context,
        name: &str,
        norm: &Norm,
        x: &Tensor,
        layer: impl FnOnce(&Context, &Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let here = context.within(name);
        match self.placement {
            NormPlacement::Pre => {
                let said = layer(&here, &norm.forward(context, x)?)?;
                Ok(x.add(&here.drop_out("output", self.dropout, said)?)?)
            }
            NormPlacement::Post => {
                let said = layer(&here, x)?;
                norm.forward(context, &x.add(&here.drop_out("output", self.dropout, said)?)?)
            }
        }
    }
}

/// The layers of a transformer, one after the other.
#[derive(Debug, Clone)]
pub struct Stack {
    layers: Vec<Block>,
    checkpointing: bool,
}

impl Module for Stack {
    fn visit<'a>(&'a self, path: &str, f: &mut dyn FnMut(String, &'a Parameter)) {
        self.layers.visit(path, f);
    }

    fn visit_mut<'a>(&'a mut self, path: &str, f: &mut dyn FnMut(String, &'a mut Parameter)) {
        self.layers.visit_mut(path, f);
    }
}

impl Stack {
    /// `count` blocks, each of the form that `config` gives for its number.
    pub fn new(
        initial: &Initial,
        count: usize,
        config: impl Fn(usize) -> BlockConfig,
        draws: BlockDraws,
        checkpointing: bool,
    ) -> Result<Self> {
        let layers = (0..count).map(|i| Block::new(&initial.part(i), &config(i), draws));
        Ok(Self { layers: layers.collect::<Result<_>>()?, checkpointing })
    }

    /// Each attention with its place, such as `layers.0.self`, in the order in which they attend.
    pub fn attentions(&self) -> Vec<(String, &MultiHead)> {
        let mut all = Vec::new();
        for (i, block) in self.layers.iter().enumerate() {
            all.push((format!("layers.{i}.self"), &block.attention));
            all.extend(block.cross.as_ref().map(|cross| (format!("layers.{i}.cross"), cross)));
        }
        all
    }

    /// The stream after all layers. With checkpointing, training keeps only what passes between them.
    pub fn forward(
        &self,
        context: &Context,
        mut x: Tensor,
        rules: &Rules,
        memory: Option<(&Tensor, &Rules)>,
    ) -> Result<Tensor> {
        for (i, layer) in self.layers.iter().enumerate() {
            let here = context.within("layers").within(i);
            if !self.checkpointing {
                x = layer.forward(&here, &x, rules, memory)?;
                continue;
            }
            let (layer, rules, cross) =
                (layer.clone(), rules.clone(), memory.map(|(_, rules)| rules.clone()));
            let inputs: Vec<&Tensor> = [&x].into_iter().chain(memory.map(|(memory, _)| memory)).collect();
            x = here.checkpoint(&inputs, move |here, inputs| {
                layer.forward(here, &inputs[0], &rules, inputs.get(1).zip(cross.as_ref()))
            })?;
        }
        Ok(x)
    }
}
