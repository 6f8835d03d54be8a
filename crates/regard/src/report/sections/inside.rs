//! What heads do, and whether it matters.

use crate::report::article::Article;
use crate::report::listing::INFLUENCE;
use anyhow::Result;

pub fn write(article: &mut Article) -> Result<()> {
    article.section("inside", "What heads do, and whether they matter");
    article.text(
        "In a trained language model every head can be measured over thousands of words: how much of its weight goes to the previous \
         token, to delimiters, to the word's syntactic head, far away. A measure means little without a baseline, so the same is \
         measured in the same model before training.",
    );
    article.formula("\\text{previous}(h) = \\frac{1}{n − 1} ∑_{t=2}^{n} a^{(h)}_{t, t−1}");
    article.other_figures("trained-heads")?;
    article.verdicts(&["E2"])?;
    article.text(
        "Looking somewhere is not the same as mattering. Zero a head's output and see which words become harder to guess: that is what \
         the head was for, unless others step in.",
    );
    article.other_figures("head-removal")?;
    article.verdicts(&["E7"])?;
    article.text(
        "Weights of one layer also say little about the input, since by the second layer every place already holds a mixture. *Rollout* \
         follows the mixture back through the layers: it multiplies their weights $A_l$, and half of each place stays what it was, for \
         the residual stream.",
    );
    article.formula("R = \\hat{A}_L ⋯ \\hat{A}_2 \\hat{A}_1,   \\hat{A}_l = \\frac{1}{2} (A_l + I)");
    // The smallest models know too few words for a sentence to draw.
    if article.results().figure("extensions", "rollout").is_ok() {
        article.figure("extensions", "rollout")?;
    }
    article.code(INFLUENCE, &["pub fn rollout("])?;
    article.exercise(
        "Measure every head of a model of your own, with intervals and a baseline.",
        "regard heads runs/words-gpt --corpus built-in -o heads",
    );
    Ok(())
}
