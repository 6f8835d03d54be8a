//! Three ways to stack blocks.

use crate::report::article::Article;
use crate::report::listing::TRANSFORMER;
use anyhow::Result;

pub fn write(article: &mut Article) -> Result<()> {
    article.section("architectures", "GPT, BERT and T5");
    article.text(
        "The same block makes three kinds of model. *GPT* masks the future and guesses the next word: it can write. *BERT* sees the \
         whole sentence and guesses words that were hidden: it builds a vector for every word from both of its sides, good for \
         classifying and tagging, but has no order in which to write. *T5* has both: an encoder that sees \
         everything, and a decoder that writes and looks at the encoder's output through cross-attention, whose queries come from \
         one text and whose keys and values come from another.",
    );
    article.formula("\\text{GPT}: P(w_t | w_1, …, w_{t−1}),   \\text{BERT}: P(w_t | w_{\\text{visible}}),   \\text{T5}: P(y_t | y_1, …, y_{t−1}, x)");
    article.code(TRANSFORMER, &["fn hidden("])?;
    article.other_figures("three-architectures")?;
    article.verdicts(&["E9"])?;
    article.exercise("Let each do what it is for.", "regard train words-gpt\nregard generate runs/words-gpt \"the film\"\nregard train masked-words\nregard fill runs/masked-words \"the [MASK] was superb\"");
    Ok(())
}
