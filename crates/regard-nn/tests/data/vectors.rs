//! Word vectors.

use super::made::{Folder, gzip, problem};
use regard_nn::data::vectors::WordVectors;

#[test]
fn glove_gives_the_requested_words_and_counts_the_rest() {
    let folder = Folder::new();
    let path = folder.write("glove.txt", gzip("the 0.5 -1 2e-3\ncat 1 2 3\nof 0 0 0\ncat 9 9 9\n"));
    let vectors = WordVectors::open(path, &["cat", "dog", "the"]).expect("reading");
    assert_eq!(vectors.dimension(), 3);
    assert_eq!(vectors.vector(0), Some(&[1.0, 2.0, 3.0][..]));
    assert_eq!(vectors.vector(1), None);
    assert_eq!(vectors.vector(2), Some(&[0.5, -1.0, 0.002][..]));
    assert_eq!((vectors.found(), vectors.others(), vectors.vector(3)), (2, 2, None));
}

#[test]
fn words_may_contain_spaces_and_unusual_characters() {
    let folder = Folder::new();
    let path = folder.write("glove.txt", "a 1 2\nat name@domain.com 3 4\n\u{85} 5 6\n1 7 8\n. . . 9 10\n");
    let vectors = WordVectors::open(path, &["at name@domain.com", "\u{85}", "1", ". . ."]).expect("reading");
    let found: Vec<_> = (0..4).map(|word| vectors.vector(word).expect("a vector")[0]).collect();
    assert_eq!(found, [3.0, 5.0, 7.0, 9.0]);
}

#[test]
fn the_first_line_of_fasttext_must_match() {
    let folder = Folder::new();
    let path = folder.write("wiki.vec", "2 3\nthe 1 2 3 \ncat 4 5 6 \n");
    let vectors = WordVectors::open(&path, &["cat"]).expect("reading");
    assert_eq!((vectors.vector(0), vectors.others()), (Some(&[4.0, 5.0, 6.0][..]), 1));
    let open = |content: &str| problem(&folder, WordVectors::open(folder.write("w.vec", content), &["cat"]));
    assert!(open("3 3\nthe 1 2 3\ncat 4 5 6\n").contains("announces 3 words, but there are 2"));
    assert!(open("2 3\n").contains("no vectors"));
    assert!(open("2 99999999999\n").contains("got 99999999999"));
}

#[test]
fn errors_name_malformed_lines() {
    let folder = Folder::new();
    let open = |content: &[u8]| problem(&folder, WordVectors::open(folder.write("w", content), &["cat"]));
    assert_eq!(open(b"the 1 2\ndog 1\n"), "w, line 2: expected a word and 2 numbers, got 1");
    assert_eq!(open(b"the 1 2\ncat 1 x\n"), "w, line 2: expected a number, got \"x\"");
    assert_eq!(open(b"the 1 2\ncat 1 NaN\n"), "w, line 2: expected a number, got \"NaN\"");
    assert_eq!(open(b"the 1 2\ncat  2\n"), "w, line 2: expected a number, got \"\"");
    assert_eq!(open(b"the 1 2\n\xff 1 2\n"), "w, line 2: not UTF-8 at byte 0 of the line");
    assert_eq!(open(b"the 1 2\n\ncat 1 2\n"), "w, line 2: expected a word and 2 numbers, got 0");
    assert!(open(b"").contains("no vectors"));
    assert!(open(b"word\n").contains("line 1: expected a word and 1 to"));
}
