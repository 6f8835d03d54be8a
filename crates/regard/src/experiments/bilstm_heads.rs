//! What do the heads of self-attention on a BiLSTM learn: syntax, sentiment, emphasis?

use super::models::sentiment::{self as models, Variant};
use crate::experiment::{
    Bound, Check, Data, Experiment, Findings, Lab, Rows, Sizes, Sweep, Table, Verdict, charts, facts, named,
};
use crate::figure::{Axis, Bars, Picture};
use crate::model::Opened;
use crate::run::sources;
use crate::statistics::paired;
use anyhow::Result;
use regard_nn::analysis::Tokens;
use regard_nn::analysis::dependencies::{Aligned, Parsed};
use regard_nn::analysis::heads::record_weights;
use regard_nn::data::builtin;
use regard_nn::tokens::Special;
use std::collections::HashSet;

pub const EXPERIMENT: Experiment = Experiment {
    name: "bilstm-heads",
    claims: &["C8"],
    question: "Do parallel heads on a BiLSTM learn syntax, sentiment and emphasis?",
    prediction: "Of the four heads of the trained model, the one that attends most to syntactic neighbours gives them more weight beyond \
        an equal share than the one of the untrained model does; likewise for sentiment words, and for words of emphasis such as “very”. \
        Each is a part.",
    design: "The models with self-attention of `three-models`, trained on the built-in text, before and after training, paired by seed. On \
        sentences with known trees, and for each word: the weight that a head gives words that this word depends on or that depend on it, \
        sentiment words, and intensifiers, minus the share of the words that these are (the word itself is left out). The head is chosen \
        on one half of the sentences and measured on the other. The claim is testable if the model classifies texts better than chance.",
    changed: None,
    data: Data::BuiltIn,
    conditions: &["words", "stage"],
    seeds: models::SEEDS,
    seconds: Sizes::quick(4.0).standard(20.0).full(60.0),
    trains: |lab| Ok(vec![models::config(lab, Variant::Heads, lab.first_seed())?]),
    run,
};

named! {
    /// The words that a head may attend to.
    enum Kind { Syntax = "syntactic neighbours", Sentiment = "sentiment words", Emphasis = "intensifiers" }
}

named! {
    enum Stage { Untrained = "untrained", Trained = "trained" }
}

const EXCESS: &str = "weight beyond an equal share, chosen head";
const ACCURACY: &str = "accuracy";

type Measured = Table<(Kind, Stage)>;

facts! {
    EXCESS_OF(kind: Kind, stage: Stage) = "excess on {kind}: {stage}";
}

/// A sentence as a model reads it, and which of its words are of which kind.
struct Sentence {
    tokens: Tokens,
    aligned: Aligned,
    sentiment: Vec<bool>,
    emphasis: Vec<bool>,
}

impl Sentence {
    fn is(&self, kind: Kind, from: usize, to: usize) -> bool {
        let head = |word: usize| self.aligned.edges[word].0;
        match kind {
            Kind::Syntax => head(from) == Some(to) || head(to) == Some(from),
            Kind::Sentiment => self.sentiment[to],
            Kind::Emphasis => self.emphasis[to],
        }
    }
}

fn run(lab: &Lab) -> Result<Findings> {
    let texts = models::test_texts(lab)?;
    let inputs = lab.each(Stage::ALL);
    let Sweep { table, .. } = lab.sweep("runs", inputs, |stage, seed, rows: &mut Rows<(Kind, Stage)>| {
        let trained = models::trained(lab, Variant::Heads, seed)?;
        let opened = if stage == Stage::Trained { trained.open()? } else { trained.snapshot(0)? };
        let heads = excesses(&opened, &sentences(lab, &opened)?)?;
        for (kind, [choose, measure]) in Kind::ALL.into_iter().zip(heads) {
            for (head, value) in measure.iter().enumerate() {
                rows.add((kind, stage), format!("weight beyond an equal share, head {head}"), *value);
            }
            let best = (0..choose.len()).max_by(|&a, &b| choose[a].total_cmp(&choose[b]));
            rows.add_some((kind, stage), EXCESS, best.map(|head| measure[head]));
        }
        if stage == Stage::Trained {
            let config = models::config(lab, Variant::Heads, seed)?;
            rows.add(
                (Kind::Syntax, stage),
                ACCURACY,
                super::models::bag::accuracy(&opened, &config, &texts)?,
            );
        }
        Ok(())
    })?;
    let mut findings = Findings::default();
    let axis = Axis::linear("weight − share of the words");
    let bars = charts::grouped(
        Bars::upright(charts::names(Kind::ALL), axis),
        Stage::ALL,
        &Kind::ALL,
        |stage, kind| charts::bar(table.mean((kind, stage), EXCESS)),
    );
    findings.figure(
        "excess_by_kind",
        "For each kind of words, the head that attends to them most (chosen on other sentences): its weight on them beyond an equal share; \
         mean over seeds with 95 % intervals.",
        Picture::new("What heads on a BiLSTM attend to").panel(bars),
    );
    findings.verdicts = vec![judge(&table)];
    for kind in Kind::ALL {
        findings.facts(EXCESS_OF, Stage::ALL.map(|stage| (kind, stage)), |condition| {
            table.mean(condition, EXCESS).mean
        });
    }
    findings.finish(lab, table)
}

/// Sentences outside the training data that have a tree, as the model reads them.
fn sentences(lab: &Lab, opened: &Opened) -> Result<Vec<Sentence>> {
    let (lexicon, tokenizer) = (models::lexicon(), opened.tokenizer()?);
    let intensifiers: HashSet<&str> = builtin::intensifiers().into_iter().collect();
    let most = lab.setting("sentences", Sizes::quick(300).smoke(20).standard(1_000));
    let mut sentences = Vec::new();
    for parsed in sources::builtin_test()?.iter().flat_map(Parsed::from_text) {
        let encoding = tokenizer.encode(&parsed.text, Special::Keep)?;
        if !(5..=40).contains(&parsed.words.len()) {
            continue;
        }
        let lower = |range: &std::ops::Range<usize>| parsed.text[range.clone()].to_lowercase();
        let words: Vec<String> = parsed.words.iter().map(|word| lower(&word.range)).collect();
        let (tokens, aligned) = parsed.align(&encoding);
        sentences.push(Sentence {
            tokens,
            aligned,
            sentiment: words.iter().map(|word| lexicon.contains(word)).collect(),
            emphasis: words.iter().map(|word| intensifiers.contains(word.as_str())).collect(),
        });
        if sentences.len() == most {
            break;
        }
    }
    Ok(sentences)
}

/// By kind, half of the sentences and head: the mean over words of the weight on words of the kind beyond their share.
fn excesses(opened: &Opened, sentences: &[Sentence]) -> Result<[[Vec<f64>; 2]; 3]> {
    let mut sums: [[Vec<(f64, f64)>; 2]; 3] = Default::default();
    for (number, sentence) in sentences.iter().enumerate() {
        let seen = record_weights(&*opened.model, std::slice::from_ref(&sentence.tokens))?;
        let Some(weights) = seen.first() else { continue };
        let time = sentence.tokens.len();
        let (all, words) = (weights.all(), sentence.aligned.pieces.len());
        for (head, weights) in all.values().chunks(time * time).enumerate() {
            let merged = sentence.aligned.merge(weights, time);
            for kind in Kind::ALL {
                let heads = &mut sums[kind as usize][number % 2];
                if heads.len() <= head {
                    heads.resize(head + 1, (0.0, 0.0));
                }
                for from in 0..words {
                    let others = || (0..words).filter(|&to| to != from);
                    let of_kind = || others().filter(|&to| sentence.is(kind, from, to));
                    if of_kind().next().is_none() {
                        continue;
                    }
                    let total: f64 = others().map(|to| merged[from * words + to]).sum();
                    let weight: f64 = of_kind().map(|to| merged[from * words + to]).sum();
                    let share = of_kind().count() as f64 / others().count() as f64;
                    heads[head].0 += weight / total.max(f64::MIN_POSITIVE) - share;
                    heads[head].1 += 1.0;
                }
            }
        }
    }
    Ok(sums.map(|halves| halves.map(|heads| heads.iter().map(|(sum, count)| sum / count.max(1.0)).collect())))
}

fn judge(table: &Measured) -> Verdict {
    let of = |kind, stage| table.values((kind, stage), EXCESS);
    let told = Kind::ALL.map(|kind| {
        // Rounded first, since a tiny negative number would be printed as −0.0.
        let [before, after] =
            Stage::ALL.map(|stage| (1e3 * of(kind, stage).mean().mean).round() / 10.0 + 0.0);
        format!("{kind} from {before:+.1} to {after:+.1}")
    });
    let finding = format!(
        "Points of weight beyond an equal share that the best head gives, from the untrained to the trained model: {}.",
        told.join(", ")
    );
    let check = |kind: Kind| {
        let what = format!("{kind}: weight of the best head beyond an equal share, trained − untrained");
        let gain = paired(&of(kind, Stage::Trained), &of(kind, Stage::Untrained));
        Check::new(what, gain, Bound::Above(0.0)).part(kind.name())
    };
    let accuracy = table.mean((Kind::Syntax, Stage::Trained), ACCURACY);
    Verdict::new("C8", Kind::ALL.map(check).into(), finding)
        .requires(models::learned(Variant::Heads, accuracy))
        .because(|checks| {
            let lost: Vec<&str> = Kind::ALL
                .into_iter()
                .zip(checks)
                .filter(|(_, check)| check.fails())
                .map(|(kind, _)| kind.name())
                .collect();
            format!(
                "In training even the best head turns away from: {}. The BiLSTM below has mixed the words already, and the label can be \
                 found without these.",
                lost.join(", ")
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;

    fn judged(trained: [f64; 3], accuracy: f64) -> Outcome {
        let mut table = Table::new();
        for (kind, trained) in Kind::ALL.into_iter().zip(trained) {
            for seed in 0..4 {
                let noise = 0.002 * seed as f64;
                table.add((kind, Stage::Untrained), seed, EXCESS, 0.02 + noise);
                table.add((kind, Stage::Trained), seed, EXCESS, trained + 1.5 * noise);
                table.add((kind, Stage::Trained), seed, ACCURACY, accuracy + noise);
            }
        }
        judge(&table).outcome
    }

    #[test]
    fn each_kind_of_words_is_a_part() {
        assert_eq!(judged([0.2, 0.3, 0.1], 0.8), Outcome::Holds);
        assert_eq!(judged([-0.1, 0.3, 0.1], 0.8), Outcome::InPart);
        assert_eq!(judged([-0.1, -0.1, -0.1], 0.8), Outcome::Fails);
        assert_eq!(judged([0.2, 0.3, 0.1], 0.45), Outcome::NotTestable);
    }

    #[test]
    fn neighbours_depend_on_each_other_either_way() {
        let edges = vec![(Some(1), "det".to_owned()), (None, "root".to_owned()), (Some(1), "obj".to_owned())];
        let sentence = Sentence {
            tokens: Tokens::default(),
            aligned: Aligned { pieces: vec![vec![0], vec![1], vec![2]], edges },
            sentiment: vec![false, false, true],
            emphasis: vec![true, false, false],
        };
        assert!(
            sentence.is(Kind::Syntax, 0, 1)
                && sentence.is(Kind::Syntax, 1, 2)
                && !sentence.is(Kind::Syntax, 0, 2)
        );
        assert!(sentence.is(Kind::Sentiment, 0, 2) && !sentence.is(Kind::Emphasis, 0, 2));
    }
}
