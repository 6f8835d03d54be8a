//! What AVX-512 has one instruction for, and other processors several.

use super::same;
use std::arch::x86_64::{
    __m512, __m512i, _mm512_castps_si512, _mm512_castsi512_ps, _mm512_loadu_si512, _mm512_max_ps,
    _mm512_min_ps, _mm512_mul_ps, _mm512_roundscale_ps, _mm512_scalef_ps, _mm512_set1_ps,
    _mm512_setzero_si512, _mm512_shuffle_i32x4, _mm512_storeu_si512, _mm512_unpackhi_epi32,
    _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
};

/// The nearest whole numbers, of two equally near ones the even one; −∞ and NaN stay what they are.
///
/// # Safety
/// `R` must be a register of sixteen values, and the processor must have AVX-512.
#[inline(always)]
pub(crate) unsafe fn nearest<R: Copy>(x: R) -> R {
    // SAFETY: promised by the caller.
    unsafe { same(_mm512_roundscale_ps::<0>(same::<R, __m512>(x))) }
}

/// `x · 2^whole`; 0 where `whole` is −∞, even if x is NaN there.
///
/// # Safety
/// As of [`nearest`].
#[inline(always)]
pub(crate) unsafe fn scaled<R: Copy>(x: R, whole: R) -> R {
    // SAFETY: promised by the caller.
    unsafe { same(_mm512_scalef_ps(same::<R, __m512>(x), same::<R, __m512>(whole))) }
}

/// The smaller of x and a limit; NaN stays NaN: the instruction returns its second operand then.
///
/// # Safety
/// As of [`nearest`].
#[inline(always)]
pub(crate) unsafe fn at_most<R: Copy>(x: R, limit: f32) -> R {
    // SAFETY: promised by the caller.
    unsafe { same(_mm512_min_ps(_mm512_set1_ps(limit), same::<R, __m512>(x))) }
}

/// The larger of x and a limit; NaN stays NaN.
///
/// # Safety
/// As of [`nearest`].
#[inline(always)]
pub(crate) unsafe fn at_least<R: Copy>(x: R, limit: f32) -> R {
    // SAFETY: promised by the caller.
    unsafe { same(_mm512_max_ps(_mm512_set1_ps(limit), same::<R, __m512>(x))) }
}

/// Words as `f32`, scaled.
///
/// # Safety
/// The processor must have AVX-512.
#[inline(always)]
pub(crate) unsafe fn scaled_words(words: __m512i, scale: f32) -> __m512i {
    // SAFETY: promised by the caller.
    unsafe { _mm512_castps_si512(_mm512_mul_ps(_mm512_castsi512_ps(words), _mm512_set1_ps(scale))) }
}

/// # Safety
/// Sixteen words must be writable, and the processor must have AVX-512.
#[inline(always)]
pub(crate) unsafe fn store(to: *mut f32, words: __m512i) {
    // SAFETY: promised by the caller.
    unsafe { _mm512_storeu_si512(to.cast(), words) }
}

/// Word `i` of every line, for each `i`: sixteen lines of sixteen words, transposed in registers.
///
/// # Safety
/// A line of 64 bytes must lie at each of sixteen places `apart` bytes from each other, and the processor must have
/// AVX-512.
#[inline(always)]
pub(crate) unsafe fn transposed(from: *const u8, apart: usize) -> [__m512i; 16] {
    // SAFETY: promised by the caller.
    unsafe {
        let zero = _mm512_setzero_si512();
        // Four lines at a time: quarter q of `quads[g][e]` has word 4q + e of lines 4g to 4g + 3.
        let mut quads = [[zero; 4]; 4];
        for (group, quads) in quads.iter_mut().enumerate() {
            let line = |i: usize| _mm512_loadu_si512(from.add((4 * group + i) * apart).cast());
            let (a, b, c, d) = (line(0), line(1), line(2), line(3));
            let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
            let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
            *quads = [
                _mm512_unpacklo_epi64(ab_low, cd_low),
                _mm512_unpackhi_epi64(ab_low, cd_low),
                _mm512_unpacklo_epi64(ab_high, cd_high),
                _mm512_unpackhi_epi64(ab_high, cd_high),
            ];
        }
        let mut words = [zero; 16];
        for e in 0..4 {
            let [a, b, c, d] = [quads[0][e], quads[1][e], quads[2][e], quads[3][e]];
            let (ab_even, ab_odd) = (_mm512_shuffle_i32x4::<0x88>(a, b), _mm512_shuffle_i32x4::<0xdd>(a, b));
            let (cd_even, cd_odd) = (_mm512_shuffle_i32x4::<0x88>(c, d), _mm512_shuffle_i32x4::<0xdd>(c, d));
            words[e] = _mm512_shuffle_i32x4::<0x88>(ab_even, cd_even);
            words[4 + e] = _mm512_shuffle_i32x4::<0x88>(ab_odd, cd_odd);
            words[8 + e] = _mm512_shuffle_i32x4::<0xdd>(ab_even, cd_even);
            words[12 + e] = _mm512_shuffle_i32x4::<0xdd>(ab_odd, cd_odd);
        }
        words
    }
}
