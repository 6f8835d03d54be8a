//! Tables with a label column: TSV as in GLUE (SST-2: `sentence<tab>label`), or CSV.

use super::file::InputFile;
use super::memory::MemoryBudget;
use super::{Example, Labelled};
use crate::error::{Error, Result};
use csv::StringRecord;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The maximum size of a table in bytes, after decompression.
pub const TABLE_LIMIT: u64 = 4 << 30;

/// The field separator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Tab-separated; quotation marks are text (GLUE).
    Tsv,
    /// Comma-separated; quoted fields may contain commas, line ends and doubled quotation marks.
    Csv,
}

impl Format {
    /// The format by file name: CSV if it ends in `.csv` or `.csv.gz`, else TSV.
    pub fn of(path: impl AsRef<Path>) -> Self {
        let is =
            |path: &Path, wanted: &str| path.extension().is_some_and(|is| is.eq_ignore_ascii_case(wanted));
        let mut path = path.as_ref().to_owned();
        if is(&path, "gz") {
            path.set_extension("");
        }
        if is(&path, "csv") { Self::Csv } else { Self::Tsv }
    }
}

/// Which columns to read, by the names in the first line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    /// The text.
    pub text: String,
    /// The second text, if examples are pairs.
    pub second: Option<String>,
    /// The label.
    pub label: String,
}

impl Default for Columns {
    /// The columns of SST-2.
    fn default() -> Self {
        Self { text: "sentence".to_owned(), second: None, label: "label".to_owned() }
    }
}

/// Reads a table with a header line. Labels are numbers or names; the classes are in numerical order if all are integers,
/// else in alphabetical order.
pub fn read(path: impl AsRef<Path>, format: Format, columns: &Columns) -> Result<Labelled> {
    let path = path.as_ref();
    let mut source = InputFile::open_text(path, TABLE_LIMIT)?;
    let mut table = csv::ReaderBuilder::new()
        .delimiter(if format == Format::Tsv { b'\t' } else { b',' })
        .quoting(format == Format::Csv)
        .from_reader(source.reader());
    let header = table.headers().map_err(|error| explain(path, error))?.clone();
    if header.iter().all(str::is_empty) {
        return Err(Error::file(
            path,
            "the file is empty: expected a header line with the names of the columns",
        ));
    }
    let text = find(path, &header, &columns.text)?;
    let second = match &columns.second {
        Some(name) => Some((find(path, &header, name)?, name)),
        None => None,
    };
    let label = find(path, &header, &columns.label)?;
    let (mut rows, mut budget) = (Vec::new(), MemoryBudget::new(path));
    let mut record = StringRecord::new();
    while table.read_record(&mut record).map_err(|error| explain(path, error))? {
        let line = record.position().map_or(0, |position| position.line() as usize);
        let field = |column: usize, name: &str| match record.get(column).map(str::trim) {
            Some("") | None => Err(Error::line(path, line, format!("the column {name:?} is empty"))),
            Some(field) => Ok(field.to_owned()),
        };
        let second = second.map(|(column, name)| field(column, name)).transpose()?;
        let row: Row = (field(text, &columns.text)?, second, field(label, &columns.label)?);
        budget.add::<Row>(&[row.0.len(), row.1.as_ref().map_or(0, String::len), row.2.len()])?;
        rows.push(row);
    }
    labelled(path, rows, &columns.label)
}

type Row = (String, Option<String>, String);

fn labelled(path: &Path, rows: Vec<Row>, column: &str) -> Result<Labelled> {
    if rows.is_empty() {
        return Err(Error::file(path, "there are no lines after the header"));
    }
    let distinct: BTreeSet<&str> = rows.iter().map(|(.., label)| label.as_str()).collect();
    let mut classes: Vec<String> = distinct.into_iter().map(str::to_owned).collect();
    if let [only] = classes.as_slice() {
        let problem =
            format!("the column {column:?} has one class only, {only:?}: there is nothing to classify");
        return Err(Error::file(path, problem));
    }
    if classes.iter().all(|class| class.parse::<i64>().is_ok()) {
        classes.sort_by_key(|class| class.parse::<i64>().unwrap_or_default());
    }
    let indices: BTreeMap<&str, usize> =
        classes.iter().enumerate().map(|(index, class)| (class.as_str(), index)).collect();
    let example = |(text, second, label): Row| {
        let label = indices.get(label.as_str()).copied().unwrap_or_default();
        Example { text, second, label }
    };
    let examples = rows.into_iter().map(example).collect();
    Ok(Labelled { classes, examples })
}

fn find(path: &Path, header: &StringRecord, name: &str) -> Result<usize> {
    header.iter().position(|column| column.trim() == name).ok_or_else(|| {
        let columns: Vec<&str> = header.iter().collect();
        Error::line(path, 1, format!("no column {name:?}; there are {columns:?}"))
    })
}

fn explain(path: &Path, error: csv::Error) -> Error {
    let line = error.position().map_or(1, |position| position.line() as usize);
    match error.into_kind() {
        csv::ErrorKind::Io(error) => super::file::explain_reading(path, &error),
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            Error::line(path, line, format!("expected {expected_len} columns, got {len}"))
        }
        csv::ErrorKind::Utf8 { err, .. } => {
            let problem = format!("not UTF-8 at byte {} of column {}", err.valid_up_to(), err.field() + 1);
            Error::line(path, line, problem)
        }
        other => Error::line(path, line, format!("{other:?}")),
    }
}
