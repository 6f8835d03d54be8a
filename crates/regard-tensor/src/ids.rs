//! Integer ids and boolean masks: not tensors, so that they cannot be multiplied or differentiated by mistake.

use crate::error::{Error, Result, ensure_shape};
use crate::shape::Shape;
use std::sync::Arc;

/// Non-negative whole numbers in a shape: token ids, class labels, positions. Cheap to clone.
///
/// ```
/// use regard_tensor::Ids;
/// let ids = Ids::new(&[3, 1, 4, 1], [2, 2])?;
/// assert_eq!(ids.values(), [3, 1, 4, 1]);
/// # Ok::<(), regard_tensor::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ids {
    values: Arc<[u32]>,
    shape: Shape,
}

impl Ids {
    /// Ids in row-major order.
    pub fn new(values: &[u32], shape: impl Into<Shape>) -> Result<Self> {
        let shape = shape.into();
        ensure_shape(
            shape.count() == values.len(),
            "ids",
            || format!("{} values for {shape}", shape.count()),
            || format!("{} values", values.len()),
        )?;
        Ok(Self { values: values.into(), shape })
    }

    /// The ids in row-major order.
    pub fn values(&self) -> &[u32] {
        &self.values
    }

    /// The lengths of the axes.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The same ids in another shape of the same count.
    pub fn reshape(&self, shape: impl Into<Shape>) -> Result<Self> {
        let shape = shape.into();
        ensure_shape(
            shape.count() == self.values.len(),
            "reshape",
            || format!("a shape of {} ids", self.values.len()),
            || shape.to_string(),
        )?;
        Ok(Self { values: self.values.clone(), shape })
    }

    /// Fails, naming the first offender, unless every id is below `limit`.
    pub(crate) fn ensure_below(&self, operation: &'static str, limit: usize) -> Result<()> {
        match self.values.iter().find(|&&id| id as usize >= limit) {
            None => Ok(()),
            Some(&id) => Err(Error::OutOfRange { operation, what: "id", index: id as usize, limit }),
        }
    }
}

/// Yes or no for each place of a shape. Cheap to clone. In attention, `true` means "may attend".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mask {
    values: Arc<[bool]>,
    shape: Shape,
}

impl Mask {
    /// A mask in row-major order.
    pub fn new(values: &[bool], shape: impl Into<Shape>) -> Result<Self> {
        let shape = shape.into();
        ensure_shape(
            shape.count() == values.len(),
            "mask",
            || format!("{} values for {shape}", shape.count()),
            || format!("{} values", values.len()),
        )?;
        Ok(Self { values: values.into(), shape })
    }

    /// A mask computed from each place's index.
    pub fn from_fn(shape: impl Into<Shape>, mut allowed: impl FnMut(&[usize]) -> bool) -> Self {
        let shape = shape.into();
        let mut index = vec![0; shape.rank()];
        let values = (0..shape.count())
            .map(|flat| {
                let mut rest = flat;
                for (i, &length) in index.iter_mut().zip(shape.iter()).rev() {
                    *i = rest % length;
                    rest /= length;
                }
                allowed(&index)
            })
            .collect();
        Self { values, shape }
    }

    /// The values in row-major order.
    pub fn values(&self) -> &[bool] {
        &self.values
    }

    /// The lengths of the axes.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }
}
