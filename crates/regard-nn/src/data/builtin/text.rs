//! A text of the corpus: sentences of words, each with its part of speech, its syntactic head and its role.

use std::fmt::Write as _;
use std::ops::Range;

/// The sentiment of a word, sentence or text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Polarity {
    /// Negative; class 0.
    Negative,
    /// Positive; class 1.
    Positive,
}

impl Polarity {
    /// The opposite polarity.
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
            /// All parts of speech, in the order of their tags.
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
    /// The part of speech with this tag.
    pub fn from_tag(tag: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|part| part.tag() == tag)
    }

    /// Whether words of this kind are content words (nouns, names, verbs, adjectives, adverbs, interjections: the open
    /// classes) rather than function words.
    pub fn is_content(self) -> bool {
        use PartOfSpeech as P;
        matches!(self, P::Adjective | P::Adverb | P::Interjection | P::Noun | P::ProperNoun | P::Verb)
    }
}

/// The role of a word for the label of its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// None.
    Plain,
    /// A sentiment word about the film, with its own polarity. If it has a [negator](Word::negator), it counts as the
    /// opposite.
    Sentiment(Polarity),
    /// A sentiment word about the film in the conceded clause of a contrast: it does not count.
    Conceded(Polarity),
    /// A sentiment word about the story, about another film, or in the opinion of others: it does not count.
    Distractor(Polarity),
    /// A negator, which reverses sentiment words. Also verbs (*lacks*), adjectives (*free of*), pronouns (*nobody*) and
    /// counterfactuals (*could have been*).
    Negator,
    /// A negator that reverses no sentiment word about the film.
    IdleNegator,
    /// It strengthens a sentiment word.
    Intensifier,
    /// It weakens a sentiment word.
    Diminisher,
    /// It contrasts a clause that counts with one that does not: *but*, *although*, *despite*.
    Contrast,
}

impl Role {
    /// The polarity of a sentiment word, whether it counts here or not.
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
    /// The word as written in the text.
    pub text: String,
    /// Its dictionary form.
    pub lemma: String,
    /// Its part of speech.
    pub part_of_speech: PartOfSpeech,
    /// The index in the sentence of the word it depends on; none for the root.
    pub head: Option<usize>,
    /// Its relation to its head in Universal Dependencies; `root` for the root.
    pub relation: &'static str,
    /// Its role for the label.
    pub role: Role,
    /// For sentiment words: the index in the sentence of the negator that reverses them.
    pub negator: Option<usize>,
    /// Its byte range in the text.
    pub span: Range<usize>,
}

/// How a sentence was generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SentenceKind {
    /// An opinion of the film without complications.
    Plain,
    /// An opinion with a negator close to the word that it reverses.
    NearNegation,
    /// An opinion with a negator at least [`FAR`] words before the word that it reverses.
    FarNegation,
    /// An opinion with two contrasting clauses, of which one counts.
    Contrast,
    /// An opinion with additional negators that reverse nothing, or opinions that do not count.
    Decoy,
    /// No opinion of the film, but sentiment words that do not count.
    Distractor,
    /// No sentiment words.
    Neutral,
}

impl SentenceKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Plain,
        Self::NearNegation,
        Self::FarNegation,
        Self::Contrast,
        Self::Decoy,
        Self::Distractor,
        Self::Neutral,
    ];

    /// Whether such a sentence has an opinion of the film.
    pub fn is_opinion(self) -> bool {
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

/// The distance in words from which a negator counts as far.
pub const FAR: usize = 5;

/// A sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentence {
    /// Its words and punctuation marks, in order.
    pub words: Vec<Word>,
    /// How it was generated.
    pub kind: SentenceKind,
    /// Its opinion of the film, with negation and contrast resolved; `None` if it has no opinion.
    pub polarity: Option<Polarity>,
}

impl Sentence {
    /// Its byte range in the text.
    pub fn span(&self) -> Range<usize> {
        let start = self.words.first().map_or(0, |word| word.span.start);
        start..self.words.last().map_or(start, |word| word.span.end)
    }
}

/// A sentiment word and the negator that reverses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Negation<'a> {
    /// The index of the sentence in its text.
    pub sentence: usize,
    /// The index of the negator in the sentence.
    pub negator_index: usize,
    /// The index of the negated word in the sentence.
    pub sentiment_index: usize,
    /// The negator.
    pub negator: &'a Word,
    /// The negated word.
    pub sentiment: &'a Word,
    /// The distance from the negator to the word; 1 if they are adjacent. Punctuation marks count.
    pub distance: usize,
}

/// A text with its label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// The polarity of the majority of its opinions.
    pub label: Polarity,
    /// The title of the film, which occurs at least once.
    pub film: String,
    /// The sentences, in order.
    pub sentences: Vec<Sentence>,
    pub(super) string: String,
}

impl Text {
    /// The text as a string.
    pub fn text(&self) -> &str {
        &self.string
    }

    /// All words and punctuation marks, in order.
    pub fn words(&self) -> impl Iterator<Item = &Word> {
        self.sentences.iter().flat_map(|sentence| &sentence.words)
    }

    /// The text of one sentence.
    pub fn sentence_text(&self, sentence: &Sentence) -> &str {
        self.string.get(sentence.span()).unwrap_or_default()
    }

    /// The sentiment words about the film that a negator reverses, in order. Conceded ones are included, although they do
    /// not count for the label.
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

    /// The text as a treebank in the CoNLL-U format, one block per sentence, with `id` before each sentence's number.
    ///
    /// The last column has the role (`Role=Sentiment(Positive)`) and the number of the negator (`Negator=3`).
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
