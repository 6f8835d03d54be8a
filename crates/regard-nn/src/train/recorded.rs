//! Updates that a device records once and replays.
//!
//! A CUDA device can note down all kernels of an update and run them again at one call, on the same memory. The first two
//! updates run as usual and show whether this one can be recorded: it must read no value to the host. The third is
//! recorded. A batch of another shape, or a model whose parameters moved, runs as usual; the results are bit for bit the
//! same either way.

use super::tasks::{counted, settings};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::models::{Inputs, Model};
use regard_tensor::optimiser::{Optimiser, clip_scale, global_norm};
use regard_tensor::random::Key;
use regard_tensor::traffic;
use regard_tensor::{DataType, Device, Gradients, Ids, Places, Recording, Tensor};

/// A part of a batch: what the model reads, what it should predict, and how much that counts.
#[derive(Debug, Clone)]
pub struct Part {
    /// What the model reads.
    pub inputs: Inputs,
    /// What it should predict.
    pub targets: Ids,
    /// The share of the batch's targets that are in this part.
    pub share: f32,
    /// The number of its first example in the batch, which dropout depends on.
    pub first_example: u64,
}

/// How an update is made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// What dropout is drawn from; names the step.
    pub key: Key,
    /// The learning rate.
    pub rate: f32,
    /// The largest norm of all gradients together; 0 for no limit.
    pub clip: f32,
    /// The type of the activations.
    pub precision: DataType,
}

/// What an update computed: one value each, on the model's device.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The mean training loss.
    pub loss: Tensor,
    /// The norm of all gradients before clipping.
    pub norm: Tensor,
}

/// Steps that run as usual before one is recorded: the first compiles kernels and fills the pools of memory.
const REHEARSALS: u32 = 2;

/// Makes updates, recorded where the device can.
#[derive(Default)]
pub struct Recorder {
    recorded: Option<Recorded>,
    rehearsed: u32,
    misfits: u32,
    off: bool,
}

/// A recorded update, with the ids that it reads and the values that it leaves.
struct Recorded {
    recording: Recording,
    places: Places,
    parts: Vec<Part>,
    settings: Settings,
    outcome: Outcome,
}

impl Recorder {
    /// A recorder that has seen nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One that records nothing.
    pub fn off() -> Self {
        Self { off: true, ..Self::default() }
    }

    /// How many kernels and copies the recorded update has.
    pub fn nodes(&self) -> Option<usize> {
        self.recorded.as_ref().map(|recorded| recorded.recording.nodes())
    }

    /// Makes an update, or returns `None` if this one cannot be recorded: nothing has changed then.
    pub fn update(
        &mut self,
        model: &mut dyn Model,
        optimiser: &mut Optimiser,
        parts: &[Part],
        settings: Settings,
    ) -> Result<Option<Outcome>> {
        let device = model.device();
        let plain = parts.iter().all(Part::is_plain);
        if self.off || !plain || !matches!(device, Device::Cuda(_)) {
            return Ok(None);
        }
        if let Some(recorded) = &mut self.recorded {
            if recorded.fits(model, optimiser, parts, settings) {
                self.misfits = 0;
                return recorded.replay(optimiser, parts, settings).map(Some);
            }
            self.misfits += 1;
            // A smaller batch now and then runs as usual; another shape for good is recorded anew.
            if self.misfits > REHEARSALS {
                *self = Self::default();
            }
        }
        let slots = parts.iter().map(|part| part.in_slots(device)).collect::<Result<Vec<_>>>()?;
        if self.recorded.is_none() && self.rehearsed >= REHEARSALS {
            return self.record(model, optimiser, slots, settings);
        }
        let before = traffic::snapshot();
        let outcome = update_now(model, optimiser, &slots, settings)?;
        let counted = traffic::snapshot().since(&before);
        match counted.host_reads == 0 && counted.fallbacks.is_empty() {
            true => self.rehearsed += 1,
            // From the next step on; this one is done.
            false => self.off = self.recorded.is_none(),
        }
        Ok(Some(outcome))
    }

    fn record(
        &mut self,
        model: &mut dyn Model,
        optimiser: &mut Optimiser,
        parts: Vec<Part>,
        settings: Settings,
    ) -> Result<Option<Outcome>> {
        let device = model.device();
        let places = Places::of(tensors(model), optimiser);
        let mut complete = false;
        let recorded = Recording::record(device, settings.key, || {
            let outcome = update_now(model, optimiser, &parts, settings).map_err(|error| match error {
                Error::Tensor(error) => error,
                other => regard_tensor::Error::Segment(other.to_string()),
            })?;
            complete = true;
            Ok(outcome)
        });
        let (recording, outcome) = match recorded {
            Ok(recorded) => recorded,
            Err(_) if !complete => {
                self.off = true;
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let copies = outcome.copied()?;
        // A replay changes parameters where they were before; if the update had to move them, it cannot be repeated.
        if places == Places::of(tensors(model), optimiser) {
            self.recorded = Some(Recorded { recording, places, parts, settings, outcome });
        } else {
            self.off = true;
        }
        Ok(Some(copies))
    }
}

fn tensors(model: &dyn Model) -> Vec<&Tensor> {
    model.parameters().into_iter().map(|(_, parameter)| parameter.tensor()).collect()
}

impl Part {
    /// Whether only ids change from one batch of this kind to the next.
    fn is_plain(&self) -> bool {
        let Inputs { ids, present, types, answer, answer_present, memory, pictures } = &self.inputs;
        let others = [present.is_some(), types.is_some(), answer.is_some(), answer_present.is_some()];
        let others = others.into_iter().chain([memory.is_some(), pictures.is_some()]).any(|one| one);
        ids.is_some() && !others && counted(&self.targets) == self.targets.count()
    }

    /// The same with ids that a replay can exchange.
    fn in_slots(&self, device: Device) -> Result<Self> {
        let ids = self.inputs.ids.as_ref().map(|ids| ids.slot(device)).transpose()?;
        let inputs = Inputs { ids, ..self.inputs.clone() };
        Ok(Self { inputs, targets: self.targets.slot(device)?, ..*self })
    }

    /// Each slot of this part with the ids of another that go there.
    fn pairs<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (&'a Ids, &'a Ids)> {
        let inputs = self.inputs.ids.as_ref().zip(other.inputs.ids.as_ref());
        inputs.into_iter().chain([(&self.targets, &other.targets)])
    }
}

impl Outcome {
    fn copied(&self) -> Result<Self> {
        Ok(Self { loss: self.loss.copied()?, norm: self.norm.copied()? })
    }
}

impl Recorded {
    fn fits(&self, model: &dyn Model, optimiser: &Optimiser, parts: &[Part], settings: Settings) -> bool {
        let same = |(a, b): (&Part, &Part)| {
            a.share == b.share
                && a.first_example == b.first_example
                && a.pairs(b).all(|(slot, ids)| slot.can_become(ids))
        };
        let Settings { clip, precision, .. } = settings;
        (clip, precision) == (self.settings.clip, self.settings.precision)
            && parts.len() == self.parts.len()
            && self.parts.iter().zip(parts).all(same)
            && self.places == Places::of(tensors(model), optimiser)
    }

    fn replay(&mut self, optimiser: &mut Optimiser, parts: &[Part], settings: Settings) -> Result<Outcome> {
        let slots: Vec<_> = self.parts.iter().zip(parts).flat_map(|(slot, part)| slot.pairs(part)).collect();
        self.recording.replay(settings.key, &slots, (optimiser, settings.rate))?;
        self.outcome.copied()
    }
}

/// One update: gradients of all parts, clipping, the optimiser. Reads nothing to the host.
pub fn update_now(
    model: &mut dyn Model,
    optimiser: &mut Optimiser,
    parts: &[Part],
    how: Settings,
) -> Result<Outcome> {
    let (mut total, mut loss): (Gradients, Option<Tensor>) = Default::default();
    for part in parts {
        let context = Context::training(how.key, part.first_example).with_precision(how.precision);
        let mean = model.loss_of(&context, &part.inputs, &part.targets, settings())?;
        let share = mean.scale(part.share)?;
        total.add(share.backward()?)?;
        loss = Some(match loss {
            None => share.detach(),
            Some(loss) => loss.add(&share.detach())?,
        });
    }
    let loss = loss.ok_or_else(|| Error::input("train", "there is no batch to learn from"))?;
    let mut updates = model.updates(&total);
    let norm = global_norm(updates.iter().filter_map(|update| update.gradient))?;
    match how.clip > 0.0 {
        true => optimiser.step(&mut updates, how.rate, &clip_scale(&norm, how.clip)?)?,
        false => optimiser.step(&mut updates, how.rate, 1.0)?,
    }
    Ok(Outcome { loss, norm })
}
