//! How the texts of the corpus are mixed.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// The most sentences a text may have: enough for any context, and a bound on memory.
const MOST_SENTENCES: usize = 10_000;

/// What the texts are like. Every share is between 0 and 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CorpusSettings {
    /// The fewest sentences of a text.
    pub fewest_sentences: usize,
    /// The most sentences of a text; its number is drawn evenly.
    pub most_sentences: usize,
    /// A text that has fewer words (without punctuation) than this goes on with sentences that do not judge.
    pub fewest_words: usize,
    /// The share of sentences that judge the film; every text has at least one.
    pub opinions: f64,
    /// The share of those that say the opposite of the label; always fewer than half of a text's.
    pub dissent: f64,
    /// The share of judging sentences with a negator near the word that it reverses.
    pub near_negation: f64,
    /// The share of judging sentences with a negator far from it.
    pub far_negation: f64,
    /// The share of judging sentences in which one part decides against another.
    pub contrast: f64,
    /// The share of judging sentences with negators that reverse nothing, or opinions that do not count. What is left
    /// of the judging sentences is plain.
    pub decoys: f64,
    /// The share, of the sentences that do not judge, of those that have such words nevertheless.
    pub distractors: f64,
    /// The share of adjectives with a word that strengthens or weakens them.
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
                "sentences from {} to {}: expected at least 1, and not more of the fewest than of the most",
                self.fewest_sentences, self.most_sentences
            ));
        }
        if self.most_sentences > MOST_SENTENCES || self.fewest_words > MOST_SENTENCES {
            return problem(format!(
                "{} sentences, {} words: at most {MOST_SENTENCES} of each can be asked for",
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
            return problem(format!("{name} is {share}: a share is between 0 and 1"));
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
