//! Data that nothing can be learned from: one clear line, exit code 1, and no model left behind.

use crate::checkpoints::made::regard;
use std::path::Path;
use tempfile::TempDir;

/// What `regard train PRESET --data FILE` says about a file of these bytes.
fn complaint(preset: &str, file: &str, bytes: &[u8], settings: &[&str]) -> String {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join(file), bytes).unwrap();
    refusal(folder.path(), preset, file, settings)
}

/// The one line of error of a run that must not begin.
fn refusal(folder: &Path, preset: &str, data: &str, settings: &[&str]) -> String {
    refused(folder, preset, data, settings, 1)
}

/// The same with the exit code that it must end with.
fn refused(folder: &Path, preset: &str, data: &str, settings: &[&str], code: i32) -> String {
    let mut arguments = vec!["train", preset, "--data", data, "--out", "run"];
    for setting in settings {
        arguments.extend(["--set", setting]);
    }
    let output = regard(&arguments).current_dir(folder).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{preset} on {data}: {said}");
    let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{preset} on {data}: {said}");
    assert!(!folder.join("run/model.safetensors").exists(), "{preset} on {data} left a model");
    errors[0].to_owned()
}

#[track_caller]
fn says(said: &str, words: &str) {
    assert!(said.contains(words), "expected {words:?} in {said:?}");
}

#[test]
fn empty_files() {
    says(&complaint("words-gpt", "a.txt", b"", &[]), "no words to learn from");
    says(&complaint("shakespeare-char", "a.txt", b"", &[]), "no characters to learn from");
    says(&complaint("words-llama", "a.txt", b"", &[]), "the texts are empty");
    says(&complaint("masked-words", "a.txt", b"", &[]), "a.txt");
    says(&complaint("classify", "a.tsv", b"", &[]), "a.tsv: the file is empty");
    says(&complaint("classify", "a.tsv", b"sentence\tlabel\n", &[]), "no lines after the header");
    says(&complaint("tagger", "a.conllu", b"", &[]), "a.conllu: the file has no sentences");
    says(&complaint("sentiment-max", "a.tar.gz", b"", &[]), "a.tar.gz: no reviews");
    says(&complaint("digits", "a.idx", b"", &[]), "neither train-images");
}

#[test]
fn files_of_one_line() {
    says(
        &complaint("words-gpt", "a.txt", b"one line only\n", &[]),
        "shorter than the 129 that a context of 128",
    );
    says(&complaint("masked-words", "a.txt", b"one line only\n", &[]), "too few to hold out");
    says(&complaint("classify", "a.tsv", b"sentence\tlabel\nfine\t1\n", &[]), "one class only");
}

#[test]
fn texts_shorter_than_the_context() {
    let text = "to be or not to be ".repeat(3);
    let said = complaint("shakespeare-char", "a.txt", text.as_bytes(), &[]);
    says(&said, "shorter than the 65 that a context of 64 needs");
}

#[test]
fn text_that_is_not_utf_8() {
    let text = b"all is well \xff\xfe until here\n".repeat(50);
    for preset in ["words-gpt", "shakespeare-char", "words-llama", "masked-words"] {
        says(&complaint(preset, "a.txt", &text, &[]), "not UTF-8 at byte 12");
    }
    says(&complaint("classify", "a.tsv", b"sentence\tlabel\n\xff\t1\nb\t0\n", &[]), "UTF-8");
}

#[test]
fn labels_that_are_missing_or_all_the_same() {
    let said = complaint("classify", "a.tsv", b"sentence\tscore\nfine\t1\nbad\t0\n", &[]);
    says(&said, "no column \"label\"; there are [\"sentence\", \"score\"]");
    let said = complaint("bag", "a.tsv", b"sentence\tlabel\nfine\t1\ngood\t1\n", &[]);
    says(&said, "one class only, \"1\": there is nothing to classify");
}

#[test]
fn archives_that_end_in_the_middle() {
    // A gzip stream that promises a block of 1,000 bytes and has ten.
    let mut bytes = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    bytes.extend(1000_u16.to_le_bytes());
    bytes.extend((!1000_u16).to_le_bytes());
    bytes.extend([b'a'; 10]);
    says(&complaint("sentiment-max", "a.tar.gz", &bytes, &[]), "is the file incomplete?");
    says(&complaint("words-gpt", "a.txt.gz", &bytes, &[]), "is the file incomplete?");
}

#[test]
fn vocabularies_larger_than_the_text() {
    let text = "a few words again and again\n".repeat(200);
    for preset in ["words-llama", "masked-words"] {
        let said = complaint(preset, "a.txt", text.as_bytes(), &["tokens.size=50000"]);
        says(&said, "a vocabulary of 50000 is larger than the texts can give");
    }
}

#[test]
fn translations_that_do_not_match() {
    let folder = TempDir::new().unwrap();
    let corpus = |english: &str, german: &str| {
        std::fs::write(folder.path().join("train.en"), english).unwrap();
        std::fs::write(folder.path().join("train.de"), german).unwrap();
        refusal(folder.path(), "translate", ".", &[])
    };
    says(&corpus("", ""), "no pairs of sentences");
    says(&corpus("one\ntwo\n", "eins\n"), "they must be translations line by line");
    let empty = TempDir::new().unwrap();
    says(&refusal(empty.path(), "translate", ".", &[]), "neither train.en nor train.en.gz");
}

#[test]
fn translations_without_an_end() {
    let folder = TempDir::new().unwrap();
    for part in ["train", "val"] {
        std::fs::write(folder.path().join(format!("{part}.en")), "one\ntwo\n").unwrap();
        std::fs::write(folder.path().join(format!("{part}.de")), "eins\nzwei\n").unwrap();
    }
    for kind in ["words", "characters", "word-pieces"] {
        let said = refused(folder.path(), "translate", ".", &[&format!("tokens.kind={kind}")], 2);
        says(&said, "a translation would never end");
    }
}

#[test]
fn images_of_another_size() {
    let folder = TempDir::new().unwrap();
    let header = |extra: &[u32]| -> Vec<u8> {
        let mut bytes = vec![0, 0, 8, 1 + extra.len() as u8];
        bytes.extend([&[200], extra].concat().iter().flat_map(|length: &u32| length.to_be_bytes()));
        bytes
    };
    let images = [header(&[8, 8]), vec![7; 200 * 64]].concat();
    std::fs::write(folder.path().join("train-images-idx3-ubyte"), images).unwrap();
    let labels = [header(&[]), (0..200).map(|i| i % 10).collect()].concat();
    std::fs::write(folder.path().join("train-labels-idx1-ubyte"), labels).unwrap();
    says(&refused(folder.path(), "digits", ".", &[], 2), "add --set model.image=[8,8]");
    assert!(!folder.path().join("run").exists(), "nothing is left that would have to be continued");
}

#[test]
fn what_is_held_out_adds_no_words() {
    let folder = TempDir::new().unwrap();
    let text = format!("{}zebra ", "the cat sat on the mat. ".repeat(2_000));
    std::fs::write(folder.path().join("text.txt"), text).unwrap();
    let settings =
        ["train.steps=1", "model.n_layers=1", "model.d_model=8", "model.n_heads=2", "model.context=8"];
    let mut arguments = vec!["train", "words-gpt", "--data", "text.txt", "--out", "run"];
    for setting in settings {
        arguments.extend(["--set", setting]);
    }
    let output = regard(&arguments).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let known = std::fs::read_to_string(folder.path().join("run/tokenizer.json")).unwrap();
    assert!(known.contains("\"mat\"") && !known.contains("zebra"));
}

#[test]
fn errors_in_validation_files_name_the_file() {
    let folder = TempDir::new().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("train.en", "one\ntwo\n");
    write("train.de", "eins\nzwei\n");
    says(&refusal(folder.path(), "translate", ".", &[]), "none of val.en, valid.en, dev.en");
    write("val.en", "one\ntwo\n");
    write("val.de", "eins\n");
    says(&refusal(folder.path(), "translate", ".", &[]), "val.de: it has 1 lines");
}

#[test]
#[cfg(unix)]
fn what_is_neither_file_nor_folder() {
    let folder = TempDir::new().unwrap();
    let pipe = folder.path().join("pipe.txt");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for preset in ["words-gpt", "masked-words", "bag"] {
        says(&refusal(folder.path(), preset, "pipe.txt", &[]), "this is a pipe or a device");
    }
}

#[test]
fn archives_that_no_language_model_reads() {
    // The header of a tar archive's first file, as far as anyone looks.
    let mut archive = vec![b'a'; 3];
    archive.resize(257, 0);
    archive.extend(b"ustar\x0000");
    archive.resize(4096, 0);
    for preset in ["words-gpt", "shakespeare-char", "masked-words", "classify"] {
        says(&complaint(preset, "a.txt", &archive, &[]), "this is a tar archive");
    }
}
