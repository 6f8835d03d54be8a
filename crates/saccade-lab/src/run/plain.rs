//! Plain text: which files of a path are learned from and which are measured on, and their lines.

use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};

/// The files of a text to learn from, and the one to measure on if the folder has it.
pub fn text_files(path: &Path) -> Result<(Vec<PathBuf>, Option<PathBuf>)> {
    if !path.is_dir() {
        return Ok((vec![path.to_owned()], None));
    }
    let files = files_of(path)?;
    let train: Vec<PathBuf> = files.iter().filter(|file| has_part(file, "train")).cloned().collect();
    match (train.is_empty(), files.iter().find(|file| has_part(file, "val")).cloned()) {
        (false, held) => Ok((train, held)),
        (true, _) if files.is_empty() => bail!("{} has no files", path.display()),
        // What is for tests by its name is not learned from.
        (true, held) => {
            let train: Vec<PathBuf> = files
                .iter()
                .filter(|file| !["test", "val"].iter().any(|part| has_part(file, part)))
                .cloned()
                .collect();
            if train.is_empty() {
                bail!("{} has nothing to learn from: only files for tests, by their names", path.display());
            }
            Ok((train, held))
        }
    }
}

fn has_part(file: &Path, part: &str) -> bool {
    file.file_name().is_some_and(|name| name.to_string_lossy().contains(part))
}

/// The files of a folder, in order.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    let hidden = |file: &Path| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    files.retain(|file| file.is_file() && !hidden(file));
    files.sort();
    Ok(files)
}

/// The file of a folder to test on, if it also has those to learn from.
pub(super) fn test_text(path: &Path, train: &[PathBuf]) -> Result<Option<PathBuf>> {
    if !path.is_dir() {
        return Ok(None);
    }
    Ok(files_of(path)?.into_iter().find(|file| has_part(file, "test") && !train.contains(file)))
}

/// The most bytes of lines that are kept in memory.
const LINES_IN_MEMORY: usize = 4 << 30;

/// The lines of files that are not empty.
pub(super) fn lines(files: &[PathBuf]) -> Result<Vec<String>> {
    chosen_lines(files, |_| true)
}

/// How many lines of files are not empty.
pub(super) fn count_lines(files: &[PathBuf]) -> Result<usize> {
    let mut count = 0;
    chosen_lines(files, |_| {
        count += 1;
        false
    })?;
    Ok(count)
}

/// Those of the lines of files that are not empty which are wanted, by their number.
pub(super) fn chosen_lines(files: &[PathBuf], mut wanted: impl FnMut(usize) -> bool) -> Result<Vec<String>> {
    let first = || files.first().map(|file| file.display().to_string()).unwrap_or_default();
    let (mut chosen, mut number, mut bytes) = (Vec::new(), 0, 0);
    for file in files {
        let mut lines = saccade::data::file::Lines::open(file)?;
        while let Some(line) = lines.next()? {
            if line.trim().is_empty() {
                continue;
            }
            if wanted(number) {
                bytes += line.len();
                if bytes > LINES_IN_MEMORY {
                    bail!(
                        "{} has more lines than are kept in memory; data.limit says how many to read",
                        first()
                    );
                }
                chosen.push(line.to_owned());
            }
            number += 1;
        }
    }
    if number == 0 {
        bail!("there is no text in {}", first());
    }
    Ok(chosen)
}
