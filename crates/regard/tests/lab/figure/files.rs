//! Writing pictures.

use super::text::decoded;
use super::{check_sound, examples};
use regard::figure::{ColourScale, HeatMap, Matrix, Picture, Theme};
use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("regard-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn picture() -> Picture {
    let matrix = Matrix::from_fn(3, 3, |row, column| (row * column) as f32);
    Picture::new("A small map").panel(HeatMap::new(matrix, ColourScale::sequential("product")))
}

#[test]
fn the_suffix_sets_the_format() {
    let folder = folder("suffix");
    picture().write(&folder.join("a.svg")).unwrap();
    picture().write(&folder.join("a.PNG")).unwrap();
    let svg = std::fs::read_to_string(folder.join("a.svg")).unwrap();
    assert_eq!(svg, picture().to_svg(Theme::LIGHT));
    assert!(std::fs::read(folder.join("a.PNG")).unwrap().starts_with(b"\x89PNG"));
    for name in ["a.pdf", "a", "svg"] {
        let error = picture().write(&folder.join(name)).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(".svg or .png"), "{error}");
    }
    let error = format!("{:#}", picture().write(Path::new("/no/such/folder/a.svg")).unwrap_err());
    assert!(error.contains("/no/such/folder/a.svg"), "{error}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_png_has_the_size_of_its_scale() {
    let (width, height) = picture().draw().size();
    for scale in [1.0, 2.0, 3.5] {
        let image = decoded(&picture().scale(scale).to_png(Theme::LIGHT).unwrap());
        assert_eq!(
            (image.width, image.height),
            ((width * scale).ceil() as usize, (height * scale).ceil() as usize)
        );
    }
}

#[test]
fn an_impossible_scale_is_rejected() {
    for scale in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e6] {
        let error = picture().scale(scale).to_png(Theme::LIGHT).unwrap_err().to_string();
        assert!(error.contains("too large"), "{error}");
    }
}

#[test]
fn the_same_data_give_the_same_bytes() {
    for ((name, first), (_, second)) in examples::all().into_iter().zip(examples::all()) {
        assert_eq!(first.to_svg(Theme::LIGHT), second.to_svg(Theme::LIGHT), "{name}");
    }
    assert_eq!(picture().to_png(Theme::DARK).unwrap(), picture().to_png(Theme::DARK).unwrap());
}

#[test]
fn a_matrix_of_the_wrong_size_is_an_error() {
    let error = Matrix::new(2, 3, vec![0.0; 5]).unwrap_err().to_string();
    assert!(error.contains("2 × 3") && error.contains('5'), "{error}");
    assert!(Matrix::new(usize::MAX, 2, Vec::new()).is_err());
    assert!(Matrix::new(0, 0, Vec::new()).is_ok());
}

#[test]
fn a_picture_describes_itself() {
    check_sound(&picture());
    let svg = picture().to_svg(Theme::LIGHT);
    assert!(svg.contains("<title>A small map</title>"));
    assert!(svg.contains("3 rows and 3 columns") && svg.contains("2 → 2: 4"), "{svg}");
    assert!(
        picture().description("In other words").to_svg(Theme::LIGHT).contains("<desc>In other words</desc>")
    );
}
