//! Pictures: what is drawn is there, legible, well-formed and the same each time.

mod colours;
mod data;
mod files;
mod hostile;
mod layout;
mod numbers;
mod text;

#[path = "../../examples/figures.rs"]
#[allow(dead_code)] // its `main` is for those who want to look
mod examples;

use regard::figure::{Drawing, Picture, Theme};

/// The picture's SVG, parsed, with a function applied to the tree.
fn parsed<T>(picture: &Picture, theme: Theme, look: impl FnOnce(&roxmltree::Document) -> T) -> T {
    let svg = picture.to_svg(theme);
    let document = roxmltree::Document::parse(&svg).unwrap_or_else(|error| panic!("{error}\n{svg}"));
    look(&document)
}

/// Everything that must be true of any picture: well-formed, described, no coordinate that is not a number.
fn check_sound(picture: &Picture) {
    for theme in [Theme::LIGHT, Theme::DARK, Theme::Page] {
        parsed(picture, theme, |document| {
            let root = document.root_element();
            assert_eq!(root.attribute("role"), Some("img"));
            let child = |name: &str| root.children().find(|node| node.tag_name().name() == name);
            assert!(child("title").is_some());
            assert!(child("desc").and_then(|node| node.text()).is_some_and(|text| !text.trim().is_empty()));
            for node in root.descendants().filter(roxmltree::Node::is_element) {
                let name = node.tag_name().name();
                let known = ["svg", "title", "desc", "rect", "circle", "path", "text", "tspan", "image"];
                assert!(known.contains(&name), "unexpected element {name}");
                for attribute in node.attributes().filter(|attribute| attribute.name() != "href") {
                    let value = attribute.value();
                    assert!(!value.contains("NaN") && !value.contains("inf"), "{name} {attribute:?}");
                    assert_ne!(attribute.name(), "id", "ids clash when pictures share a page");
                }
            }
        });
    }
}

/// The texts of a drawing, as they are shown.
fn texts(drawing: &Drawing) -> Vec<String> {
    drawing.texts().map(|text| text.content().to_owned()).collect()
}
