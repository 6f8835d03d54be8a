//! Does a head matter, and for what? Take each one away and look at the loss, by kind of word.

use super::models::language as models;
use crate::experiment::Sizes;
use crate::experiment::{Bound, Check, Experiment, Findings, Lab, Measurements, Verdict};
use crate::figure::{Axis, Chart, ColourScale, HeatMap, Matrix, Picture, Point, Scatter, Series};
use crate::model::Opened;
use crate::run::sources;
use crate::statistics::mean;
use anyhow::{Result, bail};
use regard_nn::analysis::ablation::{Ablation, AblationBatch, Kinds, ablate, pruning_curve};
use regard_nn::analysis::clusters::against_shuffled;
use regard_nn::analysis::distance::{head_divergences, map, root};
use regard_nn::analysis::statistics::Resampling;
use regard_nn::analysis::{HeadSettings, Measure, Tokens, measure_heads};
use regard_nn::data::builtin::{PartOfSpeech, Text};
use regard_nn::models::Model;
use regard_nn::tensor::random::Key;
use regard_nn::tokens::{Special, Tokenizer};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

pub const EXPERIMENT: Experiment = Experiment {
    name: "head-removal",
    claims: &["E7"],
    question: "Does removing one head hurt specific abilities, is every head needed, and do heads fall into groups?",
    prediction: "Removing a head raises the loss (its 95 % interval over texts lies above 0) for at least nine heads in ten. What \
        each removal does to each kind of word, beyond what all removals do on average, comes out alike on two halves of the \
        texts (a correlation above 0.5). Heads in three groups by Jensen–Shannon distance have a larger silhouette than the \
        same distances dealt at random.",
    design: "The GPT of `trained-heads`. Each head in turn is made to say nothing, and the loss of the next word is taken on \
        texts that the model was not trained on, by the kind of the word to be said. The table of changes (head × kind) is \
        freed of the mean of each head and of each kind; what is left is what is specific, and it is compared between two \
        halves of the texts. Distances between heads are those of their weights, text by text; groups are found by k-medoids.",
    changed: Some(
        "The GPT is the base model, whose steps, rate, positions and initial weights were chosen after first runs by its loss on held-out \
         text. The interval of the share of heads was later made no narrower than a count allows.",
    ),
    real_data: None,
    conditions: &["head", "kind"],
    seeds: Sizes::quick(3).standard(5),
    seconds: Sizes::quick(2.0).standard(60.0).full(300.0),
    run,
};

/// What the word to be said is.
const KINDS: [&str; 6] = ["function words", "nouns", "verbs", "modifiers", "punctuation", "said before"];
/// Local, global and syntactic, as the source has it.
const GROUPS: usize = 3;

#[derive(Serialize, Deserialize)]
struct Run {
    /// Layer and head, in order.
    heads: Vec<(usize, usize)>,
    loss: f64,
    /// By head: the change of the loss, and the lower end of its interval over texts.
    changes: Vec<(f64, f64)>,
    /// By head and kind: the change of the loss; none where no such word occurs.
    by_kind: Vec<Vec<Option<f64>>>,
    /// The correlation of what is specific between two halves.
    specific: f64,
    silhouette: f64,
    shuffled: f64,
    groups: Vec<usize>,
    /// By head: a place in the plane, and the mean distance it looks back.
    places: Vec<(f64, f64)>,
    reach: Vec<f64>,
    /// The loss against the number of heads removed, least important first.
    pruning: Vec<(usize, f64)>,
}

fn run(lab: &Lab) -> Result<Findings> {
    let seeds = lab.seeds();
    let runs = lab.parts("runs", &seeds, |&seed| read(lab, seed))?;
    let mut findings = Findings::new(&["head", "kind"]);
    for (&seed, run) in seeds.iter().zip(&runs) {
        for (i, (layer, head)) in run.heads.iter().enumerate() {
            let name = format!("{}.{}", layer + 1, head + 1);
            findings.measurements.add(&[&name, &"all"], seed, "change of the loss", run.changes[i].0);
            for (kind, change) in KINDS.iter().zip(&run.by_kind[i]) {
                if let Some(change) = change {
                    findings.measurements.add(&[&name, kind], seed, "change of the loss", *change);
                }
            }
        }
        let needed =
            run.changes.iter().filter(|(_, low)| *low > 0.0).count() as f64 / run.changes.len().max(1) as f64;
        let values = [
            ("number of heads", run.heads.len() as f64),
            ("share of heads whose removal raises the loss", needed),
            ("correlation of specific changes", run.specific),
            ("silhouette", run.silhouette),
            ("silhouette, shuffled", run.shuffled),
            ("loss", run.loss),
        ];
        for (measure, value) in values {
            findings.measurements.add(&[&"any", &"all"], seed, measure, value);
        }
        for &(count, loss) in &run.pruning {
            findings.measurements.add(&[&format!("{count} removed"), &"all"], seed, "loss", loss);
        }
    }
    let rows = seeds.iter().zip(&runs).flat_map(|(seed, run)| {
        let places = run.heads.iter().zip(&run.groups).zip(&run.places).zip(&run.reach);
        places.map(move |((((layer, head), group), (x, y)), reach)| {
            let numbers = [layer + 1, head + 1, group + 1].map(|number| number.to_string());
            let places = [*x, *y, *reach].map(|place| place.to_string());
            std::iter::once(seed.to_string()).chain(numbers).chain(places).collect()
        })
    });
    findings.table("heads", &["seed", "layer", "head", "group", "x", "y", "tokens_back"], rows.collect());
    if let Some(run) = runs.first() {
        draw(&mut findings, run, &runs);
        tell(&mut findings, run);
    }
    findings.verdicts = vec![judge(&findings.measurements)];
    Ok(findings)
}

fn read(lab: &Lab, seed: u64) -> Result<Run> {
    let trained = models::trained_base(lab, seed)?;
    let opened = trained.open()?;
    let length = models::base(lab, seed)?.data.length;
    let (texts, kinds) = texts(lab, &opened, length)?;
    let kind_of = |batch: &AblationBatch, text: usize, place: usize| kind(batch, text, place, &kinds);
    let kinds = Kinds { count: KINDS.len(), of: &kind_of };
    let resampling = Resampling::new(0);
    let halves = [0, 1].map(|half| -> Result<Ablation> {
        let texts: Vec<Tokens> = texts.iter().skip(half).step_by(2).cloned().collect();
        let batches = texts.chunks(16).map(AblationBatch::next_tokens);
        Ok(ablate(&*opened.model, batches, &kinds, &resampling)?)
    });
    let [one, other] = halves;
    let (one, other) = (one?, other?);
    let all = together(&one, &other);
    let batches = texts.chunks(16).map(AblationBatch::next_tokens);
    let order = one.least_important_first();
    let counts: Vec<usize> = (0..=order.len()).collect();
    let curve = pruning_curve(&*opened.model, &batches, &order, &counts, &resampling)?;
    let pruning = curve.into_iter().map(|(count, loss)| (count, loss.mean)).collect();
    let few = texts.iter().take(lab.at(Sizes::quick(60).smoke(6).standard(200))).cloned();
    let (heads, divergences) = head_divergences(&*opened.model, few.map(Ok))?;
    let distances = root(&divergences);
    let groups = GROUPS.min(heads.len());
    let clustering = against_shuffled(
        &distances,
        groups,
        Key::new(seed),
        lab.at(Sizes::quick(50).smoke(5).standard(100)),
    )?;
    let places = map(&distances, 2).0.iter().map(|place| (at(place, 0), at(place, 1))).collect();
    Ok(Run {
        heads: heads.iter().map(|head| (head.layer, head.head)).collect(),
        loss: f64::midpoint(one.loss.all.mean, other.loss.all.mean),
        changes: all.iter().map(|(change, low, _)| (*change, *low)).collect(),
        by_kind: all.into_iter().map(|(_, _, kinds)| kinds).collect(),
        specific: correlation(&specific(&one), &specific(&other)),
        silhouette: clustering.silhouette,
        shuffled: mean(&clustering.shuffled).mean,
        groups: clustering.groups,
        places,
        reach: reach(&*opened.model, &texts)?,
        pruning,
    })
}

fn at(place: &[f64], axis: usize) -> f64 {
    place.get(axis).copied().unwrap_or(0.0)
}

/// Texts to read, and the kind of each token of the vocabulary.
fn texts(lab: &Lab, opened: &Opened, length: usize) -> Result<(Vec<Tokens>, Vec<usize>)> {
    let tokenizer = opened.tokenizer()?;
    let built_in = sources::builtin_test()?;
    let mut texts = Vec::new();
    for text in built_in.iter().take(lab.at(Sizes::quick(160).smoke(12).standard(600).full(2_000))) {
        texts.extend(models::tokens_of(tokenizer, text.text(), length)?.filter(|text| text.len() > 1));
    }
    if texts.len() < 4 {
        bail!("{} texts are too few", texts.len());
    }
    let words = built_in.iter().flat_map(Text::words);
    let words = words.map(|word| (word.text.as_str(), word.part_of_speech));
    Ok((texts, kinds_of_tokens(tokenizer, words)?))
}

/// The kind of each token: that of the part of speech it has most often. What is not known counts as a noun: most rare words
/// are names.
fn kinds_of_tokens<'a>(
    tokenizer: &Tokenizer,
    words: impl Iterator<Item = (&'a str, PartOfSpeech)>,
) -> Result<Vec<usize>> {
    let mut known: HashMap<(&str, PartOfSpeech), u32> = HashMap::new();
    for word in words {
        *known.entry(word).or_default() += 1;
    }
    let mut counts = vec![[0_u32; KINDS.len()]; tokenizer.vocabulary_size()];
    for ((word, part), count) in known {
        for id in tokenizer.encode(word, Special::Drop)?.ids {
            if let Some(counts) = counts.get_mut(id as usize) {
                counts[kind_of_part(part)] += count;
            }
        }
    }
    let most = |counts: &[u32; KINDS.len()]| {
        let best = (0..KINDS.len()).rev().max_by_key(|&kind| counts[kind]).unwrap_or(1);
        if counts[best] == 0 { 1 } else { best }
    };
    Ok(counts.iter().map(most).collect())
}

fn kind_of_part(part: PartOfSpeech) -> usize {
    use PartOfSpeech as P;
    match part {
        P::Noun | P::ProperNoun | P::Numeral | P::Symbol | P::Other => 1,
        P::Verb => 2,
        P::Adjective | P::Adverb | P::Interjection => 3,
        P::Punctuation => 4,
        _ => 0,
    }
}

/// The kind of the word to be said at a place. A noun that stood in the text before is a kind of its own: a head can look for
/// it.
fn kind(batch: &AblationBatch, text: usize, place: usize, kinds: &[usize]) -> usize {
    let time = batch.shown.ids.shape().last();
    let row = text * time;
    let target = batch.targets.values()[row + place];
    let kind = kinds.get(target as usize).copied().unwrap_or(1);
    let before = batch.shown.ids.values()[row..=row + place].contains(&target);
    if kind == 1 && before { 5 } else { kind }
}

/// By head: the change of the loss, the lower end of its interval, and the changes by kind, of both halves together.
fn together(one: &Ablation, other: &Ablation) -> Vec<(f64, f64, Vec<Option<f64>>)> {
    let pairs = one.heads.iter().zip(&other.heads);
    pairs
        .map(|(a, b)| {
            let kinds = a.zeroed.by_kind.iter().zip(&b.zeroed.by_kind);
            let kinds = kinds.map(|(a, b)| a.zip(*b).map(|(a, b)| f64::midpoint(a.mean, b.mean))).collect();
            let (a, b) = (a.zeroed.all, b.zeroed.all);
            // The means of two halves: their errors add as squares.
            let half = ((a.mean - a.low).hypot(b.mean - b.low)) / 2.0;
            let both = f64::midpoint(a.mean, b.mean);
            (both, both - half, kinds)
        })
        .collect()
}

/// Changes by head and kind, free of the mean of each head and of each kind.
fn specific(ablation: &Ablation) -> Vec<f64> {
    let rows: Vec<Vec<f64>> = ablation
        .heads
        .iter()
        .map(|effect| {
            effect.zeroed.by_kind.iter().map(|change| change.map_or(0.0, |change| change.mean)).collect()
        })
        .collect();
    centred(&rows)
}

/// A table free of the means of its rows and columns.
fn centred(rows: &[Vec<f64>]) -> Vec<f64> {
    let columns = rows.first().map_or(0, Vec::len);
    let of_row = |row: &Vec<f64>| row.iter().sum::<f64>() / columns.max(1) as f64;
    let of_column = |i: usize| rows.iter().map(|row| row[i]).sum::<f64>() / rows.len().max(1) as f64;
    let column_means: Vec<f64> = (0..columns).map(of_column).collect();
    let all = column_means.iter().sum::<f64>() / columns.max(1) as f64;
    let free = |row: &Vec<f64>| {
        let mean = of_row(row);
        row.iter().zip(&column_means).map(|(x, column)| x - mean - column + all).collect::<Vec<f64>>()
    };
    rows.iter().flat_map(free).collect()
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt().max(f64::MIN_POSITIVE)
}

/// How far back each head looks, in tokens.
fn reach(model: &dyn Model, texts: &[Tokens]) -> Result<Vec<f64>> {
    let table = measure_heads(model, texts.iter().take(60).cloned().map(Ok), HeadSettings::default())?;
    Ok(table.of(Measure::Distance).map(|row| row.mean).collect())
}

/// The kind that a head hurts most beyond the others, for the head for which that is most.
fn tell(findings: &mut Findings, run: &Run) {
    let rows: Vec<Vec<f64>> =
        run.by_kind.iter().map(|kinds| kinds.iter().map(|change| change.unwrap_or(0.0)).collect()).collect();
    let free = centred(&rows);
    let most = (0..free.len()).max_by(|&a, &b| free[a].total_cmp(&free[b]));
    if let Some(most) = most {
        let (head, kind) = (most / KINDS.len(), most % KINDS.len());
        findings.word("specific head", format!("{}.{}", run.heads[head].0 + 1, run.heads[head].1 + 1));
        findings.word("specific kind", KINDS[kind]);
        findings.fact("specific change", rows[head][kind]);
        findings.fact("specific head's change of the whole loss", run.changes[head].0);
    }
    let worst = (0..run.changes.len()).max_by(|&a, &b| run.changes[a].0.total_cmp(&run.changes[b].0));
    if let Some(worst) = worst {
        findings.word("worst head", format!("{}.{}", run.heads[worst].0 + 1, run.heads[worst].1 + 1));
        findings.fact("worst change", run.changes[worst].0);
    }
    findings.fact("heads", run.heads.len() as f64);
    findings.fact("loss", run.loss);
}

fn draw(findings: &mut Findings, run: &Run, runs: &[Run]) {
    let names: Vec<String> =
        run.heads.iter().map(|(layer, head)| format!("{}.{}", layer + 1, head + 1)).collect();
    let table = Matrix::from_fn(names.len(), KINDS.len() + 1, |head, kind| match kind.checked_sub(1) {
        None => run.changes[head].0 as f32,
        Some(kind) => run.by_kind[head][kind].map_or(f32::NAN, |change| change as f32),
    });
    let columns = std::iter::once("all words").chain(KINDS).map(str::to_owned).collect();
    findings.figure(
        "loss_change_by_head_and_kind",
        "The change of the loss, in nats, when a head is made to say nothing, by the kind of the word to be said. First seed.",
        Picture::new("What each head is needed for").panel(
            HeatMap::new(table, ColourScale::diverging("change of the loss"))
                .words(names.clone(), columns)
                .names("head", "word to be said"),
        ),
    );
    let points = run.places.iter().zip(&names).zip(&run.groups).zip(&run.reach).map(
        |(((&(x, y), name), &group), reach)| {
            Point::new(x, y).label(format!("{name} ({reach:.0} back)")).class(group)
        },
    );
    let groups = (1..=GROUPS).map(|group| format!("group {group}"));
    findings.figure(
        "heads_by_distance",
        "Heads by the Jensen–Shannon distance of their weights, in the plane that keeps distances best; colours are the groups \
         that k-medoids finds. Labels are layer.head and how many tokens back it looks on average. First seed.",
        Picture::new("Do heads form groups?").panel(
            Scatter::new(Axis::linear(""), Axis::linear("")).classes(groups).points(points).equal_units(),
        ),
    );
    let counts: Vec<usize> = run.pruning.iter().map(|(count, _)| *count).collect();
    let pruned = counts.iter().enumerate().map(|(i, &count)| {
        let losses: Vec<f64> = runs.iter().filter_map(|run| Some(run.pruning.get(i)?.1)).collect();
        let (low, high) =
            losses.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), &x| (x.min(low), x.max(high)));
        (count as f64, mean(&losses).mean, low, high)
    });
    let pruned: Vec<_> = pruned.collect();
    findings.figure(
        "pruning",
        "The loss as heads are removed one after the other, the least important (by gradient, on half of the texts) first: mean \
         over seeds, from the smallest to the largest.",
        Picture::new("How many heads can go").panel(
            Chart::new(Axis::linear("heads removed"), Axis::linear("loss, nats"))
                .series(Series::new("least important first").intervals(pruned)),
        ),
    );
}

fn judge(table: &Measurements) -> Verdict {
    let of = |measure: &str| table.mean(&[&"any", &"all"], measure);
    let heads = of("number of heads").mean;
    let needed = of("share of heads whose removal raises the loss").in_steps(1.0 / heads);
    let specific = of("correlation of specific changes");
    let values = |measure: &str| table.values(&[&"any", &"all"], measure);
    let grouped = crate::statistics::paired(&values("silhouette"), &values("silhouette, shuffled"));
    let finding = format!(
        "Removing a head raises the loss for {:.0} % of heads. What is specific to a head and a kind of word correlates by {:.2} \
         between two halves of the texts. The silhouette of three groups is {:.2}; of shuffled distances, {:.2}.",
        100.0 * needed.mean,
        specific.mean,
        of("silhouette").mean,
        of("silhouette, shuffled").mean,
    );
    let checks = vec![
        Check::new("share of heads whose removal raises the loss", needed, Bound::Above(0.9)),
        Check::new(
            "correlation between halves of what removals do to specific kinds of words",
            specific,
            Bound::Above(0.5),
        ),
        Check::new("silhouette of three groups of heads − of shuffled distances", grouped, Bound::Above(0.0)),
    ];
    Verdict::new("E7", checks, finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;

    fn planted(needed: f64, specific: f64, grouped: f64) -> Measurements {
        let mut table = Measurements::new(&["head", "kind"]);
        for seed in 0..4 {
            let noise = 0.004 * seed as f64;
            let values = [
                ("number of heads", 100.0),
                ("share of heads whose removal raises the loss", needed + noise),
                ("correlation of specific changes", specific + noise),
                ("silhouette", 0.2 + grouped + noise),
                ("silhouette, shuffled", 0.2),
            ];
            for (measure, value) in values {
                table.add(&[&"any", &"all"], seed, measure, value);
            }
        }
        table
    }

    #[test]
    fn the_verdict_follows_the_heads() {
        assert_eq!(judge(&planted(0.97, 0.8, 0.2)).outcome, Outcome::Holds);
        assert_eq!(judge(&planted(0.5, 0.8, 0.2)).outcome, Outcome::Fails, "half of the heads are idle");
        assert_eq!(judge(&planted(0.97, 0.0, 0.2)).outcome, Outcome::Fails, "nothing is specific");
        assert_eq!(judge(&planted(0.97, 0.8, -0.1)).outcome, Outcome::Fails, "no groups");
    }

    #[test]
    fn what_all_heads_and_all_kinds_share_is_not_specific() {
        let shared = vec![vec![1.0, 2.0, 3.0], vec![2.0, 3.0, 4.0]];
        assert!(centred(&shared).iter().all(|x| x.abs() < 1e-12));
        let crossed = vec![vec![1.0, 0.0], vec![0.0, 1.0]];
        assert_eq!(centred(&crossed), [0.5, -0.5, -0.5, 0.5]);
        assert!((correlation(&[1.0, -1.0], &[2.0, -2.0]) - 1.0).abs() < 1e-12);
    }
}
