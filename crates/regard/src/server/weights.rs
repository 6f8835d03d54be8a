//! Weights that stay as they are while the server uses them.
//!
//! Weights are mapped, and a file that somebody shortens under its mapping ends the process with SIGBUS: no check before a
//! read helps, since the file may be cut between the check and the read. A server therefore maps a private copy, which is
//! made by plain reads (these fail, or come up short, instead of killing) and is unlinked at once, so that nobody else can
//! open it. The kernel may drop its pages like those of any file, which a copy in the heap would not allow, and on file
//! systems with reflinks it costs no space.
//!
//! Copies larger than [`LARGEST_COPY`] would fill a disk for temporary files. Such weights are mapped where they are, and
//! compared with what they were before each request; only a file that is cut in the middle of a pass still ends the server.

use crate::temporary_folder::TemporaryFolder;
use anyhow::{Context as _, Result, bail};
use regard_nn::checkpoint::StoredWeights;
use serde_json::Value;
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The largest weights that are copied, in bytes.
const LARGEST_COPY: u64 = 4 << 30;
/// The largest index of shards, in bytes.
const LARGEST_INDEX: u64 = 64 << 20;

/// What tells whether files are still those that were opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp(Vec<FileStamp>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct FileStamp {
    bytes: u64,
    modified: Option<SystemTime>,
    /// The device and the number of the file, which change when another one takes its name.
    identity: (u64, u64),
}

/// How files differ from those that were opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Not at all.
    None,
    /// Others have taken their names, as a training run replaces its best model.
    Replaced,
    /// They were written to.
    InPlace,
}

impl Stamp {
    /// The configuration and the weights of a folder as they are now.
    pub fn of(folder: &Path) -> Self {
        let files = [folder.join("config.json")].into_iter().chain(files(folder));
        Self(files.filter_map(|file| Some(FileStamp::of(&std::fs::metadata(file).ok()?))).collect())
    }

    /// How the files of the folder have changed since.
    pub fn change(&self, folder: &Path) -> Change {
        let now = Self::of(folder);
        let same_files = || {
            self.0.len() == now.0.len() && self.0.iter().zip(&now.0).all(|(a, b)| a.identity == b.identity)
        };
        match self == &now {
            true => Change::None,
            false if same_files() => Change::InPlace,
            false => Change::Replaced,
        }
    }

    /// How large they were.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|file| file.bytes).fold(0, u64::saturating_add)
    }
}

impl FileStamp {
    fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let identity = {
            use std::os::unix::fs::MetadataExt as _;
            (metadata.dev(), metadata.ino())
        };
        #[cfg(not(unix))]
        let identity = (0, 0);
        Self { bytes: metadata.len(), modified: metadata.modified().ok(), identity }
    }
}

/// The weights of a folder with their stamp, and whether they are a private copy.
pub fn open(folder: &Path) -> Result<(StoredWeights, Stamp, bool)> {
    let stamp = Stamp::of(folder);
    let files = files(folder);
    if files.is_empty() || stamp.bytes() > LARGEST_COPY {
        return Ok((StoredWeights::open(folder)?, stamp, false));
    }
    let private = TemporaryFolder::new()?;
    for file in &files {
        let Some(name) = file.file_name() else { continue };
        copy(file, &private.path().join(name))?;
    }
    if stamp.change(folder) != Change::None {
        bail!("{} is being written to; try again when that is done", folder.display());
    }
    // Their names are gone when this returns; the mappings stay.
    Ok((StoredWeights::open(private.path())?, stamp, true))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let failed =
        || format!("cannot copy {} to {} (TMPDIR names another folder)", from.display(), to.display());
    if !std::fs::metadata(from).with_context(failed)?.is_file() {
        bail!("{} is not a file", from.display());
    }
    let (mut from, mut to) =
        (File::open(from).with_context(failed)?, File::create_new(to).with_context(failed)?);
    std::io::copy(&mut from, &mut to).with_context(failed)?;
    Ok(())
}

/// The files that hold the weights of a folder: one, or shards with their index; none if it has neither.
fn files(folder: &Path) -> Vec<PathBuf> {
    let whole = folder.join("model.safetensors");
    if whole.exists() {
        return vec![whole];
    }
    let index = folder.join("model.safetensors.index.json");
    let mut files: Vec<PathBuf> = shards(&index).into_iter().map(|name| folder.join(name)).collect();
    if !files.is_empty() {
        files.push(index);
    }
    files
}

/// The files that an index names. Whether they are sound is checked where they are opened.
fn shards(index: &Path) -> Vec<String> {
    let mut text = Vec::new();
    let small = std::fs::metadata(index).is_ok_and(|file| file.is_file() && file.len() <= LARGEST_INDEX);
    let read = small.then(|| File::open(index).ok()?.take(LARGEST_INDEX).read_to_end(&mut text).ok());
    if read.flatten().is_none() {
        return Vec::new();
    }
    let value: Value = serde_json::from_slice(&text).unwrap_or_default();
    let map = value.get("weight_map").and_then(Value::as_object);
    let plain = |name: &&str| Path::new(name).file_name().is_some_and(|last| last == *name);
    let names = map.into_iter().flat_map(|map| map.values()).filter_map(Value::as_str).filter(plain);
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}
