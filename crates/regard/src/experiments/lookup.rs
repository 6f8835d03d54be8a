//! Attention as a soft dictionary: a query that equals a key returns the value of that key.

use crate::experiment::{
    Bound, Check, Data, Experiment, Findings, Lab, Sizes, Table, Verdict, charts, facts,
};
use crate::figure::{Axis, Chart, ColourScale, Gallery, HeatMap, Matrix, Numbers, Picture, Series, number};
use crate::statistics::{Interval, slope_by_seed};
use anyhow::Result;
use regard_nn::attention::{Scale, scaled_dot_product};
use regard_nn::tensor::Tensor;
use regard_nn::tensor::random::Key;

pub const EXPERIMENT: Experiment = Experiment {
    name: "lookup",
    claims: &["E1"],
    question: "Is attention a soft dictionary lookup: does a query that equals a key return the value of that key?",
    prediction: "With n keys of length 1 whose cosines are c, a query that is β times a key gives it all but \
        (n − 1)/(n − 1 + e^β(1 − c)) of the weight. The error therefore falls by a factor e^(1 − c) with each unit of \
        sharpness β: orthogonal keys (c = 0) return the exact value, to rounding (an error below 1e-5), at β = 32, and the \
        plain mean (an error of 1, within 0.001) at β = 0; ln error falls by 1 with each unit of β where c is 0 and by 0.5 where it is 0.5 \
        (each within 0.05): keys that overlap need longer queries.",
    design: "A dictionary of 16 entries: keys of width 64 with equal cosines, randomly rotated, and values drawn from a standard \
        normal. Each key in turn, times the sharpness, is the query. The error is the distance of the output from the right value over that \
        of the plain mean of all values: 1 is the error of an uninformed answer, 0 that of a dictionary. Each draw is a seed.",
    changed: None,
    data: Data::Drawn,
    conditions: &["overlap", "sharpness"],
    seeds: Sizes::quick(30).standard(100).full(300),
    seconds: Sizes::quick(1.0).standard(3.0).full(10.0),
    trains: |_| Ok(Vec::new()),
    run,
};

const ENTRIES: usize = 16;
const WIDTH: usize = 64;
const VALUE_WIDTH: usize = 16;
const SHARPNESS: [f32; 13] = [0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 24.0, 32.0];
/// Where the error is small but not yet rounding, in units of β(1 − c): the slope is taken here.
const FALLING: std::ops::RangeInclusive<f32> = 8.0..=12.0;
const OVERLAPS: [f32; 4] = [0.0, 0.25, 0.5, 0.75];
/// The sharpness of the heat maps.
const SHOWN: [f32; 4] = [0.0, 2.0, 4.0, 8.0];

const ERROR: &str = "error";

/// Overlap and sharpness.
type Measured = Table<(f32, f32)>;

facts! {
    ERROR_AT(sharpness: f32) = "error at sharpness {sharpness}";
    COUNT = "entries";
}

fn run(lab: &Lab) -> Result<Findings> {
    let (first, seeds) = (lab.first_seed(), lab.seeds().len() as u64);
    // A draw takes less time than a part: all draws of an overlap are one.
    let inputs = OVERLAPS.map(|overlap| (overlap, first, seeds));
    let parts = lab.parts("draws", &inputs, |&(overlap, first, seeds)| {
        (first..first + seeds).map(|seed| errors(overlap, seed)).collect::<Result<Vec<_>>>()
    })?;
    let mut table = Table::new();
    for (overlap, draws) in OVERLAPS.into_iter().zip(&parts) {
        for (seed, errors) in (first..).zip(draws) {
            for (sharpness, &error) in SHARPNESS.into_iter().zip(errors) {
                table.add((overlap, sharpness), seed, ERROR, error);
            }
        }
    }
    let mut findings = Findings::default();
    draw(&mut findings, &table, (first, seeds))?;
    after_cat(&mut findings)?;
    findings.verdicts = vec![judge(&table)];
    findings.facts(ERROR_AT, [4.0, 8.0, 32.0], |sharpness| table.mean((0.0, sharpness), ERROR).mean);
    findings.fact(COUNT, ENTRIES as f64);
    findings.finish(lab, table)
}

/// A random dictionary.
struct Dictionary {
    keys: Tensor,
    values: Tensor,
}

impl Dictionary {
    fn new(overlap: f32, seed: u64) -> Result<Self> {
        let key = Key::new(seed).site("lookup");
        let values = key.site("values").normal(ENTRIES * VALUE_WIDTH, 1.0);
        Ok(Self {
            keys: Tensor::new(&keys(overlap, key), [ENTRIES, WIDTH])?,
            values: Tensor::new(&values, [ENTRIES, VALUE_WIDTH])?,
        })
    }

    /// The outputs and weights for every key, times the sharpness, as the query.
    fn look_up(&self, sharpness: f32) -> Result<(Tensor, Tensor)> {
        let Self { keys, values } = self;
        Ok(scaled_dot_product(&keys.scale(sharpness)?, keys, values, None, Scale::None)?)
    }
}

/// The error of one dictionary at every [`SHARPNESS`].
fn errors(overlap: f32, seed: u64) -> Result<Vec<f64>> {
    let dictionary = Dictionary::new(overlap, seed)?;
    let values = &dictionary.values;
    let uninformed = norm(&values.subtract(&values.mean(0)?.reshape([1, VALUE_WIDTH])?)?);
    let error = |&sharpness: &f32| Ok(norm(&dictionary.look_up(sharpness)?.0.subtract(values)?) / uninformed);
    SHARPNESS.iter().map(error).collect()
}

fn norm(x: &Tensor) -> f64 {
    x.values().iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt()
}

/// Keys of length 1 with a given cosine between any two: √c of a shared direction and √(1 − c) of one of their own.
fn keys(overlap: f32, key: Key) -> Vec<f32> {
    let axes = orthonormal(ENTRIES + 1, key.site("axes"));
    let (shared, own) = (overlap.sqrt(), (1.0 - overlap).sqrt());
    let entry =
        |i: usize| (0..WIDTH).map(|j| shared * axes[ENTRIES][j] + own * axes[i][j]).collect::<Vec<_>>();
    (0..ENTRIES).flat_map(entry).collect()
}

/// Random directions at right angles to each other: Gram and Schmidt's way, in double precision.
fn orthonormal(count: usize, key: Key) -> Vec<Vec<f32>> {
    let mut axes: Vec<Vec<f64>> = Vec::with_capacity(count);
    for i in 0..count {
        let mut axis: Vec<f64> = key.step(i as u64).normal(WIDTH, 1.0).into_iter().map(f64::from).collect();
        // Twice: once leaves what rounding puts in.
        for _ in 0..2 {
            for other in &axes {
                let along: f64 = axis.iter().zip(other).map(|(a, b)| a * b).sum();
                axis.iter_mut().zip(other).for_each(|(a, b)| *a -= along * b);
            }
        }
        let length = axis.iter().map(|a| a * a).sum::<f64>().sqrt();
        axes.push(axis.iter().map(|a| a / length).collect());
    }
    axes.into_iter().map(|axis| axis.into_iter().map(|a| a as f32).collect()).collect()
}

/// The source's example: a text as a dictionary from each word to the next one.
const SENTENCE: [&str; 5] = ["The", "cat", "sat", "on", "the"];

facts! {
    /// The weight that the question "What comes after 'cat'?" gives to the entry of "cat", by its sharpness.
    pub AFTER_CAT(sharpness: f32) = "what comes after cat: weight on sat, sharpness {sharpness}";
}

/// "What comes after 'cat'?" The keys are the words The, cat, sat, on; the value of each is the word after it. The query is the key of
/// "cat", times its sharpness. Keys are unit vectors at right angles, so that all can be checked by hand: with sharpness β the
/// entry of "cat" gets e^β / (e^β + 3).
fn after_cat(findings: &mut Findings) -> Result<()> {
    let words = SENTENCE.len() - 1;
    let mut identity = vec![0.0; words * words];
    (0..words).for_each(|i| identity[i * words + i] = 1.0);
    let keys = Tensor::new(&identity, [words, words])?;
    let mut maps = Vec::new();
    for sharpness in [0.0, 1.0, 2.0, 4.0] {
        let query = Tensor::new(&[0.0, sharpness, 0.0, 0.0], [1, words])?;
        let (_, weights) = scaled_dot_product(&query, &keys, &keys, None, Scale::None)?;
        findings.fact(AFTER_CAT.of(sharpness), f64::from(weights.values()[1]));
        maps.push((sharpness, weights.to_vec()));
    }
    let matrix = Matrix::from_fn(maps.len(), words, |row, column| maps[row].1[column]);
    let names = maps.iter().map(|(sharpness, _)| format!("β = {sharpness}")).collect();
    let entries = (0..words).map(|i| format!("{} → {}", SENTENCE[i], SENTENCE[i + 1])).collect();
    findings.figure(
        "after_cat",
        "“What comes after ‘cat’?” as a lookup. Each entry pairs a word (its key) with the word after it (its value); the query is the key of \
         “cat”, times its sharpness β. The answer is the mean of the values by these weights: at β = 4 it is mostly “sat”.",
        Picture::new("What comes after “cat”?").panel(
            HeatMap::new(matrix, ColourScale::sequential("weight").range(0.0, 1.0))
                .words(names, entries)
                .names("query", "entry")
                .numbers(Numbers::Decimals(2))
                .area(330.0, 160.0),
        ),
    );
    Ok(())
}

fn draw(findings: &mut Findings, table: &Measured, (first, seeds): (u64, u64)) -> Result<()> {
    let empty =
        Chart::new(Axis::linear("sharpness β of the query"), Axis::log("error ÷ error of the plain mean"));
    let chart = OVERLAPS.into_iter().fold(empty, |chart, overlap| {
        // An error of exactly 0 has no place on a logarithmic axis.
        let points = SHARPNESS.into_iter().filter_map(|sharpness| {
            let error = table.mean((overlap, sharpness), ERROR).mean;
            (error > 1e-8).then_some((f64::from(sharpness), error))
        });
        chart.series(Series::new(format!("cosine {overlap}")).points(points))
    });
    findings.figure(
        "error_against_sharpness",
        "The error of a lookup against the sharpness of its query, for orthogonal and for overlapping keys. A straight line on this axis \
         is an exponential; where a line ends, the output is exact to the rounding of 32-bit numbers.",
        Picture::new("Error against sharpness")
            .subtitle(format!("{ENTRIES} entries, mean of {seeds} dictionaries"))
            .panel(chart),
    );
    let empty = Gallery::new(SHOWN.len(), ColourScale::sequential("weight").range(0.0, 1.0))
        .row_titles(vec!["cosine 0".into(), "cosine 0.5".into()])
        .column_titles(SHOWN.iter().map(|sharpness| format!("β = {sharpness}")).collect());
    let mut maps = Vec::new();
    for overlap in [0.0, 0.5] {
        let dictionary = Dictionary::new(overlap, first)?;
        for sharpness in SHOWN {
            maps.push(dictionary.look_up(sharpness)?.1.to_vec());
        }
    }
    let gallery = charts::with_maps(empty, ENTRIES, &maps);
    findings.figure(
        "lookup_weights",
        "Each row is the query for one of the 16 keys. At β = 0 every key gets the same weight; as the query grows, only the matching key \
         is left.",
        Picture::new("From a mean of everything to a dictionary").panel(gallery),
    );
    Ok(())
}

/// The change of ln error with each unit of sharpness, where it falls.
fn fall(table: &Measured, overlap: f32) -> Interval {
    let falling = SHARPNESS.into_iter().filter(|&sharpness| FALLING.contains(&(sharpness * (1.0 - overlap))));
    let log = |error: f64| error.max(1e-12).ln();
    let points =
        falling.map(|sharpness| (f64::from(sharpness), table.values((overlap, sharpness), ERROR).map(log)));
    slope_by_seed(&points.collect::<Vec<_>>())
}

fn judge(table: &Measured) -> Verdict {
    let error = |sharpness| table.mean((0.0, sharpness), ERROR);
    let finding = format!(
        "With orthogonal keys the error is {:.2} of that of the plain mean at sharpness 2, {:.4} at 8 and {} at 32. \
         ln error falls by {:.3} with each unit of sharpness, and by {:.3} where keys have cosine 0.5.",
        error(2.0).mean,
        error(8.0).mean,
        number(error(32.0).mean),
        -fall(table, 0.0).mean,
        -fall(table, 0.5).mean,
    );
    let what = |cosine: &str| format!("keys of cosine {cosine}: ln error, change per unit of sharpness");
    let checks = vec![
        Check::new("orthogonal keys, sharpness 32: error", error(32.0), Bound::Below(1e-5)),
        Check::new("orthogonal keys, sharpness 0: error", error(0.0), Bound::Between(0.999, 1.001)),
        Check::new(what("0"), fall(table, 0.0), Bound::Between(-1.05, -0.95)),
        Check::new(what("0.5"), fall(table, 0.5), Bound::Between(-0.55, -0.45)),
    ];
    Verdict::new("E1", checks, finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;

    fn planted(error: impl Fn(f32, f32) -> f64) -> Measured {
        let mut table = Table::new();
        for overlap in OVERLAPS {
            for sharpness in SHARPNESS {
                for seed in 0..4 {
                    let noise = 1.0 + 1e-4 * seed as f64;
                    table.add((overlap, sharpness), seed, ERROR, noise * error(overlap, sharpness));
                }
            }
        }
        table
    }

    #[test]
    fn the_verdict_follows_the_errors() {
        let soft = |overlap: f32, sharpness: f32| f64::from(-sharpness * (1.0 - overlap)).exp();
        assert_eq!(judge(&planted(soft)).outcome, Outcome::Holds);
        let never_exact = |overlap: f32, sharpness: f32| soft(overlap, sharpness).max(0.1);
        assert_eq!(judge(&planted(never_exact)).outcome, Outcome::Fails);
    }

    #[test]
    fn what_comes_after_cat_is_mostly_sat() {
        let mut findings = Findings::default();
        after_cat(&mut findings).unwrap();
        let weight = |sharpness: f32| findings.facts[&AFTER_CAT.of(sharpness).name];
        assert_eq!(weight(0.0), 0.25);
        for sharpness in [1.0_f32, 2.0, 4.0] {
            let expected = f64::from(sharpness).exp() / (f64::from(sharpness).exp() + 3.0);
            assert!((weight(sharpness) - expected).abs() < 1e-6);
        }
    }

    #[test]
    fn keys_have_the_cosines_they_should() {
        let keys = keys(0.25, Key::new(1));
        let dot = |i: usize, j: usize| -> f32 {
            (0..WIDTH).map(|k| keys[i * WIDTH + k] * keys[j * WIDTH + k]).sum()
        };
        assert!((dot(3, 3) - 1.0).abs() < 1e-5);
        assert!((dot(3, 7) - 0.25).abs() < 1e-5);
    }

    #[test]
    fn the_error_is_the_predicted_one() -> Result<()> {
        // The rest of the weight is spread evenly over the other values, so that the error is its share times n/(n − 1).
        let errors = errors(0.5, 0)?;
        for (sharpness, error) in SHARPNESS.iter().zip(errors) {
            let others = (ENTRIES - 1) as f64;
            let rest = others / (others + f64::from(sharpness * 0.5).exp());
            let expected = rest * ENTRIES as f64 / others;
            assert!((error - expected).abs() < 1e-4 * expected.max(0.1), "{sharpness}: {error} {expected}");
        }
        Ok(())
    }
}
