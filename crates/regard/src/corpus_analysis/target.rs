//! The prediction that is explained: which class or token of a text, at which position.

use super::texts::own_answer;
use crate::corpus::TokenizedCorpus;
use crate::error::usage_error;
use crate::forward_pass::meet;
use crate::forward_pass::prediction::label;
use crate::model::Opened;
use anyhow::{Result, bail};
use regard_nn::Context;
use regard_nn::analysis::occlusion::{Blank, PatchSizes};
use regard_nn::analysis::{Shown, Target, Tokens, pad, scores};
use regard_nn::models::form::Patches;
use regard_nn::models::{Predicts, Reads};
use regard_nn::tensor::random::Key;
use regard_nn::tokens::{Encoding, Special, Tokenizer};
use std::ops::Range;

/// A text and the prediction that is explained.
#[derive(Clone)]
pub struct TargetedText {
    /// The text, as it was given.
    pub text: String,
    /// Its pieces.
    pub encoding: Encoding,
    /// The same for analysis.
    pub tokens: Tokens,
    /// The answer.
    pub target: Target,
    /// The answer in words.
    pub answer: String,
    /// The output of an encoder–decoder model before it, piece by piece.
    pub output: Vec<String>,
    /// Rows and columns of the patches, if it is a picture.
    pub grid: Option<(usize, usize)>,
}

/// The prediction for a text: the next token, the masked token, or the class; of an encoder–decoder model the token of its
/// output at a position. The target is the model's own prediction unless one is named.
pub fn target_text(
    opened: &Opened,
    tokenized: &TokenizedCorpus,
    text: &str,
    (answer, place): (Option<&str>, usize),
) -> Result<TargetedText> {
    if opened.model.abilities().reads == Reads::Source {
        return target_decoder(
            opened,
            tokenized,
            (text.to_owned(), tokenized.encode(text)?),
            (answer, |_| place),
        );
    }
    let mask = tokenized.tokenizer.special().mask;
    let name = mask.and_then(|mask| tokenized.tokenizer.piece(mask));
    // Whatever the model calls its mask, people write [MASK].
    let text = name.map_or_else(|| text.to_owned(), |name| text.replace("[MASK]", &name));
    let encoding = tokenized.encode(&text)?;
    if encoding.len() < 2 {
        return Err(usage_error("the text needs at least two tokens"));
    }
    let place = match (opened.model.abilities().predicts, mask) {
        (Predicts::NextToken, _) => Some(encoding.len() - 1),
        (Predicts::Class, _) => class_position(opened, encoding.len()),
        (Predicts::TokenClass, _) => {
            let words: Vec<usize> = (0..encoding.len()).filter(|&i| !encoding.special[i]).collect();
            let Some(&at) = words.get(place) else {
                return Err(usage_error(format!("the text has {} tokens, and none at {place}", words.len())));
            };
            Some(at)
        }
        (_, Some(mask)) => match encoding.ids.iter().position(|&id| id == mask) {
            Some(place) => Some(place),
            None => return Err(usage_error("this model guesses words: write [MASK] instead of one")),
        },
        (_, None) => bail!("a {} without a mask has no prediction to explain", opened.model.kind()),
    };
    settle(opened, text, encoding, place, answer)
}

/// The token of an encoder–decoder model's own output at a position, which is chosen by the length of the output.
fn target_decoder(
    opened: &Opened,
    tokenized: &TokenizedCorpus,
    (text, encoding): (String, Encoding),
    (answer, place): (Option<&str>, impl Fn(usize) -> usize),
) -> Result<TargetedText> {
    let source = Tokens::from_encoding(&encoding);
    if source.len() < 2 {
        return Err(usage_error("the text needs at least two tokens"));
    }
    let abilities = opened.model.abilities();
    let own = own_answer(opened, &source)?;
    let place = place(own.len());
    if place >= own.len() {
        return Err(usage_error(format!("the model's output has {} tokens, and none at {place}", own.len())));
    }
    let before: Vec<u32> = abilities.start.into_iter().chain(own[..place].iter().copied()).collect();
    let pieces = before.iter().map(|&id| tokenized.tokenizer.piece(id).unwrap_or_else(|| id.to_string()));
    let output = pieces.collect();
    let tokens = Tokens::new(before).with_source(source);
    let class = match answer {
        Some(answer) => class_of(opened, answer, abilities.classes)?,
        None => own[place] as usize,
    };
    let target = Target { position: Some(place), class, against: None };
    let answer = answer_name(opened, class)?;
    Ok(TargetedText { text, encoding, tokens, target, answer, output, grid: None })
}

/// The predicted class of a picture.
pub fn target_picture(
    opened: &Opened,
    patches: Patches,
    tokens: Tokens,
    answer: Option<&str>,
) -> Result<TargetedText> {
    let scores = Shown::new(std::slice::from_ref(&tokens))?.scores(&*opened.model, &Context::inference())?;
    let class = match answer {
        Some(answer) => class_of(opened, answer, opened.model.abilities().classes)?,
        None => scores.select(1, 0)?.argmax(-1)?.values()[0] as usize,
    };
    let (rows, columns) = patches.grid();
    let patch = |at: usize| format!("({}, {})", at / columns, at % columns);
    let count = tokens.len();
    let encoding = Encoding {
        ids: tokens.ids.clone(),
        pieces: std::iter::once("[class]".to_owned()).chain((0..rows * columns).map(patch)).collect(),
        offsets: vec![0..0; count],
        words: vec![None; count],
        texts: vec![None; count],
        special: tokens.special.clone(),
        types: vec![0; count],
    };
    let target = Target { position: Some(0), class, against: None };
    let answer = answer_name(opened, class)?;
    let grid = Some((rows, columns));
    Ok(TargetedText { text: String::new(), encoding, tokens, target, answer, output: Vec::new(), grid })
}

/// Asks about a text of a corpus, in which a word is hidden where the model guesses words: which one is drawn by the text's
/// number.
pub fn target_corpus_text(
    opened: &Opened,
    tokenized: &TokenizedCorpus,
    text: (String, Encoding),
    key: Key,
    number: u64,
) -> Result<Option<TargetedText>> {
    let mask = tokenized.tokenizer.special().mask;
    if opened.model.abilities().reads == Reads::Source {
        let drawn = |count: usize| key.below(number, 0, count.max(1));
        return target_decoder(opened, tokenized, text, (None, drawn)).map(Some);
    }
    let (text, mut encoding) = text;
    let place = match (opened.model.abilities().predicts, mask) {
        (Predicts::NextToken, _) => Some(encoding.len() - 1),
        (Predicts::Class, _) => class_position(opened, encoding.len()),
        (Predicts::TokenClass, _) => {
            let places: Vec<usize> = (0..encoding.len()).filter(|&i| !encoding.special[i]).collect();
            let Some(&place) = places.get(key.below(number, 0, places.len().max(1))) else { return Ok(None) };
            Some(place)
        }
        (_, Some(mask)) => {
            let places: Vec<usize> = (0..encoding.len()).filter(|&i| !encoding.special[i]).collect();
            let Some(&place) = places.get(key.below(number, 0, places.len().max(1))) else { return Ok(None) };
            encoding.ids[place] = mask;
            Some(place)
        }
        (_, None) => bail!("a {} without a mask has no prediction to explain", opened.model.kind()),
    };
    settle(opened, text, encoding, place, None).map(Some)
}

fn settle(
    opened: &Opened,
    text: String,
    encoding: Encoding,
    place: Option<usize>,
    answer: Option<&str>,
) -> Result<TargetedText> {
    let tokens = Tokens::from_encoding(&encoding);
    let (ids, lengths) = pad(std::slice::from_ref(&tokens))?;
    let scores = scores(&*opened.model, &Context::inference(), &ids, &lengths)?;
    let row = match scores.shape()[1] {
        1 => scores.select(1, 0)?,
        _ => scores.select(1, place.unwrap_or(0))?,
    };
    let class = match answer {
        Some(answer) => class_of(opened, answer, row.count())?,
        None => row.argmax(-1)?.values()[0] as usize,
    };
    // One logit stands for two classes, and the first has a score of 0 whatever is read: what speaks for it is the difference.
    let one_logit = opened.model.abilities().one_logit;
    let target = Target { position: place, class, against: one_logit.then(|| 1 - class.min(1)) };
    let answer = answer_name(opened, class)?;
    Ok(TargetedText { text, encoding, tokens, target, answer, output: Vec::new(), grid: None })
}

/// The position that a classifier predicts from: the first token in most encoders, the last in decoders, none if it pools.
fn class_position(opened: &Opened, tokens: usize) -> Option<usize> {
    opened.model.form()?.output.pooling.position(tokens)
}

/// A class in words: a token, or the class's name.
pub fn answer_name(opened: &Opened, class: usize) -> Result<String> {
    match opened.model.abilities().predicts_tokens() {
        true => spelt(opened.tokenizer()?, class as u32),
        false => Ok(label(opened, class)),
    }
}

/// A token as people read it.
pub fn spelt(tokenizer: &Tokenizer, id: u32) -> Result<String> {
    let text = tokenizer.decode(&[id], Special::Keep)?;
    let plain = text.trim();
    Ok(if plain.is_empty() {
        tokenizer.piece(id).unwrap_or_else(|| id.to_string())
    } else {
        plain.to_owned()
    })
}

/// The class that an answer names.
fn class_of(opened: &Opened, answer: &str, classes: usize) -> Result<usize> {
    if opened.model.abilities().predicts_tokens() {
        let tokenizer = opened.tokenizer()?;
        // In the middle of a text words have a space before them, which some tokenizers count in.
        let spellings = [format!(" {answer}"), answer.to_owned()];
        for spelling in spellings {
            let ids = tokenizer.encode(&spelling, Special::Drop)?.ids;
            if let [id] = ids[..]
                && tokenizer.special().unknown != Some(id)
            {
                return Ok(id as usize);
            }
        }
        return Err(usage_error(format!("--answer {answer}: it is no single token of this model")));
    }
    let names: Vec<String> = (0..classes).map(|class| label(opened, class)).collect();
    match names.iter().position(|name| name == answer) {
        Some(class) => Ok(class),
        None => Err(usage_error(format!("--answer {answer}: the classes are {}", names.join(", ")))),
    }
}

/// What takes a token's place when it is blanked out, and what that is called: the mask, else nothing. The unknown token is
/// no blank: most models never saw it, and it changes every answer.
pub fn blank(opened: &Opened) -> (Blank, String) {
    if let Some(form) = opened.model.abilities().pictures() {
        let Patches { image: [height, width], size: side, channels, .. } = form;
        let patches = PatchSizes { channels, height, width, side, first: form.first() };
        return (Blank::Patch(patches), "each patch made grey".to_owned());
    }
    let mask = opened.tokenizer.as_ref().and_then(|tokenizer| Some((tokenizer, tokenizer.special().mask?)));
    match mask {
        Some((tokenizer, id)) => {
            let name = tokenizer.piece(id).unwrap_or_default();
            (Blank::Replace(id), format!("each token replaced by {name}"))
        }
        None => (Blank::Delete, "each token deleted".to_owned()),
    }
}

impl TargetedText {
    /// The piece at a position: those of the text first, then those of the output.
    pub fn piece(&self, place: usize) -> &str {
        let pieces = &self.encoding.pieces;
        pieces.get(place).or_else(|| self.output.get(place - pieces.len())).map_or("", String::as_str)
    }

    /// The words of the text: what is shown of each, and its pieces. Pieces belong together where letters or digits meet
    /// without a space; what a tokenizer calls a word may be a whole text. Pieces that stand for no part of the text are
    /// themselves.
    pub fn words(&self) -> Vec<(String, Range<usize>)> {
        let mut words: Vec<(String, Range<usize>)> = Vec::new();
        let mut last = 0..0;
        for (piece, offset) in self.encoding.offsets.iter().enumerate() {
            let shown = |range: Range<usize>| self.text.get(range).map(str::trim).unwrap_or_default();
            let plain = !offset.is_empty() && !self.encoding.special[piece];
            let meets = plain && meet(&self.text, &last, offset);
            match words.last_mut() {
                Some((word, pieces)) if meets => {
                    last.end = offset.end;
                    shown(last.clone()).clone_into(word);
                    pieces.end = piece + 1;
                }
                _ => {
                    let part = Some(shown(offset.clone())).filter(|part| !part.is_empty());
                    let part = part.unwrap_or(&self.encoding.pieces[piece]).to_owned();
                    words.push((part, piece..piece + 1));
                    last = if plain { offset.clone() } else { 0..0 };
                }
            }
        }
        words
    }
}
