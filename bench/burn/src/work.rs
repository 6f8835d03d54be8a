//! The workloads of `bench/workloads.json` that are written for Burn.

use crate::{Step, attention, bilstm, gpt};
use burn::tensor::Device;
use serde::Deserialize;

/// What of the file is written here; the rest is between Regard and PyTorch.
pub const WRITTEN: [&str; 4] = ["attention-train-1024", "gpt-char", "gpt-small", "bilstm"];

#[derive(Deserialize)]
struct File {
    /// Not yet read: some are of kinds that are not written here.
    workloads: Vec<serde_json::Value>,
}

/// What is to be done, and its sizes.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Work {
    Attention { shape: AttentionShape, causal: bool },
    Gpt { shape: GptShape },
    BiLstm { shape: BiLstmShape },
}

#[derive(Deserialize)]
pub struct AttentionShape {
    pub batch: usize,
    pub heads: usize,
    pub time: usize,
    pub width: usize,
}

#[derive(Deserialize)]
pub struct GptShape {
    pub vocabulary: usize,
    pub layers: usize,
    pub width: usize,
    pub heads: usize,
    pub time: usize,
    pub batch: usize,
}

#[derive(Deserialize)]
pub struct BiLstmShape {
    pub vocabulary: usize,
    pub embedding: usize,
    pub hidden: usize,
    pub time: usize,
    pub batch: usize,
}

impl Work {
    /// The workload of that name.
    pub fn find(name: &str) -> Option<Self> {
        let file: File = serde_json::from_str(include_str!("../../workloads.json"))
            .expect("the file is part of the program and has been read before");
        let entry = file.workloads.into_iter().find(|entry| entry["name"] == name)?;
        serde_json::from_value(entry).ok()
    }

    /// Sets it up with fixed weights and data.
    pub fn step(&self) -> Step {
        let device = Device::flex().autodiff();
        device.seed(1);
        match self {
            Work::Attention { shape, causal } => attention::step(shape, *causal, &device),
            Work::Gpt { shape } => gpt::step(shape, &device),
            Work::BiLstm { shape } => bilstm::step(shape, &device),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_full_size_the_first_loss_is_that_of_a_guess() {
        for name in WRITTEN {
            let work = Work::find(name).expect("the file has what is written");
            let guess = match &work {
                Work::Attention { .. } => continue,
                Work::Gpt { shape } => (shape.vocabulary as f32).ln(),
                Work::BiLstm { .. } => 2_f32.ln(),
            };
            let loss = work.step()();
            // Weights of 0.02 make logits of a few tenths, which cost up to their variance.
            assert!((loss - guess).abs() < 0.15, "{name}: {loss} is not near {guess}");
        }
    }
}
