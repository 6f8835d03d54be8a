//! An article under construction: sections of prose, worked examples, formulas, diagrams, code, figures and exercises. The claims
//! that a section bears on are gathered for the part after the lesson.

use super::html::{escape, prose};
use super::inside::{Inside, Place};
use super::listing::{self, Excerpt};
use super::math;
use super::results::Results;
use crate::experiment::claims::claim;
use crate::experiment::ledger::{Ledger, Row};
use crate::experiment::{Check, Outcome, Part, Setup, Verdict};
use crate::experiments::find;
use crate::figure::{Picture, Theme, fixed, number};
use anyhow::Result;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The article so far.
pub struct Article<'a> {
    results: &'a Results<'a>,
    inside: &'a Inside,
    html: String,
    sections: Vec<Section>,
    shown: BTreeSet<String>,
    named: BTreeSet<String>,
}

/// A section of the lesson.
pub struct Section {
    /// What links to it say.
    pub id: &'static str,
    /// Its title.
    pub title: &'static str,
    /// The claims that it bears on.
    pub claims: Vec<&'static str>,
    /// The answer to its exercise.
    answer: String,
}

impl<'a> Article<'a> {
    /// An empty one.
    pub fn new(results: &'a Results<'a>, inside: &'a Inside) -> Self {
        Self {
            results,
            inside,
            html: String::new(),
            sections: Vec::new(),
            shown: BTreeSet::new(),
            named: BTreeSet::new(),
        }
    }

    /// Begins a section.
    pub fn section(&mut self, id: &'static str, title: &'static str) {
        if !self.sections.is_empty() {
            self.html.push_str("</section>\n");
        }
        self.sections.push(Section { id, title, claims: Vec::new(), answer: String::new() });
        let number = self.sections.len();
        let _ = writeln!(
            self.html,
            "<section id=\"{id}\"><h2><span class=\"number\">{number}</span> {}</h2>",
            prose(title)
        );
    }

    /// A heading within a section.
    pub fn heading(&mut self, title: &str) {
        let _ = writeln!(self.html, "<h3>{}</h3>", prose(title));
    }

    /// A paragraph.
    pub fn text(&mut self, text: impl AsRef<str>) {
        let _ = writeln!(self.html, "<p>{}</p>", prose(text.as_ref()));
    }

    /// A worked example: paragraphs, formulas with numbers, tables.
    pub fn example(&mut self, title: &str, content: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let _ = writeln!(self.html, "<div class=\"example\"><h3>{}</h3>", prose(title));
        content(self)?;
        self.html.push_str("</div>\n");
        Ok(())
    }

    /// A formula on a line of its own, and what each of its letters stands for. Letters may be named by an earlier formula.
    pub fn formula(&mut self, formula: &str, symbols: &[(&str, &str)]) {
        for (symbol, _) in symbols {
            self.named.extend(math::symbols(symbol));
        }
        let unnamed: Vec<String> = math::symbols(formula).difference(&self.named).cloned().collect();
        debug_assert!(unnamed.is_empty(), "{formula}: no symbol list names {}", unnamed.join(", "));
        let list: String = symbols
            .iter()
            .map(|(symbol, meaning)| format!("<dt>{}</dt><dd>{}</dd>", math::inline(symbol), prose(meaning)))
            .collect();
        let list = if list.is_empty() { list } else { format!("<dl class=\"symbols\">{list}</dl>") };
        let _ = writeln!(self.html, "<div class=\"formula\">{}{list}</div>", math::display(formula));
    }

    /// A calculation with numbers, on a line of its own.
    pub fn calculation(&mut self, formula: &str) {
        let _ = writeln!(self.html, "<div class=\"calculation\">{}</div>", math::display(formula));
    }

    /// Lines of our own code.
    pub fn code(&mut self, excerpt: &Excerpt) -> Result<()> {
        let listing::Lines { path, first, text } = excerpt.lines()?;
        let _ = writeln!(
            self.html,
            "<figure class=\"code\"><figcaption>{}, line {first}</figcaption><pre><code>{}</code></pre></figure>",
            escape(path),
            listing::highlighted(&text)
        );
        Ok(())
    }

    /// A diagram.
    pub fn diagram(&mut self, diagram: &Picture, caption: &str) {
        let _ = writeln!(
            self.html,
            "<figure class=\"diagram\"><div class=\"picture\">{}</div><figcaption>{}</figcaption></figure>",
            diagram.to_svg(Theme::Page),
            prose(caption)
        );
    }

    /// A figure of an experiment.
    pub fn figure(&mut self, experiment: &str, name: &str) -> Result<()> {
        let place = format!("{experiment}/{name}");
        if self.shown.insert(place) {
            let figure = figure(self.results, experiment, name)?;
            self.html.push_str(&figure);
        }
        Ok(())
    }

    /// A link into the model's page, at a view and a head; and the same in a running server.
    pub fn look_inside(&mut self, text: &str, view: &str, place: Option<Place>) {
        let _ = writeln!(
            self.html,
            "<p class=\"look\"><a href=\"{}\">{}</a> <span class=\"files\"><a href=\"{}\">with your own sentence</a></span></p>",
            escape(&Inside::link(view, place)),
            prose(text),
            escape(&self.inside.live_link(view, place)),
        );
    }

    /// The claims that the section bears on: they are judged after the lesson. Claims without a verdict are left out.
    pub fn claims(&mut self, claims: &[&'static str]) {
        let known = claims.iter().copied().filter_map(|id| Some((id, self.results.verdict(id).ok()?.1)));
        let known: Vec<(&str, &Verdict)> = known.collect();
        let links: String = known
            .iter()
            .map(|(id, verdict)| {
                let statement = claim(id).map_or("", |claim| claim.statement);
                let larger = self.results.ledger().largest(id).filter(|row| row.outcome != verdict.outcome);
                let larger = larger.map_or_else(String::new, |row| {
                    let (outcome, place) = (row.outcome.name(), escape(&row.place.to_string()));
                    format!(" <span class=\"mark\">largest recorded run: {outcome} ({place})</span>")
                });
                format!(
                    "<li><a href=\"#claim-{id}\">{id}</a> {} {}{}{larger}</li>",
                    prose(statement),
                    badge(verdict.outcome),
                    builtin_mark(verdict)
                )
            })
            .collect();
        let _ = writeln!(
            self.html,
            "<div class=\"tested\"><p>Said of this, and tested in this run:</p><ul>{links}</ul></div>"
        );
        let known: Vec<&'static str> =
            claims.iter().copied().filter(|id| known.iter().any(|(known, _)| known == id)).collect();
        if let Some(section) = self.sections.last_mut() {
            section.claims.extend(known);
        }
    }

    /// A question with its answer, which is folded; in print, answers are at the end.
    pub fn exercise(&mut self, question: impl AsRef<str>, answer: impl AsRef<str>) {
        let (question, answer) = (prose(question.as_ref()), prose(answer.as_ref()));
        let _ = writeln!(
            self.html,
            "<aside class=\"exercise\"><p><strong>Exercise.</strong> {question}</p><details><summary>Answer</summary><p>{answer}</p>\
             </details></aside>"
        );
        if let Some(section) = self.sections.last_mut() {
            section.answer = answer;
        }
    }

    /// Commands to try.
    pub fn try_it(&mut self, text: impl AsRef<str>, command: &str) {
        let _ = writeln!(
            self.html,
            "<aside class=\"try\"><p><strong>Try it.</strong> {}</p><pre><code>{}</code></pre></aside>",
            prose(text.as_ref()),
            escape(command)
        );
    }

    /// A table with a heading for each column.
    pub fn table(&mut self, header: &[&str], rows: &[Vec<String>]) {
        self.html.push_str(&table(header, rows));
    }

    /// The results, to take numbers from.
    pub fn results(&self) -> &'a Results<'a> {
        self.results
    }

    /// The model to look into.
    pub fn inside(&self) -> &'a Inside {
        self.inside
    }

    /// The sections.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The figures of an experiment that the lesson does not show.
    pub fn other_figures(&self, experiment: &str) -> Result<String> {
        let figures = &self.results.findings(experiment)?.figures;
        let others =
            figures.iter().filter(|figure| !self.shown.contains(&format!("{experiment}/{}", figure.name)));
        others.map(|other| figure(self.results, experiment, &other.name)).collect()
    }

    /// The verdict on a claim, of a run with this setup.
    pub fn verdict(&self, id: &str, setup: &Setup) -> Result<String> {
        let (experiment, verdict) = self.results.verdict(id)?;
        let trained = self.results.findings(experiment)?.trainings.is_some();
        let ledger = self.results.ledger();
        let remark = find(experiment).and_then(|experiment| ledger.remark(experiment, setup, verdict));
        let beside = Beside {
            changed: self.results.changed(id)?,
            remark: remark.map(|remark| remark.to_string()),
            recorded: recorded(ledger, id),
        };
        Ok(verdict_box((experiment, trained), verdict, &beside))
    }

    /// The answers to all exercises, for print.
    pub fn answers(&self) -> String {
        let answers: String = self
            .sections
            .iter()
            .enumerate()
            .filter(|(_, section)| !section.answer.is_empty())
            .map(|(index, section)| format!("<li value=\"{}\">{}</li>", index + 1, section.answer))
            .collect();
        format!("<section class=\"print-only\"><h2>Answers</h2><ol>{answers}</ol></section>")
    }

    /// The HTML of all sections.
    pub fn finish(mut self) -> String {
        self.html.push_str("</section>\n");
        self.html
    }
}

/// A figure of an experiment with its caption and its files.
fn figure(results: &Results, experiment: &str, name: &str) -> Result<String> {
    let figure = results.figure(experiment, name)?;
    let (picture, place) = (picture(&figure.picture), format!("{experiment}/{name}"));
    Ok(format!(
        "<figure><div class=\"picture\">{picture}</div><figcaption>{} <span class=\"files\"><a href=\"{place}.svg\">SVG</a> \
         <a href=\"{place}.png\">PNG</a></span></figcaption></figure>\n",
        prose(&figure.caption)
    ))
}

/// A table with a heading for each column.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let cells = |tag: &str, cells: &mut dyn Iterator<Item = &str>| -> String {
        cells.map(|cell| format!("<{tag}>{}</{tag}>", prose(cell))).collect()
    };
    let head = cells("th", &mut header.iter().copied());
    let body: String = rows
        .iter()
        .map(|row| format!("<tr>{}</tr>\n", cells("td", &mut row.iter().map(String::as_str))))
        .collect();
    format!(
        "<div class=\"scroll\"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>\n"
    )
}

/// A picture as SVG. Panels that stand side by side are pictures of their own, so that a phone can show them one by one.
fn picture(picture: &Picture) -> String {
    let Some(panels) = picture.pair(Theme::Page) else { return picture.to_svg(Theme::Page) };
    let (title, subtitle) = picture.titles();
    let subtitle = match subtitle {
        "" => String::new(),
        _ => format!("<p class=\"subtitle\">{}</p>", prose(subtitle)),
    };
    format!("<p class=\"title\">{}</p>{subtitle}<div class=\"pair\">{}</div>", prose(title), panels.join(""))
}

/// The mark of an outcome; its shape tells it apart without colour.
pub fn badge(outcome: Outcome) -> String {
    let (class, sign) = match outcome {
        Outcome::Holds => ("holds", "✓"),
        Outcome::Fails => ("fails", "✗"),
        Outcome::InPart => ("in-part", "◐"),
        Outcome::Undecided => ("undecided", "?"),
        Outcome::NotTestable | Outcome::NotMeasured => ("unmeasured", "–"),
    };
    format!(
        "<span class=\"badge {class}\"><span aria-hidden=\"true\">{sign}</span> {}</span>",
        outcome.name()
    )
}

/// A check's effect with its interval.
pub fn effect(check: &Check) -> String {
    let effect = &check.effect;
    match effect.count {
        0 | 1 => number(effect.mean),
        count if effect.low.is_finite() => {
            let largest = effect.low.abs().max(effect.high.abs());
            let told = |value: f64| told(value, (effect.high - effect.low) / 2.0, largest);
            format!("{} [{}, {}], n {count}", told(effect.mean), told(effect.low), told(effect.high))
        }
        count => format!("{}, n {count}", number(effect.mean)),
    }
}

/// A value with as many digits as its interval leaves of it: two of half its width. Where the interval's larger end is tiny, or
/// its width is that of rounding, the value is told by itself.
fn told(value: f64, half: f64, largest: f64) -> String {
    match largest >= 1e-4 && half >= 1e-6 {
        true => fixed(value, (1 - half.log10().floor() as i32).max(0) as usize),
        false => number(value),
    }
}

/// The mark of a verdict that rests on the built-in text alone.
pub fn builtin_mark(verdict: &Verdict) -> &'static str {
    if verdict.builtin_text_only { " <span class=\"mark\">built-in text only</span>" } else { "" }
}

/// Each part of a claim with its outcome; nothing for a claim that is one statement.
pub fn parts(verdict: &Verdict) -> String {
    if verdict.parts.len() < 2 {
        return String::new();
    }
    let part = |part: &Part| {
        let repeats = part.repeats.map_or_else(String::new, |claim| format!(" (counted in {claim})"));
        format!("<li>{} {}{repeats}</li>", badge(part.outcome), prose(&part.name))
    };
    format!("<ul class=\"parts\">{}</ul>", verdict.parts.iter().map(part).collect::<String>())
}

/// The row of something that must be so for the claim to be testable.
fn precondition(check: &Check) -> String {
    let met = if check.outcome == Outcome::Holds { "met" } else { "not met" };
    format!(
        "<tr><td>precondition: {}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{met}</td></tr>",
        prose(&check.what),
        escape(&effect(check)),
        escape(&check.bound.to_string())
    )
}

/// What stands beside a verdict of this run.
struct Beside<'a> {
    /// What was changed after the freeze.
    changed: Option<&'a str>,
    /// How it differs from what seeds of development had said.
    remark: Option<String>,
    /// The verdicts on record.
    recorded: String,
}

/// The effect of a verdict on record, with its interval.
pub fn row_effect(row: &Row) -> String {
    let [mean, low, high, n] = row.effect;
    let half = (high - low) / 2.0;
    let of = |value: f64| told(value, half, low.abs().max(high.abs()));
    match (mean.is_finite(), low.is_finite() && n > 1.0) {
        (true, true) => format!("{} [{}, {}], n {n}", of(mean), of(low), of(high)),
        (true, false) => number(mean),
        _ => String::new(),
    }
}

/// The verdicts on a claim that are on record, folded, from the smallest run to the largest.
fn recorded(ledger: &Ledger, claim: &str) -> String {
    let rows: String = ledger
        .of_claim(claim)
        .into_iter()
        .map(|row| {
            let remark = ledger.contradiction(claim, &row.place, row.outcome);
            let remark = remark.map_or_else(String::new, |remark| {
                format!(
                    " <span class=\"mark\">with seeds of development: {}</span>",
                    remark.developed.outcome.name()
                )
            });
            let cells = [row.place.size.name(), &row.place.data, &row.place.device].map(escape);
            format!(
                "<tr><td>{}</td><td>{}{remark}</td><td>{}</td><td class=\"n\">{}</td><td>{}</td></tr>",
                cells.join("</td><td>"),
                badge(row.outcome),
                prose(&row.measured),
                escape(&row_effect(row)),
                escape(&row.date)
            )
        })
        .collect();
    match rows.is_empty() {
        true => String::new(),
        false => format!(
            "<details><summary>runs on record</summary><div class=\"scroll\"><table><thead><tr><th>size</th><th>data</th><th>device</th>\
             <th>verdict</th><th>what decided</th><th>effect [95 % interval]</th><th>date</th></tr></thead><tbody>{rows}</tbody></table>\
             </div></details>"
        ),
    }
}

/// `trained`: whether the experiment tells how it trained models.
fn verdict_box((experiment, trained): (&str, bool), verdict: &Verdict, beside: &Beside) -> String {
    let statement = claim(verdict.claim).map_or("", |claim| claim.statement);
    let several = verdict.parts.len() > 1;
    let mut rows: String = verdict
        .checks
        .iter()
        .map(|check| {
            format!(
                "<tr><td>{}{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td></tr>",
                match (&check.part, several) {
                    (Some(part), true) => format!("<em>{}</em>: ", prose(part)),
                    _ => String::new(),
                },
                prose(&check.what),
                escape(&effect(check)),
                escape(&check.bound.to_string()),
                match verdict.fails_alone(check) {
                    true => format!(
                        "{} at 95 %, but not when corrected for {} comparisons",
                        badge(check.outcome),
                        verdict.counted()
                    ),
                    false => badge(check.outcome),
                }
            )
        })
        .collect();
    for published in &verdict.published {
        let ours = published.ours.map_or_else(|| "not measured".to_owned(), number);
        let _ = write!(
            rows,
            "<tr class=\"published\"><td>{}</td><td class=\"n\">{ours}</td><td class=\"n\">published: {}</td><td>{}</td></tr>",
            prose(&published.what),
            number(published.theirs),
            escape(published.source)
        );
    }
    let preconditions: String = verdict.preconditions.iter().map(precondition).collect();
    let rows = format!("{preconditions}{rows}");
    let parts = parts(verdict);
    let untestable: String = verdict
        .unmet()
        .map(|unmet| {
            format!(
                "<p><strong>Not testable.</strong> {}: {}; needed: {}.</p>",
                prose(&unmet.what),
                escape(&effect(unmet)),
                escape(&unmet.bound.to_string())
            )
        })
        .collect();
    let why = verdict.why.as_deref();
    let why = why.map_or_else(String::new, |why| {
        format!("<p><strong>Why {} fails.</strong> {}</p>", verdict.failing(), prose(why))
    });
    let changed = beside.changed.map_or_else(String::new, |changed| {
        format!("<p class=\"changed\">† Changed after the freeze: {}</p>", prose(changed))
    });
    let remark = beside.remark.as_deref().map_or_else(String::new, |remark| {
        format!("<p class=\"remark\"><strong>Compare.</strong> {}</p>", prose(remark))
    });
    let training = match trained {
        true => format!(" · <a href=\"{experiment}/training.toml\">how models were trained</a>"),
        false => String::new(),
    };
    let details = match rows.is_empty() {
        true => String::new(),
        false => format!(
            "<details><summary>what it rests on</summary><div class=\"scroll\"><table><thead><tr><th>measured</th>\
             <th>effect [95 % interval]</th><th>must be</th><th></th></tr></thead><tbody>{rows}</tbody></table></div>\
             <p class=\"files\"><a href=\"{experiment}/measurements.csv\">every measurement</a> · \
             <a href=\"{experiment}/summary.csv\">summary</a> · <a href=\"{experiment}/verdict.json\">verdict.json</a>{training}</p></details>"
        ),
    };
    format!(
        "<div class=\"verdict\" id=\"claim-{id}\"><p class=\"claim\">{badge}{builtin} <span class=\"id\">{id}</span> {statement}</p>\
         {parts}<p>{finding}</p>{untestable}{why}{remark}{changed}{details}{recorded}</div>\n",
        recorded = beside.recorded,
        builtin = builtin_mark(verdict),
        id = verdict.claim,
        badge = badge(verdict.outcome),
        statement = prose(statement),
        finding = prose(&verdict.finding),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_the_digits_that_its_interval_leaves_it() {
        assert_eq!(told(-0.06775, 0.088, 0.155), "−0.068");
        assert_eq!(told(1234.567, 12.0, 1246.0), "1,235");
        assert_eq!(told(0.97041, 0.0134, 0.984), "0.970");
        assert_eq!(told(0.000192, 0.0000836, 0.000276), "0.000192");
        assert_eq!(told(0.000108, 0.0000836, 0.000276), "0.000108", "as many digits as the mean");
        assert_eq!(told(0.5, 0.0, 0.5), "0.5", "what is exact stays as it is");
        assert_eq!(told(2e-7, 1e-8, 2.1e-7), "2×10⁻⁷");
        assert_eq!(told(7.05e-7, 3.5e-7, 1.06e-6), "7.05×10⁻⁷");
    }
}
