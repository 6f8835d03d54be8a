//! Files of tensors beside a model: traces and references.
//!
//! Both have one form: what the model read as `inputs/…` (ids, mask, types, pixels, `decoder_ids`, `decoder_mask`), and
//! what happened inside under the names of the probe's sites. A trace can be a reference for another run.

use anyhow::{Context as _, Result};
use saccade::checkpoint::write_whole;
use saccade::tensor::{Ids, Tensor};
use safetensors::{Dtype, View};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::Path;

/// What a file holds under a name.
pub enum Held {
    /// Real numbers, as f32.
    Reals(Tensor),
    /// Whole numbers, as i64: what NumPy and PyTorch have for them.
    Whole(Ids),
}

impl View for &Held {
    fn dtype(&self) -> Dtype {
        match self {
            Held::Reals(_) => Dtype::F32,
            Held::Whole(_) => Dtype::I64,
        }
    }

    fn shape(&self) -> &[usize] {
        match self {
            Held::Reals(tensor) => tensor.shape(),
            Held::Whole(ids) => ids.shape(),
        }
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Owned(match self {
            Held::Reals(tensor) => tensor.values().iter().flat_map(|value| value.to_le_bytes()).collect(),
            Held::Whole(ids) => ids.values().iter().flat_map(|&id| i64::from(id).to_le_bytes()).collect(),
        })
    }

    fn data_len(&self) -> usize {
        match self {
            Held::Reals(tensor) => tensor.count() * 4,
            Held::Whole(ids) => ids.values().len() * 8,
        }
    }
}

/// Writes a file of tensors, whole or not at all.
pub fn write(path: &Path, held: &BTreeMap<String, Held>, notes: HashMap<String, String>) -> Result<()> {
    let bytes = safetensors::serialize(held, Some(notes)).context("the tensors cannot be written")?;
    Ok(write_whole(path, |file| file.write_all(&bytes))?)
}
