//! Why 1/√d_k: attention with and without the scale, as keys and queries get wider.

mod pictures;

use crate::experiment::claims::SOURCES;
use crate::experiment::{
    Bound, Check, Experiment, Findings, Lab, Sizes, Table, Verdict, facts, named, those_that_apply,
};
use crate::statistics::{Interval, deviation, exact, slope_by_seed};
use anyhow::Result;
use regard_nn::attention::{Scale, scaled_dot_product};
use regard_nn::tensor::Tensor;
use regard_nn::tensor::random::Key;
use serde::{Deserialize, Serialize};

pub const EXPERIMENT: Experiment = Experiment {
    name: "scale-sweep",
    claims: &["D3", "D4", "D5"],
    question: "What does dividing the scores by √d_k change as d_k grows?",
    prediction: "Dot products of independent standard normal vectors have standard deviation √d_k. Unscaled, the largest \
        weight therefore grows towards 1 with d_k and the gradients of Q and K fall towards 0; scaled, neither depends on \
        d_k. In numbers: logits at d_k 64 have a deviation within 7.5 to 8.5 unscaled and within 0.95 to 1.05 scaled; with each \
        doubling of d_k the largest weight grows by more than 0.02 unscaled and by less than 0.02 either way scaled; unscaled \
        gradient norms fall with d_k and at 256 are smaller than the scaled ones; and the four files that the claim is about \
        are written.",
    design: "Q, K and V of 8 tokens, every entry standard normal, for d_k of 4, 16, 64 and 256; attention with and without \
        the scale on the same draw. Values are 16 wide throughout, so that nothing but d_k changes. The gradients are those \
        of the output's product with a standard normal matrix. Each draw is a seed.",
    changed: None,
    real_data: None,
    conditions: &["d_k", "scaled"],
    seeds: Sizes::quick(400).standard(2_000).full(10_000),
    seconds: Sizes::quick(1.0).standard(4.0).full(30.0),
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
    }
}

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
    values: [f64; 6],
    /// The weights, of the first draw.
    weights: Vec<f32>,
}

fn run(lab: &Lab) -> Result<Findings> {
    let seeds = lab.seeds().len() as u64;
    let cells: Vec<(usize, bool)> =
        WIDTHS.iter().flat_map(|&width| [(width, false), (width, true)]).collect();
    // A draw takes less time than a part: all draws of a cell are one.
    let inputs: Vec<_> = cells.iter().map(|&(width, scaled)| (width, scaled, seeds)).collect();
    let draws: Vec<Vec<Draw>> = lab.parts("draws", &inputs, |&(width, scaled, seeds)| {
        (0..seeds).map(|seed| draw(width, scaled, seed)).collect()
    })?;
    let (mut table, mut rows) = (Table::new(), Vec::new());
    for (&(width, scaled), draws) in cells.iter().zip(&draws) {
        for (seed, Draw { values, .. }) in (0..).zip(draws) {
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
    findings.verdicts = vec![judge_sharpness(&table), judge_gradients(&table), judge_files(&findings)];
    let mean = |width, measure, kind: Kind| at(&table, width, measure, kind.scaled());
    findings.facts(LARGEST, Kind::ALL, |kind| mean(256, Measure::Largest, kind));
    findings.facts(DEVIATION, Kind::ALL, |kind| mean(64, Measure::Logits, kind));
    findings.facts(GRADIENT_OF_SCORES, [4, 256], |width| mean(width, Measure::OfScores, Kind::Unscaled));
    findings.facts(GRADIENT_OF_Q, Kind::ALL, |kind| mean(256, Measure::OfQ, kind));
    findings.fact(ABOVE_PUBLISHED, share_above_published(&table));
    findings.finish(lab, table)
}

/// One draw of Q, K and V.
fn draw(width: usize, scaled: bool, seed: u64) -> Result<Draw> {
    let key = Key::new(seed).site("scale-sweep").step(width as u64);
    let normal =
        |site: &str, width: usize| Tensor::new(&key.site(site).normal(TOKENS * width, 1.0), [TOKENS, width]);
    let (q, k) = (normal("query", width)?.tracked(), normal("key", width)?.tracked());
    let (v, direction) = (normal("value", VALUE_WIDTH)?, normal("direction", VALUE_WIDTH)?);
    let scale = if scaled { Scale::InverseRoot } else { Scale::None };
    let (output, weights) = scaled_dot_product(&q, &k, &v, None, scale)?;
    let gradients = output.multiply(&direction)?.sum_all()?.backward()?;
    let norm = |x: &Tensor| gradients.get(x).map_or(0.0, |gradient| norm(&gradient.values()));
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
    let entropy = |row: &[f32]| -> f64 {
        row.iter().map(|&p| f64::from(p)).filter(|&p| p > 0.0).map(|p| -p * p.ln()).sum()
    };
    let over_rows = |of: &dyn Fn(&[f32]) -> f64| weights.chunks(TOKENS).map(of).sum::<f64>() / TOKENS as f64;
    Ok(Draw {
        values: [
            over_rows(&|row| f64::from(row.iter().copied().fold(0.0, f32::max))),
            over_rows(&entropy),
            norm(&q),
            norm(&k),
            score_gradient_norm(&weights, &pulls),
            deviation(&logits),
        ],
        weights: if seed == 0 { weights } else { Vec::new() },
    })
}

/// The norm of the gradient of the scores, P ∘ (G − rowsum(P ∘ G)) for weights P and their gradient G: what saturation
/// shrinks.
fn score_gradient_norm(weights: &[f32], pulls: &[f32]) -> f64 {
    let rows = weights.chunks(TOKENS).zip(pulls.chunks(TOKENS));
    let squares = rows.flat_map(|(p, g)| {
        let mean: f32 = p.iter().zip(g).map(|(p, g)| p * g).sum();
        p.iter().zip(g).map(move |(p, g)| f64::from(p * (g - mean)).powi(2))
    });
    squares.sum::<f64>().sqrt()
}

fn norm(values: &[f32]) -> f64 {
    values.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt()
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
        Check::new("unscaled: largest weight, change per doubling of d_k", slope(false), Bound::Above(0.02)),
        Check::new(
            "scaled: largest weight, change per doubling of d_k",
            slope(true),
            Bound::Between(-0.02, 0.02),
        ),
        Check::new("unscaled: sd of the logits at d_k 64", spread(false), Bound::Between(7.5, 8.5)),
        Check::new("scaled: sd of the logits at d_k 64", spread(true), Bound::Between(0.95, 1.05)),
    ];
    PUBLISHED.into_iter().fold(Verdict::new("D3", checks, finding), |verdict, (measure, scaled, theirs)| {
        let name = if scaled { "scaled" } else { "unscaled" };
        let what = format!("{measure}, {name}, d_k 256");
        verdict.published(what, theirs, Some(at(table, 256, measure, scaled)), SOURCE)
    })
}

fn judge_gradients(table: &Measured) -> Verdict {
    let falling = |measure| per_doubling(table, measure, false, |norm| norm.max(1e-12).log2());
    let ratio = |measure: Measure| {
        let of = |scaled: bool| table.values((256, scaled), measure);
        of(false).over(&of(true)).mean()
    };
    // The 5 % quantile of the gradients of Q without the scale.
    let lowest = |width: usize| {
        let mut draws = table.values((width, false), Measure::OfQ).values();
        draws.sort_by(f64::total_cmp);
        draws.get(draws.len() / 20).copied().unwrap_or(f64::NAN)
    };
    let from_to = |measure: Measure, scaled: bool| {
        format!("{:.1} to {:.1}", at(table, 4, measure, scaled), at(table, 256, measure, scaled))
    };
    let finding = format!(
        "From d_k 4 to 256 the gradient norm of the scores goes from {} unscaled (scaled: {}). That of Q goes from {} \
         (scaled: {}): at 256 the unscaled one is {:.2} times the scaled one. One draw in twenty has a gradient of \
         Q below {:.1} at d_k 4, and below {:.1} at 256.",
        from_to(Measure::OfScores, false),
        from_to(Measure::OfScores, true),
        from_to(Measure::OfQ, false),
        from_to(Measure::OfQ, true),
        ratio(Measure::OfQ).mean,
        lowest(4),
        lowest(256),
    );
    let falls = |of: &str| format!("unscaled: log₂ of {of}'s gradient norm per doubling of d_k");
    let compared = |of: &str| format!("{of}'s gradient norm at d_k 256, unscaled ÷ scaled");
    let checks = vec![
        Check::new(falls("Q"), falling(Measure::OfQ), Bound::Below(0.0)),
        Check::new(falls("K"), falling(Measure::OfK), Bound::Below(0.0)),
        Check::new(compared("Q"), ratio(Measure::OfQ), Bound::Below(1.0)),
        Check::new(compared("K"), ratio(Measure::OfK), Bound::Below(1.0)),
    ];
    let growth = |measure: Measure| at(table, 256, measure, false) / at(table, 4, measure, false);
    let (scores, q) = (growth(Measure::OfScores), growth(Measure::OfQ));
    Verdict::new("D4", checks, finding).because(|checks| match scores < 1.0 && q > 1.0 {
        true => format!(
            "The softmax does saturate: the gradient of the scores shrinks to {scores:.2} of its size. But the gradient of Q is that of \
             the scores times K, whose norm grows as √d_k. The scale divides this product by √d_k; without it the gradient of Q grows by a \
             factor of {q:.2}."
        ),
        false => those_that_apply([
            (checks[0].fails() || checks[1].fails(), "Without the scale the gradients grow with d_k."),
            (checks[2].fails() || checks[3].fails(), "They are larger without the scale than with it."),
        ]),
    })
}

fn judge_files(findings: &Findings) -> Verdict {
    let table = |name: &str| findings.tables.iter().any(|table| table.name == name);
    let figure = |name: &str| findings.figures.iter().any(|figure| figure.name == name);
    let files = [
        ("attention_sweep_results.csv", table("attention_sweep_results")),
        ("attention_robustness_summary.csv", table("attention_robustness_summary")),
        ("attention_heatmap_gallery.png", figure("attention_heatmap_gallery")),
        ("gradient_norms_vs_dk.png", figure("gradient_norms_vs_dk")),
    ];
    let names = |there: bool| -> Vec<&str> {
        files.iter().filter(|(_, found)| *found == there).map(|(name, _)| *name).collect()
    };
    let finding = match names(false)[..] {
        [] => format!("{} are written to the experiment's folder.", names(true).join(", ")),
        _ => format!("There is nothing to write to {}.", names(false).join(", ")),
    };
    let count = exact(names(true).len() as f64);
    Verdict::new(
        "D5",
        vec![Check::new("how many of the four files there are", count, Bound::Above(3.5))],
        finding,
    )
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
        assert_eq!(of(steady).outcome, Outcome::Fails);
    }

    #[test]
    fn the_verdict_on_gradients_follows_the_data() {
        let vanish: Rule = |d, scaled| if scaled { 4.0 } else { 4.0 / d };
        let grow: Rule = |d, scaled| if scaled { 4.0 } else { d.sqrt() };
        let of = |rule, scores: Rule| {
            judge_gradients(&planted(&[
                (Measure::OfQ, rule),
                (Measure::OfK, rule),
                (Measure::OfScores, scores),
            ]))
        };
        assert_eq!(of(vanish, vanish).outcome, Outcome::Holds);
        let grown = of(grow, vanish);
        assert_eq!(grown.outcome, Outcome::Fails);
        assert!(
            grown.why.is_some_and(|why| why.contains("shrinks to 0.02") && why.contains("a factor of 8.00"))
        );
        // They vanish, but are still larger than with the scale.
        let large: Rule = |d, scaled| if scaled { 0.001 } else { 4.0 / d };
        let why = of(large, vanish).why;
        assert_eq!(why.as_deref(), Some("They are larger without the scale than with it."));
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
        let ours = score_gradient_norm(&weights.values(), &pulls.values());
        let theirs = norm(&gradients.get(&q).unwrap().values());
        assert!((ours - theirs).abs() < 1e-5 * theirs, "{ours} {theirs}");
        Ok(())
    }

    #[test]
    fn the_verdict_on_files_follows_which_of_them_there_are() {
        let tables = ["attention_sweep_results", "attention_robustness_summary"];
        let pictures = ["attention_heatmap_gallery", "gradient_norms_vs_dk"];
        let without = |missing: &str| {
            let mut findings = Findings::default();
            for name in tables.into_iter().filter(|name| *name != missing) {
                findings.table(name, &["d_k"], vec![vec!["4".to_owned()]]);
            }
            for name in pictures.into_iter().filter(|name| *name != missing) {
                findings.figure(
                    name,
                    "",
                    Picture::new("").panel(Chart::new(Axis::linear("x"), Axis::linear("y"))),
                );
            }
            judge_files(&findings).outcome
        };
        assert_eq!(without("nothing"), Outcome::Holds);
        for missing in tables.into_iter().chain(pictures) {
            assert_eq!(without(missing), Outcome::Fails, "without {missing}");
        }
    }
}
