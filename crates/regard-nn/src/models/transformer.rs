//! The transformer: one forward pass for every [`Form`].
//!
//! ```text
//! x = token (or patch) embedding + positions + types, normed        embed
//! x = x + attention(norm(x));  x = x + ffn(norm(x))                  each layer, see block.rs
//! hidden = norm(x)                                                   hidden
//! logits = hidden · tableᵀ                                           scores
//! ```

use super::form::{self, Form, Input, Patches};
use super::inputs::Inputs;
use super::model::{Abilities, AttentionSite, Model, Part, Unembedding, written};
use super::sequence::Sequence;
use super::stack::Stack;
use crate::attention::{Pattern, Rules};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::layers::{Embedding, Linear, LinearConfig, Norm};
use crate::parameter::{Draw, Initial, Module, Parameter, join, module};
use regard_tensor::ops::{CrossEntropy, Layout, concatenate};
use regard_tensor::{Ids, Mask, Tensor};
use serde_json::Value;

/// A transformer of any form.
#[derive(Debug, Clone)]
pub struct Transformer {
    class: Option<Parameter>,
    tokens: Option<Embedding>,
    types: Option<Embedding>,
    projection: Option<Linear>,
    embedding_norm: Option<Norm>,
    patches: Option<PatchEmbedding>,
    encoder: Option<Stack>,
    decoder: Option<Stack>,
    head: Option<Embedding>,
    pooler: Option<Linear>,
    token_head: TokenHead,
    classifier: Option<Linear>,
    form: Form,
}

/// The projection of patches, as a convolution has it: (width, channels, side, side).
#[derive(Debug, Clone)]
struct PatchEmbedding {
    weight: Parameter,
    bias: Parameter,
}

module!(PatchEmbedding { weight, bias });

/// What stands between hidden states and the table that scores tokens.
#[derive(Debug, Clone)]
struct TokenHead {
    transform: Option<Linear>,
    norm: Option<Norm>,
    bias: Option<Parameter>,
}

module!(TokenHead { transform, norm, bias });

impl Transformer {
    /// A transformer with random weights.
    pub fn new(form: Form, seed: u64) -> Result<Self> {
        let initial = Initial::new(seed).drawn_as(drawn_names(&form));
        Self::build(form, &initial)
    }

    /// A transformer with weights from a source.
    pub fn build(form: Form, initial: &Initial) -> Result<Self> {
        form.check()?;
        let d_model = form.d_model;
        let inner = Draw::Normal(form.deviations.inner);
        let embedding = Draw::Normal(form.deviations.embeddings);
        let linear = |name: &str, outputs: usize| {
            Linear::new(&initial.part(name), LinearConfig::new(d_model, outputs), inner)
        };
        let table = |name: &str, rows: usize, width: usize, draw| {
            Embedding::new(&initial.part(name), (rows, width), draw)
        };
        let (mut class, mut tokens, mut types, mut projection) = (None, None, None, None);
        let (mut embedding_norm, mut patches) = (None, None);
        match &form.input {
            Input::Tokens(form) => {
                let width = form.d_embedding.unwrap_or(d_model);
                tokens = Some(table("tokens", form.vocabulary, width, embedding)?);
                if form.types > 0 {
                    types = Some(table("types", form.types, width, embedding)?);
                }
                if let Some(inputs) = form.d_embedding {
                    let config = LinearConfig::new(inputs, d_model);
                    projection = Some(Linear::new(&initial.part("projection"), config, inner)?);
                }
                if let Some(norm) = form.norm {
                    embedding_norm = Some(Norm::new(&initial.part("embedding_norm"), norm, width)?);
                }
            }
            Input::Patches(Patches { size, channels, .. }) => {
                class = Some(initial.parameter("class", [1, 1, d_model], embedding)?);
                patches = Some(PatchEmbedding {
                    weight: initial.parameter("patches.weight", [d_model, *channels, *size, *size], inner)?,
                    bias: initial.parameter("patches.bias", [d_model], Draw::Constant(0.0))?,
                });
            }
        }
        let stack = |name: &str, stack: &Option<form::Stack>, causal: bool| -> Result<Option<Stack>> {
            let Some(stack) = stack else { return Ok(None) };
            let initial = if form.has_both() { initial.part(name) } else { initial.clone() };
            Stack::new(&initial, &form, stack, causal).map(Some)
        };
        let (encoder, decoder) =
            (stack("encoder", &form.encoder, false)?, stack("decoder", &form.decoder, true)?);
        let mut token_head = TokenHead { transform: None, norm: None, bias: None };
        let mut head = None;
        if let Some(scores) = form.output.tokens {
            let part = initial.part("token_head");
            if let Some((_, norm)) = scores.transform {
                let width = if scores.tied { form.d_embedding() } else { d_model };
                token_head.transform =
                    Some(Linear::new(&part.part("transform"), LinearConfig::new(d_model, width), inner)?);
                token_head.norm = Some(Norm::new(&part.part("norm"), norm, width)?);
            }
            if scores.bias {
                token_head.bias = Some(part.parameter("bias", [form.vocabulary()], Draw::Constant(0.0))?);
            }
            if !scores.tied {
                head = Some(table("head", form.vocabulary(), d_model, inner)?);
            }
        }
        Ok(Self {
            class,
            tokens,
            types,
            projection,
            embedding_norm,
            patches,
            encoder,
            decoder,
            head,
            pooler: form.output.pooler.map(|_| linear("pooler", d_model)).transpose()?,
            token_head,
            classifier: form.output.classes.map(|classes| linear("classifier", classes)).transpose()?,
            form,
        })
    }

    /// What it was built from.
    pub fn form(&self) -> &Form {
        &self.form
    }

    /// The context of a stack, whose sites have its name in front where there are two.
    fn within<'a>(&self, context: &Context<'a>, name: &str) -> Context<'a> {
        if self.form.has_both() { context.within(name) } else { context.clone() }
    }

    /// The encoder's hidden states of what it reads.
    fn encoded(&self, context: &Context, encoder: &Stack, inputs: &Inputs) -> Result<Tensor> {
        // An encoder reads everything at once: nothing grows.
        let context = &context.without_cache();
        if let (Some(patches), Input::Patches(form)) = (&self.patches, &self.form.input) {
            let (x, sequence) = self.embed_pictures(context, encoder, (patches, form), inputs)?;
            return self.read(context, encoder, x, &sequence, None);
        }
        let ids = inputs.require_ids("transformer")?;
        let sequence = Sequence::new("transformer", context, ids, inputs.present.as_ref())?;
        let x = self.embed(context, encoder, (ids, inputs.types.as_ref()), &sequence)?;
        self.read(&self.within(context, "encoder"), encoder, x, &sequence, None)
    }

    /// The decoder's hidden states of what has been said so far; `memory` is the encoder's output and which of it is real.
    fn decoded(
        &self,
        context: &Context,
        decoder: &Stack,
        (ids, present): (&Ids, Option<&Mask>),
        memory: Option<(&Tensor, Option<&Mask>)>,
    ) -> Result<Tensor> {
        let sequence = Sequence::new("transformer", context, ids, present)?;
        let x = self.embed(context, decoder, (ids, None), &sequence)?;
        let cross = memory.map(|memory| self.cross_rules(memory, &sequence)).transpose()?;
        let memory = memory.map(|(encoded, _)| encoded).zip(cross.as_ref());
        let hidden = self.read(&self.within(context, "decoder"), decoder, x, &sequence, memory)?;
        sequence.finish(context);
        Ok(hidden)
    }

    /// All of the encoder's output may be attended to, but for its padding.
    fn cross_rules(
        &self,
        (encoded, present): (&Tensor, Option<&Mask>),
        sequence: &Sequence,
    ) -> Result<Rules> {
        let [rows, time, width] = encoded.shape()[..] else {
            let problem =
                format!("the encoder's output must be (batch, time, width), got {}", encoded.shape());
            return Err(Error::input("transformer", problem));
        };
        let mask = present.map_or([rows, time].into(), |present| present.shape().clone());
        if rows != sequence.batch || width != self.form.d_model || mask[..] != [rows, time] {
            let problem = format!(
                "{} texts cannot be answered from an encoder's output of {} under a mask of {mask}",
                sequence.batch,
                encoded.shape()
            );
            return Err(Error::input("transformer", problem));
        }
        Ok(Rules::new(Pattern::Full, sequence.time, time)?.padded(present.cloned()))
    }

    /// Embeddings of tokens (batch, time, width), with positions and types.
    fn embed(
        &self,
        context: &Context,
        stack: &Stack,
        (ids, types): (&Ids, Option<&Ids>),
        sequence: &Sequence,
    ) -> Result<Tensor> {
        let (Some(tokens), Input::Tokens(form)) = (&self.tokens, &self.form.input) else {
            return Err(Error::input("transformer", "this model reads pictures, not text"));
        };
        let x = tokens.forward(context, ids)?;
        let x = if form.scale == 1.0 { x } else { x.scale(form.scale)? };
        let mut x = stack.add_positions(context, x, Some(ids), &sequence.positions)?;
        if let Some(types) = types.filter(|types| types.shape() != ids.shape()) {
            let problem = format!("types must be {} as the ids are, got {}", ids.shape(), types.shape());
            return Err(Error::input("transformer", problem));
        }
        if let Some(table) = &self.types {
            let first = Ids::new(&[0], [1, 1])?;
            x = x.add(&table.forward(context, types.unwrap_or(&first))?)?;
        }
        if let Some(norm) = &self.embedding_norm {
            x = norm.forward(context, &x)?;
        }
        match &self.projection {
            Some(projection) => projection.forward(context, &x),
            None => Ok(x),
        }
    }

    /// Embeddings of pictures: the class token, then the patches row by row.
    fn embed_pictures(
        &self,
        context: &Context,
        stack: &Stack,
        (patches, form): (&PatchEmbedding, &Patches),
        inputs: &Inputs,
    ) -> Result<(Tensor, Sequence)> {
        let Some(pictures) = &inputs.pictures else {
            return Err(Error::input("transformer", "this model reads pictures, not text"));
        };
        let Patches { image: [height, width], size, channels } = *form;
        let (d_model, shape) = (self.form.d_model, pictures.shape());
        if shape.rank() != 4 || shape[1..] != [channels, height, width] || shape[0] == 0 {
            let problem = format!("pictures must be (batch, {channels}, {height}, {width}), got {shape}");
            return Err(Error::input("transformer", problem));
        }
        let weight = context.parameter(&patches.weight).reshape([d_model, channels * size * size])?;
        let bias = context.parameter(&patches.bias);
        let pictures = context.activations(&pictures.to(weight.device())?)?;
        let x = pictures.patches(size)?.linear(&weight, Some(&bias), Layout::OutIn, None)?; // (B, N, C)
        let x = match &self.class {
            Some(class) => {
                let zeros = Tensor::full_on(x.device(), [shape[0], 1, d_model], 0.0)?;
                let class = zeros.add(&context.parameter(class))?;
                concatenate(&[&context.activations(&class)?, &x], 1)? // (B, 1 + N, C)
            }
            None => x,
        };
        let sequence = Sequence::plain(shape[0], x.shape()[1])?;
        Ok((stack.add_positions(context, x, None, &sequence.positions)?, sequence))
    }

    /// Hidden states after a stack's layers.
    fn read(
        &self,
        context: &Context,
        stack: &Stack,
        x: Tensor,
        sequence: &Sequence,
        memory: Option<(&Tensor, &Rules)>,
    ) -> Result<Tensor> {
        let dropout = self.form.dropout;
        let x = context.see("embeddings", context.drop_out("embeddings", dropout.embeddings, x)?)?;
        let rules = stack.rules(context, sequence)?;
        let hidden = stack.forward(context, x, &rules, memory)?;
        context.drop_out("norm", dropout.last, hidden)
    }

    /// The table that scores tokens.
    fn scoring_table(&self) -> Option<&Embedding> {
        self.head.as_ref().or(self.tokens.as_ref())
    }

    /// What that table scores.
    fn before_scores(&self, context: &Context, hidden: &Tensor) -> Result<Tensor> {
        let scores = self.form.output.tokens;
        let mut x = hidden.clone();
        if let (Some(transform), Some(norm), Some((activation, _))) =
            (&self.token_head.transform, &self.token_head.norm, scores.and_then(|scores| scores.transform))
        {
            let transformed = transform.forward_then(context, &x, Some(activation.into()))?;
            x = norm.forward(context, &transformed)?;
        }
        match scores.map_or(1.0, |scores| scores.scale) {
            1.0 => Ok(x),
            scale => Ok(x.scale(scale)?),
        }
    }

    /// One vector for each input, (batch, width): that of the first token, through the pooler if there is one.
    pub fn pool(&self, context: &Context, hidden: &Tensor) -> Result<Tensor> {
        let first = hidden.select(1, 0)?;
        match (&self.pooler, self.form.output.pooler) {
            (Some(pooler), Some(form)) => pooler.forward_then(context, &first, Some(form.activation.into())),
            _ => Ok(first),
        }
    }

    /// Scores of the classes of each input, (batch, 1, classes).
    fn classify(&self, context: &Context, classifier: &Linear, hidden: &Tensor) -> Result<Tensor> {
        let pooled = self.pool(context, hidden)?;
        let pooled = context.drop_out("pooled", self.form.dropout.pooled, pooled)?;
        let scores = context.see("logits", classifier.forward(context, &pooled)?)?;
        Ok(scores.reshape([scores.shape()[0], 1, scores.shape().last()])?)
    }
}

impl Model for Transformer {
    fn kind(&self) -> &str {
        &self.form.family
    }

    fn abilities(&self) -> Abilities {
        self.form.abilities()
    }

    fn attentions(&self) -> Vec<AttentionSite<'_>> {
        let prefix = |name| if self.form.has_both() { name } else { "" };
        let mut all = Vec::new();
        if let Some(encoder) = &self.encoder {
            all.extend(encoder.attentions(prefix("encoder"), Part::Reader));
        }
        if let Some(decoder) = &self.decoder {
            let part = if self.encoder.is_some() { Part::Decoder } else { Part::Reader };
            all.extend(decoder.attentions(prefix("decoder"), part));
        }
        all
    }

    fn hidden(&self, context: &Context, inputs: &Inputs) -> Result<Tensor> {
        match (&self.encoder, &self.decoder) {
            (Some(encoder), None) => self.encoded(context, encoder, inputs),
            (None, Some(decoder)) => {
                let ids = inputs.require_ids("transformer")?;
                self.decoded(context, decoder, (ids, inputs.present.as_ref()), None)
            }
            (Some(encoder), Some(decoder)) => {
                let Some(answer) = &inputs.answer else { return self.encoded(context, encoder, inputs) };
                let memory = match &inputs.memory {
                    Some(memory) => memory.clone(),
                    None => self.encoded(context, encoder, inputs)?,
                };
                let answer = (answer, inputs.answer_present.as_ref());
                self.decoded(context, decoder, answer, Some((&memory, inputs.present.as_ref())))
            }
            (None, None) => Err(Error::configuration("transformer", "it has no layers")),
        }
    }

    fn scores(&self, context: &Context, hidden: &Tensor) -> Result<Tensor> {
        if let Some(classifier) = &self.classifier {
            return self.classify(context, classifier, hidden);
        }
        let (Some(table), Some(_)) = (self.scoring_table(), self.form.output.tokens) else {
            return Err(Error::input(
                "transformer",
                format!("this {} has no head that scores anything", self.kind()),
            ));
        };
        let x = self.before_scores(context, hidden)?;
        let bias = self.token_head.bias.as_ref().map(|bias| context.parameter(bias));
        let weight = context.parameter(table.weight());
        context.see("logits", x.linear(&weight, bias.as_ref(), Layout::OutIn, None)?) // (B, T, V)
    }

    fn loss(
        &self,
        context: &Context,
        hidden: &Tensor,
        targets: &Ids,
        settings: CrossEntropy,
    ) -> Result<Tensor> {
        let smoothing = settings.smoothing.max(self.form.output.smoothing);
        let settings = CrossEntropy { smoothing, ..settings };
        match (self.scoring_table(), self.form.output.tokens, &self.classifier) {
            (Some(table), Some(_), None) => {
                let x = self.before_scores(context, hidden)?;
                table.loss(context, &x, self.token_head.bias.as_ref(), targets, settings)
            }
            _ => Ok(self.scores(context, hidden)?.cross_entropy(targets, settings)?),
        }
    }

    fn encode(&self, context: &Context, inputs: &Inputs) -> Result<Tensor> {
        match (&self.encoder, &self.decoder) {
            (Some(encoder), Some(_)) => self.encoded(context, encoder, inputs),
            _ => Err(Error::input(
                "transformer",
                format!("a {} has no encoder that a decoder could read", self.kind()),
            )),
        }
    }

    fn token_embeddings(&self) -> Option<&Parameter> {
        self.tokens.as_ref().map(Embedding::weight)
    }

    fn token_embeddings_mut(&mut self) -> Option<&mut Parameter> {
        self.tokens.as_mut().map(Embedding::weight_mut)
    }

    fn unembedding(&self) -> Option<Unembedding<'_>> {
        let scores = self.form.output.tokens?;
        let plain = scores.transform.is_none() && !scores.bias && self.classifier.is_none();
        let stack = self.decoder.as_ref().or(self.encoder.as_ref())?;
        let table = self.scoring_table().filter(|_| plain)?;
        let sums = |layer: &form::Layer| layer.residual_scale == 1.0 && layer.placement.is_plain_sum();
        let plain_sum = self.form.last_stack()?.layers.iter().all(sums);
        Some(Unembedding { norm: stack.norm(), table: table.weight(), scale: scores.scale, plain_sum })
    }

    fn lens(&self, context: &Context, residual: &Tensor) -> Result<Tensor> {
        if !self.abilities().predicts_tokens() {
            let problem = format!("a {} does not score tokens from a residual stream", self.kind());
            return Err(Error::input("logit lens", problem));
        }
        match self.decoder.as_ref().or(self.encoder.as_ref()).and_then(Stack::norm) {
            Some(norm) => self.scores(context, &norm.forward(context, residual)?),
            None => self.scores(context, residual),
        }
    }

    fn fresh(&self, seed: u64) -> Result<Box<dyn Model>> {
        Ok(Box::new(Self::new(self.form.clone(), seed)?))
    }

    fn duplicate(&self) -> Box<dyn Model> {
        Box::new(self.independent())
    }

    fn settings(&self) -> Result<(&'static str, Value)> {
        written("transformer", &self.form)
    }

    fn form(&self) -> Option<&Form> {
        Some(&self.form)
    }
}

/// Stacks have their names in front where there are two; a single one's parameters stand beside the others.
impl Module for Transformer {
    fn visit<'a>(&'a self, path: &str, f: &mut dyn FnMut(String, &'a Parameter)) {
        let at = |name: &str| join(path, name);
        let stack = |name: &str| if self.form.has_both() { at(name) } else { path.to_owned() };
        self.class.visit(&at("class"), f);
        self.tokens.visit(&at("tokens"), f);
        self.types.visit(&at("types"), f);
        self.embedding_norm.visit(&at("embedding_norm"), f);
        self.projection.visit(&at("projection"), f);
        self.patches.visit(&at("patches"), f);
        self.encoder.visit(&stack("encoder"), f);
        self.decoder.visit(&stack("decoder"), f);
        self.head.visit(&at("head"), f);
        self.pooler.visit(&at("pooler"), f);
        self.token_head.visit(&at("token_head"), f);
        self.classifier.visit(&at("classifier"), f);
    }

    fn visit_mut<'a>(&'a mut self, path: &str, f: &mut dyn FnMut(String, &'a mut Parameter)) {
        let (at, both) = (|name: &str| join(path, name), self.form.has_both());
        let stack = |name: &str| if both { at(name) } else { path.to_owned() };
        self.class.visit_mut(&at("class"), f);
        self.tokens.visit_mut(&at("tokens"), f);
        self.types.visit_mut(&at("types"), f);
        self.embedding_norm.visit_mut(&at("embedding_norm"), f);
        self.projection.visit_mut(&at("projection"), f);
        self.patches.visit_mut(&at("patches"), f);
        self.encoder.visit_mut(&stack("encoder"), f);
        self.decoder.visit_mut(&stack("decoder"), f);
        self.head.visit_mut(&at("head"), f);
        self.pooler.visit_mut(&at("pooler"), f);
        self.token_head.visit_mut(&at("token_head"), f);
        self.classifier.visit_mut(&at("classifier"), f);
    }
}

/// Names that draws go by instead of the parameters' own: those that the parameters had when the recorded experiments
/// were run, so that a seed still gives the same model.
fn drawn_names(form: &Form) -> &'static [(&'static str, &'static str)] {
    match (&form.input, form.encoder.is_some(), form.decoder.is_some()) {
        (Input::Patches(_), ..) => &[("positions.table.weight", "positions")],
        (_, true, true) => &[
            ("encoder.positions.relative", "encoder.distances"),
            ("decoder.positions.relative", "decoder.distances"),
        ],
        (_, true, false) => &[("positions.table", "positions"), ("token_head", "words")],
        _ => &[],
    }
}
