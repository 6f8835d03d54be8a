//! The models that the page offers: those named at the start, those of runs, those in the cache.

use super::weights::{self, Change, Stamp};
use crate::cache::Cache;
use crate::compute::Placement;
use crate::error::UsageError;
use crate::model::{self, Opened};
use anyhow::{Result, bail};
use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A model that can be chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Offer {
    /// The MODEL argument that means it.
    pub name: String,
    /// The kind that its configuration names.
    pub kind: String,
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

/// The most models that stay open. Their weights are mapped from files, so that this costs little memory.
const MOST_OPEN: usize = 4;
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
        let mut add = |name: String, kind: String| {
            if !offers.iter().any(|offer| offer.name == name) {
                offers.push(Offer { name, kind });
            }
        };
        for name in &self.named {
            let kind = model::find(name).ok().and_then(|folder| kind(&folder));
            add(name.clone(), kind.unwrap_or_default());
        }
        if let Some(runs) = &self.runs {
            for folder in folders(runs) {
                if let (Some(kind), true) = (kind(&folder), folder.join("model.safetensors").is_file()) {
                    add(folder.display().to_string(), kind);
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

    /// Opens a model that is offered; requests cannot name any other.
    pub fn open(&self, name: &str) -> Result<Arc<Opened>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = opened.iter().position(|known| known.name == name) {
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
        if !self.list().iter().any(|offer| offer.name == name) {
            bail!(UsageError(format!("there is no model {name} here")));
        }
        let (mut stamp, mut copied) = (None, false);
        let model = model::open_with(name, self.placement, |folder| {
            let (weights, found, private) = weights::open(folder)?;
            (stamp, copied) = (Some(found), private);
            Ok(weights)
        })?;
        let model = Arc::new(model);
        let stamp = stamp.unwrap_or_else(|| Stamp::of(&model.folder));
        if opened.len() >= MOST_OPEN {
            opened.remove(0);
        }
        let mut in_place = self.in_place.lock().unwrap_or_else(PoisonError::into_inner);
        in_place.retain(|(known, ..)| known != name);
        if !copied {
            in_place.push((name.to_owned(), model.folder.clone(), stamp.clone()));
        }
        opened.push(OpenModel { name: name.to_owned(), model: Arc::clone(&model), stamp });
        Ok(model)
    }

    /// Whether a model that was opened can still be used: its weights are a private copy, or have not changed.
    pub fn is_intact(&self, name: &str) -> bool {
        let in_place = self.in_place.lock().unwrap_or_else(PoisonError::into_inner);
        let known = in_place.iter().find(|(known, ..)| known == name);
        known.is_none_or(|(_, folder, stamp)| stamp.change(folder) == Change::None)
    }
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).take(MOST_LISTED).collect();
    folders.sort();
    folders
}

/// The kind of model that a folder's configuration names.
fn kind(folder: &Path) -> Option<String> {
    let path = folder.join("config.json");
    let small = std::fs::metadata(&path).is_ok_and(|file| file.len() <= LARGEST_CONFIG);
    let config: Value = serde_json::from_slice(&std::fs::read(path).ok().filter(|_| small)?).ok()?;
    let kind = config.get("model_type")?.as_str()?;
    Some(kind.strip_prefix("regard-").unwrap_or(kind).to_owned())
}
