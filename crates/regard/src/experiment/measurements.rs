//! Every single measurement of an experiment, in a tidy table, and its summary over seeds.

use crate::statistics::{self, Interval, Sample};
use anyhow::{Result, bail};
use regard_nn::data::file::write_whole;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Display;
use std::io::Write;
use std::path::Path;

/// Every measurement of an experiment, one value a row: under which conditions, with which seed, what was measured.
#[derive(Debug, Default)]
pub struct Measurements {
    conditions: Vec<&'static str>,
    rows: Vec<Row>,
}

#[derive(Debug, Clone)]
pub(super) struct Row {
    pub conditions: Vec<String>,
    pub seed: u64,
    pub measure: String,
    pub value: f64,
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
    /// Measurements under these conditions, one value of each in every row.
    pub(super) fn new(conditions: &[&'static str], rows: Vec<Row>) -> Result<Self> {
        if let Some(row) = rows.iter().find(|row| row.conditions.len() != conditions.len()) {
            let (got, expected) = (row.conditions.join(", "), conditions.join(", "));
            bail!("{:?} was measured under ({got}), expected ({expected})", row.measure);
        }
        Ok(Self { conditions: conditions.to_vec(), rows })
    }

    /// Mean and interval of a measure under conditions; of what was not measured, [`Interval::nothing`].
    pub fn mean(&self, conditions: &[&dyn Display], measure: &str) -> Interval {
        let conditions: Vec<String> = conditions.iter().map(ToString::to_string).collect();
        select(&self.rows, &conditions, measure).mean()
    }

    /// All seeds that anything was measured with.
    pub fn seeds(&self) -> Vec<u64> {
        let seeds: BTreeSet<u64> = self.rows.iter().map(|row| row.seed).collect();
        seeds.into_iter().collect()
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// One line for each measure under each condition, in the order they first came.
    pub fn summary(&self) -> Vec<Summary> {
        summary(&self.rows)
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

/// The values of a measure under conditions, by seed.
pub(super) fn select(rows: &[Row], conditions: &[String], measure: &str) -> Sample {
    let same = |row: &&Row| row.measure == measure && row.conditions == conditions;
    rows.iter().filter(same).map(|row| (row.seed, row.value)).collect()
}

/// One line for each measure under each condition, in the order they first came.
pub(super) fn summary(rows: &[Row]) -> Vec<Summary> {
    let mut groups: Vec<Vec<&Row>> = Vec::new();
    let mut known = HashMap::new();
    for row in rows {
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

    fn row(word: &str, seed: u64, value: f64) -> Row {
        Row { conditions: vec![word.to_owned()], seed, measure: "weight".to_owned(), value }
    }

    #[test]
    fn rows_must_have_a_value_for_every_condition() {
        let table = Measurements::new(&["word"], vec![row("a", 0, 1.0), row("a", 1, 3.0)]).unwrap();
        assert_eq!(table.mean(&[&"a"], "weight").mean, 2.0);
        assert!(table.mean(&[&"b"], "weight").mean.is_nan());
        let problem = Measurements::new(&["word", "d_k"], vec![row("a", 0, 1.0)]).unwrap_err().to_string();
        assert_eq!(problem, "\"weight\" was measured under (a), expected (word, d_k)");
    }

    #[test]
    fn files_are_tidy_and_quoted_where_they_must_be() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        let table = Measurements::new(&["word"], vec![row("a, \"b\"", 7, 0.1)]).unwrap();
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
