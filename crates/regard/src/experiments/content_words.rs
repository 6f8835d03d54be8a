//! Can one head tell from the context whether a hidden word is a content word or a function word?

use super::instruments::tagger_attention;
use super::models::tagger::{self as taggers, Class, Sentence};
use crate::experiment::{
    Bound, Check, Data, Experiment, Findings, Lab, Rows, SMALL_MODELS, Sizes, Sweep, Table, Verdict, charts,
    facts, named,
};
use crate::figure::{Axis, Bars, HeatMap, Matrix, Picture};
use crate::run::sources::{self, Tagged};
use crate::statistics::paired;
use anyhow::{Context as _, Result};
use regard_nn::data::batches::Hiding;
use std::collections::HashMap;

pub const EXPERIMENT: Experiment = Experiment {
    name: "content-words",
    claims: &["B1"],
    question: "Can one head classify a hidden word as content or function word from its context?",
    prediction: "On sentences outside the training data, a single attention head classifies hidden words correctly more often than the \
        more frequent class would, and more often than the better of the two neighbouring words predicts it. Each is a part.",
    design: "One attention layer with one head over word and position vectors. About one word in seven is hidden, another one in each epoch, and the \
        model predicts its class (content: noun, name, verb, adjective, adverb, interjection; function: all others). Baselines are counted \
        on the words that were hidden while the head was trained, from the neighbours that it saw: the majority class, the class that most often follows the previous word, the one that most \
        often precedes the next word, and both combined. Differences are paired by seed.",
    changed: None,
    data: Data::Text("a CoNLL-U treebank: a file, or a folder with train and test parts"),
    conditions: &["model"],
    seeds: SMALL_MODELS,
    seconds: Sizes::quick(7.0).standard(20.0).full(120.0),
    trains: |lab| Ok(vec![taggers::config(lab, 1, lab.first_seed())?]),
    run,
};

named! {
    enum Model {
        Majority = "majority",
        Before = "word before",
        After = "word after",
        Both = "both neighbours",
        Head = "one head",
        /// The better of the two single neighbours on the training sentences.
        Better = "better neighbour",
    }
}

/// The models that are shown.
const SHOWN: [Model; 5] = [Model::Majority, Model::Before, Model::After, Model::Both, Model::Head];
const ACCURACY: &str = "accuracy";
const ACCURACY_IN_TRAINING: &str = "accuracy on training sentences";
/// A head that is this much better on its training sentences has memorised some of them.
const MEMORISED: f64 = 0.05;

facts! {
    ACCURACY_OF(model: Model) = "accuracy: {model}";
    SENTENCES = "sentences";
}

fn run(lab: &Lab) -> Result<Findings> {
    let sentences = taggers::test_sentences(lab)?;
    let Sweep { table, runs } = lab.sweep_seeds("runs", |seed, rows| measure(lab, seed, &sentences, rows))?;
    let confusion = runs.iter().fold([[0.0_f32; 2]; 2], |mut sum, run| {
        for (sums, counts) in sum.iter_mut().zip(run.result) {
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count as f32);
        }
        sum
    });
    let mut findings = Findings::default();
    draw(&mut findings, &table, confusion);
    findings.verdicts = vec![judge(&table)];
    findings.facts(ACCURACY_OF, SHOWN, |model| table.mean(model, ACCURACY).mean);
    findings.fact(SENTENCES, sentences.len() as f64);
    findings.finish(lab, table)
}

/// How well a tagger and the baselines classify hidden words. Returns the tagger's counts by true and predicted class.
fn measure(lab: &Lab, seed: u64, sentences: &[Sentence], rows: &mut Rows<Model>) -> Result<[[u64; 2]; 2]> {
    let config = taggers::config(lab, 1, seed)?;
    let opened = taggers::trained(lab, 1, seed)?.snapshot(taggers::last_step(lab))?;
    let reading = tagger_attention::read(&opened, sentences)?;
    let (train, _, _) = sources::tagged_parts(&config.data, seed)?;
    let mask = opened.tokenizer()?.special().mask.context("the tokenizer has no mask")?;
    let epochs = (config.train.steps * config.train.batch_size as u64).div_ceil(train.len().max(1) as u64);
    let guesses = Guesses::of(&shown_in_training(&train, &sources::training_hiding(mask, seed), epochs));
    let hidden = taggers::hide(opened.tokenizer()?, sentences)?;
    let mut right = [0_u64; 4];
    let mut count = 0;
    for (sentence, (_, hidden)) in sentences.iter().zip(&hidden) {
        let tagged: Tagged = sentence.words.iter().cloned().zip(sentence.classes.iter().copied()).collect();
        for Shown { before, after, class } in shown(&tagged, hidden) {
            let predicted = guesses.predict(before.as_deref(), after.as_deref());
            right.iter_mut().zip(predicted).for_each(|(right, one)| *right += u64::from(one == class));
            count += 1;
        }
    }
    let baselines = right.map(|right| right as f64 / f64::from(count.max(1)));
    for (model, accuracy) in SHOWN.into_iter().zip(baselines.into_iter().chain([reading.accuracy()])) {
        rows.add(model, ACCURACY, accuracy);
    }
    rows.add(Model::Better, ACCURACY, baselines[guesses.better]);
    let some = sources::spread(train.len(), sentences.len()).into_iter();
    let some = some.map(|i| Sentence::without_tree(&train[i])).filter(Sentence::is_read);
    let learned = tagger_attention::accuracy(&opened, &some.collect::<Vec<_>>())?;
    rows.add(Model::Head, ACCURACY_IN_TRAINING, learned);
    for truth in Class::ALL {
        for predicted in Class::ALL {
            let count = reading.confusion[truth as usize][predicted as usize];
            rows.add(Model::Head, format!("{truth} told as {predicted}"), count as f64);
        }
    }
    Ok(reading.confusion)
}

/// The neighbour of the first and of the last word.
const EDGE: &str = "";

/// A hidden word as the head sees it: its neighbours, unless they are hidden as well, and its class.
struct Shown {
    before: Option<String>,
    after: Option<String>,
    class: u32,
}

/// The hidden words of a sentence.
fn shown(sentence: &Tagged, hidden: &[bool]) -> Vec<Shown> {
    let neighbour =
        |place: Option<usize>| match place.and_then(|place| Some((sentence.get(place)?, hidden[place]))) {
            Some((_, true)) => None,
            Some(((word, _), false)) => Some(word.to_lowercase()),
            None => Some(EDGE.to_owned()),
        };
    let one = |place: usize| Shown {
        before: neighbour(place.checked_sub(1)),
        after: neighbour(Some(place + 1)),
        class: sentence[place].1,
    };
    (0..sentence.len()).filter(|&place| hidden[place]).map(one).collect()
}

/// The words that were hidden in so many epochs: the labels that the head learned from.
fn shown_in_training(train: &[Tagged], hiding: &Hiding, epochs: u64) -> Vec<Shown> {
    let of_epoch = |epoch: u64| {
        let sentences = (0..).zip(train);
        sentences.flat_map(move |(number, sentence)| {
            shown(sentence, &hiding.places(sentence.len(), epoch, number))
        })
    };
    (0..epochs).flat_map(of_epoch).collect()
}

/// Guesses from neighbours: how often each class was seen after and before each word.
struct Guesses {
    classes: [u64; 2],
    after: HashMap<String, [u64; 2]>,
    before: HashMap<String, [u64; 2]>,
    /// 1 if the word before predicts better, 2 if the word after does.
    better: usize,
}

impl Guesses {
    fn of(hidden: &[Shown]) -> Self {
        let mut guesses = Self { classes: [0; 2], after: HashMap::new(), before: HashMap::new(), better: 1 };
        for Shown { before, after, class } in hidden {
            let class = *class as usize;
            guesses.classes[class] += 1;
            if let Some(before) = before {
                guesses.after.entry(before.clone()).or_default()[class] += 1;
            }
            if let Some(after) = after {
                guesses.before.entry(after.clone()).or_default()[class] += 1;
            }
        }
        let mut right = [0_u64; 4];
        for Shown { before, after, class } in hidden {
            let predicted = guesses.predict(before.as_deref(), after.as_deref());
            right.iter_mut().zip(predicted).for_each(|(right, one)| *right += u64::from(one == *class));
        }
        guesses.better = if right[2] > right[1] { 2 } else { 1 };
        guesses
    }

    /// The classes that the majority, the word before, the word after, and both predict. A neighbour that is hidden or was never
    /// seen predicts the majority class.
    fn predict(&self, before: Option<&str>, after: Option<&str>) -> [u32; 4] {
        let odds = |[function, content]: [u64; 2]| ((content as f64 + 1.0) / (function as f64 + 1.0)).ln();
        let prior = odds(self.classes);
        let of = |table: &HashMap<String, [u64; 2]>, word: Option<&str>| {
            word.and_then(|word| table.get(word)).map_or(prior, |&counts| odds(counts))
        };
        let (before, after) = (of(&self.after, before), of(&self.before, after));
        [prior, before, after, before + after - prior].map(|odds| u32::from(odds > 0.0))
    }
}

fn draw(findings: &mut Findings, table: &Table<Model>, confusion: [[f32; 2]; 2]) {
    let empty = Bars::lying(charts::names(SHOWN), Axis::linear("accuracy on hidden words").range(0.0, 1.0));
    let bars =
        charts::grouped(empty, [ACCURACY], &SHOWN, |_, model| charts::share(table.mean(model, ACCURACY)));
    findings.figure(
        "accuracy",
        "The share of hidden words that are classified correctly; mean over seeds with 95 % intervals.",
        Picture::new("Content or function word? One head against its neighbours").panel(bars),
    );
    let counts = Matrix::from_fn(2, 2, |row, column| confusion[row][column]);
    findings.figure(
        "confusion",
        "Hidden words by their true class and by the class that one head predicts, all seeds together.",
        Picture::new("The errors of one head").panel(HeatMap::confusion(&charts::names(Class::ALL), counts)),
    );
}

fn judge(table: &Table<Model>) -> Verdict {
    let mean = |model| 100.0 * table.mean(model, ACCURACY).mean;
    let gain = |model| paired(&table.values(Model::Head, ACCURACY), &table.values(model, ACCURACY));
    let finding = format!(
        "One head classifies {:.1} % of hidden words correctly. The majority class: {:.1} %; the word before: {:.1} %; the word \
         after: {:.1} %; both neighbours together: {:.1} %.",
        mean(Model::Head),
        mean(Model::Majority),
        mean(Model::Before),
        mean(Model::After),
        mean(Model::Both),
    );
    let checks = vec![
        Check::new("accuracy: one head − majority", gain(Model::Majority), Bound::Above(0.0))
            .part("better than the more frequent class"),
        Check::new("accuracy: one head − the better neighbour", gain(Model::Better), Bound::Above(0.0))
            .part("better than a neighbour"),
    ];
    Verdict::new("B1", checks, finding).because(|_| {
        let learned = table.values(Model::Head, ACCURACY_IN_TRAINING);
        let meaning = match paired(&learned, &table.values(Model::Head, ACCURACY)).low > MEMORISED {
            true => "it has memorised part of them",
            false => "hardly more than in other sentences, so that it does not overfit: one head, trained this long, uses less than its neighbours tell",
        };
        format!(
            "In sentences that it was trained on, the head classifies {:.1} % of hidden words correctly: {meaning}.",
            100.0 * learned.mean().mean
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;
    use regard_nn::Context;
    use regard_nn::data::batches::{Batches, IGNORED, Tagging};
    use regard_nn::models::{Tagger, TaggerConfig};
    use regard_nn::tensor::random::Key;
    use regard_nn::train::{Progress, Supervised, Task, TrainConfig, train};

    fn planted(head: f64) -> Table<Model> {
        let mut table = Table::new();
        for seed in 0..4 {
            let noise = 0.002 * seed as f64;
            table.add(Model::Head, seed, ACCURACY, head + 2.0 * noise);
            table.add(Model::Majority, seed, ACCURACY, 0.5 + noise);
            table.add(Model::Better, seed, ACCURACY, 0.7 + noise);
        }
        table
    }

    #[test]
    fn the_verdict_follows_the_accuracy() {
        assert_eq!(judge(&planted(0.9)).outcome, Outcome::Holds);
        assert_eq!(judge(&planted(0.6)).outcome, Outcome::InPart);
        assert_eq!(judge(&planted(0.4)).outcome, Outcome::Fails);
    }

    #[test]
    fn a_head_that_fails_has_memorised_its_sentences_or_learned_nothing() {
        for (learned, expected) in [
            (0.95, "95.0 % of hidden words correctly: it has"),
            (0.62, "62.0 % of hidden words correctly: hardly"),
        ] {
            let mut table = planted(0.6);
            (0..4).for_each(|seed| table.add(Model::Head, seed, ACCURACY_IN_TRAINING, learned));
            let why = judge(&table).why.unwrap_or_default();
            assert!(why.contains(expected), "{why}");
        }
        assert_eq!(judge(&planted(0.9)).why, None);
    }

    /// Sentences over some words, each word of the class that the function gives.
    fn sentences(class: impl Fn(u64, &[u64]) -> u32) -> Vec<Tagged> {
        let key = Key::new(3);
        let sentence = |number: u64| {
            let words: Vec<u64> = (0..8).map(|place| key.below(number, place, 20) as u64).collect();
            let tagged = |place: u64| {
                let before = &words[..place as usize];
                (format!("w{}", words[place as usize]), class(number * 8 + place, before))
            };
            (0..8).map(tagged).collect()
        };
        (0..600).map(sentence).collect()
    }

    #[test]
    fn neighbours_predict_the_class_that_follows_them_most_often() {
        let by_neighbour = |_: u64, before: &[u64]| before.last().map_or(0, |word| (word % 2) as u32);
        let all = sentences(by_neighbour);
        let whole: Vec<Shown> =
            all.iter().flat_map(|sentence| shown(sentence, &vec![true; sentence.len()])).collect();
        assert!(
            whole.iter().all(|one| one.before.is_none() || one.before.as_deref() == Some(EDGE)),
            "all are hidden"
        );
        let hiding = Hiding::new(0, Key::new(4));
        let labels = shown_in_training(&all, &hiding, 3);
        // 600 sentences of 8 words, of which 1 + 7/7 are hidden on average, three times.
        assert!((labels.len() as f64 / 3_600.0 - 1.0).abs() < 0.05, "{}", labels.len());
        let guesses = Guesses::of(&labels);
        assert_eq!(guesses.better, 1);
        assert_eq!(guesses.predict(Some("w3"), None)[1], 1);
        assert_eq!(guesses.predict(Some("w4"), None)[1], 0);
        assert_eq!(guesses.predict(None, None)[0], guesses.predict(None, None)[3]);
    }

    /// A head that learns random classes predicts those of other sentences no better than a coin.
    #[test]
    fn random_classes_give_chance_level() {
        let key = Key::new(5);
        let drawn = |at: u64, _: &[u64]| key.below(at, 0, 2) as u32;
        let encode = |part: &[Tagged]| {
            let id = |word: &str| 1 + word[1..].parse::<u32>().unwrap();
            let hidden = |place: usize| place % 4 == 1;
            let text = |sentence: &Tagged| -> Vec<u32> {
                let ids = sentence.iter().enumerate();
                ids.map(|(place, (word, _))| if hidden(place) { 0 } else { id(word) }).collect()
            };
            let classes = |sentence: &Tagged| -> Vec<u32> {
                let all = sentence.iter().enumerate();
                all.map(|(place, (_, class))| if hidden(place) { *class } else { IGNORED }).collect()
            };
            let examples =
                Tagging::new(part.iter().map(text).collect(), part.iter().map(classes).collect(), 0).unwrap();
            Batches::new(examples, 32, key).unwrap()
        };
        let all = sentences(drawn);
        let model = TaggerConfig { vocabulary: 21, d_model: 16, context: 8, ..TaggerConfig::default() };
        let model = Box::new(Tagger::new(model, 0).unwrap());
        let mut task = Supervised::new(model, encode(&all[..300]), encode(&all[300..])).unwrap();
        let config = TrainConfig { steps: 100, evaluate_every: 0, ..TrainConfig::default() };
        train(&mut task, &config, &mut Progress::new(&config), &mut ()).unwrap();
        let measures = task.evaluate(&Context::inference()).unwrap().measures;
        // 600 hidden words: three standard deviations are 0.06.
        assert!((measures[0].1 - 0.5).abs() < 0.07, "{measures:?}");
    }
}
