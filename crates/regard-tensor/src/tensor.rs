//! Tensors: an array, its shape, and (if gradients are needed) its node in the graph.

use crate::array::Array;
use crate::error::{Error, Result, ensure_shape};
use crate::kernels::memory;
use crate::shape::Shape;
use crate::storage::{DataType, Device, External, Values};
use crate::tape::{Inputs, Node};
use crate::traffic;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// An n-dimensional array, contiguous and row-major. Cloning copies a handle, not the values.
///
/// Values are `f32` unless they were stored in or converted to another type; results computed on the CPU are `f32`.
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

    /// A tensor filled with one value.
    pub fn full(shape: impl Into<Shape>, value: f32) -> Self {
        let shape = shape.into();
        Self::from_array(Array::filled(shape.count(), value), shape)
    }

    /// A tensor filled with one value, on a device.
    pub fn full_on(device: Device, shape: impl Into<Shape>, value: f32) -> Result<Self> {
        let shape = shape.into();
        Ok(Self::from_array(memory::filled(device, shape.count(), value)?, shape))
    }

    /// A tensor without axes.
    pub fn scalar(value: f32) -> Self {
        Self::full([], value)
    }

    /// Values in memory that is not the engine's own, such as a memory-mapped file. They are copied only if changed.
    pub fn external(values: Box<dyn External>, shape: impl Into<Shape>) -> Result<Self> {
        let shape = shape.into();
        let count = values.values().count();
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

    /// Copies the values to another device. The gradient is copied back.
    pub fn to(&self, device: Device) -> Result<Self> {
        let here = self.device();
        if device == here {
            return Ok(self.clone());
        }
        match device {
            Device::Cpu => traffic::count_host_read(),
            _ => traffic::count_upload(),
        }
        Ok(Self::from_array(self.array.to_device(device)?, &self.shape)
            .with_rule(&[self], || move |g: Tensor, inputs: &mut Inputs| inputs.send(0, g.to(here)?)))
    }

    /// Rounds the values to another type. The gradient is that of the rounded values.
    pub fn to_type(&self, data_type: DataType) -> Result<Self> {
        if data_type == self.data_type() {
            return Ok(self.clone());
        }
        Ok(Self::from_array(memory::convert(&self.array, data_type)?, &self.shape)
            .with_rule(&[self], || move |g: Tensor, inputs: &mut Inputs| inputs.send(0, g)))
    }

    /// Reads the values to the host, in row-major order. On the CPU this copies only 16-bit values.
    pub fn values(&self) -> Cow<'_, [f32]> {
        if let Some(Values::F32(values)) = self.array.view() {
            return Cow::Borrowed(values);
        }
        if self.device() != Device::Cpu {
            traffic::count_host_read();
        }
        Cow::Owned(self.array.to_host().slice().to_vec())
    }

    /// Reads the values to the host as a vector.
    pub fn to_vec(&self) -> Vec<f32> {
        self.values().into_owned()
    }

    /// Reads the values to the host in their own type, as little-endian bytes: what files hold.
    pub fn to_le_bytes(&self) -> Vec<u8> {
        if self.device() != Device::Cpu {
            traffic::count_host_read();
        }
        match self.array.fetched().host_values() {
            Values::F32(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            Values::Bf16(bits) | Values::F16(bits) => {
                bits.iter().flat_map(|bits| bits.to_le_bytes()).collect()
            }
        }
    }

    /// The value of a tensor with exactly one.
    pub fn item(&self) -> Result<f32> {
        ensure_shape(self.count() == 1, "item", || "one value".into(), || self.shape.to_string())?;
        Ok(self.values()[0])
    }

    /// A leaf of the graph with these values: results computed from it can be differentiated with respect to it.
    #[must_use]
    pub fn tracked(&self) -> Self {
        Self { array: self.array.clone(), shape: self.shape.clone(), node: Some(Arc::new(Node::leaf())) }
    }

    /// The same values outside the graph: computations with them are not recorded.
    #[must_use]
    pub fn detach(&self) -> Self {
        Self { array: self.array.clone(), shape: self.shape.clone(), node: None }
    }

    /// Whether gradients flow to this value.
    pub fn is_tracked(&self) -> bool {
        self.node.is_some()
    }

    /// Replaces the values and keeps graph node, device and type, as a loader does with a parameter.
    pub fn set_values(&mut self, values: &[f32]) -> Result<()> {
        ensure_shape(
            values.len() == self.count(),
            "set_values",
            || format!("{} values", self.count()),
            || format!("{} values", values.len()),
        )?;
        let array = memory::convert(&Array::copy_of(values), self.data_type())?;
        self.array = Self::from_array(array, &self.shape).to(self.device())?.array;
        Ok(())
    }

    /// The same values and graph node with another shape. The caller has checked the count.
    pub(crate) fn with_shape(mut self, shape: impl Into<Shape>) -> Self {
        self.shape = shape.into();
        debug_assert_eq!(self.array.len(), self.shape.count());
        self
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        let shown = self.count().min(SHOWN);
        let first = Self::from_array(self.array.part(0, shown), [shown]);
        write!(f, "Tensor{} {:?}", self.shape, first.values())?;
        if self.count() > SHOWN {
            write!(f, " …")?;
        }
        if self.data_type() != DataType::F32 {
            write!(f, " {:?}", self.data_type())?;
        }
        if self.device() != Device::Cpu {
            write!(f, " on {}", self.device())?;
        }
        if self.is_tracked() {
            write!(f, " tracked")?;
        }
        Ok(())
    }
}

/// Returns an error unless all operands are on one device.
pub(crate) fn ensure_same_device<'a>(
    operation: &'static str,
    operands: impl IntoIterator<Item = &'a Tensor>,
) -> Result<()> {
    let mut operands = operands.into_iter();
    let Some(expected) = operands.next().map(Tensor::device) else { return Ok(()) };
    match operands.map(Tensor::device).find(|&device| device != expected) {
        None => Ok(()),
        Some(got) => Err(Error::Device { operation, expected, got }),
    }
}
