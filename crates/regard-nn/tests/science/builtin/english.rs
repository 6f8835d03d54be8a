//! English that a teacher would not mark: articles, agreement, capitals, punctuation.

use super::{corpus, hard_settings};
use regard_nn::data::builtin::{Corpus, PartOfSpeech, Sentence, Text, Word};

fn texts() -> impl Iterator<Item = Text> {
    let hard = Corpus::new(hard_settings(), 21).unwrap();
    let texts: Vec<Text> = corpus(20).texts().take(1500).chain(hard.texts().take(500)).collect();
    texts.into_iter()
}

/// Whether a word begins with the sound of a vowel, by its letters and a list of what they hide.
fn sounds_like_a_vowel(word: &str) -> bool {
    let word = word.to_lowercase();
    let consonant = ["uni", "use", "usu", "eu", "one", "once"].iter().any(|start| word.starts_with(start));
    let unin = ["unin", "unim"].iter().any(|start| word.starts_with(start));
    let silent = ["hour", "honest", "heir", "honour"].iter().any(|start| word.starts_with(start));
    silent || (word.starts_with(['a', 'e', 'i', 'o', 'u']) && (!consonant || unin))
}

#[test]
fn a_and_an_follow_the_sound() {
    let (mut a, mut an) = (0, 0);
    for text in texts() {
        for sentence in &text.sentences {
            for pair in sentence.words.windows(2) {
                match pair[0].text.to_lowercase().as_str() {
                    "a" => {
                        a += 1;
                        assert!(!sounds_like_a_vowel(&pair[1].text), "a {}", pair[1].text);
                    }
                    "an" => {
                        an += 1;
                        assert!(sounds_like_a_vowel(&pair[1].text), "an {}", pair[1].text);
                    }
                    _ => {}
                }
            }
        }
    }
    assert!(a > 1000 && an > 200, "{a} {an}");
}

#[test]
fn sentences_begin_with_a_capital_and_end_with_one_full_stop() {
    for text in texts() {
        for sentence in &text.sentences {
            let string = text.sentence_text(sentence);
            let first = string.trim_start_matches('"').chars().next().unwrap();
            assert!(first.is_uppercase() || first.is_ascii_digit(), "{string}");
            assert!(string.ends_with('.') && !string[..string.len() - 1].contains('.'), "{string}");
            for wrong in ["  ", " ,", ",,", ",.", " .", "\" ,", "n' t", "’"] {
                assert!(!string.contains(wrong), "{wrong:?} in {string}");
            }
            assert_eq!(string.matches('"').count() % 2, 0, "{string}");
        }
    }
}

/// The subject of the clause that a finite verb heads, or helps to head.
fn subject(sentence: &Sentence, verb: usize) -> Option<usize> {
    let words = &sentence.words;
    let helps = matches!(words[verb].relation, "aux" | "aux:pass" | "cop");
    let mut clause = if helps { words[verb].head? } else { verb };
    loop {
        let found =
            words.iter().position(|word| word.head == Some(clause) && word.relation.starts_with("nsubj"));
        match found {
            Some(subject) if matches!(words[subject].text.as_str(), "who" | "which" | "that") => {
                return words[clause].head;
            }
            Some(subject) => return Some(subject),
            None if words[clause].relation == "conj" => clause = words[clause].head?,
            None => return None,
        }
    }
}

/// Whether a subject is plural: several joined by *and*, a plural pronoun, or a noun that differs from its lemma. A film
/// is one film whatever its title.
fn is_plural(text: &Text, sentence: &Sentence, subject: usize) -> bool {
    let words: &[Word] = &sentence.words;
    let word = &words[subject];
    let last = words.iter().rposition(|other| other.head == Some(subject) && other.relation == "conj");
    let in_title = text.film.split(' ').any(|part| part == word.text) || capital_inside(words, subject);
    if in_title {
        return false;
    }
    let joined_by =
        last.and_then(|last| words.iter().find(|other| other.head == Some(last) && other.relation == "cc"));
    match joined_by.map(|word| word.text.as_str()) {
        Some("and") => true,
        _ if word.part_of_speech == PartOfSpeech::Noun => word.text.to_lowercase() != word.lemma,
        _ => matches!(word.text.to_lowercase().as_str(), "they" | "we" | "you"),
    }
}

/// A common noun with a capital where no sentence begins is a part of a title.
fn capital_inside(words: &[Word], index: usize) -> bool {
    let word = &words[index];
    word.part_of_speech == PartOfSpeech::Noun && word.text.starts_with(char::is_uppercase)
}

/// Whether a verb is in a form for one, or for several or *I*; none for forms that do not show it.
fn number(sentence: &Sentence, index: usize) -> Option<bool> {
    let verb = &sentence.words[index];
    let text = verb.text.to_lowercase();
    match text.as_str() {
        "is" | "was" | "has" | "does" => return Some(true),
        "are" | "were" | "am" => return Some(false),
        _ => {}
    }
    let helper = |word: &Word| {
        matches!(word.relation, "aux" | "aux:pass") || (word.relation == "mark" && word.text == "to")
    };
    let infinite = sentence.words.iter().any(|word| word.head == Some(index) && helper(word));
    let same_in_the_past = matches!(verb.lemma.as_str(), "set" | "read" | "put");
    if verb.part_of_speech != PartOfSpeech::Verb || infinite || verb.relation == "xcomp" || same_in_the_past {
        None
    } else if text == verb.lemma {
        Some(false)
    } else {
        text.ends_with('s').then_some(true)
    }
}

#[test]
fn verbs_agree_with_their_subjects() {
    let (mut singulars, mut plurals) = (0, 0);
    for text in texts() {
        for sentence in &text.sentences {
            for (index, verb) in sentence.words.iter().enumerate() {
                let (Some(singular), Some(subject)) = (number(sentence, index), subject(sentence, index))
                else {
                    continue;
                };
                let many = is_plural(&text, sentence, subject) || sentence.words[subject].text == "I";
                // "I was" is the one form that "I" shares with "it".
                let shared = sentence.words[subject].text == "I" && verb.text == "was";
                assert!(shared || singular != many, "{}: {}", verb.text, text.sentence_text(sentence));
                *(if singular { &mut singulars } else { &mut plurals }) += 1;
            }
        }
    }
    assert!(singulars > 8000 && plurals > 2000, "{singulars} {plurals}");
}

#[test]
fn no_word_is_doubled() {
    for text in texts() {
        for sentence in &text.sentences {
            for pair in sentence.words.windows(2) {
                assert_ne!(
                    pair[0].text.to_lowercase(),
                    pair[1].text.to_lowercase(),
                    "{}",
                    text.sentence_text(sentence)
                );
            }
        }
    }
}

#[test]
fn relations_and_parts_of_speech_fit() {
    for text in texts() {
        for sentence in &text.sentences {
            for word in &sentence.words {
                let tag = word.part_of_speech.tag();
                let fits = match word.relation {
                    "det" => tag == "DET",
                    "amod" => tag == "ADJ",
                    "aux" | "aux:pass" | "cop" => tag == "AUX",
                    "cc" => tag == "CCONJ",
                    "punct" => tag == "PUNCT",
                    "nummod" => tag == "NUM",
                    "flat" => tag == "PROPN",
                    "case" => matches!(tag, "ADP" | "PART"),
                    "mark" => matches!(tag, "SCONJ" | "PART"),
                    "advmod" => matches!(tag, "ADV" | "PART" | "PRON"),
                    _ => tag != "PUNCT",
                };
                assert!(fits, "{} {tag} {}: {}", word.text, word.relation, text.sentence_text(sentence));
            }
        }
    }
}
