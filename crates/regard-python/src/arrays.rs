//! Arrays to Python and back.

use crate::error::OrRaise as _;
use numpy::ndarray::ArrayViewD;
use numpy::{PyArrayDyn, PyArrayMethods as _, PyReadonlyArrayDyn, PyUntypedArrayMethods as _};
use pyo3::prelude::*;
use regard_nn::data::memory;
use regard_tensor::{Device, Mask, Tensor};
use std::borrow::Cow;

/// NumPy's array of `f32`.
pub type Reals<'py> = Bound<'py, PyArrayDyn<f32>>;
/// Such an array as an argument.
pub type GivenReals<'py> = PyReadonlyArrayDyn<'py, f32>;

/// Keeps a tensor alive for as long as an array shows its values.
#[pyclass(frozen, module = "regard._regard")]
struct Owner(#[allow(dead_code)] Tensor);

/// The values of a tensor as an array that may be read: without a copy if they are `f32` in main memory.
pub fn to_numpy(py: Python<'_>, tensor: Tensor) -> PyResult<Reals<'_>> {
    let here = tensor.device() == Device::Cpu && matches!(tensor.values(), Cow::Borrowed(_));
    let tensor =
        if here { tensor.detach() } else { Tensor::new(&tensor.to_vec(), tensor.shape()).or_raise()? };
    let owner = Bound::new(py, Owner(tensor.clone()))?.into_any();
    let values = tensor.values();
    let view = ArrayViewD::from_shape(tensor.shape().to_vec(), &values)
        .map_err(|error| crate::error::problem(error.to_string()))?;
    // SAFETY: the owner keeps the values where they are for as long as the array lives (cloning or moving a tensor does not
    // move its values), and the array is made read-only before anyone else sees it: tensors share their values.
    let array = unsafe { PyArrayDyn::borrow_from_array(&view, owner) };
    array.readwrite().make_nonwriteable();
    Ok(array)
}

/// Rejects results that do not fit memory before anything is allocated: a failed allocation would end the interpreter.
pub fn ensure_room(what: &str, sizes: &[usize]) -> anyhow::Result<()> {
    let bytes = sizes.iter().fold(4.0, |bytes, &size| bytes * size as f64);
    let most = memory::limit() as f64;
    anyhow::ensure!(
        bytes <= most,
        "{what} would take {:.1} GB of memory, {:.1} GB are available",
        bytes / 1e9,
        most / 1e9
    );
    Ok(())
}

/// A tensor with a copy of an array's values.
pub fn to_tensor(array: &GivenReals<'_>) -> PyResult<Tensor> {
    let shape = array.shape().to_vec();
    match array.as_slice() {
        Ok(values) => Tensor::new(values, shape).or_raise(),
        Err(_) => {
            let values: Vec<f32> = array.as_array().iter().copied().collect();
            Tensor::new(&values, shape).or_raise()
        }
    }
}

/// A mask with a copy of an array's values.
pub fn to_mask(array: &PyReadonlyArrayDyn<'_, bool>) -> PyResult<Mask> {
    let values: Vec<bool> = array.as_array().iter().copied().collect();
    Mask::new(&values, array.shape().to_vec()).or_raise()
}

/// A mask as an array of its own.
pub fn mask_to_numpy<'py>(py: Python<'py>, mask: &Mask) -> PyResult<Bound<'py, PyArrayDyn<bool>>> {
    let view = ArrayViewD::from_shape(mask.shape().to_vec(), mask.values())
        .map_err(|error| crate::error::problem(error.to_string()))?;
    Ok(PyArrayDyn::from_array(py, &view))
}
