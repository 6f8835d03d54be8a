//! Models, each whole in one file.

mod gpt;
mod sentiment;

pub use gpt::{Gpt, GptConfig};
pub use sentiment::{Pooling, Sentiment, SentimentConfig};
