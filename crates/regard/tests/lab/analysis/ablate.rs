//! `regard ablate`.

use super::made::{SENTENCES, bert, corpus, gpt, number, run, sentiment, table};
use crate::checkpoints::made::{complaint, text};
use tempfile::tempdir;

#[test]
fn every_head_is_taken_away_and_all_of_them_in_turn() {
    let folder = tempdir().unwrap();
    let here = folder.path();
    gpt(&here.join("gpt"));
    corpus(&here.join("corpus.txt"));
    let (model, corpus) = (here.join("gpt"), here.join("corpus.txt"));
    let ablate = |out: &str, batch: &str, threads: &str| {
        let out = here.join(out);
        let arguments =
            ["ablate", text(&model), "--corpus", text(&corpus), "--batch", batch, "-o", text(&out)];
        run(&arguments, threads)
    };
    let said = ablate("one", "1", "1");
    assert!(said.contains("loss with all heads") && said.contains("Spearman"), "{said}");
    let rows = table(&here.join("one/ablation.csv"));
    let of = |measure: &str, kind: &str| -> Vec<f64> {
        let kept = rows.iter().filter(|row| row["measure"] == measure && row["kind"] == kind);
        let kept = kept.filter(|row| row["model"] == "trained");
        kept.map(|row| number(row, "value")).collect()
    };
    assert_eq!(of("zeroed", "all").len(), 4);
    assert_eq!(of("gradient-importance", "all").len(), 4);
    assert_eq!(rows.iter().filter(|row| row["model"] == "untrained" && row["kind"] == "all").count(), 12);
    for row in rows.iter().filter(|row| row["kind"] == "all") {
        let [low, value, high] = ["low", "value", "high"].map(|column| number(row, column));
        assert!(low <= value + 1e-9 && value <= high + 1e-9, "{row:?}");
        assert_eq!(row["n"], "6", "{row:?}");
    }
    for kind in ["delimiter", "repeated pair", "repeated", "new"] {
        assert_eq!(of("averaged", kind).len(), 4, "{kind}");
    }
    // The changes of the kinds, weighed by how often they occur, are the change of all: so it lies between them.
    for head in 0..4 {
        let kinds = ["delimiter", "repeated pair", "repeated", "new"].map(|kind| of("zeroed", kind)[head]);
        let (low, high) =
            kinds.iter().fold((f64::MAX, f64::MIN), |(low, high), &x| (low.min(x), high.max(x)));
        let all = of("zeroed", "all")[head];
        assert!(low <= all && all <= high, "{all} {kinds:?}");
    }
    let curve = table(&here.join("one/pruning.csv"));
    assert_eq!(curve.len(), 5);
    // With one head gone, the curve is at what ablation of that head says.
    let importance = of("gradient-importance", "all");
    let least = (0..4).min_by(|&a, &b| importance[a].total_cmp(&importance[b])).unwrap();
    let change = number(&curve[1], "loss") - number(&curve[0], "loss");
    assert!((change - of("zeroed", "all")[least]).abs() < 1e-9);

    ablate("two", "1", "2");
    let read = |out: &str| std::fs::read(here.join(out).join("ablation.csv")).unwrap();
    assert!(read("one") == read("two"), "threads make a difference");
    ablate("batches", "4", "2");
    for (row, other) in rows.iter().zip(table(&here.join("batches/ablation.csv"))) {
        assert!((number(row, "value") - number(&other, "value")).abs() < 1e-5, "{row:?} {other:?}");
    }
}

#[test]
fn each_model_is_measured_on_its_own_task() {
    let folder = tempdir().unwrap();
    let here = folder.path();
    bert(&here.join("bert"));
    sentiment(&here.join("sentiment"));
    corpus(&here.join("corpus.txt"));
    let (guesses, classes, lines) = (here.join("bert"), here.join("sentiment"), here.join("corpus.txt"));
    let out = here.join("out");
    run(&["ablate", text(&guesses), "--corpus", text(&lines), "-o", text(&out)], "2");
    assert!(table(&out.join("ablation.csv")).iter().any(|row| row["kind"] == "new"));
    run(&["ablate", text(&classes), "--limit", "6", "-o", text(&out)], "2");
    assert!(table(&out.join("ablation.csv")).iter().any(|row| row["kind"] == "positive"));
    let (problem, code) = complaint(&["ablate", text(&classes), "--corpus", text(&lines)]);
    assert!(code == 1 && problem.contains("needs labels"), "{problem}");
}

#[test]
fn classes_are_matched_by_name() {
    let folder = tempdir().unwrap();
    let here = folder.path();
    sentiment(&here.join("model"));
    let (model, file, out) = (here.join("model"), here.join("texts.tsv"), here.join("out"));
    let ablated = |good: &str, bad: &str| {
        let row = |(i, text): (usize, &&str)| format!("{text}\t{}", [good, bad, bad][i % 3]);
        let rows: Vec<String> = SENTENCES.iter().enumerate().map(row).collect();
        std::fs::write(&file, format!("sentence\tlabel\n{}\n", rows.join("\n"))).unwrap();
        run(&["ablate", text(&model), "--corpus", text(&file), "-o", text(&out)], "2");
        std::fs::read_to_string(out.join("ablation.csv")).unwrap()
    };
    // In alphabetical order the other names would be the other way round.
    assert_eq!(ablated("positive", "negative"), ablated("POS", "neg"));
    assert_ne!(ablated("positive", "negative"), ablated("negative", "positive"));
    std::fs::write(&file, "sentence\tlabel\nthe cat sat.\tgood\na dog is not a cat!\tbad\n").unwrap();
    let (problem, code) = complaint(&["ablate", text(&model), "--corpus", text(&file)]);
    assert!(code == 1 && problem.contains("it knows negative, positive"), "{problem}");
}
