//! BERT: a bidirectional encoder, trained to guess masked words (Devlin et al., 2018).
//!
//! ```text
//! x = norm(token + position + type embeddings)
//! x = norm(x + attention(x));  x = norm(x + feed-forward(x))        for each layer
//! masked words:  logits = norm(gelu(x·W))·token embeddingᵀ + b
//! pooled:        tanh(x[first]·W);  classes: pooled·W
//! ```
//!
//! RoBERTa, DistilBERT and MiniLM are the same model with other numbers and names.

use super::sequence::Sequence;
use super::sizes::{ensure_deviation, ensure_dropout, ensure_epsilon, ensure_sizes};
use crate::attention::{AttentionConfig, MultiHead, Pattern, Rules};
use crate::block::{BlockConfig, BlockDraws, NormPlacement, Stack};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::layers::{Activation, Embedding, FeedForwardConfig, Linear, LinearConfig, Norm, NormKind};
use crate::parameter::{Draw, Initial, Parameter, module};
use regard_tensor::ops::{CrossEntropy, Layout};
use regard_tensor::{Ids, Mask, Tensor};
use serde::{Deserialize, Serialize};

/// The sizes and the form of a BERT.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BertConfig {
    /// The number of tokens it knows.
    pub vocabulary: usize,
    /// The most positions it can read.
    pub context: usize,
    /// Positions count from here in the table (RoBERTa: 2).
    pub position_offset: usize,
    /// The number of token types; 0 if it has none.
    pub n_types: usize,
    /// The number of layers.
    pub n_layers: usize,
    /// The number of heads in each.
    pub n_heads: usize,
    /// The width of its vectors.
    pub d_model: usize,
    /// The width inside the feed-forward layers.
    pub d_hidden: usize,
    /// The function in the feed-forward layers.
    pub activation: Activation,
    /// The function in the head that guesses words.
    pub words_activation: Activation,
    /// The function of the pooler.
    pub pooler_activation: Activation,
    /// ε of the layer norms.
    pub norm_epsilon: f32,
    /// The deviation of initial weights.
    pub deviation: f32,
    /// The share of values that training drops.
    pub dropout: f32,
    /// What it has on top.
    pub heads: BertHeads,
    /// Whether training drops each layer's values and computes them again in the backward pass.
    pub checkpointing: bool,
}

/// What a BERT has on top of its layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BertHeads {
    /// A head that guesses masked words.
    pub words: bool,
    /// A pooler of the first position.
    pub pooler: bool,
    /// A classifier of the pooled vector, with so many classes.
    pub classes: Option<usize>,
}

impl Default for BertConfig {
    /// BERT base, with the head that guesses words.
    fn default() -> Self {
        Self {
            vocabulary: 30_522,
            context: 512,
            position_offset: 0,
            n_types: 2,
            n_layers: 12,
            n_heads: 12,
            d_model: 768,
            d_hidden: 3072,
            activation: Activation::Gelu,
            words_activation: Activation::Gelu,
            pooler_activation: Activation::Tanh,
            norm_epsilon: 1e-12,
            deviation: 0.02,
            dropout: 0.0,
            heads: BertHeads { words: true, pooler: false, classes: None },
            checkpointing: false,
        }
    }
}

/// A BERT.
#[derive(Debug, Clone)]
pub struct Bert {
    tokens: Embedding,
    positions: Embedding,
    types: Option<Embedding>,
    norm: Norm,
    layers: Stack,
    pooler: Option<Linear>,
    words: Option<Words>,
    classifier: Option<Linear>,
    config: BertConfig,
}

module!(Bert { tokens, positions, types, norm, layers, pooler, words, classifier });

/// The head that guesses words, with the embedding table as its last layer.
#[derive(Debug, Clone)]
struct Words {
    transform: Linear,
    norm: Norm,
    bias: Parameter,
}

module!(Words { transform, norm, bias });

impl Bert {
    /// A BERT with random weights.
    pub fn new(config: BertConfig, seed: u64) -> Result<Self> {
        Self::build(config, &Initial::new(seed))
    }

    /// A BERT with weights from a source.
    pub fn build(config: BertConfig, initial: &Initial) -> Result<Self> {
        let BertConfig { vocabulary, context, n_types, n_layers, d_model, norm_epsilon, heads, .. } = config;
        let sizes = [("vocabulary", vocabulary), ("context", context), ("d_model", d_model)];
        let others = [("n_heads", config.n_heads), ("d_hidden", config.d_hidden)];
        ensure_sizes("bert", &[&sizes[..], &others].concat())?;
        // These may be 0, but not absurd.
        ensure_sizes(
            "bert",
            &[("n_types", n_types.max(1)), ("position_offset", config.position_offset.max(1))],
        )?;
        ensure_dropout("bert", config.dropout)?;
        ensure_epsilon("bert", norm_epsilon)?;
        ensure_deviation("bert", config.deviation)?;
        if let Some(classes) = heads.classes {
            ensure_sizes("bert", &[("classes", classes)])?;
        }
        if heads.classes.is_some() && !heads.pooler {
            return Err(Error::configuration("bert", "a classifier needs a pooler"));
        }
        let draw = Draw::Normal(config.deviation);
        let draws = BlockDraws { inner: draw, residual: draw };
        let table = |name: &str, rows: usize| Embedding::new(&initial.part(name), (rows, d_model), draw);
        let norm = |initial: &Initial| Norm::new(initial, NormKind::Layer, d_model, norm_epsilon);
        let linear = |name: &str, outputs: usize| {
            Linear::new(&initial.part(name), LinearConfig::new(d_model, outputs), draw)
        };
        let block = config.block();
        let words = match heads.words {
            false => None,
            true => Some(Words {
                transform: linear("words.transform", d_model)?,
                norm: norm(&initial.part("words.norm"))?,
                bias: initial.parameter("words.bias", [vocabulary], Draw::Constant(0.0))?,
            }),
        };
        Ok(Self {
            tokens: table("tokens", vocabulary)?,
            positions: table("positions", context + config.position_offset)?,
            types: if n_types > 0 { Some(table("types", n_types)?) } else { None },
            norm: norm(&initial.part("norm"))?,
            layers: Stack::new(&initial.part("layers"), n_layers, |_| block, draws, config.checkpointing)?,
            pooler: if heads.pooler { Some(linear("pooler", d_model)?) } else { None },
            words,
            classifier: heads.classes.map(|classes| linear("classifier", classes)).transpose()?,
            config,
        })
    }

    /// What it was built from.
    pub fn config(&self) -> &BertConfig {
        &self.config
    }

    /// The last layer's vectors (batch, time, width) for ids (batch, time), their types (0 if not given), and which of
    /// them are not padding.
    pub fn encode(
        &self,
        context: &Context,
        ids: &Ids,
        types: Option<&Ids>,
        present: Option<&Mask>,
    ) -> Result<Tensor> {
        let context = &context.without_cache();
        let sequence = Sequence::new("bert", context, ids, present)?;
        sequence.ensure_within("bert", self.config.context)?;
        let places = match self.config.position_offset {
            0 => sequence.positions.clone(),
            offset => places_after_padding(ids, offset as u32)?,
        };
        let mut x = self.tokens.forward(context, ids)?.add(&self.positions.forward(context, &places)?)?;
        if let Some(types) = types
            && types.shape() != ids.shape()
        {
            let problem = format!("types must be {} as the ids are, got {}", ids.shape(), types.shape());
            return Err(Error::input("bert", problem));
        }
        if let Some(table) = &self.types {
            let none = Ids::new(&[0], [1, 1])?;
            x = x.add(&table.forward(context, types.unwrap_or(&none))?)?;
        }
        let x = self.norm.forward(context, &x)?;
        let x = context.see("embeddings", context.drop_out("embeddings", self.config.dropout, x)?)?;
        let rules = Rules::new(Pattern::Full, sequence.time, sequence.keys)?.padded(sequence.present);
        let x = self.layers.forward(context, x, &rules, None)?;
        Ok(x)
    }

    /// Scores of every word at every place, (batch, time, vocabulary), from the last layer's vectors.
    pub fn words(&self, context: &Context, encoded: &Tensor) -> Result<Tensor> {
        let (x, head) = self.before_words(context, encoded)?;
        let (table, bias) = (context.parameter(self.tokens.weight()), context.parameter(&head.bias));
        context.see("logits", x.linear(&table, Some(&bias), Layout::OutIn, None)?)
    }

    /// What the embedding table scores, and the head it comes from.
    fn before_words(&self, context: &Context, encoded: &Tensor) -> Result<(Tensor, &Words)> {
        let Some(words) = &self.words else {
            return Err(Error::configuration("bert", "this model has no head that guesses words"));
        };
        let function = Some(self.config.words_activation.into());
        let x = words.transform.forward_then(context, encoded, function)?;
        Ok((words.norm.forward(context, &x)?, words))
    }

    /// One vector a text, (batch, width): that of the first position through a layer of its own.
    pub fn pool(&self, context: &Context, encoded: &Tensor) -> Result<Tensor> {
        let Some(pooler) = &self.pooler else {
            return Err(Error::configuration("bert", "this model has no pooler"));
        };
        pooler.forward_then(context, &encoded.select(1, 0)?, Some(self.config.pooler_activation.into()))
    }

    /// Scores of the classes of each text, (batch, classes).
    pub fn classify(&self, context: &Context, encoded: &Tensor) -> Result<Tensor> {
        let Some(classifier) = &self.classifier else {
            return Err(Error::configuration("bert", "this model has no classifier"));
        };
        let pooled = context.drop_out("pooled", self.config.dropout, self.pool(context, encoded)?)?;
        context.see("logits", classifier.forward(context, &pooled)?)
    }

    /// The mean cross-entropy of the words at the places where `targets` (batch, time) is not `ignored`.
    pub fn loss(
        &self,
        context: &Context,
        ids: &Ids,
        present: Option<&Mask>,
        targets: &Ids,
        ignored: u32,
    ) -> Result<Tensor> {
        let (x, head) = self.before_words(context, &self.encode(context, ids, None, present)?)?;
        let settings = CrossEntropy { ignored: Some(ignored), smoothing: 0.0 };
        self.tokens.loss(context, &x, Some(&head.bias), targets, settings)
    }

    /// Each attention with its place, such as `layers.0.self`.
    pub fn attentions(&self) -> Vec<(String, &MultiHead)> {
        self.layers.attentions()
    }

    /// The table of token embeddings, (vocabulary, width).
    pub fn token_embeddings(&self) -> &Tensor {
        self.tokens.weight().tensor()
    }
}

impl BertConfig {
    fn block(&self) -> BlockConfig {
        BlockConfig {
            attention: AttentionConfig {
                fused: false,
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
            placement: NormPlacement::Post,
            dropout: self.dropout,
        }
    }
}

/// Where tokens stand as RoBERTa counts: those that are not padding, from the place after that of the padding's id, wherever
/// a mask says the padding is.
fn places_after_padding(ids: &Ids, offset: u32) -> Result<Ids> {
    let padding = offset - 1;
    let time = ids.shape().last().max(1);
    let mut places = Vec::with_capacity(ids.values().len());
    for row in ids.values().chunks(time) {
        let mut place = padding;
        places.extend(row.iter().map(|&id| {
            place += u32::from(id != padding);
            if id == padding { padding } else { place }
        }));
    }
    Ok(Ids::new(&places, ids.shape())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_takes_no_place_wherever_it_stands() {
        // transformers' create_position_ids_from_input_ids of these ids with a padding of 1.
        let ids = Ids::new(&[0, 9, 1, 1, 8, 7, 2], [1, 7]).unwrap();
        let places = places_after_padding(&ids, 2).unwrap();
        assert_eq!(places.values(), [2, 3, 1, 1, 4, 5, 6]);
    }
}
