//! Matrix products, single and batched.

use crate::device;
use crate::gradcheck::{Draw, LENGTHS, cases, check};
use crate::reference;
use proptest::prelude::*;
use proptest::sample::select;

/// Both operands with their outer axes, in the layout that the transposes require.
fn check_product(
    seed: u64,
    outer: (&[usize], &[usize]),
    (m, n, k): (usize, usize, usize),
    (ta, tb): (bool, bool),
) {
    let side = |outer: &[usize], rows: usize, columns: usize, transposed: bool| -> Vec<usize> {
        let last = if transposed { [columns, rows] } else { [rows, columns] };
        outer.iter().copied().chain(last).collect()
    };
    let mut draw = Draw(seed);
    let inputs = [draw.tensor(side(outer.0, m, k, ta)), draw.tensor(side(outer.1, k, n, tb))];
    check(&inputs, |x| x[0].matmul_transposed(&x[1], ta, tb), |x| reference::matmul(&x[0], &x[1], ta, tb));
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn single_products_of_any_size(
        (m, n, k) in (select(&LENGTHS[..]), select(&LENGTHS[..]), select(&LENGTHS[..])),
        transposes: (bool, bool),
        seed: u64,
    ) {
        check_product(seed, (&[], &[]), (m, n, k), transposes);
    }

    #[test]
    fn batches_and_shared_sides(
        outer in prop::collection::vec(1_usize..4, 1..3),
        shared in 0_u8..3,
        (m, n, k) in (1_usize..20, 1_usize..20, 1_usize..20),
        transposes: (bool, bool),
        seed: u64,
    ) {
        let sides = match shared {
            0 => (&outer[..], &outer[..]),
            1 => (&[][..], &outer[..]),
            _ => (&outer[..], &[][..]),
        };
        check_product(seed, sides, (m, n, k), transposes);
    }
}

#[test]
fn products_split_into_several_tasks() {
    // Products of more than 2²¹ multiply-adds are split by rows or by columns.
    for (m, n, k) in [(300, 130, 120), (130, 300, 120)] {
        for transposes in [(false, false), (true, true)] {
            check_product(1, (&[], &[]), (m, n, k), transposes);
        }
    }
}

#[test]
fn an_empty_sum_is_zero_in_reused_memory() {
    for (m, n) in [(3, 4), (17, 33), (1, 1)] {
        // Leaves non-zero values in the memory that the product will reuse.
        drop(device::full([m, n], 7.0));
        check_product(2, (&[], &[]), (m, n, 0), (false, false));
        drop(device::full([5, m, n], 7.0));
        check_product(3, (&[5], &[5]), (m, n, 0), (true, false));
        check_product(4, (&[5], &[]), (m, n, 0), (false, true));
    }
}

#[test]
fn empty_batches_and_sides_give_empty_results() {
    check_product(5, (&[0], &[0]), (3, 4, 5), (false, false));
    check_product(6, (&[0], &[]), (3, 4, 5), (true, true));
    check_product(7, (&[], &[0]), (3, 4, 5), (false, true));
    check_product(8, (&[], &[]), (0, 4, 5), (false, false));
    check_product(9, (&[2], &[]), (3, 0, 5), (true, false));
}
