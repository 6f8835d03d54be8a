//! What a transformer reads: tokens or patches of a picture.

use super::{one, yes};
use crate::error::{Error, Result};
use crate::layers::NormConfig;
use crate::models::sizes::{ensure_epsilon, ensure_sizes};
use serde::{Deserialize, Serialize};

/// What a transformer reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Input {
    /// Token ids.
    Tokens(Tokens),
    /// A picture, cut into patches.
    Patches(Patches),
}

/// The embedding of tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tokens {
    /// The number of tokens.
    pub vocabulary: usize,
    /// The number of token types (segments); 0 for none.
    #[serde(default)]
    pub types: usize,
    /// The width of the embeddings, projected to `d_model`, where it is another one.
    #[serde(default)]
    pub d_embedding: Option<usize>,
    /// When they are projected, if they are.
    #[serde(default)]
    pub projection: Projection,
    /// What embeddings are multiplied with.
    #[serde(default = "one")]
    pub scale: f32,
    /// A norm after positions and types have been added.
    #[serde(default)]
    pub norm: Option<NormConfig>,
    /// The token that a decoder starts an answer with.
    #[serde(default)]
    pub start: Option<u32>,
}

/// When embeddings of another width are projected to that of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Projection {
    /// After positions and types have been added and normed, with a bias (ELECTRA, ALBERT).
    #[default]
    AfterPositions,
    /// Before positions are added, without a bias (OPT).
    BeforePositions,
}

impl Tokens {
    /// A plain table.
    pub fn new(vocabulary: usize) -> Self {
        Self {
            vocabulary,
            types: 0,
            d_embedding: None,
            projection: Projection::default(),
            scale: 1.0,
            norm: None,
            start: None,
        }
    }

    fn check(&self) -> Result<()> {
        let width = self.d_embedding.unwrap_or(1);
        let sizes = [("vocabulary", self.vocabulary), ("d_embedding", width), ("types", self.types.max(1))];
        ensure_sizes("transformer", &sizes)?;
        if let Some(norm) = self.norm {
            ensure_epsilon("transformer", norm.epsilon)?;
        }
        let problem = match self.start {
            _ if !self.scale.is_finite() => {
                format!("the scale of embeddings must be a number, got {}", self.scale)
            }
            Some(start) if start as usize >= self.vocabulary => {
                format!("start is {start}, which is none of its {} tokens", self.vocabulary)
            }
            _ => return Ok(()),
        };
        Err(Error::configuration("transformer", problem))
    }
}

/// The embedding of a picture's patches, after learned tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Patches {
    /// The height and width of a picture in pixels.
    pub image: [usize; 2],
    /// The side of a patch in pixels.
    pub size: usize,
    /// The number of colour channels.
    pub channels: usize,
    /// Whether the projection of patches has a bias.
    #[serde(default = "yes")]
    pub bias: bool,
    /// Whether a learned class token stands before the patches.
    #[serde(default = "yes")]
    pub class: bool,
    /// Whether a second one follows it, which learns from a teacher (DeiT).
    #[serde(default)]
    pub distillation: bool,
    /// The number of learned tokens after those that have no position (DINOv2 with registers).
    #[serde(default)]
    pub registers: usize,
}

impl Patches {
    /// Patches after a class token.
    pub fn new(image: [usize; 2], size: usize, channels: usize) -> Self {
        Self { image, size, channels, bias: true, class: true, distillation: false, registers: 0 }
    }

    /// The number of tokens before the patches.
    pub fn first(&self) -> usize {
        usize::from(self.class) + usize::from(self.distillation) + self.registers
    }

    /// The rows and columns of patches.
    pub fn grid(&self) -> (usize, usize) {
        (self.image[0] / self.size.max(1), self.image[1] / self.size.max(1))
    }

    /// The number of patches.
    pub fn count(&self) -> usize {
        self.grid().0.saturating_mul(self.grid().1)
    }

    fn check(&self) -> Result<()> {
        let Self { image: [height, width], size, channels, registers, .. } = *self;
        let sizes = [("height", height), ("width", width), ("patch", size), ("channels", channels)];
        ensure_sizes("transformer", &sizes)?;
        ensure_sizes("transformer", &[("registers", registers.max(1))])?;
        if !self.class && (self.distillation || registers > 0) {
            let problem = "a distillation token or registers follow a class token";
            return Err(Error::configuration("transformer", problem));
        }
        if height.is_multiple_of(size) && width.is_multiple_of(size) {
            return Ok(());
        }
        let problem = format!("an image of {height}×{width} is not made of patches of {size}×{size}");
        Err(Error::configuration("transformer", problem))
    }
}

impl Input {
    pub(super) fn check(&self) -> Result<()> {
        match self {
            Self::Tokens(tokens) => tokens.check(),
            Self::Patches(patches) => patches.check(),
        }
    }
}
