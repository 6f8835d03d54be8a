//! Tensors that move between the GPUs of several processes, without the host.

use crate::cuda::collective::{self, Communicator};
use crate::cuda::{Buffer, Device as Cuda};
use crate::error::{Error, Result};
use crate::storage::Device;
use crate::tensor::Tensor;

/// The GPU of this process, connected to those of others by NCCL, which is loaded at run time.
pub struct GpuPeers(Communicator);

impl GpuPeers {
    /// Fails unless NCCL is installed; the error says how to install it.
    pub fn ensure_available() -> Result<()> {
        Ok(collective::ensure_available()?)
    }

    /// A name for a new group: one process makes it and sends it to the others.
    pub fn new_id() -> Result<Vec<u8>> {
        Ok(collective::new_id()?)
    }

    /// Joins a group as one of several ranks, each with a GPU of its own. Returns when all have joined.
    pub fn join(device: Device, id: &[u8], rank: usize, ranks: usize) -> Result<Self> {
        let Device::Cuda(ordinal) = device else {
            let (expected, got) = (Device::Cuda(0), device);
            return Err(Error::Device { operation: "joining other GPUs", expected, got });
        };
        Ok(Self(Communicator::join(&Cuda::open(ordinal)?, id, rank, ranks)?))
    }

    /// Sends tensors to ranks, and receives from ranks as many values as announced, in the order given. Between two ranks,
    /// tensors arrive in the order in which they are sent.
    pub fn exchange(&self, sent: &[(usize, Tensor)], received: &[(usize, usize)]) -> Result<Vec<Tensor>> {
        let views = sent.iter().map(|(rank, tensor)| Ok((*rank, tensor.array.cuda()?)));
        let buffers = self.0.exchange(&views.collect::<Result<Vec<_>>>()?, received)?;
        let tensor = |buffer: Buffer| {
            let len = buffer.len();
            Tensor::from_array(buffer.into(), [len])
        };
        Ok(buffers.into_iter().map(tensor).collect())
    }

    /// Whether everything that was sent, received and computed so far is done.
    pub fn is_done(&self) -> Result<bool> {
        Ok(self.0.is_done()?)
    }

    /// Gives up what is on its way, for when another process is gone. What was to be received is undefined then.
    pub fn abandon(&self) {
        self.0.abandon();
    }
}
