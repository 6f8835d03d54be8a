//! A folder for files that are needed for a while.

use anyhow::{Context as _, Result, bail};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A new folder in the system's folder for temporary files, which is deleted when this is dropped. On Unix, files in it that are
/// open or mapped stay readable.
pub struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    /// An empty folder.
    pub fn new() -> Result<Self> {
        // It must be new: files of other users or of an earlier process with this number must not be overwritten.
        for number in 0_u64.. {
            let path = std::env::temp_dir().join(format!("regard-{}-{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(error)
                        .with_context(|| format!("cannot create the folder {}", path.display()));
                }
                Ok(()) => return Ok(Self(path)),
            }
        }
        bail!("there is no free name in {}", std::env::temp_dir().display())
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
