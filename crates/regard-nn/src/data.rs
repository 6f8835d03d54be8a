//! Data sets: from files as they are published to examples and batches.
//!
//! | module | what it reads |
//! |---|---|
//! | [`builtin`] | nothing: film reviews made by a grammar, of which everything is known |
//! | [`imdb`] | the Large Movie Review Dataset, from its archive or folder |
//! | [`text`] | plain text for language models, of any size |
//! | [`treebank`] | sentences with parts of speech and syntactic heads, CoNLL-U |
//! | [`parallel`] | sentences and their translations, line by line |
//! | [`table`] | TSV and CSV with a label column |
//! | [`idx`] | images and labels as MNIST has them |
//! | [`vectors`] | word vectors, GloVe and fastText |
//!
//! Files may be gzipped everywhere ([`mod@file`]), and take no more than a budget of [`memory`]. Nothing here depends on the order of a hash table, an archive or a folder:
//! the same files give the same examples in the same order. [`split`] holds examples out for validation, and [`batches`]
//! turns examples into the [`Ids`](regard_tensor::Ids) that models take.

pub mod batches;
pub mod builtin;
pub mod file;
pub mod idx;
pub mod imdb;
pub mod memory;
pub mod parallel;
pub mod split;
pub mod table;
pub mod text;
pub mod treebank;
pub mod vectors;

/// A text, or two, with its class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// The text.
    pub text: String,
    /// The second text, where examples are pairs.
    pub second: Option<String>,
    /// The index of its class in [`Labelled::classes`].
    pub label: usize,
}

/// Examples for classification.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Labelled {
    /// The names of the classes, in order.
    pub classes: Vec<String>,
    /// The examples, in the order of the file.
    pub examples: Vec<Example>,
}

impl Labelled {
    /// The number of examples of each class.
    pub fn class_counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.classes.len()];
        for example in &self.examples {
            if let Some(count) = counts.get_mut(example.label) {
                *count += 1;
            }
        }
        counts
    }

    /// The labels, for batches.
    pub fn labels(&self) -> Vec<usize> {
        self.examples.iter().map(|example| example.label).collect()
    }
}
