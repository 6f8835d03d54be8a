//! `regard influence`.

use super::made::{bert, corpus, gpt, number, run, sentiment, table};
use crate::checkpoints::made::{complaint, t5, text};
use regard_nn::checkpoint;
use regard_nn::models::{Transformer, VitConfig};
use tempfile::tempdir;

#[test]
fn a_corpus_tells_how_far_each_method_can_be_trusted() {
    let folder = tempdir().unwrap();
    let here = folder.path();
    corpus(&here.join("corpus.txt"));
    let lines = here.join("corpus.txt");
    for (name, make) in [("gpt", gpt as fn(&std::path::Path)), ("bert", bert), ("sentiment", sentiment)] {
        let (model, out) = (here.join(name), here.join(format!("{name}-out")));
        make(&model);
        let arguments = ["influence", text(&model), "--corpus", text(&lines), "-o", text(&out)];
        let said = run(&arguments, "2");
        assert!(said.contains("gradient-attention") && said.contains("rollout"), "{said}");
        let rows = table(&out.join("faithfulness.csv"));
        assert_eq!(rows.len(), 2 * 5);
        for row in rows.iter().filter(|row| row["n"] != "0") {
            assert!((-1.0..=1.0).contains(&number(row, "rank_correlation")), "{row:?}");
            assert!(number(row, "low") <= number(row, "high"));
        }
        assert!(out.join("words-0.png").exists());
        let again = here.join(format!("{name}-again"));
        run(&["influence", text(&model), "--corpus", text(&lines), "-o", text(&again)], "1");
        let read = |folder: &std::path::Path| std::fs::read(folder.join("faithfulness.csv")).unwrap();
        assert!(read(&out) == read(&again), "threads make a difference");
    }
}

#[test]
fn a_prompt_is_taken_apart_and_the_parts_sum_to_the_answer() {
    let folder = tempdir().unwrap();
    let here = folder.path();
    gpt(&here.join("gpt"));
    let (model, out) = (here.join("gpt"), here.join("out"));
    let said = run(
        &[
            "influence",
            text(&model),
            "--text",
            "the old cat sat on the",
            "--answer",
            "mat",
            "--other",
            "a red dog sat on a",
            "--other-answer",
            "dog",
            "-o",
            text(&out),
        ],
        "2",
    );
    assert!(said.contains("answer: mat") && said.contains("heads that bring it back"), "{said}");
    assert!(said.contains("logit of “mat” minus that of “dog”"), "{said}");
    let by_place = table(&out.join("patching-heads-by-position.csv"));
    assert_eq!(by_place.len(), 4 * 6, "four heads at six places");
    let parts = table(&out.join("contributions.csv"));
    let sum: f64 = parts.iter().map(|row| number(row, "logit")).sum();
    let shown = said.lines().find(|line| line.starts_with("the logit of")).unwrap();
    let logit: f64 = shown.split(" is ").nth(1).unwrap().split(';').next().unwrap().parse().unwrap();
    assert!((sum - logit).abs() < 0.01, "{sum} {logit}");
    let lens = table(&out.join("lens.csv"));
    assert_eq!(lens.iter().filter(|row| row["rank"] == "1").count(), 3); // embeddings and two layers
    let places = table(&out.join("patching-positions.csv"));
    assert_eq!(places.len(), 2 * 6);
    // The whole stream before the first layer at the place that differs most must bring something back; at places that are
    // the same, nothing.
    let same = places.iter().find(|row| row["layer"] == "0" && row["token"] == "sat").unwrap();
    assert!(number(same, "restored").abs() < 1e-5, "{same:?}");
    let values = table(&out.join("influence.csv"));
    // The place of the answer cannot be deleted.
    assert_eq!(values.iter().filter(|row| row["method"] == "blank-out").count(), 5);
}

/// A T5's answer rests on what it read, a ViT's on its patches.
#[test]
fn encoder_decoder_models_and_pictures_are_explained_too() {
    let folder = tempdir().unwrap();
    let here = folder.path();
    t5(&here.join("t5"));
    corpus(&here.join("corpus.txt"));
    let (model, lines, out) = (here.join("t5"), here.join("corpus.txt"), here.join("out"));
    run(&["influence", text(&model), "--corpus", text(&lines), "--limit", "3", "-o", text(&out)], "2");
    let rows = table(&out.join("faithfulness.csv"));
    assert!(rows.iter().any(|row| row["method"] == "rollout" && row["n"] == "3"), "{rows:?}");
    let asked = ["influence", text(&model), "--text", "The cat sat.", "--place", "1", "-o", text(&out)];
    let said = run(&asked, "2");
    assert!(said.contains("rollout"), "{said}");
    let rows = table(&out.join("influence.csv"));
    let blanked = rows.iter().filter(|row| row["method"] == "blank-out").count();
    let rolled = rows.iter().filter(|row| row["method"] == "rollout").count();
    assert_eq!(
        rolled - blanked,
        2 + 1,
        "the start, what was said, and the mark at the end are not taken away"
    );
    let (problem, code) = complaint(&[&asked[..5], &["400", "-o", text(&out)]].concat());
    assert!(code == 2 && problem.contains("none at 400"), "{problem}");

    let sizes = VitConfig { n_layers: 1, n_heads: 2, d_model: 16, d_hidden: 20, ..VitConfig::default() };
    let vit = here.join("vit");
    checkpoint::save(&Transformer::new(sizes.form(), 1).unwrap(), &vit, &serde_json::Map::new()).unwrap();
    let out = here.join("pictures");
    run(&["influence", text(&vit), "--limit", "3", "-o", text(&out)], "2");
    assert!(out.join("words-0.png").exists());
    assert!(table(&out.join("faithfulness.csv")).iter().any(|row| row["n"] == "3"));
    let (problem, code) = complaint(&["influence", text(&vit), "--text", "a cat", "-o", text(&out)]);
    assert!(code == 2 && problem.contains("--image"), "{problem}");
}

#[test]
fn masks_classes_and_mistakes() {
    let folder = tempdir().unwrap();
    let here = folder.path();
    gpt(&here.join("gpt"));
    bert(&here.join("bert"));
    sentiment(&here.join("sentiment"));
    let (says, guesses, classes, out) =
        (here.join("gpt"), here.join("bert"), here.join("sentiment"), here.join("out"));
    let said =
        run(&["influence", text(&guesses), "--text", "the [MASK] sat on the mat.", "-o", text(&out)], "2");
    assert!(said.contains("would answer") && said.contains("flow"), "{said}");
    let short = ["influence", text(&guesses), "--text", "the [MASK] sat on the mat.", "--flow-limit", "4"];
    run(&[&short[..], &["-o", text(&out)]].concat(), "2");
    assert!(table(&out.join("influence.csv")).iter().all(|row| row["method"] != "flow"));
    let said = run(
        &[
            "influence",
            text(&classes),
            "--text",
            "the cat was not red",
            "--answer",
            "negative",
            "-o",
            text(&out),
        ],
        "2",
    );
    assert!(said.contains("answer: negative"), "{said}");
    let cases: [(&[&str], i32, &str); 6] = [
        (&[text(&guesses), "--text", "the cat sat"], 2, "write [MASK]"),
        (&[text(&classes), "--text", "a cat", "--answer", "good"], 2, "the classes are negative, positive"),
        (&[text(&says), "--text", "the cat", "--answer", "zebra"], 2, "no single token"),
        (&[text(&says), "--text", "the cat", "--other", "the old cat"], 2, "as many tokens"),
        (&[text(&says), "--text", "cat"], 2, "at least two tokens"),
        (&[text(&says), "--answer", "cat"], 2, "--text"),
    ];
    for (more, code, expected) in cases {
        let (problem, found) = complaint(&[&["influence"], more, &["-o", text(&out)]].concat());
        assert!(found == code && problem.contains(expected), "{more:?}: {found} {problem}");
    }
}
