//! Queries, keys, scores, and the scale.

use crate::experiments::lookup;
use crate::experiments::scale_sweep::{DEVIATION, Kind, LARGEST};
use crate::report::article::Article;
use crate::report::listing::ATTENTION;
use anyhow::Result;

pub fn write(article: &mut Article) -> Result<()> {
    let results = article.results();
    let [unscaled, scaled] = Kind::ALL.map(|kind| results.fact(DEVIATION.of(kind)));
    let [sharp, soft] = Kind::ALL.map(|kind| results.fact(LARGEST.of(kind)));
    let (unscaled, scaled, sharp, soft) = (unscaled?, scaled?, sharp?, soft?);
    article.section("scores", "Scores, and why √d_k");
    article.text(
        "Attention is a dictionary that is looked up softly. Every word asks a question (its *query*), offers a label (its *key*) \
         and holds some content (its *value*). A query is compared with all keys by dot product; the better they match, the more \
         of that word's value is read. All three are linear maps of the word's vector, and training decides what they look for.",
    );
    article.formula("\\text{Attention}(Q, K, V) = \\text{softmax}(\\frac{QK^T}{\\sqrt{d_k}}) V");
    article.code(ATTENTION, &["pub fn scaled_dot_product("])?;
    article.text(format!(
        "Why divide by $\\sqrt{{d_k}}$? The dot product of two random vectors of $d_k$ entries is a sum of $d_k$ terms, so its \
         standard deviation grows as $\\sqrt{{d_k}}$: at 64 we measure {unscaled:.2} without the scale and {scaled:.2} with it. A \
         softmax of numbers that far apart is nearly all or nothing. At $d_k$ = 256 the largest of eight weights is {sharp:.3} on \
         average without the scale and {soft:.3} with it.",
    ));
    article.figure("scale-sweep", "attention_heatmap_gallery")?;
    article.figure("scale-sweep", "sharpness_vs_dk")?;
    article.verdicts(&["D3"])?;
    article.text(
        "It is often added that the gradients of Q and K vanish without the scale, because a saturated softmax no longer reacts \
         to its input. The measurement separates two things: how the gradient of the *scores* changes, and what becomes of it \
         on the way to Q and K.",
    );
    article.figure("scale-sweep", "gradient_norms_vs_dk")?;
    article.verdicts(&["D4"])?;
    article.text("A published example is one draw of random numbers. Where does it lie among many?");
    article.figure("scale-sweep", "published_draw")?;
    article.verdicts(&["D5"])?;
    article.text(
        "How soft the lookup is, is a matter of how long the query is. Take keys of length 1, and ask for one of them with a query \
         of length $β$: the right key scores $β$, the others $β$ times their cosine with it, and the weight of each wrong one falls as \
         $e^{−β(1 − \\text{cos})}$. From a mean of everything, attention becomes a dictionary.",
    );
    article.text(format!(
        "Ask a text, *What comes after “cat”?* Its words are keys, and the value of each is the word after it. With keys at right angles and a \
         query of length 4, the entry of “cat” gets $e^4 / (e^4 + 3)$ = {:.2} of the weight, and the answer is mostly “sat”.",
        article.results().fact(lookup::AFTER_CAT.of(4.0))?
    ));
    article.other_figures("lookup")?;
    article.verdicts(&["E1"])?;
    article.text(
        "One more detail makes the formula safe. $e^{89}$ is beyond what a 32-bit floating-point number can hold, so the softmax first \
         subtracts the row's maximum: the weights are the same, and the largest exponent is 0.",
    );
    article.figure("exactness", "softmax_error")?;
    article.verdicts(&["D6"])?;
    article.text(
        "Is the function above, and the fast one that computes the same in tiles, what PyTorch computes?",
    );
    article.verdicts(&["D1"])?;
    article.exercise(
        "Draw ten thousand times instead of a few hundred: what becomes of the intervals?",
        "regard experiment scale-sweep --seeds 10000",
    );
    Ok(())
}
