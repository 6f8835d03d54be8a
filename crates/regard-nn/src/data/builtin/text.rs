//! A text of the corpus: sentences of words, each with its part of speech, its syntactic head and its role.

use std::fmt::Write as _;
use std::ops::Range;

/// Whether something is praised or blamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Polarity {
    /// Blame; class 0.
    Negative,
    /// Praise; class 1.
    Positive,
}

impl Polarity {
    /// The other one.
    #[must_use]
    pub fn opposite(self) -> Self {
        match self {
            Self::Negative => Self::Positive,
            Self::Positive => Self::Negative,
        }
    }

    /// 0 for negative, 1 for positive: the index of the class.
    pub fn class(self) -> usize {
        self as usize
    }

    /// −1 for negative, 1 for positive.
    pub fn sign(self) -> i32 {
        match self {
            Self::Negative => -1,
            Self::Positive => 1,
        }
    }
}

macro_rules! parts_of_speech {
    ($($variant:ident $tag:literal $meaning:literal),* $(,)?) => {
        /// A part of speech of Universal Dependencies.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum PartOfSpeech {
            $(#[doc = $meaning] $variant,)*
        }

        impl PartOfSpeech {
            /// All of them, in the order of their tags.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The tag in a treebank, such as `NOUN`.
            pub fn tag(self) -> &'static str {
                match self {
                    $(Self::$variant => $tag,)*
                }
            }
        }
    };
}

parts_of_speech! {
    Adjective "ADJ" "good, young",
    Adposition "ADP" "in, of",
    Adverb "ADV" "very, well",
    Auxiliary "AUX" "is, has, would",
    CoordinatingConjunction "CCONJ" "and, but",
    Determiner "DET" "the, a, no",
    Interjection "INTJ" "oh",
    Noun "NOUN" "plot, harbour",
    Numeral "NUM" "two, 1987",
    Particle "PART" "not, 's, to before an infinitive",
    Pronoun "PRON" "it, nobody, who",
    ProperNoun "PROPN" "names",
    Punctuation "PUNCT" "commas, full stops, quotation marks",
    SubordinatingConjunction "SCONJ" "although, that",
    Symbol "SYM" "signs such as %",
    Verb "VERB" "find, bore",
    Other "X" "anything else",
}

impl PartOfSpeech {
    /// The one with this tag.
    pub fn from_tag(tag: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|part| part.tag() == tag)
    }

    /// Whether words of this kind carry content (nouns, names, verbs, adjectives, adverbs, interjections: the open
    /// classes), rather than grammar.
    pub fn is_content(self) -> bool {
        use PartOfSpeech as P;
        matches!(self, P::Adjective | P::Adverb | P::Interjection | P::Noun | P::ProperNoun | P::Verb)
    }
}

/// What a word does for the label of its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Nothing.
    Plain,
    /// It judges the film, in the polarity it has by itself. If it has a [negator](Word::negator), it counts as the
    /// opposite.
    Sentiment(Polarity),
    /// It judges the film in the part of a contrast that does not decide: it does not count.
    Conceded(Polarity),
    /// It could judge a film, but here it says something of the story, of another film, or what others think: it does
    /// not count.
    Distractor(Polarity),
    /// It reverses words that judge. Verbs (*lacks*), adjectives (*free of*), pronouns (*nobody*) and counterfactuals
    /// (*could have been*) do so, too.
    Negator,
    /// It looks like a negator but reverses no word that judges the film.
    IdleNegator,
    /// It strengthens a word that judges.
    Intensifier,
    /// It weakens a word that judges.
    Diminisher,
    /// It sets a part that counts against one that does not: *but*, *although*, *despite*.
    Contrast,
}

impl Role {
    /// The polarity of a word that praises or blames by itself, whether it counts here or not.
    pub fn polarity(self) -> Option<Polarity> {
        match self {
            Self::Sentiment(polarity) | Self::Conceded(polarity) | Self::Distractor(polarity) => {
                Some(polarity)
            }
            _ => None,
        }
    }
}

/// A word or punctuation mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// As it stands in the text.
    pub text: String,
    /// Its dictionary form.
    pub lemma: String,
    /// Its part of speech.
    pub part_of_speech: PartOfSpeech,
    /// The index in the sentence of the word it depends on; none for the root.
    pub head: Option<usize>,
    /// How it depends on it, in the words of Universal Dependencies; `root` for the root.
    pub relation: &'static str,
    /// What it does for the label.
    pub role: Role,
    /// For words that judge: the index in the sentence of the word that reverses them.
    pub negator: Option<usize>,
    /// Its bytes in the string of its text.
    pub span: Range<usize>,
}

/// How a sentence was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SentenceKind {
    /// It judges the film with nothing in the way.
    Plain,
    /// It judges with a negator close to the word that it reverses.
    NearNegation,
    /// It judges with a negator at least [`FAR`] words before the word that it reverses.
    FarNegation,
    /// One part of it decides against another.
    Contrast,
    /// It judges, with negators that reverse nothing or opinions that do not count beside.
    Decoy,
    /// It has words that could judge a film but do not judge this one.
    Distractor,
    /// It has no such words.
    Neutral,
}

impl SentenceKind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Plain,
        Self::NearNegation,
        Self::FarNegation,
        Self::Contrast,
        Self::Decoy,
        Self::Distractor,
        Self::Neutral,
    ];

    /// Whether such a sentence judges the film.
    pub fn judges(self) -> bool {
        !matches!(self, Self::Distractor | Self::Neutral)
    }

    /// A short name: `plain`, `near negation`, …
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::NearNegation => "near negation",
            Self::FarNegation => "far negation",
            Self::Contrast => "contrast",
            Self::Decoy => "decoy",
            Self::Distractor => "distractor",
            Self::Neutral => "neutral",
        }
    }
}

/// From this distance in words on, a negator is far.
pub const FAR: usize = 5;

/// A sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentence {
    /// Its words and punctuation marks, in order.
    pub words: Vec<Word>,
    /// How it was made.
    pub kind: SentenceKind,
    /// What it says of the film, with negation and contrast resolved; none if it does not judge the film.
    pub polarity: Option<Polarity>,
}

impl Sentence {
    /// Its bytes in the string of its text.
    pub fn span(&self) -> Range<usize> {
        let start = self.words.first().map_or(0, |word| word.span.start);
        start..self.words.last().map_or(start, |word| word.span.end)
    }
}

/// A word that judges, and the negator that reverses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Negation<'a> {
    /// The index of the sentence in its text.
    pub sentence: usize,
    /// The index of the negator in the sentence.
    pub negator_index: usize,
    /// The index of the reversed word in the sentence.
    pub sentiment_index: usize,
    /// The negator.
    pub negator: &'a Word,
    /// The reversed word.
    pub sentiment: &'a Word,
    /// How many words the second comes after the first; 1 if it is the next one. Punctuation marks count.
    pub distance: usize,
}

/// A text with its label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// The polarity of most of its sentences that judge the film.
    pub label: Polarity,
    /// The title of the film it is about, which it names at least once.
    pub film: String,
    /// The sentences, in order.
    pub sentences: Vec<Sentence>,
    pub(super) string: String,
}

impl Text {
    /// The text as a reader sees it.
    pub fn text(&self) -> &str {
        &self.string
    }

    /// All words and punctuation marks, in order.
    pub fn words(&self) -> impl Iterator<Item = &Word> {
        self.sentences.iter().flat_map(|sentence| &sentence.words)
    }

    /// The string of one sentence.
    pub fn sentence_text(&self, sentence: &Sentence) -> &str {
        self.string.get(sentence.span()).unwrap_or_default()
    }

    /// The words that judge the film and are reversed by a negator, in order. Conceded ones do not count for the
    /// label, but they are reversed all the same, and listed.
    pub fn negations(&self) -> impl Iterator<Item = Negation<'_>> {
        self.sentences.iter().enumerate().flat_map(|(sentence, parent)| {
            parent.words.iter().enumerate().filter_map(move |(sentiment_index, sentiment)| {
                let negator_index = sentiment.negator?;
                let negator = parent.words.get(negator_index)?;
                let distance = sentiment_index.abs_diff(negator_index);
                Some(Negation { sentence, negator_index, sentiment_index, negator, sentiment, distance })
            })
        })
    }

    /// The text as a treebank in the CoNLL-U format, one block a sentence, with `id` before each sentence's number.
    ///
    /// The role stands in the last column (`Role=Sentiment(Positive)`), the negator as its number (`Negator=3`).
    pub fn conllu(&self, id: &str) -> String {
        let mut out = String::new();
        for (number, sentence) in self.sentences.iter().enumerate() {
            let text = self.sentence_text(sentence);
            let _ = writeln!(out, "# sent_id = {id}-{}\n# text = {text}", number + 1);
            for (index, word) in sentence.words.iter().enumerate() {
                let next = sentence.words.get(index + 1);
                let _ = writeln!(
                    out,
                    "{}\t{}\t{}\t{}\t_\t_\t{}\t{}\t_\t{}",
                    index + 1,
                    word.text,
                    word.lemma,
                    word.part_of_speech.tag(),
                    word.head.map_or(0, |head| head + 1),
                    word.relation,
                    miscellany(word, next),
                );
            }
            out.push('\n');
        }
        out
    }
}

/// The last column of CoNLL-U.
fn miscellany(word: &Word, next: Option<&Word>) -> String {
    let mut facts = Vec::new();
    if next.is_some_and(|next| next.span.start == word.span.end) {
        facts.push("SpaceAfter=No".to_owned());
    }
    if word.role != Role::Plain {
        facts.push(format!("Role={:?}", word.role));
    }
    if let Some(negator) = word.negator {
        facts.push(format!("Negator={}", negator + 1));
    }
    if facts.is_empty() { "_".to_owned() } else { facts.join("|") }
}
