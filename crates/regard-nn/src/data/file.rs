//! Opening files: plain or gzip, bounded, with errors that say where.
//!
//! Every reader of this library opens its files here, so that a gzipped file (known by its first two bytes, whatever its
//! name; several members in a row are one file) can stand wherever a plain one can. A small gzip file can expand to
//! anything: reading stops with an error at [`expansion_limit`] bytes.

use crate::error::{Error, Result};
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The longest line that line-wise readers accept, in bytes.
pub const LINE_LIMIT: usize = 16 << 20;

const BUFFER: usize = 1 << 16;

/// What a gzip file of `compressed` bytes may expand to: 200 times its size, and at least 256 MiB. Text expands three- to
/// tenfold; a file made to fill a memory or a disk, a thousandfold.
pub fn expansion_limit(compressed: u64) -> u64 {
    compressed.saturating_mul(200).max(256 << 20)
}

/// An open file, decompressed if need be.
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

    /// Opens a file of which no more than `limit` bytes, after decompression, may be read.
    pub fn open_limited(path: impl AsRef<Path>, limit: u64) -> Result<Self> {
        let path = path.as_ref();
        let failed = |error: io::Error| explain(path, &error);
        // Before it is opened: a pipe would wait for someone to write to it.
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if metadata.is_dir() {
            return Err(Error::file(path, "a file was expected, this is a folder"));
        }
        if !metadata.is_file() {
            return Err(Error::file(path, "a file was expected, this is a pipe or a device"));
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

    /// Opens a file of text: whatever else it may be, not an archive.
    pub(crate) fn open_text(path: impl AsRef<Path>, limit: u64) -> Result<Self> {
        let mut source = Self::open_limited(path, limit)?;
        let start = source.reader.fill_buf().map_err(|error| explain_reading(&source.path, &error))?;
        // The mark of the first file's header in every tar archive since 1988.
        if start.get(257..262) == Some(b"ustar") {
            return Err(Error::file(
                &source.path,
                "a text was expected, this is a tar archive: unpack it first",
            ));
        }
        Ok(source)
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next bytes into `buffer`: as many as it holds, fewer only at the end.
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

    pub(crate) fn reader(&mut self) -> &mut (dyn BufRead + Send) {
        &mut *self.reader
    }
}

/// Fails once more than `limit` bytes have come.
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

/// An error of the file system, with the file or folder it is about.
pub(crate) fn explain(path: &Path, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::file(path, "there is no such file"),
        _ => Error::file(path, error),
    }
}

/// An error of reading what may be compressed, with the file it is about.
pub(crate) fn explain_reading(path: &Path, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            Error::file(path, "the compressed data end in the middle: is the file incomplete?")
        }
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            Error::file(path, format!("the compressed data are damaged ({error})"))
        }
        _ => explain(path, error),
    }
}

/// The lines of a file: UTF-8, without their ends (`\n` or `\r\n`), counted from 1, at most [`LINE_LIMIT`] long.
/// A byte-order mark at the start is left out. Only `\n` ends a line: U+0085 and its like are text.
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

    /// The lines of a file of no more than `limit` bytes.
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

    /// The next line, or nothing at the end of the file.
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

/// All of a file as text, at most `limit` bytes.
pub(crate) fn read_text(path: &Path, limit: u64) -> Result<String> {
    let mut source = InputFile::open_limited(path, limit)?;
    let mut bytes = Vec::new();
    source.reader.read_to_end(&mut bytes).map_err(|error| explain_reading(path, &error))?;
    String::from_utf8(bytes)
        .map_err(|error| Error::file(path, format!("not UTF-8 at byte {}", error.utf8_error().valid_up_to())))
}

/// Writes a file under a temporary name, makes sure it is on the disk, and gives it its own name: a kill at any instant
/// leaves it whole or absent.
pub fn write_whole(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
    let temporary = temporary_name(path);
    let run = || {
        let mut file = File::create(&temporary)?;
        write(&mut file)?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)?;
        // The new name is only safe once the folder itself is on the disk.
        match path.parent() {
            Some(folder) if cfg!(unix) => {
                let here = folder.as_os_str().is_empty();
                File::open(if here { Path::new(".") } else { folder })?.sync_all()
            }
            _ => Ok(()),
        }
    };
    run().map_err(|error| {
        // The error to report is the first one; what could not be finished is of no use to anyone.
        let _ = std::fs::remove_file(&temporary);
        Error::file(path, format!("cannot be written: {error}"))
    })
}

/// The name a file has until it is complete.
pub(crate) fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    path.with_file_name(name)
}
