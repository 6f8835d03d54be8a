//! Where values live, and of which type they are.

use crate::error::{Error, Result};
use crate::{apart, cuda};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Where the values of a tensor live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Device {
    /// Main memory.
    Cpu,
    /// The memory of a CUDA device, by its number: see [`crate::cuda_devices`].
    Cuda(usize),
    /// A device for tests: memory that only copies reach, and no kernels.
    ///
    /// Every operation on it runs on the CPU, on copies, and is counted as a fallback (see [`crate::traffic`]). Values
    /// are bit for bit those of the CPU. A suite that passes here reads no value past the boundary that a GPU needs.
    Apart,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(0) => f.write_str("cuda"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
            Self::Apart => f.write_str("apart"),
        }
    }
}

impl FromStr for Device {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let unknown = || Error::setting("device", "name", "cpu, cuda, cuda:1 (and so on) or apart", name);
        match name {
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            "apart" => Ok(Self::Apart),
            _ => {
                let ordinal = name.strip_prefix("cuda:").and_then(|number| number.parse().ok());
                ordinal.map(Self::Cuda).ok_or_else(unknown)
            }
        }
    }
}

/// The type of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DataType {
    /// IEEE single precision.
    F32,
    /// The upper half of an `F32`: its range, with 8 bits of precision.
    Bf16,
    /// IEEE half precision: 11 bits of precision, at most 65,504.
    F16,
}

impl DataType {
    /// Bytes of one value.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
        }
    }
}

/// Values in main memory, each type as it is stored: those of 16 bits by their bit patterns.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Values<'a> {
    /// See [`DataType::F32`].
    F32(&'a [f32]),
    /// See [`DataType::Bf16`].
    Bf16(&'a [u16]),
    /// See [`DataType::F16`].
    F16(&'a [u16]),
}

impl<'a> Values<'a> {
    /// Values of a 16-bit type by their bit patterns; `None` for other types.
    pub fn of_bits(bits: &'a [u16], data_type: DataType) -> Option<Self> {
        match data_type {
            DataType::F32 => None,
            DataType::Bf16 => Some(Self::Bf16(bits)),
            DataType::F16 => Some(Self::F16(bits)),
        }
    }

    /// The type.
    pub fn data_type(self) -> DataType {
        match self {
            Self::F32(_) => DataType::F32,
            Self::Bf16(_) => DataType::Bf16,
            Self::F16(_) => DataType::F16,
        }
    }

    /// How many there are.
    pub fn count(self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::Bf16(bits) | Self::F16(bits) => bits.len(),
        }
    }

    /// Some of them.
    pub(crate) fn part(self, range: Range<usize>) -> Self {
        match self {
            Self::F32(values) => Self::F32(&values[range]),
            Self::Bf16(bits) => Self::Bf16(&bits[range]),
            Self::F16(bits) => Self::F16(&bits[range]),
        }
    }

    pub(crate) fn bytes(self) -> &'a [u8] {
        match self {
            Self::F32(values) => bytemuck::cast_slice(values),
            Self::Bf16(bits) | Self::F16(bits) => bytemuck::cast_slice(bits),
        }
    }
}

/// Values owned by someone else, such as a memory-mapped file of weights. They are copied before they change.
pub trait External: Send + Sync {
    /// The values; the same ones at each call.
    fn values(&self) -> Values<'_>;
}

/// Whose kernels compute with some values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernels {
    /// The CPU's, on the values as they are or on copies.
    Cpu,
    Cuda,
}

impl Kernels {
    /// CUDA's kernels take `F32` and `Bf16`.
    pub fn of(device: Device, data_type: DataType) -> Self {
        match (device, data_type) {
            (Device::Cuda(_), DataType::F32 | DataType::Bf16) => Self::Cuda,
            (Device::Cpu | Device::Apart, _) | (Device::Cuda(_), DataType::F16) => Self::Cpu,
        }
    }
}

/// Memory of a device other than the CPU, in bytes.
pub(crate) enum Memory {
    Cuda(cuda::Stored),
    Apart(apart::Memory),
}

impl Memory {
    /// A copy of these bytes on a device.
    pub fn store(device: Device, bytes: &[u8]) -> Result<Self> {
        match device {
            Device::Cpu => unreachable!("main memory holds arrays, not bytes of a device"),
            Device::Cuda(ordinal) => Ok(Self::Cuda(cuda::Stored::upload(ordinal, bytes)?)),
            Device::Apart => Ok(Self::Apart(apart::Memory::store(bytes))),
        }
    }

    /// Copies the bytes from `start` on to main memory, as many as there is room for.
    ///
    /// # Panics
    /// If the device cannot be read, as after a kernel that failed: nothing on it can be used any more.
    pub fn read(&self, start: usize, out: &mut [u8]) {
        match self {
            Self::Cuda(memory) => {
                memory.read(start, out).unwrap_or_else(|error| panic!("reading values: {error}"));
            }
            Self::Apart(memory) => memory.read(start, out),
        }
    }

    pub fn device(&self) -> Device {
        match self {
            Self::Cuda(memory) => Device::Cuda(memory.ordinal()),
            Self::Apart(_) => Device::Apart,
        }
    }
}
