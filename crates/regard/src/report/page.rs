//! The page around the article: how to read it above, and below it what was measured: in short, claim by claim, and all tables.

use super::article::{Article, badge, builtin_mark, effect, row_effect};
use super::html::{escape, prose};
use super::inside::FILE;
use super::references::REFERENCES;
use super::summary::summary;
use super::terms::TERMS;
use super::{audit, diagrams};
use crate::compute::Placement;
use crate::experiment::claims::{CLAIMS, SOURCES};
use crate::experiment::ledger::{Contradiction, Ledger, deciding};
use crate::experiment::{Setup, Size, Summary};
use crate::experiments::find;
use crate::figure::{Theme, counted, font_face, number, stylesheet};
use anyhow::Result;
use std::fmt::Write as _;

/// Under what circumstances the page was made.
pub struct About<'a> {
    /// What the experiments were run on.
    pub setup: Setup<'a>,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Whether parts were finished by earlier runs.
    pub resumed: bool,
}

/// The whole page.
pub fn page(article: Article, about: &About) -> Result<String> {
    let short = in_short(&article, about.setup.size)?;
    let (verdicts, failures, glance) = (
        audit::verdicts(&article, &about.setup)?,
        audit::failures(&article)?,
        glance(&article, &about.setup)?,
    );
    let (contents, start) = (contents(&article), how_to_read(&article));
    let (tables, answers) = (tables(&article), article.answers());
    let body = article.finish();
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <meta name=\"color-scheme\" content=\"light dark\"/><title>Attention: a lesson, put to the test</title>\
         <style>{font}\n{figures}\n{formulas}\n{style}</style></head><body>\n<header><p class=\"eyebrow\">Regard: a laboratory for \
         attention</p><h1>Attention, from raw text to a trained transformer</h1><p class=\"lead\">A lesson for readers who know matrices but \
         not attention. Every step comes with an example that you can check by hand, and with what a model shows that this program trained \
         while it wrote the page. Afterwards, {claims} common claims about attention are put to the test.</p>\
         <p class=\"about\">Made by <code>{command}</code>. {about}</p></header>\n{contents}\n<main>\n{start}\n{body}\n\
         <div class=\"part\" id=\"measured\"><p class=\"eyebrow\">After the lesson</p><h2>What was measured</h2></div>\n\
         {short}\n{verdicts}\n{failures}\n{real}\n{tables}\n{terms}\n{answers}\n{references}\n{glance}\n</main></body></html>\n",
        font = font_face(),
        figures = stylesheet(),
        formulas = include_str!("../../web/formula.css"),
        style = include_str!("../../web/report.css"),
        claims = CLAIMS.iter().filter(|claim| claim.is_counted()).count(),
        command = escape(&command(about)),
        about = escape(&circumstances(about)),
        real = real_data(),
        terms = terms(),
        references = references(),
    ))
}

/// Links to everything, numbered as the sections are.
fn contents(article: &Article) -> String {
    let sections: String = article
        .sections()
        .iter()
        .map(|section| format!("<li><a href=\"#{}\">{}</a></li>", section.id, prose(section.title)))
        .collect();
    let parts = [
        ("short", "In short"),
        ("verdicts", "Claim by claim"),
        ("terms", "Words used here"),
        ("references", "References"),
        ("claims", "All claims in one table"),
    ];
    let parts: String =
        parts.iter().map(|(id, title)| format!("<li><a href=\"#{id}\">{title}</a></li>")).collect();
    format!(
        "<nav aria-label=\"Contents\"><p>The lesson</p><ol>{sections}</ol><p>What was measured</p><ul>{parts}</ul></nav>"
    )
}

/// What the reader needs to know before the first section.
fn how_to_read(article: &Article) -> String {
    let inside = article.inside();
    let (layers, heads) = inside.sizes();
    let text = [
        "A language model reads some words and guesses the next one. On the way, every word looks at the words before it and takes over what \
         it needs. That step is called *attention*, and it is what this page explains. The picture shows the whole way; each section takes \
         one step of it.",
    ];
    let after = [
        "Each section has the same parts: the idea in plain words, an example by hand, the formula, the code, what the trained model shows, and \
         an exercise. The example is always the same: the three words *time flies fast*, with two numbers for each word. All of its numbers \
         were computed by the library that the models use, so you can check the library, too.",
        &format!(
            "While this page was made, the program trained a language model with {} of {} on film reviews. Links that \
             begin with *Look inside* open it, with all of its attention, in the file [{FILE}]({FILE}). To type sentences of your own, run \
             `regard serve {}` in the folder where you made this page, and follow *with your own sentence*. Layers and heads are counted from \
             0 everywhere. In every table and picture of attention, rows are queries and columns are keys: words you will know after \
             section 3.",
            counted(layers, "layer"),
            counted(heads, "head"),
            inside.model
        ),
        "Do you know attention already? Go to [what was measured](#measured).",
    ];
    let paragraphs =
        |all: &[&str]| -> String { all.iter().map(|text| format!("<p>{}</p>", prose(text))).collect() };
    format!(
        "<section id=\"start\"><h2>Where we are going</h2>{}<figure class=\"diagram\"><div class=\"picture\">{}</div></figure>{}</section>",
        paragraphs(&text),
        diagrams::pipeline().to_svg(Theme::Page),
        paragraphs(&after)
    )
}

fn command(about: &About) -> String {
    let Setup { size, seeds, vectors, placement, .. } = about.setup;
    let seeds = seeds.map_or_else(String::new, |seeds| format!(" --seeds {seeds}"));
    let vectors = vectors.map_or_else(String::new, |path| format!(" --vectors {}", path.display()));
    let device = match placement {
        Placement::CPU => String::new(),
        other => format!(" --device {} --precision {}", other.device, other.precision.name()),
    };
    format!("regard report --size {}{seeds}{vectors}{device}", size.name())
}

fn circumstances(about: &About) -> String {
    let seconds = about.seconds;
    let earlier = if about.resumed { ", and what earlier runs had finished" } else { "" };
    format!(
        "Size {}, {}; {}{}; version {}; {}.",
        about.setup.size.name(),
        about.setup.data.map_or_else(|| "the built-in corpus".to_owned(), |path| path.display().to_string()),
        crate::machine::describe(),
        match about.setup.placement {
            Placement::CPU => String::new(),
            other => format!("; models on {} in {}", other.identity(), other.precision.name()),
        },
        env!("CARGO_PKG_VERSION"),
        if seconds < 120.0 {
            format!("{seconds:.0} seconds{earlier}")
        } else {
            format!("{:.1} minutes{earlier}", seconds / 60.0)
        },
    )
}

/// The most telling results in plain words.
fn in_short(article: &Article, size: Size) -> Result<String> {
    let items: String = summary(article.results(), size)?
        .iter()
        .map(|sentence| format!("<li>{}</li>", prose(sentence)))
        .collect();
    Ok(format!(
        "<section id=\"short\"><h2>In short</h2><ul class=\"short\">{items}</ul><p>How each of these was measured follows. <a \
         href=\"#terms\">Words that may be new</a> are explained below.</p></section>"
    ))
}

fn terms() -> String {
    let items: String = TERMS
        .iter()
        .map(|(term, meaning)| format!("<dt>{}</dt><dd>{}</dd>", escape(term), prose(meaning)))
        .collect();
    format!("<section id=\"terms\"><h2>Words used here</h2><dl class=\"terms\">{items}</dl></section>")
}

/// All claims with their verdicts.
fn glance(article: &Article, setup: &Setup) -> Result<String> {
    let (mut rows, mut differ) = (String::new(), Vec::new());
    for claim in CLAIMS {
        let (name, verdict) = article.results().verdict(claim.id)?;
        let ledger = article.results().ledger();
        let remark = find(name).and_then(|experiment| ledger.remark(experiment, setup, verdict));
        if remark.as_ref().is_some_and(Contradiction::is_decided) {
            differ.push(claim.id);
        }
        let remark = remark.map_or_else(String::new, |remark| {
            format!(
                " <span class=\"mark\">with seeds of development: {}</span>",
                remark.developed.outcome.name()
            )
        });
        let measured = deciding(verdict).map_or_else(String::new, |check| {
            // Among several, one that fails must do so at a stricter level: that interval is what keeps the claim open.
            let stricter =
                if verdict.fails_alone(check) { " (not when corrected for all comparisons)" } else { "" };
            format!(
                "<span class=\"what\">{}:</span> {}{stricter}",
                prose(&check.what),
                escape(&effect(check))
            )
        });
        let mark = if article.results().changed(claim.id)?.is_some() { "<sup>†</sup>" } else { "" };
        let _ = writeln!(
            rows,
            "<tr><td class=\"id\"><a href=\"#claim-{id}\">{id}</a>{mark}</td><td>{statement}</td><td>{badge}{builtin}{remark}</td><td class=\"n\">{measured}\
             </td><td>{recorded}</td></tr>",
            recorded = recorded(ledger, claim.id),
            id = claim.id,
            statement = prose(claim.statement),
            badge = badge(verdict.outcome),
            builtin = builtin_mark(verdict),
        );
    }
    let counts = article.results().counts()?;
    let hash = &crate::experiment::frozen::hash()[..12];
    let changed = CLAIMS
        .iter()
        .filter(|claim| article.results().changed(claim.id).is_ok_and(|note| note.is_some()))
        .count();
    let daggers = match changed {
        0 => String::new(),
        some => format!(
            " Where † stands, in {some} {}, something was changed after the freeze: the claim says what, and is to be trusted less for it.",
            if some == 1 { "row" } else { "rows" }
        ),
    };
    let differ = match differ.is_empty() {
        true => String::new(),
        false => format!(
            " Decided differently with the seeds of development: {}. Trust these less at this size.",
            differ.join(", ")
        ),
    };
    Ok(format!(
        "<section id=\"claims\"><h2>All claims at a glance</h2><p>{counts}. Each was judged by comparing a 95 % interval with a bound: it holds if the whole interval \
         lies where the claim says, fails if the whole interval lies elsewhere, and is undecided otherwise. A part of a claim \
         holds if all of its comparisons do, and fails if one does at a level corrected for their number (Bonferroni); a claim holds if all of its \
         parts do, fails if some part fails and none holds, and <em>holds in part</em> if some parts hold and others fail (or, with none undecided, \
         were not measured); otherwise it is undecided. Parts that are counted in another claim do not count again. It is <em>not testable</em> where the model did not learn the task that the claim \
         is about. D5 is about files, not about attention, and is not counted. Seeds are the only \
         independent draws: an interval counts each of them once. The letters are those of five documents whose statements these are \
         (see <a href=\"#references\">References</a>). Predictions, measures, bounds and settings were frozen \
         (SHA-256 {hash}…), and judged with seeds that had never been used before.{daggers}{differ} The last column has the largest run on record. Where \
         it is larger than this run and differs from it, trust it more; where it is of the same size, the claim is sensitive to noise.</p>\
         <div class=\"scroll\"><table class=\"glance\"><thead><tr><th></th><th>claim</th><th>this run</th><th>what decided [95 % \
         interval]</th><th>the largest recorded run</th></tr></thead><tbody>\n{rows}</tbody></table></div></section>"
    ))
}

/// The largest run of a claim on record.
fn recorded(ledger: &Ledger, claim: &str) -> String {
    let Some(row) = ledger.largest(claim) else { return String::new() };
    let what = if row.measured.is_empty() { String::new() } else { format!(" {}:", prose(&row.measured)) };
    format!(
        "{} <span class=\"what\">{}:{what}</span> <span class=\"n\">{}</span>",
        badge(row.outcome),
        escape(&row.place.to_string()),
        escape(&row_effect(row))
    )
}

fn real_data() -> String {
    let rows = crate::experiments::EXPERIMENTS.iter().filter_map(|experiment| {
        let wanted = experiment.data.wanted()?;
        let hours = experiment.expected(Size::Full) / 3600.0;
        let time = if hours < 1.0 { format!("{:.0} min", hours * 60.0) } else { format!("{hours:.1} h") };
        Some(format!(
            "<tr><td><code>regard experiment {} --size full --data …</code></td><td>{}</td><td class=\"n\">{time}</td></tr>",
            experiment.name,
            prose(wanted)
        ))
    });
    let rows: String = rows.collect();
    format!(
        "<section id=\"real\"><h2>On real data</h2><p>This page was made on text that the program generates itself, so that it needs \
         nothing and the truth is known by construction. The same experiments run on real data:</p><div class=\"scroll\"><table><thead>\
         <tr><th>command</th><th>data</th><th>about, on two cores</th></tr></thead><tbody>{rows}</tbody></table></div><p>More seeds \
         decide more: <code>regard report --size standard</code> takes up to an hour.</p></section>"
    )
}

/// The summary of every experiment.
fn tables(article: &Article) -> String {
    let mut out = String::from("<section id=\"tables\"><h2>All tables</h2>\n");
    for (experiment, findings) in article.results().iter() {
        let conditions: String = findings
            .measurements
            .conditions()
            .iter()
            .map(|condition| format!("<th>{}</th>", escape(condition)))
            .collect();
        let summary = findings.measurements.summary();
        let shown = summary.len().min(MOST_ROWS);
        let rows: String = summary.iter().take(shown).map(row).collect();
        let rest = match summary.len() - shown {
            0 => String::new(),
            rest => format!("<p>{rest} more rows are in the file.</p>"),
        };
        let _ = writeln!(
            out,
            "<details><summary>{name}: {question}</summary><p><strong>Predicted.</strong> {prediction}</p><p><strong>Design.</strong> \
             {design}</p><div class=\"scroll\"><table><thead><tr>{conditions}<th>measure</th><th>mean</th><th>sd</th><th>n</th>\
             <th>95 % interval</th></tr></thead><tbody>{rows}</tbody></table></div>{rest}<p class=\"files\"><a \
             href=\"{name}/measurements.csv\">measurements.csv</a> <a href=\"{name}/summary.csv\">summary.csv</a></p></details>",
            name = experiment.name,
            question = escape(experiment.question),
            prediction = prose(experiment.prediction),
            design = prose(experiment.design),
        );
    }
    out.push_str("</section>");
    out
}

/// The most rows of a table on the page; its file has all.
const MOST_ROWS: usize = 200;

fn row(summary: &Summary) -> String {
    let conditions: String =
        summary.conditions.iter().map(|condition| format!("<td>{}</td>", escape(condition))).collect();
    let interval = &summary.interval;
    let ends = match interval.low.is_finite() {
        true => format!("[{}, {}]", number(interval.low), number(interval.high)),
        false => String::new(),
    };
    format!(
        "<tr>{conditions}<td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{ends}</td></tr>\n",
        escape(&summary.measure),
        number(interval.mean),
        number(summary.deviation),
        interval.count,
    )
}

fn references() -> String {
    let items: String = REFERENCES
        .iter()
        .map(|(who, title, place, address)| {
            format!(
                "<li>{}. <a href=\"{address}\"><cite>{}</cite></a>. {}.</li>",
                escape(who),
                escape(title),
                escape(place)
            )
        })
        .collect();
    let sources: String = ('A'..='E')
        .zip(SOURCES)
        .map(|(letter, title)| format!("<li>{letter}: <cite>{}</cite></li>", escape(title)))
        .collect();
    format!(
        "<section id=\"references\"><h2>References</h2><p>The claims are statements of five documents about attention, which say what many \
         tutorials say. Where a document gives a figure, it stands beside ours. The letter of a claim is that of its document:</p>\
         <ul class=\"references\">{sources}</ul><p>Papers:</p><ul class=\"references\">{items}</ul></section>"
    )
}
