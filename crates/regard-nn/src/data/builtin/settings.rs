//! Settings of the corpus.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// The maximum number of sentences per text: enough for any context, and a bound on memory.
const MOST_SENTENCES: usize = 10_000;

/// The mixture of sentence kinds and the length of texts. Every share is between 0 and 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CorpusSettings {
    /// The minimum number of sentences of a text.
    pub fewest_sentences: usize,
    /// The maximum number of sentences of a text; the number is uniform.
    pub most_sentences: usize,
    /// Texts with fewer words (without punctuation) than this get more sentences without opinions.
    pub fewest_words: usize,
    /// The share of sentences with an opinion of the film; every text has at least one.
    pub opinions: f64,
    /// The share of opinions that contradict the label; always less than half in a text.
    pub dissent: f64,
    /// The share of opinions with a negator near the word that it reverses.
    pub near_negation: f64,
    /// The share of opinions with a negator far from the word that it reverses.
    pub far_negation: f64,
    /// The share of opinions with two contrasting clauses, of which one counts.
    pub contrast: f64,
    /// The share of opinions with negators that reverse nothing, or with opinions that do not count. The remaining opinions
    /// are plain.
    pub decoys: f64,
    /// The share of sentences without an opinion that nevertheless contain sentiment words.
    pub distractors: f64,
    /// The share of adjectives with an intensifier or diminisher.
    pub degrees: f64,
    /// The share of texts that contract *is not* to *isn't*.
    pub contractions: f64,
}

impl Default for CorpusSettings {
    fn default() -> Self {
        Self {
            fewest_sentences: 3,
            most_sentences: 12,
            fewest_words: 0,
            opinions: 0.6,
            dissent: 0.08,
            near_negation: 0.12,
            far_negation: 0.08,
            contrast: 0.13,
            decoys: 0.08,
            distractors: 0.3,
            degrees: 0.25,
            contractions: 0.4,
        }
    }
}

impl CorpusSettings {
    pub(super) fn check(&self) -> Result<()> {
        let problem = |problem: String| Err(Error::configuration("built-in corpus", problem));
        if self.fewest_sentences == 0 || self.fewest_sentences > self.most_sentences {
            return problem(format!(
                "sentences from {} to {}: the minimum must be at least 1 and at most the maximum",
                self.fewest_sentences, self.most_sentences
            ));
        }
        if self.most_sentences > MOST_SENTENCES || self.fewest_words > MOST_SENTENCES {
            return problem(format!(
                "{} sentences and {} words: expected at most {MOST_SENTENCES} of each",
                self.most_sentences, self.fewest_words
            ));
        }
        let shares = [
            ("opinions", self.opinions),
            ("dissent", self.dissent),
            ("near_negation", self.near_negation),
            ("far_negation", self.far_negation),
            ("contrast", self.contrast),
            ("decoys", self.decoys),
            ("distractors", self.distractors),
            ("degrees", self.degrees),
            ("contractions", self.contractions),
        ];
        if let Some((name, share)) = shares.iter().find(|(_, share)| !(0.0..=1.0).contains(share)) {
            return problem(format!("{name} must be between 0 and 1, got {share}"));
        }
        let kinds = self.near_negation + self.far_negation + self.contrast + self.decoys;
        if kinds > 1.0 + 1e-9 {
            return problem(format!(
                "near_negation, far_negation, contrast and decoys add up to {kinds}, more than 1"
            ));
        }
        Ok(())
    }
}
