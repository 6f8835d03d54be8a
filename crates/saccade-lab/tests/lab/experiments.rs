//! Every experiment at its smallest: it runs to the end, judges each of its claims, and leaves its files.

use saccade_lab::experiment::{Conditions, Progress, Size, Store};
use saccade_lab::experiments::EXPERIMENTS;
use std::collections::BTreeSet;

#[test]
fn every_experiment_leaves_a_verdict_for_each_of_its_claims() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path()).unwrap();
    let conditions = Conditions { size: Size::Smoke, seeds: None, data: None, vectors: None };
    for experiment in EXPERIMENTS {
        let name = experiment.name;
        let progress = Progress::new(experiment.expected(Size::Smoke));
        let findings = experiment
            .conduct(conditions, folder.path(), &store, &progress)
            .unwrap_or_else(|error| panic!("{name}: {error:#}"));
        progress.finish();
        let judged: BTreeSet<&str> = findings.verdicts.iter().map(|verdict| verdict.claim).collect();
        assert_eq!(judged, experiment.claims.iter().copied().collect(), "{name}");
        assert!(!findings.measurements.is_empty(), "{name} measured nothing");
        let files = folder.path().join(name);
        for file in ["measurements.csv", "summary.csv", "verdict.json"] {
            assert!(files.join(file).is_file(), "{name} left no {file}");
        }
        for figure in &findings.figures {
            for suffix in ["svg", "png"] {
                assert!(files.join(format!("{}.{suffix}", figure.name)).is_file(), "{name}: {}", figure.name);
            }
        }
        let verdict = std::fs::read_to_string(files.join("verdict.json")).unwrap();
        let verdict: serde_json::Value = serde_json::from_str(&verdict).unwrap();
        assert_eq!(verdict["verdicts"].as_array().map(Vec::len), Some(experiment.claims.len()), "{name}");
    }
}
