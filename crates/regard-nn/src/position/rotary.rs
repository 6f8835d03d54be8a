//! Rotary positions: pairs of features of queries and keys turn by angles proportional to the position.

use crate::error::{Error, Result};
use regard_tensor::ops::Pairing;
use regard_tensor::{Device, Ids, Tensor};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// How the frequencies of rotary positions are changed to read longer texts than a model was trained on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
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
    /// A base that grows with texts longer than the original context, so that low frequencies slow down most.
    Dynamic {
        /// How fast it grows.
        factor: f32,
        /// The context up to which nothing changes.
        original: usize,
    },
    /// YaRN (Peng et al., 2023): features that turn few times over the original context are slowed by a factor, those that
    /// turn often are kept, a ramp between them.
    Yarn {
        /// The factor.
        factor: f32,
        /// The context before the change.
        original: usize,
        /// Features that turn more often than this are kept.
        fast: f32,
        /// Features that turn less often than this are slowed in full.
        slow: f32,
        /// Whether the ramp begins and ends at whole features.
        truncate: bool,
        /// What queries and keys are multiplied with.
        size: f32,
    },
    /// LongRoPE (Ding et al., 2024): a factor for each frequency, one set for texts within the original context and one for
    /// longer ones.
    LongRope {
        /// Factors within the original context.
        short: Vec<f32>,
        /// Factors beyond it.
        long: Vec<f32>,
        /// The context before the change.
        original: usize,
        /// What queries and keys are multiplied with.
        size: f32,
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
        self.scaling.check(self.base, width)
    }

    /// The frequencies for heads of this width.
    pub fn rotary(&self, d_head: usize) -> Rotary {
        let pairing = if self.interleaved { Pairing::Interleaved } else { Pairing::Halves };
        Rotary::new(self.width.unwrap_or(d_head), self.base, self.scaling.clone(), pairing)
    }
}

/// Rotary positions of heads of a width.
#[derive(Debug, Clone)]
pub struct Rotary {
    width: usize,
    base: f32,
    scaling: RotaryScaling,
    pairing: Pairing,
}

impl Rotary {
    /// Frequencies base^(−2i/width) for the pairs of `width` features, changed by a scaling.
    pub fn new(width: usize, base: f32, scaling: RotaryScaling, pairing: Pairing) -> Self {
        Self { width, base, scaling, pairing }
    }

    /// The rotation for these places (batch or 1, time) in a batch.
    pub fn rotation(&self, positions: &Ids, batch: usize) -> Result<Rotation> {
        let first = positions.values().iter().min().copied().unwrap_or(0);
        let last = positions.values().iter().max().copied().unwrap_or(0);
        let [cos, sin] = self.turns(first..last + 1)?;
        let time = positions.shape().last();
        let copies = if positions.shape().rows() == batch { 1 } else { batch };
        let relative: Vec<u32> = positions.values().iter().map(|p| p - first).collect();
        let rows = Ids::new(&relative.repeat(copies), [batch, time])?;
        Ok(Rotation { cos, sin, rows, pairing: self.pairing })
    }

    /// The same in a text of `room` tokens, for places that may be in a slot.
    pub(crate) fn rotation_in(&self, positions: &Ids, batch: usize, room: usize) -> Result<Rotation> {
        match positions.is_slot() && !self.depends_on_length() {
            true => self.rotation_within(positions, room),
            false => self.rotation(positions, batch),
        }
    }

    fn depends_on_length(&self) -> bool {
        matches!(self.scaling, RotaryScaling::Dynamic { .. } | RotaryScaling::LongRope { .. })
    }

    /// The turns of positions (batch, time) that are not known yet, but below `room`. Fails if they depend on how long the
    /// text is.
    pub(crate) fn rotation_within(&self, positions: &Ids, room: usize) -> Result<Rotation> {
        if self.depends_on_length() {
            let problem = "frequencies that depend on the text's length cannot be recorded";
            return Err(Error::configuration("rotary positions", problem));
        }
        let [cos, sin] = self.turns(0..room as u32)?;
        Ok(Rotation { cos, sin, rows: positions.clone(), pairing: self.pairing })
    }

    /// Cosines and sines (positions, pairs) of a range of positions, the last of which ends a text.
    fn turns(&self, positions: Range<u32>) -> Result<[Tensor; 2]> {
        let frequencies = self.scaling.frequencies(self.base, self.width, positions.end as usize);
        let shape = [positions.len(), frequencies.len()];
        let angles = positions.flat_map(|p| frequencies.iter().map(move |f| p as f32 * f));
        let size = self.scaling.size();
        let turn = |angle: f32| (angle.sin() * size, angle.cos() * size);
        let (sin, cos): (Vec<f32>, Vec<f32>) = angles.map(turn).unzip();
        Ok([Tensor::new(&cos, shape)?, Tensor::new(&sin, shape)?])
    }
}

impl RotaryScaling {
    /// Fails unless these numbers, a base and a number of rotated features give frequencies.
    pub(crate) fn check(&self, base: f32, width: usize) -> Result<()> {
        let positive = |value: f32| value > 0.0 && value.is_finite();
        let problem = match self {
            _ if !positive(base) => format!("the base must be a number above 0, got {base}"),
            Self::Linear { factor }
            | Self::Llama3 { factor, .. }
            | Self::Dynamic { factor, .. }
            | Self::Yarn { factor, .. }
                if !positive(*factor) =>
            {
                format!("the factor must be a number above 0, got {factor}")
            }
            Self::Llama3 { low, high, .. } if !(positive(*low) && positive(*high) && low < high) => {
                format!("the low limit must be above 0 and below the high one, got {low} and {high}")
            }
            Self::Yarn { fast, slow, .. } if !(positive(*fast) && positive(*slow)) => {
                format!("the numbers of turns must be above 0, got {fast} and {slow}")
            }
            Self::Yarn { size, .. } | Self::LongRope { size, .. } if !positive(*size) => {
                format!("the size of rotated vectors must be a number above 0, got {size}")
            }
            Self::Dynamic { original: 0, .. } | Self::Yarn { original: 0, .. } => {
                "the original context must be at least 1".to_owned()
            }
            Self::Dynamic { .. } if width < 4 => {
                "a base that grows needs at least 4 rotated features".to_owned()
            }
            Self::Yarn { .. } if base == 1.0 => "a base of 1 has one frequency only".to_owned(),
            Self::LongRope { short, long, .. }
                if [short, long]
                    .iter()
                    .any(|all| all.len() != width / 2 || !all.iter().all(|f| positive(*f))) =>
            {
                format!("{} factors above 0 are needed, got {} and {}", width / 2, short.len(), long.len())
            }
            _ => return Ok(()),
        };
        Err(Error::configuration("rotary positions", problem))
    }

    /// What rotated vectors are multiplied with.
    fn size(&self) -> f32 {
        match self {
            Self::Yarn { size, .. } | Self::LongRope { size, .. } => *size,
            _ => 1.0,
        }
    }

    /// The frequencies of `width / 2` pairs in texts of a length.
    fn frequencies(&self, base: f32, width: usize, length: usize) -> Vec<f32> {
        let all = |base: f32| (0..width / 2).map(move |i| 1.0 / base.powf((2 * i) as f32 / width as f32));
        match self {
            Self::None => all(base).collect(),
            Self::Linear { factor } => all(base).map(|frequency| frequency / factor).collect(),
            Self::Llama3 { .. } => all(base).map(|frequency| self.smoothed(frequency)).collect(),
            Self::Dynamic { factor, original } => {
                let ratio = length.max(*original) as f32 / *original as f32;
                let growth = (factor * ratio - (factor - 1.0)).powf(width as f32 / (width as f32 - 2.0));
                all(base * growth).collect()
            }
            Self::LongRope { short, long, original, .. } => {
                let factors = if length > *original { long } else { short };
                all(base).zip(factors).map(|(frequency, factor)| frequency / factor).collect()
            }
            Self::Yarn { factor, original, fast, slow, truncate, .. } => {
                // The feature that turns so many times over the original context.
                let feature = |turns: f32| {
                    let context = *original as f64 / (f64::from(turns) * 2.0 * std::f64::consts::PI);
                    width as f64 * context.ln() / (2.0 * f64::from(base).ln())
                };
                let (from, to) = (feature(*fast), feature(*slow));
                let (from, to) = if *truncate { (from.floor(), to.ceil()) } else { (from, to) };
                let (from, to) = (from.max(0.0), to.min(width as f64 - 1.0));
                let to = if from == to { to + 0.001 } else { to };
                let slowed = |i: usize| ((i as f64 - from) / (to - from)).clamp(0.0, 1.0) as f32;
                let mixed = |(i, f): (usize, f32)| f / factor * slowed(i) + f * (1.0 - slowed(i));
                all(base).enumerate().map(mixed).collect()
            }
        }
    }

    /// Llama 3's change of a frequency.
    fn smoothed(&self, frequency: f32) -> f32 {
        let Self::Llama3 { factor, low, high, original } = *self else { return frequency };
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
