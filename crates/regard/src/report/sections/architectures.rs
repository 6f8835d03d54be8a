//! Three ways to stack blocks.

use super::listed;
use crate::report::article::Article;
use crate::report::{diagrams, listing, whole_gpt, worked};
use anyhow::Result;

pub fn write(article: &mut Article) -> Result<()> {
    article.section("architectures", "GPT, BERT and T5");
    article.text(
        "The same block makes three kinds of model. *GPT* has a causal mask and predicts the next word, so it can write. *BERT* has no mask: every \
         word sees the whole sentence, and the model predicts words that were hidden. It builds a good vector for each word from both sides, for \
         classifying and tagging, but it has no order in which to write. *T5* has both: an *encoder* that sees all of one text, and a *decoder* \
         that writes another one, word by word. The decoder reads the encoder's output by *cross-attention*: its queries come from the text \
         that is written, its keys and values from the text that was read.",
    );
    article.diagram(
        &diagrams::whole_models(),
        "Words go in at the bottom, predictions come out at the top. A dashed frame is repeated N times; norms and additions of section 7 are left out.",
    );
    article.heading("The formulas");
    article.text("At the top, every word of the vocabulary gets a score, its *logit*, and a softmax over all words turns the scores into probabilities.");
    article.formula(
        "z = \\text{norm}(x_t)·E^T,   P(w) = \\frac{e^{z_w}}{∑_u e^{z_u}}",
        &[
            ("x_t", "the residual stream at position *t* after the last block"),
            ("E^T", "the table of embeddings, used backwards: a word scores high if its vector matches (many models use the same table twice)"),
            ("z_w", "the logit of word *w*"),
            ("P(w)", "the probability of word *w*"),
            ("w, u", "words of the vocabulary"),
        ],
    );
    by_hand(article)?;
    article.text("The three models differ in what the probability depends on:");
    article.formula(
        "\\text{GPT}: P(w_t | w_0, …, w_{t−1}),   \\text{BERT}: P(w_t | \\text{all visible words}),   \\text{T5}: P(y_t | y_0, …, y_{t−1}, x)",
        &[("y_t", "word *t* of the text that the decoder writes; *x* is here the text that the encoder read")],
    );
    article.heading("In code");
    article.text(
        "A whole GPT, from ids to logits: nothing in it is new to you now. `p` finds a matrix of the model by its name. A test checks that these \
         lines compute what the library computes.",
    );
    article.code(&listing::GPT)?;
    article.code(&listing::CAUSAL_ATTENTION)?;
    article.text(format!(
        "With random numbers, before any training, it gives the five words of section 1 nearly equal probabilities after *time flies fast*: {}.",
        listed(&whole_gpt::untrained()?, 2)
    ));
    article.text(
        "In the library itself a model is described by a *form*, a value that says what its layers are; GPT, BERT and T5 are three forms of one \
         `Transformer` (`crates/regard-nn/src/models/`).",
    );
    let inside = article.inside();
    article.heading("What the trained model shows");
    article
        .text(format!("After *{}* the model trained for this page expects:", inside.beginning().join(" ")));
    let rows: Vec<Vec<String>> = inside
        .next
        .iter()
        .map(|(word, probability)| vec![word.clone(), format!("{:.1} %", 100.0 * probability)])
        .collect();
    article.table(&["next word", "probability"], &rows);
    article.look_inside("Look inside: the probabilities of all words after the whole sentence, and what temperature does to them", "next", None);
    article.text("A small T5 was trained to turn active sentences into passive ones. Its cross-attention, where the decoder's words are queries and the encoder's words are keys:");
    article.figure("three-architectures", "cross_attention")?;
    article.exercise(
        "Which of the three would you choose to (a) continue a story, (b) decide whether a review is positive, (c) translate?",
        "(a) GPT, since it predicts the next word. (b) BERT reads a text from both sides, and its vectors are good for classifying; a GPT can be \
         trained for it, too. (c) T5: it reads all of the original and writes the translation word by word. Large GPTs translate as well: they \
         put both texts in one.",
    );
    article.try_it(
        "Let each do what it is for.",
        "regard train words-gpt\nregard generate runs/words-gpt \"the film\"\nregard train masked-words\nregard fill runs/masked-words \"the [MASK] was superb\"",
    );
    article.claims(&["E9"]);
    Ok(())
}

fn by_hand(article: &mut Article) -> Result<()> {
    let (vocabulary, _) = worked::tokens()?;
    let (normed, logits, probabilities) = worked::next_word()?;
    article.example("By hand", |article| {
        article.text(format!(
            "After the block of section 7 the vector of *time* is ({}). Its layer norm is ({}), and the dot products with the five rows of *E* (section 2) are \
             the logits:",
            listed(&worked::block_example()?.to_vec()[..2], 2),
            listed(&normed.to_vec(), 0)
        ));
        let row = |name: &str, values: &[f32], decimals: usize| {
            let values = values.iter().map(|value| diagrams::digits(*value, decimals));
            [name.to_owned()].into_iter().chain(values).collect::<Vec<String>>()
        };
        let header: Vec<&str> = [""].into_iter().chain(vocabulary.iter().map(String::as_str)).collect();
        article.table(&header, &[row("logit", &logits, 0), row("probability", &probabilities, 2)]);
        article.calculation(&format!("e^0 = 1,   e^1 = 2.72,   e^{{−1}} = 0.37,   \\text{{sum}} = {:.2}", logits.iter().map(|z| z.exp()).sum::<f32>()));
        article.text("With our simple matrices the model would guess *time* again. Training (section 9) changes them until the guesses are right.");
        Ok(())
    })
}
