//! Files: gzip, limits, lines and errors.

use super::made::{Folder, gzip, problem};
use regard_nn::data::file::{InputFile, LINE_LIMIT, Lines, expansion_limit};
use std::path::Path;

fn lines(path: &Path) -> regard_nn::Result<Vec<String>> {
    let mut lines = Lines::open(path)?;
    let mut all = Vec::new();
    while let Some(line) = lines.next()? {
        all.push(line.to_owned());
    }
    assert_eq!(lines.number(), all.len());
    Ok(all)
}

#[test]
fn gzip_is_detected_by_its_first_bytes_and_may_have_several_members() {
    let folder = Folder::new();
    let plain = folder.write("a.gz", "one\ntwo\n");
    assert_eq!(lines(&plain).expect("lines"), ["one", "two"]);
    let members = [gzip("one\n"), gzip("two\nth"), gzip("ree\n")].concat();
    let compressed = folder.write("b.txt", members);
    assert_eq!(lines(&compressed).expect("lines"), ["one", "two", "three"]);
}

#[test]
fn only_line_feeds_end_lines() {
    let folder = Folder::new();
    let path = folder.write("a", "\u{feff}a\r\nb\u{85}c\u{2028}d\n\n\u{feff}e");
    assert_eq!(lines(&path).expect("lines"), ["a", "b\u{85}c\u{2028}d", "", "\u{feff}e"]);
}

#[test]
fn truncated_and_damaged_gzip_is_an_error() {
    let folder = Folder::new();
    let whole = gzip("some text that is long enough to be cut\n".repeat(50));
    for end in [10, whole.len() / 2, whole.len() - 8, whole.len() - 1] {
        let path = folder.write("cut.gz", &whole[..end]);
        let problem = problem(&folder, lines(&path));
        assert!(problem.contains("is the file incomplete?"), "at {end}: {problem}");
    }
    let mut damaged = whole.clone();
    let last = damaged.len() - 6;
    damaged[last] ^= 0xff;
    let path = folder.write("damaged.gz", damaged);
    assert!(problem(&folder, lines(&path)).contains("damaged"));
    let path = folder.write("garbage.gz", [whole, b"garbage after the end".to_vec()].concat());
    assert!(problem(&folder, lines(&path)).contains("damaged"));
}

#[test]
fn a_decompression_bomb_is_stopped() {
    let folder = Folder::new();
    // 300 MiB of zeros in under a megabyte, in several members, so that the limit must cover all of them.
    let member = gzip(vec![0; 30 << 20]);
    let bomb = member.repeat(10);
    assert!(bomb.len() < 1 << 20);
    let path = folder.write("bomb.gz", &bomb);
    let mut source = InputFile::open(&path).expect("a file");
    let mut buffer = vec![0; 1 << 20];
    let mut total = 0;
    let error = loop {
        match source.fill(&mut buffer) {
            Ok(0) => panic!("it was read to its end"),
            Ok(count) => total += count as u64,
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("larger than the 268435456 bytes"), "{error}");
    assert!(total <= expansion_limit(bomb.len() as u64));
    assert_eq!(expansion_limit(10 << 20), 2000 << 20);
}

#[test]
fn limits_apply_to_plain_files() {
    let folder = Folder::new();
    let path = folder.write("a", "12345");
    let read = |limit| InputFile::open_limited(&path, limit).and_then(|mut source| source.fill(&mut [0; 10]));
    assert_eq!(read(5), Ok(5));
    assert!(problem(&folder, read(4)).contains("larger than the 4 bytes"));
}

#[test]
fn errors_name_lines_that_are_too_long_or_not_utf_8() {
    let folder = Folder::new();
    let path = folder.write("a", b"fine\nno\xfft\n");
    assert_eq!(problem(&folder, lines(&path)), "a, line 2: not UTF-8 at byte 2 of the line");
    let path = folder.write("long", "x".repeat(LINE_LIMIT) + "\n" + &"y".repeat(LINE_LIMIT + 1));
    assert_eq!(problem(&folder, lines(&path)), format!("long, line 2: longer than {LINE_LIMIT} bytes"));
}

#[test]
fn missing_files_and_folders_are_errors() {
    let folder = Folder::new();
    let missing = folder.path().join("none");
    assert_eq!(problem(&folder, InputFile::open(&missing)), "none: no such file");
    folder.write("inner/a", "x");
    assert_eq!(
        problem(&folder, InputFile::open(folder.path().join("inner"))),
        "inner: expected a file, this is a folder"
    );
    let empty = folder.write("empty", "");
    assert_eq!(lines(&empty).expect("lines"), Vec::<String>::new());
}

/// A file of one line is valid where one line is enough, and an error otherwise.
#[test]
fn files_of_one_line() {
    use regard_nn::data::{parallel::Parallel, table, text::TokenStream, treebank, vectors::WordVectors};
    use regard_nn::tokens::{Tokenizer, UnknownCharacter};
    let folder = Folder::new();
    let line = folder.write("line", "one line");
    assert_eq!(lines(&line).expect("lines"), ["one line"]);
    let tokenizer = Tokenizer::characters(["one line"], UnknownCharacter::Error).expect("training");
    assert_eq!(TokenStream::read(&[&line], &tokenizer).expect("ids").len(), 8);
    assert_eq!(Parallel::open(&line, &line).expect("a pair").pairs.len(), 1);
    let columns = table::Columns::default();
    let table = |content: &str| {
        problem(&folder, table::read(folder.write("t", content), table::Format::Tsv, &columns))
    };
    assert_eq!(table("sentence\tlabel"), "t: there are no lines after the header");
    assert!(table("sentence\tlabel\nx\t1").contains("one class only"));
    let word = folder.write("w", "1\tGo\tgo\tVERB\t_\t_\t0\troot\t_\t_");
    assert_eq!(treebank::read(word).expect("a sentence")[0].text, "Go");
    let vector = folder.write("v", "cat 1 2");
    assert_eq!(WordVectors::open(vector, &["cat"]).expect("a vector").dimension(), 2);
}
