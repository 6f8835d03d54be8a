//! Several heads side by side.

use crate::report::article::Article;
use crate::report::listing::HEADS;
use anyhow::Result;

pub fn write(article: &mut Article) -> Result<()> {
    article.section("heads", "Many heads");
    article.text(
        "A head gives each word one weighted average. A sentence asks for several at once: the verb looks for its subject, the adjective \
         for its noun. So there are $h$ heads. Each projects the *whole* vector down to $d/h$ numbers with queries, keys and values of its \
         own and attends with those; $W_O$ mixes the $h$ results. That takes no more multiplications than a single wide head; but there \
         are $h$ tables of weights.",
    );
    article.formula(
        "\\text{MultiHead}(x) = [\\text{head}_1, …, \\text{head}_h] W_O,   \\text{head}_i = \\text{Attention}(x W_i^Q, x W_i^K, x W_i^V)",
    );
    article.code(HEADS, &["fn project_one("])?;
    article.other_figures("random-heads")?;
    article.verdicts(&["A5"])?;
    article.text("Do several heads do better than one of the same size in all? And do they come to look at different things?");
    article.other_figures("head-count")?;
    article.verdicts(&["A7"])?;
    article.other_figures("tagger-heads")?;
    article.verdicts(&["B5"])?;
    article.exercise(
        "Give the classifier sixteen heads and compare.",
        "regard train sentiment-heads --set model.n_heads=16",
    );
    Ok(())
}
