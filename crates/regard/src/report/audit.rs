//! The part after the lesson: every claim with its verdict, folded by section, and what fails.

use super::article::{Article, Section, badge, effect, table};
use super::html::prose;
use crate::experiment::Outcome;
use crate::experiment::claims::CLAIMS;
use anyhow::Result;

/// The verdicts of all sections, each section folded.
pub fn verdicts(article: &Article) -> Result<String> {
    let sections = article.sections().iter().enumerate().filter(|(_, section)| !section.claims.is_empty());
    let sections: Vec<String> =
        sections.map(|(index, section)| of_section(article, index + 1, section)).collect::<Result<_>>()?;
    Ok(format!(
        "<section id=\"verdicts\"><h2>Every claim, with what it rests on</h2><p>Each section of the lesson unfolds into the claims that \
         bear on it, with effects, intervals, notes and the remaining figures.</p>{}</section>",
        sections.concat()
    ))
}

fn of_section(article: &Article, number: usize, section: &Section) -> Result<String> {
    let marks: Vec<String> = section
        .claims
        .iter()
        .map(|&id| Ok(format!("{id} {}", badge(article.results().verdict(id)?.1.outcome))))
        .collect::<Result<_>>()?;
    let boxes: String = section.claims.iter().map(|id| article.verdict(id)).collect::<Result<_>>()?;
    let figures: String =
        section.experiments.iter().map(|name| article.other_figures(name)).collect::<Result<_>>()?;
    Ok(format!(
        "<details class=\"audit\"><summary><span class=\"number\">{number}</span> {} <span class=\"marks\">{}</span></summary>\n\
         {boxes}{figures}</details>\n",
        prose(section.title),
        marks.join(" ")
    ))
}

/// What fails, and why as far as the measurements show.
pub fn failures(article: &Article) -> String {
    let results = article.results();
    let failed = CLAIMS.iter().filter_map(|claim| {
        let (_, verdict) = results.verdict(claim.id).ok()?;
        let deciding = verdict.checks.iter().find(|check| check.outcome == Outcome::Fails);
        (verdict.outcome == Outcome::Fails).then(|| {
            let measured =
                deciding.map_or_else(String::new, |check| format!("{}: {}", check.what, effect(check)));
            let why = verdict.why.clone().unwrap_or_else(|| verdict.finding.clone());
            vec![format!("{} {}", claim.id, claim.statement), measured, why]
        })
    });
    let failed: Vec<Vec<String>> = failed.collect();
    match failed.is_empty() {
        true => String::new(),
        false => format!(
            "<section id=\"failures\"><h2>What fails, and why</h2><p>“Fails” means that the interval lies on the wrong side of its bound, \
             on this data and at this size. It does not mean that the claim is false everywhere, nor does “holds” mean that it is true \
             everywhere.</p>{}</section>",
            table(&["claim", "what decided", "why"], &failed)
        ),
    }
}
