//! The softmax, masks, and the output.

use super::{listed, matrix};
use crate::figure::{ColourScale, HeatMap, Matrix, Picture};
use crate::report::article::Article;
use crate::report::{diagrams, listing, worked};
use anyhow::Result;

pub fn write(article: &mut Article) -> Result<()> {
    article.section("weights", "Weights, masks and the output");
    article.text(
        "Scores can be any numbers. To mix values we need *weights*: positive numbers that sum to 1. The *softmax* makes them: it raises *e* to \
         each score and divides by the sum of the row. A score that is larger by 1 gets *e* = 2.718 times the weight. The output of a word is \
         then the mean of all values, each counted by its weight.",
    );
    article.formula(
        "a_{ij} = \\frac{e^{s_{ij}}}{∑_r e^{s_{ir}}},   o_i = ∑_j a_{ij} v_j",
        &[
            ("a_{ij}", "the weight of token *j* for token *i*: how much of its value token *i* takes"),
            ("e", "Euler's number, 2.718…"),
            ("r", "runs over all tokens that token *i* may attend to"),
            ("v_j", "row *j* of *V*"),
            ("o_i", "the output for token *i*"),
        ],
    );
    article.text("Queries, keys and both steps together are the most quoted formula of the field (Vaswani et al., 2017):");
    article.formula("\\text{Attention}(Q, K, V) = \\text{softmax}(\\frac{QK^T}{\\sqrt{d_k}}) V", &[]);
    by_hand(article)?;
    masks(article)?;
    how_even(article)?;
    trained(article)?;
    article.exercise(
        "A word has the scores 1, 1 and 1 for three words. What are its weights? What are they for the scores 11, 11 and 11?",
        "Each word gets 1/3, both times. Adding the same number to all scores of a row multiplies every exponential by the same factor, which \
         cancels. Programs use this: they subtract the largest score of the row first, since $e^{89}$ is too large for a 32-bit number.",
    );
    article.try_it(
        "Write the weights of every head over a sentence of your own to a file.",
        "regard train words-gpt\nregard trace runs/words-gpt --text \"the film is not as good as promised\" -o trace.safetensors",
    );
    article.claims(&["D2", "A3", "A4"]);
    Ok(())
}

fn by_hand(article: &mut Article) -> Result<()> {
    let head = worked::one_head(&worked::vectors()?, None)?;
    article.example("By hand", |article| {
        let (scaled, weights, output) = (head.scaled.to_vec(), head.weights.to_vec(), head.output.to_vec());
        let powers: Vec<f32> = scaled[..3].iter().map(|score| score.exp()).collect();
        article.text(format!(
            "The scores of *time* are {}. *e* to their powers is {}, with the sum {:.2}. Divided by the sum: {}.",
            listed(&scaled[..3], 2),
            listed(&powers, 2),
            powers.iter().sum::<f32>(),
            listed(&weights[..3], 2),
        ));
        article.text(format!(
            "The values are (1, 0), (0, −1) and (1, −1). Weighted and added, they give *time* the output ({}): it has taken over something from \
             *flies* and *fast*.",
            listed(&output[..2], 2)
        ));
        article.calculation(&format!(
            "\\text{{softmax}}(\\frac{{Q K^T}}{{\\sqrt{{2}}}}) V = {}{} = {}",
            matrix(&head.weights, 2),
            matrix(&head.value, 0),
            matrix(&head.output, 2)
        ));
        Ok(())
    })
}

fn masks(article: &mut Article) -> Result<()> {
    let causal = worked::one_head(&worked::vectors()?, Some(&worked::causal()))?;
    article.heading("Masks: who may attend to whom");
    article.text(
        "A model that learns to guess the next word must not see it. A *mask* forbids pairs of queries and keys. The *causal* mask lets a word \
         attend to itself and to earlier words only, a lower triangle. One pass over a text then trains all of its guesses at once, and no guess \
         sees its answer. Padding is masked as well. A masked score counts as minus infinity, so that its weight is exactly zero and the other \
         weights of the row still sum to 1.",
    );
    article.diagram(
        &diagrams::masks()?,
        "Masks for six words, computed by the library. Sparse patterns such as the window save work on long texts (section 12).",
    );
    article.example("By hand", |article| {
        article.text("With the causal mask *time* can attend only to itself, and *flies* to the first two words:");
        article.calculation(&format!("A = {},   A V = {}", matrix(&causal.weights, 2), matrix(&causal.output, 2)));
        article.text(format!(
            "The second row: the scores are {} for *time* and {} for *flies*, so the weights are 4.11/5.11 and 1/5.11. The last row may see \
             everything and has not changed.",
            listed(&causal.scaled.to_vec()[3..4], 2),
            listed(&causal.scaled.to_vec()[4..5], 0)
        ));
        Ok(())
    })?;
    article.heading("In code");
    article.code(&listing::MASK)
}

fn how_even(article: &mut Article) -> Result<()> {
    article.heading("Sharp or even?");
    article.text(
        "Two limits help to read weights. If all *n* scores are equal, every word gets 1/*n*, and the output is a plain mean. If one score is much \
         larger than the others, its word gets everything, and attention is a plain lookup. The *entropy* measures where a row lies between \
         the two: it is ln *n* for equal weights and 0 for a plain lookup.",
    );
    article.formula(
        "H_i = −∑_j a_{ij} \\text{ ln }a_{ij}",
        &[("H_i", "the entropy of the weights of token *i*, in nats; it is often divided by ln *n*, so that 1 is even")],
    );
    article.text(
        "Before training, with random matrices, attention is said to be nearly even. Whether it is depends on how large the random numbers are:",
    );
    article.figure("untrained-attention", "entropy_vs_dk")
}

fn trained(article: &mut Article) -> Result<()> {
    let inside = article.inside();
    let place = inside.previous;
    article.heading("What the trained model shows");
    let n = inside.words.len();
    let map = HeatMap::new(
        Matrix::new(n, n, inside.weights(place).to_vec())?,
        ColourScale::sequential("weight").range(0.0, 1.0),
    )
    .words(inside.words.clone(), inside.words.clone())
    .names("query", "key")
    .mask(|row, column| column > row);
    let title = format!("Layer {}, head {}, of the model trained for this page", place.layer, place.head);
    article.diagram(
        &Picture::new(title).panel(map),
        &format!(
            "Rows are queries: read along a row to see where a word attends. Hatched cells are masked. Of all heads this one attends most to the \
             previous word: {:.0} % of its weight in this sentence, averaged over its words.",
            100.0 * inside.on_previous(place)
        ),
    );
    article.look_inside("Look inside: this head, with every weight", "head", Some(place));
    Ok(())
}
