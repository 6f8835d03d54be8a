//! Our matrix products and threads beside those of gemm, faer and rayon, and the bounds of the machine.
//!
//!     cargo run --release [-- THREADS,…] > record.md
//!
//! Programs take turns; a figure is the best of all turns, since others on the machine can only make it worse.

mod bounds;
mod products;
mod threads;

use std::time::Instant;

/// The least seconds that `work` takes, over a few turns of at least `turn` seconds each.
fn best(turn: f64, mut work: impl FnMut()) -> f64 {
    work();
    let (start, mut least) = (Instant::now(), f64::INFINITY);
    while start.elapsed().as_secs_f64() < turn {
        let begin = Instant::now();
        work();
        least = least.min(begin.elapsed().as_secs_f64());
    }
    least
}

fn main() {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "1,2".into());
    let counts: Vec<usize> = argument
        .split(',')
        .map(|text| text.parse().unwrap_or_else(|_| panic!("numbers of threads, such as 1,2,4, not {argument:?}")))
        .collect();
    println!("# Products and threads\n");
    println!("Best of all turns, in the orientation of the operands: n as they lie, t transposed.\n");
    for &count in &counts {
        regard_tensor::set_threads(count);
        bounds::table(count);
        products::table(count);
        threads::table(count);
    }
}
