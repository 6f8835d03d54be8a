//! What each head does, what a text's words do to an answer, and whether a head matters.
//!
//! Everything works on any [`Model`] with attention, bidirectional or causal, through the sites that a
//! [`Probe`](crate::Probe) sees; an encoder–decoder model has three [parts](Part) to look at. Functions return numbers; whoever calls them draws and prints.
//!
//! ```
//! use regard_nn::analysis::{Measure, Settings, Tokens, measure_heads};
//! use regard_nn::models::{GptConfig, Transformer};
//!
//! let sizes = GptConfig { vocabulary: 11, context: 8, n_layers: 2, n_heads: 2, d_model: 8, ..Default::default() };
//! let model = Transformer::new(sizes.form(), 0)?;
//! let texts = [Tokens::new(vec![3, 1, 4, 1, 5]), Tokens::new(vec![9, 2, 6])];
//! let table = measure_heads(&model, texts.into_iter().map(Ok), Settings::default())?;
//! let entropy = table.find(1, 0, Measure::RelativeEntropy).unwrap();
//! assert!(entropy.mean > 0.9, "untrained heads look at everyone alike");
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
pub mod statistics;
mod subject;

pub use crate::models::{Part, Visibility};
pub use heads::{Row, Settings, Table, Weighing};
pub use heads::{measure_heads, measure_planned, prefix_matching, repeated_random};
pub use labels::{Label, label_heads};
pub use measures::{Measure, Plan};
pub use subject::{Shown, Subject, attentions};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::models::{AttentionSite, Model};
use crate::tokens::Encoding;
use regard_tensor::{Ids, Tensor};
use std::sync::Arc;

/// The tokens of one text and what is to be known of each.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tokens {
    /// Their ids.
    pub ids: Vec<u32>,
    /// Whether a token is special, such as `[CLS]`.
    pub special: Vec<bool>,
    /// Whether it delimits: punctuation, or a special token that does.
    pub delimiter: Vec<bool>,
    /// What was read before: the text that these tokens answer, if a decoder says them.
    pub source: Option<Box<Tokens>>,
    /// The pixels that the tokens are patches of, (channels, height, width), if they are no text.
    pub pixels: Option<Arc<[f32]>>,
}

impl Tokens {
    /// Tokens of which none is special and none delimits.
    pub fn new(ids: Vec<u32>) -> Self {
        let flags = vec![false; ids.len()];
        Self { ids, special: flags.clone(), delimiter: flags, ..Self::default() }
    }

    /// The tokens of an encoded text; delimiters are those that [`delimits`] names.
    pub fn from_encoding(encoding: &Encoding) -> Self {
        Self {
            ids: encoding.ids.clone(),
            special: encoding.special.clone(),
            delimiter: encoding.pieces.iter().map(|piece| delimits(piece)).collect(),
            ..Self::default()
        }
    }

    /// The patches of a picture, as many as `count`, after those tokens that come first (of its class, …).
    pub fn of_picture(pixels: Arc<[f32]>, first: usize, count: usize) -> Self {
        // Every patch is another: no measure of repetition means anything here.
        let mut tokens = Self::new((0..(first + count) as u32).collect());
        tokens.special[..first].fill(true);
        Self { pixels: Some(pixels), ..tokens }
    }

    /// The same as an answer to a text.
    #[must_use]
    pub fn answering(self, source: Self) -> Self {
        Self { source: Some(Box::new(source)), ..self }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// How many there are together with those of what they answer.
    pub fn in_all(&self) -> usize {
        self.len() + self.source.as_ref().map_or(0, |source| source.len())
    }

    /// Fails if there are none or if the flags are not as many as the ids.
    pub fn check(&self) -> Result<()> {
        let count = self.ids.len();
        if count == 0 || self.special.len() != count || self.delimiter.len() != count {
            let problem = format!(
                "a text needs at least one token and a flag for each: {count} tokens, {} and {} flags",
                self.special.len(),
                self.delimiter.len()
            );
            return Err(Error::input("analysis", problem));
        }
        Ok(())
    }
}

/// Whether a piece delimits: it has one of `.,;:!?`, and neither letters nor digits.
pub fn delimits(piece: &str) -> bool {
    piece.contains(['.', ',', ';', ':', '!', '?']) && !piece.contains(char::is_alphanumeric)
}

/// One head: the index of its attention among [`attentions`], and its index there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Head {
    /// The layer.
    pub layer: usize,
    /// The head in it.
    pub head: usize,
}

/// All heads of a model, or of a part of it, in order.
pub fn all_heads<'a>(subject: impl Into<Subject<'a>>) -> Result<Vec<Head>> {
    let layers = attentions(subject)?;
    let of = |(layer, site): (usize, &AttentionSite)| (0..site.n_heads).map(move |head| Head { layer, head });
    Ok(layers.iter().enumerate().flat_map(of).collect())
}

/// Texts side by side, padded at the end to the longest: (batch, time), and their lengths.
pub fn pad(texts: &[Tokens]) -> Result<(Ids, Vec<usize>)> {
    let lengths: Vec<usize> = texts.iter().map(Tokens::len).collect();
    let time = lengths.iter().copied().max().unwrap_or(0);
    let mut ids = Vec::with_capacity(texts.len() * time);
    for text in texts {
        text.check()?;
        ids.extend_from_slice(&text.ids);
        ids.resize(ids.len() + time - text.len(), 0); // what stands there is never seen
    }
    Ok((Ids::new(&ids, [texts.len(), time])?, lengths))
}

/// The scores a model gives to texts, as [`Shown::read`] has them; an error if it has no head to score with.
pub fn scores(model: &dyn Model, context: &Context, ids: &Ids, lengths: &[usize]) -> Result<Tensor> {
    Shown::padded(ids.clone(), lengths.to_vec()).scores(model, context)
}

/// A chosen answer: one class at one place, perhaps against another class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// The place whose answer it is; for models that judge a text as a whole it is where they look last, if at one place
    /// (BERT: 0).
    pub position: Option<usize>,
    /// The class or token.
    pub class: usize,
    /// The class whose logit is taken from it, if it is a difference.
    pub against: Option<usize>,
}

impl Target {
    /// The logit of a class at a place.
    pub fn at(position: usize, class: usize) -> Self {
        Self { position: Some(position), class, against: None }
    }

    /// The logit (or difference) of each example, (batch), from scores (batch, time or 1, classes).
    pub fn logit(&self, scores: &Tensor) -> Result<Tensor> {
        let [_, time, classes] = scores.shape()[..] else {
            let problem = format!("scores must be (batch, time, classes), got {}", scores.shape());
            return Err(Error::input("analysis", problem));
        };
        let place = if time == 1 { 0 } else { self.position.unwrap_or(time) };
        let worst = self.class.max(self.against.unwrap_or(0));
        if place >= time || worst >= classes {
            let problem = format!(
                "the target is class {worst} at place {:?}, but there are {time} places and {classes} classes",
                self.position
            );
            return Err(Error::input("analysis", problem));
        }
        let here = scores.select(1, place)?; // (B, V)
        let logit = here.select(1, self.class)?;
        match self.against {
            Some(other) => Ok(logit.subtract(&here.select(1, other)?)?),
            None => Ok(logit),
        }
    }
}
