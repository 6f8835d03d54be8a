//! Where a word stands.

use super::{listed, matrix};
use crate::report::article::Article;
use crate::report::{diagrams, listing, worked};
use anyhow::Result;

pub fn write(article: &mut Article) -> Result<()> {
    article.section("positions", "Positions");
    article.text(
        "Attention does not know the order of words. Its output is a weighted sum, and a sum is the same in any order: *dog bites man* and *man \
         bites dog* give every word the same output. So the model must be given the positions. There are two ways to do it: add something to \
         the vectors (*sinusoidal*, *learned*), or change the scores by the distance of the two words (*rotary*, *ALiBi*, T5's *bias*).",
    );
    waves(article)?;
    rotary(article)?;
    alibi(article)?;
    article.heading("What the trained models show");
    article.text(
        "What happens on texts that are longer than those a model was trained on? A learned table has rows that were never trained; a wave has \
         values that were never seen. The figure shows the *perplexity* (section 9: lower is better) as texts get longer.",
    );
    article.figure("positions", "extrapolation")?;
    article.text(
        "A causal mask alone says a little about positions, since the first word sees one word and the tenth sees ten: a model without any \
         position encoding is not quite lost.",
    );
    article.look_inside(
        "Look inside: a head of the trained model, which has rotary positions, that attends to the previous word",
        "lines",
        Some(article.inside().previous),
    );
    article.exercise(
        "Swap *time* and *fast* in the example of section 3, without a mask and without positions. Which rows of the output change?",
        "None of them: the row of *time* has the same numbers as before, only in third place, and likewise *fast*. The outputs have moved with \
         the words (one says that attention is *permutation equivariant*). With the causal mask they do change, because *time* now sees three \
         words instead of one.",
    );
    article.try_it(
        "Train a language model with ALiBi.",
        "regard train words-gpt --set model.positions=alibi --out runs/alibi",
    );
    article.claims(&["E3", "E11"]);
    Ok(())
}

fn waves(article: &mut Article) -> Result<()> {
    article.heading("Waves that are added");
    article.text(
        "Sinusoidal encodings add a pattern of waves to the vectors. Short waves distinguish neighbours, long waves distinguish the beginning from the \
         end. A *learned* encoding adds a row of a table instead, one row for each position, and training fills the table.",
    );
    article.formula(
        "p_{2m}(t) = \\text{sin}(\\frac{t}{10000^{2m/d}}),   p_{2m+1}(t) = \\text{cos}(\\frac{t}{10000^{2m/d}})",
        &[
            ("p(t)", "the vector that is added at position *t*: sines at even places of the vector, cosines at odd ones"),
            ("t", "the position of the token, counted from 0"),
            ("m", "counts pairs of places in the vector, from 0 to *d*/2 − 1"),
        ],
    );
    let waves = worked::waves()?.to_vec();
    article.example("By hand", |article| {
        article.text(format!(
            "With two numbers there is one pair, and its wave has the length 2π. Positions 0, 1 and 2 add ({}), ({}) and ({}).",
            listed(&waves[..2], 2),
            listed(&waves[2..4], 2),
            listed(&waves[4..], 2)
        ));
        Ok(())
    })?;
    article.code(&listing::SINUSOIDAL)
}

fn rotary(article: &mut Article) -> Result<()> {
    article.heading("Rotary: queries and keys are turned");
    article.text(
        "Rotary positions add nothing. They take the numbers of a query or key in pairs and turn each pair, as a hand of a clock, by an angle that \
         grows with the position. When a query at position *t* meets a key at position *u*, the rotation changes the angle between them by an amount that \
         depends only on the distance *t* − *u*. The values are not turned.",
    );
    article.diagram(
        &diagrams::rotary()?,
        "Left: the query (2, 0) at positions 0 to 3. Right: a query and the key (1, 1) at positions 1 and 0, then at 3 and 2. The distance is 1 both \
         times, and so the score is the same.",
    );
    article.formula(
        "R(t) = \\matrix{\\text{cos }tω & −\\text{sin }tω \\\\ \\text{sin }tω & \\text{cos }tω},   (R(t)\\text{ }q)·(R(u)\\text{ }k) = q·(R(u−t)\\text{ }k),   ω_m = 10000^{−2m/d_k}",
        &[
            ("R(t)", "the rotation of a pair of numbers at position *t*"),
            ("ω_m", "the angle for each step, in radians: 1 for the first pair, less for the later ones"),
            ("u", "the position of the key"),
            ("q, k", "a pair of numbers of a query and of a key"),
        ],
    );
    article.code(&listing::ROTATED)
}

fn alibi(article: &mut Article) -> Result<()> {
    let (slope, scores, weights) = worked::alibi()?;
    article.heading("ALiBi: distance costs");
    article.text(
        "ALiBi is simpler: it takes something off each score for every step of distance. Heads have different slopes, so that some look near and \
         some far. T5 instead learns a number for each range of distances and adds it to the score.",
    );
    article.formula(
        "s_{ij} = \\frac{q_i·k_j}{\\sqrt{d_k}} − λ_m·(i − j),   λ_m = 2^{−8(m+1)/h}",
        &[
            ("λ_m", "the slope of head *m*, counted from 0"),
            ("h", "the number of heads, here a power of two"),
        ],
    );
    article.example("By hand", |article| {
        article.text(format!(
            "Head 0 of eight has the slope {slope}. The scores of *fast* were 1.41, 1.41 and 2.83; at distances 2, 1 and 0 they become {}. With the \
             causal mask the weights are:",
            listed(&scores.to_vec()[6..], 2)
        ));
        article.calculation(&format!("A = {}", matrix(&weights, 2)));
        Ok(())
    })
}
