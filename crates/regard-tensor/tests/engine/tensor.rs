//! Tensors: external values, shared memory, and memory that returns to the pool.

use regard_tensor::optimiser::{Method, Optimiser, Update};
use regard_tensor::{DataType, Device, External, Gradient, Tensor, Values, pool};
use std::sync::Arc;

/// Values that are not owned by the engine.
struct Owned(Arc<Vec<f32>>);

impl External for Owned {
    fn values(&self) -> Values<'_> {
        Values::F32(&self.0)
    }
}

#[test]
fn external_values_are_read_in_place_and_copied_before_they_change() {
    let source = Arc::new(vec![1.0, 2.0, 3.0, 4.0]);
    let mut x = Tensor::external(Box::new(Owned(source.clone())), [2, 2]).unwrap();
    assert!(std::ptr::eq(x.values().as_ptr(), source.as_ptr()));
    assert_eq!(x.sum_all().unwrap().item(), Ok(10.0));
    let gradient = Gradient::Dense(Tensor::full([2, 2], 1.0));
    let mut optimiser = Optimiser::new(Method::Sgd { momentum: 0.0 }, 0.0);
    let updates = &mut [Update { parameter: &mut x, gradient: Some(&gradient), decays: false }];
    optimiser.step(updates, 1.0, 1.0).unwrap();
    assert_eq!((x.to_vec(), &*source), (vec![0.0, 1.0, 2.0, 3.0], &vec![1.0, 2.0, 3.0, 4.0]));
    assert!(Tensor::external(Box::new(Owned(source)), [5]).is_err());
}

#[test]
fn tensors_print_shape_values_and_tracking() {
    let x = Tensor::full([2, 5], 1.5);
    assert_eq!((x.count(), x.shape().rank(), x.shape().rows(), x.shape().last()), (10, 2, 2, 5));
    assert_eq!((x.device(), x.data_type()), (Device::Cpu, DataType::F32));
    let text = format!("{:?}", x.tracked());
    assert!(text.contains("[2×5]") && text.contains("1.5") && text.contains("tracked"), "{text}");
    assert_eq!(format!("{} {:?}", Tensor::scalar(1.0).shape(), Tensor::zeros([0])), "[] Tensor[0] []");
}

#[test]
fn reshapes_and_leading_slices_share_memory() {
    let x = Tensor::full([4, 6], 1.0);
    assert!(std::ptr::eq(x.reshape([24]).unwrap().values().as_ptr(), x.values().as_ptr()));
    assert!(std::ptr::eq(x.slice(0, 2, 1).unwrap().values().as_ptr(), &raw const x.values()[12]));
}

#[test]
fn freed_memory_is_counted_and_can_be_released() {
    let count = 3_000_017;
    let x = Tensor::full([count], 1.0);
    assert!(pool::usage().used >= 4 * count && pool::usage().peak >= 4 * count);
    drop(x);
    // Other tests share the pool, so only an array as large as this one can be seen.
    pool::trim();
    assert!(pool::usage().waiting < 4 * count);
}
