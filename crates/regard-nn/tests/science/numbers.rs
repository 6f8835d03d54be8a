//! Numbers for tests, and ways to compare what came of them.

use regard_nn::tensor::random::Key;
use regard_nn::tensor::{Ids, Pass, Shape, Tensor};

/// Normal values that depend on nothing but a name and a shape.
pub fn normal(name: &str, shape: impl Into<Shape>) -> Tensor {
    let shape = shape.into();
    Tensor::new(&Key::new(1).site(name).normal(shape.count(), 1.0), shape).unwrap()
}

/// Ids below a limit that depend on nothing but a name and a shape.
pub fn ids(name: &str, limit: usize, shape: impl Into<Shape>) -> Ids {
    let (shape, key) = (shape.into(), Key::new(1).site(name));
    let values: Vec<u32> = (0..shape.count() as u64).map(|i| key.below(0, i, limit) as u32).collect();
    Ids::new(&values, shape).unwrap()
}

/// Fails unless two tensors are the same to the last bit.
pub fn same_bits(what: &str, got: &Tensor, want: &Tensor) {
    assert_eq!(got.shape(), want.shape(), "{what}");
    let differs = |(got, want): (&f32, &f32)| got.to_bits() != want.to_bits();
    let place = got.values().iter().zip(want.values().iter()).position(differs);
    assert_eq!(place, None, "{what} differs first at this place");
}

/// The largest difference of two tensors of the same shape.
pub fn distance(a: &Tensor, b: &Tensor) -> f32 {
    assert_eq!(a.shape(), b.shape());
    a.values().iter().zip(b.values().iter()).fold(0.0, |most: f32, (a, b)| most.max((a - b).abs()))
}

/// Whether every value is a number, and none of them infinite.
pub fn finite(x: &Tensor) -> bool {
    x.values().iter().all(|value| value.is_finite())
}

/// Gradients of a result with respect to some values, from random upstream gradients.
pub fn gradients(output: &Tensor, of: &[&Tensor]) -> Vec<Tensor> {
    let upstream = normal("upstream", output.shape());
    let found = output.gradients(&Pass::new().from_upstream(upstream)).unwrap();
    of.iter().map(|x| found.get(x).unwrap_or_else(|| Tensor::zeros(x.shape()))).collect()
}

/// The slope of a function of a tensor in some direction, by central differences.
pub fn slope(at: &Tensor, direction: &Tensor, step: f32, f: impl Fn(&Tensor) -> f32) -> f32 {
    let moved = |by: f32| at.detach().add(&direction.scale(by).unwrap()).unwrap();
    (f(&moved(step)) - f(&moved(-step))) / (2.0 * step)
}

/// Σ a·b.
pub fn dot(a: &Tensor, b: &Tensor) -> f32 {
    a.values().iter().zip(b.values().iter()).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>() as f32
}
