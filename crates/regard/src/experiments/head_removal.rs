//! Does a head matter, and for what? Each is removed in turn, and the loss is measured by kind of word.

use super::instruments::word_kinds::{KINDS, Kind, kind, kinds_of_tokens};
use super::models::language as models;
use crate::experiment::{
    Bound, Check, Condition, Data, Experiment, Findings, Lab, Rows, Sizes, Sweep, Table, Verdict, charts,
    facts,
};
use crate::figure::{Axis, Chart, ColourScale, HeatMap, Matrix, Picture, Point, Scatter, Series};
use crate::model::Opened;
use crate::run::sources;
use crate::statistics::{mean, paired};
use anyhow::{Result, bail};
use regard_nn::analysis::ablation::{Ablation, AblationBatch, Kinds, ablate, pruning_curve};
use regard_nn::analysis::clusters::against_shuffled;
use regard_nn::analysis::distance::{head_divergences, map, root};
use regard_nn::analysis::statistics::Resampling;
use regard_nn::analysis::{HeadSettings, Measure, Tokens, measure_heads};
use regard_nn::data::builtin::Text;
use regard_nn::models::Model;
use regard_nn::tensor::random::Key;
use serde::{Deserialize, Serialize};

pub const EXPERIMENT: Experiment = Experiment {
    name: "head-removal",
    claims: &["E7"],
    question: "Does removing one head hurt specific abilities, is every head needed, and do heads fall into groups?",
    prediction: "Removing a head raises the loss (its 95 % interval over texts lies above 0) for at least nine heads in ten. The effect of \
        each removal on each kind of word, beyond the average effect of all removals, is similar on two halves of the texts (a correlation \
        above 0.5). Heads in three groups by Jensen–Shannon distance have a larger silhouette than the same distances shuffled. Each is a \
        part. The claim is testable if the model's loss is below that of the unigram distribution.",
    design: "The GPT of `trained-heads`. Each head in turn is zeroed, and the loss of the next word is measured on texts outside the \
        training data, by the kind of the word to be predicted. The means of each head and of each kind are subtracted from the table of \
        changes (head × kind); the rest is specific, and is compared between two halves of the texts. Distances between heads are those of \
        their weights, text by text; groups are found by k-medoids.",
    changed: None,
    data: Data::BuiltIn,
    conditions: &["head", "kind"],
    seeds: Sizes::quick(3).standard(5),
    seconds: Sizes::quick(2.0).standard(60.0).full(300.0).large(180.0),
    trains: |lab| Ok(vec![models::base(lab, lab.first_seed())?]),
    run,
};

/// Which heads a measurement is about.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
enum Heads {
    /// Layer and head, both counted from 0.
    One(usize, usize),
    /// The least important ones, so many.
    Removed(usize),
    Any,
}

impl std::fmt::Display for Heads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Heads::One(layer, head) => write!(f, "{layer}.{head}"),
            Heads::Removed(count) => write!(f, "{count} removed"),
            Heads::Any => f.write_str("any"),
        }
    }
}

impl Condition for Heads {
    fn columns(self) -> Vec<String> {
        vec![self.to_string()]
    }
}

type Measured = Table<(Heads, Kind)>;

/// Local, global and syntactic, as the source has it.
const GROUPS: usize = 3;
const CHANGE: &str = "change of the loss";
const LOSS: &str = "loss";
const NEEDED: &str = "share of heads whose removal raises the loss";
const SPECIFIC: &str = "correlation of specific changes";
const SILHOUETTE: &str = "silhouette";
const SHUFFLED: &str = "silhouette, shuffled";
const COUNT: &str = "number of heads";
const TEST_LOSS: &str = "loss on test text";
const UNIGRAM: &str = "loss of the unigram distribution";

facts! {
    SPECIFIC_HEAD = "specific head";
    SPECIFIC_KIND = "specific kind";
    SPECIFIC_CHANGE = "specific change";
    SPECIFIC_WHOLE = "specific head's change of the whole loss";
    WORST_HEAD = "worst head";
    WORST_CHANGE = "worst change";
    HEADS = "heads";
    LOSS_OF_ALL = "loss";
}

/// What is drawn of a run, beside its measurements.
#[derive(Serialize, Deserialize)]
struct Grouped {
    /// In order of layers; everything else is by head.
    heads: Vec<Heads>,
    groups: Vec<usize>,
    /// Coordinates in the plane.
    places: Vec<(f64, f64)>,
    /// The mean distance it attends back.
    reach: Vec<f64>,
}

fn run(lab: &Lab) -> Result<Findings> {
    let Sweep { table, runs } = lab.sweep_seeds("runs", |seed, rows| measure(lab, seed, rows))?;
    let mut findings = Findings::default();
    let rows = runs.iter().flat_map(|run| {
        let Grouped { heads, groups, places, reach } = &run.result;
        heads.iter().zip(groups).zip(places).zip(reach).map(|(((head, group), (x, y)), reach)| {
            let name = head.to_string();
            let (layer, head) = name.split_once('.').unwrap_or_default();
            let group = group.to_string();
            [run.seed.to_string(), layer.to_owned(), head.to_owned(), group]
                .into_iter()
                .chain([x, y, reach].map(ToString::to_string))
                .collect()
        })
    });
    findings.table("heads", &["seed", "layer", "head", "group", "x", "y", "tokens_back"], rows.collect());
    if let Some(run) = runs.first() {
        draw(&mut findings, &table, &run.result, run.seed);
        report(&mut findings, &table, &run.result.heads, run.seed);
    }
    findings.verdicts = vec![judge(&table)];
    findings.finish(lab, table)
}

fn measure(lab: &Lab, seed: u64, rows: &mut Rows<(Heads, Kind)>) -> Result<Grouped> {
    let opened = models::trained_base(lab, seed)?.open()?;
    let length = models::base(lab, seed)?.data.length;
    let (texts, kinds) = texts(lab, &opened, length)?;
    let kind_of =
        |batch: &AblationBatch, text: usize, place: usize| kind(batch, text, place, &kinds) as usize;
    let kinds = Kinds { count: KINDS.len(), of: &kind_of };
    let resampling = Resampling::new(0);
    let half = |half: usize| -> Result<Ablation> {
        let texts: Vec<Tokens> = texts.iter().skip(half).step_by(2).cloned().collect();
        let batches = texts.chunks(16).map(AblationBatch::next_tokens);
        Ok(ablate(&*opened.model, batches, &kinds, &resampling)?)
    };
    let (one, other) = (half(0)?, half(1)?);
    let few = texts
        .iter()
        .take(lab.setting("texts for distances", Sizes::quick(60).smoke(6).standard(200)))
        .cloned();
    let (all_heads, divergences) = head_divergences(&*opened.model, few.map(Ok))?;
    let heads: Vec<Heads> = all_heads.iter().map(|head| Heads::One(head.layer, head.head)).collect();
    let both = together(&one, &other);
    for (&head, (change, _, by_kind)) in heads.iter().zip(&both) {
        rows.add((head, Kind::All), CHANGE, *change);
        KINDS
            .into_iter()
            .zip(by_kind)
            .for_each(|(kind, change)| rows.add_some((head, kind), CHANGE, *change));
    }
    let distances = root(&divergences);
    let draws = lab.setting("shuffles", Sizes::quick(50).smoke(5).standard(100));
    let clustering = against_shuffled(&distances, GROUPS.min(heads.len()), Key::new(seed), draws)?;
    let needed = both.iter().filter(|(_, low, _)| *low > 0.0).count() as f64 / both.len().max(1) as f64;
    let values = [
        (COUNT, heads.len() as f64),
        (NEEDED, needed),
        (SPECIFIC, correlation(&specific(&one), &specific(&other))),
        (SILHOUETTE, clustering.silhouette),
        (SHUFFLED, mean(&clustering.shuffled).mean),
        (LOSS, f64::midpoint(one.loss.all.mean, other.loss.all.mean)),
    ];
    let config = models::base(lab, seed)?;
    let learned = [
        (TEST_LOSS, models::test_loss(lab, &config, &opened)?),
        (UNIGRAM, models::unigram_loss(lab, &config, opened.tokenizer()?)?),
    ];
    for (measure, value) in values.into_iter().chain(learned) {
        rows.add((Heads::Any, Kind::All), measure, value);
    }
    let batches = texts.chunks(16).map(AblationBatch::next_tokens);
    let order = one.least_important_first();
    let counts: Vec<usize> = (0..=order.len()).collect();
    for (count, loss) in pruning_curve(&*opened.model, &batches, &order, &counts, &resampling)? {
        rows.add((Heads::Removed(count), Kind::All), LOSS, loss.mean);
    }
    Ok(Grouped {
        heads,
        groups: clustering.groups,
        places: map(&distances, 2).0.iter().map(|place| (at(place, 0), at(place, 1))).collect(),
        reach: reach(&*opened.model, &texts)?,
    })
}

fn at(place: &[f64], axis: usize) -> f64 {
    place.get(axis).copied().unwrap_or(0.0)
}

/// Texts to read, and the kind of each token of the vocabulary.
fn texts(lab: &Lab, opened: &Opened, length: usize) -> Result<(Vec<Tokens>, Vec<Kind>)> {
    let tokenizer = opened.tokenizer()?;
    let built_in = sources::builtin_test()?;
    let mut texts = Vec::new();
    for text in
        built_in.iter().take(lab.setting("texts", Sizes::quick(160).smoke(12).standard(600).full(2_000)))
    {
        texts.extend(models::tokens_of(tokenizer, text.text(), length)?.filter(|text| text.len() > 1));
    }
    if texts.len() < 4 {
        bail!("{} texts are too few", texts.len());
    }
    let words = built_in.iter().flat_map(Text::words);
    let words = words.map(|word| (word.text.as_str(), word.part_of_speech));
    Ok((texts, kinds_of_tokens(tokenizer, words)?))
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

/// Changes by head and kind, minus the mean of each head and of each kind.
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

/// A table minus the means of its rows and columns.
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

/// How far back each head attends, in tokens.
fn reach(model: &dyn Model, texts: &[Tokens]) -> Result<Vec<f64>> {
    let table = measure_heads(model, texts.iter().take(60).cloned().map(Ok), HeadSettings::default())?;
    Ok(table.of(Measure::Distance).map(|row| row.mean).collect())
}

/// The effect of removing a head of one seed on a kind of words, if there are any.
fn change(table: &Measured, head: Heads, kind: Kind, seed: u64) -> Option<f64> {
    table.find((head, kind), CHANGE).of(seed)
}

/// The head whose removal hurts one kind of words most beyond the others, and the head whose removal hurts most.
fn report(findings: &mut Findings, table: &Measured, heads: &[Heads], seed: u64) {
    let of = |head, kind| change(table, head, kind, seed).unwrap_or(0.0);
    let rows: Vec<Vec<f64>> = heads.iter().map(|&head| KINDS.map(|kind| of(head, kind)).to_vec()).collect();
    let free = centred(&rows);
    if let Some(most) = (0..free.len()).max_by(|&a, &b| free[a].total_cmp(&free[b])) {
        let (head, kind) = (heads[most / KINDS.len()], KINDS[most % KINDS.len()]);
        findings.word(SPECIFIC_HEAD, head.to_string());
        findings.word(SPECIFIC_KIND, kind.name());
        findings.fact(SPECIFIC_CHANGE, of(head, kind));
        findings.fact(SPECIFIC_WHOLE, of(head, Kind::All));
    }
    let worst = heads.iter().max_by(|&&a, &&b| of(a, Kind::All).total_cmp(&of(b, Kind::All)));
    if let Some(&worst) = worst {
        findings.word(WORST_HEAD, worst.to_string());
        findings.fact(WORST_CHANGE, of(worst, Kind::All));
    }
    findings.fact(HEADS, heads.len() as f64);
    findings.fact(LOSS_OF_ALL, table.values((Heads::Any, Kind::All), LOSS).of(seed).unwrap_or(f64::NAN));
}

fn draw(findings: &mut Findings, table: &Measured, run: &Grouped, seed: u64) {
    let names = charts::names(&run.heads);
    let kinds: Vec<Kind> = std::iter::once(Kind::All).chain(KINDS).collect();
    let changes = Matrix::from_fn(names.len(), kinds.len(), |head, kind| {
        change(table, run.heads[head], kinds[kind], seed).map_or(f32::NAN, |change| change as f32)
    });
    let columns = ["all words"].into_iter().chain(KINDS.map(Kind::name)).map(str::to_owned).collect();
    findings.figure(
        "loss_change_by_head_and_kind",
        "The change of the loss, in nats, when a head is zeroed, by the kind of the word to be predicted. Rows are layer.head; words *said before* already occurred in the text. First seed.",
        Picture::new("What each head is needed for").panel(
            HeatMap::new(changes, ColourScale::diverging("change of the loss"))
                .words(names.clone(), columns)
                .names("head", "word to be predicted"),
        ),
    );
    let points = run.places.iter().zip(&names).zip(&run.groups).zip(&run.reach).map(
        |(((&(x, y), name), &group), reach)| {
            Point::new(x, y).label(format!("{name} ({reach:.0} back)")).class(group)
        },
    );
    let groups = (0..GROUPS).map(|group| format!("group {group}"));
    findings.figure(
        "heads_by_distance",
        "Heads by the Jensen–Shannon distance of their weights, in the plane that keeps distances best; colours are the groups \
         that k-medoids finds. Labels are layer.head and how many tokens back it attends on average. First seed.",
        Picture::new("Do heads form groups?").panel(
            Scatter::new(Axis::linear(""), Axis::linear("")).classes(groups).points(points).equal_units(),
        ),
    );
    let pruned = (0..=run.heads.len()).map(|count| {
        charts::range_point(count as f64, &table.values((Heads::Removed(count), Kind::All), LOSS).values())
    });
    findings.figure(
        "pruning",
        "The loss as heads are removed one after the other, the least important (by gradient, on half of the texts) first: mean \
         over seeds, from the smallest to the largest.",
        Picture::new("How many heads can be removed").panel(
            Chart::new(Axis::linear("heads removed"), Axis::linear("loss, nats"))
                .series(Series::new("least important first").intervals(pruned)),
        ),
    );
}

fn judge(table: &Measured) -> Verdict {
    let values = |measure: &str| table.values((Heads::Any, Kind::All), measure);
    let of = |measure: &str| values(measure).mean();
    let needed = of(NEEDED).in_steps(1.0 / of(COUNT).mean);
    let specific = of(SPECIFIC);
    let grouped = paired(&values(SILHOUETTE), &values(SHUFFLED));
    let finding = format!(
        "Removing a head raises the loss for {:.0} % of heads. The effects specific to a head and a kind of word correlate by {:.2} \
         between two halves of the texts. The silhouette of three groups is {:.2}; that of shuffled distances is {:.2}.",
        100.0 * needed.mean,
        specific.mean,
        of(SILHOUETTE).mean,
        of(SHUFFLED).mean,
    );
    let checks = vec![
        Check::new("share of heads whose removal raises the loss", needed, Bound::Above(0.9))
            .part("heads are not redundant"),
        Check::new(
            "correlation between halves of the effects of removals on specific kinds of words",
            specific,
            Bound::Above(0.5),
        )
        .part("removing one hurts specific abilities"),
        Check::new("silhouette of three groups of heads − of shuffled distances", grouped, Bound::Above(0.0))
            .part("heads form groups"),
    ];
    let learned = models::learned("the GPT", &values(TEST_LOSS), &values(UNIGRAM));
    Verdict::new("E7", checks, finding).requires(learned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;

    fn planted(needed: f64, specific: f64, grouped: f64) -> Measured {
        let mut table = Table::new();
        for seed in 0..4 {
            let noise = 0.004 * seed as f64;
            let values = [
                (COUNT, 100.0),
                (NEEDED, needed + noise),
                (SPECIFIC, specific + noise),
                (SILHOUETTE, 0.2 + grouped + noise),
                (SHUFFLED, 0.2),
                (TEST_LOSS, 3.0 + noise),
                (UNIGRAM, 5.0),
            ];
            for (measure, value) in values {
                table.add((Heads::Any, Kind::All), seed, measure, value);
            }
        }
        table
    }

    #[test]
    fn the_verdict_follows_the_heads() {
        assert_eq!(judge(&planted(0.97, 0.8, 0.2)).outcome, Outcome::Holds);
        assert_eq!(judge(&planted(0.5, 0.8, 0.2)).outcome, Outcome::InPart, "half of the heads are idle");
        assert_eq!(judge(&planted(0.97, 0.0, 0.2)).outcome, Outcome::InPart, "nothing is specific");
        assert_eq!(judge(&planted(0.97, 0.8, -0.1)).outcome, Outcome::InPart, "no groups");
        assert_eq!(judge(&planted(0.5, 0.0, -0.1)).outcome, Outcome::Fails);
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
