//! Streaming decoding.

use proptest::prelude::*;
use regard_nn::tokens::{BytePairSettings, Special, Tokenizer, WordPieceSettings, WordSettings};
use std::sync::LazyLock;

const TEXT: &str = "the cat sat on the mat, and the dog isn't there; the café is. the end 😀 the end";

static TOKENIZERS: LazyLock<[Tokenizer; 3]> = LazyLock::new(|| {
    let byte_pairs = BytePairSettings { size: 270, minimum_count: 1, ..BytePairSettings::default() };
    let word_pieces = WordPieceSettings { size: 50, minimum_count: 1, ..WordPieceSettings::default() };
    [
        Tokenizer::byte_pairs([TEXT], &byte_pairs).expect("training"),
        Tokenizer::word_pieces([TEXT], &word_pieces).expect("training"),
        Tokenizer::words([TEXT], &WordSettings::default()).expect("training"),
    ]
});

/// Decodes ids one by one; returns the text after each, and at the end.
fn streamed(tokenizer: &Tokenizer, ids: &[u32], special: Special) -> Vec<String> {
    let mut decoder = tokenizer.decoder(special);
    let mut parts: Vec<String> = ids.iter().filter_map(|&id| decoder.push(id).expect("decoding")).collect();
    parts.extend(decoder.finish().expect("decoding"));
    parts
}

#[test]
fn incomplete_characters_are_held_back() {
    let tokenizer = &TOKENIZERS[0];
    let ids = tokenizer.encode("a👩‍👩‍👧b", Special::Keep).expect("encoding").ids;
    assert!(ids.len() > 10, "the emoji must be several pieces");
    let parts = streamed(tokenizer, &ids, Special::Keep);
    assert!(parts.iter().all(|part| !part.contains('\u{fffd}')), "{parts:?}");
    assert_eq!(parts.concat(), "a👩‍👩‍👧b");
}

#[test]
fn an_incomplete_character_is_returned_at_the_end() {
    let tokenizer = &TOKENIZERS[0];
    let ids = tokenizer.encode("ok😀", Special::Keep).expect("encoding").ids;
    let cut = &ids[..ids.len() - 1];
    let parts = streamed(tokenizer, cut, Special::Keep);
    assert_eq!(parts.concat(), tokenizer.decode(cut, Special::Keep).expect("decoding"));
    assert!(parts.last().expect("a part").contains('\u{fffd}'));
}

#[test]
fn invalid_bytes_do_not_accumulate() {
    let tokenizer = &TOKENIZERS[0];
    // The second byte of a character, a thousand times.
    let byte = tokenizer.encode("é", Special::Keep).expect("encoding").ids[1];
    let parts = streamed(tokenizer, &vec![byte; 1000], Special::Keep);
    assert_eq!(parts.concat().chars().count(), 1000);
}

#[test]
fn special_tokens_are_left_out_without_losing_spaces() {
    let tokenizer = &TOKENIZERS[1];
    let mut ids = tokenizer.encode("the cat", Special::Keep).expect("encoding").ids;
    ids.extend(tokenizer.encode("the mat", Special::Keep).expect("encoding").ids);
    let whole = tokenizer.decode(&ids, Special::Drop).expect("decoding");
    assert_eq!(whole, "the cat the mat");
    assert_eq!(streamed(tokenizer, &ids, Special::Drop).concat(), whole);
}

proptest! {
    #[test]
    fn streaming_matches_decoding_at_once(text in any::<String>(), times in 1_usize..8) {
        for tokenizer in TOKENIZERS.iter() {
            let ids = tokenizer.encode(&text.repeat(times), Special::Keep).expect("encoding").ids;
            let whole = tokenizer.decode(&ids, Special::Keep).expect("decoding");
            prop_assert_eq!(streamed(tokenizer, &ids, Special::Keep).concat(), whole);
        }
    }

    #[test]
    fn streaming_random_ids_matches_decoding(ids in proptest::collection::vec(0_u32..270, 0..200)) {
        let tokenizer = &TOKENIZERS[0];
        let whole = tokenizer.decode(&ids, Special::Keep).expect("decoding");
        prop_assert_eq!(streamed(tokenizer, &ids, Special::Keep).concat(), whole);
    }
}
