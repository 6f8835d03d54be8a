//! Values of 16 bits as registers and rows of `f32`. Widening is exact, whichever instructions do it.

use super::Simd;
use crate::storage::Values;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::__m512i;

/// A 16-bit type, by the bit patterns of its values.
pub(crate) trait Half: Copy {
    /// One value.
    fn widen(bits: u16) -> f32;

    /// As many neighbouring values as a register has lanes.
    ///
    /// # Safety
    /// They must lie at `from`.
    unsafe fn load<S: Simd>(s: S, from: *const u16) -> S::f32s;

    /// Sixteen pairs of values: the first of each, and the second of each, as the bits of `f32`.
    ///
    /// # Safety
    /// The processor must have AVX-512.
    #[cfg(target_arch = "x86_64")]
    unsafe fn split(pairs: __m512i) -> (__m512i, __m512i);
}

/// The upper half of an `f32`.
#[derive(Clone, Copy)]
pub(crate) struct Bf16;

/// IEEE half precision.
#[derive(Clone, Copy)]
pub(crate) struct F16;

impl Half for Bf16 {
    #[inline(always)]
    fn widen(bits: u16) -> f32 {
        f32::from_bits(u32::from(bits) << 16)
    }

    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, from: *const u16) -> S::f32s {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: promised by the caller; the type of `s` shows that the processor has the instructions.
        unsafe {
            use std::arch::x86_64::{
                _mm_loadu_si128, _mm256_cvtepu16_epi32, _mm256_loadu_si256, _mm256_slli_epi32,
                _mm512_cvtepu16_epi32, _mm512_slli_epi32,
            };
            if is::<S, pulp::x86::V4>() {
                let bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
                return same(_mm512_slli_epi32::<16>(bits));
            }
            if is::<S, pulp::x86::V3>() {
                let bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
                return same(_mm256_slli_epi32::<16>(bits));
            }
        }
        // SAFETY: promised by the caller.
        unsafe { lanes::<Self, S>(s, from) }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn split(pairs: __m512i) -> (__m512i, __m512i) {
        use std::arch::x86_64::{_mm512_and_si512, _mm512_set1_epi32, _mm512_slli_epi32};
        // SAFETY: promised by the caller.
        unsafe {
            let upper = _mm512_set1_epi32(-0x1_0000);
            (_mm512_slli_epi32::<16>(pairs), _mm512_and_si512(pairs, upper))
        }
    }
}

/// 2^112: moves an exponent with the bias of `f16`, 15, to that of `f32`, 127.
const REBIAS: f32 = 5_192_296_858_534_827_628_530_496_329_220_096.0;

impl Half for F16 {
    /// Without branches, so that loops of it become vector instructions; without denormal numbers, which kernels flush.
    #[inline(always)]
    fn widen(bits: u16) -> f32 {
        let sign = u32::from(bits & 0x8000) << 16;
        let magnitude = u32::from(bits & 0x7fff) << 13;
        let normal = (f32::from_bits(magnitude) * REBIAS).to_bits();
        // Below the smallest normal number: a multiple of 2^−24.
        let small = (f32::from(bits & 0x7fff) * (1.0 / 16_777_216.0)).to_bits();
        let infinite = magnitude | 0x7f80_0000;
        let value = if magnitude < 0x0400 << 13 { small } else { normal };
        let value = if magnitude >= 0x7c00 << 13 { infinite } else { value };
        f32::from_bits(value | sign)
    }

    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, from: *const u16) -> S::f32s {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: promised by the caller; the type of `s` shows that the processor has the instructions. (AVX2 does not: those
        // of F16C are a set of their own.)
        unsafe {
            use std::arch::x86_64::{_mm256_loadu_si256, _mm512_cvtph_ps};
            if is::<S, pulp::x86::V4>() {
                return same(_mm512_cvtph_ps(_mm256_loadu_si256(from.cast())));
            }
        }
        // SAFETY: promised by the caller.
        unsafe { lanes::<Self, S>(s, from) }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn split(pairs: __m512i) -> (__m512i, __m512i) {
        use std::arch::x86_64::{
            _mm512_castps_si512, _mm512_cvtepi32_epi16, _mm512_cvtph_ps, _mm512_srli_epi32,
        };
        // SAFETY: promised by the caller.
        unsafe {
            let (even, odd) =
                (_mm512_cvtepi32_epi16(pairs), _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(pairs)));
            (_mm512_castps_si512(_mm512_cvtph_ps(even)), _mm512_castps_si512(_mm512_cvtph_ps(odd)))
        }
    }
}

/// Whether two types are the same one, known when the code is compiled.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn is<A: 'static, B: 'static>() -> bool {
    std::any::TypeId::of::<A>() == std::any::TypeId::of::<B>()
}

/// A register under its other name.
///
/// # Safety
/// Both must be registers of the same size.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn same<A: Copy, B>(register: A) -> B {
    debug_assert_eq!(size_of::<A>(), size_of::<B>());
    // SAFETY: promised by the caller; every bit pattern is a valid register.
    unsafe { std::mem::transmute_copy(&register) }
}

/// A register, lane by lane, for processors without instructions for it.
///
/// # Safety
/// A register's worth of values must lie at `from`.
#[inline(always)]
unsafe fn lanes<H: Half, S: Simd>(_: S, from: *const u16) -> S::f32s {
    let mut lanes = [0.0_f32; WIDEST];
    for (i, lane) in lanes.iter_mut().enumerate().take(S::F32_LANES) {
        // SAFETY: promised by the caller.
        *lane = H::widen(unsafe { *from.add(i) });
    }
    // SAFETY: no register is wider than the array, and every bit pattern is a valid one.
    unsafe { lanes.as_ptr().cast::<S::f32s>().read_unaligned() }
}

/// The lanes of the widest register.
const WIDEST: usize = 16;

/// Writes neighbouring values as `f32`.
#[inline(always)]
pub(crate) fn widen_row<H: Half>(from: &[u16], to: &mut [f32]) {
    for (to, &bits) in to.iter_mut().zip(from) {
        *to = H::widen(bits);
    }
}

/// The same for values of any type.
#[inline(always)]
pub(crate) fn copy_widened(from: Values, to: &mut [f32]) {
    match from {
        Values::F32(from) => to[..from.len()].copy_from_slice(from),
        Values::Bf16(from) => widen_row::<Bf16>(from, to),
        Values::F16(from) => widen_row::<F16>(from, to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::convert;
    use crate::cpu::simd::dispatch;
    use pulp::WithSimd;

    /// Every pattern of 16 bits through registers of a type.
    struct All<H>(H);

    impl<H: Half> WithSimd for All<H> {
        type Output = Vec<f32>;

        #[inline(always)]
        fn with_simd<S: Simd>(self, s: S) -> Vec<f32> {
            let bits: Vec<u16> = (0..=u16::MAX).collect();
            let mut out = Vec::new();
            for chunk in bits.chunks_exact(S::F32_LANES) {
                // SAFETY: a chunk is as long as a register.
                let register = unsafe { H::load(s, chunk.as_ptr()) };
                let mut lanes = [0.0; WIDEST];
                s.partial_store_f32s(&mut lanes[..S::F32_LANES], register);
                out.extend_from_slice(&lanes[..S::F32_LANES]);
            }
            out
        }
    }

    /// Kernels flush denormal numbers: widening must not lose one to it, nor differ from the conversion of whole arrays.
    #[test]
    fn registers_hold_what_conversion_gives() {
        let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        let (bf16, f16) = (dispatch(All(Bf16)), dispatch(All(F16)));
        for bits in 0..=u16::MAX {
            let at = bits as usize;
            assert!(same(bf16[at], convert::bf16_to_f32(bits)), "{bits:#x}");
            assert!(same(f16[at], convert::f16_to_f32(bits)), "{bits:#x}");
            assert!(same(Bf16::widen(bits), convert::bf16_to_f32(bits)), "{bits:#x}");
            assert!(same(F16::widen(bits), convert::f16_to_f32(bits)), "{bits:#x}");
        }
    }
}
