//! Attention that costs less, and training that keeps less in memory: whether each is exact, and what it costs.

use crate::experiment::named;
use crate::experiments::instruments::stopwatch::{Spent, spend};
use anyhow::Result;
use regard_nn::attention::{How, Pattern, Rules, Scale, Weigh, attend, scaled_dot_product};
use regard_nn::models::{GptConfig, Inputs, Model, Transformer};
use regard_nn::tensor::ops::{CrossEntropy, Projections};
use regard_nn::tensor::random::Key;
use regard_nn::tensor::{Ids, Tensor};
use regard_nn::{Context, Module};
use std::time::Duration;

named! {
    /// A way to save time or memory.
    pub enum Saving {
        /// Attention in tiles, as in flash attention.
        Tiled = "tiled attention",
        /// A window and a few global tokens.
        Longformer = "Longformer",
        /// A window, global tokens and random blocks.
        BigBird = "BigBird",
        /// Sums instead of pairs.
        Linear = "linear attention",
        /// Layers computed again in the backward pass.
        Checkpointing = "checkpointing",
    }
}

/// The cost of a saving relative to the plain form.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// The largest difference of its values from those written out.
    pub difference: f64,
    /// Its time and memory over those of the plain form.
    pub time: f64,
    /// Megabytes over megabytes.
    pub memory: f64,
}

impl Cost {
    fn new(difference: f64, taken: Spent, usual: Spent) -> Self {
        Self {
            difference,
            time: taken.milliseconds / usual.milliseconds,
            memory: taken.megabytes / usual.megabytes,
        }
    }
}

const HEADS: usize = 2;
const WIDTH: usize = 64;
const REACH: usize = 64;
/// The length at which a form is compared, value by value, with the one written out.
const COMPARED: usize = 256;

impl Saving {
    /// Who may attend to whom.
    pub fn pattern(self) -> Pattern {
        match self {
            Saving::Longformer => Pattern::longformer(REACH, vec![0]),
            Saving::BigBird => Pattern::big_bird(REACH, vec![0], 1, 0),
            _ => Pattern::Full,
        }
    }

    /// Measures it on texts of some length: sparse and linear attention against tiled attention over everything, tiled
    /// attention against attention written out, checkpointing against training that keeps everything. Each seed draws other
    /// values.
    pub fn measure(self, length: usize, patience: Duration, seed: u64) -> Result<Cost> {
        if self == Saving::Checkpointing {
            return checkpointing(length, patience, seed);
        }
        let plain = if self == Saving::Tiled { None } else { Some(Saving::Tiled) };
        let taken = spend(patience, self.pass(length, seed)?)?;
        let usual = match plain {
            Some(plain) => spend(patience, plain.pass(length, seed)?)?,
            None => spend(patience, written_out(self, length, seed)?)?,
        };
        let ours = self.pass(COMPARED, seed)?()?;
        let theirs = written_out(self, COMPARED, seed)?()?.permute(&[1, 0, 2])?.reshape(ours.shape())?;
        let difference = largest(&ours.subtract(&theirs)?);
        Ok(Cost::new(difference, taken, usual))
    }

    /// A forward pass of it.
    fn pass(self, length: usize, seed: u64) -> Result<Pass> {
        let draw = |name: &str| random((name, seed), length, [1, length, HEADS, WIDTH], [0, 2, 1, 3]);
        let (query, key, value) = (draw("query")?, draw("key")?, draw("value")?);
        let weigh = if self == Saving::Linear { Weigh::Linear } else { Weigh::Softmax };
        let (how, rules) = (How { weigh, ..How::default() }, Rules::new(self.pattern(), length, length)?);
        Ok(Box::new(move || {
            let projections = Projections::Separate { query: &query, key: &key, value: &value };
            Ok(attend(&Context::inference(), projections, &how, &rules)?)
        }))
    }
}

type Pass = Box<dyn Fn() -> Result<Tensor>>;

/// The same values, whether time or heads come first.
fn random((name, seed): (&str, u64), length: usize, shape: [usize; 4], axes: [usize; 4]) -> Result<Tensor> {
    let values = Key::new(seed).site("extensions").site(name).normal(HEADS * length * WIDTH, 1.0);
    Ok(Tensor::new(&values, [1, HEADS, length, WIDTH])?.permute(&axes)?.reshape(shape)?)
}

/// The same values with every pair in memory: (heads, length, width).
fn written_out(saving: Saving, length: usize, seed: u64) -> Result<Pass> {
    let draw = |name: &str| {
        let axes = [0, 1, 2, 3];
        anyhow::Ok(
            random((name, seed), length, [1, HEADS, length, WIDTH], axes)?.reshape([HEADS, length, WIDTH])?,
        )
    };
    let (query, key, value) = (draw("query")?, draw("key")?, draw("value")?);
    let mask = match saving.pattern() {
        Pattern::Full => None,
        pattern => Some(pattern.mask(length, length)?),
    };
    Ok(Box::new(move || {
        if saving == Saving::Linear {
            let pairs = query.elu_plus_one()?.matmul_transposed(&key.elu_plus_one()?, false, true)?;
            let sums = pairs.sum(-1)?.reshape([HEADS, length, 1])?;
            return Ok(pairs.divide(&sums)?.matmul(&value)?);
        }
        Ok(scaled_dot_product(&query, &key, &value, mask.as_ref(), Scale::InverseRoot)?.0)
    }))
}

fn largest(x: &Tensor) -> f64 {
    super::largest(x.values().iter().map(|x| f64::from(x.abs())))
}

/// A training step of a GPT, with and without keeping what its layers computed.
fn checkpointing(length: usize, patience: Duration, seed: u64) -> Result<Cost> {
    const VOCABULARY: usize = 256;
    let key = Key::new(seed).site("checkpointing");
    let ids = |name: &str| {
        let key = key.site(name);
        let ids: Vec<u32> = (0..length).map(|i| key.below(0, i as u64, VOCABULARY) as u32).collect();
        Ids::new(&ids, [1, length])
    };
    let (read, wanted) = (ids("read")?, ids("wanted")?);
    let step = |checkpointing: bool| -> Result<Box<dyn Fn() -> Result<Vec<Tensor>>>> {
        let form = GptConfig {
            vocabulary: VOCABULARY,
            context: length,
            n_layers: 8,
            n_heads: HEADS,
            d_model: WIDTH,
            checkpointing,
            ..GptConfig::default()
        };
        let (gpt, read, wanted) = (Transformer::new(form.form(), seed)?, Inputs::ids(&read), wanted.clone());
        Ok(Box::new(move || {
            let context = Context::differentiated();
            let loss = gpt.loss_of(&context, &read, &wanted, CrossEntropy::default())?;
            let gradients = loss.backward()?;
            let all = gpt.parameters();
            Ok(all.iter().filter_map(|(_, parameter)| gradients.get(parameter.tensor())).collect())
        }))
    };
    let (taken, usual) = (spend(patience, step(true)?)?, spend(patience, step(false)?)?);
    let mut difference = 0.0_f64;
    for (ours, theirs) in step(true)?()?.iter().zip(&step(false)?()?) {
        difference = difference.max(largest(&ours.subtract(theirs)?));
    }
    Ok(Cost::new(difference, taken, usual))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_saving_gives_the_values_of_the_plain_form() -> Result<()> {
        for saving in Saving::ALL {
            let cost = saving.measure(64, Duration::ZERO, 1)?;
            assert!(cost.difference < 1e-5, "{saving:?}: {cost:?}");
            assert!(cost.time > 0.0, "{saving:?}: {cost:?}");
        }
        Ok(())
    }
}
