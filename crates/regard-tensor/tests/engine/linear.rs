//! f(x·W + b).

use crate::device;
use crate::gradcheck::{Draw, LENGTHS, cases, check};
use crate::pointwise::FUNCTIONS;
use crate::reference::layers;
use proptest::prelude::*;
use proptest::sample::select;
use regard_tensor::ops::{Function, Layout};
use regard_tensor::{Result, Tensor};

struct Case<'a> {
    outer: &'a [usize],
    inputs: usize,
    outputs: usize,
    layout: Layout,
    biased: bool,
    function: Option<Function>,
}

fn check_linear(seed: u64, case: &Case) {
    let Case { outer, inputs, outputs, layout, biased, function } = *case;
    let mut draw = Draw(seed);
    let shape: Vec<usize> = outer.iter().copied().chain([inputs]).collect();
    let weight = if layout == Layout::InOut { [inputs, outputs] } else { [outputs, inputs] };
    // Sums of order 1; for a logarithm or root, positive ones away from 0.
    let deviation = 1.0 / (inputs.max(1) as f32).sqrt();
    let positive = matches!(function, Some(Function::Ln | Function::Sqrt));
    let x = if positive { draw.between(0.5, 1.5, shape) } else { draw.tensor(shape) };
    let weight = if positive {
        draw.between(0.5, 1.5, weight).scale(deviation * deviation)
    } else {
        draw.tensor(weight).scale(deviation)
    };
    let mut tensors = vec![x, weight.unwrap()];
    if biased {
        tensors.push(draw.between(0.1, 0.5, [outputs]));
    }
    let f = function.map_or((|x| x) as fn(f64) -> f64, crate::reference::function);
    check(
        &tensors,
        |x| -> Result<Tensor> { x[0].linear(&x[1], x.get(2), layout, function) },
        |x| layers::linear(&x[0], &x[1], x.get(2), layout == Layout::OutIn, f),
    );
}

fn layouts() -> impl Strategy<Value = Layout> {
    select(&[Layout::InOut, Layout::OutIn][..])
}

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn any_size_layout_bias_and_function(
        outer in prop::collection::vec(select(&[1_usize, 2, 3, 5, 9, 17][..]), 0..3),
        (inputs, outputs) in (select(&LENGTHS[..]), select(&LENGTHS[..])),
        layout in layouts(),
        biased: bool,
        function in prop::option::of(select(&FUNCTIONS[..])),
        seed: u64,
    ) {
        check_linear(seed, &Case { outer: &outer, inputs, outputs, layout, biased, function });
    }
}

#[test]
fn every_function_in_both_layouts() {
    for layout in [Layout::InOut, Layout::OutIn] {
        for function in FUNCTIONS {
            let case = Case {
                outer: &[3, 5],
                inputs: 7,
                outputs: 6,
                layout,
                biased: true,
                function: Some(function),
            };
            check_linear(1, &case);
        }
    }
}

/// Devices have kernels of their own for them: with whole vectors of inputs and outputs, and without.
#[test]
fn few_rows_in_both_layouts() {
    for (number, rows) in [1, 2, 3, 4].into_iter().enumerate() {
        for (inputs, outputs) in [(64, 40), (776, 16), (33, 17), (8, 8200)] {
            for layout in [Layout::InOut, Layout::OutIn] {
                let function =
                    [None, Some(Function::GeluTanh), Some(Function::Tanh), Some(Function::Silu)][number];
                let case = Case { outer: &[rows], inputs, outputs, layout, biased: number != 1, function };
                check_linear(7 + number as u64, &case);
            }
        }
    }
}

#[test]
fn products_large_enough_for_several_tasks() {
    for (rows, inputs, outputs) in [(400, 65, 230), (40, 130, 900)] {
        for (layout, function) in [(Layout::InOut, None), (Layout::OutIn, Some(Function::Gelu))] {
            check_linear(2, &Case { outer: &[rows], inputs, outputs, layout, biased: true, function });
        }
    }
}

#[test]
fn no_rows_no_inputs_or_no_outputs() {
    for layout in [Layout::InOut, Layout::OutIn] {
        for function in [None, Some(Function::Gelu), Some(Function::Tanh)] {
            for (rows, inputs, outputs) in [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)] {
                // Leaves non-zero values in the memory that the product will reuse.
                drop((device::full([rows, outputs], 7.0), device::full([inputs, outputs], 7.0)));
                check_linear(3, &Case { outer: &[rows], inputs, outputs, layout, biased: true, function });
            }
        }
    }
}
