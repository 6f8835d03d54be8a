//! Do word vectors trained on sentiment alone lie on one axis, from negative to positive words?

use super::models::bag::{self as bags, Form, Start};
use super::models::sentiment;
use crate::experiment::{
    Bound, Check, Data, Experiment, Findings, Lab, Rows, SMALL_MODELS, Sizes, Sweep, Table, Verdict, charts,
    facts, named, those_that_apply,
};
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
    question: "Do word vectors that are trained on sentiment alone lie on one axis, from negative to positive words?",
    prediction: "Of vectors with 16 dimensions trained on 1,000 reviews, those of positive and negative sentiment words have more than \
        80 % of their variance along the first principal component and less than 10 % along the second. The first component separates \
        the two kinds (AUC above 0.9), which it does not before training. This holds whether vectors start with a standard deviation of 0.1 \
        or, as PyTorch's embeddings do, of 1; each is judged as a part.",
    design: "A classifier on the mean of word vectors. Principal components of the vectors of the 30 most frequent words of each of two \
        fixed lists. The first component points to where the classifier predicts “positive”, so that no label determines its sign. The \
        same is measured on the vectors before training. How large vectors are before training is a factor: what training adds is \
        compared with it. A start is testable if the classifier is more accurate than chance.",
    changed: None,
    data: Data::Text("IMDb (aclImdb_v1.tar.gz) or a folder with train.tsv and test.tsv"),
    conditions: &["initial deviation", "stage"],
    seeds: SMALL_MODELS,
    seconds: Sizes::quick(4.0).standard(10.0).full(60.0),
    trains: |lab| {
        Start::ALL
            .map(|start| bags::config(lab, Form::starting(start), lab.first_seed()))
            .into_iter()
            .collect()
    },
    run,
};

/// So many words of each list are measured.
const WORDS: usize = 30;
/// The width of the vectors, and so the number of components.
const WIDTH: usize = 16;
const KINDS: [&str; 2] = ["negative words", "positive words"];
/// The names of the kinds in the table of places.
const KINDS_IN_TABLE: [&str; 2] = ["words that blame", "words that praise"];
const PC1: &str = "variance along PC1";
const PC2: &str = "variance along PC2";
const PC1_ALL: &str = "variance along PC1, all words";
const AUC: &str = "AUC along PC1";
const ACCURACY: &str = "accuracy";

type Measured = Table<(Start, Stage)>;

named! {
    enum Stage { Untrained = "untrained", Trained = "trained" }
}

facts! {
    MEAN(measure: &'static str, start: Start, stage: Stage) = "{measure}: {stage}, initial deviation {start}";
    NEAREST(word: String) = "nearest to {word}";
    ACCURACY_OF(start: Start) = "accuracy, initial deviation {start}";
    COUNT = "words";
}

/// The words of one model at one stage: kind and place along the first two components, and their share of the variance.
#[derive(Serialize, Deserialize)]
struct Map {
    places: Vec<(String, usize, f64, f64)>,
    explained: [f64; 2],
}

#[derive(Serialize, Deserialize)]
struct Shown {
    /// In the order of [`Stage::ALL`].
    maps: Vec<Map>,
    /// A word and the words nearest to it.
    near: Vec<(String, Vec<String>)>,
}

fn run(lab: &Lab) -> Result<Findings> {
    let texts = sentiment::test_texts(lab)?;
    let Sweep { table, runs } = lab.sweep("runs", lab.each(Start::ALL), |start, seed, rows| {
        let form = Form::starting(start);
        let (config, model) = (bags::config(lab, form, seed)?, bags::trained(lab, form, seed)?);
        let (before, after) = (model.snapshot(0)?, model.open()?);
        let maps = vec![
            measure(&before, (start, Stage::Untrained), rows)?,
            measure(&after, (start, Stage::Trained), rows)?,
        ];
        rows.add((start, Stage::Trained), ACCURACY, bags::accuracy(&after, &config, &texts)?);
        Ok(Shown { maps, near: nearest(&after)? })
    })?;
    let mut findings = Findings::default();
    let shown = |start| runs.iter().find(|run| run.condition == start).map(|run| &run.result.maps);
    draw(&mut findings, &table, shown(Start::PyTorch));
    if let Some(run) = runs.first() {
        draw_map(&mut findings, "word_map", &run.result.maps, Start::Small);
        for (word, near) in &run.result.near {
            findings.word(NEAREST.of(word.clone()), near.join(", "));
        }
        let rows = run.result.maps.iter().zip(Stage::ALL).flat_map(|(map, stage)| {
            map.places.iter().map(move |(word, kind, x, y)| {
                let kind = KINDS_IN_TABLE[*kind].to_owned();
                vec![stage.to_string(), word.clone(), kind, x.to_string(), y.to_string()]
            })
        });
        findings.table("places", &["stage", "word", "kind", "pc1", "pc2"], rows.collect());
    }
    findings.verdicts = vec![judge(&table)];
    for (measure, start) in
        [PC1, PC2, PC1_ALL, AUC].into_iter().flat_map(|one| Start::ALL.map(|start| (one, start)))
    {
        findings.facts(MEAN, Stage::ALL.map(|stage| (measure, start, stage)), |(measure, start, stage)| {
            table.mean((start, stage), measure).mean
        });
    }
    findings.facts(ACCURACY_OF, Start::ALL, |start| table.mean((start, Stage::Trained), ACCURACY).mean);
    findings.fact(COUNT, 2.0 * WORDS as f64);
    findings.finish(lab, table)
}

fn variance_along(component: usize) -> String {
    format!("variance along PC{component}")
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

fn measure(opened: &Opened, stage: (Start, Stage), rows: &mut Rows<(Start, Stage)>) -> Result<Map> {
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
    let positive: Vec<bool> = places.iter().map(|(_, kind, ..)| *kind == 1).collect();
    let along: Vec<f32> = places.iter().map(|(_, _, x, _)| *x as f32).collect();
    for (component, &share) in explained.iter().enumerate() {
        rows.add(stage, variance_along(component + 1), share);
    }
    rows.add(stage, PC1_ALL, pca(table, 2)?.explained[0]);
    rows.add(stage, AUC, RocCurve::of(&positive, &along)?.area());
    let share = |component: usize| explained.get(component).copied().unwrap_or(0.0);
    Ok(Map { places, explained: [share(0), share(1)] })
}

/// 1 if the classifier predicts "positive" further along a direction, else −1.
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

/// The words along the first two components, before and after training.
fn draw_map(findings: &mut Findings, name: &str, maps: &[Map], start: Start) {
    let mut picture =
        Picture::new("Word vectors, a by-product of sentiment").subtitle(format!("Of {}", start.sentence()));
    for (Map { places, explained }, name) in maps.iter().zip(["before training", "after training"]).rev() {
        let axis = |component: usize| {
            let share = 100.0 * explained[component];
            Axis::linear(format!("PC{}, {share:.0} % of the variance", component + 1))
        };
        let points = places.iter().map(|(word, kind, x, y)| Point::new(*x, *y).label(word).class(*kind));
        let plot = Scatter::new(axis(0), axis(1)).classes(KINDS).points(points).size(760.0, 460.0);
        picture = picture.titled_panel(name, plot);
    }
    findings.figure(
        name,
        "The most frequent words of both lists along the first two principal components of their vectors, first seed. The first \
         component points to where the classifier predicts “positive”. The two axes have different scales.",
        picture,
    );
}

fn draw(findings: &mut Findings, table: &Measured, maps: Option<&Vec<Map>>) {
    if let Some(maps) = maps {
        draw_map(findings, "word_map_pytorch", maps, Start::PyTorch);
    }
    let series = |start: Start, stage: Stage, class: usize| {
        let points = (1..=WIDTH).map(|component| {
            charts::share_point(component as f64, table.mean((start, stage), variance_along(component)))
        });
        Series::new(format!("{stage}, {start}")).intervals(points).class(class)
    };
    let chart = Chart::new(
        Axis::linear("principal component").ticks((1..=WIDTH).map(|component| component as f64)),
        Axis::linear("share of the variance").percent().range(0.0, 1.0),
    );
    let chart = chart
        .series(series(Start::Small, Stage::Trained, 0))
        .series(series(Start::PyTorch, Stage::Trained, 1))
        .series(series(Start::Small, Stage::Untrained, 2));
    findings.figure(
        "variance",
        "The variance of the words' vectors along each principal component, after training from vectors with a standard deviation of 0.1 \
         and of 1, and before training; mean over seeds with 95 % intervals.",
        Picture::new("How many of sixteen dimensions are used").panel(chart),
    );
}

fn judge(table: &Measured) -> Verdict {
    let percent = |start, stage, measure: &str| 100.0 * table.mean((start, stage), measure).mean;
    let found = Start::ALL.map(|start| {
        format!(
            "With {}, the first component has {:.1} % of the variance of the words' vectors and the second {:.1} % (untrained: {:.1} % and \
             {:.1} %). Along the first, the positive word lies beyond the negative one in {:.1} % of pairs, before training in {:.1} %. Over \
             the whole vocabulary the first component has {:.1} %. The classifier is right in {:.1} % of test texts.",
            start.sentence(),
            percent(start, Stage::Trained, PC1),
            percent(start, Stage::Trained, PC2),
            percent(start, Stage::Untrained, PC1),
            percent(start, Stage::Untrained, PC2),
            percent(start, Stage::Trained, AUC),
            percent(start, Stage::Untrained, AUC),
            percent(start, Stage::Trained, PC1_ALL),
            percent(start, Stage::Trained, ACCURACY),
        )
    });
    let checks = Start::ALL.map(|start| {
        let trained = |measure: &str| table.mean((start, Stage::Trained), measure);
        let of = |stage| table.values((start, stage), AUC);
        let gain = paired(&of(Stage::Trained), &of(Stage::Untrained));
        [
            Check::new("share of the variance along PC1", trained(PC1), Bound::Above(0.8)),
            Check::new("share of the variance along PC2", trained(PC2), Bound::Below(0.1)),
            Check::new("AUC of positive against negative words along PC1", trained(AUC), Bound::Above(0.9)),
            Check::new("AUC: trained − untrained", gain, Bound::Above(0.0)),
        ]
        .map(|check| check.part(start.sentence()))
    });
    let verdict = Verdict::new("A2", checks.concat(), found.join(" "));
    let verdict = Start::ALL.into_iter().fold(verdict, |verdict, start| {
        let accuracy = table.mean((start, Stage::Trained), ACCURACY);
        let precondition = Check::new("accuracy of the classifier", accuracy, Bound::Above(0.5));
        verdict.requires(precondition.part(start.sentence()))
    });
    verdict.because(|checks| {
        let (small, large) = checks.split_at(4);
        let fails = |checks: &[Check]| checks.iter().any(Check::fails);
        those_that_apply([(
            fails(large) && !fails(small),
            "Training adds variance along one direction. Vectors of deviation 0.1 have little of their own, so that this direction is nearly \
             all; those of deviation 1 keep theirs in the other directions, which together have more.",
        )])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;

    /// The same with both starts, but for the share of PC1.
    fn planted(first: [f64; 2], second: f64, auc: f64, accuracy: f64) -> Measured {
        let mut table = Table::new();
        for (start, first) in Start::ALL.into_iter().zip(first) {
            for seed in 0..4 {
                let noise = 0.002 * seed as f64;
                for (stage, [first, second, auc]) in
                    [(Stage::Trained, [first, second, auc]), (Stage::Untrained, [0.15, 0.12, 0.5])]
                {
                    table.add((start, stage), seed, PC1, first + noise);
                    table.add((start, stage), seed, PC2, second - noise);
                    table.add((start, stage), seed, AUC, auc + noise * f64::from(stage as u8));
                }
                table.add((start, Stage::Trained), seed, ACCURACY, accuracy + noise);
            }
        }
        table
    }

    #[test]
    fn the_verdict_follows_the_vectors() {
        assert_eq!(judge(&planted([0.92; 2], 0.02, 0.98, 0.8)).outcome, Outcome::Holds);
        assert_eq!(judge(&planted([0.4; 2], 0.02, 0.98, 0.8)).outcome, Outcome::Fails);
        assert_eq!(judge(&planted([0.92; 2], 0.3, 0.98, 0.8)).outcome, Outcome::Fails);
        assert_eq!(judge(&planted([0.92; 2], 0.02, 0.5, 0.8)).outcome, Outcome::Fails);
        assert_eq!(judge(&planted([0.92; 2], 0.02, 0.98, 0.45)).outcome, Outcome::NotTestable);
    }

    #[test]
    fn each_initial_deviation_is_judged_by_itself() {
        let verdict = judge(&planted([0.92, 0.5], 0.02, 0.98, 0.8));
        assert_eq!(verdict.outcome, Outcome::InPart);
        assert_eq!(
            verdict.parts.iter().map(|part| part.outcome).collect::<Vec<_>>(),
            [Outcome::Holds, Outcome::Fails]
        );
        assert!(verdict.why.is_some_and(|why| why.contains("deviation 1")));
    }
}
