//! `regard heads`.

use super::made::{SENTENCES, corpus, gpt, number, run, table, words};
use crate::checkpoints::made::{complaint, t5, text};
use regard_nn::analysis::{HeadSettings, Tokens, measure_heads};
use regard_nn::checkpoint;
use regard_nn::models::{Transformer, VitConfig};
use regard_nn::tokens::Special;
use std::path::Path;
use tempfile::tempdir;

fn measured(folder: &Path, out: &str, more: &[&str], threads: &str) -> String {
    let (model, corpus, out) = (folder.join("gpt"), folder.join("corpus.txt"), folder.join(out));
    let mut arguments = vec!["heads", text(&model), "--corpus", text(&corpus), "-o", text(&out)];
    arguments.extend(more);
    run(&arguments, threads)
}

#[test]
fn the_table_is_the_librarys_and_depends_neither_on_threads_nor_on_batches() {
    let folder = tempdir().unwrap();
    let here = folder.path();
    gpt(&here.join("gpt"));
    corpus(&here.join("corpus.txt"));
    let said = measured(here, "one", &["--batch", "1", "--norms"], "1");
    assert!(said.contains("prefix-matching") && said.contains("untrained"), "{said}");
    let rows = table(&here.join("one/heads.csv"));
    let models: Vec<&String> = rows.iter().map(|row| &row["model"]).collect();
    assert!(
        models.iter().any(|model| *model == "trained") && models.iter().any(|model| *model == "untrained")
    );
    assert!(rows.iter().any(|row| row["weights"] == "norm-weighted"));

    let labels = table(&here.join("one/labels.csv"));
    let labelled: std::collections::BTreeSet<(&String, &String)> =
        labels.iter().map(|row| (&row["layer"], &row["head"])).collect();
    assert_eq!(labelled.len(), 4, "every head has a label, if only that it has none");

    let tokenizer = words(false);
    let texts =
        SENTENCES.map(|text| Ok(Tokens::from_encoding(&tokenizer.encode(text, Special::Keep).unwrap())));
    let model = checkpoint::load(&here.join("gpt")).unwrap().model;
    let expected = measure_heads(&*model, texts.into_iter(), HeadSettings::default()).unwrap();
    for row in &expected.rows {
        let same = rows.iter().find(|found| {
            found["model"] == "trained"
                && found["weights"] == "attention"
                && found["measure"] == row.measure.name()
                && (number(found, "layer") as usize, number(found, "head") as usize) == (row.layer, row.head)
        });
        let same = same.unwrap_or_else(|| panic!("no row for {row:?}"));
        for (column, value) in
            [("mean", row.mean), ("low", row.low), ("high", row.high), ("n", row.count as f64)]
        {
            match value.is_finite() {
                true => assert!((number(same, column) - value).abs() < 1e-5, "{row:?} {same:?}"),
                false => assert_eq!((same[column].as_str(), row.count), ("", 1), "one text has no spread"),
            }
        }
    }

    // Another number of threads: the same bytes. Another size of batches: the same to 1e-5.
    measured(here, "two", &["--batch", "1", "--norms"], "2");
    for file in ["heads.csv", "labels.csv", "distances.csv", "entropy.svg", "map.svg"] {
        let read = |out: &str| std::fs::read(here.join(out).join(file)).unwrap();
        assert!(read("one") == read("two"), "{file} differs");
    }
    measured(here, "batches", &["--batch", "4", "--norms"], "2");
    let others = table(&here.join("batches/heads.csv"));
    assert_eq!(rows.len(), others.len());
    for (row, other) in rows.iter().zip(&others) {
        for column in ["mean", "low", "high"].into_iter().filter(|&column| !row[column].is_empty()) {
            assert!((number(row, column) - number(other, column)).abs() < 1e-5, "{row:?} {other:?}");
        }
    }
}

#[test]
fn trees_of_the_built_in_corpus_and_of_a_treebank_are_matched() {
    let folder = tempdir().unwrap();
    let here = folder.path();
    gpt(&here.join("gpt"));
    let tree = "1\tthe\tthe\tDET\t_\t_\t2\tdet\t_\t_\n2\tcat\tcat\tNOUN\t_\t_\t3\tnsubj\t_\t_\n3\tsat\tsit\tVERB\t_\t_\t0\troot\t_\t_\n\n";
    let turned = "1\tsat\tsit\tVERB\t_\t_\t0\troot\t_\t_\n2\tthe\tthe\tDET\t_\t_\t3\tdet\t_\t_\n3\tcat\tcat\tNOUN\t_\t_\t1\tnsubj\t_\t_\n\n";
    std::fs::write(here.join("both.conllu"), tree.repeat(40) + &turned.repeat(40)).unwrap();
    std::fs::write(here.join("trees.conllu"), tree.repeat(40)).unwrap();
    let (model, trees, out) = (here.join("gpt"), here.join("trees.conllu"), here.join("out"));
    let said =
        run(&["heads", text(&model), "--limit", "3", "--treebank", text(&trees), "-o", text(&out)], "2");
    assert!(said.contains("no relation occurs"), "{said}"); // --limit counts sentences, too
    let said = run(&["heads", text(&model), "--corpus", text(&trees), "-o", text(&out)], "2");
    assert!(said.contains("det") && said.contains("nsubj"), "{said}");
    let rows = table(&out.join("syntax.csv"));
    // Two relations and "all", one direction (a causal model sees back only), four heads, two models.
    let heads = rows.iter().filter(|row| row["relation"] == "det" && row["model"] == "trained");
    for row in heads {
        assert_eq!((row["direction"].as_str(), row["pairs"].as_str()), ("to dependent", "40"));
        assert_eq!(row["sentences"], "40");
        assert!(
            number(row, "low") <= number(row, "accuracy") && number(row, "accuracy") <= number(row, "high")
        );
    }
    let offsets = table(&out.join("offsets.csv"));
    let det = offsets.iter().find(|row| row["relation"] == "det").unwrap();
    assert_eq!((det["offset"].as_str(), det["accuracy"].as_str()), ("-1", "1"));
    // Subjects before and after their verbs: a causal model sees other pairs each way, and is judged on both.
    let both = here.join("both.conllu");
    let said = run(&["heads", text(&model), "--corpus", text(&both), "-o", text(&out)], "2");
    let subjects = said.lines().filter(|line| line.starts_with("nsubj"));
    assert_eq!(subjects.count(), 2, "{said}");
    let said = run(&["heads", text(&model), "--limit", "2", "--length", "20", "-o", text(&out)], "2");
    assert!(said.contains("relation") || said.contains("no relation occurs"), "{said}");
}

#[test]
fn snapshots_become_curves() {
    let folder = tempdir().unwrap();
    let out = folder.path().join("run");
    let settings = [
        "data.texts=40",
        "model.n_layers=1",
        "model.n_heads=2",
        "model.d_model=16",
        "model.context=16",
        "train.steps=10",
        "train.batch_size=2",
        "train.evaluate_every=10",
        "run.snapshots=[0,5,10]",
    ]
    .map(|setting| format!("--set={setting}"));
    let mut arguments = vec!["train", "words-gpt", "--out", text(&out)];
    arguments.extend(settings.iter().map(String::as_str));
    run(&arguments, "2");
    let found = folder.path().join("found");
    let said = run(&["heads", text(&out), "--snapshots", "--norms", "--limit", "3", "-o", text(&found)], "2");
    assert!(said.contains("step 0") && said.contains("step 10"), "{said}");
    let rows = table(&found.join("snapshots.csv"));
    let steps: std::collections::BTreeSet<&String> = rows.iter().map(|row| &row["step"]).collect();
    assert_eq!(steps.len(), 3);
    assert!(rows.iter().any(|row| row["weights"] == "norm-weighted"));
    let syntax = table(&found.join("snapshots-syntax.csv"));
    assert!(syntax.iter().any(|row| row["step"] == "10" && row["relation"] == "nsubj"));
    assert!(found.join("steps-entropy.png").exists() && found.join("steps-syntax.png").exists());

    // The folder is used again: nothing of what was found before is left, and nothing else is touched.
    std::fs::write(found.join("mine.csv"), "a,b").unwrap();
    std::fs::write(folder.path().join("outside.csv"), "a,b").unwrap();
    let list = std::fs::read_to_string(found.join("contents.txt")).unwrap();
    std::fs::write(found.join("contents.txt"), list + "../outside.csv\n").unwrap();
    run(&["heads", text(&out), "--limit", "3", "-o", text(&found)], "2");
    assert!(!found.join("snapshots.csv").exists() && found.join("heads.csv").exists());
    assert!(found.join("mine.csv").exists() && folder.path().join("outside.csv").exists());
}

/// Of a T5 encoder, decoder and cross-attention; of a ViT its patches; with tables and figures as of any other model.
#[test]
fn encoder_decoder_models_and_pictures_have_heads_too() {
    let folder = tempdir().unwrap();
    let here = folder.path();
    t5(&here.join("t5"));
    corpus(&here.join("corpus.txt"));
    std::fs::write(here.join("answers.txt"), "Le chat dort.\nUn chien.\n").unwrap();
    let (model, lines, answers) = (here.join("t5"), here.join("corpus.txt"), here.join("answers.txt"));
    for (out, more) in [
        ("pairs", vec!["--limit", "3"]),
        ("own", vec!["--limit", "2", "--corpus", text(&lines)]),
        ("given", vec!["--limit", "2", "--corpus", text(&lines), "--answers", text(&answers)]),
    ] {
        let out = here.join(out);
        let said = run(&[&["heads", text(&model), "-o", text(&out)], &more[..]].concat(), "2");
        assert!(said.contains("\nencoder\n") && said.contains("\ncross\n"), "{said}");
        for (part, heads) in [("encoder", 2), ("decoder", 4), ("cross", 4)] {
            let rows = table(&out.join(part).join("heads.csv"));
            let trained = rows.iter().filter(|row| row["model"] == "trained" && row["measure"] == "entropy");
            assert_eq!(trained.count(), heads, "{part}");
        }
        run(&[&["ablate", text(&model), "-o", text(&out)], &more[..]].concat(), "2");
        assert!(table(&out.join("cross/ablation.csv")).iter().any(|row| number(row, "value") != 0.0));
    }
    let short = ["heads", text(&model), "--corpus", text(&lines), "--answers", text(&answers)];
    assert!(complaint(&short).0.contains("fewer lines"), "{:?}", complaint(&short));

    let sizes = VitConfig { n_layers: 1, n_heads: 2, d_model: 16, d_hidden: 20, ..VitConfig::default() };
    let vit = here.join("vit");
    checkpoint::save(&Transformer::new(sizes.form(), 1).unwrap(), &vit, &serde_json::Map::new()).unwrap();
    let out = here.join("pictures");
    run(&["heads", text(&vit), "--limit", "3", "-o", text(&out)], "2");
    assert!(table(&out.join("heads.csv")).iter().any(|row| row["measure"] == "first" && row["n"] == "3"));
    run(&["ablate", text(&vit), "--limit", "6", "-o", text(&out)], "2");
    assert!(table(&out.join("ablation.csv")).iter().any(|row| row["kind"] != "all"));
    let (problem, _) = complaint(&["heads", text(&vit), "--answers", text(&answers)]);
    assert!(problem.contains("is for encoder–decoder models"), "{problem}");
}

#[test]
fn mistakes_are_errors_of_one_line() {
    let folder = tempdir().unwrap();
    let here = folder.path();
    gpt(&here.join("gpt"));
    let model = here.join("gpt");
    std::fs::write(here.join("empty.txt"), "\n\n").unwrap();
    let (empty, out) = (here.join("empty.txt"), here.join("out"));
    let cases: [(&[&str], i32, &str); 8] = [
        (&["--corpus", "builtin"], 2, "did you mean built-in?"),
        (&["--corpus", "no/such/file.txt"], 1, "there is no file no/such/file.txt"),
        (&["--corpus", text(&empty)], 1, "no text of two tokens"),
        (&["--treebank", "no.conllu"], 1, "no.conllu: no such file"),
        (&["--length", "33"], 2, "reads 32 tokens at most"),
        (&["--length", "1"], 2, "--length"),
        (&["--batch", "0"], 2, "--batch"),
        (&["--snapshots"], 1, "kept no snapshots"),
    ];
    for (more, code, expected) in cases {
        let arguments = [&["heads", text(&model), "-o", text(&out)], more].concat();
        let (problem, found) = complaint(&arguments);
        assert!(found == code && problem.contains(expected), "{more:?}: {found} {problem}");
        assert!(
            code == 2 || problem.lines().filter(|line| line.starts_with("error")).count() == 1,
            "{problem}"
        );
    }
    assert!(!out.exists(), "a command that fails at once leaves nothing");
    assert_eq!(complaint(&["heads", "no-such-model"]).1, 1);
    assert_eq!(complaint(&["heads", "no-such-model", "--snapshots"]).1, 2);
}
