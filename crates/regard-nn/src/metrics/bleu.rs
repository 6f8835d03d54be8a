//! Corpus BLEU (Papineni et al., *BLEU: a method for automatic evaluation of machine translation*, 2002), with the
//! defaults of sacreBLEU (Post, 2018): 13a tokens, case kept, up to four words, exponential smoothing.
//!
//! ```text
//! BLEU = BP · exp(Σₙ ln pₙ ÷ 4),   BP = min(1, exp(1 − r ÷ c))
//! ```
//!
//! pₙ is the clipped n-gram precision over the whole corpus, c the length of the output and r that of the references. An
//! order without a match counts as ½, ¼, … match.

use crate::error::{Error, Result};
use std::collections::HashMap;

/// The length of the longest n-grams.
const ORDER: usize = 4;

/// BLEU counts of a corpus, added segment by segment.
///
/// ```
/// use regard_nn::metrics::Bleu;
///
/// let mut bleu = Bleu::default();
/// bleu.add("The cat sat on the mat.", &["The cat sat on the mat."])?;
/// assert!((bleu.score()?.score - 100.0).abs() < 1e-9);
/// # Ok::<(), regard_nn::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bleu {
    segments: u64,
    matches: [u64; ORDER],
    totals: [u64; ORDER],
    output_length: u64,
    reference_length: u64,
}

/// The score with its components.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct BleuScore {
    /// From 0 to 100.
    pub score: f64,
    /// The smoothed precisions of 1-grams to 4-grams, in percent.
    pub precisions: [f64; ORDER],
    /// The penalty for a short output, at most 1.
    pub brevity_penalty: f64,
    /// The number of matched n-grams.
    pub matches: [u64; ORDER],
    /// The number of n-grams of the output.
    pub totals: [u64; ORDER],
    /// The number of tokens of the output.
    pub output_length: u64,
    /// The number of tokens of the references; the reference closest in length counts for each segment.
    pub reference_length: u64,
}

impl Bleu {
    /// Counts one segment against its references, at least one of which must not be empty.
    pub fn add(&mut self, output: &str, references: &[&str]) -> Result<()> {
        let references: Vec<Vec<String>> = references
            .iter()
            .filter(|reference| !reference.is_empty())
            .map(|text| tokenize_13a(text))
            .collect();
        let output = tokenize_13a(output);
        // The closest length; the shorter one if two are equally close.
        let closest =
            references.iter().map(Vec::len).min_by_key(|&length| (length.abs_diff(output.len()), length));
        let Some(closest) = closest else {
            let problem = format!("segment {} has no reference", self.segments + 1);
            return Err(Error::metric("BLEU", problem));
        };
        for order in 1..=ORDER {
            let mut allowed: HashMap<&[String], u64> = HashMap::new();
            for reference in &references {
                for (ngram, count) in ngrams(reference, order) {
                    let most = allowed.entry(ngram).or_default();
                    *most = count.max(*most);
                }
            }
            for (ngram, count) in ngrams(&output, order) {
                self.totals[order - 1] += count;
                self.matches[order - 1] += count.min(allowed.get(ngram).copied().unwrap_or(0));
            }
        }
        self.segments += 1;
        self.output_length += output.len() as u64;
        self.reference_length += closest as u64;
        Ok(())
    }

    /// The score of all segments so far.
    pub fn score(&self) -> Result<BleuScore> {
        if self.segments == 0 {
            return Err(Error::metric("BLEU", "there are no segments"));
        }
        let brevity_penalty = if self.output_length >= self.reference_length {
            1.0
        } else if self.output_length == 0 {
            0.0
        } else {
            (1.0 - self.reference_length as f64 / self.output_length as f64).exp()
        };
        let precisions = self.precisions();
        // An order without any n-gram makes the score 0.
        let score = if precisions.contains(&0.0) {
            0.0
        } else {
            brevity_penalty
                * (precisions.iter().map(|precision| precision.ln()).sum::<f64>() / ORDER as f64).exp()
        };
        Ok(BleuScore {
            score,
            precisions,
            brevity_penalty,
            matches: self.matches,
            totals: self.totals,
            output_length: self.output_length,
            reference_length: self.reference_length,
        })
    }

    fn precisions(&self) -> [f64; ORDER] {
        let mut precisions = [0.0; ORDER];
        if self.matches.iter().all(|&count| count == 0) {
            return precisions;
        }
        let mut smoothing = 1.0;
        for (order, precision) in precisions.iter_mut().enumerate() {
            let (matches, total) = (self.matches[order] as f64, self.totals[order] as f64);
            if total == 0.0 {
                break;
            }
            *precision = if matches == 0.0 {
                smoothing *= 2.0;
                100.0 / (smoothing * total)
            } else {
                100.0 * matches / total
            };
        }
        precisions
    }
}

fn ngrams(tokens: &[String], order: usize) -> HashMap<&[String], u64> {
    let mut counts = HashMap::new();
    for ngram in tokens.windows(order) {
        *counts.entry(ngram).or_default() += 1;
    }
    counts
}

/// The tokens of `mteval-v13a`: punctuation is separated, except dots and commas between digits, apostrophes and hyphens.
pub fn tokenize_13a(text: &str) -> Vec<String> {
    let text = text.trim_end_matches(is_space).replace("<skipped>", "").replace("-\n", "").replace('\n', " ");
    let text = text.replace("&quot;", "\"").replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">");
    let mut signs = vec![' '];
    for sign in text.chars() {
        if stands_alone(sign) { signs.extend([' ', sign, ' ']) } else { signs.push(sign) }
    }
    signs.push(' ');
    let signs = replace_pairs(&signs, |a, b| !a.is_ascii_digit() && is_stop(b), |a, b| [a, ' ', b, ' ']);
    let signs = replace_pairs(&signs, |a, b| is_stop(a) && !b.is_ascii_digit(), |a, b| [' ', a, ' ', b]);
    let signs = replace_pairs(&signs, |a, b| a.is_ascii_digit() && b == '-', |a, b| [a, ' ', b, ' ']);
    let text: String = signs.into_iter().collect();
    text.split(is_space).filter(|token| !token.is_empty()).map(str::to_owned).collect()
}

fn stands_alone(sign: char) -> bool {
    matches!(sign, '{'..='~' | '['..='`' | ' '..='&' | '('..='+' | ':'..='@' | '/')
}

fn is_stop(sign: char) -> bool {
    matches!(sign, '.' | ',')
}

/// White space as Python's `str.split` defines it: Unicode white space and four ASCII separators.
fn is_space(sign: char) -> bool {
    sign.is_whitespace() || matches!(sign, '\x1c'..='\x1f')
}

/// Replaces each matching pair of neighbours from left to right, without overlaps, as a regular expression does.
fn replace_pairs(
    signs: &[char],
    fits: impl Fn(char, char) -> bool,
    by: impl Fn(char, char) -> [char; 4],
) -> Vec<char> {
    let mut out = Vec::with_capacity(signs.len() + signs.len() / 4);
    let mut rest = signs;
    loop {
        match *rest {
            [a, b, ..] if fits(a, b) => {
                out.extend(by(a, b));
                rest = &rest[2..];
            }
            [a, ..] => {
                out.push(a);
                rest = &rest[1..];
            }
            [] => return out,
        }
    }
}
