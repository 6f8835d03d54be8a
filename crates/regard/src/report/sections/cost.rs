//! What attention costs, and how to pay less.

use crate::report::article::Article;
use crate::report::listing::LINEAR;
use anyhow::Result;

pub fn write(article: &mut Article) -> Result<()> {
    article.section("cost", "Cost: tiled, sparse and linear attention");
    article.text(
        "Every word looks at every word: for $n$ words of width $d$, scores and weighted sums take $2n^2 d$ multiplications and, written \
         down naively, a table of $n^2$ weights. A feed-forward layer of the usual hidden width $4d$ takes $8 n d^2$. The two are equal \
         for texts of $4d$ words; beyond, attention dominates.",
    );
    article.formula("T_{\\text{attention}} = O(n^2 d),   T_{\\text{ffn}} = O(n d^2)");
    article.other_figures("cost")?;
    article.verdicts(&["E8", "E13"])?;
    article.text(
        "*Tiled* (or flash) attention computes the same numbers in blocks and never keeps the table: memory grows with $n$. *Sparse* \
         patterns let a word look at its neighbourhood and at a few global words: time grows with $n$, too. *Linear* attention \
         replaces the softmax by a product of features, whose sums can be carried along. Sparse and linear attention are other functions: \
         what they cost in quality is not measured here.",
    );
    article
        .formula("o_i = \\frac{φ(q_i) ∑_j φ(k_j)^T v_j}{φ(q_i) ∑_j φ(k_j)^T},   φ(x) = \\text{elu}(x) + 1");
    article.code(LINEAR, &["pub(super) fn attend("])?;
    article.text(
        "Two more ways to go on from here. *Checkpointing* keeps the input of each layer only and computes the rest again when gradients \
         are taken: memory for time. A *vision transformer* cuts a picture into patches and reads them as words; one more vector, the \
         class token, collects what the answer is read from.",
    );
    article.other_figures("extensions")?;
    article.verdicts(&["E10"])?;
    article.exercise("Time it on your machine.", "regard bench attention-1024");
    Ok(())
}
