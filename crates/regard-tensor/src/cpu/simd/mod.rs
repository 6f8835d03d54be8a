//! Vector instructions chosen at run time.

mod functions;
#[cfg(target_arch = "x86_64")]
pub(crate) mod wide;
mod widen;

pub(crate) use functions::{exp, exp2, exp2_to_one, ln, normal_cdf, sigmoid, tanh};
pub(crate) use widen::{Bf16, F16, Half, copy_widened, widen_row};
#[cfg(target_arch = "x86_64")]
pub(crate) use widen::{is, same};

use pulp::{Simd, WithSimd};
use std::sync::OnceLock;

/// The instruction sets that kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// 16 lanes: AVX-512 F, BW, CD, DQ, VL.
    Avx512,
    /// 8 lanes: AVX2 and FMA.
    Avx2,
    /// 4 lanes on 64-bit ARM.
    Neon,
    /// 4 lanes that the compiler maps to whatever the target has.
    Portable,
}

#[derive(Clone, Copy)]
enum Token {
    #[cfg(target_arch = "x86_64")]
    Avx512(pulp::x86::V4),
    #[cfg(target_arch = "x86_64")]
    Avx2(pulp::x86::V3),
    #[cfg(target_arch = "aarch64")]
    Neon(pulp::aarch64::Neon),
    Portable,
}

impl Token {
    #[cfg(target_arch = "x86_64")]
    fn best() -> Self {
        let wanted = std::env::var("REGARD_SIMD").unwrap_or_default();
        if wanted == "portable" {
            return Self::Portable;
        }
        let avx512 = if wanted == "avx2" { None } else { pulp::x86::V4::try_new().map(Self::Avx512) };
        avx512.or_else(|| pulp::x86::V3::try_new().map(Self::Avx2)).unwrap_or(Self::Portable)
    }

    #[cfg(target_arch = "aarch64")]
    fn best() -> Self {
        if std::env::var("REGARD_SIMD").is_ok_and(|wanted| wanted == "portable") {
            return Self::Portable;
        }
        pulp::aarch64::Neon::try_new().map_or(Self::Portable, Self::Neon)
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn best() -> Self {
        Self::Portable
    }
}

fn token() -> Token {
    static TOKEN: OnceLock<Token> = OnceLock::new();
    *TOKEN.get_or_init(Token::best)
}

/// The instruction set in use: the best this machine has, or the one that the environment variable
/// `REGARD_SIMD` (`avx512`, `avx2` or `portable`) asks for if the machine has it.
pub fn level() -> Level {
    match token() {
        #[cfg(target_arch = "x86_64")]
        Token::Avx512(_) => Level::Avx512,
        #[cfg(target_arch = "x86_64")]
        Token::Avx2(_) => Level::Avx2,
        #[cfg(target_arch = "aarch64")]
        Token::Neon(_) => Level::Neon,
        Token::Portable => Level::Portable,
    }
}

/// Runs a kernel with the chosen instructions, denormal numbers flushed to zero.
#[inline]
pub(crate) fn dispatch<K: WithSimd>(kernel: K) -> K::Output {
    let _flushed = FlushDenormals::new();
    match token() {
        #[cfg(target_arch = "x86_64")]
        Token::Avx512(simd) => Simd::vectorize(simd, kernel),
        #[cfg(target_arch = "x86_64")]
        Token::Avx2(simd) => Simd::vectorize(simd, kernel),
        #[cfg(target_arch = "aarch64")]
        Token::Neon(simd) => Simd::vectorize(simd, kernel),
        Token::Portable => Simd::vectorize(pulp::Scalar128b, kernel),
    }
}

/// Treats denormal numbers as zero on this thread until dropped.
///
/// Arithmetic on denormals (below 1.2e-38) is up to a hundred times slower, and vanishing gradients are full of
/// them. Every kernel runs under this guard, so results do not depend on which thread computed them.
pub(crate) struct FlushDenormals {
    #[cfg(target_arch = "x86_64")]
    saved: u32,
    #[cfg(target_arch = "aarch64")]
    saved: u64,
}

impl FlushDenormals {
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub fn new() -> Self {
        let mut saved = 0_u32;
        // SAFETY: stores the control register to a local.
        unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut saved, options(nostack)) };
        // Flush-to-zero (bit 15) and denormals-are-zero (bit 6).
        set_control(saved | 0x8040);
        Self { saved }
    }

    #[cfg(target_arch = "aarch64")]
    #[inline]
    pub fn new() -> Self {
        let saved: u64;
        // SAFETY: reads the control register and sets its flush-to-zero bit (24); no other bit changes.
        unsafe {
            std::arch::asm!("mrs {}, fpcr", out(reg) saved, options(nomem, nostack));
            std::arch::asm!("msr fpcr, {}", in(reg) saved | 1 << 24, options(nomem, nostack));
        }
        Self { saved }
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    pub fn new() -> Self {
        Self {}
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn set_control(value: u32) {
    // SAFETY: only the two denormal bits ever differ from the value Rust starts with, and they are restored.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const value, options(nostack, readonly)) };
}

impl Drop for FlushDenormals {
    #[inline]
    fn drop(&mut self) {
        #[cfg(target_arch = "x86_64")]
        set_control(self.saved);
        #[cfg(target_arch = "aarch64")]
        // SAFETY: restores what `new` read.
        unsafe {
            std::arch::asm!("msr fpcr, {}", in(reg) self.saved, options(nomem, nostack));
        }
    }
}

/// Register number `i` of a slice, with zeros beyond its end.
#[inline(always)]
pub(crate) fn get<S: Simd>(s: S, slice: &[f32], i: usize) -> S::f32s {
    let start = i * S::F32_LANES;
    match slice.get(start..start + S::F32_LANES) {
        Some(whole) => S::as_simd_f32s(whole).0[0],
        None => s.partial_load_f32s(&slice[start..]),
    }
}

/// Writes register number `i` of a slice, as far as it reaches.
#[inline(always)]
pub(crate) fn set<S: Simd>(s: S, slice: &mut [f32], i: usize, value: S::f32s) {
    let start = i * S::F32_LANES;
    match slice.get_mut(start..start + S::F32_LANES) {
        Some(whole) => S::as_mut_simd_f32s(whole).0[0] = value,
        None => s.partial_store_f32s(&mut slice[start..], value),
    }
}

/// How many registers cover a slice.
#[inline(always)]
pub(crate) fn registers<S: Simd>(_: S, slice: &[f32]) -> usize {
    slice.len().div_ceil(S::F32_LANES)
}

/// The sum of a slice, in a fixed order for a given number of lanes.
#[inline(always)]
pub(crate) fn sum<S: Simd>(s: S, values: &[f32], f: impl Fn(S::f32s) -> S::f32s) -> f32 {
    let (body, tail) = S::as_simd_f32s(values);
    let zero = s.splat_f32s(0.0);
    let mut sums = [zero; 4];
    let (fours, rest) = pulp::as_arrays::<4, _>(body);
    for four in fours {
        for (sum, &x) in sums.iter_mut().zip(four) {
            *sum = s.add_f32s(*sum, f(x));
        }
    }
    for &x in rest {
        sums[0] = s.add_f32s(sums[0], f(x));
    }
    let mut total = s.reduce_sum_f32s(s.add_f32s(s.add_f32s(sums[0], sums[1]), s.add_f32s(sums[2], sums[3])));
    if !tail.is_empty() {
        let last = f(s.partial_load_f32s(tail));
        let mut lanes = [0.0; 16];
        s.partial_store_f32s(&mut lanes[..tail.len()], last);
        total += lanes[..tail.len()].iter().sum::<f32>();
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denormals_are_flushed_and_the_thread_is_left_as_it_was() {
        let small = std::hint::black_box(1e-30_f32);
        let product = {
            let _guard = FlushDenormals::new();
            std::hint::black_box(small * std::hint::black_box(1e-10))
        };
        assert_eq!(product, 0.0);
        assert!(small * std::hint::black_box(1e-10) > 0.0);
    }
}
