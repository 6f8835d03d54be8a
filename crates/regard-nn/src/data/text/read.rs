//! Tokenizes text files into a stream of ids.

use super::token_file::{self, TokenFile, Writer};
use super::{CHUNK, Chunks, IN_MEMORY, Memory, Store, TokenStream};
use crate::error::{Error, Result};
use crate::tokens::{Tokenizer, threads};
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl TokenStream {
    /// Tokenizes files and keeps the ids of all texts, concatenated, in memory.
    pub fn read<P: AsRef<Path>>(paths: &[P], tokenizer: &Tokenizer) -> Result<Self> {
        let mut memory = Memory::default();
        tokenize(paths, tokenizer, |ids| memory.extend(&ids))?;
        memory.finish().map_err(|_| empty(paths))
    }

    /// Tokenizes files into a file of ids. An existing file of ids is reused if it was made from the same files (by size and
    /// modification time) with the same tokenizer.
    pub fn read_through<P: AsRef<Path>>(paths: &[P], tokenizer: &Tokenizer, ids: &Path) -> Result<Self> {
        Self::read_within(paths, tokenizer, 0, ids)
    }

    /// Tokenizes files and keeps at most `most` (and [`IN_MEMORY`]) ids in memory; more go to a file of ids as in
    /// [`read_through`](Self::read_through).
    pub fn read_within<P: AsRef<Path>>(
        paths: &[P],
        tokenizer: &Tokenizer,
        most: usize,
        ids: &Path,
    ) -> Result<Self> {
        let origin = token_file::origin(paths, tokenizer)?;
        if let Ok(file) = TokenFile::open(ids)
            && file.origin() == origin
        {
            return Ok(Self::from_file(file));
        }
        let (mut memory, mut writer) = (Memory::default(), None::<Writer>);
        tokenize(paths, tokenizer, |fresh| {
            if let Some(writer) = &mut writer {
                return writer.extend(&fresh);
            }
            if memory.len() + fresh.len() <= most.min(IN_MEMORY) {
                return memory.extend(&fresh);
            }
            let file = writer.insert(Writer::create(ids, tokenizer.vocabulary_size(), origin)?);
            write(&memory, file)?;
            memory = Memory::default();
            file.extend(&fresh)
        })?;
        match writer {
            Some(writer) if writer.is_empty() => Err(empty(paths)),
            Some(writer) => Ok(Self::from_file(writer.finish()?)),
            None => memory.finish().map_err(|_| empty(paths)),
        }
    }

    /// Opens a file of ids written by [`read_through`](Self::read_through).
    pub fn open(ids: impl AsRef<Path>) -> Result<Self> {
        Ok(Self::from_file(TokenFile::open(ids.as_ref())?))
    }

    fn from_file(file: TokenFile) -> Self {
        let len = file.len();
        Self { store: Arc::new(Store::File(file)), start: 0, len }
    }
}

fn write(memory: &Memory, file: &mut Writer) -> Result<()> {
    for ids in memory.short.chunks(CHUNK) {
        file.extend(&ids.iter().map(|&id| u32::from(id)).collect::<Vec<_>>())?;
    }
    file.extend(&memory.long)
}

/// Passes the ids of the files to `take`, chunk by chunk and in order.
fn tokenize<P: AsRef<Path>>(
    paths: &[P],
    tokenizer: &Tokenizer,
    mut take: impl FnMut(Vec<u32>) -> Result<()>,
) -> Result<()> {
    let at_a_time = 2 * regard_tensor::threads();
    for path in paths {
        let mut chunks = Chunks::open(path)?;
        loop {
            let mut batch = Vec::with_capacity(at_a_time);
            while batch.len() < at_a_time
                && let Some(chunk) = chunks.next()?
            {
                batch.push(chunk);
            }
            if batch.is_empty() {
                break;
            }
            for ids in threads::map(&batch, |chunk| tokenizer.ids_from(&chunk.text, chunk.fresh))? {
                take(ids)?;
            }
        }
    }
    Ok(())
}

fn empty<P: AsRef<Path>>(paths: &[P]) -> Error {
    let names: Vec<PathBuf> = paths.iter().map(|path| path.as_ref().to_owned()).collect();
    match names.as_slice() {
        [] => Error::data("text", "no files were given"),
        [only] => Error::file(only, "the file has no text"),
        [first, ..] => Error::file(first, format!("the file and {} others have no text", names.len() - 1)),
    }
}
