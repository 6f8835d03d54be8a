//! From token ids or pictures to the first vectors of the residual stream.

use crate::context::Context;
use crate::error::{Error, Result};
use crate::layers::{Embedding, Linear, LinearConfig, Norm};
use crate::models::form::{Form, Input, Patches, Projection, Tokens};
use crate::models::inputs::Inputs;
use crate::models::sequence::Sequence;
use crate::models::stack::Stack;
use crate::parameter::{Draw, Initial, Parameter, module};
use regard_tensor::ops::{Layout, concatenate};
use regard_tensor::{Ids, Tensor};

/// The tables and projections that make vectors of what a transformer reads.
#[derive(Debug, Clone)]
pub(super) struct Embeddings {
    class: Option<Parameter>,
    distillation: Option<Parameter>,
    registers: Option<Parameter>,
    pub tokens: Option<Embedding>,
    types: Option<Embedding>,
    embedding_norm: Option<Norm>,
    projection: Option<Linear>,
    patches: Option<PatchEmbedding>,
}

module!(Embeddings { class, distillation, registers, tokens, types, embedding_norm, projection, patches });

/// The projection of patches, as a convolution has it: (width, channels, side, side).
#[derive(Debug, Clone)]
struct PatchEmbedding {
    weight: Parameter,
    bias: Option<Parameter>,
}

module!(PatchEmbedding { weight, bias });

impl Embeddings {
    pub fn new(form: &Form, initial: &Initial) -> Result<Self> {
        match &form.input {
            Input::Tokens(tokens) => Self::of_tokens(form, tokens, initial),
            Input::Patches(patches) => Self::of_patches(form, patches, initial),
        }
    }

    fn of_tokens(form: &Form, tokens: &Tokens, initial: &Initial) -> Result<Self> {
        let width = form.d_embedding();
        let d_positions = form.d_positions();
        let draw = Draw::Normal(form.deviations.embeddings);
        let table = |name: &str, size: (usize, usize)| Embedding::new(&initial.part(name), size, draw);
        let projection = |inputs: usize| {
            let bias = tokens.projection == Projection::AfterPositions;
            let config = LinearConfig { bias, ..LinearConfig::new(inputs, form.d_model) };
            Linear::new(&initial.part("projection"), config, Draw::Normal(form.deviations.inner))
        };
        let norm = |norm| Norm::new(&initial.part("embedding_norm"), norm, [d_positions]);
        Ok(Self {
            class: None,
            distillation: None,
            registers: None,
            tokens: Some(table("tokens", (tokens.vocabulary, width))?),
            types: (tokens.types > 0).then(|| table("types", (tokens.types, d_positions))).transpose()?,
            embedding_norm: tokens.norm.map(norm).transpose()?,
            projection: tokens.d_embedding.map(projection).transpose()?,
            patches: None,
        })
    }

    fn of_patches(form: &Form, patches: &Patches, initial: &Initial) -> Result<Self> {
        let (d_model, Patches { size, channels, bias, .. }) = (form.d_model, *patches);
        let draw = Draw::Normal(form.deviations.embeddings);
        let inner = Draw::Normal(form.deviations.inner);
        let learned = |name: &str, count: usize| {
            (count > 0).then(|| initial.parameter(name, [1, count, d_model], draw)).transpose()
        };
        Ok(Self {
            class: learned("class", usize::from(patches.class))?,
            distillation: learned("distillation", usize::from(patches.distillation))?,
            registers: learned("registers", patches.registers)?,
            tokens: None,
            types: None,
            embedding_norm: None,
            projection: None,
            patches: Some(PatchEmbedding {
                weight: initial.parameter("patches.weight", [d_model, channels, size, size], inner)?,
                bias: bias
                    .then(|| initial.parameter("patches.bias", [d_model], Draw::Constant(0.0)))
                    .transpose()?,
            }),
        })
    }

    /// Embeddings of tokens (batch, time, width), with positions and types.
    pub fn embed(
        &self,
        context: &Context,
        (form, stack): (&Form, &Stack),
        (ids, types): (&Ids, Option<&Ids>),
        sequence: &Sequence,
    ) -> Result<Tensor> {
        let (Some(tokens), Input::Tokens(form)) = (&self.tokens, &form.input) else {
            return Err(Error::input("transformer", "this model reads pictures, not text"));
        };
        let x = tokens.forward(context, ids)?;
        let x = if form.scale == 1.0 { x } else { x.scale(form.scale)? };
        let first = form.projection == Projection::BeforePositions;
        let x = self.projected(context, x, first)?;
        let mut x = stack.add_positions(context, x, Some(ids), &sequence.positions)?;
        if let Some(types) = types.filter(|types| types.shape() != ids.shape()) {
            let problem = format!("types must be {} as the ids are, got {}", ids.shape(), types.shape());
            return Err(Error::input("transformer", problem));
        }
        if let Some(table) = &self.types {
            let zero = Ids::new(&[0], [1, 1])?;
            x = x.add(&table.forward(context, types.unwrap_or(&zero))?)?;
        }
        if let Some(norm) = &self.embedding_norm {
            x = norm.forward(context, &x)?;
        }
        self.projected(context, x, !first)
    }

    /// Embeddings in the width of the model, if it is the time for that.
    fn projected(&self, context: &Context, x: Tensor, now: bool) -> Result<Tensor> {
        match &self.projection {
            Some(projection) if now => projection.forward(context, &x),
            _ => Ok(x),
        }
    }

    /// Embeddings of pictures: learned tokens, then the patches row by row.
    pub fn embed_pictures(
        &self,
        context: &Context,
        (form, stack): (&Form, &Stack),
        inputs: &Inputs,
    ) -> Result<(Tensor, Sequence)> {
        let (Some(patches), Input::Patches(sizes), Some(pictures)) =
            (&self.patches, &form.input, &inputs.pictures)
        else {
            return Err(Error::input("transformer", "this model reads pictures, not text"));
        };
        let Patches { image: [height, width], size, channels, .. } = *sizes;
        let (d_model, shape) = (form.d_model, pictures.shape());
        if shape.rank() != 4 || shape[1..] != [channels, height, width] || shape[0] == 0 {
            let problem = format!("pictures must be (batch, {channels}, {height}, {width}), got {shape}");
            return Err(Error::input("transformer", problem));
        }
        let weight = context.parameter(&patches.weight).reshape([d_model, channels * size * size])?;
        let bias = patches.bias.as_ref().map(|bias| context.parameter(bias));
        let pictures = context.activations(&pictures.to(weight.device())?)?;
        let x = pictures.patches(size)?.linear(&weight, bias.as_ref(), Layout::OutIn, None)?; // (B, N, C)
        let learned = |tokens: &Option<Parameter>| -> Result<Option<Tensor>> {
            let Some(tokens) = tokens else { return Ok(None) };
            let tokens = context.parameter(tokens);
            let zeros = Tensor::full_on(x.device(), [shape[0], tokens.shape()[1], d_model], 0.0)?;
            context.activations(&zeros.add(&tokens)?).map(Some)
        };
        let before = [learned(&self.class)?, learned(&self.distillation)?];
        let all: Vec<&Tensor> = before.iter().flatten().chain([&x]).collect();
        let x = concatenate(&all, 1)?; // (B, 1 + N, C)
        let placed = Sequence::plain(shape[0], x.shape()[1])?;
        let x = stack.add_positions(context, x, None, &placed.positions)?;
        let Some(registers) = learned(&self.registers)? else { return Ok((x, placed)) };
        // Registers have no positions.
        let rest = x.shape()[1] - 1;
        let x = concatenate(&[&x.slice(1, 0, 1)?, &registers, &x.slice(1, 1, rest)?], 1)?;
        let sequence = Sequence::plain(shape[0], x.shape()[1])?;
        Ok((x, sequence))
    }
}
