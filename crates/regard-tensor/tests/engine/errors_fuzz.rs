//! Random shapes in every operation give an error or a result, never a panic.

use crate::device;
use crate::gradcheck::{Draw, cases};
use proptest::prelude::*;
use proptest::sample::select;
use regard_tensor::ops::{
    Allowed, Attention, Bias, CrossEntropy, Dropout, Function, Layout, LstmWeights, Pairing, Projections,
    attend, concatenate, lstm,
};
use regard_tensor::random::Key;
use regard_tensor::{BlockMask, Ids, Mask, Pass, Result, Tensor};
use std::sync::Arc;

fn shape() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(select(&[0_usize, 1, 1, 2, 2, 3, 4, 6][..]), 0..5)
}

/// Differentiates the result, if there is one.
fn go(result: Result<Tensor>) {
    if let Ok(output) = result
        && output.is_tracked()
    {
        let upstream = Pass::new().from_upstream(device::full(output.shape(), 1.0));
        output.gradients(&upstream).expect("a result can be differentiated");
    }
}

fn tensor(shape: &[usize]) -> Tensor {
    Draw(1).tensor(shape).tracked()
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn operations_on_one_tensor(
        shape in shape(),
        axis in -6_isize..6,
        (start, length) in (0_usize..7, 0_usize..7),
        axes in prop::collection::vec(0_usize..4, 0..5),
        other in shape(),
    ) {
        let x = tensor(&shape);
        for result in [x.sum(axis), x.mean(axis), x.sum_all(), x.mean_all(), x.sum_rows(), x.softmax(), x.log_softmax()] {
            go(result);
        }
        go(x.max(axis).map(|(values, _)| values));
        go(x.slice(axis, start, length));
        go(x.select(axis, start));
        go(x.permute(&axes));
        go(x.transpose(axis, start as isize));
        go(x.reshape(&other[..]));
        go(x.patches(length));
        go(x.affine(2.0, 1.0));
        go(x.apply(Function::Gelu));
        go(x.dropout(&Dropout { probability: 0.5, key: Key::new(1), first_example: 0 }));
        let _ = (x.item(), x.argmax(axis));
    }

    #[test]
    fn operations_on_two_tensors(a in shape(), b in shape(), axis in -6_isize..6, flags: (bool, bool)) {
        let (x, y) = (tensor(&a), tensor(&b));
        for result in [x.add(&y), x.subtract(&y), x.multiply(&y), x.divide(&y)] {
            go(result);
        }
        go(x.matmul_transposed(&y, flags.0, flags.1));
        go(concatenate(&[&x, &y, &x], axis));
        for layout in [Layout::InOut, Layout::OutIn] {
            go(x.linear(&y, None, layout, Some(Function::Silu)));
            go(x.linear(&y, Some(&x), layout, None));
        }
        go(x.layer_norm(&y, Some(&y), 1e-5));
        go(x.rms_norm(&y, 1e-5));
        go(x.binary_cross_entropy(&y));
        let mask = Mask::from_fn(&b[..], |at| at.iter().sum::<usize>() % 2 == 0);
        go(x.softmax_masked(&mask));
        go(x.log_softmax_masked(&mask));
        let _ = BlockMask::from_mask(&mask);
    }

    #[test]
    fn operations_with_ids(a in shape(), b in shape(), c in shape(), limit in 1_usize..5) {
        let ids: Ids = Draw(2).ids(limit, &b[..]);
        go(tensor(&a).embedding(&ids));
        go(tensor(&a).cross_entropy(&ids, CrossEntropy { ignored: Some(1), smoothing: 0.1 }));
        let table = tensor(&c);
        go(tensor(&a).rotary(&table, &table, &ids, Pairing::Halves));
        go(tensor(&a).rotary(&table, &table, &ids, Pairing::Interleaved));
    }

    #[test]
    fn sequences(
        shape in prop::collection::vec(0_usize..4, 2..4),
        (inputs, hidden) in (0_usize..4, 0_usize..4),
        directions in 0_usize..4,
        lengths in prop::option::of(prop::collection::vec(0_u32..5, 0..4)),
    ) {
        let direction = LstmWeights {
            input: tensor(&[4 * hidden, inputs]),
            hidden: tensor(&[4 * hidden, hidden]),
            bias: tensor(&[4 * hidden]),
        };
        go(lstm(&tensor(&shape), &vec![direction; directions], lengths.map(|lengths| Ids::new(&lengths, [lengths.len()]).unwrap()).as_ref()));
    }

    #[test]
    fn attention_of_any_shapes(
        (batch, queries, keys) in (0_usize..3, 0_usize..4, 0_usize..4),
        (heads, kv_heads) in (0_usize..5, 0_usize..3),
        (width, value_width) in (0_usize..4, 0_usize..4),
        (bias, mask) in (shape(), shape()),
        which in 0_u8..6,
        causal: bool,
    ) {
        let query = tensor(&[batch, queries, heads, width]);
        let (key, value) = (tensor(&[batch, keys, kv_heads, width]), tensor(&[batch, keys, kv_heads, value_width]));
        let mut how = Attention::scaled(0.5);
        let mask = Mask::from_fn(&mask[..], |at| at.iter().sum::<usize>() % 2 == 0);
        how.allowed = Allowed { causal, ..Allowed::default() };
        match which {
            0 => how.bias = Bias::Dense(tensor(&bias)),
            1 => how.bias = Bias::Slopes(tensor(&[heads])),
            2 => how.sink = Some(tensor(&[heads])),
            3 => how.allowed.keys = Some(mask),
            4 => how.allowed.blocks = BlockMask::from_mask(&mask).ok().map(Arc::new),
            _ => how.dropout = Some(Dropout { probability: 0.5, key: Key::new(1), first_example: 0 }),
        }
        go(attend(Projections::Separate { query: &query, key: &key, value: &value }, &how).map(|a| a.output));
        let packed = tensor(&[batch, queries, (heads + 2 * kv_heads) * width]);
        go(attend(Projections::Fused { packed: &packed, heads, kv_heads }, &how).map(|a| a.output));
        go(attend(Projections::Fused { packed: &tensor(&bias), heads, kv_heads }, &how).map(|a| a.output));
    }
}
