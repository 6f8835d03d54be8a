//! Rotary positions as configurations have them.

use super::options::Options;
use crate::error::{Error, Result};
use crate::position::{RotaryConfig, RotaryScaling};
use serde_json::{Map, Value, json};

/// The base of the frequencies and their scaling, from the new form (`rope_parameters`) or the old (`rope_theta`,
/// `rope_scaling`).
pub(super) fn read(options: &mut Options) -> Result<(f32, RotaryScaling)> {
    let theta = options.take::<f32>("rope_theta")?;
    let old = options.take::<Map<String, Value>>("rope_scaling")?;
    let new = options.take::<Map<String, Value>>("rope_parameters")?;
    if old.as_ref().is_some_and(|old| new.as_ref().is_some_and(|new| new != old)) {
        return Err(Error::checkpoint("config.json has both rope_scaling and rope_parameters: remove one"));
    }
    let Some(parameters) = new.or(old) else {
        return Ok((theta.unwrap_or(10_000.0), RotaryScaling::None));
    };
    let mut parameters = Options::new(parameters);
    let base = parameters.take::<f32>("rope_theta")?.or(theta).unwrap_or(10_000.0);
    let kind: Option<String> = parameters.take("rope_type")?;
    let older: Option<String> = parameters.take("type")?;
    let scaling = match kind.or(older).as_deref() {
        None | Some("default") => RotaryScaling::None,
        Some("linear") => RotaryScaling::Linear { factor: parameters.needed("factor")? },
        Some("llama3") => RotaryScaling::Llama3 {
            factor: parameters.needed("factor")?,
            low: parameters.needed("low_freq_factor")?,
            high: parameters.needed("high_freq_factor")?,
            original: parameters.size("original_max_position_embeddings")?,
        },
        Some(other) => {
            return Err(Error::checkpoint(format!(
                "config.json: rotary scaling {other:?} is not implemented; default, linear and llama3 are"
            )));
        }
    };
    parameters.only("partial_rotary_factor", 1.0)?;
    parameters.finish()?;
    if !(base > 0.0 && base.is_finite()) {
        return Err(Error::checkpoint(format!("config.json: rope_theta is {base}")));
    }
    Ok((base, scaling))
}

/// The new form.
pub(super) fn write(rotary: &RotaryConfig) -> Value {
    let mut rope = match rotary.scaling {
        RotaryScaling::None => json!({"rope_type": "default"}),
        RotaryScaling::Linear { factor } => json!({"rope_type": "linear", "factor": factor}),
        RotaryScaling::Llama3 { factor, low, high, original } => json!({
            "rope_type": "llama3",
            "factor": factor,
            "low_freq_factor": low,
            "high_freq_factor": high,
            "original_max_position_embeddings": original,
        }),
    };
    rope["rope_theta"] = json!(rotary.base);
    rope
}
