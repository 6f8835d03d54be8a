//! Measuring at the command line: on which part of which data, and whose classes.

use crate::train::{SMALL, fails, regard, stderr, succeeds};
use std::path::Path;
use std::process::Output;
use tempfile::TempDir;

fn said(output: &Output) -> String {
    succeeds(output);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A bag that has learned which of two words is in a text.
fn bag(folder: &Path) {
    // Equal texts are never on both sides of a split: numbers tell these apart.
    let row = |i: usize| match i % 2 {
        0 => format!("{i} a fine film\tpositive\n"),
        _ => format!("{i} a dull film\tnegative\n"),
    };
    let rows: String = (0..80).map(row).collect();
    std::fs::write(folder.join("reviews.tsv"), format!("sentence\tlabel\n{rows}")).unwrap();
    let more = ["--set=train.steps=60", "--set=tokens.size=20", "--set=data.held_out=0.5"];
    succeeds(&regard(folder, &[&["train", "bag", "--data=reviews.tsv", "--out=bag"], &more[..]].concat()));
}

#[test]
fn classes_are_matched_by_name() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    bag(path);
    let measured = |file: &str, rows: &str| {
        std::fs::write(path.join(file), format!("sentence\tlabel\n{rows}")).unwrap();
        regard(path, &["eval", "bag", "--data", file])
    };
    // In alphabetical order the names would be the other way round.
    let output = measured("renamed.tsv", "a fine film\tPOS\na dull film\tneg\n");
    assert!(said(&output).contains("accuracy    1.0000"), "{}", said(&output));
    assert!(stderr(&output).contains("neg for negative"), "{}", stderr(&output));
    let output = measured("numbers.tsv", "a fine film\t1\na dull film\t0\n");
    assert!(said(&output).contains("accuracy    1.0000"), "{}", said(&output));
    assert!(stderr(&output).contains("1 for positive"), "{}", stderr(&output));
    let line = fails(&measured("other.tsv", "a fine film\tgood\na dull film\tbad\n"), 1);
    assert!(line.contains("classes bad, good") && line.contains("it knows negative, positive"), "{line}");
}

#[test]
fn a_model_is_not_measured_on_what_it_learned() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    bag(path);
    // Without --data, and with the very file: what was held out.
    for arguments in [&["eval", "bag"][..], &["eval", "bag", "--data=reviews.tsv"]] {
        let found = said(&regard(path, arguments));
        assert!(found.contains("reviews.tsv, the 50 % of it that was held out"), "{found}");
        assert!(found.contains("examples    40"), "{found}");
    }
    // A file is the same whatever folder it was named by.
    std::fs::create_dir(path.join("tables")).unwrap();
    std::fs::copy(path.join("reviews.tsv"), path.join("tables/train.tsv")).unwrap();
    let more = ["--set=train.steps=2", "--set=tokens.size=20", "--set=data.held_out=0.5"];
    succeeds(&regard(path, &[&["train", "bag", "--data=tables", "--out=of-folder"], &more[..]].concat()));
    let found = said(&regard(path, &["eval", "of-folder", "--data=tables/train.tsv"]));
    assert!(found.contains("examples    40") && found.contains("held out"), "{found}");
    let text = "the cat sat on the mat and the dog sat by the door ".repeat(30);
    std::fs::create_dir(path.join("text")).unwrap();
    for (part, times) in [("train", 4), ("valid", 1), ("test", 2)] {
        std::fs::write(path.join(format!("text/{part}.txt")), text.repeat(times)).unwrap();
    }
    let small: Vec<&str> =
        SMALL.iter().copied().filter(|argument| !argument.contains("data.texts")).collect();
    succeeds(&regard(
        path,
        &[&["train"], &small[..], &["--data=text", "--out=gpt", "--set=train.steps=2"]].concat(),
    ));
    let whole = said(&regard(path, &["eval", "gpt"]));
    assert!(whole.contains("text/test.txt\n") && whole.contains("tokens      779"), "{whole}");
    let some = said(&regard(path, &["eval", "gpt", "--limit=3"]));
    assert!(some.contains("tokens      48"), "{some}");
    let other = said(&regard(path, &["eval", "gpt", "--data=text/valid.txt"]));
    assert!(other.contains("text/valid.txt\n"), "{other}");
    let learned = said(&regard(path, &["eval", "gpt", "--data=text/train.txt"]));
    assert!(learned.contains("text/train.txt, which the model has learned from\n"), "{learned}");
}

#[test]
fn a_language_model_is_measured_at_the_length_it_learned() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let text = "the cat sat on the mat and the dog sat by the door ".repeat(80);
    std::fs::write(path.join("text.txt"), text).unwrap();
    let small: Vec<&str> =
        SMALL.iter().copied().filter(|argument| !argument.contains("data.texts")).collect();
    let more = ["--data=text.txt", "--out=gpt", "--set=data.length=8", "--set=train.steps=20"];
    let output = regard(path, &[&["train"], &small[..], &more].concat());
    succeeds(&output);
    let trained = stderr(&output);
    let loss = trained.split("held-out loss ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let found = said(&regard(path, &["eval", "gpt"]));
    assert!(found.contains(&format!("loss        {loss}")), "{trained}\n{found}");
}

#[test]
fn some_of_many_are_of_all_classes() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    bag(path);
    // By turns: every second row would be of one class.
    let row =
        |i: usize| if i.is_multiple_of(2) { "a fine film\tpositive\n" } else { "a dull film\tnegative\n" };
    let rows: String = (0..60).map(row).collect();
    std::fs::write(path.join("turns.tsv"), format!("sentence\tlabel\n{rows}")).unwrap();
    let found = said(&regard(path, &["eval", "bag", "--data=turns.tsv", "--limit=20"]));
    assert!(found.contains("examples    20"), "{found}");
    let rows = found.lines().filter(|line| line.starts_with("negative") || line.starts_with("positive"));
    let sums = rows.map(|row| row.split_whitespace().filter_map(|count| count.parse::<usize>().ok()).sum());
    let sums: Vec<usize> = sums.collect();
    assert!(sums.len() == 2 && sums.iter().all(|&count| count >= 5), "both classes are there: {found}");
}

#[test]
fn the_limit_sets_the_number_of_pictures() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let small = [
        "--set=model.n_layers=1",
        "--set=model.d_model=16",
        "--set=model.n_heads=2",
        "--set=model.d_hidden=16",
    ];
    let more = ["--data=pictures", "--out=run", "--set=train.steps=2", "--set=model.image=[4, 4]"];
    // Two of each digit in each hundred; the test part is there, but nothing is learned or chosen by it.
    let idx = |name: &str, count: u32, extra: &[u32], values: Vec<u8>| {
        let mut bytes = vec![0, 0, 8, 1 + extra.len() as u8];
        bytes.extend([&[count], extra].concat().iter().flat_map(|length| length.to_be_bytes()));
        bytes.extend(values);
        std::fs::create_dir_all(path.join("pictures")).unwrap();
        std::fs::write(path.join("pictures").join(name), bytes).unwrap();
    };
    for (part, count) in [("train", 100_u32), ("t10k", 30)] {
        idx(
            &format!("{part}-images-idx3-ubyte"),
            count,
            &[4, 4],
            (0..16 * count).map(|i| (i % 251) as u8).collect(),
        );
        idx(&format!("{part}-labels-idx1-ubyte"), count, &[], (0..count).map(|i| (i % 10) as u8).collect());
    }
    let output = regard(path, &[&["train", "digits"], &small[..], &more].concat());
    succeeds(&output);
    assert!(stderr(&output).contains("90 images to learn from, 10 held out"), "{}", stderr(&output));
    let found = said(&regard(path, &["eval", "run", "--limit=7"]));
    assert!(found.contains("its test part (t10k)") && found.contains("examples    7"), "{found}");
    // The test part is not needed to learn.
    std::fs::remove_file(path.join("pictures/t10k-images-idx3-ubyte")).unwrap();
    succeeds(&regard(path, &["train", "--resume", "--out=run"]));
}
