//! Results have the same bits for any number of threads.

use crate::gradcheck::Draw;
use regard_tensor::ops::{
    Attention, Bias, CrossEntropy, Dropout, Function, Layout, LstmWeights, Projections, attend, lstm,
};
use regard_tensor::optimiser::{Method, Optimiser, Update, global_norm};
use regard_tensor::random::Key;
use regard_tensor::{Gradients, Ids, Pass, Tensor, set_threads};

/// The bits of an output and of the gradients of some leaves.
fn bits(output: &Tensor, leaves: &[&Tensor]) -> Vec<u32> {
    let upstream = Draw(77).tensor(output.shape());
    let gradients: Gradients = output.gradients(&Pass::new().from_upstream(upstream)).unwrap();
    let all = leaves.iter().map(|leaf| gradients.get(leaf).unwrap());
    [output.clone()].into_iter().chain(all).flat_map(|x| x.to_vec()).map(f32::to_bits).collect()
}

fn leaf(seed: u64, shape: &[usize]) -> Tensor {
    Draw(seed).tensor(shape).scale(0.3).unwrap().tracked()
}

fn attention(queries: usize, heads: usize) -> Vec<u32> {
    let (q, k) = (leaf(1, &[2, queries, heads, 20]), leaf(2, &[2, 150, 1, 20]));
    let (v, slopes, sink) = (leaf(3, &[2, 150, 1, 12]), leaf(4, &[heads]), leaf(5, &[heads]));
    let dropout = Dropout { probability: 0.1, key: Key::new(1), first_example: 0 };
    let how = Attention {
        bias: Bias::Slopes(slopes.clone()),
        sink: Some(sink.clone()),
        dropout: Some(dropout),
        ..Attention::scaled(0.5).causal()
    };
    let output = attend(Projections::Separate { query: &q, key: &k, value: &v }, &how).unwrap().output;
    bits(&output, &[&q, &k, &v, &slopes, &sink])
}

fn recurrent() -> Vec<u32> {
    let x = leaf(1, &[30, 12, 40]);
    let direction = |seed| LstmWeights {
        input: leaf(seed, &[4 * 33, 40]),
        hidden: leaf(seed + 1, &[4 * 33, 33]),
        bias: leaf(seed + 2, &[4 * 33]),
    };
    let weights = [direction(10), direction(20)];
    let lengths = Ids::new(&(0..30).map(|i| i % 13).collect::<Vec<_>>(), [30]).unwrap();
    let output = lstm(&x, &weights, Some(&lengths)).unwrap();
    bits(&output, &[&x, &weights[0].input, &weights[0].hidden, &weights[1].hidden, &weights[1].bias])
}

fn dense_layers() -> Vec<u32> {
    let (x, w, b) = (leaf(1, &[900, 130]), leaf(2, &[130, 260]), leaf(3, &[260]));
    let (scale, shift) = (leaf(4, &[260]), leaf(5, &[260]));
    let y = x.linear(&w, Some(&b), Layout::InOut, Some(Function::Gelu)).unwrap();
    let y = y.layer_norm(&scale, Some(&shift), 1e-5).unwrap().softmax().unwrap();
    bits(&y, &[&x, &w, &b, &scale, &shift])
}

/// Sums long enough to be taken in stretches and in parts, operands that are copied for all threads, a single row.
fn large_products() -> Vec<u32> {
    let (x, w) = (leaf(1, &[500, 900]), leaf(2, &[900, 400]));
    let wide = bits(&x.matmul(&w).unwrap(), &[&x, &w]);
    let (x, w) = (leaf(3, &[5000, 70]), leaf(4, &[70, 90]));
    let long = bits(&x.matmul(&w).unwrap(), &[&x, &w]);
    let (x, w) = (leaf(5, &[1, 700]), leaf(6, &[700, 1300]));
    let row = bits(&x.matmul(&w).unwrap(), &[&x, &w]);
    [wide, long, row].concat()
}

fn tokens() -> Vec<u32> {
    let table = leaf(1, &[500, 70]);
    let (ids, targets) = (Draw(2).ids(500, [20, 60]), Draw(3).ids(500, [20, 60]));
    let logits = table.embedding(&ids).unwrap().linear(&table, None, Layout::OutIn, None).unwrap();
    let settings = CrossEntropy { ignored: Some(3), smoothing: 0.1 };
    bits(&logits.cross_entropy(&targets, settings).unwrap(), &[&table])
}

fn adam() -> Vec<u32> {
    let mut parameters = [leaf(1, &[300, 200]), leaf(2, &[70_001]), leaf(3, &[5])];
    let mut optimiser = Optimiser::new(Method::adamw(), 0.01);
    let mut norms = Vec::new();
    for step in 0..3 {
        let gradients: Vec<_> = parameters.iter().map(|p| Draw(10 + step).tensor(p.shape()).into()).collect();
        norms.push(global_norm(&gradients).unwrap().item().unwrap().to_bits());
        let updates = parameters.iter_mut().zip(&gradients);
        let mut updates: Vec<Update> =
            updates.map(|(parameter, g)| Update { parameter, gradient: Some(g), decays: true }).collect();
        optimiser.step(&mut updates, 0.01, 0.7).unwrap();
    }
    norms.extend(parameters.iter().flat_map(Tensor::to_vec).map(f32::to_bits));
    norms
}

fn reductions() -> Vec<u32> {
    let x = leaf(1, &[300, 7, 50]);
    let all = x.sum_all().unwrap();
    let y = (&x.sum(1).unwrap().sum_rows().unwrap() * &all).unwrap();
    let y = (&y + &x.mean(0).unwrap().mean(0).unwrap()).unwrap();
    bits(&y, &[&x])
}

/// One test, because the number of threads is global to the process.
#[test]
fn the_number_of_threads_changes_no_bit() {
    let everything = || {
        let attentions = [attention(150, 2), attention(700, 1), attention(3, 4)];
        let rest = [recurrent(), dense_layers(), large_products(), tokens(), adam(), reductions()];
        attentions.into_iter().chain(rest).collect::<Vec<_>>()
    };
    let default = everything();
    // More threads than cores take turns in many more orders.
    for threads in [1, 2, 3, 4, 8, 16, 64] {
        set_threads(threads);
        for (i, (got, want)) in everything().iter().zip(&default).enumerate() {
            assert!(got == want, "operation {i} with {threads} threads");
        }
    }
    set_threads(usize::MAX);
    assert!(everything() == default, "a second time with all threads");
}
