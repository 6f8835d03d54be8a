//! Decoding one id at a time.

use super::{Special, Tokenizer};
use crate::error::Result;

/// Decodes ids as they come and never writes half a character.
///
/// A byte-level piece may end in the middle of a UTF-8 character; what it stands for is held back until the rest has
/// come. The strings returned, one after the other, are what [`Tokenizer::decode`] makes of all ids at once.
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
    /// The last ids: enough that the next one is decoded as it would be in the whole.
    window: Vec<u32>,
    /// How much of the window's text has been returned.
    returned: String,
}

/// Windows of this length are cut back, so that a long text costs no more an id than a short one.
const WINDOW: usize = 32;

/// The least that is kept: more ids than an unfinished character has bytes, and one to follow.
const CONTEXT: usize = 8;

/// Where no cut is clean (thousands of bytes that are no characters), a window is cut all the same.
const LONGEST: usize = 256;

/// What decoders write for bytes that are not UTF-8.
const BROKEN: char = '\u{fffd}';

/// An unfinished UTF-8 character has at most this many bytes, each of which may show as one [`BROKEN`].
const UNFINISHED: usize = 3;

impl<'t> Decoder<'t> {
    pub(super) fn new(tokenizer: &'t Tokenizer, special: Special) -> Self {
        Self { tokenizer, special, window: Vec::new(), returned: String::new() }
    }

    /// The text that is certain now that `id` has come, if any.
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

    /// Forgets the beginning of the window, where the rest by itself decodes to the same as within the whole.
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

    /// What was held back: broken characters, if the ids ended in the middle of one.
    pub fn finish(mut self) -> Result<Option<String>> {
        let text = self.tokenizer.decode(&self.window, self.special)?;
        self.take(&text, text.len())
    }

    /// Marks `text[..certain]` as returned, and returns what is new in it.
    fn take(&mut self, text: &str, certain: usize) -> Result<Option<String>> {
        let new = match text[..certain].strip_prefix(self.returned.as_str()) {
            Some(new) => new.to_owned(),
            // Nothing new is certain yet.
            None if self.returned.starts_with(&text[..certain]) => return Ok(None),
            // A decoder that rewrites what it said before, such as one that takes back a space: what was returned cannot
            // be unsaid, so the last id is decoded by itself.
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

/// The length of the tail that later ids may still change.
fn unfinished(text: &str) -> usize {
    text.chars().rev().take(UNFINISHED).take_while(|&c| c == BROKEN).map(char::len_utf8).sum()
}
