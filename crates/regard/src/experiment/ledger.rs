//! The ledger: verdicts of runs of every size, side by side, as they ship with the program.
//!
//! `records/verdicts.csv` has a row for each claim and each of its parts, by size, data and device; `records/facts.csv` the numbers that
//! sentences of the report use. `regard experiment NAME --record FOLDER` adds its rows to both, in place of earlier ones of the same
//! claim, size, data and device.

use super::findings::Findings;
use super::measurements::write_csv;
use super::verdict::{Check, Outcome, Verdict};
use super::{Data, Experiment, Key, Setup, Size, frozen};
use anyhow::{Context as _, Result, bail};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The verdicts that ship with the program.
const VERDICTS: &str = include_str!("../../records/verdicts.csv");
/// The facts that do.
const FACTS: &str = include_str!("../../records/facts.csv");

const COLUMNS: [&str; 13] = [
    "claim", "part", "size", "data", "device", "outcome", "measured", "effect", "low", "high", "n", "freeze",
    "date",
];
const FACT_COLUMNS: [&str; 8] = ["experiment", "fact", "size", "data", "device", "value", "freeze", "date"];

/// Where a run stands in the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// How large it was.
    pub size: Size,
    /// What it was run on: `built-in`, `drawn` or the name of a data set.
    pub data: String,
    /// The device.
    pub device: String,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.size.name())?;
        match self.data.as_str() {
            "built-in" | "drawn" => Ok(()),
            data => write!(f, ", {data}"),
        }
    }
}

/// A verdict on a claim, or on a part of one.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The claim.
    pub claim: String,
    /// Its part; empty for the whole.
    pub part: String,
    /// Where it was reached.
    pub place: Place,
    /// How it came out.
    pub outcome: Outcome,
    /// What decided.
    pub measured: String,
    /// Its mean, the ends of its interval, and the number of seeds; what is missing is not a number.
    pub effect: [f64; 4],
    /// The first digits of the hash of the freeze that it was judged by.
    pub freeze: String,
    /// The day, as 2026-11-18.
    pub date: String,
}

/// A number for a sentence.
#[derive(Debug, Clone, PartialEq)]
struct FactRow {
    experiment: String,
    fact: String,
    place: Place,
    value: f64,
    freeze: String,
    date: String,
}

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

    /// The verdict on a claim of the largest run; of several that are as large, one on real data, then the latest.
    pub fn largest(&self, claim: &str) -> Option<&Row> {
        let of_claim = self.rows.iter().filter(|row| row.claim == claim && row.part.is_empty());
        of_claim.max_by_key(|row| (row.place.size, row.place.data != "built-in", row.date.clone()))
    }

    /// The verdict on a claim at a place.
    pub fn at(&self, claim: &str, place: &Place) -> Option<&Row> {
        self.rows.iter().find(|row| row.claim == claim && row.part.is_empty() && row.place == *place)
    }

    /// A fact at a place.
    pub fn fact(&self, key: &Key, place: &Place) -> Option<f64> {
        let same =
            |row: &&FactRow| row.experiment == key.experiment && row.fact == key.name && row.place == *place;
        self.facts.iter().find(same).map(|row| row.value)
    }

    /// Adds what an experiment found, in place of what was known of the same claims at the same place.
    pub fn add(&mut self, experiment: &Experiment, setup: &Setup, findings: &Findings) {
        let place = place(experiment, setup);
        let (freeze, date) = (frozen::hash()[..12].to_owned(), today());
        self.rows.retain(|row| row.place != place || !experiment.claims.contains(&row.claim.as_str()));
        for verdict in &findings.verdicts {
            let one = |part: &str, outcome: Outcome, check: Option<&Check>| Row {
                claim: verdict.claim.to_owned(),
                part: part.to_owned(),
                place: place.clone(),
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

    /// Writes both tables to a folder, in order.
    pub fn write(&mut self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create the folder {}", folder.display()))?;
        let order = |claim: &str| super::claims::CLAIMS.iter().position(|known| known.id == claim);
        // Parts stay in the order of their verdict.
        self.rows.sort_by_key(|row| {
            (order(&row.claim), row.place.size, row.place.data.clone(), row.place.device.clone())
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
    let read = |name: &str, columns: &[&str]| match std::fs::read_to_string(folder.join(name)) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(columns.join(",") + "\n"),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", folder.join(name).display())),
    };
    let mut ledger = Ledger::read(&read("verdicts.csv", &COLUMNS)?, &read("facts.csv", &FACT_COLUMNS)?)
        .with_context(|| format!("the ledger in {}", folder.display()))?;
    ledger.add(experiment, setup, findings);
    ledger.write(folder)
}

/// Why a run cannot be recorded, if it cannot: only what was judged as frozen is.
pub fn obstacle(setup: &Setup) -> Option<&'static str> {
    match setup {
        Setup { develop: true, .. } => Some("the seeds of development (--develop) judge nothing"),
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
    Place { size: setup.size, data, device: "cpu".to_owned() }
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

impl Row {
    fn fields(&self) -> Vec<String> {
        let number = |value: f64| if value.is_finite() { value.to_string() } else { String::new() };
        let Place { size, data, device } = &self.place;
        let [effect, low, high, n] = self.effect.map(number);
        [
            &self.claim,
            &self.part,
            size.name(),
            data,
            device,
            self.outcome.name(),
            &self.measured,
            &effect,
            &low,
            &high,
            &n,
            &self.freeze,
            &self.date,
        ]
        .map(str::to_owned)
        .to_vec()
    }
}

impl FactRow {
    fn fields(&self) -> Vec<String> {
        let value = if self.value.is_finite() { self.value.to_string() } else { String::new() };
        let Place { size, data, device } = &self.place;
        [&self.experiment, &self.fact, size.name(), data, device, &value, &self.freeze, &self.date]
            .map(str::to_owned)
            .to_vec()
    }
}

fn place_of(size: &str, data: &str, device: &str) -> Result<Place> {
    let size = Size::named(size).with_context(|| format!("there is no size {size:?}"))?;
    Ok(Place { size, data: data.to_owned(), device: device.to_owned() })
}

/// A number, or nothing.
fn number(field: &str) -> Result<f64> {
    match field {
        "" => Ok(f64::NAN),
        field => field.parse().with_context(|| format!("{field:?} is not a number")),
    }
}

fn row(fields: &[String]) -> Result<Row> {
    let [claim, part, size, data, device, outcome, measured, effect, low, high, n, freeze, date] = fields
    else {
        bail!("a row has {} fields, expected {}", fields.len(), COLUMNS.len())
    };
    Ok(Row {
        claim: claim.clone(),
        part: part.clone(),
        place: place_of(size, data, device)?,
        outcome: Outcome::named(outcome).with_context(|| format!("there is no outcome {outcome:?}"))?,
        measured: measured.clone(),
        effect: [number(effect)?, number(low)?, number(high)?, number(n)?],
        freeze: freeze.clone(),
        date: date.clone(),
    })
}

fn fact_row(fields: &[String]) -> Result<FactRow> {
    let [experiment, fact, size, data, device, value, freeze, date] = fields else {
        bail!("a row has {} fields, expected {}", fields.len(), FACT_COLUMNS.len())
    };
    Ok(FactRow {
        experiment: experiment.clone(),
        fact: fact.clone(),
        place: place_of(size, data, device)?,
        value: number(value)?,
        freeze: freeze.clone(),
        date: date.clone(),
    })
}

/// The rows of a table with these columns (RFC 4180, without line breaks in fields).
fn parsed(text: &str, columns: &[&str]) -> Result<Vec<Vec<String>>> {
    let mut lines = text.lines();
    let header = fields(lines.next().unwrap_or_default());
    if header != columns {
        bail!("expected the columns {}, got {}", columns.join(","), header.join(","));
    }
    Ok(lines.filter(|line| !line.is_empty()).map(fields).collect())
}

fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut rest = line.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '"' if quoted && rest.peek() == Some(&'"') => {
                field.push('"');
                rest.next();
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field)),
            character => field.push(character),
        }
    }
    fields.push(field);
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Bound, Check};
    use crate::experiments::find;
    use crate::statistics::mean;

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
        assert!(obstacle(&Setup { develop: true, ..setup(Size::Full) }).is_some());
        assert!(obstacle(&setup(Size::Smoke)).is_some());
    }

    #[test]
    fn today_is_a_date() {
        let today = today();
        let parts: Vec<u32> = today.split('-').map(|part| part.parse().unwrap()).collect();
        assert!(parts[0] >= 2026 && (1..=12).contains(&parts[1]) && (1..=31).contains(&parts[2]), "{today}");
    }
}
