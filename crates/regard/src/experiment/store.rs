//! Where finished parts and trained models are kept, so that nothing is computed twice.
//!
//! A part's result is found again by what it was computed from: the part's input, the data, and the program itself, since
//! any line of an experiment may change what it measures. A trained model depends on less: its configuration, its data, the
//! device, and the versions of the engine and of training. A program that was built anew keeps the models of the one before.

use crate::compute::Placement;
use crate::error::Interrupted;
use crate::run::{DONE, RunConfig, interrupt_flag};
use anyhow::{Context as _, Result, bail};
use regard_nn::data::file::write_whole_among_others;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::fs::{File, Metadata, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

/// So many folders deep are the files of a data set; IMDb's are two.
const DEPTH: usize = 4;

/// A folder of results.
pub struct Store {
    folder: PathBuf,
    program: String,
    found: AtomicBool,
    written: AtomicUsize,
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
        Ok(Self {
            folder: folder.to_owned(),
            program: hex(&hash.finalize()),
            found: AtomicBool::new(false),
            written: AtomicUsize::new(0),
        })
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
        write_whole_among_others(path, |file| file.write_all(&text))?;
        self.written.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// How many results were written down.
    pub fn computed(&self) -> usize {
        self.written.load(Ordering::Relaxed)
    }

    /// Waits until no other process trains in the folder of a model: several shares may need it.
    pub fn claim(&self, model: &Path) -> Result<Claim> {
        let file = model.with_extension("lock");
        if model.join(DONE).exists() {
            return Ok(Claim { model: model.to_owned(), file, held: None });
        }
        if let Some(folder) = model.parent() {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot create the folder {}", folder.display()))?;
        }
        let lock = File::create(&file).with_context(|| format!("cannot write {}", file.display()))?;
        while matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
            if interrupt_flag().load(Ordering::Relaxed) {
                bail!(Interrupted::repeat());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(Claim { model: model.to_owned(), file, held: Some(lock) })
    }

    /// Copies finished parts of experiments, and finished models, from another folder, as far as they are not here. How many.
    pub fn merge(&self, from: &Path, experiments: &[&str]) -> Result<(usize, usize)> {
        let (mut parts, mut models) = (0, 0);
        for name in experiments {
            for file in entries(&from.join(name).join("parts"))? {
                let to = self.folder.join(name).join("parts").join(file.file_name().unwrap_or_default());
                let is_part = file.extension().is_some_and(|extension| extension == "json");
                if is_part && !to.exists() && is_whole(&file) {
                    copy(&file, &to)?;
                    parts += 1;
                }
            }
        }
        for model in entries(&from.join("models"))? {
            let to = self.folder.join("models").join(model.file_name().unwrap_or_default());
            if model.join(DONE).exists() && !to.join(DONE).exists() {
                // What marks it as done comes last, so that a copy that was interrupted counts for nothing.
                copy_folder(&model, &to)?;
                copy(&model.join(DONE), &to.join(DONE))?;
                models += 1;
            }
        }
        Ok((parts, models))
    }
}

/// The right to train a model.
pub struct Claim {
    model: PathBuf,
    file: PathBuf,
    held: Option<File>,
}

impl Drop for Claim {
    /// Whoever waits for a model that is done needs no lock any more.
    fn drop(&mut self) {
        if self.held.is_some() && self.model.join(DONE).exists() {
            let _ = std::fs::remove_file(&self.file);
        }
    }
}

/// What is in a folder, if there is one.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let cannot = || format!("cannot read {}", folder.display());
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .with_context(cannot)?;
    paths.sort_unstable();
    Ok(paths)
}

/// Whether a file is a whole part.
fn is_whole(file: &Path) -> bool {
    std::fs::read(file).is_ok_and(|text| serde_json::from_slice::<serde::de::IgnoredAny>(&text).is_ok())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(folder) = to.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create the folder {}", folder.display()))?;
    }
    let mut source = File::open(from).with_context(|| format!("cannot read {}", from.display()))?;
    Ok(write_whole_among_others(to, |file| std::io::copy(&mut source, file).map(|_| ()))?)
}

/// Copies a folder without the mark that it is done, and without replacing the lock of a process that works in it.
fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    for path in entries(from)? {
        let name = path.file_name().unwrap_or_default();
        if path.is_dir() {
            copy_folder(&path, &to.join(name))?;
        } else if name != DONE && !(name == "lock" && to.join(name).exists()) {
            copy(&path, &to.join(name))?;
        }
    }
    Ok(())
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
