//! The report at its smallest: every experiment runs to its end, judges each of its claims and leaves its files, and the page
//! teaches and shows all of it without needing anything else.

use regard::experiment::claims::CLAIMS;
use regard::experiment::frozen::{self, FROZEN};
use regard::experiment::{Division, Setup, Size, Store};
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
    let conditions = Setup::of(Size::Smoke);
    let results = report::write(conditions, folder.path(), &Division::default())
        .unwrap_or_else(|error| panic!("{error:#}"));
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
    the_freeze_is_that_of_the_code(&results, folder.path());
}

/// Predictions, measures, bounds and settings are those of the file that was frozen. `REGARD_FREEZE=1` writes the file anew.
fn the_freeze_is_that_of_the_code(results: &report::Results, folder: &Path) {
    let store = Store::new(folder).unwrap();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/experiment/frozen.toml");
    if std::env::var_os("REGARD_FREEZE").is_some() {
        std::fs::write(&file, frozen::describe(results.iter(), &store, None).unwrap()).unwrap();
        return;
    }
    let (ours, kept) = (frozen::describe(results.iter(), &store, Some(FROZEN)).unwrap(), FROZEN);
    for (number, (ours, kept)) in ours.lines().zip(kept.lines()).enumerate() {
        assert_eq!(
            ours,
            kept,
            "line {} of frozen.toml is not what the code says. Whoever changes a prediction, a measure, a bound or a setting says so in \
             the experiment's `changed` and freezes anew: REGARD_FREEZE=1 cargo test --workspace --test lab the_report",
            number + 1
        );
    }
    assert_eq!(ours.lines().count(), kept.lines().count(), "the code says more, or less, than frozen.toml");
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
    let sections = occurrences(page, "<h2><span class=\"number\">");
    assert_eq!(sections, 13);
    for (what, mark) in [
        ("exercise", "class=\"exercise\""),
        ("answer", "<summary>Answer</summary>"),
        ("list of commands", "class=\"try\""),
        ("list of claims", "class=\"tested\""),
    ] {
        assert_eq!(occurrences(page, mark), sections, "one {what} for each section");
    }
    for part in page.split("<h2><span class=\"number\">").skip(1) {
        let (section, _) = part.split_once("</section>").unwrap();
        let title = section.split("</h2>").next().unwrap_or_default();
        for (what, mark) in [
            ("formula", "class=\"formula\""),
            ("list of symbols", "class=\"symbols\""),
            ("example by hand", "class=\"example\""),
            ("listing", "figure class=\"code\""),
            ("picture", "<svg xmlns"),
            ("link into the model's page", "href=\"inside.html#view="),
        ] {
            // The table of embeddings is an example by hand in a diagram.
            let shown = what == "example by hand" && title.contains("Embeddings");
            assert!(shown || section.contains(mark), "{title} has no {what}");
        }
    }
    for diagram in
        ["One head, from three vectors", "Which keys", "Several heads", "The block", "Three models", "Rotary"]
    {
        assert!(page.contains(diagram), "the page has no diagram {diagram}");
    }
    for external in ["<script", "<link", "<img", "@import", "url(http", "src=\"http", "<math"] {
        assert!(!page.contains(external), "the page contains {external}");
    }
    the_page_is_well_formed(page);
    the_lesson_comes_first(page);
    let exercises: Vec<&str> = page
        .split("class=\"try\"")
        .skip(1)
        .filter_map(|part| part.split("<pre><code>").nth(1)?.split("</code>").next())
        .collect();
    assert_eq!(exercises.len(), sections);
    for line in exercises.iter().flat_map(|commands| commands.lines()) {
        crate::commands::is_understood(
            &line.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">"),
        );
    }
    links_resolve(page, folder);
}

/// Everything after the document type is well-formed XML, as careful HTML can be.
fn the_page_is_well_formed(page: &str) {
    let (style, rest) = (page.find("<style>").unwrap(), page.find("</style>").unwrap());
    let page = format!("{}{}", &page[..style], &page[rest + "</style>".len()..]);
    let page = page.strip_prefix("<!doctype html>").unwrap();
    if let Err(error) = roxmltree::Document::parse(page.trim_start()) {
        let line = page.trim_start().lines().nth(error.pos().row as usize - 1).unwrap_or_default();
        let around: String =
            line.chars().skip((error.pos().col as usize).saturating_sub(200)).take(400).collect();
        panic!("{error}: {around}");
    }
}

/// Claims and intervals come after the lesson, folded, and the table of all claims comes last.
fn the_lesson_comes_first(page: &str) {
    let at = |mark: &str| page.find(mark).unwrap_or_else(|| panic!("the page has no {mark}"));
    let places = [
        "id=\"start\"",
        "id=\"tokens\"",
        "id=\"real-models\"",
        "id=\"measured\"",
        "id=\"verdicts\"",
        "id=\"claims\"",
    ];
    assert!(places.map(at).is_sorted(), "{places:?}");
    assert!(page.find("class=\"verdict\"").unwrap() > at("<details class=\"audit\">"));
}

fn links_resolve(page: &str, folder: &Path) {
    let ids: BTreeSet<&str> = attributes(page, "id").into_iter().collect();
    for link in attributes(page, "href") {
        match link.strip_prefix('#') {
            Some(id) => assert!(ids.contains(id), "nothing on the page is called {id}"),
            None if link.starts_with("data:") => {}
            // Papers, and the address of `regard serve`.
            None if link.starts_with("https://") => {}
            None if link.starts_with("http://127.0.0.1:8420/#model=") => {}
            None => {
                let file = link.split('#').next().unwrap_or_default();
                assert!(folder.join(file).is_file(), "the page links to {link}, which is not there");
            }
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
