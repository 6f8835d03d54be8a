//! The experiments, one file each, in the order of the report.

mod exactness;
mod scale_sweep;

use crate::experiment::Experiment;

/// All of them.
pub const EXPERIMENTS: &[Experiment] = &[exactness::EXPERIMENT, scale_sweep::EXPERIMENT];

/// An experiment by its name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.name == name)
}
