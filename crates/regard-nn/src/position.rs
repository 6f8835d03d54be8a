//! How a model knows where a word stands.
//!
//! ```text
//! sinusoidal   PE(p, 2i) = sin(p / 10000^(2i/d)),  PE(p, 2i+1) = cos(…)                (Vaswani et al., 2017)
//! rotary       pairs of features of q and k turn by p·base^(−2i/d)                      (Su et al., 2021)
//! ALiBi        score − slope·|distance|                                                 (Press et al., 2021)
//! relative     score + table[bucket(distance)]                                          (Raffel et al., 2019)
//! ```

use crate::attention::MultiHead;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::layers::Embedding;
use crate::models::AttentionSite;
use crate::parameter::{Draw, Initial, Parameter, module};
use regard_tensor::ops::{Bias, Pairing};
use regard_tensor::{Device, Ids, Tensor};
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
    let mut values = Vec::with_capacity(positions.values().len() * width);
    for &position in positions.values() {
        for feature in 0..width {
            let angle = f64::from(position) / 10_000_f64.powf((feature / 2 * 2) as f64 / width as f64);
            values.push(if feature % 2 == 0 { angle.sin() } else { angle.cos() } as f32);
        }
    }
    let shape: Vec<usize> = positions.shape().iter().copied().chain([width]).collect();
    Ok(Tensor::new(&values, shape)?)
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

/// How the frequencies of rotary positions are changed to read longer texts than a model was trained on.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum RotaryScaling {
    /// Not at all.
    #[default]
    None,
    /// All positions divided by a factor (Chen et al., 2023).
    Linear {
        /// The factor.
        factor: f32,
    },
    /// Llama 3: low frequencies divided by a factor, high ones kept, a smooth passage between them.
    Llama3 {
        /// The factor.
        factor: f32,
        /// Waves longer than the original context over this are slowed down in full.
        low: f32,
        /// Waves shorter than the original context over this are kept.
        high: f32,
        /// The context before the change.
        original: usize,
    },
}

/// Rotary positions, described.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RotaryConfig {
    /// The base of the frequencies.
    pub base: f32,
    /// How many features of a head are rotated; all if not given.
    #[serde(default)]
    pub width: Option<usize>,
    /// How frequencies are changed for longer texts.
    #[serde(default)]
    pub scaling: RotaryScaling,
    /// Whether neighbouring features are paired (GPT-J) rather than features half a head apart (GPT-NeoX, Llama).
    #[serde(default)]
    pub interleaved: bool,
}

impl Default for RotaryConfig {
    fn default() -> Self {
        Self { base: 10_000.0, width: None, scaling: RotaryScaling::None, interleaved: false }
    }
}

impl RotaryConfig {
    /// Fails unless these numbers give frequencies for heads of this width.
    pub(crate) fn check(&self, d_head: usize) -> Result<()> {
        let width = self.width.unwrap_or(d_head);
        if width > d_head || !width.is_multiple_of(2) || width == 0 {
            let problem = match self.width {
                None => format!("the width of a head ({d_head}) must be even"),
                Some(width) => format!("{width} rotated features of {d_head} must be an even number of them"),
            };
            return Err(Error::configuration("rotary positions", problem));
        }
        self.scaling.check(self.base)
    }

    /// The frequencies for heads of this width.
    pub fn rotary(&self, d_head: usize) -> Rotary {
        let pairing = if self.interleaved { Pairing::Interleaved } else { Pairing::Halves };
        Rotary::new(self.width.unwrap_or(d_head), self.base, self.scaling, pairing)
    }
}

/// Rotary positions: the frequency of each pair of features.
#[derive(Debug, Clone)]
pub struct Rotary {
    frequencies: Vec<f32>,
    pairing: Pairing,
}

impl Rotary {
    /// Frequencies base^(−2i/width) for the pairs of `width` features.
    pub fn new(width: usize, base: f32, scaling: RotaryScaling, pairing: Pairing) -> Self {
        let frequency = |i: usize| 1.0 / base.powf((2 * i) as f32 / width as f32);
        let frequencies = (0..width / 2).map(|i| scaling.apply(frequency(i))).collect();
        Self { frequencies, pairing }
    }

    /// The rotation for these places (batch or 1, time) in a batch.
    pub fn rotation(&self, positions: &Ids, batch: usize) -> Result<Rotation> {
        let first = positions.values().iter().min().copied().unwrap_or(0);
        let last = positions.values().iter().max().copied().unwrap_or(0);
        let pairs = self.frequencies.len();
        let angles = (first..=last).flat_map(|p| self.frequencies.iter().map(move |f| p as f32 * f));
        let (sin, cos): (Vec<f32>, Vec<f32>) = angles.map(f32::sin_cos).unzip();
        let rows = (last - first) as usize + 1;
        let time = positions.shape().last();
        let copies = if positions.shape().rows() == batch { 1 } else { batch };
        let relative: Vec<u32> = positions.values().iter().map(|p| p - first).collect();
        Ok(Rotation {
            cos: Tensor::new(&cos, [rows, pairs])?,
            sin: Tensor::new(&sin, [rows, pairs])?,
            rows: Ids::new(&relative.repeat(copies), [batch, time])?,
            pairing: self.pairing,
        })
    }
}

impl RotaryScaling {
    /// Fails unless these numbers, and a base, give frequencies.
    pub(crate) fn check(self, base: f32) -> Result<()> {
        let positive = |value: f32| value > 0.0 && value.is_finite();
        let problem = match self {
            _ if !positive(base) => format!("the base must be a number above 0, got {base}"),
            Self::Linear { factor } | Self::Llama3 { factor, .. } if !positive(factor) => {
                format!("the factor must be a number above 0, got {factor}")
            }
            Self::Llama3 { low, high, .. } if !(positive(low) && positive(high) && low < high) => {
                format!("the low limit must be above 0 and below the high one, got {low} and {high}")
            }
            _ => return Ok(()),
        };
        Err(Error::configuration("rotary positions", problem))
    }

    fn apply(self, frequency: f32) -> f32 {
        match self {
            Self::None => frequency,
            Self::Linear { factor } => frequency / factor,
            Self::Llama3 { factor, low, high, original } => {
                let wave = 2.0 * std::f32::consts::PI / frequency;
                let original = original as f32;
                if wave < original / high {
                    frequency
                } else if wave > original / low {
                    frequency / factor
                } else {
                    let smooth = (original / wave - low) / (high - low);
                    (1.0 - smooth) * frequency / factor + smooth * frequency
                }
            }
        }
    }
}

/// The turns of some places, ready to apply to queries and keys.
#[derive(Debug, Clone)]
pub struct Rotation {
    cos: Tensor,
    sin: Tensor,
    rows: Ids,
    pairing: Pairing,
}

impl Rotation {
    /// The same on a device.
    pub(crate) fn on(self, device: Device) -> Result<Self> {
        Ok(Self { cos: self.cos.to(device)?, sin: self.sin.to(device)?, ..self })
    }

    /// Turns (batch, time, heads, width).
    pub fn apply(&self, x: &Tensor) -> Result<Tensor> {
        let device = x.device();
        Ok(x.rotary(&self.cos.to(device)?, &self.sin.to(device)?, &self.rows, self.pairing)?)
    }
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

    /// The most positions that can be told apart, if there is a limit.
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
