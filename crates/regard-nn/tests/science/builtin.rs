//! The built-in corpus: what it promises of every text.

mod english;
mod mixture;
mod pairs;
mod reader;

use proptest::prelude::*;
use regard_nn::data::builtin::{
    Corpus, CorpusSettings, FAR, PartOfSpeech, Polarity, Role, SentenceKind, Split, Statistics, Text,
    sentiment_words,
};
use std::collections::{BTreeMap, HashSet};

fn corpus(seed: u64) -> Corpus {
    Corpus::new(CorpusSettings::default(), seed).unwrap()
}

/// Texts of one sentence: the shortest there are.
fn single_sentences() -> CorpusSettings {
    CorpusSettings { fewest_sentences: 1, most_sentences: 1, ..CorpusSettings::default() }
}

/// Short texts and long ones, with more of what is difficult than usual.
fn hard_settings() -> CorpusSettings {
    CorpusSettings {
        fewest_sentences: 1,
        most_sentences: 20,
        dissent: 0.4,
        near_negation: 0.25,
        far_negation: 0.25,
        contrast: 0.25,
        decoys: 0.2,
        distractors: 0.6,
        ..CorpusSettings::default()
    }
}

fn assert_is_a_tree(text: &Text) {
    for sentence in &text.sentences {
        let words = &sentence.words;
        let roots: Vec<_> = words.iter().filter(|word| word.head.is_none()).collect();
        assert_eq!(roots.len(), 1, "{}", text.sentence_text(sentence));
        assert!(words.iter().all(|word| (word.relation == "root") == word.head.is_none()));
        for start in 0..words.len() {
            // Every way up ends at the root within as many steps as there are words.
            let mut steps = std::iter::successors(Some(start), |&at| words[at].head);
            assert!(steps.nth(words.len()).is_none(), "a cycle: {}", text.sentence_text(sentence));
        }
        for (dependent, word) in words.iter().enumerate() {
            let Some(head) = word.head else { continue };
            // Projective: what lies between a word and its head hangs below that head.
            for between in dependent.min(head) + 1..dependent.max(head) {
                let mut above = std::iter::successors(Some(between), |&at| words[at].head);
                assert!(above.any(|at| at == head), "crossing: {}", text.sentence_text(sentence));
            }
        }
    }
}

fn assert_spans_fit(text: &Text) {
    let mut end = 0;
    for word in text.words() {
        assert_eq!(&text.text()[word.span.clone()], word.text);
        let gap = &text.text()[end..word.span.start];
        assert!(gap.is_empty() || gap == " ", "{gap:?} before {}", word.text);
        end = word.span.end;
    }
    assert_eq!(end, text.text().len());
    assert!(text.words().next().unwrap().span.start == 0);
}

fn assert_roles_agree(text: &Text) {
    for sentence in &text.sentences {
        assert_eq!(sentence.kind.is_opinion(), sentence.polarity.is_some());
        let negators: HashSet<usize> = sentence.words.iter().filter_map(|word| word.negator).collect();
        for (index, word) in sentence.words.iter().enumerate() {
            assert_eq!(
                word.role == Role::Negator,
                negators.contains(&index),
                "{}",
                text.sentence_text(sentence)
            );
            let judges = matches!(word.role, Role::Sentiment(_) | Role::Conceded(_));
            assert!(judges || word.negator.is_none());
            if let Role::Sentiment(polarity) = word.role {
                let says = if word.negator.is_some() { polarity.opposite() } else { polarity };
                assert_eq!(Some(says), sentence.polarity, "{}", text.sentence_text(sentence));
            }
        }
        let judges = sentence.words.iter().any(|word| matches!(word.role, Role::Sentiment(_)));
        assert_eq!(judges, sentence.kind.is_opinion(), "{}", text.sentence_text(sentence));
        let misleads = sentence.words.iter().any(|word| matches!(word.role, Role::Distractor(_)));
        assert!(misleads || sentence.kind != SentenceKind::Distractor, "{}", text.sentence_text(sentence));
        let any = sentence.words.iter().any(|word| word.role.polarity().is_some());
        assert!(!any || sentence.kind != SentenceKind::Neutral, "{}", text.sentence_text(sentence));
    }
}

fn assert_negators_stand_where_promised(text: &Text) {
    for negation in text.negations() {
        let sentence = &text.sentences[negation.sentence];
        assert_eq!(negation.sentiment_index.abs_diff(negation.negator_index), negation.distance);
        match sentence.kind {
            SentenceKind::NearNegation => {
                assert!(negation.distance < FAR, "{}", text.sentence_text(sentence));
            }
            SentenceKind::FarNegation => {
                assert!(negation.distance >= FAR, "{}", text.sentence_text(sentence));
            }
            _ => {}
        }
    }
    for (index, sentence) in text.sentences.iter().enumerate() {
        let negated = text.negations().any(|negation| negation.sentence == index);
        match sentence.kind {
            SentenceKind::NearNegation | SentenceKind::FarNegation => assert!(negated),
            SentenceKind::Plain | SentenceKind::Neutral | SentenceKind::Distractor => assert!(!negated),
            SentenceKind::Contrast | SentenceKind::Decoy => {}
        }
    }
}

fn assert_is_sound(text: &Text) {
    assert_is_a_tree(text);
    assert_spans_fit(text);
    assert_roles_agree(text);
    assert_negators_stand_where_promised(text);
    assert!(text.text().contains(&text.film), "{} not in: {}", text.film, text.text());
    assert_eq!(reader::label(text), text.label, "{}", text.text());
    for sentence in &text.sentences {
        assert_eq!(reader::verdict(sentence), sentence.polarity, "{}", text.sentence_text(sentence));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_text_is_sound(seed in any::<u64>(), index in any::<u64>(), hard in any::<bool>()) {
        let settings = if hard { hard_settings() } else { CorpusSettings::default() };
        let corpus = Corpus::new(settings, seed).unwrap();
        for split in Split::ALL {
            assert_is_sound(&corpus.split(split).text(index));
        }
    }

    #[test]
    fn a_text_depends_on_seed_and_index_alone(seed in any::<u64>(), index in 0..u64::MAX - 3) {
        let text = corpus(seed).text(index);
        let other = corpus(seed);
        other.text(index + 1);
        prop_assert_eq!(&text, &other.text(index));
        prop_assert_ne!(&text, &corpus(seed.wrapping_add(1)).text(index));
        prop_assert_ne!(&text, &other.text(index + 1));
    }
}

#[test]
fn texts_come_in_the_order_of_their_numbers() {
    let corpus = corpus(3);
    for (index, text) in corpus.texts().take(20).enumerate() {
        assert_eq!(text, corpus.text(index as u64));
    }
}

/// Rare words and rules come up, too; and a reader who resolves negation and contrast makes no mistake.
#[test]
fn many_texts_are_sound() {
    for settings in [CorpusSettings::default(), hard_settings(), single_sentences()] {
        for text in Corpus::new(settings, 11).unwrap().texts().take(3000) {
            assert_is_sound(&text);
        }
    }
}

#[test]
fn of_two_neighbours_one_is_positive() {
    let labels: Vec<Polarity> = corpus(5).texts().take(200).map(|text| text.label).collect();
    assert!(labels.chunks(2).all(|pair| pair[0] != pair[1]));
    let first = labels.iter().step_by(2).filter(|&&label| label == Polarity::Positive).count();
    // Of 100 fair coins; outside once in 10⁵ seeds.
    assert!((28..=72).contains(&first), "{first}");
}

#[test]
fn no_text_is_in_two_parts() {
    let corpus = Corpus::new(single_sentences(), 1).unwrap();
    let mut films: BTreeMap<String, Split> = BTreeMap::new();
    let mut texts: BTreeMap<String, Split> = BTreeMap::new();
    for split in Split::ALL {
        for text in corpus.split(split).texts().take(4000) {
            assert_eq!(*films.entry(text.film.clone()).or_insert(split), split, "{}", text.film);
            assert_eq!(*texts.entry(text.text().to_owned()).or_insert(split), split, "{}", text.text());
        }
    }
    // Single sentences repeat within a part, but rarely.
    assert!(texts.len() > 11_500, "{}", texts.len());
}

#[test]
fn films_and_names_come_back_in_a_text() {
    let texts: Vec<Text> = corpus(2).texts().take(500).collect();
    let again = texts.iter().filter(|text| text.text().matches(&text.film).count() > 1).count();
    assert!(again > 250, "{again} of 500 name their film twice");
    let names = |text: &Text| -> Vec<String> {
        let names = text.words().filter(|word| word.part_of_speech == PartOfSpeech::ProperNoun);
        names.map(|word| word.text.clone()).collect()
    };
    let repeating = texts.iter().filter(|text| {
        let names = names(text);
        names.iter().collect::<HashSet<_>>().len() < names.len()
    });
    let repeating = repeating.count();
    assert!(repeating > 250, "{repeating} of 500 repeat a name");
}

#[test]
fn words_that_judge_are_of_one_polarity() {
    let [negative, positive] = [Polarity::Negative, Polarity::Positive].map(sentiment_words);
    assert!(negative.len() > 200 && positive.len() > 200, "{} {}", negative.len(), positive.len());
    assert!(negative.is_sorted() && positive.is_sorted());
    let both: Vec<_> = negative.iter().filter(|word| positive.binary_search(word).is_ok()).collect();
    assert_eq!(both, Vec::<&String>::new());
    for text in corpus(4).texts().take(500) {
        for word in text.words() {
            let Some(polarity) = word.role.polarity() else { continue };
            let list = if polarity == Polarity::Positive { &positive } else { &negative };
            assert!(list.binary_search(&word.text.to_lowercase()).is_ok(), "{}", word.text);
        }
    }
}

#[test]
fn conllu_has_ten_columns_and_gives_the_text_back() {
    for (number, text) in corpus(8).texts().take(50).enumerate() {
        let conllu = text.conllu(&number.to_string());
        let blocks: Vec<&str> = conllu.trim_end().split("\n\n").collect();
        assert_eq!(blocks.len(), text.sentences.len());
        for (block, sentence) in blocks.iter().zip(&text.sentences) {
            let rows: Vec<Vec<&str>> = block
                .lines()
                .filter(|line| !line.starts_with('#'))
                .map(|line| line.split('\t').collect())
                .collect();
            assert_eq!(rows.len(), sentence.words.len());
            let mut string = String::new();
            for (index, (row, word)) in rows.iter().zip(&sentence.words).enumerate() {
                assert_eq!(row.len(), 10);
                assert!(row.iter().all(|field| !field.is_empty() && !field.contains(' ')), "{row:?}");
                assert_eq!(row[0], (index + 1).to_string());
                assert_eq!(row[3], word.part_of_speech.tag());
                assert_eq!(row[6].parse::<usize>().unwrap(), word.head.map_or(0, |head| head + 1));
                string.push_str(row[1]);
                if !row[9].contains("SpaceAfter=No") {
                    string.push(' ');
                }
            }
            assert_eq!(string.trim_end(), text.sentence_text(sentence));
            assert!(block.contains(&format!("# text = {}", text.sentence_text(sentence))));
        }
    }
}

#[test]
fn statistics_count_what_is_there() {
    let texts: Vec<Text> = corpus(9).texts().take(300).collect();
    let statistics = Statistics::of(&texts);
    assert_eq!(statistics, Statistics::of(corpus(9).texts().take(300)));
    let words: Vec<String> = texts
        .iter()
        .flat_map(Text::words)
        .filter(|word| word.part_of_speech != PartOfSpeech::Punctuation)
        .map(|word| word.text.to_lowercase())
        .collect();
    assert_eq!(
        (statistics.texts, statistics.words, statistics.labels),
        (300, words.len() as u64, [150, 150])
    );
    assert_eq!(statistics.distinct_words(), words.iter().collect::<HashSet<_>>().len());
    let the = words.iter().filter(|word| *word == "the").count() as u64;
    assert_eq!(statistics.frequencies[0], ("the".to_owned(), the));
    assert!(statistics.frequencies.is_sorted_by(|a, b| (b.1, &a.0) < (a.1, &b.0)));
    assert_eq!(statistics.coverage(usize::MAX), 1.0);
    assert_eq!(statistics.coverage(1), the as f64 / words.len() as f64);
    assert_eq!(statistics.kinds.values().sum::<u64>(), statistics.sentences);
    assert_eq!(SentenceKind::ALL.iter().map(|&kind| statistics.share(kind)).sum::<f64>().round(), 1.0);
    let negations: usize = texts.iter().map(|text| text.negations().count()).sum();
    assert_eq!(statistics.distances.values().sum::<u64>(), negations as u64);
    let mut lengths: Vec<usize> =
        statistics.lengths.iter().flat_map(|(&n, &c)| vec![n; c as usize]).collect();
    lengths.sort_unstable();
    assert_eq!(statistics.length_quantile(0.5), lengths[149]);
    assert_eq!(
        (statistics.length_quantile(0.0), statistics.length_quantile(1.0)),
        (lengths[0], lengths[299])
    );
    assert!((statistics.mean_length() - lengths.iter().sum::<usize>() as f64 / 300.0).abs() < 1e-9);
    let nothing = Statistics::of(Vec::<Text>::new());
    assert_eq!((nothing.coverage(5), nothing.mean_length(), nothing.length_quantile(0.5)), (0.0, 0.0, 0));
}
