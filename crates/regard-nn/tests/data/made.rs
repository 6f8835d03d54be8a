//! Files written by a test, in a temporary folder.

use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A folder for a test's files.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file, with the folders on the way to it.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).expect("a folder");
        }
        std::fs::write(&path, content).expect("a file");
        path
    }
}

/// One gzip member.
pub fn gzip(content: impl AsRef<[u8]>) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(content.as_ref()).expect("memory");
    encoder.finish().expect("memory")
}

/// The message of the expected error, without the folder's name.
pub fn problem<T>(folder: &Folder, result: regard_nn::Result<T>) -> String {
    match result {
        Ok(_) => panic!("an error was expected"),
        Err(error) => error.to_string().replace(&format!("{}/", folder.path().display()), ""),
    }
}
