//! Pictures of position encodings.

use super::Learned;
use super::models;
use crate::experiment::Findings;
use crate::figure::{Axis, Chart, ColourScale, HeatMap, Matrix, Picture, Series};
use anyhow::Result;
use regard_nn::position::{alibi_slopes, relative_bucket, sinusoidal};
use regard_nn::tensor::Ids;

/// Draws positions as vectors, and how two positions are related by their distance.
pub fn draw(
    findings: &mut Findings,
    length: usize,
    table: Option<Learned>,
    bias: Option<Learned>,
) -> Result<()> {
    let rows = models::ROOM * length;
    let width = table.as_ref().map_or(64, |(width, _)| *width);
    let places: Vec<u32> = (0..rows as u32).collect();
    let waves = sinusoidal(&Ids::new(&places, [rows])?, width)?.to_vec();
    let picture = |values: Vec<f32>| -> Result<HeatMap> {
        Ok(HeatMap::new(Matrix::new(rows, width, values)?, ColourScale::diverging("value"))
            .names("position", "feature")
            .area(350.0, 300.0))
    };
    let mut pictures = Picture::new("Positions as vectors")
        .subtitle(format!("Trained on windows of {length}; later rows are never trained"))
        .columns(2)
        .titled_panel("sinusoidal", picture(waves.clone())?);
    let mut series = vec![Series::new("sinusoidal").points(cosines(&waves, width, length))];
    if let Some((_, table)) = table {
        series.push(Series::new("learned").points(cosines(&table, width, length)));
        pictures = pictures.titled_panel("learned", picture(table)?);
    }
    // Rotation is per head, and a head is narrower than the model.
    let head = width / bias.as_ref().map_or(4, |(heads, _)| *heads).max(1);
    let frequencies = (0..head / 2).map(|i| 10_000_f64.powf(-2.0 * i as f64 / head as f64));
    let turned = |distance: usize| {
        let sum: f64 = frequencies.clone().map(|frequency| (distance as f64 * frequency).cos()).sum();
        (distance as f64, sum / (head / 2).max(1) as f64)
    };
    series.push(Series::new("rotary").points((0..length).map(turned)));
    findings.figure(
        "positions_as_pictures",
        "What is added to a word's vector at each position: waves of falling frequency, and the table that a model learned. No training \
         window reaches the later rows of the learned table.",
        pictures,
    );
    let empty = Chart::new(Axis::linear("distance, tokens"), Axis::linear("mean cosine of two positions"));
    let alike = series.into_iter().fold(empty, Chart::series);
    let empty = Chart::new(Axis::linear("distance, tokens"), Axis::linear("added to the score"));
    let slopes = alibi_slopes(bias.as_ref().map_or(4, |(heads, _)| *heads));
    let mut penalties = slopes.iter().take(2).enumerate().fold(empty, |chart, (head, slope)| {
        let points = (0..length).map(|distance| (distance as f64, -f64::from(*slope) * distance as f64));
        chart.series(Series::new(format!("ALiBi, head {head}")).points(points))
    });
    if let Some((heads, bias)) = bias {
        for head in 0..heads.min(2) {
            let points = (0..length).map(|distance| {
                let bucket = relative_bucket(-(distance as i64), bias.len() / heads, 128, false) as usize;
                (distance as f64, f64::from(bias[bucket * heads + head]))
            });
            penalties = penalties.series(Series::new(format!("T5 bias, head {head}")).points(points));
        }
    }
    findings.figure(
        "positions_against_distance",
        "The similarity of two positions by their distance: the cosine of their vectors, and for rotary positions that of a vector and its \
         rotation. And what ALiBi and the trained T5 bias add to a score.",
        Picture::new("Positions by distance")
            .columns(2)
            .titled_panel("by similarity", alike.half())
            .titled_panel("by penalty", penalties.half()),
    );
    Ok(())
}

/// The mean cosine of the rows of a table by their distance, among those that are trained.
fn cosines(table: &[f32], width: usize, length: usize) -> Vec<(f64, f64)> {
    let row = |i: usize| &table[i * width..(i + 1) * width];
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
    let cosine = |i: usize, j: usize| {
        dot(row(i), row(j)) / (dot(row(i), row(i)) * dot(row(j), row(j))).sqrt().max(f64::MIN_POSITIVE)
    };
    let at = |distance: usize| {
        let pairs = length - distance;
        let sum: f64 = (0..pairs).map(|i| cosine(i, i + distance)).sum();
        (distance as f64, sum / pairs as f64)
    };
    // The last distances have few pairs.
    (0..length - length / 8).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likeness_is_the_cosine_at_each_distance() {
        // Rows that turn by a quarter: alike at 0, at right angles at 1, opposite at 2.
        let table: Vec<f32> = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]].concat().repeat(4);
        let likeness: Vec<f64> = cosines(&table, 2, 16).into_iter().map(|(_, cosine)| cosine).collect();
        assert_eq!(likeness[..3], [1.0, 0.0, -1.0]);
    }
}
