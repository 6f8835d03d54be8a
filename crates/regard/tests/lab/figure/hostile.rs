//! Data and labels that mean no good, or mean nothing.

use super::check_sound;
use proptest::prelude::*;
use regard::figure::{
    Axis, Bar, Bars, Chart, ColourScale, Gallery, Groups, HeatMap, Histogram, IntervalRow, Intervals, Matrix,
    Passage, Picture, Point, Scatter, Series, Theme, VerdictStyle, Words,
};

/// Every kind of panel, from the same labels and values.
fn everything(labels: &[String], values: &[f64], log: bool) -> Vec<Picture> {
    let label = |i: usize| labels.get(i % labels.len().max(1)).cloned().unwrap_or_default();
    let value = |i: usize| values.get(i % values.len().max(1)).copied().unwrap_or(f64::NAN);
    let axis = |i: usize| if log { Axis::log(label(i)) } else { Axis::linear(label(i)) };
    let n = values.len();
    let matrix = || Matrix::from_fn(n, n, |row, column| value(row + 3 * column) as f32);
    let scales = [ColourScale::sequential(label(1)), ColourScale::diverging(label(2))];
    let tripled = || (0..n).map(|i| (value(i), value(i + 1), value(i + 2), value(i + 3)));
    let bars = || (0..n).map(|i| Bar::new(value(i)).interval(value(i + 1), value(i + 2))).collect::<Vec<_>>();
    let mut pictures = Vec::new();
    for scale in scales {
        let map = HeatMap::new(matrix(), scale.clone())
            .words(labels.to_vec(), labels.to_vec())
            .names(label(0), label(1))
            .highlight(0, 99);
        let gallery = Gallery::new(2, scale.clone())
            .map(label(0), matrix())
            .map(label(1), matrix())
            .words(labels.to_vec(), labels.to_vec())
            .row_titles(labels.to_vec())
            .column_titles(labels.to_vec());
        let words = Words::new(scale).passage(
            Passage::new((0..n).map(|i| (label(i), value(i) as f32)))
                .heading(label(2))
                .right(n.is_multiple_of(2)),
        );
        pictures.push(Picture::new(label(0)).subtitle(label(1)).note(label(2)).titled_panel(label(3), map));
        pictures.push(Picture::new(label(0)).panel(gallery));
        pictures.push(Picture::new(label(0)).panel(words));
    }
    let chart = Chart::new(axis(0), axis(1))
        .series(Series::new(label(0)).intervals(tripled()))
        .series(Series::new(label(1)).intervals(tripled()).band())
        .series(Series::new(label(2)).points(tripled().map(|(x, y, _, _)| (y, x))).fit())
        .level(value(0), label(0))
        .upright(value(1), label(1));
    let points = (0..n).map(|i| Point::new(value(i), value(i + 1)).label(label(i)).class(i * 1_000_003));
    let scatter = Scatter::new(axis(0), axis(1)).classes(labels.to_vec()).points(points);
    let interval =
        |i: usize| IntervalRow::new(label(i), value(i), value(i + 1), value(i + 2)).published(value(i + 3));
    let intervals = (0..n).fold(Intervals::new(axis(0)).reference(value(0)), |plot, i| {
        plot.line(
            interval(i).verdict([VerdictStyle::Holds, VerdictStyle::Fails, VerdictStyle::Undecided][i % 3]),
        )
    });
    pictures.push(Picture::new("").panel(chart));
    pictures.push(
        Picture::new("")
            .panel(Chart::roc([Series::new(label(0)).points(tripled().map(|(x, y, _, _)| (x, y)))])),
    );
    pictures.push(Picture::new("").panel(scatter.clone()).panel(scatter.equal_units()).columns(2));
    pictures
        .push(Picture::new("").panel(
            Bars::upright(labels.to_vec(), axis(0)).series(label(0), bars()).series(label(1), bars()),
        ));
    pictures.push(Picture::new("").panel(Bars::lying(labels.to_vec(), axis(0)).series(label(0), bars())));
    pictures.push(Picture::new("").panel(intervals));
    pictures.push(
        Picture::new("").panel(Histogram::new(axis(0)).sample(label(0), values).mark(value(0), label(1))),
    );
    pictures.push(Picture::new("").panel(Groups::new(axis(0)).group(label(0), values).group(label(1), &[])));
    pictures
}

fn strings(labels: &[&str]) -> Vec<String> {
    labels.iter().map(|&label| label.to_owned()).collect()
}

#[test]
fn no_data_is_still_a_picture() {
    check_sound(&Picture::new("").description("nothing"));
    for log in [false, true] {
        for picture in everything(&[], &[], log) {
            check_sound(&picture);
            picture.to_png(Theme::LIGHT).unwrap();
        }
    }
}

#[test]
fn hostile_labels_are_only_text() {
    let labels = strings(&[
        "<script>alert(1)</script>",
        "\"/><image href='x' onerror=alert(1)>&amp;]]>",
        "\u{0}\u{1}\u{b}\u{1b}[31m\u{fffe}\u{ffff}",
        "\u{202e}evil\u{2066} مرحبا بالعالم שלום",
        "👩‍👩‍👧‍👦🙂 文字化け \u{10ffff}",
        "a\u{300}\u{301}\u{302}\u{303}\u{304}\u{305}\u{489}",
        "",
        "   ",
        "\n\r\t",
        "--><!-- <![CDATA[ ${x} {{y}}",
    ]);
    for picture in everything(&labels, &[0.1, 0.9, 0.4, 0.7, 0.2, 0.3, 0.5, 0.6, 0.8, 1.0], false) {
        check_sound(&picture);
        picture.scale(1.0).to_png(Theme::LIGHT).unwrap();
    }
}

#[test]
fn endless_labels_are_cut() {
    let labels = vec!["word ".repeat(100_000), "x".repeat(1_000_000)];
    for picture in everything(&labels, &[0.5, 0.25], false) {
        check_sound(&picture);
        let (width, height) = picture.draw().size();
        assert!(width < 3000.0 && height < 3000.0, "{width} × {height}");
    }
}

#[test]
fn extreme_values_are_drawn_or_left_out() {
    let labels = strings(&["a", "b", "c"]);
    let sets: [&[f64]; 9] = [
        &[f64::NAN, f64::NAN, f64::NAN],
        &[f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1.0],
        &[f64::MAX, f64::MIN, 0.0],
        &[f64::MIN_POSITIVE, 5e-324, 0.0],
        &[1e300, 1e-300, -1e300],
        &[7.0, 7.0, 7.0],
        &[0.0, 0.0],
        &[-5.0, -1e-9, -3.0],
        &[1e15, 1e15 + 1.0, 1e15 + 2.0],
    ];
    for values in sets {
        for log in [false, true] {
            for picture in everything(&labels, values, log) {
                check_sound(&picture);
            }
        }
    }
}

#[test]
fn ranges_that_make_no_sense_are_ignored() {
    let axis =
        || Axis::log("x").range(-1.0, 5.0).range(5.0, 5.0).range(f64::NAN, 1.0).ticks([0.0, -3.0, f64::NAN]);
    let series = || Series::new("a").points([(1.0, 1.0), (10.0, 100.0)]);
    check_sound(&Picture::new("").panel(Chart::new(axis(), axis()).series(series())));
    let scale = ColourScale::sequential("").range(1.0, 0.0).range(f64::NAN, f64::INFINITY);
    check_sound(&Picture::new("").panel(HeatMap::new(Matrix::from_fn(2, 2, |r, _| r as f32), scale)));
    // Far outside the range: cut off at the border.
    let axis = || Axis::linear("x").range(0.0, 1e-6);
    check_sound(&Picture::new("").panel(Chart::new(axis(), axis()).series(series().band())));
}

#[test]
fn very_many_points_stay_a_small_file() {
    let wave = |n: usize| (0..n).map(|i| (i as f64, (i as f64 * 0.01).sin()));
    let chart = Chart::new(Axis::linear("step"), Axis::linear("loss"))
        .series(Series::new("a").points(wave(1_000_000)));
    let svg = Picture::new("").panel(chart).to_svg(Theme::LIGHT);
    assert!(svg.len() < 200_000, "{} bytes", svg.len());
    let points = wave(100_000).map(|(x, y)| Point::new(x, y).label("p"));
    let scatter = Scatter::new(Axis::linear("x"), Axis::linear("y")).points(points);
    assert!(Picture::new("").panel(scatter).to_svg(Theme::LIGHT).len() < 4_000_000);
    let bars =
        Bars::upright(vec!["b".into(); 100_000], Axis::linear("y")).series("s", vec![Bar::new(1.0); 100_000]);
    assert!(Picture::new("").panel(bars).to_svg(Theme::LIGHT).len() < 1_000_000);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn anything_at_all_is_a_sound_picture(
        labels in prop::collection::vec(any::<String>(), 0..6),
        values in prop::collection::vec(any::<f64>(), 0..8),
        log: bool,
    ) {
        for picture in everything(&labels, &values, log) {
            check_sound(&picture);
        }
    }
}
