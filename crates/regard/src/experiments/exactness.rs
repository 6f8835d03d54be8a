//! Is attention from scratch exact: against PyTorch, behind masks, and with huge scores?

use super::instruments::largest;
use crate::experiment::{Bound, Check, Data, Experiment, Findings, Lab, Sizes, Table, Verdict, facts};
use crate::figure::{Axis, Chart, ColourScale, Gallery, Matrix, Picture, Series, number};
use crate::statistics::exact;
use anyhow::{Context as _, Result};
use regard_nn::attention::{Scale, scaled_dot_product};
use regard_nn::tensor::ops::{Attention, Projections, attend};
use regard_nn::tensor::random::Key;
use regard_nn::tensor::{BlockMask, Mask, Tensor};
use serde::Deserialize;
use std::sync::Arc;

pub const EXPERIMENT: Experiment = Experiment {
    name: "exactness",
    claims: &["D1", "D2", "D6"],
    question: "Is attention written from scratch exact, behind masks and with huge scores too?",
    prediction: "Output and gradients differ from PyTorch's by rounding alone (below 10⁻⁵). A masked position has a weight of exactly 0, \
        and a fully masked row is all zeros. The naive softmax is no longer finite at some score from 80 to 90 (e^88.72 is the largest \
        32-bit number, and 16 terms are summed), while ours has an error below 10⁻⁶ for scores up to 10³⁰.",
    design: "The same inputs through our step-by-step function, our tiled kernel and PyTorch's \
        scaled_dot_product_attention (values kept from a run of tools/golden_sdpa.py), with 4 to 512 tokens, causal and \
        not. Random scores of growing size through the naive and our softmax, against 64-bit arithmetic.",
    changed: None,
    data: Data::Drawn,
    conditions: &["what", "tokens", "causal"],
    seeds: Sizes::quick(20),
    seconds: Sizes::quick(1.0),
    trains: |_| Ok(Vec::new()),
    run,
};

/// Results of PyTorch; every n-th value of each.
#[derive(Deserialize)]
struct Golden {
    pytorch: String,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    tokens: usize,
    width: usize,
    causal: bool,
    output: Vec<f32>,
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
}

/// What was computed, the number of tokens or the largest score, and whether it was causal.
type Measured = Table<(String, f32, bool)>;

facts! {
    DIFFERENCE_REFERENCE = "difference_reference";
    DIFFERENCE_TILED = "difference_tiled";
    NAIVE_BREAKS = "naive_breaks_at";
}

fn run(lab: &Lab) -> Result<Findings> {
    let (mut findings, mut table) = (Findings::default(), Table::new());
    against_pytorch(&mut findings, &mut table)?;
    behind_masks(&mut findings, &mut table)?;
    draw_masks(&mut findings)?;
    huge_scores(&mut findings, &mut table, &lab.seeds())?;
    findings.finish(lab, table)
}

/// The inputs of the golden file: multiples of 2⁻¹⁵ from the same generator.
fn inputs(tokens: usize, width: usize, seed: u64) -> Result<Tensor> {
    let mut state = seed;
    let values: Vec<f32> = (0..tokens * width)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 47) as f32 / 32_768.0 - 2.0
        })
        .collect();
    Ok(Tensor::new(&values, [tokens, width])?)
}

/// Results by name: output, and the gradients of query, key and value.
type Results = [(&'static str, Tensor); 4];

fn step_by_step(case: &Case) -> Result<Results> {
    let Case { tokens, width, causal, .. } = *case;
    let input = |seed| inputs(tokens, width, seed);
    let (q, k, v) = (input(1)?.tracked(), input(2)?.tracked(), input(3)?.tracked());
    let mask = causal.then(|| Mask::from_fn([tokens, tokens], |at| at[1] <= at[0]));
    let (output, _) = scaled_dot_product(&q, &k, &v, mask.as_ref(), Scale::InverseRoot)?;
    results(&output, &input(4)?, [&q, &k, &v])
}

fn tiled(case: &Case) -> Result<Results> {
    let Case { tokens, width, causal, .. } = *case;
    let input = |seed| Ok::<_, anyhow::Error>(inputs(tokens, width, seed)?.reshape([1, tokens, 1, width])?);
    let (q, k, v) = (input(1)?.tracked(), input(2)?.tracked(), input(3)?.tracked());
    let rules = Attention::scaled(Scale::InverseRoot.factor(width));
    let rules = if causal { rules.causal() } else { rules };
    let output = attend(Projections::Separate { query: &q, key: &k, value: &v }, &rules)?.output;
    results(&output, &input(4)?, [&q, &k, &v])
}

fn results(output: &Tensor, direction: &Tensor, [q, k, v]: [&Tensor; 3]) -> Result<Results> {
    let gradients = output.multiply(direction)?.sum_all()?.backward()?;
    let of = |x: &Tensor| gradients.get(x).context("a gradient is missing");
    Ok([("output", output.detach()), ("query", of(q)?), ("key", of(k)?), ("value", of(v)?)])
}

fn against_pytorch(findings: &mut Findings, table: &mut Measured) -> Result<()> {
    let golden: Golden = serde_json::from_str(include_str!("sdpa.json"))?;
    let mut worst = [0.0_f64; 2];
    for case in &golden.cases {
        let paths = [("step by step", step_by_step(case)?), ("tiled", tiled(case)?)];
        for (worst, (path, results)) in worst.iter_mut().zip(paths) {
            for (name, ours) in results {
                let theirs = match name {
                    "output" => &case.output,
                    "query" => &case.query,
                    "key" => &case.key,
                    _ => &case.value,
                };
                let error = difference(&ours, theirs);
                *worst = worst.max(error);
                table.add(
                    (format!("{path}: {name}"), case.tokens as f32, case.causal),
                    0,
                    "difference",
                    error,
                );
            }
        }
    }
    let finding = format!(
        "Over {} cases of up to {} tokens, sampled values of outputs and gradients differ from PyTorch {}'s by at most \
         {} (step by step) and {} (tiled).",
        golden.cases.len(),
        golden.cases.iter().map(|case| case.tokens).max().unwrap_or(0),
        golden.pytorch,
        number(worst[0]),
        number(worst[1]),
    );
    findings.fact(DIFFERENCE_REFERENCE, worst[0]);
    findings.fact(DIFFERENCE_TILED, worst[1]);
    findings.verdicts.push(judge_agreement(worst, finding));
    Ok(())
}

/// The largest difference from the values that were kept: about 64, evenly spread. Infinite if there are not as many.
fn difference(ours: &Tensor, kept: &[f32]) -> f64 {
    let stride = (ours.count() / 64).max(1);
    let values = ours.values();
    let ours = values.iter().step_by(stride);
    if ours.len() != kept.len() {
        return f64::INFINITY;
    }
    largest(ours.zip(kept).map(|(a, b)| f64::from((a - b).abs())))
}

fn judge_agreement([by_step, tiled]: [f64; 2], finding: String) -> Verdict {
    let checks = vec![
        Check::new("largest difference from PyTorch, step by step", exact(by_step), Bound::Below(1e-5)),
        Check::new("largest difference from PyTorch, tiled", exact(tiled), Bound::Below(1e-5)),
    ];
    Verdict::new("D1", checks, finding)
}

fn judge_masks(masked: usize, leaks: usize, blind: usize, bad: usize) -> Verdict {
    let none = |what: &str, count: usize| Check::new(what, exact(count as f64), Bound::Below(0.5));
    let checks = vec![
        none("weights of masked positions that are not exactly 0", leaks),
        none("values of a fully masked row that are not exactly 0", blind),
        none("gradients that are not finite", bad),
    ];
    let finding = format!(
        "{} of {masked} masked weights are exactly 0. A fully masked row has {blind} values that are not 0, in its output and its \
         gradient, step by step and tiled; {bad} values of the gradients of Q, K and V are not finite.",
        masked.saturating_sub(leaks),
    );
    Verdict::new("D2", checks, finding)
}

/// Attention in tiles behind a mask: (tokens, width), as the step-by-step form gives it.
fn tiled_behind(mask: &Mask, inputs: [&Tensor; 3]) -> Result<Tensor> {
    let (tokens, width) = (inputs[0].shape()[0], inputs[0].shape()[1]);
    let [query, key, value] = inputs.map(|input| input.reshape([1, tokens, 1, width]));
    let mut rules = Attention::scaled(Scale::InverseRoot.factor(width));
    rules.allowed.blocks = Some(Arc::new(BlockMask::from_mask(mask)?));
    let projections = Projections::Separate { query: &query?, key: &key?, value: &value? };
    Ok(attend(projections, &rules)?.output.reshape([tokens, width])?)
}

fn behind_masks(findings: &mut Findings, table: &mut Measured) -> Result<()> {
    let tokens = 16;
    let input = |seed| inputs(tokens, 8, seed);
    // Row 5 is fully masked; the others attend to a pseudo-random half.
    let visible = |row: usize, column: usize| row != 5 && (row * 7 + column * 5) % 11 < 6;
    let mask = Mask::from_fn([tokens, tokens], |at| visible(at[0], at[1]));
    let [q, k, v] = [input(1)?.tracked(), input(2)?.tracked(), input(3)?.tracked()];
    let (output, weights) = scaled_dot_product(&q, &k, &v, Some(&mask), Scale::InverseRoot)?;
    let tiled = tiled_behind(&mask, [&q, &k, &v])?;
    let weights = weights.values();
    let hidden = |i: &usize| !visible(i / tokens, i % tokens);
    let leaks = (0..weights.len()).filter(hidden).filter(|&i| weights[i] != 0.0).count();
    let row = |x: &Tensor| x.values().chunks(8).nth(5).map(<[f32]>::to_vec).unwrap_or_default();
    let (mut blind, mut bad) = (0, 0);
    for output in [&output, &tiled] {
        let gradients = output.sum_all()?.backward()?;
        let gradients = [&q, &k, &v].map(|input| gradients.get(input).context("a gradient is missing"));
        let [of_q, of_k, of_v] = gradients;
        let gradients = [of_q?, of_k?, of_v?];
        blind += row(output).iter().chain(&row(&gradients[0])).filter(|value| **value != 0.0).count();
        bad += gradients.iter().flat_map(Tensor::to_vec).filter(|value| !value.is_finite()).count();
    }
    for (what, count) in [("weights", leaks), ("blind row", blind), ("gradients not finite", bad)] {
        table.add((what.to_owned(), tokens as f32, false), 0, "not zero", count as f64);
    }
    findings.verdicts.push(judge_masks((0..weights.len()).filter(hidden).count(), leaks, blind, bad));
    Ok(())
}

/// The largest error of each softmax; nothing if it was not finite.
struct Softmax {
    naive: Option<f64>,
    ours: Option<f64>,
}

const MAGNITUDES: [f32; 12] = [1.0, 3.0, 10.0, 30.0, 60.0, 80.0, 88.0, 89.0, 100.0, 1e3, 1e10, 1e30];

/// The largest errors over the seeds, for scores up to a magnitude.
fn softmax_errors((index, magnitude): (usize, f32), seeds: &[u64]) -> Result<Softmax> {
    let mut errors = Softmax { naive: Some(0.0), ours: Some(0.0) };
    for &seed in seeds {
        let key = Key::new(seed).site("scores").step(index as u64);
        let mut scores = key.uniforms(16, -magnitude, magnitude);
        scores[0] = magnitude;
        let exact = softmax_f64(&scores);
        let exponentials: Vec<f32> = scores.iter().map(|score| score.exp()).collect();
        let sum: f32 = exponentials.iter().sum();
        let naive: Vec<f32> = exponentials.iter().map(|value| value / sum).collect();
        let ours = Tensor::new(&scores, [1, 16])?.softmax()?.to_vec();
        errors.naive = worse(errors.naive, &naive, &exact);
        errors.ours = worse(errors.ours, &ours, &exact);
    }
    Ok(errors)
}

fn huge_scores(findings: &mut Findings, table: &mut Measured, seeds: &[u64]) -> Result<()> {
    let mut worst: Vec<Softmax> = Vec::new();
    for (i, magnitude) in MAGNITUDES.into_iter().enumerate() {
        let errors = softmax_errors((i, magnitude), seeds)?;
        for (name, error) in [("naive", errors.naive), ("ours", errors.ours)] {
            table.add((name.to_owned(), magnitude, false), 0, "error", error.unwrap_or(f64::NAN));
        }
        worst.push(errors);
    }
    let broken = MAGNITUDES.iter().zip(&worst).find(|(_, error)| error.naive.is_none());
    let largest = worst.iter().map(|error| error.ours.unwrap_or(f64::INFINITY)).fold(0.0, f64::max);
    let breaks = broken.map_or(f64::INFINITY, |(&magnitude, _)| f64::from(magnitude));
    findings.verdicts.push(judge_softmax(breaks, largest));
    findings.fact(NAIVE_BREAKS, breaks);
    let curve = |name: &str, of: fn(&Softmax) -> Option<f64>| {
        let points = MAGNITUDES.iter().zip(&worst).take(10);
        let points = points.map(|(&x, error)| (f64::from(x), of(error).map_or(f64::NAN, |e| e.max(1e-9))));
        Series::new(name).points(points.collect::<Vec<_>>())
    };
    let chart = Chart::new(Axis::log("largest score"), Axis::log("largest error of a weight"))
        .series(curve("naive", |error| error.naive))
        .series(curve("with the maximum subtracted", |error| error.ours))
        .upright(88.72, "overflow of eˣ");
    findings.figure(
        "softmax_error",
        "The largest error of a weight against 64-bit arithmetic. The naive curve ends where its result is no longer a number.",
        Picture::new("The softmax, naive and with the maximum subtracted").panel(chart),
    );
    Ok(())
}

/// The weights of equal scores behind the most common masks.
fn draw_masks(findings: &mut Findings) -> Result<()> {
    /// Whether a query may attend to a key.
    type May<'a> = &'a dyn Fn(usize, usize) -> bool;
    const WORDS: usize = 8;
    const PADDING: usize = 3;
    let scores = Tensor::zeros([WORDS, WORDS]);
    let empty = Gallery::new(3, ColourScale::sequential("weight").range(0.0, 1.0)).side(150.0);
    let read = |key: usize| key < WORDS - PADDING;
    let masks: [(&str, May); 3] = [
        ("causal", &|query, key| key <= query),
        ("padding", &|_, key| read(key)),
        ("both", &|query, key| key <= query && read(key)),
    ];
    let mut gallery = empty;
    for (name, may) in masks {
        let allowed: Vec<bool> = (0..WORDS * WORDS).map(|i| may(i / WORDS, i % WORDS)).collect();
        let weights = scores.softmax_masked(&Mask::new(&allowed, [WORDS, WORDS])?)?.to_vec();
        gallery =
            gallery.masked_map(name, Matrix::new(WORDS, WORDS, weights)?, |row, column| !may(row, column));
    }
    findings.figure(
        "masks",
        format!(
            "The weights of {WORDS} words with equal scores, behind a causal mask, behind one that hides {PADDING} padding positions, and \
             behind both. Rows attend to columns; hatched: masked."
        ),
        Picture::new("Attention masks").panel(gallery),
    );
    Ok(())
}

fn judge_softmax(breaks: f64, largest: f64) -> Verdict {
    let checks = vec![
        Check::new(
            "score at which the naive softmax is no longer finite",
            exact(breaks),
            Bound::Between(80.0, 90.0),
        ),
        Check::new("largest error of ours, scores up to 10³⁰", exact(largest), Bound::Below(1e-6)),
    ];
    let finding = format!(
        "The naive softmax is not finite from scores of {breaks}; with the row's maximum subtracted the largest error is \
         {} up to scores of 10³⁰.",
        number(largest)
    );
    Verdict::new("D6", checks, finding)
}

/// The larger of an error and that of some weights; nothing once a weight was not finite.
fn worse(error: Option<f64>, weights: &[f32], exact: &[f64]) -> Option<f64> {
    let finite = weights.iter().all(|weight| weight.is_finite());
    let errors = weights.iter().zip(exact).map(|(weight, exact)| (f64::from(*weight) - exact).abs());
    error.filter(|_| finite).map(|error| errors.fold(error, f64::max))
}

fn softmax_f64(scores: &[f32]) -> Vec<f64> {
    let highest = scores.iter().map(|&score| f64::from(score)).fold(f64::NEG_INFINITY, f64::max);
    let exponentials: Vec<f64> = scores.iter().map(|&score| (f64::from(score) - highest).exp()).collect();
    let sum: f64 = exponentials.iter().sum();
    exponentials.into_iter().map(|value| value / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_that_is_there_is_seen() {
        let case = Case {
            tokens: 4,
            width: 8,
            causal: false,
            output: vec![],
            query: vec![],
            key: vec![],
            value: vec![],
        };
        let [(_, output), ..] = step_by_step(&case).unwrap();
        let mut kept = output.to_vec();
        assert_eq!(difference(&output, &kept), 0.0);
        kept[31] += 0.25;
        assert_eq!(difference(&output, &kept), 0.25);
        kept[3] = f32::NAN;
        assert_eq!(difference(&output, &kept), f64::INFINITY, "not a number is no agreement");
        assert_eq!(difference(&output, &kept[..31]), f64::INFINITY, "nor are values that are not there");
    }

    #[test]
    fn verdicts_follow_what_was_found() {
        use crate::experiment::Outcome;
        let agreement = |worst| judge_agreement(worst, String::new()).outcome;
        assert_eq!(agreement([1e-6, 2e-6]), Outcome::Holds);
        assert_eq!(agreement([1e-6, 2e-5]), Outcome::Fails);
        assert_eq!(agreement([f64::INFINITY, 1e-6]), Outcome::Fails);
        assert_eq!(judge_masks(9, 0, 0, 0).outcome, Outcome::Holds);
        for (leaks, blind, bad) in [(1, 0, 0), (0, 1, 0), (0, 0, 1)] {
            assert_eq!(judge_masks(9, leaks, blind, bad).outcome, Outcome::Fails);
        }
        assert_eq!(judge_softmax(89.0, 1e-7).outcome, Outcome::Holds);
        assert_eq!(judge_softmax(f64::INFINITY, 1e-7).outcome, Outcome::Fails, "the naive one never breaks");
        assert_eq!(judge_softmax(10.0, 1e-7).outcome, Outcome::Fails, "something else breaks it");
        assert_eq!(judge_softmax(89.0, f64::INFINITY).outcome, Outcome::Fails, "ours breaks");
    }

    #[test]
    fn weights_that_are_no_numbers_are_an_infinite_error() {
        assert_eq!(worse(Some(0.0), &[f32::NAN], &[1.0]), None);
        assert_eq!(worse(None, &[1.0], &[1.0]), None);
        assert_eq!(worse(Some(0.5), &[1.0], &[0.75]), Some(0.5));
    }
}
