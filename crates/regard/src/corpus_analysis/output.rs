//! The output folder of an analysis command, and tables on the terminal.

use crate::experiment::write_csv;
use crate::figure::{Picture, fixed};
use crate::terminal::line;
use anyhow::{Context as _, Result};
use regard_nn::analysis::statistics::Interval;
use regard_nn::analysis::{Part, Subject};
use std::cell::RefCell;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A folder of tables and pictures, and a list of them in it.
pub struct Output {
    folder: PathBuf,
    list: RefCell<File>,
}

/// The list of what a command wrote, so that the next one into the same folder leaves nothing of another model there.
const LIST: &str = "contents.txt";

impl Output {
    /// Makes the folder, unless it is there, and removes what an earlier run wrote.
    pub fn create(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create the folder {}", folder.display()))?;
        clear(folder);
        let list = folder.join(LIST);
        let list = File::create(&list).with_context(|| format!("cannot write {}", list.display()))?;
        Ok(Self { folder: folder.to_owned(), list: RefCell::new(list) })
    }

    /// The folder for a part of a model: one of its own in a folder, if the model has several. What was written there of a model
    /// with the other number of parts is removed as well.
    pub fn of_part(folder: &Path, subject: Subject) -> Result<Self> {
        match subject.model.parts().len() {
            1 => {
                for part in Part::ALL.map(|part| folder.join(part.name())) {
                    clear(&part);
                    // It stays if anything else is in it.
                    let _ = std::fs::remove_dir(part);
                }
                Self::create(folder)
            }
            _ => {
                clear(folder);
                Self::create(&folder.join(subject.part.name()))
            }
        }
    }

    /// The path of a file that is about to be written.
    fn file(&self, name: &str) -> Result<PathBuf> {
        writeln!(self.list.borrow_mut(), "{name}")
            .with_context(|| format!("cannot write {}", self.folder.join(LIST).display()))?;
        Ok(self.folder.join(name))
    }

    /// Its path.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a table.
    pub fn csv(&self, name: &str, header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Result<()> {
        let header = header.iter().map(ToString::to_string).collect();
        write_csv(&self.file(&format!("{name}.csv"))?, header, rows)
    }

    /// Writes a picture as SVG and as PNG.
    pub fn picture(&self, name: &str, picture: &Picture) -> Result<()> {
        for suffix in ["svg", "png"] {
            picture.write(&self.file(&format!("{name}.{suffix}"))?)?;
        }
        Ok(())
    }
}

/// Removes what an earlier run wrote to a folder, by its list. What is gone already, or cannot be removed, is let be.
fn clear(folder: &Path) {
    let list = folder.join(LIST);
    let small = std::fs::metadata(&list).is_ok_and(|found| found.is_file() && found.len() < 1 << 20);
    let Some(written) = small.then(|| std::fs::read_to_string(&list).ok()).flatten() else { return };
    for name in written.lines().filter(|name| is_plain(name)) {
        let _ = std::fs::remove_file(folder.join(name));
    }
    let _ = std::fs::remove_file(&list);
}

/// Whether a name is that of a table or picture in the folder itself.
fn is_plain(name: &str) -> bool {
    let inside = !name.contains(['/', '\\']) && !name.starts_with('.');
    inside && [".csv", ".svg", ".png"].iter().any(|end| name.ends_with(end))
}

/// A value with its interval, to three decimals; a value alone if nothing is known of its spread.
pub fn interval(mean: f64, low: f64, high: f64) -> String {
    match low.is_finite() && high.is_finite() {
        true => format!("{} [{}, {}]", fixed(mean, 3), fixed(low, 3), fixed(high, 3)),
        false => fixed(mean, 3),
    }
}

/// A value and the ends of its interval, as tables have them: empty where there is none.
pub fn numbers(found: &Interval) -> [String; 3] {
    [found.mean, found.low, found.high].map(|value| match value.is_finite() {
        true => value.to_string(),
        false => String::new(),
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use regard_nn::models::{GptConfig, Model, T5Config, Transformer};

    #[test]
    fn a_folder_holds_the_tables_of_one_model() {
        let gpt = GptConfig { vocabulary: 5, n_layers: 1, n_heads: 1, d_model: 4, ..Default::default() };
        let gpt = Transformer::new(gpt.form(), 0).unwrap();
        let t5 = T5Config {
            vocabulary: 5,
            n_layers: 1,
            n_decoder_layers: 1,
            n_heads: 1,
            d_model: 4,
            ..Default::default()
        };
        let t5 = Transformer::new(t5.form(), 0).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let write = |model: &dyn Model| {
            for part in model.parts() {
                let output = Output::of_part(folder.path(), Subject { model, part }).unwrap();
                output.csv("table", &["a"], std::iter::once(vec!["1".to_owned()])).unwrap();
            }
        };
        let there = |name: &str| folder.path().join(name).exists();
        write(&t5);
        assert!(there("encoder/table.csv") && there("decoder/table.csv") && there("cross/table.csv"));
        std::fs::write(folder.path().join("cross/mine.txt"), "not the program's").unwrap();
        write(&gpt);
        assert!(
            there("table.csv") && !there("encoder") && !there("cross/table.csv") && there("cross/mine.txt")
        );
        write(&t5);
        assert!(there("encoder/table.csv") && !there("table.csv") && !there("contents.txt"));
    }
}
