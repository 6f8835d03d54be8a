//! CoNLL-U.

use super::made::{Folder, gzip, problem};
use regard_nn::data::treebank::{PARTS_OF_SPEECH, Sentence, read};

/// A line: number, form, part of speech, head, relation, last column.
fn word(id: &str, form: &str, tag: &str, head: &str, relation: &str, misc: &str) -> String {
    format!("{id}\t{form}\t{form}\t{tag}\t_\t_\t{head}\t{relation}\t_\t{misc}\n")
}

fn sample() -> String {
    [
        "# sent_id = 1\n# text = He doesn't know.\n".to_owned(),
        word("1", "He", "PRON", "4", "nsubj", "_"),
        word("2-3", "doesn't", "_", "_", "_", "_"),
        word("2", "does", "AUX", "4", "aux", "_"),
        word("3", "n't", "PART", "4", "advmod", "SpaceAfter=No"),
        word("4", "know", "VERB", "0", "root", "X=1|SpaceAfter=No"),
        word("4.1", "nothing", "_", "_", "_", "_"),
        word("5", ".", "PUNCT", "4", "punct", "_"),
        "\n\n# text = du café\n".to_owned(),
        word("1-2", "du", "_", "_", "_", "_"),
        word("1", "de", "ADP", "3", "case", "_"),
        word("2", "le", "DET", "3", "det", "_"),
        word("3", "café", "NOUN", "0", "root", "_"),
    ]
    .concat()
}

fn forms(sentence: &Sentence) -> Vec<&str> {
    sentence.words.iter().map(|word| word.form.as_str()).collect()
}

#[test]
fn words_heads_and_offsets_are_read() {
    let folder = Folder::new();
    for content in [sample().into_bytes(), gzip(sample()), sample().replace('\n', "\r\n").into_bytes()] {
        let sentences = read(folder.write("a.conllu", content)).expect("reading");
        assert_eq!(sentences.len(), 2);
        let first = &sentences[0];
        assert_eq!(first.text, "He doesn't know.");
        assert_eq!(forms(first), ["He", "does", "n't", "know", "."]);
        let heads: Vec<_> = first.words.iter().map(|word| word.head).collect();
        assert_eq!(heads, [Some(3), Some(3), Some(3), None, Some(3)]);
        assert_eq!(PARTS_OF_SPEECH[first.words[1].part_of_speech], "AUX");
        assert_eq!(first.words[1].relation, "aux");
        for word in &first.words {
            assert_eq!(&first.text[word.range.clone()], word.form);
        }
        let second = &sentences[1];
        assert_eq!(second.text, "du café");
        let covered: Vec<_> = second.words.iter().map(|word| &second.text[word.range.clone()]).collect();
        assert_eq!(covered, ["du", "du", "café"]);
    }
}

#[test]
fn errors_name_the_line() {
    let folder = Folder::new();
    let open = |content: &str| problem(&folder, read(folder.write("a", content)));
    let the = |head: &str| word("1", "the", "DET", head, "det", "_");
    let cat = |head: &str| word("2", "cat", "NOUN", head, "root", "_");
    assert_eq!(open(""), "a: the file has no sentences");
    assert_eq!(open("# a comment\n\n"), "a: the file has no sentences");
    assert_eq!(open("1\tthe\tDET\n"), "a, line 1: expected 10 columns between tabs, got 3");
    assert_eq!(open(&the("2").replace('\n', "\tx\n")), "a, line 1: more than 10 columns");
    assert_eq!(open(&(the("2") + &the("0"))), "a, line 2: expected word 2, got \"1\"");
    assert_eq!(open(&(the("5") + &cat("0"))), "a, line 2: word 1 has the head 5, but there are 2 words");
    assert_eq!(open(&(the("x") + &cat("0"))), "a, line 1: the head must be a word's number, got \"x\"");
    assert_eq!(open(&(the("0") + &cat("0") + "\n")), "a, line 2: expected one root in the sentence, got 2");
    assert_eq!(open(&(the("2") + &cat("1"))), "a, line 2: expected one root in the sentence, got 0");
    let circle = the("2") + &cat("1") + &word("3", "sat", "VERB", "0", "root", "_");
    assert!(open(&circle).contains("line 3: the heads of the sentence form a cycle"), "{}", open(&circle));
    assert!(open(&(the("1") + &cat("0"))).contains("form a cycle at word 1"));
    assert!(
        open(&the("0").replace("DET", "Det")).contains("line 1: \"Det\" is not a universal part of speech")
    );
    assert!(open(&the("0").replace("det\t", "_\t")).contains("has no relation"));
    assert!(open(&word("1", "", "DET", "0", "root", "_")).contains("has no form"));
    assert!(
        open(&(word("1-3", "x", "_", "_", "_", "_") + &the("2") + &cat("0"))).contains("ends before word 3")
    );
    assert!(open(&(word("2-3", "x", "_", "_", "_", "_") + &the("0"))).contains("must start at word 1"));
    let nested = word("1-3", "x", "_", "_", "_", "_") + &the("2") + &word("2-3", "y", "_", "_", "_", "_");
    assert!(open(&nested).contains("is inside another"));
    assert!(open(&(word("1-2", "x", "_", "_", "_", "_") + "\n")).contains("the token has no words"));
    let path = folder.write("b", b"# fine\n1\t\xff");
    assert_eq!(problem(&folder, read(path)), "b, line 2: not UTF-8 at byte 2 of the line");
}
