//! Functions of one value, applied to each: in lanes, forward and backward.

use super::simd::{self, dispatch};
use super::threads::{self, ELEMENTS_PER_TASK};
use crate::array::Array;
use crate::kernels::pointwise::Function;
use pulp::{Simd, WithSimd};

/// One function in lanes: its value, and its derivative times the gradient `g` that comes from above.
pub(super) trait Lanes: Copy + Sync {
    fn value<S: Simd>(self, s: S, x: S::f32s) -> S::f32s;
    /// `saved` is the output or the input, as [`Function::saves_output`] says.
    fn gradient<S: Simd>(self, s: S, saved: S::f32s, g: S::f32s) -> S::f32s;
}

macro_rules! function {
    ($name:ident, |$s:ident, $x:ident| $value:expr, |$saved:ident, $g:ident| $gradient:expr) => {
        #[derive(Clone, Copy)]
        pub(super) struct $name;
        impl Lanes for $name {
            #[inline(always)]
            fn value<S: Simd>(self, $s: S, $x: S::f32s) -> S::f32s {
                $value
            }
            #[inline(always)]
            fn gradient<S: Simd>(self, $s: S, $saved: S::f32s, $g: S::f32s) -> S::f32s {
                $gradient
            }
        }
    };
}

function!(Exp, |s, x| simd::exp(s, x), |y, g| s.mul_f32s(y, g));
function!(Ln, |s, x| simd::ln(s, x), |x, g| s.div_f32s(g, x));
function!(Sqrt, |s, x| s.sqrt_f32s(x), |y, g| s.div_f32s(s.mul_f32s(g, s.splat_f32s(0.5)), y));
function!(Tanh, |s, x| simd::tanh(s, x), |y, g| {
    // g·(1 − y²)
    s.sub_f32s(g, s.mul_f32s(g, s.mul_f32s(y, y)))
});
function!(Sigmoid, |s, x| simd::sigmoid(s, x), |y, g| {
    s.mul_f32s(g, s.mul_f32s(y, s.sub_f32s(s.splat_f32s(1.0), y)))
});
// Not a maximum, which would lose NaN on some machines.
function!(
    Relu,
    |s, x| s.select_f32s(s.less_than_f32s(x, s.splat_f32s(0.0)), s.splat_f32s(0.0), x),
    |y, g| s.select_f32s(s.greater_than_f32s(y, s.splat_f32s(0.0)), g, s.splat_f32s(0.0))
);
function!(Gelu, |s, x| s.mul_f32s(x, simd::normal_cdf(s, x)), |x, g| {
    // Φ(x) + x·φ(x), with φ(x) = e^(−x²/2) / √(2π)
    let density = simd::exp(s, s.mul_f32s(s.mul_f32s(x, x), s.splat_f32s(-0.5)));
    let density = s.mul_f32s(density, s.splat_f32s(0.398_942_28));
    s.mul_f32s(g, s.mul_add_e_f32s(x, density, simd::normal_cdf(s, x)))
});
function!(
    GeluTanh,
    |s, x| {
        // ½x(1 + tanh u) = x·sigmoid(2u)
        s.mul_f32s(x, simd::sigmoid(s, twice_gelu_argument(s, x)))
    },
    |x, g| {
        // σ + x·σ(1 − σ)·(2u)′, with σ = sigmoid(2u) and (2u)′ = 2√(2/π)(1 + 3·0.044715x²)
        let sigma = simd::sigmoid(s, twice_gelu_argument(s, x));
        let slope = s.mul_add_e_f32s(
            s.mul_f32s(x, x),
            s.splat_f32s(2.0 * SQRT_2_OVER_PI * 3.0 * 0.044_715),
            s.splat_f32s(2.0 * SQRT_2_OVER_PI),
        );
        let bend = s.mul_f32s(sigma, s.sub_f32s(s.splat_f32s(1.0), sigma));
        s.mul_f32s(g, s.mul_add_e_f32s(s.mul_f32s(x, bend), slope, sigma))
    }
);
function!(Silu, |s, x| s.mul_f32s(x, simd::sigmoid(s, x)), |x, g| {
    // σ(1 + x(1 − σ))
    let sigma = simd::sigmoid(s, x);
    let one = s.splat_f32s(1.0);
    s.mul_f32s(g, s.mul_f32s(sigma, s.mul_add_e_f32s(x, s.sub_f32s(one, sigma), one)))
});

function!(
    EluPlusOne,
    |s, x| {
        let above = s.add_f32s(x, s.splat_f32s(1.0));
        s.select_f32s(s.greater_than_f32s(x, s.splat_f32s(0.0)), above, simd::exp(s, x))
    },
    // The derivative is 1 above 0, where y > 1, and y below.
    |y, g| s.select_f32s(s.greater_than_f32s(y, s.splat_f32s(1.0)), g, s.mul_f32s(y, g))
);

const SQRT_2_OVER_PI: f32 = 0.797_884_6;

/// 2u = 2√(2/π)·(x + 0.044715x³).
#[inline(always)]
fn twice_gelu_argument<S: Simd>(s: S, x: S::f32s) -> S::f32s {
    let cubic = s.splat_f32s(2.0 * SQRT_2_OVER_PI * 0.044_715);
    let linear = s.splat_f32s(2.0 * SQRT_2_OVER_PI);
    s.mul_f32s(x, s.mul_add_e_f32s(s.mul_f32s(x, x), cubic, linear))
}

/// Calls a generic function with the lanes of a [`Function`].
macro_rules! with_lanes {
    ($function:expr, $lanes:ident => $body:expr) => {
        $crate::cpu::pointwise::with_lanes!(
            $function, $lanes => $body;
            Exp Ln Sqrt Tanh Sigmoid Relu Gelu GeluTanh Silu EluPlusOne
        )
    };
    ($function:expr, $lanes:ident => $body:expr; $($name:ident)*) => {
        match $function {
            $($crate::kernels::pointwise::Function::$name => {
                let $lanes = $crate::cpu::pointwise::$name;
                $body
            })*
        }
    };
}

pub(super) use with_lanes;

struct Forward<'a, L>(L, &'a [f32], &'a mut [f32]);

impl<L: Lanes> WithSimd for Forward<'_, L> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        let Self(lanes, x, y) = self;
        for i in 0..simd::registers(s, y) {
            simd::set(s, y, i, lanes.value(s, simd::get(s, x, i)));
        }
    }
}

struct Reverse<'a, L>(L, &'a [f32], &'a [f32], &'a mut [f32]);

impl<L: Lanes> WithSimd for Reverse<'_, L> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        let Self(lanes, saved, g, out) = self;
        for i in 0..simd::registers(s, out) {
            simd::set(s, out, i, lanes.gradient(s, simd::get(s, saved, i), simd::get(s, g, i)));
        }
    }
}

/// `y = f(x)` on one thread, for kernels that finish rows while they are in the cache.
pub(crate) fn apply(function: Function, x: &[f32], y: &mut [f32]) {
    with_lanes!(function, lanes => dispatch(Forward(lanes, x, y)));
}

/// `out = f′·g` on one thread.
pub(crate) fn apply_gradient(function: Function, saved: &[f32], g: &[f32], out: &mut [f32]) {
    with_lanes!(function, lanes => dispatch(Reverse(lanes, saved, g, out)));
}

pub(crate) fn forward(function: Function, x: &Array) -> Array {
    let x = x.slice();
    Array::build(x.len(), |y| {
        threads::chunks(y, ELEMENTS_PER_TASK, |index, y| {
            let start = index * ELEMENTS_PER_TASK;
            apply(function, &x[start..start + y.len()], y);
        });
    })
}

pub(crate) fn backward(function: Function, saved: &Array, upstream: &Array) -> Array {
    let (saved, g) = (saved.slice(), upstream.slice());
    Array::build(g.len(), |out| {
        threads::chunks(out, ELEMENTS_PER_TASK, |index, out| {
            let range = index * ELEMENTS_PER_TASK..index * ELEMENTS_PER_TASK + out.len();
            apply_gradient(function, &saved[range.clone()], &g[range], out);
        });
    })
}
