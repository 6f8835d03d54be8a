//! Attention isolated: three classifiers that differ only in how they attend, and ones that are merely larger.

use super::models::sentiment::{self as models, Variant};
use crate::experiment::{
    Bound, Check, Data, Experiment, Findings, Lab, Rows, Sizes, Sweep, Table, Verdict, charts, facts,
};
use crate::figure::{Axis, Bars, Chart, Picture, Series, fixed};
use crate::statistics::{Sample, deviation, log_variance_ratio, paired};
use anyhow::Result;
use regard_nn::analysis::Tokens;
use regard_nn::metrics::{Confusion, RocCurve};
use regard_nn::models::Recipe;
use serde::{Deserialize, Serialize};

pub const EXPERIMENT: Experiment = Experiment {
    name: "three-models",
    claims: &["C1", "C4", "C6", "C7"],
    question: "On top of the same BiLSTM, does attention classify better, and more alike from seed to seed, than a max pool and than a \
        larger BiLSTM?",
    prediction: "On texts outside the training data, additive attention is more accurate than the max pool and self-attention more \
        accurate than both. The max pool is less accurate on the longest quarter of texts of each class than on the shortest, and loses \
        more there than self-attention does. A max pool with one, two and four times the parameters of the model with self-attention is \
        still less accurate. Test accuracies of the max pool vary more from seed to seed than those of additive attention and of \
        self-attention (ln of the ratio of variances above 0).",
    design: "Embedding, BiLSTM, then max pool, additive attention, or four heads of self-attention and max pool. Data, vocabulary, \
        sizes, optimiser, rate and steps are the same. The seed determines the initial weights and the order of the data, and all models \
        share it. Differences are paired by seed. Claims are testable if all three classify better than chance.",
    changed: None,
    data: Data::Text("IMDb (aclImdb_v1.tar.gz) or a folder with train.tsv and test.tsv"),
    conditions: &["model"],
    seeds: models::SEEDS,
    seconds: Sizes::quick(70.0).standard(800.0).full(8_000.0),
    trains: |lab| {
        Variant::ALL.map(|variant| models::config(lab, variant, lab.first_seed())).into_iter().collect()
    },
    run,
};

const MEASURES: [&str; 5] = ["accuracy", "F1", "precision", "recall", "ROC-AUC"];
const ACCURACY: &str = MEASURES[0];
const PARAMETERS: &str = "parameters";
/// The accuracy of logistic regression on a bag of words on IMDb: a neural model should be better.
const BAG_OF_WORDS: f64 = 0.8885;
/// Texts are divided into so many groups of equal size by their length.
const QUARTERS: usize = 4;
/// The widened models take the longest, and have fewer seeds.
const WIDE_SEEDS: Sizes<u64> = Sizes::quick(4).standard(5).full(3);

facts! {
    MEAN(measure: &'static str, model: Variant) = "{measure}: {model}";
    TEXTS = "texts";
}

/// What is drawn of a run, beside its measurements.
#[derive(Serialize, Deserialize)]
struct Curves {
    steps: Vec<u64>,
    roc: Vec<(f64, f64)>,
    area: f64,
}

fn run(lab: &Lab) -> Result<Findings> {
    lab.setting("seeds of the widened models", WIDE_SEEDS);
    let wide = lab.seeds_of(WIDE_SEEDS);
    let inputs = Variant::ALL.into_iter().flat_map(|variant| {
        let seeds = if Variant::WIDE.contains(&variant) { wide.clone() } else { lab.seeds() };
        seeds.into_iter().map(move |seed| (variant, seed))
    });
    let texts = models::test_texts(lab)?;
    let sweep = lab
        .sweep("runs", inputs.collect(), |variant, seed, rows| measure(lab, (variant, seed), &texts, rows))?;
    let mut findings = Findings::default();
    let roc = sweep.runs.iter().flat_map(|run| {
        run.result.roc.iter().map(|(wrong, right)| {
            vec![run.condition.to_string(), run.seed.to_string(), wrong.to_string(), right.to_string()]
        })
    });
    findings.table("roc", &["model", "seed", "false_positive_rate", "true_positive_rate"], roc.collect());
    draw(&mut findings, &sweep);
    let table = sweep.table;
    let by_length: Vec<f64> =
        quarters(&texts).into_iter().map(|group| sentiment_words(&texts, &group)).collect();
    findings.verdicts = vec![
        judge_order(&table, lab.setup.data.is_some()),
        judge_length(&table, [by_length[0], by_length[QUARTERS - 1]]),
        judge_scale(&table),
        judge_stability(&table),
    ];
    findings.verdicts = findings.verdicts.into_iter().map(|verdict| testable(verdict, &table)).collect();
    for measure in [ACCURACY, PARAMETERS] {
        findings.facts(MEAN, Variant::ALL.map(|variant| (measure, variant)), |(measure, variant)| {
            table.mean(variant, measure).mean
        });
    }
    findings.fact(TEXTS, texts.len() as f64);
    findings.finish(lab, table)
}

/// The measure of the accuracy in a quarter of the texts by length; the first is 1.
fn accuracy_in(quarter: usize) -> String {
    format!("accuracy, length quarter {quarter}")
}

fn loss_at(step: u64) -> String {
    format!("loss at step {step}")
}

/// Trains a variant and classifies the test texts with it.
fn measure(
    lab: &Lab,
    (variant, seed): (Variant, u64),
    texts: &[(String, usize)],
    rows: &mut Rows<Variant>,
) -> Result<Curves> {
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
    let values =
        [confusion.accuracy(), confusion.f1(1), confusion.precision(1), confusion.recall(1), roc.area()];
    MEASURES.into_iter().zip(values).for_each(|(measure, value)| rows.add(variant, measure, value));
    for (quarter, group) in quarters(texts).iter().enumerate() {
        let right = group.iter().filter(|&&i| truth[i] == predicted[i]).count();
        rows.add(variant, accuracy_in(quarter + 1), right as f64 / group.len().max(1) as f64);
    }
    let Recipe::Sentiment(model) = &config.model else { anyhow::bail!("not a sentiment classifier") };
    rows.add(variant, PARAMETERS, models::beside_vectors(model)? as f64);
    let losses = trained.losses();
    for &(step, loss) in &losses {
        rows.add(variant, loss_at(step), loss);
    }
    let thin = roc.points().len().div_ceil(100).max(1);
    let points = roc.points().iter().step_by(thin).chain(roc.points().last());
    Ok(Curves {
        steps: losses.into_iter().map(|(step, _)| step).collect(),
        roc: points.map(|point| (point.false_positive_rate, point.true_positive_rate)).collect(),
        area: roc.area(),
    })
}

/// Texts in groups by their length in words before truncation: each class separately, so that every group has the same share of
/// it, whatever the order of the texts.
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

/// The mean number of sentiment words of the texts of a group.
fn sentiment_words(texts: &[(String, usize)], group: &[usize]) -> f64 {
    let lexicon = models::lexicon();
    let words = |text: &str| -> usize {
        let words = text.split(|character: char| !character.is_alphanumeric());
        words.filter(|word| lexicon.contains(&word.to_lowercase())).count()
    };
    group.iter().map(|&i| words(&texts[i].0)).sum::<usize>() as f64 / group.len().max(1) as f64
}

fn draw(findings: &mut Findings, sweep: &Sweep<Variant, Variant, Curves>) {
    let table = &sweep.table;
    let empty = Chart::new(Axis::linear("step"), Axis::linear("loss on held-out texts"));
    let chart = Variant::THREE.into_iter().fold(empty, |chart, variant| {
        let steps = sweep.under(variant).next().map_or(&[][..], |run| &run.steps);
        let points = steps
            .iter()
            .map(|&step| charts::spread_point(step as f64, &table.values(variant, loss_at(step))));
        chart.series(Series::new(variant.name()).intervals(points).band())
    });
    findings.figure(
        "loss_curves",
        "Loss on held-out texts during training: mean over seeds, band of one standard deviation.",
        Picture::new("Three ways to pool, trained alike").panel(chart.level(2_f64.ln(), "chance, ln 2")),
    );
    let curves = Variant::THREE.into_iter().filter_map(|variant| {
        let Curves { roc, area, .. } = sweep.under(variant).next()?;
        Some(Series::new(format!("{variant}, AUC {area:.3}")).points(roc.iter().copied()))
    });
    findings.figure(
        "roc",
        "Receiver operating characteristics on the test texts, first seed.",
        Picture::new("True against false positives").panel(Chart::roc(curves)),
    );
    let empty = Bars::upright(charts::names(MEASURES), Axis::linear("on test texts").range(0.5, 1.0));
    let bars = charts::grouped(empty, Variant::THREE, &MEASURES, |variant, measure| {
        charts::share(table.mean(variant, measure))
    });
    let names = charts::names(["shortest quarter", "second", "third", "longest quarter"]);
    let empty = Bars::upright(names, Axis::linear("accuracy").range(0.5, 1.0));
    let by_length = charts::grouped(empty, Variant::THREE, &[1, 2, 3, 4], |variant, quarter| {
        charts::share(table.mean(variant, accuracy_in(quarter)))
    });
    let series = |name: &str, variants: &[Variant]| {
        let points = variants.iter().map(|&variant| {
            charts::share_point(table.mean(variant, PARAMETERS).mean, table.mean(variant, ACCURACY))
        });
        Series::new(name).intervals(points)
    };
    let wide = [Variant::Max, Variant::Wide, Variant::Wide2, Variant::Wide4];
    let scale = Chart::new(Axis::log("parameters beside the word vectors"), Axis::linear("accuracy"))
        .series(series("max pool, wider and wider", &wide))
        .series(series("additive attention", &[Variant::Additive]).without_line())
        .series(series("self-attention", &[Variant::Heads]).without_line());
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

fn accuracies(table: &Table<Variant>, variant: Variant) -> Sample {
    table.values(variant, ACCURACY)
}

/// A verdict that needs models which classify better than chance.
fn testable(verdict: Verdict, table: &Table<Variant>) -> Verdict {
    let learned = |variant| models::learned(variant, table.mean(variant, ACCURACY));
    Variant::THREE.map(learned).into_iter().fold(verdict, Verdict::requires)
}

fn judge_stability(table: &Table<Variant>) -> Verdict {
    let of = |variant| accuracies(table, variant);
    let spread = |variant| 100.0 * deviation(&of(variant).values());
    let finding = format!(
        "Over {} seeds, the standard deviation of the accuracy on test texts is {:.2} points with the max pool, {:.2} with additive \
         attention and {:.2} with self-attention.",
        of(Variant::Max).len(),
        spread(Variant::Max),
        spread(Variant::Additive),
        spread(Variant::Heads),
    );
    let check = |variant: Variant| {
        let what = format!("ln of the variance of accuracy over seeds, max pool ÷ {variant}");
        Check::new(what, log_variance_ratio(&of(Variant::Max), &of(variant)), Bound::Above(0.0))
            .part(variant.name())
    };
    let variants = [Variant::Additive, Variant::Heads];
    Verdict::new("C7", variants.map(check).into(), finding).because(|checks| {
        let wider: Vec<String> = variants
            .into_iter()
            .zip(checks)
            .filter(|(_, check)| check.fails())
            .map(|(variant, _)| format!("{:.1} times with {variant}", spread(variant) / spread(Variant::Max)))
            .collect();
        format!(
            "Attention adds weights that start at random and learn from the same few labels: the deviation from seed to seed is {} that of the \
             max pool.",
            wider.join(" and ")
        )
    })
}

fn judge_order(table: &Table<Variant>, real: bool) -> Verdict {
    let [max, additive, heads] = Variant::THREE.map(|variant| accuracies(table, variant));
    let best =
        [&max, &additive, &heads].map(|sample| sample.mean().mean).into_iter().fold(f64::NAN, f64::max);
    let compared = match real && best < BAG_OF_WORDS {
        true => format!(
            " The best of them is below a bag of words with logistic regression ({BAG_OF_WORDS}), a much simpler model."
        ),
        false => String::new(),
    };
    let finding = format!(
        "Accuracy on test texts: {:.3} with the max pool, {:.3} with additive attention, {:.3} with self-attention ({} seeds).{compared}",
        max.mean().mean,
        additive.mean().mean,
        heads.mean().mean,
        max.len(),
    );
    let checks = vec![
        Check::new("accuracy: additive attention − max pool", paired(&additive, &max), Bound::Above(0.0))
            .part("additive attention beats the max pool"),
        Check::new(
            "accuracy: self-attention − additive attention",
            paired(&heads, &additive),
            Bound::Above(0.0),
        )
        .part("self-attention beats additive attention"),
    ];
    Verdict::new("C1", checks, finding).published(
        "accuracy of a bag of words with logistic regression, IMDb",
        BAG_OF_WORDS,
        real.then_some(best),
        "as commonly reported",
    )
}

/// `words`: how many sentiment words the texts of the shortest and of the longest quarter have.
fn judge_length(table: &Table<Variant>, words: [f64; 2]) -> Verdict {
    let change = |variant| {
        let of = |quarter| table.values(variant, accuracy_in(quarter));
        of(QUARTERS).minus(&of(1))
    };
    let [max, additive, heads] = Variant::THREE.map(change);
    let less = paired(&heads, &max);
    let finding = format!(
        "From the shortest to the longest quarter of texts, the accuracy of the max pool changes by {:+.3}, that of additive attention by \
         {:+.3} and that of self-attention by {:+.3}: from the max pool's, {:+.3} [{:+.3}, {:+.3}].",
        max.mean().mean,
        additive.mean().mean,
        heads.mean().mean,
        less.mean,
        less.low,
        less.high,
    );
    let what = "max pool: accuracy on the longest quarter − on the shortest";
    let interaction = "the same of self-attention − of the max pool";
    let checks = vec![
        Check::new(what, max.mean(), Bound::Below(0.0)).part("without attention accuracy falls with length"),
        Check::new(interaction, less, Bound::Above(0.0)).part("with attention it falls less"),
    ];
    Verdict::new("C4", checks, finding).because(|checks| {
        if !checks[0].fails() {
            return "Self-attention loses more with length than the max pool does.".to_owned();
        }
        let [fewest, most] = words;
        let more = match most > fewest {
            true => "here a longer text states its opinion more often, and a pool over all words finds it",
            false => "their number does not make long texts easier",
        };
        format!("Texts of the shortest quarter have {fewest:.1} sentiment words, those of the longest {most:.1}: {more}.")
    })
}

fn judge_scale(table: &Table<Variant>) -> Verdict {
    let heads = accuracies(table, Variant::Heads);
    let checks: Vec<Check> = Variant::WIDE
        .map(|wide| {
            let what = format!("accuracy: self-attention − {wide}");
            Check::new(what, paired(&heads, &accuracies(table, wide)), Bound::Above(0.0))
        })
        .into();
    // The wide models have fewer seeds: they are compared with the mean over the same ones.
    let wide = accuracies(table, Variant::Wide);
    let shared = wide.seeds().filter_map(|seed| Some((seed, heads.of(seed)?)));
    let shared: Sample = shared.collect();
    let [max, additive, own, one, two, four] =
        Variant::ALL.map(|variant| fixed(table.mean(variant, PARAMETERS).mean, 0));
    let [first, second, third] = Variant::WIDE.map(|wide| accuracies(table, wide).mean().mean);
    let finding = format!(
        "Beside the word vectors, the max pool has {max} parameters, additive attention {additive}, self-attention {own}. Widened to \
         {one}, {two} and {four}, the max pool reaches an accuracy of {first:.3}, {second:.3} and {third:.3}; self-attention {:.3} with \
         the same {} seeds.",
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
    fn planted(accuracy: impl Fn(Variant) -> f64, drop: f64, saved: f64) -> Table<Variant> {
        let mut table = Table::new();
        for variant in Variant::ALL {
            for seed in 0..4 {
                let noise = 0.01 * seed as f64;
                table.add(variant, seed, ACCURACY, accuracy(variant) + noise);
                table.add(variant, seed, PARAMETERS, 1000.0);
                for quarter in 1..=QUARTERS {
                    let more = noise + 0.001 * (seed * quarter as u64) as f64;
                    let drop = if variant == Variant::Max { drop } else { drop - saved };
                    let value = accuracy(variant) - drop * quarter as f64 + more;
                    table.add(variant, seed, accuracy_in(quarter), value);
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
            Variant::Additive => 0.82,
            Variant::Heads => 0.84,
            _ => 0.80,
        };
        let table = planted(rising, 0.02, 0.01);
        assert_eq!(judge_order(&table, false).outcome, Outcome::Holds);
        assert!(judge_order(&table, true).finding.contains("below a bag of words"));
        assert_eq!(judge_length(&table, [1.0, 2.0]).outcome, Outcome::Holds);
        assert_eq!(judge_scale(&table).outcome, Outcome::Holds);
        let falling = |variant| 1.6 - rising(variant);
        let table = planted(falling, -0.02, -0.01);
        assert_eq!(judge_order(&table, false).outcome, Outcome::Fails);
        assert_eq!(judge_length(&table, [1.0, 2.0]).outcome, Outcome::Fails);
        assert_eq!(judge_scale(&table).outcome, Outcome::Fails);
        let alike = judge_length(&planted(rising, 0.02, -0.01), [1.0, 2.0]);
        assert_eq!(alike.outcome, Outcome::InPart, "all lose with length, and attention more");
        let chance = |_| 0.48;
        assert_eq!(
            testable(judge_scale(&planted(chance, 0.0, 0.0)), &planted(chance, 0.0, 0.0)).outcome,
            Outcome::NotTestable
        );
    }

    #[test]
    fn stability_is_the_spread_over_seeds() {
        let spread = |max: f64, heads: f64| {
            let mut table = Table::new();
            for seed in 0..8 {
                let one = (seed % 4) as f64 - 1.5;
                table.add(Variant::Max, seed, ACCURACY, 0.8 + max * one);
                table.add(Variant::Additive, seed, ACCURACY, 0.8 + heads * one);
                table.add(Variant::Heads, seed, ACCURACY, 0.8 + heads * one);
            }
            judge_stability(&table).outcome
        };
        assert_eq!(spread(0.03, 0.005), Outcome::Holds);
        assert_eq!(spread(0.005, 0.03), Outcome::Fails);
        assert_eq!(spread(0.02, 0.018), Outcome::Undecided);
    }
}
