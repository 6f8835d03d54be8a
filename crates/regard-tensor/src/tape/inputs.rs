//! Where the rule of an operation sends its gradients.

use super::{Gradient, Node};
use crate::array::Array;
use crate::error::Result;
use crate::tensor::Tensor;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How one operation sends the gradient of its output to its inputs.
pub(crate) trait Backward: Send + Sync {
    /// Sends a gradient to each input that wants one and depends on it.
    fn backward(&self, upstream: Tensor, inputs: &mut Inputs) -> Result<()>;
}

impl<F> Backward for F
where
    F: Fn(Tensor, &mut Inputs) -> Result<()> + Send + Sync,
{
    fn backward(&self, upstream: Tensor, inputs: &mut Inputs) -> Result<()> {
        self(upstream, inputs)
    }
}

/// The inputs of an operation during a backward pass, by their number: where its rule sends gradients.
pub(crate) struct Inputs {
    nodes: Vec<Option<Arc<Node>>>,
    pending: Pending,
}

impl Inputs {
    pub(super) fn new(nodes: Vec<Option<Arc<Node>>>, pending: Pending) -> Self {
        Self { nodes, pending }
    }

    pub(super) fn into_pending(self) -> Pending {
        self.pending
    }

    /// Whether a gradient of this input is wanted. One that is sent anyway is dropped.
    pub fn wants(&self, input: usize) -> bool {
        self.nodes.get(input).is_some_and(Option::is_some)
    }

    /// Takes the gradient that this input has received so far, if it is dense and not shared. A rule whose kernel can add
    /// to a gradient in place takes it, adds, and sends the sum. A gradient that was taken must be sent.
    pub fn take(&mut self, input: usize) -> Option<Array> {
        let node = self.nodes.get(input)?.as_ref()?;
        self.pending.take(node)
    }

    /// Adds a gradient to what the input has received so far.
    pub fn send(&mut self, input: usize, gradient: impl Into<Gradient>) -> Result<()> {
        match &self.nodes[input] {
            Some(node) => self.pending.send(node.clone(), gradient.into()),
            None => Ok(()),
        }
    }
}

/// Nodes with the gradients they have received so far, by serial number.
#[derive(Default)]
pub(super) struct Pending(BTreeMap<u64, (Arc<Node>, Gradient)>);

impl Pending {
    pub fn send(&mut self, node: Arc<Node>, gradient: Gradient) -> Result<()> {
        let total = match self.0.remove(&node.serial) {
            Some((_, earlier)) => earlier.plus(gradient)?,
            None => gradient,
        };
        self.0.insert(node.serial, (node, total));
        Ok(())
    }

    /// The newest node and all it has received.
    pub fn pop(&mut self) -> Option<(Arc<Node>, Gradient)> {
        self.0.pop_last().map(|(_, entry)| entry)
    }

    /// Takes what a node has received so far.
    pub fn remove(&mut self, node: &Node) -> Option<Gradient> {
        self.0.remove(&node.serial).map(|(_, gradient)| gradient)
    }

    fn take(&mut self, node: &Node) -> Option<Array> {
        let Some((_, Gradient::Dense(tensor))) = self.0.get_mut(&node.serial) else { return None };
        if !tensor.array.is_unique() {
            return None;
        }
        let array = tensor.array.clone();
        self.0.remove(&node.serial);
        Some(array)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Ids;
    use crate::kernels::broadcast;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// 2x, with a rule that adds to the gradient already there if it may, and counts how often.
    fn twice(x: &Tensor, taken: &Arc<AtomicUsize>) -> Tensor {
        let taken = taken.clone();
        Tensor::from_array(broadcast::affine(&x.array, 2.0, 0.0).unwrap(), x.shape()).with_rule(&[x], || {
            move |g: Tensor, inputs: &mut Inputs| {
                let total = inputs.take(0);
                taken.fetch_add(usize::from(total.is_some()), Ordering::Relaxed);
                let slope = broadcast::affine(&g.array, 2.0, 0.0)?;
                inputs.send(0, Tensor::from_array(broadcast::added(total, slope)?, g.shape()))
            }
        })
    }

    /// The gradient of the sum of what `f` computes from x = (1, −2, 3), and how often a rule took one.
    fn slope(f: impl Fn(&Tensor, &Arc<AtomicUsize>) -> Result<Tensor>) -> (Vec<f32>, usize) {
        let x = Tensor::new(&[1.0, -2.0, 3.0], [3, 1]).unwrap().tracked();
        let taken = Arc::default();
        let gradients = f(&x, &taken).unwrap().sum_all().unwrap().backward().unwrap();
        (gradients.get(&x).unwrap().to_vec(), taken.load(Ordering::Relaxed))
    }

    #[test]
    fn a_rule_adds_to_a_gradient_that_is_not_shared() {
        let apart = |x: &Tensor, taken: &_| twice(x, taken).tanh()?.add(&twice(x, taken).exp()?);
        let plain = |x: &Tensor, _: &_| x.scale(2.0)?.tanh()?.add(&x.scale(2.0)?.exp()?);
        assert_eq!(slope(apart), (slope(plain).0, 1));
    }

    #[test]
    fn a_shared_or_sparse_gradient_is_left_alone() {
        // The gradient that x got from the sum is the very one that the rule is given.
        assert_eq!(slope(|x, taken| x.add(&twice(x, taken))), (vec![3.0; 3], 0));
        let row = Ids::new(&[1], [1]).unwrap();
        let sparse = slope(|x, taken| {
            let doubled = twice(x, taken);
            doubled.add(&x.embedding(&row)?)
        });
        assert_eq!(sparse, (vec![2.0, 5.0, 2.0], 0));
    }

    #[test]
    fn an_input_without_gradient_wants_none_and_drops_what_it_gets() {
        let mut inputs = Inputs::new(vec![None], Pending::default());
        assert!(!inputs.wants(0) && !inputs.wants(1) && inputs.take(0).is_none());
        inputs.send(0, Tensor::scalar(1.0)).unwrap();
        assert!(inputs.into_pending().pop().is_none());
    }
}
