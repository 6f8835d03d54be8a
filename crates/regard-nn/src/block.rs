//! The transformer's block: attention, then a feed-forward layer, each added to the residual stream.
//!
//! ```text
//! pre-norm       x = x + attention(norm(x));         x = x + ffn(norm(x))
//! post-norm      x = norm(x + attention(x));         x = norm(x + ffn(x))
//! sandwich       x = x + norm(attention(norm(x)));   x = x + norm(ffn(norm(x)))
//! output norm    x = x + norm(attention(x));         x = x + norm(ffn(x))
//! pre-ffn        x = x + attention(x);               x = x + ffn(norm(x))
//! parallel       x = x + attention(norm(x)) + ffn(norm(x))
//! ```

use crate::attention::{AttentionConfig, MultiHead, Rules};
use crate::context::Context;
use crate::error::Result;
use crate::layers::{AnyFeedForward, FeedForwardConfig, Norm, NormConfig};
use crate::parameter::{Draw, Initial, Parameter, module};
use regard_tensor::Tensor;
use serde::{Deserialize, Serialize};

/// Where the norms stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Before each sublayer (Xiong et al., 2020): the residual stream itself is never normed.
    #[default]
    Pre,
    /// After each sum, as in the first transformer.
    Post,
    /// Before each sublayer and on its output (Gemma 2).
    Sandwich,
    /// On each sublayer's output only (OLMo 2).
    Output,
    /// Before the feed-forward layer only: attention reads the stream as it is (the first layer of ModernBERT, whose
    /// embeddings are normed).
    PreFeedForward,
    /// Attention and feed-forward layer read the residual stream side by side, each through a norm of its own (GPT-NeoX).
    Parallel,
    /// The same through one shared norm (GPT-J, Cohere).
    ParallelShared,
}

impl Placement {
    /// Whether a sublayer's input is normed.
    fn norms_input(self) -> bool {
        matches!(
            self,
            Self::Pre | Self::PreFeedForward | Self::Sandwich | Self::Parallel | Self::ParallelShared
        )
    }

    /// Whether a sublayer's output is normed before it is added.
    fn norms_output(self) -> bool {
        matches!(self, Self::Sandwich | Self::Output)
    }

    /// Whether the residual stream is the sum of the embeddings and of what every sublayer adds.
    pub fn is_plain_sum(self) -> bool {
        matches!(self, Self::Pre | Self::PreFeedForward | Self::Parallel | Self::ParallelShared)
    }

    /// Whether both sublayers read the same vectors.
    pub fn is_parallel(self) -> bool {
        matches!(self, Self::Parallel | Self::ParallelShared)
    }
}

/// What a block is built from.
#[derive(Debug, Clone, Copy)]
pub struct BlockConfig {
    /// The self-attention.
    pub attention: AttentionConfig,
    /// The attention to an encoder's output, if there is any.
    pub cross: Option<AttentionConfig>,
    /// The feed-forward layer.
    pub ffn: FeedForwardConfig,
    /// The norms.
    pub norm: NormConfig,
    /// Where they stand.
    pub placement: Placement,
    /// What each sublayer's output is multiplied with before it is added.
    pub residual_scale: f32,
    /// What each feature of a sublayer's output is multiplied with: learned, this at first.
    pub layer_scale: Option<f32>,
    /// The share of each sublayer's output that training drops.
    pub dropout: f32,
}

/// How a block's weights are drawn.
#[derive(Debug, Clone, Copy)]
pub struct BlockDraws {
    /// Of projections that read the residual stream.
    pub inner: Draw,
    /// Of projections that write to it.
    pub residual: Draw,
}

/// One layer of a transformer.
#[derive(Debug, Clone)]
pub struct Block {
    attention_norm: Option<Norm>,
    attention: MultiHead,
    attention_output_norm: Option<Norm>,
    cross_norm: Option<Norm>,
    cross: Option<MultiHead>,
    cross_output_norm: Option<Norm>,
    ffn_norm: Option<Norm>,
    ffn: AnyFeedForward,
    ffn_output_norm: Option<Norm>,
    attention_scale: Option<Parameter>,
    cross_scale: Option<Parameter>,
    ffn_scale: Option<Parameter>,
    config: BlockConfig,
}

module!(Block {
    attention_norm,
    attention,
    attention_output_norm,
    cross_norm,
    cross,
    cross_output_norm,
    ffn_norm,
    ffn,
    ffn_output_norm,
    attention_scale,
    cross_scale,
    ffn_scale,
});

/// A sublayer's name, the norms before and after it, and the norm of the sublayer that follows.
struct Around<'a> {
    name: &'a str,
    norm: Option<&'a Norm>,
    output_norm: Option<&'a Norm>,
    scale: Option<&'a Parameter>,
    next: Option<&'a Norm>,
}

/// The residual stream, and its norm for the next sublayer where both were computed in one pass.
#[derive(Clone)]
pub(crate) struct Stream {
    pub x: Tensor,
    pub normed: Option<Tensor>,
}

impl Block {
    /// A block with drawn weights.
    pub fn new(initial: &Initial, config: &BlockConfig, draws: BlockDraws) -> Result<Self> {
        let norm = |name: &str, wanted: bool| match wanted {
            true => Norm::new(&initial.part(name), config.norm, [config.attention.d_model]).map(Some),
            false => Ok(None),
        };
        let width = config.attention.d_model;
        let scale = |name: &str| {
            let first = config.layer_scale.map(Draw::Constant);
            first.map(|first| initial.parameter(name, [width], first)).transpose()
        };
        let crosses = config.cross.is_some();
        let (pair, placement) = ((draws.inner, draws.residual), config.placement);
        let before = placement.norms_input() || placement == Placement::Post;
        let cross = match config.cross {
            Some(cross) => Some(MultiHead::new(&initial.part("cross"), cross, pair)?),
            None => None,
        };
        Ok(Self {
            attention_norm: norm("attention_norm", before && placement != Placement::PreFeedForward)?,
            attention: MultiHead::new(&initial.part("attention"), config.attention, pair)?,
            attention_output_norm: norm("attention_output_norm", placement.norms_output())?,
            cross_norm: norm("cross_norm", before && cross.is_some())?,
            cross_output_norm: norm("cross_output_norm", placement.norms_output() && cross.is_some())?,
            cross,
            ffn_norm: norm("ffn_norm", before && placement != Placement::ParallelShared)?,
            ffn: AnyFeedForward::new(&initial.part("ffn"), config.ffn, pair)?,
            ffn_output_norm: norm("ffn_output_norm", placement.norms_output())?,
            attention_scale: scale("attention_scale")?,
            cross_scale: if crosses { scale("cross_scale")? } else { None },
            ffn_scale: scale("ffn_scale")?,
            config: *config,
        })
    }

    /// The self-attention.
    pub fn attention(&self) -> &MultiHead {
        &self.attention
    }

    /// The attention to an encoder's output.
    pub fn cross(&self) -> Option<&MultiHead> {
        self.cross.as_ref()
    }

    /// The norm of what this block reads first.
    pub(crate) fn first_norm(&self) -> Option<&Norm> {
        self.attention_norm.as_ref().filter(|_| self.config.placement.norms_input())
    }

    /// The residual stream (batch, time, width) after this block; `memory` is what cross-attention reads, with its rules.
    pub fn forward(
        &self,
        context: &Context,
        x: &Tensor,
        rules: &Rules,
        memory: Option<(&Tensor, &Rules)>,
    ) -> Result<Tensor> {
        let stream = Stream { x: x.clone(), normed: None };
        Ok(self.forward_then(context, stream, (rules, memory), None)?.x)
    }

    /// The same, with the norm `next` of what comes out, if one follows. A probe may change the stream in between: what it
    /// watches is computed part by part.
    pub(crate) fn forward_then(
        &self,
        context: &Context,
        stream: Stream,
        (rules, memory): (&Rules, Option<(&Tensor, &Rules)>),
        next: Option<&Norm>,
    ) -> Result<Stream> {
        context.check()?;
        let placement = self.config.placement;
        let watched = context.probe().is_some();
        let x = context.see("residual.before", stream.x)?;
        let shared = placement == Placement::ParallelShared;
        let ffn_norm = if shared { self.attention_norm.as_ref() } else { self.ffn_norm.as_ref() };
        let cross = self.cross.as_ref().zip(memory);
        let serial = placement.norms_input() && !placement.is_parallel();
        let before_ffn = ffn_norm.filter(|_| serial && !watched);
        let before_cross = self.cross_norm.as_ref().filter(|_| serial && !watched);
        let attention = Around {
            name: "self",
            norm: self.attention_norm.as_ref(),
            output_norm: self.attention_output_norm.as_ref(),
            scale: self.attention_scale.as_ref(),
            next: if cross.is_some() { before_cross } else { before_ffn },
        };
        let attend = |here: &Context, x: &Tensor| self.attention.forward(here, x, None, rules);
        let normed = stream.normed.filter(|_| !watched);
        let mut middle = self.add(context, &attention, &x, Stream { x: x.clone(), normed }, attend)?;
        if let Some((cross, (memory, rules))) = cross {
            let (norm, output_norm) = (self.cross_norm.as_ref(), self.cross_output_norm.as_ref());
            let around = Around {
                name: "cross",
                norm,
                output_norm,
                scale: self.cross_scale.as_ref(),
                next: before_ffn,
            };
            let attend = |here: &Context, x: &Tensor| cross.forward(here, x, Some(memory), rules);
            middle = self.add(context, &around, &middle.x, middle.clone(), attend)?;
        }
        middle.x = context.see("residual.middle", middle.x)?;
        let next = next.filter(|_| !watched);
        let output_norm = self.ffn_output_norm.as_ref();
        let scale = self.ffn_scale.as_ref();
        let ffn = Around { name: "ffn", norm: ffn_norm, output_norm, scale, next };
        let read = if placement.is_parallel() { Stream { x, normed: None } } else { middle.clone() };
        let mut after = self.add(context, &ffn, &middle.x, read, |here, x| self.ffn.forward(here, x))?;
        after.x = context.see("residual.after", after.x)?;
        Ok(after)
    }

    /// The stream with a sublayer's output added, computed from `read` (the stream itself, but for parallel blocks).
    fn add(
        &self,
        context: &Context,
        around: &Around,
        stream: &Tensor,
        read: Stream,
        sublayer: impl FnOnce(&Context, &Tensor) -> Result<Tensor>,
    ) -> Result<Stream> {
        let here = context.within(around.name);
        let normed = |norm: Option<&Norm>, x: Tensor| match norm {
            Some(norm) => norm.forward(context, &x),
            None => Ok(x),
        };
        let post = self.config.placement == Placement::Post;
        let input = match read.normed {
            Some(normed) => normed,
            None => normed(around.norm.filter(|_| !post), read.x)?,
        };
        let output = normed(around.output_norm, sublayer(&here, &input)?)?;
        let output = match around.scale {
            Some(scale) => output.multiply(&context.parameter(scale))?,
            None => output,
        };
        let output = here.drop_out("output", self.config.dropout, output)?;
        let output = if self.config.residual_scale == 1.0 {
            output
        } else {
            output.scale(self.config.residual_scale)?
        };
        match (around.norm.filter(|_| post), around.next) {
            (Some(norm), _) => {
                let (_, x) = norm.forward_sum(context, stream, &output)?;
                Ok(Stream { x, normed: None })
            }
            (None, Some(next)) => {
                let (x, normed) = next.forward_sum(context, stream, &output)?;
                Ok(Stream { x, normed: Some(normed) })
            }
            (None, None) => Ok(Stream { x: stream.add(&output)?, normed: None }),
        }
    }
}
