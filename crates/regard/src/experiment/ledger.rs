//! The ledger: verdicts of runs of every size, side by side, as they ship with the program.
//!
//! `records/verdicts.csv` has a row for each claim and each of its parts, by size, data, device and kind of seeds; `records/facts.csv`
//! the numbers that sentences of the report use. `regard experiment NAME --record FOLDER` adds its rows to both, in place of earlier
//! ones of the same claim, size, data, device and seeds. Several processes may do so at once: they take turns.
//!
//! Verdicts with the seeds of development stand beside the judged ones, so that a contradiction between the two shows.

mod contradiction;
mod rows;

pub use contradiction::Contradiction;
pub use rows::{Place, Row, Seeds};

use super::findings::Findings;
use super::measurements::write_csv;
use super::verdict::{Check, Outcome, Verdict};
use super::{Data, Experiment, Key, Setup, Size, frozen};
use crate::compute::Placement;
use anyhow::{Context as _, Result};
use regard_tensor::Device;
use rows::{COLUMNS, FACT_COLUMNS, FactRow, fact_row, parsed, row};
use std::fs::File;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The verdicts that ship with the program.
const VERDICTS: &str = include_str!("../../records/verdicts.csv");
/// The facts that do.
const FACTS: &str = include_str!("../../records/facts.csv");

/// Recorded verdicts and facts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ledger {
    rows: Vec<Row>,
    facts: Vec<FactRow>,
}

impl Ledger {
    /// What ships with the program.
    pub fn shipped() -> Result<Self> {
        Self::read(VERDICTS, FACTS).context("the ledger that ships with the program")
    }

    /// Reads the two tables.
    pub fn read(verdicts: &str, facts: &str) -> Result<Self> {
        let rows = parsed(verdicts, &COLUMNS)?.iter().map(|fields| row(fields)).collect::<Result<_>>()?;
        let facts =
            parsed(facts, &FACT_COLUMNS)?.iter().map(|fields| fact_row(fields)).collect::<Result<_>>()?;
        Ok(Self { rows, facts })
    }

    /// The judged verdicts on whole claims.
    fn judged(&self, claim: &str) -> impl Iterator<Item = &Row> {
        self.rows
            .iter()
            .filter(move |row| row.claim == claim && row.part.is_empty() && row.seeds == Seeds::Judged)
    }

    /// The judged verdict on a claim of the largest run; of several that are as large, one on real data, then the latest.
    pub fn largest(&self, claim: &str) -> Option<&Row> {
        self.judged(claim).max_by_key(|row| (row.place.size, row.place.data != "built-in", row.date.clone()))
    }

    /// The judged verdicts on a claim, from the smallest run to the largest.
    pub fn of_claim(&self, claim: &str) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.judged(claim).collect();
        rows.sort_by_key(|row| (row.place.size, row.place.data != "built-in", row.place.device.clone()));
        rows
    }

    /// The judged verdict on a claim at a place.
    pub fn at(&self, claim: &str, place: &Place) -> Option<&Row> {
        self.judged(claim).find(|row| row.place == *place)
    }

    /// What seeds of development had said of a claim at the same size and on the same data, if a judged verdict differs from it.
    pub fn contradiction(&self, claim: &str, place: &Place, judged: Outcome) -> Option<Contradiction<'_>> {
        let comparable = |row: &&Row| {
            row.seeds == Seeds::Developed
                && row.claim == claim
                && row.part.is_empty()
                && row.place.size == place.size
                && row.place.data == place.data
        };
        // Of several devices, that of the run; else the latest.
        let developed = self
            .rows
            .iter()
            .filter(comparable)
            .max_by_key(|row| (row.place.device == place.device, row.date.clone()))?;
        (developed.outcome != judged).then_some(Contradiction { developed, judged })
    }

    /// The same for the verdict of a run, if it was judged as frozen: with other seeds nothing can be compared.
    pub fn remark(
        &self,
        experiment: &Experiment,
        setup: &Setup,
        verdict: &Verdict,
    ) -> Option<Contradiction<'_>> {
        if setup.develop || obstacle(setup).is_some() {
            return None;
        }
        self.contradiction(verdict.claim, &place(experiment, setup), verdict.outcome)
    }

    /// A fact at a place.
    pub fn fact(&self, key: &Key, place: &Place) -> Option<f64> {
        let same =
            |row: &&FactRow| row.experiment == key.experiment && row.fact == key.name && row.place == *place;
        self.facts.iter().find(same).map(|row| row.value)
    }

    /// Adds what an experiment found, in place of what was known of the same claims at the same place.
    pub fn add(&mut self, experiment: &Experiment, setup: &Setup, findings: &Findings) {
        let (place, seeds) = (place(experiment, setup), Seeds::of(setup));
        let (freeze, date) = (frozen::hash()[..12].to_owned(), today());
        self.rows.retain(|row| {
            row.place != place || row.seeds != seeds || !experiment.claims.contains(&row.claim.as_str())
        });
        for verdict in &findings.verdicts {
            let one = |part: &str, outcome: Outcome, check: Option<&Check>| Row {
                claim: verdict.claim.to_owned(),
                part: part.to_owned(),
                place: place.clone(),
                seeds,
                outcome,
                measured: check.map(|check| check.what.clone()).unwrap_or_default(),
                effect: check.map_or([f64::NAN; 4], |check| {
                    let effect = &check.effect;
                    [effect.mean, effect.low, effect.high, effect.count as f64]
                }),
                freeze: freeze.clone(),
                date: date.clone(),
            };
            self.rows.push(one("", verdict.outcome, deciding(verdict)));
            if verdict.parts.len() > 1 {
                for part in &verdict.parts {
                    let checks =
                        || verdict.checks.iter().filter(|check| check.part.as_deref() == Some(&part.name));
                    let check =
                        checks().find(|check| check.outcome == part.outcome).or_else(|| checks().next());
                    self.rows.push(one(&part.name, part.outcome, check));
                }
            }
        }
        // The report's sentences are about judged runs alone.
        if seeds == Seeds::Developed {
            return;
        }
        self.facts.retain(|row| row.place != place || row.experiment != experiment.name);
        self.facts.extend(findings.facts.iter().map(|(fact, &value)| FactRow {
            experiment: experiment.name.to_owned(),
            fact: fact.clone(),
            place: place.clone(),
            value,
            freeze: freeze.clone(),
            date: date.clone(),
        }));
    }

    /// Adds the rows of another ledger, such as one from another machine, in place of those of the same claim, place and seeds that
    /// are not newer.
    pub fn merge(&mut self, other: Ledger) {
        let same = |a: &Row, b: &Row| a.claim == b.claim && a.place == b.place && a.seeds == b.seeds;
        let newer =
            |rows: &[Row], row: &Row| rows.iter().any(|known| same(known, row) && known.date > row.date);
        let rows: Vec<Row> = other.rows.into_iter().filter(|row| !newer(&self.rows, row)).collect();
        self.rows.retain(|known| !rows.iter().any(|row| same(known, row)));
        self.rows.extend(rows);
        let same = |a: &FactRow, b: &FactRow| a.experiment == b.experiment && a.place == b.place;
        let newer = |rows: &[FactRow], row: &FactRow| {
            rows.iter().any(|known| same(known, row) && known.date > row.date)
        };
        let facts: Vec<FactRow> = other.facts.into_iter().filter(|row| !newer(&self.facts, row)).collect();
        self.facts.retain(|known| !facts.iter().any(|row| same(known, row)));
        self.facts.extend(facts);
    }

    /// Writes both tables to a folder, in order.
    pub fn write(&mut self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create the folder {}", folder.display()))?;
        let order = |claim: &str| super::claims::CLAIMS.iter().position(|known| known.id == claim);
        // Parts stay in the order of their verdict.
        self.rows.sort_by_key(|row| {
            let Place { size, data, device } = &row.place;
            (order(&row.claim), *size, data.clone(), device.clone(), row.seeds.name())
        });
        self.facts.sort_by_key(|row| {
            (
                row.experiment.clone(),
                row.place.size,
                row.place.data.clone(),
                row.place.device.clone(),
                row.fact.clone(),
            )
        });
        let header = |columns: &[&str]| columns.iter().map(ToString::to_string).collect();
        write_csv(&folder.join("verdicts.csv"), header(&COLUMNS), self.rows.iter().map(Row::fields))?;
        write_csv(&folder.join("facts.csv"), header(&FACT_COLUMNS), self.facts.iter().map(FactRow::fields))
    }
}

/// Adds what an experiment found to the tables in a folder; begins them if there are none.
pub fn record(folder: &Path, experiment: &Experiment, setup: &Setup, findings: &Findings) -> Result<()> {
    update(folder, |ledger| ledger.add(experiment, setup, findings))
}

/// Adds the tables in one folder to those in another.
pub fn merge(folder: &Path, other: &Path) -> Result<()> {
    let other = in_folder(other)?;
    update(folder, |ledger| ledger.merge(other))
}

/// Changes the tables in a folder while no other process does.
fn update(folder: &Path, change: impl FnOnce(&mut Ledger)) -> Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create the folder {}", folder.display()))?;
    // The lock is on the folder itself, and ends with the handle. Systems that open no folders have no lock.
    let _turn = File::open(folder).ok().filter(|folder| folder.lock().is_ok());
    let mut ledger = in_folder(folder)?;
    change(&mut ledger);
    ledger.write(folder)
}

/// The tables in a folder; those that are not there are empty.
fn in_folder(folder: &Path) -> Result<Ledger> {
    let read = |name: &str, columns: &[&str]| match std::fs::read_to_string(folder.join(name)) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(columns.join(",") + "\n"),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", folder.join(name).display())),
    };
    Ledger::read(&read("verdicts.csv", &COLUMNS)?, &read("facts.csv", &FACT_COLUMNS)?)
        .with_context(|| format!("the ledger in {}", folder.display()))
}

/// Why a run cannot be recorded, if it cannot: only what was judged as frozen is.
pub fn obstacle(setup: &Setup) -> Option<&'static str> {
    match setup {
        Setup { seeds: Some(_), .. } => Some("the number of seeds is frozen: leave out --seeds"),
        Setup { size: Size::Smoke, .. } => Some("verdicts of the smallest size mean nothing"),
        _ => None,
    }
}

/// Where a run of an experiment stands.
pub fn place(experiment: &Experiment, setup: &Setup) -> Place {
    let data = match (experiment.data, setup.data) {
        (Data::Drawn, _) => "drawn".to_owned(),
        (_, None) => "built-in".to_owned(),
        (_, Some(path)) => path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
    };
    let Placement { device, precision } = setup.placement;
    let device = match (device, precision.is_f32()) {
        (Device::Cpu, _) => "cpu".to_owned(),
        (_, true) => setup.placement.identity(),
        (_, false) => format!("{}, {}", setup.placement.identity(), precision.name()),
    };
    Place { size: setup.size, data, device }
}

/// What decided a verdict: of a claim that fails, what failed; of one that is open, what keeps it from holding.
pub fn deciding(verdict: &Verdict) -> Option<&Check> {
    let counted = || verdict.checks.iter().filter(|check| check.repeats.is_none());
    let wanted = if verdict.outcome == Outcome::InPart { Outcome::Fails } else { verdict.outcome };
    counted()
        .find(|check| check.outcome == wanted)
        .or_else(|| counted().find(|check| check.outcome != Outcome::Holds))
        .or_else(|| counted().next())
}

/// The day, as 2026-11-18.
fn today() -> String {
    let days = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / 86_400);
    // Howard Hinnant's days-to-civil: eras of 400 years, years that begin in March.
    let shifted = days as i64 + 719_468;
    let era = shifted.div_euclid(146_097);
    let day = shifted.rem_euclid(146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Bound, Check};
    use crate::experiments::find;
    use crate::statistics::mean;
    use regard_nn::train::Precision;

    fn setup(size: Size) -> Setup<'static> {
        Setup::of(size)
    }

    fn findings(outcome: Outcome, fact: f64) -> Findings {
        let at = |sign: f64| mean(&[sign, 1.1 * sign, 0.9 * sign]);
        let part = |name: &str, sign: f64| Check::new("a, \"b\"", at(sign), Bound::Above(0.0)).part(name);
        let signs = match outcome {
            Outcome::Holds => [1.0, 1.0],
            Outcome::InPart => [1.0, -1.0],
            _ => [-1.0, -1.0],
        };
        let mut findings = Findings::default();
        let checks = vec![part("one", signs[0]), part("other", signs[1])];
        findings.verdicts = vec![Verdict::new("E9", checks, "")];
        findings.facts.insert("accuracy: GPT, left".to_owned(), fact);
        findings
    }

    #[test]
    fn what_is_written_is_read_back_and_the_largest_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let experiment = find("three-architectures").unwrap();
        for (size, outcome, fact) in [
            (Size::Quick, Outcome::Fails, 0.1),
            (Size::Full, Outcome::InPart, 0.5),
            (Size::Quick, Outcome::Holds, 0.2),
        ] {
            record(folder.path(), experiment, &setup(size), &findings(outcome, fact)).unwrap();
        }
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        let ledger = Ledger::read(&read("verdicts.csv"), &read("facts.csv")).unwrap();
        assert_eq!(
            ledger.rows.len(),
            2 * 3,
            "the claim and its two parts at each size, the last run of each"
        );
        let largest = ledger.largest("E9").unwrap();
        assert_eq!(
            (largest.place.size, largest.outcome, largest.effect[0]),
            (Size::Full, Outcome::InPart, -1.0)
        );
        let quick = ledger.at("E9", &place(experiment, &setup(Size::Quick))).unwrap();
        assert_eq!((quick.outcome, quick.measured.as_str()), (Outcome::Holds, "a, \"b\""));
        let key = Key { experiment: "three-architectures", name: "accuracy: GPT, left".to_owned() };
        assert_eq!(ledger.fact(&key, &largest.place), Some(0.5));
        assert_eq!(ledger.fact(&key, &quick.place), Some(0.2));
        assert!(Ledger::read("claim\n", &read("facts.csv")).is_err());
    }

    fn ledger_of(rows: &[(Setup, Outcome)]) -> Ledger {
        let mut ledger = Ledger::default();
        for (setup, outcome) in rows {
            ledger.add(find("three-architectures").unwrap(), setup, &findings(*outcome, 0.5));
        }
        ledger
    }

    #[test]
    fn devices_stand_side_by_side() {
        let placement = |precision| Placement { device: Device::Cuda(0), precision };
        let on = |precision| Setup { placement: placement(precision), ..setup(Size::Full) };
        let gpu = on(Precision::F32);
        let all = [setup(Size::Full), gpu, on(Precision::Bf16)];
        let ledger =
            ledger_of(&[(all[0], Outcome::Holds), (all[1], Outcome::Fails), (all[2], Outcome::InPart)]);
        let experiment = find("three-architectures").unwrap();
        let at = |setup| ledger.at("E9", &place(experiment, &setup)).unwrap().outcome;
        assert_eq!(all.map(at), [Outcome::Holds, Outcome::Fails, Outcome::InPart]);
        assert_eq!(ledger.of_claim("E9").len(), 3);
    }

    #[test]
    fn judged_and_developed_verdicts_are_told_apart_and_compared() {
        let develop = Setup { develop: true, ..setup(Size::Full) };
        let ledger = ledger_of(&[(setup(Size::Quick), Outcome::Holds), (develop, Outcome::InPart)]);
        assert_eq!(ledger.largest("E9").unwrap().place.size, Size::Quick, "development seeds are no verdict");
        let experiment = find("three-architectures").unwrap();
        let [quick, full] = [Size::Quick, Size::Full].map(|size| place(experiment, &setup(size)));
        let key = Key { experiment: "three-architectures", name: "accuracy: GPT, left".to_owned() };
        assert_eq!((ledger.fact(&key, &quick), ledger.fact(&key, &full)), (Some(0.5), None));
        assert!(ledger.contradiction("E9", &quick, Outcome::Fails).is_none(), "another size");
        assert!(ledger.contradiction("E9", &full, Outcome::InPart).is_none(), "the same");
        let fails = ledger.contradiction("E9", &full, Outcome::Fails).unwrap();
        assert!(
            fails.is_decided()
                && fails.to_string().contains("contradicts")
                && fails.to_string().contains("in part")
        );
        let open = ledger.contradiction("E9", &full, Outcome::Undecided).unwrap();
        assert!(!open.is_decided() && !open.to_string().contains("contradicts"));
    }

    #[test]
    fn ledgers_of_two_machines_are_merged_in_any_order() {
        let [quick, full] = [Size::Quick, Size::Full].map(setup);
        let here = ledger_of(&[(quick, Outcome::Holds)]);
        let mut there = ledger_of(&[(quick, Outcome::Fails), (full, Outcome::Fails)]);
        there.rows.iter_mut().for_each(|row| row.date = "2000-01-01".to_owned());
        there.facts.iter_mut().for_each(|row| row.date = "2000-01-01".to_owned());
        let merged = |mut one: Ledger, other: Ledger| {
            one.merge(other);
            let outcome =
                |setup| one.at("E9", &place(find("three-architectures").unwrap(), &setup)).unwrap().outcome;
            (one.rows.len(), one.facts.len(), [quick, full].map(outcome))
        };
        let expected = (2 * 3, 2, [Outcome::Holds, Outcome::Fails]);
        assert_eq!(merged(here.clone(), there.clone()), expected, "the newer one stays");
        assert_eq!(merged(there, here), expected);
    }

    #[test]
    fn processes_that_record_at_once_lose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let sizes = [Size::Quick, Size::Standard, Size::Full, Size::Large];
        std::thread::scope(|scope| {
            for size in sizes {
                let folder = folder.path();
                scope.spawn(move || {
                    let experiment = find("three-architectures").unwrap();
                    record(folder, experiment, &setup(size), &findings(Outcome::Holds, 0.5)).unwrap();
                });
            }
        });
        assert_eq!(in_folder(folder.path()).unwrap().of_claim("E9").len(), sizes.len());
    }

    #[test]
    fn the_shipped_ledger_can_be_read_and_is_about_known_claims() {
        let ledger = Ledger::shipped().unwrap();
        for row in &ledger.rows {
            assert!(super::super::claims::claim(&row.claim).is_some(), "{}", row.claim);
        }
        for row in &ledger.facts {
            assert!(find(&row.experiment).is_some(), "{}", row.experiment);
        }
    }

    #[test]
    fn only_frozen_runs_are_recorded() {
        assert_eq!(obstacle(&setup(Size::Quick)), None);
        assert!(obstacle(&Setup { seeds: Some(3), ..setup(Size::Quick) }).is_some());
        assert!(obstacle(&setup(Size::Smoke)).is_some());
    }

    #[test]
    fn today_is_a_date() {
        let today = today();
        let parts: Vec<u32> = today.split('-').map(|part| part.parse().unwrap()).collect();
        assert!(parts[0] >= 2026 && (1..=12).contains(&parts[1]) && (1..=31).contains(&parts[2]), "{today}");
    }
}
