//! The kinds of words that a language model predicts.

use crate::experiment::named;
use anyhow::Result;
use regard_nn::analysis::ablation::AblationBatch;
use regard_nn::data::builtin::PartOfSpeech;
use regard_nn::tokens::{Special, Tokenizer};
use std::collections::HashMap;

named! {
    /// The kind of the word to be predicted.
    pub enum Kind {
        Function = "function words",
        Nouns = "nouns",
        Verbs = "verbs",
        Modifiers = "modifiers",
        Punctuation = "punctuation",
        /// A noun that occurred in the text before: a head can look for it.
        Repeated = "said before",
        /// All words.
        All = "all",
    }
}

/// The kinds that words are divided into.
pub const KINDS: [Kind; 6] =
    [Kind::Function, Kind::Nouns, Kind::Verbs, Kind::Modifiers, Kind::Punctuation, Kind::Repeated];

/// The kind of each token: that of the part of speech it has most often. An unknown word counts as a noun: most rare words are
/// names.
pub fn kinds_of_tokens<'a>(
    tokenizer: &Tokenizer,
    words: impl Iterator<Item = (&'a str, PartOfSpeech)>,
) -> Result<Vec<Kind>> {
    let mut known: HashMap<(&str, PartOfSpeech), u32> = HashMap::new();
    for word in words {
        *known.entry(word).or_default() += 1;
    }
    let mut counts = vec![[0_u32; KINDS.len()]; tokenizer.vocabulary_size()];
    for ((word, part), count) in known {
        for id in tokenizer.encode(word, Special::Drop)?.ids {
            if let Some(counts) = counts.get_mut(id as usize) {
                counts[kind_of_part(part) as usize] += count;
            }
        }
    }
    let most = |counts: &[u32; KINDS.len()]| {
        let best = KINDS.into_iter().rev().max_by_key(|&kind| counts[kind as usize]);
        best.filter(|&kind| counts[kind as usize] > 0).unwrap_or(Kind::Nouns)
    };
    Ok(counts.iter().map(most).collect())
}

fn kind_of_part(part: PartOfSpeech) -> Kind {
    use PartOfSpeech as P;
    match part {
        P::Noun | P::ProperNoun | P::Numeral | P::Symbol | P::Other => Kind::Nouns,
        P::Verb => Kind::Verbs,
        P::Adjective | P::Adverb | P::Interjection => Kind::Modifiers,
        P::Punctuation => Kind::Punctuation,
        _ => Kind::Function,
    }
}

/// The kind of the word to be predicted at a position.
pub fn kind(batch: &AblationBatch, text: usize, place: usize, kinds: &[Kind]) -> Kind {
    let row = text * batch.shown.ids.shape().last();
    let target = batch.targets.values()[row + place];
    let kind = kinds.get(target as usize).copied().unwrap_or(Kind::Nouns);
    let before = batch.shown.ids.values()[row..=row + place].contains(&target);
    if kind == Kind::Nouns && before { Kind::Repeated } else { kind }
}
