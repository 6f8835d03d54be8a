//! Tensors, automatic differentiation and fused kernels on CPU and CUDA: the engine of Regard.
//!
//! A [`Tensor`] is an n-dimensional array of values on a [`Device`]. Results computed from a
//! [`tracked`](Tensor::tracked) tensor can be differentiated with respect to it; all other computation records nothing.
//! Each file under [`ops`] defines one kind of operation: its formula, its value and its gradient. Operations that are
//! commonly fused, such as attention, linear layers and losses, are one operation here.
//!
//! ```
//! use regard_tensor::{Tensor, ops::Layout};
//!
//! // One step of gradient descent on a linear model.
//! let x = Tensor::new(&[1.0, 2.0, 3.0, 4.0], [2, 2])?;
//! let mut weight = Tensor::new(&[0.5, -0.5], [2, 1])?.tracked();
//! let target = Tensor::new(&[1.0, 2.0], [2, 1])?;
//!
//! let error = (&x.linear(&weight, None, Layout::InOut, None)? - &target)?;
//! let loss = (&error * &error)?.mean_all()?;
//! let slope = loss.backward()?.get(&weight).unwrap();
//! weight = (&weight - &slope.scale(0.1)?)?.detach().tracked();
//! assert!(weight.values()[0] > 0.5);
//! # Ok::<(), regard_tensor::Error>(())
//! ```

mod apart;
mod array;
mod blocks;
mod copies;
mod cpu;
#[doc(hidden)]
pub mod cuda;
mod error;
mod ids;
mod kernels;
mod mapped;
pub mod ops;
pub mod optimiser;
mod peers;
pub mod pool;
pub mod random;
mod recording;
mod rows;
mod shape;
mod slot;
mod storage;
mod tape;
mod tensor;
pub mod traffic;

pub use blocks::{BLOCK, BlockMask};
pub use cpu::simd::{Level, level};
pub use cpu::threads::{set_threads, threads};
pub use cuda::{Description as CudaDevice, Error as CudaError};
pub use error::{Error, Result};
pub use ids::{Ids, Mask};
pub use mapped::MappedFile;
pub use peers::GpuPeers;
pub use recording::{Places, Recording};
pub use rows::RowGradient;
pub use shape::Shape;
pub use slot::{Exchange, Exchangeable};
pub use storage::{DataType, Device, External, Values};
pub use tape::{Gradient, Gradients, Leaf, Pass, checkpoint};
pub use tensor::Tensor;

/// The version of the engine's numerics. It increases whenever the same operation on the same values gives different bits
/// on the CPU. Stored results should name the version that computed them.
pub const NUMERICS: u32 = 1;

/// The CUDA devices of this machine. Without a driver, the error says what is missing.
///
/// ```
/// match regard_tensor::cuda_devices() {
///     Ok(devices) => println!("{} devices", devices.len()),
///     Err(error) => println!("{error}"), // CUDA: cannot load libcuda.so.1 …
/// }
/// ```
pub fn cuda_devices() -> Result<Vec<CudaDevice>> {
    Ok(cuda::devices()?)
}
