//! The block: residuals, norms, feed-forward.

use crate::report::article::Article;
use crate::report::listing::{BLOCK, FEED_FORWARD};
use anyhow::Result;

pub fn write(article: &mut Article) -> Result<()> {
    article.section("block", "The block: residuals, norms, GELU");
    article.text(
        "A transformer is a stack of equal blocks. Each reads the stream of vectors, computes something from it, and *adds* the \
         result: what was there stays unless it is cancelled, and gradients have a straight way back to the first layer. Attention \
         moves information between words; the feed-forward layer, two linear maps with a bend between them, works on each word \
         alone. A norm keeps the size of the vectors in hand. Before each layer (*pre-norm*) the straight way stays free; after \
         the addition (*post-norm*, the original) a gradient on its way to the first layer passes two norms for every layer. The original \
         eased that by beginning with small steps (*warm-up*; Xiong et al., 2020, say why), which are left out here on purpose.",
    );
    article.formula(
        "x ← x + \\text{Attention}(\\text{norm}(x)),   x ← x + W_2 \\text{GELU}(W_1 \\text{norm}(x))",
    );
    article.code(BLOCK, &["pub fn forward("])?;
    article.other_figures("norm-placement")?;
    article.verdicts(&["E5", "E14"])?;
    article.text(
        "The bend decides how much of a hidden value passes. ReLU cuts at zero. GELU multiplies $x$ by $Φ(x)$, the probability that a \
         standard normal variable is smaller than $x$: large values pass, very negative ones are stopped, those near zero pass in part. \
         So a unit that is slightly negative still has a gradient and can come back; under ReLU it has none. GELU is the usual choice. Is \
         it better?",
    );
    article.formula("\\text{GELU}(x) = x·Φ(x) = \\frac{x}{2} (1 + \\text{erf}(\\frac{x}{\\sqrt{2}}))");
    article.text(
        "GPT-2 computes it by a hyperbolic tangent, which is cheaper and differs in the fourth digit, and so do the GPTs of this page. \
         The feed-forward layer calls it between its two maps.",
    );
    article.formula(
        "\\text{GELU}(x) ≈ \\frac{x}{2} (1 + \\text{tanh}(\\sqrt{\\frac{2}{π}} (x + 0.044715 x^3)))",
    );
    article.code(FEED_FORWARD, &["impl FeedForward", "pub fn forward("])?;
    article.other_figures("activation")?;
    article.verdicts(&["E6", "E12"])?;
    article.exercise(
        "Train a deep post-norm model at a high rate and watch the loss.",
        "regard train words-gpt --set model.norm=post --set model.n_layers=12 --set train.rate.highest=3e-3 --out runs/post",
    );
    Ok(())
}
