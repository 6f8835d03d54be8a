//! Analysis of attention heads: what each head attends to, whether it matters, and how tokens influence a prediction.
//!
//! Everything works on any [`Model`] with attention, bidirectional or causal, through the sites that a
//! [`Probe`](crate::Probe) can record; an encoder–decoder model has three [parts](Part). Functions return numbers and
//! leave drawing and printing to the caller.
//!
//! ```
//! use regard_nn::analysis::{Measure, HeadSettings, Tokens, measure_heads};
//! use regard_nn::models::{GptConfig, Transformer};
//!
//! let sizes = GptConfig { vocabulary: 11, context: 8, n_layers: 2, n_heads: 2, d_model: 8, ..Default::default() };
//! let model = Transformer::new(sizes.form(), 0)?;
//! let texts = [Tokens::new(vec![3, 1, 4, 1, 5]), Tokens::new(vec![9, 2, 6])];
//! let table = measure_heads(&model, texts.into_iter().map(Ok), HeadSettings::default())?;
//! let entropy = table.find(1, 0, Measure::RelativeEntropy).unwrap();
//! assert!(entropy.mean > 0.9, "the attention of untrained heads is almost uniform");
//! # Ok::<(), regard_nn::Error>(())
//! ```

pub mod ablation;
pub mod clusters;
pub mod contribution;
pub mod dependencies;
pub mod distance;
pub mod eigen;
pub mod flow;
pub mod heads;
pub mod influence;
pub mod labels;
pub mod measures;
pub mod norms;
pub mod occlusion;
pub mod patching;
pub mod pooling;
pub mod projection;
pub mod ribbons;
pub mod score_parts;
pub mod statistics;
mod subject;

pub use crate::models::{Part, Visibility};
pub use heads::{HeadEstimates, HeadSettings, Row, Table, Weighing};
pub use heads::{measure_heads, measure_planned, prefix_matching, repeated_random};
pub use labels::{Label, label_heads};
pub use measures::{Measure, MeasurePlan};
pub use subject::{Shown, Subject, attentions};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::models::{AttentionSite, Model};
#[cfg(feature = "tokenizers")]
use crate::tokens::Encoding;
use regard_tensor::{Ids, Tensor};
use std::sync::Arc;

/// The tokens of one text, with flags.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tokens {
    /// Their ids.
    pub ids: Vec<u32>,
    /// Whether a token is special, such as `[CLS]`.
    pub special: Vec<bool>,
    /// Whether a token is a delimiter: punctuation, or a special token that contains some.
    pub delimiter: Vec<bool>,
    /// The source text, if these tokens are the output of a decoder.
    pub source: Option<Box<Tokens>>,
    /// The pixels (channels, height, width), if the tokens are the patches of an image.
    pub pixels: Option<Arc<[f32]>>,
}

impl Tokens {
    /// Tokens without special tokens or delimiters.
    pub fn new(ids: Vec<u32>) -> Self {
        let flags = vec![false; ids.len()];
        Self { ids, special: flags.clone(), delimiter: flags, ..Self::default() }
    }

    /// The tokens of an encoded text; [`delimits`] decides which are delimiters.
    #[cfg(feature = "tokenizers")]
    pub fn from_encoding(encoding: &Encoding) -> Self {
        Self {
            ids: encoding.ids.clone(),
            special: encoding.special.clone(),
            delimiter: encoding.pieces.iter().map(|piece| delimits(piece)).collect(),
            ..Self::default()
        }
    }

    /// The `count` patches of an image, after the `first` tokens that are none, such as the class token.
    pub fn from_image(pixels: Arc<[f32]>, first: usize, count: usize) -> Self {
        // All ids differ, so measures of repetition are undefined.
        let mut tokens = Self::new((0..(first + count) as u32).collect());
        tokens.special[..first].fill(true);
        Self { pixels: Some(pixels), ..tokens }
    }

    /// The same tokens as a decoder's output for a source text.
    #[must_use]
    pub fn with_source(self, source: Self) -> Self {
        Self { source: Some(Box::new(source)), ..self }
    }

    /// The number of tokens.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The number of tokens, including those of the source.
    pub fn total_len(&self) -> usize {
        self.len() + self.source.as_ref().map_or(0, |source| source.len())
    }

    /// Returns an error if there are no tokens, or not as many flags as ids.
    pub fn check(&self) -> Result<()> {
        let count = self.ids.len();
        if count == 0 || self.special.len() != count || self.delimiter.len() != count {
            let problem = format!(
                "a text needs at least one token and one flag of each kind per token, got {count} tokens, {} and {} flags",
                self.special.len(),
                self.delimiter.len()
            );
            return Err(Error::input("analysis", problem));
        }
        Ok(())
    }
}

/// Whether a token is a delimiter: it contains one of `.,;:!?`, and neither letters nor digits.
pub fn delimits(piece: &str) -> bool {
    piece.contains(['.', ',', ';', ':', '!', '?']) && !piece.contains(char::is_alphanumeric)
}

/// One head: the index of its layer among [`attentions`], and its index in the layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Head {
    /// The layer.
    pub layer: usize,
    /// The head in it.
    pub head: usize,
}

/// All heads of a model or of one of its parts, in order.
pub fn all_heads<'a>(subject: impl Into<Subject<'a>>) -> Result<Vec<Head>> {
    let layers = attentions(subject)?;
    let of = |(layer, site): (usize, &AttentionSite)| (0..site.n_heads).map(move |head| Head { layer, head });
    Ok(layers.iter().enumerate().flat_map(of).collect())
}

/// Pads texts at the end to the longest: ids (batch, time), and the lengths.
pub fn pad(texts: &[Tokens]) -> Result<(Ids, Vec<usize>)> {
    let lengths: Vec<usize> = texts.iter().map(Tokens::len).collect();
    let time = lengths.iter().copied().max().unwrap_or(0);
    let mut ids = Vec::with_capacity(texts.len() * time);
    for text in texts {
        text.check()?;
        ids.extend_from_slice(&text.ids);
        ids.resize(ids.len() + time - text.len(), 0); // padding is masked
    }
    Ok((Ids::new(&ids, [texts.len(), time])?, lengths))
}

/// The logits of a model for texts, as [`Shown::read`] returns them; an error if the model has no head.
pub fn scores(model: &dyn Model, context: &Context, ids: &Ids, lengths: &[usize]) -> Result<Tensor> {
    Shown::padded(ids.clone(), lengths.to_vec()).scores(model, context)
}

/// A prediction to explain: one class at one position, optionally compared with another class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// The position of the prediction. For models that classify a whole text: the position that the classifier reads, if
    /// there is one (BERT: 0).
    pub position: Option<usize>,
    /// The class or token.
    pub class: usize,
    /// The class whose logit is subtracted, if the target is a difference of logits.
    pub against: Option<usize>,
}

impl Target {
    /// The logit of a class at a position.
    pub fn at(position: usize, class: usize) -> Self {
        Self { position: Some(position), class, against: None }
    }

    /// The logit (or difference of logits) of each example, (batch), from scores (batch, time or 1, classes).
    pub fn logit(&self, scores: &Tensor) -> Result<Tensor> {
        let [_, time, classes] = scores.shape()[..] else {
            let problem = format!("scores must be (batch, time, classes), got {}", scores.shape());
            return Err(Error::input("analysis", problem));
        };
        let position = if time == 1 { 0 } else { self.position.unwrap_or(time) };
        let worst = self.class.max(self.against.unwrap_or(0));
        if position >= time || worst >= classes {
            let problem = format!(
                "the target is class {worst} at position {:?}, but there are {time} positions and {classes} classes",
                self.position
            );
            return Err(Error::input("analysis", problem));
        }
        let here = scores.select(1, position)?; // (B, V)
        let logit = here.select(1, self.class)?;
        match self.against {
            Some(other) => Ok(logit.subtract(&here.select(1, other)?)?),
            None => Ok(logit),
        }
    }
}
