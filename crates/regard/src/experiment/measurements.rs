//! Every single measurement of an experiment, in a tidy table, and its summary over seeds.

use crate::statistics::{self, Interval, Sample};
use anyhow::{Result, bail};
use regard_nn::data::file::write_whole;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// A table with one value a row: under which conditions, with which seed, what was measured.
///
/// Asking it for something that was never measured is a mistake in the experiment, not a finding. The question is noted,
/// and [`Measurements::ensure_measured`] fails before anything is judged by an empty sample.
#[derive(Debug, Default)]
pub struct Measurements {
    conditions: Vec<&'static str>,
    rows: Vec<Row>,
    mistakes: Mutex<BTreeSet<String>>,
}

#[derive(Debug, Clone)]
struct Row {
    conditions: Vec<String>,
    seed: u64,
    measure: String,
    value: f64,
}

/// The values of one measure under the same conditions, over seeds.
#[derive(Debug, Clone)]
pub struct Summary {
    /// The conditions, in the table's order.
    pub conditions: Vec<String>,
    /// What was measured.
    pub measure: String,
    /// Mean, interval and number.
    pub interval: Interval,
    /// The standard deviation over seeds.
    pub deviation: f64,
}

impl Measurements {
    /// An empty table with these conditions, such as `["d_k", "scaled"]`.
    pub fn new(conditions: &[&'static str]) -> Self {
        Self { conditions: conditions.to_vec(), ..Self::default() }
    }

    /// Adds a value, under as many conditions as the table has.
    pub fn add(&mut self, conditions: &[&dyn Display], seed: u64, measure: impl Into<String>, value: f64) {
        let measure = measure.into();
        let conditions = self.checked(conditions, &measure);
        self.rows.push(Row { conditions, seed, measure, value });
    }

    /// The values of a measure under conditions, one a seed. Nothing measured is a mistake.
    pub fn values(&self, conditions: &[&dyn Display], measure: &str) -> Sample {
        let found = self.find(conditions, measure);
        if found.is_empty() {
            let conditions: Vec<String> = conditions.iter().map(ToString::to_string).collect();
            self.mistake(format!("nothing was measured as {measure:?} under ({})", conditions.join(", ")));
        }
        found
    }

    /// The same where nothing may have been measured.
    pub fn find(&self, conditions: &[&dyn Display], measure: &str) -> Sample {
        let conditions = self.checked(conditions, measure);
        let same = |row: &&Row| row.measure == measure && row.conditions == conditions;
        self.rows.iter().filter(same).map(|row| (row.seed, row.value)).collect()
    }

    /// Mean and interval of a measure under conditions, where nothing may have been measured: pictures leave it out.
    pub fn mean_if_measured(&self, conditions: &[&dyn Display], measure: &str) -> Interval {
        self.find(conditions, measure).mean()
    }

    /// Conditions as text. Fewer or more than the table has are a mistake: values under different conditions would be pooled.
    fn checked(&self, conditions: &[&dyn Display], measure: &str) -> Vec<String> {
        if conditions.len() != self.conditions.len() {
            let (got, expected) = (conditions.len(), self.conditions.join(", "));
            self.mistake(format!("{measure:?} was given {got} conditions, expected ({expected})"));
        }
        conditions.iter().map(ToString::to_string).collect()
    }

    fn mistake(&self, mistake: String) {
        self.mistakes.lock().unwrap_or_else(PoisonError::into_inner).insert(mistake);
    }

    /// Fails if the table was asked for something that was never measured.
    pub fn ensure_measured(&self) -> Result<()> {
        let mistakes = self.mistakes.lock().unwrap_or_else(PoisonError::into_inner);
        match mistakes.first() {
            Some(first) if mistakes.len() == 1 => bail!("{first}"),
            Some(first) => bail!("{first}; and {} more such mistakes", mistakes.len() - 1),
            None => Ok(()),
        }
    }

    /// Mean and interval of a measure under conditions.
    pub fn mean(&self, conditions: &[&dyn Display], measure: &str) -> Interval {
        self.values(conditions, measure).mean()
    }

    /// All seeds that anything was measured with.
    pub fn seeds(&self) -> Vec<u64> {
        let seeds: std::collections::BTreeSet<u64> = self.rows.iter().map(|row| row.seed).collect();
        seeds.into_iter().collect()
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// One line for each measure under each conditions, in the order they first came.
    pub fn summary(&self) -> Vec<Summary> {
        let mut groups: Vec<Vec<&Row>> = Vec::new();
        let mut known = std::collections::HashMap::new();
        for row in &self.rows {
            let key = (row.conditions.as_slice(), row.measure.as_str());
            let group = *known.entry(key).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[group].push(row);
        }
        let summary = |rows: Vec<&Row>| {
            let sample: Sample = rows.iter().map(|row| (row.seed, row.value)).collect();
            let first = rows.first()?;
            Some(Summary {
                conditions: first.conditions.clone(),
                measure: first.measure.clone(),
                interval: sample.mean(),
                deviation: statistics::deviation(&sample.values()),
            })
        };
        groups.into_iter().filter_map(summary).collect()
    }

    /// The names of the conditions.
    pub fn conditions(&self) -> &[&'static str] {
        &self.conditions
    }

    /// Writes every measurement.
    pub fn write(&self, path: &Path) -> Result<()> {
        let header = self.conditions.iter().map(ToString::to_string);
        let header = header.chain(["seed", "measure", "value"].map(str::to_owned)).collect();
        let rows = self.rows.iter().map(|row| {
            let rest = [row.seed.to_string(), row.measure.clone(), row.value.to_string()];
            row.conditions.iter().cloned().chain(rest).collect()
        });
        write_csv(path, header, rows)
    }

    /// Writes the summary.
    pub fn write_summary(&self, path: &Path) -> Result<()> {
        let header = self.conditions.iter().map(ToString::to_string);
        let header = header.chain(["measure", "mean", "sd", "n", "low", "high"].map(str::to_owned)).collect();
        let rows = self.summary().into_iter().map(|Summary { conditions, measure, interval, deviation }| {
            let Interval { mean, low, high, count, .. } = interval;
            let end = |value: f64| if value.is_finite() { value.to_string() } else { String::new() };
            let rest =
                [measure, mean.to_string(), deviation.to_string(), count.to_string(), end(low), end(high)];
            conditions.into_iter().chain(rest).collect()
        });
        write_csv(path, header, rows)
    }
}

/// Writes a table as CSV (RFC 4180).
pub fn write_csv(path: &Path, header: Vec<String>, rows: impl Iterator<Item = Vec<String>>) -> Result<()> {
    let line = |fields: Vec<String>| {
        let mut line = fields.iter().map(|field| quoted(field)).collect::<Vec<_>>().join(",");
        line.push('\n');
        line
    };
    let text: String = std::iter::once(header).chain(rows).map(line).collect();
    Ok(write_whole(path, |file| file.write_all(text.as_bytes()))?)
}

/// A field as a table has it: no minus before a zero, powers of ten instead of rows of zeros, quotes where they are needed.
fn quoted(field: &str) -> String {
    let digits = field.strip_prefix('-').unwrap_or(field);
    if digits == "0" || digits.starts_with("0.00000") {
        match field.parse::<f64>() {
            Ok(0.0) => return "0".to_owned(),
            Ok(value) => return format!("{value:e}"),
            Err(_) => {}
        }
    }
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiny_numbers_and_negative_zeros_are_short_in_tables() {
        let tiny = 1.25e-42_f64;
        assert_eq!(quoted(&tiny.to_string()), "1.25e-42");
        assert_eq!(quoted(&(-3e-9_f64).to_string()), "-3e-9");
        assert_eq!(quoted(&(-0.0_f64).to_string()), "0");
        for plain in ["0.00012", "-0.5", "0", "1e-42", "0.00000 of it", "a,b"] {
            assert_eq!(quoted(plain).trim_matches('"'), plain);
        }
    }

    #[test]
    fn measurements_come_back_by_condition_and_are_summed_up_over_seeds() {
        let mut table = Measurements::new(&["d_k", "scaled"]);
        for seed in 0..3 {
            for d_k in [4, 16] {
                table.add(&[&d_k, &true], seed, "entropy", f64::from(d_k) + seed as f64);
            }
        }
        assert_eq!(table.values(&[&16, &true], "entropy").values(), [16.0, 17.0, 18.0]);
        assert!(table.find(&[&16, &false], "entropy").is_empty());
        table.ensure_measured().unwrap();
        let summary = table.summary();
        assert_eq!(summary.len(), 2);
        assert_eq!(
            (summary[0].interval.mean, summary[0].deviation, summary[0].interval.count),
            (5.0, 1.0, 3)
        );
    }

    #[test]
    fn asking_for_what_was_not_measured_is_a_mistake() {
        let mut table = Measurements::new(&["d_k", "scaled"]);
        table.add(&[&4, &true], 0, "entropy", 1.0);
        assert_eq!(table.mean(&[&4, &true], "entropy").mean, 1.0);
        table.ensure_measured().unwrap();
        assert!(table.values(&[&4, &true], "entropie").is_empty());
        let problem = table.ensure_measured().unwrap_err().to_string();
        assert_eq!(problem, "nothing was measured as \"entropie\" under (4, true)");
        let mut pooled = Measurements::new(&["d_k", "scaled"]);
        pooled.add(&[&4, &true], 0, "entropy", 1.0);
        assert!(pooled.values(&[&4], "entropy").is_empty(), "conditions are never pooled");
        assert!(pooled.ensure_measured().is_err());
    }

    #[test]
    fn files_are_tidy_and_quoted_where_they_must_be() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        let mut table = Measurements::new(&["word"]);
        table.add(&[&"a, \"b\""], 7, "weight", 0.1);
        table.write(&path).unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "word,seed,measure,value\n\"a, \"\"b\"\"\",7,weight,0.1\n"
        );
        table.write_summary(&path).unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "word,measure,mean,sd,n,low,high\n\"a, \"\"b\"\"\",weight,0.1,0,1,,\n"
        );
    }
}
