//! Models, each whole in one file.

mod any;
mod bag;
mod bert;
mod gpt;
mod llama;
mod sentiment;
mod sequence;
mod sizes;
mod t5;
mod tagger;
mod vit;

pub use any::Model;
pub use bag::{Bag, BagConfig};
pub use bert::{Bert, BertConfig, BertHeads};
pub use gpt::{Gpt, GptConfig};
pub use llama::{Llama, LlamaConfig};
pub use sentiment::{Pooling, Sentiment, SentimentConfig};
pub use t5::{T5, T5Config};
pub use tagger::{Tagger, TaggerConfig};
pub use vit::{Vit, VitConfig};
