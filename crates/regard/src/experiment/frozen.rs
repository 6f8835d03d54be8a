//! The freeze: every prediction, measure, bound and setting as it stood before any verdict was reached.
//!
//! `frozen.toml` is written from the code (`REGARD_FREEZE=1 cargo test --workspace --test lab the_report`), and a test fails where the
//! code no longer agrees with it. Its hash stands in every `verdict.json` and in every row of the [ledger](super::ledger). Who changes a
//! prediction, a measure, a bound or a setting after the freeze says so in [`Experiment::changed`], and writes the file again.

use super::findings::Findings;
use super::lab::{JUDGED_SEEDS, Lab};
use super::progress::Progress;
use super::store::Store;
use super::verdict::Check;
use super::{Experiment, Setup, Size};
use crate::run::RunConfig;
use anyhow::Result;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use toml::Value;

/// The file.
pub const FROZEN: &str = include_str!("frozen.toml");

/// The sizes at which models are listed; the smallest is for tests.
const SIZES: [Size; 4] = [Size::Quick, Size::Standard, Size::Full, Size::Large];

/// The SHA-256 of the file, in hexadecimal digits.
pub fn hash() -> String {
    Sha256::digest(FROZEN).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[derive(Serialize)]
struct File {
    about: &'static str,
    judged_seeds_from: u64,
    experiment: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    name: &'static str,
    claims: &'static [&'static str],
    question: &'static str,
    prediction: &'static str,
    measure: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    changed_after_freeze: Option<&'static str>,
    seeds: String,
    /// The experiment whose models these are, if another one before it trains the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    models_of: Option<&'static str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    settings: BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    models: BTreeMap<String, String>,
    check: Vec<Stated>,
}

/// What must be so.
#[derive(Serialize)]
struct Stated {
    claim: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repeats: Option<&'static str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    precondition: bool,
    measured: String,
    must_be: String,
}

/// The file as the code would have it, from experiments that were run at any size. `known` restricts the settings of models to
/// those of that file: a setting that training got after the freeze, and that no experiment changes, is no change of an experiment.
pub fn describe<'a>(
    results: impl Iterator<Item = (&'a Experiment, &'a Findings)>,
    store: &Store,
    known: Option<&str>,
) -> Result<String> {
    let known: Option<BTreeSet<String>> = known.map(listed).transpose()?;
    let mut experiment: Vec<Entry> = Vec::new();
    let mut trained: Vec<(&'static str, BTreeMap<String, String>)> = Vec::new();
    for (one, findings) in results {
        let mut models = models(one, store)?;
        if let Some(known) = &known {
            models.retain(|key, _| known.contains(key));
        }
        let same = trained.iter().find(|(_, known)| !models.is_empty() && *known == models);
        let models_of = same.map(|(name, _)| *name);
        if models_of.is_some() {
            models.clear();
        } else {
            trained.push((one.name, models.clone()));
        }
        experiment.push(Entry {
            name: one.name,
            claims: one.claims,
            question: one.question,
            prediction: one.prediction,
            measure: one.design,
            changed_after_freeze: one.changed,
            seeds: one.seeds.to_string(),
            models_of,
            settings: findings.settings.clone(),
            models,
            check: stated(findings),
        });
    }
    let file = File {
        about: "Predictions, measures, bounds and settings as they stood before judging. Written from the code; see \
                docs/experiments.md.",
        judged_seeds_from: JUDGED_SEEDS,
        experiment,
    };
    Ok(toml::to_string_pretty(&file)?)
}

fn stated(findings: &Findings) -> Vec<Stated> {
    let all = findings.verdicts.iter().flat_map(|verdict| {
        let one = |precondition: bool| {
            move |check: &Check| Stated {
                claim: verdict.claim,
                part: check.part.clone(),
                repeats: check.repeats,
                precondition,
                measured: check.what.clone(),
                must_be: check.bound.to_string(),
            }
        };
        verdict.preconditions.iter().map(one(true)).chain(verdict.checks.iter().map(one(false)))
    });
    all.collect()
}

/// The settings of an experiment's models: each value, or the values of several models, at each size.
fn models(experiment: &Experiment, store: &Store) -> Result<BTreeMap<String, String>> {
    let progress = Progress::silent();
    let mut by_key: BTreeMap<String, Vec<(Size, BTreeSet<String>)>> = BTreeMap::new();
    for size in SIZES.into_iter().filter(|&size| experiment.has(size)) {
        let setup = Setup::of(size);
        for config in (experiment.trains)(&Lab::new(experiment, setup, store, &progress))? {
            for (key, value) in flat(&config)? {
                let sizes = by_key.entry(key).or_default();
                match sizes.last_mut() {
                    Some((last, values)) if *last == size => {
                        values.insert(value);
                    }
                    _ => sizes.push((size, BTreeSet::from([value]))),
                }
            }
        }
    }
    let text = |values: &BTreeSet<String>| values.iter().cloned().collect::<Vec<_>>().join(" or ");
    let line = |sizes: &Vec<(Size, BTreeSet<String>)>| match sizes.as_slice() {
        [(_, first), rest @ ..] if rest.iter().all(|(_, values)| values == first) => text(first),
        sizes => {
            let all = sizes.iter().map(|(size, values)| format!("{} {}", size.name(), text(values)));
            all.collect::<Vec<_>>().join(", ")
        }
    };
    Ok(by_key.iter().map(|(key, sizes)| (key.clone(), line(sizes))).collect())
}

/// The settings of a training by their dotted names, without what is not about the model or its training.
fn flat(config: &RunConfig) -> Result<Vec<(String, String)>> {
    fn add(out: &mut Vec<(String, String)>, name: &str, value: &Value) {
        match value {
            Value::Table(table) => {
                for (key, value) in table {
                    let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                    add(out, &name, value);
                }
            }
            value => out.push((name.to_owned(), value.to_string().replace('"', ""))),
        }
    }
    let mut all = Vec::new();
    add(&mut all, "", &toml::from_str(&toml::to_string(config)?)?);
    let apart = ["about", "run.", "train.seed", "model.vocabulary"];
    all.retain(|(name, _)| !apart.iter().any(|prefix| name.starts_with(prefix)));
    Ok(all)
}

/// The names of all settings of models that a file lists.
fn listed(file: &str) -> Result<BTreeSet<String>> {
    let file: toml::Table = toml::from_str(file)?;
    let experiments = file.get("experiment").and_then(Value::as_array).into_iter().flatten();
    let models = experiments.filter_map(|one| one.get("models")?.as_table());
    Ok(models.flat_map(|models| models.keys().cloned()).collect())
}
