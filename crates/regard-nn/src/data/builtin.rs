//! The built-in corpus: reviews of films that never were, by a grammar.
//!
//! Nothing has to be fetched, and the truth is known by construction. A text is a few sentences, some of which judge the
//! film; its label is what most of these say. What a sentence says is not the sum of its words: a negator may reverse
//! them, next to them (*is not clever*) or far away (*Nobody who saw it could call the plot clever*); of two parts joined
//! by *but* or *although* only one counts; and words of praise and blame may be about the story, about another film or the
//! opinion of others. A bag of words is therefore well below a reader who resolves all this and makes no mistake.
//!
//! Every [`Word`] has its part of speech, its head and relation (Universal Dependencies) and its [`Role`]; a reversed word
//! knows its negator. Names recur within a text and words have the frequencies of Zipf's law, with names in the long tail,
//! so that the texts also serve language models, vocabularies and treebank tools ([`Text::conllu`]). [`Pairs`] is a
//! small task from sequence to sequence out of the same grammar.
//!
//! The words are in `lexicon.txt` and the rules in `grammar.txt`, beside this module's code.
//!
//! ```
//! use regard_nn::data::builtin::{Corpus, CorpusSettings, Split};
//!
//! let corpus = Corpus::new(CorpusSettings::default(), 7)?;
//! let text = corpus.text(12);
//! assert_eq!(text, corpus.text(12));
//! for word in text.words() {
//!     assert_eq!(&text.text()[word.span.clone()], word.text);
//! }
//! let test = corpus.split(Split::Test);
//! assert_ne!(test.text(12).text(), text.text());
//! # Ok::<(), regard_nn::Error>(())
//! ```

mod cast;
mod corpus;
mod digits;
mod draws;
mod grammar;
mod lexicon;
mod morphology;
mod pairs;
mod settings;
mod speaker;
mod statistics;
mod text;
mod topic;
mod tree;

pub use corpus::{Corpus, Split};
pub use digits::digits;
pub use pairs::{Pair, Pairs};
pub use settings::CorpusSettings;
pub use statistics::Statistics;
pub use text::{FAR, Negation, PartOfSpeech, Polarity, Role, Sentence, SentenceKind, Text, Word};

/// The words by which the corpus praises or blames, in all their forms and in alphabetical order.
///
/// ```
/// use regard_nn::data::builtin::{Polarity, sentiment_words};
///
/// assert!(sentiment_words(Polarity::Positive).binary_search(&"brilliant".to_owned()).is_ok());
/// assert!(sentiment_words(Polarity::Negative).binary_search(&"bored".to_owned()).is_ok());
/// ```
pub fn sentiment_words(polarity: Polarity) -> Vec<String> {
    let entries = lexicon::LEXICON.judging(polarity);
    let forms = entries.flat_map(|entry| morphology::forms(entry.lemma, entry.part_of_speech));
    forms.collect::<std::collections::BTreeSet<String>>().into_iter().collect()
}
