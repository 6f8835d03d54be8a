//! Nothing covers a label, and no label leaves the page.

use super::{check_sound, examples, parsed, texts};
use proptest::prelude::*;
use regard::figure::{
    Axis, Bar, Bars, Chart, ColourScale, Drawing, Gallery, HeatMap, Matrix, Paint, Panel, Picture, Point,
    Scatter, Series, Shade, Text, Theme,
};

/// Whether two turned boxes overlap by more than a hair: no line separates them (the separating axis theorem).
fn overlap(a: &[(f64, f64); 4], b: &[(f64, f64); 4]) -> bool {
    let separated = |p: &[(f64, f64); 4], q: &[(f64, f64); 4]| {
        (0..2).any(|side| {
            let (from, to) = (p[side], p[side + 1]);
            let length = (to.0 - from.0).hypot(to.1 - from.1).max(1e-9);
            let axis = ((to.0 - from.0) / length, (to.1 - from.1) / length);
            let reach = |corners: &[(f64, f64); 4]| {
                corners
                    .iter()
                    .map(|c| c.0 * axis.0 + c.1 * axis.1)
                    .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
            };
            let ((p_low, p_high), (q_low, q_high)) = (reach(p), reach(q));
            p_high <= q_low + 0.3 || q_high <= p_low + 0.3
        })
    };
    !separated(a, b) && !separated(b, a)
}

fn check_texts(name: &str, drawing: &Drawing) {
    let (width, height) = drawing.size();
    let boxes: Vec<(&Text, [(f64, f64); 4])> = drawing.texts().map(|text| (text, text.corners())).collect();
    for (text, corners) in &boxes {
        let inside =
            corners.iter().all(|(x, y)| *x >= -0.5 && *y >= -0.5 && *x <= width + 0.5 && *y <= height + 0.5);
        assert!(inside, "{name}: {:?} leaves the page: {corners:?} in {width} × {height}", text.content());
    }
    for (index, (a, a_corners)) in boxes.iter().enumerate() {
        for (b, b_corners) in &boxes[..index] {
            assert!(!overlap(a_corners, b_corners), "{name}: {:?} covers {:?}", a.content(), b.content());
        }
    }
}

#[test]
fn the_overlap_test_can_fail() {
    let square = [(0.0, 0.0), (10.0, 0.0), (10.0, 10.0), (0.0, 10.0)];
    let diamond = [(10.0, 3.0), (15.0, 8.0), (10.0, 13.0), (5.0, 8.0)];
    let far = [(20.0, 3.0), (25.0, 8.0), (20.0, 13.0), (15.0, 8.0)];
    assert!(overlap(&square, &diamond));
    assert!(!overlap(&square, &far));
}

#[test]
fn every_example_is_sound_and_its_labels_are_clear() {
    for (name, picture) in examples::all() {
        check_sound(&picture);
        check_texts(name, &picture.draw());
    }
}

#[test]
fn all_words_are_on_both_axes() {
    let words: Vec<String> = "the cat sat on the mat".split(' ').map(Into::into).collect();
    let matrix = Matrix::from_fn(6, 6, |row, column| (row + column) as f32);
    let map = HeatMap::new(matrix, ColourScale::sequential("weight")).words(words.clone(), words.clone());
    let shown = texts(&map.draw());
    for word in &words {
        assert_eq!(
            shown.iter().filter(|text| *text == word).count(),
            2 * words.iter().filter(|other| *other == word).count()
        );
    }
}

#[test]
fn many_words_are_thinned_and_stay_apart() {
    for count in [40, 100, 300, 1000] {
        let words: Vec<String> = (0..count).map(|i| format!("word{i}")).collect();
        let matrix = Matrix::from_fn(count, count, |row, column| if row == column { 1.0 } else { 0.0 });
        let map = HeatMap::new(matrix, ColourScale::sequential("")).words(words.clone(), words);
        check_texts("many words", &map.draw());
        assert!(map.draw().texts().count() > 40);
    }
}

#[test]
fn two_panels_side_by_side_can_be_had_one_by_one() {
    let chart = |name: &str| {
        let series = Series::new(name).points([(1.0, 0.2), (2.0, 0.4), (3.0, 0.3)]);
        Chart::new(Axis::linear("distance").groups(["1", "2", "3 or more"]), Axis::linear("accuracy"))
            .series(series)
            .half()
    };
    let picture = Picture::new("Both").titled_panel("left", chart("a")).titled_panel("right", chart("b"));
    assert_eq!(picture.pair(Theme::Page), None, "one below the other");
    let picture = picture.columns(2);
    assert_eq!(picture.titles(), ("Both", ""));
    let panels = picture.pair(Theme::Page).unwrap();
    for (svg, (heading, other)) in panels.iter().zip([("left", "right"), ("right", "left")]) {
        let document = roxmltree::Document::parse(svg).unwrap();
        let said: Vec<&str> =
            document.descendants().filter(roxmltree::Node::is_text).filter_map(|node| node.text()).collect();
        assert!(said.contains(&heading) && said.contains(&"3 or more") && !said.contains(&other), "{said:?}");
        let width: f64 = document.root_element().attribute("width").unwrap().parse().unwrap();
        assert!(width <= picture.draw().size().0 / 2.0, "{width}");
    }
    assert_eq!(panels.len(), 2);
}

/// Word-like labels of all lengths.
fn words(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[A-Za-zäéčğΩж]{1,24}|[ -~]{1,40}", count)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn heat_map_labels_are_clear(rows in words(1..30), columns in words(1..30), named: bool) {
        let matrix = Matrix::from_fn(rows.len(), columns.len(), |r, c| ((r * 31 + c * 17) % 23) as f32);
        let mut map = HeatMap::new(matrix, ColourScale::sequential("weight")).words(rows, columns);
        if named {
            map = map.names("queries", "keys");
        }
        check_texts("heat map", &Picture::new("A title").panel(map).draw());
    }

    #[test]
    fn gallery_labels_are_clear(titles in words(1..14), words in words(2..9), columns in 1..6_usize) {
        let n = words.len();
        let gallery = titles.iter().fold(Gallery::new(columns, ColourScale::sequential("w")), |gallery, title| {
            gallery.map(title.clone(), Matrix::from_fn(n, n, |r, c| (r * c) as f32))
        });
        check_texts("gallery", &gallery.clone().draw());
        check_texts("gallery with words", &gallery.words(words.clone(), words).draw());
    }

    #[test]
    fn scatter_labels_are_clear_of_labels_and_points(
        places in prop::collection::vec((0.0..1.0_f64, 0.0..1.0_f64), 1..70),
        names in words(70..71),
    ) {
        let points = places.iter().zip(&names).enumerate().map(|(index, (&(x, y), name))| {
            // Two clouds, so that there are crowds.
            let shift = if index % 2 == 0 { 0.0 } else { 1.5 };
            Point::new(x + shift, y * y).label(name.clone()).class(index % 3)
        });
        let scatter = Scatter::new(Axis::linear("x"), Axis::linear("y")).classes(["a", "b", "c"]).points(points);
        let drawing = scatter.draw();
        check_texts("scatter", &drawing);
        let picture = Picture::new("").panel(scatter);
        let drawing = picture.draw();
        let marks = parsed(&picture, Theme::LIGHT, |document| {
            let circles = document.descendants().filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "circle")));
            let number = |node: &roxmltree::Node, name: &str| node.attribute(name).unwrap().parse::<f64>().unwrap();
            circles.map(|node| (number(&node, "cx"), number(&node, "cy"))).collect::<Vec<_>>()
        });
        for text in drawing.texts() {
            let bounds = text.bounds();
            for (x, y) in &marks {
                let covered = *x > bounds.x && *x < bounds.right() && *y > bounds.y && *y < bounds.bottom();
                prop_assert!(!covered, "{:?} covers a point", text.content());
            }
        }
    }

    #[test]
    fn names_of_lines_are_clear(
        ends in prop::collection::vec(-1.0..1.0_f64, 1..16),
        names in words(16..17),
        uprights in prop::collection::vec(0.0..9.0_f64, 0..5),
        level in -2.0..2.0_f64,
    ) {
        let empty = Chart::new(Axis::linear("step"), Axis::linear("loss, nats")).level(level, "published");
        let chart = ends.iter().zip(&names).fold(empty, |chart, (&end, name)| {
            chart.series(Series::new(name.clone()).points([(0.0, 0.0), (5.0, end * 0.3), (9.0, end)]))
        });
        let chart = uprights.iter().fold(chart, |chart, &x| chart.upright(x, format!("at {x:.1}")));
        check_texts("chart", &Picture::new("Lines").panel(chart).draw());
    }

    #[test]
    fn bar_labels_are_clear(categories in words(1..30), values in prop::collection::vec(-1e4..1e4_f64, 30), lying: bool) {
        let bars: Vec<Bar> = values.iter().take(categories.len()).map(|&v| Bar::new(v).interval(v - 10.0, v + 10.0)).collect();
        let axis = Axis::linear("difference");
        let chart = if lying { Bars::lying(categories, axis) } else { Bars::upright(categories, axis) };
        check_texts("bars", &chart.series("one", bars.clone()).series("two", bars).draw());
    }

    #[test]
    fn ticks_cover_the_data(values in prop::collection::vec(-1e6..1e6_f64, 1..20), power in -8..8_i32, log: bool) {
        let values: Vec<f64> = values.iter().map(|v| if log { v.abs() + 1.0 } else { *v } * 10_f64.powi(power)).collect();
        let axis = if log { Axis::log("y") } else { Axis::linear("y") };
        let points = values.iter().enumerate().map(|(x, &y)| (x as f64, y));
        let picture = Picture::new("").panel(Chart::new(Axis::linear("x"), axis).series(Series::new("").points(points)));
        let (grid, marks) = parsed(&picture, Theme::LIGHT, |document| {
            let grey = Paint::Grid.rgb(Shade::Light).hex();
            let heights = document.descendants().filter(|node| node.attribute("stroke") == Some(&grey)).map(|node| {
                let path = node.attribute("d").unwrap();
                path.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
            });
            let marks = document.descendants().filter_map(|node| node.attribute("cy")?.parse::<f64>().ok());
            (heights.collect::<Vec<_>>(), marks.collect::<Vec<_>>())
        });
        prop_assert!(grid.len() >= 2, "{} ticks", grid.len());
        prop_assert_eq!(marks.len(), values.len());
        if !log {
            let low = grid.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let high = grid.iter().copied().fold(f64::INFINITY, f64::min);
            for mark in marks {
                prop_assert!(mark <= low + 0.02 && mark >= high - 0.02, "{mark} outside {high}..{low}");
            }
        }
    }
}
