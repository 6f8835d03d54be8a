//! Attention isolated: three models that differ in nothing else.

use super::super::results::Results;
use crate::experiments::models::sentiment::Variant;
use crate::experiments::pooled_words::FAVOURITES;
use crate::report::article::Article;
use crate::report::listing::SENTIMENT;
use anyhow::Result;

pub fn write(article: &mut Article) -> Result<()> {
    let results = article.results();
    article.section("isolated", "Attention isolated: three models of sentiment");
    article.text(
        "To see what attention adds, change nothing else. A BiLSTM reads the text in both directions; then the states of its words \
         become one vector by taking the largest value of each feature (*max pool*), by a weighted sum whose weights are learned \
         (*additive attention*), or by letting every word look at every other first (*self-attention*).",
    );
    article.formula("α_i = \\text{softmax}_i (v^T \\text{tanh}(W h_i)),   c = ∑_i α_i h_i");
    article.code(SENTIMENT, &["fn hidden("])?;
    article.figure("three-models", "loss_curves")?;
    article.figure("three-models", "measures")?;
    article.figure("three-models", "roc")?;
    article.verdicts(&["C1", "C7"])?;
    article.text(
        "More attention also means more parameters. So the plain model is widened until it has as many, twice as many and four \
         times as many as the one with self-attention.",
    );
    article.figure("three-models", "accuracy_by_parameters")?;
    article.verdicts(&["C6"])?;
    article.text("Long texts are where a pool is said to lose the thread.");
    article.figure("three-models", "accuracy_by_length")?;
    article.verdicts(&["C4"])?;
    article.text(format!(
        "Which words does the decision rest on? {} A weight is on the LSTM's state at a word, and that state has read what stands around \
         it, too. So it is tempting, but not safe, to read the weights as reasons (Jain & Wallace, 2019). Taking a word away and seeing \
         how the answer changes is the yardstick.",
        favourites(results)?
    ));
    article.other_figures("pooled-words")?;
    article.verdicts(&["C2", "C5"])?;
    article.text(
        "Negation is the test of whether words are read together: in *not good* the judging word says the opposite of what it says \
         alone.",
    );
    article.other_figures("negation")?;
    article.verdicts(&["C3"])?;
    article.text("And what do the four heads of self-attention attend to, before and after training?");
    article.other_figures("bilstm-heads")?;
    article.verdicts(&["C8"])?;
    article.exercise(
        "The same comparison on the 50,000 reviews of IMDb, as the claims have it.",
        "regard experiment three-models --size full --data aclImdb_v1.tar.gz",
    );
    Ok(())
}

fn favourites(results: &Results) -> Result<String> {
    let words = |model| results.words(FAVOURITES.of(model));
    Ok(format!(
        "Relative to how often they occur, additive attention favours *{}*; the features of the max pool are won by *{}*.",
        words(Variant::Additive)?,
        words(Variant::Max)?
    ))
}
