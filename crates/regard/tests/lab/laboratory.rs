//! The machinery of experiments: parts that are remembered, models that are shared, and the same files from the same command.

use anyhow::{Result, ensure};
use regard::compute::Placement;
use regard::experiment::{Data, Experiment, Findings, Lab, Progress, Setup, Size, Sizes, Store};
use regard::run::{RunConfig, preset};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

const SMOKE: Setup = Setup { develop: true, ..Setup::of(Size::Smoke) };

fn experiment(name: &'static str, run: fn(&Lab) -> Result<Findings>) -> Experiment {
    let claims = &[] as &[&str];
    Experiment {
        name,
        claims,
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

/// Where experiments are conducted as a command does it. It remembers nothing but what is in the folder.
struct Bench {
    out: PathBuf,
    store: Store,
}

impl Bench {
    fn at(out: &Path) -> Self {
        Self { out: out.to_owned(), store: Store::new(out).unwrap() }
    }

    /// What parts told in the end.
    fn conduct(&self, experiment: &Experiment, setup: Setup) -> Result<Vec<String>> {
        let findings = experiment.conduct(setup, &self.out, &self.store, &Progress::silent())?;
        Ok(findings.tables.iter().flat_map(|table| table.rows.concat()).collect())
    }

    /// Whether an experiment with one part computes it, rather than reading it back.
    fn computes(&self, experiment: &Experiment, setup: Setup) -> bool {
        let parts = self.out.join(experiment.name).join("parts");
        let before = if parts.exists() { files(&parts).len() } else { 0 };
        self.conduct(experiment, setup).unwrap();
        files(&parts).len() > before
    }
}

/// Findings that are nothing but the results of parts.
fn told<T: std::fmt::Debug>(results: &[T]) -> Findings {
    let mut findings = Findings::default();
    findings.table(
        "results",
        &["result"],
        results.iter().map(|result| vec![format!("{result:?}")]).collect(),
    );
    findings
}

fn taken(list: &Mutex<Vec<u64>>) -> Vec<u64> {
    std::mem::take(&mut *list.lock().unwrap())
}

fn sorted(mut list: Vec<u64>) -> Vec<u64> {
    list.sort_unstable();
    list
}

/// The files of a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn an_experiment_that_stopped_goes_on_with_the_parts_that_are_missing() {
    static ASKED: Mutex<Vec<u64>> = Mutex::new(Vec::new());
    static FINISHED: Mutex<Vec<u64>> = Mutex::new(Vec::new());
    static POWER: AtomicBool = AtomicBool::new(false);
    fn square(input: u64) -> Result<u64> {
        ASKED.lock().unwrap().push(input);
        ensure!(input != 7 || POWER.load(Ordering::Relaxed), "the power went out");
        FINISHED.lock().unwrap().push(input);
        Ok(input * input)
    }
    let inputs = || (0..12).collect::<Vec<u64>>();
    let side_by_side = experiment("side-by-side", |lab| {
        Ok(told(&lab.parts("squares", &(0..12).collect::<Vec<u64>>(), |&input| square(input))?))
    });
    let one_by_one = experiment("one-by-one", |lab| {
        Ok(told(&lab.timed_parts("squares", &(0..12).collect::<Vec<u64>>(), |&input| square(input))?))
    });
    for experiment in [side_by_side, one_by_one] {
        let folder = TempDir::new().unwrap();
        let bench = Bench::at(folder.path());
        POWER.store(false, Ordering::Relaxed);
        assert!(bench.conduct(&experiment, SMOKE).is_err());
        let finished = taken(&FINISHED);
        assert!(finished.contains(&0) && !finished.contains(&7), "{finished:?}");
        taken(&ASKED);
        POWER.store(true, Ordering::Relaxed);
        let squares: Vec<String> = inputs().iter().map(|input| (input * input).to_string()).collect();
        assert_eq!(bench.conduct(&experiment, SMOKE).unwrap(), squares);
        let missing: Vec<u64> = inputs().into_iter().filter(|input| !finished.contains(input)).collect();
        assert_eq!(sorted(taken(&ASKED)), missing, "what was finished is not computed again");
        assert_eq!(bench.conduct(&experiment, SMOKE).unwrap(), squares);
        assert!(taken(&ASKED).is_empty(), "nothing is missing any more");
        taken(&FINISHED);
    }
}

#[test]
fn a_part_whose_file_is_damaged_is_computed_again() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let roots = experiment("roots", |lab| {
        let root = |&x: &f64| {
            ASKED.fetch_add(1, Ordering::Relaxed);
            Ok(vec![x.sqrt(), x])
        };
        Ok(told(&lab.parts("roots", &[2.0, 3.0, 5.0], root)?))
    });
    let folder = TempDir::new().unwrap();
    let bench = Bench::at(folder.path());
    let whole = bench.conduct(&roots, SMOKE).unwrap();
    assert_eq!(ASKED.swap(0, Ordering::Relaxed), 3);
    let parts = files(&folder.path().join("roots/parts"));
    assert_eq!(parts.len(), 3);
    for damage in ["", "[1.41", "[1.41,2.0]]", "null", "{\"root\":1}", "\u{0}\u{0}"] {
        let before = fs::read(&parts[1]).unwrap();
        fs::write(&parts[1], damage).unwrap();
        assert_eq!(bench.conduct(&roots, SMOKE).unwrap(), whole);
        assert_eq!(ASKED.swap(0, Ordering::Relaxed), 1, "{damage:?}: one part and no other");
        assert_eq!(fs::read(&parts[1]).unwrap(), before, "{damage:?}: its file is whole again");
    }
}

#[test]
fn a_part_is_found_again_only_for_what_it_was_computed_from() {
    let one = experiment("one", |lab| Ok(told(&lab.parts("stage", &[1], |&i: &u64| Ok(i))?)));
    let others = [
        ("input", experiment("one", |lab| Ok(told(&lab.parts("stage", &[2], |&i: &u64| Ok(i))?)))),
        ("stage", experiment("one", |lab| Ok(told(&lab.parts("other", &[1], |&i: &u64| Ok(i))?)))),
        ("experiment", experiment("two", |lab| Ok(told(&lab.parts("stage", &[1], |&i: &u64| Ok(i))?)))),
    ];
    let folder = TempDir::new().unwrap();
    let (out, data) = (folder.path().join("out"), folder.path().join("data.txt"));
    fs::write(&data, "some words").unwrap();
    let bench = Bench::at(&out);
    assert!(bench.computes(&one, SMOKE));
    for (what, other) in &others {
        assert!(bench.computes(other, SMOKE), "another {what}");
        assert!(!bench.computes(other, SMOKE), "the same {what}");
    }
    let setups = [
        ("size", Setup { size: Size::Quick, ..SMOKE }),
        ("data", Setup { data: Some(&data), ..SMOKE }),
        ("vectors", Setup { vectors: Some(&data), ..SMOKE }),
    ];
    for (what, setup) in setups {
        assert!(bench.computes(&one, setup), "another {what}");
        assert!(!bench.computes(&one, setup), "the same {what}");
    }
    assert!(!bench.computes(&one, SMOKE), "nothing disturbed the first one");
    // The parts do not depend on how many there are, so that more seeds keep what fewer have found.
    assert!(!bench.computes(&one, Setup { seeds: Some(9), ..SMOKE }));
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A change to data, and what to call it.
type Change<'a> = (&'a str, &'a dyn Fn());

#[test]
fn data_that_changed_is_other_data() {
    let one = experiment("one", |lab| Ok(told(&lab.parts("stage", &[1], |&i: &u64| Ok(i))?)));
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let (train, deep) = (data.join("train.tsv"), data.join("train/pos/0_9.txt"));
    write(&train, "sentence\tlabel\ngood\t1\n");
    write(&deep, "A good film.");
    let config = |path: &Path| {
        let mut config = tiny(0);
        config.data.path = Some(path.display().to_string());
        config
    };
    let aged = |path: &Path| {
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
    };
    let changes: [Change; 6] = [
        ("a file that grew", &|| write(&train, "sentence\tlabel\ngood\t1\nbad\t0\n")),
        ("a file of the same length, at another time", &|| aged(&train)),
        ("a file in a folder in it", &|| write(&deep, "A bad film, and a long one.")),
        ("a file that came", &|| write(&data.join("test.tsv"), "sentence\tlabel\nbad\t0\n")),
        ("a file that was renamed", &|| fs::rename(data.join("test.tsv"), data.join("dev.tsv")).unwrap()),
        ("a file that went", &|| fs::remove_file(data.join("notes.txt")).unwrap()),
    ];
    for (path, changes) in [(&train, &changes[..2]), (&data, &changes[..])] {
        // Results may well be kept beside the data, and are none.
        for out in [folder.path().join("out"), data.join("outputs")] {
            let bench = Bench::at(&out);
            let setup = Setup { data: Some(path), ..SMOKE };
            write(&train, "sentence\tlabel\ngood\t1\n");
            write(&data.join("notes.txt"), "from the web");
            bench.conduct(&one, setup).unwrap();
            for (what, change) in changes {
                assert!(!bench.computes(&one, setup), "the same data before {what}");
                let model = bench.store.model(&config(path), Placement::CPU).unwrap();
                change();
                assert!(bench.computes(&one, setup), "{what}");
                assert_ne!(
                    bench.store.model(&config(path), Placement::CPU).unwrap(),
                    model,
                    "{what}: another model"
                );
            }
            if *path == data {
                // What is as it was before is known.
                let dev = data.join("dev.tsv");
                let aside = folder.path().join("dev.tsv");
                fs::rename(&dev, &aside).unwrap();
                assert!(bench.computes(&one, setup));
                fs::rename(&aside, &dev).unwrap();
                assert!(!bench.computes(&one, setup));
                fs::remove_file(&dev).unwrap();
            }
        }
    }
    let missing = folder.path().join("missing");
    let told = Bench::at(folder.path()).conduct(&one, Setup { data: Some(&missing), ..SMOKE });
    assert!(format!("{:#}", told.err().unwrap()).contains("cannot read"));
}

#[test]
fn errors_name_the_experiment_and_the_part() {
    static ASKED: Mutex<Vec<u64>> = Mutex::new(Vec::new());
    let letters = experiment("letters", |lab| {
        let write = |&(_, number): &(&str, u64)| {
            ASKED.lock().unwrap().push(number);
            ensure!(number < 2, "no ink for {number}");
            Ok(number)
        };
        let inputs: Vec<(&str, u64)> = (0..6).map(|number| ("letter", number)).collect();
        let results = lab.timed_parts("writing", &inputs, write)?;
        Ok(told(&results))
    });
    let folder = TempDir::new().unwrap();
    let bench = Bench::at(folder.path());
    let error = bench.conduct(&letters, SMOKE).unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        "the experiment letters failed: letters, writing [\"letter\",2]: no ink for 2"
    );
    assert_eq!(taken(&ASKED), [0, 1, 2], "nothing comes after a failure");
    assert!(!folder.path().join("letters/verdict.json").exists(), "nothing was found");
}

/// A model that is trained in no time.
fn tiny(seed: u64) -> RunConfig {
    let settings = ["train.steps=3", "train.batch_size=4", "data.texts=20", "train.evaluate_every=3"];
    let mut config = preset("bag", &settings.map(str::to_owned)).unwrap();
    config.train.seed = seed;
    config
}

#[test]
fn a_model_that_two_experiments_want_is_trained_once() {
    // Two parts want it at the same time.
    fn wanted(lab: &Lab) -> Result<Findings> {
        Ok(told(&lab.parts("models", &[0, 1], |_: &u64| Ok(lab.train(&tiny(0))?.folder))?))
    }
    let folder = TempDir::new().unwrap();
    let (bench, models) = (Bench::at(folder.path()), folder.path().join("models"));
    let written = |model: &Path| -> BTreeMap<PathBuf, (SystemTime, Vec<u8>)> {
        let files = files(model).into_iter().filter(|file| file.is_file());
        files
            .map(|file| {
                let about = (file.metadata().unwrap().modified().unwrap(), fs::read(&file).unwrap());
                (file, about)
            })
            .collect()
    };
    let first = bench.conduct(&experiment("first", wanted), SMOKE).unwrap();
    let [model] = &files(&models)[..] else { panic!("there is more than one model") };
    let before = written(model);
    assert!(before.contains_key(&model.join("done")), "{before:?}");
    let second = bench.conduct(&experiment("second", wanted), SMOKE).unwrap();
    assert_eq!(first, second);
    assert!(written(model) == before, "it was trained again");
    let other = experiment("other", |lab| Ok(told(&[lab.train(&tiny(1))?.folder])));
    bench.conduct(&other, SMOKE).unwrap();
    assert_eq!(files(&models).len(), 2, "another seed is another model");
}

fn regard(arguments: &[&str], out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_regard"));
    command.arg("experiment").args(arguments).arg("-o").arg(out).stdout(Stdio::null());
    command
}

fn succeeds(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Every table of an experiment by its name, how its models were trained, and all that its verdict says but for the time it took and when that was.
fn results(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let name = |file: &Path| file.file_name().unwrap().to_string_lossy().into_owned();
    let is_table = |file: &PathBuf| file.extension().is_some_and(|end| end == "csv" || end == "toml");
    let tables = files(folder).into_iter().filter(is_table);
    let mut results: BTreeMap<String, Vec<u8>> =
        tables.map(|file| (name(&file), fs::read(&file).unwrap())).collect();
    let mut verdict: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.join("verdict.json")).unwrap()).unwrap();
    for when in ["seconds", "date"] {
        verdict[when] = serde_json::Value::Null;
    }
    results.insert("verdict.json".to_owned(), verdict.to_string().into_bytes());
    results
}

/// Trains twelve models in twelve parts.
const MANY: [&str; 3] = ["three-models", "--size", "smoke"];

#[test]
fn the_same_command_gives_the_same_tables_to_the_byte() {
    let folder = TempDir::new().unwrap();
    let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
    succeeds(&regard(&MANY, &one).env("REGARD_THREADS", "1").output().unwrap());
    succeeds(&regard(&MANY, &other).env("REGARD_THREADS", "2").output().unwrap());
    let first = results(&one.join("three-models"));
    assert!(first.contains_key("measurements.csv") && first.contains_key("summary.csv"));
    let training = String::from_utf8_lossy(&first["training.toml"]).into_owned();
    assert_eq!(training.matches("[[training]]").count(), 6, "{training}");
    assert_eq!(training.matches("seeds = [1000000, 1000001]").count(), 6, "{training}");
    assert!(first == results(&other.join("three-models")), "another folder, another number of threads");
    // And where everything is read back.
    succeeds(&regard(&MANY, &one).output().unwrap());
    assert!(first == results(&one.join("three-models")), "the same folder");
}

#[test]
#[cfg(unix)]
fn a_command_that_was_interrupted_ends_with_the_same_tables_to_the_byte() {
    let folder = TempDir::new().unwrap();
    let [whole, stopped] = ["whole", "stopped"].map(|name| folder.path().join(name));
    succeeds(&regard(&MANY, &whole).output().unwrap());
    let parts = stopped.join("three-models/parts");
    let finished = || -> Vec<PathBuf> {
        if !parts.exists() {
            return Vec::new();
        }
        files(&parts).into_iter().filter(|file| file.extension().is_some_and(|end| end == "json")).collect()
    };
    let child = regard(&MANY, &stopped).stderr(Stdio::piped()).spawn().unwrap();
    let started = Instant::now();
    while finished().is_empty() {
        assert!(started.elapsed() < Duration::from_secs(120), "no part was finished");
        std::thread::sleep(Duration::from_millis(2));
    }
    succeeds(&Command::new("kill").args(["-INT", &child.id().to_string()]).output().unwrap());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.ends_with("\nstopped; the same command continues from here\n"), "{said}");
    let times = |parts: &[PathBuf]| -> Vec<SystemTime> {
        parts.iter().map(|part| part.metadata().unwrap().modified().unwrap()).collect()
    };
    let kept = finished();
    let before = times(&kept);
    assert!(kept.len() < 12, "it was not interrupted: {kept:?}");
    succeeds(&regard(&MANY, &stopped).output().unwrap());
    assert_eq!(times(&kept), before, "what was finished is not computed again");
    assert!(results(&whole.join("three-models")) == results(&stopped.join("three-models")));
}

#[test]
fn the_sweep_leaves_the_four_files_that_its_source_names() {
    let folder = TempDir::new().unwrap();
    succeeds(&regard(&["scale-sweep", "--size", "smoke", "--seeds", "3"], folder.path()).output().unwrap());
    let file = |name: &str| fs::read(folder.path().join("scale-sweep").join(name)).unwrap();
    let text = |name: &str| String::from_utf8(file(name)).unwrap();
    let sweep = text("attention_sweep_results.csv");
    assert!(sweep.starts_with("d_k,scaled,seed,mean_max_weight,mean_entropy,grad_norm_q,grad_norm_k\n"));
    let cells: std::collections::BTreeSet<String> =
        sweep.lines().skip(1).map(|line| line.split(',').take(3).collect::<Vec<_>>().join(",")).collect();
    assert_eq!(cells.len(), 4 * 2 * 3, "four widths, with the scale and without, three draws");
    assert!(text("attention_robustness_summary.csv").lines().count() > 4 * 2);
    for picture in ["attention_heatmap_gallery.png", "gradient_norms_vs_dk.png"] {
        assert!(file(picture).starts_with(b"\x89PNG\r\n\x1a\n"), "{picture}");
    }
}
