//! Small networks that overfit ten examples.

use crate::device;
use crate::gradcheck::Draw;
use regard_tensor::ops::{Attention, CrossEntropy, Function, Layout, Projections, attend};
use regard_tensor::optimiser::{Method, Optimiser, Update, clip_scale, global_norm};
use regard_tensor::{Ids, Result, Tensor};

/// Trains with Adam until the end, and returns the first and the last loss.
fn train(
    parameters: &mut [Tensor],
    steps: usize,
    rate: f32,
    loss: impl Fn(&[Tensor]) -> Result<Tensor>,
) -> (f32, f32) {
    let mut optimiser = Optimiser::new(Method::adam(), 0.0);
    let mut losses = Vec::new();
    for _ in 0..steps {
        let loss = loss(parameters).unwrap();
        losses.push(loss.item().unwrap());
        let gradients = loss.backward().unwrap();
        let slopes: Vec<_> = parameters.iter().map(|p| gradients.find(p).unwrap().clone()).collect();
        let scale = clip_scale(&global_norm(&slopes).unwrap(), 1.0).unwrap();
        let updates = parameters.iter_mut().zip(&slopes);
        let mut updates: Vec<Update> =
            updates.map(|(parameter, g)| Update { parameter, gradient: Some(g), decays: false }).collect();
        optimiser.step(&mut updates, rate, &scale).unwrap();
    }
    (losses[0], *losses.last().unwrap())
}

fn leaf(draw: &mut Draw, shape: &[usize], deviation: f32) -> Tensor {
    draw.tensor(shape).scale(deviation).unwrap().tracked()
}

#[test]
fn two_layers_learn_ten_examples() {
    let mut draw = Draw(1);
    let x = draw.tensor([10, 6]);
    let targets = Ids::new(&[0, 1, 2, 0, 1, 2, 0, 1, 2, 0], [10]).unwrap();
    let mut parameters = [
        leaf(&mut draw, &[6, 32], 0.4),
        device::zeros([32]).tracked(),
        leaf(&mut draw, &[3, 32], 0.2),
        device::zeros([3]).tracked(),
    ];
    let (first, last) = train(&mut parameters, 200, 0.02, |p| {
        let hidden = x.linear(&p[0], Some(&p[1]), Layout::InOut, Some(Function::Gelu))?;
        hidden
            .linear(&p[2], Some(&p[3]), Layout::OutIn, None)?
            .cross_entropy(&targets, CrossEntropy::default())
    });
    assert!(first > 0.5 && last < 0.01, "{first} to {last}");
}

#[test]
fn a_transformer_block_learns_ten_sequences() {
    const WIDTH: usize = 16;
    let mut draw = Draw(2);
    // Ten sequences; pairs of them start alike and continue differently, so the block must attend to earlier tokens.
    let tokens = draw.ids(11, [10, 7]);
    let (inputs, targets): (Vec<u32>, Vec<u32>) = tokens
        .values()
        .chunks(7)
        .enumerate()
        .flat_map(|(i, row)| {
            let row: Vec<u32> = [i as u32].into_iter().chain(row.iter().copied()).collect();
            row.windows(2).map(|pair| (pair[0], pair[1])).collect::<Vec<_>>()
        })
        .unzip();
    let (inputs, targets) = (Ids::new(&inputs, [10, 7]).unwrap(), Ids::new(&targets, [10, 7]).unwrap());
    let positions = Ids::new(&(0..7).collect::<Vec<u32>>(), [7]).unwrap();
    let mut parameters = vec![leaf(&mut draw, &[11, WIDTH], 0.5), leaf(&mut draw, &[7, WIDTH], 0.5)];
    for shape in [[WIDTH, 3 * WIDTH], [WIDTH, WIDTH], [WIDTH, 4 * WIDTH], [4 * WIDTH, WIDTH]] {
        parameters.push(leaf(&mut draw, &shape, 1.0 / (shape[0] as f32).sqrt()));
    }
    parameters.extend([(); 3].map(|()| device::full([WIDTH], 1.0).tracked()));
    let (first, last) = train(&mut parameters, 300, 0.01, |p| {
        let x = p[0].embedding(&inputs)?.add(&p[1].embedding(&positions)?)?;
        let normal = x.layer_norm(&p[6], None, 1e-5)?;
        let packed = normal.linear(&p[2], None, Layout::InOut, None)?;
        let how = Attention::scaled(1.0 / (WIDTH as f32 / 2.0).sqrt()).causal();
        let attended = attend(Projections::Fused { packed: &packed, heads: 2, kv_heads: 2 }, &how)?;
        let mixed = attended.output.reshape([10, 7, WIDTH])?.linear(&p[3], None, Layout::InOut, None)?;
        let x = x.add(&mixed)?;
        let normal = x.layer_norm(&p[7], None, 1e-5)?;
        let hidden = normal.linear(&p[4], None, Layout::InOut, Some(Function::Gelu))?;
        let x = x.add(&hidden.linear(&p[5], None, Layout::InOut, None)?)?.rms_norm(&p[8], 1e-5)?;
        x.linear(&p[0], None, Layout::OutIn, None)?.cross_entropy(&targets, CrossEntropy::default())
    });
    assert!(first > 2.0 && last < 0.05, "{first} to {last}");
}
