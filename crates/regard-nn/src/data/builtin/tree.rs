//! Dependency trees and their realisation as sentences: order, agreement, articles, contractions, capitals.

use super::morphology::{self, Agreement, WordForm};
use super::text::{PartOfSpeech, Role, Word};
use std::borrow::Cow;

/// A word before inflection.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    pub lemma: Cow<'static, str>,
    pub part_of_speech: PartOfSpeech,
    pub form: Option<WordForm>,
    pub role: Role,
    /// Links sentiment words with the negator that reverses them.
    pub negation: Option<u32>,
    /// Whether verbs agree with it in the plural; a title that looks plural is singular.
    pub plural: bool,
    pub capital: bool,
    pub in_title: bool,
    /// Identifies the same word in two trees.
    pub origin: Option<usize>,
}

impl Token {
    pub fn new(lemma: impl Into<Cow<'static, str>>, part_of_speech: PartOfSpeech) -> Self {
        let lemma = lemma.into();
        Self {
            lemma,
            part_of_speech,
            form: None,
            role: Role::Plain,
            negation: None,
            plural: false,
            capital: false,
            in_title: false,
            origin: None,
        }
    }
}

/// A word with its dependents.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub token: Token,
    pub relation: &'static str,
    pub left: Vec<Node>,
    pub right: Vec<Node>,
}

impl Node {
    pub fn leaf(lemma: impl Into<Cow<'static, str>>, part_of_speech: PartOfSpeech) -> Self {
        Token::new(lemma, part_of_speech).into()
    }

    /// Adds a dependent before all others.
    #[must_use]
    pub fn before(mut self, relation: &'static str, mut dependent: Self) -> Self {
        dependent.relation = relation;
        self.left.insert(0, dependent);
        self
    }

    /// Adds a dependent after all others.
    #[must_use]
    pub fn after(mut self, relation: &'static str, mut dependent: Self) -> Self {
        dependent.relation = relation;
        self.right.push(dependent);
        self
    }

    pub fn for_each(&mut self, change: &mut impl FnMut(&mut Token)) {
        self.left.iter_mut().for_each(|node| node.for_each(change));
        change(&mut self.token);
        self.right.iter_mut().for_each(|node| node.for_each(change));
    }

    /// The words in order, with the index of each one's head.
    fn flatten(self, flat: &mut Vec<Flat>) -> usize {
        let children: Vec<usize> = self.left.into_iter().map(|child| child.flatten(flat)).collect();
        let me = flat.len();
        flat.push(Flat { token: self.token, relation: self.relation, head: None });
        let right: Vec<usize> = self.right.into_iter().map(|child| child.flatten(flat)).collect();
        for child in children.into_iter().chain(right) {
            flat[child].head = Some(me);
        }
        me
    }
}

impl From<Token> for Node {
    fn from(token: Token) -> Self {
        Self { token, relation: "root", left: Vec::new(), right: Vec::new() }
    }
}

#[derive(Debug)]
struct Flat {
    token: Token,
    relation: &'static str,
    head: Option<usize>,
}

/// The sentence of this tree, with its full stop. Appends it to the string that the words' spans refer to.
pub(super) fn realise(tree: Node, contract: bool, string: &mut String) -> Vec<Word> {
    realise_with_origins(tree, contract, string).0
}

/// Like [`realise`], with the origin of each word.
pub(super) fn realise_with_origins(
    tree: Node,
    contract: bool,
    string: &mut String,
) -> (Vec<Word>, Vec<Option<usize>>) {
    let tree = tree.after("punct", Node::leaf(".", PartOfSpeech::Punctuation));
    let mut flat = Vec::new();
    tree.flatten(&mut flat);
    let flat = without_double_punctuation(flat);
    let mut forms: Vec<String> = (0..flat.len()).map(|index| form(&flat, index)).collect();
    if contract {
        contract_not(&flat, &mut forms);
    }
    choose_articles(&flat, &mut forms);
    if let Some(first) = flat.iter().position(|word| word.token.part_of_speech != PartOfSpeech::Punctuation) {
        forms[first] = capitalised(&forms[first]);
    }
    let mut words = Vec::with_capacity(flat.len());
    for (index, word) in flat.iter().enumerate() {
        if index > 0 && spaced(&flat, &forms, index) {
            string.push(' ');
        }
        let start = string.len();
        string.push_str(&forms[index]);
        words.push(Word {
            text: std::mem::take(&mut forms[index]),
            lemma: dictionary_form(word),
            part_of_speech: word.token.part_of_speech,
            head: word.head,
            relation: word.relation,
            role: word.token.role,
            negator: negator(&flat, index),
            span: start..string.len(),
        });
    }
    (words, flat.iter().map(|word| word.token.origin).collect())
}

fn dictionary_form(word: &Flat) -> String {
    let lemma = match &*word.token.lemma {
        "“" | "”" => "\"",
        "me" => "I",
        "him" => "he",
        "her" if word.relation != "nmod:poss" => "she",
        "us" => "we",
        "them" => "they",
        lemma => lemma,
    };
    lemma.to_owned()
}

/// Removes a comma before another punctuation mark, except before a closing quotation mark.
fn without_double_punctuation(mut flat: Vec<Flat>) -> Vec<Flat> {
    let mut index = 0;
    while index + 1 < flat.len() {
        let next = &flat[index + 1].token;
        let doubled = next.part_of_speech == PartOfSpeech::Punctuation && !matches!(&*next.lemma, "“" | "”");
        if doubled && flat[index].token.lemma == "," {
            flat.remove(index);
            for word in &mut flat {
                word.head = word.head.map(|head| if head > index { head - 1 } else { head });
            }
        } else {
            index += 1;
        }
    }
    flat
}

fn form(flat: &[Flat], index: usize) -> String {
    let token = &flat[index].token;
    let form = match token.form {
        Some(WordForm::Finite(tense)) => morphology::finite(&token.lemma, tense, agreement(flat, index)),
        Some(WordForm::Participle) => morphology::participle(&token.lemma),
        Some(WordForm::Gerund) => morphology::gerund(&token.lemma),
        Some(WordForm::Plural) => morphology::plural(&token.lemma),
        None if matches!(&*token.lemma, "“" | "”") => "\"".to_owned(),
        None => token.lemma.to_string(),
    };
    if token.capital { capitalised(&form) } else { form }
}

/// The agreement of a finite verb: with its subject, with the subject of the clause it is conjoined to, or, in a relative
/// clause, with the word that the clause modifies.
fn agreement(flat: &[Flat], index: usize) -> Agreement {
    let mut clause = match flat[index].relation {
        "aux" | "aux:pass" | "cop" => flat[index].head.unwrap_or(index),
        _ => index,
    };
    let subject = loop {
        let subject = (0..flat.len())
            .find(|&i| flat[i].head == Some(clause) && matches!(flat[i].relation, "nsubj" | "nsubj:pass"));
        match (subject, flat[clause].head) {
            (Some(subject), Some(described)) if is_relative(&flat[subject].token) => break described,
            (Some(subject), _) => break subject,
            (None, Some(head)) if flat[clause].relation == "conj" => clause = head,
            (None, _) => return Agreement::ThirdSingular,
        }
    };
    let joined: Vec<usize> =
        (0..flat.len()).filter(|&i| flat[i].head == Some(subject) && flat[i].relation == "conj").collect();
    let and =
        |&part: &usize| (0..flat.len()).any(|i| flat[i].head == Some(part) && flat[i].token.lemma == "and");
    let of_title = flat[subject].token.in_title;
    if !of_title && joined.iter().any(and) {
        return Agreement::Plural;
    }
    // "neither A nor B" agrees with B.
    let deciding = if of_title { subject } else { joined.last().copied().unwrap_or(subject) };
    match &*flat[deciding].token.lemma {
        "I" => Agreement::FirstSingular,
        "we" | "you" | "they" => Agreement::Plural,
        _ if flat[deciding].token.plural => Agreement::Plural,
        _ => Agreement::ThirdSingular,
    }
}

fn is_relative(token: &Token) -> bool {
    token.part_of_speech == PartOfSpeech::Pronoun && matches!(&*token.lemma, "who" | "which" | "that")
}

/// "is not" → "isn't", "can not" → "can't".
fn contract_not(flat: &[Flat], forms: &mut [String]) {
    const CONTRACTED: [&str; 14] = [
        "is", "are", "was", "were", "do", "does", "did", "have", "has", "had", "could", "would", "should",
        "must",
    ];
    for index in 1..flat.len() {
        // "not only" stays.
        let alone = flat.iter().all(|word| word.head != Some(index));
        if alone
            && flat[index].token.lemma == "not"
            && flat[index - 1].token.part_of_speech == PartOfSpeech::Auxiliary
        {
            let before = forms[index - 1].clone();
            if before == "can" {
                "ca".clone_into(&mut forms[index - 1]);
                "n't".clone_into(&mut forms[index]);
            } else if CONTRACTED.contains(&before.as_str()) {
                "n't".clone_into(&mut forms[index]);
            }
        }
    }
}

fn choose_articles(flat: &[Flat], forms: &mut [String]) {
    for index in 0..flat.len() {
        if flat[index].token.lemma == "a"
            && forms.get(index + 1).is_some_and(|next| morphology::takes_an(next))
        {
            "an".clone_into(&mut forms[index]);
        }
    }
}

pub(super) fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Whether a space precedes this word.
fn spaced(flat: &[Flat], forms: &[String], index: usize) -> bool {
    let closes = matches!(&*flat[index].token.lemma, "," | "." | ";" | ":" | "”" | "'s");
    let clitic = forms[index] == "n't" || (forms[index] == "not" && flat[index - 1].token.lemma == "can");
    !closes && !clitic && flat[index - 1].token.lemma != "“"
}

/// The index of the negator that reverses this word.
fn negator(flat: &[Flat], index: usize) -> Option<usize> {
    let token = &flat[index].token;
    token.negation?;
    if token.role == Role::Negator {
        return None;
    }
    flat.iter().position(|word| word.token.role == Role::Negator && word.token.negation == token.negation)
}
