//! Memory-mapped files: tensors read a model's weights without copying them.

use crate::array::Array;
use crate::error::{Error, Result};
use crate::shape::Shape;
use crate::storage::{DataType, External, Values};
use crate::tensor::Tensor;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A file mapped into memory for reading. Cheap to clone; the mapping ends with the last tensor that uses it.
#[derive(Clone)]
pub struct MappedFile(Arc<memmap2::Mmap>);

impl MappedFile {
    /// Maps a file. Empty files, folders, devices and pipes cannot be mapped.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        // Checked before opening, because opening a pipe blocks until another process writes to it.
        if !std::fs::metadata(path)?.is_file() {
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "is not a file"));
        }
        let file = File::open(path)?;
        // SAFETY: the mapping is read-only and private to this process. As with every mapped file, truncating the file
        // meanwhile ends the process, but no access reaches outside the mapping.
        let map = unsafe { memmap2::Mmap::map(&file)? };
        Ok(Self(Arc::new(map)))
    }

    /// Memory that is no file's: `fill` writes it once, afterwards it can only be read.
    pub fn of_memory(length: usize, fill: impl FnOnce(&mut [u8])) -> std::io::Result<Self> {
        let mut map = memmap2::MmapMut::map_anon(length.max(1))?;
        fill(&mut map[..length]);
        Ok(Self(Arc::new(map.make_read_only()?)))
    }

    /// All bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Lets the system take back the memory of a range of bytes that will not be read soon. The next access reads the file.
    pub fn release(&self, range: Range<usize>) {
        #[cfg(unix)]
        if range.end <= self.0.len() && range.start < range.end {
            // SAFETY: the mapping is read-only and of a file, so pages that were dropped come back with the same bytes.
            let advised = unsafe {
                let advice = memmap2::UncheckedAdvice::DontNeed;
                self.0.unchecked_advise_range(advice, range.start, range.end - range.start)
            };
            // Advice that is not taken changes nothing but the memory in use.
            let _ = advised;
        }
        #[cfg(not(unix))]
        let _ = range;
    }

    /// A tensor of the little-endian `f32` values in a range of bytes. Aligned values are used in place, others copied.
    pub fn tensor(&self, range: Range<usize>, shape: impl Into<Shape>) -> Result<Tensor> {
        self.tensor_of(DataType::F32, range, shape)
    }

    /// Like [`tensor`](Self::tensor), for values of any type. They keep their type until an operation converts them.
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
    /// The values in place, if they are aligned and complete.
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
