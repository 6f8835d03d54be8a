//! The bench that an experiment works at: seeds, size, finished parts, trained models, progress.
//!
//! An experiment is cut into parts that do not depend on each other. Parts run side by side, one a core; each result is
//! written down as soon as it is there, so that an experiment that was interrupted goes on with the parts that are missing.
//! What a part computes depends on its input alone, never on the other parts, their order or the number of cores.

use super::progress::Progress;
use super::share::{Pending, Share};
use super::store::Store;
use super::trainings::{Training, Trainings};
use super::{Experiment, Setup, Size, Sizes};
use crate::error::Interrupted;
use crate::run::{RunConfig, interrupt_flag, preset};
use anyhow::{Context as _, Result, anyhow, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Enough seeds to see that everything works.
const SMOKE_SEEDS: u64 = 2;
/// Verdicts use the seeds from here on. No experiment was developed with any of them: those from 0 were used for that.
pub const JUDGED_SEEDS: u64 = 1_000_000;

/// What an experiment is given.
pub struct Lab<'a> {
    /// What it is run on, and how large.
    pub setup: Setup<'a>,
    pub(super) experiment: &'a Experiment,
    pub(super) store: &'a Store,
    pub(super) progress: &'a Progress,
    pub(super) trainings: Trainings,
    /// The settings that were read, by name, at every size.
    pub(super) settings: Mutex<BTreeMap<&'static str, String>>,
    /// The share of the parts that is computed here; without one, all.
    pub(super) share: Option<Share>,
}

/// A finished part as it is written down.
#[derive(Serialize, Deserialize)]
struct Kept<T> {
    result: T,
    trainings: Vec<Training>,
}

impl<'a> Lab<'a> {
    pub(super) fn new(
        experiment: &'a Experiment,
        setup: Setup<'a>,
        store: &'a Store,
        progress: &'a Progress,
    ) -> Self {
        Self {
            setup,
            experiment,
            store,
            progress,
            trainings: Trainings::default(),
            settings: Mutex::default(),
            share: None,
        }
    }

    /// The same for one of several shares.
    pub(super) fn sharing(self, share: Share) -> Self {
        Self { share: Some(share), ..self }
    }

    /// The seeds to draw: as many as the user asked for, or else as many as the experiment needs.
    pub fn seeds(&self) -> Vec<u64> {
        self.seeds_of(self.experiment.seeds)
    }

    /// The same for models that have a number of seeds of their own.
    pub fn seeds_of(&self, usual: Sizes<u64>) -> Vec<u64> {
        let usual = match self.setup.size {
            Size::Smoke => self.at(usual).min(SMOKE_SEEDS),
            _ => self.at(usual),
        };
        let first = self.first_seed();
        (first..first + self.setup.seeds.unwrap_or(usual)).collect()
    }

    /// The first seed, whose models are shown.
    pub fn first_seed(&self) -> u64 {
        if self.setup.develop { 0 } else { JUDGED_SEEDS }
    }

    /// The value for the size that the experiment has.
    pub fn at<T: Copy>(&self, sizes: Sizes<T>) -> T {
        sizes.at(self.setup.size)
    }

    /// The same for a setting of a measurement, which the freeze lists by its name.
    pub fn setting<T: Copy + Debug>(&self, name: &'static str, sizes: Sizes<T>) -> T {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).insert(name, sizes.to_string());
        self.at(sizes)
    }

    /// The data that the user gave, as a configuration names it.
    pub fn data(&self) -> Option<String> {
        self.setup.data.map(|path| path.display().to_string())
    }

    /// A preset with settings of its own for each size, and a seed. Nothing is saved while it trains.
    pub fn preset(&self, name: &str, settings: Sizes<&[&str]>, seed: u64) -> Result<RunConfig> {
        let settings: Vec<String> = self.at(settings).iter().map(ToString::to_string).collect();
        let mut config = preset(name, &settings)?;
        config.train.seed = seed;
        config.run.save_every = 0;
        Ok(config)
    }

    /// Does the same work for each of several inputs, side by side, and returns the results in order. Finished ones are
    /// read back. Values that are not finite do not survive being written down: return an `Option` where they can come.
    pub fn parts<I, T>(
        &self,
        stage: &str,
        inputs: &[I],
        work: impl Fn(&I) -> Result<T> + Sync,
    ) -> Result<Vec<T>>
    where
        I: Serialize + Sync,
        T: Serialize + DeserializeOwned + Send,
    {
        self.parts_on(regard_tensor::threads(), stage, inputs, work)
    }

    fn parts_on<I, T>(
        &self,
        cores: usize,
        stage: &str,
        inputs: &[I],
        work: impl Fn(&I) -> Result<T> + Sync,
    ) -> Result<Vec<T>>
    where
        I: Serialize + Sync,
        T: Serialize + DeserializeOwned + Send,
    {
        let slots: Vec<Mutex<Option<Result<T>>>> = inputs.iter().map(|_| Mutex::new(None)).collect();
        let owned: Vec<usize> = (0..inputs.len()).filter(|&part| self.owns(stage, part)).collect();
        let next = AtomicUsize::new(0);
        let workers = cores.min(owned.len()).max(1);
        self.progress.expect(owned.len());
        let busy = Threads::new(workers, cores);
        let turn = || {
            while let Some(&index) = owned.get(next.fetch_add(1, Ordering::Relaxed)) {
                let input = &inputs[index];
                let result = self.part(stage, input, || work(input));
                let failed = result.is_err();
                *slots[index].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
                if failed {
                    next.store(owned.len(), Ordering::Relaxed);
                }
            }
            busy.one_less();
        };
        std::thread::scope(|scope| {
            for _ in 1..workers {
                scope.spawn(turn);
            }
            turn();
        });
        drop(busy);
        // The first failure is reported; parts after it may not have run.
        let mut results = Vec::with_capacity(inputs.len());
        for (index, slot) in slots.into_iter().enumerate() {
            results.push(match slot.into_inner().unwrap_or_else(PoisonError::into_inner) {
                Some(result) => Some(result?),
                None if self.owns(stage, index) => Err(anyhow!("a part did not run"))?,
                None => self.part_of_another(stage, &inputs[index])?,
            });
        }
        complete(results)
    }

    /// Whether a part is computed here.
    fn owns(&self, stage: &str, part: usize) -> bool {
        self.share.is_none_or(|share| share.owns(self.experiment.name, stage, part))
    }

    /// The same for work that measures time: one after the other, with all cores, and all on one machine.
    pub fn timed_parts<I, T>(
        &self,
        stage: &str,
        inputs: &[I],
        work: impl Fn(&I) -> Result<T>,
    ) -> Result<Vec<T>>
    where
        I: Serialize,
        T: Serialize + DeserializeOwned,
    {
        if !self.owns(stage, 0) {
            return complete(
                inputs.iter().map(|input| self.part_of_another(stage, input)).collect::<Result<_>>()?,
            );
        }
        self.progress.expect(inputs.len());
        inputs.iter().map(|input| self.part(stage, input, || work(input))).collect()
    }

    /// The file of a part.
    fn place(&self, stage: &str, input: &str) -> Result<PathBuf> {
        let name = self.experiment.name;
        let Setup { size, data, vectors, .. } = self.setup;
        let identity = |path: Option<&Path>| {
            anyhow::Ok(path.map(|path| self.store.identity(path)).transpose()?.unwrap_or_default())
        };
        let (data, vectors) = (identity(data)?, identity(vectors)?);
        let key = format!("{name}\n{stage}\n{}\n{data}\n{vectors}\n{input}", size.name());
        Ok(self.store.part(name, stage, &key, self.setup.placement))
    }

    /// A part that another share computes, if it is there.
    fn part_of_another<T: DeserializeOwned>(&self, stage: &str, input: &impl Serialize) -> Result<Option<T>> {
        let kept: Option<Kept<T>> = self.store.read(&self.place(stage, &serde_json::to_string(input)?)?);
        Ok(kept.map(|Kept { result, trainings }| {
            self.trainings.read_back(&trainings);
            result
        }))
    }

    fn part<T: Serialize + DeserializeOwned>(
        &self,
        stage: &str,
        input: &impl Serialize,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let input = serde_json::to_string(input)?;
        let place = self.place(stage, &input)?;
        if let Some(Kept { result, trainings }) = self.store.read(&place) {
            self.progress.read_back();
            self.trainings.read_back(&trainings);
            return Ok(result);
        }
        if interrupt_flag().load(Ordering::Relaxed) {
            bail!(Interrupted::repeat());
        }
        let result = work().with_context(|| format!("{}, {stage} {input}", self.experiment.name))?;
        let kept = Kept { result, trainings: self.trainings.of_this_part() };
        self.store.write(&place, &kept)?;
        self.progress.done();
        Ok(kept.result)
    }
}

/// The results of all parts, unless some are missing that other shares compute.
fn complete<T>(results: Vec<Option<T>>) -> Result<Vec<T>> {
    match results.iter().filter(|result| result.is_none()).count() {
        0 => Ok(results.into_iter().flatten().collect()),
        parts => bail!(Pending { parts }),
    }
}

/// Shares the cores among the parts that run: kernels get more threads as fewer parts are left. Results never depend on it.
struct Threads {
    before: usize,
    cores: usize,
    running: AtomicUsize,
}

impl Threads {
    fn new(workers: usize, cores: usize) -> Self {
        let threads = Self { before: regard_tensor::threads(), cores, running: AtomicUsize::new(workers) };
        threads.share(workers);
        threads
    }

    fn share(&self, running: usize) {
        regard_tensor::set_threads((self.cores / running.max(1)).min(self.before));
    }

    fn one_less(&self) {
        let running = self.running.fetch_sub(1, Ordering::Relaxed) - 1;
        self.share(running);
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        regard_tensor::set_threads(self.before);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::experiment::{Data, Findings};
    use regard_tensor::Tensor;
    use regard_tensor::random::Key;

    const EXPERIMENT: Experiment = Experiment {
        name: "trial",
        claims: &[],
        question: "",
        prediction: "",
        design: "",
        changed: None,
        data: Data::Drawn,
        conditions: &[],
        seeds: Sizes::quick(2),
        seconds: Sizes::quick(1.0),
        trains: |_| Ok(Vec::new()),
        run: |_| Ok(Findings::default()),
    };

    /// Does some work at a bench of its own, which remembers nothing.
    pub fn at_a_bench<T>(work: impl FnOnce(&Lab) -> T) -> T {
        let folder = tempfile::tempdir().unwrap();
        let (store, progress) = (Store::new(folder.path()).unwrap(), Progress::silent());
        let setup = Setup { develop: true, ..Setup::of(Size::Smoke) };
        work(&Lab::new(&EXPERIMENT, setup, &store, &progress))
    }

    /// A number that has much of the engine behind it.
    fn number(seed: u64) -> Result<f32> {
        let x = Tensor::new(&Key::new(seed).normal(96 * 96, 1.0), [96, 96])?.tracked();
        let gradients = x.matmul_transposed(&x, false, true)?.softmax()?.matmul(&x)?.sum_all()?.backward()?;
        Ok(gradients.get(&x).context("no gradient")?.values().iter().sum())
    }

    #[test]
    fn results_are_in_order_and_the_same_to_the_bit_on_one_core_and_on_several() {
        let seeds: Vec<u64> = (0..9).collect();
        let on = |cores: usize| {
            at_a_bench(|lab| {
                let numbers = lab.parts_on(cores, "numbers", &seeds, |&seed| {
                    // The first ones take the longest, so that they would come last if order were a matter of time.
                    std::thread::sleep(std::time::Duration::from_millis(2 * (9 - seed)));
                    number(seed)
                });
                numbers.unwrap().into_iter().map(f32::to_bits).collect::<Vec<_>>()
            })
        };
        let alone: Vec<u32> = seeds.iter().map(|&seed| number(seed).unwrap().to_bits()).collect();
        for cores in [1, 2, 4, 32] {
            assert_eq!(on(cores), alone, "{cores} cores");
        }
    }

    #[test]
    fn the_first_failure_in_order_is_reported_on_any_number_of_cores() {
        for cores in [1, 3, 8] {
            let failure = at_a_bench(|lab| {
                lab.parts_on(cores, "letters", &[0, 1, 2, 3, 4, 5], |&letter: &u64| {
                    match letter {
                        2 => std::thread::sleep(std::time::Duration::from_millis(30)),
                        4 => bail!("no paper"),
                        _ => return Ok(letter),
                    }
                    bail!("no ink")
                })
            });
            assert_eq!(format!("{:#}", failure.unwrap_err()), "trial, letters 2: no ink", "{cores} cores");
        }
    }

    #[test]
    fn what_a_part_read_comes_back_to_the_bit() {
        let odd = [0.1_f64 + 0.2, f64::MIN_POSITIVE, -0.0, 1e300, f64::EPSILON / 3.0];
        at_a_bench(|lab| {
            let read = || lab.parts("odd", &odd, |&x| Ok((x, x as f32, Some(x)))).unwrap();
            let bits = |all: Vec<(f64, f32, Option<f64>)>| -> Vec<(u64, u32, Option<u64>)> {
                all.into_iter().map(|(a, b, c)| (a.to_bits(), b.to_bits(), c.map(f64::to_bits))).collect()
            };
            assert_eq!(bits(read()), bits(read()), "computed, and read back");
        });
    }

    #[test]
    fn parts_that_are_read_back_are_counted_as_such() {
        at_a_bench(|lab| {
            lab.parts("some", &[0, 1], |&input: &u64| Ok(input)).unwrap();
            assert_eq!(lab.progress.counts(), (2, 0));
            lab.parts("some", &[0, 1, 2], |&input: &u64| Ok(input)).unwrap();
            assert_eq!(lab.progress.counts(), (5, 2));
            lab.timed_parts("some", &[0, 3], |&input: &u64| Ok(input)).unwrap();
            assert_eq!(lab.progress.counts(), (7, 3));
        });
    }

    #[test]
    fn no_inputs_give_no_results() {
        let none: Vec<u64> = at_a_bench(|lab| lab.parts("nothing", &[], |&input: &u64| Ok(input)).unwrap());
        assert!(none.is_empty());
    }
}
