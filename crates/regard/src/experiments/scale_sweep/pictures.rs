//! Pictures of attention with and without the scale.

use super::{Kind, Measure, Measured, PUBLISHED, TOKENS, WIDTHS};
use crate::experiment::{Findings, charts};
use crate::figure::{Axis, Chart, ColourScale, Gallery, Histogram, Picture, Series};

/// Draws one draw of each width.
pub fn draw_weights<'a>(findings: &mut Findings, weights: impl Iterator<Item = &'a Vec<f32>>) {
    let empty = Gallery::new(WIDTHS.len(), ColourScale::sequential("weight").range(0.0, 1.0))
        .row_titles(Kind::ALL.map(|kind| kind.label().to_owned()).to_vec())
        .column_titles(WIDTHS.iter().map(|width| format!("dₖ = {width}")).collect());
    findings.figure(
        "attention_heatmap_gallery",
        "Weights of 8 queries (rows) over 8 keys, one draw for each width, with and without the scale.",
        Picture::new("Attention with and without the scale").panel(charts::with_maps(empty, TOKENS, weights)),
    );
}

/// Draws the measures against the width.
pub fn draw_measures(findings: &mut Findings, table: &Measured, seeds: u64) {
    let chart = |measure: Measure, label: &str| {
        let axis = Axis::log("dₖ").ticks(WIDTHS.map(|width| width as f64));
        let empty = Chart::new(axis, Axis::linear(label).from_zero());
        let chart = Kind::ALL.into_iter().fold(empty, |chart, kind| {
            let points = WIDTHS.map(|width| {
                let sample = table.values((width, kind.scaled()), measure);
                let (x, centre, low, high) = charts::spread_point(width as f64, &sample);
                (x, centre, low.max(0.0), high)
            });
            chart.series(Series::new(kind.label()).intervals(points))
        });
        chart.half()
    };
    let gradients = Picture::new("Gradients against width")
        .subtitle(format!("Mean ± sd over {seeds} draws"))
        .columns(2)
        .titled_panel("Q", chart(Measure::OfQ, "gradient norm"))
        .titled_panel("K", chart(Measure::OfK, "gradient norm"))
        .titled_panel("scores", chart(Measure::OfScores, "gradient norm"))
        .titled_panel("median row of Q", chart(Measure::MedianOfQ, "gradient norm of the median row"))
        .titled_panel(
            "median row of the scores",
            chart(Measure::MedianOfScores, "gradient norm of the median row"),
        )
        .titled_panel("rows of the scores that vanish", chart(Measure::VanishedOfScores, "share below 0.01"));
    let entropy = chart(Measure::Entropy, "mean entropy, nats");
    let sharpness = Picture::new("Sharpness against width")
        .subtitle("Mean ± sd over draws of 8 tokens")
        .columns(2)
        .titled_panel("largest weight", chart(Measure::Largest, "mean of the largest weight"))
        .titled_panel("entropy", entropy.level((TOKENS as f64).ln(), "uniform, ln 8"));
    let unscaled = table.values((256, false), Measure::Largest);
    let histogram = Histogram::new(Axis::linear("mean of the largest weight, unscaled, dₖ = 256"))
        .sample("our draws", &unscaled.values())
        .mark(PUBLISHED[0].2, "published draw");
    findings.figure(
        "gradient_norms_vs_dk",
        "Norms of the gradients of Q, K and the scores for a random direction of the output: of the whole, which few rows dominate, of the \
         median row, and the share of rows that are next to nothing. Means over draws; the text gives medians over draws for the median row.",
        gradients,
    );
    findings.figure(
        "sharpness_vs_dk",
        "The mean of each row's largest weight, and the rows' mean entropy.",
        sharpness,
    );
    findings.figure(
        "published_draw",
        "The one published draw among ours.",
        Picture::new("The published draw among ours").panel(histogram),
    );
}
