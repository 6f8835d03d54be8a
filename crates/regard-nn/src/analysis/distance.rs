//! Distances between heads (Jensen–Shannon), and their maps by multidimensional scaling.
//!
//! ```text
//! JS(p, q) = H((p + q)/2) − (H(p) + H(q))/2        in bits: 0 for equal rows, 1 for rows that share no key
//! ```
//!
//! The divergence of two heads is the mean over a text's queries, then over texts; their distance is its square root,
//! which is a metric (Endres & Schindelin, 2003). Clark et al. (2019) map heads by it.

use super::heads::record_weights;
use super::{Head, Subject, Tokens, Visibility, all_heads, eigen};
use crate::error::{Error, Result};
use std::ops::Range;

/// A symmetric matrix of distances with zeros on its diagonal.
#[derive(Debug, Clone, PartialEq)]
pub struct Distances {
    count: usize,
    values: Vec<f64>,
}

impl Distances {
    /// Distances of `count` points, each pair once: `between(i, j)` for i < j.
    pub fn from_fn(count: usize, mut between: impl FnMut(usize, usize) -> f64) -> Self {
        let mut values = vec![0.0; count * count];
        for i in 0..count {
            for j in i + 1..count {
                let distance = between(i, j);
                values[i * count + j] = distance;
                values[j * count + i] = distance;
            }
        }
        Self { count, values }
    }

    /// The number of points.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The distance between two of them.
    pub fn between(&self, i: usize, j: usize) -> f64 {
        self.values[i * self.count + j]
    }
}

/// The Jensen–Shannon divergence of two distributions, in bits.
pub fn jensen_shannon(p: &[f64], q: &[f64]) -> f64 {
    let middle: f64 = p.iter().zip(q).map(|(p, q)| information((p + q) / 2.0)).sum();
    let apart: f64 = p.iter().chain(q).map(|&p| information(p)).sum();
    (middle - apart / 2.0).clamp(0.0, 1.0)
}

/// −p·log₂ p.
fn information(p: f64) -> f64 {
    if p > 0.0 { -p * p.log2() } else { 0.0 }
}

/// The heads of a model and the mean Jensen–Shannon divergence of each pair over texts, in bits.
///
/// The time grows with the square of the number of heads; a hundred texts are usually enough.
pub fn head_divergences<'a>(
    subject: impl Into<Subject<'a>>,
    texts: impl Iterator<Item = Result<Tokens>>,
) -> Result<(Vec<Head>, Distances)> {
    let subject = subject.into();
    let heads = all_heads(subject)?;
    let mut sums = vec![0.0; heads.len() * heads.len()];
    let mut read = 0_u32;
    for text in texts {
        let text = text?;
        let rows = distributions(subject, &text)?;
        let queries = rows.first().map_or(0, Vec::len);
        if queries == 0 {
            continue;
        }
        for i in 0..heads.len() {
            for j in i + 1..heads.len() {
                let pairs = rows[i].iter().zip(&rows[j]);
                let total: f64 = pairs.map(|(p, q)| divergence(p, q)).sum();
                sums[i * heads.len() + j] += total / queries as f64;
            }
        }
        read += 1;
    }
    if read == 0 {
        return Err(Error::input("distances of heads", "no text has a query with more than one key"));
    }
    let count = heads.len();
    Ok((heads, Distances::from_fn(count, |i, j| sums[i * count + j] / f64::from(read))))
}

/// A query's distribution and its entropy, which all pairs share.
type Distribution = (Vec<f64>, f64);

fn divergence((p, p_entropy): &Distribution, (q, q_entropy): &Distribution) -> f64 {
    let middle: f64 = p.iter().zip(q).map(|(p, q)| information((p + q) / 2.0)).sum();
    (middle - (p_entropy + q_entropy) / 2.0).clamp(0.0, 1.0)
}

/// For each head, the normalised rows of the queries with more than one key.
fn distributions(subject: Subject, text: &Tokens) -> Result<Vec<Vec<Distribution>>> {
    let mut heads = Vec::new();
    let (sites, keys) = (subject.attentions()?, subject.keys(text));
    for (site, weights) in sites.iter().zip(record_weights(subject, std::slice::from_ref(text))?) {
        let [_, _, queries, stride] = weights.sizes();
        let all = weights.all();
        let of_head = |head: &[f32]| rows(head, (queries, stride), |query| site.visibility.keys(query, keys));
        heads.extend(all.values().chunks_exact(queries * stride).map(of_head));
    }
    Ok(heads)
}

fn rows(
    head: &[f32],
    (queries, stride): (usize, usize),
    seen: impl Fn(usize) -> Range<usize>,
) -> Vec<Distribution> {
    let with_choice = (0..queries).filter(|&query| seen(query).len() > 1);
    let row = |query: usize| {
        let keys = seen(query);
        let row = &head[query * stride + keys.start..query * stride + keys.end];
        let sum: f64 = row.iter().map(|&weight| f64::from(weight)).sum();
        let p: Vec<f64> = row.iter().map(|&w| if sum > 0.0 { f64::from(w) / sum } else { 0.0 }).collect();
        let entropy = p.iter().map(|&p| information(p)).sum();
        (p, entropy)
    };
    with_choice.map(row).collect()
}

/// The divergence of two heads' weights (queries × keys, row by row) on one text: the mean over the queries with more
/// than one key. `None` if there is no such query.
pub fn divergence_of_weights(
    a: &[f32],
    b: &[f32],
    length: usize,
    visibility: Visibility,
) -> Result<Option<f64>> {
    if a.len() != length * length || b.len() != length * length {
        let problem = format!("{length} tokens have {length}² weights, got {} and {}", a.len(), b.len());
        return Err(Error::input("distances of heads", problem));
    }
    let of = |head: &[f32]| rows(head, (length, length), |query| visibility.keys(query, length));
    let (a, b) = (of(a), of(b));
    let sum: f64 = a.iter().zip(&b).map(|(p, q)| divergence(p, q)).sum();
    Ok((!a.is_empty()).then(|| sum / a.len() as f64))
}

/// Distances that are the square roots of divergences.
pub fn root(divergences: &Distances) -> Distances {
    Distances::from_fn(divergences.count, |i, j| divergences.between(i, j).sqrt())
}

/// Coordinates of each point in a few dimensions whose distances approximate the given ones, by classical
/// multidimensional scaling (Torgerson, 1952), and the share of the squared distances that each axis keeps.
pub fn map(distances: &Distances, dimensions: usize) -> (Vec<Vec<f64>>, Vec<f64>) {
    let n = distances.count;
    let squared: Vec<f64> = distances.values.iter().map(|distance| distance * distance).collect();
    let means: Vec<f64> = squared.chunks(n.max(1)).map(|row| row.iter().sum::<f64>() / n as f64).collect();
    let mean = means.iter().sum::<f64>() / n.max(1) as f64;
    let centred = (0..n * n).map(|at| -0.5 * (squared[at] - means[at / n] - means[at % n] + mean)).collect();
    let pairs = eigen::symmetric(centred, n);
    let total: f64 = pairs.iter().map(|(value, _)| value.max(0.0)).sum();
    let kept: Vec<_> = pairs.into_iter().take(dimensions).collect();
    let place = |i: usize| kept.iter().map(|(value, axis)| value.max(0.0).sqrt() * axis[i]).collect();
    let share = |value: f64| if total > 0.0 { value.max(0.0) / total } else { 0.0 };
    ((0..n).map(place).collect(), kept.iter().map(|(value, _)| share(*value)).collect())
}
