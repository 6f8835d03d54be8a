//! Exponentials, logarithms and their kin in lanes: to rounding, NaN in, NaN out.

#[cfg(target_arch = "x86_64")]
use super::{is, wide};
use pulp::Simd;

/// 2^x for x up to 127: the whole part becomes the exponent, the rest a minimax polynomial of degree 6 (2e-9, so that
/// rounding is all that is left). NaN stays NaN.
///
/// A masked score (−∞), like all from −127 down, gives exactly 0: the float with no bits set in its exponent.
#[inline(always)]
pub(crate) fn exp2<S: Simd>(s: S, x: S::f32s) -> S::f32s {
    #[cfg(target_arch = "x86_64")]
    if is::<S, pulp::x86::V4>() {
        // SAFETY: the type shows what the processor has.
        unsafe {
            let whole = wide::nearest(x);
            return wide::scaled(exp2_of_rest(s, s.sub_f32s(x, whole)), whole);
        }
    }
    let x = at_least(s, x, -127.0);
    let shifted = s.add_f32s(x, s.splat_f32s(TO_EXPONENT));
    let whole = s.sub_f32s(shifted, s.splat_f32s(TO_EXPONENT));
    scaled(s, exp2_of_rest(s, s.sub_f32s(x, whole)), shifted)
}

/// 2^x for x in [−½, ½].
#[inline(always)]
fn exp2_of_rest<S: Simd>(s: S, x: S::f32s) -> S::f32s {
    horner(
        s,
        x,
        [1.535_336_2e-4, 1.339_887_5e-3, 9.618_437e-3, 5.550_332_4e-2, 2.402_264_8e-1, 6.931_472e-1, 1.0],
    )
}

/// Adding this, 1.5·2²³ + 127, to a number leaves in the low bits of the sum the nearest whole number plus 127: the
/// exponent of a float, before it is moved to its place.
const TO_EXPONENT: f32 = 12_583_039.0;

/// 2 to the whole number that is in `shifted`, from −127 (which gives 0) to 127.
#[inline(always)]
fn power_of_two<S: Simd>(s: S, shifted: S::f32s) -> S::f32s {
    s.transmute_f32s_u32s(s.wrapping_dyn_shl_u32s(s.transmute_u32s_f32s(shifted), s.splat_u32s(23)))
}

/// A value times 2 to the whole number that is in `shifted`: from −127 (which gives 0) to 127, or any with AVX-512.
#[inline(always)]
fn scaled<S: Simd>(s: S, x: S::f32s, shifted: S::f32s) -> S::f32s {
    #[cfg(target_arch = "x86_64")]
    if is::<S, pulp::x86::V4>() {
        // SAFETY: the type shows what the processor has.
        return unsafe { wide::scaled(x, s.sub_f32s(shifted, s.splat_f32s(TO_EXPONENT))) };
    }
    s.mul_f32s(x, power_of_two(s, shifted))
}

/// The larger of x and a limit; NaN stays NaN, unlike in `max`.
#[inline(always)]
fn at_least<S: Simd>(s: S, x: S::f32s, limit: f32) -> S::f32s {
    #[cfg(target_arch = "x86_64")]
    if is::<S, pulp::x86::V4>() {
        // SAFETY: the type shows what the processor has.
        return unsafe { wide::at_least(x, limit) };
    }
    let limit = s.splat_f32s(limit);
    s.select_f32s(s.less_than_f32s(x, limit), limit, x)
}

/// The smaller of x and a limit; NaN stays NaN, unlike in `min`.
#[inline(always)]
fn at_most<S: Simd>(s: S, x: S::f32s, limit: f32) -> S::f32s {
    #[cfg(target_arch = "x86_64")]
    if is::<S, pulp::x86::V4>() {
        // SAFETY: the type shows what the processor has.
        return unsafe { wide::at_most(x, limit) };
    }
    let limit = s.splat_f32s(limit);
    s.select_f32s(s.greater_than_f32s(x, limit), limit, x)
}

/// A weight relative to a log-sum-exp, from the difference of the logarithms: never above 1, which rounding of huge
/// scores would otherwise make it. NaN stays NaN.
#[inline(always)]
pub(crate) fn exp2_to_one<S: Simd>(s: S, x: S::f32s) -> S::f32s {
    exp2(s, at_most(s, x, 0.0))
}

/// e^x; NaN stays NaN.
#[inline(always)]
pub(crate) fn exp<S: Simd>(s: S, x: S::f32s) -> S::f32s {
    #[cfg(target_arch = "x86_64")]
    if is::<S, pulp::x86::V4>() {
        // Beyond these limits, scaling gives 0 and infinity.
        let (poly, shifted) = exp_parts(s, at_most(s, at_least(s, x, -105.0), 90.0));
        return scaled(s, poly, shifted);
    }
    let limited = s.min_f32s(s.max_f32s(x, s.splat_f32s(-87.4)), s.splat_f32s(88.722));
    let (poly, shifted) = exp_parts(s, limited);
    // Adding to the exponent reaches e^88.7, whose power of two alone would be infinite.
    let exponent = s.sub_u32s(s.transmute_u32s_f32s(power_of_two(s, shifted)), s.splat_u32s(127 << 23));
    let product = s.transmute_f32s_u32s(s.add_u32s(s.transmute_u32s_f32s(poly), exponent));
    let vanishes = s.less_than_f32s(x, s.splat_f32s(-87.3));
    let overflows = s.greater_than_f32s(x, s.splat_f32s(88.722));
    let result = s.select_f32s(vanishes, s.splat_f32s(0.0), product);
    let result = s.select_f32s(overflows, s.splat_f32s(f32::INFINITY), result);
    s.select_f32s(s.equal_f32s(x, x), result, x)
}

/// e^x as a factor between √½ and √2 and a power of two, still in the form that `power_of_two` reads.
#[inline(always)]
fn exp_parts<S: Simd>(s: S, x: S::f32s) -> (S::f32s, S::f32s) {
    let shifted = s.mul_add_e_f32s(x, s.splat_f32s(std::f32::consts::LOG2_E), s.splat_f32s(TO_EXPONENT));
    let whole = s.sub_f32s(shifted, s.splat_f32s(TO_EXPONENT));
    // rest = x − whole·ln 2, with ln 2 in two parts (Cody and Waite).
    let rest = s.mul_add_e_f32s(whole, s.splat_f32s(-0.693_359_375), x);
    let rest = s.mul_add_e_f32s(whole, s.splat_f32s(2.121_944_4e-4), rest);
    let poly = horner(
        s,
        rest,
        [1.381_461_3e-3, 8.368_71e-3, 4.166_838_9e-2, 1.666_652_1e-1, 4.999_999_4e-1, 1.0, 1.0],
    );
    (poly, shifted)
}

/// e^x up to e^88 and down to 0, for formulas in which more would change nothing; NaN stays NaN.
#[inline(always)]
fn bounded_exp<S: Simd>(s: S, x: S::f32s) -> S::f32s {
    let (poly, shifted) = exp_parts(s, at_most(s, at_least(s, x, -88.0), 88.0));
    scaled(s, poly, shifted)
}

/// The natural logarithm: exponent and mantissa apart, a polynomial on [√½, √2] (Cephes). −∞ at 0, NaN below.
#[inline(always)]
pub(crate) fn ln<S: Simd>(s: S, x: S::f32s) -> S::f32s {
    let one = s.splat_f32s(1.0);
    let bits = s.transmute_u32s_f32s(x);
    // Exponent bits placed into the mantissa of 2²³ make the float 2²³ + exponent.
    let biased = s.or_u32s(s.wrapping_dyn_shr_u32s(bits, s.splat_u32s(23)), s.splat_u32s(0x4b00_0000));
    let exponent = s.sub_f32s(s.transmute_f32s_u32s(biased), s.splat_f32s(8_388_608.0 + 127.0));
    let mantissa = s.or_u32s(s.and_u32s(bits, s.splat_u32s(0x007f_ffff)), s.splat_u32s(0x3f80_0000));
    let mantissa = s.transmute_f32s_u32s(mantissa); // in [1, 2)
    let large = s.greater_than_f32s(mantissa, s.splat_f32s(std::f32::consts::SQRT_2));
    let halved = s.mul_f32s(mantissa, s.splat_f32s(0.5));
    let f = s.sub_f32s(s.select_f32s(large, halved, mantissa), one);
    let exponent = s.select_f32s(large, s.add_f32s(exponent, one), exponent);
    let square = s.mul_f32s(f, f);
    let poly = horner(
        s,
        f,
        [
            7.0376836292e-2,
            -1.1514610310e-1,
            1.1676998740e-1,
            -1.2420140846e-1,
            1.4249322787e-1,
            -1.6668057665e-1,
            2.0000714765e-1,
            -2.4999993993e-1,
            3.3333331174e-1,
        ],
    );
    let tail = s.mul_f32s(s.mul_f32s(poly, f), square);
    let tail = s.mul_add_e_f32s(exponent, s.splat_f32s(-2.121_944_4e-4), tail);
    let tail = s.mul_add_e_f32s(square, s.splat_f32s(-0.5), tail);
    let result = s.mul_add_e_f32s(exponent, s.splat_f32s(0.693_359_375), s.add_f32s(f, tail));
    let zero = s.splat_f32s(0.0);
    let infinity = s.splat_f32s(f32::INFINITY);
    let result = s.select_f32s(s.equal_f32s(x, zero), s.splat_f32s(f32::NEG_INFINITY), result);
    let result = s.select_f32s(s.equal_f32s(x, infinity), infinity, result);
    s.select_f32s(s.greater_than_or_equal_f32s(x, zero), result, s.splat_f32s(f32::NAN))
}

/// 1 / (1 + e^−x).
#[inline(always)]
pub(crate) fn sigmoid<S: Simd>(s: S, x: S::f32s) -> S::f32s {
    let one = s.splat_f32s(1.0);
    s.div_f32s(one, s.add_f32s(one, bounded_exp(s, s.neg_f32s(x))))
}

/// Hyperbolic tangent: a polynomial near 0, where 1 − 2/(e^2x + 1) would cancel, that formula elsewhere.
#[inline(always)]
pub(crate) fn tanh<S: Simd>(s: S, x: S::f32s) -> S::f32s {
    let size = s.abs_f32s(x);
    let square = s.mul_f32s(x, x);
    let near = horner(
        s,
        square,
        [-5.704_988_7e-3, 2.063_908_9e-2, -5.373_971_2e-2, 1.333_144_2e-1, -3.333_328_2e-1],
    );
    let near = s.mul_add_e_f32s(s.mul_f32s(near, square), x, x);
    let one = s.splat_f32s(1.0);
    let grown = bounded_exp(s, s.add_f32s(size, size));
    let far = s.sub_f32s(one, s.div_f32s(s.splat_f32s(2.0), s.add_f32s(grown, one)));
    let sign = s.and_f32s(x, s.splat_f32s(-0.0));
    let far = s.or_f32s(far, sign);
    s.select_f32s(s.less_than_f32s(size, s.splat_f32s(0.625)), near, far)
}

/// The normal distribution's Φ(x) = ½ erfc(−x/√2), to a relative error of about 2e-7 where it matters.
///
/// erfc(z) = t·exp(−z² + P(t)), t = 1/(1 + z/2): a Chebyshev fit (Numerical Recipes, §6.2).
#[inline(always)]
pub(crate) fn normal_cdf<S: Simd>(s: S, x: S::f32s) -> S::f32s {
    let z = s.mul_f32s(s.abs_f32s(x), s.splat_f32s(std::f32::consts::FRAC_1_SQRT_2));
    let one = s.splat_f32s(1.0);
    let t = s.div_f32s(one, s.mul_add_e_f32s(z, s.splat_f32s(0.5), one));
    let fit = horner(
        s,
        t,
        [
            0.17087277,
            -0.82215223,
            1.48851587,
            -1.13520398,
            0.27886807,
            -0.18628806,
            0.09678418,
            0.37409196,
            1.00002368,
            -1.26551223,
        ],
    );
    let exponent = s.sub_f32s(fit, s.mul_f32s(z, z));
    let upper_tail = s.mul_f32s(s.mul_f32s(t, s.splat_f32s(0.5)), exp(s, exponent));
    let negative = s.less_than_f32s(x, s.splat_f32s(0.0));
    s.select_f32s(negative, upper_tail, s.sub_f32s(one, upper_tail))
}

/// A polynomial, highest coefficient first.
#[inline(always)]
fn horner<S: Simd, const N: usize>(s: S, x: S::f32s, coefficients: [f32; N]) -> S::f32s {
    let mut result = s.splat_f32s(coefficients[0]);
    for &coefficient in &coefficients[1..] {
        result = s.mul_add_e_f32s(result, x, s.splat_f32s(coefficient));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::simd::dispatch;
    use pulp::WithSimd;

    struct Apply<'a, F>(&'a [f32], &'a mut [f32], F);

    trait Lanes {
        fn call<S: Simd>(&self, s: S, x: S::f32s) -> S::f32s;
    }

    impl<F: Lanes> WithSimd for Apply<'_, F> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, s: S) {
            for (x, y) in self.0.chunks(S::F32_LANES).zip(self.1.chunks_mut(S::F32_LANES)) {
                s.partial_store_f32s(y, self.2.call(s, s.partial_load_f32s(x)));
            }
        }
    }

    /// The largest error over a dense grid, relative to `scale(exact)`.
    fn worst<F: Lanes>(f: F, exact: fn(f64) -> f64, range: (f32, f32), scale: fn(f64) -> f64) -> f64 {
        let n = 200_001;
        let xs: Vec<f32> =
            (0..n).map(|i| range.0 + (range.1 - range.0) * i as f32 / (n - 1) as f32).collect();
        let mut ys = vec![0.0; n];
        dispatch(Apply(&xs, &mut ys, f));
        xs.iter()
            .zip(&ys)
            .map(|(&x, &y)| {
                let want = exact(f64::from(x));
                (f64::from(y) - want).abs() / scale(want)
            })
            .fold(0.0, f64::max)
    }

    macro_rules! lanes {
        ($name:ident, $function:path) => {
            struct $name;
            impl Lanes for $name {
                #[inline(always)]
                fn call<S: Simd>(&self, s: S, x: S::f32s) -> S::f32s {
                    $function(s, x)
                }
            }
        };
    }
    lanes!(Exp, exp);
    lanes!(Exp2, exp2_to_one);
    lanes!(FreeExp2, exp2);
    lanes!(Tanh, tanh);
    lanes!(Sigmoid, sigmoid);
    lanes!(Cdf, normal_cdf);
    lanes!(Ln, ln);

    /// erfc by its continued fraction and its series, good to 1e-15: the judge of `normal_cdf`.
    fn cdf(x: f64) -> f64 {
        let z = x.abs() / std::f64::consts::SQRT_2;
        let erfc = if z < 2.5 {
            let (mut term, mut sum) = (z, z);
            for n in 1..200 {
                term *= -z * z / f64::from(n);
                sum += term / f64::from(2 * n + 1);
            }
            1.0 - sum * 2.0 / std::f64::consts::PI.sqrt()
        } else {
            let mut fraction = 0.0;
            for k in (1..=200).rev() {
                fraction = f64::from(k) / 2.0 / (z + fraction);
            }
            (-z * z).exp() / (std::f64::consts::PI.sqrt() * (z + fraction))
        };
        if x < 0.0 { erfc / 2.0 } else { 1.0 - erfc / 2.0 }
    }

    #[test]
    fn functions_are_exact_to_rounding() {
        let relative = f64::abs;
        assert!(worst(Exp2, f64::exp2, (-125.9, 0.0), relative) < 1.5e-7);
        assert!(worst(FreeExp2, f64::exp2, (-125.9, 126.9), relative) < 1.5e-7);
        assert!(worst(Exp, f64::exp, (-87.0, 88.7), relative) < 1.5e-7);
        assert!(worst(Tanh, f64::tanh, (-10.0, 10.0), relative) < 3e-7);
        assert!(worst(Sigmoid, |x| 1.0 / (1.0 + (-x).exp()), (-80.0, 80.0), relative) < 3e-7);
        assert!(worst(Ln, f64::ln, (1e-3, 100.0), |want| want.abs().max(1.0)) < 1.2e-7);
        assert!(worst(Cdf, cdf, (-3.0, 8.0), relative) < 1.5e-6);
        assert!(worst(Cdf, cdf, (-8.0, 8.0), |_| 1.0) < 2e-7);
    }

    #[test]
    fn ends_of_the_range() {
        let xs = [f32::NEG_INFINITY, -1e30, -127.0, f32::INFINITY, 1e30, 0.0];
        let mut ys = [0.0; 6];
        dispatch(Apply(&xs, &mut ys, Exp2));
        assert_eq!(&ys[..3], &[0.0; 3]);
        assert_eq!(&ys[3..], &[1.0; 3]);
        dispatch(Apply(&xs[..3], &mut ys[..3], FreeExp2));
        assert_eq!(&ys[..3], &[0.0; 3]);
        let nans = [f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001), f32::from_bits(0x7fff_ffff)];
        let mut y = [0.0; 4];
        dispatch(Apply(&nans, &mut y, Exp2));
        assert!(y.iter().all(|y| y.is_nan()), "{y:?}");
        dispatch(Apply(&nans, &mut y, FreeExp2));
        assert!(y.iter().all(|y| y.is_nan()), "{y:?}");
        dispatch(Apply(&nans, &mut y, Exp));
        assert!(y.iter().all(|y| y.is_nan()), "{y:?}");
        dispatch(Apply(&nans, &mut y, Sigmoid));
        assert!(y.iter().all(|y| y.is_nan()), "{y:?}");
        dispatch(Apply(&nans, &mut y, Tanh));
        assert!(y.iter().all(|y| y.is_nan()), "{y:?}");
        dispatch(Apply(&xs, &mut ys, Sigmoid));
        assert_eq!(ys, [0.0, 0.0, 0.0, 1.0, 1.0, 0.5]);
        dispatch(Apply(&xs, &mut ys, Exp));
        assert_eq!(ys, [0.0, 0.0, 0.0, f32::INFINITY, f32::INFINITY, 1.0]);
        dispatch(Apply(&xs, &mut ys, Tanh));
        assert_eq!(ys, [-1.0, -1.0, -1.0, 1.0, 1.0, 0.0]);
        dispatch(Apply(&xs, &mut ys, Ln));
        assert!(ys[..3].iter().all(|y| y.is_nan()));
        assert_eq!([ys[3], ys[5]], [f32::INFINITY, f32::NEG_INFINITY]);
    }
}
