//! Generates sentences: expands the rules of the grammar for one text.

use super::cast::{Cast, Manner, Person, Who, genitive, is_short, word};
use super::draws::Draws;
use super::grammar::{Alternative, GRAMMAR, Group, Inflection, Item, Mark, Mention, Rule, Source, Stance};
use super::lexicon::{Entry, LEXICON};
use super::morphology::{Tense, WordForm};
use super::text::{PartOfSpeech as P, Polarity, Role};
use super::topic::Topic;
use super::tree::{Node, Token};

/// How the sentiment words under a rule count.
#[derive(Debug, Clone, Copy)]
struct View {
    /// The polarity of the words themselves.
    words: Polarity,
    counts: Counts,
    /// The negation that reverses them.
    reversed_by: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counts {
    Yes,
    Conceded,
    Misleads,
}

pub(super) struct Speaker {
    pub draws: Draws,
    pub cast: Cast,
    tense: Tense,
    degrees: f64,
    topic: Topic,
    /// The topics of this sentence, and those of the whole text except the film itself.
    topics: Vec<Topic>,
    judged: Vec<Topic>,
    /// Whether this sentence contradicts the label of the text.
    dissents: bool,
    /// Words of this sentence, none of which is used twice.
    used_words: Vec<&'static str>,
    negations: u32,
    /// The alternatives, by rule and index, that this text has used.
    used: Vec<(usize, usize)>,
}

impl Speaker {
    /// A speaker about a film whose title `accepts`.
    pub fn new(mut draws: Draws, tense: Tense, degrees: f64, accepts: impl Fn(&Node) -> bool) -> Self {
        let cast = Cast::draw(&mut draws);
        let mut speaker = Self {
            draws,
            cast,
            tense,
            degrees,
            topic: Topic::Film,
            topics: Vec::new(),
            judged: Vec::new(),
            dissents: false,
            used_words: Vec::new(),
            negations: 0,
            used: Vec::new(),
        };
        speaker.cast.title = loop {
            let title = speaker.title();
            if accepts(&title) {
                break title;
            }
        };
        speaker.cast.other_title = speaker.title();
        speaker
    }

    /// The tree of a sentence by this rule with this polarity. A sentence that dissents from the text is not about the film
    /// as a whole.
    pub fn sentence(&mut self, rule: &str, polarity: Polarity, dissents: bool) -> Node {
        self.dissents = dissents;
        let view = View { words: polarity, counts: Counts::Yes, reversed_by: None };
        let tree = self.expand(GRAMMAR.rule(rule), view);
        self.cast.end_sentence();
        self.topics.clear();
        self.used_words.clear();
        tree
    }

    fn title(&mut self) -> Node {
        let mut title = self.sentence("title", Polarity::Positive, false);
        let mut first = true;
        title.for_each(&mut |token: &mut Token| {
            token.in_title = true;
            token.plural = false;
            token.capital = first || token.part_of_speech.is_content() || token.part_of_speech == P::Numeral;
            first = false;
        });
        title
    }

    fn expand(&mut self, index: usize, view: View) -> Node {
        let rule = &GRAMMAR.rules[index];
        let outer = self.topic;
        if rule.opens_topic {
            // A concession is not about the film as a whole either.
            self.topic = self.new_topic(self.dissents || view.counts == Counts::Conceded);
            self.topics.push(self.topic);
        }
        let alternative = &rule.alternatives[self.choose(index, view)];
        debug_assert!(
            !(alternative.reverses && view.reversed_by.is_some()),
            "double negation in {}",
            rule.name
        );
        let negation = alternative.reverses.then(|| {
            self.negations += 1;
            self.negations
        });
        let node = self.group(&alternative.group, view, negation);
        self.topic = outer;
        node
    }

    /// The index of an alternative that fits the topic and the polarity.
    fn choose(&mut self, rule: usize, view: View) -> usize {
        let fits = |alternative: &Alternative| {
            let needs = alternative.needs;
            (alternative.topics.is_empty() || alternative.topics.iter().any(|&kind| self.topic.is(kind)))
                && needs.polarity.is_none_or(|polarity| polarity == view.words)
                && !(needs.affirmed && view.reversed_by.is_some())
                && !(needs.own && view.counts == Counts::Misleads)
                && !(needs.stranger && self.cast.knows_rival())
        };
        let Rule { name, once, alternatives, .. } = &GRAMMAR.rules[rule];
        let mut fitting: Vec<usize> = (0..alternatives.len()).filter(|&i| fits(&alternatives[i])).collect();
        assert!(!fitting.is_empty(), "no alternative of {name} fits {:?}", self.topic);
        if *once {
            let unused: Vec<usize> =
                fitting.iter().copied().filter(|&i| !self.used.contains(&(rule, i))).collect();
            if unused.is_empty() {
                // All have been used: start again.
                self.used.retain(|&(other, _)| other != rule);
            } else {
                fitting = unused;
            }
        }
        let weights = fitting.iter().map(|&i| f64::from(alternatives[i].weight));
        let cumulative: Vec<f64> = weights
            .scan(0.0, |sum, weight| {
                *sum += weight;
                Some(*sum)
            })
            .collect();
        let chosen = fitting[self.draws.weighted(&cumulative)];
        if *once {
            self.used.push((rule, chosen));
        }
        chosen
    }

    fn group(&mut self, group: &Group, view: View, negation: Option<u32>) -> Node {
        let before: Vec<Node> =
            group.before.iter().filter_map(|item| self.item(item, view, negation)).collect();
        let mut head = self.source(&group.head, view, negation);
        head.left.splice(0..0, before);
        for item in &group.after {
            head.right.extend(self.item(item, view, negation));
        }
        head
    }

    fn item(&mut self, item: &Item, view: View, negation: Option<u32>) -> Option<Node> {
        if item.percent.is_some_and(|percent| self.draws.below(100) >= percent) {
            return None;
        }
        let mut node = self.source(item, view, negation);
        node.relation = item.relation;
        Some(node)
    }

    /// The subtree of an item, inflected and marked.
    fn source(&mut self, item: &Item, view: View, negation: Option<u32>) -> Node {
        let mut node = match &item.source {
            Source::Literal(lemma, part) => Node::leaf(*lemma, *part),
            Source::Group(group) => self.group(group, view, negation),
            Source::Rule(rule, stance) => {
                let view = self.turn(view, *stance, negation);
                self.expand(*rule, view)
            }
            Source::Words { family, class, stance: None } => {
                let class = class.unwrap_or(self.topic.class());
                word(self.fresh(family, None, class)).with_role(role_of_list(family))
            }
            Source::Words { family, class, stance } => {
                let view = self.turn(view, *stance, negation);
                self.sentiment(family, class.unwrap_or(self.topic.class()), view)
            }
            Source::Mention(mention) => self.mention(*mention),
        };
        if let Some(inflection) = item.inflection {
            let form = match inflection {
                Inflection::WordForm(form) => form,
                Inflection::TextTense => WordForm::Finite(self.tense),
            };
            node.token.plural |= form == WordForm::Plural;
            node.token.form = Some(form);
        }
        match item.mark {
            // A negation in a misleading part is not an opinion.
            Some(Mark::Negator) if view.counts != Counts::Misleads => {
                node.token.role = Role::Negator;
                node.token.negation = negation;
            }
            Some(Mark::Negator | Mark::IdleNegator) => node.token.role = Role::IdleNegator,
            Some(Mark::Contrast) => node.token.role = Role::Contrast,
            None => {}
        }
        node
    }

    fn turn(&mut self, view: View, stance: Option<Stance>, negation: Option<u32>) -> View {
        let words = view.words.opposite();
        match stance {
            None | Some(Stance::Same) => view,
            Some(Stance::Reversed) => View { words, reversed_by: negation, ..view },
            Some(Stance::Conceded) if view.counts == Counts::Yes => {
                View { words, counts: Counts::Conceded, ..view }
            }
            Some(Stance::Conceded) => View { words, ..view },
            Some(Stance::Misleading(agrees)) => {
                let agrees = agrees.unwrap_or_else(|| self.draws.chance(0.5));
                let words = if agrees { view.words } else { view.words.opposite() };
                View { words, counts: Counts::Misleads, reversed_by: None }
            }
        }
    }

    /// A sentiment word, possibly with an intensifier or diminisher.
    fn sentiment(&mut self, family: &'static str, class: &'static str, view: View) -> Node {
        let entry = self.fresh(family, Some(view.words), class);
        let mut node = word(entry);
        node.token.role = match view.counts {
            Counts::Yes => Role::Sentiment(view.words),
            Counts::Conceded => Role::Conceded(view.words),
            Counts::Misleads => Role::Distractor(view.words),
        };
        node.token.negation = view.reversed_by.filter(|_| view.counts != Counts::Misleads);
        // Under a negation a degree would change the meaning: "not utterly dull" is not praise.
        if matches!(family, "adj" | "point") && view.reversed_by.is_none() && self.draws.chance(self.degrees)
        {
            node = node.before("advmod", self.degree(entry));
        }
        node
    }

    fn degree(&mut self, of: Entry) -> Node {
        let (family, class) = if of.extreme {
            ("intensifier", "extreme")
        } else if self.draws.chance(0.8) {
            ("intensifier", "any")
        } else {
            ("diminisher", "any")
        };
        word(self.fresh(family, None, class)).with_role(role_of_list(family))
    }

    /// A word that this sentence does not contain yet, if a few draws find one.
    fn fresh(&mut self, family: &'static str, polarity: Option<Polarity>, class: &'static str) -> Entry {
        let list = LEXICON.list(family, polarity, class);
        let mut entry = list.draw(&mut self.draws);
        for _ in 0..8 {
            if !self.used_words.contains(&entry.lemma) {
                break;
            }
            entry = list.draw(&mut self.draws);
        }
        self.used_words.push(entry.lemma);
        entry
    }

    fn new_topic(&mut self, spare_film: bool) -> Topic {
        let mut topic = Topic::draw(&self.cast, spare_film, &mut self.draws);
        for _ in 0..8 {
            if !self.judged.contains(&topic) && !self.topics.contains(&topic) {
                break;
            }
            topic = Topic::draw(&self.cast, spare_film, &mut self.draws);
        }
        if topic != Topic::Film && !self.judged.contains(&topic) {
            self.judged.push(topic);
        }
        topic
    }

    fn mention(&mut self, mention: Mention) -> Node {
        match (mention, self.topic) {
            (Mention::Topic(_), Topic::Aspect(aspect, _)) => self.aspect(aspect),
            (Mention::Topic(manner), Topic::Film) => self.cast.mention(Who::Film, manner, &mut self.draws),
            (Mention::Topic(manner), Topic::Director) => {
                self.cast.mention(Who::Director, manner, &mut self.draws)
            }
            (Mention::Cast(who, manner), _) | (Mention::Topic(manner), Topic::Actor(who)) => {
                self.cast.mention(who, manner, &mut self.draws)
            }
            (Mention::RoleJob, Topic::Actor(Who::Support)) | (Mention::RivalJob, _) => {
                word(self.cast.jobs[1])
            }
            (Mention::HeroJob | Mention::RoleJob, _) => word(self.cast.jobs[0]),
            (Mention::Town, _) => {
                let town = usize::from(self.draws.chance(0.35));
                Node::leaf(self.cast.towns[town].clone(), P::ProperNoun)
            }
            (Mention::Year, _) => Node::leaf(self.cast.year.to_string(), P::Numeral),
            (Mention::PastYear, _) => {
                let year = self.cast.year - self.draws.below(60);
                Node::leaf(year.to_string(), P::Numeral)
            }
            (Mention::OtherTitle, _) => self.cast.other_title.clone(),
            (Mention::Someone, _) => {
                let female = self.draws.chance(0.5);
                Person::draw(&mut self.draws, female).full()
            }
        }
    }

    /// "the plot", "its plot", "the plot of Silver Harbour".
    fn aspect(&mut self, aspect: Entry) -> Node {
        self.cast.crowded = true;
        let noun = word(aspect);
        let the = Node::leaf("the", P::Determiner);
        let at = self.draws.unit();
        if !self.cast.title_known || (at < 0.12 && !self.cast.film_is_present()) {
            let film = self.cast.mention(Who::Film, Manner::Name, &mut self.draws);
            return if is_short(&film) && self.draws.chance(0.5) {
                noun.before("nmod:poss", genitive(film))
            } else {
                noun.before("det", the).after("nmod", film.before("case", Node::leaf("of", P::Adposition)))
            };
        }
        if at < 0.25 {
            return noun
                .before("nmod:poss", self.cast.mention(Who::Film, Manner::Possessive, &mut self.draws));
        }
        noun.before("det", the)
    }
}

impl Node {
    fn with_role(mut self, role: Role) -> Self {
        self.token.role = role;
        self
    }
}

fn role_of_list(family: &str) -> Role {
    match family {
        "intensifier" | "sheer" => Role::Intensifier,
        "diminisher" => Role::Diminisher,
        _ => Role::Plain,
    }
}
