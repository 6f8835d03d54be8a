//! Syntactic heads: how often the word that a word attends to most is its syntactic partner.
//!
//! The method is that of Clark et al. (2019). Word pieces are merged: attention *to* a split word is summed, attention
//! *from* it averaged. Each relation is tried in both directions, and the baseline of each head is the best fixed offset
//! ("two words to the left") in the same direction. The word itself and tokens outside words (`[CLS]`) are not
//! candidates. In a causal model only the later of two words can attend to the other, so each direction has its own
//! pairs. Intervals come from resampling sentences, because the pairs of one sentence are not independent.

use super::heads::{Weighing, for_each_layer};
use super::statistics::{Interval, Resampling, Total};
use super::{Head, Tokens, all_heads, attentions};
#[cfg(feature = "builtin-corpus")]
use crate::data::builtin;
use crate::data::treebank;
use crate::error::Result;
use crate::models::Model;
#[cfg(feature = "tokenizers")]
use crate::tokens::Encoding;
use std::collections::BTreeMap;
use std::ops::Range;

/// The name under which all relations except punctuation are counted together.
pub const ALL: &str = "all";

/// A word of a parsed sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// Its byte range in the sentence.
    pub range: Range<usize>,
    /// The index of its head; none for the root.
    pub head: Option<usize>,
    /// Its relation to its head.
    pub relation: String,
}

/// A sentence with its dependency tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parsed {
    /// The sentence.
    pub text: String,
    /// Its words.
    pub words: Vec<Word>,
}

impl From<&treebank::Sentence> for Parsed {
    fn from(sentence: &treebank::Sentence) -> Self {
        let word = |word: &treebank::Word| Word {
            range: word.range.clone(),
            head: word.head,
            relation: word.relation.clone(),
        };
        Self { text: sentence.text.clone(), words: sentence.words.iter().map(word).collect() }
    }
}

impl Parsed {
    /// The sentences of a text of the built-in corpus.
    #[cfg(feature = "builtin-corpus")]
    pub fn from_text(text: &builtin::Text) -> Vec<Self> {
        let sentence = |sentence: &builtin::Sentence| {
            let start = sentence.span().start;
            let word = |word: &builtin::Word| Word {
                range: word.span.start - start..word.span.end - start,
                head: word.head,
                relation: word.relation.to_owned(),
            };
            let words = sentence.words.iter().map(word).collect();
            Self { text: text.sentence_text(sentence).to_owned(), words }
        };
        text.sentences.iter().map(sentence).collect()
    }

    /// The tokens of the encoded sentence, and which of them make up each word.
    #[cfg(feature = "tokenizers")]
    pub fn align(&self, encoding: &Encoding) -> (Tokens, Aligned) {
        let of_word = |word: &Word| -> Vec<usize> {
            let overlaps =
                |offset: &Range<usize>| offset.start < word.range.end && word.range.start < offset.end;
            (0..encoding.offsets.len()).filter(|&i| overlaps(&encoding.offsets[i])).collect()
        };
        let pieces = self.words.iter().map(of_word).collect();
        let edges = self.words.iter().map(|word| (word.head, word.relation.clone())).collect();
        (Tokens::from_encoding(encoding), Aligned { pieces, edges })
    }
}

/// Which tokens make up each word, and each word's head and relation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Aligned {
    /// The tokens of each word.
    pub pieces: Vec<Vec<usize>>,
    /// The head and the relation of each word.
    pub edges: Vec<(Option<usize>, String)>,
}

impl Aligned {
    /// Attention between words (words × words), from a head's weights in rows of `stride`.
    pub fn merge(&self, weights: &[f32], stride: usize) -> Vec<f64> {
        let count = self.pieces.len();
        let mut merged = vec![0.0; count * count];
        for (from, queries) in self.pieces.iter().enumerate() {
            for (to, keys) in self.pieces.iter().enumerate() {
                let weight = |query: usize, key: usize| {
                    weights.get(query * stride + key).copied().map_or(0.0, f64::from)
                };
                let sum: f64 = queries.iter().map(|&q| keys.iter().map(|&k| weight(q, k)).sum::<f64>()).sum();
                merged[from * count + to] = sum / queries.len().max(1) as f64;
            }
        }
        merged
    }

    /// (relation, direction, attending word, expected word) for each pair that the mask allows.
    fn pairs(&self, causal: bool) -> Vec<(&str, Direction, usize, usize)> {
        let mut pairs = Vec::new();
        for (dependent, (head, relation)) in self.edges.iter().enumerate() {
            let Some(head) = *head else { continue };
            for (direction, from, to) in
                [(Direction::ToHead, dependent, head), (Direction::ToDependent, head, dependent)]
            {
                let there = |word: usize| self.pieces.get(word).is_some_and(|pieces| !pieces.is_empty());
                if from != to && there(from) && there(to) && (!causal || to < from) {
                    pairs.push((relation.as_str(), direction, from, to));
                }
            }
        }
        pairs
    }
}

/// Which of the two words attends to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// The dependent attends to its head.
    ToHead,
    /// The head attends to its dependent.
    ToDependent,
}

/// The counts of one relation in one direction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Counts {
    /// The number of pairs.
    pub pairs: Total,
    /// How often each head's largest weight was on the partner.
    pub right: Vec<Total>,
    /// The sum of each head's weights on the partner.
    pub weight: Vec<f64>,
    /// How often the partner is at each offset, from −reach to reach.
    pub offsets: BTreeMap<isize, Total>,
}

/// Matches of heads with relations.
#[derive(Debug, Clone, PartialEq)]
pub struct Matches {
    /// The heads, in the order of [`Counts::right`].
    pub heads: Vec<Head>,
    /// The counts, by relation and direction.
    pub counts: BTreeMap<(String, Direction), Counts>,
    level: f64,
}

/// The accuracy of one head or offset at predicting a relation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Guess<'a, W> {
    /// The head, or the fixed offset.
    pub predictor: W,
    /// The direction.
    pub direction: Direction,
    /// The share of pairs predicted correctly.
    pub accuracy: f64,
    /// The number of pairs.
    pub pairs: u64,
    right: &'a Total,
    of: &'a Total,
    level: f64,
}

impl<W> Guess<'_, W> {
    /// The accuracy with its interval from resampled sentences. Its count is the number of sentences.
    pub fn interval(&self) -> Interval {
        self.right.share(self.of, self.level)
    }

    /// The p-value of being more accurate than another on the same pairs.
    pub fn better<V>(&self, other: &Guess<V>) -> f64 {
        self.right.larger(other.right, self.of)
    }
}

impl Matches {
    /// The relations that occurred.
    pub fn relations(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.counts.keys().map(|(relation, _)| relation.as_str()).collect();
        names.dedup();
        names
    }

    /// The accuracy of each head in each direction of a relation.
    pub fn guesses<'a>(&'a self, relation: &'a str) -> impl Iterator<Item = Guess<'a, Head>> + 'a {
        let this = self.counts.iter().filter(move |((name, _), _)| name == relation);
        this.flat_map(move |((_, direction), counts)| {
            let heads = self.heads.iter().zip(&counts.right);
            heads.map(move |(&head, right)| self.guess(head, *direction, right, &counts.pairs))
        })
    }

    /// The most accurate head and direction for a relation, among directions with at least `fewest` pairs.
    pub fn best_head<'a>(&'a self, relation: &'a str, fewest: u64) -> Option<Guess<'a, Head>> {
        first_largest(self.guesses(relation).filter(|guess| guess.pairs >= fewest))
    }

    /// The most accurate head for a relation in a direction.
    pub fn best_head_towards<'a>(
        &'a self,
        relation: &'a str,
        direction: Direction,
    ) -> Option<Guess<'a, Head>> {
        first_largest(self.guesses(relation).filter(|guess| guess.direction == direction))
    }

    /// The most accurate fixed offset for a relation in a direction: the baseline for heads.
    pub fn best_offset(&self, relation: &str, direction: Direction) -> Option<Guess<'_, isize>> {
        let counts = self.counts.get(&(relation.to_owned(), direction))?;
        let guess = |(&offset, right)| self.guess(offset, direction, right, &counts.pairs);
        first_largest(counts.offsets.iter().map(guess))
    }

    fn guess<'a, W>(
        &self,
        predictor: W,
        direction: Direction,
        right: &'a Total,
        of: &'a Total,
    ) -> Guess<'a, W> {
        let (accuracy, pairs) = (right.over(of), of.sum as u64);
        Guess { predictor, direction, accuracy, pairs, right, of, level: self.level }
    }
}

fn first_largest<'a, W>(guesses: impl Iterator<Item = Guess<'a, W>>) -> Option<Guess<'a, W>> {
    guesses.fold(None, |best, guess| match best {
        Some(best) if best.accuracy >= guess.accuracy => Some(best),
        _ => Some(guess),
    })
}

/// The counts of a relation in a direction from one layer of one sentence.
#[derive(Default)]
struct Found {
    pairs: f64,
    offsets: BTreeMap<isize, f64>,
    right: Vec<f64>,
    weight: Vec<f64>,
}

/// Counts how often every head matches every relation over parsed texts; offsets up to `reach` are the baseline.
pub fn match_heads(
    model: &dyn Model,
    texts: impl Iterator<Item = Result<(Tokens, Aligned)>>,
    (batch, reach): (usize, usize),
    resampling: Resampling,
) -> Result<Matches> {
    let heads = all_heads(model)?;
    let causal = attentions(model)?.iter().any(|site| site.visibility.causal);
    let mut counts: BTreeMap<(String, Direction), Counts> = BTreeMap::new();
    for_each_layer(model, texts, (batch, Weighing::Attention), |layer| {
        let words = layer.about.pieces.len();
        let first = heads.iter().take_while(|head| head.layer < layer.layer).count();
        let merged: Vec<Vec<f64>> = layer.heads().map(|head| layer.about.merge(head, layer.keys)).collect();
        let mut found: BTreeMap<(&str, Direction), Found> = BTreeMap::new();
        for (relation, direction, from, to) in layer.about.pairs(causal) {
            let together = (relation != "punct").then_some(ALL);
            for name in [Some(relation), together].into_iter().flatten() {
                let found = found.entry((name, direction)).or_default();
                found.right.resize(merged.len(), 0.0);
                found.weight.resize(merged.len(), 0.0);
                found.pairs += 1.0;
                *found.offsets.entry(to as isize - from as isize).or_default() += 1.0;
                for (head, merged) in merged.iter().enumerate() {
                    let row = &merged[from * words..(from + 1) * words];
                    found.right[head] += f64::from(u8::from(most_attended(row, from) == Some(to)));
                    found.weight[head] += row[to];
                }
            }
        }
        let draws = resampling.draws(layer.index);
        for ((relation, direction), found) in found {
            let counts = counts.entry((relation.to_owned(), direction)).or_default();
            counts.right.resize(heads.len(), Total::default());
            counts.weight.resize(heads.len(), 0.0);
            // Pairs and offsets are the same for every layer.
            if layer.layer == 0 {
                counts.pairs.add(found.pairs, &draws);
                for (offset, times) in found.offsets {
                    if offset.unsigned_abs() <= reach {
                        counts.offsets.entry(offset).or_default().add(times, &draws);
                    }
                }
            }
            for (head, (right, weight)) in found.right.iter().zip(&found.weight).enumerate() {
                counts.right[first + head].add(*right, &draws);
                counts.weight[first + head] += weight;
            }
        }
        Ok(())
    })?;
    Ok(Matches { heads, counts, level: resampling.level })
}

/// The other word with the largest weight above 0; the first one if several are equal.
fn most_attended(row: &[f64], itself: usize) -> Option<usize> {
    let mut best = (0.0, None);
    for (word, &weight) in row.iter().enumerate() {
        if word != itself && weight > best.0 {
            best = (weight, Some(word));
        }
    }
    best.1
}
