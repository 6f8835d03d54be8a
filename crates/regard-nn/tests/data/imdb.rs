//! The review archive and folder.

use super::made::{Folder, gzip, problem};
use regard_nn::data::imdb::{Duplicates, Imdb, REVIEW_LIMIT, clean};
use regard_nn::tensor::random::Key;

/// A tar archive of files, in the order given.
fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, *content).expect("memory");
    }
    builder.into_inner().expect("memory")
}

/// A miniature of the data set, with the other files of the original, out of order.
const FILES: [(&str, &[u8]); 16] = [
    ("aclImdb/README", b"read me"),
    ("aclImdb/imdb.vocab", b"the\nand\n"),
    ("aclImdb/test/urls_pos.txt", b"http://example.org/1_9.txt"),
    ("aclImdb/test/pos/10_9.txt", b"A test, liked."),
    ("aclImdb/test/pos/2_10.txt", b"Liked once.<br /><br />Liked twice."),
    ("aclImdb/test/neg/0_1.txt", b"Hated."),
    ("aclImdb/train/unsup/0_0.txt", b"Nobody knows."),
    ("aclImdb/train/labeledBow.feat", b"9 0:9 1:1"),
    ("aclImdb/train/pos/1_7.txt", b"Fine."),
    ("aclImdb/train/pos/0_9.txt", b"Great."),
    ("aclImdb/train/pos/._0_9.txt", b"\xff resource fork"),
    ("aclImdb/train/neg/3_4.txt", b"Hated."),
    ("aclImdb/train/neg/11_2.txt", b"Bad \xc2\x85 very bad."),
    ("aclImdb/train/neg/2_3.txt", b"Fine."),
    ("aclImdb/train/neg/4_1.txt", b"Dull."),
    ("aclImdb/train/neg/notes.txt", b"not a review"),
];

fn texts(split: &regard_nn::data::Labelled) -> Vec<(&str, usize)> {
    split.examples.iter().map(|example| (example.text.as_str(), example.label)).collect()
}

fn assert_read(imdb: &Imdb) {
    assert_eq!(imdb.train.classes, ["neg", "pos"]);
    assert_eq!(
        texts(&imdb.train),
        [("Fine.", 0), ("Hated.", 0), ("Dull.", 0), ("Bad … very bad.", 0), ("Great.", 1), ("Fine.", 1)]
    );
    assert_eq!(texts(&imdb.test), [("Hated.", 0), ("Liked once.\nLiked twice.", 1), ("A test, liked.", 1)]);
    assert_eq!(imdb.duplicates, Duplicates { train: 1, test: 0, across: 1 });
}

#[test]
fn the_order_of_the_archive_has_no_effect() {
    let folder = Folder::new();
    assert_read(&Imdb::open(folder.write("a.tar.gz", gzip(tar(&FILES)))).expect("reading"));
    let mut reversed = FILES;
    reversed.reverse();
    assert_read(&Imdb::open(folder.write("a.tar", tar(&reversed))).expect("reading"));
}

#[test]
fn the_folder_gives_the_same_data_as_the_archive() {
    let folder = Folder::new();
    for (name, content) in FILES {
        folder.write(name, content);
    }
    assert_read(&Imdb::open(folder.path()).expect("reading"));
    assert_read(&Imdb::open(folder.path().join("aclImdb")).expect("reading"));
    std::fs::remove_dir_all(folder.path().join("aclImdb/test/neg")).expect("a folder");
    let problem = problem(&folder, Imdb::open(folder.path()));
    assert!(problem.starts_with("aclImdb/test/neg: no such folder"), "{problem}");
}

#[test]
fn a_truncated_archive_is_an_error_wherever_it_ends() {
    let folder = Folder::new();
    let whole = gzip(tar(&FILES));
    for end in (0..whole.len()).step_by(7).chain([whole.len() - 1]) {
        let path = folder.write("a.tar.gz", &whole[..end]);
        assert!(Imdb::open(path).is_err(), "at {end}");
    }
    let path = folder.write("a.tar.gz", &whole[..whole.len() - 9]);
    assert!(problem(&folder, Imdb::open(path)).contains("incomplete"));
    let whole = tar(&FILES);
    let path = folder.write("a.tar", &whole[..700]);
    assert!(Imdb::open(path).is_err());
}

#[test]
fn an_archive_without_reviews_says_what_was_expected() {
    let folder = Folder::new();
    let other = folder.write("other.tar.gz", gzip(tar(&[("a/b.txt", b"x")])));
    assert!(problem(&folder, Imdb::open(other)).contains("no reviews in train/neg"));
    let only = [("train/neg/0_1.txt", &b"x"[..]), ("train/pos/0_9.txt", b"y"), ("test/pos/0_9.txt", b"y")];
    let half = folder.write("half.tar", tar(&only));
    assert!(problem(&folder, Imdb::open(half)).contains("no reviews in test/neg"));
    let empty = folder.write("empty.tar", "");
    assert!(Imdb::open(empty).is_err());
    let text = folder.write("text.tar", "This is not an archive. ".repeat(100));
    assert!(problem(&folder, Imdb::open(text)).contains("not a tar archive"));
    let mut twice = FILES.to_vec();
    twice.push(FILES[3]);
    let twice = folder.write("twice.tar", tar(&twice));
    assert!(problem(&folder, Imdb::open(twice)).contains("test/pos/10_9.txt occurs twice"));
}

#[test]
fn a_review_that_is_too_long_or_not_text_is_named() {
    let folder = Folder::new();
    let long = vec![b'x'; REVIEW_LIMIT as usize + 1];
    let path = folder.write("a.tar", tar(&[("train/pos/0_9.txt", &long)]));
    let message = problem(&folder, Imdb::open(path));
    assert!(message.starts_with("a.tar, train/pos/0_9.txt: it has 1048577 bytes"), "{message}");
    let path = folder.write("b.tar", tar(&[("train/pos/0_9.txt", b"ab\xff")]));
    assert_eq!(problem(&folder, Imdb::open(path)), "b.tar, train/pos/0_9.txt: not UTF-8 at byte 2");
}

#[test]
fn long_names_and_links_in_an_archive_are_ignored() {
    let folder = Folder::new();
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    builder.append_link(&mut header, "aclImdb/train/pos/99_9.txt", "/etc/passwd").expect("memory");
    let mut header = tar::Header::new_gnu();
    header.set_size(1);
    builder.append_data(&mut header, "x/".repeat(200) + "a.txt", &b"x"[..]).expect("memory");
    for (name, content) in FILES {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, name, content).expect("memory");
    }
    let path = folder.write("a.tar", builder.into_inner().expect("memory"));
    assert_read(&Imdb::open(path).expect("reading"));
}

#[test]
fn cleaning_changes_only_breaks_and_control_characters() {
    assert_eq!(clean("a<br />b"), "a\nb");
    assert_eq!(clean("  a <br><BR/> <br  /> b <br />"), "a\nb");
    assert_eq!(clean("<br />a<brr>b <i>c</i> 1 < 2"), "a<brr>b <i>c</i> 1 < 2");
    assert_eq!(clean("it\u{92}s 5\u{80} \u{96} caf\u{e9}\u{85}"), "it’s 5€ – café…");
    assert_eq!(clean("<"), "<");
    assert_eq!(clean("<br"), "<br");
    assert_eq!(clean("<é>"), "<é>");
    assert_eq!(clean(""), "");
}

#[test]
fn the_validation_split_comes_from_train_and_keeps_duplicates_together() {
    let folder = Folder::new();
    let mut files: Vec<(String, String)> = Vec::new();
    for class in ["pos", "neg"] {
        for number in 0..100 {
            // Every tenth review is a copy of the one before it.
            let text = format!("{class} review {}", if number % 10 == 9 { number - 1 } else { number });
            files.push((format!("train/{class}/{number}_5.txt"), text));
        }
        files.push((format!("test/{class}/0_5.txt"), format!("{class} test")));
    }
    let files: Vec<(&str, &[u8])> =
        files.iter().map(|(name, text)| (name.as_str(), text.as_bytes())).collect();
    let imdb = Imdb::open(folder.write("a.tar", tar(&files))).expect("reading");
    assert_eq!(imdb.duplicates, Duplicates { train: 20, test: 0, across: 0 });
    let (train, validation) = imdb.train.clone().hold_out(0.2, Key::new(5)).expect("a split");
    assert_eq!((train.class_counts(), validation.class_counts()), (vec![80, 80], vec![20, 20]));
    for example in &validation.examples {
        assert!(train.examples.iter().all(|other| other.text != example.text), "{}", example.text);
    }
    assert_eq!(imdb.train.clone().hold_out(0.2, Key::new(5)).expect("a split"), (train, validation.clone()));
    assert_ne!(imdb.train.hold_out(0.2, Key::new(6)).expect("a split").1, validation);
}
