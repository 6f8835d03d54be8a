//! The cache that this program shares with Hugging Face's Python libraries.
//!
//! A model `owner/name` has a folder `models--owner--name` with `refs/main`, which holds a commit; `snapshots/<commit>/`,
//! which has the files under their names; and `blobs/`, which has their contents under the names the server gives them.
//! `HF_HUB_CACHE` names the folder of all models, or `HF_HOME` the one that has it as `hub`; else it is
//! `~/.cache/huggingface/hub`.

use anyhow::{Context as _, Result};
use std::fmt::{Display, Formatter};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The name of a model on the hub: `owner/name`, or `name` alone for some of the oldest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(String);

/// The longest name that the hub allows.
const LONGEST_NAME: usize = 96;

impl FromStr for Name {
    type Err = String;

    /// Only what the hub allows: a name becomes part of paths and addresses, so that nothing else may get through.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            |problem: &str| Err(format!("{text:?} is no name of a model such as owner/name: {problem}"));
        if text.len() > LONGEST_NAME {
            return Err(format!("a name of {} bytes is longer than {LONGEST_NAME}", text.len()));
        }
        let parts: Vec<&str> = text.split('/').collect();
        if parts.len() > 2 {
            return wrong("it has more than one /");
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        for part in parts {
            if part.is_empty() || !part.chars().all(plain) {
                return wrong("its parts have letters, digits, -, _ and .");
            }
            if part.starts_with(['-', '.']) || part.ends_with(['-', '.']) {
                return wrong("its parts neither begin nor end with - or .");
            }
            if part.contains("--") || part.contains("..") {
                return wrong("it has -- or .. in it");
            }
        }
        Ok(Self(text.to_owned()))
    }
}

impl Display for Name {
    fn fmt(&self, f: &mut Formatter) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The folder of all models.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// A cache in a folder.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The cache that the environment names.
    pub fn from_environment() -> Result<Self> {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(folder) = set("HF_HUB_CACHE").or_else(|| set("HUGGINGFACE_HUB_CACHE")) {
            return Ok(Self::at(folder));
        }
        Ok(Self::at(home()?.join("hub")))
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The names of the models in it.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let name = |entry: std::fs::DirEntry| {
            let folder = entry.file_name().into_string().ok()?;
            let name = folder.strip_prefix("models--")?.replacen("--", "/", 1);
            name.parse::<Name>().ok().map(|name| name.to_string())
        };
        let mut names: Vec<String> = entries.filter_map(name).collect();
        names.sort();
        names
    }

    /// The folder of one model.
    pub fn model(&self, name: &Name) -> PathBuf {
        self.folder.join(format!("models--{}", name.0.replace('/', "--")))
    }

    /// The folder with a model's files, if it is there: what `main` means, else the last of those there are.
    pub fn snapshot(&self, name: &Name) -> Option<PathBuf> {
        let model = self.model(name);
        let has_model = |folder: &PathBuf| folder.join("config.json").is_file();
        let main = read_commit(&model.join("refs/main")).map(|commit| model.join("snapshots").join(commit));
        main.filter(has_model).or_else(|| {
            let snapshots = std::fs::read_dir(model.join("snapshots")).ok()?;
            snapshots.filter_map(|entry| Some(entry.ok()?.path())).filter(has_model).max()
        })
    }
}

/// The folder of everything of Hugging Face's: the cache, and the token of the user who logged in.
pub fn home() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(home) = set("HF_HOME") {
        return Ok(home);
    }
    let caches = set("XDG_CACHE_HOME").or_else(|| Some(std::env::home_dir()?.join(".cache")));
    Ok(caches.context("there is no home folder; set HF_HOME")?.join("huggingface"))
}

/// A commit as a file of `refs` holds it.
fn read_commit(path: &Path) -> Option<String> {
    let small = std::fs::metadata(path).is_ok_and(|file| file.len() <= 200);
    let text = if small { std::fs::read_to_string(path).ok()? } else { return None };
    is_commit(text.trim()).then(|| text.trim().to_owned())
}

/// Whether a text can be a commit: hexadecimal digits, so that it cannot be a path.
pub fn is_commit(text: &str) -> bool {
    (7..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_be_paths_or_addresses_are_rejected() {
        for good in ["gpt2", "openai-community/gpt2", "a/b_c-1.0"] {
            assert_eq!(good.parse::<Name>().unwrap().to_string(), good);
        }
        let long = "x".repeat(97);
        for bad in [
            "", "/", "a/", "/a", "a/b/c", "..", "a/..", "../a", "a b", "a/b?x", "a%2f", "ä", "-a", "a--b",
            "a\\b", &long,
        ] {
            assert!(bad.parse::<Name>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_snapshot_is_found_by_its_commit_only() {
        let folder = tempfile::tempdir().unwrap();
        let (cache, name) = (Cache::at(folder.path()), "owner/tiny".parse::<Name>().unwrap());
        assert_eq!(cache.snapshot(&name), None);
        let model = folder.path().join("models--owner--tiny");
        for commit in ["0123456789", "abcdef0123"] {
            let files = model.join("snapshots").join(commit);
            std::fs::create_dir_all(&files).unwrap();
            std::fs::write(files.join("config.json"), "{}").unwrap();
        }
        assert_eq!(cache.snapshot(&name), Some(model.join("snapshots/abcdef0123")));
        std::fs::create_dir_all(model.join("refs")).unwrap();
        std::fs::write(model.join("refs/main"), "0123456789\n").unwrap();
        assert_eq!(cache.snapshot(&name), Some(model.join("snapshots/0123456789")));
        std::fs::write(model.join("refs/main"), "../../../elsewhere").unwrap();
        assert_eq!(cache.snapshot(&name), Some(model.join("snapshots/abcdef0123")));
    }
}
