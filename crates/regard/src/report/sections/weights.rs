//! Weights, masks, and what attention does before it has learned anything.

use crate::report::article::Article;
use crate::report::listing::PATTERN;
use anyhow::Result;

pub fn write(article: &mut Article) -> Result<()> {
    article.section("weights", "Weights and masks");
    article.text(
        "The softmax turns a row of scores into weights that are positive and sum to one: how much of each word's value this word \
         takes. Two limits help to read them. If all scores are equal, everyone gets $1/n$ and the output is a plain average; the \
         entropy of the weights is then $\\text{ln }n$. If one score towers above the others, its word gets everything and attention \
         is a dictionary lookup; the entropy is 0.",
    );
    article.formula("a_{ij} = \\frac{e^{s_{ij}}}{∑_k e^{s_{ik}}},   H_i = −∑_j a_{ij} \\text{ln }a_{ij}");
    article.text(
        "A mask says who may look at whom. A language model that is to guess the next word must not see it: its *causal* mask lets \
         word $t$ see the words $1, …, t$, a lower triangle. One pass over a text then trains all of its guesses at once, and none of \
         them sees its answer. Padding must not be read at all. Masked scores count as minus infinity, so that their weights are exactly \
         zero, not merely small. A row with nothing to see at all has weights of zero, and an output of zero.",
    );
    article.code(PATTERN, &["fn allows("])?;
    article.figure("exactness", "masks")?;
    article.verdicts(&["D2"])?;
    article.text(
        "What does attention look like before any training, when the projections are random? It is said to be near uniform, and to \
         become sharper with larger keys. Both depend on how the projections are drawn, so we draw them in several ways.",
    );
    article.other_figures("untrained-attention")?;
    article.verdicts(&["A3", "A4"])?;
    article.exercise(
        "Write the weights of every head over a sentence of your own to a file.",
        "regard train words-gpt\nregard trace runs/words-gpt --text \"the film is not as good as promised\" -o trace.safetensors",
    );
    Ok(())
}
