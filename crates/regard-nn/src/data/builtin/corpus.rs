//! The corpus: an endless sequence of texts for each seed.

use super::draws::Draws;
use super::morphology::Tense;
use super::settings::CorpusSettings;
use super::speaker::Speaker;
use super::text::{PartOfSpeech, Polarity, Sentence, SentenceKind, Text};
use super::tree::{Node, realise};
use crate::error::Result;
use regard_tensor::random::Key;

/// A split of the corpus. Splits share no text: their films differ, and every text names its film.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Split {
    /// For training.
    Train,
    /// For model selection.
    Validation,
    /// For the final result.
    Test,
}

impl Split {
    /// All splits.
    pub const ALL: [Self; 3] = [Self::Train, Self::Validation, Self::Test];

    /// `train`, `validation` or `test`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Validation => "validation",
            Self::Test => "test",
        }
    }

    /// Eight films of ten are for training.
    pub(super) fn owns(self, title: &str) -> bool {
        // FNV-1a
        let hash = title.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        // The upper half of the hash is mixed better.
        self == match (hash >> 32) % 10 {
            0 => Self::Validation,
            1 => Self::Test,
            _ => Self::Train,
        }
    }
}

/// An endless corpus, whose texts are generated on demand.
#[derive(Debug, Clone)]
pub struct Corpus {
    settings: CorpusSettings,
    key: Key,
    split: Split,
}

impl Corpus {
    /// The training texts of a seed.
    pub fn new(settings: CorpusSettings, seed: u64) -> Result<Self> {
        settings.check()?;
        Ok(Self { settings, key: Key::new(seed).site("builtin"), split: Split::Train })
    }

    /// Another split of the same corpus.
    #[must_use]
    pub fn split(&self, split: Split) -> Self {
        Self { split, ..self.clone() }
    }

    /// The settings of the corpus.
    pub fn settings(&self) -> &CorpusSettings {
        &self.settings
    }

    /// All texts from index 0 on, without end.
    pub fn texts(&self) -> impl Iterator<Item = Text> {
        (0..).map(|index| self.text(index))
    }

    /// The text with index `index`, independent of all others.
    pub fn text(&self, index: u64) -> Text {
        let key = self.key.site(self.split.name());
        let label = label(key.site("label"), index);
        let mut draws = Draws::new(key, index);
        let tense = if draws.chance(0.5) { Tense::Past } else { Tense::Present };
        let contract = draws.chance(self.settings.contractions);
        let plan = plan(&self.settings, label, &mut draws);
        let owns = |title: &Node| self.split.owns(&name(title));
        let speaker = Speaker::new(draws, tense, self.settings.degrees, owns);
        let film = name(&speaker.cast.title);
        let text = Text { label, film, sentences: Vec::with_capacity(plan.len()), string: String::new() };
        let mut writer = Writer { speaker, contract, text, story_begun: false };
        for (position, &(kind, polarity)) in plan.iter().enumerate() {
            writer.sentence(kind, polarity, position == 0);
        }
        while writer.words() < self.settings.fewest_words {
            let distracts = writer.speaker.draws.chance(self.settings.distractors);
            let kind = if distracts { SentenceKind::Distractor } else { SentenceKind::Neutral };
            writer.sentence(kind, None, false);
        }
        writer.text
    }
}

/// One of the texts 2k and 2k+1 is positive, the other negative.
fn label(key: Key, index: u64) -> Polarity {
    let first_is_positive = key.below(index / 2, 0, 2) == 0;
    if index.is_multiple_of(2) == first_is_positive { Polarity::Positive } else { Polarity::Negative }
}

fn name(title: &Node) -> String {
    let mut string = String::new();
    realise(title.clone(), false, &mut string);
    // Without the full stop of the sentence.
    string.pop();
    string
}

/// The sentences of a text: the kind and the polarity of each.
type SentencePlan = Vec<(SentenceKind, Option<Polarity>)>;

fn plan(settings: &CorpusSettings, label: Polarity, draws: &mut Draws) -> SentencePlan {
    let sentences =
        settings.fewest_sentences + draws.below(settings.most_sentences - settings.fewest_sentences + 1);
    let opinions = (0..sentences).filter(|_| draws.chance(settings.opinions)).count().max(1);
    let dissenting = (0..opinions).filter(|_| draws.chance(settings.dissent)).count().min((opinions - 1) / 2);
    let mut plan: SentencePlan = (0..opinions)
        .map(|i| {
            let polarity = if i < dissenting { label.opposite() } else { label };
            (opinion_kind(settings, draws), Some(polarity))
        })
        .collect();
    let mut story = SentencePlan::new();
    for _ in opinions..sentences {
        if draws.chance(settings.distractors) {
            plan.push((SentenceKind::Distractor, None));
        } else {
            story.push((SentenceKind::Neutral, None));
        }
    }
    draws.shuffle(&mut plan);
    // Most reviews start with the story, some with an opinion.
    let first = draws.below(plan.len().min(3)) * usize::from(draws.chance(0.4));
    plan.splice(first..first, story);
    plan
}

fn opinion_kind(settings: &CorpusSettings, draws: &mut Draws) -> SentenceKind {
    let mut at = draws.unit();
    let shares = [
        (settings.near_negation, SentenceKind::NearNegation),
        (settings.far_negation, SentenceKind::FarNegation),
        (settings.contrast, SentenceKind::Contrast),
        (settings.decoys, SentenceKind::Decoy),
    ];
    for (share, kind) in shares {
        if at < share {
            return kind;
        }
        at -= share;
    }
    SentenceKind::Plain
}

/// Collects the sentences of a speaker into a text.
struct Writer {
    speaker: Speaker,
    contract: bool,
    text: Text,
    story_begun: bool,
}

impl Writer {
    fn sentence(&mut self, kind: SentenceKind, polarity: Option<Polarity>, first: bool) {
        let rule = self.rule(kind, first);
        let opinion = polarity.unwrap_or(self.text.label);
        let tree = self.speaker.sentence(rule, opinion, opinion != self.text.label);
        if !self.text.string.is_empty() {
            self.text.string.push(' ');
        }
        let words = realise(tree, self.contract, &mut self.text.string);
        self.text.sentences.push(Sentence { words, kind, polarity });
    }

    fn rule(&mut self, kind: SentenceKind, first: bool) -> &'static str {
        match kind {
            SentenceKind::Plain => "plain",
            SentenceKind::NearNegation => "near",
            SentenceKind::FarNegation => "far",
            SentenceKind::Contrast => "contrast",
            SentenceKind::Decoy => "decoy",
            SentenceKind::Distractor => "distractor",
            SentenceKind::Neutral if first && self.speaker.draws.chance(0.7) => "opening",
            SentenceKind::Neutral => {
                let begun = std::mem::replace(&mut self.story_begun, true);
                match self.speaker.draws.below(10) {
                    _ if !begun => "setup",
                    0..4 => "fact",
                    _ => "story",
                }
            }
        }
    }

    fn words(&self) -> usize {
        self.text.words().filter(|word| word.part_of_speech != PartOfSpeech::Punctuation).count()
    }
}
