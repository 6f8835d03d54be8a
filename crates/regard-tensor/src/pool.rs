//! Memory for arrays, recycled.
//!
//! Training asks for the same few dozen sizes in every step. Returning them to the operating system would cost
//! a page fault for each 4 KiB of every array, a large share of a step. So freed buffers wait here, by size
//! class, for the next request. All memory held, used and waiting, stays below twice the most that was in use at one
//! time, and [`trim`] gives back what waits.
//!
//! The working memory of a kernel's threads is kept apart, a little by each thread for itself: sixteen threads that
//! begin a job at the same time must not queue for it.

use crate::cpu::threads;
use bytemuck::{Pod, Zeroable};
use std::cell::RefCell;
use std::collections::HashMap;
use std::mem::size_of;
use std::sync::{LazyLock, Mutex, PoisonError};

/// 64 bytes: one cache line, and one AVX-512 register.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([f32; 16]);

const LINE: usize = 16;

/// Memory for `f32` values, aligned to a cache line, that returns to the pool when dropped.
pub(crate) struct Buffer {
    lines: Vec<Line>,
    len: usize,
    /// It returns to what its thread keeps for itself, not to the pool.
    scratch: bool,
}

impl Buffer {
    /// A buffer whose values are whatever the last user left: for kernels that write every value.
    ///
    /// (Never uninitialised in Rust's sense: all pool memory starts as zeros.)
    pub fn dirty(len: usize) -> Self {
        Self { lines: POOL.take(class(len)), len, scratch: false }
    }

    /// The same as working memory of a task, which is dropped by the thread that asked for it.
    pub fn scratch(len: usize) -> Self {
        let lines = class(len);
        if lines > MOST_KEPT {
            return Self::dirty(len);
        }
        let kept = KEPT.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            let found = kept.iter().rposition(|buffer| buffer.len() == lines);
            found.map(|place| kept.swap_remove(place))
        });
        let lines = kept.ok().flatten().unwrap_or_else(|| bytemuck::zeroed_vec(lines));
        Self { lines, len, scratch: true }
    }

    /// A buffer of zeros.
    pub fn zeros(len: usize) -> Self {
        let mut buffer = Self::dirty(len);
        // One thread alone cannot fill memory as fast as memory can be filled.
        threads::chunks(buffer.as_mut_slice(), 1 << 16, |_, part| part.fill(0.0));
        buffer
    }

    pub fn as_slice(&self) -> &[f32] {
        &bytemuck::cast_slice(&self.lines)[..self.len]
    }

    pub fn as_mut_slice(&mut self) -> &mut [f32] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.len]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        if !self.scratch {
            return POOL.give(lines);
        }
        // A thread that is ending keeps nothing.
        let _ = KEPT.try_with(|kept| keep(&mut kept.borrow_mut(), lines));
    }
}

/// The most lines of working memory that a thread keeps for itself: 4 MiB.
const MOST_KEPT: usize = 4 << 20 >> 6;

thread_local! {
    static KEPT: RefCell<Vec<Vec<Line>>> = const { RefCell::new(Vec::new()) };
}

/// Keeps a buffer, and drops the oldest ones if all would be too many.
fn keep(kept: &mut Vec<Vec<Line>>, lines: Vec<Line>) {
    if lines.is_empty() {
        return;
    }
    kept.push(lines);
    while kept.iter().map(Vec::len).sum::<usize>() > MOST_KEPT {
        kept.remove(0);
    }
}

/// Rounds a length up to whole lines, then to a quarter of a power of two, so that at most a fifth is wasted
/// and a slowly changing length (the last, shorter batch) finds a buffer that fits.
fn class(len: usize) -> usize {
    let lines = len.div_ceil(LINE);
    if lines <= 4 {
        return lines;
    }
    let step = 1 << (lines.ilog2() - 2);
    lines.div_ceil(step) * step
}

#[derive(Default)]
struct Shelves {
    free: HashMap<usize, Vec<Vec<Line>>>,
    /// Lines in use by buffers, waiting on the shelves, and the most that were ever in use.
    used: usize,
    waiting: usize,
    peak: usize,
}

#[derive(Default)]
struct Pool(Mutex<Shelves>);

static POOL: LazyLock<Pool> = LazyLock::new(Pool::default);

impl Pool {
    fn shelves(&self) -> std::sync::MutexGuard<'_, Shelves> {
        // A panic elsewhere leaves the shelves consistent: no code here can panic between two changes.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, lines: usize) -> Vec<Line> {
        let mut shelves = self.shelves();
        shelves.used += lines;
        shelves.peak = shelves.peak.max(shelves.used);
        if let Some(buffer) = shelves.free.get_mut(&lines).and_then(Vec::pop) {
            shelves.waiting -= lines;
            return buffer;
        }
        drop(shelves);
        bytemuck::zeroed_vec(lines)
    }

    fn give(&self, buffer: Vec<Line>) {
        let lines = buffer.len();
        let mut shelves = self.shelves();
        shelves.used -= lines;
        // Sizes do not stand in for one another, so steps that need more of one size first and of another later keep
        // more than they use at any one time.
        if shelves.used + shelves.waiting + lines <= 2 * shelves.peak {
            shelves.waiting += lines;
            shelves.free.entry(lines).or_default().push(buffer);
        }
    }
}

/// What the pool holds, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// In arrays that are alive.
    pub used: usize,
    /// Freed and kept for the next request.
    pub waiting: usize,
    /// The most that was in use at one time since the last [`trim`].
    pub peak: usize,
}

/// How much memory arrays use now.
pub fn usage() -> Usage {
    let shelves = POOL.shelves();
    let bytes = |lines: usize| lines * size_of::<Line>();
    Usage { used: bytes(shelves.used), waiting: bytes(shelves.waiting), peak: bytes(shelves.peak) }
}

/// Returns all waiting memory to the operating system and starts counting the peak anew.
pub fn trim() {
    let mut shelves = POOL.shelves();
    shelves.free.clear();
    shelves.waiting = 0;
    shelves.peak = shelves.used;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_waste_at_most_a_fifth() {
        for len in 1..100_000_usize {
            let lines = len.div_ceil(LINE);
            assert!(class(len) >= lines);
            assert!(class(len) * 4 <= lines * 5 + 4, "{len}");
        }
    }

    #[test]
    fn a_buffer_is_recycled_and_zeros_are_zero() {
        // A size no other test asks for, so that parallel tests do not take it from the shelf in between.
        let len = 7_654_321;
        let mut first = Buffer::dirty(len);
        first.as_mut_slice().fill(3.0);
        let address = first.as_slice().as_ptr();
        drop(first);
        let second = Buffer::zeros(len);
        assert_eq!(second.as_slice().as_ptr(), address);
        assert!(second.as_slice().iter().all(|&x| x == 0.0));
    }

    #[test]
    fn a_thread_keeps_its_working_memory_within_bounds() {
        let first = Buffer::scratch(1000);
        let address = first.as_slice().as_ptr();
        drop(first);
        assert_eq!(Buffer::scratch(1001).as_slice().as_ptr(), address);
        for size in 1..100 {
            drop(Buffer::scratch(size * 10_000));
        }
        let kept = KEPT.with(|kept| kept.borrow().iter().map(Vec::len).sum::<usize>());
        assert!(kept <= MOST_KEPT, "{kept} lines");
        assert_eq!(Buffer::scratch(MOST_KEPT * LINE + 1).as_slice().len(), MOST_KEPT * LINE + 1);
    }

    #[test]
    fn an_empty_buffer_is_fine() {
        assert!(Buffer::zeros(0).as_slice().is_empty());
    }
}
