//! Streaming decoder: one id at a time.

use super::{Special, Tokenizer};
use crate::error::Result;

/// Decodes ids as they arrive and never returns an incomplete character.
///
/// A byte-level token may end in the middle of a UTF-8 character; its text is held back until the rest arrives. The
/// returned strings, joined, equal the result of [`Tokenizer::decode`] for all ids at once.
///
/// ```
/// use regard_nn::tokens::{Special, Tokenizer, WordSettings};
/// let tokenizer = Tokenizer::words(["to be or not"], &WordSettings::default())?;
/// let mut decoder = tokenizer.decoder(Special::Drop);
/// let mut text = String::new();
/// for piece in ["to", "be"] {
///     text.extend(decoder.push(tokenizer.id(piece).unwrap_or(1))?);
/// }
/// text.extend(decoder.finish()?);
/// assert_eq!(text, "to be");
/// # Ok::<(), regard_nn::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Decoder<'t> {
    tokenizer: &'t Tokenizer,
    special: Special,
    /// The last ids: enough context to decode the next one as in the whole sequence.
    window: Vec<u32>,
    /// The length of the window's text that has been returned.
    returned: String,
}

/// Windows of this length are shortened, so that the time per id does not grow with the text.
const WINDOW: usize = 32;

/// The minimum number of ids to keep: more than an unfinished character has bytes, plus one.
const CONTEXT: usize = 8;

/// Windows of this length are shortened even if no cut is clean (thousands of bytes that are not valid UTF-8).
const LONGEST: usize = 256;

/// The character that decoders write for bytes that are not UTF-8.
const BROKEN: char = '\u{fffd}';

/// An unfinished UTF-8 character has at most this many bytes, each of which may become one [`BROKEN`].
const UNFINISHED: usize = 3;

impl<'t> Decoder<'t> {
    pub(super) fn new(tokenizer: &'t Tokenizer, special: Special) -> Self {
        Self { tokenizer, special, window: Vec::new(), returned: String::new() }
    }

    /// Adds an id, and returns the text that can no longer change, if any.
    pub fn push(&mut self, id: u32) -> Result<Option<String>> {
        if self.special == Special::Drop && self.tokenizer.is_special(id) {
            return Ok(None);
        }
        self.window.push(id);
        let text = self.tokenizer.decode(&self.window, self.special)?;
        let new = self.take(&text, text.len() - unfinished(&text))?;
        if self.window.len() >= WINDOW {
            self.cut(&text)?;
        }
        Ok(new)
    }

    /// Drops the beginning of the window, at a point where the rest decodes to the same text without it.
    fn cut(&mut self, text: &str) -> Result<()> {
        for kept in CONTEXT..WINDOW {
            let rest = &self.window[self.window.len().saturating_sub(kept)..];
            let decoded = self.tokenizer.decode(rest, self.special)?;
            let clean = !decoded.trim_start().is_empty() && text.ends_with(decoded.trim_start());
            if clean || self.window.len() >= LONGEST {
                decoded[..decoded.len() - unfinished(&decoded)].clone_into(&mut self.returned);
                self.window = rest.to_vec();
                break;
            }
        }
        Ok(())
    }

    /// The text held back: replacement characters, if the ids end within a character.
    pub fn finish(mut self) -> Result<Option<String>> {
        let text = self.tokenizer.decode(&self.window, self.special)?;
        self.take(&text, text.len())
    }

    /// Marks `text[..certain]` as returned, and returns its new part.
    fn take(&mut self, text: &str, certain: usize) -> Result<Option<String>> {
        let new = match text[..certain].strip_prefix(self.returned.as_str()) {
            Some(new) => new.to_owned(),
            // Nothing new is final yet.
            None if self.returned.starts_with(&text[..certain]) => return Ok(None),
            // This decoder changes earlier text, for example by removing a space. Returned text cannot be changed, so the
            // last id is decoded by itself.
            None => {
                let last = self.window.last().copied();
                self.window.drain(..self.window.len().saturating_sub(1));
                self.returned = self.tokenizer.decode(last.as_slice(), self.special)?;
                return Ok(Some(self.returned.clone()).filter(|new| !new.is_empty()));
            }
        };
        self.returned.push_str(&new);
        Ok(Some(new).filter(|new| !new.is_empty()))
    }
}

/// The length of the suffix that later ids may still change.
fn unfinished(text: &str) -> usize {
    text.chars().rev().take(UNFINISHED).take_while(|&c| c == BROKEN).map(char::len_utf8).sum()
}
