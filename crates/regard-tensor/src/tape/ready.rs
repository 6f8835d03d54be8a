//! When the gradient of a leaf is complete, before the backward pass is over.
//!
//! Leaves are older than all operations, so the walk meets them last. But the gradient of a leaf is complete once every
//! operation that uses it has run backward: counting uses before the walk shows when. Processes that train one model
//! together send gradients then, while the rest of the pass goes on.

use super::{Gradient, Node, Rule, key, lock};
use crate::error::Result;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The identity of a leaf: that of the tensor it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Leaf(pub(super) usize);

/// Receives the gradient of a leaf.
pub(super) type Receiver<'a> = dyn FnMut(Leaf, Gradient) -> Result<()> + 'a;

/// How many operations still have to send a gradient to each leaf.
#[derive(Default)]
pub(super) struct Uses {
    left: HashMap<usize, usize>,
    seen: HashSet<usize>,
    /// Checkpointed segments that have not been run again: until then their uses are unknown, and no leaf is complete.
    segments: usize,
}

impl Uses {
    /// Counts the uses in the graph below a node, except what was counted before.
    pub fn count(&mut self, root: &Arc<Node>) {
        let mut pending = vec![root.clone()];
        while let Some(node) = pending.pop() {
            if !self.seen.insert(key(&node)) {
                continue;
            }
            self.segments += usize::from(matches!(*lock(&node.rule), Rule::Segment(_)));
            for input in lock(&node.inputs).iter().flatten() {
                match *lock(&input.rule) {
                    Rule::Leaf => *self.left.entry(key(input)).or_default() += 1,
                    _ => pending.push(input.clone()),
                }
            }
        }
    }

    /// The leaves among a node's inputs, as often as it uses them.
    pub fn leaves(node: &Node) -> Vec<Arc<Node>> {
        let inputs = lock(&node.inputs);
        inputs.iter().flatten().filter(|input| matches!(*lock(&input.rule), Rule::Leaf)).cloned().collect()
    }

    /// Notes that a segment was run again, with the graph that it recorded.
    pub fn expanded(&mut self, inner: Option<&Arc<Node>>) {
        self.segments -= 1;
        if let Some(inner) = inner {
            self.count(inner);
        }
    }

    /// Notes that one use of a leaf is done; whether it was the last.
    pub fn done(&mut self, leaf: &Arc<Node>) -> bool {
        let Some(left) = self.left.get_mut(&key(leaf)) else { return false };
        *left = left.saturating_sub(1);
        *left == 0 && self.segments == 0
    }
}

#[cfg(test)]
mod tests {
    use crate::{Gradient, Leaf, Tensor, checkpoint};

    fn leaf(value: f32) -> Tensor {
        Tensor::new(&[value, 2.0 * value], [2]).unwrap().tracked()
    }

    /// Leaves in the order in which they were complete, with their gradients.
    fn completed(loss: &Tensor) -> (Vec<Leaf>, Vec<Vec<f32>>) {
        let (mut leaves, mut values) = (Vec::new(), Vec::new());
        let receive = &mut |leaf, gradient: Gradient| {
            leaves.push(leaf);
            values.push(gradient.to_dense()?.to_vec());
            Ok(())
        };
        loss.backward_as_ready(receive).unwrap();
        (leaves, values)
    }

    #[test]
    fn leaves_are_complete_in_the_order_of_the_backward_pass() {
        let (early, late, shared) = (leaf(0.5), leaf(0.25), leaf(-0.5));
        let build = || {
            // `shared` is used first and last, as a tied embedding is.
            let hidden = shared.multiply(&early).unwrap().tanh().unwrap();
            let hidden = hidden.multiply(&late).unwrap().exp().unwrap();
            hidden.multiply(&shared).unwrap().sum_all().unwrap()
        };
        let (leaves, values) = completed(&build());
        // The oldest product completes both of its inputs; `late` was complete long before.
        assert_eq!(leaves, [&late, &shared, &early].map(|leaf| leaf.leaf().unwrap()));
        let gradients = build().backward().unwrap();
        let expected = [&late, &shared, &early].map(|leaf| gradients.get(leaf).unwrap().to_vec());
        assert_eq!(values, expected);
    }

    #[test]
    fn a_leaf_that_a_segment_may_use_waits_for_it() {
        let (weight, input) = (leaf(0.5), leaf(0.25));
        let build = |checkpointed: bool| {
            let inner = weight.clone();
            let segment = move |inputs: &[Tensor]| inputs[0].multiply(&inner)?.tanh();
            let hidden = match checkpointed {
                true => checkpoint(&[&input], segment).unwrap(),
                false => segment(std::slice::from_ref(&input)).unwrap(),
            };
            // Used outside as well, after the segment: complete only when the segment has run again.
            hidden.multiply(&weight).unwrap().sum_all().unwrap()
        };
        let (leaves, values) = completed(&build(true));
        let plain = build(false).backward().unwrap();
        assert_eq!(leaves.len(), 2, "each leaf once");
        for (leaf, values) in leaves.into_iter().zip(values) {
            let tensor = if Some(leaf) == weight.leaf() { &weight } else { &input };
            assert_eq!(values, plain.get(tensor).unwrap().to_vec());
        }
    }

    #[test]
    fn an_error_of_the_receiver_ends_the_pass() {
        let x = leaf(1.0);
        let failed = x.sum_all().unwrap().backward_as_ready(&mut |_, _| Err(crate::Error::Untracked));
        assert!(failed.is_err());
    }
}
