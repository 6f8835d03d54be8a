//! Plain text for language models, of any size.
//!
//! Text is read in chunks of about [`CHUNK`] bytes, tokenized on all threads, and stored as ids: in memory
//! ([`TokenStream::read`]), in a file of ids for corpora larger than memory ([`TokenStream::read_through`]), or in either,
//! depending on the size ([`TokenStream::read_within`]). The ids do not depend on where the text is split: chunks end
//! before a space that follows a word, and are tokenized with the preceding words as context. (Only a chunk without such a
//! space is split elsewhere: at a line end, or between any two characters.)
//!
//! ```
//! use regard_nn::data::text::TokenStream;
//! let stream = TokenStream::new(&[7; 100])?;
//! let (train, validation) = stream.hold_out(0.1)?;
//! assert_eq!((train.len(), validation.len()), (90, 10));
//! # Ok::<(), regard_nn::Error>(())
//! ```

mod chunks;
#[cfg(feature = "tokenizers")]
mod read;
#[cfg(feature = "tokenizers")]
mod token_file;

pub use chunks::{CHUNK, Chunk, Chunks};

use crate::checksum::Checksum;
use crate::error::{Error, Result};
use std::path::Path;
use std::sync::Arc;

/// The maximum number of ids in memory; more need a file of ids.
pub const IN_MEMORY: usize = 1 << 27;

/// A sequence of ids, or a part of one. Cheap to clone.
#[derive(Debug, Clone)]
pub struct TokenStream {
    store: Arc<Store>,
    start: usize,
    len: usize,
}

#[derive(Debug)]
enum Store {
    /// Ids below 65,536.
    Short(Vec<u16>),
    Long(Vec<u32>),
    #[cfg(feature = "tokenizers")]
    File(token_file::TokenFile),
}

impl TokenStream {
    /// A sequence of ids in memory.
    pub fn new(ids: &[u32]) -> Result<Self> {
        let mut memory = Memory::default();
        memory.extend(ids)?;
        memory.finish()
    }

    /// The number of ids.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no ids.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies the ids from `start` on into `ids`.
    pub fn copy(&self, start: usize, ids: &mut [u32]) -> Result<()> {
        let end = start.checked_add(ids.len()).filter(|&end| end <= self.len);
        if end.is_none() {
            let problem =
                format!("{} ids from {start} on are out of range, there are {}", ids.len(), self.len);
            return Err(Error::data("text", problem));
        }
        let start = self.start + start;
        match &*self.store {
            Store::Short(all) => {
                for (id, &short) in ids.iter_mut().zip(&all[start..]) {
                    *id = u32::from(short);
                }
            }
            Store::Long(all) => ids.copy_from_slice(&all[start..][..ids.len()]),
            #[cfg(feature = "tokenizers")]
            Store::File(file) => file.copy(start, ids)?,
        }
        Ok(())
    }

    /// Adds the ids to a checksum: all of them up to [`IN_MEMORY`], or that many, evenly spaced, of a longer stream.
    pub fn add_to(&self, sum: &mut Checksum) -> Result<()> {
        const STRETCH: usize = 1 << 16;
        sum.number(self.len as u64);
        let stretches = self.len.div_ceil(STRETCH);
        let read = stretches.min(IN_MEMORY / STRETCH);
        let mut ids = vec![0; STRETCH.min(self.len)];
        for index in 0..read {
            let start = index * stretches / read * STRETCH;
            let ids = &mut ids[..STRETCH.min(self.len - start)];
            self.copy(start, ids)?;
            sum.ids(ids);
        }
        Ok(())
    }

    /// Splits off the last `share` for validation, as nanoGPT does.
    pub fn hold_out(&self, share: f64) -> Result<(Self, Self)> {
        if !(share > 0.0 && share < 1.0) {
            return Err(Error::data(
                "text",
                format!("the share to hold out must be between 0 and 1, got {share}"),
            ));
        }
        let first = (self.len as f64 * (1.0 - share)) as usize;
        if first == 0 || first == self.len {
            let problem = format!("{} ids are too few to hold out a share of {share}", self.len);
            return Err(Error::data("text", problem));
        }
        let part = |start, len| Self { store: self.store.clone(), start: self.start + start, len };
        Ok((part(0, first), part(first, self.len - first)))
    }
}

/// Ids in memory, with two bytes each if that suffices.
#[derive(Default)]
struct Memory {
    short: Vec<u16>,
    long: Vec<u32>,
}

impl Memory {
    fn len(&self) -> usize {
        self.short.len() + self.long.len()
    }

    fn extend(&mut self, ids: &[u32]) -> Result<()> {
        if self.len() + ids.len() > IN_MEMORY {
            let problem = format!("more than {IN_MEMORY} ids do not fit in memory: use a file of ids");
            return Err(Error::data("text", problem));
        }
        if self.long.is_empty() && ids.iter().all(|&id| u16::try_from(id).is_ok()) {
            self.short.extend(ids.iter().map(|&id| id as u16));
            return Ok(());
        }
        if self.long.is_empty() {
            self.long = std::mem::take(&mut self.short).into_iter().map(u32::from).collect();
        }
        self.long.extend_from_slice(ids);
        Ok(())
    }

    fn finish(self) -> Result<TokenStream> {
        let len = self.len();
        if len == 0 {
            return Err(Error::data("text", "there are no ids"));
        }
        let store = if self.long.is_empty() { Store::Short(self.short) } else { Store::Long(self.long) };
        Ok(TokenStream { store: Arc::new(store), start: 0, len })
    }
}

/// Passes the text of the files, chunk by chunk, to a function such as the training of a tokenizer.
///
/// ```no_run
/// use regard_nn::{data::text, tokens::Tokenizer};
/// let tokenizer = text::with_texts(&["corpus.txt.gz"], |texts| Tokenizer::byte_pairs(texts, &Default::default()))?;
/// # Ok::<(), regard_nn::Error>(())
/// ```
pub fn with_texts<P: AsRef<Path>, R>(
    paths: &[P],
    wants: impl FnOnce(&mut dyn Iterator<Item = String>) -> Result<R>,
) -> Result<R> {
    let mut failure = None;
    let mut paths = paths.iter();
    let mut chunks: Option<Chunks> = None;
    let mut next = || -> Result<Option<String>> {
        loop {
            if chunks.is_none() {
                let Some(path) = paths.next() else { return Ok(None) };
                chunks = Some(Chunks::open(path)?);
            }
            if let Some(chunk) = chunks.as_mut().map(Chunks::next).transpose()?.flatten() {
                return Ok(Some(chunk.text[chunk.fresh..].to_owned()));
            }
            chunks = None;
        }
    };
    let mut texts = std::iter::from_fn(|| match next() {
        Ok(text) => text,
        // Ends the iteration; the error is returned afterwards.
        Err(error) => {
            failure.get_or_insert(error);
            None
        }
    })
    .fuse();
    let result = wants(&mut texts);
    drop(texts);
    match failure {
        Some(error) => Err(error),
        None => result,
    }
}
