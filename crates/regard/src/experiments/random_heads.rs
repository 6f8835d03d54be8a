//! Do heads with random projections look different on the same sentence?

use super::bag_models::{self as bags, Form};
use super::sentiment_models as sentiment;
use crate::experiment::{Bound, Check, Experiment, Findings, Lab, Measurements, Verdict, those_that_apply};
use crate::figure::{Axis, Bar, Bars, ColourScale, Gallery, Matrix, Picture, number};
use crate::statistics::{Sample, paired};
use anyhow::{Result, bail};
use regard_nn::analysis::distance::divergence_of_weights;
use regard_nn::attention::{Scale, scaled_dot_product};
use regard_nn::data::builtin::{Polarity, sentiment_words};
use regard_nn::models::Visibility;
use regard_nn::tensor::Tensor;
use regard_nn::tensor::random::Key;
use serde::{Deserialize, Serialize};

pub const EXPERIMENT: Experiment = Experiment {
    name: "random-heads",
    claims: &["A5"],
    question: "Do four heads with random projections show different patterns on one sentence?",
    prediction: "The weights of two heads differ more (Jensen–Shannon divergence) than those of one head whose projections were \
        disturbed by a tenth, and by more than the eye can miss: a hundredth of a bit, where rows without a word in common differ by \
        one; and in more than half of all rows the largest weight lies on different words.",
    design: "Word vectors of 16 dimensions, trained as in `word-vectors`; four heads of width 4, projections drawn as PyTorch's \
        Linear does, anew for each text; the first 12 words of positive and of negative test texts. Divergence in bits, mean \
        over rows, pairs of heads and texts. The baseline adds normal noise of a tenth of the projections' deviation.",
    changed: Some(
        "At first two heads had only to differ more than one that is disturbed, which they do however faint their patterns are. After it \
         had held with a ten-thousandth of a bit, a smallest difference was set: the claim is that the patterns are visibly different. \
         Standard size got fifteen seeds instead of five.",
    ),
    real_data: Some("IMDb (aclImdb_v1.tar.gz) or a folder with train.tsv and test.tsv"),
    seconds: [1.0, 3.0, 60.0],
    run,
};

const HEADS: usize = 4;
const WORDS: usize = 12;
/// The baseline's noise, as a share of the deviation of the projections.
const NOISE: f32 = 0.1;
/// The divergence, in bits, from which two patterns are called visibly different.
const VISIBLE: f64 = 0.01;
const PAIRS: [&str; 2] = ["two heads", "one head, disturbed"];
const KINDS: [&str; 2] = ["negative", "positive"];
const BOTH_WAYS: Visibility = Visibility { causal: false, window: None };

/// How far apart two sets of weights are.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Apart {
    /// Jensen–Shannon divergence, in bits.
    divergence: f64,
    /// The share of rows whose largest weights are on different words.
    elsewhere: f64,
}

#[derive(Serialize, Deserialize)]
struct Run {
    /// For negative and positive texts: in the order of [`PAIRS`].
    kinds: Vec<[Apart; 2]>,
    /// A text of each kind, with the weights of all heads.
    examples: Vec<(Vec<String>, Vec<Vec<f32>>)>,
}

fn run(lab: &Lab) -> Result<Findings> {
    let seeds = lab.seeds_of_small_models();
    let texts = sentiment::test_texts(lab)?;
    let runs = lab.parts("runs", &seeds, |&seed| read(lab, seed, &texts))?;
    let mut findings = Findings::new(&["texts", "pair"]);
    for (&seed, run) in seeds.iter().zip(&runs) {
        for (kind, of_kind) in KINDS.iter().zip(&run.kinds) {
            for (pair, apart) in PAIRS.iter().zip(of_kind) {
                findings.measurements.add(&[kind, pair], seed, "divergence", apart.divergence);
                findings.measurements.add(&[kind, pair], seed, "largest weight elsewhere", apart.elsewhere);
            }
        }
    }
    draw(&mut findings, runs.first().map(|run| run.examples.as_slice()).unwrap_or_default());
    findings.verdicts = vec![judge(&findings.measurements)];
    for pair in PAIRS {
        for measure in ["divergence", "largest weight elsewhere"] {
            let value = both(&findings.measurements, pair, measure).mean().mean;
            findings.fact(format!("{measure}: {pair}"), value);
        }
    }
    Ok(findings)
}

fn read(lab: &Lab, seed: u64, texts: &[(String, usize)]) -> Result<Run> {
    let opened = bags::trained(lab, Form::PLAIN, seed)?.open()?;
    let (table, tokenizer) = (bags::vectors(&opened)?, opened.tokenizer()?);
    let most = lab.by_size(6, 100, 300, 1_000);
    let (mut kinds, mut examples) = (Vec::new(), Vec::new());
    for (label, name) in KINDS.iter().enumerate() {
        let (mut sums, mut count, mut shown) = ([Apart::default(); 2], 0_u32, false);
        let polarity = if label == 1 { Polarity::Positive } else { Polarity::Negative };
        let lexicon = sentiment_words(polarity);
        let of_kind = texts.iter().enumerate().filter(|(_, (_, known))| *known == label);
        for (index, (text, _)) in of_kind.take(most) {
            let Some((words, ids)) = bags::first_words(tokenizer, text, WORDS)? else { continue };
            let x = bags::rows(table, &ids)?;
            let key = Key::new(seed).site("random-heads").step(index as u64);
            let heads: Vec<Vec<f32>> =
                (0..HEADS).map(|head| weights(&x, head, 0.0, key)).collect::<Result<_>>()?;
            let disturbed: Vec<Vec<f32>> =
                (0..HEADS).map(|head| weights(&x, head, NOISE, key)).collect::<Result<_>>()?;
            let pairs = (0..HEADS).flat_map(|a| (a + 1..HEADS).map(move |b| (a, b)));
            let between = average(pairs.map(|(a, b)| apart(&heads[a], &heads[b])))?;
            let baseline = average(heads.iter().zip(&disturbed).map(|(one, other)| apart(one, other)))?;
            for (sum, one) in sums.iter_mut().zip([between, baseline]) {
                sum.divergence += one.divergence;
                sum.elsewhere += one.elsewhere;
            }
            count += 1;
            // To be shown, a text should say what it is: its words must judge.
            let judges = words.iter().any(|word| lexicon.contains(&word.to_lowercase()));
            if seed == 0 && (examples.len() == label || judges && !shown) {
                shown = judges;
                examples.truncate(label);
                examples.push((words, heads));
            }
        }
        if count == 0 {
            bail!("no {name} test text has {WORDS} words");
        }
        kinds.push(sums.map(|sum| Apart {
            divergence: sum.divergence / f64::from(count),
            elsewhere: sum.elsewhere / f64::from(count),
        }));
    }
    Ok(Run { kinds, examples })
}

/// The weights of a head, its projections disturbed by so much noise.
fn weights(x: &Tensor, head: usize, noise: f32, key: Key) -> Result<Vec<f32>> {
    let (inputs, outputs) = (x.shape().last(), x.shape().last().div_ceil(HEADS));
    let limit = (inputs as f32).powf(-0.5);
    let project = |name: &str| {
        let key = key.site(name).site(&head.to_string());
        let drawn = key.uniforms(inputs * outputs, -limit, limit);
        // A uniform draw within ±limit has the deviation limit/√3.
        let disturbance = key.site("noise").normal(inputs * outputs, noise * limit / 3_f32.sqrt());
        let sum: Vec<f32> = drawn.iter().zip(disturbance).map(|(drawn, noise)| drawn + noise).collect();
        anyhow::Ok(x.matmul(&Tensor::new(&sum, [inputs, outputs])?)?)
    };
    let (_, weights) = scaled_dot_product(&project("query")?, &project("key")?, x, None, Scale::InverseRoot)?;
    Ok(weights.to_vec())
}

fn apart(a: &[f32], b: &[f32]) -> Result<Apart> {
    let largest = |row: &[f32]| (0..row.len()).max_by(|&i, &j| row[i].total_cmp(&row[j]));
    let rows = a.chunks(WORDS).zip(b.chunks(WORDS));
    let elsewhere = rows.filter(|(a, b)| largest(a) != largest(b)).count();
    Ok(Apart {
        divergence: divergence_of_weights(a, b, WORDS, BOTH_WAYS)?.unwrap_or(0.0),
        elsewhere: elsewhere as f64 / WORDS as f64,
    })
}

fn average(all: impl Iterator<Item = Result<Apart>>) -> Result<Apart> {
    let all: Vec<Apart> = all.collect::<Result<_>>()?;
    let mean = |of: fn(&Apart) -> f64| all.iter().map(of).sum::<f64>() / all.len().max(1) as f64;
    Ok(Apart { divergence: mean(|one| one.divergence), elsewhere: mean(|one| one.elsewhere) })
}

/// A measure of each seed, the mean of negative and positive texts.
fn both(table: &Measurements, pair: &str, measure: &str) -> Sample {
    Sample::together(KINDS.iter().map(|kind| table.values(&[kind, &pair], measure)))
}

fn draw(findings: &mut Findings, examples: &[(Vec<String>, Vec<Vec<f32>>)]) {
    let all = || examples.iter().flat_map(|(_, heads)| heads.iter().flatten().copied());
    let range = (all().fold(f32::INFINITY, f32::min), all().fold(0.0, f32::max));
    let mut picture = Picture::new("Four heads that have learned nothing, two sentences").subtitle(format!(
        "Equal weights are {:.3}; the scale goes from the least to the largest",
        1.0 / WORDS as f64
    ));
    for ((words, heads), kind) in examples.iter().zip(KINDS).rev() {
        let scale = ColourScale::sequential("weight").range(f64::from(range.0), f64::from(range.1));
        let empty = Gallery::new(HEADS, scale)
            .column_titles((1..=HEADS).map(|head| format!("head {head}")).collect())
            .words(words.clone(), words.clone());
        let maps = heads.iter().filter_map(|weights| Matrix::new(WORDS, WORDS, weights.clone()).ok());
        let gallery = maps.fold(empty, |gallery, matrix| gallery.map("", matrix));
        picture = picture.titled_panel(format!("from a {kind} text"), gallery);
    }
    findings.figure(
        "random_heads",
        "Weights from each word (rows) to each word in four untrained heads, on the beginning of a positive and of a negative text.",
        picture,
    );
    let bars = |measure: &'static str, label: &'static str| {
        let empty = Bars::upright(KINDS.map(|kind| format!("{kind} texts")).to_vec(), Axis::linear(label));
        PAIRS.into_iter().fold(empty.half(), |bars, pair| {
            let bar = |kind: &str| {
                let interval = findings.measurements.mean(&[&kind, &pair], measure);
                Bar::new(interval.mean).interval(interval.low.max(0.0), interval.high)
            };
            bars.series(pair, KINDS.into_iter().map(bar).collect())
        })
    };
    let picture = Picture::new("How different is different?")
        .columns(2)
        .titled_panel("divergence", bars("divergence", "Jensen–Shannon divergence, bits"))
        .titled_panel(
            "where the largest weight lies",
            bars("largest weight elsewhere", "share of rows in which it is on another word"),
        );
    findings.figure(
        "divergence",
        "Two heads against one head disturbed by a tenth; 95 % intervals over seeds. A divergence of 1 bit would be no overlap at all.",
        picture,
    );
}

fn judge(table: &Measurements) -> Verdict {
    let divergence = |pair| both(table, pair, "divergence");
    let elsewhere = |pair| both(table, pair, "largest weight elsewhere").mean();
    let difference = paired(&divergence(PAIRS[0]), &divergence(PAIRS[1]));
    let finding = format!(
        "Two heads diverge by {} bits, one head disturbed by a tenth by {}. In {:.1} % of rows two heads have their \
         largest weight on different words (disturbed: {:.1} %). Rows that share no word at all would diverge by 1 bit.",
        number(divergence(PAIRS[0]).mean().mean),
        number(divergence(PAIRS[1]).mean().mean),
        100.0 * elsewhere(PAIRS[0]).mean,
        100.0 * elsewhere(PAIRS[1]).mean,
    );
    let checks = vec![
        Check::new("divergence: two heads − one head disturbed, bits", difference, Bound::Above(0.0)),
        Check::new("divergence of two heads, bits", divergence(PAIRS[0]).mean(), Bound::Above(VISIBLE)),
        Check::new(
            "share of rows whose largest weights are on different words",
            elsewhere(PAIRS[0]),
            Bound::Above(0.5),
        ),
    ];
    Verdict::new("A5", checks, finding).because(|checks| {
        those_that_apply([
            (
                checks[1].fails(),
                "Untrained heads give all words nearly equal weights (A3). Which word is ahead differs from head to head, but by so \
                 little that only a colour scale stretched from the least to the largest weight shows it.",
            ),
            (checks[0].fails(), "Two heads differ less than a head differs from itself, a little disturbed."),
            (checks[2].fails(), "In most rows all heads have their largest weight on the same word."),
        ])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;

    fn planted(between: f64, disturbed: f64, elsewhere: f64) -> Measurements {
        let mut table = Measurements::new(&["texts", "pair"]);
        for kind in KINDS {
            for (pair, values) in PAIRS.into_iter().zip([[between, elsewhere], [disturbed, 0.1]]) {
                for seed in 0..4 {
                    let noise = 0.0005 * seed as f64 * values[0];
                    table.add(&[&kind, &pair], seed, "divergence", values[0] + noise);
                    table.add(&[&kind, &pair], seed, "largest weight elsewhere", values[1] + noise);
                }
            }
        }
        table
    }

    #[test]
    fn the_verdict_follows_the_divergence() {
        assert_eq!(judge(&planted(0.1, 0.01, 0.8)).outcome, Outcome::Holds);
        assert_eq!(judge(&planted(0.1, 0.2, 0.8)).outcome, Outcome::Fails, "noise does as much");
        assert_eq!(judge(&planted(0.001, 0.0001, 0.8)).outcome, Outcome::Fails, "too faint to see");
        let alike = judge(&planted(0.1, 0.01, 0.2));
        assert_eq!(alike.outcome, Outcome::Fails);
        let why = "In most rows all heads have their largest weight on the same word.";
        assert_eq!(alike.why.as_deref(), Some(why), "and of nothing else");
    }

    #[test]
    fn a_head_does_not_differ_from_itself() {
        let x = Tensor::new(&Key::new(1).normal(WORDS * 16, 1.0), [WORDS, 16]).unwrap();
        let of = |head, noise| weights(&x, head, noise, Key::new(2)).unwrap();
        let same = apart(&of(0, 0.0), &of(0, 0.0)).unwrap();
        assert_eq!((same.divergence, same.elsewhere), (0.0, 0.0));
        let disturbed = apart(&of(0, 0.0), &of(0, NOISE)).unwrap();
        let other = apart(&of(0, 0.0), &of(1, 0.0)).unwrap();
        assert!(0.0 < disturbed.divergence && disturbed.divergence < other.divergence);
    }
}
