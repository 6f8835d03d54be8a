//! A tagger: one attention layer that says whether a masked word is a content word or a function word.
//!
//! ```text
//! x = embedding + position;  h = attention(x);  classes of each word = h·W + b
//! ```

use super::inputs::Inputs;
use super::model::{Abilities, AttentionSite, Model, Predicts, written};
use super::sizes::ensure_sizes;
use crate::attention::{AttentionConfig, MultiHead, Pattern, Rules};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::layers::{Embedding, Linear, LinearConfig};
use crate::parameter::{Draw, Initial, Module, Parameter, module};
use crate::position::{Position, PositionSizes, Positions};
use regard_tensor::{Ids, Tensor};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The sizes and the form of a tagger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TaggerConfig {
    /// The number of words it knows, the mask among them.
    pub vocabulary: usize,
    /// The width of its vectors.
    pub d_model: usize,
    /// The number of heads.
    pub n_heads: usize,
    /// The number of classes of words.
    pub classes: usize,
    /// How it knows where a word stands.
    pub positions: Position,
    /// The most positions a learned table has.
    pub context: usize,
}

impl Default for TaggerConfig {
    fn default() -> Self {
        Self {
            vocabulary: 10_000,
            d_model: 64,
            n_heads: 1,
            classes: 2,
            positions: Position::Learned,
            context: 128,
        }
    }
}

/// A tagger.
#[derive(Debug, Clone)]
pub struct Tagger {
    words: Embedding,
    positions: Positions,
    attention: MultiHead,
    classifier: Linear,
    config: TaggerConfig,
}

module!(Tagger { words, positions, attention, classifier });

impl Tagger {
    /// A tagger with random weights.
    pub fn new(config: TaggerConfig, seed: u64) -> Result<Self> {
        Self::build(config, &Initial::new(seed))
    }

    /// A tagger with weights from a source.
    pub fn build(config: TaggerConfig, initial: &Initial) -> Result<Self> {
        let TaggerConfig { vocabulary, d_model, n_heads, classes, context, .. } = config;
        let sizes = [("vocabulary", vocabulary), ("d_model", d_model), ("context", context)];
        ensure_sizes("tagger", &[&sizes[..], &[("n_heads", n_heads), ("classes", classes)]].concat())?;
        if classes < 2 {
            return Err(Error::configuration("tagger", "classes must be at least 2, got 1"));
        }
        let attention = AttentionConfig { fused: false, ..AttentionConfig::new(d_model, n_heads) };
        let sizes =
            PositionSizes { context, d_model, n_heads, d_head: attention.d_head, bidirectional: true };
        let draw = Draw::Normal((d_model as f32).powf(-0.5));
        Ok(Self {
            words: Embedding::new(&initial.part("words"), (vocabulary, d_model), Draw::Normal(1.0))?,
            positions: Positions::new(&initial.part("positions"), config.positions, sizes, 1.0)?,
            attention: MultiHead::new(&initial.part("attention"), attention, (draw, draw))?,
            classifier: Linear::new(&initial.part("classifier"), LinearConfig::new(d_model, classes), draw)?,
            config,
        })
    }

    /// What it was built from.
    pub fn config(&self) -> &TaggerConfig {
        &self.config
    }
}

impl Model for Tagger {
    fn kind(&self) -> &'static str {
        "tagger"
    }

    fn abilities(&self) -> Abilities {
        let context = Some(self.config.context);
        Abilities { context, ..Abilities::new(Predicts::TokenClass, self.config.classes) }
    }

    fn attentions(&self) -> Vec<AttentionSite<'_>> {
        vec![self.positions.site(&self.attention)]
    }

    fn hidden(&self, context: &Context, inputs: &Inputs) -> Result<Tensor> {
        let context = &context.without_cache();
        let ids = inputs.require_ids("tagger")?;
        inputs.lengths("tagger")?;
        let (batch, time) = (ids.shape()[0], ids.shape()[1]);
        if self.positions.limit().is_some_and(|limit| time > limit) {
            let problem = format!("{time} words do not fit its context of {}", self.config.context);
            return Err(Error::input("tagger", problem));
        }
        let places = Ids::new(&(0..time as u32).collect::<Vec<_>>(), [1, time])?;
        let x = self.positions.add(context, &self.words.forward(context, ids)?, &places)?;
        let x = context.see("embeddings", x)?; // (B, T, C)
        let rules = Rules::new(Pattern::Full, time, time)?
            .padded(inputs.present.clone())
            .biased(self.positions.bias(context, time, time)?)
            .rotated(self.positions.rotation(&places, batch)?);
        let here = context.within("layers").within(0).within("self");
        self.attention.forward(&here, &x, None, &rules)
    }

    fn scores(&self, context: &Context, hidden: &Tensor) -> Result<Tensor> {
        context.see("logits", self.classifier.forward(context, hidden)?)
    }

    fn token_embeddings(&self) -> Option<&Parameter> {
        Some(self.words.weight())
    }

    fn token_embeddings_mut(&mut self) -> Option<&mut Parameter> {
        Some(self.words.weight_mut())
    }

    fn fresh(&self, seed: u64) -> Result<Box<dyn Model>> {
        Ok(Box::new(Self::new(self.config.clone(), seed)?))
    }

    fn duplicate(&self) -> Box<dyn Model> {
        Box::new(self.independent())
    }

    fn settings(&self) -> Result<(&'static str, Value)> {
        written("tagger", &self.config)
    }
}
