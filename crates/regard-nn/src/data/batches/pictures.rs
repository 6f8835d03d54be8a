//! Batches of images.

use super::{Examples, Selection};
use crate::data::idx::Images;
use crate::error::Result;
use regard_tensor::{Ids, Tensor};

/// Grey images with their classes.
#[derive(Debug, Clone)]
pub struct Pictures {
    images: Images,
    mean: f32,
    deviation: f32,
}

/// Some images.
#[derive(Debug, Clone)]
pub struct PicturesBatch {
    /// Pixels (batch, 1, height, width).
    pub pixels: Tensor,
    /// The class of each: (batch).
    pub labels: Ids,
    /// Which examples these are.
    pub selection: Selection,
}

impl Pictures {
    /// Images whose pixels, scaled to 0 to 1, are normalised by a mean and a standard deviation.
    pub fn new(images: Images, (mean, deviation): (f32, f32)) -> Self {
        Self { images, mean, deviation }
    }
}

impl Examples for Pictures {
    type Batch = PicturesBatch;

    fn lengths(&self) -> Vec<usize> {
        // All images have one size, so grouping by length has no effect.
        vec![1; self.images.len()]
    }

    fn batch(&self, selection: Selection) -> Result<PicturesBatch> {
        let Images { rows, columns, labels, .. } = &self.images;
        let mut pixels = Vec::with_capacity(selection.examples.len() * rows * columns);
        for &example in &selection.examples {
            let image = self.images.image(example).unwrap_or_default();
            pixels.extend(image.iter().map(|&p| (f32::from(p) / 255.0 - self.mean) / self.deviation));
        }
        let labels: Vec<u32> = selection.of(labels).map(|&label| u32::from(label)).collect();
        Ok(PicturesBatch {
            pixels: Tensor::new(&pixels, [labels.len(), 1, *rows, *columns])?,
            labels: Ids::new(&labels, [labels.len()])?,
            selection,
        })
    }
}
