//! Parallel corpora.

use super::made::{Folder, gzip, problem};
use regard_nn::data::parallel::Parallel;

#[test]
fn lines_are_paired_and_empty_ones_are_left_out() {
    let folder = Folder::new();
    let english = folder.write("a.en", gzip("One.\n\n Three. \nFour.\n\n"));
    let german = folder.write("a.de", "Eins.\nZwei.\nDrei.\r\n \n\n");
    let parallel = Parallel::open(english, german).expect("reading");
    let pairs: Vec<_> = parallel.pairs.iter().map(|p| (p.source.as_str(), p.target.as_str())).collect();
    assert_eq!(pairs, [("One.", "Eins."), ("Three.", "Drei.")]);
    assert_eq!(parallel.empty, 3);
}

#[test]
fn different_numbers_of_lines_are_an_error_that_names_both() {
    let folder = Folder::new();
    let long = folder.write("long", "a\nb\nc\n");
    let short = folder.write("short", "a\n");
    let expected =
        |path: &std::path::Path| format!("short: it has 1 lines, but {} has 3: they must be", path.display());
    let found = problem(&folder, Parallel::open(&long, &short));
    let expected = expected(&long).replace(&format!("{}/", folder.path().display()), "");
    assert!(found.starts_with(&expected), "{found}");
    assert!(problem(&folder, Parallel::open(&short, &long)).starts_with(&expected));
}

#[test]
fn empty_files_and_wrong_bytes_are_errors() {
    let folder = Folder::new();
    let empty = folder.write("empty", "");
    assert!(problem(&folder, Parallel::open(&empty, &empty)).contains("no pairs"));
    let blank = folder.write("blank", "\n\n");
    assert!(problem(&folder, Parallel::open(&blank, &blank)).contains("no pairs"));
    let wrong = folder.write("wrong", b"fine\n\xc3\n");
    let right = folder.write("right", "gut\nja\n");
    assert_eq!(
        problem(&folder, Parallel::open(&right, &wrong)),
        "wrong, line 2: not UTF-8 at byte 0 of the line"
    );
}
