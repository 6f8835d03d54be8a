//! Whether heads follow syntax, against the best fixed offset and against untrained heads.

use super::{Output, columns, name};
use crate::corpus::{Corpus, Reading};
use crate::figure::{Axis, Bar, Bars, Picture};
use crate::terminal::line;
use crate::work::Work;
use anyhow::Result;
use saccade::analysis::Head;
use saccade::analysis::dependencies::{Best, Direction, Matches, Parsed, match_heads};
use saccade::analysis::statistics::{holm, normal_tail};
use saccade::models::Model;

/// Offsets up to this many words are tried as the baseline.
const REACH: usize = 10;
/// A relation that occurs less often is counted, but not judged.
const FEWEST: u64 = 30;
/// The relations that are shown, from the most frequent.
const SHOWN: usize = 20;

/// Matches of heads with relations: of the model, and of the same untrained.
pub struct Syntax {
    trained: Matches,
    untrained: Matches,
}

/// The best head for one relation, and what it has to beat.
pub struct Judged<'a> {
    /// The relation.
    pub relation: &'a str,
    /// The best head.
    pub head: Best<Head>,
    /// The best fixed offset.
    pub offset: Best<isize>,
    /// The best head of the untrained model.
    pub untrained: f64,
    /// The probability of being so much better than offset and untrained heads by chance, corrected for all heads,
    /// directions and relations.
    pub p_value: f64,
}

impl Syntax {
    /// Counts over the sentences of a corpus whose trees are known.
    pub fn count(
        model: &Model,
        untrained: &Model,
        reading: &Reading,
        trees: &Corpus,
        batch: usize,
        work: &Work,
    ) -> Result<Self> {
        let count = |model: &Model| {
            let trees = trees.parsed(reading.limit).into_iter().flatten();
            let aligned = trees.map(|tree: Parsed| Ok(tree.align(&reading.encode(&tree.text)?)));
            let seen = aligned.inspect(|_| work.step());
            let usable = seen.filter(|text| text.as_ref().map_or(true, |(tokens, _)| tokens.len() > 1));
            match_heads(model, usable, batch, REACH)
        };
        Ok(Self { trained: count(model)?, untrained: count(untrained)? })
    }

    /// The best head of each relation that occurs often enough, from the most frequent.
    pub fn judged(&self) -> Vec<Judged<'_>> {
        // Every head in every direction of every such relation was a chance to be good by luck.
        let mut relations = Vec::new();
        let mut p_values = Vec::new();
        for relation in self.trained.relations() {
            let found = (self.trained.best_head(relation), self.trained.best_offset(relation));
            let (Some(head), Some(offset)) = found else { continue };
            let untrained = self.untrained.best_head(relation).map_or(0.0, |best| best.accuracy);
            if head.pairs < FEWEST {
                continue;
            }
            let baseline = offset.accuracy.max(untrained);
            let p_value = |guess: &Best<Head>| better(guess.accuracy, baseline, guess.pairs);
            let first = p_values.len();
            p_values.extend(self.trained.guesses(relation).map(|guess| p_value(&guess)));
            let best = p_values[first..].iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
            let at = first + best.map_or(0, |(at, _)| at);
            relations.push((Judged { relation, head, offset, untrained, p_value: 1.0 }, at));
        }
        let corrected = holm(&p_values);
        let mut judged: Vec<Judged> =
            relations.into_iter().map(|(judged, at)| Judged { p_value: corrected[at], ..judged }).collect();
        judged.sort_by_key(|judged| std::cmp::Reverse(judged.head.pairs));
        judged
    }

    /// Writes every count, the baselines, and a figure of the best heads.
    pub fn write(&self, output: &Output) -> Result<()> {
        let all = [("trained", &self.trained), ("untrained", &self.untrained)];
        let rows = all.into_iter().flat_map(|(model, matches)| {
            matches.relations().into_iter().flat_map(move |relation| {
                matches.guesses(relation).map(move |guess| {
                    let (low, high) = wilson(guess.accuracy, guess.pairs);
                    let mut row =
                        vec![model.to_owned(), relation.to_owned(), direction(guess.direction).to_owned()];
                    row.extend([guess.who.layer, guess.who.head].map(|number| number.to_string()));
                    row.extend([guess.accuracy, low, high].map(|number| number.to_string()));
                    row.push(guess.pairs.to_string());
                    row
                })
            })
        });
        let header = ["model", "relation", "direction", "layer", "head", "accuracy", "low", "high", "n"];
        output.csv("syntax", &header, rows)?;
        let offsets = self.trained.counts.iter().flat_map(|((relation, way), counts)| {
            counts.offsets.iter().map(move |(offset, &right)| {
                let share = right as f64 / counts.pairs.max(1) as f64;
                let front = [relation.clone(), direction(*way).to_owned(), offset.to_string()];
                front.into_iter().chain([share.to_string(), counts.pairs.to_string()]).collect()
            })
        });
        output.csv("offsets", &["relation", "direction", "offset", "accuracy", "n"], offsets)?;
        match self.judged().is_empty() {
            true => Ok(()),
            false => output.picture("syntax", &self.picture()),
        }
    }

    fn picture(&self) -> Picture {
        let judged: Vec<Judged> = self.judged().into_iter().take(SHOWN).collect();
        let names = judged.iter().map(|judged| {
            let Judged { relation, head, .. } = judged;
            format!("{relation} ({}, {})", name(head.who), direction(head.direction))
        });
        let with_interval = |accuracy: f64, pairs: u64| {
            let (low, high) = wilson(accuracy, pairs);
            Bar::new(accuracy).interval(low, high)
        };
        let heads = judged.iter().map(|judged| with_interval(judged.head.accuracy, judged.head.pairs));
        let offsets = judged.iter().map(|judged| with_interval(judged.offset.accuracy, judged.offset.pairs));
        let untrained = judged.iter().map(|judged| with_interval(judged.untrained, judged.head.pairs));
        let bars = Bars::lying(
            names.collect(),
            Axis::linear("share of words whose partner is looked at most").percent(),
        )
        .series("best head", heads.collect())
        .series("best fixed offset", offsets.collect())
        .series("best untrained head", untrained.collect());
        Picture::new("Which heads follow syntax")
            .subtitle("For each relation the head and direction that fit it best, and what it has to beat")
            .note("Bars are 95 % intervals of a share (Wilson), pairs taken as independent.")
            .panel(bars)
    }

    /// Prints the best heads.
    pub fn show(&self) {
        let judged = self.judged();
        if judged.is_empty() {
            line(format!("syntax: no relation occurs {FEWEST} times or more"));
            return;
        }
        let header =
            ["relation", "pairs", "best head", "direction", "accuracy", "best offset", "untrained", ""];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        for judged in judged.iter().take(SHOWN) {
            let Judged { relation, head, offset, untrained, p_value } = judged;
            let (low, high) = wilson(head.accuracy, head.pairs);
            let cells = [
                (*relation).to_owned(),
                head.pairs.to_string(),
                name(head.who),
                direction(head.direction).to_owned(),
                super::interval(head.accuracy, low, high),
                format!("{:.3} ({:+})", offset.accuracy, offset.who),
                format!("{untrained:.3}"),
                if *p_value < super::heads::SIGNIFICANCE { "beats both".to_owned() } else { String::new() },
            ];
            rows.push(cells.to_vec());
        }
        columns(&rows);
    }
}

fn direction(direction: Direction) -> &'static str {
    match direction {
        Direction::ToHead => "to head",
        Direction::ToDependent => "to dependent",
    }
}

/// The probability of a share so much larger than another of as many pairs, if there were no difference. The two are counted
/// on the same pairs, which are taken as independent draws.
fn better(share: f64, other: f64, pairs: u64) -> f64 {
    let together = f64::midpoint(share, other);
    let error = (2.0 * together * (1.0 - together) / pairs.max(1) as f64).sqrt();
    match share > other {
        true if error > 0.0 => normal_tail((share - other) / error),
        true => 0.0,
        false => 1.0,
    }
}

/// The interval of a share (Wilson, 1927), 95 %.
fn wilson(share: f64, count: u64) -> (f64, f64) {
    const Z: f64 = 1.959_964;
    let n = count.max(1) as f64;
    let middle = (share + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let reach = Z / (1.0 + Z * Z / n) * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    ((middle - reach).max(0.0), (middle + reach).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wilsons_interval_is_the_published_one() {
        // 81 of 263 (Newcombe, 1998, table I): 0.2553 to 0.3662.
        let (low, high) = wilson(81.0 / 263.0, 263);
        assert!((low - 0.2553).abs() < 5e-5 && (high - 0.3662).abs() < 5e-5, "{low} {high}");
        assert_eq!(wilson(0.0, 10).0, 0.0);
    }

    #[test]
    fn only_what_is_larger_can_be_better() {
        assert_eq!(better(0.4, 0.5, 100), 1.0);
        assert!(better(0.9, 0.5, 100) < 1e-6 && better(0.52, 0.5, 100) > 0.3);
    }
}
