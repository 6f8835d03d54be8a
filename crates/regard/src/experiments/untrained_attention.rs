//! How sharp is attention whose projections were never trained, and does its width matter?

use super::models::bag::{self as bags, Form};
use super::models::sentiment;
use crate::experiment::{
    Bound, Check, Data, Experiment, Findings, Lab, Outcome, Rows, SMALL_MODELS, Sizes, Sweep, Table, Verdict,
    charts, facts, named, those_that_apply,
};
use crate::figure::{Axis, Chart, ColourScale, Gallery, Picture, Series};
use crate::statistics::{Interval, slope_by_seed};
use anyhow::{Result, bail};
use regard_nn::attention::{Scale, scaled_dot_product};
use regard_nn::tensor::Tensor;
use regard_nn::tensor::random::Key;

pub const EXPERIMENT: Experiment = Experiment {
    name: "untrained-attention",
    claims: &["A3", "A4"],
    question: "How sharp is attention whose projections were never trained, and does it become sharper with d_k?",
    prediction: "With projections initialised as libraries do it, the entropy of a word's weights is above 90 % of that of equal weights, \
        whatever d_k. As d_k grows over 2, 4, 8 and 32, how far the entropy falls short of uniform grows by at least 7 % with each doubling \
        (log₂ above 0.1), with the scale 1/√d_k as well as without.",
    design: "Word vectors of 16 dimensions, trained as in `word-vectors`; the first 12 words of test texts; W_Q and W_K drawn \
        anew for every text. Entropy ÷ ln 12, the mean over words and texts, for each seed of the word vectors. Four ways to initialise: \
        PyTorch's Linear (uniform within ±1/√16), normal with deviation 1/√16, normal with 0.02 as in BERT, and standard normal, which no \
        library uses but which is quickly written by hand.",
    changed: None,
    data: Data::Text("IMDb (aclImdb_v1.tar.gz) or a folder with train.tsv and test.tsv"),
    conditions: &["drawn", "d_k", "scaled"],
    seeds: SMALL_MODELS,
    seconds: Sizes::quick(1.5).standard(6.0).full(60.0),
    trains: |lab| Ok(vec![bags::config(lab, Form::PLAIN, lab.first_seed())?]),
    run,
};

/// The widths of the source.
const WIDTHS: [usize; 4] = [2, 4, 8, 32];
/// So many words are read.
const WORDS: usize = 12;

named! {
    /// How a projection is drawn.
    enum Drawn {
        Linear = "PyTorch's Linear",
        Normal = "normal, 1/√16",
        Small = "normal, 0.02",
        Standard = "normal, 1",
    }
}

impl Drawn {
    /// Whether a library initialises like this, so that the claim is about it.
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

fn cells() -> impl Iterator<Item = Cell> {
    let scales = |drawn, width| [true, false].map(|scaled| (drawn, width, scaled));
    Drawn::ALL
        .into_iter()
        .flat_map(move |drawn| WIDTHS.into_iter().flat_map(move |width| scales(drawn, width)))
}

/// A cell of the table; none for what is measured over several.
type Measured = Table<Option<Cell>>;

const ENTROPY: &str = "relative entropy";
const SHARPER: &str = "texts in which d_k 32 is sharper than 2";

facts! {
    ENTROPY_OF(drawn: Drawn, kind: &'static str, width: usize) = "relative entropy, {drawn}, {kind}, d_k {width}";
    SHARPER_DRAWS = "share of single draws in which d_k 32 is sharper than 2";
}

/// One text's words and its weights in each cell of PyTorch's Linear.
type Example = (Vec<String>, Vec<Vec<f32>>);

fn run(lab: &Lab) -> Result<Findings> {
    let texts = sentiment::test_texts(lab)?;
    let Sweep { table, runs } = lab.sweep_seeds("runs", |seed, rows| measure(lab, seed, &texts, rows))?;
    let mut findings = Findings::default();
    draw(&mut findings, &table, runs.iter().find_map(|run| run.result.as_ref()));
    findings.verdicts = vec![judge_uniform(&table), judge_width(&table)];
    for drawn in Drawn::ALL {
        for (scaled, kind) in [(true, "scaled"), (false, "unscaled")] {
            for width in [WIDTHS[0], WIDTHS[3]] {
                let value = entropy(&table, (drawn, width, scaled)).mean;
                findings.fact(ENTROPY_OF.of((drawn, kind, width)), value);
            }
        }
    }
    findings.fact(SHARPER_DRAWS, table.mean(None, SHARPER).mean);
    findings.finish(lab, table)
}

fn measure(
    lab: &Lab,
    seed: u64,
    texts: &[(String, usize)],
    rows: &mut Rows<Option<Cell>>,
) -> Result<Option<Example>> {
    let opened = bags::trained(lab, Form::PLAIN, seed)?.open()?;
    let (table, tokenizer) = (bags::vectors(&opened)?, opened.tokenizer()?);
    let most = lab.setting("texts", Sizes::quick(300).smoke(10).standard(800).full(2_000));
    let cells: Vec<Cell> = cells().collect();
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
        if example.is_none() && seed == lab.first_seed() {
            let linear = cells.iter().zip(seen).filter(|((drawn, ..), _)| *drawn == Drawn::Linear);
            example = Some((words, linear.map(|(_, weights)| weights).collect()));
        }
    }
    if read == 0 {
        bail!("no test text has {WORDS} words");
    }
    let share = |sum: f64| sum / f64::from(read);
    for (cell, (entropy, largest)) in cells.into_iter().zip(sums) {
        rows.add(Some(cell), ENTROPY, share(entropy));
        rows.add(Some(cell), "largest weight", share(largest));
    }
    rows.add(None, SHARPER, share(f64::from(sharper)));
    Ok(example)
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

fn entropy(table: &Measured, cell: Cell) -> Interval {
    table.mean(Some(cell), ENTROPY)
}

/// How log₂ of the entropy's distance from uniform changes with each doubling of d_k: the slope of each seed, and their mean. A
/// relative change does not depend on how near to uniform everything is.
fn per_doubling(table: &Measured, drawn: Drawn, scaled: bool) -> Interval {
    let short = |entropy: f64| (1.0 - entropy).max(1e-12).log2();
    let points = WIDTHS
        .map(|width| ((width as f64).log2(), table.values(Some((drawn, width, scaled)), ENTROPY).map(short)));
    slope_by_seed(&points)
}

fn draw(findings: &mut Findings, table: &Measured, example: Option<&Example>) {
    let chart = |scaled: bool| {
        let empty = Chart::new(
            Axis::log("dₖ").ticks(WIDTHS.map(|width| width as f64)),
            Axis::log("1 − entropy ÷ ln 12").range(1e-8, 1.0),
        );
        Drawn::ALL.into_iter().fold(empty.half(), |chart, drawn| {
            let points = WIDTHS.map(|width| {
                let Interval { mean, low, high, .. } = entropy(table, (drawn, width, scaled));
                let short = |entropy: f64| (1.0 - entropy).clamp(1e-9, 1.0);
                (width as f64, short(mean), short(high), short(low))
            });
            chart.series(Series::new(drawn.name()).intervals(points))
        })
    };
    findings.figure(
        "entropy_vs_dk",
        "How far the entropy of untrained attention over 12 words falls short of uniform (0: uniform, 1: a single word), for four \
         initialisations of the projections; mean over seeds with 95 % intervals.",
        Picture::new("How far untrained attention is from uniform")
            .columns(2)
            .titled_panel("scaled by 1/√dₖ", chart(true))
            .titled_panel("unscaled", chart(false)),
    );
    let Some((words, weights)) = example else { return };
    let empty = Gallery::new(WIDTHS.len(), ColourScale::sequential("weight"))
        .row_titles(vec!["scaled by 1/√dₖ".into(), "unscaled".into()])
        .column_titles(WIDTHS.iter().map(|width| format!("dₖ = {width}")).collect())
        .words(words.clone(), words.clone());
    // The cells alternate: scaled, unscaled.
    let rows = [0, 1].into_iter().flat_map(|first| weights.iter().skip(first).step_by(2));
    let gallery = charts::with_maps(empty, WORDS, rows);
    findings.figure(
        "untrained_gallery",
        "Weights from each word (rows) to each word of one text, with untrained projections initialised as PyTorch's Linear.",
        Picture::new("Attention before any training").panel(gallery),
    );
}

fn judge_uniform(table: &Measured) -> Verdict {
    let at = |drawn, width| entropy(table, (drawn, width, true));
    let mut checks = Vec::new();
    for drawn in Drawn::ALL.into_iter().filter(|drawn| drawn.is_usual()) {
        for width in WIDTHS {
            let what = format!("entropy ÷ ln 12, {}, d_k {width}", drawn.name());
            checks.push(Check::new(what, at(drawn, width), Bound::Above(0.9)));
        }
    }
    let finding = format!(
        "Small vectors and small projections give scores that are close together, and so nearly equal weights. At d_k 8 the entropy is \
         {:.2} % of that of equal weights with PyTorch's Linear, {:.2} % with deviation 1/√16 and {:.2} % with 0.02. With standard normal \
         projections, which no library uses and which are not judged, it is {:.1} %: their scores are larger.",
        100.0 * at(Drawn::Linear, 8).mean,
        100.0 * at(Drawn::Normal, 8).mean,
        100.0 * at(Drawn::Small, 8).mean,
        100.0 * at(Drawn::Standard, 8).mean,
    );
    Verdict::new("A3", checks, finding)
}

fn judge_width(table: &Measured) -> Verdict {
    let change = |scaled| per_doubling(table, Drawn::Linear, scaled);
    let sharper = table.mean(None, SHARPER).mean;
    let from_to = |scaled| {
        let at = |width| 100.0 * entropy(table, (Drawn::Linear, width, scaled)).mean;
        format!("{:.3} % to {:.3} %", at(WIDTHS[0]), at(WIDTHS[3]))
    };
    let finding = format!(
        "From d_k 2 to 32 the entropy goes from {} of that of equal weights with the scale, and from {} without. A single draw \
         decides nothing: with the scale, d_k 32 is sharper in {:.0} % of texts.",
        from_to(true),
        from_to(false),
        100.0 * sharper,
    );
    let what = |kind: &str| format!("{kind}: log₂ of (1 − entropy ÷ ln 12), change per doubling of d_k");
    let checks = vec![
        Check::new(what("scaled"), change(true), Bound::Above(0.1)).part("with the scale"),
        Check::new(what("unscaled"), change(false), Bound::Above(0.1)).part("without the scale"),
    ];
    Verdict::new("A4", checks, finding).because(|checks| {
        those_that_apply([
            (
                checks[0].fails(),
                "A score is a sum of d_k products, whose standard deviation grows as √d_k, and the scale divides by exactly that: with it \
                 the spread of the scores is the same at any d_k.",
            ),
            (
                checks[0].fails() && checks[1].outcome == Outcome::Holds,
                "Attention becomes sharper only without the scale.",
            ),
            (checks[1].fails(), "Attention does not become sharper without the scale either."),
        ])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;
    use crate::experiments::wrong;

    fn planted(level: f64, slopes: [f64; 2]) -> Measured {
        let mut table = Table::new();
        for (drawn, width, scaled) in cells() {
            for seed in 0..4 {
                let growth = slopes[usize::from(!scaled)] * (1.0 + 0.02 * seed as f64);
                let value = 1.0 - (1.0 - level) * (growth * (width as f64).log2()).exp2();
                table.add(Some((drawn, width, scaled)), seed, ENTROPY, value);
            }
        }
        table
    }

    #[test]
    fn verdicts_follow_the_entropy() {
        assert_eq!(judge_uniform(&planted(0.99, [0.1, 0.1])).outcome, Outcome::Holds);
        assert_eq!(judge_uniform(&planted(0.7, [0.0, 0.0])).outcome, Outcome::Fails);
        assert_eq!(judge_width(&planted(0.97, [0.5, 1.0])).outcome, Outcome::Holds);
        assert_eq!(judge_width(&planted(0.97, [0.01, 1.0])).outcome, Outcome::InPart);
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
        assert_eq!((steady_with.outcome, wrong(&steady_with)), (Outcome::InPart, vec![0]));
        assert!(
            steady_with
                .why
                .is_some_and(|why| why.ends_with("Attention becomes sharper only without the scale."))
        );
        let steady_without = judge_width(&planted(0.97, [0.5, 0.01]));
        assert_eq!((steady_without.outcome, wrong(&steady_without)), (Outcome::InPart, vec![1]));
        let softer = judge_width(&planted(0.97, [-0.3, -0.3]));
        assert_eq!((softer.outcome, wrong(&softer)), (Outcome::Fails, vec![0, 1]));
        assert!(
            softer.why.is_some_and(
                |why| why.ends_with("Attention does not become sharper without the scale either.")
            )
        );
        // Some seeds above the bound, some below.
        assert_eq!(judge_width(&planted(0.97, [0.5, 0.097])).outcome, Outcome::Undecided);
    }
}
