//! The models that the page offers: those named at the start, those of runs, those in the cache.
//!
//! `NAME@STEP` is the model that the run NAME had at a step, if it kept that.

use super::weights::{self, Change, Stamp};
use crate::cache::Cache;
use crate::compute::Placement;
use crate::error::UsageError;
use crate::model::{self, Opened};
use crate::run::RunFolder;
use anyhow::{Result, bail};
use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A model that can be chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Offer {
    /// A short name that no other model here has.
    pub name: String,
    /// The kind that its configuration names.
    pub kind: String,
    /// Whether it reads grey pictures.
    pub grey: bool,
    /// The MODEL argument that means it.
    #[serde(skip)]
    argument: String,
}

/// The models.
pub struct Catalogue {
    named: Vec<String>,
    runs: Option<PathBuf>,
    placement: Placement,
    /// Opened models, the one used last at the end.
    opened: Mutex<Vec<OpenModel>>,
    /// Those of them whose weights are no private copy. They have a lock of their own, which nobody holds for long: requests
    /// that need no model must not wait for one to be opened.
    in_place: Mutex<Vec<(String, PathBuf, Stamp)>>,
}

#[derive(Clone)]
struct OpenModel {
    name: String,
    model: Arc<Opened>,
    /// Its files when they were opened.
    stamp: Stamp,
}

/// How many models stay open however large they are. Their weights are mapped from files, so that this costs little memory.
const OPEN_ANYWAY: usize = 4;
/// The most models that stay open, and the bytes up to which more than a few do, as the snapshots of a small model.
const MOST_OPEN: usize = 64;
const MOST_OPEN_BYTES: u64 = 1 << 30;
/// The most runs and cached models that are listed.
const MOST_LISTED: usize = 200;
/// The largest configuration file, in bytes.
const LARGEST_CONFIG: u64 = 1 << 20;

impl Catalogue {
    /// Models by name and, if a folder of runs is given, those in it and in the cache.
    pub fn new(named: Vec<String>, runs: Option<PathBuf>, placement: Placement) -> Self {
        Self { named, runs, placement, opened: Mutex::default(), in_place: Mutex::default() }
    }

    /// The models that are available now.
    pub fn list(&self) -> Vec<Offer> {
        let mut offers: Vec<Offer> = Vec::new();
        let mut add = |argument: String, (kind, grey): (String, bool)| {
            if offers.iter().any(|offer| offer.argument == argument) {
                return;
            }
            let short = short(&argument);
            let taken = offers.iter().any(|offer| offer.name == short);
            let name = if taken { argument.clone() } else { short };
            offers.push(Offer { name, kind, grey, argument });
        };
        for name in &self.named {
            // A folder that has no model now may have one later.
            if let Some(folder) = folder_of(name) {
                add(name.clone(), kind(&folder).unwrap_or_default());
            }
        }
        if let Some(runs) = &self.runs {
            for folder in folders(runs) {
                let argument = folder.display().to_string();
                let found = folder_of(&argument).filter(|found| found.join("model.safetensors").is_file());
                if let Some(kind) = found.and_then(|found| kind(&found)) {
                    add(argument, kind);
                }
            }
            let cached = Cache::from_environment().map(|cache| cache.names()).unwrap_or_default();
            for name in cached.into_iter().take(MOST_LISTED) {
                let kind = model::find(&name).ok().and_then(|folder| kind(&folder));
                if let Some(kind) = kind {
                    add(name, kind);
                }
            }
        }
        offers
    }

    /// The offer that a request means, by its short name or by the argument, with the argument that opens it.
    fn resolve(&self, name: &str) -> Option<Offer> {
        if let Some(offer) = self.offer(name) {
            let argument = match model::find(&offer.argument) {
                Ok(_) => offer.argument.clone(),
                Err(_) => folder_of(&offer.argument)?.display().to_string(),
            };
            return Some(Offer { argument, ..offer });
        }
        let (run, step) = name.rsplit_once('@')?;
        let offer = self.offer(run)?;
        let folder = RunFolder::snapshot(Path::new(&offer.argument), step.parse().ok()?);
        let argument = folder.display().to_string();
        folder.join("config.json").is_file().then(|| Offer { name: name.to_owned(), argument, ..offer })
    }

    fn offer(&self, name: &str) -> Option<Offer> {
        let offers = self.list();
        let found = offers.iter().find(|offer| offer.name == name);
        found.or_else(|| offers.iter().find(|offer| offer.argument == name)).cloned()
    }

    /// The folder of the run that a name means, if it is one.
    pub fn run_of(&self, name: &str) -> Option<PathBuf> {
        let offer = self.offer(name)?;
        Some(PathBuf::from(offer.argument)).filter(|folder| folder.join("train.toml").is_file())
    }

    /// Opens a model that is offered; requests cannot name any other.
    pub fn open(&self, name: &str) -> Result<Arc<Opened>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Offer { name, argument, .. }) = self.resolve(name) else {
            bail!(UsageError(format!("there is no model {name} here")));
        };
        let folder = model::find(&argument)?;
        let known = opened.iter().position(|known| known.name == name);
        // A run that had snapshots only may have a model of its own by now.
        if let Some(place) = known.filter(|&place| opened[place].model.folder == folder) {
            let found = opened.remove(place);
            match found.stamp.change(&found.model.folder) {
                Change::None => {
                    opened.push(found.clone());
                    return Ok(found.model);
                }
                Change::Replaced => {}
                Change::InPlace => bail!(
                    "the files of {name} were written to while it was open; the next request opens what they are then"
                ),
            }
        }
        let (mut stamp, mut copied) = (None, false);
        let model = model::open_with(&argument, self.placement, |folder| {
            let (weights, found, private) = weights::open(folder)?;
            (stamp, copied) = (Some(found), private);
            Ok(weights)
        })?;
        let model = Arc::new(model);
        let stamp = stamp.unwrap_or_else(|| Stamp::of(&model.folder));
        opened.retain(|known| known.name != name);
        let crowded = |opened: &[OpenModel]| {
            let bytes: u64 = opened.iter().map(|known| known.stamp.bytes()).sum();
            opened.len() >= MOST_OPEN || bytes + stamp.bytes() > MOST_OPEN_BYTES
        };
        while opened.len() >= OPEN_ANYWAY && crowded(&opened) {
            opened.remove(0);
        }
        let mut in_place = self.in_place.lock().unwrap_or_else(PoisonError::into_inner);
        in_place.retain(|(known, ..)| *known != name);
        if !copied {
            in_place.push((name.clone(), model.folder.clone(), stamp.clone()));
        }
        opened.push(OpenModel { name, model: Arc::clone(&model), stamp });
        Ok(model)
    }

    /// Whether a model that was opened can still be used: its weights are a private copy, or have not changed.
    pub fn is_intact(&self, folder: &Path) -> bool {
        let in_place = self.in_place.lock().unwrap_or_else(PoisonError::into_inner);
        let known = in_place.iter().find(|(_, known, _)| known == folder);
        known.is_none_or(|(_, folder, stamp)| stamp.change(folder) == Change::None)
    }
}

/// The folder of the model that an argument means: of a run without a model of its own yet, its newest snapshot.
fn folder_of(argument: &str) -> Option<PathBuf> {
    let newest = || {
        let run = Path::new(argument);
        Some(RunFolder::snapshot(run, *RunFolder::snapshots(run).last()?))
    };
    model::find(argument).ok().or_else(newest)
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).take(MOST_LISTED).collect();
    folders.sort();
    folders
}

/// A model's name without the folders that it lies in: the last part of a path, or what the Hugging Face cache calls it.
fn short(argument: &str) -> String {
    let path = Path::new(argument);
    let cached = path.components().rev().find_map(|part| {
        let part = part.as_os_str().to_str()?.strip_prefix("models--")?;
        Some(part.replacen("--", "/", 1))
    });
    let last = || path.file_name().map(|name| name.to_string_lossy().into_owned());
    // A name such as `openai-community/gpt2` is no path.
    let is_path = path.is_absolute() || path.exists();
    cached.or_else(|| last().filter(|_| is_path)).unwrap_or_else(|| argument.to_owned())
}

/// The kind of model that a folder's configuration names, and whether it reads grey pictures.
fn kind(folder: &Path) -> Option<(String, bool)> {
    let path = folder.join("config.json");
    let small = std::fs::metadata(&path).is_ok_and(|file| file.len() <= LARGEST_CONFIG);
    let config: Value = serde_json::from_slice(&std::fs::read(path).ok().filter(|_| small)?).ok()?;
    let kind = config.get("model_type")?.as_str()?;
    let grey = config.get("num_channels").and_then(Value::as_u64) == Some(1);
    Some((kind.strip_prefix("regard-").unwrap_or(kind).to_owned(), grey))
}
