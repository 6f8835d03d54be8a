//! Models, behind one interface.
//!
//! [`Model`] is what everyone else sees of a model. [`Transformer`] runs any [`Form`]: GPT, BERT, T5, Llama
//! and ViT are settings from which a form is made. The BiLSTM classifiers, the bag of vectors and the tagger are models of
//! their own.

mod bag;
mod bert;
pub mod form;
mod gpt;
mod in_precision;
mod inputs;
mod llama;
mod model;
mod padding;
mod recipe;
mod sentiment;
mod sequence;
mod sizes;
mod stack;
mod t5;
mod tagger;
mod transformer;
mod vit;

pub use bag::{Bag, BagConfig};
pub use bert::BertConfig;
pub use form::Form;
pub use gpt::GptConfig;
pub use in_precision::InPrecision;
pub use inputs::Inputs;
pub use llama::LlamaConfig;
pub use model::{Abilities, AttentionSite, Model, Part, Predicts, Reads, Unembedding, Visibility};
pub use recipe::Recipe;
pub use sentiment::{Pooling, Sentiment, SentimentConfig};
pub use t5::T5Config;
pub use tagger::{Tagger, TaggerConfig};
pub use transformer::Transformer;
pub use vit::VitConfig;
