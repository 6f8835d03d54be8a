//! Chunks of a text that can be tokenized independently.

use crate::data::file::InputFile;
use crate::error::{Error, Result};
use std::path::Path;

/// The size of a chunk in bytes.
pub const CHUNK: usize = 1 << 18;

/// The amount of text before a chunk that is given as context, in bytes.
const CONTEXT: usize = 256;

const MARK: &str = "\u{feff}";

/// A chunk of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// A little of the preceding text, then the chunk.
    pub text: String,
    /// Where the chunk starts.
    pub fresh: usize,
}

/// The chunks of a file: UTF-8, plain or gzip; a byte-order mark at the start is skipped.
#[derive(Debug)]
pub struct Chunks {
    source: InputFile,
    /// Bytes that have been read but not returned.
    pending: Vec<u8>,
    /// The end of the last chunk.
    context: String,
    /// The number of bytes returned.
    position: u64,
    ended: bool,
}

impl Chunks {
    /// The chunks of a file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let source = InputFile::open_text(path, u64::MAX)?;
        Ok(Self { source, pending: Vec::new(), context: String::new(), position: 0, ended: false })
    }

    /// The next chunk, or `None` at the end of the file.
    #[expect(clippy::should_implement_trait, reason = "reading may fail")]
    pub fn next(&mut self) -> Result<Option<Chunk>> {
        self.fill()?;
        let valid = match str::from_utf8(&self.pending) {
            Ok(text) => text,
            Err(error) => {
                // The character may continue in bytes that have not been read yet.
                let unfinished = error.error_len().is_none() && !self.ended;
                if !unfinished {
                    let byte = self.position + error.valid_up_to() as u64;
                    return Err(Error::file(self.source.path(), format!("not UTF-8 at byte {byte}")));
                }
                str::from_utf8(&self.pending[..error.valid_up_to()]).unwrap_or_default()
            }
        };
        if valid.is_empty() {
            return Ok(None);
        }
        let cut = if self.ended { valid.len() } else { cut(valid) };
        let fresh = &valid[..cut];
        let start = if self.position == 0 && fresh.starts_with(MARK) { MARK.len() } else { 0 };
        let chunk = Chunk { text: format!("{}{}", self.context, &fresh[start..]), fresh: self.context.len() };
        self.position += cut as u64;
        context(&chunk.text).clone_into(&mut self.context);
        self.pending.drain(..cut);
        Ok(Some(chunk))
    }

    fn fill(&mut self) -> Result<()> {
        let have = self.pending.len();
        if self.ended || have >= CHUNK {
            return Ok(());
        }
        self.pending.resize(CHUNK, 0);
        let got = self.source.fill(&mut self.pending[have..])?;
        self.pending.truncate(have + got);
        self.ended = have + got < CHUNK;
        Ok(())
    }
}

/// Where to split: at the last space that follows a word, else after the last line end, else at the end. Only the second
/// half is searched, so that chunks stay large.
fn cut(text: &str) -> usize {
    let half = boundary(text, text.len() / 2);
    let tail = &text[half..];
    let space = tail.rmatch_indices(' ').map(|(at, _)| half + at).find(|&at| follows_word(text, at));
    space.or_else(|| tail.rfind('\n').map(|at| half + at + 1)).unwrap_or(text.len())
}

fn follows_word(text: &str, at: usize) -> bool {
    text[..at].chars().next_back().is_some_and(|c| !c.is_whitespace())
}

/// The last words of a text, from a space that follows a word; empty if there is no such space near its end.
fn context(text: &str) -> &str {
    let from = boundary(text, text.len().saturating_sub(CONTEXT));
    let space = text[from..].match_indices(' ').map(|(at, _)| from + at).find(|&at| follows_word(text, at));
    space.map_or("", |at| &text[at..])
}

/// The first character boundary at or after `at`.
fn boundary(text: &str, at: usize) -> usize {
    (at..text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len())
}
