//! Tokenizers and data readers, on files that the tests write.

mod batches;
mod batches_language;
mod files;
mod golden;
mod hostile;
mod idx;
mod imdb;
mod made;
mod parallel;
mod split;
mod streaming;
mod table;
mod text;
mod tokens;
mod tokens_files;
mod treebank;
mod vectors;
