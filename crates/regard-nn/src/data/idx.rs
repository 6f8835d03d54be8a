//! Images and labels in the IDX format of MNIST (LeCun et al., 1998).
//!
//! Two zero bytes, the type of the values (8: unsigned bytes), the number of axes, each axis's length (32 bits,
//! big-endian), then the values. Images have three axes (count, rows, columns), labels one.

use super::file::InputFile;
use super::memory::MemoryBudget;
use crate::error::{Error, Result};
use std::path::Path;

/// The maximum number of values in a file; MNIST's largest has 47 million.
pub const VALUE_LIMIT: u64 = 1 << 31;

/// Greyscale images of one size, with their labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Images {
    /// The height of an image.
    pub rows: usize,
    /// The width of an image.
    pub columns: usize,
    /// All pixels, row by row, image by image: 0 is background.
    pub pixels: Vec<u8>,
    /// The class of each image.
    pub labels: Vec<u8>,
}

impl Images {
    /// Reads a file of images and the file of their labels.
    pub fn open(images: impl AsRef<Path>, labels: impl AsRef<Path>) -> Result<Self> {
        let (images, labels) = (images.as_ref(), labels.as_ref());
        let ([count, rows, columns], pixels) = read(images)?;
        let ([label_count], labels_read) = read(labels)?;
        if rows == 0 || columns == 0 {
            return Err(Error::file(images, format!("its images have {rows}×{columns} pixels")));
        }
        if count != label_count {
            let problem = format!("it has {label_count} labels, but {} has {count} images", images.display());
            return Err(Error::file(labels, problem));
        }
        if count == 0 {
            return Err(Error::file(images, "it has no images"));
        }
        Ok(Self { rows, columns, pixels, labels: labels_read })
    }

    /// The number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no images.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// One image's pixels, row by row.
    pub fn image(&self, index: usize) -> Option<&[u8]> {
        let size = self.rows * self.columns;
        self.pixels.get(index.checked_mul(size)?..)?.get(..size)
    }

    /// The images with these indices; unknown indices are left out.
    #[must_use]
    pub fn some(&self, indices: &[usize]) -> Self {
        let mut some = Self { pixels: Vec::new(), labels: Vec::new(), ..*self };
        for &index in indices {
            if let (Some(image), Some(&label)) = (self.image(index), self.labels.get(index)) {
                some.pixels.extend_from_slice(image);
                some.labels.push(label);
            }
        }
        some
    }
}

/// The lengths of the axes and the values.
fn read<const AXES: usize>(path: &Path) -> Result<([usize; AXES], Vec<u8>)> {
    let mut source = InputFile::open(path)?;
    let mut header = vec![0; 4 + 4 * AXES];
    let got = source.fill(&mut header)?;
    if got < 4 || header[..2] != [0, 0] {
        return Err(Error::file(path, "not an IDX file: it must start with two zero bytes"));
    }
    if header[2] != 8 {
        return Err(Error::file(
            path,
            format!("values of type {:#04x}, expected 0x08 (unsigned bytes)", header[2]),
        ));
    }
    if usize::from(header[3]) != AXES {
        let expected = if AXES == 3 { "3 (images)" } else { "1 (labels)" };
        return Err(Error::file(path, format!("{} axes, expected {expected}", header[3])));
    }
    if got < header.len() {
        return Err(Error::file(path, "the file ends within its header"));
    }
    let mut lengths = [0; AXES];
    for (length, bytes) in lengths.iter_mut().zip(header[4..].chunks_exact(4)) {
        *length = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
    }
    let count = lengths.iter().try_fold(1_u64, |product, &length| product.checked_mul(length as u64));
    let Some(count) = count.filter(|&count| count <= VALUE_LIMIT) else {
        return Err(Error::file(
            path,
            format!("its header announces {lengths:?}, more than {VALUE_LIMIT} values"),
        ));
    };
    let values = values(&mut source, count)?;
    if values.len() as u64 != count {
        let amount = if values.len() as u64 > count { "more" } else { "fewer" };
        return Err(Error::file(
            path,
            format!("its header announces {lengths:?}, but there are {amount} values"),
        ));
    }
    Ok((lengths, values))
}

/// Reads up to one value more than expected, in steps: memory grows with the data, not with the header's claim.
fn values(source: &mut InputFile, expected: u64) -> Result<Vec<u8>> {
    const STEP: usize = 1 << 20;
    let (mut values, mut budget) = (Vec::new(), MemoryBudget::new(source.path()));
    loop {
        let before = values.len();
        budget.add::<[u8; STEP]>(&[])?;
        let wanted = STEP.min(expected as usize + 1 - before);
        values.resize(before + wanted, 0);
        let got = source.fill(&mut values[before..])?;
        values.truncate(before + got);
        if got < wanted || values.len() as u64 > expected {
            return Ok(values);
        }
    }
}
