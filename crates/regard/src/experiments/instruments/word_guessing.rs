//! Words of test texts to predict, from the left by a GPT, or behind a mask by a BERT.

use crate::experiment::{Lab, Sizes};
use crate::run::sources;
use anyhow::{Context as _, Result, bail};
use regard_nn::Context;
use regard_nn::analysis::{Tokens, pad, scores};
use regard_nn::models::Model;
use regard_nn::tensor::random::Key;
use regard_nn::tokens::{Special, Tokenizer};
use std::collections::BTreeMap;

/// A word to predict: the text as each model reads it, and the position.
pub struct Place {
    gpt: Vec<u32>,
    bert: Vec<u32>,
    at: usize,
}

/// Two places in each text, not too near its beginning, whose words both models know.
pub fn places(lab: &Lab, gpt: &Tokenizer, bert: &Tokenizer, length: usize) -> Result<Vec<Place>> {
    let key = Key::new(0).site("words to guess");
    let mut places = Vec::new();
    for (number, text) in
        sources::builtin_test()?
            .iter()
            .take(lab.setting(
                "texts with words to predict",
                Sizes::quick(300).smoke(10).standard(1_000).full(2_000),
            ))
            .enumerate()
    {
        let ids = |tokenizer: &Tokenizer| -> Result<Vec<u32>> {
            let mut ids = tokenizer.encode(text.text(), Special::Drop)?.ids;
            ids.truncate(length);
            Ok(ids)
        };
        let (for_gpt, for_bert) = (ids(gpt)?, ids(bert)?);
        let known = |tokenizer: &Tokenizer, id: u32| tokenizer.special().unknown != Some(id);
        if for_gpt.len() != for_bert.len() || for_gpt.len() < 10 {
            continue;
        }
        for draw in 0..2 {
            let at = 4 + key.below(number as u64, draw, for_gpt.len() - 5);
            if known(gpt, for_gpt[at]) && known(bert, for_bert[at]) {
                places.push(Place { gpt: for_gpt.clone(), bert: for_bert.clone(), at });
            }
        }
    }
    if places.is_empty() {
        bail!("no word of the test texts is known to both models");
    }
    Ok(places)
}

/// The share of words that equal the most frequent of them, which is known only afterwards.
pub fn share_of_most_frequent(places: &[Place]) -> f64 {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for place in places {
        *counts.entry(place.bert[place.at]).or_default() += 1;
    }
    counts.values().max().copied().unwrap_or(0) as f64 / places.len().max(1) as f64
}

/// The share of words that a GPT predicts from those before.
pub fn from_the_left(model: &dyn Model, places: &[Place]) -> Result<f64> {
    let read = |place: &Place| (place.gpt[..place.at].to_vec(), place.at - 1, place.gpt[place.at]);
    share_right(model, places.iter().map(read))
}

/// The context that a BERT is given.
#[derive(Clone, Copy, PartialEq)]
pub enum Side {
    Left,
    Both,
}

/// The share of words that a BERT predicts behind a mask.
pub fn masked((model, tokenizer): &(Box<dyn Model>, Tokenizer), places: &[Place], side: Side) -> Result<f64> {
    let mask = tokenizer.special().mask.context("the tokenizer has no mask")?;
    let read = |place: &Place| {
        let mut ids = place.bert.clone();
        ids[place.at] = mask;
        if side == Side::Left {
            ids.truncate(place.at + 1);
        }
        (ids, place.at, place.bert[place.at])
    };
    share_right(&**model, places.iter().map(read))
}

/// How often the most likely token at a position of a text is the right one.
fn share_right(model: &dyn Model, wanted: impl Iterator<Item = (Vec<u32>, usize, u32)>) -> Result<f64> {
    let wanted: Vec<(Vec<u32>, usize, u32)> = wanted.collect();
    let mut right = 0;
    for wanted in wanted.chunks(32) {
        let texts: Vec<Tokens> = wanted.iter().map(|(ids, ..)| Tokens::new(ids.clone())).collect();
        let (ids, lengths) = pad(&texts)?;
        let best = scores(model, &Context::inference(), &ids, &lengths)?.argmax(-1)?;
        let time = ids.shape().last();
        let answers =
            wanted.iter().enumerate().map(|(i, (_, at, word))| best.values()[i * time + at] == *word);
        right += answers.filter(|&right| right).count();
    }
    Ok(right as f64 / wanted.len().max(1) as f64)
}
