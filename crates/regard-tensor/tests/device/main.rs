//! Devices and data types.
//!
//! [`Device::Apart`](regard_tensor::Device::Apart) has its own memory and no kernels. Operations on it must give the same
//! bits as on the CPU, every copy must be counted, and nothing may read its values except through the dispatch in
//! `kernels`. The suites `engine` and `golden` also run on other devices, with `REGARD_DEVICE=apart` or
//! `REGARD_DEVICE=cuda`.

mod cuda;
mod mismatch;
mod operations;
mod reads;
mod slots;
mod training;
mod types;

use regard_tensor::random::Key;
use regard_tensor::traffic::{self, Traffic};
use regard_tensor::{Ids, Tensor};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The counters are global to the process, so tests that read or change them run one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The result of some work, and the traffic it caused.
fn counted<T>(work: impl FnOnce() -> T) -> (T, Traffic) {
    let before = traffic::snapshot();
    let result = work();
    (result, traffic::snapshot().since(&before))
}

fn draw(name: &str, shape: &[usize]) -> Tensor {
    Tensor::new(&Key::new(7).site(name).normal(shape.iter().product(), 1.0), shape).unwrap()
}

fn ids(values: &[u32]) -> Ids {
    Ids::new(values, [values.len()]).unwrap()
}

fn bits(x: &Tensor) -> Vec<u32> {
    x.values().iter().map(|x| x.to_bits()).collect()
}
