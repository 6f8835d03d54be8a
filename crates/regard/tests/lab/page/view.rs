//! The files of `regard view`.

use crate::checkpoints::made::{self, complaint, said};
use tempfile::TempDir;

#[test]
fn a_page_and_pictures_are_written() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("model");
    made::gpt(&path, 5);
    let model = made::text(&path);
    let out = |name: &str| folder.path().join(name).display().to_string();
    said(&["view", model, "The cat sat", "-o", &out("page.html")]);
    let page = std::fs::read_to_string(out("page.html")).unwrap();
    assert!(
        page.contains("id=\"held\"") && !page.contains("src=\"js/") && !page.contains("href=\"style.css")
    );
    said(&["view", model, "The cat sat", "-o", &out("all.svg")]);
    said(&["view", model, "The cat sat", "--layer", "1", "-o", &out("layer.svg")]);
    said(&["view", model, "The cat sat", "--layer", "1", "--head", "0", "--words", "-o", &out("head.png")]);
    said(&["view", model, "The cat sat", "--scale", "log", "-o", &out("log.svg")]);
    assert!(std::fs::read_to_string(out("log.svg")).unwrap().contains("log₁₀"));
    for name in ["all.svg", "layer.svg"] {
        let text = std::fs::read_to_string(out(name)).unwrap();
        roxmltree::Document::parse(&text).unwrap();
    }
    assert!(std::fs::read_to_string(out("layer.svg")).unwrap().contains("head 1"));
    assert_eq!(&std::fs::read(out("head.png")).unwrap()[1..4], b"PNG");
}

#[test]
fn views_that_cannot_be_drawn_are_errors() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("model");
    made::gpt(&path, 5);
    let model = made::text(&path);
    let out = folder.path().join("x.html").display().to_string();
    for (arguments, problem) in [
        (vec!["view", model, "", "-o", &out], "the text is empty"),
        (vec!["view", model, "The cat", "--layer", "7", "-o", &out], "no such head"),
        (
            vec!["view", model, "The cat", "--attention", "cross", "-o", &out],
            "no such head in this model: it has self attention in layers 0–1 with heads 0–1",
        ),
        (
            vec!["view", model, "The cat", "-o", "x.pdf"],
            "pages are written as .html, pictures as .svg or .png",
        ),
        (vec!["view", model, "--image", "none.png", "-o", &out], "cannot read none.png"),
        (vec!["view", model, "-o", &out], "required"),
        (vec!["serve", "--only"], "required"),
    ] {
        let (text, code) = complaint(&arguments);
        assert!(text.contains(problem), "{arguments:?}: {text}");
        assert!([1, 2].contains(&code));
    }
    assert!(!std::path::Path::new(&out).exists());
}
