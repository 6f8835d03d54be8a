//! Indices become vectors, and vectors learn to mean something.

use crate::report::article::Article;
use crate::report::listing::LAYERS;
use anyhow::Result;

pub fn write(article: &mut Article) -> Result<()> {
    article.section("embeddings", "Embeddings, and the axis of sentiment");
    article.text(
        "Each index picks a row of a table: the word's vector. At first the rows are random, and nothing tells *superb* from \
         *dreadful*. Training on any task moves them: a classifier of sentiment that averages the vectors of a text can only do \
         its work if words of praise come to lie on one side and words of blame on the other. Principal components show it: the \
         directions in which the vectors differ most. That there is one such direction is no wonder: two classes leave one number to \
         get right, so that every gradient pushes a word's vector the same way, along the classifier's own, or back.",
    );
    article.formula("x_i = E_{w_i},   E ∈ ℝ^{V×d}");
    article.code(LAYERS, &["impl Embedding", "pub fn forward("])?;
    article.other_figures("word-vectors")?;
    article.verdicts(&["A2"])?;
    article.exercise(
        "Train the 16-dimensional vectors yourself, then ask for a prediction.",
        "regard train bag\nregard predict runs/bag \"a dull film with a superb ending\"",
    );
    Ok(())
}
