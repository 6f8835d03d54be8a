//! Whether heads follow syntax, against the best fixed offset and against untrained heads.

use super::heads::MeasureOptions;
use super::{Output, columns, name, numbers};
use crate::corpus::{Corpus, TokenizedCorpus};
use crate::figure::{Axis, Bar, Bars, Picture, fixed};
use crate::progress::StepProgress;
use crate::terminal::{line, thousands};
use anyhow::Result;
use regard_nn::analysis::dependencies::{Direction, Guess, Matches, Parsed, match_heads};
use regard_nn::analysis::statistics::{Interval, Resampling, holm};
use regard_nn::analysis::{Head, attentions};
use regard_nn::models::Model;

/// Offsets up to this many words are tried as the baseline.
const REACH: usize = 10;
/// A direction of a relation with fewer pairs is counted, but not judged.
pub const FEWEST: u64 = 30;
/// Resamples of the sentences, for the intervals: every head has as many numbers for each relation.
const RESAMPLES: usize = 200;
/// The relations that are shown, from the most frequent.
const SHOWN: usize = 20;

/// Matches of heads with relations: of the model, and of the same untrained.
pub struct Syntax {
    trained: Matches,
    untrained: Matches,
    /// Whether only the later of two words sees the other, so that each direction has pairs of its own.
    causal: bool,
}

/// The best head for one relation, and what it has to beat in its direction.
pub struct Judged<'a> {
    /// The relation.
    pub relation: &'a str,
    /// The best head.
    pub head: Guess<'a, Head>,
    /// The best fixed offset.
    pub offset: Guess<'a, isize>,
    /// The best head of the untrained model.
    pub untrained: Guess<'a, Head>,
    /// The probability of being so much better than offset and untrained head by chance, corrected for all heads,
    /// directions and relations.
    pub p_value: f64,
}

impl Syntax {
    /// Counts over the sentences of a corpus whose trees are known.
    pub fn count(
        model: &dyn Model,
        untrained: &dyn Model,
        tokenized: &TokenizedCorpus,
        trees: &Corpus,
        options: MeasureOptions,
        progress: &StepProgress,
    ) -> Result<Self> {
        let count = |model: &dyn Model| matches(model, tokenized, trees, options, progress);
        Ok(Self {
            trained: count(model)?,
            untrained: count(untrained)?,
            causal: attentions(model)?.iter().any(|site| site.visibility.causal),
        })
    }

    /// The best head of each relation that occurs often enough, from the most frequent. Where the two directions are
    /// different pairs, as in a causal model, each is judged; where they are the same pairs, the better one.
    pub fn judged(&self) -> Vec<Judged<'_>> {
        // Every head in every direction of every such relation was a chance to be good by luck.
        let mut found = Vec::new();
        let mut p_values = Vec::new();
        for relation in self.trained.relations() {
            let mut of_relation: Vec<(Judged, usize)> = Vec::new();
            for direction in [Direction::ToHead, Direction::ToDependent] {
                let best = self.trained.best_head_towards(relation, direction);
                let Some(head) = best.filter(|best| best.pairs >= FEWEST) else { continue };
                // What is to be beaten is the same for all heads that look in one direction.
                let offset = self.trained.best_offset(relation, direction);
                let untrained = self.untrained.best_head_towards(relation, direction);
                let (Some(offset), Some(untrained)) = (offset, untrained) else { continue };
                for guess in self.trained.guesses(relation).filter(|guess| guess.direction == direction) {
                    if guess.predictor == head.predictor {
                        let judged = Judged { relation, head, offset, untrained, p_value: 1.0 };
                        of_relation.push((judged, p_values.len()));
                    }
                    p_values.push(guess.better(&offset).max(guess.better(&untrained)));
                }
            }
            if let [(one, _), (other, _)] = &of_relation[..]
                && !self.causal
            {
                let worse = usize::from(one.head.accuracy >= other.head.accuracy);
                of_relation.remove(worse);
            }
            found.append(&mut of_relation);
        }
        let corrected = holm(&p_values);
        let mut judged: Vec<Judged> =
            found.into_iter().map(|(judged, at)| Judged { p_value: corrected[at], ..judged }).collect();
        judged.sort_by_key(|judged| std::cmp::Reverse(judged.head.pairs));
        judged
    }

    /// Writes every count, the baselines, and a figure of the best heads.
    pub fn write(&self, output: &Output) -> Result<()> {
        let all = [("trained", &self.trained), ("untrained", &self.untrained)];
        let rows = all.into_iter().flat_map(|(model, matches)| rows(model, matches));
        output.csv("syntax", &header("model"), rows)?;
        let offsets = self.trained.counts.iter().flat_map(|((relation, way), counts)| {
            counts.offsets.iter().map(move |(offset, right)| {
                let share = right.over(&counts.pairs);
                let front = [relation.clone(), direction(*way).to_owned(), offset.to_string()];
                front.into_iter().chain([share.to_string(), counts.pairs.sum.to_string()]).collect()
            })
        });
        output.csv("offsets", &["relation", "direction", "offset", "accuracy", "pairs"], offsets)?;
        match self.judged().is_empty() {
            true => Ok(()),
            false => output.picture("syntax", &self.picture()),
        }
    }

    fn picture(&self) -> Picture {
        let judged: Vec<Judged> = self.judged().into_iter().take(SHOWN).collect();
        let names = judged.iter().map(|judged| {
            let Judged { relation, head, .. } = judged;
            format!("{relation} ({}, {})", name(head.predictor), direction(head.direction))
        });
        let bar = |found: Interval| Bar::new(found.mean).interval(found.low, found.high);
        let heads = judged.iter().map(|judged| bar(judged.head.interval()));
        let offsets = judged.iter().map(|judged| bar(judged.offset.interval()));
        let untrained = judged.iter().map(|judged| bar(judged.untrained.interval()));
        let bars = Bars::lying(
            names.collect(),
            Axis::linear("share of words whose partner gets the largest weight").percent(),
        )
        .series("best head", heads.collect())
        .series("best fixed offset", offsets.collect())
        .series("best untrained head", untrained.collect());
        Picture::new("Which heads follow syntax")
            .subtitle("For each relation the head and direction that fit it best, and what it has to beat")
            .note("Bars are 95 % intervals from resampled sentences. Offset and untrained head are the best in the head's direction.")
            .panel(bars)
    }

    /// Prints the best heads.
    pub fn show(&self) {
        let judged = self.judged();
        if judged.is_empty() {
            line(format!("syntax: no relation occurs {FEWEST} times or more in a direction that is seen"));
            return;
        }
        let header =
            ["relation", "pairs", "best head", "direction", "accuracy", "best offset", "untrained", ""];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        for judged in judged.iter().take(SHOWN) {
            let Judged { relation, head, offset, untrained, p_value } = judged;
            let Interval { mean, low, high, .. } = head.interval();
            let cells = [
                (*relation).to_owned(),
                head.pairs.to_string(),
                name(head.predictor),
                direction(head.direction).to_owned(),
                super::interval(mean, low, high),
                format!("{} ({})", fixed(offset.accuracy, 3), signed(offset.predictor)),
                fixed(untrained.accuracy, 3),
                if *p_value < super::heads::SIGNIFICANCE { "beats both".to_owned() } else { String::new() },
            ];
            rows.push(cells.to_vec());
        }
        let sentences = self.trained.counts.values().map(|counts| counts.pairs.sentences).max().unwrap_or(0);
        line(format!("syntax, over {} sentences with trees:", thousands(sentences)));
        columns(&rows);
    }
}

/// An offset as people write it.
fn signed(offset: isize) -> String {
    let sign = if offset < 0 { '−' } else { '+' };
    format!("{sign}{}", offset.unsigned_abs())
}

/// Matches of every head with every relation over the sentences of a corpus whose trees are known.
pub fn matches(
    model: &dyn Model,
    tokenized: &TokenizedCorpus,
    trees: &Corpus,
    options: MeasureOptions,
    progress: &StepProgress,
) -> Result<Matches> {
    let trees = trees.parsed(tokenized.limit).into_iter().flatten();
    let aligned = trees.map(|tree: Parsed| Ok(tree.align(&tokenized.encode(&tree.text)?)));
    let seen = aligned.inspect(|_| progress.step());
    let usable = seen.filter(|text| text.as_ref().map_or(true, |(tokens, _)| tokens.len() > 1));
    let resampling = Resampling { resamples: RESAMPLES, ..Resampling::new(options.seed) };
    Ok(match_heads(model, usable, (options.batch, REACH), resampling)?)
}

/// The columns of a table of matches, of which the first names the model or step.
pub fn header(whose: &str) -> [&str; 10] {
    [whose, "relation", "direction", "layer", "head", "accuracy", "low", "high", "pairs", "sentences"]
}

/// The rows of such a table: every head's guess at every relation, in both directions.
pub fn rows<'a>(whose: &'a str, matches: &'a Matches) -> impl Iterator<Item = Vec<String>> + 'a {
    matches.relations().into_iter().flat_map(move |relation| {
        matches.guesses(relation).map(move |guess| {
            let mut row = [whose, relation, direction(guess.direction)].map(str::to_owned).to_vec();
            row.extend([guess.predictor.layer, guess.predictor.head].map(|number| number.to_string()));
            let found = guess.interval();
            row.extend(numbers(&found));
            row.extend([guess.pairs, found.count].map(|count| count.to_string()));
            row
        })
    })
}

fn direction(direction: Direction) -> &'static str {
    match direction {
        Direction::ToHead => "to head",
        Direction::ToDependent => "to dependent",
    }
}
