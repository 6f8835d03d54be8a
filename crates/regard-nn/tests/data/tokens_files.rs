//! Tokenizers on disk: saving, opening, folders, roles.

use super::made::{Folder, gzip, problem};
use regard_nn::tokens::{Special, Tokenizer, WordPieceSettings, WordSettings};
use serde_json::{Value, json};

fn words() -> Tokenizer {
    Tokenizer::words(["a good film", "a bad film"], &WordSettings::default()).expect("training")
}

/// A byte-level vocabulary without merges.
fn bytes(special: &[&str]) -> Value {
    let mut vocabulary = serde_json::Map::new();
    for piece in special {
        vocabulary.insert((*piece).to_owned(), json!(vocabulary.len()));
    }
    let mut next = 256;
    for byte in 0..=255_u32 {
        let visible = matches!(byte, 33..=126 | 161..=172 | 174..=255);
        let c = if visible { char::from_u32(byte) } else { char::from_u32(next) };
        next += u32::from(!visible);
        vocabulary.insert(c.expect("a character").to_string(), json!(vocabulary.len()));
    }
    Value::Object(vocabulary)
}

#[test]
fn saved_tokenizers_are_read_back() {
    let folder = Folder::new();
    let tokenizer = words();
    let path = folder.path().join("tokenizer.json");
    tokenizer.save(&path).expect("writing");
    for opened in
        [Tokenizer::open(&path), Tokenizer::open(folder.path()), Tokenizer::from_folder(folder.path())]
    {
        let opened = opened.expect("reading");
        assert_eq!(opened.to_json(), tokenizer.to_json());
        assert_eq!(opened.special(), tokenizer.special());
    }
    let files: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").collect();
    assert_eq!(files.len(), 1, "the temporary file is gone");
}

#[test]
fn compressed_files_are_read() {
    let folder = Folder::new();
    let path = folder.write("tokenizer.json", gzip(words().to_json().expect("JSON")));
    assert_eq!(Tokenizer::open(path).expect("reading").to_json(), words().to_json());
}

#[test]
fn saving_into_a_missing_folder_is_an_error() {
    let folder = Folder::new();
    let problem = problem(&folder, words().save(folder.path().join("nowhere/tokenizer.json")));
    assert!(problem.starts_with("nowhere/tokenizer.json: cannot be written"), "{problem}");
}

#[test]
fn the_configuration_lists_the_roles() {
    let settings = WordPieceSettings { size: 24, ..WordPieceSettings::default() };
    let tokenizer = Tokenizer::word_pieces(["a good film", "a good film"], &settings).expect("training");
    let configuration: Value = serde_json::from_str(&tokenizer.configuration_json()).expect("JSON");
    assert_eq!(configuration["mask_token"], "[MASK]");
    assert_eq!(configuration["pad_token"], "[PAD]");
    assert_eq!(configuration["bos_token"], Value::Null);
}

#[test]
fn a_folder_assigns_roles_to_special_tokens() {
    let folder = Folder::new();
    folder.write("tokenizer.json", words().to_json().expect("JSON"));
    folder.write("tokenizer_config.json", r#"{"eos_token": "film", "pad_token": {"content": "bad"}}"#);
    let tokenizer = Tokenizer::open(folder.path()).expect("reading");
    assert_eq!(tokenizer.special().eos, tokenizer.id("film"));
    assert_eq!(tokenizer.special().pad, tokenizer.id("bad"));
    folder.write("tokenizer_config.json", "{");
    let problem = problem(&folder, Tokenizer::open(folder.path()));
    assert!(problem.starts_with("tokenizer_config.json: "), "{problem}");
}

#[test]
fn a_cased_vocabulary_is_not_lower_cased() {
    let list = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nA\n";
    let encode = |folder: &Folder| {
        let tokenizer = Tokenizer::open(folder.path()).expect("reading");
        tokenizer.encode("A a", Special::Drop).expect("encoding").ids
    };
    let folder = Folder::new();
    folder.write("vocab.txt", list);
    assert_eq!(encode(&folder), [6, 5]);
    folder.write("tokenizer_config.json", r#"{"do_lower_case": true}"#);
    assert_eq!(encode(&folder), [5, 5]);
    folder.write("vocab.txt", list.replace("A\n", "b\n"));
    folder.write("tokenizer_config.json", r"{}");
    assert_eq!(encode(&folder), [5, 5]);
}

#[test]
fn roberta_is_recognised_by_its_tokens() {
    let folder = Folder::new();
    folder.write("vocab.json", bytes(&["<s>", "<pad>", "</s>", "<unk>", "<mask>"]).to_string());
    folder.write("merges.txt", "");
    let tokenizer = Tokenizer::open(folder.path()).expect("reading");
    let encoding = tokenizer.encode("a", Special::Keep).expect("encoding");
    assert_eq!(encoding.pieces, ["<s>", "a", "</s>"]);
    let special = tokenizer.special();
    assert_eq!((special.cls, special.sep, special.mask, special.pad), (Some(0), Some(2), Some(4), Some(1)));
}

#[test]
fn an_error_lists_the_files_of_a_tokenizer() {
    let folder = Folder::new();
    let problem_in = |folder: &Folder| problem(folder, Tokenizer::from_folder(folder.path()));
    assert!(problem_in(&folder).contains("expected tokenizer.json, vocab.json with merges.txt"));
    folder.write("spiece.model", "x");
    assert!(problem_in(&folder).contains("spiece.model has SentencePiece's own format"));
    let missing = problem(&folder, Tokenizer::open(folder.path().join("none.json")));
    assert_eq!(missing, "none.json: no such file");
}

/// Tokens added to an older vocabulary: in a file of their own, or in the settings, as in newer folders.
#[test]
fn added_tokens_extend_an_older_vocabulary() {
    let folder = Folder::new();
    folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n");
    let ids = |text: &str| {
        Tokenizer::open(folder.path()).expect("reading").encode(text, Special::Drop).expect("encoding").ids
    };
    assert_eq!(ids("a <new> b"), [5, 1, 1, 1, 6]);
    folder.write("added_tokens.json", r#"{"<new>": 7}"#);
    assert_eq!(ids("a <new> b"), [5, 7, 6]);
    let settings = r#"{"added_tokens_decoder": {"8": {"content": "<end>", "special": true}}}"#;
    folder.write("tokenizer_config.json", settings);
    assert_eq!(ids("a <new> b <end>"), [5, 7, 6, 8]);
    let tokenizer = Tokenizer::open(folder.path()).expect("reading");
    assert!(tokenizer.is_special(8) && !tokenizer.is_special(7));
    folder.write("added_tokens.json", r#"{"<new>": 70}"#);
    assert!(problem(&folder, Tokenizer::open(folder.path())).contains("cannot have the id"));
}

#[test]
fn damaged_older_files_are_rejected_with_their_location() {
    let folder = Folder::new();
    let open = || problem(&folder, Tokenizer::open(folder.path()));
    folder.write("vocab.json", r#"{"a": 0}"#);
    folder.write("merges.txt", "");
    assert!(open().contains("vocab.json: not a byte-level vocabulary"), "{}", open());
    folder.write("vocab.json", "[1]");
    assert!(open().contains("vocab.json: not a vocabulary"), "{}", open());
    folder.write("vocab.json", bytes(&["</w>"]).to_string());
    assert!(open().contains("</w>"), "{}", open());
    folder.write("vocab.json", bytes(&[]).to_string());
    folder.write("merges.txt", "#version: 0.2\na b\n");
    assert!(open().contains("\"ab\" is not in the vocabulary"), "{}", open());
    folder.write("merges.txt", "#version: 0.2\n\nabc\n");
    assert!(open().starts_with("merges.txt, line 3: expected two tokens"), "{}", open());
    std::fs::remove_file(folder.path().join("vocab.json")).expect("a file");
    folder.write("vocab.txt", "a\nb\n");
    assert!(open().contains("[UNK], [CLS] and [SEP] are required"), "{}", open());
    folder.write("vocab.txt", b"[UNK]\n\xff\n");
    assert_eq!(open(), "vocab.txt, line 2: not UTF-8 at byte 0 of the line");
}
