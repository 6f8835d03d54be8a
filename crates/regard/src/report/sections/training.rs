//! What training changes in attention.

use crate::report::article::Article;
use crate::report::listing::TRAIN;
use anyhow::Result;

pub fn write(article: &mut Article) -> Result<()> {
    article.section("training", "Training, and what it changes in attention");
    article.text(
        "Training is one loop: compute the *loss* of a batch (how surprised the model is by the right answer, in nats), its gradient for \
         every number in the model, and move each number a little the other way; Adam, which is used here, divides each step by the \
         usual size of its gradient. Nothing says what attention should look at. To see what it comes to look at, take a task small \
         enough to understand: one head, one layer, and the question whether a hidden word is a *content word* (noun, verb, \
         adjective, adverb) or a *function word* (article, preposition, auxiliary).",
    );
    article.formula("θ ← θ − η · ∇_θ L(θ)");
    article.code(TRAIN, &["pub fn train("])?;
    article.other_figures("content-words")?;
    article.verdicts(&["B1"])?;
    article.text(
        "Then compare the weights before and after, sentence by sentence and seed by seed. Before training they are not near uniform as \
         in section 4, because the vectors of these words are drawn larger: how sharp untrained attention is, is a choice of initial sizes.",
    );
    article.other_figures("training-smooths")?;
    article.verdicts(&["B2", "B3"])?;
    article.text(
        "Does attention come to link words that belong together? The built-in corpus knows the syntax of each of its sentences, so \
         the share of weight on a word's true neighbour can be counted, and compared with a rule as simple as *always the previous \
         word*.",
    );
    article.other_figures("word-links")?;
    article.verdicts(&["B4", "B7"])?;
    article.text("All of these measures together, against the step: do they grow with training, or were they there before?");
    article.other_figures("training-curve")?;
    article.verdicts(&["B6"])?;
    article.exercise(
        "Train the tagger on a treebank of your own.",
        "regard train tagger --data en_ewt-ud-train.conllu",
    );
    Ok(())
}
