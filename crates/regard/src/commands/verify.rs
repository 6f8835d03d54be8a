//! `regard verify`: a model's values against those of a reference.

use super::trace::ensure_matched;
use crate::compute::Compute;
use crate::error::usage_error;
use crate::input_tensors;
use anyhow::{Result, bail, ensure};
use clap::Args;
use regard_nn::checkpoint::StoredWeights;
use regard_nn::tensor::{Mask, Tensor};
use regard_nn::{Context, Probe};
use std::path::PathBuf;

/// Compare what a model computes with a reference, tensor by tensor.
///
/// A reference is a .safetensors with `inputs/…` and the values at some sites, as `tools/reference.py` makes it with
/// Hugging Face's transformers, or `regard trace`. The model runs on the same inputs; the largest difference of each
/// tensor is printed. Values at padding are ignored. Exits with 1 if a difference exceeds the tolerance.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  python3 tools/reference.py gpt2 --text \"The cat sat\" -o reference.safetensors\n  regard verify gpt2 reference.safetensors\n  regard verify runs/mine reference.safetensors --tolerance 1e-5 --json"
)]
pub struct Verify {
    /// A run or checkpoint folder, or a name in the Hugging Face cache
    model: String,
    /// The reference
    reference: PathBuf,
    /// The largest difference that is allowed
    #[arg(long, value_name = "D", default_value_t = 1e-4)]
    tolerance: f32,
    /// Print one line of JSON a tensor
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    compute: Compute,
}

/// The difference of a tensor from its reference.
struct Difference {
    site: String,
    shape: String,
    largest: f32,
    /// The largest value of the reference, to see the difference beside it.
    scale: f32,
}

impl Verify {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        if self.tolerance.is_nan() || self.tolerance < 0.0 {
            return Err(usage_error("the tolerance must be at least 0"));
        }
        let file = StoredWeights::from_files(&[&self.reference])?;
        let inputs = input_tensors::read(&file)?;
        ensure!(
            inputs.ids.is_some() || inputs.pictures.is_some(),
            "{} is no reference: it has neither inputs/ids nor inputs/pixels",
            self.reference.display()
        );
        let sites: Vec<&str> = file.names().filter(|name| !name.starts_with("inputs/")).collect();
        ensure!(!sites.is_empty(), "{} has nothing to compare", self.reference.display());
        let opened = self.compute.open(&self.model)?;
        let probe = sites.iter().fold(Probe::new(), |probe, &site| probe.record(site));
        input_tensors::run(&*opened.model, &inputs, &Context::inference().with_probe(&probe))?;
        ensure_matched(&probe)?;
        let mut differences = Vec::with_capacity(sites.len());
        for site in sites {
            let (Some(want), Some(got)) = (file.read(site)?, probe.get(site)?) else {
                bail!("{site} has no value here");
            };
            differences.push(compare(site, &want, &got, input_tensors::queries(&inputs, site))?);
        }
        self.report(&differences)
    }

    #[allow(clippy::print_stdout)] // the table is what the command is for
    fn report(&self, differences: &[Difference]) -> Result<()> {
        let widest = differences.iter().map(|row| row.site.len()).max().unwrap_or(0);
        for Difference { site, shape, largest, scale } in differences {
            if self.json {
                println!("{}", serde_json::json!({"site": site, "difference": largest, "largest": scale}));
            } else {
                let mark = if self.within(*largest) { "" } else { "  above the tolerance" };
                println!("{site:widest$}  {largest:9.2e}  of {scale:9.2e}  {shape}{mark}");
            }
        }
        let above = differences.iter().filter(|row| !self.within(row.largest)).count();
        ensure!(
            above == 0,
            "{above} of {} tensors differ by more than {:e}",
            differences.len(),
            self.tolerance
        );
        Ok(())
    }

    /// NaN is never within.
    fn within(&self, difference: f32) -> bool {
        difference <= self.tolerance
    }
}

fn compare(site: &str, want: &Tensor, got: &Tensor, queries: Option<&Mask>) -> Result<Difference> {
    ensure!(
        want.shape() == got.shape(),
        "{site} has shape {} in the reference, here it is {}",
        want.shape(),
        got.shape()
    );
    let shape = want.shape();
    // Attention is (batch, heads, queries, keys), the rest (batch, time, …).
    let axis =
        if shape.rank() == 4 && (site.ends_with("weights") || site.ends_with("scores")) { 2 } else { 1 };
    let queries = queries
        .filter(|mask| shape.rank() > 2 && mask.shape()[0] == shape[0] && mask.shape().last() == shape[axis]);
    let inner: usize = shape[(axis + 1).min(shape.rank())..].iter().product();
    let outer: usize = shape[1..axis.min(shape.rank()).max(1)].iter().product();
    let time = shape.get(axis).copied().unwrap_or(1);
    let present = |at: usize| {
        queries.is_none_or(|mask| {
            let row = at / inner.max(1);
            let (query, example) = (row % time.max(1), row / (time * outer).max(1));
            mask.values().get(example * time + query).copied().unwrap_or(false)
        })
    };
    let (mut largest, mut scale) = (0.0_f32, 0.0_f32);
    let (want, got) = (want.values(), got.values());
    for (at, (&want, &got)) in want.iter().zip(got.iter()).enumerate() {
        if !present(at) {
            continue;
        }
        // Equal infinities do not differ; NaN differs from everything, and is not lost in a maximum.
        let difference = if want == got { 0.0 } else { (want - got).abs() };
        largest = if difference.is_nan() { f32::NAN } else { largest.max(difference) };
        if largest.is_nan() {
            break;
        }
        scale = scale.max(want.abs());
    }
    Ok(Difference { site: site.to_owned(), shape: shape.to_string(), largest, scale })
}
