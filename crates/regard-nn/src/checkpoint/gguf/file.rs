//! The container: settings by name, a table of tensors, and their bytes.
//!
//! All numbers are little-endian: `GGUF`, the version (2 or 3), how many tensors and settings there are, the settings (name, type,
//! value), the table (name, lengths with the shortest stride first, type, offset) and, from the next multiple of the alignment, the
//! bytes. Nothing is allocated before the file is known to be long enough for it.

use crate::data::memory::MemoryBudget;
use crate::error::{Error, Result};
use regard_tensor::MappedFile;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::blocks::BlockType;

/// No file has more settings than this; those in use have about fifty.
const MOST_SETTINGS: u64 = 100_000;
/// No file has more tensors than this.
const MOST_TENSORS: u64 = 1_000_000;
/// The longest name of a setting or tensor.
const LONGEST_NAME: usize = 1024;
/// No tensor has more axes than this.
const MOST_AXES: u32 = 4;
/// Where bytes are aligned unless a setting says otherwise.
const ALIGNMENT: u64 = 32;

/// The value of a setting.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Setting {
    /// A whole number.
    Whole(i128),
    /// A number.
    Real(f64),
    /// True or false.
    Flag(bool),
    /// A text.
    Text(String),
    /// Several texts.
    Texts(Vec<String>),
    /// Several numbers.
    Numbers(Vec<f64>),
}

/// A tensor of the file.
#[derive(Debug, Clone)]
pub(super) struct TensorEntry {
    /// Its lengths, the longest stride first.
    pub shape: Vec<usize>,
    /// How its values are stored.
    pub block: BlockType,
    /// Where its bytes begin in the file.
    start: usize,
    /// How many bytes it has.
    length: usize,
}

/// A file that was read up to its tensors.
pub(super) struct GgufFile {
    path: PathBuf,
    map: MappedFile,
    settings: BTreeMap<String, Setting>,
    tensors: BTreeMap<String, TensorEntry>,
}

impl GgufFile {
    pub fn open(path: &Path) -> Result<Self> {
        let map = MappedFile::open(path).map_err(|error| Error::file(path, error))?;
        let mut reader = Reader { bytes: map.bytes(), at: 0, path, budget: MemoryBudget::new(path) };
        let (settings, tensors) = reader.read()?;
        Ok(Self { path: path.to_owned(), map, settings, tensors })
    }

    /// An error about this file.
    pub fn wrong(&self, problem: impl std::fmt::Display) -> Error {
        Error::file(&self.path, problem)
    }

    /// A setting.
    pub fn setting(&self, name: &str) -> Option<&Setting> {
        self.settings.get(name)
    }

    /// The tensors by name.
    pub fn tensors(&self) -> &BTreeMap<String, TensorEntry> {
        &self.tensors
    }

    /// The bytes of a tensor.
    pub fn bytes(&self, entry: &TensorEntry) -> &[u8] {
        self.map.bytes().get(entry.start..entry.start.saturating_add(entry.length)).unwrap_or_default()
    }

    /// A whole number, if the setting is there.
    pub fn whole(&self, name: &str) -> Result<Option<usize>> {
        match self.setting(name) {
            None => Ok(None),
            Some(Setting::Whole(value)) if (0..=i128::from(u32::MAX)).contains(value) => {
                Ok(Some(*value as usize))
            }
            // Some writers have one number for each layer, all alike.
            Some(Setting::Numbers(values))
                if values.first().is_some_and(|first| *first >= 0.0 && *first <= f64::from(u32::MAX)) =>
            {
                let first = values[0];
                match values.iter().all(|value| *value == first) {
                    true => Ok(Some(first as usize)),
                    false => {
                        Err(self.wrong(format!("has a {name} that differs by layer, which is not supported")))
                    }
                }
            }
            Some(_) => Err(self.wrong(format!("has a {name} that is not a whole number"))),
        }
    }

    /// A number, if the setting is there.
    pub fn real(&self, name: &str) -> Result<Option<f64>> {
        match self.setting(name) {
            None => Ok(None),
            Some(Setting::Real(value)) if value.is_finite() => Ok(Some(*value)),
            Some(Setting::Whole(value)) => Ok(Some(*value as f64)),
            Some(_) => Err(self.wrong(format!("has a {name} that is not a number"))),
        }
    }

    /// A text, if the setting is there.
    pub fn text(&self, name: &str) -> Result<Option<&str>> {
        match self.setting(name) {
            None => Ok(None),
            Some(Setting::Text(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(format!("has a {name} that is not a text"))),
        }
    }

    /// True or false, if the setting is there.
    pub fn flag(&self, name: &str) -> Result<Option<bool>> {
        match self.setting(name) {
            None => Ok(None),
            Some(Setting::Flag(flag)) => Ok(Some(*flag)),
            Some(_) => Err(self.wrong(format!("has a {name} that is neither true nor false"))),
        }
    }

    /// Several texts, if the setting is there.
    pub fn texts(&self, name: &str) -> Result<Option<&[String]>> {
        match self.setting(name) {
            None => Ok(None),
            Some(Setting::Texts(texts)) => Ok(Some(texts)),
            Some(_) => Err(self.wrong(format!("has a {name} that is not a list of texts"))),
        }
    }

    /// Several numbers, if the setting is there.
    pub fn numbers(&self, name: &str) -> Result<Option<&[f64]>> {
        match self.setting(name) {
            None => Ok(None),
            Some(Setting::Numbers(numbers)) => Ok(Some(numbers)),
            Some(_) => Err(self.wrong(format!("has a {name} that is not a list of numbers"))),
        }
    }
}

/// Reads from the beginning on.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    path: &'a Path,
    budget: MemoryBudget,
}

type Contents = (BTreeMap<String, Setting>, BTreeMap<String, TensorEntry>);

impl<'a> Reader<'a> {
    fn read(&mut self) -> Result<Contents> {
        if self.take(4).ok() != Some(b"GGUF") {
            return Err(self.wrong("is not a GGUF file: it does not begin with GGUF"));
        }
        let version = self.u32()?;
        if ![2, 3].contains(&version) {
            let version = if version.swap_bytes() < 16 {
                "the other byte order".to_owned()
            } else {
                version.to_string()
            };
            return Err(self.wrong(format!("has version {version} of GGUF; versions 2 and 3 can be read")));
        }
        let (n_tensors, n_settings) = (self.u64()?, self.u64()?);
        if n_tensors > MOST_TENSORS || n_settings > MOST_SETTINGS {
            return Err(self.wrong(format!("promises {n_tensors} tensors and {n_settings} settings")));
        }
        let mut settings = BTreeMap::new();
        for _ in 0..n_settings {
            let name = self.name()?;
            let kind = self.u32()?;
            let value = self.value(kind)?;
            self.budget.add::<(String, Setting)>(&[name.len()])?;
            if settings.insert(name.clone(), value).is_some() {
                return Err(self.wrong(format!("has the setting {name:?} twice")));
            }
        }
        let mut entries = Vec::new();
        for _ in 0..n_tensors {
            let entry = self.entry()?;
            self.budget.add::<(String, TensorEntry)>(&[entry.0.len()])?;
            entries.push(entry);
        }
        let alignment = match settings.get("general.alignment") {
            Some(Setting::Whole(value @ 1..=65_536)) => *value as u64,
            None => ALIGNMENT,
            Some(_) => return Err(self.wrong("has a general.alignment that cannot be")),
        };
        let data = (self.at as u64).next_multiple_of(alignment);
        let mut tensors = BTreeMap::new();
        for (name, shape, block, offset) in entries {
            let placed = self.place(&shape, block, data, offset);
            let Some((start, length)) = placed.filter(|_| offset.is_multiple_of(alignment)) else {
                return Err(self.wrong(format!("ends before its tensor {name:?} does, or places it wrongly")));
            };
            if tensors.insert(name.clone(), TensorEntry { shape, block, start, length }).is_some() {
                return Err(self.wrong(format!("has the tensor {name:?} twice")));
            }
        }
        Ok((settings, tensors))
    }

    /// Where a tensor's bytes begin and how many they are, if they are in the file.
    fn place(&self, shape: &[usize], block: BlockType, data: u64, offset: u64) -> Option<(usize, usize)> {
        let (last, rest) = shape.split_last()?;
        let rows = rest.iter().try_fold(1_usize, |product, &length| product.checked_mul(length))?;
        let length = rows.checked_mul(block.row_bytes(*last)?)?;
        let start = usize::try_from(data.checked_add(offset)?).ok()?;
        (start.checked_add(length)? <= self.bytes.len()).then_some((start, length))
    }

    fn entry(&mut self) -> Result<(String, Vec<usize>, BlockType, u64)> {
        let name = self.name()?;
        let axes = self.u32()?;
        if !(1..=MOST_AXES).contains(&axes) {
            return Err(self.wrong(format!("has a tensor {name:?} with {axes} axes")));
        }
        let mut shape = Vec::new();
        for _ in 0..axes {
            let length = self.u64()?;
            match usize::try_from(length) {
                Ok(length) if length > 0 => shape.push(length),
                _ => return Err(self.wrong(format!("has a tensor {name:?} with a length of {length}"))),
            }
        }
        shape.reverse();
        let code = self.u32()?;
        let block = BlockType::from_code(code).map_err(|kind| {
            let known = BlockType::names();
            self.wrong(format!("has its tensor {name:?} as {kind}, which is not supported; {known} are"))
        })?;
        Ok((name, shape, block, self.u64()?))
    }

    /// A value of a type: 0 to 7 and 10 to 12 are numbers and flags, 8 a text, 9 a list.
    fn value(&mut self, kind: u32) -> Result<Setting> {
        Ok(match kind {
            8 => Setting::Text(self.text(usize::MAX)?),
            9 => self.list()?,
            7 => Setting::Flag(self.take(1)?[0] != 0),
            6 | 12 => Setting::Real(self.number(kind)?),
            _ => Setting::Whole(self.whole(kind)?),
        })
    }

    fn list(&mut self) -> Result<Setting> {
        let (kind, count) = (self.u32()?, self.u64()?);
        // Every element takes at least a byte.
        let count = usize::try_from(count).ok().filter(|&count| count <= self.bytes.len() - self.at);
        let Some(count) = count else { return Err(self.wrong("has a list longer than itself")) };
        match kind {
            8 => {
                let mut texts = Vec::new();
                for _ in 0..count {
                    let text = self.text(usize::MAX)?;
                    self.budget.add::<String>(&[text.len()])?;
                    texts.push(text);
                }
                Ok(Setting::Texts(texts))
            }
            0..=7 | 10..=12 => {
                let mut numbers = Vec::new();
                for _ in 0..count {
                    self.budget.add::<f64>(&[])?;
                    numbers.push(self.number(kind)?);
                }
                Ok(Setting::Numbers(numbers))
            }
            other => Err(self.wrong(format!("has a list of values of type {other}"))),
        }
    }

    /// A number of any type.
    fn number(&mut self, kind: u32) -> Result<f64> {
        Ok(match kind {
            6 => f64::from(f32::from_le_bytes(self.array()?)),
            12 => f64::from_le_bytes(self.array()?),
            7 => f64::from(u8::from(self.take(1)?[0] != 0)),
            _ => self.whole(kind)? as f64,
        })
    }

    fn whole(&mut self, kind: u32) -> Result<i128> {
        Ok(match kind {
            0 => u8::from_le_bytes(self.array()?).into(),
            1 => i8::from_le_bytes(self.array()?).into(),
            2 => u16::from_le_bytes(self.array()?).into(),
            3 => i16::from_le_bytes(self.array()?).into(),
            4 => u32::from_le_bytes(self.array()?).into(),
            5 => i32::from_le_bytes(self.array()?).into(),
            10 => u64::from_le_bytes(self.array()?).into(),
            11 => i64::from_le_bytes(self.array()?).into(),
            other => return Err(self.wrong(format!("has a setting of the unknown type {other}"))),
        })
    }

    fn name(&mut self) -> Result<String> {
        self.text(LONGEST_NAME)
    }

    fn text(&mut self, longest: usize) -> Result<String> {
        let length = usize::try_from(self.u64()?).ok().filter(|&length| length <= longest);
        let Some(length) = length else {
            return Err(self.wrong(format!("has a name longer than {longest} bytes")));
        };
        let bytes = self.take(length)?;
        // Vocabularies may hold pieces of characters, which are not UTF-8.
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.take(N)?;
        bytes.try_into().map_err(|_| self.wrong("ends too early"))
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(count);
        let Some(bytes) = end.and_then(|end| self.bytes.get(self.at..end)) else {
            return Err(self.wrong(format!("ends in the middle of its header, at byte {}", self.bytes.len())));
        };
        self.at += count;
        Ok(bytes)
    }

    fn wrong(&self, problem: impl std::fmt::Display) -> Error {
        Error::file(self.path, problem)
    }
}
