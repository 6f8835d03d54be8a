//! Attention isolated: three models that differ in nothing else.

use super::super::results::Results;
use super::listed;
use crate::experiments::models::sentiment::Variant;
use crate::experiments::pooled_words::FAVOURITES;
use crate::report::article::Article;
use crate::report::{diagrams, listing, worked};
use anyhow::Result;

pub fn write(article: &mut Article) -> Result<()> {
    let results = article.results();
    article.section("isolated", "What attention adds: three classifiers");
    article.text(
        "To see what attention adds, change nothing else. All three models of this section read a review with a *BiLSTM*, a network that goes through \
         the words one by one in both directions and has a state at each word. They differ in how the states become one vector for the classifier. \
         The first takes the largest value of each feature (*max pool*). The second takes a weighted sum, with weights that it learns (*additive \
         attention*). The third lets every word attend to every other (*self-attention*, section 3) before the max pool.",
    );
    article.diagram(
        &diagrams::classifiers(),
        "Additive attention is older than the transformer (Bahdanau et al., 2014).",
    );
    article.heading("The formula");
    article.text("Used for pooling, additive attention has no query for each word: one learned vector *v* takes its place. A small network scores each state, and a softmax over the words makes weights of the scores:");
    article.formula(
        "α_i = \\text{softmax}_i (v^T \\text{tanh}(W h_i)),   c = ∑_i α_i h_i",
        &[
            ("h_i", "the state of the BiLSTM at word *i*"),
            ("W, v", "a matrix and a vector, both learned"),
            ("α_i", "the weight of word *i*"),
            ("c", "the vector that the classifier reads"),
        ],
    );
    let (scores, weights, pooled) = worked::additive()?;
    article.example("By hand", |article| {
        article.text(format!(
            "Take our three vectors as states, *W* = *I*, the identity matrix (it changes nothing), and *v* = (1, 1). tanh 1 = 0.762, so the scores are {}. The softmax gives {}, \
             and the weighted sum is ({}).",
            listed(&scores, 3),
            listed(&weights, 2),
            listed(&pooled, 2)
        ));
        Ok(())
    })?;
    article.heading("In code");
    article.code(&listing::ADDITIVE)?;
    article.text("And the one place where the three models of the library differ:");
    article.code(&listing::POOLING)?;
    article.heading("What the trained models show");
    article.figure("three-models", "loss_curves")?;
    article.text(format!(
        "Which words does the decision rest on? {} A weight belongs to the state at a word, and that state has read the words around it, too. So it \
         is tempting, but not safe, to read weights as reasons (Jain & Wallace, 2019). A better test is to take a word away and to see how the \
         answer changes.",
        favourites(results)?
    ));
    article.figure("pooled-words", "words_by_attention")?;
    article.text("Negation shows whether words are read together: in *not good* the word *good* means the opposite of what it means alone.");
    article.figure("negation", "accuracy_by_negation")?;
    article.look_inside(
        "Look inside: where the words of a sentence attend in the language model",
        "lines",
        Some(article.inside().previous),
    );
    article.exercise(
        "Could the max pool alone, without BiLSTM and attention, tell *not good* from *good*? Could it tell *good, not bad* from *bad, not good*?",
        "The first yes: the word *not* has a vector of its own, so the largest values can show that it is there. The second no: both texts have \
         the same words, and the largest value of each feature over the same words is the same. It takes something that reads words together.",
    );
    article.try_it(
        "The same comparison on the 50,000 reviews of IMDb.",
        "regard experiment three-models --size full --data aclImdb_v1.tar.gz",
    );
    article.claims(&["C1", "C6", "C7", "C4", "C2", "C5", "C3", "C8"]);
    Ok(())
}

fn favourites(results: &Results) -> Result<String> {
    let words = |model| results.words(FAVOURITES.of(model));
    Ok(format!(
        "Relative to how often they occur, additive attention favours *{}*; the features of the max pool most often come from *{}*.",
        words(Variant::Additive)?,
        words(Variant::Max)?
    ))
}
