//! Experiments on several machines: every part is computed once, and the files at the end are those of one machine.

use anyhow::Result;
use regard::experiment::{Data, Experiment, Findings, Lab, Progress, Setup, Share, Size, Sizes, Store};
use regard::run::preset;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use tempfile::TempDir;

const SMOKE: Setup = Setup { develop: true, ..Setup::of(Size::Smoke) };

fn experiment(run: fn(&Lab) -> Result<Findings>) -> Experiment {
    Experiment {
        name: "trial",
        claims: &[],
        question: "",
        prediction: "",
        design: "",
        changed: None,
        data: Data::Drawn,
        conditions: &[],
        seeds: Sizes::quick(2),
        seconds: Sizes::quick(1.0),
        trains: |_| Ok(Vec::new()),
        run,
    }
}

fn share(text: &str) -> Share {
    text.parse().unwrap()
}

/// How many parts a share leaves to others.
fn conduct(experiment: &Experiment, folder: &Path, one: &str) -> usize {
    let store = Store::new(folder).unwrap();
    experiment.conduct_share(SMOKE, &store, &Progress::silent(), share(one)).unwrap()
}

#[test]
fn every_part_is_computed_once_and_a_stage_waits_for_the_one_before() {
    static ASKED: Mutex<Vec<(&str, u64)>> = Mutex::new(Vec::new());
    let asked = || {
        let mut asked = std::mem::take(&mut *ASKED.lock().unwrap());
        asked.sort_unstable();
        asked
    };
    let stages = experiment(|lab| {
        let inputs: Vec<u64> = (0..10).collect();
        let ask = |stage, input: u64| {
            ASKED.lock().unwrap().push((stage, input));
            Ok(input * input)
        };
        let squares = lab.parts("squares", &inputs, |&input| ask("squares", input))?;
        let sums: Vec<u64> = lab.parts("sums", &squares, |&input| ask("sums", input))?;
        let times = lab.timed_parts("times", &[1_u64, 2, 3], |&input| ask("times", input))?;
        let mut findings = Findings::default();
        findings.table("sums", &["sum"], vec![vec![format!("{:?} {times:?}", sums)]]);
        Ok(findings)
    });
    let folder = TempDir::new().unwrap();
    let left = ["1/3", "2/3"].map(|one| conduct(&stages, folder.path(), one));
    assert!(left[0] >= 6 && left[1] >= 3, "{left:?}");
    let mut all = asked();
    assert!(all.iter().all(|(stage, _)| *stage == "squares"), "{all:?}: sums need all squares");
    // The last share finds all squares, and goes on with its part of the sums.
    conduct(&stages, folder.path(), "3/3");
    all.extend(asked());
    assert!(all.iter().any(|(stage, _)| *stage == "sums"), "{all:?}");
    // Three stages, each of which needs all of the one before.
    for one in ["1/3", "2/3", "3/3"].repeat(2) {
        conduct(&stages, folder.path(), one);
        let more = asked();
        let timed = more.iter().filter(|(stage, _)| *stage == "times").count();
        assert!([0, 3].contains(&timed), "{more:?}: times are taken by one share");
        all.extend(more);
    }
    all.sort_unstable();
    let once = |stage, inputs: Vec<u64>| inputs.into_iter().map(move |input| (stage, input));
    let expected: Vec<(&str, u64)> = once("squares", (0..10).collect())
        .chain(once("sums", (0..10).map(|input| input * input).collect()))
        .chain(once("times", vec![1, 2, 3]))
        .collect();
    assert_eq!(all, expected, "every part once");
    assert_eq!(conduct(&stages, folder.path(), "1/3"), 0);
    assert!(!folder.path().join("trial/verdict.json").exists(), "a share writes parts alone");
    let store = Store::new(folder.path()).unwrap();
    stages.conduct(SMOKE, folder.path(), &store, &Progress::silent()).unwrap();
    assert!(asked().is_empty());
    assert!(folder.path().join("trial/sums.csv").exists());
}

#[test]
fn shares_on_one_disk_wait_for_a_model_that_several_need() {
    let train = experiment(|lab| {
        let settings = ["data.texts=20", "data.limit=10", "train.steps=40", "train.batch_size=2"];
        let config = preset("bag", &settings.map(str::to_owned))?;
        let losses = lab.parts("models", &[0_u64, 1, 2, 3], |_| lab.train(&config)?.loss())?;
        assert!(losses.windows(2).all(|pair| pair[0].to_bits() == pair[1].to_bits()));
        Ok(Findings::default())
    });
    let folder = TempDir::new().unwrap();
    // Locks of files hold between the threads of a process too, as each opens the file for itself.
    std::thread::scope(|scope| {
        for one in ["1/4", "2/4", "3/4", "4/4"] {
            let (train, folder) = (&train, folder.path());
            scope.spawn(move || conduct(train, folder, one));
        }
    });
    assert_eq!(conduct(&train, folder.path(), "1/4"), 0);
    let left = contents(folder.path());
    let odd: Vec<&PathBuf> = left
        .keys()
        .filter(|path| path.extension().is_some_and(|end| end == "lock" || end == "partial"))
        .collect();
    assert!(odd.is_empty(), "{odd:?}");
}

fn regard(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_regard"))
        .args(arguments)
        .env("REGARD_THREADS", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Every file below a folder.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = PathBuf::from(path.file_name().unwrap());
        if path.is_dir() {
            all.extend(contents(&path).into_iter().map(|(rest, bytes)| (name.join(rest), bytes)));
        } else {
            all.insert(name, std::fs::read(&path).unwrap());
        }
    }
    all
}

/// What an experiment leaves, without times: the date and seconds of verdicts, and the seconds in the metrics of models.
fn lasting(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = contents(folder);
    for (path, bytes) in &mut files {
        let text = || String::from_utf8(bytes.clone()).unwrap();
        let name = path.file_name().unwrap();
        if name == "verdict.json" {
            let mut verdict: serde_json::Value = serde_json::from_slice(bytes).unwrap();
            let fields = verdict.as_object_mut().unwrap();
            assert!(fields.remove("date").is_some() && fields.remove("seconds").is_some());
            *bytes = verdict.to_string().into_bytes();
        } else if name == "metrics.csv" {
            let without = |line: &str| {
                let fields = line.split(',').enumerate().filter(|(column, _)| *column != 4);
                fields.map(|(_, field)| field).collect::<Vec<_>>().join(",")
            };
            *bytes = text().lines().map(without).collect::<Vec<_>>().join("\n").into_bytes();
        }
    }
    files
}

fn assert_same(found: &Path, expected: &Path) {
    let (found, expected) = (lasting(found), lasting(expected));
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (path, bytes) in &expected {
        assert!(found[path] == *bytes, "{}: other contents", path.display());
    }
}

#[test]
fn shares_leave_the_files_of_one_machine() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let run = |out: &str, more: &[&str]| {
        let out = at(out).display().to_string();
        let arguments = [&["experiment", "pooled-words", "--size", "smoke", "-o", &out], more].concat();
        String::from_utf8(regard(&arguments).stderr).unwrap()
    };
    run("alone", &[]);
    // On one disk, at once; one share is started twice.
    std::thread::scope(|scope| {
        for one in ["1/3", "2/3", "3/3", "2/3"] {
            let run = &run;
            scope.spawn(move || run("shared", &["--share", one]));
        }
    });
    let said = run("shared", &["--share", "1/3"]);
    assert!(said.contains("share 1/3 is done, 0 parts computed; all parts are there"), "{said}");
    run("shared", &[]);
    assert_same(&at("shared"), &at("alone"));
    // In folders of their own, merged into another.
    let said = run("first", &["--share", "1/2"]);
    assert!(said.contains("left to other shares"), "{said}");
    run("second", &["--share", "2/2"]);
    let folders = ["first", "second"].map(|name| at(name).display().to_string());
    let said = run("merged", &["--merge", &folders[0], &folders[1]]);
    assert!(said.contains("merged from 2 folders") && !said.contains("were computed here"), "{said}");
    assert_same(&at("merged"), &at("alone"));
    // With one of two folders, what is missing is computed; a damaged part counts as missing.
    let part = std::fs::read_dir(at("first/pooled-words/parts")).unwrap().next().unwrap().unwrap().path();
    std::fs::write(part, "{\"result\":").unwrap();
    let said = run("half", &["--merge", &folders[0]]);
    assert!(said.contains("were computed here"), "{said}");
    assert_same(&at("half"), &at("alone"));
}

#[test]
fn shares_that_make_no_sense_are_bad_usage() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().display().to_string();
    for (arguments, expected) in [
        (&["lookup", "--share", "0/4"] as &[&str], "counted from 1"),
        (&["lookup", "--share", "5/4"], "such as 2/8"),
        (&["lookup", "--share", "1/2", "--merge", "a"], "cannot be used with"),
        (&["lookup", "--share", "1/2", "--record", "a"], "cannot be used with"),
        (&["lookup", "--merge", "nowhere"], "has no parts of lookup"),
        (&["--share", "1/2"], "name the experiment"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_regard"))
            .args(["experiment", "-o", &out])
            .args(arguments)
            .output()
            .unwrap();
        let line = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {line}");
        assert!(line.contains(expected), "{arguments:?}: {line}");
    }
}
