//! What attention costs, and how to pay less.

use crate::report::article::Article;
use crate::report::{diagrams, listing};
use anyhow::Result;

/// The width for which the example counts multiplications: that of GPT-2.
const WIDTH: u64 = 768;

pub fn write(article: &mut Article) -> Result<()> {
    article.section("cost", "Cost: tiled, sparse and linear attention");
    article.text(
        "Every word attends to every word. Twice the words are four times the pairs: time grows with the square of the length, and so does memory \
         if the table of weights is written down. The feed-forward layer works on each word alone, so that its cost grows in proportion.",
    );
    article.formula(
        "C_{\\text{attention}} = 2 n^2 d,   C_{\\text{FFN}} = 8 n d^2",
        &[
            ("C", "the number of multiplications in a layer: of all scores and weighted sums, and of a feed-forward layer that is 4*d* wide inside"),
            ("n", "the number of words"),
            ("d", "the width of the model"),
        ],
    );
    article.example("By hand", |article| {
        article
            .text(format!("For *d* = {WIDTH}, the width of GPT-2, in millions of multiplications a layer:"));
        let millions = |value: u64| crate::terminal::thousands((value + 500_000) / 1_000_000);
        let row = |n: u64| {
            vec![crate::terminal::thousands(n), millions(2 * n * n * WIDTH), millions(8 * n * WIDTH * WIDTH)]
        };
        article.table(&["words", "attention", "feed-forward"], &[128, 1024, 4 * WIDTH, 16_384].map(row));
        article.text(format!(
            "Both are equal for *n* = 4*d* = {} words; beyond that, scores and weighted sums cost more than the feed-forward layer. The four projections \
             of attention ($4 n d^2$) are not counted here: they grow in proportion to *n*, too.",
            crate::terminal::thousands(4 * WIDTH)
        ));
        Ok(())
    })?;
    article.heading("The same numbers in tiles");
    article.text(
        "*Tiled* attention (FlashAttention; Dao et al., 2022) computes exactly the same output, but never keeps the whole table. It goes through \
         keys and values in blocks and keeps three things for each query: the largest score so far, the sum of the exponentials so far, and the \
         weighted sum of the values so far. When a larger score comes, both sums are scaled down. Memory then grows with *n*, not with its square.",
    );
    article.diagram(&diagrams::tiles(), "Four blocks of queries and four blocks of keys.");
    article.heading("Other functions that cost less");
    article.text(
        "*Sparse* patterns let a word attend to its neighbourhood and to a few global words. *Linear* attention replaces the exponential of a score by \
         a dot product *φ*(*q*)·*φ*(*k*) of vectors whose entries are all positive; the sums over keys can then be computed once for all queries. Both are other functions, not faster ways \
         to compute the same one. What they cost in quality is not measured here.",
    );
    article.formula(
        "o_i = \\frac{φ(q_i) ∑_j φ(k_j)^T v_j}{φ(q_i) ∑_j φ(k_j)^T},   φ(z) = \\text{elu}(z) + 1",
        &[("φ", "a function that makes every number positive: $z + 1$ for positive *z*, and $e^z$ for negative *z*")],
    );
    article.heading("In code");
    article.text("Linear attention where every word sees every word, after *φ*: a product of keys and values, then one of queries with the result.");
    article.code(&listing::LINEAR_ATTENTION)?;
    article.heading("What this machine measured");
    article.figure("cost", "cost_against_length")?;
    article.figure("extensions", "patterns")?;
    article.text(
        "Two more ideas are tested in this run. *Checkpointing* keeps only the input of each layer and computes the rest again when gradients are needed: \
         time for memory. A *vision transformer* cuts a picture into patches and reads them as words (Dosovitskiy et al., 2020).",
    );
    article.look_inside(
        "Look inside: the model's heads once more. Which would lose nothing with a window of two words?",
        "heads",
        None,
    );
    article.exercise(
        "A text of 1,000 words takes 1 second and 4 MB for its tables of weights. Roughly what does a text of 8,000 words take, written out, and in tiles?",
        "Eight times the words are 64 times the pairs: 64 seconds and 256 MB written out. In tiles the same 64-fold work, but memory grows only \
         8-fold. The number of multiplications is the same; tiles are faster all the same, because they stay in the fast memory near the processor.",
    );
    article.try_it("Time it on your machine.", "regard bench attention-1024");
    article.claims(&["E8", "E13", "E10"]);
    Ok(())
}
