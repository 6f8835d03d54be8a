//! Do heads specialise when there are several?

use super::tagger_models::{self as taggers, HEADS, Sentence};
use super::tagger_reading::{self, PLACES, Reading};
use super::training_smooths::{STAGES, example};
use crate::experiment::{Bound, Check, Experiment, Findings, Lab, Measurements, Verdict};
use crate::figure::{Axis, Chart, ColourScale, Gallery, HeatMap, Matrix, Numbers, Picture, Series};
use crate::statistics::paired;
use anyhow::Result;
use serde::{Deserialize, Serialize};

pub const EXPERIMENT: Experiment = Experiment {
    name: "tagger-heads",
    claims: &["B5"],
    question: "Do heads specialise when there are several?",
    prediction: "With two, four and eight heads, where a head's largest weight lies (how far before or after the hidden word, on a content \
        or a function word) tells more about which head it is after training than before.",
    design: "The task of `content-words` with 1, 2, 4 and 8 heads of equal total width, read on test sentences with hidden words \
        before and after training. Specialisation is the mutual information of head and place of the largest weight, in bits: 0 if all \
        heads do the same, log₂ of their number if each does what no other does. Untrained heads differ too, so the change \
        counts, paired by seed.",
    changed: Some(
        "At first all words of whole sentences were judged; after the first runs the hidden ones are, as in `training-smooths`. \
         Standard size had fewer seeds, which left some of it open; it has fifteen.",
    ),
    real_data: Some("a CoNLL-U treebank: a file, or a folder with train and test parts"),
    seconds: [3.0, 20.0, 300.0],
    run,
};

/// The number of heads whose habits are shown.
const SHOWN: usize = 4;

#[derive(Serialize, Deserialize)]
struct Run {
    reading: Reading,
    /// The weights of all heads on one sentence, for the model that is shown.
    maps: Vec<Vec<f32>>,
}

fn run(lab: &Lab) -> Result<Findings> {
    let steps = [0, taggers::last_step(lab)];
    let mut inputs = Vec::new();
    for heads in HEADS {
        let seeds = taggers::seeds(lab, heads).into_iter();
        inputs.extend(seeds.flat_map(|seed| steps.map(|step| (heads, seed, step))));
    }
    let sentences = taggers::test_sentences(lab)?;
    let shown = &sentences[example(&sentences)];
    let runs = lab.parts("runs", &inputs, |&(heads, seed, step)| {
        let opened = taggers::trained(lab, heads, seed)?.snapshot(step)?;
        let maps =
            if (heads, seed) == (SHOWN, 0) { tagger_reading::maps(&opened, shown)? } else { Vec::new() };
        Ok(Run { reading: tagger_reading::read(&opened, &sentences)?, maps })
    })?;
    let mut findings = Findings::new(&["heads", "stage"]);
    for (&(heads, seed, step), run) in inputs.iter().zip(&runs) {
        let stage = STAGES[usize::from(step > 0)];
        let mut add =
            |measure: &str, value: f64| findings.measurements.add(&[&heads, &stage], seed, measure, value);
        add("specialisation", run.reading.hidden.specialisation());
        add("specialisation, words of whole sentences", run.reading.visible.specialisation());
        add("accuracy", run.reading.accuracy());
    }
    let of = |wanted: u64| {
        let found = inputs.iter().zip(&runs).find(|(input, _)| **input == (SHOWN, 0, wanted));
        found.map(|(_, run)| run)
    };
    draw(&mut findings, steps.map(of), shown);
    findings.verdicts = vec![judge(&findings.measurements)];
    for heads in HEADS {
        for stage in STAGES {
            for measure in ["specialisation", "accuracy"] {
                let value = findings.measurements.mean_if_measured(&[&heads, &stage], measure).mean;
                findings.fact(format!("{measure}, {heads} heads: {stage}"), value);
            }
        }
    }
    if let Some(run) = of(steps[1]) {
        for (head, habits) in run.reading.hidden.preferences.iter().enumerate() {
            let sums = habits.map(|place| place[0] + place[1]);
            let most = (0..PLACES.len()).max_by(|&a, &b| sums[a].total_cmp(&sums[b])).unwrap_or(0);
            findings.word(
                format!("head {}", head + 1),
                format!("{} ({:.0} %)", PLACES[most], 100.0 * sums[most]),
            );
        }
    }
    Ok(findings)
}

fn draw(findings: &mut Findings, [before, after]: [Option<&Run>; 2], sentence: &Sentence) {
    let mut picture = Picture::new("Where each head's largest weight lies").columns(2);
    for (run, stage) in [before, after].into_iter().zip(STAGES) {
        let Some(run) = run else { continue };
        let habits = &run.reading.hidden.preferences;
        let matrix = Matrix::from_fn(habits.len(), PLACES.len(), |head, place| {
            (habits[head][place][0] + habits[head][place][1]) as f32
        });
        let map = HeatMap::new(matrix, ColourScale::sequential("share of words").range(0.0, 1.0).percent())
            .words(
                (1..=habits.len()).map(|head| format!("head {head}")).collect(),
                PLACES.map(str::to_owned).to_vec(),
            )
            .numbers(Numbers::Decimals(0))
            .area(330.0, 160.0);
        picture = picture.titled_panel(stage, map);
    }
    findings.figure(
        "habits",
        "For each head of a tagger with four, how often its largest weight lies so many words before or after the hidden word; first seed, test \
         sentences.",
        picture,
    );
    let words = &sentence.words;
    let empty = Gallery::new(SHOWN, ColourScale::sequential("weight"))
        .column_titles((1..=SHOWN).map(|head| format!("head {head}")).collect())
        .row_titles(STAGES.map(str::to_owned).to_vec())
        .words(words.clone(), words.clone());
    let maps = [before, after].into_iter().flatten().flat_map(|run| &run.maps);
    let gallery =
        maps.fold(empty, |gallery, weights| match Matrix::new(words.len(), words.len(), weights.clone()) {
            Ok(matrix) => gallery.map("", matrix),
            Err(_) => gallery,
        });
    findings.figure(
        "four_heads",
        "The four heads of a tagger on a test sentence, before and after training: each row is what the word attends to while it is \
         hidden. First seed.",
        Picture::new("Four heads, one task").panel(gallery),
    );
    let line = |stage: &'static str, measure: &'static str, heads: &[usize]| {
        let points: Vec<_> = heads
            .iter()
            .map(|&heads| {
                let interval = findings.measurements.mean_if_measured(&[&heads, &stage], measure);
                (heads as f64, interval.mean, interval.low.max(0.0), interval.high)
            })
            .collect();
        Series::new(stage).intervals(points)
    };
    let axis = || Axis::log("heads").ticks(HEADS.map(|heads| heads as f64));
    let specialisation = Chart::new(axis(), Axis::linear("bits").from_zero())
        .series(line(STAGES[0], "specialisation", &HEADS[1..]))
        .series(line(STAGES[1], "specialisation", &HEADS[1..]));
    let accuracy = Chart::new(axis(), Axis::linear("accuracy on hidden words"))
        .series(line(STAGES[1], "accuracy", &HEADS).class(1));
    findings.figure(
        "by_number_of_heads",
        "How much the place that a head looks at tells about which head it is (0: all heads do the same), and accuracy, by the number of \
         heads; mean over seeds with 95 % intervals.",
        Picture::new("More heads")
            .columns(2)
            .titled_panel("how much a habit tells about its head", specialisation.half())
            .titled_panel("how well the task is done", accuracy.half()),
    );
}

fn judge(table: &Measurements) -> Verdict {
    let of = |heads: usize, stage: usize| table.values(&[&heads, &STAGES[stage]], "specialisation");
    let mean =
        |heads: usize, stage: usize, measure: &str| table.mean(&[&heads, &STAGES[stage]], measure).mean;
    let finding = format!(
        "Specialisation goes from {:.3} to {:.3} bits with two heads, from {:.3} to {:.3} with four and from {:.3} to {:.3} with eight. \
         Hidden words are told right in {:.1} %, {:.1} %, {:.1} % and {:.1} % of cases with 1, 2, 4 and 8 heads.",
        mean(2, 0, "specialisation"),
        mean(2, 1, "specialisation"),
        mean(4, 0, "specialisation"),
        mean(4, 1, "specialisation"),
        mean(8, 0, "specialisation"),
        mean(8, 1, "specialisation"),
        100.0 * mean(1, 1, "accuracy"),
        100.0 * mean(2, 1, "accuracy"),
        100.0 * mean(4, 1, "accuracy"),
        100.0 * mean(8, 1, "accuracy"),
    );
    let check = |heads: usize| {
        let what = format!("specialisation with {heads} heads, bits: after − before training");
        Check::new(what, paired(&of(heads, 1), &of(heads, 0)), Bound::Above(0.0))
    };
    Verdict::new("B5", [4, 2, 8].map(check).into(), finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;

    fn planted(before: f64, after: f64) -> Measurements {
        let mut table = Measurements::new(&["heads", "stage"]);
        for heads in HEADS {
            for (stage, value) in STAGES.into_iter().zip([before, after]) {
                for seed in 0..4 {
                    let noise = 0.01 * seed as f64 * value;
                    table.add(&[&heads, &stage], seed, "specialisation", value + noise);
                    table.add(&[&heads, &stage], seed, "accuracy", 0.8);
                }
            }
        }
        table
    }

    #[test]
    fn the_verdict_follows_the_habits() {
        assert_eq!(judge(&planted(0.2, 0.9)).outcome, Outcome::Holds);
        assert_eq!(judge(&planted(0.9, 0.2)).outcome, Outcome::Fails);
    }
}
