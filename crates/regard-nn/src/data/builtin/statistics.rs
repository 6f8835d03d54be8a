//! What a set of texts is like, in numbers.

use super::text::{PartOfSpeech, Polarity, SentenceKind, Text};
use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};

/// Counts over texts. Punctuation marks are no words, and capital letters make no difference.
///
/// ```
/// use regard_nn::data::builtin::{Corpus, CorpusSettings, SentenceKind, Statistics};
///
/// let corpus = Corpus::new(CorpusSettings::default(), 1)?;
/// let statistics = Statistics::of(corpus.texts().take(100));
/// assert_eq!(statistics.labels, [50, 50]);
/// assert_eq!(statistics.frequencies[0].0, "the");
/// assert!(statistics.share(SentenceKind::FarNegation) > 0.0);
/// # Ok::<(), regard_nn::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statistics {
    /// How many texts there are.
    pub texts: u64,
    /// How many sentences.
    pub sentences: u64,
    /// How many words in all.
    pub words: u64,
    /// The different words with their counts, the most frequent first; equally frequent ones in alphabetical order.
    pub frequencies: Vec<(String, u64)>,
    /// How many texts are negative, how many positive.
    pub labels: [u64; 2],
    /// How many texts have each number of words.
    pub lengths: BTreeMap<usize, u64>,
    /// How many sentences there are of each kind.
    pub kinds: BTreeMap<SentenceKind, u64>,
    /// How many reversed words stand at each distance from their negator.
    pub distances: BTreeMap<usize, u64>,
}

impl Statistics {
    /// Counts these texts. Memory grows with the number of different words, not of texts.
    pub fn of<T: Borrow<Text>>(texts: impl IntoIterator<Item = T>) -> Self {
        let mut statistics = Self::default();
        let mut counts: HashMap<String, u64> = HashMap::new();
        for text in texts {
            statistics.add(text.borrow(), &mut counts);
        }
        statistics.frequencies = counts.into_iter().collect();
        statistics.frequencies.sort_by(|(a, more), (b, less)| less.cmp(more).then_with(|| a.cmp(b)));
        statistics
    }

    fn add(&mut self, text: &Text, counts: &mut HashMap<String, u64>) {
        let mut length = 0;
        for word in text.words().filter(|word| word.part_of_speech != PartOfSpeech::Punctuation) {
            *counts.entry(word.text.to_lowercase()).or_default() += 1;
            length += 1;
        }
        self.texts += 1;
        self.sentences += text.sentences.len() as u64;
        self.words += length as u64;
        self.labels[text.label.class()] += 1;
        *self.lengths.entry(length).or_default() += 1;
        for sentence in &text.sentences {
            *self.kinds.entry(sentence.kind).or_default() += 1;
        }
        for negation in text.negations() {
            *self.distances.entry(negation.distance).or_default() += 1;
        }
    }

    /// How many different words there are.
    pub fn distinct_words(&self) -> usize {
        self.frequencies.len()
    }

    /// The share of texts with this label; 0 without texts.
    pub fn label_share(&self, label: Polarity) -> f64 {
        ratio(self.labels[label.class()], self.texts)
    }

    /// The share of sentences of this kind; 0 without sentences.
    pub fn share(&self, kind: SentenceKind) -> f64 {
        ratio(self.kinds.get(&kind).copied().unwrap_or(0), self.sentences)
    }

    /// The share of all words that a vocabulary of the `size` most frequent ones knows; 0 without words.
    pub fn coverage(&self, size: usize) -> f64 {
        ratio(self.frequencies.iter().take(size).map(|(_, count)| count).sum(), self.words)
    }

    /// The mean number of words of a text; 0 without texts.
    pub fn mean_length(&self) -> f64 {
        ratio(self.words, self.texts)
    }

    /// The number of words that a share `quantile` of the texts does not exceed: 0.5 gives the median. 0 without texts.
    pub fn length_quantile(&self, quantile: f64) -> usize {
        let wanted = (quantile.clamp(0.0, 1.0) * self.texts as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (&length, count) in &self.lengths {
            seen += count;
            if seen >= wanted {
                return length;
            }
        }
        0
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
