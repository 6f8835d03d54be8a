//! The type in which a model is written: that of the file it was read from, wherever nothing is lost by it.

use crate::error::Result;
use crate::models::Model;
use regard_tensor::{DataType, Tensor};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The type that most values of a model's parameters have.
pub(super) fn of(model: &dyn Model) -> DataType {
    let count = |wanted| {
        let all = model.parameters().into_iter().map(|(_, parameter)| parameter.tensor());
        all.filter(|tensor| tensor.data_type() == wanted).map(Tensor::count).sum::<usize>()
    };
    let types = [DataType::F32, DataType::Bf16, DataType::F16];
    types.into_iter().max_by_key(|&one| count(one)).unwrap_or(DataType::F32)
}

/// Rounds tensors to a 16-bit type if that changes none of their values: vectors were widened when they were read, and parts of
/// larger tensors when they were put together. The configuration names the type if all tensors have it.
pub(super) fn apply(
    kept: DataType,
    tensors: &mut BTreeMap<String, Tensor>,
    config: &mut Map<String, Value>,
) -> Result<()> {
    let name = match kept {
        DataType::Bf16 => "bfloat16",
        DataType::F16 => "float16",
        _ => return Ok(()),
    };
    for tensor in tensors.values_mut().filter(|tensor| tensor.data_type() == DataType::F32) {
        let narrow = tensor.to_type(kept)?;
        if narrow.values() == tensor.values() {
            *tensor = narrow;
        }
    }
    if config.contains_key("torch_dtype") && tensors.values().all(|tensor| tensor.data_type() == kept) {
        config.insert("torch_dtype".to_owned(), json!(name));
    }
    Ok(())
}
