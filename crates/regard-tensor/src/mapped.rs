//! Files of values mapped into memory: reading a model's weights costs no copy of them.

use crate::array::Array;
use crate::error::{Error, Result};
use crate::shape::Shape;
use crate::storage::{DataType, External, Values};
use crate::tensor::Tensor;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A file mapped into memory, to read. Cheap to clone; the mapping ends with the last tensor that uses it.
#[derive(Clone)]
pub struct MappedFile(Arc<memmap2::Mmap>);

impl MappedFile {
    /// Maps a file. An empty file cannot be mapped, nor can a folder, a device or a pipe.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        // Asked before it is opened: opening a pipe waits for someone to write to it.
        if !std::fs::metadata(path)?.is_file() {
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "is not a file"));
        }
        let file = File::open(path)?;
        // SAFETY: the mapping is read-only and private to this process. As with every mapped file, someone who
        // shortens it meanwhile ends the process; nobody can make it read outside the mapping.
        let map = unsafe { memmap2::Mmap::map(&file)? };
        Ok(Self(Arc::new(map)))
    }

    /// All bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The little-endian `f32` values in a range of bytes as a tensor that reads them where they are, if they are
    /// aligned, and a copy of them otherwise.
    pub fn tensor(&self, range: Range<usize>, shape: impl Into<Shape>) -> Result<Tensor> {
        self.tensor_of(DataType::F32, range, shape)
    }

    /// Little-endian values of any type, in the same way. They stay in their type until an operation needs them.
    pub fn tensor_of(
        &self,
        data_type: DataType,
        range: Range<usize>,
        shape: impl Into<Shape>,
    ) -> Result<Tensor> {
        let shape = shape.into();
        let fits = |bytes: &&[u8]| bytes.len() / data_type.bytes() == shape.count();
        let Some(bytes) = self.0.get(range.clone()).filter(fits) else {
            return Err(Error::shape(
                "mapped file",
                format!("{} values", shape.count()),
                format!("bytes {range:?}"),
            ));
        };
        let part = Part { file: self.clone(), range, data_type };
        if cfg!(target_endian = "little") && part.try_values().is_some() {
            return Tensor::external(Box::new(part), shape);
        }
        let array = match data_type {
            DataType::F32 => Array::build(shape.count(), |out| {
                let (words, _) = bytes.as_chunks::<4>();
                out.iter_mut().zip(words).for_each(|(out, &word)| *out = f32::from_le_bytes(word));
            }),
            DataType::Bf16 | DataType::F16 => {
                let (words, _) = bytes.as_chunks::<2>();
                Array::from_bits(words.iter().map(|&word| u16::from_le_bytes(word)).collect(), data_type)
            }
        };
        Ok(Tensor::from_array(array, shape))
    }
}

/// A range of bytes that holds values.
struct Part {
    file: MappedFile,
    range: Range<usize>,
    data_type: DataType,
}

impl Part {
    /// The values where they are, if they are aligned and whole.
    fn try_values(&self) -> Option<Values<'_>> {
        let bytes = &self.file.bytes()[self.range.clone()];
        match self.data_type {
            DataType::F32 => bytemuck::try_cast_slice(bytes).ok().map(Values::F32),
            DataType::Bf16 => bytemuck::try_cast_slice(bytes).ok().map(Values::Bf16),
            DataType::F16 => bytemuck::try_cast_slice(bytes).ok().map(Values::F16),
        }
    }
}

impl External for Part {
    fn values(&self) -> Values<'_> {
        self.try_values().expect("alignment was checked before the tensor was made")
    }
}
