//! The folder that a command of analysis leaves, and tables on the terminal.

use crate::experiment::write_csv;
use crate::figure::{Picture, fixed};
use crate::terminal::line;
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};

/// A folder of tables and pictures.
pub struct Output {
    folder: PathBuf,
}

impl Output {
    /// Makes the folder, unless it is there.
    pub fn create(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create the folder {}", folder.display()))?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a table.
    pub fn csv(&self, name: &str, header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Result<()> {
        let header = header.iter().map(ToString::to_string).collect();
        write_csv(&self.folder.join(format!("{name}.csv")), header, rows)
    }

    /// Writes a picture as SVG and as PNG.
    pub fn picture(&self, name: &str, picture: &Picture) -> Result<()> {
        for suffix in ["svg", "png"] {
            picture.write(&self.folder.join(format!("{name}.{suffix}")))?;
        }
        Ok(())
    }
}

/// A value with its interval, to three decimals.
pub fn interval(mean: f64, low: f64, high: f64) -> String {
    format!("{} [{}, {}]", fixed(mean, 3), fixed(low, 3), fixed(high, 3))
}

/// Prints rows in columns that are as wide as they need; the first row is the heading.
pub fn columns(rows: &[Vec<String>]) {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}")).collect();
        line(cells.join("  ").trim_end());
    }
}
