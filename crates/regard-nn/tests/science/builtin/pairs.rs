//! Sentences and the same in the passive.

use proptest::prelude::*;
use regard_nn::data::builtin::{Pair, Pairs, Split};
use std::collections::BTreeMap;

/// What is said is the same in both: the words that come from the source, and nothing else but *be* and *by*.
fn assert_says_the_same(pair: &Pair) {
    assert_eq!(pair.alignment.len(), pair.target_words.len());
    for (word, from) in pair.target_words.iter().zip(&pair.alignment) {
        match from {
            Some(from) => assert_eq!(pair.source_words[*from].lemma, word.lemma, "{}", pair.target),
            None => assert!(
                matches!(word.lemma.as_str(), "be" | "by" | "," | "."),
                "{}: {}",
                word.lemma,
                pair.target
            ),
        }
    }
    for (index, word) in pair.source_words.iter().enumerate() {
        let times = pair.alignment.iter().filter(|from| **from == Some(index)).count();
        let helper = word.lemma == "do" || word.relation == "punct";
        assert_eq!(times, usize::from(!helper), "{} of {}", word.text, pair.source);
    }
}

/// The object becomes the subject, the subject becomes *by* somebody.
fn assert_turned_round(pair: &Pair) {
    let place = |relation: &str| pair.source_words.iter().position(|word| word.relation == relation);
    let now = |index: Option<usize>| {
        let at = pair.alignment.iter().position(|from| *from == index).unwrap();
        &pair.target_words[at]
    };
    assert_eq!(now(place("obj")).relation, "nsubj:pass", "{}", pair.target);
    assert_eq!(now(place("nsubj")).relation, "obl", "{}", pair.target);
    assert_eq!(pair.target_words.iter().filter(|word| word.relation == "root").count(), 1);
}

/// He becomes *by him*, and *him* becomes *he*.
fn assert_pronouns_have_their_case(pair: &Pair) {
    for word in pair.source_words.iter().chain(&pair.target_words) {
        let fits = match word.text.to_lowercase().as_str() {
            "he" | "she" | "they" | "we" | "i" => matches!(word.relation, "nsubj" | "nsubj:pass"),
            "him" | "her" | "them" | "us" | "me" => matches!(word.relation, "obj" | "obl"),
            _ => true,
        };
        assert!(fits, "{} as {}: {} {}", word.text, word.relation, pair.source, pair.target);
    }
}

fn assert_agrees(pair: &Pair) {
    let subject = pair.target_words.iter().position(|word| word.relation == "nsubj:pass").unwrap();
    let words = &pair.target_words;
    let plural = match words[subject].part_of_speech.tag() {
        "NOUN" => words[subject].text.to_lowercase() != words[subject].lemma,
        "PRON" => matches!(words[subject].lemma.as_str(), "they" | "we"),
        _ => false,
    };
    let first = words[subject].lemma == "I";
    for word in words {
        let fits = match word.text.as_str() {
            "is" | "has" => !plural && !first,
            "am" => first,
            "was" => !plural,
            "are" | "were" => plural,
            "have" => plural || first,
            _ => true,
        };
        assert!(fits, "{}", pair.target);
    }
}

proptest! {
    #[test]
    fn every_pair_is_sound(seed in any::<u64>(), index in any::<u64>()) {
        for split in Split::ALL {
            let pairs = Pairs::new(seed).split(split);
            let pair = pairs.pair(index);
            prop_assert_eq!(&pair, &pairs.pair(index));
            assert_says_the_same(&pair);
            assert_turned_round(&pair);
            assert_agrees(&pair);
            assert_pronouns_have_their_case(&pair);
            for (string, words) in [(&pair.source, &pair.source_words), (&pair.target, &pair.target_words)] {
                prop_assert!(words.iter().all(|word| string[word.span.clone()] == word.text));
                prop_assert!(string.ends_with('.') && string.starts_with(char::is_uppercase));
            }
        }
    }
}

#[test]
fn no_sentence_is_in_two_parts() {
    let mut seen: BTreeMap<String, Split> = BTreeMap::new();
    for split in Split::ALL {
        for pair in Pairs::new(1).split(split).pairs().take(3000) {
            assert_eq!(*seen.entry(pair.source.clone()).or_insert(split), split, "{}", pair.source);
        }
    }
    assert!(seen.len() > 8900, "{}", seen.len());
    assert_ne!(Pairs::new(1).pair(0), Pairs::new(2).pair(0));
}

/// A source has one right answer: the same source never has two targets.
#[test]
fn targets_follow_from_sources() {
    let mut targets: BTreeMap<String, String> = BTreeMap::new();
    for pair in Pairs::new(3).pairs().take(3000) {
        assert_eq!(*targets.entry(pair.source).or_insert_with(|| pair.target.clone()), pair.target);
    }
}
