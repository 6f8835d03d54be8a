//! Queries, keys, values, scores, and the scale.

use super::{listed, matrix};
use crate::experiments::scale_sweep::{DEVIATION, Kind, LARGEST};
use crate::report::article::Article;
use crate::report::{diagrams, listing, worked};
use anyhow::Result;
use regard_nn::tensor::Tensor;

pub fn write(article: &mut Article) -> Result<()> {
    article.section("scores", "Queries, keys and scores");
    article.text(
        "Attention is a dictionary that is looked up softly. In a plain dictionary, a question matches one entry, and you read its content. \
         In attention the question matches every entry a little, and you read a mixture: much of the entries that match well, little of the \
         others.",
    );
    article.text(
        "Each word plays three parts, and has a vector for each of them. Its *query* is what it looks for. Its *key* is what others find it by. \
         Its *value* is what it hands over when it is found. How well a query matches a key is their dot product, the *score*.",
    );
    article.diagram(
        &diagrams::lookup()?,
        "“What comes after *cat*?” in the sentence *The cat sat on*. Each key is a word, and its value is the word after it. The query is the \
         key of *cat*, once of length 1 and once of length 4. Attention answers with a mixture of the values, mostly *sat*.",
    );
    projections(article)?;
    scores(article)?;
    scale(article)?;
    article.exercise(
        "Change the vector of *fast* to (1, −1) and compute its query, its key, and its score against the key of *time*.",
        "Query: doubled, (2, −2). Key: swapped, (−1, 1). The key of *time* is (0, 1), so the score is 2·0 + (−2)·1 = −2. A negative score \
         means that this word will get less weight than one with score 0.",
    );
    article.try_it(
        "Draw ten thousand random examples instead of a few hundred. What happens to the intervals?",
        "regard experiment scale-sweep --seeds 10000",
    );
    article.claims(&["D1", "D3", "D4", "D5", "D6", "E1"]);
    Ok(())
}

/// Q = x·W_Q, and the others.
fn projections(article: &mut Article) -> Result<()> {
    article.heading("Queries, keys and values");
    article.text(
        "All three are made from the word's vector by a matrix. The matrices are the same for all words, and training decides what is in them.",
    );
    article.formula(
        "Q = x·W_Q,   K = x·W_K,   V = x·W_V",
        &[
            ("x", "the words' vectors, one row a word: *n* rows of *d* numbers"),
            ("W_Q", "the matrix that makes queries: *d* rows and $d_k$ columns; $W_K$ and $W_V$ likewise"),
            ("Q", "the queries, one row a word: *n* rows of $d_k$ numbers"),
            ("K", "the keys, as many"),
            ("V", "the values, as many"),
            ("d_k", "the number of values in a query and in a key"),
        ],
    );
    let x = worked::vectors()?;
    let head = worked::one_head(&x, None)?;
    article.example("By hand", |article| {
        article.text(
            "In our example all vectors have two numbers, and the matrices do something that you can see at once: $W_Q$ doubles both numbers, \
             $W_K$ swaps them, $W_V$ changes the sign of the second.",
        );
        let weights = |values: &[f32; 4]| anyhow::Ok(matrix(&Tensor::new(values, [2, 2])?, 0));
        let line = |name: &str, map: &[f32; 4], made: &Tensor| {
            anyhow::Ok(format!("{name} = x·W_{name} = {}{} = {}", matrix(&x, 0), weights(map)?, matrix(made, 0)))
        };
        article.calculation(&line("Q", &worked::W_QUERY, &head.query)?);
        article.calculation(&line("K", &worked::W_KEY, &head.key)?);
        article.calculation(&line("V", &worked::W_VALUE, &head.value)?);
        Ok(())
    })
}

/// Q·Kᵀ, and one head as a whole.
fn scores(article: &mut Article) -> Result<()> {
    article.heading("Scores");
    article.text(
        "Now compare every query with every key. The dot product multiplies two vectors number by number and adds up. It is large where both \
         are large at the same places. All dot products at once are one product of matrices.",
    );
    article.formula(
        "S = \\frac{Q K^T}{\\sqrt{d_k}},   s_{ij} = \\frac{q_i·k_j}{\\sqrt{d_k}}",
        &[
            ("S", "the scores: a row for each query and a column for each key, *n* × *n*; $s_{ij}$ is one of them"),
            ("s_{ij}", "how well the query of token *i* matches the key of token *j*"),
            ("q_i", "row *i* of *Q*"),
            ("k_j", "row *j* of *K*"),
            ("j", "another position in the text"),
            ("K^T", "*K* with rows and columns exchanged (T for *transposed*)"),
        ],
    );
    let head = worked::one_head(&worked::vectors()?, None)?;
    article.example("By hand", |article| {
        let row = |values: &[f32]| listed(values, 0);
        article.text(format!(
            "The query of *time* is ({}). Its dot products with the three keys are 2·0 + 0·1 = 0, 2·1 + 0·0 = 2 and 2·1 + 0·1 = 2. So *time* \
             matches *flies* and *fast*, and not itself.",
            row(&head.query.to_vec()[..2])
        ));
        article.calculation(&format!(
            "Q K^T = {}{} = {},   \\frac{{Q K^T}}{{\\sqrt{{2}}}} = {}",
            matrix(&head.query, 0),
            matrix(&head.key.transpose(0, 1)?, 0),
            matrix(&head.scores, 0),
            matrix(&head.scaled, 2)
        ));
        Ok(())
    })?;
    article.text("The picture shows the whole head. The next section explains its right half.");
    article.diagram(
        &diagrams::flow()?,
        "One head of attention with all of its numbers. Every number was computed by the library; check some of them.",
    );
    article.heading("In code");
    article.text("This function computed the example. The last call is the library's own, below it.");
    article.code(&listing::ONE_HEAD)?;
    article.code(&listing::DOT_PRODUCT)
}

/// Why √d_k.
fn scale(article: &mut Article) -> Result<()> {
    let results = article.results();
    let [unscaled, scaled] = Kind::ALL.map(|kind| results.fact(DEVIATION.of(kind)));
    let [sharp, soft] = Kind::ALL.map(|kind| results.fact(LARGEST.of(kind)));
    let (unscaled, scaled, sharp, soft) = (unscaled?, scaled?, sharp?, soft?);
    article.heading("Why divide by √d_k?");
    article.text(format!(
        "A dot product of $d_k$ numbers is a sum of $d_k$ terms. If the numbers are random with standard deviation 1, the standard deviation of \
         the sum is $\\sqrt{{d_k}}$: it grows with the width. At $d_k$ = 64 this run measured {unscaled:.2} without the division and {scaled:.2} with \
         it. Large scores are a problem for the next step, the softmax, which gives nearly all weight to the largest: at $d_k$ = 256 the largest \
         of eight weights is {sharp:.3} on average without the division and {soft:.3} with it.",
    ));
    article.figure("scale-sweep", "attention_heatmap_gallery")?;
    article.figure("scale-sweep", "sharpness_vs_dk")?;
    article.look_inside(
        "Look inside: one score of the trained model, taken apart into query, key and dot product",
        "why",
        Some(article.inside().previous),
    );
    Ok(())
}
