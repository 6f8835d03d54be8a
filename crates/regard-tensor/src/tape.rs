//! Reverse-mode differentiation, defined by running.
//!
//! An operation on a tracked tensor makes a [`Node`]: links to the nodes it came from, and a rule that turns the
//! gradient of its output into gradients of its inputs. [`Tensor::backward`] walks the nodes from the newest to
//! the oldest. A node is always newer than its inputs, so that order needs no sorting, and because it is the
//! order of creation, sums of several gradients are always taken in the same order.
//!
//! Operations on untracked tensors record nothing: that is the whole of "no-gradient mode".

mod inputs;
mod ready;

pub(crate) use inputs::{Backward, Inputs};
pub use ready::Leaf;

use crate::error::{Error, Result};
use crate::ops;
use crate::rows::RowGradient;
use crate::storage::{DataType, Device, Kernels};
use crate::tensor::{Tensor, ensure_same_device};
use inputs::Pending;
use ready::{Receiver, Uses};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The gradient of a loss with respect to one tensor.
#[derive(Debug, Clone)]
pub enum Gradient {
    /// A value for each element.
    Dense(Tensor),
    /// Values for a few rows of a table, all others being zero.
    Rows(RowGradient),
}

impl Gradient {
    /// The sum of two gradients of one tensor.
    pub fn plus(self, other: Self) -> Result<Self> {
        Ok(match (self, other) {
            (Self::Dense(a), Self::Dense(b)) => Self::Dense(ops::arithmetic::accumulate(a, &b)?),
            (Self::Dense(a), Self::Rows(b)) | (Self::Rows(b), Self::Dense(a)) => Self::Dense(b.add_to(a)?),
            (Self::Rows(a), Self::Rows(b)) => Self::Rows(a.merge(&b)?),
        })
    }

    /// The same gradient on a device.
    pub fn to(&self, device: Device) -> Result<Self> {
        match self {
            Self::Dense(tensor) => Ok(Self::Dense(tensor.to(device)?)),
            Self::Rows(rows) => {
                RowGradient::new(rows.rows(), &rows.values().to(device)?, rows.table_rows()).map(Self::Rows)
            }
        }
    }

    /// All elements, zeros included.
    pub fn to_dense(&self) -> Result<Tensor> {
        match self {
            Self::Dense(tensor) => Ok(tensor.clone()),
            Self::Rows(rows) => rows.to_dense(),
        }
    }
}

impl From<Tensor> for Gradient {
    fn from(tensor: Tensor) -> Self {
        Self::Dense(tensor)
    }
}

/// Runs a segment again on inputs attached to these nodes.
type Recompute = dyn Fn(&[Option<Arc<Node>>]) -> Result<Tensor> + Send + Sync;

#[derive(Clone)]
enum Rule {
    Leaf,
    Operation(Arc<dyn Backward>),
    /// Run the segment again, this time recording it, and walk what was recorded.
    Segment(Arc<Recompute>),
    Freed,
}

/// A value's place in the graph.
pub(crate) struct Node {
    serial: u64,
    inputs: Mutex<Vec<Option<Arc<Node>>>>,
    rule: Mutex<Rule>,
    /// The type of the value: kernels of other devices than the CPU take gradients in it.
    data_type: DataType,
}

/// Serial numbers only order nodes in time; no result depends on their values.
static NEXT_SERIAL: AtomicU64 = AtomicU64::new(0);

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Node {
    pub fn leaf() -> Self {
        Self::new(Vec::new(), Rule::Leaf, DataType::F32)
    }

    fn new(inputs: Vec<Option<Arc<Node>>>, rule: Rule, data_type: DataType) -> Self {
        let serial = NEXT_SERIAL.fetch_add(1, Ordering::Relaxed);
        Self { serial, inputs: Mutex::new(inputs), rule: Mutex::new(rule), data_type }
    }
}

impl Drop for Node {
    /// Takes a chain of nodes apart in a loop: dropping it recursively would overflow the stack.
    fn drop(&mut self) {
        let mut pending = std::mem::take(self.inputs.get_mut().unwrap_or_else(PoisonError::into_inner));
        while let Some(input) = pending.pop() {
            if let Some(mut node) = input.and_then(Arc::into_inner) {
                pending.append(node.inputs.get_mut().unwrap_or_else(PoisonError::into_inner));
            }
        }
    }
}

impl Tensor {
    /// Attaches this freshly computed value to the graph, if any of `inputs` is tracked.
    ///
    /// `rule` is called only then, so what it would capture is not kept alive otherwise.
    pub(crate) fn with_rule<B: Backward + 'static>(
        mut self,
        inputs: &[&Tensor],
        rule: impl FnOnce() -> B,
    ) -> Self {
        if inputs.iter().any(|input| input.is_tracked()) {
            let links = inputs.iter().map(|input| input.node.clone()).collect();
            let rule = Rule::Operation(Arc::new(rule()));
            self.node = Some(Arc::new(Node::new(links, rule, self.data_type())));
        }
        self
    }

    /// Gradients of this single value with respect to all tracked leaves it depends on.
    ///
    /// The graph is freed on the way. [`Tensor::gradients`] has more choices.
    pub fn backward(&self) -> Result<Gradients> {
        self.gradients(&Pass::default())
    }

    /// Like [`Tensor::backward`], but each leaf's gradient goes to `ready` as soon as it is complete, in an order that depends
    /// on the graph only. With [`checkpoint`]ed segments that is after the last of them has run again.
    pub fn backward_as_ready<'a>(
        &self,
        ready: &'a mut (dyn FnMut(Leaf, Gradient) -> Result<()> + 'a),
    ) -> Result<()> {
        let pass = Pass::default();
        let (root, start) = self.start(&pass)?;
        let mut walk = Walk::new(&pass);
        let mut uses = Uses::default();
        uses.count(&root);
        walk.early = Some((uses, ready));
        walk.run(root, start).map(|_| ())
    }

    /// The identity of this tensor as a leaf, if it is tracked.
    pub fn leaf(&self) -> Option<Leaf> {
        self.node.as_ref().map(|node| Leaf(key(node)))
    }

    /// Gradients of this value as a [`Pass`] describes.
    pub fn gradients(&self, pass: &Pass) -> Result<Gradients> {
        let (root, start) = self.start(pass)?;
        Walk::new(pass).run(root, start)
    }

    /// Where a pass starts, and with which gradient.
    fn start(&self, pass: &Pass) -> Result<(Arc<Node>, Tensor)> {
        let start = match &pass.upstream {
            Some(upstream) => {
                crate::error::ensure_shape(
                    upstream.shape() == self.shape(),
                    "backward",
                    || format!("an upstream gradient of {}", self.shape()),
                    || upstream.shape().to_string(),
                )?;
                ensure_same_device("backward", [self, upstream])?;
                upstream.detach()
            }
            None if self.count() == 1 => Tensor::full_on(self.device(), self.shape(), 1.0)?,
            None => {
                return Err(Error::shape(
                    "backward",
                    "a single value, or an upstream gradient",
                    self.shape(),
                ));
            }
        };
        Ok((self.node.clone().ok_or(Error::Untracked)?, start))
    }
}

/// What a backward pass should do beyond the default.
///
/// ```
/// use regard_tensor::{Pass, Tensor};
/// let x = Tensor::scalar(3.0).tracked();
/// let middle = (&x * &x)?;
/// let loss = middle.exp()?;
/// let gradients = loss.gradients(&Pass::new().keep_graph().with_respect_to(&middle))?;
/// assert_eq!(gradients.get(&middle).unwrap().item()?, 9.0_f32.exp());
/// assert!(loss.backward().is_ok(), "the graph was kept");
/// # Ok::<(), regard_tensor::Error>(())
/// ```
#[derive(Default)]
pub struct Pass {
    keep_graph: bool,
    wanted: Vec<Arc<Node>>,
    upstream: Option<Tensor>,
}

impl Pass {
    /// The default: gradients of the leaves, graph freed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps the graph for another pass.
    #[must_use]
    pub fn keep_graph(mut self) -> Self {
        self.keep_graph = true;
        self
    }

    /// Also keeps the gradient of a value in the middle.
    #[must_use]
    pub fn with_respect_to(mut self, value: &Tensor) -> Self {
        self.wanted.extend(value.node.clone());
        self
    }

    /// Starts from this gradient of the value instead of from 1.
    #[must_use]
    pub fn from_upstream(mut self, upstream: Tensor) -> Self {
        self.upstream = Some(upstream);
        self
    }
}

/// The walk over the graph: nodes with a pending gradient, newest first.
struct Walk<'a> {
    pass: &'a Pass,
    pending: Pending,
    found: Gradients,
    /// Who receives gradients of leaves as soon as they are complete, and how that is known.
    early: Option<(Uses, &'a mut Receiver<'a>)>,
}

impl<'a> Walk<'a> {
    fn new(pass: &'a Pass) -> Self {
        Self { pass, pending: Pending::default(), found: Gradients::default(), early: None }
    }

    fn run(mut self, root: Arc<Node>, start: Tensor) -> Result<Gradients> {
        self.pending.send(root, start.into())?;
        while let Some((node, gradient)) = self.pending.pop() {
            self.visit(&node, gradient)?;
        }
        Ok(self.found)
    }

    fn visit(&mut self, node: &Arc<Node>, gradient: Gradient) -> Result<()> {
        let rule = if self.pass.keep_graph || matches!(*lock(&node.rule), Rule::Leaf) {
            lock(&node.rule).clone()
        } else {
            std::mem::replace(&mut *lock(&node.rule), Rule::Freed)
        };
        let wanted_here = self.pass.wanted.iter().any(|wanted| Arc::ptr_eq(wanted, node));
        match (&mut self.early, &rule) {
            (Some((_, ready)), Rule::Leaf) => return ready(Leaf(key(node)), gradient),
            (None, Rule::Leaf) => drop(self.found.0.insert(key(node), (node.clone(), gradient.clone()))),
            _ if wanted_here => drop(self.found.0.insert(key(node), (node.clone(), gradient.clone()))),
            _ => {}
        }
        let leaves = self.early.as_ref().map(|_| Uses::leaves(node)).unwrap_or_default();
        match rule {
            Rule::Leaf => return Ok(()),
            Rule::Freed => return Err(Error::Freed),
            Rule::Operation(rule) => self.expand(node, &*rule, gradient)?,
            Rule::Segment(recompute) => {
                let inner = recompute(&self.inputs(node))?.node;
                if let Some((uses, _)) = &mut self.early {
                    uses.expanded(inner.as_ref());
                }
                // The recorded segment starts from the very nodes of the outer graph, so the walk just goes on.
                if let Some(inner) = inner {
                    self.pending.send(inner, gradient)?;
                }
            }
        }
        for leaf in leaves {
            let Some((uses, ready)) = &mut self.early else { break };
            if uses.done(&leaf)
                && let Some(gradient) = self.pending.remove(&leaf)
            {
                ready(Leaf(key(&leaf)), gradient)?;
            }
        }
        Ok(())
    }

    fn inputs(&self, node: &Node) -> Vec<Option<Arc<Node>>> {
        let mut inputs = lock(&node.inputs);
        if self.pass.keep_graph { inputs.clone() } else { std::mem::take(&mut *inputs) }
    }

    fn expand(&mut self, node: &Node, rule: &dyn Backward, gradient: Gradient) -> Result<()> {
        let upstream = match gradient {
            Gradient::Dense(tensor) => tensor,
            Gradient::Rows(rows) => rows.to_dense()?,
        };
        let upstream = match upstream.array.kernels() {
            Kernels::Cuda => upstream.to_type(node.data_type)?,
            Kernels::Cpu => upstream,
        };
        let mut inputs = Inputs::new(self.inputs(node), std::mem::take(&mut self.pending));
        let sent = rule.backward(upstream, &mut inputs);
        self.pending = inputs.into_pending();
        sent
    }
}

/// The gradients a backward pass found.
#[derive(Default)]
pub struct Gradients(HashMap<usize, (Arc<Node>, Gradient)>);

/// A node's address is its identity; the node is kept alive with it, so that no other can take its place.
fn key(node: &Arc<Node>) -> usize {
    Arc::as_ptr(node) as usize
}

impl Gradients {
    /// The gradient with respect to a tracked tensor, or `None` if the loss does not depend on it (or it is
    /// neither a leaf nor was asked for).
    ///
    /// # Panics
    /// If the gradient is sparse and its device has no memory for all of it; [`Gradients::find`] never does.
    pub fn get(&self, tensor: &Tensor) -> Option<Tensor> {
        self.find(tensor).map(|gradient| gradient.to_dense().expect("memory for a dense gradient"))
    }

    /// Like [`Gradients::get`], without making a sparse gradient dense.
    pub fn find(&self, tensor: &Tensor) -> Option<&Gradient> {
        tensor.node.as_ref().and_then(|node| self.0.get(&key(node))).map(|(_, gradient)| gradient)
    }

    /// How many gradients there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the gradients of another pass, as gradient accumulation over several batches does.
    pub fn add(&mut self, other: Self) -> Result<()> {
        for (key, (node, gradient)) in other.0 {
            let total = match self.0.remove(&key) {
                Some((_, earlier)) => earlier.plus(gradient)?,
                None => gradient,
            };
            self.0.insert(key, (node, total));
        }
        Ok(())
    }

    /// Replaces (or sets) the gradient of a leaf: for whoever looks at or changes gradients before an update.
    pub fn set(&mut self, tensor: &Tensor, gradient: Gradient) {
        if let Some(node) = &tensor.node {
            self.0.insert(key(node), (node.clone(), gradient));
        }
    }
}

/// Gradient checkpointing: runs a segment without keeping the values inside it, and runs it again in the backward
/// pass (Chen et al., *Training deep nets with sublinear memory cost*, 2016).
///
/// The gradients are bit for bit those of the plain run, provided that `segment` computes the same values both
/// times; draws from [`crate::random::Key`] do.
///
/// ```
/// use regard_tensor::{Tensor, checkpoint};
/// let x = Tensor::scalar(0.5).tracked();
/// let y = checkpoint(&[&x], |inputs| inputs[0].exp()?.tanh())?;
/// assert!(y.backward()?.get(&x).is_some());
/// # Ok::<(), regard_tensor::Error>(())
/// ```
pub fn checkpoint(
    inputs: &[&Tensor],
    segment: impl Fn(&[Tensor]) -> Result<Tensor> + Send + Sync + 'static,
) -> Result<Tensor> {
    let inputs: Vec<Tensor> = inputs.iter().map(|&input| input.clone()).collect();
    // Recorded once only to learn whether anything in it is tracked; that record is dropped here.
    let recorded = segment(&inputs)?;
    let mut output = recorded.detach();
    if recorded.is_tracked() {
        // Links to the graph are kept in the node alone, where they are taken apart without recursion.
        let links = inputs.iter().map(|input| input.node.clone()).collect();
        let values: Vec<Tensor> = inputs.iter().map(Tensor::detach).collect();
        let recompute = move |links: &[Option<Arc<Node>>]| {
            let attach =
                |(value, link): (&Tensor, &Option<Arc<Node>>)| Tensor { node: link.clone(), ..value.clone() };
            segment(&values.iter().zip(links).map(attach).collect::<Vec<_>>())
        };
        let rule = Rule::Segment(Arc::new(recompute));
        output.node = Some(Arc::new(Node::new(links, rule, output.data_type())));
    }
    Ok(output)
}
