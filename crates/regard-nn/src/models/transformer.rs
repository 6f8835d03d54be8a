//! The transformer: one forward pass for every [`Form`].
//!
//! ```text
//! x = token (or patch) embedding + positions + types, normed        embed
//! x = x + attention(norm(x));  x = x + ffn(norm(x))                  each layer, see block.rs
//! hidden = norm(x)                                                   hidden
//! logits = hidden · tableᵀ                                           scores
//! ```

mod embeddings;
mod heads;
mod pooling;

use super::form::{self, Form, Input, Pooling, TokenScores};
use super::inputs::Inputs;
use super::model::{Abilities, AttentionSite, Model, Part, Unembedding, written};
use super::sequence::Sequence;
use super::stack::Stack;
use crate::attention::{Pattern, Rules};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::layers::Embedding;
use crate::parameter::{Initial, Module, Parameter, join};
use embeddings::Embeddings;
use heads::{Heads, span_loss};
use pooling::pooled;
use regard_tensor::ops::{CrossEntropy, Layout};
use regard_tensor::{Ids, Mask, Tensor};
use serde_json::Value;

/// A transformer of any form.
#[derive(Debug, Clone)]
pub struct Transformer {
    embeddings: Embeddings,
    encoder: Option<Stack>,
    decoder: Option<Stack>,
    heads: Heads,
    form: Form,
}

impl Transformer {
    /// A transformer with random weights.
    pub fn new(form: Form, seed: u64) -> Result<Self> {
        let initial = Initial::new(seed).drawn_as(drawn_names(&form));
        Self::build(form, &initial)
    }

    /// A transformer with weights from a source.
    pub fn build(form: Form, initial: &Initial) -> Result<Self> {
        form.check()?;
        let stack = |name: &str, stack: &Option<form::Stack>, causal: bool| -> Result<Option<Stack>> {
            let Some(stack) = stack else { return Ok(None) };
            let initial = if form.has_both() { initial.part(name) } else { initial.clone() };
            Stack::new(&initial, &form, stack, causal).map(Some)
        };
        Ok(Self {
            embeddings: Embeddings::new(&form, initial)?,
            encoder: stack("encoder", &form.encoder, false)?,
            decoder: stack("decoder", &form.decoder, true)?,
            heads: Heads::new(&form, initial)?,
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
        if matches!(self.form.input, Input::Patches(_)) {
            let (x, sequence) = self.embeddings.embed_pictures(context, (&self.form, encoder), inputs)?;
            return self.read(context, encoder, x, &sequence, None);
        }
        let ids = inputs.require_ids("transformer")?;
        let mut sequence = Sequence::new("transformer", context, ids, inputs.present.as_ref())?;
        if self.form.output.pooling == Pooling::End {
            // Padding that speaks for a text has a position of its own.
            sequence.positions = Sequence::plain(sequence.batch, sequence.time)?.positions;
        }
        let read = (ids, inputs.types.as_ref());
        let x = self.embeddings.embed(context, (&self.form, encoder), read, &sequence)?;
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
        let x = self.embeddings.embed(context, (&self.form, decoder), (ids, None), &sequence)?;
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
        let x = stack.normed_input(context, x)?;
        let x = context.see("embeddings", context.drop_out("embeddings", dropout.embeddings, x)?)?;
        let rules = stack.rules(context, sequence)?;
        let hidden = stack.forward(context, x, &rules, memory)?;
        context.drop_out("norm", dropout.last, hidden)
    }

    /// The table that scores tokens.
    fn scoring_table(&self) -> Option<&Embedding> {
        self.heads.head.as_ref().or(self.embeddings.tokens.as_ref())
    }

    /// One vector for each input, (batch, width): that of the first token, through the pooler if there is one.
    pub fn pool(&self, context: &Context, hidden: &Tensor) -> Result<Tensor> {
        self.heads.pool(context, &self.form, hidden)
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
            (Some(encoder), None) => pooled(&self.form, self.encoded(context, encoder, inputs)?, inputs),
            (None, Some(decoder)) => {
                let ids = inputs.require_ids("transformer")?;
                let hidden = self.decoded(context, decoder, (ids, inputs.present.as_ref()), None)?;
                pooled(&self.form, hidden, inputs)
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
        if let Some(scores) = self.heads.classify(context, &self.form, hidden)? {
            return Ok(scores);
        }
        let (Some(table), Some(_)) = (self.scoring_table(), self.form.output.tokens) else {
            return Err(Error::input(
                "transformer",
                format!("this {} has no head that scores anything", self.kind()),
            ));
        };
        self.heads.show_pair(context, &self.form, hidden)?;
        let x = self.heads.before_scores(context, &self.form, hidden)?;
        let bias = self.heads.token_head.bias.as_ref().map(|bias| context.parameter(bias));
        let weight = context.parameter(table.weight());
        let logits = x.linear(&weight, bias.as_ref(), Layout::OutIn, None)?; // (B, T, V)
        let logits = match self.form.output.tokens.and_then(|scores| scores.soft_cap) {
            Some(cap) => logits.scale(1.0 / cap)?.tanh()?.scale(cap)?,
            None => logits,
        };
        context.see("logits", logits)
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
        match (self.scoring_table(), self.form.output.tokens, &self.heads.classifier) {
            (Some(table), Some(TokenScores { soft_cap: None, .. }), None) => {
                let x = self.heads.before_scores(context, &self.form, hidden)?;
                table.loss(context, &x, self.heads.token_head.bias.as_ref(), targets, settings)
            }
            _ if self.form.output.spans => span_loss(&self.scores(context, hidden)?, targets, settings),
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
        self.embeddings.tokens.as_ref().map(Embedding::weight)
    }

    fn token_embeddings_mut(&mut self) -> Option<&mut Parameter> {
        self.embeddings.tokens.as_mut().map(Embedding::weight_mut)
    }

    fn unembedding(&self) -> Option<Unembedding<'_>> {
        let scores = self.form.output.tokens?;
        let plain = scores.transform.is_none()
            && !scores.projected
            && !scores.bias
            && scores.soft_cap.is_none()
            && self.heads.classifier.is_none();
        let stack = self.decoder.as_ref().or(self.encoder.as_ref())?;
        let table = self.scoring_table().filter(|_| plain)?;
        let sums = |layer: &form::Layer| {
            layer.residual_scale == 1.0 && layer.layer_scale.is_none() && layer.placement.is_plain_sum()
        };
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
        let both = self.form.has_both();
        let stack = |name: &str| if both { join(path, name) } else { path.to_owned() };
        self.embeddings.visit(path, f);
        self.encoder.visit(&stack("encoder"), f);
        self.decoder.visit(&stack("decoder"), f);
        self.heads.visit(path, f);
    }

    fn visit_mut<'a>(&'a mut self, path: &str, f: &mut dyn FnMut(String, &'a mut Parameter)) {
        let both = self.form.has_both();
        let stack = |name: &str| if both { join(path, name) } else { path.to_owned() };
        self.embeddings.visit_mut(path, f);
        self.encoder.visit_mut(&stack("encoder"), f);
        self.decoder.visit_mut(&stack("decoder"), f);
        self.heads.visit_mut(path, f);
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
