//! The types of values in `safetensors` files.

use crate::error::{Error, Result};
use regard_tensor::{DataType, External, Shape, Tensor, Values};
use safetensors::tensor::Dtype;

/// The engine's type for values that it can read as they are.
pub(super) fn data_type(dtype: Dtype) -> Option<DataType> {
    match dtype {
        Dtype::F32 => Some(DataType::F32),
        Dtype::BF16 => Some(DataType::Bf16),
        Dtype::F16 => Some(DataType::F16),
        _ => None,
    }
}

/// The type of the engine's values in a file.
pub(super) fn dtype(data_type: DataType) -> Dtype {
    match data_type {
        DataType::Bf16 => Dtype::BF16,
        DataType::F16 => Dtype::F16,
        _ => Dtype::F32,
    }
}

/// Values of another type that can be read, as f32.
pub(super) fn decoded(name: &str, dtype: Dtype, bytes: &[u8], shape: Shape) -> Result<Tensor> {
    if dtype != Dtype::F64 {
        let problem = format!("{name} is stored as {dtype:?}; f32, f16, bf16 and f64 can be read");
        return Err(Error::checkpoint(problem));
    }
    let (words, _) = bytes.as_chunks::<8>();
    let values: Vec<f32> = words.iter().map(|&word| f64::from_le_bytes(word) as f32).collect();
    Ok(Tensor::new(&values, shape)?)
}

/// Values of the engine's types, from their bytes.
pub(super) fn narrow(name: &str, data_type: DataType, bytes: &[u8], shape: &Shape) -> Result<Tensor> {
    match data_type {
        DataType::F32 => {
            let (words, _) = bytes.as_chunks::<4>();
            let values: Vec<f32> = words.iter().map(|&word| f32::from_le_bytes(word)).collect();
            Ok(Tensor::new(&values, shape.clone())?)
        }
        DataType::Bf16 | DataType::F16 => {
            let (words, _) = bytes.as_chunks::<2>();
            let bits = words.iter().map(|&word| u16::from_le_bytes(word)).collect();
            Ok(Tensor::external(Box::new(Bits { bits, data_type }), shape.clone())?)
        }
        other => Err(Error::checkpoint(format!("{name} is stored as {other:?}, which cannot be read"))),
    }
}

/// 16-bit values in memory.
struct Bits {
    bits: Vec<u16>,
    data_type: DataType,
}

impl External for Bits {
    fn values(&self) -> Values<'_> {
        match self.data_type {
            DataType::F16 => Values::F16(&self.bits),
            _ => Values::Bf16(&self.bits),
        }
    }
}
