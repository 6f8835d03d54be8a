//! Do word vectors that are a by-product of sentiment lie on one axis, from blame to praise?

use super::bag_models::{self as bags, Form};
use super::sentiment_models as sentiment;
use crate::experiment::{Bound, Check, Experiment, Findings, Lab, Measurements, Verdict};
use crate::figure::{Axis, Chart, Picture, Point, Scatter, Series};
use crate::model::Opened;
use crate::statistics::paired;
use anyhow::{Context as _, Result};
use regard_nn::analysis::projection::{Pca, neighbours, pca};
use regard_nn::data::builtin::{Polarity, sentiment_words};
use regard_nn::metrics::RocCurve;
use serde::{Deserialize, Serialize};

pub const EXPERIMENT: Experiment = Experiment {
    name: "word-vectors",
    claims: &["A2"],
    question: "Do word vectors that are a by-product of classifying sentiment lie on one axis, from blame to praise?",
    prediction: "Of vectors with 16 dimensions trained on 1,000 reviews, those of words that praise and words that blame have \
        more than 80 % of their variance along the first principal component and less than 10 % along the second; the \
        first tells the two kinds apart (AUC above 0.9), which it does not before training.",
    design: "A classifier of the mean of word vectors. Principal components of the vectors of the 30 most frequent words of \
        each of two lists, which are given beforehand; the first component points to where the classifier says \
        “positive”, so that no label decides its sign. The same of the vectors before training.",
    changed: Some(
        "After first runs, of texts of more than 256 words the last ones are read instead of the first. \
         Standard size got fifteen seeds instead of five.",
    ),
    real_data: Some("IMDb (aclImdb_v1.tar.gz) or a folder with train.tsv and test.tsv"),
    seconds: [2.0, 5.0, 60.0],
    run,
};

/// So many words of each list are looked at.
const WORDS: usize = 30;
/// The width of the vectors, and so the number of components.
const WIDTH: usize = 16;
const STAGES: [&str; 2] = ["untrained", "trained"];
const KINDS: [&str; 2] = ["words that blame", "words that praise"];

/// The vectors of one model at one time.
#[derive(Serialize, Deserialize)]
struct Seen {
    /// The share of variance along each component: of the two lists, and of all words.
    explained: Vec<f64>,
    of_all: Vec<f64>,
    auc: f64,
    /// Each word with its kind and place along the first two components.
    places: Vec<(String, usize, f64, f64)>,
}

#[derive(Serialize, Deserialize)]
struct Run {
    /// In the order of [`STAGES`].
    stages: Vec<Seen>,
    accuracy: f64,
    /// A word and the words nearest to it.
    near: Vec<(String, Vec<String>)>,
}

fn run(lab: &Lab) -> Result<Findings> {
    let seeds = lab.seeds_of_small_models();
    let texts = sentiment::test_texts(lab)?;
    let runs = lab.parts("runs", &seeds, |&seed| read(lab, seed, &texts))?;
    let mut findings = Findings::new(&["stage"]);
    for (&seed, run) in seeds.iter().zip(&runs) {
        for (stage, seen) in STAGES.iter().zip(&run.stages) {
            let mut add =
                |measure: String, value: f64| findings.measurements.add(&[stage], seed, measure, value);
            for (component, &share) in seen.explained.iter().enumerate() {
                add(format!("variance along PC{}", component + 1), share);
            }
            add("variance along PC1, all words".to_owned(), seen.of_all[0]);
            add("AUC along PC1".to_owned(), seen.auc);
        }
        findings.measurements.add(&[&"trained"], seed, "accuracy", run.accuracy);
    }
    if let Some(run) = runs.first() {
        draw(&mut findings, run);
        for (word, near) in &run.near {
            findings.word(format!("nearest to {word}"), near.join(", "));
        }
        let rows = run.stages.iter().zip(STAGES).flat_map(|(seen, stage)| {
            seen.places.iter().map(move |(word, kind, x, y)| {
                vec![stage.to_owned(), word.clone(), KINDS[*kind].to_owned(), x.to_string(), y.to_string()]
            })
        });
        findings.table("places", &["stage", "word", "kind", "pc1", "pc2"], rows.collect());
    }
    findings.verdicts = vec![judge(&findings.measurements)];
    for measure in
        ["variance along PC1", "variance along PC2", "variance along PC1, all words", "AUC along PC1"]
    {
        for stage in STAGES {
            let value = findings.measurements.mean(&[&stage], measure).mean;
            findings.fact(format!("{measure}: {stage}"), value);
        }
    }
    let accuracy = findings.measurements.mean(&[&"trained"], "accuracy").mean;
    findings.fact("accuracy", accuracy);
    findings.fact("words", 2.0 * WORDS as f64);
    Ok(findings)
}

fn read(lab: &Lab, seed: u64, texts: &[(String, usize)]) -> Result<Run> {
    let config = bags::config(lab, Form::PLAIN, seed)?;
    let model = bags::trained(lab, Form::PLAIN, seed)?;
    let (before, after) = (model.snapshot(0)?, model.open()?);
    Ok(Run {
        accuracy: bags::accuracy(&after, &config, texts)?,
        stages: vec![see(&before)?, see(&after)?],
        near: nearest(&after)?,
    })
}

/// The most frequent words of the two lists, with their ids and kinds.
fn chosen(opened: &Opened) -> Result<Vec<(String, u32, usize)>> {
    let tokenizer = opened.tokenizer()?;
    let mut all = Vec::new();
    for (kind, polarity) in [Polarity::Negative, Polarity::Positive].into_iter().enumerate() {
        let words = sentiment_words(polarity).into_iter().map(|word| word.to_lowercase());
        let mut known: Vec<(String, u32, usize)> =
            words.filter_map(|word| tokenizer.id(&word).map(|id| (word, id, kind))).collect();
        // Ids are given by falling frequency.
        known.sort_by_key(|(_, id, _)| *id);
        known.dedup();
        known.truncate(WORDS);
        all.extend(known);
    }
    Ok(all)
}

fn see(opened: &Opened) -> Result<Seen> {
    let table = bags::vectors(opened)?;
    let words = chosen(opened)?;
    let ids: Vec<u32> = words.iter().map(|(_, id, _)| *id).collect();
    let Pca { explained, coordinates, components, .. } = pca(&bags::rows(table, &ids)?, WIDTH)?;
    let sign = towards_positive(opened, components.first().context("no component")?)?;
    let places: Vec<(String, usize, f64, f64)> = words
        .into_iter()
        .zip(&coordinates)
        .map(|((word, _, kind), place)| (word, kind, sign * place[0], place.get(1).copied().unwrap_or(0.0)))
        .collect();
    let praises: Vec<bool> = places.iter().map(|(_, kind, ..)| *kind == 1).collect();
    let along: Vec<f32> = places.iter().map(|(_, _, x, _)| *x as f32).collect();
    Ok(Seen {
        explained,
        of_all: pca(table, 2)?.explained,
        auc: RocCurve::of(&praises, &along)?.area(),
        places,
    })
}

/// 1 if the classifier says "positive" further along a direction, else −1.
fn towards_positive(opened: &Opened, direction: &[f64]) -> Result<f64> {
    let parameters = opened.model.parameters();
    let weight = parameters.iter().find(|(name, _)| name == "classifier.weight").map(|(_, weight)| weight);
    let weight = weight.context("the model has no classifier")?.tensor();
    let dot: f64 = weight.values().iter().zip(direction).map(|(&w, d)| f64::from(w) * d).sum();
    Ok(if dot < 0.0 { -1.0 } else { 1.0 })
}

/// For the most frequent word of each list, the words whose vectors point most nearly the same way.
fn nearest(opened: &Opened) -> Result<Vec<(String, Vec<String>)>> {
    let (table, tokenizer) = (bags::vectors(opened)?, opened.tokenizer()?);
    let words = chosen(opened)?;
    let first = (0..KINDS.len()).filter_map(|kind| words.iter().find(|(.., known)| *known == kind));
    first
        .map(|(word, id, _)| {
            let near = neighbours(table, *id as usize, 6)?;
            let names = near.iter().filter_map(|(other, _)| tokenizer.piece(u32::try_from(*other).ok()?));
            Ok((word.clone(), names.collect()))
        })
        .collect()
}

fn draw(findings: &mut Findings, run: &Run) {
    let mut picture = Picture::new("Word vectors, a by-product of sentiment");
    for (seen, name) in run.stages.iter().zip(["before training", "after training"]).rev() {
        let axis = |component: usize| {
            let share = seen.explained.get(component).copied().unwrap_or(0.0);
            Axis::linear(format!("PC{}, {:.0} % of the variance", component + 1, 100.0 * share))
        };
        let points = seen.places.iter().map(|(word, kind, x, y)| Point::new(*x, *y).label(word).class(*kind));
        let plot = Scatter::new(axis(0), axis(1)).classes(KINDS).points(points).size(760.0, 460.0);
        picture = picture.titled_panel(name, plot);
    }
    findings.figure(
        "word_map",
        "The most frequent words of both lists along the first two principal components of their vectors, first seed. The first \
         component points to where the classifier says “positive”. The two axes have different scales.",
        picture,
    );
    let series = |stage: &'static str, class: usize| {
        let points: Vec<_> = (1..=WIDTH)
            .map(|component| {
                let share = findings.measurements.mean(&[&stage], &format!("variance along PC{component}"));
                (component as f64, share.mean, share.low.max(0.0), share.high.min(1.0))
            })
            .collect();
        Series::new(stage).intervals(points).class(class)
    };
    let chart = Chart::new(
        Axis::linear("principal component").ticks((1..=WIDTH).map(|component| component as f64)),
        Axis::linear("share of the variance").percent().range(0.0, 1.0),
    );
    let chart = chart.series(series("trained", 1)).series(series("untrained", 0));
    findings.figure(
        "variance",
        "How the variance of the words' vectors is spread over the principal components; mean over seeds with 95 % intervals.",
        Picture::new("How many of sixteen dimensions are used").panel(chart),
    );
}

fn judge(table: &Measurements) -> Verdict {
    let of = |stage: &str, measure: &str| table.mean(&[&stage], measure);
    let auc = |stage: &str| table.values(&[&stage], "AUC along PC1");
    let (first, second) = (of("trained", "variance along PC1"), of("trained", "variance along PC2"));
    let finding = format!(
        "The first component has {:.1} % of the variance of the words' vectors and the second {:.1} % (untrained: {:.1} % and \
         {:.1} %). Along the first, a word that praises lies beyond one that blames in {:.1} % of pairs, before training in \
         {:.1} %. Over the whole vocabulary the first component has {:.1} %.",
        100.0 * first.mean,
        100.0 * second.mean,
        100.0 * of("untrained", "variance along PC1").mean,
        100.0 * of("untrained", "variance along PC2").mean,
        100.0 * of("trained", "AUC along PC1").mean,
        100.0 * of("untrained", "AUC along PC1").mean,
        100.0 * of("trained", "variance along PC1, all words").mean,
    );
    let checks = vec![
        Check::new("share of the variance along PC1", first, Bound::Above(0.8)),
        Check::new("share of the variance along PC2", second, Bound::Below(0.1)),
        Check::new(
            "AUC of praise against blame along PC1",
            of("trained", "AUC along PC1"),
            Bound::Above(0.9),
        ),
        Check::new("AUC: trained − untrained", paired(&auc("trained"), &auc("untrained")), Bound::Above(0.0)),
    ];
    Verdict::new("A2", checks, finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;

    fn planted(first: f64, second: f64, auc: f64) -> Measurements {
        let mut table = Measurements::new(&["stage"]);
        for seed in 0..4 {
            let noise = 0.002 * seed as f64;
            for (stage, [first, second, auc]) in
                [("trained", [first, second, auc]), ("untrained", [0.15, 0.12, 0.5])]
            {
                table.add(&[&stage], seed, "variance along PC1", first + noise);
                table.add(&[&stage], seed, "variance along PC2", second - noise);
                table.add(
                    &[&stage],
                    seed,
                    "AUC along PC1",
                    auc + noise * f64::from(u8::from(stage == "trained")),
                );
            }
        }
        table
    }

    #[test]
    fn the_verdict_follows_the_vectors() {
        assert_eq!(judge(&planted(0.92, 0.02, 0.98)).outcome, Outcome::Holds);
        assert_eq!(judge(&planted(0.4, 0.02, 0.98)).outcome, Outcome::Fails);
        assert_eq!(judge(&planted(0.92, 0.3, 0.98)).outcome, Outcome::Fails);
        assert_eq!(judge(&planted(0.92, 0.02, 0.5)).outcome, Outcome::Fails);
    }
}
