//! What training on several ranks costs: one line of a table, which `tools/rank_cost` makes.
//!
//!     mpirun -n 2 target/release/examples/rank_cost 2 9       # 2 batches an update, 9 updates timed
//!
//! The work is `gpt-small` of `regard bench`: 65 characters, 6 layers, width 384, 256 positions, 8 texts a batch. Communication is what an update
//! takes longer than the same batches of this rank take without the other ranks' gradients, while the other ranks compute
//! too. The group counts the bytes that it sends.

#![allow(clippy::print_stdout)] // the line is what this prints

use anyhow::{Context as _, Result};
use regard::ranks;
use regard_nn::data::batches::{PackedWindows, RandomWindows};
use regard_nn::data::text::TokenStream;
use regard_nn::models::{GptConfig, Transformer};
use regard_nn::tensor::random::Key;
use regard_nn::train::parallel::{Alone, Group, gather};
use regard_nn::train::{
    Flow, LanguageModelling, Observer, Progress, Step, Task, TrainConfig, train_together,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Updates before the timed ones.
const WARM: u64 = 2;
const VOCABULARY: usize = 65;
const LENGTH: usize = 256;
const BATCH: usize = 8;

/// A group that counts what it sends to other ranks.
struct Counted<'a> {
    group: &'a dyn Group,
    bytes: AtomicU64,
}

impl Group for Counted<'_> {
    fn rank(&self) -> usize {
        self.group.rank()
    }

    fn ranks(&self) -> usize {
        self.group.ranks()
    }

    fn exchange(&self, pieces: Vec<Vec<u8>>) -> regard_nn::Result<Vec<Vec<u8>>> {
        let others = pieces.iter().enumerate().filter(|(rank, _)| *rank != self.rank());
        self.bytes.fetch_add(others.map(|(_, piece)| piece.len() as u64).sum(), Ordering::Relaxed);
        self.group.exchange(pieces)
    }
}

/// When each update ended.
struct Clock(Vec<Instant>);

impl Observer for Clock {
    fn stepped(&mut self, _: &Step, _: &dyn Task, _: &Progress) -> regard_nn::Result<Flow> {
        self.0.push(Instant::now());
        Ok(Flow::Continue)
    }
}

/// The median time of an update, in seconds.
fn time(group: &dyn Group, accumulate: usize, updates: u64) -> Result<f64> {
    let settings = GptConfig {
        vocabulary: VOCABULARY,
        context: LENGTH,
        n_layers: 6,
        n_heads: 6,
        d_model: 384,
        ..GptConfig::default()
    };
    let model = Box::new(Transformer::new(settings.form(), 1)?);
    let text: Vec<u32> =
        Key::new(1).normal(20_000, 9.0).iter().map(|x| x.abs() as u32 % VOCABULARY as u32).collect();
    let windows = RandomWindows::new(TokenStream::new(&text)?, LENGTH, BATCH, Key::new(3))?;
    let held_out = PackedWindows::new(TokenStream::new(&text[..=LENGTH])?, LENGTH, 1)?;
    let mut task = LanguageModelling::new(model, windows, held_out)?;
    let config = TrainConfig {
        steps: WARM + updates,
        accumulate,
        batch_size: BATCH,
        evaluate_every: 0,
        ..TrainConfig::default()
    };
    let mut clock = Clock(Vec::new());
    train_together(&mut task, &config, &mut Progress::new(&config), &mut clock, group)?;
    let mut times: Vec<f64> =
        clock.0.windows(2).skip(WARM as usize - 1).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
    times.pop(); // The last update ends with an evaluation.
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().context("at least three updates")
}

fn main() -> Result<()> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let accumulate = numbers.next().context("how many batches an update?")?? as usize;
    let updates = numbers.next().context("how many updates?")??;
    let group = ranks::group()?;
    let counted = Counted { group, bytes: AtomicU64::new(0) };
    let whole = time(&counted, accumulate, updates)?;
    let sent = counted.bytes.load(Ordering::Relaxed) / (WARM + updates);
    // All ranks begin together, so that they share the machine as before.
    gather(group, &[])?;
    let own = time(&Alone, accumulate.div_ceil(group.ranks()), updates)?;
    gather(group, &[])?;
    if group.rank() == 0 {
        let (ranks, threads) = (group.ranks(), regard_tensor::threads());
        let tokens = (accumulate * BATCH * LENGTH) as f64 / whole;
        println!(
            "| {ranks} × {threads} | {accumulate} | {:.0} ms | {:.0} ms | {:.0} % | {:.1} MB | {tokens:.0} |",
            1e3 * whole,
            1e3 * own,
            100.0 * (1.0 - own / whole),
            sent as f64 / 1e6
        );
    }
    ranks::leave();
    Ok(())
}
