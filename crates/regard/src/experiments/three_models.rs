//! Attention isolated: three classifiers that differ in nothing but how they attend, and one that is merely larger.

use super::sentiment_models::{self as models, Variant};
use crate::experiment::{Bound, Check, Experiment, Findings, Lab, Measurements, Verdict};
use crate::figure::{Axis, Bar, Bars, Chart, Picture, Series, fixed};
use crate::statistics::{Sample, deviation, mean, paired};
use anyhow::Result;
use regard_nn::analysis::Tokens;
use regard_nn::metrics::{Confusion, RocCurve};
use regard_nn::models::Recipe;
use serde::{Deserialize, Serialize};

pub const EXPERIMENT: Experiment = Experiment {
    name: "three-models",
    claims: &["C1", "C4", "C6"],
    question: "On top of the same BiLSTM, does attention classify better than a max pool, and than a larger BiLSTM?",
    prediction: "On texts that were not trained on, additive attention is more accurate than the max pool and self-attention \
        more accurate than both; the max pool loses accuracy on the longest quarter of texts of each class; a max pool with one, two and \
        four times the parameters of the model with self-attention still does worse than it.",
    design: "Embedding, BiLSTM, then max pool, additive attention, or four heads of self-attention and max pool. Same data, \
        vocabulary, sizes, optimiser, rate and steps; the seed decides the initial weights and the order of the data, and is \
        shared by all models. Differences are paired by seed.",
    changed: Some(
        "C1 was undecided with five seeds; the usual number was then raised to eight. C4 first cut texts into quarters by their length \
         after truncation; where many are cut, these were not quarters by length, so that whole lengths are taken, each class by \
         itself. C6 had three seeds. The models' initial weights, widths, steps and rates (C1, C4, C6) were chosen on held-out texts after \
         first runs in which small ones stayed at chance.",
    ),
    real_data: Some("IMDb (aclImdb_v1.tar.gz) or a folder with train.tsv and test.tsv"),
    seconds: [70.0, 800.0, 8_000.0],
    run,
};

/// The models in the order of the comparison.
const MODELS: [Variant; 6] =
    [Variant::Max, Variant::Additive, Variant::Heads, Variant::Wide(1), Variant::Wide(2), Variant::Wide(4)];
const MEASURES: [&str; 5] = ["accuracy", "F1", "precision", "recall", "ROC-AUC"];
/// What logistic regression on a bag of words reaches on IMDb: a neural model should do better.
const BAG_OF_WORDS: f64 = 0.8885;
/// Texts are put into so many groups of equal size by their length.
const QUARTERS: usize = 4;

#[derive(Serialize, Deserialize)]
struct Run {
    /// In the order of [`MEASURES`].
    measures: Vec<f64>,
    by_length: Vec<f64>,
    curve: Vec<(u64, f64)>,
    roc: Vec<(f64, f64)>,
    parameters: usize,
}

fn run(lab: &Lab) -> Result<Findings> {
    let seeds = lab.seeds(models::SEEDS);
    // The wide ones take the longest: half of the seeds, unless the user says how many.
    let wide = lab.seeds(lab.by_size(2, 4, 5, 3));
    let mut inputs = Vec::new();
    for variant in MODELS {
        let seeds = if matches!(variant, Variant::Wide(_)) { &wide } else { &seeds };
        inputs.extend(seeds.iter().map(|&seed| (variant, seed)));
    }
    let texts = models::test_texts(lab)?;
    let runs = lab.parts("runs", &inputs, |&(variant, seed)| read(lab, variant, seed, &texts))?;

    let mut findings = Findings::new(&["model"]);
    for (&(variant, seed), run) in inputs.iter().zip(&runs) {
        let name = variant.name();
        for (measure, &value) in MEASURES.into_iter().zip(&run.measures) {
            findings.measurements.add(&[&name], seed, measure, value);
        }
        for (quarter, &value) in run.by_length.iter().enumerate() {
            findings.measurements.add(
                &[&name],
                seed,
                format!("accuracy, length quarter {}", quarter + 1),
                value,
            );
        }
        findings.measurements.add(&[&name], seed, "parameters", run.parameters as f64);
        for &(step, loss) in &run.curve {
            findings.measurements.add(&[&name], seed, format!("loss at step {step}"), loss);
        }
    }
    let roc = inputs.iter().zip(&runs).flat_map(|(&(variant, seed), run)| {
        let row = move |&(wrong, right): &(f64, f64)| {
            vec![variant.name(), seed.to_string(), wrong.to_string(), right.to_string()]
        };
        run.roc.iter().map(row)
    });
    findings.table("roc", &["model", "seed", "false_positive_rate", "true_positive_rate"], roc.collect());
    draw(&mut findings, &inputs, &runs);
    let table = &findings.measurements;
    let real = lab.conditions.data.is_some();
    let by_length = quarters(&texts).into_iter().map(|group| judging_words(&texts, &group));
    let by_length: Vec<f64> = by_length.collect();
    let judging = [by_length[0], by_length[QUARTERS - 1]];
    findings.verdicts = vec![judge_order(table, real), judge_length(table, judging), judge_scale(table)];
    for variant in MODELS {
        let name = variant.name();
        for measure in ["accuracy", "parameters"] {
            let value = findings.measurements.mean(&[&name], measure).mean;
            findings.fact(format!("{measure}: {name}"), value);
        }
    }
    findings.fact("texts", texts.len() as f64);
    Ok(findings)
}

/// Trains a variant and reads the test texts with it.
fn read(lab: &Lab, variant: Variant, seed: u64, texts: &[(String, usize)]) -> Result<Run> {
    let config = models::config(lab, variant, seed)?;
    let trained = models::trained(lab, variant, seed)?;
    let opened = trained.open()?;
    let tokens: Vec<Tokens> = texts
        .iter()
        .map(|(text, _)| Ok(Tokens::new(models::encode(&opened, &config, text)?.ids)))
        .collect::<Result<_>>()?;
    let margins = models::margins(&opened, &tokens)?;
    let truth: Vec<usize> = texts.iter().map(|(_, label)| *label).collect();
    let predicted: Vec<usize> = margins.iter().map(|&margin| usize::from(margin > 0.0)).collect();
    let positive: Vec<bool> = truth.iter().map(|&label| label == 1).collect();
    let confusion = Confusion::of(2, &truth, &predicted)?;
    let roc = RocCurve::of(&positive, &margins)?;

    let right = |group: &Vec<usize>| {
        group.iter().filter(|&&i| truth[i] == predicted[i]).count() as f64 / group.len().max(1) as f64
    };
    let Recipe::Sentiment(model) = &config.model else { anyhow::bail!("not a model of sentiment") };
    let thin = roc.points().len().div_ceil(100).max(1);
    Ok(Run {
        measures: vec![
            confusion.accuracy(),
            confusion.f1(1),
            confusion.precision(1),
            confusion.recall(1),
            roc.area(),
        ],
        by_length: quarters(texts).iter().map(right).collect(),
        curve: trained.curve.iter().filter_map(|line| Some((line.step, line.loss?))).collect(),
        roc: roc
            .points()
            .iter()
            .step_by(thin)
            .chain(roc.points().last())
            .map(|point| (point.false_positive_rate, point.true_positive_rate))
            .collect(),
        parameters: models::beside_vectors(model)?,
    })
}

/// Texts in groups by their length in words, before anything is cut off: each class by itself, so that the groups have
/// the same share of it whatever the order of the texts.
fn quarters(texts: &[(String, usize)]) -> Vec<Vec<usize>> {
    let mut groups = vec![Vec::new(); QUARTERS];
    for class in 0..2 {
        let mut order: Vec<usize> = (0..texts.len()).filter(|&i| texts[i].1 == class).collect();
        order.sort_by_key(|&i| texts[i].0.split_whitespace().count());
        for (rank, &i) in order.iter().enumerate() {
            groups[rank * QUARTERS / order.len()].push(i);
        }
    }
    groups
}

/// How many words that judge a text of a group has, in the mean.
fn judging_words(texts: &[(String, usize)], group: &[usize]) -> f64 {
    let lexicon = models::lexicon();
    let words = |text: &str| -> usize {
        let words = text.split(|character: char| !character.is_alphanumeric());
        words.filter(|word| lexicon.contains(&word.to_lowercase())).count()
    };
    group.iter().map(|&i| words(&texts[i].0)).sum::<usize>() as f64 / group.len().max(1) as f64
}

fn draw(findings: &mut Findings, inputs: &[(Variant, u64)], runs: &[Run]) {
    let of = |variant: Variant| {
        inputs.iter().zip(runs).filter(move |((known, _), _)| *known == variant).map(|(_, run)| run)
    };
    let empty = Chart::new(Axis::linear("step"), Axis::linear("loss on held-out texts"));
    let chart = Variant::THREE.into_iter().fold(empty, |chart, variant| {
        let steps: Vec<u64> =
            of(variant).next().map_or_else(Vec::new, |run| run.curve.iter().map(|(step, _)| *step).collect());
        let points: Vec<_> = steps
            .iter()
            .enumerate()
            .map(|(i, &step)| {
                let losses: Vec<f64> = of(variant).filter_map(|run| Some(run.curve.get(i)?.1)).collect();
                let (centre, spread) = (mean(&losses).mean, deviation(&losses));
                (step as f64, centre, centre - spread, centre + spread)
            })
            .collect();
        chart.series(Series::new(variant.name()).intervals(points).band())
    });
    findings.figure(
        "loss_curves",
        "Loss on held-out texts while training: mean over seeds, band of one standard deviation.",
        Picture::new("Three ways to pool, trained alike").panel(chart.level(2_f64.ln(), "chance, ln 2")),
    );
    let curves = Variant::THREE.into_iter().filter_map(|variant| {
        let run = of(variant).next()?;
        let name = format!("{}, AUC {:.3}", variant.name(), run.measures[4]);
        Some(Series::new(name).points(run.roc.iter().copied()))
    });
    findings.figure(
        "roc",
        "Receiver operating characteristics on the test texts, first seed.",
        Picture::new("True against false positives").panel(Chart::roc(curves)),
    );
    let table = &findings.measurements;
    let bar = |variant: Variant, measure: &str| {
        let interval = table.mean(&[&variant.name()], measure);
        Bar::new(interval.mean).interval(interval.low.max(0.0), interval.high.min(1.0))
    };
    let bars = Variant::THREE.into_iter().fold(
        Bars::upright(MEASURES.map(str::to_owned).to_vec(), Axis::linear("on test texts").range(0.5, 1.0)),
        |bars, variant| {
            bars.series(variant.name(), MEASURES.iter().map(|measure| bar(variant, measure)).collect())
        },
    );
    let quarters: Vec<String> =
        ["shortest quarter", "second", "third", "longest quarter"].map(str::to_owned).to_vec();
    let by_length = Variant::THREE.into_iter().fold(
        Bars::upright(quarters, Axis::linear("accuracy").range(0.5, 1.0)),
        |bars, variant| {
            let value = |i: usize| bar(variant, &format!("accuracy, length quarter {}", i + 1));
            bars.series(variant.name(), (0..QUARTERS).map(value).collect())
        },
    );
    let points = |variants: &[Variant]| -> Vec<(f64, f64, f64, f64)> {
        variants
            .iter()
            .map(|variant| {
                let name = variant.name();
                let accuracy = table.mean(&[&name], "accuracy");
                let parameters = table.mean(&[&name], "parameters").mean;
                (parameters, accuracy.mean, accuracy.low.max(0.0), accuracy.high.min(1.0))
            })
            .collect()
    };
    let wide = [Variant::Max, Variant::Wide(1), Variant::Wide(2), Variant::Wide(4)];
    let scale = Chart::new(Axis::log("parameters beside the word vectors"), Axis::linear("accuracy"))
        .series(Series::new("max pool, wider and wider").intervals(points(&wide)))
        .series(Series::new("additive attention").intervals(points(&[Variant::Additive])).without_line())
        .series(Series::new("self-attention").intervals(points(&[Variant::Heads])).without_line());
    let pictures = [
        (
            "measures",
            "Mean over seeds with 95 % intervals.",
            Picture::new("With and without attention").panel(bars),
        ),
        (
            "accuracy_by_length",
            "Accuracy in each quarter of the test texts by length; mean over seeds with 95 % intervals.",
            Picture::new("Accuracy by length of the text").panel(by_length),
        ),
        (
            "accuracy_by_parameters",
            "Accuracy against the number of parameters; 95 % intervals over seeds.",
            Picture::new("Attention or scale?").panel(scale),
        ),
    ];
    for (name, caption, picture) in pictures {
        findings.figure(name, caption, picture);
    }
}

fn accuracies(table: &Measurements, variant: Variant) -> Sample {
    table.values(&[&variant.name()], "accuracy")
}

fn judge_order(table: &Measurements, real: bool) -> Verdict {
    let [max, additive, heads] = Variant::THREE.map(|variant| accuracies(table, variant));
    let best =
        [&max, &additive, &heads].map(|sample| sample.mean().mean).into_iter().fold(f64::NAN, f64::max);
    let earned = match real && best < BAG_OF_WORDS {
        true => format!(
            " The best of them is below a bag of words with logistic regression ({BAG_OF_WORDS}): it has not earned its keep."
        ),
        false => String::new(),
    };
    let finding = format!(
        "Accuracy on test texts: {:.3} with the max pool, {:.3} with additive attention, {:.3} with self-attention ({} seeds).{earned}",
        max.mean().mean,
        additive.mean().mean,
        heads.mean().mean,
        max.len(),
    );
    let checks = vec![
        Check::new("accuracy: additive attention − max pool", paired(&additive, &max), Bound::Above(0.0)),
        Check::new(
            "accuracy: self-attention − additive attention",
            paired(&heads, &additive),
            Bound::Above(0.0),
        ),
    ];
    Verdict::new("C1", checks, finding).published(
        "accuracy of a bag of words with logistic regression, IMDb",
        BAG_OF_WORDS,
        real.then_some(best),
        "as commonly reported",
    )
}

/// `judging`: how many words that judge the texts of the shortest and of the longest quarter have.
fn judge_length(table: &Measurements, judging: [f64; 2]) -> Verdict {
    let of = |variant: Variant, quarter: usize| {
        table.values(&[&variant.name()], &format!("accuracy, length quarter {quarter}"))
    };
    let change = |variant| paired(&of(variant, QUARTERS), &of(variant, 1));
    let (max, heads) = (change(Variant::Max), change(Variant::Heads));
    let finding = format!(
        "From the shortest to the longest quarter of texts, the accuracy of the max pool changes by {:+.3}, that of \
         self-attention by {:+.3}.",
        max.mean, heads.mean,
    );
    let check =
        Check::new("max pool: accuracy on the longest quarter − on the shortest", max, Bound::Below(0.0));
    Verdict::new("C4", vec![check], finding).because(|_| {
        let [fewest, most] = judging;
        let more = match most > fewest {
            true => "here a longer text says more often what it thinks, and a pool over all words finds it",
            false => "that is not what makes long texts easier",
        };
        format!("A text of the shortest quarter has {fewest:.1} words that judge, one of the longest {most:.1}: {more}.")
    })
}

fn judge_scale(table: &Measurements) -> Verdict {
    let heads = accuracies(table, Variant::Heads);
    let checks: Vec<Check> = [1, 2, 4]
        .map(|times| {
            let wide = Variant::Wide(times);
            let what = format!("accuracy: self-attention − {}", wide.name());
            Check::new(what, paired(&heads, &accuracies(table, wide)), Bound::Above(0.0))
        })
        .into();
    let parameters = |variant: Variant| fixed(table.mean(&[&variant.name()], "parameters").mean, 0);
    // The wide ones have fewer seeds: what they are compared with is the mean over the same.
    let shared: Sample = accuracies(table, Variant::Wide(1))
        .seeds()
        .filter_map(|seed| Some((seed, heads.of(seed)?)))
        .collect();
    let finding = format!(
        "Beside the word vectors, the max pool has {} parameters, additive attention {}, self-attention {}. Widened to \
         {}, {} and {}, the max pool reaches an accuracy of {:.3}, {:.3} and {:.3}; self-attention {:.3} with the same {} \
         seeds.",
        parameters(Variant::Max),
        parameters(Variant::Additive),
        parameters(Variant::Heads),
        parameters(Variant::Wide(1)),
        parameters(Variant::Wide(2)),
        parameters(Variant::Wide(4)),
        accuracies(table, Variant::Wide(1)).mean().mean,
        accuracies(table, Variant::Wide(2)).mean().mean,
        accuracies(table, Variant::Wide(4)).mean().mean,
        shared.mean().mean,
        shared.len(),
    );
    Verdict::new("C6", checks, finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;

    /// Accuracies of each model, with a little noise that all models of a seed share.
    fn planted(accuracy: impl Fn(Variant) -> f64, drop: f64) -> Measurements {
        let mut table = Measurements::new(&["model"]);
        for variant in MODELS {
            for seed in 0..4 {
                let noise = 0.01 * seed as f64;
                let name = variant.name();
                table.add(&[&name], seed, "accuracy", accuracy(variant) + noise);
                table.add(&[&name], seed, "parameters", 1000.0);
                for quarter in 1..=QUARTERS {
                    let value = accuracy(variant) - drop * quarter as f64
                        + noise
                        + 0.001 * (seed * quarter as u64) as f64;
                    table.add(&[&name], seed, format!("accuracy, length quarter {quarter}"), value);
                }
            }
        }
        table
    }

    #[test]
    fn quarters_go_by_whole_length_and_have_the_same_share_of_each_class() {
        // Negative texts first, as an archive has them, and many of the same length.
        let length = |i: usize| if i.is_multiple_of(2) { 300 } else { 1 + i };
        let texts: Vec<(String, usize)> =
            (0..80).map(|i| ("word ".repeat(length(i)), usize::from(i >= 40))).collect();
        let groups = quarters(&texts);
        for group in &groups {
            assert_eq!(group.len(), 20);
            assert_eq!(group.iter().filter(|&&i| texts[i].1 == 1).count(), 10);
        }
        assert!(groups[..2].iter().flatten().all(|i| i % 2 == 1), "the shortest");
        assert!(groups[2..].iter().flatten().all(|i| i % 2 == 0), "the longest");
    }

    #[test]
    fn verdicts_follow_the_accuracies() {
        let rising = |variant| match variant {
            Variant::Max | Variant::Wide(_) => 0.80,
            Variant::Additive => 0.82,
            Variant::Heads => 0.84,
        };
        let table = planted(rising, 0.02);
        assert_eq!(judge_order(&table, false).outcome, Outcome::Holds);
        assert!(judge_order(&table, true).finding.contains("below a bag of words"));
        assert_eq!(judge_length(&table, [1.0, 2.0]).outcome, Outcome::Holds);
        assert_eq!(judge_scale(&table).outcome, Outcome::Holds);
        let falling = |variant| 1.6 - rising(variant);
        let table = planted(falling, -0.02);
        assert_eq!(judge_order(&table, false).outcome, Outcome::Fails);
        assert_eq!(judge_length(&table, [1.0, 2.0]).outcome, Outcome::Fails);
        assert_eq!(judge_scale(&table).outcome, Outcome::Fails);
    }
}
