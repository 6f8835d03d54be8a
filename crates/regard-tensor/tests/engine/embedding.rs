//! Rows of a table, and their sparse gradients.

use crate::device;
use crate::gradcheck::{Draw, LENGTHS, cases, check};
use crate::reference::{self, layers};
use proptest::prelude::*;
use proptest::sample::select;
use regard_tensor::ops::{Layout, concatenate};
use regard_tensor::{Device, Gradient, Ids};

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn rows_and_their_gradients(
        rows in 1_usize..20,
        width in select(&LENGTHS[..]),
        shape in prop::collection::vec(0_usize..6, 0..3),
        seed: u64,
    ) {
        let mut draw = Draw(seed);
        let ids = draw.ids(rows, &shape[..]);
        check(&[draw.tensor([rows, width])], |x| x[0].embedding(&ids), |x| layers::embedding(&x[0], ids.values(), &shape));
    }
}

#[test]
fn the_gradient_lists_each_row_once_in_order() {
    let table = Draw(1).tensor([10, 3]).tracked();
    let ids = Ids::new(&[7, 2, 7, 7, 0], [5]).unwrap();
    let gradients = table.embedding(&ids).unwrap().sum_all().unwrap().backward().unwrap();
    assert_rows(gradients.find(&table), 10, &[(0, 1.0), (2, 1.0), (7, 3.0)]);
    assert_eq!(gradients.get(&table).unwrap().shape()[..], [10, 3]);
}

/// Asserts that a gradient of a table has these rows, each of one value throughout, and zeros elsewhere. It is sparse, but
/// for CUDA devices, which would have to read the ids to know its rows.
fn assert_rows(gradient: Option<&Gradient>, table_rows: usize, expected: &[(u32, f32)]) {
    let dense = match (gradient, device::get()) {
        (Some(Gradient::Dense(dense)), Device::Cuda(_)) => dense.clone(),
        (Some(Gradient::Rows(rows)), _) => {
            let names: Vec<u32> = expected.iter().map(|&(row, _)| row).collect();
            assert_eq!((rows.rows(), rows.table_rows()), (&names[..], table_rows));
            gradient.unwrap().to_dense().unwrap()
        }
        (other, device) => panic!("{other:?} on {device}"),
    };
    for (row, values) in dense.values().chunks(dense.shape()[1]).enumerate() {
        let value =
            expected.iter().find(|(named, _)| *named as usize == row).map_or(0.0, |&(_, value)| value);
        assert!(values.iter().all(|&x| x == value), "row {row} is {values:?}");
    }
}

#[test]
fn several_lookups_and_dense_uses_of_one_table_add_up() {
    let mut draw = Draw(2);
    let (first, second) = (draw.ids(6, [4]), draw.ids(6, [5]));
    let inputs = [draw.tensor([6, 5]), draw.tensor([3, 5])];
    // Two lookups of the same table, and the table as the weight of the output layer: tied embeddings.
    check(
        &inputs,
        |x| {
            let logits = x[1].linear(&x[0], None, Layout::OutIn, None)?.reshape([18])?;
            let (a, b) = (x[0].embedding(&first)?.reshape([20])?, x[0].embedding(&second)?.reshape([25])?);
            concatenate(&[&(&a * &a)?, &logits, &b], 0)
        },
        |x| {
            let logits = layers::linear(&x[1], &x[0], None, true, |x| x);
            let a = layers::embedding(&x[0], first.values(), &[4]).map(|x| x * x);
            let b = layers::embedding(&x[0], second.values(), &[5]);
            let flat = [a, logits, b].map(|x| reference::reshape(&x, &[x.values.len()]));
            reference::concatenate(&flat, 0)
        },
    );
}

#[test]
fn lookups_alone_stay_sparse_when_added() {
    let table = Draw(3).tensor([9, 2]).tracked();
    let look =
        |ids: &[u32]| table.embedding(&Ids::new(ids, [ids.len()]).unwrap()).unwrap().sum_all().unwrap();
    let gradients = (&look(&[1, 5]) + &look(&[5, 8])).unwrap().backward().unwrap();
    assert_rows(gradients.find(&table), 9, &[(1, 1.0), (5, 2.0), (8, 1.0)]);
}

#[test]
fn gradients_flow_through_a_computed_table() {
    let ids = Ids::new(&[1, 1, 0], [3]).unwrap();
    check(
        &[Draw(4).tensor([3, 4])],
        |x| x[0].tanh()?.embedding(&ids),
        |x| layers::embedding(&x[0].map(f64::tanh), ids.values(), &[3]),
    );
}

#[test]
fn empty_ids_and_empty_rows() {
    let none = Ids::new(&[], [0]).unwrap();
    check(&[Draw(5).tensor([3, 4])], |x| x[0].embedding(&none), |x| layers::embedding(&x[0], &[], &[0]));
    let some = Ids::new(&[1, 2], [2]).unwrap();
    check(&[device::zeros([3, 0])], |x| x[0].embedding(&some), |x| layers::embedding(&x[0], &[1, 2], &[2]));
    check(&[device::zeros([0, 4])], |x| x[0].embedding(&none), |x| layers::embedding(&x[0], &[], &[0]));
}
