//! The Large Movie Review Dataset (Maas et al., *Learning word vectors for sentiment analysis*, 2011).
//!
//! 25,000 reviews for training and 25,000 for testing, half of each positive, one file a review:
//! `aclImdb/{train,test}/{pos,neg}/<number>_<rating>.txt`. The archive `aclImdb_v1.tar.gz` is read as a stream, without
//! unpacking; its folder is read as well. Other files (`unsup`, `*.feat`, `urls_*`, …) are ignored.
//!
//! Texts are cleaned in two ways. Runs of HTML breaks (`<br />`) become one line end. The characters U+0080 to U+009F,
//! which occur in 1,571 reviews, are Windows-1252 decoded as Latin-1: they become the characters their authors typed,
//! such as an ellipsis for U+0085 and a dash for U+0096.

use super::file::InputFile;
use super::memory::MemoryBudget;
use super::{Example, Labelled};
use crate::error::{Error, Result};
use std::collections::HashSet;
use std::io::Read;
use std::path::Path;

/// The maximum size of a review in bytes; the longest in the data set has about 14,000.
pub const REVIEW_LIMIT: u64 = 1 << 20;

/// The maximum total size in bytes; the data set has 65 million.
pub const TOTAL_LIMIT: u64 = 1 << 30;

/// The names of the classes, by label.
const CLASSES: [&str; 2] = ["neg", "pos"];
const SPLITS: [&str; 2] = ["train", "test"];

/// The data set. Reviews are in order of label (negative first), then number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imdb {
    /// Training reviews; [`Labelled::hold_out`] takes a validation split from these.
    pub train: Labelled,
    /// Test reviews.
    pub test: Labelled,
    /// The numbers of duplicate reviews.
    pub duplicates: Duplicates,
}

/// Numbers of equal texts, before cleaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Duplicates {
    /// Training reviews that repeat an earlier training review.
    pub train: usize,
    /// Test reviews that repeat an earlier test review.
    pub test: usize,
    /// Distinct texts that occur in both train and test.
    pub across: usize,
}

/// The identity of a review: indices of split and label, number, rating.
type Place = (usize, usize, u64, u64);

impl Imdb {
    /// Reads the archive (`.tar` or `.tar.gz`) or the folder, which may be `aclImdb` itself or contain it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let mut reviews = Reviews { path, found: Vec::new(), bytes: 0, budget: MemoryBudget::new(path) };
        if path.is_dir() {
            reviews.read_folder()?;
        } else {
            reviews.read_archive()?;
        }
        reviews.sorted()
    }
}

struct Reviews<'p> {
    path: &'p Path,
    found: Vec<(Place, String)>,
    bytes: u64,
    budget: MemoryBudget,
}

impl Reviews<'_> {
    fn read_archive(&mut self) -> Result<()> {
        let mut source = InputFile::open(self.path)?;
        let path = source.path().to_owned();
        let failed = |error: &std::io::Error| match error.kind() {
            std::io::ErrorKind::Other => {
                Error::file(&path, format!("not a tar archive, or a damaged one ({error})"))
            }
            _ => super::file::explain_reading(&path, error),
        };
        let mut archive = tar::Archive::new(source.reader());
        // Raw entries: extended headers, which may be of any size, are skipped instead of being read into memory. Paths in
        // this archive are too short to need them.
        for entry in archive.entries().map_err(|error| failed(&error))?.raw(true) {
            let entry = entry.map_err(|error| failed(&error))?;
            let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            let Some(place) = place(&name) else { continue };
            if !entry.header().entry_type().is_file() {
                continue;
            }
            let size = entry.size();
            self.add(place, &name, size, entry, &failed)?;
        }
        // Read to the end: the checksum of the compressed data comes after the archive's own end mark.
        let mut rest = [0; 1 << 12];
        while source.fill(&mut rest)? > 0 {}
        Ok(())
    }

    fn read_folder(&mut self) -> Result<()> {
        let nested = self.path.join("aclImdb");
        let root = if nested.is_dir() { nested } else { self.path.to_owned() };
        for split in SPLITS {
            for class in CLASSES {
                let folder = root.join(split).join(class);
                let failed = |error: &std::io::Error| super::file::explain(&folder, error);
                if !folder.is_dir() {
                    return Err(Error::file(
                        &folder,
                        "no such folder: expected aclImdb/{train,test}/{pos,neg}",
                    ));
                }
                for entry in std::fs::read_dir(&folder).map_err(|error| failed(&error))? {
                    let entry = entry.map_err(|error| failed(&error))?;
                    let file_name = entry.file_name();
                    let name = format!("{split}/{class}/{}", file_name.to_string_lossy());
                    let Some(place) = place(&name) else { continue };
                    let metadata = std::fs::metadata(entry.path()).map_err(|error| failed(&error))?;
                    if !metadata.is_file() {
                        continue;
                    }
                    let size = metadata.len();
                    let file = std::fs::File::open(entry.path()).map_err(|error| failed(&error))?;
                    self.add(place, &name, size, file, &failed)?;
                }
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        place: Place,
        name: &str,
        size: u64,
        reader: impl Read,
        failed: &dyn Fn(&std::io::Error) -> Error,
    ) -> Result<()> {
        let at = || format!("{}, {name}", self.path.display());
        if size > REVIEW_LIMIT {
            return Err(Error::data(at(), format!("it has {size} bytes, expected at most {REVIEW_LIMIT}")));
        }
        self.bytes += size;
        if self.bytes > TOTAL_LIMIT {
            return Err(Error::file(self.path, format!("more than {TOTAL_LIMIT} bytes of reviews")));
        }
        // As it is in the file, and cleaned.
        self.budget.add::<(Place, String, Example)>(&[size as usize, size as usize])?;
        let mut bytes = Vec::with_capacity(size as usize);
        reader.take(size).read_to_end(&mut bytes).map_err(|error| failed(&error))?;
        if bytes.len() as u64 != size {
            return Err(Error::file(self.path, format!("the archive ends within {name}: is it incomplete?")));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            Error::data(at(), format!("not UTF-8 at byte {}", error.utf8_error().valid_up_to()))
        })?;
        self.found.push((place, text));
        Ok(())
    }

    fn sorted(mut self) -> Result<Imdb> {
        self.found.sort_by_key(|&(place, _)| place);
        if let Some(pair) = self.found.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let (split, label, number, rating) = pair[0].0;
            let problem = format!("{}/{}/{number}_{rating}.txt occurs twice", SPLITS[split], CLASSES[label]);
            return Err(Error::file(self.path, problem));
        }
        for (split, split_name) in SPLITS.iter().enumerate() {
            for (label, class) in CLASSES.iter().enumerate() {
                if !self.found.iter().any(|((s, l, ..), _)| (*s, *l) == (split, label)) {
                    let problem = format!(
                        "no reviews in {split_name}/{class}: expected files aclImdb/{{train,test}}/{{pos,neg}}/<number>_<rating>.txt"
                    );
                    return Err(Error::file(self.path, problem));
                }
            }
        }
        let duplicates = duplicates(&self.found);
        let classes: Vec<String> = CLASSES.iter().map(ToString::to_string).collect();
        let mut splits = [(); 2].map(|()| Labelled { classes: classes.clone(), examples: Vec::new() });
        for ((split, label, ..), text) in self.found {
            splits[split].examples.push(Example { text: clean(&text), second: None, label });
        }
        let [train, test] = splits;
        Ok(Imdb { train, test, duplicates })
    }
}

/// The identity of a review by its path; `None` for other files.
fn place(path: &str) -> Option<Place> {
    let mut parts = path.rsplit('/');
    let (number, rating) = parts.next()?.strip_suffix(".txt")?.split_once('_')?;
    let label = CLASSES.iter().position(|class| Some(*class) == parts.clone().next())?;
    let split = SPLITS.iter().position(|split| Some(*split) == parts.clone().nth(1))?;
    let digits =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    Some((split, label, digits(number)?, digits(rating)?))
}

fn duplicates(reviews: &[(Place, String)]) -> Duplicates {
    let mut distinct: [HashSet<&str>; 2] = Default::default();
    let mut repeated = [0; 2];
    for ((split, ..), text) in reviews {
        if !distinct[*split].insert(text) {
            repeated[*split] += 1;
        }
    }
    let across = distinct[0].intersection(&distinct[1]).count();
    Duplicates { train: repeated[0], test: repeated[1], across }
}

/// The characters of the bytes 0x80 to 0x9f in Windows-1252; a space for undefined ones.
const WINDOWS_1252: [char; 32] = [
    '€', ' ', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', ' ', 'Ž', ' ', ' ', '‘', '’', '“', '”',
    '•', '–', '—', '˜', '™', 'š', '›', 'œ', ' ', 'ž', 'Ÿ',
];

/// A review without HTML breaks and wrongly decoded control characters.
pub fn clean(text: &str) -> String {
    // This comes first, because U+0085 counts as white space but the ellipsis it stands for does not.
    let text: String = text.chars().map(typed).collect();
    let mut cleaned = String::with_capacity(text.len());
    let mut rest = text.trim();
    while let Some(start) = rest.find('<') {
        let (before, from) = rest.split_at(start);
        if let Some(after) = after_break(from) {
            cleaned.push_str(before.trim_end());
            // The breaks and the spaces between them become one line end.
            rest = after.trim_start();
            while let Some(after) = after_break(rest) {
                rest = after.trim_start();
            }
            if !cleaned.is_empty() && !rest.is_empty() {
                cleaned.push('\n');
            }
        } else {
            cleaned.push_str(before);
            cleaned.push('<');
            rest = &from[1..];
        }
    }
    cleaned.push_str(rest);
    cleaned
}

fn typed(c: char) -> char {
    match (c as usize).checked_sub(0x80).and_then(|index| WINDOWS_1252.get(index)) {
        Some(&typed) => typed,
        None => c,
    }
}

/// The rest of a text after `<br>`, `<br/>` or `<br />` (in upper or lower case) at its start.
fn after_break(text: &str) -> Option<&str> {
    let name = text.get(..3)?;
    if !name.eq_ignore_ascii_case("<br") {
        return None;
    }
    let rest = text[3..].trim_start();
    rest.strip_prefix('/').unwrap_or(rest).strip_prefix('>')
}
