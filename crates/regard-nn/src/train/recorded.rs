//! Updates that a device records once and replays.
//!
//! A CUDA device can note down all kernels of an update and run them again at one call, on the same memory. The first two
//! updates run as usual and show whether this one can be recorded: it must read no value to the host. The third is
//! recorded. What a model reads of a batch (ids, masks of padding, pictures) is in slots, which a replay fills anew. A batch
//! of another shape, or a model whose parameters moved, runs as usual; the results are bit for bit the same either way.

use super::tasks::settings;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::models::{Inputs, Model};
use regard_tensor::optimiser::{Optimiser, clip_scale, global_norm};
use regard_tensor::random::Key;
use regard_tensor::traffic;
use regard_tensor::{DataType, Device, Exchange, Gradients, Ids, Mask, Places, Recording, Tensor};

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

/// Replays that make up for recording an update.
const WORTHWHILE: u32 = 16;

/// Recordings that may be replayed less often before no more are made.
const MOST_WASTED: u32 = 2;

/// Makes updates, recorded where the device can.
#[derive(Default)]
pub struct Recorder {
    recorded: Option<Recorded>,
    rehearsed: u32,
    /// Updates in a row that did not fit the recording.
    misfits: u32,
    /// How often the recording was replayed, and recordings in a row that were not worth it.
    replays: u32,
    wasted: u32,
    off: bool,
}

/// A recorded update, with the slots that it reads and the values that it leaves.
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
        if self.off || !parts.iter().all(Part::fits_slots) || !matches!(device, Device::Cuda(_)) {
            return Ok(None);
        }
        if let Some(recorded) = &mut self.recorded {
            if let Some(slots) = recorded.fits(model, optimiser, parts, settings) {
                self.misfits = 0;
                self.replays += 1;
                return recorded.replay(optimiser, &slots, settings).map(Some);
            }
            self.misfits += 1;
            // A smaller batch now and then runs as usual; another shape for good is recorded anew. Where shapes change all
            // the time, recordings cost more than they save.
            if self.misfits > REHEARSALS {
                let wasted = if self.replays < WORTHWHILE { self.wasted + 1 } else { 0 };
                *self = Self { wasted, off: wasted > MOST_WASTED, ..Self::default() };
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
    /// Whether a replay can exchange all that changes from one batch to the next.
    fn fits_slots(&self) -> bool {
        self.inputs.memory.is_none()
    }

    /// The same in slots of a device.
    fn in_slots(&self, device: Device) -> Result<Self> {
        let ids = |ids: &Option<Ids>| ids.as_ref().map(|ids| ids.slot(device)).transpose();
        let mask = |mask: &Option<Mask>| mask.as_ref().map(|mask| mask.slot(device)).transpose();
        let Inputs { ids: read, present, types, answer, answer_present, memory, pictures } = &self.inputs;
        let inputs = Inputs {
            ids: ids(read)?,
            present: mask(present)?,
            types: ids(types)?,
            answer: ids(answer)?,
            answer_present: mask(answer_present)?,
            memory: memory.clone(),
            // Copied even if they are on the device: a replay overwrites them.
            pictures: pictures.as_ref().map(|pictures| pictures.to(device)?.copied()).transpose()?,
        };
        Ok(Self { inputs, targets: self.targets.slot(device)?, ..*self })
    }

    /// Notes down what a replay puts into the slots of this part; `false` if it does not fit.
    fn exchange(&self, other: &Self, slots: &mut Exchange) -> bool {
        let Inputs { ids, present, types, answer, answer_present, memory: _, pictures } = &self.inputs;
        let with = &other.inputs;
        self.share == other.share
            && self.first_example == other.first_example
            && slots.put(ids, &with.ids)
            && slots.put(present, &with.present)
            && slots.put(types, &with.types)
            && slots.put(answer, &with.answer)
            && slots.put(answer_present, &with.answer_present)
            && slots.put(pictures, &with.pictures)
            && slots.put(&self.targets, &other.targets)
    }
}

impl Outcome {
    fn copied(&self) -> Result<Self> {
        Ok(Self { loss: self.loss.copied()?, norm: self.norm.copied()? })
    }
}

impl Recorded {
    /// What a replay puts into the slots, if this update can be made by one.
    fn fits(
        &self,
        model: &dyn Model,
        optimiser: &Optimiser,
        parts: &[Part],
        settings: Settings,
    ) -> Option<Exchange> {
        let Settings { clip, precision, .. } = settings;
        let mut slots = Exchange::new();
        let fits = (clip, precision) == (self.settings.clip, self.settings.precision)
            && parts.len() == self.parts.len()
            && self.parts.iter().zip(parts).all(|(slot, part)| slot.exchange(part, &mut slots))
            && self.places == Places::of(tensors(model), optimiser);
        fits.then_some(slots)
    }

    fn replay(&mut self, optimiser: &mut Optimiser, slots: &Exchange, settings: Settings) -> Result<Outcome> {
        self.recording.replay(settings.key, slots, (optimiser, settings.rate))?;
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

#[cfg(test)]
mod tests;
