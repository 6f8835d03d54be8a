//! The taggers that several experiments train: one attention layer that classifies hidden words as content words or function
//! words from their context; and the sentences that they are tested on.

use crate::experiment::{Bound, Check, Lab, SMALL_MODELS, Sizes, Trained, named};
use crate::experiments::models::sentiment::lexicon;
use crate::run::{RunConfig, sources};
use crate::statistics::{Sample, paired};
use anyhow::{Context as _, Result};
use regard_nn::analysis::Tokens;
use regard_nn::data::batches::Hiding;
use regard_nn::data::builtin::{self, PartOfSpeech};
use regard_nn::data::treebank;
use regard_nn::models::Recipe;
use regard_nn::tensor::random::Key;
use regard_nn::tokens::Tokenizer;
use std::collections::{BTreeMap, HashSet};
use std::ops::RangeInclusive;

/// The numbers of heads that are compared.
pub const HEADS: [usize; 4] = [1, 2, 4, 8];

named! {
    /// The classes of words, by number.
    pub enum Class { Function = "function words", Content = "content words" }
}

named! {
    /// When a tagger is read.
    pub enum Stage { Before = "before training", After = "after training" }
}

named! {
    /// The words whose attention is measured: only the answers for hidden ones enter the loss.
    pub enum Words { Hidden = "hidden words", Visible = "visible words" }
}

impl Stage {
    /// The update after which it is.
    pub fn step(self, lab: &Lab) -> u64 {
        match self {
            Stage::Before => 0,
            Stage::After => last_step(lab),
        }
    }
}

/// A parsed sentence without its punctuation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sentence {
    /// Its words.
    pub words: Vec<String>,
    /// The class of each: 1 for content, 0 for function words.
    pub classes: Vec<u32>,
    /// The word that each depends on.
    pub heads: Vec<Option<usize>>,
    /// What each is to it.
    pub relations: Vec<String>,
    /// Whether each is a sentiment word.
    pub sentiment: Vec<bool>,
    /// The semantic field of each, if it has one.
    pub fields: Vec<Option<&'static str>>,
}

/// What is known of words: which judge, and the semantic fields.
struct Known {
    sentiment: HashSet<String>,
    fields: BTreeMap<String, &'static str>,
}

/// A word of a tree as both sources have it: form, part of speech, head, relation.
type Node<'a> = (&'a str, &'a str, Option<usize>, &'a str);

impl Sentence {
    /// Leaves out punctuation and signs. A word that depends on one of these is taken for a root.
    fn new<'a>(nodes: impl Iterator<Item = Node<'a>>, known: &Known) -> Self {
        let nodes: Vec<Node> = nodes.collect();
        let kept = |node: &Node| !["PUNCT", "SYM", "X"].contains(&node.1);
        let places: Vec<Option<usize>> = nodes
            .iter()
            .scan(0, |next, node| Some(kept(node).then(|| std::mem::replace(next, *next + 1))))
            .collect();
        let mut sentence = Self::default();
        for (form, tag, head, relation) in nodes.into_iter().filter(kept) {
            let content = PartOfSpeech::from_tag(tag).is_some_and(PartOfSpeech::is_content);
            sentence.words.push(form.to_owned());
            sentence.classes.push(u32::from(content));
            sentence.heads.push(head.and_then(|head| places.get(head).copied().flatten()));
            sentence.relations.push(relation.split(':').next().unwrap_or_default().to_owned());
            let lower = form.to_lowercase();
            sentence.sentiment.push(known.sentiment.contains(&lower));
            sentence.fields.push(known.fields.get(&lower).copied());
        }
        sentence
    }

    /// A sentence of which only the words and their classes are known.
    pub fn without_tree(tagged: &sources::Tagged) -> Self {
        let (words, classes) = tagged.iter().cloned().unzip();
        let count = tagged.len();
        let (relations, sentiment) = (vec![String::new(); count], vec![false; count]);
        Self { words, classes, heads: vec![None; count], relations, sentiment, fields: vec![None; count] }
    }

    /// Whether it has a length that is tested.
    pub fn is_read(&self) -> bool {
        LENGTHS.contains(&self.len())
    }

    /// How many words it has.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether two of its words depend on each other directly.
    pub fn linked(&self, a: usize, b: usize) -> bool {
        self.heads[a] == Some(b) || self.heads[b] == Some(a)
    }
}

/// Sentences of so many words are tested: shorter ones leave attention no choice.
const LENGTHS: RangeInclusive<usize> = 4..=60;

/// Sentences that no tagger was trained on: of the built-in corpus, or of the treebank that the user gave (a folder's test
/// part, or the last tenth of a file).
pub fn test_sentences(lab: &Lab) -> Result<Vec<Sentence>> {
    let known = Known { sentiment: lexicon(), fields: builtin::semantic_fields() };
    let all: Vec<Sentence> = match lab.setup.data {
        None => {
            let node = |word: &builtin::Word| (word.part_of_speech.tag(), word.head, word.relation);
            let texts = sources::builtin_test()?;
            let sentences = texts.iter().flat_map(|text| &text.sentences).map(|sentence| {
                let nodes = sentence.words.iter().map(|word| {
                    let (tag, head, relation) = node(word);
                    (word.text.as_str(), tag, head, relation)
                });
                Sentence::new(nodes, &known)
            });
            sentences.collect()
        }
        Some(path) => {
            let parsed = treebank::read(sources::test_file(path, &sources::TREEBANKS)?)?;
            let sentences = parsed.iter().map(|sentence| {
                let nodes = sentence.words.iter().map(|word| {
                    let tag = treebank::PARTS_OF_SPEECH[word.part_of_speech];
                    (word.form.as_str(), tag, word.head, word.relation.as_str())
                });
                Sentence::new(nodes, &known)
            });
            let mut sentences: Vec<Sentence> = sentences.filter(|sentence| sentence.len() > 0).collect();
            if !path.is_dir() {
                let held_out = config(lab, 1, 0)?.data.held_out;
                sentences.drain(..sources::split_point(sentences.len(), held_out)?);
            }
            sentences
        }
    };
    let most = lab.setting("test sentences", Sizes::quick(600).smoke(30).standard(1_500).full(usize::MAX));
    let fits = all.into_iter().filter(Sentence::is_read);
    let kept: Vec<Sentence> = fits.take(most).collect();
    anyhow::ensure!(!kept.is_empty(), "there is no test sentence of {} words or more", LENGTHS.start());
    Ok(kept)
}

/// The seeds of taggers with two and with eight heads.
const FEWER_SEEDS: Sizes<u64> = Sizes::quick(3).standard(15).full(3);

/// The seeds that a tagger is trained with: one head and four are what most claims are about.
pub fn seeds(lab: &Lab, heads: usize) -> Vec<u64> {
    match heads {
        1 | 4 => lab.seeds_of(SMALL_MODELS),
        _ => {
            lab.setting("seeds of taggers with two and with eight heads", FEWER_SEEDS);
            lab.seeds_of(FEWER_SEEDS)
        }
    }
}

/// Every seed of the taggers with so many heads, before and after training.
pub fn before_and_after(lab: &Lab, heads: usize) -> Vec<(Stage, u64)> {
    seeds(lab, heads).into_iter().flat_map(|seed| Stage::ALL.map(|stage| (stage, seed))).collect()
}

/// The share of the more frequent class among the hidden words of the test sentences: a tagger that learned its task is right more
/// often.
pub fn majority(sentences: &[Sentence], hidden: &[(Tokens, Vec<bool>)]) -> f64 {
    let words =
        sentences.iter().zip(hidden).flat_map(|(sentence, (_, hidden))| sentence.classes.iter().zip(hidden));
    let (mut content, mut count) = (0_u32, 0_u32);
    for (class, _) in words.filter(|(_, hidden)| **hidden) {
        content += class;
        count += 1;
    }
    let share = f64::from(content) / f64::from(count.max(1));
    share.max(1.0 - share)
}

/// That a tagger learned its task: its accuracy by seed, and the share of the more frequent class.
pub fn learned(accuracy: &Sample, majority: &Sample) -> Check {
    let what = "accuracy on hidden words after training − share of the more frequent class";
    Check::new(what, paired(accuracy, majority), Bound::Above(0.0))
}

/// The sentence to show: the first of a length that is easy to read.
pub fn example(sentences: &[Sentence]) -> usize {
    sentences.iter().position(|sentence| (8..=12).contains(&sentence.len())).unwrap_or(0)
}

/// How a tagger is trained. Width, rate and rotary positions are those at which one head did best on held-out sentences.
pub fn config(lab: &Lab, heads: usize, seed: u64) -> Result<RunConfig> {
    let settings: &[&str] = &["model.positions=rotary", "train.rate.highest=1e-2", "train.rate.decay=cosine"];
    let mut config = lab.preset("tagger", Sizes::quick(settings), seed)?;
    let steps = steps(lab);
    config.train.steps = last_step(lab);
    config.train.evaluate_every = (config.train.steps / 4).max(1);
    config.data.texts = lab.at(Sizes::quick(2_000).smoke(30).standard(6_000).full(10_000));
    config.data.path = lab.data();
    // The curve is drawn for one head and for four; the others are measured before and after.
    config.run.snapshots = match heads {
        1 | 4 => steps,
        _ => steps.first().into_iter().chain(steps.last()).copied().collect(),
    };
    if let Recipe::Tagger(model) = &mut config.model {
        model.n_heads = heads;
        model.d_model = lab.at(Sizes::quick(32).smoke(16).full(64));
    }
    Ok(config)
}

/// The steps at which a tagger is measured: before the first, then at twice as many each time.
pub fn steps(lab: &Lab) -> Vec<u64> {
    let last = last_step(lab);
    let mut steps: Vec<u64> =
        std::iter::once(0).chain((0..6).rev().map(|halvings| last >> halvings)).collect();
    steps.dedup();
    steps
}

/// The step after which a tagger is done.
pub fn last_step(lab: &Lab) -> u64 {
    lab.at(Sizes::quick(800).smoke(8).standard(2_000).full(3_000))
}

/// Trains a tagger, or takes it from an experiment that did.
pub fn trained(lab: &Lab, heads: usize, seed: u64) -> Result<Trained> {
    lab.train(&config(lab, heads, seed)?)
}

/// The ids of the words of sentences.
pub fn encode(tokenizer: &Tokenizer, sentences: &[Sentence]) -> Result<Vec<Tokens>> {
    let mut known = BTreeMap::new();
    let mut all = Vec::with_capacity(sentences.len());
    for sentence in sentences {
        let ids = sentence.words.iter().map(|word| sources::word_id(tokenizer, word, &mut known));
        all.push(Tokens::new(ids.collect::<Result<_>>()?));
    }
    Ok(all)
}

/// The same sentences with some words hidden, as in training, and the places of those.
pub fn hide(tokenizer: &Tokenizer, sentences: &[Sentence]) -> Result<Vec<(Tokens, Vec<bool>)>> {
    let mask = tokenizer.special().mask.context("the tokenizer has no mask")?;
    let hiding = Hiding::new(mask, Key::new(0).site("test mask"));
    let hide = |(number, (tokens, sentence)): (usize, (Tokens, &Sentence))| {
        let (ids, _) = hiding.apply(&tokens.ids, &sentence.classes, 0, number as u64);
        let hidden = hiding.places(ids.len(), 0, number as u64);
        (Tokens::new(ids), hidden)
    };
    Ok(encode(tokenizer, sentences)?.into_iter().zip(sentences).enumerate().map(hide).collect())
}

/// A sentence as often as it has words, a different one of them hidden each time.
pub fn hide_each(tokenizer: &Tokenizer, sentence: &Sentence) -> Result<Vec<Tokens>> {
    let mask = tokenizer.special().mask.context("the tokenizer has no mask")?;
    let whole = encode(tokenizer, std::slice::from_ref(sentence))?.into_iter().next().unwrap_or_default();
    let hide = |place: usize| {
        let mut tokens = whole.clone();
        tokens.ids[place] = mask;
        tokens
    };
    Ok((0..whole.len()).map(hide).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn punctuation_is_left_out_and_heads_stay_what_they_were() {
        let nodes = [
            ("Well", "INTJ", Some(3), "discourse"),
            (",", "PUNCT", Some(3), "punct"),
            ("it", "PRON", Some(3), "nsubj:pass"),
            ("works", "VERB", None, "root"),
            (".", "PUNCT", Some(3), "punct"),
        ];
        let known = Known {
            sentiment: HashSet::from(["works".to_owned()]),
            fields: BTreeMap::from([("well".to_owned(), "sound")]),
        };
        let sentence = Sentence::new(nodes.into_iter(), &known);
        assert_eq!(sentence.fields, [Some("sound"), None, None]);
        assert_eq!(sentence.words, ["Well", "it", "works"]);
        assert_eq!(sentence.classes, [1, 0, 1]);
        assert_eq!(sentence.heads, [Some(2), Some(2), None]);
        assert_eq!(sentence.relations[1], "nsubj");
        assert_eq!(sentence.sentiment, [false, false, true]);
        assert!(sentence.linked(0, 2) && sentence.linked(2, 0) && !sentence.linked(0, 1));
    }
}
