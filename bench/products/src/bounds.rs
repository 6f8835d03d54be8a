//! What the machine can do at most: multiply-adds, and bytes read from memory.

use crate::best;
use std::hint::black_box;

/// Runs `work` on some threads at once and returns the seconds until all have ended.
fn on_threads(count: usize, work: impl Fn(usize) + Sync) -> f64 {
    best(0.3, || {
        std::thread::scope(|scope| {
            for index in 1..count {
                let work = &work;
                scope.spawn(move || work(index));
            }
            work(0);
        });
    })
}

/// Gigabytes read in a second, from more memory than caches hold.
fn memory(count: usize) -> f64 {
    let words = vec![1_u64; 64 << 20];
    let share = words.len() / count;
    let seconds = on_threads(count, |index| {
        let mut sums = [0_u64; 16];
        for words in words[index * share..(index + 1) * share].chunks_exact(16) {
            for (sum, word) in sums.iter_mut().zip(words) {
                *sum ^= word;
            }
        }
        black_box(sums);
    });
    (share * count * 8) as f64 / seconds / 1e9
}

/// Multiply-adds that wait for nothing but each other.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn multiply_adds(steps: usize) {
    use std::arch::x86_64::{_mm512_fmadd_ps, _mm512_set1_ps};
    let (a, b) = (_mm512_set1_ps(black_box(0.5)), _mm512_set1_ps(black_box(0.25)));
    let mut sums = [_mm512_set1_ps(0.0); 16];
    for _ in 0..steps {
        for sum in &mut sums {
            *sum = _mm512_fmadd_ps(*sum, a, b);
        }
    }
    black_box(sums);
}

/// Floating-point operations in a second, in billions; none where there is no AVX-512.
#[cfg(target_arch = "x86_64")]
fn arithmetic(count: usize) -> Option<f64> {
    if !is_x86_feature_detected!("avx512f") {
        return None;
    }
    let steps = 2_000_000;
    // SAFETY: the instructions were detected above.
    let seconds = on_threads(count, |_| unsafe { multiply_adds(steps) });
    Some((steps * 16 * 32 * count) as f64 / seconds / 1e9)
}

#[cfg(not(target_arch = "x86_64"))]
fn arithmetic(_: usize) -> Option<f64> {
    None
}

pub fn table(count: usize) {
    println!("## {count} threads\n");
    if let Some(rate) = arithmetic(count) {
        println!("Multiply-adds in registers: {rate:.0} GFLOP/s.");
    }
    println!("Reads from memory: {:.1} GB/s.\n", memory(count));
}
