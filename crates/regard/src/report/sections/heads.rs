//! Several heads side by side.

use super::matrix;
use crate::report::article::Article;
use crate::report::{diagrams, listing, worked};
use anyhow::Result;

pub fn write(article: &mut Article) -> Result<()> {
    article.section("heads", "Many heads");
    article.text(
        "One head gives each word one weighted mean. A word often needs several things at once: a verb needs its subject, and also whether it is \
         negated. So there are several *heads* side by side. Each head has matrices $W_Q$, $W_K$ and $W_V$ of its own and attends in its own way. \
         To keep the cost the same, the heads share the width: with *h* heads, each works with *d*/*h* numbers. At the end the outputs of all \
         heads are put side by side, and one more matrix mixes them.",
    );
    article.diagram(
        &diagrams::heads(),
        "Heads are counted from 0, here and in all figures, files and pages of this program.",
    );
    article.heading("The formula");
    article.formula(
        "\\text{head}_i = \\text{Attention}(x W_Q^{(i)}, x W_K^{(i)}, x W_V^{(i)}),   \\text{MultiHead}(x) = [\\text{head}_0, …, \\text{head}_{h−1}]·W_O",
        &[
            ("h", "the number of heads"),
            ("W_Q^{(i)}", "the matrix that makes the queries of head *i*, from *d* to *d*/*h* numbers; $W_K$ and $W_V$ likewise"),
            ("W_O", "the matrix that mixes the heads: *d* rows and *d* columns"),
        ],
    );
    article.example("By hand", |article| {
        let (maps, joined) = worked::many_heads(&worked::vectors()?, 2)?;
        article.text(
            "Split our head into two heads of one number each: head 0 takes the first columns of *Q*, *K* and *V*, head 1 the second. In head 0 the \
             queries are 2, 0, 2 and the keys 0, 1, 1. The query of *flies* is 0, so all of its scores are 0 and its weights are equal. In head 1 \
             the same happens to *time*.",
        );
        article.calculation(&format!("A_0 = {},   A_1 = {}", matrix(&maps[0], 2), matrix(&maps[1], 2)));
        article.text("The outputs side by side, one column for each head:");
        article.calculation(&format!("[\\text{{head}}_0, \\text{{head}}_1] = {}", matrix(&joined, 2)));
        article.text("Two heads can do what one cannot: attend to two different places with full weight each.");
        Ok(())
    })?;
    article.heading("In code");
    article.code(&listing::MANY_HEADS)?;
    article.heading("What the trained models show");
    article.text(
        "Heads start from different random matrices, so they differ before any training. The question is whether they come to do different \
         things. In the figure a classifier with four heads has learned to distinguish content words from function words.",
    );
    article.figure("tagger-heads", "four_heads")?;
    article.look_inside("Look inside: all heads of the trained model at a glance", "heads", None);
    article.exercise(
        "A model has *d* = 64 and 4 heads. How many rows and columns has each head's $W_Q$? How many numbers do $W_Q$, $W_K$ and $W_V$ of all heads \
         and $W_O$ have together, and how many with 1 head?",
        "64 rows and 16 columns. Three matrices of 64 × 16 for each of 4 heads are 3 × 4 × 1,024 = 12,288 numbers, and $W_O$ adds 64 × 64 = 4,096: \
         together 16,384. With one head of width 64 it is the same: 3 × 4,096 + 4,096.",
    );
    article.try_it(
        "Give the classifier sixteen heads and compare.",
        "regard train sentiment-heads --set model.n_heads=16",
    );
    article.claims(&["A5", "A7", "B5"]);
    Ok(())
}
