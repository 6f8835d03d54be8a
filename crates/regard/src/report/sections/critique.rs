//! What was learned, what was not, and how far it is to a real model.

use crate::experiment::claims::CLAIMS;
use crate::experiment::{Fact, Outcome};
use crate::experiments::model_size;
use crate::report::article::{Article, effect};
use crate::report::listing::STATISTICS;
use anyhow::Result;

/// Parameters of BERT-base, and the tokens that it read at most: a million steps of 256 sequences of up to 512 (Devlin et al., 2018).
const BERT: (f64, f64) = (110e6, 131_072e6);

pub fn write(article: &mut Article) -> Result<()> {
    article.section("critique", "What was learned, and what was not");
    let results = article.results();
    article.text(format!(
        "{}. *Fails* means that the \
         interval lies on the wrong side of its bound, on this data and at this size. It does not mean that the \
         claim is false everywhere; nor does *holds* mean that it is true everywhere. More seeds and larger models would \
         decide some of what is open: see the end of the page.",
        results.counts()?,
    ));
    let failed = CLAIMS.iter().filter_map(|claim| {
        let (_, verdict) = results.verdict(claim.id).ok()?;
        let deciding = verdict.checks.iter().find(|check| check.outcome == Outcome::Fails);
        matches!(verdict.outcome, Outcome::Fails | Outcome::InPart).then(|| {
            let measured =
                deciding.map_or_else(String::new, |check| format!("{}: {}", check.what, effect(check)));
            let why = verdict.why.clone().unwrap_or_else(|| verdict.finding.clone());
            vec![format!("{} {}", claim.id, claim.statement), measured, why]
        })
    });
    let failed: Vec<Vec<String>> = failed.collect();
    if !failed.is_empty() {
        article.text("What fails, and why as far as the measurements tell:");
        article.table(&["claim", "what decided", "why"], &failed);
    }
    article
        .text("What would have made the first small classifier better? Each ingredient, with and without:");
    article.other_figures("ingredients")?;
    article.verdicts(&["A6"])?;
    article.text(
        "And size? If the loss $L$ is a power of the number of parameters $N$, its logarithm falls along a line, whose slope is the \
         exponent. The line is the one from which the points' squared distances are least.",
    );
    article.formula("L(N) = a N^{−α},   \\text{ln\u{a0}}L = \\text{ln\u{a0}}a − α\\text{\u{a0}ln\u{a0}}N");
    article.code(STATISTICS, &["pub fn slope("])?;
    article.other_figures("model-size")?;
    article.verdicts(&["E4"])?;
    article.text("How far is it from here to a model of the real world? The table sets the largest model of this page beside BERT.");
    let fact = |fact: Fact| results.fact(fact);
    let thousands = |value: f64| crate::terminal::thousands(value as u64);
    let row = |what: &str, ours: String, bert: &str| vec![what.to_owned(), ours, bert.to_owned()];
    article.table(
        &["", "this page", "BERT-base (Devlin et al., 2018)"],
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
            row(
                "text",
                "generated from a grammar".to_owned(),
                "BooksCorpus and Wikipedia, 3.3 billion words",
            ),
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
    article.text(
        "What training computes is about six operations for each parameter and each of the $D$ tokens: two to read it forward, four \
         for its gradients.",
    );
    article.formula("C ≈ 6 N D");
    article.text(format!(
        "By that measure the gap is a factor of about $10^{{{gap:.0}}}$. What carries over is the mechanism: the same attention, residuals \
         and norms. What does not is knowledge of the world, which comes from text that a grammar cannot write.",
    ));
    article.exercise(
        "Open a real model, and look at what its heads do.",
        "regard pull bert-base-uncased\nregard heads bert-base-uncased --corpus built-in -o bert",
    );
    Ok(())
}
