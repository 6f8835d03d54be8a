//! The source code of some files of this library, which the report of the program `regard` prints.

macro_rules! sources {
    ($($name:ident $path:literal)*) => {
        $(
            #[allow(missing_docs)] // its path in the repository, and its text
            pub const $name: (&str, &str) = (concat!("crates/regard-nn/src/", $path), include_str!($path));
        )*
    };
}

sources! {
    ATTENTION "attention.rs"
    HEADS "attention/heads.rs"
    PATTERN "attention/pattern.rs"
    POSITION "position.rs"
    BLOCK "block.rs"
    FEED_FORWARD "layers/feed_forward.rs"
    LAYERS "layers.rs"
    SENTIMENT "models/sentiment.rs"
    TRANSFORMER "models/transformer.rs"
    TRAIN "train.rs"
    INFLUENCE "analysis/influence.rs"
    TOKENS "tokens.rs"
    LINEAR "attention/linear.rs"
}
