//! The input of a forward pass: a text or picture as given, and as the model reads it.

use super::prediction::PredictionKind;
use super::token::Token;
use crate::error::usage_error;
use crate::image::{self, Preprocessing};
use crate::model::Opened;
use anyhow::Result;
use regard_nn::models::{Inputs, Predicts, Reads};
use regard_nn::tensor::Ids;
use regard_nn::tokens::{Encoding, Special};

/// Something to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A text, and a second one: the pair of a sentence (BERT), or the beginning of the decoder's output (T5).
    Text(String, String),
    /// A PNG or JPEG.
    Picture(Vec<u8>),
    /// Token ids, and those of the decoder's output after its start: for models without a tokenizer, too.
    Ids(Vec<u32>, Vec<u32>),
}

/// Inputs with the tokens of source and target.
pub struct EncodedInput {
    /// The model's inputs.
    pub inputs: Inputs,
    /// The tokens of the source, or of the only text.
    pub source: Vec<Token>,
    /// The tokens of the target; none unless the model has a decoder that reads a source.
    pub target: Vec<Token>,
}

impl EncodedInput {
    /// Puts tokens at the end, of the target if there is one. Fails if there is no room, or no such token.
    pub fn append(&mut self, opened: &Opened, ids: &[u32], most: usize) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        if PredictionKind::of(&*opened.model) != PredictionKind::Next {
            return Err(usage_error("this model does not predict the next token"));
        }
        let known = opened.model.token_embeddings().map_or(0, |table| table.tensor().shape()[0]);
        let most = opened.model.abilities().context.map_or(most, |limit| limit.min(most));
        let decodes = !self.target.is_empty();
        let grows = if decodes { &mut self.target } else { &mut self.source };
        for &id in ids {
            if id as usize >= known {
                return Err(usage_error(format!("there is no token {id}: the model has {known}")));
            }
            if grows.len() >= most {
                return Err(usage_error(format!("the text is as long as it can be: {most} tokens")));
            }
            grows.push(Token::after(grows, id, opened.tokenizer.as_ref())?);
        }
        let all = row(&grows.iter().map(|token| token.id).collect::<Vec<_>>())?;
        match decodes {
            true => self.inputs.answer = Some(all),
            false => self.inputs.ids = Some(all),
        }
        Ok(())
    }
}

impl Input {
    /// Encodes it for a model, if it has at most `most` tokens.
    pub fn encode(&self, opened: &Opened, most: usize) -> Result<EncodedInput> {
        match (self, opened.model.abilities().pictures()) {
            (Self::Picture(bytes), Some(patches)) => {
                let preprocessing = Preprocessing::of(&opened.folder)?;
                let wrong = |error: anyhow::Error| usage_error(format!("{error:#}"));
                let pixels = image::decode(bytes, &preprocessing, patches).map_err(wrong)?;
                let (rows, columns) = patches.grid();
                let first = patches.first();
                let learned = |i: usize| {
                    let text = match i {
                        0 => "[class]".to_owned(),
                        1 if patches.distillation => "[teacher]".to_owned(),
                        _ => format!("[register {i}]"),
                    };
                    Token { id: i as u32, text, special: true, word: i }
                };
                let patch = |i: usize| Token {
                    id: (i + first) as u32,
                    text: format!("{},{}", i / columns + 1, i % columns + 1),
                    special: false,
                    word: i + first,
                };
                let source = (0..first).map(learned).chain((0..rows * columns).map(patch)).collect();
                let inputs = Inputs::pictures(&pixels);
                Ok(EncodedInput { inputs, source, target: Vec::new() })
            }
            (Self::Picture(_), None) => Err(usage_error("this model reads text, not pictures")),
            (Self::Text(..), Some(_)) => Err(usage_error("this model reads pictures: choose a PNG or JPEG")),
            (Self::Text(first, second), None) => encode_text(opened, first, second, most),
            (Self::Ids(..), Some(_)) => Err(usage_error("this model reads pictures, not token ids")),
            (Self::Ids(ids, answer), None) => encode_ids(opened, ids, answer, most),
        }
    }
}

fn encode_text(opened: &Opened, first: &str, second: &str, most: usize) -> Result<EncodedInput> {
    let tokenizer = opened.tokenizer()?;
    let abilities = opened.model.abilities();
    let answers = abilities.reads == Reads::Source;
    let pair = !answers
        && abilities.predicts != Predicts::NextToken
        && abilities.types > 0
        && !second.trim().is_empty();
    let encoding = match pair {
        true => tokenizer.encode_pair(first, second, Special::Keep)?,
        false => tokenizer.encode(first, Special::Keep)?,
    };
    if first.trim().is_empty() || encoding.is_empty() {
        return Err(usage_error("there is nothing to read: the text is empty"));
    }
    let most = opened.model.abilities().context.map_or(most, |limit| limit.min(most));
    ensure_room(encoding.len(), most, "text")?;
    let mut inputs = Inputs { ids: Some(row(&encoding.ids)?), ..Inputs::default() };
    if abilities.types > 1 {
        inputs.types = Some(row(&encoding.types)?);
    }
    let source = Token::of_encoding(&encoding, [first, second]);
    let mut target = Vec::new();
    if let Some(start) = abilities.start.filter(|_| answers) {
        let said = match second.trim().is_empty() {
            true => Encoding::default(),
            false => tokenizer.encode(second, Special::Drop)?,
        };
        ensure_room(said.len() + 1, most, "second text")?;
        let start = Token::after(&[], start, Some(tokenizer))?;
        target.push(Token { special: true, ..start });
        let spoken = Token::of_encoding(&said, [second, ""]);
        target.extend(spoken.into_iter().map(|token| Token { word: token.word + 1, ..token }));
        let ids: Vec<u32> = target.iter().map(|token| token.id).collect();
        inputs.answer = Some(row(&ids)?);
    }
    Ok(EncodedInput { inputs, source, target })
}

fn encode_ids(opened: &Opened, ids: &[u32], answer: &[u32], most: usize) -> Result<EncodedInput> {
    let abilities = opened.model.abilities();
    let most = abilities.context.map_or(most, |limit| limit.min(most));
    if ids.is_empty() {
        return Err(usage_error("there is nothing to read: the list of token ids is empty"));
    }
    ensure_room(ids.len(), most, "text")?;
    let known = opened.model.token_embeddings().map_or(0, |table| table.tensor().shape()[0]);
    if let Some(id) = ids.iter().chain(answer).find(|&&id| id as usize >= known) {
        return Err(usage_error(format!("there is no token {id}: the model has {known}")));
    }
    let tokenizer = opened.tokenizer.as_ref();
    let tokens = |ids: &[u32]| {
        ids.iter().try_fold(Vec::with_capacity(ids.len()), |mut tokens, &id| -> Result<Vec<Token>> {
            tokens.push(Token::after(&tokens, id, tokenizer)?);
            Ok(tokens)
        })
    };
    let mut inputs = Inputs { ids: Some(row(ids)?), ..Inputs::default() };
    let mut target = Vec::new();
    if let Some(start) = abilities.start.filter(|_| abilities.reads == Reads::Source) {
        ensure_room(answer.len() + 1, most, "second text")?;
        let read: Vec<u32> = std::iter::once(start).chain(answer.iter().copied()).collect();
        target = tokens(&read)?;
        target[0].special = true;
        inputs.answer = Some(row(&read)?);
    } else if !answer.is_empty() {
        return Err(usage_error(format!("a {} has no decoder that answers", opened.model.kind())));
    }
    Ok(EncodedInput { inputs, source: tokens(ids)?, target })
}

fn ensure_room(count: usize, most: usize, what: &str) -> Result<()> {
    if count > most {
        return Err(usage_error(format!(
            "the {what} is too long: it has {count} tokens, and the most that can be read is {most}"
        )));
    }
    Ok(())
}

/// A batch of one.
fn row(ids: &[u32]) -> Result<Ids> {
    Ok(Ids::new(ids, [1, ids.len()])?)
}
