//! A file of ids with random access.
//!
//! The header has 32 bytes: magic bytes, the width of an id (2 or 4), the size of the vocabulary, the number of ids, and a
//! hash of the origin. Then follow the ids; all little-endian.

use crate::data::file::{explain, temporary_name};
use crate::error::{Error, Result};
use crate::tokens::Tokenizer;
use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

const MARK: [u8; 8] = *b"regard01";
const HEADER: usize = 32;

/// An open file of ids.
#[derive(Debug)]
pub(super) struct TokenFile {
    path: PathBuf,
    file: Mutex<File>,
    width: usize,
    vocabulary: usize,
    len: usize,
    origin: u64,
}

impl TokenFile {
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |error| explain(path, &error);
        let mut file = File::open(path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        let mut header = [0; HEADER];
        if bytes < HEADER as u64 {
            return Err(Error::file(path, "not a file of ids: the file is too short"));
        }
        file.read_exact(&mut header).map_err(failed)?;
        if header[..8] != MARK {
            return Err(Error::file(path, "not a file of ids: the magic bytes are missing"));
        }
        let [width, vocabulary, count, origin] =
            [(8, 4), (12, 4), (16, 8), (24, 8)].map(|(at, bytes)| number(&header[at..at + bytes]));
        let expected = count.checked_mul(width).and_then(|ids| ids.checked_add(HEADER as u64));
        if !(width == 2 || width == 4) || count == 0 || expected != Some(bytes) {
            let problem =
                format!("expected {count} ids of {width} bytes, got {bytes} bytes: is the file incomplete?");
            return Err(Error::file(path, problem));
        }
        let (path, file) = (path.to_owned(), Mutex::new(file));
        let (width, vocabulary, len) = (width as usize, vocabulary as usize, count as usize);
        Ok(Self { path, file, width, vocabulary, len, origin })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn origin(&self) -> u64 {
        self.origin
    }

    /// Copies the ids from `start` on; the caller has checked the range.
    pub fn copy(&self, start: usize, ids: &mut [u32]) -> Result<()> {
        let mut bytes = vec![0; ids.len() * self.width];
        {
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            file.seek(SeekFrom::Start((HEADER + start * self.width) as u64))
                .and_then(|_| file.read_exact(&mut bytes))
                .map_err(|error| Error::file(&self.path, format!("cannot be read any more: {error}")))?;
        }
        for (id, bytes) in ids.iter_mut().zip(bytes.chunks_exact(self.width)) {
            *id = number(bytes) as u32;
            if *id as usize >= self.vocabulary {
                let problem = format!("the id {id} is out of range: the vocabulary has {}", self.vocabulary);
                return Err(Error::file(&self.path, problem));
            }
        }
        Ok(())
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Writes a file of ids under a temporary name.
pub(super) struct Writer {
    path: PathBuf,
    temporary: PathBuf,
    file: BufWriter<File>,
    width: usize,
    vocabulary: usize,
    count: u64,
    origin: u64,
}

impl Writer {
    pub fn create(path: &Path, vocabulary: usize, origin: u64) -> Result<Self> {
        let temporary = temporary_name(path);
        let failed = |error: std::io::Error| Error::file(path, format!("cannot be written: {error}"));
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let mut file = BufWriter::new(File::create(&temporary).map_err(failed)?);
        file.write_all(&[0; HEADER]).map_err(failed)?;
        let width = if vocabulary <= 1 << 16 { 2 } else { 4 };
        Ok(Self { path: path.to_owned(), temporary, file, width, vocabulary, count: 0, origin })
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn extend(&mut self, ids: &[u32]) -> Result<()> {
        self.count += ids.len() as u64;
        for &id in ids {
            if id as usize >= self.vocabulary {
                let problem = format!("the id {id} is not below the vocabulary's size {}", self.vocabulary);
                return Err(Error::file(&self.path, problem));
            }
            let written = self.file.write_all(&id.to_le_bytes()[..self.width]);
            written.map_err(|error| self.failed(&error))?;
        }
        Ok(())
    }

    pub fn finish(mut self) -> Result<TokenFile> {
        let mut header = MARK.to_vec();
        header.extend((self.width as u32).to_le_bytes());
        header.extend((self.vocabulary as u32).to_le_bytes());
        header.extend(self.count.to_le_bytes());
        header.extend(self.origin.to_le_bytes());
        let written = self
            .file
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.file.write_all(&header))
            .and_then(|()| self.file.flush())
            .and_then(|()| self.file.get_ref().sync_all())
            .and_then(|()| std::fs::rename(&self.temporary, &self.path));
        written.map_err(|error| self.failed(&error))?;
        TokenFile::open(&self.path)
    }

    fn failed(&self, error: &std::io::Error) -> Error {
        Error::file(&self.path, format!("cannot be written: {error}"))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // After success the file has been renamed; otherwise the incomplete file is removed.
        let _ = std::fs::remove_file(&self.temporary);
    }
}

/// A hash of the origin of a file of ids: FNV-1a of the tokenizer and of each file's path, size and modification time.
pub(super) fn origin<P: AsRef<Path>>(paths: &[P], tokenizer: &Tokenizer) -> Result<u64> {
    let mut hash = fnv(0xcbf2_9ce4_8422_2325, tokenizer.to_json()?.as_bytes());
    for path in paths {
        let path = path.as_ref();
        let metadata = std::fs::metadata(path).map_err(|error| explain(path, &error))?;
        let changed = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        hash = fnv(hash, path.as_os_str().as_encoded_bytes());
        hash = fnv(hash, &metadata.len().to_le_bytes());
        hash = fnv(hash, &changed.map_or(0, |time| time.as_nanos()).to_le_bytes());
    }
    Ok(hash)
}

fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
