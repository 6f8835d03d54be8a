//! Invalid inputs are rejected with a message that says what was expected and what was found.

use crate::device;
use regard_tensor::ops::{
    Allowed, Attention, Bias, CrossEntropy, Function, Layout, LstmWeights, Pairing, Projections, attend,
    concatenate, lstm,
};
use regard_tensor::{BlockMask, Error, Ids, Mask, Result, Tensor};
use std::sync::Arc;

fn zeros(shape: &[usize]) -> Tensor {
    device::zeros(shape)
}

fn ids(values: &[u32]) -> Ids {
    Ids::new(values, [values.len()]).unwrap()
}

/// Panics unless the result is an error whose message contains all of `parts`.
fn rejected<T>(result: Result<T>, parts: &[&str]) {
    let message = result.err().expect("an error").to_string();
    for part in parts {
        assert!(message.contains(part), "{message:?} does not mention {part:?}");
    }
}

#[test]
fn tensors_ids_and_masks_need_as_many_values_as_their_shape() {
    rejected(device::new(&[1.0, 2.0], [3]), &["tensor", "expected 3", "got 2"]);
    rejected(Ids::new(&[1, 2], [3]), &["ids", "expected 3", "got 2"]);
    rejected(Mask::new(&[true], [2, 2]), &["mask", "expected 4", "got 1"]);
    rejected(zeros(&[2]).item(), &["item", "one value", "[2]"]);
    rejected(zeros(&[2]).set_values(&[1.0]), &["set_values", "expected 2", "got 1"]);
    rejected(ids(&[1, 2, 3]).reshape([2]), &["reshape", "expected", "3", "[2]"]);
}

#[test]
fn arithmetic_needs_shapes_that_broadcast() {
    let (a, b) = (zeros(&[2, 3]), zeros(&[2, 4]));
    rejected(a.add(&b), &["add", "expected", "got [2×3] and [2×4]"]);
    rejected(a.subtract(&b), &["subtract", "got [2×3] and [2×4]"]);
    rejected(a.multiply(&b), &["multiply", "got [2×3] and [2×4]"]);
    rejected(a.divide(&b), &["divide", "got [2×3] and [2×4]"]);
    rejected(a.add(&zeros(&[0, 3])), &["add", "[2×3] and [0×3]"]);
}

#[test]
fn axes_must_exist() {
    let x = zeros(&[2, 3]);
    rejected(x.sum(2), &["sum", "axis", "2"]);
    rejected(x.sum(-3), &["sum", "axis"]);
    rejected(x.mean(5), &["mean", "axis 5"]);
    rejected(x.max(2), &["max", "axis 2"]);
    rejected(x.argmax(isize::MAX), &["max", "axis"]);
    rejected(x.argmax(isize::MIN), &["max", "axis"]);
    rejected(x.transpose(0, 2), &["transpose", "axis 2"]);
    rejected(x.slice(2, 0, 1), &["slice", "axis 2"]);
    rejected(x.select(-3, 0), &["select", "axis"]);
    rejected(concatenate(&[&x, &x], 2), &["concatenate", "axis 2"]);
    rejected(zeros(&[2, 0]).argmax(1), &["max", "expected at least one", "got [2×0]"]);
    rejected(zeros(&[2, 0]).mean(-1), &["mean", "expected at least one", "got [2×0]"]);
}

#[test]
fn layouts_must_fit() {
    let x = zeros(&[2, 3]);
    rejected(x.reshape([7]), &["reshape", "expected", "6", "got [7]"]);
    rejected(x.permute(&[0, 0]), &["permute", "expected", "2", "got [0, 0]"]);
    rejected(x.permute(&[0]), &["permute", "got [0]"]);
    rejected(x.permute(&[0, 2]), &["permute", "got [0, 2]"]);
    rejected(x.slice(1, 2, 2), &["slice", "0..3", "2..4"]);
    rejected(x.slice(1, usize::MAX, 2), &["slice", "0..3"]);
    rejected(x.select(0, 2), &["expected", "0..2"]);
    rejected(x.select(0, usize::MAX), &["expected", "0..2"]);
    rejected(concatenate(&[], 0), &["concatenate", "at least one"]);
    rejected(concatenate(&[&x, &zeros(&[3, 2])], 0), &["concatenate", "[2×3]", "got [3×2]"]);
    rejected(concatenate(&[&x, &zeros(&[2])], 1), &["concatenate", "[2×3]", "got [2]"]);
    rejected(zeros(&[1, 1, 5, 4]).patches(2), &["patches", "2", "got [1×1×5×4]"]);
    rejected(zeros(&[1, 1, 4, 4]).patches(0), &["patches"]);
    rejected(zeros(&[4, 4]).patches(2), &["patches", "got [4×4]"]);
}

#[test]
fn products_must_fit() {
    let x = zeros(&[2, 3]);
    rejected(x.matmul(&zeros(&[2, 3])), &["matmul", "expected", "[2×3] and [2×3]"]);
    rejected(x.matmul(&zeros(&[3])), &["matmul", "two axes", "got [3]"]);
    rejected(x.matmul_transposed(&zeros(&[2, 4]), false, false), &["matmul", "[2×3] and [2×4]"]);
    rejected(zeros(&[2, 2, 3]).matmul(&zeros(&[3, 3, 4])), &["matmul", "[2×2×3] and [3×3×4]"]);
    rejected(x.linear(&zeros(&[4, 5]), None, Layout::InOut, None), &["linear", "3 inputs", "got [4×5]"]);
    rejected(
        x.linear(&zeros(&[3, 5]), None, Layout::OutIn, None),
        &["linear", "OutIn", "3 inputs", "got [3×5]"],
    );
    rejected(x.linear(&zeros(&[3]), None, Layout::OutIn, None), &["linear", "got [3]"]);
    rejected(
        x.linear(&zeros(&[3, 5]), Some(&zeros(&[3])), Layout::InOut, None),
        &["linear", "bias of [5]", "got [3]"],
    );
    rejected(
        device::scalar(1.0).linear(&zeros(&[1, 1]), None, Layout::InOut, Some(Function::Relu)),
        &["linear"],
    );
    rejected(x.layer_norm(&zeros(&[2]), None, 1e-5), &["norm", "[3]", "got [2]"]);
    rejected(x.layer_norm(&zeros(&[3]), Some(&zeros(&[1, 3])), 1e-5), &["norm", "[3]", "got [1×3]"]);
    rejected(x.rms_norm(&zeros(&[]), 1e-5), &["norm", "[3]", "got []"]);
    rejected(x.softmax_masked(&Mask::from_fn([2, 2], |_| true)), &["softmax", "[2×2]", "[2×3]"]);
    rejected(x.softmax_masked(&Mask::from_fn([4, 2, 3], |_| true)), &["softmax", "[2×3]", "got [4×2×3]"]);
    rejected(
        zeros(&[1, 3]).log_softmax_masked(&Mask::from_fn([2, 3], |_| true)),
        &["softmax", "[1×3]", "got [2×3]"],
    );
}

#[test]
fn ids_and_targets_must_be_in_range() {
    let table = zeros(&[5, 2]);
    rejected(table.embedding(&ids(&[1, 5])), &["embedding", "5"]);
    rejected(zeros(&[5]).embedding(&ids(&[1])), &["embedding", "(rows, width)", "got [5]"]);
    let logits = zeros(&[2, 3]);
    let plain = CrossEntropy::default();
    rejected(logits.cross_entropy(&ids(&[0, 3]), plain), &["cross_entropy", "target 3"]);
    rejected(logits.cross_entropy(&ids(&[0]), plain), &["cross_entropy", "2 rows", "got [1]"]);
    rejected(device::scalar(1.0).cross_entropy(&ids(&[0]), plain), &["cross_entropy"]);
    for smoothing in [-0.1, 1.0, f32::NAN] {
        let settings = CrossEntropy { ignored: None, smoothing };
        rejected(logits.cross_entropy(&ids(&[0, 1]), settings), &["smoothing", &smoothing.to_string()]);
    }
    rejected(logits.binary_cross_entropy(&zeros(&[3, 2])), &["binary_cross_entropy", "[2×3]", "got [3×2]"]);
    let (x, cos) = (zeros(&[1, 2, 1, 4]), zeros(&[7, 2]));
    let at = |positions: &[u32], shape: &[usize]| Ids::new(positions, shape).unwrap();
    rejected(x.rotary(&cos, &cos, &at(&[0, 7], &[1, 2]), Pairing::Halves), &["rotary", "7"]);
    rejected(x.rotary(&cos, &cos, &at(&[0, 1], &[2]), Pairing::Halves), &["rotary", "[1×2]", "got [2]"]);
    rejected(x.rotary(&cos, &zeros(&[7, 1]), &at(&[0, 1], &[1, 2]), Pairing::Halves), &["[7×2] and [7×1]"]);
    rejected(
        x.rotary(&zeros(&[7, 3]), &zeros(&[7, 3]), &at(&[0, 1], &[1, 2]), Pairing::Halves),
        &["at most 2"],
    );
    rejected(x.rotary(&zeros(&[]), &zeros(&[]), &at(&[0, 1], &[1, 2]), Pairing::Halves), &["rotary"]);
    rejected(zeros(&[1, 2, 4]).rotary(&cos, &cos, &at(&[0, 1], &[1, 2]), Pairing::Halves), &["got [1×2×4]"]);
}

#[test]
fn lstm_weights_and_lengths_must_fit() {
    let x = zeros(&[2, 3, 4]);
    let weights = |inputs: usize, hidden: usize| LstmWeights {
        input: zeros(&[4 * hidden, inputs]),
        hidden: zeros(&[4 * hidden, hidden]),
        bias: zeros(&[4 * hidden]),
    };
    let good = weights(4, 5);
    rejected(
        lstm(&zeros(&[2, 3]), std::slice::from_ref(&good), None),
        &["lstm", "(batch, time, inputs)", "got [2×3]"],
    );
    rejected(lstm(&x, &[], None), &["lstm", "one or two", "got 0"]);
    rejected(lstm(&x, &[good.clone(), good.clone(), good.clone()], None), &["lstm", "got 3"]);
    rejected(lstm(&x, &[weights(3, 5)], None), &["lstm", "[20, 4]", "got [20×3]"]);
    rejected(lstm(&x, &[good.clone(), weights(4, 6)], None), &["lstm", "got [24×4]"]);
    let scalar = LstmWeights { hidden: device::scalar(0.0), ..good.clone() };
    rejected(lstm(&x, &[scalar], None), &["lstm", "expected", "got"]);
    rejected(lstm(&x, std::slice::from_ref(&good), Some(&ids(&[1]))), &["lstm", "2 lengths", "got 1"]);
    rejected(lstm(&x, &[good], Some(&ids(&[1, 4]))), &["lstm", "length 4"]);
}

/// Attention of query (2, 3, 4, 5) over keys (2, 6, 2, 5) with one thing changed.
fn attention(change: impl FnOnce(&mut Attention)) -> Result<Tensor> {
    let (query, key) = (zeros(&[2, 3, 4, 5]), zeros(&[2, 6, 2, 5]));
    let mut attention = Attention::scaled(1.0);
    change(&mut attention);
    Ok(attend(Projections::Separate { query: &query, key: &key, value: &key }, &attention)?.output)
}

#[test]
fn attention_rules_must_fit() {
    assert!(attention(|_| ()).is_ok());
    rejected(attention(|a| a.scale = f32::NAN), &["scale", "finite", "NaN"]);
    for cap in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        rejected(attention(|a| a.soft_cap = Some(cap)), &["soft_cap", "finite and above 0"]);
    }
    rejected(attention(|a| a.sink = Some(zeros(&[2]))), &["attention", "4 sinks", "got [2]"]);
    let keys = Mask::from_fn([6], |_| true);
    let allowed = Allowed { keys: Some(keys), ..Allowed::default() };
    rejected(attention(|a| a.allowed = allowed), &["attention", "[2, 6]", "got [6]"]);
    let pattern = |shape: [usize; 4]| Allowed {
        blocks: Some(Arc::new(BlockMask::from_mask(&Mask::from_fn(shape, |_| true)).unwrap())),
        ..Allowed::default()
    };
    rejected(
        attention(|a| a.allowed = pattern([1, 1, 3, 5])),
        &["attention", "3 queries and 6 keys", "(3, 5)"],
    );
    rejected(attention(|a| a.allowed = pattern([3, 1, 3, 6])), &["attention", "3×1 planes"]);
    rejected(attention(|a| a.allowed = pattern([1, 2, 3, 6])), &["attention", "1×2 planes"]);
    rejected(BlockMask::from_mask(&Mask::from_fn([1, 3, 6], |_| true)), &["block mask", "got [1×3×6]"]);
    rejected(attention(|a| a.bias = Bias::Dense(zeros(&[3, 6]))), &["attention", "3×6", "got [3×6]"]);
    rejected(attention(|a| a.bias = Bias::Dense(zeros(&[2, 2, 3, 6]))), &["attention", "got [2×2×3×6]"]);
    rejected(attention(|a| a.bias = Bias::Slopes(zeros(&[2]))), &["attention", "4 slopes", "got [2]"]);
    let buckets = |table: &[usize], ids: Ids| Bias::Buckets { table: zeros(table), buckets: ids };
    rejected(attention(|a| a.bias = buckets(&[2, 3], ids(&[0; 8]))), &["(buckets, 4)", "got [2×3]"]);
    rejected(attention(|a| a.bias = buckets(&[2, 4], ids(&[0; 9]))), &["8 buckets", "got [9]"]);
    rejected(attention(|a| a.bias = buckets(&[2, 4], ids(&[2; 8]))), &["attention", "id 2"]);
}

#[test]
fn projections_must_fit() {
    let separate = |q: &[usize], k: &[usize], v: &[usize]| {
        let (query, key, value) = (zeros(q), zeros(k), zeros(v));
        attend(Projections::Separate { query: &query, key: &key, value: &value }, &Attention::scaled(1.0))
            .map(|_| ())
    };
    assert!(separate(&[2, 3, 4, 5], &[2, 6, 2, 5], &[2, 6, 2, 7]).is_ok());
    rejected(separate(&[2, 3, 4, 5], &[2, 6, 3, 5], &[2, 6, 3, 5]), &["attention", "divisible", "[2×6×3×5]"]);
    rejected(separate(&[2, 3, 4, 5], &[1, 6, 2, 5], &[1, 6, 2, 5]), &["attention", "[2×3×4×5]"]);
    rejected(separate(&[2, 3, 4, 5], &[2, 6, 2, 4], &[2, 6, 2, 5]), &["attention", "[2×6×2×4]"]);
    rejected(separate(&[2, 3, 4, 5], &[2, 6, 2, 5], &[2, 7, 2, 5]), &["attention", "[2×7×2×5]"]);
    rejected(separate(&[2, 3, 4, 5], &[2, 6, 0, 5], &[2, 6, 0, 5]), &["attention", "[2×6×0×5]"]);
    rejected(separate(&[3, 4, 5], &[2, 6, 2, 5], &[2, 6, 2, 5]), &["attention", "[3×4×5]"]);
    rejected(separate(&[2, 0, 4, 5], &[2, 6, 2, 5], &[2, 6, 2, 5]), &["attention", "0 queries"]);
    rejected(separate(&[2, 3, 4, 5], &[2, 0, 2, 5], &[2, 0, 2, 5]), &["attention", "0 keys"]);
    let fused = |shape: &[usize], heads: usize, kv_heads: usize| {
        let packed = zeros(shape);
        attend(Projections::Fused { packed: &packed, heads, kv_heads }, &Attention::scaled(1.0)).map(|_| ())
    };
    assert!(fused(&[2, 3, 32], 4, 2).is_ok());
    rejected(fused(&[2, 3, 33], 4, 2), &["attention", "8 heads", "got [2×3×33]"]);
    rejected(fused(&[2, 3, 32], 4, 3), &["attention"]);
    rejected(fused(&[2, 3, 32], 4, 0), &["attention"]);
    rejected(fused(&[2, 32], 4, 2), &["attention", "got [2×32]"]);
}

#[test]
fn absurd_numbers_of_heads_are_rejected_without_overflow() {
    let packed = zeros(&[2, 3, 32]);
    for (heads, kv_heads) in [(usize::MAX, 1), (2, usize::MAX / 2 + 1), (usize::MAX - 1, 2)] {
        let fused = Projections::Fused { packed: &packed, heads, kv_heads };
        assert!(attend(fused, &Attention::scaled(1.0)).is_err());
    }
}

#[test]
fn shapes_with_a_zero_and_huge_lengths_are_empty_everywhere() {
    // No values at all, but products of the other lengths that overflow.
    let x = device::new(&[], [usize::MAX, 3, 0]).unwrap();
    assert_eq!((x.count(), x.exp().unwrap().count()), (0, 0));
    assert!(x.softmax().is_ok());
    assert!(x.layer_norm(&zeros(&[0]), None, 1e-5).is_ok());
}

#[test]
fn errors_are_of_the_documented_kinds() {
    assert!(matches!(zeros(&[2]).reshape([3]), Err(Error::Shape { operation: "reshape", .. })));
    assert!(matches!(zeros(&[2]).sum(1), Err(Error::OutOfRange { what: "axis", limit: 1, .. })));
    assert!(matches!(attention(|a| a.scale = f32::INFINITY), Err(Error::Setting { what: "scale", .. })));
}
