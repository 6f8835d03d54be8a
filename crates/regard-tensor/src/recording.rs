//! Training steps recorded once and replayed with other inputs.
//!
//! A small model's step is hundreds of short kernels, and launching them one by one takes longer than running them. A CUDA
//! device can note a step down and run all of it at one call.

use crate::array::Array;
use crate::cuda;
use crate::error::{Error, Result};
use crate::optimiser::Optimiser;
use crate::random::Key;
use crate::slot::Exchange;
use crate::storage::Device;
use crate::tensor::Tensor;

/// A training step that can be replayed: the same kernels on the same memory.
///
/// What the step reads of the host is a constant of the recording, but for what is in slots (see [`Exchange`]), the learning
/// rate and number of an update, and the keys of dropout.
pub struct Recording {
    steps: cuda::recording::Recording,
}

/// Where the parameters of a model and an optimiser's memory of them lie: a replay changes them there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places(Vec<u64>);

impl Places {
    /// The addresses of parameters, of their copies in bf16 and of an optimiser's memory.
    pub fn of<'a>(parameters: impl IntoIterator<Item = &'a Tensor>, optimiser: &Optimiser) -> Self {
        let parameters = parameters.into_iter().map(|parameter| &parameter.array);
        Self(parameters.chain(optimiser.arrays()).flat_map(Array::cuda_places).collect())
    }
}

impl Recording {
    /// Records a step on a CUDA device and runs it once. Dropout in it draws from sites of `key`; the step makes at most
    /// one update of an optimiser and reads no value to the host.
    ///
    /// After an error of the step itself nothing has been computed.
    pub fn record<T>(device: Device, key: Key, step: impl FnOnce() -> Result<T>) -> Result<(Self, T)> {
        let Device::Cuda(ordinal) = device else {
            return Err(Error::setting("recording", "device", "a CUDA device", device));
        };
        let device = cuda::Device::open(ordinal)?;
        let (steps, result) = cuda::recording::Recording::record(&device, key, step)?;
        Ok((Self { steps }, result))
    }

    /// How many kernels and copies a step has.
    pub fn nodes(&self) -> usize {
        self.steps.nodes()
    }

    /// Runs the step again: with other values in its slots, another key, and the optimiser's next update at this rate.
    pub fn replay(
        &mut self,
        key: Key,
        slots: &Exchange,
        (optimiser, learning_rate): (&mut Optimiser, f32),
    ) -> Result<()> {
        self.run(key, slots, || Some(optimiser.replayed(learning_rate).bytes()))
    }

    /// Runs a step without dropout and without an update again, with other values in its slots.
    pub fn replay_inference(&mut self, slots: &Exchange) -> Result<()> {
        self.run(Key::new(0), slots, || None::<[u8; 0]>)
    }

    /// `update` is called once it is known that the slots are on the device.
    fn run<B: AsRef<[u8]>>(
        &mut self,
        key: Key,
        slots: &Exchange,
        update: impl FnOnce() -> Option<B>,
    ) -> Result<()> {
        let Some(copies) = slots.on_cuda() else {
            return Err(Error::setting("replay", "slots", "on a CUDA device", "elsewhere"));
        };
        let update = update();
        Ok(self.steps.run(key, update.as_ref().map(AsRef::as_ref), &copies)?)
    }
}

impl Tensor {
    /// The same values in memory of their own: those of a recording change with the next replay.
    pub fn copied(&self) -> Result<Self> {
        Ok(Self::from_array(self.array.copied()?, self.shape()))
    }
}
