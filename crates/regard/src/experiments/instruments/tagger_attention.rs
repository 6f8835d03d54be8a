//! How a tagger attends: how spread out its weights are, by the class of the word, and on which words they lie.

use crate::experiments::models::tagger::{self as taggers, Class, Sentence, Words};
use crate::model::Opened;
use anyhow::Result;
use regard_nn::Context;
use regard_nn::analysis::heads::{Weighing, for_each_layer, record_weights};
use regard_nn::analysis::{Tokens, pad, scores};
use regard_nn::tensor::random::Key;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where the largest weight of a word lies, relative to it.
pub const PLACES: [&str; 7] =
    ["3+ before", "2 before", "1 before", "itself", "1 after", "2 after", "3+ after"];

/// Everything that is measured of one tagger.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Reading {
    /// Of the hidden words of sentences in which some are hidden, as in training: the only ones that the loss is about.
    pub hidden: View,
    /// Of all words of whole sentences: training changes their attention only as a side effect.
    pub visible: View,
    /// How hidden words were classified: counts by true class, then by predicted class.
    pub confusion: [[u64; 2]; 2],
    /// The share of the more frequent class among them.
    pub majority: f64,
}

/// The attention of some words.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct View {
    /// Entropy ÷ that of equal weights.
    pub entropy: Option<f64>,
    /// The same by the class of the word that attends.
    pub by_class: [Option<f64>; 2],
    /// The largest weight.
    pub largest: Option<f64>,
    /// The largest weight ÷ an equal share.
    pub largest_share: Option<f64>,
    /// The weight on words that the word depends on, or that depend on it.
    pub linked: Option<f64>,
    /// How often the other word with the largest weight is such a one.
    pub linked_first: Option<f64>,
    /// The weight of a sentiment word on another that is not linked to it ÷ an equal share.
    pub related: Option<f64>,
    /// The weight of a word on another of its semantic field that is not linked to it ÷ an equal share.
    pub same_field: Option<f64>,
    /// The same if the fields of words are shuffled; the mean of [`SHUFFLES`] shuffles.
    pub shuffled_field: Option<f64>,
    /// By relation: how often a word's largest weight is on the word it depends on, and how many such words there are.
    pub relations: BTreeMap<String, (f64, u64)>,
    /// Of each head: how often its largest weight lies at each of [`PLACES`], on a function word and on a content word.
    pub preferences: Vec<[[f64; 2]; PLACES.len()]>,
}

impl View {
    /// The entropy by the class of the word that attends.
    pub fn entropy_of(&self, class: Class) -> Option<f64> {
        self.by_class[class as usize]
    }

    /// How often the first head's largest weight is on the word just before or just after.
    pub fn beside(&self) -> Option<f64> {
        let head = self.preferences.first()?;
        Some([2, 4].map(|place| head[place].iter().sum::<f64>()).iter().sum())
    }

    /// The mutual information of the head and the place and class of its largest weight, in bits: 0 if all heads do the same.
    pub fn specialisation(&self) -> f64 {
        let information = |p: f64| if p > 0.0 { -p * p.log2() } else { 0.0 };
        let heads = self.preferences.len().max(1) as f64;
        let flat = |head: &[[f64; 2]; PLACES.len()]| -> Vec<f64> { head.as_flattened().to_vec() };
        let all: Vec<Vec<f64>> = self.preferences.iter().map(flat).collect();
        let apart: f64 = all.iter().flatten().map(|&p| information(p)).sum::<f64>() / heads;
        let together = (0..2 * PLACES.len()).map(|i| all.iter().map(|head| head[i]).sum::<f64>() / heads);
        (together.map(information).sum::<f64>() - apart).max(0.0)
    }
}

impl Reading {
    /// The attention of hidden or of visible words.
    pub fn of(&self, words: Words) -> &View {
        match words {
            Words::Hidden => &self.hidden,
            Words::Visible => &self.visible,
        }
    }

    /// The share of hidden words that were classified correctly.
    pub fn accuracy(&self) -> f64 {
        share_right(self.confusion)
    }
}

fn share_right(confusion: [[u64; 2]; 2]) -> f64 {
    let total: u64 = confusion.as_flattened().iter().sum();
    (confusion[0][0] + confusion[1][1]) as f64 / total.max(1) as f64
}

/// The share of the hidden words of sentences that a tagger classifies correctly.
pub fn accuracy(opened: &Opened, sentences: &[Sentence]) -> Result<f64> {
    let hidden = taggers::hide(opened.tokenizer()?, sentences)?;
    Ok(share_right(confusion(opened, sentences, &hidden)?))
}

/// Reads sentences with a tagger.
pub fn read(opened: &Opened, sentences: &[Sentence]) -> Result<Reading> {
    let tokenizer = opened.tokenizer()?;
    let whole = taggers::encode(tokenizer, sentences)?.into_iter();
    let whole =
        whole.map(|tokens| (vec![true; tokens.len()], tokens)).map(|(attends, tokens)| (tokens, attends));
    let hidden = taggers::hide(tokenizer, sentences)?;
    Ok(Reading {
        visible: view(opened, sentences, whole.collect())?,
        confusion: confusion(opened, sentences, &hidden)?,
        majority: taggers::majority(sentences, &hidden),
        hidden: view(opened, sentences, hidden)?,
    })
}

/// The weights of every head on a sentence, row by row: what each word attends to when it is the hidden one.
pub fn maps(opened: &Opened, sentence: &Sentence) -> Result<Vec<Vec<f32>>> {
    let seen = record_weights(&*opened.model, &taggers::hide_each(opened.tokenizer()?, sentence)?)?;
    let Some(weights) = seen.first() else { return Ok(Vec::new()) };
    let [_, heads, time, _] = weights.sizes();
    let all = weights.all();
    let values = all.values();
    let row = |head: usize, word: usize| &values[((word * heads + head) * time + word) * time..][..time];
    Ok((0..heads).map(|head| (0..time).flat_map(|word| row(head, word)).copied().collect()).collect())
}

/// How hidden words are classified.
fn confusion(
    opened: &Opened,
    sentences: &[Sentence],
    hidden: &[(Tokens, Vec<bool>)],
) -> Result<[[u64; 2]; 2]> {
    let mut counts = [[0; 2]; 2];
    for (sentences, batch) in sentences.chunks(32).zip(hidden.chunks(32)) {
        let texts: Vec<Tokens> = batch.iter().map(|(tokens, _)| tokens.clone()).collect();
        let (ids, lengths) = pad(&texts)?;
        let scores = scores(&*opened.model, &Context::inference(), &ids, &lengths)?;
        let values = scores.values();
        let time = ids.shape()[1];
        for (row, (sentence, (_, hidden))) in sentences.iter().zip(batch).enumerate() {
            for place in (0..sentence.len()).filter(|&place| hidden[place]) {
                let at = (row * time + place) * 2;
                let predicted = usize::from(values[at + 1] > values[at]);
                counts[sentence.classes[place] as usize][predicted] += 1;
            }
        }
    }
    Ok(counts)
}

/// A mean of values, if there are any.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    sum: f64,
    count: u64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    fn value(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

/// What is added up over the words that attend; all heads together but for their preferences.
#[derive(Default)]
struct Tally {
    by_class: [Mean; 2],
    largest: Mean,
    largest_share: Mean,
    linked: Mean,
    linked_first: Mean,
    related: Mean,
    /// The true fields first, then each shuffle of them.
    fields: [Mean; SHUFFLES + 1],
    shuffles: Vec<BTreeMap<String, &'static str>>,
    relations: BTreeMap<String, Mean>,
    preferences: Vec<[[f64; 2]; PLACES.len()]>,
}

fn view(opened: &Opened, sentences: &[Sentence], texts: Vec<(Tokens, Vec<bool>)>) -> Result<View> {
    let mut tally = Tally { shuffles: shuffles(sentences), ..Tally::default() };
    let about = texts
        .into_iter()
        .zip(sentences)
        .map(|((tokens, attends), sentence)| Ok((tokens, (attends, sentence))));
    for_each_layer(&*opened.model, about, (32, Weighing::Attention), |look| {
        let (attends, sentence) = look.about;
        for (head, weights) in look.heads().enumerate() {
            for query in (0..sentence.len()).filter(|&query| attends[query]) {
                let row = &weights[query * look.keys..query * look.keys + sentence.len()];
                tally.add(head, sentence, query, row);
            }
        }
        Ok(())
    })?;
    Ok(tally.finish())
}

impl Tally {
    fn add(&mut self, head: usize, sentence: &Sentence, query: usize, row: &[f32]) {
        let equal = 1.0 / row.len() as f64;
        let weight = |key: usize| f64::from(row[key]);
        let entropy: f64 = (0..row.len()).map(weight).filter(|&p| p > 0.0).map(|p| -p * p.ln()).sum();
        self.by_class[sentence.classes[query] as usize].add(entropy / -equal.ln());
        let largest = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(query);
        self.largest.add(weight(largest));
        self.largest_share.add(weight(largest) / equal);

        let others = || (0..row.len()).filter(|&key| key != query);
        let first = others().max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(query);
        self.linked.add(others().filter(|&key| sentence.linked(query, key)).map(weight).sum());
        self.linked_first.add(f64::from(u8::from(sentence.linked(query, first))));
        if let Some(parent) = sentence.heads[query] {
            let relation = self.relations.entry(sentence.relations[query].clone()).or_default();
            relation.add(f64::from(u8::from(first == parent)));
        }
        if sentence.sentiment[query] {
            for key in others().filter(|&key| sentence.sentiment[key] && !sentence.linked(query, key)) {
                self.related.add(weight(key) / equal);
            }
        }

        if let Some(field) = sentence.fields[query] {
            let pairs =
                others().filter(|&key| sentence.fields[key].is_some() && !sentence.linked(query, key));
            for key in pairs.filter(|&key| !sentence.words[key].eq_ignore_ascii_case(&sentence.words[query]))
            {
                if sentence.fields[key] == Some(field) {
                    self.fields[0].add(weight(key) / equal);
                }
                let [a, b] = [query, key].map(|word| sentence.words[word].to_lowercase());
                for (mean, shuffled) in self.fields[1..].iter_mut().zip(&self.shuffles) {
                    if shuffled.get(&a) == shuffled.get(&b) {
                        mean.add(weight(key) / equal);
                    }
                }
            }
        }

        if self.preferences.len() <= head {
            self.preferences.resize(head + 1, [[0.0; 2]; PLACES.len()]);
        }
        let offset = (largest as isize - query as isize).clamp(-3, 3) + 3;
        self.preferences[head][offset as usize][sentence.classes[largest] as usize] += 1.0;
    }

    fn finish(self) -> View {
        let [function, content] = self.by_class;
        let both = Mean { sum: function.sum + content.sum, count: function.count + content.count };
        let share = |head: [[f64; 2]; PLACES.len()]| {
            let total = head.as_flattened().iter().sum::<f64>().max(1.0);
            head.map(|place| place.map(|count| count / total))
        };
        let relations = self.relations.into_iter();
        let [same_field, shuffled @ ..] = self.fields.map(Mean::value);
        let shuffled: Vec<f64> = shuffled.into_iter().flatten().collect();
        View {
            entropy: both.value(),
            by_class: self.by_class.map(Mean::value),
            largest: self.largest.value(),
            largest_share: self.largest_share.value(),
            linked: self.linked.value(),
            linked_first: self.linked_first.value(),
            related: self.related.value(),
            same_field,
            shuffled_field: (!shuffled.is_empty())
                .then(|| shuffled.iter().sum::<f64>() / shuffled.len() as f64),
            relations: relations.map(|(name, of)| (name, (of.value().unwrap_or(0.0), of.count))).collect(),
            preferences: self.preferences.into_iter().map(share).collect(),
        }
    }
}

/// So many times semantic fields are shuffled among the words that have one.
pub const SHUFFLES: usize = 20;

/// The fields of the words of sentences, shuffled: as many words of each as before, but at random.
fn shuffles(sentences: &[Sentence]) -> Vec<BTreeMap<String, &'static str>> {
    let mut fields: BTreeMap<String, &'static str> = BTreeMap::new();
    for sentence in sentences {
        for (word, field) in sentence.words.iter().zip(&sentence.fields) {
            if let Some(field) = field {
                fields.insert(word.to_lowercase(), field);
            }
        }
    }
    let key = Key::new(0).site("shuffled fields");
    let names: Vec<&'static str> = fields.values().copied().collect();
    let shuffle = |number: usize| {
        let order = key.permutation(number as u64, names.len());
        fields.keys().cloned().zip(order.into_iter().map(|at| names[at])).collect()
    };
    (0..SHUFFLES).map(shuffle).collect()
}

/// A baseline without attention: a guess by a fixed offset.
#[derive(Debug, Clone)]
pub struct Offsets {
    /// The offset at which a linked word stands most often, and how often it does.
    pub linked: (isize, f64),
    /// By relation: the offset at which the word that one depends on stands most often, and how often it does.
    pub relations: BTreeMap<String, (isize, f64)>,
    /// How often a linked word is found by guessing at random among the other words.
    pub chance: f64,
}

/// Offsets up to this are tried.
const REACH: isize = 5;

/// The best fixed offsets for the hidden words of sentences, those whose attention is judged. They are chosen on the very words
/// they are measured on: a strict baseline.
pub fn offsets(sentences: &[Sentence], hidden: &[Vec<bool>]) -> Offsets {
    let mut linked: BTreeMap<isize, Mean> = BTreeMap::new();
    let mut relations: BTreeMap<String, BTreeMap<isize, Mean>> = BTreeMap::new();
    let mut chance = Mean::default();
    for (sentence, hidden) in sentences.iter().zip(hidden) {
        for word in (0..sentence.len()).filter(|&word| hidden[word]) {
            let count =
                (0..sentence.len()).filter(|&other| other != word && sentence.linked(word, other)).count();
            chance.add(count as f64 / (sentence.len() - 1).max(1) as f64);
            for offset in (-REACH..=REACH).filter(|&offset| offset != 0) {
                let there = word.checked_add_signed(offset).filter(|&other| other < sentence.len());
                let is_linked = there.is_some_and(|other| sentence.linked(word, other));
                linked.entry(offset).or_default().add(f64::from(u8::from(is_linked)));
                if let Some(parent) = sentence.heads[word] {
                    let of = relations.entry(sentence.relations[word].clone()).or_default();
                    of.entry(offset).or_default().add(f64::from(u8::from(there == Some(parent))));
                }
            }
        }
    }
    let best = |of: BTreeMap<isize, Mean>| {
        let all = of.into_iter().map(|(offset, mean)| (offset, mean.value().unwrap_or(0.0)));
        all.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((1, 0.0))
    };
    Offsets {
        linked: best(linked),
        relations: relations.into_iter().map(|(name, of)| (name, best(of))).collect(),
        chance: chance.value().unwrap_or(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three words, the outer ones depending on the middle one.
    fn sentence() -> Sentence {
        let words = ["a", "b", "c"].map(str::to_owned).to_vec();
        let relations = ["det", "root", "obj"].map(str::to_owned).to_vec();
        Sentence {
            words,
            classes: vec![0, 1, 1],
            heads: vec![Some(1), None, Some(1)],
            relations,
            sentiment: vec![true, false, true],
            fields: vec![Some("look"), None, Some("look")],
        }
    }

    #[test]
    fn a_row_is_counted_as_by_hand() {
        let mut tally = Tally::default();
        tally.add(0, &sentence(), 0, &[0.25, 0.5, 0.25]);
        tally.add(1, &sentence(), 2, &[1.0, 0.0, 0.0]);
        let view = tally.finish();
        // 0.25·ln 4 + 0.5·ln 2 + 0.25·ln 4 = 1.5·ln 2
        let entropy = 1.5 * 2_f64.ln() / 3_f64.ln();
        assert!((view.by_class[0].unwrap() - entropy).abs() < 1e-9);
        assert_eq!(view.by_class[1], Some(0.0));
        assert!((view.entropy.unwrap() - entropy / 2.0).abs() < 1e-9);
        assert_eq!(view.largest, Some(0.75));
        assert_eq!(view.linked, Some(0.25));
        assert_eq!(view.linked_first, Some(0.5));
        assert!((view.related.unwrap() - f64::midpoint(0.75, 3.0)).abs() < 1e-6);
        assert_eq!(view.same_field, view.related, "the same two words");
        assert_eq!(view.shuffled_field, None, "nothing was shuffled");
        assert_eq!(view.relations["det"], (1.0, 1));
        assert_eq!(view.relations["obj"], (0.0, 1));
        assert_eq!(view.preferences[0][4], [0.0, 1.0]);
        assert_eq!(view.preferences[1][1], [1.0, 0.0]);
        assert!((view.specialisation() - 1.0).abs() < 1e-9, "two heads that never do the same: one bit");
    }

    #[test]
    fn shuffled_fields_are_the_same_fields_of_other_words() {
        let mut many = sentence();
        many.words = ["a", "b", "c"].map(str::to_owned).to_vec();
        many.fields = vec![Some("look"), Some("sound"), Some("look")];
        let all = shuffles(&[many]);
        assert_eq!(all.len(), SHUFFLES);
        for fields in &all {
            let mut names: Vec<&str> = fields.values().copied().collect();
            names.sort_unstable();
            assert_eq!(names, ["look", "look", "sound"]);
        }
        assert!(all.iter().any(|fields| fields["b"] == "look"), "not always in the same order");
    }

    #[test]
    fn the_best_offset_is_found() {
        let offsets = offsets(&[sentence()], &[vec![true; 3]]);
        // One word after: right for the first and the second word; one before: for the second and the third.
        assert!((offsets.linked.1 - 2.0 / 3.0).abs() < 1e-9);
        assert_eq!(offsets.relations["det"], (1, 1.0));
        assert_eq!(offsets.relations["obj"], (-1, 1.0));
        assert!((offsets.chance - (0.5 + 1.0 + 0.5) / 3.0).abs() < 1e-9);
        // If only the last word attends, only the place before it is of use.
        let last = super::offsets(&[sentence()], &[vec![false, false, true]]);
        assert_eq!((last.linked, last.chance, last.relations.len()), ((-1, 1.0), 0.5, 1));
    }
}
