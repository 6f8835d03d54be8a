//! How sharp is attention whose projections were never trained, and does its width matter?

use super::bag_models::{self as bags, Form};
use super::sentiment_models as sentiment;
use crate::experiment::{
    Bound, Check, Experiment, Findings, Lab, Measurements, Outcome, Verdict, those_that_apply,
};
use crate::figure::{Axis, Chart, ColourScale, Gallery, Matrix, Picture, Series};
use crate::statistics::{Interval, slope_by_seed};
use anyhow::{Result, bail};
use regard_nn::attention::{Scale, scaled_dot_product};
use regard_nn::tensor::Tensor;
use regard_nn::tensor::random::Key;
use serde::{Deserialize, Serialize};

pub const EXPERIMENT: Experiment = Experiment {
    name: "untrained-attention",
    claims: &["A3", "A4"],
    question: "How sharp is attention whose projections were never trained, and does it become sharper with d_k?",
    prediction: "With projections as libraries draw them, the entropy of a word's weights is above 90 % of that of equal weights, \
        whatever d_k. As d_k grows over 2, 4, 8 and 32, what it lacks to equal weights grows by at least 7 % with each doubling \
        (log₂ above 0.1), with the scale 1/√d_k as well as without.",
    design: "Word vectors of 16 dimensions, trained as in `word-vectors`; the first 12 words of test texts; W_Q and W_K drawn \
        anew for every text. Entropy ÷ ln 12, the mean over words and texts, for each seed of the word vectors. Four ways \
        to draw: PyTorch's Linear (uniform within ±1/√16), normal with deviation 1/√16, normal with 0.02 as BERT has it, and \
        plain standard normal, which no library does but which is quickly written by hand.",
    changed: Some(
        "A4 first asked for any fall of the entropy itself. Near equal weights that fall is in the fourth digit whatever happens, so \
         after the first run the measure became what the entropy lacks to equal weights, on a logarithmic scale, and a smallest \
         effect of 7 % was set. At standard size A3 and A4 got fifteen seeds instead of five.",
    ),
    real_data: Some("IMDb (aclImdb_v1.tar.gz) or a folder with train.tsv and test.tsv"),
    seconds: [1.5, 6.0, 60.0],
    run,
};

/// The widths of the source.
const WIDTHS: [usize; 4] = [2, 4, 8, 32];
/// So many words are read.
const WORDS: usize = 12;

/// How a projection is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Drawn {
    Linear,
    Normal,
    Small,
    Standard,
}

impl Drawn {
    const ALL: [Drawn; 4] = [Drawn::Linear, Drawn::Normal, Drawn::Small, Drawn::Standard];

    fn name(self) -> &'static str {
        match self {
            Drawn::Linear => "PyTorch's Linear",
            Drawn::Normal => "normal, 1/√16",
            Drawn::Small => "normal, 0.02",
            Drawn::Standard => "normal, 1",
        }
    }

    /// Whether a library draws like this, and so whether the claim is about it.
    fn is_usual(self) -> bool {
        self != Drawn::Standard
    }

    fn projection(self, key: Key, inputs: usize, outputs: usize) -> Result<Tensor> {
        let (count, root) = (inputs * outputs, (inputs as f32).sqrt());
        let values = match self {
            Drawn::Linear => key.uniforms(count, -1.0 / root, 1.0 / root),
            Drawn::Normal => key.normal(count, 1.0 / root),
            Drawn::Small => key.normal(count, 0.02),
            Drawn::Standard => key.normal(count, 1.0),
        };
        Ok(Tensor::new(&values, [inputs, outputs])?)
    }
}

/// A way to draw, a width, and whether scores are scaled.
type Cell = (Drawn, usize, bool);

fn cells() -> Vec<Cell> {
    let scales = |drawn, width| [true, false].map(|scaled| (drawn, width, scaled));
    let widths = |drawn| WIDTHS.into_iter().flat_map(move |width| scales(drawn, width));
    Drawn::ALL.into_iter().flat_map(widths).collect()
}

#[derive(Serialize, Deserialize)]
struct Run {
    /// Of each of [`cells`]: the means over texts of relative entropy and of the largest weight.
    cells: Vec<(f64, f64)>,
    /// The share of single texts in which the widest attention is sharper than the narrowest, scaled, PyTorch's Linear.
    sharper: f64,
    /// One text's words and its weights in each cell of PyTorch's Linear.
    example: Option<(Vec<String>, Vec<Vec<f32>>)>,
}

fn run(lab: &Lab) -> Result<Findings> {
    let seeds = lab.seeds_of_small_models();
    let texts = sentiment::test_texts(lab)?;
    let runs = lab.parts("runs", &seeds, |&seed| read(lab, seed, &texts))?;
    let mut findings = Findings::new(&["drawn", "d_k", "scaled"]);
    for (&seed, run) in seeds.iter().zip(&runs) {
        for ((drawn, width, scaled), &(entropy, largest)) in cells().into_iter().zip(&run.cells) {
            let conditions: [&dyn std::fmt::Display; 3] = [&drawn.name(), &width, &scaled];
            findings.measurements.add(&conditions, seed, "relative entropy", entropy);
            findings.measurements.add(&conditions, seed, "largest weight", largest);
        }
        findings.measurements.add(
            &[&"", &"", &""],
            seed,
            "texts in which d_k 32 is sharper than 2",
            run.sharper,
        );
    }
    draw(&mut findings, runs.iter().find_map(|run| run.example.as_ref()));
    findings.verdicts = vec![judge_uniform(&findings.measurements), judge_width(&findings.measurements)];
    for drawn in Drawn::ALL {
        for scaled in [true, false] {
            let kind = if scaled { "scaled" } else { "unscaled" };
            for width in [WIDTHS[0], WIDTHS[3]] {
                let value = entropy(&findings.measurements, (drawn, width, scaled)).mean;
                findings.fact(format!("relative entropy, {}, {kind}, d_k {width}", drawn.name()), value);
            }
        }
    }
    let sharper =
        findings.measurements.mean(&[&"", &"", &""], "texts in which d_k 32 is sharper than 2").mean;
    findings.fact("share of single draws in which d_k 32 is sharper than 2", sharper);
    Ok(findings)
}

fn read(lab: &Lab, seed: u64, texts: &[(String, usize)]) -> Result<Run> {
    let opened = bags::trained(lab, Form::PLAIN, seed)?.open()?;
    let (table, tokenizer) = (bags::vectors(&opened)?, opened.tokenizer()?);
    let most = lab.by_size(10, 300, 800, 2_000);
    let cells = cells();
    let mut sums = vec![(0.0, 0.0); cells.len()];
    let (mut read, mut sharper, mut example) = (0_u32, 0_u32, None);
    for (index, (text, _)) in texts.iter().enumerate().take(most) {
        let Some((words, ids)) = bags::first_words(tokenizer, text, WORDS)? else { continue };
        let x = bags::rows(table, &ids)?;
        let key = Key::new(seed).site("untrained-attention").step(index as u64);
        let seen: Vec<Vec<f32>> = cells.iter().map(|&cell| weights(&x, cell, key)).collect::<Result<_>>()?;
        let sharpness: Vec<(f64, f64)> = seen.iter().map(|weights| shape(weights)).collect();
        for (sum, one) in sums.iter_mut().zip(&sharpness) {
            *sum = (sum.0 + one.0, sum.1 + one.1);
        }
        let of = |wanted: Cell| {
            cells.iter().zip(&sharpness).find(|(cell, _)| **cell == wanted).map(|(_, one)| one.0)
        };
        let ends = [WIDTHS[0], WIDTHS[3]].map(|width| of((Drawn::Linear, width, true)).unwrap_or(1.0));
        sharper += u32::from(ends[1] < ends[0]);
        read += 1;
        if example.is_none() && seed == 0 {
            let linear = cells.iter().zip(seen).filter(|((drawn, ..), _)| *drawn == Drawn::Linear);
            example = Some((words, linear.map(|(_, weights)| weights).collect()));
        }
    }
    if read == 0 {
        bail!("no test text has {WORDS} words");
    }
    let share = |sum: f64| sum / f64::from(read);
    Ok(Run {
        cells: sums.into_iter().map(|(entropy, largest)| (share(entropy), share(largest))).collect(),
        sharper: share(f64::from(sharper)),
        example,
    })
}

/// The weights of each word over all words. Scaled and unscaled attention have the same projections.
fn weights(x: &Tensor, (drawn, width, scaled): Cell, key: Key) -> Result<Vec<f32>> {
    let key = key.site(drawn.name()).site(&width.to_string());
    let project =
        |name: &str| anyhow::Ok(x.matmul(&drawn.projection(key.site(name), x.shape().last(), width)?)?);
    let scale = if scaled { Scale::InverseRoot } else { Scale::None };
    let (_, weights) = scaled_dot_product(&project("query")?, &project("key")?, x, None, scale)?;
    Ok(weights.to_vec())
}

/// The mean over queries of the entropy ÷ that of equal weights, and of the largest weight.
fn shape(weights: &[f32]) -> (f64, f64) {
    let entropy = |row: &[f32]| -> f64 {
        row.iter().map(|&p| f64::from(p)).filter(|&p| p > 0.0).map(|p| -p * p.ln()).sum()
    };
    let rows = weights.chunks(WORDS);
    let sums = rows.fold((0.0, 0.0), |sums, row| {
        let largest = row.iter().copied().fold(0.0, f32::max);
        (sums.0 + entropy(row) / (WORDS as f64).ln(), sums.1 + f64::from(largest))
    });
    (sums.0 / WORDS as f64, sums.1 / WORDS as f64)
}

fn entropy(table: &Measurements, (drawn, width, scaled): Cell) -> Interval {
    table.mean(&[&drawn.name(), &width, &scaled], "relative entropy")
}

/// How log₂ of what the entropy lacks to that of equal weights changes with each doubling of d_k: the slope of each seed, and
/// their mean. A change of size does not depend on how near to uniform everything is.
fn per_doubling(table: &Measurements, drawn: Drawn, scaled: bool) -> Interval {
    let lack = |entropy: f64| (1.0 - entropy).max(1e-12).log2();
    let points = WIDTHS.map(|width| {
        let entropy = table.values(&[&drawn.name(), &width, &scaled], "relative entropy");
        ((width as f64).log2(), entropy.map(lack))
    });
    slope_by_seed(&points)
}

fn draw(findings: &mut Findings, example: Option<&(Vec<String>, Vec<Vec<f32>>)>) {
    let chart = |scaled: bool| {
        let empty = Chart::new(
            Axis::log("dₖ").ticks(WIDTHS.map(|width| width as f64)),
            Axis::log("1 − entropy ÷ ln 12").range(1e-8, 1.0),
        );
        Drawn::ALL.into_iter().fold(empty.half(), |chart, drawn| {
            let points = WIDTHS.map(|width| {
                let Interval { mean, low, high, .. } =
                    entropy(&findings.measurements, (drawn, width, scaled));
                let lack = |entropy: f64| (1.0 - entropy).clamp(1e-9, 1.0);
                (width as f64, lack(mean), lack(high), lack(low))
            });
            chart.series(Series::new(drawn.name()).intervals(points))
        })
    };
    findings.figure(
        "entropy_vs_dk",
        "What the entropy of untrained attention over 12 words lacks to that of equal weights (0: uniform, 1: a single word), for \
         four ways to draw the projections; mean over seeds with 95 % intervals.",
        Picture::new("How far untrained attention is from uniform")
            .columns(2)
            .titled_panel("scaled by 1/√dₖ", chart(true))
            .titled_panel("unscaled", chart(false)),
    );
    let Some((words, weights)) = example else { return };
    let mut gallery = Gallery::new(WIDTHS.len(), ColourScale::sequential("weight"))
        .row_titles(vec!["scaled by 1/√dₖ".into(), "unscaled".into()])
        .column_titles(WIDTHS.iter().map(|width| format!("dₖ = {width}")).collect())
        .words(words.clone(), words.clone());
    // The cells alternate: scaled, unscaled.
    for first in [0, 1] {
        for weights in weights.iter().skip(first).step_by(2) {
            if let Ok(matrix) = Matrix::new(WORDS, WORDS, weights.clone()) {
                gallery = gallery.map("", matrix);
            }
        }
    }
    findings.figure(
        "untrained_gallery",
        "Weights from each word (rows) to each word of one text, with untrained projections drawn as PyTorch's Linear does.",
        Picture::new("Attention that has learned nothing yet").panel(gallery),
    );
}

fn judge_uniform(table: &Measurements) -> Verdict {
    let at = |drawn, width| entropy(table, (drawn, width, true));
    let mut checks = Vec::new();
    for drawn in Drawn::ALL.into_iter().filter(|drawn| drawn.is_usual()) {
        for width in WIDTHS {
            let what = format!("entropy ÷ ln 12, {}, d_k {width}", drawn.name());
            checks.push(Check::new(what, at(drawn, width), Bound::Above(0.9)));
        }
    }
    let finding = format!(
        "Small vectors and small projections give scores close together, and so nearly equal weights. At d_k 8 the entropy is {:.2} % of that of equal weights with PyTorch's Linear, {:.2} % with deviation 1/√16 and {:.2} % \
         with 0.02. With standard normal projections, which no library draws and which are not judged, it is {:.1} %: their scores are \
         larger.",
        100.0 * at(Drawn::Linear, 8).mean,
        100.0 * at(Drawn::Normal, 8).mean,
        100.0 * at(Drawn::Small, 8).mean,
        100.0 * at(Drawn::Standard, 8).mean,
    );
    Verdict::new("A3", checks, finding)
}

fn judge_width(table: &Measurements) -> Verdict {
    let change = |scaled| per_doubling(table, Drawn::Linear, scaled);
    let sharper = table.mean(&[&"", &"", &""], "texts in which d_k 32 is sharper than 2").mean;
    let from_to = |scaled| {
        let at = |width| 100.0 * entropy(table, (Drawn::Linear, width, scaled)).mean;
        format!("{:.3} % to {:.3} %", at(WIDTHS[0]), at(WIDTHS[3]))
    };
    let finding = format!(
        "From d_k 2 to 32 the entropy goes from {} of that of equal weights with the scale, and from {} without. A single draw \
         decides nothing: with the scale, d_k 32 is the sharper one in {:.0} % of texts.",
        from_to(true),
        from_to(false),
        100.0 * sharper,
    );
    let what = |kind: &str| format!("{kind}: log₂ of (1 − entropy ÷ ln 12), change per doubling of d_k");
    let checks = vec![
        Check::new(what("scaled"), change(true), Bound::Above(0.1)),
        Check::new(what("unscaled"), change(false), Bound::Above(0.1)),
    ];
    Verdict::new("A4", checks, finding).because(|checks| {
        those_that_apply([
            (
                checks[0].fails(),
                "A score is a sum of d_k products, whose deviation grows as √d_k, and the scale divides by just that: with it the \
                 scores are as far apart at any d_k.",
            ),
            (
                checks[0].fails() && checks[1].outcome == Outcome::Holds,
                "Only without the scale does attention become sharper.",
            ),
            (checks[1].fails(), "Not even without the scale does attention become sharper."),
        ])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;
    use crate::experiments::wrong;

    fn planted(level: f64, slopes: [f64; 2]) -> Measurements {
        let mut table = Measurements::new(&["drawn", "d_k", "scaled"]);
        for (drawn, width, scaled) in cells() {
            for seed in 0..4 {
                let growth = slopes[usize::from(!scaled)] * (1.0 + 0.02 * seed as f64);
                let value = 1.0 - (1.0 - level) * (growth * (width as f64).log2()).exp2();
                table.add(&[&drawn.name(), &width, &scaled], seed, "relative entropy", value);
            }
        }
        table
    }

    #[test]
    fn verdicts_follow_the_entropy() {
        assert_eq!(judge_uniform(&planted(0.99, [0.1, 0.1])).outcome, Outcome::Holds);
        assert_eq!(judge_uniform(&planted(0.7, [0.0, 0.0])).outcome, Outcome::Fails);
        assert_eq!(judge_width(&planted(0.97, [0.5, 1.0])).outcome, Outcome::Holds);
        assert_eq!(judge_width(&planted(0.97, [0.01, 1.0])).outcome, Outcome::Fails);
    }

    #[test]
    fn equal_weights_are_uniform_and_one_word_is_not() {
        let (entropy, largest) = shape(&[1.0 / WORDS as f32; WORDS * WORDS]);
        assert!((entropy - 1.0).abs() < 1e-6 && (largest - 1.0 / WORDS as f64).abs() < 1e-6);
        let identity: Vec<f32> =
            (0..WORDS * WORDS).map(|at| f32::from(u8::from(at / WORDS == at % WORDS))).collect();
        assert_eq!(shape(&identity), (0.0, 1.0));
    }

    #[test]
    fn attention_must_sharpen_with_the_scale_and_without() {
        let both = judge_width(&planted(0.97, [0.5, 1.0]));
        assert_eq!((both.outcome, wrong(&both)), (Outcome::Holds, vec![]));
        let steady_with = judge_width(&planted(0.97, [0.01, 1.0]));
        assert_eq!((steady_with.outcome, wrong(&steady_with)), (Outcome::Fails, vec![0]));
        assert!(
            steady_with
                .why
                .is_some_and(|why| why.ends_with("Only without the scale does attention become sharper."))
        );
        let steady_without = judge_width(&planted(0.97, [0.5, 0.01]));
        assert_eq!((steady_without.outcome, wrong(&steady_without)), (Outcome::Fails, vec![1]));
        let softer = judge_width(&planted(0.97, [-0.3, -0.3]));
        assert_eq!((softer.outcome, wrong(&softer)), (Outcome::Fails, vec![0, 1]));
        assert!(softer.why.is_some_and(|why| why.ends_with("Not even without the scale does attention become sharper.")));
        // Some seeds above the bound, some below.
        assert_eq!(judge_width(&planted(0.97, [0.5, 0.097])).outcome, Outcome::Undecided);
    }
}
