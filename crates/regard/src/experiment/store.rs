//! Where finished parts and trained models are kept, so that nothing is computed twice.
//!
//! A part's result is found again by what it was computed from: the part's input, the data, and the program itself, since
//! any line of an experiment may change what it measures. A trained model depends on less: its configuration, its data, the
//! device, and the versions of the engine and of training. A program that was built anew keeps the models of the one before.

use crate::compute::Placement;
use crate::run::RunConfig;
use anyhow::{Context as _, Result};
use regard_nn::data::file::write_whole;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::fs::Metadata;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::UNIX_EPOCH;

/// So many folders deep are the files of a data set; IMDb's are two.
const DEPTH: usize = 4;

/// A folder of results.
pub struct Store {
    folder: PathBuf,
    program: String,
    found: AtomicBool,
}

impl Store {
    /// The results in a folder, as far as this very program computed them.
    pub fn new(folder: &Path) -> Result<Self> {
        let program = crate::machine::program().and_then(std::fs::File::open);
        let mut program = program.context("cannot read the program's own file")?;
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 1 << 20];
        loop {
            match program.read(&mut buffer).context("cannot read the program's own file")? {
                0 => break,
                count => hash.update(&buffer[..count]),
            }
        }
        Ok(Self { folder: folder.to_owned(), program: hex(&hash.finalize()), found: AtomicBool::new(false) })
    }

    /// The hash of the program that the results are of.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// The identity of a data set, without reading it: path, size and time of change; of a folder, those of the
    /// files in it. What this store keeps there is no data.
    pub fn identity(&self, path: &Path) -> Result<String> {
        let about = std::fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
        if !about.is_dir() {
            return Ok(format!("{} {}", path.display(), version(&about)));
        }
        let mut files = Vec::new();
        self.list(path, DEPTH, &mut files)?;
        // A folder has no order of its own.
        files.sort_unstable();
        let hash = Sha256::digest(files.join("\n"));
        Ok(format!("{} {}", path.display(), hex(&hash)))
    }

    /// Every file of a folder with its version, so many folders deep.
    fn list(&self, folder: &Path, depth: usize, files: &mut Vec<String>) -> Result<()> {
        let cannot = || format!("cannot read {}", folder.display());
        let own = |path: &Path| match (path.canonicalize(), self.folder.canonicalize()) {
            (Ok(path), Ok(own)) => path == own,
            _ => false,
        };
        for entry in std::fs::read_dir(folder).with_context(cannot)? {
            let path = entry.with_context(cannot)?.path();
            match std::fs::metadata(&path) {
                Ok(about) if about.is_dir() => {
                    if depth > 0 && !own(&path) {
                        self.list(&path, depth - 1, files)?;
                    }
                }
                Ok(about) => files.push(format!("{} {}", path.display(), version(&about))),
                // A link to nothing is no data, but that it is there may matter.
                Err(_) => files.push(path.display().to_string()),
            }
        }
        Ok(())
    }

    /// The file of a part.
    pub fn part(&self, experiment: &str, stage: &str, key: &str, placement: Placement) -> PathBuf {
        let program = format!("{}\n{}\n", self.program, device(placement));
        self.folder.join(experiment).join("parts").join(format!("{stage}-{}.json", name(&program, key)))
    }

    /// The folder of a model.
    pub fn model(&self, config: &RunConfig, placement: Placement) -> Result<PathBuf> {
        let mut key = toml::to_string(config)?;
        for path in [&config.data.path, &config.data.vectors].into_iter().flatten() {
            key = format!("{key}\n{}", self.identity(Path::new(path))?);
        }
        let (numerics, revision) = (regard_tensor::NUMERICS, regard_nn::train::REVISION);
        let versions = format!("{}\n{numerics} {revision}\n", device(placement));
        Ok(self.folder.join("models").join(name(&versions, &key)))
    }

    /// A result, if it is there and whole.
    pub fn read<T: DeserializeOwned>(&self, path: &Path) -> Option<T> {
        let result = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        self.found.store(true, Ordering::Relaxed);
        Some(result)
    }

    /// Whether anything was there already: an earlier run had finished it.
    pub fn resumed(&self) -> bool {
        self.found.load(Ordering::Relaxed)
    }

    /// Writes a result down.
    pub fn write(&self, path: &Path, result: &impl Serialize) -> Result<()> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot create the folder {}", folder.display()))?;
        }
        let text = serde_json::to_vec(result)?;
        Ok(write_whole(path, |file| file.write_all(&text))?)
    }
}

/// What rounds in a way of its own: the CPU's vector instructions, or a kind of GPU in a precision.
fn device(placement: Placement) -> String {
    match placement {
        Placement::CPU => format!("cpu {:?}", regard_tensor::level()),
        other => format!("{} {}", other.identity(), other.precision),
    }
}

/// A short name for a key under some versions.
fn name(versions: &str, key: &str) -> String {
    hex(&Sha256::new().chain_update(versions).chain_update(key).finalize())[..20].to_owned()
}

/// The size of a file and the time when it was changed.
fn version(file: &Metadata) -> String {
    let changed = file.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    format!("{} {}", file.len(), changed.map_or(0, |time| time.as_nanos()))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
