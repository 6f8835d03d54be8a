//! Why 1/√d_k: attention with and without the scale, as keys and queries grow.

use crate::experiment::Sizes;
use crate::experiment::claims::SOURCES;
use crate::experiment::{Bound, Check, Experiment, Findings, Lab, Measurements, Verdict, those_that_apply};
use crate::figure::{Axis, Chart, ColourScale, Gallery, Histogram, Matrix, Picture, Series};
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
const PUBLISHED: [(&str, bool, f64); 4] = [
    ("mean_max_weight", false, 0.9942),
    ("mean_entropy", false, 0.0296),
    ("mean_max_weight", true, 0.3680),
    ("mean_entropy", true, 1.7256),
];
const SOURCE: &str = SOURCES[3];

#[derive(Serialize, Deserialize)]
struct Draw {
    logit_sd: f64,
    mean_max_weight: f64,
    mean_entropy: f64,
    grad_norm_q: f64,
    grad_norm_k: f64,
    grad_norm_scores: f64,
    weights: Vec<f32>,
}

fn run(lab: &Lab) -> Result<Findings> {
    let seeds = lab.seeds();
    let cells: Vec<(usize, bool)> =
        WIDTHS.iter().flat_map(|&width| [(width, false), (width, true)]).collect();
    let inputs: Vec<(usize, bool, usize)> =
        cells.iter().map(|&(width, scaled)| (width, scaled, seeds.len())).collect();
    let draws: Vec<Vec<Draw>> = lab.parts("draws", &inputs, |&(width, scaled, count)| {
        (0..count as u64).map(|seed| draw(width, scaled, seed)).collect()
    })?;

    let mut findings = Findings::new(&["d_k", "scaled"]);
    let mut rows = Vec::new();
    for (&(width, scaled), draws) in cells.iter().zip(&draws) {
        for (seed, draw) in draws.iter().enumerate() {
            let values = [
                ("mean_max_weight", draw.mean_max_weight),
                ("mean_entropy", draw.mean_entropy),
                ("grad_norm_q", draw.grad_norm_q),
                ("grad_norm_k", draw.grad_norm_k),
                ("grad_norm_scores", draw.grad_norm_scores),
                ("logit_sd", draw.logit_sd),
            ];
            for (measure, value) in values {
                findings.measurements.add(&[&width, &scaled], seed as u64, measure, value);
            }
            let row = [width.to_string(), scaled.to_string(), seed.to_string()];
            rows.push(
                row.into_iter().chain(values[..4].iter().map(|(_, value)| value.to_string())).collect(),
            );
        }
    }
    let columns = ["d_k", "scaled", "seed", "mean_max_weight", "mean_entropy", "grad_norm_q", "grad_norm_k"];
    findings.table("attention_sweep_results", &columns, rows);
    write_summary(&mut findings);
    draw_figures(&mut findings, &cells, &draws);
    findings.verdicts = vec![
        judge_sharpness(&findings.measurements),
        judge_gradients(&findings.measurements),
        judge_files(&findings),
    ];
    for (name, value) in facts(&findings.measurements) {
        findings.fact(name, value);
    }
    Ok(findings)
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
    let rows = || weights.chunks(TOKENS);
    let entropy = |row: &[f32]| -> f64 {
        row.iter().map(|&p| f64::from(p)).filter(|&p| p > 0.0).map(|p| -p * p.ln()).sum()
    };
    let over_rows = |of: &dyn Fn(&[f32]) -> f64| rows().map(of).sum::<f64>() / TOKENS as f64;
    Ok(Draw {
        logit_sd: deviation(&logits),
        mean_max_weight: over_rows(&|row| f64::from(row.iter().copied().fold(0.0, f32::max))),
        mean_entropy: over_rows(&entropy),
        grad_norm_q: norm(&q),
        grad_norm_k: norm(&k),
        grad_norm_scores: score_gradient_norm(&weights, &pulls),
        // Only the first draw of each cell is shown.
        weights: if seed == 0 { weights.clone() } else { Vec::new() },
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

fn write_summary(findings: &mut Findings) {
    let rows = findings.measurements.summary().into_iter().map(|line| {
        let numbers =
            [line.interval.mean.to_string(), line.deviation.to_string(), line.interval.count.to_string()];
        line.conditions.into_iter().chain([line.measure]).chain(numbers).collect()
    });
    let rows = rows.collect();
    findings.table("attention_robustness_summary", &["d_k", "scaled", "measure", "mean", "sd", "n"], rows);
}

fn draw_figures(findings: &mut Findings, cells: &[(usize, bool)], draws: &[Vec<Draw>]) {
    let mut gallery = Gallery::new(WIDTHS.len(), ColourScale::sequential("weight").range(0.0, 1.0))
        .row_titles(vec!["unscaled".into(), "scaled by 1/√dₖ".into()])
        .column_titles(WIDTHS.iter().map(|width| format!("dₖ = {width}")).collect());
    for wanted in [false, true] {
        for (&(_, scaled), draws) in cells.iter().zip(draws) {
            if scaled == wanted
                && let Some(weights) = draws.first().map(|draw| draw.weights.clone())
                && let Ok(matrix) = Matrix::new(TOKENS, TOKENS, weights)
            {
                gallery = gallery.map("", matrix);
            }
        }
    }
    findings.figure(
        "attention_heatmap_gallery",
        "Weights of 8 queries (rows) over 8 keys, one draw a width, with and without the scale.",
        Picture::new("Attention with and without the scale").panel(gallery),
    );

    let series = |measure: &'static str, scaled: bool| {
        let name = if scaled { "scaled by 1/√dₖ" } else { "unscaled" };
        let points: Vec<_> = WIDTHS
            .iter()
            .map(|&width| {
                let values = findings.measurements.values(&[&width, &scaled], measure);
                let (centre, spread) = (values.mean().mean, deviation(&values.values()));
                (width as f64, centre, (centre - spread).max(0.0), centre + spread)
            })
            .collect();
        Series::new(name).intervals(points)
    };
    let chart = |measure, label: &str| {
        Chart::new(Axis::log("dₖ").ticks(WIDTHS.map(|width| width as f64)), Axis::linear(label).from_zero())
            .series(series(measure, false))
            .series(series(measure, true))
            .half()
    };
    let gradients = Picture::new("Gradients against width")
        .subtitle(format!("Mean ± sd over {} draws", draws.first().map_or(0, Vec::len)))
        .columns(2)
        .titled_panel("Q", chart("grad_norm_q", "gradient norm"))
        .titled_panel("K", chart("grad_norm_k", "gradient norm"))
        .titled_panel("scores", chart("grad_norm_scores", "gradient norm"));
    let sharpness = Picture::new("Sharpness against width")
        .subtitle("Mean ± sd over draws of 8 tokens")
        .columns(2)
        .titled_panel("largest weight", chart("mean_max_weight", "mean of the largest weight"))
        .titled_panel(
            "entropy",
            chart("mean_entropy", "mean entropy, nats").level((TOKENS as f64).ln(), "uniform, ln 8"),
        );
    let unscaled = findings.measurements.values(&[&256, &false], "mean_max_weight");
    let histogram = Histogram::new(Axis::linear("mean of the largest weight, unscaled, dₖ = 256"))
        .sample("our draws", &unscaled.values())
        .mark(PUBLISHED[0].2, "published draw");
    findings.figure(
        "gradient_norms_vs_dk",
        "Norms of the gradients of Q, K and the scores for a random direction of the output.",
        gradients,
    );
    findings.figure(
        "sharpness_vs_dk",
        "The mean of each row's largest weight, and the rows' mean entropy.",
        sharpness,
    );
    findings.figure(
        "published_draw",
        "Where the one published draw lies among ours.",
        Picture::new("The published draw among ours").panel(histogram),
    );
}

/// The change of a measure (or of its logarithm to base 2) with each doubling of d_k: the slope of each draw, and their mean.
fn per_doubling(table: &Measurements, measure: &str, scaled: bool, transform: fn(f64) -> f64) -> Interval {
    let points =
        WIDTHS.map(|width| ((width as f64).log2(), table.values(&[&width, &scaled], measure).map(transform)));
    slope_by_seed(&points)
}

/// The mean of a measure at a width.
fn at(table: &Measurements, width: usize, measure: &str, scaled: bool) -> f64 {
    table.mean(&[&width, &scaled], measure).mean
}

/// The share of our draws that are as sharp as the published one.
fn share_above_published(table: &Measurements) -> f64 {
    let draws = table.values(&[&256, &false], "mean_max_weight");
    draws.map(|draw| f64::from(u8::from(draw >= PUBLISHED[0].2))).mean().mean
}

fn judge_sharpness(table: &Measurements) -> Verdict {
    let slope = |scaled| per_doubling(table, "mean_max_weight", scaled, |weight| weight);
    let spread = |scaled: bool| table.mean(&[&64, &scaled], "logit_sd");
    let finding = format!(
        "At d_k 256 the largest weight is {:.3} unscaled and {:.3} scaled (entropy {:.3} and {:.3}); the published draw's \
         {} is reached by {:.1} % of our draws.",
        at(table, 256, "mean_max_weight", false),
        at(table, 256, "mean_max_weight", true),
        at(table, 256, "mean_entropy", false),
        at(table, 256, "mean_entropy", true),
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

fn judge_gradients(table: &Measurements) -> Verdict {
    let falling = |measure| per_doubling(table, measure, false, |norm| norm.max(1e-12).log2());
    let ratio = |measure: &str| {
        let of = |scaled: bool| table.values(&[&256, &scaled], measure);
        of(false).over(&of(true)).mean()
    };
    // Of twenty draws without the scale, how large the smallest gradient of Q is.
    let lowest = |width: usize| {
        let mut draws = table.values(&[&width, &false], "grad_norm_q").values();
        draws.sort_by(f64::total_cmp);
        draws.get(draws.len() / 20).copied().unwrap_or(f64::NAN)
    };
    let from_to = |measure: &str, scaled: bool| {
        format!("{:.1} to {:.1}", at(table, 4, measure, scaled), at(table, 256, measure, scaled))
    };
    let finding = format!(
        "From d_k 4 to 256 the gradient norm of the scores goes from {} unscaled (scaled: {}). That of Q goes from {} \
         (scaled: {}): at 256 the unscaled one is {:.2} times the scaled one. One draw in twenty has a gradient of \
         Q below {:.1} at d_k 4, and below {:.1} at 256.",
        from_to("grad_norm_scores", false),
        from_to("grad_norm_scores", true),
        from_to("grad_norm_q", false),
        from_to("grad_norm_q", true),
        ratio("grad_norm_q").mean,
        lowest(4),
        lowest(256),
    );
    let falls = |of: &str| format!("unscaled: log₂ of {of}'s gradient norm per doubling of d_k");
    let compared = |of: &str| format!("{of}'s gradient norm at d_k 256, unscaled ÷ scaled");
    let checks = vec![
        Check::new(falls("Q"), falling("grad_norm_q"), Bound::Below(0.0)),
        Check::new(falls("K"), falling("grad_norm_k"), Bound::Below(0.0)),
        Check::new(compared("Q"), ratio("grad_norm_q"), Bound::Below(1.0)),
        Check::new(compared("K"), ratio("grad_norm_k"), Bound::Below(1.0)),
    ];
    let growth = |measure: &str| at(table, 256, measure, false) / at(table, 4, measure, false);
    let (scores, q) = (growth("grad_norm_scores"), growth("grad_norm_q"));
    Verdict::new("D4", checks, finding).because(|checks| match scores < 1.0 && q > 1.0 {
        true => format!(
            "The softmax does saturate: the gradient of the scores shrinks to {scores:.2} of what it was. But Q's gradient is that of \
             the scores times K, whose norm grows as √d_k. With the scale that product is divided by √d_k, without it by nothing, and it \
             grows by a factor of {q:.2}."
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

fn facts(table: &Measurements) -> Vec<(&'static str, f64)> {
    vec![
        ("max_unscaled_256", at(table, 256, "mean_max_weight", false)),
        ("max_scaled_256", at(table, 256, "mean_max_weight", true)),
        ("share_above_published", share_above_published(table)),
        ("sd_unscaled_64", at(table, 64, "logit_sd", false)),
        ("sd_scaled_64", at(table, 64, "logit_sd", true)),
        ("gradient_scores_unscaled_4", at(table, 4, "grad_norm_scores", false)),
        ("gradient_scores_unscaled_256", at(table, 256, "grad_norm_scores", false)),
        ("gradient_q_unscaled_256", at(table, 256, "grad_norm_q", false)),
        ("gradient_q_scaled_256", at(table, 256, "grad_norm_q", true)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;

    /// A value for each width, scaled or not.
    type Rule = fn(f64, bool) -> f64;

    /// Measurements as they would be if a measure followed a rule.
    fn planted(measures: &[(&str, Rule)]) -> Measurements {
        let mut table = Measurements::new(&["d_k", "scaled"]);
        for width in WIDTHS {
            for scaled in [false, true] {
                for seed in 0..5 {
                    for (measure, rule) in measures {
                        let value = rule(width as f64, scaled) * (1.0 + 0.001 * seed as f64);
                        table.add(&[&width, &scaled], seed, *measure, value);
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
        let of = |rule| judge_sharpness(&planted(&[("logit_sd", logits), ("mean_max_weight", rule)]));
        assert_eq!(of(sharpens).outcome, Outcome::Holds);
        assert_eq!(of(steady).outcome, Outcome::Fails);
    }

    #[test]
    fn the_verdict_on_gradients_follows_the_data() {
        let vanish: Rule = |d, scaled| if scaled { 4.0 } else { 4.0 / d };
        let grow: Rule = |d, scaled| if scaled { 4.0 } else { d.sqrt() };
        let of = |rule, scores: Rule| {
            judge_gradients(&planted(&[
                ("grad_norm_q", rule),
                ("grad_norm_k", rule),
                ("grad_norm_scores", scores),
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
            let mut findings = Findings::new(&["d_k", "scaled"]);
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
