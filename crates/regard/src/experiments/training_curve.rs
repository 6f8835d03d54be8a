//! Do the patterns of attention come from training: do they grow with its steps?

use super::tagger_models as taggers;
use super::tagger_reading::{self, Reading};
use crate::experiment::{Bound, Check, Experiment, Findings, Lab, Measurements, Verdict};
use crate::figure::{Axis, Chart, Picture, Series};
use crate::statistics::{Interval, Sample, mean};
use anyhow::Result;
use regard_nn::analysis::statistics::spearman;

pub const EXPERIMENT: Experiment = Experiment {
    name: "training-curve",
    claims: &["B6"],
    question: "Do the patterns of attention grow with the steps of training?",
    prediction: "Over the steps of training, the entropy of the weights, the excess of function words' entropy over content \
        words', the weight on syntactically linked words and the specialisation of four heads each rise (a rank correlation \
        with the step above 0).",
    design: "Every measure of `training-smooths`, `word-links` and `tagger-heads` on the same hidden words of test sentences, from snapshots of the \
        same taggers: before the first step and at six points of training, each at twice the step of the one before. \
        Spearman's correlation with the step for each seed.",
    changed: Some(
        "At first all words of whole sentences were judged; after the first runs the hidden ones are, as in `training-smooths`. \
         Standard size had fewer seeds, which left some of it open; it has fifteen.",
    ),
    real_data: Some("a CoNLL-U treebank: a file, or a folder with train and test parts"),
    seconds: [3.0, 15.0, 200.0],
    run,
};

/// What is followed, with the number of heads it is measured with and the claim that says it rises, if one does.
const MEASURES: [(&str, usize, Option<&str>); 8] = [
    ("entropy ÷ ln n", 1, Some("B2")),
    ("largest weight", 1, None),
    ("entropy of function − content words", 1, Some("B3")),
    ("weight on linked words", 1, Some("B4")),
    ("largest weight on a linked word", 1, None),
    ("weight between judging words ÷ equal share", 1, None),
    ("specialisation of four heads, bits", 4, Some("B5")),
    ("accuracy on hidden words", 1, None),
];

fn value(reading: &Reading, measure: &str) -> Option<f64> {
    let view = &reading.hidden;
    match measure {
        "entropy ÷ ln n" => view.entropy,
        "largest weight" => view.largest,
        "entropy of function − content words" => Some(view.by_class[0]? - view.by_class[1]?),
        "weight on linked words" => view.linked,
        "largest weight on a linked word" => view.linked_first,
        "weight between judging words ÷ equal share" => view.related,
        "specialisation of four heads, bits" => Some(view.specialisation()),
        _ => Some(reading.accuracy()),
    }
}

fn run(lab: &Lab) -> Result<Findings> {
    let steps = taggers::steps(lab);
    let mut inputs = Vec::new();
    for heads in [1, 4] {
        let seeds = taggers::seeds(lab, heads).into_iter();
        inputs.extend(seeds.flat_map(|seed| steps.iter().map(move |&step| (heads, seed, step))));
    }
    let sentences = taggers::test_sentences(lab)?;
    let readings = lab.parts("readings", &inputs, |&(heads, seed, step)| {
        tagger_reading::read(&taggers::trained(lab, heads, seed)?.snapshot(step)?, &sentences)
    })?;
    let mut findings = Findings::new(&["step"]);
    for (&(heads, seed, step), reading) in inputs.iter().zip(&readings) {
        for (measure, with, _) in MEASURES {
            if heads == with
                && let Some(value) = value(reading, measure)
            {
                findings.measurements.add(&[&step], seed, measure, value);
            }
        }
    }
    draw(&mut findings, &steps);
    findings.verdicts = vec![judge(&findings.measurements, &steps)];
    for (measure, ..) in MEASURES {
        findings.fact(
            format!("rank correlation: {measure}"),
            growth(&findings.measurements, &steps, measure).mean,
        );
    }
    findings.fact("last step", steps.last().copied().unwrap_or(0) as f64);
    Ok(findings)
}

/// The rank correlation of a measure with the step, for each seed, and their mean. A measure that never changes does not
/// grow: it counts as 0. Seeds that lack a step are left out.
fn growth(table: &Measurements, steps: &[u64], measure: &str) -> Interval {
    let by_step: Vec<Sample> = steps.iter().map(|step| table.find(&[step], measure)).collect();
    let order: Vec<f64> = steps.iter().map(|&step| step as f64).collect();
    let of_seed = |seed: u64| {
        let values: Option<Vec<f64>> = by_step.iter().map(|values| values.of(seed)).collect();
        Some(spearman(&order, &values?).ok()?.unwrap_or(0.0))
    };
    let seeds = by_step.first().into_iter().flat_map(Sample::seeds);
    mean(&seeds.filter_map(of_seed).collect::<Vec<_>>())
}

fn draw(findings: &mut Findings, steps: &[u64]) {
    let mut picture = Picture::new("Attention while it learns")
        .subtitle("Mean over seeds and 95 % intervals, test sentences; the first point is before training")
        .columns(2);
    for (measure, ..) in MEASURES {
        let points: Vec<_> = steps
            .iter()
            .map(|step| {
                let interval = findings.measurements.mean_if_measured(&[step], measure);
                (*step as f64 + 1.0, interval.mean, interval.low, interval.high)
            })
            .collect();
        let chart = Chart::new(Axis::log("step + 1"), Axis::linear(measure))
            .series(Series::new("").intervals(points).band())
            .size(460.0, 280.0);
        picture = picture.panel(chart);
    }
    findings.figure(
        "curves",
        "What is measured of a tagger's attention before the first step and after more and more of them.",
        picture,
    );
}

fn judge(table: &Measurements, steps: &[u64]) -> Verdict {
    let claimed = MEASURES.iter().filter_map(|(measure, _, claim)| Some((measure, (*claim)?)));
    let checks: Vec<Check> = claimed
        .map(|(measure, claim)| {
            let what = format!("{measure} ({claim}): rank correlation with the step");
            Check::new(what, growth(table, steps, measure), Bound::Above(0.0))
        })
        .collect();
    let parts: Vec<String> = MEASURES
        .iter()
        .map(|(measure, ..)| {
            let at = |step: Option<&u64>| {
                step.map_or(f64::NAN, |step| table.mean_if_measured(&[step], measure).mean)
            };
            format!("{measure} from {:.3} to {:.3}", at(steps.first()), at(steps.last()))
        })
        .collect();
    let finding = format!("From the first to the last step: {}.", parts.join("; "));
    Verdict::new("B6", checks, finding).because(|checks| {
        let against = checks.iter().filter(|check| check.fails());
        let against: Vec<&str> =
            against.map(|check| check.what.split(": rank").next().unwrap_or_default()).collect();
        format!(
            "The patterns do come with the steps, but not all in the direction that is claimed: as training goes on, these fall: {}.",
            against.join("; ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;

    const STEPS: [u64; 5] = [0, 10, 20, 40, 80];

    fn planted(slope: f64) -> Measurements {
        let mut table = Measurements::new(&["step"]);
        for (measure, ..) in MEASURES {
            for (at, step) in STEPS.iter().enumerate() {
                for seed in 0..4_u64 {
                    // Two neighbouring points of one seed are swapped, so that the seeds are not all alike.
                    let at = if seed == 3 { [1, 0, 2, 3, 4][at] } else { at };
                    table.add(&[step], seed, measure, 1.0 + slope * at as f64);
                }
            }
        }
        table
    }

    #[test]
    fn the_verdict_follows_the_curve() {
        assert_eq!(judge(&planted(0.1), &STEPS).outcome, Outcome::Holds);
        assert_eq!(judge(&planted(-0.1), &STEPS).outcome, Outcome::Fails);
        assert_ne!(judge(&planted(0.0), &STEPS).outcome, Outcome::Holds);
    }
}
