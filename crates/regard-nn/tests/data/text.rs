//! Plain text: chunks, ids in memory and in files.

use super::made::{Folder, gzip, problem};
use proptest::prelude::*;
use regard_nn::Checksum;
use regard_nn::data::text::{CHUNK, Chunks, TokenStream, with_texts};
use regard_nn::tokens::{
    BytePairSettings, Special, Tokenizer, UnknownCharacter, WhitespaceSettings, WordPieceSettings,
    WordSettings,
};
use std::path::Path;

fn all(stream: &TokenStream) -> Vec<u32> {
    let mut ids = vec![0; stream.len()];
    stream.copy(0, &mut ids).expect("ids");
    ids
}

fn chunks(path: &Path) -> regard_nn::Result<Vec<String>> {
    let mut chunks = Chunks::open(path)?;
    let mut found = Vec::new();
    while let Some(chunk) = chunks.next()? {
        found.push(chunk.text[chunk.fresh..].to_owned());
    }
    Ok(found)
}

/// Prose of several chunks: words, punctuation, runs of spaces and lines, characters of one to four bytes.
fn prose() -> String {
    let parts = [
        "the cat",
        " sat",
        "  on",
        "\n\nthe mat",
        ",",
        " isn't",
        "\t it",
        "?! \n",
        " café",
        " 中文字",
        " 😀",
        " end.",
    ];
    let mut text = String::new();
    let mut state = 1_usize;
    while text.len() < 3 * CHUNK + 1000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(parts[(state >> 33) % parts.len()]);
    }
    text
}

#[test]
fn chunks_concatenate_to_the_text() {
    let folder = Folder::new();
    let text = prose();
    for content in [text.clone().into_bytes(), gzip(&text)] {
        let found = chunks(&folder.write("a", content)).expect("reading");
        assert!(found.len() > 2);
        assert_eq!(found.concat(), text);
    }
    // Without spaces, without lines, and with chunk boundaries inside characters.
    for text in ["😀é".repeat(CHUNK / 4), format!("x{}", "é\n".repeat(CHUNK)), "a".repeat(CHUNK)] {
        assert_eq!(chunks(&folder.write("a", &text)).expect("reading").concat(), text);
    }
    assert_eq!(chunks(&folder.write("a", "\u{feff}mark")).expect("reading"), ["mark"]);
}

#[test]
fn ids_do_not_depend_on_chunk_boundaries() {
    let folder = Folder::new();
    let text = prose();
    let path = folder.write("a.txt", &text);
    let tokenizers = [
        Tokenizer::words([&text], &WordSettings::default()),
        Tokenizer::whitespace_words([&text], &WhitespaceSettings::default()),
        Tokenizer::characters([&text], UnknownCharacter::Error),
        Tokenizer::byte_pairs([&text], &BytePairSettings { size: 290, ..BytePairSettings::default() }),
        Tokenizer::word_pieces([&text], &WordPieceSettings { size: 58, ..WordPieceSettings::default() }),
    ];
    for (kind, tokenizer) in tokenizers.into_iter().enumerate() {
        let tokenizer = tokenizer.expect("training");
        let whole = tokenizer.encode_all(&[&text], Special::Drop, None).expect("encoding");
        let stream = TokenStream::read(&[&path], &tokenizer).expect("reading");
        assert!(all(&stream) == whole[0], "kind {kind}");
        let through =
            TokenStream::read_through(&[&path], &tokenizer, &folder.path().join("ids")).expect("reading");
        assert!(all(&through) == whole[0], "kind {kind}, in a file");
    }
}

#[test]
fn training_on_files_equals_training_on_their_text() {
    let folder = Folder::new();
    let text = prose();
    let (first, second) = text.split_at(CHUNK / 2);
    let cut = first.rfind(' ').expect("a space");
    let paths = [folder.write("a", gzip(&text[..cut])), folder.write("b", &text[cut..])];
    let settings = WordSettings::default();
    let from_files = with_texts(&paths, |texts| Tokenizer::words(texts, &settings)).expect("training");
    let expected = Tokenizer::words([&text], &settings).expect("training");
    assert_eq!(from_files.to_json(), expected.to_json());
    assert!(!second.is_empty());
}

#[test]
fn training_reports_errors_in_files() {
    let folder = Folder::new();
    let paths = [folder.write("good", "some words"), folder.write("bad", b"more \xff words")];
    let result = with_texts(&paths, |texts| Tokenizer::words(texts, &WordSettings::default()));
    assert_eq!(problem(&folder, result), "bad: not UTF-8 at byte 5");
}

#[test]
fn files_are_concatenated_and_the_last_share_is_held_out() {
    let folder = Folder::new();
    let paths = [folder.write("a", "hello "), folder.write("b", gzip("world"))];
    let tokenizer = Tokenizer::characters(["hello world"], UnknownCharacter::Error).expect("training");
    let stream = TokenStream::read(&paths, &tokenizer).expect("reading");
    assert_eq!(tokenizer.decode(&all(&stream), Special::Keep).expect("decoding"), "hello world");
    let (train, validation) = stream.hold_out(0.25).expect("a split");
    assert_eq!((train.len(), validation.len()), (8, 3));
    assert_eq!(tokenizer.decode(&all(&validation), Special::Keep).expect("decoding"), "rld");
    let (first, last) = validation.hold_out(0.5).expect("a split of a split");
    assert_eq!(tokenizer.decode(&all(&first), Special::Keep).expect("decoding"), "r");
    assert!(last.copy(1, &mut [0; 2]).is_err());
    assert!(last.copy(usize::MAX, &mut [0; 2]).is_err());
    for share in [0.0, 1.0, f64::NAN] {
        assert!(stream.hold_out(share).is_err(), "{share}");
    }
}

#[test]
fn a_file_of_ids_is_reused_only_for_the_same_text_and_tokenizer() {
    let folder = Folder::new();
    let (text, ids) = (folder.write("a", "hello world"), folder.path().join("ids"));
    let tokenizer = Tokenizer::characters(["hello world!"], UnknownCharacter::Error).expect("training");
    let read = || TokenStream::read_through(&[&text], &tokenizer, &ids).expect("reading");
    let first = all(&read());
    // Changed, so that reusing it shows.
    let mut bytes = std::fs::read(&ids).expect("a file");
    let last = bytes.len() - 2;
    bytes[last] = 0;
    std::fs::write(&ids, &bytes).expect("a file");
    assert_eq!(all(&read()).last(), Some(&0));
    assert_eq!(all(&TokenStream::open(&ids).expect("opening")).last(), Some(&0));
    folder.write("a", "hello world!");
    assert_eq!(all(&read()).len(), first.len() + 1);
    let other = Tokenizer::characters(["hello world!?"], UnknownCharacter::Error).expect("training");
    TokenStream::read_through(&[&text], &other, &ids).expect("reading");
    let files = std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(files, 2, "no temporary file is left");
}

#[test]
fn ids_beyond_the_memory_limit_go_to_a_file() {
    let folder = Folder::new();
    let text = "to be or not to be, that is the question. ".repeat(2 * CHUNK / 10);
    let path = folder.write("a", &text);
    let tokenizer = Tokenizer::characters([&text], UnknownCharacter::Error).expect("training");
    let memory = TokenStream::read(&[&path], &tokenizer).expect("reading");
    let mut sums = Vec::new();
    // All in memory; the first chunks in memory, then moved; all in the file.
    for (most, file) in [(usize::MAX, false), (memory.len(), false), (memory.len() - 1, true), (0, true)] {
        let ids = folder.path().join("new/folder").join(most.to_string());
        let stream = TokenStream::read_within(&[&path], &tokenizer, most, &ids).expect("reading");
        assert_eq!(ids.exists(), file, "{most}");
        assert_eq!(all(&stream), all(&memory));
        let mut sum = Checksum::default();
        stream.add_to(&mut sum).expect("reading");
        sums.push(sum.value());
    }
    assert!(sums.windows(2).all(|pair| pair[0] == pair[1]));
    let mut changed = all(&memory);
    let last = changed.len() - 1;
    changed[last] ^= 1;
    let mut sum = Checksum::default();
    TokenStream::new(&changed).expect("ids").add_to(&mut sum).expect("reading");
    assert_ne!(sum.value(), sums[0]);
}

#[test]
fn archives_are_rejected_as_text() {
    let folder = Folder::new();
    let tokenizer = Tokenizer::characters(["abc"], UnknownCharacter::Error).expect("training");
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_size(3);
    header.set_cksum();
    archive.append_data(&mut header, "a.txt", &b"abc"[..]).expect("memory");
    let archive = archive.into_inner().expect("memory");
    for (name, bytes) in [("a.tar", archive.clone()), ("a.txt.gz", gzip(&archive))] {
        let error = problem(&folder, TokenStream::read(&[folder.write(name, bytes)], &tokenizer));
        assert!(error.contains("this is a tar archive"), "{error}");
    }
}

#[test]
fn damaged_files_of_ids_are_rejected_or_rebuilt() {
    let folder = Folder::new();
    let (text, path) = (folder.write("a", "hello world"), folder.path().join("ids"));
    let tokenizer = Tokenizer::characters(["hello world"], UnknownCharacter::Error).expect("training");
    TokenStream::read_through(&[&text], &tokenizer, &path).expect("reading");
    let good = std::fs::read(&path).expect("a file");
    for end in 0..good.len() {
        let cut = folder.write("cut", &good[..end]);
        assert!(TokenStream::open(&cut).is_err(), "at {end}");
    }
    let mut wrong = good.clone();
    wrong[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(problem(&folder, TokenStream::open(folder.write("wrong", wrong))).contains("incomplete"));
    let mut wrong = good.clone();
    wrong[32] = 200;
    let stream = TokenStream::open(folder.write("wrong", wrong)).expect("the header is right");
    assert!(problem(&folder, stream.copy(0, &mut [0; 1])).contains("the id 200 is out of range"));
    std::fs::write(&path, "rubbish").expect("a file");
    assert_eq!(TokenStream::read_through(&[&text], &tokenizer, &path).expect("made anew").len(), 11);
}

#[test]
fn errors_locate_bytes_that_are_not_utf_8() {
    let folder = Folder::new();
    let tokenizer = Tokenizer::characters(["abc \n"], UnknownCharacter::Error).expect("training");
    let open =
        |content: &[u8]| problem(&folder, TokenStream::read(&[folder.write("a", content)], &tokenizer));
    assert_eq!(open(b""), "a: the file has no text");
    assert_eq!(open(b"ab\xffc"), "a: not UTF-8 at byte 2");
    assert_eq!(open(b"ab\xc3"), "a: not UTF-8 at byte 2");
    let far = [b"ab ".repeat(CHUNK / 2), b"\xff".to_vec()].concat();
    assert_eq!(open(&far), format!("a: not UTF-8 at byte {}", far.len() - 1));
    let cut = gzip("abc abc");
    assert!(open(&cut[..cut.len() - 5]).contains("incomplete"));
    assert!(open(b"abx").contains("'x' (of \"abx\")"));
    let none: [&str; 0] = [];
    assert!(TokenStream::read(&none, &tokenizer).is_err());
    assert!(TokenStream::new(&[]).is_err());
    assert_eq!(all(&TokenStream::new(&[1, 70_000, 2]).expect("ids")), [1, 70_000, 2]);
    let one = TokenStream::read(&[folder.write("one", "a")], &tokenizer).expect("one id");
    assert!(one.hold_out(0.5).is_err());
}

proptest! {
    #[test]
    fn any_text_equals_its_concatenated_chunks(text in any::<String>()) {
        let folder = Folder::new();
        let path = folder.write("a", &text);
        prop_assert_eq!(chunks(&path).expect("reading").concat(), text.strip_prefix('\u{feff}').unwrap_or(&text));
    }
}
