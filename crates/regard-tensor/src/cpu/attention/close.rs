//! Keys and values with their rows close together, shared by all threads that work at a head.

use super::{Heads, Problem, Rows, pack};
use crate::blocks::BLOCK;
use crate::cpu::threads::{Shared, wait_until};
use crate::pool::Buffer;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A copy of the rows of one head.
struct Copy {
    place: Shared<f32>,
    /// Keeps the memory behind `place`.
    _memory: Buffer,
}

impl Copy {
    fn new(len: usize) -> Self {
        let mut memory = Buffer::dirty(len);
        Self { place: Shared::new(memory.as_mut_slice()), _memory: memory }
    }
}

/// Copies of the keys and values of one example and key-value head, where they are needed. Rows a power of two apart fight
/// for the same few lines of the cache, and every tile of queries reads all keys and values.
///
/// All threads that come to the head make the copies together, a tile of keys at a time.
pub(super) struct Close {
    key: Option<Copy>,
    value: Option<Copy>,
    /// Tiles of keys that somebody copies or has copied, and that have been copied.
    begun: AtomicUsize,
    done: AtomicUsize,
}

impl Close {
    pub fn new(problem: &Problem, (key, value): (Heads, Heads)) -> Self {
        let copy = |heads: Heads, width: usize| {
            needs_copy(problem, heads, width).then(|| Copy::new(problem.keys * width))
        };
        Self {
            key: copy(key, problem.width),
            value: copy(value, problem.value_width),
            begun: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
        }
    }

    /// Keys and values as the tiles should read them.
    pub fn rows<'b>(
        &'b self,
        problem: &Problem,
        (key, value): (Heads<'b>, Heads<'b>),
        (example, kv_head): (usize, usize),
    ) -> (Rows<'b>, Rows<'b>) {
        let tiles = problem.keys.div_ceil(BLOCK);
        let sides = [(key, problem.width, &self.key), (value, problem.value_width, &self.value)];
        if self.key.is_some() || self.value.is_some() {
            while self.begun.load(Ordering::Relaxed) < tiles {
                let tile = self.begun.fetch_add(1, Ordering::Relaxed);
                if tile >= tiles {
                    break;
                }
                let _done = CountOnDrop(&self.done);
                let (first, n) = (tile * BLOCK, BLOCK.min(problem.keys - tile * BLOCK));
                for (heads, width, copy) in &sides {
                    if let Some(copy) = copy {
                        // SAFETY: each tile is copied by the one thread that began it; readers wait below.
                        let to = unsafe { copy.place.range(first * width, n * width) };
                        let from = (heads.from(example, kv_head, first), heads.strides.row);
                        pack(from, n, *width, (to, *width), n);
                    }
                }
            }
            wait_until(|| self.done.load(Ordering::Acquire) >= tiles);
        }
        let [key, value] = sides.map(|(heads, width, copy)| match copy {
            None => Rows { values: heads.from(example, kv_head, 0), row: heads.strides.row },
            // SAFETY: all tiles have been copied, and no thread writes any more.
            Some(copy) => Rows { values: unsafe { copy.place.read(0, problem.keys * width) }, row: width },
        });
        (key, value)
    }
}

/// Counts even if the thread panics: others wait for the count.
struct CountOnDrop<'a>(&'a AtomicUsize);

impl Drop for CountOnDrop<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

/// Whether the rows of a head are read more than once and do not lie well.
fn needs_copy(problem: &Problem, heads: Heads, width: usize) -> bool {
    heads.strides.row != width && problem.queries > BLOCK
}

/// What threads share at each head: made by the first task that comes to it, dropped when the last one leaves.
pub(super) struct PerHead<T> {
    places: Vec<Mutex<Place<T>>>,
    /// Tasks of a head.
    tasks: usize,
}

struct Place<T> {
    shared: Option<Arc<T>>,
    /// Tasks that have come. They need not come in the order in which they began.
    came: usize,
}

impl<T> PerHead<T> {
    pub fn new(heads: usize, tasks: usize) -> Self {
        Self { places: (0..heads).map(|_| Mutex::new(Place { shared: None, came: 0 })).collect(), tasks }
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// What is shared at a head; each task asks once.
    pub fn get(&self, head: usize, make: impl FnOnce() -> T) -> Arc<T> {
        let mut place = self.places[head].lock().unwrap_or_else(PoisonError::into_inner);
        place.came += 1;
        let shared = place.shared.get_or_insert_with(|| Arc::new(make())).clone();
        if place.came == self.tasks {
            place.shared = None;
        }
        shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_of_a_head_share_whatever_their_order_and_keep_nothing() {
        let heads: PerHead<usize> = PerHead::new(2, 3);
        let shared: Vec<Arc<usize>> = (0..3).map(|task| heads.get(1, || task)).collect();
        assert_eq!(*shared[2], 0);
        assert_eq!(Arc::strong_count(&shared[0]), 3);
    }
}
