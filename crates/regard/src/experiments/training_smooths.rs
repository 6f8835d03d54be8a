//! Does training spread attention out, and do function words attend more diffusely than content words?

use super::instruments::tagger_attention::{self, Reading, View};
use super::models::tagger::{self as taggers, Class, Sentence, Stage, Words};
use crate::experiment::{
    Bound, Check, Data, Experiment, Fact, Findings, Lab, SMALL_MODELS, Sizes, Table, Verdict, charts, facts,
    those_that_apply,
};
use crate::figure::{Axis, Bars, ColourScale, Gallery, Picture};
use crate::model::Opened;
use crate::statistics::paired;
use anyhow::Result;
use regard_nn::analysis::distance::divergence_of_weights;
use regard_nn::models::Visibility;
use serde::{Deserialize, Serialize};

pub const EXPERIMENT: Experiment = Experiment {
    name: "training-smooths",
    claims: &["B2", "B3"],
    question: "Does training turn attention to arbitrary single words into smoother weights, and which words attend diffusely?",
    prediction: "Before training the largest weight of a word is at least twice an equal share. Training raises the entropy of the \
        weights and lowers the largest weight. After training, function words attend with higher entropy than content words. Claims are \
        testable if the trained tagger is right more often than the more frequent class.",
    design: "The taggers of `content-words` read test sentences with hidden words before and after training. Measured are entropy ÷ ln n \
        and the largest weight of the hidden words, the only ones that the loss is about, on the same sentences before and after, \
        paired by seed. The same is reported for the words of whole sentences, and how much the weights of different seeds diverge.",
    changed: None,
    data: Data::Text("a CoNLL-U treebank: a file, or a folder with train and test parts"),
    conditions: &["stage", "words"],
    seeds: SMALL_MODELS,
    seconds: Sizes::quick(1.5).standard(6.0).full(60.0),
    trains: |lab| Ok(vec![taggers::config(lab, 1, lab.first_seed())?]),
    run,
};

const BOTH_WAYS: Visibility = Visibility { causal: false, window: None };
/// So many sentences are compared between seeds.
const COMPARED: usize = 25;
const ENTROPY: &str = "entropy";
const LARGEST: &str = "largest weight";
const LARGEST_SHARE: &str = "largest weight ÷ equal share";
const ON_NEIGHBOUR: &str = "largest weight on a neighbour";
const ACCURACY: &str = "accuracy";
const MAJORITY: &str = "share of the more frequent class";
const DIVERGENCE: &str = "divergence from other seeds";

type Measured = Table<(Stage, Words)>;

facts! {
    MEAN(measure: &'static str, stage: Stage) = "{measure}: {stage}";
    ENTROPY_OF(class: Class, stage: Stage) = "entropy of {class}: {stage}";
}

/// The mean entropy of a head's weights ÷ that of equal weights.
pub const MEAN_ENTROPY: Fact<Stage> = Fact::new(EXPERIMENT.name, |stage| MEAN.of((ENTROPY, stage)).name);

/// A sentence's words and the weights of a tagger's first head when each of them is hidden.
type Shown = (Vec<String>, Vec<f32>);

#[derive(Serialize, Deserialize)]
struct Read {
    reading: Reading,
    weights: Vec<Shown>,
}

fn run(lab: &Lab) -> Result<Findings> {
    let inputs = taggers::before_and_after(lab, 1);
    let sentences = taggers::test_sentences(lab)?;
    let compared = &sentences[..sentences.len().min(COMPARED)];
    let runs = lab.parts("runs", &inputs, |&(stage, seed)| {
        let opened = taggers::trained(lab, 1, seed)?.snapshot(stage.step(lab))?;
        Ok(Read { reading: tagger_attention::read(&opened, &sentences)?, weights: shown(&opened, compared)? })
    })?;
    let mut table = Table::new();
    for (index, (&(stage, seed), run)) in inputs.iter().zip(&runs).enumerate() {
        table.add((stage, Words::Hidden), seed, ACCURACY, run.reading.accuracy());
        table.add((stage, Words::Hidden), seed, MAJORITY, run.reading.majority);
        for words in Words::ALL {
            add(&mut table, (stage, words), seed, run.reading.of(words));
        }
        let others = inputs.iter().zip(&runs).enumerate();
        let others = others.filter(|(other, ((known, _), _))| *other != index && *known == stage);
        let apart: Vec<f64> =
            others.filter_map(|(_, (_, other))| apart(&run.weights, &other.weights)).collect();
        if !apart.is_empty() {
            let mean = apart.iter().sum::<f64>() / apart.len() as f64;
            table.add((stage, Words::Hidden), seed, DIVERGENCE, mean);
        }
    }
    let mut findings = Findings::default();
    draw(&mut findings, &table, &runs, taggers::example(compared));
    findings.verdicts = vec![judge_smoothness(&table), judge_classes(&table)];
    for stage in Stage::ALL {
        let mean = |measure: &str| table.mean((stage, Words::Hidden), measure).mean;
        for measure in [ENTROPY, LARGEST, LARGEST_SHARE, DIVERGENCE] {
            findings.fact(MEAN.of((measure, stage)), mean(measure));
        }
        for class in Class::ALL {
            findings.fact(ENTROPY_OF.of((class, stage)), mean(&entropy_of(class)));
        }
    }
    findings.finish(lab, table)
}

fn entropy_of(class: Class) -> String {
    format!("entropy of {class}")
}

fn add(table: &mut Measured, condition: (Stage, Words), seed: u64, view: &View) {
    let means = [
        (ENTROPY, view.entropy),
        (LARGEST, view.largest),
        (LARGEST_SHARE, view.largest_share),
        (ON_NEIGHBOUR, view.beside()),
    ];
    let by_class = Class::ALL.map(|class| (entropy_of(class), view.entropy_of(class)));
    for (measure, value) in
        means.map(|(measure, value)| (measure.to_owned(), value)).into_iter().chain(by_class)
    {
        if let Some(value) = value {
            table.add(condition, seed, measure, value);
        }
    }
}

/// The weights of the first head on sentences.
fn shown(opened: &Opened, sentences: &[Sentence]) -> Result<Vec<Shown>> {
    let one = |sentence: &Sentence| {
        let first = tagger_attention::maps(opened, sentence)?.into_iter().next();
        Ok((sentence.words.clone(), first.unwrap_or_default()))
    };
    sentences.iter().map(one).collect()
}

/// The mean Jensen–Shannon divergence, in bits, of two taggers' weights on the same sentences.
fn apart(a: &[Shown], b: &[Shown]) -> Option<f64> {
    let pairs = a.iter().zip(b).filter_map(|((words, a), (_, b))| {
        divergence_of_weights(a, b, words.len(), BOTH_WAYS).ok().flatten()
    });
    let all: Vec<f64> = pairs.collect();
    (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
}

fn draw(findings: &mut Findings, table: &Measured, runs: &[Read], chosen: usize) {
    // Runs come in pairs, before and after; two seeds are shown.
    let maps: Vec<&Shown> = runs.iter().take(4).filter_map(|run| run.weights.get(chosen)).collect();
    if let Some((words, _)) = maps.first() {
        let empty = Gallery::new(2, ColourScale::sequential("weight"))
            .column_titles(charts::names(Stage::ALL))
            .row_titles((0..maps.len() / 2).map(|seed| format!("seed {seed}")).collect())
            .words(words.clone(), words.clone())
            .side(300.0);
        let gallery = charts::with_maps(empty, words.len(), maps.iter().map(|(_, weights)| weights));
        findings.figure(
            "before_and_after",
            "One head on a test sentence, before and after it was trained to classify content and function words: each row shows \
             where the word attends while it is hidden. Two seeds.",
            Picture::new("What training does to attention").panel(gallery),
        );
    }
    let bars = |words| {
        let axis = Axis::linear("entropy ÷ ln n").range(0.0, 1.0);
        let empty = Bars::upright(charts::names(Class::ALL), axis).half();
        charts::grouped(empty, Stage::ALL, &Class::ALL, |stage, class| {
            charts::share(table.mean((stage, words), entropy_of(class)))
        })
    };
    findings.figure(
        "entropy_by_class",
        "Entropy of the weights by the class of the word that attends (1: equal weights); mean over seeds with 95 % intervals. \
         Only the answers for hidden words enter the loss.",
        Picture::new("Which words attend diffusely")
            .columns(2)
            .titled_panel("hidden words", bars(Words::Hidden))
            .titled_panel("the words of whole sentences", bars(Words::Visible)),
    );
}

/// That the taggers learned their task.
fn learned(table: &Measured) -> Check {
    let of = |measure| table.values((Stage::After, Words::Hidden), measure);
    taggers::learned(&of(ACCURACY), &of(MAJORITY))
}

/// The parts of B2.
const BEFORE: &str = "before training weight sits on single words";
const AFTER: &str = "training spreads it out";

fn judge_smoothness(table: &Measured) -> Verdict {
    let of = |stage, measure: &str| table.values((stage, Words::Hidden), measure);
    let mean = |stage, measure: &str| of(stage, measure).mean();
    let change = |measure: &str| paired(&of(Stage::After, measure), &of(Stage::Before, measure));
    let visible = |stage| table.mean((stage, Words::Visible), ENTROPY).mean;
    let finding = format!(
        "Before training the largest weight is {:.2} times an equal share, after training {:.2} times. The entropy goes from {:.3} to \
         {:.3} of that of equal weights (words that are not hidden: from {:.3} to {:.3}). The weights of two seeds diverge by {:.3} bits \
         before and by {:.3} after. (Twice an equal share, the bound of the first part, is low: weights may pass it and still be near \
         uniform.)",
        mean(Stage::Before, LARGEST_SHARE).mean,
        mean(Stage::After, LARGEST_SHARE).mean,
        mean(Stage::Before, ENTROPY).mean,
        mean(Stage::After, ENTROPY).mean,
        visible(Stage::Before),
        visible(Stage::After),
        mean(Stage::Before, DIVERGENCE).mean,
        mean(Stage::After, DIVERGENCE).mean,
    );
    let checks = vec![
        Check::new("entropy ÷ ln n: after − before training", change(ENTROPY), Bound::Above(0.0)).part(AFTER),
        Check::new("largest weight: after − before training", change(LARGEST), Bound::Below(0.0)).part(AFTER),
        Check::new(
            "before training: largest weight ÷ an equal share",
            mean(Stage::Before, LARGEST_SHARE),
            Bound::Above(2.0),
        )
        .part(BEFORE),
    ];
    Verdict::new("B2", checks, finding).requires(learned(table)).because(|checks| {
        let [before, after] = Stage::ALL.map(|stage| 100.0 * mean(stage, ON_NEIGHBOUR).mean);
        let measured = format!("The largest weight is on the previous or next word in {before:.0} % of cases before training and in {after:.0} % after");
        let found = format!("{measured}: training gathers weight on neighbours, which predict a word's class.");
        let elsewhere = format!("{measured}: it is not neighbours that training gathers weight on.");
        let sharper = checks[0].fails() || checks[1].fails();
        let rises = change(ON_NEIGHBOUR).low > 0.0;
        those_that_apply([
            (sharper && rises, found.as_str()),
            (sharper && !rises, &elsewhere),
            (checks[2].fails(), "Before training no single word stands out."),
        ])
    })
}

fn judge_classes(table: &Measured) -> Verdict {
    let difference = |stage, words| {
        let [function, content] = Class::ALL.map(|class| table.values((stage, words), entropy_of(class)));
        paired(&function, &content)
    };
    let after = difference(Stage::After, Words::Hidden);
    let finding = format!(
        "The entropy of the weights of function words minus that of content words, both hidden, is {:+.3} after training and {:+.3} \
         before. The verdict is about hidden words, the only ones in the loss; for words that are not hidden the difference is {:+.3} after \
         training.",
        after.mean,
        difference(Stage::Before, Words::Hidden).mean,
        difference(Stage::After, Words::Visible).mean,
    );
    let what = "after training: entropy ÷ ln n of function words − of content words";
    Verdict::new("B3", vec![Check::new(what, after, Bound::Above(0.0))], finding).requires(learned(table))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;

    fn planted(entropy: [f64; 2], largest: [f64; 2], classes: [f64; 2]) -> Measured {
        let mut table = Table::new();
        for stage in Stage::ALL {
            for words in Words::ALL {
                for seed in 0..4 {
                    let at = stage as usize;
                    let noise = 0.001 * (seed * (1 + at as u64)) as f64;
                    table.add((stage, words), seed, ENTROPY, entropy[at] + noise);
                    table.add((stage, words), seed, LARGEST, largest[at] + noise);
                    table.add((stage, words), seed, LARGEST_SHARE, 10.0 * largest[at] + noise);
                    table.add((stage, words), seed, ACCURACY, 0.8 + noise);
                    table.add((stage, words), seed, MAJORITY, 0.6);
                    for (class, value) in Class::ALL.into_iter().zip(classes) {
                        table.add((stage, words), seed, entropy_of(class), value + noise * value);
                    }
                }
            }
        }
        table
    }

    #[test]
    fn verdicts_follow_the_weights() {
        let smoother = planted([0.6, 0.9], [0.5, 0.2], [0.9, 0.8]);
        assert_eq!(judge_smoothness(&smoother).outcome, Outcome::Holds);
        assert_eq!(judge_classes(&smoother).outcome, Outcome::Holds);
        let sharper = planted([0.9, 0.6], [0.25, 0.5], [0.7, 0.8]);
        assert_eq!(judge_smoothness(&sharper).outcome, Outcome::InPart, "single words before, fewer after");
        assert_eq!(judge_classes(&sharper).outcome, Outcome::Fails);
        let already_smooth = planted([0.8, 0.9], [0.15, 0.12], [0.9, 0.8]);
        let already_smooth = judge_smoothness(&already_smooth);
        assert_eq!(already_smooth.outcome, Outcome::InPart);
        assert_eq!(already_smooth.why.as_deref(), Some("Before training no single word stands out."));
    }
}
