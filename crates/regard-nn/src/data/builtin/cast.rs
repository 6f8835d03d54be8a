//! The film of a text, its makers and characters, and how they are referred to.
//!
//! The cast keeps track of mentions: a person is introduced by the full name and later called by one name or a pronoun,
//! and the film's title comes before "the film" and "it".

use super::draws::Draws;
use super::lexicon::{Entry, LEXICON};
use super::morphology::WordForm;
use super::text::PartOfSpeech as P;
use super::tree::{Node, Token};

/// A referent that can be mentioned again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    Film,
    Director,
    Lead,
    Support,
    Hero,
    Rival,
}

impl Who {
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "film" => Self::Film,
            "director" => Self::Director,
            "lead" => Self::Lead,
            "support" => Self::Support,
            "hero" => Self::Hero,
            "rival" => Self::Rival,
            _ => return None,
        })
    }
}

/// The form of a mention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// Subject, possibly a pronoun.
    Subject,
    /// Object, possibly a pronoun.
    Object,
    /// Genitive, possibly a pronoun.
    Possessive,
    /// Not a pronoun.
    Name,
    /// The full name or title.
    Full,
    /// Subject pronoun.
    Pronoun,
}

impl Manner {
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "" => Self::Subject,
            "obj" => Self::Object,
            "poss" => Self::Possessive,
            "name" => Self::Name,
            "full" => Self::Full,
            "he" => Self::Pronoun,
            _ => return None,
        })
    }
}

#[derive(Debug, Clone)]
pub(super) struct Person {
    first: &'static str,
    last: String,
    female: bool,
    known: bool,
}

impl Person {
    pub fn draw(draws: &mut Draws, female: bool) -> Self {
        let names = LEXICON.list("name", None, if female { "female" } else { "male" });
        Self { first: names.draw(draws).lemma, last: composed("surname", draws), female, known: false }
    }

    /// First name and surname.
    pub fn full(&self) -> Node {
        Node::leaf(self.first, P::ProperNoun).after("flat", Node::leaf(self.last.clone(), P::ProperNoun))
    }

    fn pronoun(&self, manner: Manner) -> Node {
        let (he, him, his) = if self.female { ("she", "her", "her") } else { ("he", "him", "his") };
        let word = match manner {
            Manner::Object => him,
            Manner::Possessive => his,
            _ => he,
        };
        Node::leaf(word, P::Pronoun)
    }
}

/// The people, in the order of [`Cast`]'s list.
const PEOPLE: [Who; 5] = [Who::Director, Who::Lead, Who::Support, Who::Hero, Who::Rival];

/// A name composed of a first and a last part.
pub(super) fn composed(family: &'static str, draws: &mut Draws) -> String {
    let start = LEXICON.list(family, None, "start").draw(draws).lemma;
    loop {
        let end = LEXICON.list(family, None, "end").draw(draws).lemma;
        // No doubled letter at the joint, and no "Woodwood".
        let clumsy = start.to_lowercase() == end || start.chars().last() == end.chars().next();
        if !clumsy {
            return format!("{start}{end}");
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Cast {
    pub title: Node,
    pub other_title: Node,
    pub genre: Entry,
    pub jobs: [Entry; 2],
    pub year: usize,
    pub towns: [String; 2],
    people: [Person; 5],
    pub title_known: bool,
    /// The referent of the last sentence, and of this one.
    focus: Option<Who>,
    next_focus: Option<Who>,
    /// The referents mentioned in this sentence.
    present: Vec<Who>,
    /// Whether this sentence has another possible antecedent of "it".
    pub crowded: bool,
}

impl Cast {
    /// A cast whose film has no title yet.
    pub fn draw(draws: &mut Draws) -> Self {
        let (director, hero) = (draws.chance(0.5), draws.chance(0.5));
        // The two characters differ in gender, so that pronouns are unambiguous.
        let people = [director, hero, !hero, hero, !hero].map(|female| Person::draw(draws, female));
        let towns = [composed("town", draws), composed("town", draws)];
        let untitled = Node::leaf("", P::Other);
        Self {
            title: untitled.clone(),
            other_title: untitled,
            genre: LEXICON.list("genre", None, "any").draw(draws),
            jobs: [(), ()].map(|()| LEXICON.list("occupation", None, "any").draw(draws)),
            year: 1935 + draws.below(86),
            towns,
            people,
            title_known: false,
            focus: None,
            next_focus: None,
            present: Vec::new(),
            crowded: false,
        }
    }

    pub fn end_sentence(&mut self) {
        self.focus = self.next_focus.take();
        self.present.clear();
        self.crowded = false;
    }

    /// A mention of the film or a person.
    pub fn mention(&mut self, who: Who, manner: Manner, draws: &mut Draws) -> Node {
        let node = match PEOPLE.iter().position(|&person| person == who) {
            Some(index) => self.person(index, who, manner, draws),
            None => self.film(manner, draws),
        };
        self.present.push(who);
        if matches!(manner, Manner::Subject | Manner::Full | Manner::Name) {
            self.next_focus.get_or_insert(who);
        }
        node
    }

    pub fn knows_rival(&self) -> bool {
        self.people[4].known
    }

    pub fn film_is_present(&self) -> bool {
        self.present.contains(&Who::Film)
    }

    fn film(&mut self, manner: Manner, draws: &mut Draws) -> Node {
        let known = std::mem::replace(&mut self.title_known, true);
        let possessive = manner == Manner::Possessive;
        let again = self.focus == Some(Who::Film) && !self.crowded && draws.chance(0.5);
        let node = match manner {
            _ if !known || manner == Manner::Full => self.title.clone(),
            Manner::Subject | Manner::Object if self.film_is_present() || again => {
                Node::leaf("it", P::Pronoun)
            }
            Manner::Possessive if self.film_is_present() || draws.chance(0.5) => {
                return Node::leaf("its", P::Pronoun);
            }
            _ if draws.chance(0.4) && (!possessive || is_short(&self.title)) => self.title.clone(),
            _ => self.description(draws),
        };
        if possessive { genitive(node) } else { node }
    }

    /// "the film", "this thriller".
    fn description(&self, draws: &mut Draws) -> Node {
        let (noun, determiner) = if draws.chance(0.25) {
            (self.genre, "this")
        } else {
            let words = LEXICON.list("film-word", None, "any");
            (words.draw(draws), if draws.chance(0.8) { "the" } else { "this" })
        };
        Node::leaf(noun.lemma, P::Noun).before("det", Node::leaf(determiner, P::Determiner))
    }

    fn person(&mut self, index: usize, who: Who, manner: Manner, draws: &mut Draws) -> Node {
        let known = std::mem::replace(&mut self.people[index].known, true);
        let pronoun_fits = if self.present.contains(&who) {
            self.alone_of_gender(index)
        } else {
            self.focus == Some(who) && self.present.is_empty() && draws.chance(0.4)
        };
        let character = matches!(who, Who::Hero | Who::Rival);
        let person = &self.people[index];
        let node = match manner {
            Manner::Pronoun => return person.pronoun(manner),
            Manner::Full => person.full(),
            Manner::Possessive if !known && who == Who::Director => {
                self.people[index].known = false;
                the(&["director"])
            }
            Manner::Subject | Manner::Object if !known && !character && draws.chance(0.7) => {
                return introduced(who, person);
            }
            _ if !known => person.full(),
            Manner::Subject | Manner::Object | Manner::Possessive if pronoun_fits => {
                return person.pronoun(manner);
            }
            _ if character => Node::leaf(person.first, P::ProperNoun),
            _ if draws.chance(0.2) => person.full(),
            _ => Node::leaf(person.last.clone(), P::ProperNoun),
        };
        if manner == Manner::Possessive { genitive(node) } else { node }
    }

    /// Whether a pronoun for this person is unambiguous in this sentence.
    fn alone_of_gender(&self, index: usize) -> bool {
        let mut others =
            (0..PEOPLE.len()).filter(|&other| other != index && self.present.contains(&PEOPLE[other]));
        others.all(|other| self.people[other].female != self.people[index].female)
    }
}

/// "the lead actor, Greta Marlow,"
fn introduced(who: Who, person: &Person) -> Node {
    let title = match (who, person.female) {
        (Who::Director, _) => the(&["director"]),
        (Who::Lead, false) => the(&["lead", "actor"]),
        (Who::Lead, true) => the(&["lead", "actress"]),
        (_, false) => the(&["supporting", "actor"]),
        (_, true) => the(&["supporting", "actress"]),
    };
    let comma = || Node::leaf(",", P::Punctuation);
    title.after("appos", person.full().before("punct", comma()).after("punct", comma()))
}

/// "the director"
fn the(words: &[&'static str]) -> Node {
    let (noun, adjectives) = words.split_last().unwrap_or((&"director", &[]));
    let noun = Node::leaf(*noun, P::Noun);
    let noun = adjectives
        .iter()
        .fold(noun, |noun, adjective| noun.before("amod", Node::leaf(*adjective, P::Adjective)));
    noun.before("det", Node::leaf("the", P::Determiner))
}

/// Whether its genitive reads well: "Silver Harbour's plot", but not "Chasing the Wolf's plot".
pub(super) fn is_short(node: &Node) -> bool {
    let singular_noun = node.token.part_of_speech == P::Noun && node.token.form.is_none();
    let simple = node.left.iter().all(|left| !matches!(left.relation, "case" | "nmod:poss"));
    singular_noun && node.right.is_empty() && simple
}

/// "Marlow's"
pub(super) fn genitive(node: Node) -> Node {
    node.after("case", Node::leaf("'s", P::Particle))
}

/// The node of a list entry, with its compound or particle.
pub(super) fn word(entry: Entry) -> Node {
    let mut token = Token::new(entry.lemma, entry.part_of_speech);
    if entry.plural {
        token.form = Some(WordForm::Plural);
        token.plural = true;
    }
    match entry.partner {
        None => token.into(),
        Some(particle) if entry.part_of_speech == P::Verb => {
            Node::from(token).after("compound:prt", Node::leaf(particle, P::Adposition))
        }
        Some(first) => Node::from(token).before("compound", Node::leaf(first, P::Noun)),
    }
}
