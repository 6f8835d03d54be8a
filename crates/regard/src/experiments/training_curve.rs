//! Do the patterns of attention come from training: do they grow with its steps?

use super::instruments::tagger_attention::{self, Reading};
use super::models::tagger as taggers;
use crate::experiment::{
    Bound, Check, Data, Experiment, Findings, Lab, SMALL_MODELS, Sizes, Sweep, Table, Verdict, charts, facts,
    named, those_that_apply,
};
use crate::figure::{Axis, Chart, Picture, Series};
use crate::statistics::{Interval, Sample, mean};
use anyhow::Result;
use regard_nn::analysis::statistics::spearman;

pub const EXPERIMENT: Experiment = Experiment {
    name: "training-curve",
    claims: &["B6"],
    question: "Do the patterns of attention grow with the steps of training?",
    prediction: "The entropy of the weights, the excess of function words' entropy over content words', the weight on syntactically \
        linked words and the specialisation of four heads each move away from their values before training, the further the more steps \
        there were (a rank correlation of the distance with the step above 0, over the steps after the first). Whether they rise, as B2 to \
        B5 have it, is shown beside it and counted there.",
    design: "The measures of `training-smooths`, `word-links` and `tagger-heads` for the same hidden words of test sentences, on \
        snapshots of the same taggers: before the first step and at six points of training, each at twice the step of the one before. \
        Spearman's correlation with the step is computed for each seed. The claim is testable if the trained taggers are right more often \
        than the more frequent class.",
    changed: None,
    data: Data::Text("a CoNLL-U treebank: a file, or a folder with train and test parts"),
    conditions: &["step"],
    seeds: SMALL_MODELS,
    seconds: Sizes::quick(3.0).standard(15.0).full(200.0),
    trains: |lab| [1, 4].map(|heads| taggers::config(lab, heads, lab.first_seed())).into_iter().collect(),
    run,
};

named! {
    /// What is followed over the steps.
    enum Measure {
        Entropy = "entropy ÷ ln n",
        Largest = "largest weight",
        Classes = "entropy of function − content words",
        Linked = "weight on linked words",
        LargestLinked = "largest weight on a linked word",
        Related = "weight between sentiment words ÷ equal share",
        Specialisation = "specialisation of four heads, bits",
        Accuracy = "accuracy on hidden words",
        Majority = "share of the more frequent class",
    }
}

/// The measures that are followed, and the claims that say they rise.
const CLAIMED: [(Measure, &str); 4] = [
    (Measure::Entropy, "B2"),
    (Measure::Classes, "B3"),
    (Measure::Linked, "B4"),
    (Measure::Specialisation, "B5"),
];

impl Measure {
    /// The number of heads of the tagger that it is measured on.
    fn heads(self) -> usize {
        if self == Measure::Specialisation { 4 } else { 1 }
    }

    fn of(self, reading: &Reading) -> Option<f64> {
        let view = &reading.hidden;
        match self {
            Measure::Entropy => view.entropy,
            Measure::Largest => view.largest,
            Measure::Classes => Some(view.by_class[0]? - view.by_class[1]?),
            Measure::Linked => view.linked,
            Measure::LargestLinked => view.linked_first,
            Measure::Related => view.related,
            Measure::Specialisation => Some(view.specialisation()),
            Measure::Accuracy => Some(reading.accuracy()),
            Measure::Majority => Some(reading.majority),
        }
    }
}

facts! {
    GROWTH(measure: Measure) = "rank correlation: {measure}";
    LAST_STEP = "last step";
}

fn run(lab: &Lab) -> Result<Findings> {
    let steps = taggers::steps(lab);
    let mut inputs = Vec::new();
    for heads in [1, 4] {
        let seeds = taggers::seeds(lab, heads).into_iter();
        inputs.extend(seeds.flat_map(|seed| steps.iter().map(move |&step| ((heads, step), seed))));
    }
    let sentences = taggers::test_sentences(lab)?;
    let Sweep { table, .. } = lab.sweep("readings", inputs, |(heads, step), seed, rows| {
        let opened = taggers::trained(lab, heads, seed)?.snapshot(step)?;
        let reading = tagger_attention::read(&opened, &sentences)?;
        for measure in Measure::ALL.into_iter().filter(|measure| measure.heads() == heads) {
            rows.add_some(step, measure, measure.of(&reading));
        }
        Ok(())
    })?;
    let mut findings = Findings::default();
    draw(&mut findings, &table, &steps);
    findings.verdicts = vec![judge(&table, &steps)];
    findings.facts(GROWTH, SHOWN, |measure| growth(&table, &steps, measure).mean);
    findings.fact(LAST_STEP, steps.last().copied().unwrap_or(0) as f64);
    findings.finish(lab, table)
}

/// The rank correlation of a measure with the step, for each seed, and their mean. A measure that never changes does not
/// grow: it counts as 0. Seeds that lack a step are left out.
fn growth(table: &Table<u64>, steps: &[u64], measure: Measure) -> Interval {
    let by_step: Vec<Sample> = steps.iter().map(|&step| table.find(step, measure)).collect();
    let order: Vec<f64> = steps.iter().map(|&step| step as f64).collect();
    let of_seed = |seed: u64| {
        let values: Option<Vec<f64>> = by_step.iter().map(|values| values.of(seed)).collect();
        Some(spearman(&order, &values?).ok()?.unwrap_or(0.0))
    };
    let seeds = by_step.first().into_iter().flat_map(Sample::seeds);
    mean(&seeds.filter_map(of_seed).collect::<Vec<_>>())
}

/// The rank correlation with the step of how far a measure is from its value before training, for each seed, and their mean. The
/// first step is left out: there the distance is 0 whatever happens.
fn departure(table: &Table<u64>, steps: &[u64], measure: Measure) -> Interval {
    let [start, later @ ..] = steps else { return Interval::nothing() };
    let start = table.find(*start, measure);
    let by_step: Vec<Sample> =
        later.iter().map(|&step| table.find(step, measure).minus(&start).map(f64::abs)).collect();
    let order: Vec<f64> = later.iter().map(|&step| step as f64).collect();
    let of_seed = |seed: u64| {
        let values: Option<Vec<f64>> = by_step.iter().map(|values| values.of(seed)).collect();
        Some(spearman(&order, &values?).ok()?.unwrap_or(0.0))
    };
    mean(&start.seeds().filter_map(of_seed).collect::<Vec<_>>())
}

/// What is drawn and told: all but the share that accuracy is compared with.
const SHOWN: [Measure; 8] = [
    Measure::Entropy,
    Measure::Largest,
    Measure::Classes,
    Measure::Linked,
    Measure::LargestLinked,
    Measure::Related,
    Measure::Specialisation,
    Measure::Accuracy,
];

fn draw(findings: &mut Findings, table: &Table<u64>, steps: &[u64]) {
    let mut picture = Picture::new("Attention during training")
        .subtitle("Mean over seeds and 95 % intervals, test sentences; the first point is before training")
        .columns(2);
    for measure in SHOWN {
        let points =
            steps.iter().map(|&step| charts::point(step as f64 + 1.0, table.mean_if_measured(step, measure)));
        let chart = Chart::new(Axis::log("step + 1"), Axis::linear(measure.name()))
            .series(Series::new("").intervals(points).band())
            .size(460.0, 280.0);
        picture = picture.panel(chart);
    }
    findings.figure(
        "curves",
        "The measures of a tagger's attention before the first step and at later steps of training.",
        picture,
    );
}

fn judge(table: &Table<u64>, steps: &[u64]) -> Verdict {
    let check = |(measure, claim): (Measure, &'static str)| {
        let what = format!("{measure}: rank correlation of the distance from the first value with the step");
        let own = Check::new(what, departure(table, steps, measure), Bound::Above(0.0));
        let what = format!("{measure}: rank correlation with the step");
        let rises = Check::new(what, growth(table, steps, measure), Bound::Above(0.0));
        [own.part(measure.name()), rises.part(format!("{measure}: rises")).repeats(claim)]
    };
    let checks = CLAIMED.map(check).concat();
    let of_last = |measure| steps.last().map(|&step| table.values(step, measure)).unwrap_or_default();
    let learned = taggers::learned(&of_last(Measure::Accuracy), &of_last(Measure::Majority));
    let parts = SHOWN.map(|measure| {
        let at =
            |step: Option<&u64>| step.map_or(f64::NAN, |&step| table.mean_if_measured(step, measure).mean);
        format!("{measure} from {:.3} to {:.3}", at(steps.first()), at(steps.last()))
    });
    let finding = format!("From the first to the last step: {}.", parts.join("; "));
    Verdict::new("B6", checks, finding).requires(learned).because(|checks| {
        let names = |repeated: bool| -> Vec<&str> {
            let failing = checks.iter().filter(|check| check.fails() && check.repeats.is_some() == repeated);
            failing.map(|check| check.what.split(": rank").next().unwrap_or_default()).collect()
        };
        let (fall, wander) = (names(true).join("; "), names(false).join("; "));
        those_that_apply([
            (!wander.is_empty(), format!("These do not move further from where they began: {wander}.").as_str()),
            (
                !fall.is_empty(),
                &format!("Patterns change, but not all in the direction that is claimed. These fall during training: {fall}."),
            ),
        ])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;

    const STEPS: [u64; 5] = [0, 10, 20, 40, 80];

    fn planted(slope: f64) -> Table<u64> {
        let mut table = Table::new();
        for measure in Measure::ALL {
            for (at, step) in STEPS.into_iter().enumerate() {
                for seed in 0..4_u64 {
                    // Two neighbouring points of one seed are swapped, so that the seeds are not all alike.
                    let at = if seed == 3 { [1, 0, 2, 3, 4][at] } else { at };
                    let value = if measure == Measure::Majority { 0.6 } else { 1.0 + slope * at as f64 };
                    table.add(step, seed, measure, value);
                }
            }
        }
        table
    }

    #[test]
    fn the_verdict_follows_the_curve() {
        assert_eq!(judge(&planted(0.1), &STEPS).outcome, Outcome::Holds);
        let falls = judge(&planted(-0.05), &STEPS);
        assert_eq!(falls.outcome, Outcome::Holds, "it comes from training, in whatever direction");
        assert!(
            falls.parts.iter().all(|part| part.repeats.is_none() || part.outcome == Outcome::Fails),
            "{falls:?}"
        );
        assert!(falls.why.is_some_and(|why| why.contains("These fall during training")));
        assert_ne!(judge(&planted(0.0), &STEPS).outcome, Outcome::Holds);
    }
}
