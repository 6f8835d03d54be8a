//! How far it is from here to a real model.

use super::listed;
use crate::experiment::Fact;
use crate::experiments::model_size;
use crate::report::article::Article;
use crate::report::listing;
use anyhow::Result;

/// Parameters of BERT-base, and the tokens that it read at most: a million steps of 256 sequences of up to 512 (Devlin et al., 2018).
const BERT: (f64, f64) = (110e6, 131_072e6);

pub fn write(article: &mut Article) -> Result<()> {
    article.section("real-models", "From here to a real model");
    article.text(
        "The models of this page are tiny and read text that a grammar wrote. The mechanism is that of the large ones; size and knowledge are not. \
         What does size bring? Often the loss falls by the same factor each time the number of parameters is multiplied by the same factor: a *power \
         law*. On logarithmic axes it is a straight line, and its slope is the exponent.",
    );
    article.formula(
        "L(N) = a N^{−α},   \\text{ ln }L = \\text{ ln }a − α\\text{ ln }N",
        &[
            ("L(N)", "the loss of a model with *N* parameters"),
            ("N", "the number of parameters"),
            ("a", "here a constant"),
            ("α", "the exponent: how steeply the loss falls"),
        ],
    );
    let slope = crate::statistics::slope(&[(1e3_f64.ln(), 4_f64.ln()), (1e6_f64.ln(), 2_f64.ln())]).mean;
    article.example("By hand", |article| {
        article.text(format!(
            "One model has a thousand parameters and a loss of 4, another a million and a loss of 2. Then *α* = (ln 4 − ln 2)/(ln 1,000,000 − ln 1,000) = \
             0.693/6.908 = {}. Each further halving of the loss takes a thousand times the parameters.",
            listed(&[-slope as f32], 2)
        ));
        Ok(())
    })?;
    article.heading("In code");
    article.code(&listing::SLOPE)?;
    article.heading("What the trained models show");
    article.figure("model-size", "scaling")?;
    article.text("What would make a small classifier better? Each ingredient, with and without:");
    article.figure("ingredients", "gains")?;
    bert(article)?;
    article.look_inside(
        "Look inside: the model of this page once more, before you open a real one",
        "heads",
        None,
    );
    article.exercise(
        "GPT-3 has 175 billion parameters and read 300 billion tokens. How many operations did its training take? How long would your machine take, at \
         100 billion operations a second?",
        "6 × 175·10⁹ × 300·10⁹ = 3.15·10²³ operations. At 10¹¹ a second that is 3.15·10¹² seconds: 100,000 years.",
    );
    article.try_it(
        "Open a real model and measure what its heads do.",
        "regard pull bert-base-uncased\nregard heads bert-base-uncased --corpus built-in -o bert",
    );
    article.claims(&["E4", "A6"]);
    Ok(())
}

/// The largest model of the page beside BERT.
fn bert(article: &mut Article) -> Result<()> {
    let results = article.results();
    let fact = |fact: Fact| results.fact(fact);
    let thousands = |value: f64| crate::terminal::thousands(value as u64);
    let row = |what: &str, ours: String, bert: &str| vec![what.to_owned(), ours, bert.to_owned()];
    article.heading("The distance in numbers");
    article.table(
        &["", "largest model of this page", "BERT-base (Devlin et al., 2018)"],
        &[
            row("parameters", thousands(fact(model_size::LARGEST_PARAMETERS)?), &thousands(BERT.0)),
            row("layers", format!("{:.0}", fact(model_size::LARGEST_LAYERS)?), "12"),
            row("width", format!("{:.0}", fact(model_size::LARGEST_WIDTH)?), "768"),
            row("vocabulary", thousands(fact(model_size::VOCABULARY)?), "30,522 word pieces"),
            row(
                "tokens read in training",
                thousands(fact(model_size::TOKENS)?),
                &format!("up to {:.0} billion", BERT.1 / 1e9),
            ),
            row("text", "written by a grammar".to_owned(), "BooksCorpus and Wikipedia, 3.3 billion words"),
            row(
                "time",
                format!("{:.0} seconds on this machine", fact(model_size::LARGEST_SECONDS)?),
                "4 days on 16 TPU chips",
            ),
        ],
    );
    let (parameters, tokens) = BERT;
    let gap =
        (parameters * tokens / (fact(model_size::LARGEST_PARAMETERS)? * fact(model_size::TOKENS)?)).log10();
    article.text("Training takes about six operations for each parameter and each token: two to compute forward, four for the gradients.");
    article.formula(
        "C ≈ 6 N D",
        &[("C", "the number of operations"), ("D", "the number of tokens read in training")],
    );
    article.text(format!(
        "By that measure the distance is a factor of about $10^{{{gap:.0}}}$. What carries over is the mechanism: the same attention, residual stream and \
         norms. What does not is knowledge of the world, which comes from text that a grammar cannot write.",
    ));
    Ok(())
}
