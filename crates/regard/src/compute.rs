//! Where models run and in which precision: `--device` and `--precision`, the same for every command.

use crate::error::UsageError;
use crate::model::{self, Opened};
use crate::{bad_usage, ranks, terminal};
use anyhow::{Context as _, Result};
use clap::Args;
use regard_nn::models::{InPrecision, Model};
use regard_nn::train::{Precision, TrainConfig};
use regard_tensor::traffic::{self, Traffic};
use regard_tensor::{Device, cuda, cuda_devices};
use std::str::FromStr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where to run.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Compute {
    /// Where to run: auto, cpu, cuda or cuda:N; auto takes a GPU if there is one with its libraries
    #[arg(long, value_name = "DEVICE", default_value = "auto", help_heading = "Device")]
    device: Choice,
    /// The type of activations: f32 or bf16, which needs a GPU. Weights, sums and losses stay f32
    #[arg(long, value_name = "TYPE", help_heading = "Device")]
    precision: Option<Precision>,
}

/// The device is reported once, however often it is found.
static REPORT: Once = Once::new();
/// Whether anything ran on a CUDA device.
static ON_CUDA: AtomicBool = AtomicBool::new(false);

/// Reports operations that a CUDA device has no kernel for, and that ran on the CPU instead, with copies there and back.
pub fn report_fallbacks() {
    if ON_CUDA.load(Ordering::Relaxed)
        && let Some(line) = fallbacks(&traffic::snapshot())
    {
        terminal::remark(line);
    }
}

fn fallbacks(traffic: &Traffic) -> Option<String> {
    let named: Vec<String> =
        traffic.fallbacks.iter().map(|(name, count)| format!("{name} ({count} times)")).collect();
    let line = || format!("debug: without a CUDA kernel, so computed on the CPU: {}", named.join(", "));
    (!named.is_empty()).then(line)
}

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

/// A device and a precision that exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// Where parameters live and kernels run.
    pub device: Device,
    /// The type of activations.
    pub precision: Precision,
}

impl Placement {
    /// Main memory and f32.
    pub const CPU: Self = Self { device: Device::Cpu, precision: Precision::F32 };

    /// What results depend on beside the program: the kind of device.
    pub fn identity(self) -> String {
        let Device::Cuda(ordinal) = self.device else { return self.device.to_string() };
        let found = cuda_devices().ok().and_then(|mut found| found.drain(..).nth(ordinal));
        found.map_or_else(|| self.device.to_string(), |found| found.name)
    }

    /// Moves the model of a training run there. Training applies its precision itself.
    pub fn place_to_train(self, model: &mut dyn Model) -> Result<()> {
        if self.device != Device::Cpu {
            model.to(self.device).with_context(|| format!("cannot move the model to {}", self.device))?;
        }
        Ok(())
    }

    /// Moves a model there, to run it in the precision.
    pub fn place(self, mut model: Box<dyn Model>) -> Result<Box<dyn Model>> {
        self.place_to_train(&mut *model)?;
        Ok(InPrecision::wrap(model, self.precision.into()))
    }
}

impl Compute {
    /// Finds the device, and reports once if it is not the CPU.
    pub fn placement(self) -> Result<Placement> {
        self.placement_in(self.precision.unwrap_or_default())
    }

    /// The same for training: `--precision` goes before the configuration, which then has it.
    pub fn placement_to_train(self, config: &mut TrainConfig) -> Result<Placement> {
        config.precision = self.precision.unwrap_or(config.precision);
        self.placement_in(config.precision)
    }

    /// The same for a run that resumes as it was configured.
    pub fn placement_to_resume(self, config: &TrainConfig) -> Result<Placement> {
        if self.precision.is_some_and(|precision| precision != config.precision) {
            bad_usage!("the run was begun in {}: leave out --precision", config.precision);
        }
        self.placement_in(config.precision)
    }

    fn placement_in(self, precision: Precision) -> Result<Placement> {
        let mut device = match self.device {
            Choice::Auto => first_cuda_device().unwrap_or(Device::Cpu),
            Choice::Named(device) => device,
        };
        if let Device::Cuda(ordinal) = device {
            let found = cuda_devices().map_err(|error| UsageError(error.to_string()))?;
            let ordinal = if ordinal == 0 { ranks::own_gpu(found.len()) } else { ordinal };
            device = Device::Cuda(ordinal);
            let Some(description) = found.get(ordinal) else {
                bad_usage!(
                    "there is no device cuda:{ordinal}: this machine has {} CUDA devices",
                    found.len()
                );
            };
            ON_CUDA.store(true, Ordering::Relaxed);
            cuda::ensure_usable(ordinal).map_err(|error| UsageError(error.to_string()))?;
            REPORT.call_once(|| terminal::remark(format!("running on {} ({device})", description.name)));
        }
        if !precision.is_f32() && !matches!(device, Device::Cuda(_)) {
            bad_usage!("precision {precision} needs a CUDA device: the CPU computes in f32");
        }
        Ok(Placement { device, precision })
    }

    /// Opens what a MODEL argument names, on the device.
    pub fn open(self, argument: &str) -> Result<Opened> {
        model::open_on(argument, self.placement()?)
    }
}

/// A device that was found before.
impl From<Placement> for Compute {
    fn from(placement: Placement) -> Self {
        Self { device: Choice::Named(placement.device), precision: Some(placement.precision) }
    }
}

/// The first CUDA device that the kernels support. If there is a device but a library is missing, reports once which.
fn first_cuda_device() -> Option<Device> {
    let found = cuda_devices().ok()?;
    let mut problem = None;
    for device in &found {
        match cuda::ensure_usable(device.ordinal) {
            Ok(()) => return Some(Device::Cuda(device.ordinal)),
            Err(error) => problem = problem.or(Some(error)),
        }
    }
    if let Some(problem) = problem {
        REPORT.call_once(|| terminal::remark(format!("running on the CPU: {problem}")));
    }
    None
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
    fn fallbacks_are_one_line_and_none_are_none() {
        assert_eq!(fallbacks(&Traffic::default()), None);
        let mut traffic = Traffic::default();
        traffic.fallbacks.insert("sort", 3);
        assert!(fallbacks(&traffic).unwrap().ends_with("on the CPU: sort (3 times)"));
    }

    #[test]
    fn bf16_is_rejected_on_the_cpu() {
        let compute = Compute { device: Choice::Named(Device::Cpu), precision: Some(Precision::Bf16) };
        assert!(compute.placement().unwrap_err().to_string().contains("needs a CUDA device"));
        let compute = Compute { precision: None, ..compute };
        assert_eq!(compute.placement().unwrap(), Placement::CPU);
    }

    #[test]
    fn training_takes_the_precision_of_its_configuration() {
        let compute = Compute { device: Choice::Named(Device::Cpu), precision: None };
        let mut config = TrainConfig { precision: Precision::Bf16, ..TrainConfig::default() };
        let problem = |result: Result<Placement>| result.unwrap_err().to_string();
        assert!(problem(compute.placement_to_train(&mut config)).contains("needs a CUDA device"));
        let exact = Compute { precision: Some(Precision::F32), ..compute };
        assert!(problem(exact.placement_to_resume(&config)).contains("begun in bf16"));
        assert_eq!(exact.placement_to_train(&mut config).unwrap(), Placement::CPU);
        assert_eq!(config.precision, Precision::F32);
    }
}
