//! Where models run and in which precision: `--device` and `--precision`, the same for every command.

use crate::error::UsageError;
use crate::model::{self, Opened};
use crate::{bad_usage, terminal};
use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use regard_nn::models::{InPrecision, Model};
use regard_tensor::{DataType, Device, cuda_devices};
use std::str::FromStr;
use std::sync::Once;

/// Where to run.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Compute {
    /// Where to run: auto, cpu, cuda or cuda:N; auto takes a GPU if there is one with its libraries
    #[arg(long, value_name = "DEVICE", default_value = "auto", help_heading = "Device")]
    device: Choice,
    /// The type of activations; bf16 needs a GPU. Weights, sums and losses stay f32
    #[arg(long, value_enum, default_value_t, help_heading = "Device")]
    precision: Precision,
}

/// The device is reported once, however often it is found.
static REPORT: Once = Once::new();

/// What `--device` says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Choice {
    #[default]
    Auto,
    Named(Device),
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "auto" => Ok(Self::Auto),
            _ => name.parse().map(Self::Named).map_err(|_| "expected auto, cpu, cuda or cuda:N".to_owned()),
        }
    }
}

/// What `--precision` says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Precision {
    #[default]
    F32,
    Bf16,
}

/// A device and a precision that exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// Where parameters live and kernels run.
    pub device: Device,
    /// The type of activations.
    pub precision: DataType,
}

impl Placement {
    /// Main memory and f32.
    pub const CPU: Self = Self { device: Device::Cpu, precision: DataType::F32 };

    /// Moves a model there.
    pub fn place(self, mut model: Box<dyn Model>) -> Result<Box<dyn Model>> {
        if self.device != Device::Cpu {
            model.to(self.device).with_context(|| format!("cannot move the model to {}", self.device))?;
        }
        Ok(InPrecision::wrap(model, self.precision))
    }
}

impl Compute {
    /// Finds the device, and reports once if it is not the CPU.
    pub fn placement(self) -> Result<Placement> {
        let device = match self.device {
            Choice::Auto => first_cuda_device().unwrap_or(Device::Cpu),
            Choice::Named(device) => device,
        };
        if let Device::Cuda(ordinal) = device {
            let found = cuda_devices().map_err(|error| UsageError(error.to_string()))?;
            let Some(description) = found.get(ordinal) else {
                bad_usage!(
                    "there is no device cuda:{ordinal}: this machine has {} CUDA devices",
                    found.len()
                );
            };
            REPORT.call_once(|| terminal::remark(format!("running on {} ({device})", description.name)));
        }
        if self.precision == Precision::Bf16 && !matches!(device, Device::Cuda(_)) {
            bad_usage!("--precision bf16 needs a CUDA device: the CPU computes in f32");
        }
        let precision = if self.precision == Precision::Bf16 { DataType::Bf16 } else { DataType::F32 };
        Ok(Placement { device, precision })
    }

    /// Opens what a MODEL argument names, on the device.
    pub fn open(self, argument: &str) -> Result<Opened> {
        model::open_on(argument, self.placement()?)
    }
}

/// The first CUDA device that the kernels support, if the driver and the libraries are installed.
fn first_cuda_device() -> Option<Device> {
    let usable = |ordinal| regard_tensor::Tensor::full_on(Device::Cuda(ordinal), [1], 0.0).is_ok();
    let found = cuda_devices().ok()?;
    found.iter().map(|device| device.ordinal).find(|&ordinal| usable(ordinal)).map(Device::Cuda)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named_as_in_the_help() {
        assert_eq!("auto".parse(), Ok(Choice::Auto));
        assert_eq!("cpu".parse(), Ok(Choice::Named(Device::Cpu)));
        assert_eq!("cuda:1".parse(), Ok(Choice::Named(Device::Cuda(1))));
        assert!("gpu".parse::<Choice>().unwrap_err().contains("cuda:N"));
    }

    #[test]
    fn bf16_is_rejected_on_the_cpu() {
        let compute = Compute { device: Choice::Named(Device::Cpu), precision: Precision::Bf16 };
        assert!(compute.placement().unwrap_err().to_string().contains("needs a CUDA device"));
        let compute = Compute { precision: Precision::F32, ..compute };
        assert_eq!(compute.placement().unwrap(), Placement::CPU);
    }
}
