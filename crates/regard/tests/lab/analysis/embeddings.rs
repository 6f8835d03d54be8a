//! `regard embeddings`.

use super::made::{gpt, number, run, table};
use crate::checkpoints::made::{complaint, text, vit};
use tempfile::tempdir;

#[test]
fn words_have_places_and_neighbours() {
    let folder = tempdir().unwrap();
    let here = folder.path();
    gpt(&here.join("gpt"));
    let (model, out) = (here.join("gpt"), here.join("out"));
    let said = run(
        &[
            "embeddings",
            text(&model),
            "--words",
            "cat,dog",
            "--words",
            "red,old",
            "--near",
            "cat",
            "--count",
            "3",
            "-o",
            text(&out),
        ],
        "2",
    );
    assert!(said.contains("nearest to cat"), "{said}");
    let near = said.lines().skip_while(|line| !line.starts_with("nearest")).skip(1);
    let cosines: Vec<f64> =
        near.map(|line| line.split_whitespace().last().unwrap().parse().unwrap()).collect();
    assert_eq!(cosines.len(), 3);
    assert!(cosines.windows(2).all(|pair| pair[0] >= pair[1]));
    let rows = table(&out.join("components.csv"));
    let groups: Vec<(&str, f64)> =
        rows.iter().map(|row| (row["token"].as_str(), number(row, "group"))).collect();
    assert_eq!(groups, [("cat", 0.0), ("dog", 0.0), ("red", 1.0), ("old", 1.0)]);
    run(&["embeddings", text(&model), "-o", text(&out)], "2");
    assert!(table(&out.join("components.csv")).len() > 10);
    // The same for word vectors, with fastText's first line or without.
    for header in ["", "4 2\n"] {
        let vectors = here.join("vectors.txt");
        std::fs::write(&vectors, format!("{header}a 1 0\nb 0.9 0.1\nc 0 1\nd -1 0\n")).unwrap();
        let said = run(&["embeddings", text(&vectors), "--near", "a", "--count", "1", "-o", text(&out)], "2");
        assert!(said.starts_with("4 vectors of width 2"), "{said}");
        assert!(said.lines().last().unwrap().starts_with("  b  0.99"), "{said}");
        assert_eq!(complaint(&["embeddings", text(&vectors), "--near", "z"]).1, 2);
    }
    let (problem, code) = complaint(&["embeddings", text(&model), "--near", "zebra"]);
    assert!(code == 2 && problem.contains("no single token"), "{problem}");
    vit(&here.join("vit"));
    let vit = here.join("vit");
    assert_eq!(complaint(&["embeddings", text(&vit)]).1, 1);
}
