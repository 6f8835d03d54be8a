//! Do heads with random projections show different patterns on the same sentence?

use super::models::bag::{self as bags, Form, Start};
use super::models::sentiment;
use crate::experiment::{
    Bound, Check, Data, Experiment, Findings, Lab, Rows, SMALL_MODELS, Sizes, Sweep, Table, Verdict, charts,
    facts, named, those_that_apply,
};
use crate::figure::{Axis, Bar, Bars, ColourScale, Gallery, Picture, number};
use crate::statistics::{Sample, paired};
use anyhow::{Result, bail};
use regard_nn::analysis::distance::divergence_of_weights;
use regard_nn::attention::{Scale, scaled_dot_product};
use regard_nn::data::builtin::{Polarity, sentiment_words};
use regard_nn::models::Visibility;
use regard_nn::tensor::Tensor;
use regard_nn::tensor::random::Key;

pub const EXPERIMENT: Experiment = Experiment {
    name: "random-heads",
    claims: &["A5"],
    question: "Do four heads with random projections show different patterns on one sentence?",
    prediction: "The weights of two heads differ more (Jensen–Shannon divergence) than those of one head whose projections were \
        perturbed by a tenth, and visibly: by more than a hundredth of a bit, where rows without a word in common differ by one bit. In \
        more than half of all rows the largest weight lies on different words. This is judged for vectors that start with a standard \
        deviation of 0.1 and, as PyTorch's embeddings do, of 1.",
    design: "Word vectors of 16 dimensions, trained as in `word-vectors`; four heads of width 4, with projections initialised as PyTorch's \
        Linear, anew for each text; the first 12 words of positive and of negative test texts. Divergence in bits, mean over rows, pairs of \
        heads and texts. The baseline adds normal noise of a tenth of the projections' standard deviation.",
    changed: None,
    data: Data::Text("IMDb (aclImdb_v1.tar.gz) or a folder with train.tsv and test.tsv"),
    conditions: &["initial deviation", "texts", "pair"],
    seeds: SMALL_MODELS,
    seconds: Sizes::quick(2.0).standard(6.0).full(60.0),
    trains: |lab| {
        Start::ALL
            .map(|start| bags::config(lab, Form::starting(start), lab.first_seed()))
            .into_iter()
            .collect()
    },
    run,
};

const HEADS: usize = 4;
const WORDS: usize = 12;
/// The baseline's noise, as a share of the deviation of the projections.
const NOISE: f32 = 0.1;
/// The divergence, in bits, from which two patterns are called visibly different.
const VISIBLE: f64 = 0.01;
const BOTH_WAYS: Visibility = Visibility { causal: false, window: None };
const DIVERGENCE: &str = "divergence";
const ELSEWHERE: &str = "largest weight elsewhere";

named! {
    /// Which weights are compared.
    enum Pair { Heads = "two heads", Perturbed = "one head, disturbed" }
}

named! {
    /// The texts.
    enum Kind { Negative = "negative", Positive = "positive" }
}

impl Kind {
    fn polarity(self) -> Polarity {
        match self {
            Kind::Negative => Polarity::Negative,
            Kind::Positive => Polarity::Positive,
        }
    }
}

type Measured = Table<(Start, Kind, Pair)>;

facts! {
    MEAN(measure: &'static str, start: Start, pair: Pair) = "{measure}: {pair}, initial deviation {start}";
}

/// How far apart two sets of weights are.
#[derive(Clone, Copy, Default)]
struct Apart {
    /// Jensen–Shannon divergence, in bits.
    divergence: f64,
    /// The share of rows whose largest weights are on different words.
    elsewhere: f64,
}

/// A text's words, with the weights of all heads.
type Example = (Vec<String>, Vec<Vec<f32>>);

fn run(lab: &Lab) -> Result<Findings> {
    let texts = sentiment::test_texts(lab)?;
    let Sweep { table, runs } = lab
        .sweep("runs", lab.each(Start::ALL), |start, seed, rows| measure(lab, (start, seed), &texts, rows))?;
    let mut findings = Findings::default();
    for (start, name) in Start::ALL.into_iter().zip(["random_heads", "random_heads_pytorch"]) {
        let shown = runs.iter().find(|run| run.condition == start);
        draw_heads(&mut findings, (name, start), shown.map_or(&[], |run| &run.result));
    }
    draw(&mut findings, &table);
    findings.verdicts = vec![judge(&table)];
    for (measure, start) in
        [DIVERGENCE, ELSEWHERE].into_iter().flat_map(|one| Start::ALL.map(|start| (one, start)))
    {
        findings.facts(MEAN, Pair::ALL.map(|pair| (measure, start, pair)), |(measure, start, pair)| {
            both(&table, start, pair, measure).mean().mean
        });
    }
    findings.finish(lab, table)
}

/// Compares the weights of heads on the texts of both kinds. Returns a text of each, of the first seed.
fn measure(
    lab: &Lab,
    (start, seed): (Start, u64),
    texts: &[(String, usize)],
    rows: &mut Rows<(Start, Kind, Pair)>,
) -> Result<Vec<Example>> {
    let opened = bags::trained(lab, Form::starting(start), seed)?.open()?;
    let (table, tokenizer) = (bags::vectors(&opened)?, opened.tokenizer()?);
    let most = lab.setting("texts of each kind", Sizes::quick(100).smoke(6).standard(300).full(1_000));
    let mut examples: Vec<Example> = Vec::new();
    for kind in Kind::ALL {
        let (mut sums, mut count, mut shown) = ([Apart::default(); 2], 0_u32, false);
        let (label, lexicon) = (kind as usize, sentiment_words(kind.polarity()));
        let of_kind = texts.iter().enumerate().filter(|(_, (_, known))| *known == label);
        for (index, (text, _)) in of_kind.take(most) {
            let Some((words, ids)) = bags::first_words(tokenizer, text, WORDS)? else { continue };
            let x = bags::rows(table, &ids)?;
            let key = Key::new(seed).site("random-heads").step(index as u64);
            let heads =
                |noise| (0..HEADS).map(|head| weights(&x, head, noise, key)).collect::<Result<Vec<_>>>();
            let (heads, perturbed) = (heads(0.0)?, heads(NOISE)?);
            let pairs = (0..HEADS).flat_map(|a| (a + 1..HEADS).map(move |b| (a, b)));
            let between = average(pairs.map(|(a, b)| apart(&heads[a], &heads[b])))?;
            let baseline = average(heads.iter().zip(&perturbed).map(|(one, other)| apart(one, other)))?;
            for (sum, one) in sums.iter_mut().zip([between, baseline]) {
                sum.divergence += one.divergence;
                sum.elsewhere += one.elsewhere;
            }
            count += 1;
            // A text that is shown should have a sentiment word.
            let has_sentiment = words.iter().any(|word| lexicon.contains(&word.to_lowercase()));
            if seed == lab.first_seed() && (examples.len() == label || has_sentiment && !shown) {
                shown = has_sentiment;
                examples.truncate(label);
                examples.push((words, heads));
            }
        }
        if count == 0 {
            bail!("no {kind} test text has {WORDS} words");
        }
        for (pair, sum) in Pair::ALL.into_iter().zip(sums) {
            rows.add((start, kind, pair), DIVERGENCE, sum.divergence / f64::from(count));
            rows.add((start, kind, pair), ELSEWHERE, sum.elsewhere / f64::from(count));
        }
    }
    Ok(examples)
}

/// The weights of a head, its projections perturbed by so much noise.
fn weights(x: &Tensor, head: usize, noise: f32, key: Key) -> Result<Vec<f32>> {
    let (inputs, outputs) = (x.shape().last(), x.shape().last().div_ceil(HEADS));
    let limit = (inputs as f32).powf(-0.5);
    let project = |name: &str| {
        let key = key.site(name).site(&head.to_string());
        let drawn = key.uniforms(inputs * outputs, -limit, limit);
        // A uniform draw within ±limit has the deviation limit/√3.
        let perturbation = key.site("noise").normal(inputs * outputs, noise * limit / 3_f32.sqrt());
        let sum: Vec<f32> = drawn.iter().zip(perturbation).map(|(drawn, noise)| drawn + noise).collect();
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
fn both(table: &Measured, start: Start, pair: Pair, measure: &str) -> Sample {
    Sample::together(Kind::ALL.map(|kind| table.values((start, kind, pair), measure)))
}

fn draw_heads(findings: &mut Findings, (name, start): (&str, Start), examples: &[Example]) {
    let all = || examples.iter().flat_map(|(_, heads)| heads.iter().flatten().copied());
    let range = (all().fold(f32::INFINITY, f32::min), all().fold(0.0, f32::max));
    let mut picture = Picture::new("Four untrained heads, two sentences").subtitle(format!(
        "Word vectors of {}. Equal weights are {:.3}; the scale goes from the smallest to the largest weight",
        start.sentence(),
        1.0 / WORDS as f64
    ));
    for ((words, heads), kind) in examples.iter().zip(Kind::ALL).rev() {
        let scale = ColourScale::sequential("weight").range(f64::from(range.0), f64::from(range.1));
        let empty = Gallery::new(HEADS, scale)
            .column_titles((0..HEADS).map(|head| format!("head {head}")).collect())
            .words(words.clone(), words.clone());
        picture = picture.titled_panel(format!("from a {kind} text"), charts::with_maps(empty, WORDS, heads));
    }
    findings.figure(
        name,
        "Weights from each word (rows) to each word in four untrained heads, on the beginning of a positive and of a negative text.",
        picture,
    );
}

fn draw(findings: &mut Findings, table: &Measured) {
    let bars = |measure: &str, label: &str| {
        let cells: Vec<(Start, Kind)> =
            Start::ALL.into_iter().flat_map(|start| Kind::ALL.map(|kind| (start, kind))).collect();
        let names = cells.iter().map(|(start, kind)| format!("{kind}, {start}")).collect();
        let empty = Bars::upright(names, Axis::linear(label)).half();
        charts::grouped(empty, Pair::ALL, &cells, |pair, (start, kind)| {
            let interval = table.mean((start, kind, pair), measure);
            Bar::new(interval.mean).interval(interval.low.max(0.0), interval.high)
        })
    };
    findings.figure(
        "divergence",
        "Two heads against one head perturbed by a tenth, on negative and positive texts, with word vectors that started with a deviation of \
         0.1 and of 1; 95 % intervals over seeds. A divergence of 1 bit would be no overlap at all.",
        Picture::new("How different are the heads?")
            .columns(2)
            .titled_panel("divergence", bars(DIVERGENCE, "Jensen–Shannon divergence, bits"))
            .titled_panel(
                "where the largest weight lies",
                bars(ELSEWHERE, "share of rows in which it is on another word"),
            ),
    );
}

fn judge(table: &Measured) -> Verdict {
    let found = Start::ALL.map(|start| {
        let mean = |pair, measure| both(table, start, pair, measure).mean().mean;
        format!(
            "With vectors of {}, two heads diverge by {} bits, one head perturbed by a tenth by {}, and in {:.1} % of rows two heads have \
             their largest weight on different words (perturbed: {:.1} %).",
            start.sentence(),
            number(mean(Pair::Heads, DIVERGENCE)),
            number(mean(Pair::Perturbed, DIVERGENCE)),
            100.0 * mean(Pair::Heads, ELSEWHERE),
            100.0 * mean(Pair::Perturbed, ELSEWHERE),
        )
    });
    let finding = format!("{} Rows that share no word at all would diverge by 1 bit.", found.join(" "));
    let checks = Start::ALL.map(|start| {
        let [heads, perturbed] = Pair::ALL.map(|pair| both(table, start, pair, DIVERGENCE));
        let elsewhere = both(table, start, Pair::Heads, ELSEWHERE).mean();
        [
            Check::new(
                "divergence: two heads − one head perturbed, bits",
                paired(&heads, &perturbed),
                Bound::Above(0.0),
            ),
            Check::new("divergence of two heads, bits", heads.mean(), Bound::Above(VISIBLE)),
            Check::new(
                "share of rows whose largest weights are on different words",
                elsewhere,
                Bound::Above(0.5),
            ),
        ]
        .map(|check| check.part(start.sentence()))
    });
    Verdict::new("A5", checks.concat(), finding).because(|checks| {
        let any = |place: usize| checks.iter().skip(place).step_by(3).any(Check::fails);
        those_that_apply([
            (
                checks[1].fails(),
                "From small vectors, untrained heads give all words nearly equal weights (A3). Which word is ahead differs from head to \
                 head, but by so little that only a colour scale stretched from the smallest to the largest weight shows it.",
            ),
            (checks[4].fails(), "From PyTorch's larger vectors the patterns are too faint to see as well."),
            (any(0), "Two heads differ less than a head differs from itself after a small perturbation."),
            (any(2), "In most rows all heads have their largest weight on the same word."),
        ])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;

    fn planted(between: f64, perturbed: f64, elsewhere: f64) -> Measured {
        let mut table = Table::new();
        for (start, kind) in Start::ALL.into_iter().flat_map(|start| Kind::ALL.map(|kind| (start, kind))) {
            for (pair, values) in Pair::ALL.into_iter().zip([[between, elsewhere], [perturbed, 0.1]]) {
                for seed in 0..4 {
                    let noise = 0.0005 * seed as f64 * values[0];
                    table.add((start, kind, pair), seed, DIVERGENCE, values[0] + noise);
                    table.add((start, kind, pair), seed, ELSEWHERE, values[1] + noise);
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
