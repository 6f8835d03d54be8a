//! What would make the first classifier better: pre-trained vectors, trained projections, positions, residuals, more data?

use super::models::bag::{self as bags, Form};
use super::models::sentiment;
use crate::experiment::{
    Bound, Check, Data, Experiment, Findings, Lab, SMALL_MODELS, Sizes, Sweep, Table, Verdict, facts, named,
};
use crate::figure::{Axis, IntervalRow, Intervals, Picture};
use crate::statistics::{Interval, paired};
use anyhow::Result;
use regard_nn::data::vectors::WordVectors;

pub const EXPERIMENT: Experiment = Experiment {
    name: "ingredients",
    claims: &["A6"],
    question: "What improves the simple classifier: pre-trained vectors, trained attention, positions, a residual connection, more data?",
    prediction: "Each of pre-trained word vectors, trained projections, positions, a residual connection and four times the data, \
        added alone to a bag of word vectors under untrained attention with four heads, raises the accuracy on test texts. Each is a part \
        of the claim.",
    design: "The classifier of `word-vectors`, with attention over the vectors whose projections stay as they were initialised. Each \
        ingredient is switched on alone, and all but the vectors together. Data, steps and learning rate are the same; differences \
        are paired by seed. Pre-trained vectors (`--vectors FILE`, GloVe or fastText) are compared with random vectors of the same \
        width. The claim is testable if the bag with all ingredients but the vectors is more accurate than chance.",
    changed: None,
    data: Data::Text("IMDb (aclImdb_v1.tar.gz) or a folder with train.tsv and test.tsv"),
    conditions: &["with"],
    seeds: SMALL_MODELS,
    seconds: Sizes::quick(15.0).standard(70.0).full(900.0),
    trains: |lab| {
        With::ALL[..6].iter().map(|with| bags::config(lab, with.form(None), lab.first_seed())).collect()
    },
    run,
};

const HEADS: usize = 4;
/// More data is so many times as much.
const MORE: usize = 4;

named! {
    /// What is added to the base.
    enum With {
        Nothing = "none of these",
        Projections = "trained projections",
        Positions = "positions",
        Residual = "residual connection",
        Data = "four times the data",
        All = "all four",
        SameWidth = "vectors of that width, drawn at random",
        Vectors = "pre-trained vectors",
    }
}

/// What is switched on by itself.
const INGREDIENTS: [With; 4] = [With::Projections, With::Positions, With::Residual, With::Data];
const ACCURACY: &str = "accuracy";

facts! {
    ACCURACY_WITH(with: With) = "accuracy: {with}";
}

impl With {
    /// The bag; of pre-trained vectors the width must be known.
    fn form(self, width: Option<usize>) -> Form {
        // As many heads as divide the width.
        let heads = if width.is_none_or(|width| width.is_multiple_of(HEADS)) { HEADS } else { 1 };
        let base = Form { heads, ..Form::PLAIN };
        match self {
            With::Nothing => base,
            With::Projections => Form { trained: true, ..base },
            With::Positions => Form { positions: true, ..base },
            With::Residual => Form { residual: true, ..base },
            With::Data => Form { data: MORE, ..base },
            With::All => Form { trained: true, positions: true, residual: true, data: MORE, ..base },
            With::SameWidth => Form { width, ..base },
            With::Vectors => Form { width, vectors: true, ..base },
        }
    }
}

fn run(lab: &Lab) -> Result<Findings> {
    let texts = sentiment::test_texts(lab)?;
    let mut forms: Vec<With> = With::ALL[..6].to_vec();
    let mut width = None;
    if let Some(file) = lab.setup.vectors {
        let none: [&str; 0] = [];
        width = Some(WordVectors::open(file, &none)?.dimension());
        forms.extend([With::SameWidth, With::Vectors]);
    }
    let width = |with| if matches!(with, With::SameWidth | With::Vectors) { width } else { None };
    let inputs = lab.each(forms.iter().map(|&with| (with, with.form(width(with)))));
    let Sweep { table, .. } = lab.sweep("accuracies", inputs, |(with, form), seed, rows| {
        let opened = bags::trained(lab, form, seed)?.open()?;
        rows.add(with, ACCURACY, bags::accuracy(&opened, &bags::config(lab, form, seed)?, &texts)?);
        Ok(())
    })?;
    let mut findings = Findings::default();
    draw(&mut findings, &table);
    findings.verdicts = vec![judge(&table)];
    findings.facts(ACCURACY_WITH, forms, |with| table.mean(with, ACCURACY).mean);
    findings.finish(lab, table)
}

/// What an ingredient adds to the accuracy; nothing if it was not measured.
fn gain(table: &Table<With>, with: With) -> Option<Interval> {
    let without = if with == With::Vectors { With::SameWidth } else { With::Nothing };
    let measured = table.find(with, ACCURACY);
    (!measured.is_empty()).then(|| paired(&measured, &table.values(without, ACCURACY)))
}

fn draw(findings: &mut Findings, table: &Table<With>) {
    let empty = Intervals::new(Axis::linear("accuracy with it − without it")).reference(0.0);
    let panel = INGREDIENTS.into_iter().chain([With::Vectors, With::All]).fold(empty, |panel, with| {
        let gain = gain(table, with).unwrap_or_else(Interval::nothing);
        panel.line(IntervalRow::new(with.name(), gain.mean, gain.low, gain.high))
    });
    findings.figure(
        "gains",
        "What each ingredient adds to the accuracy on test texts, alone; mean over seeds with 95 % intervals.",
        Picture::new("What improves a simple classifier").panel(panel),
    );
}

fn judge(table: &Table<With>) -> Verdict {
    let accuracy = |with| 100.0 * table.mean(with, ACCURACY).mean;
    let vectors = match gain(table, With::Vectors) {
        Some(gain) => format!("Pre-trained vectors add {:+.1} points.", 100.0 * gain.mean),
        None => {
            "Pre-trained vectors were not measured: give a file of GloVe or fastText (as text) with `--vectors FILE`.".to_owned()
        }
    };
    let parts: Vec<String> = INGREDIENTS
        .iter()
        .filter_map(|&with| Some(format!("{with} {:+.1}", 100.0 * gain(table, with)?.mean)))
        .collect();
    let finding = format!(
        "Untrained attention alone classifies {:.1} % of test texts correctly. Points added: {}; all four together {:+.1}. {vectors}",
        accuracy(With::Nothing),
        parts.join(", "),
        accuracy(With::All) - accuracy(With::Nothing),
    );
    let check = |with: With| {
        let what = format!("accuracy: {with} − without");
        let check = match gain(table, with) {
            Some(gain) => Check::new(what, gain, Bound::Above(0.0)),
            None => Check::not_measured(what, Bound::Above(0.0)),
        };
        check.part(with.name())
    };
    let learned = Check::new("accuracy with all four", table.mean(With::All, ACCURACY), Bound::Above(0.5));
    Verdict::new("A6", INGREDIENTS.into_iter().chain([With::Vectors]).map(check).collect(), finding)
        .requires(learned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;

    fn planted(gain: f64, vectors: Option<f64>) -> Table<With> {
        let mut table = Table::new();
        for seed in 0..4 {
            let noise = 0.002 * seed as f64;
            table.add(With::Nothing, seed, ACCURACY, 0.7 + noise);
            table.add(With::SameWidth, seed, ACCURACY, 0.7 + noise);
            table.add(With::All, seed, ACCURACY, 0.8 + noise);
            for with in INGREDIENTS {
                table.add(with, seed, ACCURACY, 0.7 + gain + 1.5 * noise);
            }
            if let Some(vectors) = vectors {
                table.add(With::Vectors, seed, ACCURACY, 0.7 + vectors + 1.5 * noise);
            }
        }
        table
    }

    #[test]
    fn the_verdict_follows_the_gains() {
        assert_eq!(judge(&planted(0.05, Some(0.1))).outcome, Outcome::Holds);
        assert_eq!(judge(&planted(-0.05, Some(-0.1))).outcome, Outcome::Fails);
        assert_eq!(judge(&planted(0.05, Some(-0.1))).outcome, Outcome::InPart);
        let without = judge(&planted(0.05, None));
        assert_eq!(without.outcome, Outcome::InPart, "one of five is missing");
        assert_eq!(without.parts[4].outcome, Outcome::NotMeasured, "and is said to be");
        assert!(without.finding.contains("--vectors"));
    }
}
