//! The settings: what they refuse, and what they do.

use super::{corpus, single_sentences};
use regard_nn::data::builtin::{Corpus, CorpusSettings, PartOfSpeech, SentenceKind, Statistics, Text};
use std::collections::HashMap;

fn refusal(settings: CorpusSettings) -> String {
    Corpus::new(settings, 0).unwrap_err().to_string()
}

#[test]
fn impossible_settings_are_refused() {
    let with = |change: fn(&mut CorpusSettings)| {
        let mut settings = CorpusSettings::default();
        change(&mut settings);
        refusal(settings)
    };
    assert!(with(|s| s.fewest_sentences = 0).contains("sentences from 0 to 12"));
    assert!(with(|s| s.fewest_sentences = 13).contains("sentences from 13 to 12"));
    assert!(with(|s| s.most_sentences = usize::MAX).contains("at most"));
    assert!(with(|s| s.fewest_words = usize::MAX).contains("at most"));
    assert!(with(|s| s.opinions = -0.1).contains("opinions must be between 0 and 1, got -0.1"));
    assert!(with(|s| s.distractors = f64::NAN).contains("distractors must be between 0 and 1, got NaN"));
    assert!(with(|s| s.contrast = 0.9).contains("add up to"));
}

#[test]
fn settings_are_read_with_defaults_and_without_strangers() {
    let settings: CorpusSettings = serde_json::from_str(r#"{"most_sentences": 5, "contrast": 0.2}"#).unwrap();
    assert_eq!(settings, CorpusSettings { most_sentences: 5, contrast: 0.2, ..CorpusSettings::default() });
    let back: CorpusSettings = serde_json::from_str(&serde_json::to_string(&settings).unwrap()).unwrap();
    assert_eq!(back, settings);
    let stranger = serde_json::from_str::<CorpusSettings>(r#"{"contrasts": 0.2}"#).unwrap_err().to_string();
    assert!(stranger.contains("unknown field `contrasts`"), "{stranger}");
}

#[test]
fn lengths_are_as_asked() {
    let words = |text: &Text| text.words().filter(|w| w.part_of_speech != PartOfSpeech::Punctuation).count();
    let settings = CorpusSettings { fewest_sentences: 2, most_sentences: 4, ..CorpusSettings::default() };
    let counts: Vec<usize> =
        Corpus::new(settings, 1).unwrap().texts().take(200).map(|text| text.sentences.len()).collect();
    assert_eq!((counts.iter().min(), counts.iter().max()), (Some(&2), Some(&4)));
    let settings =
        CorpusSettings { fewest_sentences: 3000, most_sentences: 3000, ..CorpusSettings::default() };
    let longest = Corpus::new(settings, 1).unwrap().text(0);
    assert_eq!(longest.sentences.len(), 3000);
    super::assert_is_sound(&longest);
    let settings = CorpusSettings { fewest_words: 150, ..CorpusSettings::default() };
    let long = Corpus::new(settings, 1).unwrap();
    // A sentence has at most some forty words.
    assert!(
        long.texts().take(50).all(|text| (150..200).contains(&words(&text)) || text.sentences.len() <= 12)
    );
}

#[test]
fn shares_are_as_asked() {
    let base = || CorpusSettings {
        opinions: 1.0,
        near_negation: 0.0,
        far_negation: 0.0,
        contrast: 0.0,
        decoys: 0.0,
        ..CorpusSettings::default()
    };
    let pure = [
        (base(), SentenceKind::Plain),
        (CorpusSettings { near_negation: 1.0, ..base() }, SentenceKind::NearNegation),
        (CorpusSettings { far_negation: 1.0, ..base() }, SentenceKind::FarNegation),
        (CorpusSettings { contrast: 1.0, ..base() }, SentenceKind::Contrast),
        (CorpusSettings { decoys: 1.0, ..base() }, SentenceKind::Decoy),
    ];
    for (settings, kind) in pure {
        let statistics = Statistics::of(Corpus::new(settings, 1).unwrap().texts().take(100));
        assert_eq!(statistics.share(kind), 1.0, "{kind:?}");
    }
    let statistics = Statistics::of(corpus(1).texts().take(3000));
    let settings = CorpusSettings::default();
    let judging = settings.opinions * statistics.sentences as f64;
    for (share, kind) in [
        (settings.near_negation, SentenceKind::NearNegation),
        (settings.far_negation, SentenceKind::FarNegation),
        (settings.contrast, SentenceKind::Contrast),
        (settings.decoys, SentenceKind::Decoy),
    ] {
        // Five standard deviations; that every text has an opinion makes no more difference than that.
        let (mean, count) = (judging * share, statistics.kinds[&kind] as f64);
        assert!(
            (count - mean).abs() < 5.0 * mean.sqrt() + 0.01 * mean,
            "{kind:?}: {count} instead of {mean}"
        );
    }
}

/// Naive Bayes on single words, with one added to each count.
fn bag_of_words_accuracy(train: &[Text], test: &[Text]) -> f64 {
    let mut counts: HashMap<String, [f64; 2]> = HashMap::new();
    for text in train {
        for word in text.words() {
            counts.entry(word.text.to_lowercase()).or_default()[text.label.class()] += 1.0;
        }
    }
    let right = test.iter().filter(|text| {
        let odds = |word: &str| counts.get(word).map_or(0.0, |[n, p]| ((p + 1.0) / (n + 1.0)).ln());
        let sum: f64 = text.words().map(|word| odds(&word.text.to_lowercase())).sum();
        usize::from(sum > 0.0) == text.label.class()
    });
    right.count() as f64 / test.len() as f64
}

/// The corpus asks for more than single words, but single words tell something; without negation, contrast and the rest,
/// they tell nearly all.
#[test]
fn a_bag_of_words_is_below_the_ceiling() {
    let accuracy = |settings: CorpusSettings| {
        let corpus = Corpus::new(settings, 6).unwrap();
        let texts: Vec<Text> = corpus.texts().take(5000).collect();
        bag_of_words_accuracy(&texts[..4000], &texts[4000..])
    };
    let usual = accuracy(CorpusSettings::default());
    assert!((0.7..0.88).contains(&usual), "{usual}");
    let easy = accuracy(CorpusSettings {
        dissent: 0.0,
        near_negation: 0.0,
        far_negation: 0.0,
        contrast: 0.0,
        decoys: 0.0,
        distractors: 0.0,
        ..CorpusSettings::default()
    });
    assert!(easy > 0.97, "{easy}");
    let reversed = accuracy(CorpusSettings {
        near_negation: 0.5,
        far_negation: 0.0,
        contrast: 0.0,
        decoys: 0.0,
        opinions: 1.0,
        ..single_sentences()
    });
    assert!((0.5..0.7).contains(&reversed), "{reversed}");
}

#[test]
fn there_are_thousands_of_words_with_a_long_tail() {
    let statistics = Statistics::of(corpus(1).texts().take(8000));
    assert!(statistics.distinct_words() > 5000, "{}", statistics.distinct_words());
    let (common, rare) = (statistics.coverage(100), statistics.coverage(2000));
    assert!((0.5..0.7).contains(&common) && (0.9..0.99).contains(&rare), "{common} {rare}");
    // Zipf's law: frequency against rank falls with a slope near −1 between the 10th and the 1000th word.
    let log = |rank: usize| (statistics.frequencies[rank - 1].1 as f64).ln();
    let slope = (log(1000) - log(10)) / 100_f64.ln();
    assert!((-1.4..-0.7).contains(&slope), "{slope}");
}
