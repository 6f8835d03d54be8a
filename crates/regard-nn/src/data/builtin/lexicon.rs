//! The words of the corpus, read from `lexicon.txt`, which describes its own notation.

use super::draws::Draws;
use super::text::{PartOfSpeech, Polarity};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// The lexicon that ships with the library.
pub(super) static LEXICON: LazyLock<Lexicon> = LazyLock::new(|| Lexicon::read(include_str!("lexicon.txt")));

/// A word in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    /// The dictionary form; for a compound, the word that is inflected.
    pub lemma: &'static str,
    /// The first noun of a compound, or the particle of a verb.
    pub partner: Option<&'static str>,
    pub part_of_speech: PartOfSpeech,
    pub plural: bool,
    /// Whether it is extreme, so that "very" cannot precede it.
    pub extreme: bool,
}

/// Words drawn with frequencies by Zipf's law: about 1/r for the word of rank r.
#[derive(Debug, Clone, Default)]
pub(super) struct List {
    entries: Vec<Entry>,
    cumulative: Vec<f64>,
}

impl List {
    fn new(entries: Vec<Entry>) -> Self {
        // Mandelbrot's form of the law: the shift keeps the first words from dominating.
        let weights = (0..entries.len()).map(|rank| 1.0 / (rank as f64 + 4.0));
        let cumulative = weights.scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        Self { cumulative: cumulative.collect(), entries }
    }

    pub fn draw(&self, draws: &mut Draws) -> Entry {
        self.entries[draws.weighted(&self.cumulative)]
    }
}

type ListName = (&'static str, Option<Polarity>, &'static str);

/// The class of words for all topics.
const ANY: &str = "any";

#[derive(Debug, Default)]
pub(super) struct Lexicon {
    lists: BTreeMap<ListName, List>,
    parts_of_speech: BTreeMap<&'static str, PartOfSpeech>,
    /// The classes of topic that each word is listed under, as its headers name them.
    fields: BTreeMap<&'static str, BTreeSet<&'static str>>,
    pub irregular_verbs: BTreeMap<&'static str, (&'static str, &'static str)>,
    pub irregular_nouns: BTreeMap<&'static str, &'static str>,
    pub doubling: BTreeSet<&'static str>,
    pub sounds_like_a: BTreeSet<&'static str>,
    pub sounds_like_an: BTreeSet<&'static str>,
}

impl Lexicon {
    /// The words of a family for a class: those of the class and the general ones, alternating.
    pub fn list(&self, family: &'static str, polarity: Option<Polarity>, class: &'static str) -> &List {
        self.find(family, polarity, class).unwrap_or_else(|| panic!("no words {family} {polarity:?} {class}"))
    }

    pub fn find(
        &self,
        family: &'static str,
        polarity: Option<Polarity>,
        class: &'static str,
    ) -> Option<&List> {
        self.lists.get(&(family, polarity, class)).or_else(|| self.lists.get(&(family, polarity, ANY)))
    }

    pub fn has_family(&self, family: &str) -> bool {
        self.lists.keys().any(|(name, _, _)| *name == family)
    }

    #[cfg(test)]
    pub fn families(&self) -> impl Iterator<Item = &'static str> {
        let mut names: Vec<_> = self.lists.keys().map(|(name, _, _)| *name).collect();
        names.dedup();
        names.into_iter()
    }

    pub fn is_sentiment(&self, family: &str) -> bool {
        self.lists.keys().any(|(name, polarity, _)| *name == family && polarity.is_some())
    }

    pub fn part_of_speech(&self, lemma: &str) -> Option<PartOfSpeech> {
        self.parts_of_speech.get(lemma).copied()
    }

    /// All words of a family.
    pub fn family(&self, family: &'static str) -> impl Iterator<Item = Entry> {
        let lists = self.lists.iter().filter(move |((name, ..), _)| *name == family);
        lists.flat_map(|(_, list)| list.entries.iter().copied())
    }

    /// Words with their part of speech that are listed under one field only, with this field.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, PartOfSpeech, &'static str)> {
        self.fields.iter().filter_map(|(lemma, classes)| {
            let mut names = classes.iter().map(|classes| field(classes));
            let first = names.next()??;
            names.all(|other| other == Some(first)).then_some((*lemma, self.part_of_speech(lemma)?, first))
        })
    }

    /// All words of this polarity.
    pub fn sentiment(&self, polarity: Polarity) -> impl Iterator<Item = Entry> {
        let lists = self.lists.iter().filter(move |((_, of, _), _)| *of == Some(polarity));
        lists.flat_map(|(_, list)| list.entries.iter().copied())
    }

    fn read(source: &'static str) -> Self {
        let mut lexicon = Self::default();
        let mut raw: BTreeMap<ListName, Vec<Entry>> = BTreeMap::new();
        for (header, words) in sections(source) {
            let (name, tag) = header.split_once(' ').unwrap_or_else(|| panic!("no part of speech: {header}"));
            let part =
                PartOfSpeech::from_tag(tag).unwrap_or_else(|| panic!("no part of speech {tag}: {header}"));
            if lexicon.read_forms(name, &words) {
                continue;
            }
            for word in &words {
                let entry = Entry::read(word, part);
                lexicon.parts_of_speech.entry(entry.lemma).or_insert(part);
            }
            if name == "closed" {
                // Function words of the grammar take precedence, as for "that".
                lexicon.parts_of_speech.extend(words.iter().map(|&word| (word, part)));
                continue;
            }
            let classes = name.split_once('.').map_or(ANY, |(_, classes)| classes);
            for word in &words {
                lexicon.fields.entry(Entry::read(word, part).lemma).or_default().insert(classes);
            }
            for key in list_names(name) {
                raw.entry(key).or_default().extend(words.iter().map(|word| Entry::read(word, part)));
            }
        }
        lexicon.lists = merge(&raw);
        lexicon
    }

    /// Reads a list of irregular forms; returns false for other lists.
    fn read_forms(&mut self, name: &str, words: &[&'static str]) -> bool {
        match name {
            "irregular-verbs" => {
                for word in words {
                    let mut forms = word.split('/');
                    if let (Some(lemma), Some(past), Some(participle)) =
                        (forms.next(), forms.next(), forms.next())
                    {
                        self.irregular_verbs.insert(lemma, (past, participle));
                    }
                }
            }
            "irregular-nouns" => {
                let forms = words.iter().filter_map(|word| word.split_once('/'));
                self.irregular_nouns.extend(forms);
            }
            "doubling" => self.doubling.extend(words),
            "sounds-like-a" => self.sounds_like_a.extend(words),
            "sounds-like-an" => self.sounds_like_an.extend(words),
            _ => return false,
        }
        true
    }
}

impl Entry {
    fn read(word: &'static str, part_of_speech: PartOfSpeech) -> Self {
        let (word, extreme) = word.strip_suffix('!').map_or((word, false), |word| (word, true));
        let (word, plural) = word.strip_suffix(".pl").map_or((word, false), |word| (word, true));
        let (lemma, partner) = match word.split_once('_') {
            Some((verb, particle)) if part_of_speech == PartOfSpeech::Verb => (verb, Some(particle)),
            Some((first, noun)) => (noun, Some(first)),
            None => (word, None),
        };
        Self { lemma, partner, part_of_speech, plural, extreme }
    }
}

/// Headers with the words below them.
fn sections(source: &'static str) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut sections: Vec<(&'static str, Vec<&'static str>)> = Vec::new();
    for line in source.lines().filter(|line| !line.starts_with('#')) {
        let words = match line.split_once(':') {
            Some((header, rest)) => {
                sections.push((header, Vec::new()));
                rest
            }
            None => line,
        };
        match sections.last_mut() {
            Some((_, list)) => list.extend(words.split_whitespace()),
            None => assert!(words.trim().is_empty(), "words before the first header: {line}"),
        }
    }
    sections
}

/// The field of words that fit these classes of topic; none for those that fit everything. A plot and a whole film share theirs, as do
/// acting and people.
fn field(classes: &'static str) -> Option<&'static str> {
    const FIELDS: [&str; 6] = ["story", "look", "sound", "act", "comic", "director"];
    let of_class = |class: &'static str| match class {
        "film" => Some("story"),
        "person" => Some("act"),
        class => FIELDS.contains(&class).then_some(class),
    };
    let mut fields = classes.split(',').map(of_class);
    let first = fields.next()??;
    fields.all(|other| other == Some(first)).then_some(first)
}

/// `adj+.story,film` names two lists.
fn list_names(name: &'static str) -> Vec<ListName> {
    let (family, classes) = name.split_once('.').unwrap_or((name, ANY));
    let (family, polarity) = if let Some(family) = family.strip_suffix('+') {
        (family, Some(Polarity::Positive))
    } else if let Some(family) = family.strip_suffix('-') {
        (family, Some(Polarity::Negative))
    } else {
        (family, None)
    };
    classes.split(',').map(|class| (family, polarity, class)).collect()
}

/// Adds the general words to each class, alternating, so that both kinds are frequent.
fn merge(raw: &BTreeMap<ListName, Vec<Entry>>) -> BTreeMap<ListName, List> {
    // Closed classes, without general words.
    const CLOSED: [&str; 6] = ["character", "event", "extreme", "negated", "female", "male"];
    let merged = raw.iter().map(|(&(family, polarity, class), own)| {
        let general = match class {
            ANY => None,
            class if CLOSED.contains(&class) => None,
            _ => raw.get(&(family, polarity, ANY)),
        };
        let mut entries: Vec<Entry> = Vec::new();
        let general = general.map_or(&[] as &[Entry], Vec::as_slice);
        for i in 0..own.len().max(general.len()) {
            for entry in [own.get(i), general.get(i)].into_iter().flatten() {
                if !entries.contains(entry) {
                    entries.push(*entry);
                }
            }
        }
        ((family, polarity, class), List::new(entries))
    });
    merged.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_list_has_a_word_twice() {
        for (header, words) in sections(include_str!("lexicon.txt")) {
            let distinct: BTreeSet<_> = words.iter().collect();
            let twice: Vec<_> =
                words.iter().enumerate().filter(|(i, word)| words[..*i].contains(word)).collect();
            assert_eq!(distinct.len(), words.len(), "{header}: {twice:?}");
        }
    }

    #[test]
    fn words_of_a_class_and_general_words_alternate() {
        let list = LEXICON.list("adj", Some(Polarity::Positive), "look");
        let first: Vec<_> = list.entries.iter().take(4).map(|entry| entry.lemma).collect();
        assert_eq!(first, ["gorgeous", "good", "stunning", "great"]);
        assert!(list.entries[0].extreme && !list.entries[1].extreme);
    }

    #[test]
    fn the_first_words_are_the_most_frequent() {
        let mut draws = Draws::new(regard_tensor::random::Key::new(1), 0);
        let list = LEXICON.list("object", None, ANY);
        let mut counts = vec![0; list.entries.len()];
        for _ in 0..50_000 {
            let entry = list.draw(&mut draws);
            counts[list.entries.iter().position(|other| *other == entry).unwrap()] += 1;
        }
        // Weights 1/4, 1/14 and 1/104: ratios of 3.5 and 26, to five standard errors of the rarest.
        let ratio = |rank: usize| f64::from(counts[0]) / f64::from(counts[rank]);
        assert!(
            (3.0..4.1).contains(&ratio(10)) && (15.0..60.0).contains(&ratio(100)),
            "{} {}",
            ratio(10),
            ratio(100)
        );
    }
}
