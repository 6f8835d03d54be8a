//! The most telling results in plain words, for who reads nothing else.
//!
//! A sentence is chosen by what came out, and takes its numbers from the largest run on record: tiny models often behave unlike larger
//! ones. The number of this run stands beside it.

use super::results::Results;
use crate::experiment::claims::claim;
use crate::experiment::ledger::{Ledger, Place};
use crate::experiment::{Key, Outcome, Size, true_minus};
use crate::experiments::extensions::{self, Measure};
use crate::experiments::instruments::savings::Saving;
use crate::experiments::models::sentiment::Variant;
use crate::experiments::models::tagger::Stage;
use crate::experiments::negation::{self, Kind};
use crate::experiments::norm_placement::{self, Norm};
use crate::experiments::positions::{self, Encoding};
use crate::experiments::{pooled_words, scale_sweep, training_smooths};
use crate::figure::fixed;
use anyhow::{Context as _, Result};

/// Where numbers come from: this run, or one on record.
enum Evidence<'a> {
    Run(&'a Results<'a>),
    Recorded(&'a Ledger, &'a Place),
}

impl Evidence<'_> {
    fn fact(&self, key: impl Into<Key>) -> Result<f64> {
        match self {
            Self::Run(results) => results.fact(key),
            Self::Recorded(ledger, place) => {
                let key = key.into();
                ledger.fact(&key, place).with_context(|| format!("{} is not recorded at {place}", key.name))
            }
        }
    }

    /// The outcome of a claim; of another experiment than that of the topic, at its own largest size.
    fn outcome(&self, id: &str) -> Result<Outcome> {
        match self {
            Self::Run(results) => Ok(results.verdict(id)?.1.outcome),
            Self::Recorded(ledger, place) => {
                let row = ledger.at(id, place).or_else(|| ledger.largest(id));
                Ok(row.with_context(|| format!("{id} is not recorded"))?.outcome)
            }
        }
    }

    /// Claims and their outcomes, where there is nothing more telling to say.
    fn plainly(&self, ids: &[&str]) -> Result<String> {
        let one = |id: &&str| {
            let statement = claim(id).with_context(|| format!("there is no claim {id}"))?.statement;
            let statement = statement.trim_end_matches('.').replace('“', "‘").replace('”', "’");
            anyhow::Ok(format!("“{statement}”: {}.", self.outcome(id)?.name()))
        };
        Ok(ids.iter().map(one).collect::<Result<Vec<_>>>()?.join(" "))
    }
}

/// What is said on a topic: a whole sentence, and its numbers alone.
struct Said {
    sentence: String,
    numbers: String,
}

/// The claim whose largest run a topic is told by, and what is said of it.
type Topic = (&'static str, fn(&Evidence) -> Result<Said>);

const TOPICS: [Topic; 7] = [
    ("D3", scale),
    ("B2", training),
    ("C3", negated_sentences),
    ("C2", pooling),
    ("E5", norms),
    ("E3", beyond_the_length),
    ("E10", tiles),
];

/// A sentence or two for each topic, by a run of some size.
pub fn summary(results: &Results, size: Size) -> Result<Vec<String>> {
    TOPICS.into_iter().map(|topic| Ok(true_minus(&told(results, size, topic)?))).collect()
}

fn told(results: &Results, size: Size, (claim, say): Topic) -> Result<String> {
    let here = say(&Evidence::Run(results))?;
    let larger = results.ledger().largest(claim).filter(|row| row.place.size > size);
    // What a larger run did not record cannot be told of it.
    let Some((row, there)) =
        larger.and_then(|row| Some((row, say(&Evidence::Recorded(results.ledger(), &row.place)).ok()?)))
    else {
        return Ok(here.sentence);
    };
    Ok(format!("{} (Largest recorded run: {}. In this run: {}.)", there.sentence, row.place, here.numbers))
}

/// Says of a claim that is undecided that it is.
fn open_note(from: &Evidence, claim: &str) -> Result<String> {
    Ok(match from.outcome(claim)? {
        Outcome::Undecided => format!(" ({claim} is undecided.)"),
        _ => String::new(),
    })
}

fn scale(from: &Evidence) -> Result<Said> {
    let [without, with] = scale_sweep::Kind::ALL.map(|kind| from.fact(scale_sweep::LARGEST.of(kind)));
    let (without, with) = (without?, with?);
    let vanished = 100.0 * from.fact(scale_sweep::ROWS_VANISHED.of(scale_sweep::Kind::Unscaled))?;
    let growth = from.fact(scale_sweep::GROWTH_OF_Q)?;
    let numbers = format!("{without:.2} and {with:.2}; {vanished:.0} % of rows");
    let gradients = match growth > 1.0 {
        true => format!(
            "Without it the gradient of the scores is next to zero in {vanished:.0} % of rows; yet the gradient of Q has {growth:.1} times the \
             norm that it has with keys of 4 numbers, because the rows that are not saturated are multiplied by longer keys."
        ),
        false => format!("Without it the gradient of the scores is next to zero in {vanished:.0} % of rows."),
    };
    let sentence = match from.outcome("D3")? == Outcome::Holds {
        true => format!(
            "The scale $1/\\sqrt{{d_k}}$ does what is said of it: with keys of 256 numbers the largest of eight weights is {without:.2} on \
             average without it and {with:.2} with it. {gradients}"
        ),
        false => format!("{} {gradients}", from.plainly(&["D3"])?),
    };
    Ok(Said { sentence, numbers })
}

fn training(from: &Evidence) -> Result<Said> {
    let [before, after] = Stage::ALL.map(|stage| from.fact(training_smooths::MEAN_ENTROPY.of(stage)));
    let (before, after) = (before?, after?);
    let numbers = format!("{before:.2} to {after:.2}");
    let opening = match after < before {
        true => "In a tagger with one head, training makes attention sharper, not smoother",
        false => "In a tagger with one head, training makes attention smoother",
    };
    let decided = matches!(from.outcome("B2")?, Outcome::Holds | Outcome::Fails | Outcome::InPart);
    let sentence = match decided {
        true => format!(
            "{opening}: the entropy of a head's weights goes from {numbers} of that of equal weights."
        ),
        false => format!(
            "In training the entropy of a head's weights goes from {numbers} of that of equal weights."
        ),
    };
    Ok(Said { sentence, numbers })
}

fn negated_sentences(from: &Evidence) -> Result<Said> {
    let right = |kind, model| anyhow::Ok(100.0 * from.fact(negation::ACCURACY.of((kind, model)))?);
    let (plain, negated) = (right(Kind::Plain, Variant::Heads)?, right(Kind::Negated, Variant::Heads)?);
    let numbers = format!("{negated:.0} % of negated sentences");
    let sentence = match negated < 50.0 {
        true => format!(
            "A BiLSTM with self-attention classifies {plain:.0} % of plain sentences correctly and {negated:.0} % of negated ones, such as \
             *not good*: it takes the sentiment word at its face value."
        ),
        false => format!(
            "A BiLSTM with self-attention classifies {negated:.0} % of negated sentences, such as *not good*, correctly, and one with a max \
             pool {:.0} %; of plain ones {plain:.0} % and {:.0} %.",
            right(Kind::Negated, Variant::Max)?,
            right(Kind::Plain, Variant::Max)?,
        ),
    };
    Ok(Said { sentence, numbers })
}

fn pooling(from: &Evidence) -> Result<Said> {
    let excess = |model| from.fact(pooled_words::EXCESS.of((pooled_words::Kind::Sentiment, model)));
    let (additive, max) = (100.0 * excess(Variant::Additive)?, 100.0 * excess(Variant::Max)?);
    let numbers = format!("{additive:+.0} and {max:+.0} points");
    let sentence = match from.outcome("C2")? == Outcome::Holds && max >= additive {
        true => format!(
            "Additive attention rests on sentiment words ({additive:+.0} points of weight beyond their share); so does a max pool, which \
             has no attention ({max:+.0})."
        ),
        false => format!(
            "Additive attention gives sentiment words {additive:+.0} points of weight beyond their share; a max pool, which has no \
             attention, gives them {max:+.0}."
        ),
    };
    Ok(Said { sentence, numbers })
}

fn norms(from: &Evidence) -> Result<Said> {
    let runs = from.fact(norm_placement::RUNS.of(Norm::Post))?;
    let [pre, post] = Norm::ALL.map(|norm| from.fact(norm_placement::FAILURES.of(norm)));
    let (pre, post) = (pre?, post?);
    let open = open_note(from, "E5")?;
    Ok(Said {
        sentence: format!(
            "{post:.0} of {runs:.0} post-norm language models failed to learn, and {pre:.0} of as many pre-norm ones: all without the warm-up \
             that post-norm models usually get.{open}"
        ),
        numbers: format!("{post:.0} and {pre:.0} of {runs:.0}"),
    })
}

fn beyond_the_length(from: &Evidence) -> Result<Said> {
    let rise = |encoding| anyhow::Ok(100.0 * from.fact(positions::RISE.of(encoding))?);
    let (rotary, learned) = (rise(Encoding::Rotary)?, rise(Encoding::Learned)?);
    let (sinusoidal, alibi, bias) =
        (rise(Encoding::Sinusoidal)?, rise(Encoding::Alibi)?, rise(Encoding::Bias)?);
    let numbers = format!("rotary {rotary:+.0} %, ALiBi {alibi:+.0} %, learned {learned:+.0} %");
    let open = open_note(from, "E3")?;
    let sentence = match alibi.max(bias) < rotary.min(learned).min(sinusoidal) {
        true => format!(
            "Of five position encodings, those that make distance a bias on the scores lose least when a language model reads twice the \
             length that it was trained on: perplexity changes by {alibi:+.0} % with ALiBi and {bias:+.0} % with T5's bias, by {rotary:+.0} % \
             with rotary, {sinusoidal:+.0} % with sinusoidal and {learned:+.0} % with learned positions.{open}"
        ),
        false => format!(
            "Read at twice the length that it was trained on, a language model's perplexity changes by {learned:+.0} % with learned \
             positions, {sinusoidal:+.0} % with sinusoidal and {rotary:+.0} % with rotary ones, {alibi:+.0} % with ALiBi and {bias:+.0} % with T5's \
             bias.{open}"
        ),
    };
    Ok(Said { sentence, numbers })
}

fn tiles(from: &Evidence) -> Result<Said> {
    let share = |measure| anyhow::Ok(100.0 * from.fact(extensions::COST.of((Saving::Tiled, measure)))?);
    let (memory, time) = (share(Measure::Memory)?, share(Measure::Time)?);
    let length = fixed(from.fact(extensions::LENGTH)?, 0);
    let numbers = format!("{memory:.0} % of the memory, {time:.0} % of the time at {length} tokens");
    // E8 is about how time and memory grow, E10 about whether tiles give the same numbers.
    let sentence = match [from.outcome("E8")?, from.outcome("E10")?] {
        [Outcome::Holds, Outcome::Holds] => format!(
            "Attention written out takes time and memory that grow as the square of the length. In tiles it gives the same numbers with \
             {memory:.0} % of the memory and {time:.0} % of the time, at {length} tokens."
        ),
        _ => format!(
            "Attention in tiles takes {memory:.0} % of the memory and {time:.0} % of the time, at {length} tokens."
        ),
    };
    Ok(Said { sentence, numbers })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Bound, Check, Findings, Setup, Verdict};
    use crate::experiments::find;
    use crate::statistics::mean;

    fn findings(facts: &[(Key, f64)], verdict: Option<Verdict>) -> Findings {
        let mut findings = Findings::default();
        for (key, value) in facts {
            findings.fact(key.clone(), *value);
        }
        findings.verdicts.extend(verdict);
        findings
    }

    fn results(ledger: Ledger, facts: &[(Key, f64)], verdict: Option<Verdict>) -> Results<'static> {
        let mut results = Results::beside(ledger);
        results.add(find(facts[0].0.experiment).unwrap(), findings(facts, verdict));
        results
    }

    fn negation(negated: f64) -> Vec<(Key, f64)> {
        let facts = [
            (Kind::Plain, Variant::Heads, 0.98),
            (Kind::Negated, Variant::Heads, negated),
            (Kind::Plain, Variant::Max, 0.97),
            (Kind::Negated, Variant::Max, 0.3),
        ];
        facts.map(|(kind, model, value)| (negation::ACCURACY.of((kind, model)), value)).to_vec()
    }

    fn verdict() -> Verdict {
        Verdict::new("C3", vec![Check::new("accuracy", mean(&[0.1, 0.2, 0.15]), Bound::Above(0.5))], "")
    }

    #[test]
    fn what_is_said_of_negation_follows_how_often_it_is_read_right() {
        let said = |negated: f64| {
            let results = results(Ledger::default(), &negation(negated), Some(verdict()));
            negated_sentences(&Evidence::Run(&results)).unwrap().sentence
        };
        assert!(
            said(0.36).contains(
                "36 % of negated ones, such as *not good*: it takes the sentiment word at its face"
            )
        );
        let mostly_right = said(0.72);
        assert!(
            mostly_right.contains("72 % of negated sentences") && mostly_right.contains("pool 30 %"),
            "{mostly_right}"
        );
        assert!(!mostly_right.contains("face value"));
    }

    #[test]
    fn a_larger_recorded_run_is_told_and_this_one_stands_beside_it() {
        let experiment = find("negation").unwrap();
        let mut ledger = Ledger::default();
        let setup = Setup::of(Size::Full);
        ledger.add(experiment, &setup, &findings(&negation(0.72), Some(verdict())));
        let results = results(ledger, &negation(0.36), Some(verdict()));
        let topic: Topic = ("C3", negated_sentences);
        let said = told(&results, Size::Quick, topic).unwrap();
        assert!(said.contains("72 % of negated") && !said.contains("face value"), "{said}");
        assert!(
            said.ends_with("(Largest recorded run: full. In this run: 36 % of negated sentences.)"),
            "{said}"
        );
        let itself = told(&results, Size::Full, topic).unwrap();
        assert!(
            itself.contains("36 % of negated") && !itself.contains("recorded"),
            "a run as large speaks for itself"
        );
    }

    #[test]
    fn a_bias_is_said_to_lose_least_only_if_it_does() {
        let said = |rotary: f64, sinusoidal: f64| {
            let facts = [
                (Encoding::Rotary, rotary),
                (Encoding::Learned, 0.5),
                (Encoding::Sinusoidal, sinusoidal),
                (Encoding::Alibi, -0.02),
                (Encoding::Bias, 0.17),
            ];
            let facts = facts.map(|(encoding, value)| (positions::RISE.of(encoding), value));
            let undecided = Check::new("rise", mean(&[-0.1, 0.2, 0.1]), Bound::Above(0.0));
            let verdict = Verdict::new("E3", vec![undecided], "");
            let results = results(Ledger::default(), &facts, Some(verdict));
            beyond_the_length(&Evidence::Run(&results)).unwrap().sentence
        };
        assert!(said(0.45, 0.4).contains("a bias on the scores lose least"));
        let rotary_is_better = said(0.06, 0.4);
        assert!(!rotary_is_better.contains("lose least"));
        assert!(!said(0.45, 0.1).contains("lose least"), "sinusoidal ones lose less than T5's bias");
        assert!(rotary_is_better.contains("+6 % with rotary"), "{rotary_is_better}");
        assert!(rotary_is_better.ends_with("(E3 is undecided.)"), "{rotary_is_better}");
    }
}
