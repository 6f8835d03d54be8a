//! A reader who judges a text without looking at what the corpus says it means.
//!
//! It takes the polarity of single words and the words that negate and contrast as known, and finds out from the
//! syntax what counts: which part of a contrast decides, and what lies in the scope of a negator.

use regard_nn::data::builtin::{Polarity, Role, Sentence, Text, Word};

/// The label by the majority of the sentences that judge.
pub fn label(text: &Text) -> Polarity {
    let sum: i32 = text.sentences.iter().filter_map(verdict).map(Polarity::sign).sum();
    assert_ne!(sum, 0, "a tie: {}", text.text());
    if sum > 0 { Polarity::Positive } else { Polarity::Negative }
}

/// What a sentence says of the film; none if nothing.
pub fn verdict(sentence: &Sentence) -> Option<Polarity> {
    let words = &sentence.words;
    let mut votes = (0..words.len()).filter(|&index| decides(words, index)).filter_map(|index| {
        let (Role::Sentiment(polarity) | Role::Conceded(polarity)) = words[index].role else { return None };
        let negators = (0..words.len()).filter(|&at| words[at].role == Role::Negator);
        let reversed =
            negators.into_iter().filter(|&negator| reaches(words, negator, index)).count() % 2 == 1;
        Some(if reversed { polarity.opposite() } else { polarity })
    });
    let first = votes.next()?;
    assert!(votes.all(|vote| vote == first), "of two minds: {words:?}");
    Some(first)
}

/// Whether `index` is `top` or hangs below it.
fn below(words: &[Word], top: usize, index: usize) -> bool {
    std::iter::successors(Some(index), |&at| words[at].head).any(|at| at == top)
}

/// Whether a word is not in the weaker part of a contrast: after *but* comes what counts, after *although* what does not.
fn decides(words: &[Word], index: usize) -> bool {
    words.iter().filter(|word| word.role == Role::Contrast).all(|contrast| {
        let part = contrast.head.unwrap();
        match contrast.text.to_lowercase().as_str() {
            "but" | "yet" => below(words, part, index),
            _ => !below(words, part, index),
        }
    })
}

/// Whether a word lies in the scope of a negator: below the clause or phrase that the negator belongs to, but not in
/// another clause with its own subject that is only joined to it.
fn reaches(words: &[Word], negator: usize, index: usize) -> bool {
    let modifies = ["advmod", "det", "amod", "nsubj", "nsubj:pass", "cc:preconj", "obl", "case", "aux"];
    let mut scope = negator;
    // "nothing in the film that …" already has its clause below it.
    let has_clause = words.iter().any(|word| word.head == Some(scope) && word.relation == "acl:relcl");
    let existential = words[negator].head.is_some_and(|head| {
        words.iter().any(|word| word.head == Some(head) && word.relation == "expl" && word.lemma == "there")
    });
    if !(has_clause && existential) {
        while modifies.contains(&words[scope].relation) {
            scope = words[scope].head.unwrap();
        }
    }
    let joined_clause = |at: usize| {
        words[at].relation == "conj"
            && at != scope
            && words.iter().any(|word| word.head == Some(at) && word.relation.starts_with("nsubj"))
    };
    let mut way = std::iter::successors(Some(index), |&at| words[at].head).take_while(|&at| at != scope);
    below(words, scope, index) && !way.any(joined_clause)
}
