//! The plumbing that experiments share: the same work for every condition and seed, and one table of what it measured.

use super::lab::Lab;
use super::table::{Condition, Rows, Table};
use anyhow::Result;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What an experiment measured under each condition, with each seed.
pub struct Sweep<S, C, E> {
    /// Every measurement.
    pub table: Table<C>,
    /// What else each run returned, in the order of the inputs: examples for figures, mostly.
    pub runs: Vec<Run<S, E>>,
}

/// One condition with one seed.
pub struct Run<S, E> {
    /// The condition.
    pub condition: S,
    /// The seed.
    pub seed: u64,
    /// What the run returned beside its measurements.
    pub result: E,
}

impl<S, C, E> Sweep<S, C, E> {
    /// The results of the runs under a condition.
    pub fn under(&self, condition: S) -> impl Iterator<Item = &E>
    where
        S: PartialEq,
    {
        self.runs.iter().filter(move |run| run.condition == condition).map(|run| &run.result)
    }

    /// All results.
    pub fn results(&self) -> impl Iterator<Item = &E> {
        self.runs.iter().map(|run| &run.result)
    }
}

/// What a part measured, as it is written down, and what it returned.
type Part<E> = (Vec<(Vec<String>, String, f64)>, E);

impl Lab<'_> {
    /// Every condition with every seed of the experiment.
    pub fn each<S: Copy>(&self, conditions: impl IntoIterator<Item = S>) -> Vec<(S, u64)> {
        let seeds = self.seeds();
        conditions
            .into_iter()
            .flat_map(|condition| seeds.iter().map(move |&seed| (condition, seed)))
            .collect()
    }

    /// Does the same work for each of several conditions and seeds, side by side, as [`Lab::parts`] does. The work adds what it
    /// measures to the rows, and returns what else is needed of it.
    pub fn sweep<S, C, E>(
        &self,
        stage: &str,
        inputs: Vec<(S, u64)>,
        work: impl Fn(S, u64, &mut Rows<C>) -> Result<E> + Sync,
    ) -> Result<Sweep<S, C, E>>
    where
        S: Copy + Serialize + Sync,
        C: Condition,
        E: Serialize + DeserializeOwned + Send,
    {
        let parts = self.parts(stage, &inputs, |&(condition, seed)| part(condition, seed, &work))?;
        Ok(gather(inputs, parts))
    }

    /// The same with no other condition than the seed.
    pub fn sweep_seeds<C, E>(
        &self,
        stage: &str,
        work: impl Fn(u64, &mut Rows<C>) -> Result<E> + Sync,
    ) -> Result<Sweep<(), C, E>>
    where
        C: Condition,
        E: Serialize + DeserializeOwned + Send,
    {
        self.sweep(stage, self.each([()]), |(), seed, rows| work(seed, rows))
    }

    /// The same for work that measures time: one after the other, with all cores.
    pub fn timed_sweep<S, C, E>(
        &self,
        stage: &str,
        inputs: Vec<(S, u64)>,
        work: impl Fn(S, u64, &mut Rows<C>) -> Result<E>,
    ) -> Result<Sweep<S, C, E>>
    where
        S: Copy + Serialize,
        C: Condition,
        E: Serialize + DeserializeOwned,
    {
        let parts = self.timed_parts(stage, &inputs, |&(condition, seed)| part(condition, seed, &work))?;
        Ok(gather(inputs, parts))
    }
}

fn part<S, C: Condition, E>(
    condition: S,
    seed: u64,
    work: &impl Fn(S, u64, &mut Rows<C>) -> Result<E>,
) -> Result<Part<E>> {
    let mut rows = Rows::new(Vec::new());
    let result = work(condition, seed, &mut rows)?;
    Ok((rows.into_inner(), result))
}

fn gather<S, C: Condition, E>(inputs: Vec<(S, u64)>, parts: Vec<Part<E>>) -> Sweep<S, C, E> {
    let mut table = Table::new();
    let runs = inputs.into_iter().zip(parts).map(|((condition, seed), (rows, result))| {
        table.extend(seed, Rows::new(rows));
        Run { condition, seed, result }
    });
    let runs = runs.collect();
    Sweep { table, runs }
}
