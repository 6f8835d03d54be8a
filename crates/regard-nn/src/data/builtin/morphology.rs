//! English word forms.

use super::lexicon::LEXICON;
use super::text::PartOfSpeech;

/// The tense of a verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tense {
    Present,
    Past,
}

/// The form of a word other than its dictionary form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WordForm {
    Finite(Tense),
    Participle,
    Gerund,
    Plural,
}

/// The person and number that a verb agrees with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Agreement {
    FirstSingular,
    ThirdSingular,
    Plural,
}

/// The finite form of a verb: be → am, is, are, was, were.
pub(super) fn finite(lemma: &str, tense: Tense, agreement: Agreement) -> String {
    use Agreement as A;
    match (lemma, tense, agreement) {
        ("be", Tense::Present, A::FirstSingular) => "am".to_owned(),
        ("be", Tense::Present, A::ThirdSingular) => "is".to_owned(),
        ("be", Tense::Present, A::Plural) => "are".to_owned(),
        ("be", Tense::Past, A::Plural) => "were".to_owned(),
        ("have", Tense::Present, A::ThirdSingular) => "has".to_owned(),
        (_, Tense::Past, _) => past(lemma),
        (_, Tense::Present, A::ThirdSingular) => with_s(lemma),
        (_, Tense::Present, _) => lemma.to_owned(),
    }
}

fn past(lemma: &str) -> String {
    LEXICON.irregular_verbs.get(lemma).map_or_else(|| with_ed(lemma), |forms| forms.0.to_owned())
}

/// Every form of a verb or a noun; other words have one.
pub(super) fn forms(lemma: &str, part_of_speech: PartOfSpeech) -> Vec<String> {
    let third = |tense| finite(lemma, tense, Agreement::ThirdSingular);
    let mut forms = match part_of_speech {
        PartOfSpeech::Verb => {
            vec![third(Tense::Present), third(Tense::Past), participle(lemma), gerund(lemma)]
        }
        PartOfSpeech::Noun => vec![plural(lemma)],
        _ => Vec::new(),
    };
    forms.push(lemma.to_owned());
    forms
}

/// The past participle: write → written.
pub(super) fn participle(lemma: &str) -> String {
    LEXICON.irregular_verbs.get(lemma).map_or_else(|| with_ed(lemma), |forms| forms.1.to_owned())
}

/// The -ing form: write → writing.
pub(super) fn gerund(lemma: &str) -> String {
    if let Some(stem) = lemma.strip_suffix("ie") {
        return format!("{stem}ying");
    }
    match lemma.strip_suffix('e') {
        Some(stem)
            if !lemma.ends_with("ee")
                && !lemma.ends_with("ye")
                && !lemma.ends_with("oe")
                && lemma != "be" =>
        {
            format!("{stem}ing")
        }
        _ if doubles(lemma) => format!("{lemma}{}ing", last(lemma)),
        _ => format!("{lemma}ing"),
    }
}

/// The plural of a noun.
pub(super) fn plural(lemma: &str) -> String {
    LEXICON.irregular_nouns.get(lemma).map_or_else(|| with_s(lemma), |&form| form.to_owned())
}

/// Whether a word takes "an" rather than "a".
pub(super) fn takes_an(word: &str) -> bool {
    let word = word.to_lowercase();
    if LEXICON.sounds_like_a.contains(word.as_str()) {
        return false;
    }
    LEXICON.sounds_like_an.contains(word.as_str()) || word.chars().next().is_some_and(is_vowel)
}

fn is_vowel(letter: char) -> bool {
    matches!(letter, 'a' | 'e' | 'i' | 'o' | 'u')
}

fn last(word: &str) -> char {
    word.chars().next_back().unwrap_or(' ')
}

/// The stem before a final y that becomes i: carry → carr, but not play.
fn before_changing_y(word: &str) -> Option<&str> {
    word.strip_suffix('y').filter(|stem| !is_vowel(last(stem)))
}

fn with_s(word: &str) -> String {
    let hissing = ["s", "x", "z", "ch", "sh"].iter().any(|end| word.ends_with(end));
    match before_changing_y(word) {
        Some(stem) => format!("{stem}ies"),
        None if hissing || (word.ends_with('o') && matches!(word, "go" | "do" | "hero" | "echo")) => {
            format!("{word}es")
        }
        None => format!("{word}s"),
    }
}

fn with_ed(word: &str) -> String {
    match before_changing_y(word) {
        Some(stem) => format!("{stem}ied"),
        None if word.ends_with('e') => format!("{word}d"),
        None if doubles(word) => format!("{word}{}ed", last(word)),
        None => format!("{word}ed"),
    }
}

/// Whether the last consonant is doubled before -ed and -ing: in words of one syllable that end in one vowel and one
/// consonant, and in those of the lexicon's list.
fn doubles(word: &str) -> bool {
    if LEXICON.doubling.contains(word) {
        return true;
    }
    let letters: Vec<char> = word.chars().collect();
    let vowels = letters.iter().filter(|&&letter| is_vowel(letter)).count();
    match letters[..] {
        [.., before, vowel, end] => {
            vowels == 1
                && !is_vowel(before)
                && is_vowel(vowel)
                && !is_vowel(end)
                && !matches!(end, 'w' | 'x' | 'y')
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_are_inflected() {
        let third = |lemma| finite(lemma, Tense::Present, Agreement::ThirdSingular);
        assert_eq!(
            ["be", "have", "carry", "watch", "play", "go"].map(third),
            ["is", "has", "carries", "watches", "plays", "goes"]
        );
        let past = |lemma| finite(lemma, Tense::Past, Agreement::ThirdSingular);
        assert_eq!(
            ["be", "drag", "bury", "play", "find", "enthral", "sparkle", "plot", "open", "row", "fail"]
                .map(past),
            [
                "was",
                "dragged",
                "buried",
                "played",
                "found",
                "enthralled",
                "sparkled",
                "plotted",
                "opened",
                "rowed",
                "failed"
            ]
        );
        assert_eq!(
            ["run", "hide", "flee", "swim", "travel", "row"].map(gerund),
            ["running", "hiding", "fleeing", "swimming", "travelling", "rowing"]
        );
        assert_eq!(
            ["steal", "grip", "charm", "shoot"].map(participle),
            ["stolen", "gripped", "charmed", "shot"]
        );
        assert_eq!(finite("be", Tense::Past, Agreement::Plural), "were");
        assert_eq!(finite("be", Tense::Present, Agreement::FirstSingular), "am");
    }

    #[test]
    fn plurals_and_articles_follow_pronunciation() {
        assert_eq!(
            ["key", "box", "story", "wolf", "fisherman", "church", "piano"].map(plural),
            ["keys", "boxes", "stories", "wolves", "fishermen", "churches", "pianos"]
        );
        assert!(["hour", "old", "Ashton", "uninspired", "umbrella"].into_iter().all(takes_an));
        assert!(!["uniform", "one-eyed", "house", "union", "young"].into_iter().any(takes_an));
    }
}
