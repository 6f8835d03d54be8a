//! The rows of the ledger, and how they are written to tables and read from them.

use crate::experiment::verdict::Outcome;
use crate::experiment::{Setup, Size};
use anyhow::{Context as _, Result, bail};

pub const COLUMNS: [&str; 14] = [
    "claim", "part", "size", "data", "device", "seeds", "outcome", "measured", "effect", "low", "high", "n",
    "freeze", "date",
];
pub const FACT_COLUMNS: [&str; 8] =
    ["experiment", "fact", "size", "data", "device", "value", "freeze", "date"];

/// Where a run stands in the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// How large it was.
    pub size: Size,
    /// What it was run on: `built-in`, `drawn` or the name of a data set.
    pub data: String,
    /// The device: `cpu`, or the name of a GPU, with the precision if it is not f32.
    pub device: String,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.size.name())?;
        match self.data.as_str() {
            "built-in" | "drawn" => Ok(()),
            data => write!(f, ", {data}"),
        }?;
        match self.device.as_str() {
            "cpu" => Ok(()),
            device => write!(f, ", {device}"),
        }
    }
}

/// Which seeds a verdict was reached with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seeds {
    /// Those that are kept for verdicts.
    Judged,
    /// Those that experiments are developed with.
    Developed,
}

impl Seeds {
    const ALL: [Self; 2] = [Self::Judged, Self::Developed];

    /// The seeds of a run.
    pub fn of(setup: &Setup) -> Self {
        if setup.develop { Self::Developed } else { Self::Judged }
    }

    /// Their name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Judged => "judged",
            Self::Developed => "developed",
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
    /// With which seeds.
    pub seeds: Seeds,
    /// How it came out.
    pub outcome: Outcome,
    /// What decided.
    pub measured: String,
    /// Its mean, the ends of its interval, and the number of seeds; what is missing is not a number.
    pub effect: [f64; 4],
    /// The first digits of the hash of the freeze that it was judged by; empty for a verdict from before the freeze.
    pub freeze: String,
    /// The day, as 2026-11-18.
    pub date: String,
}

/// A number for a sentence.
#[derive(Debug, Clone, PartialEq)]
pub struct FactRow {
    pub experiment: String,
    pub fact: String,
    pub place: Place,
    pub value: f64,
    pub freeze: String,
    pub date: String,
}

impl Row {
    /// Its fields, in the order of the columns.
    pub fn fields(&self) -> Vec<String> {
        let number = |value: f64| if value.is_finite() { value.to_string() } else { String::new() };
        let Place { size, data, device } = &self.place;
        let [effect, low, high, n] = self.effect.map(number);
        [
            &self.claim,
            &self.part,
            size.name(),
            data,
            device,
            self.seeds.name(),
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
    /// Its fields, in the order of the columns.
    pub fn fields(&self) -> Vec<String> {
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

/// A verdict from its fields.
pub fn row(fields: &[String]) -> Result<Row> {
    let [claim, part, size, data, device, seeds, outcome, measured, effect, low, high, n, freeze, date] =
        fields
    else {
        bail!("a row has {} fields, expected {}", fields.len(), COLUMNS.len())
    };
    Ok(Row {
        claim: claim.clone(),
        part: part.clone(),
        place: place_of(size, data, device)?,
        seeds: Seeds::ALL
            .into_iter()
            .find(|known| known.name() == seeds)
            .with_context(|| format!("there are no seeds {seeds:?}"))?,
        outcome: Outcome::named(outcome).with_context(|| format!("there is no outcome {outcome:?}"))?,
        measured: measured.clone(),
        effect: [number(effect)?, number(low)?, number(high)?, number(n)?],
        freeze: freeze.clone(),
        date: date.clone(),
    })
}

/// A fact from its fields.
pub fn fact_row(fields: &[String]) -> Result<FactRow> {
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
pub fn parsed(text: &str, columns: &[&str]) -> Result<Vec<Vec<String>>> {
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
