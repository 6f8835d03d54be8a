//! Text becomes numbers.

use crate::experiments::vocabulary::{CLASSES, SAMPLE};
use crate::report::article::Article;
use crate::report::listing::TOKENS;
use anyhow::Result;

pub fn write(article: &mut Article) -> Result<()> {
    let results = article.results();
    article.section("tokens", "From text to tokens");
    article.text(format!(
        "What is read here are reviews of films. A grammar inside the program writes them, so that nothing need be downloaded and the \
         truth about every word is known: which words judge (praise or blame), what is negated, what depends on what. This one is \
         positive: *{}* And this one negative: *{}*",
        results.words(SAMPLE.of(CLASSES[1]))?,
        results.words(SAMPLE.of(CLASSES[0]))?,
    ));
    article.text(
        "A model reads numbers. The first step is a dictionary: every word of the training texts that is frequent enough gets \
         an index, and a text becomes a row of indices. Two entries stand for no word: `<UNK>` is read wherever a word is not in \
         the dictionary, and `<PAD>` fills short texts up so that several can be computed at once. A dictionary of the most \
         frequent words covers nearly all running text because word frequencies fall steeply (Zipf's law): the rare half of a \
         vocabulary is read almost never. Real models cut rare words into pieces (BPE, WordPiece), so that nothing is unknown; this page \
         mostly keeps whole words, because they are easier to look at.",
    );
    article.formula("\\text{text} → (w_1, …, w_n),   w_i ∈ \\{1, …, V\\}");
    article.code(TOKENS, &["pub fn encode("])?;
    article.other_figures("vocabulary")?;
    article.verdicts(&["A1"])?;
    article.exercise(
        "See how a sentence is cut, with the place of every piece in the text.",
        "regard train bag\nregard tokens runs/bag \"not as good as promised\"",
    );
    Ok(())
}
