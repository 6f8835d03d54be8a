//! Projections of embedding tables: principal components (Pearson, 1901) and nearest neighbours.
//!
//! ```
//! use regard_nn::analysis::projection::{neighbours, pca};
//! use regard_nn::tensor::Tensor;
//!
//! let table = Tensor::new(&[1.0, 1.0, 2.0, 2.0, 4.0, 3.9], [3, 2])?;
//! assert!(pca(&table, 1)?.explained[0] > 0.99);
//! assert_eq!(neighbours(&table, 0, 1)?[0].0, 1);
//! # Ok::<(), regard_nn::Error>(())
//! ```

use super::eigen;
use crate::error::{Error, Result};
use regard_tensor::Tensor;

/// Principal component analysis of the rows of a table.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Pca {
    /// The mean row.
    pub mean: Vec<f64>,
    /// The principal directions by decreasing variance; unit vectors whose largest component is positive.
    pub components: Vec<Vec<f64>>,
    /// The share of the variance along each direction.
    pub explained: Vec<f64>,
    /// The coordinates of each row along the directions.
    pub coordinates: Vec<Vec<f64>>,
}

/// The first `count` principal components of the rows of a table (rows, width).
pub fn pca(table: &Tensor, count: usize) -> Result<Pca> {
    let (rows, width) = sizes(table)?;
    let values = table.values();
    let mut mean = vec![0.0; width];
    for row in values.chunks_exact(width) {
        mean.iter_mut().zip(row).for_each(|(mean, &x)| *mean += f64::from(x) / rows as f64);
    }
    let mut covariance = vec![0.0; width * width];
    for row in values.chunks_exact(width) {
        let centred: Vec<f64> = row.iter().zip(&mean).map(|(&x, mean)| f64::from(x) - mean).collect();
        for (i, x) in centred.iter().enumerate() {
            let row = covariance[i * width..].iter_mut().zip(&centred).skip(i);
            row.for_each(|(sum, y)| *sum += x * y);
        }
    }
    for i in 0..width {
        for j in 0..i {
            covariance[i * width + j] = covariance[j * width + i];
        }
    }
    let total: f64 = (0..width).map(|i| covariance[i * width + i]).sum();
    let found: Vec<(f64, Vec<f64>)> = eigen::symmetric(covariance, width).into_iter().take(count).collect();
    let place = |row: &[f32]| -> Vec<f64> {
        let along = |direction: &Vec<f64>| {
            let centred = row.iter().zip(&mean).map(|(&x, mean)| f64::from(x) - mean);
            centred.zip(direction).map(|(x, d)| x * d).sum()
        };
        found.iter().map(|(_, direction)| along(direction)).collect()
    };
    let coordinates = values.chunks_exact(width).map(place).collect();
    let share = |value: f64| if total > 0.0 { value.max(0.0) / total } else { 0.0 };
    let explained = found.iter().map(|&(value, _)| share(value)).collect();
    Ok(Pca { explained, coordinates, components: found.into_iter().map(|(_, v)| v).collect(), mean })
}

/// The `count` nearest rows by cosine similarity, with their cosines, nearest first; the row itself is left out.
pub fn neighbours(table: &Tensor, row: usize, count: usize) -> Result<Vec<(usize, f64)>> {
    let (rows, width) = sizes(table)?;
    if row >= rows {
        return Err(Error::input(
            "nearest neighbours",
            format!("row {row} is out of range, there are {rows}"),
        ));
    }
    let values = table.values();
    let at = |i: usize| &values[i * width..(i + 1) * width];
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum::<f64>();
    let here = at(row);
    let length = dot(here, here).sqrt();
    let cosine = |other: usize| {
        let lengths = length * dot(at(other), at(other)).sqrt();
        if lengths > 0.0 { dot(here, at(other)) / lengths } else { 0.0 }
    };
    let mut all: Vec<(usize, f64)> = (0..rows).filter(|&i| i != row).map(|i| (i, cosine(i))).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all.truncate(count);
    Ok(all)
}

fn sizes(table: &Tensor) -> Result<(usize, usize)> {
    match table.shape()[..] {
        [rows, width] if rows > 0 && width > 0 => Ok((rows, width)),
        _ => {
            Err(Error::input("projection", format!("a table needs rows and columns, got {}", table.shape())))
        }
    }
}
