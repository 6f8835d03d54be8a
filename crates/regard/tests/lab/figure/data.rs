//! What is drawn is what was given.

use super::text::decoded;
use super::{parsed, texts};
use base64::Engine as _;
use regard::figure::{
    Axis, Chart, ColourScale, HeatMap, Histogram, LEVELS, Matrix, Paint, Panel, Picture, Point, Scatter,
    Series, Shade, Theme,
};

#[test]
fn a_cell_has_the_colour_of_its_value_in_svg_and_png() {
    let values = [0.0, 0.25, 0.5, 1.0];
    let map = HeatMap::new(
        Matrix::new(2, 2, values.to_vec()).unwrap(),
        ColourScale::sequential("").range(0.0, 1.0),
    )
    .numbers(regard::figure::Numbers::Hide);
    let picture = Picture::new("").panel(map).scale(1.0);
    for (theme, shade) in [(Theme::LIGHT, Shade::Light), (Theme::DARK, Shade::Dark)] {
        let image = decoded(&picture.to_png(theme).unwrap());
        assert_eq!(image.pixel(1, 1), Paint::Paper.rgb(shade).0);
        let cells = parsed(&picture, theme, |document| {
            let cells =
                document.descendants().filter(|node| node.tag_name().name() == "rect" && node.has_children());
            let number =
                |node: &roxmltree::Node, name: &str| node.attribute(name).unwrap().parse::<f64>().unwrap();
            cells
                .map(|cell| {
                    let x = number(&cell, "x") + number(&cell, "width") / 2.0;
                    let y = number(&cell, "y") + number(&cell, "height") / 2.0;
                    (x as usize, y as usize, cell.attribute("fill").unwrap().to_owned())
                })
                .collect::<Vec<_>>()
        });
        assert_eq!(cells.len(), 4);
        for (value, (x, y, fill)) in values.iter().zip(cells) {
            let colour = Paint::Sequential((value * f32::from(LEVELS)).round() as u8).rgb(shade);
            assert_eq!(fill, colour.hex());
            assert_eq!(image.pixel(x, y), colour.0);
        }
    }
}

#[test]
fn hidden_cells_are_not_drawn() {
    let matrix = Matrix::from_fn(6, 6, |row, column| if column > row { f32::NAN } else { 1.0 });
    let map = HeatMap::new(matrix, ColourScale::sequential("")).mask(|row, column| column > row);
    let cells = parsed(&Picture::new("").panel(map), Theme::LIGHT, |document| {
        document.descendants().filter(|node| node.tag_name().name() == "rect" && node.has_children()).count()
    });
    assert_eq!(cells, 21);
}

/// The pixels of the one image in a picture, as entries of the palette.
fn embedded(picture: &Picture) -> (usize, usize, Vec<u8>) {
    let encoded = parsed(picture, Theme::LIGHT, |document| {
        let image = document.descendants().find(|node| node.tag_name().name() == "image").unwrap();
        image.attribute("href").unwrap().strip_prefix("data:image/png;base64,").unwrap().to_owned()
    });
    let bytes = base64::engine::general_purpose::STANDARD.decode(encoded).unwrap();
    let mut decoder = png::Decoder::new(std::io::Cursor::new(bytes));
    decoder.set_transformations(png::Transformations::IDENTITY);
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!(info.color_type, png::ColorType::Indexed);
    (info.width as usize, info.height as usize, pixels)
}

#[test]
fn a_large_matrix_is_one_image() {
    let matrix = Matrix::from_fn(100, 64, |row, column| if row == column { 1.0 } else { 0.0 });
    let (width, height, pixels) =
        embedded(&Picture::new("").panel(HeatMap::new(matrix, ColourScale::sequential(""))));
    assert_eq!((width, height), (64, 100));
    for (index, pixel) in pixels.iter().enumerate() {
        assert_eq!(*pixel, if index / 64 == index % 64 { LEVELS } else { 0 });
    }
}

#[test]
fn a_thin_diagonal_survives_in_a_huge_matrix() {
    let n = 4096;
    let matrix = Matrix::from_fn(n, n, |row, column| if row == column { 1.0 } else { 0.0 });
    let picture = Picture::new("").panel(HeatMap::new(matrix, ColourScale::sequential("")));
    let (width, height, pixels) = embedded(&picture);
    assert!(width <= 1024 && height == width);
    for row in 0..height {
        assert_eq!(pixels[row * width + row], LEVELS, "row {row}");
        assert_eq!(pixels[row * width + (row + width / 2) % width], 0);
    }
    assert!(picture.to_svg(Theme::Page).len() < 1_000_000);
}

#[test]
fn values_beyond_the_range_are_marked() {
    let matrix = Matrix::new(1, 3, vec![-2.0, 0.5, 9.0]).unwrap();
    let map = HeatMap::new(matrix, ColourScale::sequential("score").range(0.0, 1.0));
    let shown = texts(&map.draw());
    assert!(shown.contains(&"≤ 0.0".to_owned()) && shown.contains(&"≥ 1.0".to_owned()), "{shown:?}");
}

#[test]
fn a_gap_interrupts_the_line() {
    let points = [(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN), (3.0, 2.0), (4.0, 3.0)];
    let chart = Chart::new(Axis::linear(""), Axis::linear("")).series(Series::new("a").points(points));
    let (moves, circles) = parsed(&Picture::new("").panel(chart), Theme::LIGHT, |document| {
        let blue = Paint::Class(0).rgb(Shade::Light).hex();
        let line = document
            .descendants()
            .find(|node| {
                node.attribute("stroke") == Some(&blue) && node.attribute("stroke-width") == Some("1.8")
            })
            .unwrap();
        let circles = document.descendants().filter(|node| node.tag_name().name() == "circle").count();
        (line.attribute("d").unwrap().matches('M').count(), circles)
    });
    assert_eq!((moves, circles), (2, 4));
}

#[test]
fn a_logarithmic_axis_leaves_out_what_it_cannot_show() {
    let points = [(1.0, -1.0), (2.0, 0.0), (3.0, 10.0), (4.0, 1000.0)];
    let chart = Chart::new(Axis::linear(""), Axis::log("y")).series(Series::new("a").points(points));
    let shown = texts(&chart.draw());
    assert!(shown.contains(&"10".to_owned()) && shown.contains(&"1,000".to_owned()), "{shown:?}");
    // x begins at 3, the first value that is shown.
    assert!(!shown.contains(&"1.0".to_owned()) && shown.contains(&"3.0".to_owned()), "{shown:?}");
}

#[test]
fn a_histogram_counts_every_value_once() {
    let values: Vec<f64> = (0..1000).map(|i| (f64::from(i) * 0.7).sin()).chain([f64::NAN]).collect();
    for axis in [Axis::linear("x"), Axis::linear("x").range(-3.0, 3.0)] {
        let plot = Histogram::new(axis).sample("sine", &values).mark(0.5, "here");
        assert!(texts(&plot.draw()).contains(&"n = 1,000".to_owned()));
        let total: usize = parsed(&Picture::new("").panel(plot), Theme::LIGHT, |document| {
            let tips = document.descendants().filter(roxmltree::Node::is_text).filter_map(|node| node.text());
            tips.filter_map(|tip| tip.strip_suffix(" values")?.parse::<usize>().ok()).sum()
        });
        assert_eq!(total, 1000);
    }
}

#[test]
fn equal_units_are_equal_on_both_axes() {
    let points = [Point::new(0.0, 0.0), Point::new(4.0, 0.0), Point::new(0.0, 1.0)];
    let picture =
        Picture::new("").panel(Scatter::new(Axis::linear(""), Axis::linear("")).points(points).equal_units());
    let places = parsed(&picture, Theme::LIGHT, |document| {
        let number = |node: &roxmltree::Node, name: &str| node.attribute(name)?.parse::<f64>().ok();
        let circles =
            document.descendants().filter_map(|node| Some((number(&node, "cx")?, number(&node, "cy")?)));
        circles.collect::<Vec<_>>()
    });
    let (across, up) = (places[1].0 - places[0].0, places[0].1 - places[2].1);
    assert!((across / 4.0 - up).abs() < 0.05, "{across} for 4, {up} for 1");
}

#[test]
fn a_page_picture_follows_the_stylesheet() {
    let css = regard::figure::stylesheet();
    for (_, picture) in super::examples::all() {
        let svg = picture.to_svg(Theme::Page);
        for variable in svg.split("var(").skip(1).filter_map(|rest| rest.split(',').next()) {
            assert!(css.contains(&format!("{variable}:#")), "{variable} is not in the stylesheet");
        }
        // No colour is fixed, except as what a page without the stylesheet falls back to.
        assert!(!svg.contains("fill=\"#") && !svg.contains("stroke=\"#"));
    }
}

#[test]
fn cells_tell_their_values_in_the_unit_of_the_scale() {
    let map =
        |scale: ColourScale| texts(&HeatMap::new(Matrix::new(1, 2, vec![0.125, 0.5]).unwrap(), scale).draw());
    let plain = map(ColourScale::sequential("share"));
    assert!(plain.contains(&"0.12".to_owned()) && plain.contains(&"0.50".to_owned()), "{plain:?}");
    let percent = map(ColourScale::sequential("share").percent().range(0.0, 1.0));
    assert!(percent.contains(&"50".to_owned()) && percent.contains(&"50 %".to_owned()), "{percent:?}");
    let counts = HeatMap::confusion(
        &["a".into(), "b".into()],
        Matrix::new(2, 2, vec![1200.0, 3.0, 4.0, 5.0]).unwrap(),
    );
    assert!(texts(&counts.draw()).contains(&"1,200".to_owned()));
}
