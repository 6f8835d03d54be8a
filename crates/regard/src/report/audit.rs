//! The part after the lesson: every claim with its verdict, folded by section, and what fails.

use super::article::{Article, Section, badge, effect, table};
use super::html::prose;
use crate::experiment::claims::CLAIMS;
use crate::experiment::{Outcome, Setup};
use anyhow::Result;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The verdicts of all sections, each section folded.
pub fn verdicts(article: &Article, setup: &Setup) -> Result<String> {
    let mut shown = BTreeSet::new();
    let mut folded = String::new();
    for (index, section) in article.sections().iter().enumerate() {
        if !section.claims.is_empty() {
            folded.push_str(&of_section((article, setup), index + 1, section, &mut shown)?);
        }
    }
    Ok(format!(
        "<section id=\"verdicts\"><h2>Every claim, with what it rests on</h2><p>Each section of the lesson unfolds into the claims that \
         bear on it, with effects, intervals, notes and the remaining figures.</p>{folded}</section>"
    ))
}

/// `shown` has the experiments whose figures an earlier section shows.
fn of_section(
    (article, setup): (&Article, &Setup),
    number: usize,
    section: &Section,
    shown: &mut BTreeSet<&'static str>,
) -> Result<String> {
    let (mut marks, mut boxes, mut figures) = (String::new(), String::new(), String::new());
    for &id in &section.claims {
        let (experiment, verdict) = article.results().verdict(id)?;
        let _ = write!(marks, " {id} {}", badge(verdict.outcome));
        boxes.push_str(&article.verdict(id, setup)?);
        if shown.insert(experiment) {
            figures.push_str(&article.other_figures(experiment)?);
        }
    }
    Ok(format!(
        "<details class=\"audit\"><summary><span class=\"number\">{number}</span> {} <span class=\"marks\">{marks}</span></summary>\n\
         {boxes}{figures}</details>\n",
        prose(section.title)
    ))
}

/// What fails, and why as far as the measurements show.
pub fn failures(article: &Article) -> Result<String> {
    let results = article.results();
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
    Ok(match failed.is_empty() {
        true => String::new(),
        false => format!(
            "<section id=\"failures\"><h2>What fails, and why</h2><p>{}. “Fails” means that the interval lies on the wrong side of its bound, \
             on this data and at this size. It does not mean that the claim is false everywhere, nor does “holds” mean that it is true \
             everywhere.</p>{}</section>",
            results.counts()?,
            table(&["claim", "what decided", "why"], &failed)
        ),
    })
}
