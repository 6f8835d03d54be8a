//! Element-wise work too short for much ceremony: our threads against rayon's.

use crate::best;
use rayon::prelude::*;
use regard_tensor::Tensor;

/// The values that our element-wise kernels give to a task.
const TASK: usize = 16 * 1024;

pub fn table(count: usize) {
    println!("| x·2 + 1 on values | regard µs | rayon µs |");
    println!("|---|---:|---:|");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(count).build().expect("threads");
    for values in [1 << 15, 1 << 17, 1 << 19, 1 << 21] {
        let x = vec![0.5_f32; values];
        let tensor = Tensor::new(&x, [values]).expect("a tensor");
        let ours = best(0.1, || drop(tensor.affine(2.0, 1.0).expect("a sum")));
        let mut out = vec![0.0_f32; values];
        let theirs = best(0.1, || {
            pool.install(|| {
                out.par_chunks_mut(TASK).zip(x.par_chunks(TASK)).for_each(|(out, x)| {
                    for (out, x) in out.iter_mut().zip(x) {
                        *out = x * 2.0 + 1.0;
                    }
                });
            });
        });
        println!("| {values} | {:.1} | {:.1} |", ours * 1e6, theirs * 1e6);
    }
    println!();
}
