//! Element-wise functions.

use crate::device;
use crate::gradcheck::{Draw, LENGTHS, cases, check, check_within, close};
use crate::reference;
use proptest::prelude::*;
use proptest::sample::select;
use regard_tensor::Tensor;
use regard_tensor::ops::Function;

pub const FUNCTIONS: [Function; 10] = [
    Function::Exp,
    Function::Ln,
    Function::Sqrt,
    Function::Tanh,
    Function::Sigmoid,
    Function::Relu,
    Function::Gelu,
    Function::GeluTanh,
    Function::Silu,
    Function::EluPlusOne,
];

/// Inputs on which a function is smooth.
pub fn domain(function: Function, draw: &mut Draw, shape: &[usize]) -> Tensor {
    match function {
        Function::Ln | Function::Sqrt => draw.between(0.3, 3.0, shape),
        _ => draw.tensor(shape),
    }
}

proptest! {
    #![proptest_config(cases(12))]

    #[test]
    fn every_function_and_its_slope(count in select(&LENGTHS[..]), seed: u64) {
        for function in FUNCTIONS {
            let x = [domain(function, &mut Draw(seed), &[count])];
            check(&x, |x| x[0].apply(function), |x| x[0].map(reference::function(function)));
        }
    }
}

#[test]
fn values_are_accurate_over_the_useful_range() {
    let xs: Vec<f32> = (-4000..=4000).map(|i| i as f32 * 0.005).collect();
    let x = device::new(&xs, [xs.len()]).unwrap();
    for function in FUNCTIONS {
        let (xs, x) = match function {
            Function::Ln | Function::Sqrt => {
                let xs: Vec<f32> = xs.iter().map(|x| x.abs() + 1e-3).collect();
                let x = device::new(&xs, [xs.len()]).unwrap();
                (xs, x)
            }
            _ => (xs.clone(), x.clone()),
        };
        let want: Vec<f64> = xs.iter().map(|&x| reference::function(function)(f64::from(x))).collect();
        close(&format!("{function:?}"), &x.apply(function).unwrap().values(), &want, 1e-6);
        // Bounded functions are also compared without the scale of their largest value.
        if matches!(function, Function::Tanh | Function::Sigmoid) {
            let got = x.apply(function).unwrap().to_vec();
            assert!(got.iter().zip(&want).all(|(&got, want)| (f64::from(got) - want).abs() < 2e-7));
        }
    }
}

#[test]
fn slopes_far_from_zero_are_accurate() {
    for function in [Function::Tanh, Function::Sigmoid, Function::Gelu, Function::GeluTanh, Function::Silu] {
        let x = [Draw(1).between(-9.0, 9.0, [200])];
        // Slopes are at most about 1.1, so this is nearly an absolute error.
        check_within((1e-6, 2e-6), &x, |x| x[0].apply(function), |x| x[0].map(reference::function(function)));
    }
}

#[test]
fn named_methods_are_the_functions() {
    let x = Draw(2).between(0.5, 2.0, [9]);
    let named =
        [x.exp(), x.ln(), x.sqrt(), x.tanh(), x.sigmoid(), x.relu(), x.gelu(), x.gelu_tanh(), x.silu()];
    for (function, named) in FUNCTIONS.into_iter().zip(named) {
        assert_eq!(x.apply(function).unwrap().to_vec(), named.unwrap().to_vec(), "{function:?}");
    }
}

#[test]
fn huge_inputs_neither_overflow_nor_turn_into_nan() {
    let x = device::new(&[-1e30, -200.0, 200.0, 1e30, f32::INFINITY], [5]).unwrap().tracked();
    assert_eq!(x.sigmoid().unwrap().to_vec(), [0.0, 0.0, 1.0, 1.0, 1.0]);
    assert_eq!(x.tanh().unwrap().to_vec(), [-1.0, -1.0, 1.0, 1.0, 1.0]);
    assert_eq!(x.relu().unwrap().to_vec(), [0.0, 0.0, 200.0, 1e30, f32::INFINITY]);
    for function in [Function::Gelu, Function::GeluTanh, Function::Silu] {
        let finite = x.slice(0, 1, 2).unwrap();
        let y = finite.apply(function).unwrap();
        assert_eq!(y.to_vec(), [0.0, 200.0], "{function:?}");
        let slopes = y.sum_all().unwrap().backward().unwrap().get(&x).unwrap().to_vec();
        assert_eq!(slopes[1..3], [0.0, 1.0], "{function:?}");
    }
}

#[test]
fn empty_tensors_pass_through() {
    for function in FUNCTIONS {
        check(&[device::zeros([0, 3])], |x| x[0].apply(function), |x| x[0].clone());
    }
}
