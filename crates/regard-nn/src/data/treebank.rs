//! Sentences with parts of speech and syntactic heads: CoNLL-U, the format of Universal Dependencies.
//!
//! The format has one word per line, ten tab-separated columns, and an empty line after each sentence. Syntactic words are
//! read with form, lemma, universal part of speech, head and relation. Multiword tokens (`8-9 don't`) give the text; empty
//! nodes (`8.1`) and comments are skipped. The text is reconstructed from the tokens and `SpaceAfter=No`, and each word
//! has its byte range in it.

use super::file::Lines;
use super::memory::MemoryBudget;
use crate::error::{Error, Result};
use std::ops::Range;
use std::path::Path;

/// The universal parts of speech, in alphabetical order.
pub const PARTS_OF_SPEECH: [&str; 17] = [
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT",
    "SCONJ", "SYM", "VERB", "X",
];

/// A syntactic word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The word as written.
    pub form: String,
    /// Its dictionary form.
    pub lemma: String,
    /// The index of its part of speech in [`PARTS_OF_SPEECH`].
    pub part_of_speech: usize,
    /// The index of its head in the sentence; none for the root.
    pub head: Option<usize>,
    /// Its relation to its head, such as `nsubj` or `obl:tmod`.
    pub relation: String,
    /// Its byte range in the text. Words of a contraction (French `du` is `de le`) share the token's range.
    pub range: Range<usize>,
}

/// A sentence and its dependency tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sentence {
    /// The text, with the original spaces.
    pub text: String,
    /// Its words, in order.
    pub words: Vec<Word>,
}

/// Reads the sentences of a CoNLL-U file.
pub fn read(path: impl AsRef<Path>) -> Result<Vec<Sentence>> {
    let path = path.as_ref();
    let mut lines = Lines::open(path)?;
    let mut sentences = Vec::new();
    let mut building = Building::default();
    let mut budget = MemoryBudget::new(path);
    let at = |number: usize| move |problem: String| Error::line(path, number, problem);
    while let Some(line) = lines.next()? {
        if line.is_empty() {
            let sentence = building.finish().map_err(at(lines.number() - 1))?;
            sentences.extend(sentence);
        } else if !line.starts_with('#') {
            // Form, lemma and relation are strings of their own, the text is one for all words.
            budget.add::<Word>(&[line.len() / 2, line.len() / 4, line.len() / 4])?;
            building.add(line).map_err(at(lines.number()))?;
        }
    }
    // The last empty line may be missing.
    sentences.extend(building.finish().map_err(at(lines.number()))?);
    if sentences.is_empty() {
        return Err(Error::file(path, "the file has no sentences"));
    }
    Ok(sentences)
}

type Parsed<T> = std::result::Result<T, String>;

/// A sentence while its lines are read.
#[derive(Default)]
struct Building {
    sentence: Sentence,
    /// Heads as numbered in the file: 0 is the root.
    heads: Vec<usize>,
    /// The current multiword token.
    open: Option<Token>,
    /// Whether the next token follows without a space.
    joined: bool,
}

struct Token {
    last: usize,
    range: Range<usize>,
    /// Where the next word's form starts, as long as the words' forms add up to the token's.
    next: Option<usize>,
    joined: bool,
}

impl Building {
    fn add(&mut self, line: &str) -> Parsed<()> {
        let mut fields = [""; 10];
        let mut count = 0;
        for field in line.split('\t') {
            *fields.get_mut(count).ok_or("more than 10 columns")? = field;
            count += 1;
        }
        if count != 10 {
            return Err(format!("expected 10 columns between tabs, got {count}"));
        }
        let [id, form, ..] = fields;
        if form.is_empty() {
            return Err("the word has no form".to_owned());
        }
        let joined = fields[9].split('|').any(|item| item == "SpaceAfter=No");
        if let Some((first, last)) = id.split_once('-') {
            self.begin_token(first, last, form, joined)
        } else if id.contains('.') {
            Ok(())
        } else {
            self.add_word(&fields, joined)
        }
    }

    /// Appends a token's form to the text.
    fn append(&mut self, form: &str, joined: bool) -> Range<usize> {
        let text = &mut self.sentence.text;
        if !text.is_empty() && !self.joined {
            text.push(' ');
        }
        let start = text.len();
        text.push_str(form);
        self.joined = joined;
        start..text.len()
    }

    fn begin_token(&mut self, first: &str, last: &str, form: &str, joined: bool) -> Parsed<()> {
        let next = self.sentence.words.len() + 1;
        let range = first.parse::<usize>().ok().zip(last.parse::<usize>().ok());
        let Some((_, last)) = range.filter(|&(first, last)| first == next && last > first) else {
            return Err(format!("the token {first}-{last} must start at word {next} and end after it"));
        };
        if self.open.is_some() {
            return Err(format!("the token {first}-{last} is inside another"));
        }
        let range = self.append(form, joined);
        self.open = Some(Token { last, next: Some(range.start), range, joined });
        Ok(())
    }

    fn add_word(&mut self, fields: &[&str; 10], joined: bool) -> Parsed<()> {
        let [id, form, lemma, part_of_speech, _, _, head, relation, ..] = *fields;
        let number = self.sentence.words.len() + 1;
        if id.parse() != Ok(number) {
            return Err(format!("expected word {number}, got {id:?}"));
        }
        let part_of_speech = PARTS_OF_SPEECH
            .iter()
            .position(|&known| known == part_of_speech)
            .ok_or_else(|| format!("{part_of_speech:?} is not a universal part of speech"))?;
        let head: usize =
            head.parse().map_err(|_| format!("the head must be a word's number, got {head:?}"))?;
        if relation.is_empty() || relation == "_" {
            return Err("the word has no relation to its head".to_owned());
        }
        let range = match self.open.take() {
            None => self.append(form, joined),
            Some(mut token) => {
                let range = token.word(&self.sentence.text, form);
                if token.last > number {
                    self.open = Some(token);
                } else {
                    self.joined = token.joined;
                }
                range
            }
        };
        self.heads.push(head);
        let (form, lemma, relation) = (form.to_owned(), lemma.to_owned(), relation.to_owned());
        self.sentence.words.push(Word { form, lemma, part_of_speech, head: None, relation, range });
        Ok(())
    }

    /// The sentence, if there is one. Checks that its heads form a tree.
    fn finish(&mut self) -> Parsed<Option<Sentence>> {
        let Self { mut sentence, heads, open, .. } = std::mem::take(self);
        if sentence.words.is_empty() {
            return if sentence.text.is_empty() {
                Ok(None)
            } else {
                Err("the token has no words".to_owned())
            };
        }
        if let Some(token) = open {
            return Err(format!("the sentence ends before word {} of its last token", token.last));
        }
        check_tree(&heads)?;
        for (word, &head) in sentence.words.iter_mut().zip(&heads) {
            word.head = head.checked_sub(1);
        }
        Ok(Some(sentence))
    }
}

impl Token {
    /// The byte range of the token's next word: its own part if the forms add up to the token's form, else the whole token.
    fn word(&mut self, text: &str, form: &str) -> Range<usize> {
        if let Some(start) = self.next {
            let end = start + form.len();
            if end <= self.range.end && text.get(start..end) == Some(form) {
                self.next = Some(end);
                return start..end;
            }
            self.next = None;
        }
        self.range.clone()
    }
}

/// Returns an error unless the heads (0 is the root) form a tree with one root.
fn check_tree(heads: &[usize]) -> Parsed<()> {
    let count = heads.len();
    if let Some(word) = heads.iter().position(|&head| head > count) {
        return Err(format!("word {} has the head {}, but there are {count} words", word + 1, heads[word]));
    }
    let roots = heads.iter().filter(|&&head| head == 0).count();
    if roots != 1 {
        return Err(format!("expected one root in the sentence, got {roots}"));
    }
    // 0: not visited; 1: on the path up from the current word; 2: known to reach the root.
    let mut state = vec![0_u8; count + 1];
    state[0] = 2;
    for word in 1..=count {
        let mut way = Vec::new();
        let mut at = word;
        while state[at] == 0 {
            state[at] = 1;
            way.push(at);
            at = heads[at - 1];
        }
        if state[at] == 1 {
            return Err(format!("the heads of the sentence form a cycle at word {at}"));
        }
        for seen in way {
            state[seen] = 2;
        }
    }
    Ok(())
}
