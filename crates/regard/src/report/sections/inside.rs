//! What heads do, and whether it matters.

use super::matrix;
use crate::report::article::Article;
use crate::report::{listing, worked};
use anyhow::Result;

pub fn write(article: &mut Article) -> Result<()> {
    let inside = article.inside();
    article.section("inside", "What heads do, and whether they matter");
    article.text(
        "In a trained language model every head can be measured over thousands of words: how much of its weight goes to the previous token, to \
         punctuation, to the word's partner in the sentence, or far away. A number means little without a comparison, so the same is measured in \
         the same model before training.",
    );
    article.formula(
        "\\text{previous}(h) = \\frac{1}{n − 1} ∑_{t=1}^{n−1} a_{t,t−1}^{(h)}",
        &[("a_{t,t−1}^{(h)}", "the weight that head *h* gives the token before token *t*; tokens are counted from 0, and the first has none before it")],
    );
    let place = inside.previous;
    article.example("By hand", |article| {
        let causal = worked::one_head(&worked::vectors()?, Some(&worked::causal()))?.weights;
        let values = causal.to_vec();
        article.text(format!(
            "Take the causal weights of section 4. *flies* gives *time* {:.2}, and *fast* gives *flies* {:.2}. The mean is {:.2}: our head attends to the \
             previous word with about half of its weight.",
            values[3],
            values[7],
            f32::midpoint(values[3], values[7])
        ));
        Ok(())
    })?;
    article.heading("What the trained model shows");
    article.text(format!(
        "The model trained for this page has a head that attends to the previous word with {:.0} % of its weight in our sentence: head {} of layer {}. \
         The figure shows all heads on one sentence.",
        100.0 * inside.on_previous(place),
        place.head,
        place.layer
    ));
    // The smallest models know too few words for a sentence to draw.
    if article.results().figure("trained-heads", "heads_of_all_layers").is_ok() {
        article.figure("trained-heads", "heads_of_all_layers")?;
    }
    article.look_inside("Look inside: the head that attends to the previous word", "head", Some(place));
    article.heading("Does a head matter?");
    article.text(
        "Attending somewhere is not the same as mattering. Set a head's output to zero (*ablate* it) and see which words become harder to predict: \
         that is what the head was for, unless other heads step in.",
    );
    article.figure("head-removal", "loss_change_by_head_and_kind")?;
    rollout(article)?;
    article.exercise(
        "A head gives the first token of every sentence 90 % of its weight, and the value of that token is nearly zero. What does the head add to the \
         stream? Why could that be useful?",
        "Nearly nothing: a tenth of some other values. Since weights must sum to 1, a head that finds nothing has to put its weight somewhere; the first \
         token serves as a place to rest (an *attention sink*; Gu et al., 2024). Large weights alone do not show that a head matters.",
    );
    article.try_it(
        "Measure every head of a model of your own, with intervals and a baseline.",
        "regard heads runs/words-gpt --corpus built-in -o heads",
    );
    article.claims(&["E2", "E7"]);
    Ok(())
}

fn rollout(article: &mut Article) -> Result<()> {
    article.heading("Through several layers");
    article.text(
        "By the second layer, the vector at a position is already a mixture of several words, so weights of one layer say little about the input. \
         *Rollout* follows the mixture back through the layers. It multiplies their weights; half of each position stays as it was, for the residual \
         stream (Abnar & Zuidema, 2020).",
    );
    article.formula(
        "R = \\hat{A}_{L−1} … \\hat{A}_1·\\hat{A}_0,   \\hat{A}_l = \\frac{1}{2} (A_l + I)",
        &[
            ("A_l", "the weights of layer *l*, counted from 0, the mean over its heads"),
            ("I", "the identity: every position keeps itself"),
            ("L", "here the number of layers"),
            ("R", "the share of each input word in each position after the last layer"),
        ],
    );
    article.example("By hand", |article| {
        let causal = worked::one_head(&worked::vectors()?, Some(&worked::causal()))?.weights;
        article.text("Two layers that both have the causal weights of section 4:");
        article.calculation(&format!(
            "A = {},   R = \\hat{{A}}·\\hat{{A}} = {}",
            matrix(&causal, 2),
            matrix(&worked::rollout()?, 2)
        ));
        Ok(())
    })?;
    article.code(&listing::ROLLOUT)?;
    if article.results().figure("extensions", "rollout").is_ok() {
        article.figure("extensions", "rollout")?;
    }
    Ok(())
}
