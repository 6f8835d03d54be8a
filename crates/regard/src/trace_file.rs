//! Trace files: the tensors of one forward pass.
//!
//! Traces and references have one format: the model's inputs as `inputs/…` (ids, mask, types, pixels, `decoder_ids`,
//! `decoder_mask`), and the recorded tensors under the names of the probe's sites. A trace can be a reference for another run.

use anyhow::Result;
use regard_nn::data::file::write_whole;
use regard_nn::tensor::{Ids, Tensor};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::Path;

/// A tensor of a trace file.
pub enum StoredTensor {
    /// Real numbers, stored as f32.
    Floats(Tensor),
    /// Integers numbers, as i64: what NumPy and PyTorch have for them.
    Integers(Ids),
}

impl StoredTensor {
    fn kind(&self) -> &'static str {
        match self {
            Self::Floats(_) => "F32",
            Self::Integers(_) => "I64",
        }
    }

    fn shape(&self) -> &[usize] {
        match self {
            Self::Floats(tensor) => tensor.shape(),
            Self::Integers(ids) => ids.shape(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Floats(tensor) => tensor.count() * 4,
            Self::Integers(ids) => ids.values().len() * 8,
        }
    }

    fn write(&self, file: &mut impl Write) -> std::io::Result<()> {
        match self {
            Self::Floats(tensor) => {
                tensor.values().iter().try_for_each(|value| file.write_all(&value.to_le_bytes()))
            }
            Self::Integers(ids) => {
                ids.values().iter().try_for_each(|&id| file.write_all(&i64::from(id).to_le_bytes()))
            }
        }
    }
}

/// Writes a `safetensors` file of tensors and notes, whole or not at all, and the same bytes each time: the format's own
/// library leaves the order of notes to chance.
pub fn write(
    path: &Path,
    held: &BTreeMap<String, StoredTensor>,
    notes: &BTreeMap<String, String>,
) -> Result<()> {
    // The widest numbers first, so that all are aligned.
    let mut order: Vec<(&String, &StoredTensor)> = held.iter().collect();
    order.sort_by_key(|(name, held)| (matches!(held, StoredTensor::Floats(_)), *name));
    let mut header = Map::new();
    header.insert("__metadata__".to_owned(), json!(notes));
    let mut end = 0_usize;
    for (name, held) in &order {
        let start = end;
        end += held.bytes();
        let entry = json!({"dtype": held.kind(), "shape": held.shape(), "data_offsets": [start, end]});
        header.insert((*name).clone(), entry);
    }
    let mut header = Value::Object(header).to_string();
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
    Ok(write_whole(path, |file| {
        let mut file = BufWriter::new(file);
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(header.as_bytes())?;
        order.iter().try_for_each(|(_, held)| held.write(&mut file))?;
        file.flush()
    })?)
}
