//! Rotary positions as configurations have them.

use super::options::Options;
use crate::error::{Error, Result};
use crate::position::{RotaryConfig, RotaryScaling};
use serde_json::{Map, Value, json};

/// What a family has where a configuration says nothing, and the sizes that scalings depend on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Defaults {
    /// The base of the frequencies.
    pub base: f32,
    /// The share of a head's features that are rotated.
    pub partial: f64,
    /// The width of a head.
    pub d_head: usize,
    /// The number of tokens that the model was made for.
    pub context: usize,
}

/// Rotary positions from the new form (`rope_parameters`) or the old (`rope_theta`, `rope_scaling`).
pub(super) fn read(options: &mut Options, defaults: Defaults) -> Result<RotaryConfig> {
    let theta = options.take::<f32>("rope_theta")?;
    let partial = options.take::<f64>("partial_rotary_factor")?;
    let original = options.optional_size("original_max_position_embeddings")?;
    let old = options.take::<Map<String, Value>>("rope_scaling")?;
    let new = options.take::<Map<String, Value>>("rope_parameters")?;
    if old.as_ref().is_some_and(|old| new.as_ref().is_some_and(|new| new != old)) {
        return Err(Error::checkpoint("config.json has both rope_scaling and rope_parameters: remove one"));
    }
    let defaults = Defaults {
        base: theta.unwrap_or(defaults.base),
        partial: partial.unwrap_or(defaults.partial),
        ..defaults
    };
    parse(new.or(old).unwrap_or_default(), original, defaults)
}

/// Rotary positions from the parameters alone; `original` takes precedence over theirs.
pub(super) fn parse(
    parameters: Map<String, Value>,
    original: Option<usize>,
    defaults: Defaults,
) -> Result<RotaryConfig> {
    let mut parameters = Options::new(parameters);
    let base = parameters.take::<f32>("rope_theta")?.unwrap_or(defaults.base);
    let partial = parameters.take::<f64>("partial_rotary_factor")?.unwrap_or(defaults.partial);
    let kind: Option<String> = parameters.take("rope_type")?;
    let older: Option<String> = parameters.take("type")?;
    let kind = kind.or(older);
    let scaling = scaling(kind.as_deref(), &mut parameters, original, defaults.context)?;
    parameters.finish()?;
    if !(base > 0.0 && base.is_finite()) {
        return Err(Error::checkpoint(format!("config.json: rope_theta is {base}")));
    }
    if !(0.0..=1.0).contains(&partial) {
        return Err(Error::checkpoint(format!("config.json: the share of rotated features is {partial}")));
    }
    let width = (defaults.d_head as f64 * partial) as usize;
    let width = (width != defaults.d_head).then_some(width);
    Ok(RotaryConfig { base, width, scaling, interleaved: false })
}

fn scaling(
    kind: Option<&str>,
    parameters: &mut Options,
    original: Option<usize>,
    context: usize,
) -> Result<RotaryScaling> {
    let theirs = parameters.optional_size("original_max_position_embeddings")?;
    let original = original.or(theirs).unwrap_or(context);
    let ratio = context as f32 / original as f32;
    Ok(match kind {
        None | Some("default") => RotaryScaling::None,
        Some("linear") => RotaryScaling::Linear { factor: parameters.needed("factor")? },
        // It begins to grow at the context that the model was made for.
        Some("dynamic") => RotaryScaling::Dynamic { factor: parameters.needed("factor")?, original: context },
        Some("yarn") => {
            let factor = parameters.real("factor", ratio)?;
            let size = |of: f32| if factor <= 1.0 { 1.0 } else { 0.1 * of * factor.ln() + 1.0 };
            let (one, all) = (parameters.real("mscale", 0.0)?, parameters.real("mscale_all_dim", 0.0)?);
            let usual = if one != 0.0 && all != 0.0 { size(one) / size(all) } else { size(1.0) };
            RotaryScaling::Yarn {
                factor,
                original,
                fast: parameters.real("beta_fast", 32.0)?,
                slow: parameters.real("beta_slow", 1.0)?,
                truncate: parameters.take_or("truncate", true)?,
                size: parameters.real("attention_factor", usual)?,
            }
        }
        Some("longrope") => {
            let factor = parameters.real("factor", ratio)?;
            let usual = if factor <= 1.0 { 1.0 } else { (1.0 + factor.ln() / (original as f32).ln()).sqrt() };
            RotaryScaling::LongRope {
                short: parameters.take_or("short_factor", Vec::new())?,
                long: parameters.take_or("long_factor", Vec::new())?,
                original,
                size: parameters.real("attention_factor", usual)?,
            }
        }
        Some("llama3") => RotaryScaling::Llama3 {
            factor: parameters.needed("factor")?,
            low: parameters.needed("low_freq_factor")?,
            high: parameters.needed("high_freq_factor")?,
            original,
        },
        Some(other) => {
            return Err(Error::checkpoint(format!(
                "config.json: rotary scaling {other:?} is not implemented; default, linear, dynamic, yarn, longrope and \
                 llama3 are"
            )));
        }
    })
}

/// The new form, for heads of this width.
pub(super) fn write(rotary: &RotaryConfig, d_head: usize) -> Value {
    let mut rope = match &rotary.scaling {
        RotaryScaling::None => json!({"rope_type": "default"}),
        RotaryScaling::Linear { factor } => json!({"rope_type": "linear", "factor": factor}),
        RotaryScaling::Dynamic { factor, .. } => json!({"rope_type": "dynamic", "factor": factor}),
        RotaryScaling::Yarn { factor, original, fast, slow, truncate, size } => json!({
            "rope_type": "yarn",
            "factor": factor,
            "original_max_position_embeddings": original,
            "beta_fast": fast,
            "beta_slow": slow,
            "truncate": truncate,
            "attention_factor": size,
        }),
        RotaryScaling::LongRope { short, long, original, size } => json!({
            "rope_type": "longrope",
            "short_factor": short,
            "long_factor": long,
            "original_max_position_embeddings": original,
            "attention_factor": size,
        }),
        RotaryScaling::Llama3 { factor, low, high, original } => json!({
            "rope_type": "llama3",
            "factor": factor,
            "low_freq_factor": low,
            "high_freq_factor": high,
            "original_max_position_embeddings": original,
        }),
    };
    rope["rope_theta"] = json!(rotary.base);
    if let Some(width) = rotary.width {
        rope["partial_rotary_factor"] = json!(width as f64 / d_head as f64);
    }
    rope
}
