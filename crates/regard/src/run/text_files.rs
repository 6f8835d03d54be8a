//! Plain text: which files of a path are for training, validation and testing, and their lines.

use super::sources::spread;
use crate::bad_usage;
use anyhow::{Context as _, Result, bail};
use regard_nn::data::memory::MemoryBudget;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The files of a text to train on, and the one to validate on if the folder has it.
pub fn train_and_validation(path: &Path) -> Result<(Vec<PathBuf>, Option<PathBuf>)> {
    // The folder of IMDb has two files beside its reviews, which are no text to learn from.
    let archive = ["aclImdb_v1.tar.gz", "aclImdb_v1.tar"].iter().any(|name| path.ends_with(name));
    if archive || path.join("train/pos").is_dir() {
        let path = path.display();
        bad_usage!(
            "{path} has reviews with labels; write them as plain text first: regard data texts {path} --out imdb-text"
        );
    }
    if !path.is_dir() {
        return Ok((vec![path.to_owned()], None));
    }
    let files = files_of(path)?;
    let train: Vec<PathBuf> = files.iter().filter(|file| has_part(file, "train")).cloned().collect();
    match (train.is_empty(), files.iter().find(|file| is_for(file, &VALIDATION)).cloned()) {
        (false, held) => Ok((train, held)),
        (true, _) if files.is_empty() => bail!("{} has no files", path.display()),
        // Files that are for tests by their names are not trained on.
        (true, held) => {
            let train: Vec<PathBuf> = files
                .iter()
                .filter(|file| !is_for(file, &TEST) && !is_for(file, &VALIDATION))
                .cloned()
                .collect();
            if train.is_empty() {
                bail!("{} has nothing to learn from: only files for tests, by their names", path.display());
            }
            Ok((train, held))
        }
    }
}

/// Words in the names of validation files and test files.
const VALIDATION: [&str; 5] = ["val", "valid", "validation", "dev", "eval"];
const TEST: [&str; 2] = ["test", "tests"];

fn has_part(file: &Path, part: &str) -> bool {
    file.file_name().is_some_and(|name| name.to_string_lossy().contains(part))
}

/// Whether a whole word of a file's name is one of these, perhaps with a number: `wiki.valid.tokens`, but not `medieval.txt`.
fn is_for(file: &Path, words: &[&str]) -> bool {
    let name = file.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let mut parts = name.split(|character: char| !character.is_alphanumeric());
    parts.any(|part| words.contains(&part.trim_end_matches(|character: char| character.is_ascii_digit())))
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
    Ok(files_of(path)?.into_iter().find(|file| is_for(file, &TEST) && !train.contains(file)))
}

/// The lines of files that are not empty.
pub(super) fn lines(files: &[PathBuf]) -> Result<Vec<String>> {
    some_lines(files, 0..usize::MAX, 0)
}

/// How many lines of files are not empty.
pub(super) fn count_lines(files: &[PathBuf]) -> Result<usize> {
    let mut count = 0;
    visit(files, |_| {
        count += 1;
        Ok(true)
    })?;
    Ok(count)
}

/// Those of the lines that are not empty whose numbers are within a range, at most so many of them (0: all), spread over it.
pub(super) fn some_lines(files: &[PathBuf], range: Range<usize>, limit: usize) -> Result<Vec<String>> {
    let chosen = (limit > 0).then(|| spread(range.len(), limit));
    let mut chosen = chosen.map(|numbers| numbers.into_iter().map(|number| range.start + number).peekable());
    let first = files.first().map_or(Path::new(""), PathBuf::as_path);
    let (mut kept, mut number, mut budget) = (Vec::new(), 0, MemoryBudget::new(first));
    visit(files, |line| {
        let wanted = match &mut chosen {
            Some(numbers) => numbers.next_if_eq(&number).is_some(),
            None => range.contains(&number),
        };
        if wanted {
            budget.add::<String>(&[line.len()]).context(
                "there are more lines than fit memory; data.limit (of a run) and --limit set how many to read",
            )?;
            kept.push(line.to_owned());
        }
        number += 1;
        Ok(number < range.end)
    })?;
    Ok(kept)
}

/// Looks at the lines of files that are not empty, as long as more are wanted.
fn visit(files: &[PathBuf], mut more: impl FnMut(&str) -> Result<bool>) -> Result<()> {
    let mut any = false;
    for file in files {
        let mut lines = regard_nn::data::file::Lines::open(file)?;
        while let Some(line) = lines.next()? {
            if !line.trim().is_empty() {
                any = true;
                if !more(line)? {
                    return Ok(());
                }
            }
        }
    }
    if !any {
        let first = files.first().map(|file| file.display().to_string()).unwrap_or_default();
        bail!("there is no text in {first}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_chosen_by_their_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let files: Vec<PathBuf> = ["a", "b"].map(|name| folder.path().join(name)).to_vec();
        std::fs::write(&files[0], "0\n\n1\n2\n").unwrap();
        std::fs::write(&files[1], " \n3\n4\n5\n").unwrap();
        assert_eq!(count_lines(&files).unwrap(), 6);
        assert_eq!(lines(&files).unwrap(), ["0", "1", "2", "3", "4", "5"]);
        assert_eq!(some_lines(&files, 2..4, 0).unwrap(), ["2", "3"]);
        let few = some_lines(&files, 2..6, 2).unwrap();
        assert!(few.len() == 2 && *few[0] < *"4" && *few[1] >= *"4", "{few:?}");
        std::fs::write(&files[0], "\n").unwrap();
        assert!(count_lines(&files[..1]).unwrap_err().to_string().contains("there is no text in"));
    }

    #[test]
    fn whole_words_in_file_names_decide_their_part() {
        let folder = tempfile::tempdir().unwrap();
        let names = |files: &[PathBuf]| -> Vec<String> {
            files.iter().map(|file| file.file_name().unwrap().to_string_lossy().into_owned()).collect()
        };
        for name in [".hidden", "alice.txt", "carnival.txt", "greatest.txt", "notes.test.txt"] {
            std::fs::write(folder.path().join(name), "text").unwrap();
        }
        let (train, held) = train_and_validation(folder.path()).unwrap();
        assert_eq!(
            (names(&train), held),
            (vec!["alice.txt".into(), "carnival.txt".into(), "greatest.txt".into()], None)
        );
        let test = test_text(folder.path(), &train).unwrap().unwrap();
        assert_eq!(names(&[test]), ["notes.test.txt"]);
        for name in ["wiki.train.tokens", "wiki.valid.tokens"] {
            std::fs::write(folder.path().join(name), "text").unwrap();
        }
        let (train, held) = train_and_validation(folder.path()).unwrap();
        assert_eq!(names(&train), ["wiki.train.tokens"]);
        assert_eq!(names(&[held.unwrap()]), ["wiki.valid.tokens"]);
    }
}
