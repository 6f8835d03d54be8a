//! Tensors: an array, its shape, and (where gradients are wanted) its place in the graph.

use crate::array::{Array, DataType, Device, External};
use crate::error::{Result, ensure_shape};
use crate::shape::Shape;
use crate::tape::Node;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// An n-dimensional array of `f32`, contiguous and row-major. Cloning copies a handle, not the values.
///
/// ```
/// use regard_tensor::Tensor;
/// let x = Tensor::new(&[1.0, 2.0, 3.0], [3])?.tracked();
/// let loss = (&x * &x)?.sum_all()?;
/// let gradients = loss.backward()?;
/// assert_eq!(gradients.get(&x).unwrap().to_vec(), [2.0, 4.0, 6.0]);
/// # Ok::<(), regard_tensor::Error>(())
/// ```
#[derive(Clone)]
pub struct Tensor {
    pub(crate) array: Array,
    pub(crate) shape: Shape,
    pub(crate) node: Option<Arc<Node>>,
}

impl Tensor {
    /// A tensor from values in row-major order.
    pub fn new(values: &[f32], shape: impl Into<Shape>) -> Result<Self> {
        let shape = shape.into();
        ensure_shape(
            shape.count() == values.len(),
            "tensor",
            || format!("{} values for {shape}", shape.count()),
            || format!("{} values", values.len()),
        )?;
        Ok(Self::from_array(Array::copy_of(values), shape))
    }

    /// A tensor of zeros.
    pub fn zeros(shape: impl Into<Shape>) -> Self {
        Self::full(shape, 0.0)
    }

    /// A tensor of one value throughout.
    pub fn full(shape: impl Into<Shape>, value: f32) -> Self {
        let shape = shape.into();
        Self::from_array(Array::filled(shape.count(), value), shape)
    }

    /// A tensor with no axes.
    pub fn scalar(value: f32) -> Self {
        Self::full([], value)
    }

    /// Values that live elsewhere, such as in a memory-mapped file. They are copied only if they are changed.
    pub fn external(values: Box<dyn External>, shape: impl Into<Shape>) -> Result<Self> {
        let shape = shape.into();
        let count = values.values().len();
        ensure_shape(
            shape.count() == count,
            "tensor",
            || format!("{} values for {shape}", shape.count()),
            || format!("{count} values"),
        )?;
        Ok(Self::from_array(Array::external(values), shape))
    }

    pub(crate) fn from_array(array: Array, shape: impl Into<Shape>) -> Self {
        let shape = shape.into();
        debug_assert_eq!(array.len(), shape.count());
        Self { array, shape, node: None }
    }

    /// The lengths of the axes.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The number of values.
    pub fn count(&self) -> usize {
        self.array.len()
    }

    /// The device that holds the values.
    pub fn device(&self) -> Device {
        self.array.device()
    }

    /// The type of the values.
    pub fn data_type(&self) -> DataType {
        self.array.data_type()
    }

    /// Reads the values to the host, in row-major order. On the CPU this copies nothing.
    pub fn values(&self) -> Cow<'_, [f32]> {
        Cow::Borrowed(self.array.slice())
    }

    /// Reads the values to the host as a vector.
    pub fn to_vec(&self) -> Vec<f32> {
        self.array.slice().to_vec()
    }

    /// The only value of a tensor that has one.
    pub fn item(&self) -> Result<f32> {
        ensure_shape(self.count() == 1, "item", || "one value".into(), || self.shape.to_string())?;
        Ok(self.array.slice()[0])
    }

    /// A leaf of the graph with these values: what is computed from it can be differentiated with respect to it.
    #[must_use]
    pub fn tracked(&self) -> Self {
        Self { array: self.array.clone(), shape: self.shape.clone(), node: Some(Arc::new(Node::leaf())) }
    }

    /// The same values outside the graph: nothing computed from them is recorded.
    #[must_use]
    pub fn detach(&self) -> Self {
        Self { array: self.array.clone(), shape: self.shape.clone(), node: None }
    }

    /// Whether gradients flow to this value.
    pub fn is_tracked(&self) -> bool {
        self.node.is_some()
    }

    /// Replaces the values, keeping the place in the graph: how an optimiser or a loader changes a parameter.
    pub fn set_values(&mut self, values: &[f32]) -> Result<()> {
        ensure_shape(
            values.len() == self.count(),
            "set_values",
            || format!("{} values", self.count()),
            || format!("{} values", values.len()),
        )?;
        self.array = Array::copy_of(values);
        Ok(())
    }

    /// The same values and place in the graph under another shape. Callers have checked the count.
    pub(crate) fn with_shape(mut self, shape: impl Into<Shape>) -> Self {
        self.shape = shape.into();
        debug_assert_eq!(self.array.len(), self.shape.count());
        self
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        let values = self.array.slice();
        write!(f, "Tensor{} {:?}", self.shape, &values[..values.len().min(SHOWN)])?;
        if values.len() > SHOWN {
            write!(f, " …")?;
        }
        if self.is_tracked() {
            write!(f, " tracked")?;
        }
        Ok(())
    }
}
