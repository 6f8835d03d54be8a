//! Data-parallel training: several processes, the *ranks*, share the batches of an update.
//!
//! Every rank has the whole model and draws the same batches in the same order. Of the batches of an update, rank r of n
//! computes number r, r + n, r + 2n, …; gradients are summed in the order of the batches, whichever rank computed them. So n
//! ranks make bit for bit the update that one process makes by accumulation, and a run may go on with another number of
//! ranks.
//!
//! Each rank sums one n-th of every gradient: it receives that slice from all others, adds it in order, and sends the
//! sum back. Gradients travel in buckets, in the order in which the backward pass completes them, while it goes on. Sparse
//! gradients of embeddings go to all ranks as they are. Where the devices of the ranks are [connected](Devices), as GPUs are by NCCL,
//! dense gradients travel between them and are summed there.

mod apart;
mod bucket;
mod message;

use super::recorded::{Part, Settings};
use super::tasks::settings;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::models::Model;
use bucket::{Bucket, Total};
use regard_tensor::{Device, GpuPeers, Gradient, Gradients, Leaf, Shape, Tensor};
use std::collections::HashMap;
use std::sync::mpsc;
use std::time::Duration;

/// The processes that train one model together.
///
/// All ranks call the same methods in the same order.
pub trait Group: Send + Sync {
    /// The number of this process, from 0.
    fn rank(&self) -> usize;

    /// The number of processes.
    fn ranks(&self) -> usize;

    /// Sends `pieces[r]` to rank r, and returns the pieces that the ranks sent to this one, in their order. Fails if a rank is
    /// gone.
    fn exchange(&self, pieces: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>>;

    /// Connects the devices that the ranks train on, if they can be. Called once, before training.
    fn connect(&self, device: Device) -> Result<()> {
        let _ = device;
        Ok(())
    }

    /// The connection between the devices, if there is one.
    fn devices(&self) -> Option<&dyn Devices> {
        None
    }

    /// Fails if a rank is known to be gone.
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// A connection between the devices of the ranks.
pub trait Devices: Send + Sync {
    /// Sends tensors of one axis to ranks, and receives from ranks as many values as announced, in the order given. Between two
    /// ranks, tensors arrive in the order in which they are sent. May return before the values are there, if the device
    /// waits for them.
    fn exchange(&self, sent: &[(usize, Tensor)], received: &[(usize, usize)]) -> Result<Vec<Tensor>>;

    /// Waits until everything is received. Calls `check` now and then, and gives up if it fails.
    fn wait(&self, check: &dyn Fn() -> Result<()>) -> Result<()>;
}

/// GPUs connected by NCCL.
impl Devices for GpuPeers {
    fn exchange(&self, sent: &[(usize, Tensor)], received: &[(usize, usize)]) -> Result<Vec<Tensor>> {
        Ok(GpuPeers::exchange(self, sent, received)?)
    }

    fn wait(&self, check: &dyn Fn() -> Result<()>) -> Result<()> {
        while !self.is_done()? {
            if let Err(error) = check() {
                self.abandon();
                return Err(error);
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        Ok(())
    }
}

/// A group of one.
pub struct Alone;

impl Group for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn ranks(&self) -> usize {
        1
    }

    fn exchange(&self, pieces: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        Ok(pieces)
    }
}

/// What every rank says, by rank.
pub fn gather(group: &dyn Group, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
    group.exchange(vec![mine.to_vec(); group.ranks()])
}

/// Whether any rank says yes.
pub fn any(group: &dyn Group, mine: bool) -> Result<bool> {
    Ok(group.ranks() > 1 && gather(group, &[u8::from(mine)])?.iter().any(|said| said == &[1]) || mine)
}

/// The order in which gradients travel, learned from the first update.
#[derive(Default)]
pub(super) struct SharedGradients {
    order: Option<Vec<usize>>,
}

/// A bucket on its way: the gradients of one batch, if this rank computed one in this round.
struct Contribution {
    bucket: usize,
    gradients: Vec<Option<Gradient>>,
}

impl SharedGradients {
    /// The sum of the gradients of all parts, on every rank, and the sum of their losses.
    pub fn of(
        &mut self,
        group: &dyn Group,
        model: &dyn Model,
        parts: &[Part],
        how: Settings,
    ) -> Result<(Gradients, f32)> {
        let leaves = Leaves::of(model)?;
        let order = self.order.clone().unwrap_or_else(|| (0..leaves.shapes.len()).rev().collect());
        let buckets = Bucket::fill(&order, &leaves.shapes);
        let rounds = parts.len().div_ceil(group.ranks());
        let (mut losses, mut completed) = (Vec::new(), Vec::new());
        let totals = std::thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel::<Contribution>();
            let buckets = &buckets;
            let exchanging = scope.spawn(move || exchange(group, buckets, rounds, &receiver));
            for round in 0..rounds {
                let mut sending = Sending::new(buckets, leaves.shapes.len(), &sender);
                if let Some(part) = parts.get(round * group.ranks() + group.rank()) {
                    let context =
                        Context::training(how.key, part.first_example).with_precision(how.precision);
                    let loss = model.loss_of(&context, &part.inputs, &part.targets, settings())?;
                    let loss = loss.scale(part.share)?;
                    losses.push(loss.item()?);
                    loss.backward_as_ready(&mut |leaf, gradient| {
                        if let Some(&index) = leaves.index.get(&leaf) {
                            completed.push(index);
                            sending.complete(index, gradient);
                        }
                        Ok(())
                    })?;
                }
                sending.finish();
            }
            drop(sender);
            exchanging
                .join()
                .unwrap_or_else(|_| Err(Error::input("ranks", "the exchange of gradients failed")))
        })?;
        if self.order.is_none() {
            self.order = Some(agreed_order(group, completed, leaves.shapes.len())?);
        }
        let mut gradients = Gradients::default();
        let parameters = model.parameters();
        for (bucket, total) in buckets.iter().zip(totals) {
            for (&index, gradient) in bucket.parameters.iter().zip(total) {
                if let Some(gradient) = gradient {
                    gradients.set(parameters[index].1.tensor(), gradient.to(model.device())?);
                }
            }
        }
        Ok((gradients, total_loss(group, &losses, parts.len())?))
    }
}

/// The parameters of a model as leaves of its graph. Parameters that are one leaf count once.
struct Leaves {
    index: HashMap<Leaf, usize>,
    shapes: Vec<Shape>,
}

impl Leaves {
    fn of(model: &dyn Model) -> Result<Self> {
        let (mut index, mut shapes) = (HashMap::new(), Vec::new());
        for (name, parameter) in model.parameters() {
            let leaf = parameter.tensor().leaf();
            let leaf = leaf.ok_or_else(|| Error::input("ranks", format!("{name} is not tracked")))?;
            index.entry(leaf).or_insert(shapes.len());
            shapes.push(parameter.tensor().shape().clone());
        }
        Ok(Self { index, shapes })
    }
}

/// The gradients of one batch, sent bucket by bucket as they are complete.
struct Sending<'a> {
    buckets: &'a [Bucket],
    found: Vec<Option<Gradient>>,
    complete: Vec<bool>,
    next: usize,
    sender: &'a mpsc::Sender<Contribution>,
}

impl<'a> Sending<'a> {
    fn new(buckets: &'a [Bucket], parameters: usize, sender: &'a mpsc::Sender<Contribution>) -> Self {
        let found = std::iter::repeat_with(|| None).take(parameters).collect();
        Self { buckets, found, complete: vec![false; parameters], next: 0, sender }
    }

    fn complete(&mut self, index: usize, gradient: Gradient) {
        (self.found[index], self.complete[index]) = (Some(gradient), true);
        while self
            .buckets
            .get(self.next)
            .is_some_and(|bucket| bucket.parameters.iter().all(|&i| self.complete[i]))
        {
            self.send();
        }
    }

    /// Sends the rest: parameters that the loss does not depend on have no gradient.
    fn finish(mut self) {
        while self.next < self.buckets.len() {
            self.send();
        }
    }

    fn send(&mut self) {
        let parameters = &self.buckets[self.next].parameters;
        let gradients = parameters.iter().map(|&index| self.found[index].take()).collect();
        // The other side is gone only after an error, which it returns.
        let _ = self.sender.send(Contribution { bucket: self.next, gradients });
        self.next += 1;
    }
}

/// Exchanges the buckets of all rounds, in the order in which they come; the sums by bucket and parameter.
fn exchange(
    group: &dyn Group,
    buckets: &[Bucket],
    rounds: usize,
    contributions: &mpsc::Receiver<Contribution>,
) -> Result<Vec<Vec<Option<Gradient>>>> {
    let devices = group.devices();
    let mut totals: Vec<Total> = buckets.iter().map(|bucket| Total::new(bucket, group)).collect();
    let mut received = vec![0; buckets.len()];
    let mut sums: Vec<Vec<Option<Gradient>>> = buckets.iter().map(|_| Vec::new()).collect();
    for Contribution { bucket, gradients } in contributions {
        let total = &mut totals[bucket];
        let announced = total.add(&group.exchange(total.pieces(&gradients, devices.is_some()))?)?;
        if let Some(devices) = devices {
            total.add_apart(devices, &gradients, &announced)?;
        }
        received[bucket] += 1;
        if received[bucket] == rounds {
            sums[bucket] = total.whole(&gather(group, &total.slice())?)?;
            if let Some(devices) = devices {
                total.whole_apart(devices, &mut sums[bucket])?;
            }
        }
    }
    // The ranks agree on the loss only after this, so that none makes an update that another cannot make.
    if let Some(devices) = devices {
        devices.wait(&|| group.check())?;
    }
    Ok(sums)
}

/// The order in which rank 0 completed its gradients, with all others behind them.
fn agreed_order(group: &dyn Group, completed: Vec<usize>, parameters: usize) -> Result<Vec<usize>> {
    let mut order: Vec<usize> = Vec::with_capacity(parameters);
    let mut known = vec![false; parameters];
    for index in completed.into_iter().chain((0..parameters).rev()) {
        if !std::mem::replace(&mut known[index], true) {
            order.push(index);
        }
    }
    let bytes: Vec<u8> = order.iter().flat_map(|&index| (index as u32).to_le_bytes()).collect();
    let first = gather(group, &bytes)?.swap_remove(0);
    let order: Vec<usize> = message::numbers(&first).map(|index| index as usize).collect();
    let mut sorted = order.clone();
    sorted.sort_unstable();
    match sorted.into_iter().eq(0..parameters) {
        true => Ok(order),
        false => Err(Error::input("ranks", "the ranks train different models")),
    }
}

/// The sum of all losses in the order of their parts, as one process sums them.
fn total_loss(group: &dyn Group, mine: &[f32], parts: usize) -> Result<f32> {
    let bytes: Vec<u8> = mine.iter().flat_map(|loss| loss.to_le_bytes()).collect();
    let all: Vec<Vec<f32>> =
        gather(group, &bytes)?.iter().map(|losses| message::floats(losses).collect()).collect();
    let mut total = 0.0;
    for part in 0..parts {
        let loss = all.get(part % group.ranks()).and_then(|losses| losses.get(part / group.ranks()));
        total += loss.ok_or_else(|| Error::input("ranks", format!("the loss of batch {part} is missing")))?;
    }
    Ok(total)
}
