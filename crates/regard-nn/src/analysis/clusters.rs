//! Clustering: k-medoids, silhouettes, and a comparison with shuffled distances.

use super::distance::Distances;
use crate::error::{Error, Result};
use regard_tensor::random::Key;

/// The group (from 0) of each point by k-medoids (Kaufman & Rousseeuw, 1987): each group has one of the points as its
/// medoid, and the sum of distances to the nearest medoid is small. Deterministic.
pub fn clusters(distances: &Distances, groups: usize) -> Result<Vec<usize>> {
    let n = distances.count();
    if groups == 0 || groups > n {
        let problem = format!("{n} points cannot be divided into {groups} groups");
        return Err(Error::input("clusters", problem));
    }
    let cost = |middles: &[usize]| -> f64 {
        let nearest =
            |i: usize| middles.iter().map(|&m| distances.between(i, m)).fold(f64::INFINITY, f64::min);
        (0..n).map(nearest).sum()
    };
    let mut middles: Vec<usize> = Vec::with_capacity(groups);
    while middles.len() < groups {
        let with = |extra: usize| cost(&[&middles[..], &[extra]].concat());
        let free = (0..n).filter(|i| !middles.contains(i));
        let best = free.map(|i| (with(i), i)).min_by(|a, b| a.0.total_cmp(&b.0));
        middles.extend(best.map(|(_, i)| i));
    }
    // Each exchange reduces the cost, so the loop ends.
    let mut current = cost(&middles);
    loop {
        let mut best = (current, None);
        for group in 0..groups {
            for other in (0..n).filter(|i| !middles.contains(i)) {
                let mut tried = middles.clone();
                tried[group] = other;
                let cost = cost(&tried);
                if cost < best.0 - 1e-12 {
                    best = (cost, Some((group, other)));
                }
            }
        }
        let (cost, Some((group, other))) = best else { break };
        middles[group] = other;
        current = cost;
    }
    let nearest = |i: usize| {
        let by_distance = |a: &usize, b: &usize| {
            distances.between(i, middles[*a]).total_cmp(&distances.between(i, middles[*b]))
        };
        (0..groups).min_by(by_distance).unwrap_or(0)
    };
    Ok((0..n).map(nearest).collect())
}

/// The mean silhouette (Rousseeuw, 1987): (b − a) / max(a, b), with a the mean distance to the other points of the same
/// group and b that to the nearest other group; 0 for points alone in their group.
pub fn silhouette(distances: &Distances, groups: &[usize]) -> f64 {
    let n = distances.count().min(groups.len());
    let kinds = groups.iter().max().map_or(0, |&last| last + 1);
    let of = |i: usize| -> f64 {
        let mut sums = vec![(0.0, 0_u32); kinds];
        for j in (0..n).filter(|&j| j != i) {
            sums[groups[j]].0 += distances.between(i, j);
            sums[groups[j]].1 += 1;
        }
        let means: Vec<Option<f64>> =
            sums.iter().map(|&(sum, count)| (count > 0).then(|| sum / f64::from(count))).collect();
        let others =
            means.iter().enumerate().filter(|&(kind, _)| kind != groups[i]).filter_map(|(_, mean)| *mean);
        match (means[groups[i]], others.min_by(f64::total_cmp)) {
            (Some(own), Some(other)) if own.max(other) > 0.0 => (other - own) / own.max(other),
            _ => 0.0,
        }
    };
    if n == 0 { 0.0 } else { (0..n).map(of).sum::<f64>() / n as f64 }
}

/// A clustering, compared with clusterings of shuffled distances.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Clustering {
    /// The group of each point.
    pub groups: Vec<usize>,
    /// The mean silhouette.
    pub silhouette: f64,
    /// The mean silhouettes after assigning the same distances to random pairs and clustering again.
    pub shuffled: Vec<f64>,
    /// The share of silhouettes, the true one included, that are at least as large as the true one.
    pub p_value: f64,
}

/// Groups, their silhouette, and the silhouettes after shuffling the distances `shuffles` times.
pub fn against_shuffled(
    distances: &Distances,
    groups: usize,
    key: Key,
    shuffles: usize,
) -> Result<Clustering> {
    let found = clusters(distances, groups)?;
    let true_silhouette = silhouette(distances, &found);
    let n = distances.count();
    let pairs: Vec<f64> =
        (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j))).map(|(i, j)| distances.between(i, j)).collect();
    let key = key.site("shuffled distances");
    let mut shuffled = Vec::with_capacity(shuffles);
    for shuffle in 0..shuffles as u64 {
        let order = key.permutation(shuffle, pairs.len());
        let mut dealt = order.into_iter().map(|from| pairs[from]);
        let distances = Distances::from_fn(n, |_, _| dealt.next().unwrap_or(0.0));
        shuffled.push(silhouette(&distances, &clusters(&distances, groups)?));
    }
    let as_large = shuffled.iter().filter(|&&s| s >= true_silhouette).count();
    let p_value = (as_large + 1) as f64 / (shuffles + 1) as f64;
    Ok(Clustering { groups: found, silhouette: true_silhouette, shuffled, p_value })
}
