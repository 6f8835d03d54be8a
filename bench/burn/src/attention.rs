//! Burn's own attention on fixed random heads, with its three gradients.

use crate::Step;
use crate::work::AttentionShape;
use burn::tensor::module::attention;
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{Device, Distribution, Tensor};

/// Attention (B, H, T, D) and the gradients of queries, keys and values for a fixed gradient of the output.
///
/// Burn's backward pass starts from a number: the sum of the output's product with that gradient, the step's value.
pub fn step(shape: &AttentionShape, causal: bool, device: &Device) -> Step {
    let sizes = [shape.batch, shape.heads, shape.time, shape.width];
    let random = || Tensor::<4>::random(sizes, Distribution::Normal(0.0, 1.0), device);
    let inputs = [random(), random(), random()].map(Tensor::require_grad);
    let upstream = random();
    Box::new(move || {
        let (value, gradients) = differentiate(&inputs, &upstream, causal);
        std::hint::black_box(gradients);
        value
    })
}

/// The product of the output with `upstream`, and the gradients of queries, keys and values.
fn differentiate(inputs: &[Tensor<4>; 3], upstream: &Tensor<4>, causal: bool) -> (f32, [Tensor<4>; 3]) {
    let [query, key, value] = inputs.clone();
    let options = AttentionModuleOptions { is_causal: causal, ..Default::default() };
    let output = attention(query, key, value, None, None, options);
    let product = (output * upstream.clone()).sum();
    let mut gradients = product.backward();
    let of = inputs.each_ref().map(|input| input.grad_remove(&mut gradients).expect("it was asked for"));
    (product.into_scalar(), of)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: [usize; 4] = [1, 2, 5, 3];

    /// The product in f64, one query after another.
    fn product([query, key, value]: &[Vec<f64>; 3], upstream: &[f64], causal: bool) -> f64 {
        let [_, heads, time, width] = SHAPE;
        let row = |of: &[f64], head: usize, t: usize| of[(head * time + t) * width..][..width].to_vec();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mut sum = 0.0;
        for (head, t) in (0..heads).flat_map(|head| (0..time).map(move |t| (head, t))) {
            let keys = if causal { t + 1 } else { time };
            let score = |s| dot(&row(query, head, t), &row(key, head, s)) / (width as f64).sqrt();
            let weights: Vec<f64> = (0..keys).map(|s| score(s).exp()).collect();
            let values = weights.iter().enumerate();
            let weighted =
                values.map(|(s, weight)| weight * dot(&row(value, head, s), &row(upstream, head, t)));
            sum += weighted.sum::<f64>() / weights.iter().sum::<f64>();
        }
        sum
    }

    fn numbers(tensor: &Tensor<4>) -> Vec<f64> {
        let data = tensor.to_data().try_to_vec::<f32>().unwrap();
        data.into_iter().map(f64::from).collect()
    }

    #[test]
    fn value_and_gradients_are_those_of_the_formula() {
        let device = Device::flex().autodiff();
        device.seed(1);
        let random = || Tensor::<4>::random(SHAPE, Distribution::Normal(0.0, 1.0), &device);
        let inputs = [random(), random(), random()].map(Tensor::require_grad);
        let upstream = random();
        let (exact, weights) = (inputs.each_ref().map(numbers), numbers(&upstream));
        for causal in [false, true] {
            let (found, gradients) = differentiate(&inputs, &upstream, causal);
            let expected = product(&exact, &weights, causal);
            assert!((f64::from(found) - expected).abs() < 1e-4, "{found} instead of {expected}");
            for (of, gradient) in gradients.iter().enumerate() {
                for (at, found) in numbers(gradient).into_iter().enumerate() {
                    let moved = |by: f64| {
                        let mut inputs = exact.clone();
                        inputs[of][at] += by;
                        product(&inputs, &weights, causal)
                    };
                    let expected = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                    assert!((found - expected).abs() < 1e-4, "input {of} at {at}: {found}, not {expected}");
                }
            }
        }
    }
}
