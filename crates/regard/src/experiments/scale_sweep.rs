//! Why 1/√d_k: attention with and without the scale, as keys and queries get wider.

mod pictures;

use crate::experiment::claims::SOURCES;
use crate::experiment::{
    Bound, Check, Data, Experiment, Findings, Lab, Sizes, Table, Verdict, facts, named, those_that_apply,
};
use crate::statistics::{Interval, deviation, exact, paired, slope_by_seed};
use anyhow::Result;
use regard_nn::attention::{Scale, scaled_dot_product};
use regard_nn::tensor::Tensor;
use regard_nn::tensor::random::Key;
use serde::{Deserialize, Serialize};
use std::path::Path;

pub const EXPERIMENT: Experiment = Experiment {
    name: "scale-sweep",
    claims: &["D3", "D4", "D5"],
    question: "What does dividing the scores by √d_k change as d_k grows?",
    prediction: "Dot products of independent standard normal vectors have standard deviation √d_k. Unscaled, the largest \
        weight therefore grows towards 1 with d_k and the gradients of the scores, of Q and of K fall towards 0; scaled, neither depends \
        on d_k. In numbers: logits at d_k 64 have a deviation within 7.5 to 8.5 unscaled and within 0.95 to 1.05 scaled; with each \
        doubling of d_k the largest weight grows by more than 0.02 unscaled and by less than 0.02 either way scaled. Of the gradients \
        three parts are judged, each for the scores, Q and K: unscaled, the norm of the whole gradient falls with d_k on average; the \
        norm of the median row falls; and at d_k 256 the share of rows whose gradient is below 0.01 is more than 0.1 larger than with \
        the scale. The four files that D5 is about can be read back, with as many rows as draws and the columns that it names.",
    design: "Q, K and V of 8 tokens, every entry standard normal, for d_k of 4, 16, 64 and 256; attention with and without \
        the scale on the same draw. Values are 16 wide throughout, so that nothing but d_k changes. The gradients are those \
        of the output's product with a standard normal matrix. A row of the gradient belongs to one query (of scores and Q) or to one \
        key (of K). Each draw is a seed.",
    changed: None,
    data: Data::Drawn,
    conditions: &["d_k", "scaled"],
    seeds: Sizes::quick(400).standard(2_000).full(10_000),
    seconds: Sizes::quick(1.0).standard(4.0).full(30.0),
    trains: |_| Ok(Vec::new()),
    run,
};

const WIDTHS: [usize; 4] = [4, 16, 64, 256];
const TOKENS: usize = 8;
const VALUE_WIDTH: usize = 16;
/// The one draw that was published: unscaled and scaled, at the largest width.
const PUBLISHED: [(Measure, bool, f64); 4] = [
    (Measure::Largest, false, 0.9942),
    (Measure::Entropy, false, 0.0296),
    (Measure::Largest, true, 0.3680),
    (Measure::Entropy, true, 1.7256),
];
const SOURCE: &str = SOURCES[3];

named! {
    /// What is measured of a draw.
    enum Measure {
        Largest = "mean_max_weight",
        Entropy = "mean_entropy",
        OfQ = "grad_norm_q",
        OfK = "grad_norm_k",
        OfScores = "grad_norm_scores",
        Logits = "logit_sd",
        MedianOfScores = "median_row_grad_norm_scores",
        MedianOfQ = "median_row_grad_norm_q",
        MedianOfK = "median_row_grad_norm_k",
        VanishedOfScores = "share_of_rows_below_0.01_scores",
        VanishedOfQ = "share_of_rows_below_0.01_q",
        VanishedOfK = "share_of_rows_below_0.01_k",
    }
}

/// A gradient: its name, and the measures of its whole norm, of its median row and of the share of its rows that vanish.
const GRADIENTS: [(&str, [Measure; 3]); 3] = [
    ("the scores", [Measure::OfScores, Measure::MedianOfScores, Measure::VanishedOfScores]),
    ("Q", [Measure::OfQ, Measure::MedianOfQ, Measure::VanishedOfQ]),
    ("K", [Measure::OfK, Measure::MedianOfK, Measure::VanishedOfK]),
];
/// A row whose gradient has a norm below this learns next to nothing.
const VANISHED: f64 = 0.01;

/// d_k, and whether the scores are scaled.
type Measured = Table<(usize, bool)>;

facts! {
    /// The mean of the largest of eight weights at d_k 256.
    pub LARGEST(kind: Kind) = "max_{kind}_256";
    /// The standard deviation of the scores at d_k 64.
    pub DEVIATION(kind: Kind) = "sd_{kind}_64";
    ABOVE_PUBLISHED = "share_above_published";
    GRADIENT_OF_SCORES(width: usize) = "gradient_scores_unscaled_{width}";
    GRADIENT_OF_Q(kind: Kind) = "gradient_q_{kind}_256";
    /// The share of queries whose scores have next to no gradient at d_k 256.
    pub ROWS_VANISHED(kind: Kind) = "rows_vanished_{kind}_256";
    /// How the mean norm of Q's gradient changes from d_k 4 to 256, unscaled, as a factor.
    pub GROWTH_OF_Q = "growth_q_unscaled";
}

named! {
    pub enum Kind { Unscaled = "unscaled", Scaled = "scaled" }
}

impl Kind {
    fn scaled(self) -> bool {
        self == Kind::Scaled
    }

    /// What figures call it.
    fn label(self) -> &'static str {
        if self.scaled() { "scaled by 1/√dₖ" } else { "unscaled" }
    }
}

#[derive(Serialize, Deserialize)]
struct Draw {
    /// In the order of [`Measure::ALL`].
    values: [f64; 12],
    /// The weights, of the first draw.
    weights: Vec<f32>,
}

fn run(lab: &Lab) -> Result<Findings> {
    let (first, seeds) = (lab.first_seed(), lab.seeds().len() as u64);
    let cells: Vec<(usize, bool)> =
        WIDTHS.iter().flat_map(|&width| [(width, false), (width, true)]).collect();
    // A draw takes less time than a part: all draws of a cell are one.
    let inputs: Vec<_> = cells.iter().map(|&(width, scaled)| (width, scaled, first, seeds)).collect();
    let draws: Vec<Vec<Draw>> = lab.parts("draws", &inputs, |&(width, scaled, first, seeds)| {
        (first..first + seeds).map(|seed| draw(width, scaled, seed, seed == first)).collect()
    })?;
    let (mut table, mut rows) = (Table::new(), Vec::new());
    for (&(width, scaled), draws) in cells.iter().zip(&draws) {
        for (seed, Draw { values, .. }) in (first..).zip(draws) {
            for (measure, &value) in Measure::ALL.into_iter().zip(values) {
                table.add((width, scaled), seed, measure, value);
            }
            let row = [width.to_string(), scaled.to_string(), seed.to_string()];
            rows.push(row.into_iter().chain(values[..4].iter().map(ToString::to_string)).collect());
        }
    }
    let mut findings = Findings::default();
    let columns = ["d_k", "scaled", "seed", "mean_max_weight", "mean_entropy", "grad_norm_q", "grad_norm_k"];
    findings.table("attention_sweep_results", &columns, rows);
    write_summary(&mut findings, &table);
    let weights = |scaled: bool| {
        let of_kind = cells.iter().zip(&draws).filter(move |((_, known), _)| *known == scaled);
        of_kind.filter_map(|(_, draws)| draws.first().map(|draw| &draw.weights))
    };
    pictures::draw_weights(&mut findings, weights(false).chain(weights(true)));
    pictures::draw_measures(&mut findings, &table, seeds);
    findings.verdicts = vec![judge_sharpness(&table), judge_gradients(&table)];
    findings.reads_back = Some(judge_files);
    let mean = |width, measure, kind: Kind| at(&table, width, measure, kind.scaled());
    findings.facts(LARGEST, Kind::ALL, |kind| mean(256, Measure::Largest, kind));
    findings.facts(DEVIATION, Kind::ALL, |kind| mean(64, Measure::Logits, kind));
    findings.facts(GRADIENT_OF_SCORES, [4, 256], |width| mean(width, Measure::OfScores, Kind::Unscaled));
    findings.facts(GRADIENT_OF_Q, Kind::ALL, |kind| mean(256, Measure::OfQ, kind));
    findings.facts(ROWS_VANISHED, Kind::ALL, |kind| mean(256, Measure::VanishedOfScores, kind));
    let growth = mean(256, Measure::OfQ, Kind::Unscaled) / mean(4, Measure::OfQ, Kind::Unscaled);
    findings.fact(GROWTH_OF_Q, growth);
    findings.fact(ABOVE_PUBLISHED, share_above_published(&table));
    findings.finish(lab, table)
}

/// One draw of Q, K and V.
fn draw(width: usize, scaled: bool, seed: u64, shown: bool) -> Result<Draw> {
    let key = Key::new(seed).site("scale-sweep").step(width as u64);
    let normal =
        |site: &str, width: usize| Tensor::new(&key.site(site).normal(TOKENS * width, 1.0), [TOKENS, width]);
    let (q, k) = (normal("query", width)?.tracked(), normal("key", width)?.tracked());
    let (v, direction) = (normal("value", VALUE_WIDTH)?, normal("direction", VALUE_WIDTH)?);
    let scale = if scaled { Scale::InverseRoot } else { Scale::None };
    let (output, weights) = scaled_dot_product(&q, &k, &v, None, scale)?;
    let gradients = output.multiply(&direction)?.sum_all()?.backward()?;
    let rows_of =
        |x: &Tensor| gradients.get(x).map_or_else(Vec::new, |gradient| row_norms(&gradient.values(), width));
    let logits: Vec<f64> = q
        .detach()
        .matmul_transposed(&k.detach(), false, true)?
        .scale(scale.factor(width))?
        .values()
        .iter()
        .map(|&logit| f64::from(logit))
        .collect();
    let pulls = direction.matmul_transposed(&v, false, true)?.to_vec();
    let weights = weights.to_vec();
    let (of_scores, of_q, of_k) = (score_gradient_rows(&weights, &pulls), rows_of(&q), rows_of(&k));
    let entropy = |row: &[f32]| -> f64 {
        row.iter().map(|&p| f64::from(p)).filter(|&p| p > 0.0).map(|p| -p * p.ln()).sum()
    };
    let over_rows = |of: &dyn Fn(&[f32]) -> f64| weights.chunks(TOKENS).map(of).sum::<f64>() / TOKENS as f64;
    Ok(Draw {
        values: [
            over_rows(&|row| f64::from(row.iter().copied().fold(0.0, f32::max))),
            over_rows(&entropy),
            whole(&of_q),
            whole(&of_k),
            whole(&of_scores),
            deviation(&logits),
            median(&of_scores),
            median(&of_q),
            median(&of_k),
            vanished(&of_scores),
            vanished(&of_q),
            vanished(&of_k),
        ],
        weights: if shown { weights } else { Vec::new() },
    })
}

/// The norm of each row of the gradient of the scores, P ∘ (G − rowsum(P ∘ G)) for weights P and their gradient G: what saturation
/// shrinks.
fn score_gradient_rows(weights: &[f32], pulls: &[f32]) -> Vec<f64> {
    let rows = weights.chunks(TOKENS).zip(pulls.chunks(TOKENS));
    let norm = |(p, g): (&[f32], &[f32])| {
        let mean: f32 = p.iter().zip(g).map(|(p, g)| p * g).sum();
        p.iter().zip(g).map(|(p, g)| f64::from(p * (g - mean)).powi(2)).sum::<f64>().sqrt()
    };
    rows.map(norm).collect()
}

/// The norm of each row.
fn row_norms(values: &[f32], width: usize) -> Vec<f64> {
    let norm = |row: &[f32]| row.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
    values.chunks(width).map(norm).collect()
}

/// The norm of a whole gradient, from those of its rows.
fn whole(rows: &[f64]) -> f64 {
    rows.iter().map(|norm| norm * norm).sum::<f64>().sqrt()
}

/// The median; of an even number of values the mean of the two in the middle.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |i: usize| sorted.get(i).copied().unwrap_or(f64::NAN);
    f64::midpoint(at(sorted.len().saturating_sub(1) / 2), at(sorted.len() / 2))
}

/// The share of rows whose gradient is next to nothing.
fn vanished(rows: &[f64]) -> f64 {
    rows.iter().filter(|&&norm| norm < VANISHED).count() as f64 / rows.len().max(1) as f64
}

fn write_summary(findings: &mut Findings, table: &Measured) {
    let rows = table.summary().into_iter().map(|line| {
        let numbers =
            [line.interval.mean.to_string(), line.deviation.to_string(), line.interval.count.to_string()];
        line.conditions.into_iter().chain([line.measure]).chain(numbers).collect()
    });
    let header = ["d_k", "scaled", "measure", "mean", "sd", "n"];
    findings.table("attention_robustness_summary", &header, rows.collect());
}

/// The change of a measure (or of its logarithm to base 2) with each doubling of d_k: the slope of each draw, and their mean.
fn per_doubling(table: &Measured, measure: Measure, scaled: bool, transform: fn(f64) -> f64) -> Interval {
    let points =
        WIDTHS.map(|width| ((width as f64).log2(), table.values((width, scaled), measure).map(transform)));
    slope_by_seed(&points)
}

/// The mean of a measure at a width.
fn at(table: &Measured, width: usize, measure: Measure, scaled: bool) -> f64 {
    table.mean((width, scaled), measure).mean
}

/// The share of our draws that are as sharp as the published one.
fn share_above_published(table: &Measured) -> f64 {
    let draws = table.values((256, false), Measure::Largest);
    draws.map(|draw| f64::from(u8::from(draw >= PUBLISHED[0].2))).mean().mean
}

fn judge_sharpness(table: &Measured) -> Verdict {
    let slope = |scaled| per_doubling(table, Measure::Largest, scaled, |weight| weight);
    let spread = |scaled: bool| table.mean((64, scaled), Measure::Logits);
    let finding = format!(
        "At d_k 256 the largest weight is {:.3} unscaled and {:.3} scaled (entropy {:.3} and {:.3}); the published draw's \
         {} is reached by {:.1} % of our draws.",
        at(table, 256, Measure::Largest, false),
        at(table, 256, Measure::Largest, true),
        at(table, 256, Measure::Entropy, false),
        at(table, 256, Measure::Entropy, true),
        PUBLISHED[0].2,
        100.0 * share_above_published(table),
    );
    let checks = vec![
        Check::new("unscaled: largest weight, change per doubling of d_k", slope(false), Bound::Above(0.02))
            .part("without the scale attention sharpens"),
        Check::new(
            "scaled: largest weight, change per doubling of d_k",
            slope(true),
            Bound::Between(-0.02, 0.02),
        )
        .part("with the scale it does not"),
        Check::new("unscaled: sd of the logits at d_k 64", spread(false), Bound::Between(7.5, 8.5))
            .part("without the scale attention sharpens"),
        Check::new("scaled: sd of the logits at d_k 64", spread(true), Bound::Between(0.95, 1.05))
            .part("with the scale it does not"),
    ];
    PUBLISHED.into_iter().fold(Verdict::new("D3", checks, finding), |verdict, (measure, scaled, theirs)| {
        let name = if scaled { "scaled" } else { "unscaled" };
        let what = format!("{measure}, {name}, d_k 256");
        verdict.published(what, theirs, Some(at(table, 256, measure, scaled)), SOURCE)
    })
}

fn judge_gradients(table: &Measured) -> Verdict {
    let falling = |measure| per_doubling(table, measure, false, |norm| norm.max(1e-12).log2());
    // Over draws; a mean of medians would be as heavy-tailed as the mean.
    let typical = |width: usize, measure: Measure, scaled: bool| {
        median(&table.values((width, scaled), measure).values())
    };
    let told = GRADIENTS.map(|(name, [norm, row, share])| {
        format!(
            "of {name} the mean norm goes from {:.1} to {:.1} (scaled: {:.1} to {:.1}), the norm of the median row, median over draws, from {:.2} to {:.3} (scaled: \
             {:.2} to {:.2}), and {:.0} % of rows end below {VANISHED} (scaled: {:.0} %)",
            at(table, 4, norm, false),
            at(table, 256, norm, false),
            at(table, 4, norm, true),
            at(table, 256, norm, true),
            typical(4, row, false),
            typical(256, row, false),
            typical(4, row, true),
            typical(256, row, true),
            100.0 * at(table, 256, share, false),
            100.0 * at(table, 256, share, true),
        )
    });
    let finding = format!("Unscaled, from d_k 4 to 256: {}.", told.join("; "));
    let more = |measure: Measure| {
        let of = |scaled: bool| table.values((256, scaled), measure);
        paired(&of(false), &of(true))
    };
    let mut checks = Vec::new();
    for (name, [norm, ..]) in GRADIENTS {
        let what =
            format!("unscaled: log₂ of the norm of the gradient of {name}, change per doubling of d_k");
        checks.push(Check::new(what, falling(norm), Bound::Below(0.0)).part(MEAN));
    }
    for (name, [_, row, _]) in GRADIENTS {
        let what = format!(
            "unscaled: log₂ of the norm of the median row of the gradient of {name}, change per doubling of d_k"
        );
        checks.push(Check::new(what, falling(row), Bound::Below(0.0)).part(TYPICAL));
    }
    for (name, [.., share]) in GRADIENTS {
        let what =
            format!("d_k 256: share of rows of the gradient of {name} below {VANISHED}, unscaled − scaled");
        checks.push(Check::new(what, more(share), Bound::Above(0.1)).part(TAIL));
    }
    let growth = |measure: Measure| at(table, 256, measure, false) / at(table, 4, measure, false);
    let (scores, q) = (growth(Measure::OfScores), growth(Measure::OfQ));
    Verdict::new("D4", checks, finding).because(|checks| {
        let grows = format!(
            "The softmax saturates: the gradient of the scores shrinks to {scores:.2} of its norm. But the gradient of Q is that of the \
             scores times K, whose norm grows as √d_k, and the scale would divide it by √d_k: without the scale its norm changes by a factor \
             of {q:.2} on average. The rows that are not saturated carry it."
        );
        those_that_apply([
            (scores < 1.0 && q > 1.0, grows.as_str()),
            (
                checks[..3].iter().any(Check::fails) && !(scores < 1.0 && q > 1.0),
                "Without the scale the gradients grow with d_k on average.",
            ),
            (checks[3..6].iter().any(Check::fails), "The typical row's gradient does not fall with d_k."),
            (checks[6..].iter().any(Check::fails), "Hardly more rows vanish than with the scale."),
        ])
    })
}

/// The parts of D4.
const MEAN: &str = "gradients fall on average";
const TYPICAL: &str = "the typical row's gradient falls";
const TAIL: &str = "many rows vanish";

/// The files that D5 names: tables with their columns, and pictures.
const TABLES: [(&str, &[&str]); 2] = [
    (
        "attention_sweep_results.csv",
        &["d_k", "scaled", "seed", "mean_max_weight", "mean_entropy", "grad_norm_q", "grad_norm_k"],
    ),
    ("attention_robustness_summary.csv", &["d_k", "scaled", "measure", "mean", "sd", "n"]),
];
const PICTURES: [&str; 2] = ["attention_heatmap_gallery.png", "gradient_norms_vs_dk.png"];

/// Reads back the files that were written.
fn judge_files(folder: &Path, findings: &Findings) -> Verdict {
    let expected = |name: &str| {
        let table = findings.tables.iter().find(|table| format!("{}.csv", table.name) == name);
        table.map_or(0, |table| table.rows.len())
    };
    let tables =
        TABLES.map(|(name, columns)| (name, table_is_whole(&folder.join(name), columns, expected(name))));
    let pictures = PICTURES.map(|name| (name, picture_is_whole(&folder.join(name))));
    let files: Vec<(&str, bool)> = tables.into_iter().chain(pictures).collect();
    let names = |whole: bool| -> Vec<&str> {
        files.iter().filter(|(_, found)| *found == whole).map(|(name, _)| *name).collect()
    };
    let finding = match names(false)[..] {
        [] => format!("{} were written and read back.", names(true).join(", ")),
        _ => format!("These could not be read back as they should be: {}.", names(false).join(", ")),
    };
    let count = exact(names(true).len() as f64);
    let check = Check::new("how many of the four files can be read back", count, Bound::Above(3.5));
    Verdict::new("D5", vec![check], finding)
}

/// Whether a table has these columns, so many rows, and a number in every cell that should have one.
fn table_is_whole(path: &Path, columns: &[&str], rows: usize) -> bool {
    let Ok(text) = std::fs::read_to_string(path) else { return false };
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let number = |(column, cell): (&&str, &&str)| {
        ["scaled", "measure"].contains(column) || cell.parse::<f64>().is_ok_and(f64::is_finite)
    };
    let whole = |line: &Vec<&str>| line.len() == columns.len() && columns.iter().zip(line).all(number);
    lines.next().as_deref() == Some(columns)
        && rows > 0
        && lines.clone().count() == rows
        && lines.all(|line| whole(&line))
}

/// Whether a picture can be decoded, and shows more than one colour.
fn picture_is_whole(path: &Path) -> bool {
    let decoded = || {
        let mut reader =
            png::Decoder::new(std::io::BufReader::new(std::fs::File::open(path).ok()?)).read_info().ok()?;
        let mut pixels = vec![0; reader.output_buffer_size()?];
        reader.next_frame(&mut pixels).ok()?;
        Some(pixels)
    };
    decoded().is_some_and(|pixels| pixels.iter().any(|value| *value != pixels[0]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;
    use crate::figure::{Axis, Chart, Picture};

    /// A value for each width, scaled or not.
    type Rule = fn(f64, bool) -> f64;

    /// Measurements as they would be if a measure followed a rule.
    fn planted(measures: &[(Measure, Rule)]) -> Measured {
        let mut table = Table::new();
        for width in WIDTHS {
            for scaled in [false, true] {
                for seed in 0..5 {
                    for (measure, rule) in measures {
                        let value = rule(width as f64, scaled) * (1.0 + 0.001 * seed as f64);
                        table.add((width, scaled), seed, measure, value);
                    }
                }
            }
        }
        table
    }

    #[test]
    fn the_verdict_on_sharpness_follows_the_data() {
        let logits: Rule = |d, scaled| if scaled { 1.0 } else { d.sqrt() };
        let sharpens: Rule = |d, scaled| if scaled { 0.36 } else { 0.4 + 0.07 * d.log2() };
        let steady: Rule = |_, _| 0.36;
        let of = |rule| judge_sharpness(&planted(&[(Measure::Logits, logits), (Measure::Largest, rule)]));
        assert_eq!(of(sharpens).outcome, Outcome::Holds);
        let steady = of(steady);
        assert_eq!((steady.outcome, steady.parts[0].outcome), (Outcome::InPart, Outcome::Fails));
    }

    #[test]
    fn the_verdict_on_gradients_follows_the_data() {
        let vanish: Rule = |d, scaled| if scaled { 4.0 } else { 4.0 / d };
        let grow: Rule = |d, scaled| if scaled { 4.0 } else { d.sqrt() };
        let (many, few): (Rule, Rule) = (|_, scaled| if scaled { 0.0 } else { 0.4 }, |_, _| 0.02);
        let of = |mean: Rule, row: Rule, share: Rule| {
            let all = GRADIENTS.iter().flat_map(|(_, [norm, typical, vanished])| {
                let mean = if *norm == Measure::OfScores { vanish } else { mean };
                [(*norm, mean), (*typical, row), (*vanished, share)]
            });
            judge_gradients(&planted(&all.collect::<Vec<_>>()))
        };
        assert_eq!(of(vanish, vanish, many).outcome, Outcome::Holds);
        let heavy = of(grow, vanish, many);
        assert_eq!(heavy.outcome, Outcome::InPart);
        let parts: Vec<_> = heavy.parts.iter().map(|part| (part.name.as_str(), part.outcome)).collect();
        assert_eq!(parts, [(MEAN, Outcome::Fails), (TYPICAL, Outcome::Holds), (TAIL, Outcome::Holds)]);
        assert!(
            heavy.why.is_some_and(|why| why.contains("shrinks to 0.02") && why.contains("a factor of 8.00"))
        );
        assert_eq!(of(grow, grow, few).outcome, Outcome::Fails);
    }

    #[test]
    fn the_median_of_an_even_number_of_values_is_between_two() {
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0, 2.0, 3.0])), (2.0, 2.5));
        assert!(median(&[]).is_nan());
        assert_eq!((whole(&[3.0, 4.0]), vanished(&[0.5, 0.001])), (5.0, 0.5));
    }

    #[test]
    fn the_gradient_of_the_scores_is_that_of_the_tape() -> Result<()> {
        // With the identity for K, the gradient of Q is that of the scores.
        let key = Key::new(3);
        let q = Tensor::new(&key.site("q").normal(TOKENS * TOKENS, 1.0), [TOKENS, TOKENS])?.tracked();
        let mut identity = vec![0.0; TOKENS * TOKENS];
        (0..TOKENS).for_each(|i| identity[i * TOKENS + i] = 1.0);
        let k = Tensor::new(&identity, [TOKENS, TOKENS])?;
        let v = Tensor::new(&key.site("v").normal(TOKENS * 4, 1.0), [TOKENS, 4])?;
        let direction = Tensor::new(&key.site("direction").normal(TOKENS * 4, 1.0), [TOKENS, 4])?;
        let (output, weights) = scaled_dot_product(&q, &k, &v, None, Scale::None)?;
        let gradients = output.multiply(&direction)?.sum_all()?.backward()?;
        let pulls = direction.matmul_transposed(&v, false, true)?;
        let ours = score_gradient_rows(&weights.values(), &pulls.values());
        let theirs = row_norms(&gradients.get(&q).unwrap().values(), TOKENS);
        for (ours, theirs) in ours.iter().zip(theirs) {
            assert!((ours - theirs).abs() < 1e-5 * theirs.max(1.0), "{ours} {theirs}");
        }
        Ok(())
    }

    #[test]
    fn files_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut findings = Findings::default();
        for (name, columns) in TABLES {
            let row: Vec<String> = columns.iter().map(|_| "1".to_owned()).collect();
            findings.table(name.trim_end_matches(".csv"), columns, vec![row; 3]);
        }
        let chart = || Chart::new(Axis::linear("x"), Axis::linear("y"));
        for name in PICTURES {
            findings.figure(name.trim_end_matches(".png"), "", Picture::new("").panel(chart()));
        }
        let write = || {
            for table in &findings.tables {
                let path = folder.path().join(format!("{}.csv", table.name));
                crate::experiment::write_csv(&path, table.header.clone(), table.rows.iter().cloned())
                    .unwrap();
            }
            for figure in &findings.figures {
                figure.picture.write(&folder.path().join(format!("{}.png", figure.name))).unwrap();
            }
        };
        write();
        assert_eq!(judge_files(folder.path(), &findings).outcome, Outcome::Holds);
        for name in TABLES.map(|(name, _)| name).into_iter().chain(PICTURES) {
            let path = folder.path().join(name);
            let whole = std::fs::read(&path).unwrap();
            std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
            assert_eq!(judge_files(folder.path(), &findings).outcome, Outcome::Fails, "half of {name}");
            std::fs::remove_file(&path).unwrap();
            assert_eq!(judge_files(folder.path(), &findings).outcome, Outcome::Fails, "without {name}");
            write();
        }
    }
}
