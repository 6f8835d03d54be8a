//! Tensors in `safetensors` files: mapped, checked, and read by name.

use super::names::{Names, ROW};
use super::part::Part;
use super::read_small;
use super::values::{data_type, decoded, dtype, narrow};
use crate::error::{Error, Result};
use regard_tensor::{Ids, MappedFile, Shape, Tensor};
use safetensors::tensor::{Dtype, Metadata, SafeTensors, View};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::{Component, Path};
use std::sync::{Mutex, PoisonError};

/// No index of shards is larger than this.
const LARGEST_INDEX: u64 = 64 << 20;
/// After so many wrong tensors there is no use in looking for more.
const MOST_PROBLEMS: usize = 1000;
/// So many of them are told.
const TOLD_PROBLEMS: usize = 12;

/// A tensor in a file.
#[derive(Debug, Clone)]
pub struct Stored {
    file: usize,
    bytes: Range<usize>,
    dtype: Dtype,
    shape: Vec<usize>,
}

/// All tensors of a checkpoint, not yet read.
pub struct StoredWeights {
    files: Vec<MappedFile>,
    tensors: BTreeMap<String, Stored>,
    metadata: HashMap<String, String>,
}

impl StoredWeights {
    /// The weights of a folder: one file, or shards with an index.
    pub fn open(folder: &Path) -> Result<Self> {
        let whole = folder.join("model.safetensors");
        if whole.exists() {
            return Self::from_files(&[&whole]);
        }
        let index = folder.join("model.safetensors.index.json");
        if index.exists() {
            let shards = shards(&index)?;
            let paths: Vec<_> = shards.iter().map(|shard| folder.join(shard)).collect();
            return Self::from_files(&paths.iter().map(AsRef::as_ref).collect::<Vec<_>>());
        }
        let pickle = ["pytorch_model.bin", "pytorch_model.bin.index.json"]
            .iter()
            .any(|name| folder.join(name).exists());
        if pickle {
            return Err(Error::file(
                folder,
                format!(
                    "has its weights in a pickle (pytorch_model.bin), which can run any code when it is opened; if you trust \
                     it, convert it with transformers: {0}.from_pretrained(folder).save_pretrained(folder)",
                    architecture(folder)
                ),
            ));
        }
        Err(Error::file(folder, "has no model.safetensors (nor an index of shards)"))
    }

    /// The tensors of some `safetensors` files.
    pub fn from_files(paths: &[&Path]) -> Result<Self> {
        let (mut files, mut tensors, mut notes) = (Vec::new(), BTreeMap::new(), HashMap::new());
        for path in paths {
            let map = MappedFile::open(path).map_err(|error| Error::file(path, error.to_string()))?;
            let (header, metadata): (usize, Metadata) = SafeTensors::read_metadata(map.bytes())
                .map_err(|error| Error::file(path, format!("is not a safetensors file: {error}")))?;
            // The length of the header itself stands before it in 8 bytes.
            let data = header.saturating_add(8);
            for (name, info) in metadata.tensors() {
                let (start, end) = info.data_offsets;
                let bytes = start.saturating_add(data)..end.saturating_add(data);
                if bytes.end > map.bytes().len() || bytes.start > bytes.end {
                    return Err(Error::file(path, format!("ends before its tensor {name} does")));
                }
                let stored =
                    Stored { file: files.len(), bytes, dtype: info.dtype, shape: info.shape.clone() };
                if tensors.insert(name.clone(), stored).is_some() {
                    return Err(Error::file(path, format!("repeats the tensor {name} of another shard")));
                }
            }
            notes.extend(metadata.metadata().clone().unwrap_or_default());
            files.push(map);
        }
        Ok(Self { files, tensors, metadata: notes })
    }

    /// Tensors that another program holds in memory, copied: names, shapes and values.
    pub fn from_values(tensors: &[(String, Vec<usize>, &[f32])]) -> Result<Self> {
        let length = tensors.iter().map(|(.., values)| size_of_val(*values)).sum();
        let file = MappedFile::of_memory(length, |bytes| {
            let all = tensors.iter().flat_map(|(.., values)| *values);
            for (bytes, value) in bytes.chunks_exact_mut(4).zip(all) {
                bytes.copy_from_slice(&value.to_le_bytes());
            }
        });
        let file = file.map_err(|error| {
            Error::checkpoint(format!("there is no memory for weights of {length} bytes: {error}"))
        })?;
        let (mut stored, mut end) = (BTreeMap::new(), 0);
        for (name, shape, values) in tensors {
            let start = end;
            end += size_of_val(*values);
            let place = Stored { file: 0, bytes: start..end, dtype: Dtype::F32, shape: shape.clone() };
            if stored.insert(name.clone(), place).is_some() {
                return Err(Error::checkpoint(format!("there are two tensors {name}")));
            }
        }
        Ok(Self { files: vec![file], tensors: stored, metadata: HashMap::new() })
    }

    /// The names of all tensors, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// What a file says beside its tensors.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).map(String::as_str)
    }

    /// Whether there is a tensor of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// The shape of a tensor.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        Some(&self.tensors.get(name)?.shape)
    }

    /// Whether two tensors are both there and not the same.
    fn differ(&self, one: &str, other: &str) -> bool {
        let (Some(one), Some(other)) = (self.tensors.get(one), self.tensors.get(other)) else { return false };
        let bytes = |stored: &Stored| self.files[stored.file].bytes().get(stored.bytes.clone());
        (one.dtype, &one.shape) != (other.dtype, &other.shape) || bytes(one) != bytes(other)
    }

    /// Reads a tensor: where it lies if it is f32, bf16 or f16, which keep their type; else as a copy in f32.
    pub fn read(&self, name: &str) -> Result<Option<Tensor>> {
        let Some(stored) = self.tensors.get(name) else { return Ok(None) };
        let file = &self.files[stored.file];
        let shape = Shape::from(stored.shape.as_slice());
        if let Some(data_type) = data_type(stored.dtype) {
            return Ok(Some(file.tensor_of(data_type, stored.bytes.clone(), shape)?));
        }
        let Some(bytes) = file.bytes().get(stored.bytes.clone()) else {
            return Err(Error::checkpoint(format!("{name} lies outside its file")));
        };
        decoded(name, stored.dtype, bytes, shape).map(Some)
    }

    /// Reads a part of a tensor, in a shape of its own: where it lies if it is of one piece, else as a copy of its own type.
    fn read_part(&self, name: &str, (part, numbers): (&Part, &[usize]), shape: &Shape) -> Result<Tensor> {
        let small = || Error::checkpoint(format!("{name} is too small to be cut into parts"));
        let stored = self.tensors.get(name).ok_or_else(small)?;
        let (file, size) = (&self.files[stored.file], stored.dtype.bitsize() / 8);
        let bytes = file.bytes().get(stored.bytes.clone()).ok_or_else(small)?;
        let data_type = data_type(stored.dtype);
        if let (Some(data_type), Some((first, length))) = (data_type, part.one_run(numbers)) {
            let start = first.checked_mul(size).and_then(|start| start.checked_add(stored.bytes.start));
            let end = start.and_then(|start| length.checked_mul(size)?.checked_add(start));
            let (start, end) =
                start.zip(end).filter(|(_, end)| *end <= stored.bytes.end).ok_or_else(small)?;
            return Ok(file.tensor_of(data_type, start..end, shape.clone())?);
        }
        let taken = part.take(bytes, size, numbers).ok_or_else(small)?;
        // The copy takes the place of the file's pages, and another part of them may be read long after.
        file.release(stored.bytes.clone());
        match data_type {
            Some(data_type) => narrow(name, data_type, &taken, shape),
            None => decoded(name, stored.dtype, &taken, shape.clone()),
        }
    }

    /// Reads whole numbers: token ids, or a mask as 0 and 1.
    pub fn read_ids(&self, name: &str) -> Result<Option<Ids>> {
        let Some(stored) = self.tensors.get(name) else { return Ok(None) };
        let Some(bytes) = self.files[stored.file].bytes().get(stored.bytes.clone()) else {
            return Err(Error::checkpoint(format!("{name} lies outside its file")));
        };
        let width = match stored.dtype {
            Dtype::BOOL | Dtype::U8 => 1,
            Dtype::I32 | Dtype::U32 => 4,
            Dtype::I64 | Dtype::U64 => 8,
            other => {
                let problem = format!("{name} is stored as {other:?}; whole numbers were expected");
                return Err(Error::checkpoint(problem));
            }
        };
        // Negative numbers have their highest bit set, and so become too large.
        let id = |bytes: &[u8]| {
            let mut wide = [0; 8];
            wide[..width].copy_from_slice(bytes);
            i32::try_from(u64::from_le_bytes(wide)).ok().map(i32::cast_unsigned)
        };
        match bytes.chunks_exact(width).map(id).collect::<Option<Vec<u32>>>() {
            Some(ids) => Ok(Some(Ids::new(&ids, Shape::from(stored.shape.as_slice()))?)),
            None => Err(Error::checkpoint(format!("{name} has a number that cannot be an id"))),
        }
    }
}

/// The class that a folder's configuration names: another one would drop its head.
fn architecture(folder: &Path) -> String {
    let config = super::read_config(folder).unwrap_or_default();
    let named = config.get("architectures").and_then(|all| all.get(0)?.as_str().map(str::to_owned));
    let plain = named.filter(|name| name.len() < 80 && name.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    plain.unwrap_or_else(|| "the class of your model, such as AutoModelForCausalLM,".to_owned())
}

/// The file names of an index of shards, each once.
fn shards(index: &Path) -> Result<Vec<String>> {
    let wrong = |problem: String| Error::file(index, problem);
    let value: Value = serde_json::from_slice(&read_small(index, LARGEST_INDEX)?)
        .map_err(|error| wrong(format!("is not an index: {error}")))?;
    let Some(map) = value.get("weight_map").and_then(Value::as_object) else {
        return Err(wrong("has no weight_map".to_owned()));
    };
    let mut names = BTreeSet::new();
    for name in map.values() {
        let Some(name) = name.as_str() else {
            return Err(wrong("has a weight_map with something else than names".into()));
        };
        let plain = matches!(Path::new(name).components().collect::<Vec<_>>()[..], [Component::Normal(_)]);
        if !plain {
            return Err(wrong(format!("names a file outside its folder: {name:?}")));
        }
        names.insert(name.to_owned());
        if names.len() > 10_000 {
            return Err(wrong("names more than 10,000 files".to_owned()));
        }
    }
    Ok(names.into_iter().collect())
}

/// A model being read: which tensors were asked for, and what was wrong with them.
pub(super) struct Reading {
    weights: StoredWeights,
    names: Names,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    used: HashSet<String>,
    problems: Vec<String>,
}

impl Reading {
    pub fn new(weights: StoredWeights, names: Names) -> Self {
        Self { weights, names, state: Mutex::default() }
    }

    /// One of our parameters. If it is missing or has another shape, that is noted and reading goes on, so that
    /// everything that is wrong can be told at once.
    pub fn read(&self, path: &str, shape: &Shape) -> Result<Tensor> {
        let name = self.names.theirs(path).unwrap_or_else(|| path.to_owned());
        let [rows, rest @ ..] = &shape[..] else { return self.read_named(path, name, shape) };
        if !name.contains(ROW) {
            return self.read_named(path, name, shape);
        }
        let row = |row: usize| self.read_named(path, name.replace(ROW, &row.to_string()), &Shape::from(rest));
        let all = (0..*rows).map(row).collect::<Result<Vec<_>>>()?;
        let all = all.iter().flat_map(Tensor::to_vec).collect::<Vec<_>>();
        if all.len() == shape.count() {
            Ok(Tensor::new(&all, shape.clone())?)
        } else {
            Ok(Tensor::zeros([0]))
        }
    }

    fn read_named(&self, path: &str, name: String, shape: &Shape) -> Result<Tensor> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Files converted from TensorFlow have another name for what a norm learns.
        let older =
            name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta");
        let name = if !self.weights.contains(&name) && self.weights.contains(&older) { older } else { name };
        // Some files keep a copy and leave the original out.
        let name = match self.names.copies().find(|(copy, of)| *of == name && self.weights.contains(copy)) {
            Some((copy, _)) if !self.weights.contains(&name) => copy,
            _ => name,
        };
        let expected = self.names.their_shape(path, shape);
        let problem = match self.weights.shape(&name) {
            None => format!("{name} is missing, expected {}", Shape::from(expected)),
            Some(found) if *found != expected[..] => {
                format!("{name} has shape {}, expected {}", Shape::from(found), Shape::from(expected))
            }
            Some(_) => {
                if let Some((part, numbers)) = self.names.part(path) {
                    let tensor = self.weights.read_part(&name, (part, &numbers), shape)?;
                    state.used.insert(name);
                    return Ok(tensor);
                }
                let tensor = self.weights.read(&name)?;
                state.used.insert(name.clone());
                let tensor = tensor.ok_or_else(|| Error::checkpoint(format!("{name} is missing")))?;
                return Ok(tensor.reshape(shape)?);
            }
        };
        state.used.insert(name);
        state.problems.push(problem);
        if state.problems.len() > MOST_PROBLEMS {
            return Err(Error::checkpoint("too many tensors are missing"));
        }
        Ok(Tensor::zeros([0]))
    }

    /// Whether a tensor was asked for that is not there, or not as it should be.
    pub fn misses_something(&self) -> bool {
        !self.state.lock().unwrap_or_else(PoisonError::into_inner).problems.is_empty()
    }

    /// Fails with a list of all that was wrong, tensors that nobody asked for included.
    pub fn problems(&self) -> Result<()> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let unused = self
            .weights
            .tensors
            .iter()
            .filter(|(name, _)| !state.used.contains(*name) && !self.names.ignores(name));
        let extra =
            unused.map(|(name, stored)| format!("{name} {} is extra", Shape::from(stored.shape.as_slice())));
        let differs = |(copy, of): &(String, String)| self.weights.differ(copy, of);
        let untied = self.names.copies().filter(differs).map(|(copy, of)| {
            format!("{copy} differs from {of}, though config.json makes them one (see tie_word_embeddings)")
        });
        let all: Vec<String> = state.problems.iter().cloned().chain(extra).chain(untied).collect();
        if all.is_empty() {
            return Ok(());
        }
        let mut told = all.iter().take(TOLD_PROBLEMS).cloned().collect::<Vec<_>>().join("; ");
        if all.len() > TOLD_PROBLEMS {
            let _ = write!(told, "; and {} more", all.len() - TOLD_PROBLEMS);
        }
        Err(Error::checkpoint(format!("the weights do not fit the configuration: {told}")))
    }
}

/// A tensor on its way into a file.
struct Outgoing<'a>(&'a Tensor);

impl View for Outgoing<'_> {
    fn dtype(&self) -> Dtype {
        dtype(self.0.data_type())
    }

    fn shape(&self) -> &[usize] {
        self.0.shape()
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Owned(self.0.to_le_bytes())
    }

    fn data_len(&self) -> usize {
        self.0.count() * self.0.data_type().bytes()
    }
}

/// Writes tensors as a `safetensors` file, which is put together in memory first.
pub(super) fn write(
    file: &mut File,
    tensors: &BTreeMap<String, Tensor>,
    metadata: HashMap<String, String>,
) -> std::io::Result<()> {
    let views = tensors.iter().map(|(name, tensor)| (name, Outgoing(tensor)));
    let bytes = safetensors::serialize(views, Some(metadata)).map_err(std::io::Error::other)?;
    file.write_all(&bytes)
}
