//! Graphs that are far deeper than the call stack.

use crate::device;
use regard_tensor::{Result, Tensor, checkpoint};
use std::process::Command;

const DEPTH: usize = 200_000;

/// A chain of operations with saved inputs, saved outputs and two parents.
fn chain(x: &Tensor, depth: usize) -> Result<Tensor> {
    let mut y = x.clone();
    for i in 0..depth {
        y = match i % 4 {
            0 => y.scale(1.0)?,
            1 => y.add(x)?.subtract(x)?,
            2 => y.multiply(&device::scalar(1.0))?,
            _ => y.reshape([1])?.reshape([])?,
        };
    }
    Ok(y)
}

#[test]
fn a_long_chain_differentiates() {
    let x = device::scalar(1.0).tracked();
    let slope = chain(&x, DEPTH).unwrap().backward().unwrap().get(&x).unwrap();
    assert!((slope.item().unwrap() - 1.0).abs() < 1e-3);
}

#[test]
fn a_long_chain_is_dropped_without_a_backward_pass() {
    drop(chain(&device::scalar(1.0).tracked(), DEPTH).unwrap());
}

#[test]
fn a_long_chain_is_dropped_after_a_pass_that_keeps_it() {
    let x = device::scalar(1.0).tracked();
    let y = chain(&x, DEPTH).unwrap();
    assert!(y.gradients(&regard_tensor::Pass::new().keep_graph()).is_ok());
}

#[test]
fn a_value_that_doubles_itself_two_hundred_times() {
    // The graph has 2²⁰⁰ paths but only 200 nodes.
    let x = device::scalar(1.0).tracked();
    let mut y = x.clone();
    for _ in 0..100 {
        y = (&y + &y).unwrap();
    }
    assert_eq!(y.backward().unwrap().get(&x).unwrap().item(), Ok(2.0_f32.powi(100)));
}

/// A chain of checkpoints, dropped without or after a backward pass. Run by the test below.
#[test]
#[ignore = "a failure overflows the stack of its process; run by `long_chains_of_checkpoints_do_not_overflow`"]
fn inner_chain_of_checkpoints() {
    let x = device::scalar(1.0).tracked();
    let long = || (0..DEPTH).fold(x.clone(), |y, _| checkpoint(&[&y], |y| y[0].scale(1.0)).unwrap());
    assert_eq!(long().backward().unwrap().get(&x).unwrap().item(), Ok(1.0));
    drop(long());
}

#[test]
fn long_chains_of_checkpoints_do_not_overflow() {
    // A stack overflow ends the whole process, so this runs in a separate one.
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tape_depth::inner_chain_of_checkpoints", "--ignored"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
