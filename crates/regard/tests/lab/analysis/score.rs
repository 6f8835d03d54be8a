//! `regard score`.

use super::made::{gpt, number, run, table};
use crate::checkpoints::made::{complaint, text};
use regard::forward_pass::score_parts::named_parts;
use regard::forward_pass::{ForwardPass, Input};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tempfile::tempdir;

#[test]
fn the_pairs_of_writers_add_up_to_the_score() {
    let folder = tempdir().unwrap();
    let (model, out) = (folder.path().join("gpt"), folder.path().join("out"));
    gpt(&model);
    let prompt = "the old cat sat on the";
    let place = ["--layer", "1", "--head", "1", "--query", "4", "--key", "2", "-o", text(&out)];
    let said = run(&[&["score", text(&model), prompt][..], &place].concat(), "2");
    let opened = Arc::new(regard::model::open(text(&model)).unwrap());
    let input = Input::Text(prompt.to_owned(), String::new());
    let pass = ForwardPass::new(&opened, &input, 100, &AtomicBool::new(false)).unwrap();
    let site = pass.sites().iter().position(|site| site.layer == 1).unwrap();
    let parts = named_parts(&pass, site, 1, (4, 2)).unwrap();
    let rows = table(&out.join("score.csv"));
    let sum: f64 = rows.iter().map(|row| number(row, "part")).sum();
    assert!((sum - parts.score).abs() < 1e-5, "{sum} is not {}", parts.score);
    assert!(rows.len() >= parts.writers.len().pow(2), "{}", rows.len());
    assert!(
        rows.windows(2).take(5).all(|two| number(&two[0], "part").abs() >= number(&two[1], "part").abs())
    );
    assert!(said.contains("in the query") && said.contains("sum") && said.contains("embeddings"), "{said}");
    // By default the last token and its strongest key.
    let usual = run(&["score", text(&model), prompt, "--layer", "0", "--head", "0", "-o", text(&out)], "2");
    assert!(usual.contains("(5) →"), "{usual}");
    let (wrong, code) =
        complaint(&["score", text(&model), prompt, "--layer", "0", "--head", "99", "-o", text(&out)]);
    assert!(wrong.contains("there is no head 99") && code == 2, "{wrong}");
}
