//! Soft caps: scores s become cap·tanh(s / cap), which stays within ± cap (Bello et al., 2016; Gemma 2, 2024).

use super::Group;
use crate::blocks::BLOCK;
use crate::cpu::simd::tanh;
use crate::cpu::tile::{load, store};
use pulp::Simd;
use std::f32::consts::LOG2_E;

/// A cap in units of log₂, as scores are.
#[derive(Clone, Copy)]
pub(super) struct SoftCap(f32);

impl SoftCap {
    pub fn new(cap: f32) -> Self {
        Self(cap * LOG2_E)
    }

    /// Caps the scores of a group of keys (rows of 64 queries).
    #[inline(always)]
    pub fn apply<S: Simd>(self, s: S, scores: &mut [f32], group: Group, lanes: usize) {
        let (cap, inverse) = (s.splat_f32s(self.0), s.splat_f32s(1.0 / self.0));
        each_register(s, scores, group, lanes, |_, score| {
            s.mul_f32s(cap, tanh(s, s.mul_f32s(score, inverse)))
        });
    }

    /// The same for the backward pass: adds a value for each query, and writes the derivatives 1 − tanh².
    #[inline(always)]
    pub fn apply_with_derivatives<S: Simd>(
        self,
        s: S,
        scores: &mut [f32],
        derivatives: &mut [f32],
        added: &[f32; BLOCK],
        (group, lanes): (Group, usize),
    ) {
        let (cap, inverse) = (s.splat_f32s(self.0), s.splat_f32s(1.0 / self.0));
        let one = s.splat_f32s(1.0);
        let derivatives = &mut derivatives[..BLOCK * BLOCK];
        each_register(s, scores, group, lanes, |place, score| {
            let t = tanh(s, s.mul_f32s(score, inverse));
            // SAFETY: the place is that of a register of a tile, and its lanes are below 64.
            unsafe {
                store(s, derivatives.as_mut_ptr().add(place), s.negate_mul_add_e_f32s(t, t, one));
                s.mul_add_e_f32s(cap, t, load(s, added[place % BLOCK..].as_ptr()))
            }
        });
    }
}

/// Multiplies the slopes of a group of keys with the derivatives of the cap.
#[inline(always)]
pub(super) fn multiply<S: Simd>(s: S, slopes: &mut [f32], derivatives: &[f32], group: Group, lanes: usize) {
    let derivatives = &derivatives[..BLOCK * BLOCK];
    each_register(s, slopes, group, lanes, |place, slope| {
        // SAFETY: the place is that of a register of a tile.
        s.mul_f32s(slope, unsafe { load(s, derivatives.as_ptr().add(place)) })
    });
}

/// Replaces each register of a group by a function of its place in the tile and its values.
#[inline(always)]
fn each_register<S: Simd>(
    s: S,
    tile: &mut [f32],
    Group { start, len, first }: Group,
    lanes: usize,
    mut f: impl FnMut(usize, S::f32s) -> S::f32s,
) {
    assert!(start + len <= BLOCK && lanes <= BLOCK && tile.len() >= BLOCK * BLOCK);
    for key in start..start + len {
        for lane in (first..lanes).step_by(S::F32_LANES) {
            let place = key * BLOCK + lane;
            // SAFETY: whole registers of `lanes`, a multiple of theirs, in a tile of 64 rows of 64.
            unsafe {
                let at = tile.as_mut_ptr().add(place);
                store(s, at, f(place, load(s, at)));
            }
        }
    }
}
