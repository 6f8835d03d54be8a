//! The source code of some files of this library, which the report of the program `regard` prints.

macro_rules! sources {
    ($($name:ident $path:literal)*) => {
        $(
            #[allow(missing_docs)] // its path in the repository, and its text
            pub const $name: (&str, &str) = (concat!("crates/regard-nn/src/", $path), include_str!($path));
        )*
    };
}

/// The example that the report explains.
pub const ONE_HEAD: (&str, &str) =
    ("crates/regard-nn/examples/one_head_by_hand.rs", include_str!("../examples/one_head_by_hand.rs"));

sources! {
    ATTENTION "attention.rs"
    PATTERN "attention/pattern.rs"
    LINEAR "attention/linear.rs"
    POSITION "position.rs"
    SENTIMENT "models/sentiment.rs"
    TRAIN "train.rs"
    INFLUENCE "analysis/influence.rs"
}
