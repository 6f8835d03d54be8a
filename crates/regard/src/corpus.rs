//! Texts to analyse a model with: what `--corpus` means, in one place for every command.
//!
//! Texts are streamed, several times if needed: lines of a file are never all in memory. A text is a line of a
//! plain file, a sentence of a treebank, a row of a table, a review of IMDb's test part or of the built-in corpus.

use crate::error::usage_error;
use crate::fetch::data::named;
use crate::run::{DataConfig, nearest, sources};
use anyhow::{Result, bail};
use clap::Args;
use regard_nn::analysis::dependencies::Parsed;
use regard_nn::data::builtin::{self, CorpusSettings, Split};
use regard_nn::data::file::Lines;
use regard_nn::data::{Labelled, treebank};
use regard_nn::models::Model;
use regard_nn::tokens::{Encoding, Keep, Special, Tokenizer};
use std::path::{Path, PathBuf};

/// The name of the corpus that comes with the program.
pub const BUILT_IN: &str = "built-in";

/// Most tokens of a text by default: attention takes their square.
const LENGTH: usize = 128;

/// Which texts are read, and how many at once.
#[derive(Args, Debug, Clone)]
pub struct CorpusArguments {
    /// What to read: a file with a text a line, a treebank (.conllu), a table (.tsv, .csv), IMDb's archive or folder (each
    /// plain or gzipped); for a model that reads pictures PNG or JPEG files or MNIST's; or what comes with the program
    #[arg(long, value_name = "FILE|built-in", default_value = BUILT_IN)]
    pub corpus: String,
    /// Target texts of an encoder–decoder model, line by line of --corpus [default: its own output]
    #[arg(long, value_name = "FILE")]
    pub answers: Option<PathBuf>,
    /// The most texts to read (0: all of a file)
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub limit: usize,
    /// The most tokens of a text; the rest is cut off [default: 128, or what the model can read]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    pub length: Option<u32>,
    /// How many texts are read at once; results do not depend on it
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub batch: u32,
    /// The random seed of untrained weights, random tokens and resampling
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
}

/// A source of texts.
pub enum Corpus {
    /// Made by the program, and what it knows of them.
    BuiltIn(builtin::Corpus),
    /// The lines of a file that are not empty.
    Lines(PathBuf),
    /// Sentences with their trees.
    Treebank(Vec<Parsed>, PathBuf),
    /// Texts with a class each.
    Labelled(Labelled),
}

impl Corpus {
    /// Opens what an argument names.
    pub fn open(argument: &str) -> Result<Self> {
        if argument == BUILT_IN {
            return Ok(Self::built_in()?);
        }
        let argument = named(argument)?;
        let argument = argument.as_str();
        let path = Path::new(argument);
        if !path.exists() {
            if nearest(argument, &[BUILT_IN]).is_some() {
                return Err(usage_error(format!("there is no file {argument}; did you mean {BUILT_IN}?")));
            }
            bail!("there is no file {argument}; for the corpus of this program write --corpus {BUILT_IN}");
        }
        // WikiText's folder; what a model was trained on is beside it.
        if path.join("test.txt").is_file() {
            return Ok(Self::Lines(path.join("test.txt")));
        }
        let name = argument.trim_end_matches(".gz");
        if name.ends_with(".conllu") {
            return Self::treebank(path);
        }
        let labelled =
            path.is_dir() || [".tar", ".tgz", ".tsv", ".csv"].iter().any(|end| name.ends_with(end));
        if labelled {
            let config = DataConfig { path: Some(argument.to_owned()), ..DataConfig::default() };
            return Ok(Self::Labelled(sources::test_labelled(&config)?));
        }
        Ok(Self::Lines(path.to_owned()))
    }

    /// The sentences of a treebank, whatever its name.
    pub fn treebank(path: &Path) -> Result<Self> {
        let sentences = treebank::read(path)?.iter().map(Parsed::from).collect();
        Ok(Self::Treebank(sentences, path.to_owned()))
    }

    /// The texts that no model is trained on.
    fn built_in() -> regard_nn::Result<Self> {
        Ok(Self::BuiltIn(builtin::Corpus::new(CorpusSettings::default(), 0)?.split(Split::Test)))
    }

    /// The texts in order, at most so many (0: all). Of those that are in memory they are taken evenly: half of IMDb's
    /// reviews are negative and come first.
    pub fn texts(&self, limit: usize) -> Result<Box<dyn Iterator<Item = regard_nn::Result<String>> + '_>> {
        Ok(match self {
            Self::BuiltIn(corpus) => Box::new(
                corpus
                    .texts()
                    .take(self.count(limit).unwrap_or(limit))
                    .map(|text| Ok(text.text().to_owned())),
            ),
            Self::Lines(path) => {
                let most = if limit == 0 { usize::MAX } else { limit };
                Box::new(TextLines(Lines::open(path)?).take(most))
            }
            Self::Treebank(sentences, _) => {
                Box::new(evenly(sentences, limit).map(|sentence| Ok(sentence.text.clone())))
            }
            Self::Labelled(labelled) => {
                Box::new(evenly(&labelled.examples, limit).map(|example| Ok(example.text.clone())))
            }
        })
    }

    /// How many texts a limit means, where that is known without reading them.
    fn count(&self, limit: usize) -> Option<usize> {
        let most = |all: usize| if limit == 0 { all } else { limit.min(all) };
        match self {
            // It has no end, so that "all" must be some number.
            Self::BuiltIn(_) => Some(most(if limit == 0 { 2_000 } else { usize::MAX })),
            Self::Lines(_) => None,
            Self::Treebank(sentences, _) => Some(most(sentences.len())),
            Self::Labelled(labelled) => Some(most(labelled.examples.len())),
        }
    }

    /// Sentences with their trees, where they are known: those of the texts that a limit means.
    pub fn parsed(&self, limit: usize) -> Option<Box<dyn Iterator<Item = Parsed> + '_>> {
        match self {
            Self::BuiltIn(corpus) => {
                let texts = corpus.texts().take(self.count(limit).unwrap_or(limit));
                Some(Box::new(texts.flat_map(|text| Parsed::from_text(&text))))
            }
            Self::Treebank(sentences, _) => Some(Box::new(evenly(sentences, limit).cloned())),
            Self::Lines(_) | Self::Labelled(_) => None,
        }
    }

    /// Texts with a class each and the names of the classes, where they are known.
    pub fn labelled(&self, limit: usize) -> Option<Labelled> {
        match self {
            Self::BuiltIn(corpus) => {
                let texts: Vec<builtin::Text> =
                    corpus.texts().take(self.count(limit).unwrap_or(limit)).collect();
                Some(sources::builtin_labelled(&texts))
            }
            Self::Labelled(labelled) => Some(Labelled {
                classes: labelled.classes.clone(),
                examples: evenly(&labelled.examples, limit).cloned().collect(),
            }),
            Self::Lines(_) | Self::Treebank(..) => None,
        }
    }
}

/// At most so many of some things (0: all), spread over them.
pub fn evenly<T>(all: &[T], limit: usize) -> impl Iterator<Item = &T> {
    sources::spread(all.len(), limit).into_iter().map(|i| &all[i])
}

/// The lines of a file that are not empty.
struct TextLines(Lines);

impl Iterator for TextLines {
    type Item = regard_nn::Result<String>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.0.next() {
                Ok(Some(line)) if line.trim().is_empty() => {}
                Ok(Some(line)) => return Some(Ok(line.to_owned())),
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// A corpus as a model reads it: tokenized, and cut to a length.
pub struct TokenizedCorpus<'a> {
    /// The texts.
    pub corpus: &'a Corpus,
    /// The tokenizer.
    pub tokenizer: &'a Tokenizer,
    /// The most texts; 0 for all.
    pub limit: usize,
    /// The most tokens of a text.
    pub length: usize,
}

/// The size of a tokenized corpus.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CorpusSize {
    /// Texts that are read.
    pub texts: u64,
    /// Their tokens.
    pub tokens: u64,
    /// Texts whose end was cut off.
    pub cut: u64,
    /// Texts that have no two tokens, and are left out.
    pub short: u64,
}

impl<'a> TokenizedCorpus<'a> {
    /// The corpus that the arguments name, cut to what a model can read.
    pub fn new(
        corpus: &'a Corpus,
        tokenizer: &'a Tokenizer,
        model: &dyn Model,
        arguments: &CorpusArguments,
    ) -> Result<Self> {
        let most = model.abilities().context.unwrap_or(usize::MAX);
        let length = match arguments.length {
            Some(length) if length as usize > most => {
                return Err(usage_error(format!("--length {length}: the model reads {most} tokens at most")));
            }
            Some(length) => length as usize,
            None => most.min(LENGTH),
        };
        Ok(Self { corpus, tokenizer, limit: arguments.limit, length })
    }

    /// The texts with at least two tokens, encoded and cut.
    pub fn encodings(&self) -> Result<impl Iterator<Item = regard_nn::Result<Encoding>>> {
        let texts = self.corpus.texts(self.limit)?;
        Ok(texts
            .map(|text| self.encode(&text?))
            .filter(|text| text.as_ref().map_or(true, |text| text.len() > 1)))
    }

    /// A text as the model reads it.
    pub fn encode(&self, text: &str) -> regard_nn::Result<Encoding> {
        let mut encoding = self.tokenizer.encode(text, Special::Keep)?;
        encoding.truncate(self.length, Keep::First)?;
        Ok(encoding)
    }

    /// Reads everything once without running the model, so that sizes and problems are known before the long part.
    pub fn measure_size(&self) -> Result<CorpusSize> {
        let mut size = CorpusSize::default();
        for text in self.corpus.texts(self.limit)? {
            let encoding = self.tokenizer.encode(&text?, Special::Keep)?;
            if encoding.len() < 2 {
                size.short += 1;
                continue;
            }
            size.texts += 1;
            size.cut += u64::from(encoding.len() > self.length);
            size.tokens += encoding.len().min(self.length) as u64;
        }
        if size.texts == 0 {
            bail!("the corpus has no text of two tokens or more");
        }
        Ok(size)
    }
}

impl std::fmt::Display for CorpusSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use crate::terminal::thousands;
        write!(f, "{} texts, {} tokens", thousands(self.texts), thousands(self.tokens))?;
        if self.cut > 0 {
            write!(f, "; {} of them cut", thousands(self.cut))?;
        }
        if self.short > 0 {
            write!(f, "; {} too short", thousands(self.short))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_taken_evenly_from_many() {
        let all: Vec<usize> = (0..10).collect();
        let few: Vec<usize> = evenly(&all, 5).copied().collect();
        assert!(
            few.len() == 5 && few.iter().enumerate().all(|(i, one)| one / 2 == i),
            "one of every two: {few:?}"
        );
        let many: Vec<usize> = (0..1000).collect();
        let odd = evenly(&many, 100).filter(|&one| one % 2 == 1).count();
        assert!((30..=70).contains(&odd), "what comes by turns is met in turn: {odd} of 100 are odd");
        assert_eq!(evenly(&all, 0).count(), 10);
        assert_eq!(evenly(&all, 99).count(), 10);
        assert_eq!(evenly::<usize>(&[], 3).count(), 0);
    }

    #[test]
    fn misspelt_names_and_missing_files_have_different_errors() {
        let problem = |argument: &str| match Corpus::open(argument) {
            Ok(_) => panic!("{argument} was opened"),
            Err(error) => error.to_string(),
        };
        assert!(problem("builtin").ends_with("did you mean built-in?"), "{}", problem("builtin"));
        assert!(problem("no/such/file.txt").contains("--corpus built-in"));
    }
}
