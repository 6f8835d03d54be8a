//! A small sequence-to-sequence task: convert a sentence to the passive voice.
//!
//! ```text
//! The young baker hid three silver keys in the mill.
//! Three silver keys were hidden by the young baker in the mill.
//! ```
//!
//! Names and descriptions move to another position, the auxiliary agrees with the former object, the verb becomes a
//! participle and pronouns change their case: a decoder must attend to the source for every word. The alignment of target
//! and source words is given, so that cross-attention can be compared with it.

use super::corpus::Split;
use super::draws::Draws;
use super::morphology::{Tense, WordForm};
use super::speaker::Speaker;
use super::text::{PartOfSpeech as P, Polarity, Word};
use super::tree::{Node, Token, realise_with_origins};
use regard_tensor::random::Key;

/// A sentence and its passive.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pair {
    /// The sentence in the active voice.
    pub source: String,
    /// The sentence in the passive voice.
    pub target: String,
    /// The words of the source, with spans in it.
    pub source_words: Vec<Word>,
    /// The words of the target.
    pub target_words: Vec<Word>,
    /// For each target word, the index of the source word that it comes from, changed or not; `None` for the passive
    /// auxiliary and *by*.
    pub alignment: Vec<Option<usize>>,
}

/// An endless sequence of pairs, generated on demand.
///
/// ```
/// use regard_nn::data::builtin::Pairs;
///
/// let pair = Pairs::new(1).pair(0);
/// assert!(pair.target.contains(" by "));
/// for (word, from) in pair.target_words.iter().zip(&pair.alignment) {
///     assert!(from.is_none_or(|from| pair.source_words[from].lemma == word.lemma));
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Pairs {
    key: Key,
    split: Split,
}

impl Pairs {
    /// The training pairs of a seed.
    pub fn new(seed: u64) -> Self {
        Self { key: Key::new(seed).site("builtin.pairs"), split: Split::Train }
    }

    /// Another split; no sentence is in two splits.
    #[must_use]
    pub fn split(&self, split: Split) -> Self {
        Self { split, ..*self }
    }

    /// All pairs from index 0 on, without end.
    pub fn pairs(&self) -> impl Iterator<Item = Pair> {
        (0..).map(|index| self.pair(index))
    }

    /// The pair with index `index`, independent of all others.
    pub fn pair(&self, index: u64) -> Pair {
        let mut draws = Draws::new(self.key.site(self.split.name()), index);
        loop {
            let mut speaker = Speaker::new(draws, Tense::Past, 0.0, |_| true);
            let pair = Event::draw(&mut speaker).pair();
            if self.split.owns(&pair.source) {
                return pair;
            }
            draws = speaker.draws;
        }
    }
}

/// The tense or modal of the verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Time {
    Finite(Tense),
    Perfect,
    Modal(&'static str),
}

/// Agent, action and patient of a sentence, before the choice of voice.
struct Event {
    doer: Node,
    verb: Node,
    patient: Node,
    time: Time,
    negated: bool,
    manner: Option<Node>,
    place: Option<Node>,
    place_first: bool,
}

impl Event {
    fn draw(speaker: &mut Speaker) -> Self {
        let mut say = |rule| speaker.sentence(rule, Polarity::Positive, false);
        let (things, people) = ((say("pair-take"), say("found")), (say("pair-meet"), say("met")));
        let (doer, place, manner) = (say("doer"), say("where"), say("pair-manner"));
        let draws = &mut speaker.draws;
        let (verb, patient) = if draws.chance(0.55) { things } else { people };
        let time = match draws.below(10) {
            0..4 => Time::Finite(Tense::Past),
            4..7 => Time::Finite(Tense::Present),
            7..9 => Time::Perfect,
            _ => Time::Modal(["will", "must", "could"][draws.below(3)]),
        };
        let mut event = Self {
            doer,
            verb,
            patient,
            time,
            negated: draws.chance(0.12),
            manner: draws.chance(0.25).then_some(manner),
            place: draws.chance(0.6).then_some(place),
            place_first: draws.chance(0.3),
        };
        event.number();
        event
    }

    /// Gives every word a number that is the same in both sentences.
    fn number(&mut self) {
        let mut next = NEGATOR + 1;
        let mut number = |token: &mut Token| {
            token.origin = Some(next);
            next += 1;
        };
        let parts = [&mut self.doer, &mut self.verb, &mut self.patient];
        for part in parts.into_iter().chain(&mut self.manner).chain(&mut self.place) {
            part.for_each(&mut number);
        }
    }

    fn pair(&self) -> Pair {
        let (mut source, mut target) = (String::new(), String::new());
        let (source_words, from) = realise_with_origins(self.active(), false, &mut source);
        let (target_words, to) = realise_with_origins(self.passive(), false, &mut target);
        let place =
            |origin: &Option<usize>| from.iter().position(|other| origin.is_some() && other == origin);
        let alignment = to.iter().map(place).collect();
        Pair { source, target, source_words, target_words, alignment }
    }

    /// The young baker has not hidden it in the mill.
    fn active(&self) -> Node {
        let mut clause = self.verb.clone();
        let mut before = Vec::new();
        match self.time {
            Time::Finite(tense) if self.negated => before.push(("aux", finite("do", tense))),
            Time::Finite(tense) => clause.token.form = Some(WordForm::Finite(tense)),
            Time::Perfect => {
                before.push(("aux", marked(finite("have", Tense::Present), AUXILIARY)));
                clause.token.form = Some(WordForm::Participle);
            }
            Time::Modal(modal) => before.push(("aux", marked(Node::leaf(modal, P::Auxiliary), AUXILIARY))),
        }
        clause = self.with_subject(clause, "nsubj", self.doer.clone(), before);
        clause = clause.after("obj", in_case(self.patient.clone(), Case::Object));
        self.with_place(clause)
    }

    /// It has not been hidden by the young baker in the mill.
    fn passive(&self) -> Node {
        let mut clause = self.verb.clone();
        clause.token.form = Some(WordForm::Participle);
        let mut before = Vec::new();
        match self.time {
            Time::Finite(tense) => before.push(("aux:pass", finite("be", tense))),
            Time::Perfect => {
                before.push(("aux", marked(finite("have", Tense::Present), AUXILIARY)));
                before.push(("aux:pass", finite_form("be", WordForm::Participle)));
            }
            Time::Modal(modal) => {
                before.push(("aux", marked(Node::leaf(modal, P::Auxiliary), AUXILIARY)));
                before.push(("aux:pass", Node::leaf("be", P::Auxiliary)));
            }
        }
        clause = self.with_subject(clause, "nsubj:pass", self.patient.clone(), before);
        let doer = in_case(self.doer.clone(), Case::Object);
        clause = clause.after("obl", doer.before("case", Node::leaf("by", P::Adposition)));
        self.with_place(clause)
    }

    /// Subject, first auxiliary, not, the other auxiliaries, manner, verb.
    fn with_subject(
        &self,
        clause: Node,
        relation: &'static str,
        subject: Node,
        mut auxiliaries: Vec<(&'static str, Node)>,
    ) -> Node {
        if self.negated {
            auxiliaries.insert(
                1.min(auxiliaries.len()),
                ("advmod", marked(Node::leaf("not", P::Particle), NEGATOR)),
            );
        }
        let manner = self.manner.iter().map(|manner| ("advmod", manner.clone()));
        let before =
            std::iter::once((relation, in_case(subject, Case::Subject))).chain(auxiliaries).chain(manner);
        let before: Vec<_> = before.collect();
        before.into_iter().rev().fold(clause, |clause, (relation, node)| clause.before(relation, node))
    }

    fn with_place(&self, clause: Node) -> Node {
        match &self.place {
            Some(place) if self.place_first => {
                clause.before("punct", Node::leaf(",", P::Punctuation)).before("obl", place.clone())
            }
            Some(place) => clause.after("obl", place.clone()),
            None => clause,
        }
    }
}

/// Numbers of words that each sentence creates itself.
const AUXILIARY: usize = 0;
const NEGATOR: usize = 1;

fn marked(mut node: Node, origin: usize) -> Node {
    node.token.origin = Some(origin);
    node
}

fn finite(lemma: &'static str, tense: Tense) -> Node {
    finite_form(lemma, WordForm::Finite(tense))
}

fn finite_form(lemma: &'static str, form: WordForm) -> Node {
    let mut node = Node::leaf(lemma, P::Auxiliary);
    node.token.form = Some(form);
    node
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    Subject,
    Object,
}

/// Puts pronouns into a case.
fn in_case(mut node: Node, case: Case) -> Node {
    const PRONOUNS: [(&str, &str); 5] =
        [("he", "him"), ("she", "her"), ("they", "them"), ("we", "us"), ("I", "me")];
    let pronoun = PRONOUNS.iter().find(|(subject, _)| *subject == node.token.lemma);
    if let Some((_, object)) = pronoun.filter(|_| case == Case::Object) {
        node.token.lemma = (*object).into();
    }
    node
}
