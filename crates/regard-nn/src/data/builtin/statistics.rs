//! Statistics of a set of texts.

use super::text::{PartOfSpeech, SentenceKind, Text};
use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};

/// Counts over texts. Punctuation does not count as words, and case is ignored.
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
#[non_exhaustive]
pub struct Statistics {
    /// The number of texts.
    pub texts: u64,
    /// The number of sentences.
    pub sentences: u64,
    /// The number of words.
    pub words: u64,
    /// The distinct words with their counts, most frequent first; ties in alphabetical order.
    pub frequencies: Vec<(String, u64)>,
    /// The numbers of negative and of positive texts.
    pub labels: [u64; 2],
    /// The number of texts of each length in words.
    pub lengths: BTreeMap<usize, u64>,
    /// The number of sentences of each kind.
    pub kinds: BTreeMap<SentenceKind, u64>,
    /// The number of negated words at each distance from their negator.
    pub distances: BTreeMap<usize, u64>,
}

impl Statistics {
    /// Counts these texts. Memory grows with the number of distinct words, not of texts.
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

    /// The number of distinct words.
    pub fn distinct_words(&self) -> usize {
        self.frequencies.len()
    }

    /// The share of sentences of this kind; 0 without sentences.
    pub fn share(&self, kind: SentenceKind) -> f64 {
        ratio(self.kinds.get(&kind).copied().unwrap_or(0), self.sentences)
    }

    /// The share of all words that are among the `size` most frequent ones; 0 without words.
    pub fn coverage(&self, size: usize) -> f64 {
        ratio(self.frequencies.iter().take(size).map(|(_, count)| count).sum(), self.words)
    }

    /// The mean number of words of a text; 0 without texts.
    pub fn mean_length(&self) -> f64 {
        ratio(self.words, self.texts)
    }

    /// A quantile of the length in words: 0.5 gives the median. 0 without texts.
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
