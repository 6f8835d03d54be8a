//! The graph: recording, freeing and recomputation.

use crate::device;
use crate::gradcheck::{Draw, check};
use regard_tensor::ops::{Attention, Dropout, Layout, Projections, attend};
use regard_tensor::random::Key;
use regard_tensor::{Error, Gradient, Ids, Pass, Result, Tensor, checkpoint};

fn bits(x: &Tensor) -> Vec<u32> {
    x.values().iter().map(|x| x.to_bits()).collect()
}

#[test]
fn a_value_used_many_times_gets_the_sum() {
    check(
        &[Draw(1).tensor([7])],
        |x| {
            let y = x[0].tanh()?;
            let z = (&(&y * &x[0])? + &y)?;
            (&z * &z)?.add(&y)
        },
        |x| {
            x[0].map(|x| {
                let y = x.tanh();
                (y * x + y).powi(2) + y
            })
        },
    );
}

#[test]
fn an_intermediate_value_has_a_gradient_on_request() {
    let x = device::scalar(2.0).tracked();
    let middle = (&x * &x).unwrap();
    let loss = (&middle * &middle).unwrap();
    let gradients = loss.gradients(&Pass::new().keep_graph().with_respect_to(&middle)).unwrap();
    assert_eq!(gradients.get(&middle).unwrap().item(), Ok(8.0));
    assert_eq!(gradients.get(&x).unwrap().item(), Ok(32.0));
    assert_eq!(gradients.len(), 2);
    assert!(loss.backward().unwrap().get(&middle).is_none());
}

#[test]
fn the_loss_itself_has_a_gradient_on_request() {
    let loss = device::scalar(2.0).tracked().exp().unwrap();
    let gradients = loss.gradients(&Pass::new().with_respect_to(&loss)).unwrap();
    assert_eq!(gradients.get(&loss).unwrap().item(), Ok(1.0));
}

#[test]
fn a_detached_value_stops_the_gradient() {
    let x = device::scalar(3.0).tracked();
    let y = (&x * &x.detach()).unwrap();
    assert_eq!(y.backward().unwrap().get(&x).unwrap().item(), Ok(3.0));
    assert!(!x.detach().is_tracked());
    assert!(matches!(x.detach().exp().unwrap().backward(), Err(Error::Untracked)));
}

#[test]
fn nothing_is_recorded_without_a_tracked_input() {
    let x = Draw(2).tensor([2, 3]);
    let y = x.linear(&Draw(3).tensor([3, 3]), None, Layout::InOut, None).unwrap().softmax().unwrap();
    assert!(!y.is_tracked());
    assert!(matches!(y.sum_all().unwrap().backward(), Err(Error::Untracked)));
    assert!(checkpoint(&[&x], |x| x[0].exp()).is_ok_and(|y| !y.is_tracked()));
}

#[test]
fn only_tracked_inputs_get_gradients() {
    let (x, w) = (Draw(4).tensor([2, 3]), Draw(5).tensor([3, 4]).tracked());
    let gradients = x.matmul(&w).unwrap().sum_all().unwrap().backward().unwrap();
    assert_eq!(gradients.len(), 1);
    assert!(gradients.get(&x).is_none() && gradients.get(&w).is_some());
    assert!(gradients.get(&device::scalar(0.0).tracked()).is_none());
}

#[test]
fn a_second_pass_needs_the_graph_to_be_kept() {
    let x = device::scalar(0.5).tracked();
    let loss = x.exp().unwrap().tanh().unwrap();
    let first = loss.gradients(&Pass::new().keep_graph()).unwrap().get(&x).unwrap();
    let second = loss.gradients(&Pass::new().keep_graph()).unwrap().get(&x).unwrap();
    let third = loss.backward().unwrap().get(&x).unwrap();
    assert_eq!((bits(&first), bits(&first)), (bits(&second), bits(&third)));
    assert!(matches!(loss.backward(), Err(Error::Freed)));
    assert!(matches!(loss.gradients(&Pass::new().keep_graph()), Err(Error::Freed)));
}

#[test]
fn a_graph_freed_through_one_loss_is_freed_for_the_other() {
    let x = device::scalar(0.5).tracked();
    let shared = x.exp().unwrap();
    let (a, b) = (shared.tanh().unwrap(), shared.sqrt().unwrap());
    assert!(a.backward().is_ok());
    assert!(matches!(b.backward(), Err(Error::Freed)));
    // Leaves are never freed.
    assert!(x.tanh().unwrap().backward().is_ok());
}

#[test]
fn the_upstream_gradient_must_fit() {
    let x = Draw(6).tensor([2, 3]).tracked();
    let y = x.exp().unwrap();
    assert!(matches!(y.backward(), Err(Error::Shape { .. })));
    let wrong = y.gradients(&Pass::new().from_upstream(device::zeros([3, 2])));
    let message = wrong.err().unwrap().to_string();
    assert!(message.contains("[2×3]") && message.contains("[3×2]"), "{message}");
    let right = y.gradients(&Pass::new().from_upstream(device::full([2, 3], 2.0))).unwrap();
    assert_eq!(bits(&right.get(&x).unwrap()), bits(&y.scale(2.0).unwrap()));
}

#[test]
fn a_single_value_of_any_rank_is_a_loss() {
    let x = device::full([1, 1, 1], 3.0).tracked();
    assert_eq!((&x * &x).unwrap().backward().unwrap().get(&x).unwrap().shape()[..], [1, 1, 1]);
    assert_eq!(x.backward().unwrap().get(&x).unwrap().to_vec(), [1.0]);
}

#[test]
fn an_upstream_gradient_is_not_changed_by_the_pass() {
    let x = Draw(7).tensor([4]).tracked();
    let upstream = device::full([4], 1.0);
    // Both operands of the sum are the leaf: its gradient is accumulated in place where possible.
    let y = (&(&x + &x).unwrap() + &x).unwrap();
    let gradients = y.gradients(&Pass::new().keep_graph().from_upstream(upstream.clone())).unwrap();
    assert_eq!((gradients.get(&x).unwrap().to_vec(), upstream.to_vec()), (vec![3.0; 4], vec![1.0; 4]));
    let gradients = y.gradients(&Pass::new().from_upstream(upstream.clone())).unwrap();
    assert_eq!((gradients.get(&x).unwrap().to_vec(), upstream.to_vec()), (vec![3.0; 4], vec![1.0; 4]));
}

#[test]
fn changing_a_leaf_after_use_does_not_change_its_gradient() {
    let mut x = device::new(&[2.0, 3.0], [2]).unwrap().tracked();
    let loss = (&x * &x).unwrap().sum_all().unwrap();
    x.set_values(&[100.0, 100.0]).unwrap();
    assert_eq!(loss.backward().unwrap().get(&x).unwrap().to_vec(), [4.0, 6.0]);
    assert_eq!((&x * &x).unwrap().to_vec(), [1e4, 1e4]);
}

#[test]
fn gradients_of_several_passes_add_up() {
    let x = Draw(8).tensor([3]).tracked();
    let table = Draw(9).tensor([4, 2]).tracked();
    let pass = |id: u32| {
        let row = table.embedding(&Ids::new(&[id], [1]).unwrap()).unwrap().sum_all().unwrap();
        (&x.sum_all().unwrap() + &row).unwrap().backward().unwrap()
    };
    let mut total = pass(1);
    total.add(pass(3)).unwrap();
    assert_eq!(total.get(&x).unwrap().to_vec(), [2.0; 3]);
    assert_eq!(total.get(&table).unwrap().to_vec(), [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0]);
    total.set(&x, Gradient::Dense(device::zeros([3])));
    assert_eq!(total.get(&x).unwrap().to_vec(), [0.0; 3]);
}

/// Attention, dropout and a linear layer on x, with a residual.
fn block(x: &Tensor, weight: &Tensor, site: &str) -> Result<Tensor> {
    let packed = x.linear(weight, None, Layout::InOut, None)?;
    let attended =
        attend(Projections::Fused { packed: &packed, heads: 2, kv_heads: 2 }, &Attention::scaled(0.5))?;
    let mixed = attended.output.reshape(x.shape())?;
    let dropout = Dropout { probability: 0.3, key: Key::new(1).step(2).site(site), first_example: 0 };
    x.add(&mixed.dropout(&dropout)?)
}

#[test]
fn checkpointed_segments_match_the_plain_run_bit_for_bit() {
    let run = |checkpointed: bool| {
        let x = Draw(10).tensor([2, 5, 8]).tracked();
        let shared = Draw(11).tensor([8, 24]).scale(0.3).unwrap().tracked();
        let mut y = x.clone();
        for site in ["first", "second", "third"] {
            y = if checkpointed {
                checkpoint(&[&y, &shared], move |inputs| block(&inputs[0], &inputs[1], site)).unwrap()
            } else {
                block(&y, &shared, site).unwrap()
            };
        }
        // The shared weight and the input are used outside the segments too.
        let again = x.linear(&shared, None, Layout::InOut, None).unwrap().sum_all().unwrap();
        let loss = (&(&y * &x).unwrap().sum_all().unwrap() + &again).unwrap();
        let gradients = loss.backward().unwrap();
        [bits(&y), bits(&gradients.get(&x).unwrap()), bits(&gradients.get(&shared).unwrap())]
    };
    assert_eq!(run(false), run(true));
}

#[test]
fn checkpoints_may_be_nested_kept_and_capture_parameters() {
    let x = Draw(12).tensor([3, 4]).tracked();
    let weight = Draw(13).tensor([4, 4]).tracked();
    let captured = weight.clone();
    let outer = checkpoint(&[&x], move |inputs| {
        let weight = captured.clone();
        let inner =
            checkpoint(&[&inputs[0]], move |x| x[0].linear(&weight, None, Layout::InOut, None)?.tanh())?;
        &inner * &inner
    })
    .unwrap();
    let plain = x.linear(&weight, None, Layout::InOut, None).unwrap().tanh().unwrap();
    let plain = (&plain * &plain).unwrap();
    let want = plain.sum_all().unwrap().backward().unwrap();
    let loss = outer.sum_all().unwrap();
    for pass in [Pass::new().keep_graph(), Pass::new()] {
        let got = loss.gradients(&pass).unwrap();
        assert_eq!(bits(&got.get(&x).unwrap()), bits(&want.get(&x).unwrap()));
        assert_eq!(bits(&got.get(&weight).unwrap()), bits(&want.get(&weight).unwrap()));
    }
    assert!(matches!(loss.backward(), Err(Error::Freed)));
}

#[test]
fn gradients_flow_through_an_identity_checkpoint() {
    let x = device::scalar(2.0).tracked();
    let same = checkpoint(&[&x], |x| Ok(x[0].clone())).unwrap();
    assert_eq!((&same * &x).unwrap().backward().unwrap().get(&x).unwrap().item(), Ok(4.0));
}

#[test]
fn an_error_inside_a_checkpoint_is_returned() {
    let x = Draw(14).tensor([3]).tracked();
    assert!(checkpoint(&[&x], |x| x[0].add(&device::zeros([4]))).is_err());
}
