//! Measurements by typed conditions: a condition that the experiment does not have does not compile.

use super::measurements::{self, Measurements, Row, Summary};
use crate::statistics::{Interval, Sample};
use anyhow::{Result, bail};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};

/// What a measurement was made under: one value for each condition column of the table. Tuples have the columns of their
/// members, one after the other.
pub trait Condition {
    /// The value in each column.
    fn columns(self) -> Vec<String>;
}

macro_rules! displayed {
    ($($kind:ty),*) => {
        $(impl Condition for $kind {
            fn columns(self) -> Vec<String> {
                vec![self.to_string()]
            }
        })*
    };
}

displayed!(bool, u32, u64, usize, f32, f64, &str, String);

macro_rules! tuples {
    ($($member:ident),*) => {
        impl<$($member: Condition),*> Condition for ($($member,)*) {
            #[allow(non_snake_case)]
            fn columns(self) -> Vec<String> {
                let ($($member,)*) = self;
                [$($member.columns()),*].concat()
            }
        }
    };
}

tuples!(A, B);
tuples!(A, B, C);
tuples!(A, B, C, D);

/// A condition, or nothing in each of its three columns for what is measured over all of them.
impl<A: Condition, B: Condition, C: Condition> Condition for Option<(A, B, C)> {
    fn columns(self) -> Vec<String> {
        self.map_or_else(|| vec![String::new(); 3], Condition::columns)
    }
}

/// An enum whose members have the names that tables, figures and texts use. It can be a [`Condition`], the key of a fact, or
/// a measure; `ALL` lists the members in order.
macro_rules! named {
    ($(#[$about:meta])* $visible:vis enum $name:ident { $($(#[$note:meta])* $member:ident = $text:expr),* $(,)? }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        $visible enum $name { $($(#[$note])* $member),* }

        impl $name {
            /// All of them, in order.
            #[allow(dead_code)]
            pub const ALL: [Self; [$(Self::$member),*].len()] = [$(Self::$member),*];

            /// What tables, figures and texts call it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$member => $text),* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl $crate::experiment::Condition for $name {
            fn columns(self) -> Vec<String> {
                vec![self.name().to_owned()]
            }
        }
    };
}
pub(crate) use named;

/// Measurements under conditions of one type.
///
/// Reading something that was never measured is a mistake in the experiment, not a finding. It is noted, and
/// `Table::measured` fails before anything is judged by an empty sample.
#[derive(Debug)]
pub struct Table<C> {
    rows: Vec<Row>,
    mistakes: Mutex<BTreeSet<String>>,
    conditions: PhantomData<fn(C)>,
}

impl<C> Default for Table<C> {
    fn default() -> Self {
        Self { rows: Vec::new(), mistakes: Mutex::default(), conditions: PhantomData }
    }
}

impl<C: Condition> Table<C> {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value.
    pub fn add(&mut self, condition: C, seed: u64, measure: impl Display, value: f64) {
        self.rows.push(Row { conditions: condition.columns(), seed, measure: measure.to_string(), value });
    }

    /// Adds what a part measured.
    pub(super) fn extend(&mut self, seed: u64, rows: Rows<C>) {
        self.rows.extend(rows.rows.into_iter().map(|(conditions, measure, value)| Row {
            conditions,
            seed,
            measure,
            value,
        }));
    }

    /// The values of a measure under a condition, one a seed. Nothing measured is a mistake.
    pub fn values(&self, condition: C, measure: impl Display) -> Sample {
        let (columns, measure) = (condition.columns(), measure.to_string());
        let found = measurements::select(&self.rows, &columns, &measure);
        if found.is_empty() {
            let mistake = format!("nothing was measured as {measure:?} under ({})", columns.join(", "));
            self.mistakes.lock().unwrap_or_else(PoisonError::into_inner).insert(mistake);
        }
        found
    }

    /// The same where nothing may have been measured.
    pub fn find(&self, condition: C, measure: impl Display) -> Sample {
        measurements::select(&self.rows, &condition.columns(), &measure.to_string())
    }

    /// Mean and interval of a measure under a condition.
    pub fn mean(&self, condition: C, measure: impl Display) -> Interval {
        self.values(condition, measure).mean()
    }

    /// The same where nothing may have been measured: pictures leave it out.
    pub fn mean_if_measured(&self, condition: C, measure: impl Display) -> Interval {
        self.find(condition, measure).mean()
    }

    /// Mean, deviation and interval of each measure under each condition, in the order they first came.
    pub fn summary(&self) -> Vec<Summary> {
        measurements::summary(&self.rows)
    }

    /// The values of another measure under the conditions of a line of the summary.
    pub fn beside(&self, line: &Summary, measure: &str) -> Sample {
        measurements::select(&self.rows, &line.conditions, measure)
    }

    /// The measurements with the names of their condition columns. Fails if something was read that was never measured.
    pub(super) fn measured(self, columns: &[&'static str]) -> Result<Measurements> {
        let mistakes = self.mistakes.into_inner().unwrap_or_else(PoisonError::into_inner);
        match mistakes.first() {
            None => Measurements::new(columns, self.rows),
            Some(first) if mistakes.len() == 1 => bail!("{first}"),
            Some(first) => bail!("{first}; and {} more such mistakes", mistakes.len() - 1),
        }
    }
}

/// What one part of an experiment measured.
#[derive(Debug)]
pub struct Rows<C> {
    rows: Vec<(Vec<String>, String, f64)>,
    conditions: PhantomData<fn(C)>,
}

impl<C: Condition> Rows<C> {
    pub(super) fn new(rows: Vec<(Vec<String>, String, f64)>) -> Self {
        Self { rows, conditions: PhantomData }
    }

    pub(super) fn into_inner(self) -> Vec<(Vec<String>, String, f64)> {
        self.rows
    }

    /// Adds a value.
    pub fn add(&mut self, condition: C, measure: impl Display, value: f64) {
        self.rows.push((condition.columns(), measure.to_string(), value));
    }

    /// Adds a value if there is one: what could not be measured is not zero.
    pub fn add_some(&mut self, condition: C, measure: impl Display, value: Option<f64>) {
        if let Some(value) = value {
            self.add(condition, measure, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    named! {
        enum Scaling { Unscaled = "unscaled", Scaled = "scaled" }
    }

    type Measured = Table<(usize, Scaling)>;

    fn table() -> Measured {
        let mut table = Table::new();
        for seed in 0..3 {
            for d_k in [4, 16] {
                table.add((d_k, Scaling::Scaled), seed, "entropy", d_k as f64 + seed as f64);
            }
        }
        table
    }

    #[test]
    fn values_come_back_by_condition_and_are_summed_up_over_seeds() {
        let table = table();
        assert_eq!(table.values((16, Scaling::Scaled), "entropy").values(), [16.0, 17.0, 18.0]);
        assert!(table.find((16, Scaling::Unscaled), "entropy").is_empty());
        let summary = table.summary();
        assert_eq!(summary.len(), 2);
        assert_eq!(
            (summary[0].interval.mean, summary[0].deviation, summary[0].interval.count),
            (5.0, 1.0, 3)
        );
        assert_eq!(table.beside(&summary[1], "entropy").values(), [16.0, 17.0, 18.0]);
        let measured = table.measured(&["d_k", "scaling"]).unwrap();
        assert_eq!(measured.mean(&[&4, &"scaled"], "entropy").mean, 5.0);
    }

    #[test]
    fn reading_what_was_not_measured_is_a_mistake() {
        let measured = |read: &dyn Fn(&Measured)| {
            let table = table();
            read(&table);
            table.measured(&["d_k", "scaling"])
        };
        assert!(measured(&|table| assert!(table.find((4, Scaling::Unscaled), "entropy").is_empty())).is_ok());
        let problem = measured(&|table| {
            table.values((4, Scaling::Unscaled), "entropy");
        });
        let expected = "nothing was measured as \"entropy\" under (4, unscaled)";
        assert_eq!(problem.unwrap_err().to_string(), expected);
        let problems = measured(&|table| {
            table.mean((4, Scaling::Scaled), "entropie");
            table.mean((4, Scaling::Unscaled), "entropy");
        });
        assert!(problems.unwrap_err().to_string().ends_with("; and 1 more such mistakes"));
    }
}
