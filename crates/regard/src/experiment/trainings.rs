//! How the models of an experiment were trained, for the record: configurations, and the seeds that each was trained with.
//!
//! Parts that were finished before are read back and train nothing, so that what a part trained is written down with its result.

use crate::run::RunConfig;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use toml::Table;

/// One training: a configuration as TOML, without what differs from seed to seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Training {
    configuration: String,
    seed: u64,
    /// How many words the data of the seed had, if the model reads words.
    vocabulary: Option<i64>,
}

impl Training {
    fn of(config: &RunConfig) -> Result<Self> {
        let mut table: Table = toml::from_str(&toml::to_string(config)?)?;
        let mut take = |part: &str, name: &str| {
            table.get_mut(part).and_then(toml::Value::as_table_mut).and_then(|part| part.remove(name))
        };
        take("train", "seed");
        let vocabulary = take("model", "vocabulary").and_then(|size| size.as_integer());
        Ok(Self { configuration: toml::to_string(&table)?, seed: config.train.seed, vocabulary })
    }
}

/// The trainings of an experiment so far.
#[derive(Default)]
pub struct Trainings {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By configuration: the seeds, and the vocabulary of each.
    seeds: BTreeMap<String, BTreeMap<u64, Option<i64>>>,
    /// What the part that a thread works at has trained.
    parts: HashMap<ThreadId, Vec<Training>>,
}

impl Trainings {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A model is trained like this, or was.
    pub fn add(&self, config: &RunConfig) -> Result<()> {
        let training = Training::of(config)?;
        self.state().parts.entry(thread::current().id()).or_default().push(training.clone());
        self.read_back(&[training]);
        Ok(())
    }

    /// A part of before had trained these.
    pub fn read_back(&self, trainings: &[Training]) {
        for Training { configuration, seed, vocabulary } in trainings {
            self.state().seeds.entry(configuration.clone()).or_default().insert(*seed, *vocabulary);
        }
    }

    /// What this thread has trained since the last call.
    pub fn of_this_part(&self) -> Vec<Training> {
        self.state().parts.remove(&thread::current().id()).unwrap_or_default()
    }

    /// All of them as one TOML file, each configuration once with its seeds; nothing if no model was trained.
    pub fn to_toml(&self) -> Result<Option<String>> {
        #[derive(Serialize)]
        struct File {
            training: Vec<Entry>,
        }
        #[derive(Serialize)]
        struct Entry {
            seeds: Vec<u64>,
            #[serde(skip_serializing_if = "Vec::is_empty")]
            vocabularies: Vec<i64>,
            #[serde(flatten)]
            configuration: Table,
        }
        let entry = |(configuration, seeds): (&String, &BTreeMap<u64, Option<i64>>)| {
            anyhow::Ok(Entry {
                seeds: seeds.keys().copied().collect(),
                vocabularies: seeds.values().copied().flatten().collect(),
                configuration: toml::from_str(configuration)?,
            })
        };
        let training: Vec<Entry> = self.state().seeds.iter().map(entry).collect::<Result<_>>()?;
        Ok(if training.is_empty() { None } else { Some(toml::to_string(&File { training })?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::preset;

    #[test]
    fn each_configuration_is_listed_once_with_its_seeds() {
        let trainings = Trainings::default();
        assert_eq!(trainings.to_toml().unwrap(), None);
        let mut config = preset("words-gpt", &["train.rate.highest=3e-4".to_owned()]).unwrap();
        for seed in [2, 0, 2] {
            config.train.seed = seed;
            trainings.add(&config).unwrap();
        }
        let kept = trainings.of_this_part();
        assert_eq!((kept.len(), trainings.of_this_part().len()), (3, 0));
        config.train.steps += 1;
        trainings.add(&config).unwrap();
        let written = trainings.to_toml().unwrap().unwrap();
        let table: Table = toml::from_str(&written).unwrap();
        let entries = table["training"].as_array().unwrap();
        let seeds: Vec<String> = entries.iter().map(|entry| entry["seeds"].to_string()).collect();
        assert_eq!(seeds.len(), 2);
        assert!(seeds.contains(&"[0, 2]".to_owned()) && seeds.contains(&"[2]".to_owned()), "{seeds:?}");
        assert!(written.contains("highest = 0.0003") && !written.contains("seed = "), "{written}");

        let again = Trainings::default();
        again.read_back(&kept);
        let table: Table = toml::from_str(&again.to_toml().unwrap().unwrap()).unwrap();
        let read_back = table["training"].as_array().unwrap();
        let first = entries.iter().find(|entry| entry["seeds"].to_string() == "[0, 2]");
        assert_eq!((read_back.len(), Some(&read_back[0])), (1, first));
        assert!(again.of_this_part().is_empty(), "what is read back was not trained now");
    }
}
