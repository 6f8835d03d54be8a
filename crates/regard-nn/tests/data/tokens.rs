//! Training tokenizers, encoding, decoding, and special tokens.

use proptest::prelude::*;
use regard_nn::tokens::{
    BytePairSettings, Keep, Punctuation, Special, Tokenizer, UnknownCharacter, WhitespaceSettings,
    WordPieceSettings, WordSettings,
};
use std::sync::LazyLock;

const TEXTS: [&str; 4] = [
    "the cat sat on the mat, and the dog sat on the cat",
    "a dog and a cat sat; a mat sat not",
    "The Cat isn't THE dog's cat",
    "mats, cats and dogs, and the end of the end",
];

fn word_settings() -> WordSettings {
    WordSettings::default()
}

fn words() -> Tokenizer {
    Tokenizer::words(TEXTS, &word_settings()).expect("training")
}

static BYTE_PAIRS: LazyLock<Tokenizer> = LazyLock::new(|| {
    let settings = BytePairSettings { size: 275, minimum_count: 1, ..BytePairSettings::default() };
    Tokenizer::byte_pairs(TEXTS, &settings).expect("training")
});

static WORD_PIECES: LazyLock<Tokenizer> = LazyLock::new(|| {
    let settings = WordPieceSettings { size: 50, minimum_count: 1, ..WordPieceSettings::default() };
    Tokenizer::word_pieces(TEXTS, &settings).expect("training")
});

fn pieces(tokenizer: &Tokenizer, text: &str) -> Vec<String> {
    tokenizer.encode(text, Special::Drop).expect("encoding").pieces
}

#[test]
fn words_are_ordered_by_count_and_alphabet_after_padding_and_unknown() {
    let tokenizer = Tokenizer::words(["b a c", "c b", "c d"], &word_settings()).expect("training");
    let order: Vec<String> = (0..6).map(|id| tokenizer.piece(id).expect("a piece")).collect();
    assert_eq!(order, ["<PAD>", "<UNK>", "c", "b", "a", "d"]);
    assert_eq!((tokenizer.special().pad, tokenizer.special().unknown), (Some(0), Some(1)));
    assert_eq!(tokenizer.vocabulary_size(), 6);
}

#[test]
fn words_match_their_documented_definition() {
    let text = "Isn't d'Artagnan well-acted? 'Quoted' 3.5 rock'n'roll it’s naïve o''clock x_y";
    let tokenizer = Tokenizer::words([text], &word_settings()).expect("training");
    assert_eq!(
        pieces(&tokenizer, text),
        [
            "isn't",
            "d'artagnan",
            "well",
            "acted",
            "quoted",
            "3",
            "5",
            "rock'n'roll",
            "it's",
            "naïve",
            "o",
            "clock",
            "x",
            "y"
        ]
    );
    let settings = WordSettings { lowercase: false, punctuation: Punctuation::Separate, ..word_settings() };
    let tokenizer = Tokenizer::words([text], &settings).expect("training");
    assert_eq!(
        pieces(&tokenizer, "Isn't 'it' well-acted?"),
        ["Isn't", "'", "<UNK>", "'", "well", "-", "acted", "?"]
    );
}

#[test]
fn maximum_and_minimum_count_limit_the_vocabulary() {
    let settings = WordSettings { maximum: 5, ..word_settings() };
    let tokenizer = Tokenizer::words(TEXTS, &settings).expect("training");
    assert_eq!(tokenizer.vocabulary_size(), 5);
    assert_eq!(pieces(&tokenizer, "the mat"), ["the", "<UNK>"]);
    let settings = WordSettings { minimum_count: 3, ..word_settings() };
    let tokenizer = Tokenizer::words(TEXTS, &settings).expect("training");
    assert!(tokenizer.id("sat").is_some() && tokenizer.id("mat").is_none());
    let none = WordSettings { minimum_count: 100, ..word_settings() };
    let error = Tokenizer::words(TEXTS, &none).expect_err("no words").to_string();
    assert!(error.contains("none occurs 100 times"), "{error}");
    let small = WordSettings { maximum: 2, ..word_settings() };
    assert!(Tokenizer::words(TEXTS, &small).expect_err("no room").to_string().contains("no room"));
}

#[test]
fn whitespace_words_are_unchanged_and_line_ends_are_tokens() {
    let text = " = The Lobster = \n <unk> lives @-@ there . \n";
    let tokenizer = Tokenizer::whitespace_words([text], &WhitespaceSettings::default()).expect("training");
    let encoding = tokenizer.encode(text, Special::Keep).expect("encoding");
    assert_eq!(
        encoding.pieces,
        ["=", "The", "Lobster", "=", "<eos>", "<unk>", "lives", "@-@", "there", ".", "<eos>"]
    );
    assert_eq!(&text[encoding.offsets[4].clone()], "\n");
    assert_eq!((tokenizer.special().unknown, tokenizer.special().eos), (Some(0), Some(1)));
    assert!(encoding.special[4] && !encoding.special[5]);
    assert_eq!(pieces(&tokenizer, "never seen"), ["<unk>", "<unk>"]);
}

#[test]
fn characters_are_in_order_and_errors_name_unknown_ones() {
    let tokenizer =
        Tokenizer::characters(["hello\n", "wörld 😀"], UnknownCharacter::Error).expect("training");
    let order: String =
        (0..tokenizer.vocabulary_size() as u32).filter_map(|id| tokenizer.piece(id)).collect();
    assert_eq!(order, "\n dehlorwö😀");
    let error = tokenizer.encode("hex", Special::Keep).expect_err("an unknown character").to_string();
    assert!(error.contains("'x' (of \"hex\")"), "{error}");
    let unknown = Tokenizer::characters(["ab"], UnknownCharacter::Piece).expect("training");
    assert_eq!(unknown.encode("a<UNK>b", Special::Keep).expect("encoding").ids, [1, 0, 0, 0, 0, 0, 2]);
    assert_eq!(unknown.special().unknown, Some(0));
}

#[test]
fn training_is_deterministic() {
    // Many words with equal counts, which a hash table would yield in another order each time.
    let texts: Vec<String> =
        (0..400).map(|i| format!("w{:03}x{} ba{} ab{}", i, i % 7, i % 13, i % 11)).collect();
    let byte_pairs = BytePairSettings { size: 500, minimum_count: 1, ..BytePairSettings::default() };
    let word_pieces = WordPieceSettings { size: 250, minimum_count: 1, ..WordPieceSettings::default() };
    let train: [&dyn Fn() -> regard_nn::Result<Tokenizer>; 3] = [
        &|| Tokenizer::words(&texts, &word_settings()),
        &|| Tokenizer::byte_pairs(&texts, &byte_pairs),
        &|| Tokenizer::word_pieces(&texts, &word_pieces),
    ];
    for (kind, train) in train.iter().enumerate() {
        let first = train().expect("training").to_json().expect("writing");
        for _ in 0..5 {
            assert_eq!(train().expect("training").to_json().expect("writing"), first, "kind {kind}");
        }
    }
}

#[test]
fn byte_pairs_merge_the_most_frequent_pairs_first() {
    let settings = BytePairSettings { size: 259, minimum_count: 1, special: Vec::new(), end: None };
    // "aa" occurs 3 times within words, then "aab" is the most frequent pair of tokens.
    let tokenizer = Tokenizer::byte_pairs(["aab aab aab cd cd ef"], &settings).expect("training");
    assert_eq!(tokenizer.piece(256).as_deref(), Some("aa"));
    assert_eq!(tokenizer.piece(257).as_deref(), Some("aab"));
}

#[test]
fn a_vocabulary_larger_than_the_data_is_rejected() {
    let settings = BytePairSettings { size: 5_000, ..BytePairSettings::default() };
    let error = Tokenizer::byte_pairs(TEXTS, &settings).expect_err("too large").to_string();
    assert!(error.contains("5000 is larger than the texts can give"), "{error}");
    let settings = WordPieceSettings { size: 5_000, ..WordPieceSettings::default() };
    let error = Tokenizer::word_pieces(TEXTS, &settings).expect_err("too large").to_string();
    assert!(error.contains("5000 is larger than the texts can give"), "{error}");
    let settings = BytePairSettings { size: 100, ..BytePairSettings::default() };
    let error = Tokenizer::byte_pairs(TEXTS, &settings).expect_err("too small").to_string();
    assert!(error.contains("too small for the 257"), "{error}");
}

#[test]
fn training_on_empty_texts_is_an_error() {
    let none: [&str; 0] = [];
    for texts in [&none[..], &[""], &["", " \n"]] {
        assert!(Tokenizer::words(texts, &word_settings()).is_err());
        assert!(Tokenizer::whitespace_words(texts, &WhitespaceSettings::default()).is_err());
        assert!(Tokenizer::word_pieces(texts, &WordPieceSettings::default()).is_err());
    }
    assert!(Tokenizer::characters(none, UnknownCharacter::Error).is_err());
    assert!(Tokenizer::byte_pairs(none, &BytePairSettings::default()).is_err());
}

#[test]
fn an_end_token_is_added_to_every_text() {
    let special = ["<pad>", "</s>", "<unk>"].map(str::to_owned).to_vec();
    let settings =
        BytePairSettings { size: 270, special, end: Some("</s>".into()), ..BytePairSettings::default() };
    let tokenizer = Tokenizer::byte_pairs(TEXTS, &settings).expect("training");
    let encoding = tokenizer.encode("the cat", Special::Keep).expect("encoding");
    assert_eq!(encoding.ids.last(), Some(&1));
    assert_eq!(encoding.special.iter().filter(|&&special| special).count(), 1);
    assert_eq!(tokenizer.decode(&encoding.ids, Special::Drop).expect("decoding"), "the cat");
    assert_eq!((tokenizer.special().pad, tokenizer.special().eos), (Some(0), Some(1)));
    let wrong = BytePairSettings { end: Some("</t>".into()), ..settings };
    assert!(Tokenizer::byte_pairs(TEXTS, &wrong).is_err());
}

#[test]
fn bert_adds_special_tokens_to_texts_and_pairs() {
    let encoding = WORD_PIECES.encode_pair("the cat", "a dog", Special::Keep).expect("encoding");
    let special: Vec<&str> = encoding
        .pieces
        .iter()
        .zip(&encoding.special)
        .filter(|&(_, &special)| special)
        .map(|(piece, _)| piece.as_str())
        .collect();
    assert_eq!(special, ["[CLS]", "[SEP]", "[SEP]"]);
    let second = encoding.texts.iter().position(|&text| text == Some(1)).expect("a second text");
    assert!(encoding.types[..second].iter().all(|&segment| segment == 0));
    assert!(encoding.types[second..].iter().all(|&segment| segment == 1));
    assert_eq!(encoding.words[0], None);
    assert_eq!(WORD_PIECES.special().mask, Some(4));
}

#[test]
fn truncation_keeps_either_end_and_the_special_tokens() {
    let tokenizer = words();
    let text = "the cat sat on the mat";
    for (keep, expected) in [(Keep::First, "the cat"), (Keep::Last, "the mat")] {
        let mut encoding = tokenizer.encode(text, Special::Keep).expect("encoding");
        encoding.truncate(2, keep).expect("room");
        assert_eq!(encoding.pieces.join(" "), expected);
        assert_eq!(encoding.offsets.len(), 2);
        let ids = tokenizer.encode_all(&[text], Special::Keep, Some((2, keep))).expect("encoding");
        assert_eq!(ids[0], encoding.ids);
    }
    let mut framed = WORD_PIECES.encode(text, Special::Keep).expect("encoding");
    let last = framed.pieces[framed.len() - 2].clone();
    framed.truncate(3, Keep::Last).expect("room");
    assert_eq!(framed.pieces, ["[CLS]", &last, "[SEP]"]);
    assert!(framed.truncate(1, Keep::Last).expect_err("no room").to_string().contains("2 special tokens"));
}

#[test]
fn the_longer_text_of_a_pair_is_truncated_first() {
    let mut encoding = WORD_PIECES
        .encode_pair("the cat sat on the mat and the dog", "a cat", Special::Keep)
        .expect("encoding");
    let count = |encoding: &regard_nn::tokens::Encoding, text| {
        encoding.texts.iter().filter(|&&t| t == Some(text)).count()
    };
    let second = count(&encoding, 1);
    encoding.truncate(3 + 2 * second, Keep::First).expect("room");
    assert_eq!((count(&encoding, 0), count(&encoding, 1)), (second, second));
}

#[test]
fn a_model_with_too_few_rows_is_rejected() {
    let tokenizer = words();
    assert!(tokenizer.ensure_fits(tokenizer.vocabulary_size()).is_ok());
    let error = tokenizer.ensure_fits(tokenizer.vocabulary_size() - 1).expect_err("too few").to_string();
    assert!(error.contains("do not belong together"), "{error}");
}

#[test]
fn ids_without_a_token_decode_to_nothing() {
    let tokenizer = words();
    let the = tokenizer.id("the").expect("an id");
    assert_eq!(tokenizer.decode(&[the, 999_999, the], Special::Keep).expect("decoding"), "the the");
    assert_eq!(tokenizer.piece(999_999), None);
    let mut file: serde_json::Value =
        serde_json::from_str(&tokenizer.to_json().expect("JSON")).expect("JSON");
    file["decoder"] = serde_json::json!({ "type": "BPEDecoder", "suffix": "</w>" });
    let suffixed = Tokenizer::from_json(&file.to_string()).expect("reading");
    for ids in [&[][..], &[999_999], &[0, 0]] {
        assert_eq!(suffixed.decode(ids, Special::Drop).expect("decoding"), "");
    }
}

#[test]
fn encoding_many_texts_matches_encoding_one_by_one() {
    let texts: Vec<String> = (0..100).map(|i| TEXTS[i % 4].repeat(i % 5)).collect();
    for tokenizer in [&words(), &BYTE_PAIRS, &WORD_PIECES] {
        let all = tokenizer.encode_all(&texts, Special::Keep, None).expect("encoding");
        for (text, ids) in texts.iter().zip(all) {
            assert_eq!(tokenizer.encode(text, Special::Keep).expect("encoding").ids, ids);
        }
    }
}

proptest! {
    #[test]
    fn byte_pairs_are_lossless(text in any::<String>()) {
        let ids = BYTE_PAIRS.encode(&text, Special::Keep).expect("encoding").ids;
        prop_assert_eq!(BYTE_PAIRS.decode(&ids, Special::Keep).expect("decoding"), text);
    }

    #[test]
    fn characters_are_lossless(text in any::<String>()) {
        prop_assume!(!text.is_empty());
        let tokenizer = Tokenizer::characters([&text], UnknownCharacter::Error).expect("training");
        let encoding = tokenizer.encode(&text, Special::Keep).expect("encoding");
        prop_assert_eq!(encoding.len(), text.chars().count());
        prop_assert_eq!(tokenizer.decode(&encoding.ids, Special::Keep).expect("decoding"), text);
    }

    #[test]
    fn offsets_of_characters_and_words_match_the_text(text in any::<String>()) {
        let characters = Tokenizer::characters([text.as_str(), "x"], UnknownCharacter::Error).expect("training");
        let encoding = characters.encode(&text, Special::Keep).expect("encoding");
        for (piece, range) in encoding.pieces.iter().zip(encoding.offsets) {
            prop_assert_eq!(piece.as_str(), &text[range]);
        }
        let settings = WordSettings { lowercase: false, ..WordSettings::default() };
        let words = Tokenizer::words([text.as_str(), "x"], &settings).expect("training");
        let encoding = words.encode(&text, Special::Keep).expect("encoding");
        for (piece, range) in encoding.pieces.iter().zip(encoding.offsets) {
            if piece != "<UNK>" && piece != "<PAD>" {
                prop_assert_eq!(piece.as_str(), text[range].replace('’', "'"));
            }
        }
    }

    #[test]
    fn offsets_are_inside_the_text_and_ascending(text in any::<String>()) {
        for tokenizer in [&*BYTE_PAIRS, &WORD_PIECES] {
            let encoding = tokenizer.encode(&text, Special::Drop).expect("encoding");
            let mut last = 0;
            for range in encoding.offsets {
                prop_assert!(text.get(range.clone()).is_some());
                prop_assert!(range.start >= last);
                last = range.start;
            }
        }
    }
}
