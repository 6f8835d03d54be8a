//! Tokenizers compared with Hugging Face's Python library (see `tools/golden_tokens.py`).

use super::made::Folder;
use regard_nn::tokens::{
    BytePairSettings, Encoding, Punctuation, Special, Tokenizer, UnknownCharacter, WhitespaceSettings,
    WordSettings,
};
use serde_json::{Value, json};

fn golden() -> Value {
    serde_json::from_str(include_str!("golden/tokens.json")).expect("the golden file")
}

fn strings(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().map(|text| text.as_str().expect("a text")).collect()
}

/// An encoding in the golden file's format, with offsets in characters.
fn written(tokenizer: &Tokenizer, encoding: &Encoding, texts: &[&str]) -> Value {
    let characters = |text: &str, byte: usize| text[..byte].chars().count();
    let offsets: Vec<[usize; 2]> = encoding
        .offsets
        .iter()
        .zip(&encoding.texts)
        .map(|(range, text)| match text {
            Some(text) => [characters(texts[*text], range.start), characters(texts[*text], range.end)],
            None => [0, 0],
        })
        .collect();
    json!({
        "ids": encoding.ids, "pieces": encoding.pieces, "offsets": offsets,
        "words": encoding.words, "types": encoding.types,
        "kept": tokenizer.decode(&encoding.ids, Special::Keep).expect("decoding"),
        "dropped": tokenizer.decode(&encoding.ids, Special::Drop).expect("decoding"),
    })
}

fn assert_agrees(tokenizer: &Tokenizer, golden: &Value, name: &str) {
    let texts = strings(&golden["texts"]);
    let expected = &golden["tokenizers"][name];
    for (place, text) in texts.iter().enumerate() {
        let encoding = tokenizer.encode(text, Special::Keep).expect("encoding");
        assert_eq!(written(tokenizer, &encoding, &[text]), expected["texts"][place], "{name}: {text:?}");
    }
    let pair = [texts[3], texts[4]];
    let encoding = tokenizer.encode_pair(pair[0], pair[1], Special::Keep).expect("encoding");
    assert_eq!(written(tokenizer, &encoding, &pair), expected["pair"], "{name}: a pair");
}

/// Checks that training and saving give the same file as the Python library.
fn assert_same_file(tokenizer: &Tokenizer, golden: &Value, name: &str) {
    let ours: Value = serde_json::from_str(&tokenizer.to_json().expect("JSON")).expect("JSON");
    let theirs = &golden["tokenizers"][name]["file"];
    for part in ["model", "normalizer", "pre_tokenizer", "post_processor", "added_tokens"] {
        assert_eq!(ours[part], theirs[part], "{name}: {part}");
    }
}

#[test]
fn words_match_the_python_library() {
    let golden = golden();
    let corpus = strings(&golden["corpus"]);
    for (name, punctuation) in
        [("words", Punctuation::Dropped), ("words_and_punctuation", Punctuation::Separate)]
    {
        let settings = WordSettings { maximum: 60, punctuation, ..WordSettings::default() };
        let tokenizer = Tokenizer::words(&corpus, &settings).expect("training");
        assert_agrees(&tokenizer, &golden, name);
        assert_same_file(&tokenizer, &golden, name);
    }
}

#[test]
fn whitespace_words_match_the_python_library() {
    let golden = golden();
    let tokenizer = Tokenizer::whitespace_words(strings(&golden["corpus"]), &WhitespaceSettings::default());
    let tokenizer = tokenizer.expect("training");
    assert_agrees(&tokenizer, &golden, "whitespace_words");
    assert_same_file(&tokenizer, &golden, "whitespace_words");
}

#[test]
fn characters_match_the_python_library() {
    let golden = golden();
    let tokenizer =
        Tokenizer::characters(strings(&golden["corpus"]), UnknownCharacter::Piece).expect("training");
    assert_agrees(&tokenizer, &golden, "characters");
    assert_same_file(&tokenizer, &golden, "characters");
}

#[test]
fn byte_pairs_match_the_python_library() {
    let golden = golden();
    let settings = BytePairSettings { size: 330, ..BytePairSettings::default() };
    let tokenizer = Tokenizer::byte_pairs(strings(&golden["corpus"]), &settings).expect("training");
    assert_agrees(&tokenizer, &golden, "byte_pairs");
    assert_same_file(&tokenizer, &golden, "byte_pairs");
}

#[test]
fn files_of_the_python_library_are_read_and_written_identically() {
    let golden = golden();
    for (name, content) in golden["tokenizers"].as_object().expect("an object") {
        let read = Tokenizer::from_json(&content["file"].to_string()).expect("reading");
        assert_agrees(&read, &golden, name);
        let again = Tokenizer::from_json(&read.to_json().expect("writing")).expect("reading");
        assert_agrees(&again, &golden, name);
    }
}

#[test]
fn older_gpt_2_files_match_tokenizer_json() {
    let golden = golden();
    let model = &golden["tokenizers"]["byte_pairs"]["file"]["model"];
    let piece = |piece: &Value| piece.as_str().expect("a piece").to_owned();
    let lines: Vec<String> = model["merges"]
        .as_array()
        .expect("merges")
        .iter()
        .map(|merge| format!("{} {}\n", piece(&merge[0]), piece(&merge[1])))
        .collect();
    let merges = format!("#version: 0.2\n{}", lines.concat());
    for (vocabulary_name, merges_name) in [("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe")] {
        let folder = Folder::new();
        folder.write(vocabulary_name, model["vocab"].to_string());
        folder.write(merges_name, &merges);
        let tokenizer = Tokenizer::from_folder(folder.path()).expect("reading");
        assert_agrees(&tokenizer, &golden, "byte_pairs");
        assert_eq!(tokenizer.special().eos, Some(0));
        assert_eq!(tokenizer.special().bos, Some(0));
    }
}

#[test]
fn older_bert_files_match_tokenizer_json() {
    let golden = golden();
    let vocabulary =
        golden["tokenizers"]["word_pieces"]["file"]["model"]["vocab"].as_object().expect("a vocabulary");
    let mut pieces: Vec<(u64, &str)> =
        vocabulary.iter().map(|(piece, id)| (id.as_u64().expect("an id"), piece.as_str())).collect();
    pieces.sort_unstable();
    let list: Vec<&str> = pieces.iter().map(|&(_, piece)| piece).collect();
    for end in ["\n", "\r\n"] {
        let folder = Folder::new();
        folder.write("vocab.txt", list.join(end) + end);
        let tokenizer = Tokenizer::open(folder.path()).expect("reading");
        assert_agrees(&tokenizer, &golden, "word_pieces");
        let special = tokenizer.special();
        assert_eq!(
            [special.pad, special.unknown, special.cls, special.sep, special.mask],
            [0, 1, 2, 3, 4].map(Some)
        );
    }
}
