//! What a run is configured as: a preset, changed by the user, saved with the run.

use crate::bad_usage;
use crate::usage::Usage;
use anyhow::Result;
use saccade::models::{
    BagConfig, BertConfig, GptConfig, LlamaConfig, SentimentConfig, T5Config, TaggerConfig, VitConfig,
};
use saccade::tokens::{Keep, Punctuation};
use saccade::train::TrainConfig;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// The configurations that come with the program, by name.
pub const PRESETS: &[(&str, &str)] = &[
    ("shakespeare-char", include_str!("../../../../presets/shakespeare-char.toml")),
    ("words-gpt", include_str!("../../../../presets/words-gpt.toml")),
    ("words-llama", include_str!("../../../../presets/words-llama.toml")),
    ("masked-words", include_str!("../../../../presets/masked-words.toml")),
    ("classify", include_str!("../../../../presets/classify.toml")),
    ("translate", include_str!("../../../../presets/translate.toml")),
    ("digits", include_str!("../../../../presets/digits.toml")),
    ("sentiment-max", include_str!("../../../../presets/sentiment-max.toml")),
    ("sentiment-additive", include_str!("../../../../presets/sentiment-additive.toml")),
    ("sentiment-heads", include_str!("../../../../presets/sentiment-heads.toml")),
    ("bag", include_str!("../../../../presets/bag.toml")),
    ("tagger", include_str!("../../../../presets/tagger.toml")),
];

/// Everything that decides what a run computes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunConfig {
    /// One line about it.
    #[serde(default)]
    pub about: String,
    /// The model.
    pub model: ModelConfig,
    /// How text becomes ids.
    #[serde(default)]
    pub tokens: TokensConfig,
    /// What it learns from.
    #[serde(default)]
    pub data: DataConfig,
    /// How it learns.
    #[serde(default)]
    pub train: TrainConfig,
    /// What it keeps.
    #[serde(default)]
    pub run: KeepConfig,
}

/// A model of any kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[allow(missing_docs)] // Each is documented where it is defined.
pub enum ModelConfig {
    Gpt(GptConfig),
    Llama(LlamaConfig),
    Bert(BertConfig),
    T5(T5Config),
    Vit(VitConfig),
    Sentiment(SentimentConfig),
    Bag(BagConfig),
    Tagger(TaggerConfig),
}

/// How text becomes ids.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TokensConfig {
    /// What a token is.
    pub kind: TokensKind,
    /// The size of the vocabulary (the largest, for words).
    pub size: usize,
    /// How often a word or pair must occur.
    pub minimum_count: u64,
    /// Whether capital letters are made small (words and word pieces).
    pub lowercase: bool,
    /// What becomes of punctuation (words).
    pub punctuation: Punctuation,
}

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TokensKind {
    /// A word.
    Words,
    /// Whatever stands between white space (WikiText).
    Whitespace,
    /// A character.
    Characters,
    /// A byte-level pair of pieces.
    BytePairs,
    /// A piece of a word, as BERT has it.
    WordPieces,
}

impl Default for TokensConfig {
    fn default() -> Self {
        Self {
            kind: TokensKind::Words,
            size: 10_000,
            minimum_count: 1,
            lowercase: true,
            punctuation: Punctuation::Dropped,
        }
    }
}

/// What a run learns from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// A file or folder; the built-in corpus if not given.
    pub path: Option<String>,
    /// The share that is held out to measure on, where the data does not come with such a part.
    pub held_out: f64,
    /// The most examples to learn from, taken evenly from all of them where they have labels; all if 0.
    pub limit: usize,
    /// The number of texts of the built-in corpus.
    pub texts: usize,
    /// The most tokens of a text; the rest is cut off. As many as the model can read if 0.
    pub length: usize,
    /// Which end of a long text is kept.
    pub keep: Keep,
    /// The column of a table that has the text.
    pub text_column: String,
    /// The column of a table that has the label.
    pub label_column: String,
    /// The language of the source files of parallel text.
    pub source: String,
    /// The language of the target files.
    pub target: String,
    /// A file of word vectors (GloVe, fastText) that the model's own begin as, for models that read whole words.
    pub vectors: Option<String>,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            path: None,
            held_out: 0.1,
            limit: 0,
            texts: 10_000,
            length: 0,
            keep: Keep::First,
            text_column: "sentence".to_owned(),
            label_column: "label".to_owned(),
            source: "en".to_owned(),
            target: "de".to_owned(),
            vectors: None,
        }
    }
}

/// What a run writes and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KeepConfig {
    /// Add a line to the metrics every so many steps.
    pub log_every: u64,
    /// Save the state every so many steps, besides after each evaluation.
    pub save_every: u64,
    /// Keep the whole model at these steps; 0 is before the first.
    pub snapshots: Vec<u64>,
}

impl Default for KeepConfig {
    fn default() -> Self {
        Self { log_every: 10, save_every: 250, snapshots: Vec::new() }
    }
}

/// A preset, changed by settings such as `train.steps=100`.
pub fn preset(name: &str, settings: &[String]) -> Result<RunConfig> {
    let Some((_, text)) = PRESETS.iter().find(|(known, _)| *known == name) else {
        let names: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).collect();
        match nearest(name, &names) {
            Some(near) => bad_usage!("there is no preset {name}; did you mean {near}?"),
            None => bad_usage!("there is no preset {name}; there are {}", names.join(", ")),
        }
    };
    let mut table: Table = text.parse()?;
    for setting in settings {
        set(&mut table, setting)?;
    }
    read(table)
}

/// A configuration from its text.
pub fn parse(text: &str) -> Result<RunConfig> {
    read(text.parse()?)
}

fn read(table: Table) -> Result<RunConfig> {
    let config: RunConfig =
        Value::Table(table).try_into().map_err(|error: toml::de::Error| Usage(with_hint(error.message())))?;
    config.train.check()?;
    Ok(config)
}

/// Changes one value: `key=value`, the key with dots.
fn set(table: &mut Table, setting: &str) -> Result<()> {
    let Some((key, text)) = setting.split_once('=') else {
        bad_usage!("{setting:?} is not a setting; write key=value, such as train.steps=100");
    };
    // A value that is no TOML is a string, so that quotes are not needed.
    let value = format!("value = {text}").parse::<Table>().ok().and_then(|mut table| table.remove("value"));
    let value = value.unwrap_or_else(|| Value::String(text.to_owned()));
    let mut parts: Vec<&str> = key.trim().split('.').collect();
    let Some(last) = parts.pop().filter(|last| !last.is_empty()) else {
        bad_usage!("{setting:?} has no key")
    };
    let mut place = table;
    for part in parts {
        let entry = place.entry(part).or_insert_with(|| Value::Table(Table::new()));
        let Value::Table(inner) = entry else { bad_usage!("{key}: {part} is not a group of settings") };
        place = inner;
    }
    place.insert(last.to_owned(), value);
    Ok(())
}

/// Adds the nearest known key to a message about an unknown one.
fn with_hint(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let Some(unknown) = quoted.next().filter(|_| message.starts_with("unknown field")) else {
        return message.to_owned();
    };
    let known: Vec<&str> = quoted.collect();
    match nearest(unknown, &known) {
        Some(near) => format!("there is no setting {unknown}; did you mean {near}?"),
        None => format!("there is no setting {unknown}; there are {}", known.join(", ")),
    }
}

/// The most similar of some words, if any is similar enough to be meant.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let scored = known.iter().map(|&candidate| (distance(word, candidate), candidate));
    let (edits, near) = scored.min_by_key(|(edits, _)| *edits)?;
    (edits <= near.chars().count().max(word.chars().count()) / 2).then_some(near)
}

/// The number of letters to insert, remove or change (Levenshtein, 1966).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, &b) in b.iter().enumerate() {
            let changed = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_sound_and_survives_being_written() {
        for (name, _) in PRESETS {
            let config = preset(name, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
            let text = toml::to_string(&config).unwrap();
            assert_eq!(parse(&text).unwrap(), config, "{name}");
        }
    }

    #[test]
    fn settings_change_values_of_every_type() {
        let settings =
            ["train.steps=7", "data.path=some/file.txt", "model.positions=rotary", "train.rate.warmup=3"];
        let config = preset("words-gpt", &settings.map(str::to_owned)).unwrap();
        assert_eq!((config.train.steps, config.train.rate.warmup), (7, 3));
        assert_eq!(config.data.path.as_deref(), Some("some/file.txt"));
    }

    #[test]
    fn mistakes_are_told_with_what_was_probably_meant() {
        let error = |settings: &[&str]| {
            let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
            preset("bag", &settings).unwrap_err().to_string()
        };
        assert_eq!(error(&["train.step=7"]), "there is no setting step; did you mean steps?");
        assert_eq!(
            error(&["model.d_embeding=7"]),
            "there is no setting d_embeding; did you mean d_embedding?"
        );
        assert!(error(&["train.steps"]).contains("write key=value"));
        assert!(error(&["train.steps=many"]).contains("invalid type"), "{}", error(&["train.steps=many"]));
        let unknown = preset("sentiment-maximum", &[]).unwrap_err().to_string();
        assert!(unknown.contains("did you mean sentiment-max?"), "{unknown}");
    }
}
