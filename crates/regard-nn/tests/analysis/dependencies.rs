//! Ten sentences, parsed and counted by hand.

use super::planted;
use regard_nn::analysis::dependencies::{ALL, Aligned, Direction, Parsed, Word, match_heads};
use regard_nn::analysis::statistics::Resampling;
use regard_nn::analysis::{Head, Tokens};
use regard_nn::data::builtin::{Corpus, CorpusSettings};
use regard_nn::data::treebank;
use regard_nn::models::{Tagger, TaggerConfig};
use regard_nn::tokens::Encoding;

/// Each word: its head, counted from 1 as treebanks do (0 is the root), and its relation.
const SENTENCES: [&[(usize, &str)]; 10] = [
    &[(2, "det"), (3, "nsubj"), (0, "root")],             // the dog sleeps
    &[(2, "nsubj"), (0, "root"), (4, "det"), (2, "obj")], // we read the book
    &[(3, "det"), (3, "amod"), (4, "nsubj"), (0, "root")], // a small cat eats
    &[(2, "nsubj"), (0, "root"), (2, "advmod")],          // birds sing loudly
    &[(2, "nsubj"), (0, "root"), (2, "obj")],             // dogs chase cats
    &[(2, "det"), (4, "nsubj"), (4, "aux"), (0, "root"), (4, "punct")], // the rain has stopped .
    &[(2, "nsubj"), (0, "root"), (5, "det"), (5, "amod"), (2, "obj")], // she saw an old friend
    &[(0, "root"), (3, "det"), (1, "obj")],               // close that door
    &[(2, "amod"), (3, "nsubj"), (0, "root")],            // old men talk
    &[(2, "nsubj"), (0, "root"), (2, "punct")],           // it rains .
];

/// Sentences with one token per word, all tokens distinct.
fn sentences() -> impl Iterator<Item = regard_nn::Result<(Tokens, Aligned)>> + Clone {
    let all = SENTENCES.iter().map(|words| {
        let tokens = Tokens::new((0..words.len() as u32).collect());
        let edges =
            words.iter().map(|&(head, relation)| (head.checked_sub(1), relation.to_owned())).collect();
        Ok((tokens, Aligned { pieces: (0..words.len()).map(|i| vec![i]).collect(), edges }))
    });
    all.collect::<Vec<_>>().into_iter()
}

const PREVIOUS: Head = Head { layer: 0, head: 0 };

/// The planted previous-token head is right whenever the two partners are adjacent.
#[test]
fn a_previous_token_head_has_the_counted_accuracy() {
    for batch in [1, 4] {
        let found = match_heads(&planted::model(), sentences(), (batch, 3), Resampling::new(0)).unwrap();
        // (relation, attending word, pairs, adjacent pairs), counted by hand.
        for (relation, direction, pairs, right) in [
            ("det", Direction::ToDependent, 6.0, 4.0),
            ("nsubj", Direction::ToDependent, 9.0, 8.0),
            ("obj", Direction::ToHead, 4.0, 1.0),
            ("amod", Direction::ToDependent, 3.0, 3.0),
            ("aux", Direction::ToDependent, 1.0, 1.0),
            ("advmod", Direction::ToHead, 1.0, 1.0),
            ("punct", Direction::ToHead, 2.0, 2.0),
        ] {
            let counts = &found.counts[&(relation.to_owned(), direction)];
            assert_eq!((counts.pairs.sum, counts.right[0].sum), (pairs, right), "{relation}");
            assert_eq!(counts.offsets.get(&-1).map_or(0.0, |offset| offset.sum), right, "{relation}");
            let guess = found
                .guesses(relation)
                .find(|g| (g.predictor, g.direction) == (PREVIOUS, direction))
                .unwrap();
            assert!((guess.accuracy - right / pairs).abs() < 1e-12);
            // If most partners are adjacent, no other head can be better.
            if 2.0 * right > pairs {
                assert_eq!(found.best_head(relation, 1), Some(guess), "{relation}");
            }
        }
        // The object is two or three words to the right more often than next to its verb.
        let offset = found.best_offset("obj", Direction::ToHead).unwrap();
        assert_eq!((offset.predictor, offset.pairs, offset.interval().count), (-2, 4, 4));
        assert!((offset.accuracy - 0.5).abs() < 1e-12);
        // All but punctuation: in 19 pairs the head comes later, in 5 the dependent.
        assert_eq!(found.counts[&(ALL.to_owned(), Direction::ToDependent)].pairs.sum, 19.0);
        assert_eq!(found.counts[&(ALL.to_owned(), Direction::ToDependent)].right[0].sum, 16.0);
        assert_eq!(found.counts[&(ALL.to_owned(), Direction::ToHead)].pairs.sum, 5.0);
        assert_eq!(found.relations(), ["advmod", "all", "amod", "aux", "det", "nsubj", "obj", "punct"]);
        assert!(found.best_head("vocative", 1).is_none());
        assert!(found.best_offset("vocative", Direction::ToHead).is_none());
        // A direction with too few pairs is left out, however well it fits.
        assert!(found.best_head("nsubj", 10).is_none());
    }
}

#[test]
fn bidirectional_models_are_tested_in_both_directions() {
    let config = TaggerConfig { vocabulary: 16, d_model: 8, n_heads: 2, context: 16, ..Default::default() };
    let found =
        match_heads(&Tagger::new(config, 0).unwrap(), sentences(), (4, 3), Resampling::new(0)).unwrap();
    for direction in [Direction::ToHead, Direction::ToDependent] {
        assert_eq!(found.counts[&("det".to_owned(), direction)].pairs.sum, 6.0);
    }
    assert_eq!(found.best_offset("amod", Direction::ToHead).unwrap().accuracy, 1.0);
    assert_eq!(found.guesses("det").count(), 4);
}

/// Attention to a split word is summed, attention from it averaged.
#[test]
fn word_pieces_are_merged() {
    let aligned = Aligned { pieces: vec![vec![1], vec![2, 3]], edges: vec![] };
    #[rustfmt::skip]
    let weights = [
        0.1, 0.2, 0.3, 0.4,
        0.4, 0.3, 0.2, 0.1,
        0.0, 0.6, 0.3, 0.1,
        0.5, 0.2, 0.1, 0.2,
    ];
    let merged = aligned.merge(&weights, 4);
    for (got, expected) in merged.iter().zip([0.3, 0.3, 0.4, 0.35]) {
        assert!((got - expected).abs() < 1e-6, "{merged:?}");
    }
}

#[test]
fn words_are_aligned_with_their_tokens() {
    let word = |range, head, relation: &str| Word { range, head, relation: relation.to_owned() };
    let parsed = Parsed {
        text: "the unseen".to_owned(),
        words: vec![word(0..3, Some(1), "det"), word(4..10, None, "root")],
    };
    let encoding = Encoding {
        ids: vec![2, 5, 6, 7, 3],
        pieces: ["[CLS]", "the", "un", "##seen", "[SEP]"].map(str::to_owned).to_vec(),
        offsets: vec![0..0, 0..3, 4..6, 6..10, 0..0],
        words: vec![None, Some(0), Some(1), Some(1), None],
        texts: vec![None, Some(0), Some(0), Some(0), None],
        special: vec![true, false, false, false, true],
        types: vec![0; 5],
    };
    let (tokens, aligned) = parsed.align(&encoding);
    assert_eq!(aligned.pieces, [vec![1], vec![2, 3]]);
    assert_eq!(aligned.edges, [(Some(1), "det".to_owned()), (None, "root".to_owned())]);
    assert_eq!(tokens.special, encoding.special);
    assert_eq!(tokens.delimiter, [false; 5]);
}

#[test]
fn both_corpora_become_parsed_sentences() {
    let sentence = treebank::Sentence {
        text: "Go on".to_owned(),
        words: vec![
            treebank::Word {
                form: "Go".to_owned(),
                lemma: "go".to_owned(),
                part_of_speech: 15,
                head: None,
                relation: "root".to_owned(),
                range: 0..2,
            },
            treebank::Word {
                form: "on".to_owned(),
                lemma: "on".to_owned(),
                part_of_speech: 2,
                head: Some(0),
                relation: "advmod".to_owned(),
                range: 3..5,
            },
        ],
    };
    let parsed = Parsed::from(&sentence);
    assert_eq!((parsed.words[1].head, &parsed.text[parsed.words[1].range.clone()]), (Some(0), "on"));
    let corpus = Corpus::new(CorpusSettings::default(), 1).unwrap();
    let text = corpus.text(0);
    let sentences = Parsed::from_text(&text);
    assert_eq!(sentences.len(), text.sentences.len());
    for (parsed, sentence) in sentences.iter().zip(&text.sentences) {
        for (word, original) in parsed.words.iter().zip(&sentence.words) {
            assert_eq!(parsed.text[word.range.clone()], text.text()[original.span.clone()]);
            assert_eq!(word.head, original.head);
        }
    }
}

/// Words without tokens, unknown heads and tokens beyond the text are left out without a panic.
#[test]
fn broken_alignments_are_left_out() {
    let broken = Aligned {
        pieces: vec![vec![0], vec![], vec![99]],
        edges: vec![(Some(7), "a".to_owned()), (Some(0), "b".to_owned()), (Some(0), "c".to_owned())],
    };
    let found = match_heads(
        &planted::model(),
        [Ok((Tokens::new(vec![1, 2]), broken))].into_iter(),
        (1, 3),
        Resampling::new(0),
    )
    .unwrap();
    assert_eq!(found.relations(), ["all", "c"]);
    assert!(found.counts[&("c".to_owned(), Direction::ToHead)].right.iter().all(|right| right.sum == 0.0));
}
