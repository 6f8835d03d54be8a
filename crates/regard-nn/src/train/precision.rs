//! The type of activations in training, as configurations name it.

use regard_tensor::DataType;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The type of the activations and of the products. Parameters, sums, losses and the optimiser are f32 in any case.
///
/// ```
/// use regard_nn::train::Precision;
/// assert_eq!("bf16".parse(), Ok(Precision::Bf16));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Precision {
    /// IEEE single precision.
    #[default]
    F32,
    /// The upper half of single precision. Needs a CUDA device: the CPU computes in f32.
    Bf16,
}

impl Precision {
    /// Whether it is single precision.
    // Serde passes a reference.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    pub fn is_f32(&self) -> bool {
        *self == Self::F32
    }

    /// Its name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Precision {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let all = [Self::F32, Self::Bf16];
        all.into_iter().find(|one| one.name() == name).ok_or_else(|| "expected f32 or bf16".to_owned())
    }
}

impl From<Precision> for DataType {
    fn from(precision: Precision) -> Self {
        match precision {
            Precision::F32 => Self::F32,
            Precision::Bf16 => Self::Bf16,
        }
    }
}
