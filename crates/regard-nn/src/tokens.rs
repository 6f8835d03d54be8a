//! Tokenizers: words, characters, byte-level BPE and WordPiece.
//!
//! A [`Tokenizer`] wraps Hugging Face's `tokenizers` library. It is trained on texts (by
//! [`words`](Tokenizer::words), [`whitespace_words`](Tokenizer::whitespace_words),
//! [`characters`](Tokenizer::characters), [`byte_pairs`](Tokenizer::byte_pairs) or
//! [`word_pieces`](Tokenizer::word_pieces)) or read from files, and saved as a `tokenizer.json` that Hugging Face's own
//! library opens with the same result. The wrapper makes training deterministic, draws nothing at random (a BPE file's
//! `dropout` is ignored), truncates and pads only on request (a file's `truncation` and `padding` are ignored), and
//! returns an [`Error`] for a malicious file instead of a panic.
//!
//! ```
//! use regard_nn::tokens::{Special, Tokenizer, WordSettings};
//!
//! let reviews = ["A good film.", "Not a good film, isn't it?"];
//! let tokenizer = Tokenizer::words(reviews, &WordSettings::default())?;
//! let text = "Isn't it GOOD?";
//! let encoding = tokenizer.encode(text, Special::Keep)?;
//! assert_eq!(encoding.pieces, ["isn't", "it", "good"]);
//! assert_eq!(&text[encoding.offsets[2].clone()], "GOOD");
//! assert_eq!(tokenizer.decode(&encoding.ids, Special::Keep)?, "isn't it good");
//! assert_eq!(tokenizer.special().pad, Some(0));
//! # Ok::<(), regard_nn::Error>(())
//! ```

mod characters;
mod charsmap;
mod check;
mod count;
mod encoding;
mod files;
mod older;
mod recipe;
mod special;
mod stream;
mod subwords;
pub(crate) mod threads;
mod words;

pub use characters::UnknownCharacter;
pub use encoding::{Encoding, Keep};
pub use files::{MAXIMUM_VOCABULARY_ID, TOKENIZER_FILE_LIMIT};
pub use special::SpecialIds;
pub use stream::Decoder;
pub use subwords::{BytePairSettings, WordPieceSettings};
pub use words::{Punctuation, WhitespaceSettings, WordSettings};

use crate::error::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tokenizers::{Model, ModelWrapper};

/// How special tokens such as `[CLS]` or `<PAD>` are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// Encoding adds the special tokens of the tokenizer's template; decoding prints them.
    Keep,
    /// Encoding adds no special tokens; decoding leaves them out.
    Drop,
}

/// Converts texts to ids and ids to texts.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    size: usize,
    special: SpecialIds,
    /// Every id that its file declares special.
    specials: BTreeSet<u32>,
    /// The same without the unknown token, which stands for a word of the text.
    marks: BTreeSet<u32>,
}

impl Tokenizer {
    /// Wraps a tokenizer whose file was checked. `roles` are the special tokens by role, if a file lists them.
    fn wrap(mut inner: tokenizers::Tokenizer, roles: &BTreeMap<String, String>) -> Result<Self> {
        inner.with_truncation(None).map_err(|problem| Error::data("tokenizer", problem))?;
        inner.with_padding(None);
        if let ModelWrapper::BPE(model) = inner.get_model()
            && model.dropout.is_some()
        {
            let mut model = model.clone();
            model.dropout = None;
            inner.with_model(model);
        }
        let vocabulary = inner.get_vocab(true);
        let Some(&last) = vocabulary.values().max() else {
            return Err(Error::data("tokenizer", "the vocabulary is empty"));
        };
        let specials: BTreeSet<u32> = inner
            .get_added_tokens_decoder()
            .iter()
            .filter(|(_, piece)| piece.special)
            .map(|(&id, _)| id)
            .collect();
        let special = SpecialIds::find(&inner, roles);
        let marks = specials.iter().copied().filter(|&id| special.unknown != Some(id)).collect();
        Ok(Self { inner, size: last as usize + 1, special, specials, marks })
    }

    /// The number of rows an embedding table needs: the largest id plus one.
    pub fn vocabulary_size(&self) -> usize {
        self.size
    }

    /// The id of a token, spelled as in the vocabulary.
    pub fn id(&self, piece: &str) -> Option<u32> {
        self.inner.token_to_id(piece)
    }

    /// The token with an id, spelled as in the vocabulary.
    pub fn piece(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// The ids of the special tokens that have a role.
    pub fn special(&self) -> &SpecialIds {
        &self.special
    }

    /// Whether an id is special, with or without a role.
    pub fn is_special(&self, id: u32) -> bool {
        self.specials.contains(&id)
    }

    /// Returns an error unless every id has a row in an embedding table of `rows` rows.
    pub fn ensure_fits(&self, rows: usize) -> Result<()> {
        if self.size <= rows {
            return Ok(());
        }
        let problem = format!(
            "its largest id is {}, but the model's embedding table has {rows} rows: they do not belong together",
            self.size - 1
        );
        Err(Error::data("tokenizer", problem))
    }

    /// Encodes a text.
    pub fn encode(&self, text: &str, special: Special) -> Result<Encoding> {
        let encoded = guarded("encoding a text", || self.inner.encode(text, special == Special::Keep));
        Encoding::new(&encoded.map_err(|error| self.explain(error, text))?, &[text], &self.marks)
    }

    /// Encodes two texts as one sequence, for models that take pairs.
    pub fn encode_pair(&self, first: &str, second: &str, special: Special) -> Result<Encoding> {
        let encoded =
            guarded("encoding a pair", || self.inner.encode((first, second), special == Special::Keep));
        let encoded = encoded.map_err(|error| self.explain(self.explain(error, first), second))?;
        Encoding::new(&encoded, &[first, second], &self.marks)
    }

    /// The ids of many texts, each truncated to a length if one is given. Runs on all threads; the result is the same as
    /// encoding one by one.
    pub fn encode_all<T: AsRef<str> + Sync>(
        &self,
        texts: &[T],
        special: Special,
        limit: Option<(usize, Keep)>,
    ) -> Result<Vec<Vec<u32>>> {
        threads::map(texts, |text| {
            let text = text.as_ref();
            if let Some((length, keep)) = limit {
                let mut encoding = self.encode(text, special)?;
                encoding.truncate(length, keep)?;
                return Ok(encoding.ids);
            }
            let encoded =
                guarded("encoding a text", || self.inner.encode_fast(text, special == Special::Keep));
            Ok(encoded.map_err(|error| self.explain(error, text))?.get_ids().to_vec())
        })
    }

    /// The ids of `text[from..]`, with the text before it as context; no special tokens are added.
    pub(crate) fn ids_from(&self, text: &str, from: usize) -> Result<Vec<u32>> {
        let encoded = guarded("encoding a text", || self.inner.encode(text, false));
        let encoded = encoded.map_err(|error| self.explain(error, text))?;
        let pieces = encoded.get_ids().iter().zip(encoded.get_offsets());
        Ok(pieces.filter(|(_, offsets)| offsets.0 >= from).map(|(&id, _)| id).collect())
    }

    /// Decodes ids to text. Ids without a token (padding rows of a model's table) are ignored, as in Hugging Face's library.
    pub fn decode(&self, ids: &[u32], special: Special) -> Result<String> {
        let drop = special == Special::Drop;
        // Some decoders of the library fail on an empty list.
        if ids.iter().all(|&id| (drop && self.is_special(id)) || self.inner.id_to_token(id).is_none()) {
            return Ok(String::new());
        }
        guarded("decoding", || self.inner.decode(ids, drop))
    }

    /// A decoder for ids that arrive one at a time, as during generation.
    pub fn decoder(&self, special: Special) -> Decoder<'_> {
        Decoder::new(self, special)
    }

    /// Names the unknown character in the error, for vocabularies without an unknown token.
    fn explain(&self, error: Error, text: &str) -> Error {
        let ModelWrapper::WordLevel(model) = self.inner.get_model() else { return error };
        if model.token_to_id(&model.unk_token).is_some() {
            return error;
        }
        let mut buffer = [0; 4];
        match text.char_indices().find(|(_, c)| self.id(c.encode_utf8(&mut buffer)).is_none()) {
            Some((position, c)) => Error::data(
                "tokenizer",
                format!("the character {c:?} (of {:?}) is not in the vocabulary", around(text, position)),
            ),
            None => error,
        }
    }
}

/// A few characters of a text around a position.
fn around(text: &str, position: usize) -> String {
    let before = text[..position].chars().rev().take(12).collect::<Vec<_>>();
    before.into_iter().rev().chain(text[position..].chars().take(12)).collect()
}

/// Calls the `tokenizers` library. Its files were checked, so it should not panic; if it does, the panic becomes an
/// error.
fn guarded<T>(doing: &str, run: impl FnOnce() -> tokenizers::Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result.map_err(|problem| Error::data("tokenizer", format!("{doing}: {problem}"))),
        Err(_) => Err(Error::data(
            "tokenizer",
            format!("{doing} failed: the parts of the tokenizer are incompatible"),
        )),
    }
}
