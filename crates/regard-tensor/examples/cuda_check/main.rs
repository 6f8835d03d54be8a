//! Checks and times every CUDA kernel on the device at hand.
//!
//! ```text
//! cuda_check [--seed N] [--quick] [FILTER ...]
//! ```
//!
//! Each line is one kernel at one size: its error against a reference in f64 on fresh random inputs, whether two runs give
//! the same bits, and, for sizes that fill the device, its time and rate. Memory is filled with NaN before each run, so
//! that values nothing wrote are found. A filter selects kernels whose name contains it; `--quick` leaves out large sizes.

#![allow(clippy::print_stdout)]

mod arithmetic;
mod embedding;
mod harness;
mod inputs;
mod layout;
mod loss;
mod matmul;
mod norm;
mod optimiser;
mod pointwise;
mod reduce;
mod softmax;

use harness::Check;
use regard_tensor::cuda::{Device, Result};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failures) => {
            println!("{failures} checks failed");
            ExitCode::FAILURE
        }
        Err(error) => {
            println!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<usize> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let quick = arguments.iter().position(|argument| argument == "--quick");
    if let Some(place) = quick {
        arguments.remove(place);
    }
    let mut seed = std::process::id().into();
    if let Some(place) = arguments.iter().position(|argument| argument == "--seed") {
        seed = arguments.get(place + 1).and_then(|seed| seed.parse().ok()).unwrap_or(seed);
        arguments.drain(place..(place + 2).min(arguments.len()));
    }
    let device = Device::open(0)?;
    println!(
        "{}: {} multiprocessors, capability {}.{}, {} GiB; seed {seed}",
        device.name(),
        device.multiprocessors(),
        device.capability().0,
        device.capability().1,
        device.total_memory() >> 30
    );
    let mut check = Check::new(device, arguments, seed, quick.is_some());
    check.group(harness::check_memory);
    check.group(matmul::check);
    check.group(matmul::check_finishes);
    check.group(matmul::check_large);
    check.group(embedding::check);
    check.group(norm::check);
    check.group(pointwise::check);
    check.group(loss::check);
    check.group(reduce::check);
    check.group(optimiser::check);
    check.group(arithmetic::check);
    check.group(layout::check);
    check.group(softmax::check);
    Ok(check.finish())
}
