//! Files, plain or gzip, with size limits and errors that name the location.
//!
//! Every reader of this library opens its files here, so gzipped files work wherever plain ones do. They are recognised by
//! their first two bytes, not by their name, and several gzip members in sequence are one file. A small gzip file can
//! expand without bound, so reading stops with an error at [`expansion_limit`] bytes.

use crate::error::{Error, Result};
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The longest line that line-wise readers accept, in bytes.
pub const LINE_LIMIT: usize = 16 << 20;

const BUFFER: usize = 1 << 16;

/// The size to which a gzip file of `compressed` bytes may expand: 200 times its size, and at least 256 MiB. Text expands
/// three- to tenfold, a decompression bomb a thousandfold.
pub fn expansion_limit(compressed: u64) -> u64 {
    compressed.saturating_mul(200).max(256 << 20)
}

/// An open file, decompressed if necessary.
pub struct InputFile {
    path: PathBuf,
    reader: Box<dyn BufRead + Send>,
}

impl std::fmt::Debug for InputFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("InputFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl InputFile {
    /// Opens a file, plain or gzip.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_limited(path, u64::MAX)
    }

    /// Opens a file with a limit on the number of bytes that may be read after decompression.
    pub fn open_limited(path: impl AsRef<Path>, limit: u64) -> Result<Self> {
        let path = path.as_ref();
        let failed = |error: io::Error| explain(path, &error);
        // Checked before opening, because opening a pipe blocks until another process writes to it.
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if metadata.is_dir() {
            return Err(Error::file(path, "expected a file, this is a folder"));
        }
        if !metadata.is_file() {
            return Err(Error::file(path, "expected a file, this is a pipe or a device"));
        }
        let file = File::open(path).map_err(failed)?;
        let mut reader = BufReader::with_capacity(BUFFER, file);
        let compressed = reader.fill_buf().map_err(failed)?.starts_with(&[0x1f, 0x8b]);
        let reader: Box<dyn BufRead + Send> = if compressed {
            let limit = limit.min(expansion_limit(metadata.len()));
            let bounded = Bounded { inner: MultiGzDecoder::new(reader), left: limit, limit };
            Box::new(BufReader::with_capacity(BUFFER, bounded))
        } else {
            Box::new(BufReader::with_capacity(BUFFER, Bounded { inner: reader, left: limit, limit }))
        };
        Ok(Self { path: path.to_owned(), reader })
    }

    /// Opens a text file; rejects archives.
    pub(crate) fn open_text(path: impl AsRef<Path>, limit: u64) -> Result<Self> {
        let mut source = Self::open_limited(path, limit)?;
        let start = source.reader.fill_buf().map_err(|error| explain_reading(&source.path, &error))?;
        // The magic bytes in the first header of every tar archive since 1988.
        if start.get(257..262) == Some(b"ustar") {
            return Err(Error::file(&source.path, "expected a text, this is a tar archive: unpack it first"));
        }
        Ok(source)
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads into `buffer` until it is full or the file ends.
    pub fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.reader.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.explain(&error)),
            }
        }
        Ok(filled)
    }

    pub(crate) fn explain(&self, error: &io::Error) -> Error {
        explain_reading(&self.path, error)
    }

    #[cfg(feature = "data")]
    pub(crate) fn reader(&mut self) -> &mut (dyn BufRead + Send) {
        &mut *self.reader
    }
}

/// Returns an error once more than `limit` bytes have been read.
struct Bounded<R> {
    inner: R,
    left: u64,
    limit: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let Some(left) = self.left.checked_sub(count as u64) else {
            let problem = format!("larger than the {} bytes that may be read from it", self.limit);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
        };
        self.left = left;
        Ok(count)
    }
}

/// An error of the file system, with its path.
pub(crate) fn explain(path: &Path, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::file(path, "no such file"),
        _ => Error::file(path, error),
    }
}

/// An error while reading a possibly compressed file, with its path.
pub(crate) fn explain_reading(path: &Path, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            Error::file(path, "the compressed data ends early: is the file incomplete?")
        }
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            Error::file(path, format!("the compressed data is damaged ({error})"))
        }
        _ => explain(path, error),
    }
}

/// The lines of a file: UTF-8, without their ends (`\n` or `\r\n`), counted from 1, at most [`LINE_LIMIT`] long.
/// A byte-order mark at the start is skipped. Only `\n` ends a line: U+0085 and similar characters are text.
#[derive(Debug)]
pub struct Lines {
    source: InputFile,
    buffer: Vec<u8>,
    number: usize,
}

impl Lines {
    /// The lines of a file, plain or gzip.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_limited(path, u64::MAX)
    }

    /// The lines of a file of at most `limit` bytes.
    pub fn open_limited(path: impl AsRef<Path>, limit: u64) -> Result<Self> {
        Ok(Self { source: InputFile::open_text(path, limit)?, buffer: Vec::new(), number: 0 })
    }

    /// The number of the line that [`next`](Self::next) returned last; 0 before the first.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        self.source.path()
    }

    /// The next line, or `None` at the end of the file.
    #[expect(clippy::should_implement_trait, reason = "lines are lent from one buffer, and may fail")]
    pub fn next(&mut self) -> Result<Option<&str>> {
        self.buffer.clear();
        let limit = LINE_LIMIT as u64 + 2;
        let read = self.source.reader.by_ref().take(limit).read_until(b'\n', &mut self.buffer);
        let count = read.map_err(|error| self.source.explain(&error))?;
        if count == 0 {
            return Ok(None);
        }
        self.number += 1;
        let mut line = self.buffer.as_slice();
        line = line.strip_suffix(b"\n").unwrap_or(line);
        line = line.strip_suffix(b"\r").unwrap_or(line);
        if self.number == 1 {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if line.len() > LINE_LIMIT {
            let problem = format!("longer than {LINE_LIMIT} bytes");
            return Err(Error::line(self.source.path(), self.number, problem));
        }
        match str::from_utf8(line) {
            Ok(line) => Ok(Some(line)),
            Err(error) => {
                let problem = format!("not UTF-8 at byte {} of the line", error.valid_up_to());
                Err(Error::line(self.source.path(), self.number, problem))
            }
        }
    }
}

/// Reads a whole text file of at most `limit` bytes.
#[cfg(feature = "tokenizers")]
pub(crate) fn read_text(path: &Path, limit: u64) -> Result<String> {
    let mut source = InputFile::open_limited(path, limit)?;
    let mut bytes = Vec::new();
    source.reader.read_to_end(&mut bytes).map_err(|error| explain_reading(path, &error))?;
    String::from_utf8(bytes)
        .map_err(|error| Error::file(path, format!("not UTF-8 at byte {}", error.utf8_error().valid_up_to())))
}

/// Writes a file atomically: under a temporary name, flushed to disk, then renamed. A crash at any moment leaves the
/// complete file or none.
pub fn write_whole(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
    write_as(&temporary_name(path), path, write)
}

/// The same where several processes, on several machines, may write the file at once: each under a temporary name of its own.
/// The last one's file stays.
pub fn write_whole_among_others(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
    // The standard library's maps are keyed at random; machines may have equal process numbers.
    let random = RandomState::new().hash_one(std::process::id());
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{random:016x}.partial"));
    write_as(&path.with_file_name(name), path, write)
}

fn write_as(temporary: &Path, path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
    let run = || {
        let mut file = File::create(temporary)?;
        write(&mut file)?;
        file.sync_all()?;
        std::fs::rename(temporary, path)?;
        // The rename is durable only once the folder itself is flushed to disk.
        match path.parent() {
            Some(folder) if cfg!(unix) => {
                let here = folder.as_os_str().is_empty();
                File::open(if here { Path::new(".") } else { folder })?.sync_all()
            }
            _ => Ok(()),
        }
    };
    run().map_err(|error| {
        // The first error is reported; the unfinished file is removed.
        let _ = std::fs::remove_file(temporary);
        Error::file(path, format!("cannot be written: {error}"))
    })
}

/// The temporary name of a file until it is complete.
pub(crate) fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    path.with_file_name(name)
}
