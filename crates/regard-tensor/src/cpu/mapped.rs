//! Files of values mapped into memory: reading a model's weights costs no copy of them.

use crate::array::External;
use crate::error::{Error, Result};
use crate::shape::Shape;
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
        let shape = shape.into();
        let Some(bytes) = self.0.get(range.clone()).filter(|bytes| bytes.len() / 4 == shape.count()) else {
            return Err(Error::shape(
                "mapped file",
                format!("{} values", shape.count()),
                format!("bytes {range:?}"),
            ));
        };
        match bytemuck::try_cast_slice::<u8, f32>(bytes) {
            Ok(_) if cfg!(target_endian = "little") => {
                Tensor::external(Box::new(Part { file: self.clone(), range }), shape)
            }
            _ => {
                let value = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                Tensor::new(&bytes.chunks_exact(4).map(value).collect::<Vec<_>>(), shape)
            }
        }
    }
}

/// A range of bytes that has been found to hold aligned values.
struct Part {
    file: MappedFile,
    range: Range<usize>,
}

impl External for Part {
    fn values(&self) -> &[f32] {
        bytemuck::cast_slice(&self.file.bytes()[self.range.clone()])
    }
}
