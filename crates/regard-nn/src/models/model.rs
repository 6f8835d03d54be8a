//! One interface to any model: what it reads, what it predicts, its attentions.
//!
//! Training, analysis, commands, the page and experiments see models only through [`Model`]. A type of your own that
//! implements it can be trained, probed, analysed and saved like the ones that come with the library; the example
//! `own_model` does it.

use super::form::{Form, Patches, Window};
use super::inputs::Inputs;
use crate::attention::{AttentionKind, MultiHead};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::layers::{Linear, Norm};
use crate::parameter::{Module, Parameter};
use crate::position::Rotary;
use regard_tensor::ops::{CrossEntropy, concatenate};
use regard_tensor::{Ids, Tensor};
use serde::Serialize;
use serde_json::Value;
use std::ops::Range;

/// A model of any kind.
pub trait Model: Module + Send + Sync + std::fmt::Debug {
    /// What kind of model it is, for messages: `gpt2`, `bag`, …
    fn kind(&self) -> &str;

    /// What it reads and what it predicts.
    fn abilities(&self) -> Abilities;

    /// Its attentions, in the order in which a text passes them.
    fn attentions(&self) -> Vec<AttentionSite<'_>>;

    /// The last hidden states, which its head scores: (batch, time, width), or (batch, 1, width) if it pools a text into
    /// one vector. An encoder–decoder model without an answer in its inputs gives those of its encoder.
    fn hidden(&self, context: &Context, inputs: &Inputs) -> Result<Tensor>;

    /// The scores (logits) of what it predicts: (batch, time, tokens or classes), or (batch, 1, classes) for a whole text.
    fn scores(&self, context: &Context, hidden: &Tensor) -> Result<Tensor>;

    /// The mean cross-entropy of targets, one for each row of the scores. Models with a large vocabulary compute it
    /// without keeping the scores.
    fn loss(
        &self,
        context: &Context,
        hidden: &Tensor,
        targets: &Ids,
        settings: CrossEntropy,
    ) -> Result<Tensor> {
        Ok(self.scores(context, hidden)?.cross_entropy(targets, settings)?)
    }

    /// What an encoder–decoder model's encoder makes of a source, to answer it several times: see [`Inputs::memory`].
    fn encode(&self, context: &Context, inputs: &Inputs) -> Result<Tensor> {
        let _ = (context, inputs);
        Err(Error::input("model", format!("a {} has no encoder that a decoder could read", self.kind())))
    }

    /// The table of token embeddings, (vocabulary, width), if it reads tokens.
    fn token_embeddings(&self) -> Option<&Parameter>;

    /// The same, to change.
    fn token_embeddings_mut(&mut self) -> Option<&mut Parameter>;

    /// The scores (…, vocabulary) that the residual stream (…, width) after some layer would give if it were the last: the
    /// logit lens.
    fn lens(&self, context: &Context, residual: &Tensor) -> Result<Tensor> {
        let _ = (context, residual);
        Err(Error::input(
            "logit lens",
            format!("a {} does not score tokens from a residual stream", self.kind()),
        ))
    }

    /// How hidden states become scores of tokens, where one norm and one table do it.
    fn unembedding(&self) -> Option<Unembedding<'_>> {
        None
    }

    /// A model of the same form with new random weights: the baseline of whatever training is claimed to bring.
    fn fresh(&self, seed: u64) -> Result<Box<dyn Model>>;

    /// The same on the device that this model is on.
    fn untrained(&self, seed: u64) -> Result<Box<dyn Model>> {
        let mut fresh = self.fresh(seed)?;
        fresh.to(self.device())?;
        Ok(fresh)
    }

    /// A copy with parameters of its own.
    fn duplicate(&self) -> Box<dyn Model>;

    /// What it was built from, for its checkpoint: a name and settings from which the same model can be built.
    fn settings(&self) -> Result<(&'static str, Value)>;

    /// The form, if it is a transformer.
    fn form(&self) -> Option<&Form> {
        None
    }

    /// Hidden states and scores in one.
    fn forward(&self, context: &Context, inputs: &Inputs) -> Result<Tensor> {
        self.scores(context, &self.hidden(context, inputs)?)
    }

    /// Hidden states and the loss in one.
    fn loss_of(
        &self,
        context: &Context,
        inputs: &Inputs,
        targets: &Ids,
        settings: CrossEntropy,
    ) -> Result<Tensor> {
        self.loss(context, &self.hidden(context, inputs)?, targets, settings)
    }

    /// The scores after the last token alone, (batch, 1, vocabulary): all that generation needs.
    fn forward_last(&self, context: &Context, inputs: &Inputs) -> Result<Tensor> {
        let hidden = self.hidden(context, inputs)?;
        let last = hidden.shape()[1].saturating_sub(1);
        self.scores(context, &hidden.slice(1, last, 1)?)
    }

    /// The attentions of a part; an error if it has none.
    fn part(&self, part: Part) -> Result<Vec<AttentionSite<'_>>> {
        let mut all = self.attentions();
        all.retain(|site| site.part == part);
        match all.is_empty() {
            true => Err(Error::input("analysis", format!("this {} has no attention heads", self.kind()))),
            false => Ok(all),
        }
    }

    /// The parts that it has.
    fn parts(&self) -> Vec<Part> {
        let all = self.attentions();
        Part::ALL.into_iter().filter(|&part| all.iter().any(|site| site.part == part)).collect()
    }
}

/// What a model reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reads {
    /// Text.
    Tokens,
    /// A source text, which its decoder answers.
    Source,
    /// Pictures.
    Pictures(Patches),
}

/// What a model predicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Predicts {
    /// The next token.
    NextToken,
    /// The token behind a mask.
    MaskedToken,
    /// The class of the whole input.
    Class,
    /// The class of each token.
    TokenClass,
    /// Where an answer begins and ends: scores of each token as its first and as its last.
    Span,
    /// A vector for the whole input, to compare with those of others.
    Vector,
    /// Nothing: it has no head.
    Nothing,
}

/// What a model reads and what it predicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// What it reads.
    pub reads: Reads,
    /// What it predicts.
    pub predicts: Predicts,
    /// The number of classes or tokens that it scores; 0 if none.
    pub classes: usize,
    /// The most tokens it reads, or was made for.
    pub context: Option<usize>,
    /// The number of token types; 0 if it has none.
    pub types: usize,
    /// The token that its answers start with.
    pub start: Option<u32>,
    /// Whether one logit stands for two classes: the first one's score is 0 whatever it reads.
    pub one_logit: bool,
}

impl Abilities {
    /// A reader of text that predicts one of so many classes or tokens.
    pub fn new(predicts: Predicts, classes: usize) -> Self {
        let (reads, context, types) = (Reads::Tokens, None, 0);
        Self { reads, predicts, classes, context, types, start: None, one_logit: false }
    }

    /// Whether it answers with tokens rather than classes.
    pub fn predicts_tokens(&self) -> bool {
        matches!(self.predicts, Predicts::NextToken | Predicts::MaskedToken)
    }

    /// Whether it continues the text that it reads.
    pub fn continues(&self) -> bool {
        self.predicts == Predicts::NextToken && self.reads == Reads::Tokens
    }

    /// The patches of the pictures it reads.
    pub fn pictures(&self) -> Option<Patches> {
        match self.reads {
            Reads::Pictures(patches) => Some(patches),
            _ => None,
        }
    }
}

/// Which of a model's attentions are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Part {
    /// Those with which it reads. An encoder–decoder model reads with its encoder.
    #[default]
    Reader,
    /// Those with which a decoder attends to its own answer.
    Decoder,
    /// Those with which a decoder attends to the encoder's output.
    Cross,
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 3] = [Self::Reader, Self::Decoder, Self::Cross];

    /// Its name in an encoder–decoder model.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reader => "encoder",
            Self::Decoder => "decoder",
            Self::Cross => "cross",
        }
    }
}

/// One attention of a model.
#[derive(Debug, Clone)]
pub struct AttentionSite<'a> {
    /// The name of its place, such as `layers.0.self`.
    pub name: String,
    /// Which part of the model it belongs to.
    pub part: Part,
    /// Which keys a query may attend to.
    pub visibility: Visibility,
    /// Whether queries and keys are rotated by their positions.
    pub rotary: bool,
    /// Whether something is added to its scores.
    pub biased: bool,
    /// The number of its heads.
    pub n_heads: usize,
    /// The width of a head.
    pub d_head: usize,
    /// Its projections, if it is one of the library's own: what weighs values by their norms or reads what a head writes.
    pub attention: Option<&'a MultiHead>,
    /// The norm of what it reads, and its rotation by positions.
    pub(crate) norm: Option<&'a Norm>,
    pub(crate) rotation: Option<&'a Rotary>,
}

impl<'a> AttentionSite<'a> {
    /// An attention by its place, in which everyone sees everyone.
    pub fn named(name: impl Into<String>, n_heads: usize, d_head: usize) -> Self {
        Self {
            name: name.into(),
            part: Part::Reader,
            visibility: Visibility::default(),
            rotary: false,
            biased: false,
            n_heads,
            d_head,
            attention: None,
            norm: None,
            rotation: None,
        }
    }

    /// One of the library's own.
    pub fn of(name: impl Into<String>, attention: &'a MultiHead) -> Self {
        let config = attention.config();
        Self { attention: Some(attention), ..Self::named(name, config.n_heads, config.d_head) }
    }

    /// Whether a logit without a value takes a share of the weight, so that the weights of the keys sum to less than 1.
    pub fn has_sink(&self) -> bool {
        let kind = self.attention.map(|attention| attention.config().kind);
        matches!(kind, Some(AttentionKind::ZeroSink | AttentionKind::LearnedSink))
    }

    /// The only attention of a small model.
    pub fn only(attention: &'a MultiHead) -> Self {
        Self::of("layers.0.self", attention)
    }

    /// Its projections, or an error if it has none that the library knows.
    pub fn projections(&self) -> Result<&'a MultiHead> {
        let missing = || Error::input("analysis", format!("the projections of {} are not known", self.name));
        self.attention.ok_or_else(missing)
    }
}

/// Which keys a query may attend to, by position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Visibility {
    /// Whether it sees only its own position and earlier ones.
    pub causal: bool,
    /// How far it sees, if not everywhere.
    pub window: Option<Window>,
}

impl Visibility {
    /// The keys that a query may attend to, of so many. (Sparse patterns leave out some of them.)
    pub fn keys(self, query: usize, keys: usize) -> Range<usize> {
        let first = self.window.map_or(0, |window| query.saturating_sub(window.before));
        let end = match (self.causal, self.window) {
            (true, _) => query + 1,
            (false, Some(window)) => query.saturating_add(window.after).saturating_add(1),
            (false, None) => keys,
        };
        first.min(keys)..end.min(keys)
    }
}

/// How hidden states become scores of tokens: scale · norm(x) · tableᵀ.
pub struct Unembedding<'a> {
    /// The norm after the last layer.
    pub norm: Option<&'a Norm>,
    /// The table (vocabulary, width).
    pub table: &'a Parameter,
    /// What hidden states are multiplied with.
    pub scale: f32,
    /// Whether the residual stream is the plain sum of the embeddings and of what every sublayer adds.
    pub plain_sum: bool,
}

/// Scores of two classes, (batch, 1, 2), from one logit: the first one's score is 0.
pub(super) fn two_classes(context: &Context, classifier: &Linear, hidden: &Tensor) -> Result<Tensor> {
    let batch = hidden.shape()[0];
    let pooled = hidden.reshape([batch, hidden.shape().last()])?;
    let logit = context.see("logits", classifier.forward(context, &pooled)?.reshape([batch])?)?;
    let first = Tensor::full_on(logit.device(), [batch, 1], 0.0)?;
    let scores = concatenate(&[&first, &logit.reshape([batch, 1])?], 1)?;
    Ok(scores.reshape([batch, 1, 2])?)
}

/// A model's settings as a checkpoint has them.
pub(super) fn written(kind: &'static str, config: &impl Serialize) -> Result<(&'static str, Value)> {
    let value = serde_json::to_value(config).map_err(|error| Error::checkpoint(error.to_string()))?;
    Ok((kind, value))
}

impl Clone for Box<dyn Model> {
    /// A copy with parameters of its own.
    fn clone(&self) -> Self {
        self.duplicate()
    }
}
