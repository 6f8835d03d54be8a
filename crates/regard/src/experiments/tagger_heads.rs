//! Do heads specialise when there are several?

use super::instruments::tagger_attention::{self, PLACES, View};
use super::models::tagger::{self as taggers, HEADS, Sentence, Stage};
use crate::experiment::{
    Bound, Check, Data, Experiment, Findings, Lab, SMALL_MODELS, Sizes, Table, Verdict, charts, facts,
};
use crate::figure::{Axis, Chart, ColourScale, Gallery, HeatMap, Matrix, Numbers, Picture, Series};
use crate::statistics::paired;
use anyhow::Result;
use serde::{Deserialize, Serialize};

pub const EXPERIMENT: Experiment = Experiment {
    name: "tagger-heads",
    claims: &["B5"],
    question: "Do heads specialise when there are several?",
    prediction: "With two, four and eight heads, the place of a head's largest weight (how far before or after the hidden word, on a \
        content or a function word) has more information about which head it is after training than before. The claim is testable if the \
        trained taggers are right more often than the more frequent class.",
    design: "The task of `content-words` with 1, 2, 4 and 8 heads of equal total width, measured on test sentences with hidden words \
        before and after training. Specialisation is the mutual information of the head and the place of its largest weight, in bits: 0 \
        if all heads do the same, log₂ of their number if no two ever do. Untrained heads differ too, so that the change counts, paired \
        by seed.",
    changed: None,
    data: Data::Text("a CoNLL-U treebank: a file, or a folder with train and test parts"),
    conditions: &["heads", "stage"],
    seeds: SMALL_MODELS,
    seconds: Sizes::quick(3.0).standard(20.0).full(300.0),
    trains: |lab| HEADS.map(|heads| taggers::config(lab, heads, lab.first_seed())).into_iter().collect(),
    run,
};

/// The number of heads whose habits are shown.
const SHOWN: usize = 4;

const SPECIALISATION: &str = "specialisation";
const ACCURACY: &str = "accuracy";
const MAJORITY: &str = "share of the more frequent class";

type Measured = Table<(usize, Stage)>;

facts! {
    MEAN(measure: &'static str, heads: usize, stage: Stage) = "{measure}, {heads} heads: {stage}";
    HABIT(head: usize) = "head {head}";
}

/// The model that is shown: how often each head's largest weight lies at each place, and its weights on one sentence.
#[derive(Serialize, Deserialize)]
struct Shown {
    habits: Vec<[f64; PLACES.len()]>,
    maps: Vec<Vec<f32>>,
}

fn run(lab: &Lab) -> Result<Findings> {
    let inputs = HEADS.into_iter().flat_map(|heads| {
        taggers::before_and_after(lab, heads).into_iter().map(move |(stage, seed)| ((heads, stage), seed))
    });
    let sentences = taggers::test_sentences(lab)?;
    let chosen = &sentences[taggers::example(&sentences)];
    let sweep = lab.sweep("runs", inputs.collect(), |(heads, stage), seed, rows| {
        let opened = taggers::trained(lab, heads, seed)?.snapshot(stage.step(lab))?;
        let reading = tagger_attention::read(&opened, &sentences)?;
        rows.add((heads, stage), SPECIALISATION, reading.hidden.specialisation());
        let visible = reading.visible.specialisation();
        rows.add((heads, stage), "specialisation, words of whole sentences", visible);
        rows.add((heads, stage), ACCURACY, reading.accuracy());
        rows.add((heads, stage), MAJORITY, reading.majority);
        if (heads, seed) != (SHOWN, lab.first_seed()) {
            return Ok(None);
        }
        Ok(Some(Shown { habits: habits(&reading.hidden), maps: tagger_attention::maps(&opened, chosen)? }))
    })?;
    let shown = |stage| sweep.under((SHOWN, stage)).find_map(Option::as_ref);
    let mut findings = Findings::default();
    draw(&mut findings, &sweep.table, Stage::ALL.map(shown), chosen);
    findings.verdicts = vec![judge(&sweep.table)];
    for heads in HEADS {
        for stage in Stage::ALL {
            for measure in [SPECIALISATION, ACCURACY] {
                let value = sweep.table.mean_if_measured((heads, stage), measure).mean;
                findings.fact(MEAN.of((measure, heads, stage)), value);
            }
        }
    }
    for (head, habits) in shown(Stage::After).into_iter().flat_map(|shown| &shown.habits).enumerate() {
        let most = (0..PLACES.len()).max_by(|&a, &b| habits[a].total_cmp(&habits[b])).unwrap_or(0);
        findings.word(HABIT.of(head), format!("{} ({:.0} %)", PLACES[most], 100.0 * habits[most]));
    }
    findings.finish(lab, sweep.table)
}

/// How often each head's largest weight lies at each place, on whichever class of word.
fn habits(view: &View) -> Vec<[f64; PLACES.len()]> {
    view.preferences.iter().map(|places| places.map(|place| place[0] + place[1])).collect()
}

fn draw(findings: &mut Findings, table: &Measured, shown: [Option<&Shown>; 2], sentence: &Sentence) {
    let mut picture = Picture::new("Where the largest weight of each head lies").columns(2);
    for (shown, stage) in shown.into_iter().zip(Stage::ALL) {
        let Some(Shown { habits, .. }) = shown else { continue };
        let matrix = Matrix::from_fn(habits.len(), PLACES.len(), |head, place| habits[head][place] as f32);
        let map = HeatMap::new(matrix, ColourScale::sequential("share of words").range(0.0, 1.0).percent())
            .words(
                (0..habits.len()).map(|head| format!("head {head}")).collect(),
                PLACES.map(str::to_owned).to_vec(),
            )
            .numbers(Numbers::Decimals(0))
            .area(330.0, 160.0);
        picture = picture.titled_panel(stage.name(), map);
    }
    findings.figure(
        "habits",
        "For each head of a tagger with four, how often its largest weight lies so many words before or after the hidden word; first \
         seed, test sentences.",
        picture,
    );
    let words = &sentence.words;
    let empty = Gallery::new(SHOWN, ColourScale::sequential("weight"))
        .column_titles((0..SHOWN).map(|head| format!("head {head}")).collect())
        .row_titles(charts::names(Stage::ALL))
        .words(words.clone(), words.clone());
    let maps = shown.into_iter().flatten().flat_map(|shown| &shown.maps);
    findings.figure(
        "four_heads",
        "The four heads of a tagger on a test sentence, before and after training: each row shows where the word attends while it is \
         hidden. First seed.",
        Picture::new("Four heads, one task").panel(charts::with_maps(empty, words.len(), maps)),
    );
    let line = |stage: Stage, measure: &str, heads: &[usize]| {
        let points = heads.iter().map(|&heads| {
            let interval = table.mean_if_measured((heads, stage), measure);
            (heads as f64, interval.mean, interval.low.max(0.0), interval.high)
        });
        Series::new(stage.name()).intervals(points)
    };
    let axis = || Axis::log("heads").ticks(HEADS.map(|heads| heads as f64));
    let specialisation =
        Stage::ALL.into_iter().fold(Chart::new(axis(), Axis::linear("bits").from_zero()), |chart, stage| {
            chart.series(line(stage, SPECIALISATION, &HEADS[1..]))
        });
    let accuracy = Chart::new(axis(), Axis::linear("accuracy on hidden words"))
        .series(line(Stage::After, ACCURACY, &HEADS).class(1));
    findings.figure(
        "by_number_of_heads",
        "Specialisation (0: all heads do the same) and accuracy by the number of heads; mean over seeds with 95 % intervals.",
        Picture::new("More heads")
            .columns(2)
            .titled_panel("specialisation", specialisation.half())
            .titled_panel("accuracy", accuracy.half()),
    );
}

fn judge(table: &Measured) -> Verdict {
    let of = |heads, stage| table.values((heads, stage), SPECIALISATION);
    let from_to = |heads| {
        let [before, after] = Stage::ALL.map(|stage| of(heads, stage).mean().mean);
        format!("from {before:.3} to {after:.3}")
    };
    let [one, two, four, eight] = HEADS.map(|heads| 100.0 * table.mean((heads, Stage::After), ACCURACY).mean);
    let finding = format!(
        "Specialisation goes {} bits with two heads, {} with four and {} with eight. With 1, 2, 4 and 8 heads, {one:.1} %, {two:.1} %, \
         {four:.1} % and {eight:.1} % of hidden words are classified correctly.",
        from_to(2),
        from_to(4),
        from_to(8),
    );
    let check = |heads: usize| {
        let what = format!("specialisation with {heads} heads, bits: after − before training");
        Check::new(what, paired(&of(heads, Stage::After), &of(heads, Stage::Before)), Bound::Above(0.0))
    };
    let of_four = |measure| table.values((4, Stage::After), measure);
    Verdict::new("B5", [4, 2, 8].map(check).into(), finding)
        .requires(taggers::learned(&of_four(ACCURACY), &of_four(MAJORITY)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;

    fn planted(before: f64, after: f64) -> Measured {
        let mut table = Table::new();
        for heads in HEADS {
            for (stage, value) in Stage::ALL.into_iter().zip([before, after]) {
                for seed in 0..4 {
                    let noise = 0.01 * seed as f64 * value;
                    table.add((heads, stage), seed, SPECIALISATION, value + noise);
                    table.add((heads, stage), seed, ACCURACY, 0.8 + 0.01 * seed as f64);
                    table.add((heads, stage), seed, MAJORITY, 0.6);
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
