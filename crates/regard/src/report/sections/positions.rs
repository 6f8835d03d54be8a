//! Where a word stands.

use crate::report::article::Article;
use crate::report::listing::POSITION;
use anyhow::Result;

pub fn write(article: &mut Article) -> Result<()> {
    article.section("positions", "Positions");
    article.text(
        "Attention is a sum over words and does not know their order: *dog bites man* and *man bites dog* are the same to it. \
         Something must say where each word stands. Sinusoidal encodings add waves of many lengths to the vectors; learned ones \
         add a row of a table; rotary ones turn queries and keys by an angle that grows with the place, so that scores depend on \
         distance alone; ALiBi takes something off each score for every step of distance; T5 learns a bias for each range of \
         distances. A causal mask tells something by itself, since the first word sees one word and the tenth sees ten: a model \
         without any positions is not quite lost.",
    );
    article.formula("p_{2i}(t) = \\text{sin}(\\frac{t}{10000^{2i/d}}),   p_{2i+1}(t) = \\text{cos}(\\frac{t}{10000^{2i/d}})");
    article.code(POSITION, &["pub fn sinusoidal("])?;
    article.text(
        "At the length a model was trained with, the choice is said to matter little; beyond it, much. A learned table has rows \
         that were never trained, a wave has angles that were never seen. Measured is the *perplexity*, $e^{\\text{loss}}$: among how many \
         equally likely words the model seems to hesitate.",
    );
    article.other_figures("positions")?;
    article.verdicts(&["E3"])?;
    article.text("Does attention need positions at all? Put the words of a text into another order, and compare the outputs.");
    article.other_figures("permutation")?;
    article.verdicts(&["E11"])?;
    article.exercise(
        "Train a language model with rotary positions.",
        "regard train words-gpt --set model.positions=rotary --out runs/rotary",
    );
    Ok(())
}
