//! The report at its smallest: every experiment runs to its end, judges each of its claims and leaves its files, and the page
//! tells all of it without needing anything else.

use regard::compute::Placement;
use regard::experiment::claims::CLAIMS;
use regard::experiment::{Setup, Size};
use regard::experiments::EXPERIMENTS;
use regard::report;
use std::collections::BTreeSet;
use std::path::Path;

fn occurrences(text: &str, of: &str) -> usize {
    text.match_indices(of).count()
}

/// The values of an attribute.
fn attributes<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let begin = format!(" {name}=\"");
    page.match_indices(&begin)
        .map(|(at, _)| page[at + begin.len()..].split('"').next().unwrap_or_default())
        .collect()
}

#[test]
fn the_report_judges_every_claim_and_needs_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let conditions =
        Setup { size: Size::Smoke, seeds: None, data: None, vectors: None, placement: Placement::CPU };
    let results = report::write(conditions, folder.path()).unwrap_or_else(|error| panic!("{error:#}"));
    for (experiment, findings) in results.iter() {
        let name = experiment.name;
        let judged: BTreeSet<&str> = findings.verdicts.iter().map(|verdict| verdict.claim).collect();
        assert_eq!(judged, experiment.claims.iter().copied().collect(), "{name}");
        assert!(!findings.measurements.is_empty(), "{name} measured nothing");
        assert!(!findings.figures.is_empty(), "{name} has nothing to look at");
        let verdict = std::fs::read_to_string(folder.path().join(name).join("verdict.json")).unwrap();
        let verdict: serde_json::Value = serde_json::from_str(&verdict).unwrap();
        assert_eq!(verdict["verdicts"].as_array().map(Vec::len), Some(experiment.claims.len()), "{name}");
    }
    let page = std::fs::read_to_string(folder.path().join("index.html")).unwrap();
    the_page_is_whole(&page, folder.path());
}

fn the_page_is_whole(page: &str, folder: &Path) {
    for claim in CLAIMS {
        assert_eq!(
            occurrences(page, &format!("id=\"claim-{}\"", claim.id)),
            1,
            "{} in one section",
            claim.id
        );
    }
    let sections = occurrences(page, "<span class=\"number\">");
    assert_eq!(occurrences(page, "class=\"exercise\""), sections, "an exercise for each section");
    for (what, mark) in
        [("formula", "class=\"formula\""), ("listing", "figure class=\"code\""), ("figure", "<svg")]
    {
        assert!(occurrences(page, mark) >= sections, "a {what} for each section");
    }
    for external in ["<script", "<link", "<img", "@import", "url(http", "src=\"http"] {
        assert!(!page.contains(external), "the page asks for {external}");
    }
    let exercises: Vec<&str> = page
        .split("class=\"exercise\"")
        .skip(1)
        .filter_map(|part| part.split("<pre><code>").nth(1)?.split("</code>").next())
        .collect();
    assert_eq!(exercises.len(), sections);
    for line in exercises.iter().flat_map(|commands| commands.lines()) {
        crate::commands::is_understood(
            &line.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">"),
        );
    }
    let ids: BTreeSet<&str> = attributes(page, "id").into_iter().collect();
    for link in attributes(page, "href") {
        match link.strip_prefix('#') {
            Some(id) => assert!(ids.contains(id), "nothing on the page is called {id}"),
            None if link.starts_with("data:") => {}
            None => assert!(folder.join(link).is_file(), "the page links to {link}, which is not there"),
        }
    }
}

/// A model that was tested on the rows that taught it would prove anything.
#[test]
fn tables_are_tested_on_rows_that_were_not_learned() {
    let folder = tempfile::tempdir().unwrap();
    let rows = |word: &str| {
        let row = |i: usize| format!("{word} a film number{i}\t{}\n", i % 2);
        format!("sentence\tlabel\n{}", (0..60).map(row).collect::<String>())
    };
    std::fs::write(folder.path().join("train.tsv"), rows("learned")).unwrap();
    std::fs::write(folder.path().join("test.tsv"), rows("unseen")).unwrap();
    let run = |data: &Path| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_regard"));
        let out = folder.path().join("out");
        command.args(["experiment", "vocabulary", "--size", "smoke", "--data"]).arg(data).arg("-o").arg(&out);
        command.output().unwrap()
    };
    let refused = run(&folder.path().join("train.tsv"));
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("give a folder"), "{refused:?}");
    let done = run(folder.path());
    assert!(done.status.success(), "{done:?}");
    // One word in each test row was never seen: were it tested on its own rows, all would be known.
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(text.contains("A1 FAILS"), "{text}");
}

#[test]
fn every_claim_has_one_experiment() {
    let mut tested: Vec<&str> =
        EXPERIMENTS.iter().flat_map(|experiment| experiment.claims).copied().collect();
    let mut stated: Vec<&str> = CLAIMS.iter().map(|claim| claim.id).collect();
    tested.sort_unstable();
    stated.sort_unstable();
    assert_eq!(tested, stated);
}
