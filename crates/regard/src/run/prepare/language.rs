//! Data of language models: a running text for next-token prediction, or texts with masked words.

use super::super::config::TokensKind;
use super::super::config_fields::special_token_fields;
use super::super::memory;
use super::super::sources::{self, length, split_point};
use super::super::text_files::{count_lines, lines, some_lines, train_and_validation};
use super::super::tokenizer::make_tokenizer;
use super::{Preparation, PreparedRun};
use anyhow::Result;
use regard_nn::data::batches::{Batches, Examples as _, Masked, Masking, PackedWindows, RandomWindows};
use regard_nn::data::builtin::{self, Split};
use regard_nn::data::text::{TokenStream, with_texts};
use regard_nn::models::Recipe;
use regard_nn::tokens::Special;
use regard_nn::train::{LanguageModelling, Supervised};
use std::path::Path;

impl Preparation<'_> {
    pub(super) fn next_word(mut self) -> Result<PreparedRun> {
        let (tokenizer, stream, held_out, about) = if let Some(path) = self.path().map(Path::to_owned) {
            let (train, test) = train_and_validation(&path)?;
            let tokenizer = match self.tokenizer.take() {
                Some(tokenizer) => tokenizer,
                None => {
                    let tokens = &self.config.tokens;
                    // What is held out is not to be known: as large a share of the bytes is left out as is held out of the tokens, which is
                    // about the same. Of characters there are few, and an unknown one could not be read at all.
                    let held = test.is_none() && tokens.kind != TokensKind::Characters;
                    let most = match held {
                        true => {
                            let all =
                                with_texts(&train, |texts| Ok(texts.map(|text| text.len()).sum::<usize>()))?;
                            (all as f64 * (1.0 - self.data().held_out)) as usize
                        }
                        false => usize::MAX,
                    };
                    with_texts(&train, |texts| {
                        make_tokenizer(tokens, &mut beginning(texts, most), false, false)
                            .map_err(|error| regard_nn::Error::Checkpoint(format!("{error:#}")))
                    })?
                }
            };
            let stream = self.stream(&train, &tokenizer, sources::TRAIN_IDS)?;
            let (stream, held_out) = match test {
                Some(test) => (stream, self.stream(&[test], &tokenizer, sources::HELD_OUT_IDS)?),
                None => stream.hold_out(self.data().held_out)?,
            };
            (tokenizer, stream, held_out, path.display().to_string())
        } else {
            let join = |texts: Vec<builtin::Text>| -> Vec<String> {
                texts.iter().map(|text| format!("{}\n", text.text())).collect()
            };
            let (train, held) =
                (join(self.builtin_texts(Split::Train)?), join(self.builtin_texts(Split::Validation)?));
            let tokenizer = self.tokenizer(&mut train.iter().cloned(), false)?;
            let stream = |texts: &[String]| -> Result<TokenStream> {
                let end = tokenizer.special().eos;
                let ids = tokenizer.encode_all(texts, Special::Drop, None)?;
                Ok(TokenStream::new(
                    &ids.into_iter().flat_map(|ids| ids.into_iter().chain(end)).collect::<Vec<_>>(),
                )?)
            };
            let (stream, held_out) = (stream(&train)?, stream(&held)?);
            (tokenizer, stream, held_out, "the built-in corpus".to_owned())
        };
        let summary = format!("{about}: {} tokens to learn from, {} held out", stream.len(), held_out.len());
        stream.add_to(&mut self.sum)?;
        held_out.add_to(&mut self.sum)?;
        let model = self.model(tokenizer.vocabulary_size(), 0)?;
        tokenizer.ensure_fits(model.token_embeddings().map_or(0, |table| table.tensor().shape()[0]))?;
        let context = model.abilities().context.unwrap_or(usize::MAX);
        let train = &self.config.train;
        let length = length(self.data(), context);
        let (batch_size, accumulate) = (train.batch_size, train.accumulate);
        memory::ensure_batch_fits(&Recipe::of(&*model)?, batch_size, length.min(stream.len()), accumulate)?;
        let windows = RandomWindows::new(stream, length, batch_size, self.key)?;
        let held_out = PackedWindows::new(held_out, length, batch_size.saturating_mul(4))?;
        let config_fields = special_token_fields(&tokenizer);
        let task = Box::new(LanguageModelling::new(model, windows, held_out)?);
        Ok(self.finish(task, Some(tokenizer), config_fields, summary))
    }

    pub(super) fn masked_words(mut self) -> Result<PreparedRun> {
        let (train, held) = match self.path().map(Path::to_owned) {
            Some(path) => {
                // Only what is wanted is kept: the file may be larger than memory.
                let (train, test) = train_and_validation(&path)?;
                let (limit, count) = (self.data().limit, count_lines(&train)?);
                let end = match test {
                    Some(_) => count,
                    None => split_point(count, self.data().held_out)?,
                };
                let held = match test {
                    Some(test) => lines(&[test])?,
                    None => some_lines(&train, end..count, limit)?,
                };
                let most = if limit == 0 { end } else { limit.min(end) };
                (some_lines(&train, 0..most, 0)?, held)
            }
            None => {
                let join =
                    |texts: Vec<builtin::Text>| texts.iter().map(|text| text.text().to_owned()).collect();
                let train: Vec<String> = join(self.builtin_texts(Split::Train)?);
                (train, join(self.builtin_texts(Split::Validation)?))
            }
        };
        train.iter().chain(&held).for_each(|text| self.sum.bytes(text.as_bytes()));
        let tokenizer = self.tokenizer(&mut train.iter().cloned(), true)?;
        let model = self.model(tokenizer.vocabulary_size(), 0)?;
        let length = length(self.data(), model.abilities().context.unwrap_or(usize::MAX));
        let encode =
            |texts: &[String]| tokenizer.encode_all(texts, Special::Keep, Some((length, self.data().keep)));
        let masking = Masking::new(&tokenizer)?;
        let size = self.config.train.batch_size;
        let summary = format!("{} texts to learn from, {} held out", train.len(), held.len());
        let train = Masked::new(encode(&train)?, masking.clone(), self.key);
        self.ensure_batch_fits(&*model, &train.lengths())?;
        let batches = Batches::new(train, size, self.key)?;
        let held_out =
            Batches::new(Masked::new(encode(&held)?, masking, self.key.site("held out")), size, self.key)?;
        let config_fields = special_token_fields(&tokenizer);
        let task = Box::new(Supervised::new(model, batches, held_out)?);
        Ok(self.finish(task, Some(tokenizer), config_fields, summary))
    }
}

/// So many bytes of a text that comes in pieces, and no part of a word.
fn beginning(texts: &mut dyn Iterator<Item = String>, most: usize) -> impl Iterator<Item = String> {
    let mut left = most;
    texts.map_while(move |mut text| {
        if left == 0 {
            return None;
        }
        if text.len() > left {
            let end = (0..=left).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
            let end = text[..end].rfind(char::is_whitespace).unwrap_or(end);
            text.truncate(end);
            left = 0;
        } else {
            left -= text.len();
        }
        Some(text)
    })
}
