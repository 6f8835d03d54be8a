//! The rules of the corpus, read from `grammar.txt`, which describes its own notation.

use super::cast::{Manner, Who};
use super::lexicon::LEXICON;
use super::morphology::{Tense, WordForm};
use super::text::{PartOfSpeech, Polarity};
use super::topic::TopicKind;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The grammar that ships with the library.
pub(super) static GRAMMAR: LazyLock<Grammar> = LazyLock::new(|| Grammar::read(include_str!("grammar.txt")));

#[derive(Debug)]
pub(super) struct Grammar {
    pub rules: Vec<Rule>,
    names: BTreeMap<&'static str, usize>,
}

#[derive(Debug)]
pub(super) struct Rule {
    pub name: &'static str,
    pub opens_topic: bool,
    pub once: bool,
    pub alternatives: Vec<Alternative>,
}

#[derive(Debug)]
pub(super) struct Alternative {
    pub weight: u32,
    /// The allowed kinds of topic; empty for all.
    pub topics: Vec<TopicKind>,
    pub needs: Needs,
    pub group: Group,
    /// Whether it has a negator that reverses.
    pub reverses: bool,
}

#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Needs {
    pub polarity: Option<Polarity>,
    pub affirmed: bool,
    pub own: bool,
    pub stranger: bool,
}

/// A head and its dependents, in the order of the words.
#[derive(Debug)]
pub(super) struct Group {
    pub before: Vec<Item>,
    pub head: Box<Item>,
    pub after: Vec<Item>,
}

#[derive(Debug)]
pub(super) struct Item {
    pub relation: &'static str,
    /// The probability that it is present, in percent.
    pub percent: Option<usize>,
    pub source: Source,
    pub inflection: Option<Inflection>,
    pub mark: Option<Mark>,
}

#[derive(Debug)]
pub(super) enum Source {
    Literal(&'static str, PartOfSpeech),
    Group(Group),
    Rule(usize, Option<Stance>),
    Words { family: &'static str, class: Option<&'static str>, stance: Option<Stance> },
    Mention(Mention),
}

/// A referent of this text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mention {
    Cast(Who, Manner),
    Topic(Manner),
    HeroJob,
    RivalJob,
    /// The job of the character played by the topic, an actor.
    RoleJob,
    Town,
    /// The genre of the film.
    Year,
    PastYear,
    OtherTitle,
    /// A person with no other role in the text.
    Someone,
}

impl Mention {
    fn from_name(name: &str) -> Option<Self> {
        let (who, manner) = name.split_once(':').unwrap_or((name, ""));
        let manner = Manner::from_name(manner);
        Some(match (who, manner) {
            ("topic", Some(manner)) => Self::Topic(manner),
            ("hero-job", _) => Self::HeroJob,
            ("rival-job", _) => Self::RivalJob,
            ("role-job", _) => Self::RoleJob,
            ("town", _) => Self::Town,
            ("year", _) => Self::Year,
            ("past-year", _) => Self::PastYear,
            ("other-title", _) => Self::OtherTitle,
            ("someone", _) => Self::Someone,
            (who, Some(manner)) => Self::Cast(Who::from_name(who)?, manner),
            (_, None) => return None,
        })
    }
}

/// The inflection of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inflection {
    WordForm(WordForm),
    /// Finite, in the text's tense.
    TextTense,
}

/// The effect of a word on others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Negator,
    IdleNegator,
    Contrast,
}

/// The polarity of the words below a name, relative to the opinion of the sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stance {
    Same,
    Reversed,
    Conceded,
    /// Any polarity, or the polarity of the sentence, or the opposite.
    Misleading(Option<bool>),
}

impl Grammar {
    pub fn rule(&self, name: &str) -> usize {
        self.names.get(name).copied().unwrap_or_else(|| panic!("no rule {name}"))
    }

    fn read(source: &'static str) -> Self {
        let lines =
            source.lines().enumerate().filter(|(_, line)| !line.starts_with('#') && !line.trim().is_empty());
        let mut names = BTreeMap::new();
        let mut rules: Vec<Rule> = Vec::new();
        // The tokens of the alternatives, with rule and line; parsed once all names are known.
        let mut alternatives: Vec<(usize, usize, Vec<&'static str>)> = Vec::new();
        for (number, line) in lines {
            let number = number + 1;
            if line.starts_with("        ") {
                let last = alternatives.last_mut();
                let (_, _, open) = last.unwrap_or_else(|| panic!("grammar line {number}: continues nothing"));
                open.extend(tokens(line));
            } else if line.starts_with(' ') {
                assert!(!rules.is_empty(), "grammar line {number}: no rule above it");
                alternatives.push((rules.len() - 1, number, tokens(line)));
            } else {
                let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
                assert!(names.insert(name, rules.len()).is_none(), "grammar line {number}: {name} again");
                let (opens_topic, once) = (rest.contains("@topic"), rest.contains("@once"));
                rules.push(Rule { name, opens_topic, once, alternatives: Vec::new() });
            }
        }
        for (rule, line, tokens) in alternatives {
            let alternative = Parser { tokens, at: 0, names: &names, line }.alternative();
            rules[rule].alternatives.push(alternative);
        }
        Self { rules, names }
    }
}

/// Splits at spaces, after an opening bracket and before a closing one; `]?30` stays together.
fn tokens(line: &'static str) -> Vec<&'static str> {
    let mut tokens = Vec::new();
    for word in line.split_whitespace() {
        let mut start = 0;
        for (at, sign) in word.char_indices() {
            let cut = match sign {
                '[' => at + 1,
                ']' => at,
                _ => continue,
            };
            if cut > start {
                tokens.push(&word[start..cut]);
                start = cut;
            }
        }
        if start < word.len() {
            tokens.push(&word[start..]);
        }
    }
    tokens
}

struct Parser<'a> {
    tokens: Vec<&'static str>,
    at: usize,
    names: &'a BTreeMap<&'static str, usize>,
    line: usize,
}

impl Parser<'_> {
    fn fail(&self, problem: &str) -> ! {
        panic!("grammar line {}: {problem}", self.line)
    }

    fn peek(&self) -> Option<&'static str> {
        self.tokens.get(self.at).copied()
    }

    fn alternative(&mut self) -> Alternative {
        let mut weight = 1;
        if let Some(number) = self.peek().and_then(|token| token.parse().ok()) {
            weight = number;
            self.at += 1;
        }
        let (mut topics, mut needs) = (Vec::new(), Needs::default());
        if self.peek().is_some_and(|token| token.starts_with('{')) {
            loop {
                let Some(token) = self.peek() else { self.fail("} is missing") };
                self.at += 1;
                match token.trim_start_matches('{').trim_end_matches('}') {
                    "+" => needs.polarity = Some(Polarity::Positive),
                    "-" => needs.polarity = Some(Polarity::Negative),
                    "affirmed" => needs.affirmed = true,
                    "own" => needs.own = true,
                    "stranger" => needs.stranger = true,
                    name => match TopicKind::from_name(name) {
                        Some(kind) => topics.push(kind),
                        None => self.fail(&format!("unknown condition {name}")),
                    },
                }
                if token.ends_with('}') {
                    break;
                }
            }
        }
        let group = self.group();
        if let Some(token) = self.peek() {
            self.fail(&format!("unexpected {token}"));
        }
        let reverses = group.contains(Mark::Negator);
        Alternative { weight, topics, needs, group, reverses }
    }

    /// Parses items up to the end or the closing bracket.
    fn group(&mut self) -> Group {
        let (mut before, mut head, mut after) = (Vec::new(), None, Vec::new());
        while let Some(token) = self.peek().filter(|token| !token.starts_with(']')) {
            self.at += 1;
            if let Some(source) = token.strip_prefix('*') {
                if head.is_some() {
                    self.fail("two heads");
                }
                head = Some(Box::new(self.item("", source)));
            } else {
                let item = match token {
                    "," | ";" | ":" | "“" | "”" => punctuation(token),
                    _ => match token.split_once('=') {
                        Some((relation, source)) => self.item(relation, source),
                        None => self.fail(&format!("{token} has no relation")),
                    },
                };
                if head.is_some() { after.push(item) } else { before.push(item) }
            }
        }
        let Some(head) = head else { self.fail("no head") };
        Group { before, head, after }
    }

    fn item(&mut self, relation: &'static str, source: &'static str) -> Item {
        if source == "[" {
            let group = self.group();
            let Some(end) = self.peek() else { self.fail("] is missing") };
            self.at += 1;
            let (rest, percent) = self.optional(&end[1..]);
            if !rest.is_empty() {
                self.fail(&format!("unexpected {rest}"));
            }
            return Item { relation, percent, source: Source::Group(group), inflection: None, mark: None };
        }
        // Inside the angle brackets of a name, `?` is a stance.
        let (name, rest) = match source.find('>') {
            Some(end) => source.split_at(end + 1),
            None => source.split_at(source.find(['~', '!', '?', '.', '/']).unwrap_or(source.len())),
        };
        let (rest, percent) = self.optional(rest);
        let (rest, mark) = mark(rest);
        let (suffix, tag) = rest.split_once('/').unwrap_or((rest, ""));
        // A mark may also precede the tag, as in `be~!/VERB`.
        let (suffix, mark) = if mark.is_none() { self::mark(suffix) } else { (suffix, mark) };
        let inflection = match suffix {
            "" => None,
            "~" => Some(Inflection::TextTense),
            ".pres" => Some(Inflection::WordForm(WordForm::Finite(Tense::Present))),
            ".past" => Some(Inflection::WordForm(WordForm::Finite(Tense::Past))),
            ".part" => Some(Inflection::WordForm(WordForm::Participle)),
            ".ing" => Some(Inflection::WordForm(WordForm::Gerund)),
            ".pl" => Some(Inflection::WordForm(WordForm::Plural)),
            _ => self.fail(&format!("unknown form {suffix} of {name}")),
        };
        let source = match name.strip_prefix('<').and_then(|name| name.strip_suffix('>')) {
            Some(name) => self.name(name),
            None => Source::Literal(name, self.part_of_speech(name, relation, tag)),
        };
        Item { relation, percent, source, inflection, mark }
    }

    fn part_of_speech(&self, word: &str, relation: &str, tag: &str) -> PartOfSpeech {
        let known = if tag.is_empty() {
            match (relation, word) {
                ("mark", "to") | ("case", "'s") => Some(PartOfSpeech::Particle),
                ("aux" | "aux:pass" | "cop", _) => Some(PartOfSpeech::Auxiliary),
                ("fixed", _) => Some(PartOfSpeech::Adposition),
                (_, "do" | "have") => Some(PartOfSpeech::Verb),
                _ => LEXICON.part_of_speech(word),
            }
        } else {
            PartOfSpeech::from_tag(tag)
        };
        known.unwrap_or_else(|| self.fail(&format!("unknown part of speech of {word} {tag}")))
    }

    fn name(&self, name: &'static str) -> Source {
        const STANCES: [(&str, Stance); 6] = [
            ("?+", Stance::Misleading(Some(true))),
            ("?-", Stance::Misleading(Some(false))),
            ("?", Stance::Misleading(None)),
            ("+", Stance::Same),
            ("~", Stance::Reversed),
            ("-", Stance::Conceded),
        ];
        let marked = STANCES.iter().find_map(|&(mark, stance)| Some((name.strip_suffix(mark)?, stance)));
        let (name, stance) = marked.map_or((name, None), |(name, stance)| (name, Some(stance)));
        if let Some(mention) = Mention::from_name(name) {
            return Source::Mention(mention);
        }
        if let Some(&rule) = self.names.get(name) {
            return Source::Rule(rule, stance);
        }
        let (family, class) =
            name.split_once('.').map_or((name, None), |(family, class)| (family, Some(class)));
        if !LEXICON.has_family(family) || LEXICON.is_sentiment(family) != stance.is_some() {
            self.fail(&format!("unknown name, or one stance too many or too few: {name}"));
        }
        let polarity = stance.map(|_| Polarity::Positive);
        if class.is_some_and(|class| LEXICON.find(family, polarity, class).is_none()) {
            self.fail(&format!("no such class: {name}"));
        }
        Source::Words { family, class, stance }
    }

    fn optional(&self, rest: &'static str) -> (&'static str, Option<usize>) {
        match rest.split_once('?') {
            None => (rest, None),
            Some((rest, "")) => (rest, Some(50)),
            Some((rest, percent)) => match percent.parse() {
                Ok(percent) => (rest, Some(percent)),
                Err(_) => self.fail(&format!("not a number: {percent}")),
            },
        }
    }
}

fn mark(rest: &'static str) -> (&'static str, Option<Mark>) {
    for (suffix, mark) in [("!0", Mark::IdleNegator), ("!c", Mark::Contrast), ("!", Mark::Negator)] {
        if let Some(rest) = rest.strip_suffix(suffix) {
            return (rest, Some(mark));
        }
    }
    (rest, None)
}

fn punctuation(sign: &'static str) -> Item {
    let source = Source::Literal(sign, PartOfSpeech::Punctuation);
    Item { relation: "punct", percent: None, source, inflection: None, mark: None }
}

impl Group {
    fn contains(&self, mark: Mark) -> bool {
        let items = self.before.iter().chain([&*self.head]).chain(&self.after);
        items.into_iter().any(|item| {
            item.mark == Some(mark) || matches!(&item.source, Source::Group(group) if group.contains(mark))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The rules that a text or a pair starts from.
    const BEGINNINGS: [&str; 18] = [
        "plain",
        "near",
        "far",
        "contrast",
        "decoy",
        "distractor",
        "opening",
        "setup",
        "story",
        "fact",
        "title",
        "doer",
        "found",
        "met",
        "where",
        "pair-take",
        "pair-meet",
        "pair-manner",
    ];

    fn visit(group: &Group, rules: &mut Vec<usize>, families: &mut BTreeSet<&'static str>) {
        for item in group.before.iter().chain([&*group.head]).chain(&group.after) {
            match &item.source {
                Source::Group(group) => visit(group, rules, families),
                Source::Rule(rule, _) => rules.push(*rule),
                Source::Words { family, .. } => drop(families.insert(family)),
                Source::Literal(..) | Source::Mention(_) => {}
            }
        }
    }

    #[test]
    fn every_rule_and_every_list_is_used() {
        let mut open: Vec<usize> = BEGINNINGS.iter().map(|name| GRAMMAR.rule(name)).collect();
        let (mut reached, mut families) = (BTreeSet::new(), BTreeSet::new());
        while let Some(rule) = open.pop() {
            if reached.insert(rule) {
                for alternative in &GRAMMAR.rules[rule].alternatives {
                    visit(&alternative.group, &mut open, &mut families);
                }
            }
        }
        let unreached = GRAMMAR.rules.iter().enumerate().filter(|(index, _)| !reached.contains(index));
        assert_eq!(unreached.map(|(_, rule)| rule.name).collect::<Vec<_>>(), Vec::<&str>::new());
        // These are drawn by the code itself.
        families.extend(["aspect", "diminisher", "film-word", "name", "surname", "town"]);
        let unused: Vec<_> = LEXICON.families().filter(|family| !families.contains(family)).collect();
        assert_eq!(unused, Vec::<&str>::new());
    }

    #[test]
    fn a_line_is_split_at_brackets() {
        let cut = tokens("    2 {film} nsubj=[det=the *plot]?30 obl=[case=of *[*<x>]] ,");
        let expected = "2|{film}|nsubj=[|det=the|*plot|]?30|obl=[|case=of|*[|*<x>|]|]|,";
        assert_eq!(cut.join("|"), expected);
    }
}
