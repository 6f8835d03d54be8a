//! The small models that several experiments train and share.

pub mod bag;
pub mod digits;
pub mod language;
pub mod sentiment;
pub mod tagger;
