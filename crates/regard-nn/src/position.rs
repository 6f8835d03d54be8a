//! How a model knows where a word stands.
//!
//! ```text
//! sinusoidal   PE(p, 2i) = sin(p / 10000^(2i/d)),  PE(p, 2i+1) = cos(…)                (Vaswani et al., 2017)
//! rotary       pairs of features of q and k turn by p·base^(−2i/d)                      (Su et al., 2021)
//! ALiBi        score − slope·|distance|                                                 (Press et al., 2021)
//! relative     score + table[bucket(distance)]                                          (Raffel et al., 2019)
//! ```

mod rotary;

pub use rotary::{Rotary, RotaryConfig, RotaryScaling, Rotation};

use crate::attention::MultiHead;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::layers::Embedding;
use crate::models::AttentionSite;
use crate::parameter::{Draw, Initial, Parameter, module};
use regard_tensor::ops::{Bias, Pairing};
use regard_tensor::{Ids, Tensor};
use serde::{Deserialize, Serialize};

/// A way to tell positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Position {
    /// None: order is invisible, save through a causal mask.
    None,
    /// Fixed waves added to the embeddings.
    Sinusoidal,
    /// A learned vector for each place, added to the embeddings.
    Learned,
    /// Queries and keys turned by their place, features paired half a head apart (GPT-NeoX, Llama).
    Rotary,
    /// The same with neighbouring features paired (RoFormer, GPT-J).
    RotaryInterleaved,
    /// A penalty that grows with distance.
    Alibi,
    /// A learned bias by distance.
    Relative,
}

impl Position {
    /// Whether it acts inside attention, rather than on the embeddings.
    pub fn acts_in_attention(self) -> bool {
        self.pairing().is_some() || self.adds_bias()
    }

    /// Whether it adds something to attention's scores.
    pub fn adds_bias(self) -> bool {
        matches!(self, Self::Alibi | Self::Relative)
    }

    /// Which features are turned together, if queries and keys are turned at all.
    pub fn pairing(self) -> Option<Pairing> {
        match self {
            Self::Rotary => Some(Pairing::Halves),
            Self::RotaryInterleaved => Some(Pairing::Interleaved),
            _ => None,
        }
    }
}

/// The sinusoidal encoding of places (their count, width): sines at even features, cosines at odd ones.
pub fn sinusoidal(positions: &Ids, width: usize) -> Result<Tensor> {
    let shape: Vec<usize> = positions.shape().iter().copied().chain([width]).collect();
    Ok(Tensor::new(&waves(positions.values(), width), shape)?)
}

/// The values of [`sinusoidal`].
pub(crate) fn waves(positions: &[u32], width: usize) -> Vec<f32> {
    let wave = |position: u32, feature: usize| {
        let angle = f64::from(position) / 10_000_f64.powf((feature / 2 * 2) as f64 / width as f64);
        if feature.is_multiple_of(2) { angle.sin() as f32 } else { angle.cos() as f32 }
    };
    positions.iter().flat_map(|&position| (0..width).map(move |feature| wave(position, feature))).collect()
}

/// The same with all sines before all cosines, as Marian has them.
pub(crate) fn waves_by_halves(positions: &[u32], width: usize) -> Vec<f32> {
    let order: Vec<usize> = (0..width).step_by(2).chain((1..width).step_by(2)).collect();
    let waves = waves(positions, width);
    waves.chunks(width.max(1)).flat_map(|row| order.iter().map(|&at| row[at])).collect()
}

/// ALiBi's slopes: 2^(−8/n), 2^(−16/n), … for n heads, n a power of two; otherwise those of the power below, followed
/// by every other one of the power above.
pub fn alibi_slopes(n_heads: usize) -> Vec<f32> {
    let geometric = |n: usize| (1..=n).map(move |i| 2_f64.powf(-8.0 * i as f64 / n as f64) as f32);
    if n_heads == 0 {
        return Vec::new();
    }
    let below = 1 << n_heads.ilog2();
    geometric(below).chain(geometric(2 * below).step_by(2)).take(n_heads).collect()
}

/// T5's bucket of a distance (key position − query position): half of them exact, the others growing in size up to a
/// maximum distance, beyond which all share the last.
pub fn relative_bucket(distance: i64, buckets: usize, max_distance: usize, bidirectional: bool) -> u32 {
    let mut buckets = buckets as i64;
    let mut bucket = 0;
    let distance = if bidirectional {
        buckets /= 2;
        bucket += if distance > 0 { buckets } else { 0 };
        distance.saturating_abs()
    } else {
        distance.saturating_neg().max(0)
    };
    let exact = (buckets / 2).max(1);
    if distance < exact.min(buckets) {
        return (bucket + distance) as u32;
    }
    // In single precision, as the original does it: a boundary decided otherwise would be another model.
    let ratio = (distance as f32 / exact as f32).ln() / (max_distance as f32 / exact as f32).ln();
    let far = exact.saturating_add((ratio * (buckets - exact) as f32) as i64);
    (bucket + far.min(buckets - 1).max(0)) as u32
}

/// The row that a distance (query position − key position) has in DeBERTa's table of `2·span` vectors: the one of
/// distance 0 in the middle, half of them exact, the others for distances that grow up to a maximum; all exact if there
/// is none.
pub fn disentangled_row(distance: i64, span: usize, max_distance: Option<usize>) -> u32 {
    let half = span as i64 / 2;
    let bucket = match max_distance {
        Some(far) if distance.abs() > half => {
            // In single precision, as the original does it.
            let logarithm = |distance: f64| ((distance / half as f64) as f32).ln();
            let ratio = logarithm(distance.abs() as f64) / logarithm(far as f64 - 1.0);
            ((ratio * (half - 1) as f32).ceil() as i64 + half) * distance.signum()
        }
        _ => distance,
    };
    (bucket + span as i64).clamp(0, 2 * span as i64 - 1) as u32
}

/// The sizes that positions of any kind need.
#[derive(Debug, Clone, Copy)]
pub struct PositionSizes {
    /// The most positions a learned table has.
    pub context: usize,
    /// The width of the model.
    pub d_model: usize,
    /// The number of heads.
    pub n_heads: usize,
    /// The width of a head.
    pub d_head: usize,
    /// Whether distances to later positions matter.
    pub bidirectional: bool,
}

/// A model's positions, with what is learned about them.
#[derive(Debug, Clone)]
pub struct Positions {
    kind: Position,
    sizes: PositionSizes,
    table: Option<Embedding>,
    relative: Option<Parameter>,
    rotary: Option<Rotary>,
    /// What fixed waves are multiplied with.
    size: f32,
}

module!(Positions { table, relative });

/// T5's numbers.
const BUCKETS: usize = 32;
const MAX_DISTANCE: usize = 128;

impl Positions {
    /// Positions of a kind, learned ones with normal initial values of this deviation.
    ///
    /// Fixed waves are made as large, so that they do not drown the embeddings they are added to, which begin with the same
    /// deviation: the first transformer multiplied its embeddings by √d instead, to the same end.
    pub fn new(initial: &Initial, kind: Position, sizes: PositionSizes, deviation: f32) -> Result<Self> {
        let PositionSizes { context, d_model, n_heads, d_head, .. } = sizes;
        if kind.pairing().is_some() && !d_head.is_multiple_of(2) {
            let problem = format!("the width of a head ({d_head}) must be even");
            return Err(Error::configuration("rotary positions", problem));
        }
        let table = match kind {
            Position::Learned => {
                Some(Embedding::new(&initial.part("table"), (context, d_model), Draw::Normal(deviation))?)
            }
            _ => None,
        };
        let relative = match kind {
            Position::Relative => {
                Some(initial.parameter("relative", [BUCKETS, n_heads], Draw::Normal(deviation))?)
            }
            _ => None,
        };
        let rotary =
            kind.pairing().map(|pairing| Rotary::new(d_head, 10_000.0, RotaryScaling::None, pairing));
        Ok(Self { kind, sizes, table, relative, rotary, size: deviation })
    }

    /// The most positions that can be distinguished, if there is a limit.
    pub fn limit(&self) -> Option<usize> {
        (self.kind == Position::Learned).then_some(self.sizes.context)
    }

    /// The only attention of a small model with these positions.
    pub(crate) fn site<'a>(&self, attention: &'a MultiHead) -> AttentionSite<'a> {
        let (rotary, biased) = (self.kind.pairing().is_some(), self.kind.adds_bias());
        AttentionSite { rotary, biased, ..AttentionSite::only(attention) }
    }

    /// Embeddings (batch, time, width) with what is added for their places (batch or 1, time).
    pub fn add(&self, context: &Context, x: &Tensor, positions: &Ids) -> Result<Tensor> {
        match (&self.table, self.kind) {
            (Some(table), _) => Ok(x.add(&table.forward(context, positions)?)?),
            (None, Position::Sinusoidal) => {
                Ok(x.add(&sinusoidal(positions, x.shape().last())?.to(x.device())?.scale(self.size)?)?)
            }
            _ => Ok(x.clone()),
        }
    }

    /// The turn of queries and keys at these places (batch or 1, time).
    pub fn rotation(&self, positions: &Ids, batch: usize) -> Result<Option<Rotation>> {
        self.rotary.as_ref().map(|rotary| rotary.rotation(positions, batch)).transpose()
    }

    /// What is added to the scores of `queries` against `keys`, the last query standing at the last key.
    pub fn bias(&self, context: &Context, queries: usize, keys: usize) -> Result<Bias> {
        match (self.kind, &self.relative) {
            (Position::Alibi, _) => {
                let slopes = alibi_slopes(self.sizes.n_heads);
                Ok(Bias::Slopes(Tensor::new(&slopes, [slopes.len()])?))
            }
            (_, Some(table)) => relative_bias(
                &context.parameter(table),
                (queries, keys),
                (BUCKETS, MAX_DISTANCE, self.sizes.bidirectional),
            ),
            _ => Ok(Bias::None),
        }
    }
}

/// T5's bias from a table (buckets, heads).
pub fn relative_bias(
    table: &Tensor,
    (queries, keys): (usize, usize),
    (buckets, max_distance, bidirectional): (usize, usize, bool),
) -> Result<Bias> {
    // Entry i is for query position − key position = i + 1 − queries; buckets count the other way.
    let span = (queries + keys).saturating_sub(1);
    let ids: Vec<u32> = (0..span as i64)
        .map(|i| relative_bucket(queries as i64 - 1 - i, buckets, max_distance, bidirectional))
        .collect();
    Ok(Bias::Buckets { table: table.clone(), buckets: Ids::new(&ids, [span])? })
}
