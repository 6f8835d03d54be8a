//! Values and gradients of the engine against an f64 reference and its finite differences.

use crate::device;
use crate::reference::Array;
use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;
use regard_tensor::{Ids, Mask, Pass, Result, Shape, Tensor};

/// Forward values: an f32 has a relative rounding error of 6e-8, and a sum of a few hundred terms of mixed sign adds up
/// some tens of them. 1e-5 of the largest value leaves room for that and for nothing else.
pub const FORWARD: f64 = 1e-5;

/// Gradients pass through two or three such sums, so twice that. (The finite differences themselves are good to about
/// 1e-9: the step of 1e-5 leaves 1e-10 of curvature and 1e-11 of f64 rounding.)
pub const GRADIENT: f64 = 2e-5;

/// Smaller values are compared as if they were this large: inputs are of order 1, and f32 rounds sums of such terms at
/// about 1e-7 even where they cancel.
const FLOOR: f64 = 0.1;

/// The same for gradients, where cancellation is the rule: with a single key, say, the gradient of attention's scores
/// is the difference of two equal sums of order 1. This makes the absolute tolerance 1e-5.
const GRADIENT_FLOOR: f64 = 0.5;

const STEP: f64 = 1e-5;

/// Inputs up to this size are checked element by element, larger ones along random directions.
const SMALL: usize = 200;
const DIRECTIONS: usize = 3;

/// Lengths around every tile, register and unrolling that kernels have.
pub const LENGTHS: [usize; 23] =
    [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 100, 127, 129];

/// A few cases, the same in every run (unless `PROPTEST_RNG_SEED` is set), without regression files.
pub fn cases(cases: u32) -> ProptestConfig {
    let mut config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    config.max_shrink_iters = 100;
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(20_240_607);
    }
    config
}

/// A source of test data that is independent of the engine's generator (`SplitMix64`).
pub struct Draw(pub u64);

impl Draw {
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.word() % limit.max(1) as u64) as usize
    }

    /// In [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Mean 0 and variance 1, in [−3.5, 3.5].
    pub fn normal(&mut self) -> f32 {
        ((0..4).map(|_| self.unit()).sum::<f64>() - 2.0).mul_add(3.0_f64.sqrt(), 0.0) as f32
    }

    pub fn tensor(&mut self, shape: impl Into<Shape>) -> Tensor {
        let shape = shape.into();
        let values: Vec<f32> = (0..shape.count()).map(|_| self.normal()).collect();
        device::new(&values, shape).expect("as many values as the shape has")
    }

    /// Values in [low, high).
    pub fn between(&mut self, low: f64, high: f64, shape: impl Into<Shape>) -> Tensor {
        let shape = shape.into();
        let values: Vec<f32> =
            (0..shape.count()).map(|_| (low + (high - low) * self.unit()) as f32).collect();
        device::new(&values, shape).expect("as many values as the shape has")
    }

    pub fn ids(&mut self, limit: usize, shape: impl Into<Shape>) -> Ids {
        let shape = shape.into();
        let ids: Vec<u32> = (0..shape.count()).map(|_| self.below(limit) as u32).collect();
        Ids::new(&ids, shape).expect("as many ids as the shape has")
    }

    /// A mask that is true for about this share of its elements.
    pub fn mask(&mut self, share: f64, shape: impl Into<Shape>) -> Mask {
        Mask::from_fn(shape, |_| self.unit() < share)
    }
}

/// 1 where the mask allows, else 0.
pub fn mask_array(mask: &Mask) -> Array {
    Array::new(mask.values().iter().map(|&ok| f64::from(u8::from(ok))).collect(), mask.shape())
}

/// Panics unless all values agree to `tolerance` of the largest.
pub fn close(what: &str, got: &[f32], want: &[f64], tolerance: f64) {
    close_above(FLOOR, what, got, want, tolerance);
}

fn close_above(floor: f64, what: &str, got: &[f32], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{what}: number of values");
    let finite = want.iter().filter(|x| x.is_finite());
    let scale = finite.fold(floor, |scale, x| scale.max(x.abs()));
    for (i, (&got, &want)) in got.iter().zip(want).enumerate() {
        let same = f64::from(got) == want || (f64::from(got) - want).abs() <= tolerance * scale;
        assert!(same, "{what}: value {i} is {got}, should be {want} (scale {scale})");
    }
}

/// Compares the engine's value and gradients with the reference's.
pub fn check(
    inputs: &[Tensor],
    engine: impl Fn(&[Tensor]) -> Result<Tensor>,
    reference: impl Fn(&[Array]) -> Array,
) {
    check_within((FORWARD, GRADIENT), inputs, engine, reference);
}

/// [`check`] with other tolerances, for the few operations that need them.
pub fn check_within(
    (forward, gradient): (f64, f64),
    inputs: &[Tensor],
    engine: impl Fn(&[Tensor]) -> Result<Tensor>,
    reference: impl Fn(&[Array]) -> Array,
) {
    let tracked: Vec<Tensor> = inputs.iter().map(Tensor::tracked).collect();
    let exact: Vec<Array> = inputs.iter().map(Array::of).collect();
    let output = engine(&tracked).expect("the engine takes these inputs");
    let want = reference(&exact);
    assert_eq!(output.shape()[..], want.shape[..], "shape of the output");
    close("forward", &output.values(), &want.values, forward);

    // L = Σ weights·output. Outputs that are −∞ by definition are constants and are left out.
    let mut draw = Draw(want.values.len() as u64);
    let mut weights = draw.tensor(output.shape()).to_vec();
    for (weight, want) in weights.iter_mut().zip(&want.values) {
        *weight = if want.is_finite() { *weight } else { 0.0 };
    }
    let upstream = device::new(&weights, output.shape()).expect("the output's shape");
    let gradients = output.gradients(&Pass::new().from_upstream(upstream)).expect("a backward pass");
    let loss = |inputs: &[Array]| -> f64 {
        let output = reference(inputs).values;
        output.iter().zip(&weights).filter(|(_, w)| **w != 0.0).map(|(x, &w)| x * f64::from(w)).sum()
    };
    for (i, input) in tracked.iter().enumerate() {
        let got = gradients.get(input).unwrap_or_else(|| device::zeros(input.shape()));
        assert_eq!(got.shape(), input.shape(), "shape of gradient {i}");
        let slope = |direction: &[f64]| slope_along(&loss, &exact, i, direction);
        compare_gradient(i, &got.values(), slope, gradient, &mut draw);
    }
}

/// The derivative of the loss along a direction of one input, by central differences.
fn slope_along(loss: &impl Fn(&[Array]) -> f64, inputs: &[Array], which: usize, direction: &[f64]) -> f64 {
    let moved = |step: f64| {
        let mut inputs = inputs.to_vec();
        inputs[which].values.iter_mut().zip(direction).for_each(|(x, d)| *x += step * d);
        loss(&inputs)
    };
    (moved(STEP) - moved(-STEP)) / (2.0 * STEP)
}

fn compare_gradient(
    which: usize,
    got: &[f32],
    slope: impl Fn(&[f64]) -> f64,
    tolerance: f64,
    draw: &mut Draw,
) {
    if got.len() <= SMALL {
        let want: Vec<f64> = (0..got.len())
            .map(|i| {
                let mut direction = vec![0.0; got.len()];
                direction[i] = 1.0;
                slope(&direction)
            })
            .collect();
        return close_above(GRADIENT_FLOOR, &format!("gradient of input {which}"), got, &want, tolerance);
    }
    let scale = got.iter().fold(GRADIENT_FLOOR, |scale, &x| scale.max(f64::from(x.abs())));
    // Roundings of n values along a direction of ±1 add up like √n.
    let allowed = tolerance * scale * (got.len() as f64).sqrt();
    for _ in 0..DIRECTIONS {
        let direction: Vec<f64> = got.iter().map(|_| if draw.word() & 1 == 0 { 1.0 } else { -1.0 }).collect();
        let along: f64 = got.iter().zip(&direction).map(|(&g, d)| f64::from(g) * d).sum();
        let want = slope(&direction);
        let off = (along - want).abs();
        assert!(
            off <= allowed,
            "gradient of input {which}: {along} along a direction, should be {want} ({allowed})"
        );
    }
}
