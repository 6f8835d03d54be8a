//! Optimisers compared with plain f64 loops.

use crate::device;
use crate::gradcheck::{Draw, close};
use regard_tensor::optimiser::{MINIMUM_SCALE, Method, Optimiser, Update, clip_scale, global_norm};
use regard_tensor::{Device, Gradient, Ids, Tensor};

/// One parameter, updated by a plain loop.
struct Plain {
    p: Vec<f64>,
    m: Vec<f64>,
    v: Vec<f64>,
}

impl Plain {
    fn step(&mut self, method: Method, decay: f64, t: i32, rate: f64, g: &[f64]) {
        for (i, &g) in g.iter().enumerate() {
            let (p, m, v) = (&mut self.p[i], &mut self.m[i], &mut self.v[i]);
            match method {
                Method::Sgd { momentum } => {
                    *m = f64::from(momentum) * *m + g + decay * *p;
                    *p -= rate * *m;
                }
                Method::Adam { betas, epsilon, decoupled } => {
                    let (b1, b2) = (f64::from(betas.0), f64::from(betas.1));
                    let g = if decoupled { g } else { g + decay * *p };
                    if decoupled {
                        *p -= rate * decay * *p;
                    }
                    *m = b1 * *m + (1.0 - b1) * g;
                    *v = b2 * *v + (1.0 - b2) * g * g;
                    let (m, v) = (*m / (1.0 - b1.powi(t)), *v / (1.0 - b2.powi(t)));
                    *p -= rate * m / (v.sqrt() + f64::from(epsilon));
                }
                _ => panic!("the reference has no {method:?}"),
            }
        }
    }
}

const METHODS: [Method; 4] = [
    Method::Sgd { momentum: 0.0 },
    Method::Sgd { momentum: 0.9 },
    Method::Adam { betas: (0.9, 0.999), epsilon: 1e-8, decoupled: false },
    Method::Adam { betas: (0.8, 0.95), epsilon: 1e-3, decoupled: true },
];

/// One step of one parameter.
fn step(optimiser: &mut Optimiser, parameter: &mut Tensor, gradient: &Gradient, rate: f32, scale: f32) {
    optimiser.step(&mut [Update { parameter, gradient: Some(gradient), decays: true }], rate, scale).unwrap();
}

#[test]
fn twenty_steps_agree_with_a_plain_loop() {
    for method in METHODS {
        for decay in [0.0_f32, 0.1] {
            // Lengths around a register's width, and longer than one task.
            for count in [1, 7, 16, 33, 20_001] {
                let mut draw = Draw(1);
                let mut parameter = draw.tensor([count]);
                let values = |x: &Tensor| -> Vec<f64> { x.values().iter().map(|&x| f64::from(x)).collect() };
                let zeros = vec![0.0; count];
                let mut plain = Plain { p: values(&parameter), m: zeros.clone(), v: zeros };
                let mut optimiser = Optimiser::new(method, decay);
                for t in 1..=20 {
                    let gradient = draw.tensor([count]);
                    let rate = 0.05 / t as f32;
                    step(&mut optimiser, &mut parameter, &Gradient::Dense(gradient.clone()), rate, 0.5);
                    let g: Vec<f64> = values(&gradient).iter().map(|g| 0.5 * g).collect();
                    plain.step(method, f64::from(decay), t, f64::from(rate), &g);
                }
                close(&format!("{method:?}, decay {decay}"), &parameter.values(), &plain.p, 2e-6);
                assert_eq!(optimiser.steps(), 20);
            }
        }
    }
}

#[test]
fn relative_steps_multiply_the_rate_by_the_parameter_scale() {
    for method in METHODS {
        for (values, size) in [([3.0, -4.0, 0.0, 0.0], 2.5), ([0.0; 4], MINIMUM_SCALE)] {
            let gradient = Gradient::Dense(device::new(&[0.3, -0.1, 0.7, 0.2], [4]).unwrap());
            let (mut relative, mut plain) =
                (device::new(&values, [4]).unwrap(), device::new(&values, [4]).unwrap());
            step(&mut Optimiser::new(method, 0.1).relative(true), &mut relative, &gradient, 0.01, 1.0);
            step(&mut Optimiser::new(method, 0.1), &mut plain, &gradient, 0.01 * size, 1.0);
            assert_eq!(relative.values(), plain.values(), "{method:?} on {values:?}");
        }
    }
}

#[test]
fn sparse_gradients_match_dense_ones_bit_for_bit() {
    for method in METHODS {
        for (rows, width) in [(9, 5), (40, 17), (3, 16), (1000, 33)] {
            let mut draw = Draw(2);
            let start = draw.tensor([rows, width]);
            let (mut a, mut b) = (start.tracked(), start.tracked());
            let (mut for_a, mut for_b) = (Optimiser::new(method, 0.1), Optimiser::new(method, 0.1));
            for _ in 0..5 {
                let ids = draw.ids(rows, [6]);
                let upstream = draw.tensor([6, width]);
                let loss = (&a.embedding(&ids).unwrap() * &upstream).unwrap().sum_all().unwrap();
                let gradients = loss.backward().unwrap();
                let sparse = gradients.find(&a).unwrap();
                // CUDA devices make it dense at once.
                let on_cuda = matches!(device::get(), Device::Cuda(_));
                assert!(on_cuda || matches!(sparse, Gradient::Rows(_)));
                let dense = Gradient::Dense(sparse.to_dense().unwrap());
                step(&mut for_a, &mut a, sparse, 0.1, 0.3);
                step(&mut for_b, &mut b, &dense, 0.1, 0.3);
            }
            let off = a.values().iter().zip(b.values().iter()).filter(|(a, b)| a != b).count();
            assert_eq!(off, 0, "{method:?} {rows}×{width}");
        }
    }
}

#[test]
fn a_sparse_gradient_of_no_rows_is_a_gradient_of_zeros() {
    let mut x = Draw(3).tensor([4, 3]).tracked();
    let none = x.embedding(&Ids::new(&[], [0]).unwrap()).unwrap().sum_all().unwrap().backward().unwrap();
    let before = x.to_vec();
    let mut optimiser = Optimiser::new(Method::adam(), 0.0);
    let gradient = none.find(&x).unwrap();
    step(&mut optimiser, &mut x, gradient, 0.1, 1.0);
    assert_eq!(x.to_vec(), before);
}

#[test]
fn parameters_without_gradient_or_decay_do_not_change() {
    let (mut a, mut b) = (device::full([3], 1.0), device::full([3], 1.0));
    let zero = Gradient::Dense(device::zeros([3]));
    let mut optimiser = Optimiser::new(Method::adamw(), 0.5);
    let updates = &mut [
        Update { parameter: &mut a, gradient: None, decays: true },
        Update { parameter: &mut b, gradient: Some(&zero), decays: false },
    ];
    optimiser.step(updates, 0.1, 1.0).unwrap();
    assert_eq!((a.to_vec(), b.to_vec()), (vec![1.0; 3], vec![1.0; 3]));
}

#[test]
fn an_update_does_not_change_clones_of_the_parameter() {
    let mut x = device::full([3], 1.0).tracked();
    let copy = x.clone();
    let mut optimiser = Optimiser::new(Method::Sgd { momentum: 0.0 }, 0.0);
    step(&mut optimiser, &mut x, &Gradient::Dense(device::full([3], 1.0)), 0.5, 1.0);
    assert_eq!((x.to_vec(), copy.to_vec()), (vec![0.5; 3], vec![1.0; 3]));
}

#[test]
fn a_restored_optimiser_continues_identically() {
    for method in METHODS {
        let mut draw = Draw(4);
        let mut x = draw.tensor([50]);
        let mut optimiser = Optimiser::new(method, 0.01);
        for _ in 0..3 {
            step(&mut optimiser, &mut x, &Gradient::Dense(draw.tensor([50])), 0.1, 1.0);
        }
        let mut y = device::new(&x.values(), [50]).unwrap();
        let mut resumed = Optimiser::new(method, 0.01);
        resumed.restore(optimiser.steps(), &optimiser.moments());
        for _ in 0..3 {
            let gradient = Gradient::Dense(draw.tensor([50]));
            step(&mut optimiser, &mut x, &gradient, 0.1, 1.0);
            step(&mut resumed, &mut y, &gradient, 0.1, 1.0);
        }
        assert_eq!(x.to_vec(), y.to_vec());
        assert_eq!(optimiser.steps(), resumed.steps());
    }
}

#[test]
fn saved_moments_are_not_changed_by_later_steps() {
    let mut x = device::full([5], 1.0);
    let mut optimiser = Optimiser::new(Method::adam(), 0.0);
    step(&mut optimiser, &mut x, &Gradient::Dense(device::full([5], 1.0)), 0.1, 1.0);
    let saved = optimiser.moments();
    let before = saved[0].0.to_vec();
    step(&mut optimiser, &mut x, &Gradient::Dense(device::full([5], 3.0)), 0.1, 1.0);
    assert_eq!(saved[0].0.to_vec(), before);
}

#[test]
fn moments_of_another_method_are_rejected() {
    let mut x = device::full([5], 1.0);
    let gradient = Gradient::Dense(device::full([5], 1.0));
    let mut sgd = Optimiser::new(Method::Sgd { momentum: 0.9 }, 0.0);
    step(&mut sgd, &mut x, &gradient, 0.1, 1.0);
    let mut adam = Optimiser::new(Method::adam(), 0.0);
    // SGD with momentum has no running mean of squares, so Adam must reject its state.
    adam.restore(1, &sgd.moments());
    assert!(
        adam.step(&mut [Update { parameter: &mut x, gradient: Some(&gradient), decays: true }], 0.1, 1.0)
            .is_err()
    );
}

#[test]
fn other_parameters_and_wrong_gradients_are_rejected() {
    let (mut a, mut b) = (device::full([3], 1.0), device::full([4], 1.0));
    let (ga, gb) = (Gradient::Dense(device::zeros([3])), Gradient::Dense(device::zeros([4])));
    let mut optimiser = Optimiser::new(Method::adam(), 0.0);
    step(&mut optimiser, &mut a, &ga, 0.1, 1.0);
    let other =
        optimiser.step(&mut [Update { parameter: &mut b, gradient: Some(&gb), decays: true }], 0.1, 1.0);
    assert!(other.is_err());
    let wrong =
        optimiser.step(&mut [Update { parameter: &mut a, gradient: Some(&gb), decays: true }], 0.1, 1.0);
    assert!(wrong.is_err());
    assert_eq!(optimiser.steps(), 1);
}

#[test]
fn clipping_reduces_the_norm_to_the_limit() {
    let mut table = Draw(5).tensor([7, 3]).tracked();
    let ids = Ids::new(&[2, 5, 2], [3]).unwrap();
    let gradients = table.embedding(&ids).unwrap().sum_all().unwrap().backward().unwrap();
    let sparse = gradients.find(&table).unwrap().clone();
    let dense = Gradient::Dense(Draw(6).tensor([9001]));
    let all = [&sparse, &dense];
    let values = all.iter().flat_map(|g| g.to_dense().unwrap().to_vec());
    let exact = values.map(|x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    let norm = global_norm(all).unwrap().item().unwrap();
    let scale = |norm: f32, limit: f32| clip_scale(&device::scalar(norm), limit).unwrap().item().unwrap();
    assert!((f64::from(norm) - exact).abs() < 1e-6 * exact);
    assert_eq!(scale(norm, norm * 2.0), 1.0);
    assert!((scale(norm, 1.0) * norm - 1.0).abs() < 1e-6);
    assert_eq!((global_norm([]).unwrap().item(), scale(0.0, 1.0)), (Ok(0.0), 1.0));
    let before = table.to_vec();
    let mut optimiser = Optimiser::new(Method::Sgd { momentum: 0.0 }, 0.0);
    step(&mut optimiser, &mut table, &sparse, 1.0, scale(norm, 1.0));
    let moved = table.values().iter().zip(&before).map(|(a, b)| (a - b).powi(2)).sum::<f32>().sqrt();
    assert!(moved < 1.0);
}
