//! The configuration of a run: a preset, changed by the user, saved with the run.

use super::settings::{self, nearest};
use crate::bad_usage;
use crate::error::UsageError;
use anyhow::{Context as _, Result, anyhow};
use regard_nn::data::builtin::CorpusSettings;
use regard_nn::models::{Model, Recipe};
use regard_nn::tokens::{Keep, Punctuation};
use regard_nn::train::TrainConfig;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// A configuration that comes with the program.
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// Its settings, as a file has them.
    text: &'static str,
    /// About how long it takes on the built-in data and two cores (`records/presets.md`).
    pub seconds: f64,
}

macro_rules! presets {
    ($($name:literal $seconds:literal,)+) => {
        &[$(Preset { name: $name, text: include_str!(concat!("../../presets/", $name, ".toml")), seconds: $seconds },)+]
    };
}

/// The configurations that come with the program.
pub const PRESETS: &[Preset] = presets! {
    "shakespeare-char" 90.0,
    "shakespeare-gpu" 33_000.0,
    "words-gpt" 240.0,
    "words-llama" 180.0,
    "masked-words" 290.0,
    "classify" 67.0,
    "translate" 850.0,
    "digits" 120.0,
    "sentiment-max" 30.0,
    "sentiment-additive" 32.0,
    "sentiment-heads" 58.0,
    "bag" 1.0,
    "tagger" 3.0,
};

/// Everything that decides what a run computes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunConfig {
    /// One line about it.
    #[serde(default)]
    pub about: String,
    /// The folder of the model it begins from, instead of random weights.
    #[serde(default)]
    pub from: Option<String>,
    /// The model.
    pub model: Recipe,
    /// The tokenizer.
    #[serde(default)]
    pub tokens: TokensConfig,
    /// The data.
    #[serde(default)]
    pub data: DataConfig,
    /// The training.
    #[serde(default)]
    pub train: TrainConfig,
    /// What is saved.
    #[serde(default)]
    pub run: KeepConfig,
}

impl RunConfig {
    /// The model's settings with what only the data or the initial model decides.
    pub fn resolved(&self, model: &dyn Model) -> Result<Recipe> {
        if self.from.is_some() {
            return Ok(Recipe::of(model)?);
        }
        let vocabulary = model.token_embeddings().map_or(0, |table| table.tensor().shape()[0]);
        Ok(self.model.clone().with_vocabulary(vocabulary).with_classes(model.abilities().classes))
    }
}

/// The tokenizer of a run. Only the settings that have an effect on the kind of token are written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, into = "EffectiveTokens")]
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

/// The settings of tokens that have an effect, as a file has them.
#[derive(Serialize)]
struct EffectiveTokens {
    kind: TokensKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    minimum_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lowercase: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    punctuation: Option<Punctuation>,
}

impl From<TokensConfig> for EffectiveTokens {
    fn from(config: TokensConfig) -> Self {
        let TokensConfig { kind, size, minimum_count, lowercase, punctuation } = config;
        let counted = kind != TokensKind::Characters;
        let cased = matches!(kind, TokensKind::Words | TokensKind::WordPieces);
        Self {
            kind,
            size: counted.then_some(size),
            minimum_count: counted.then_some(minimum_count),
            lowercase: cased.then_some(lowercase),
            punctuation: (kind == TokensKind::Words).then_some(punctuation),
        }
    }
}

/// The data of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// A file or folder; the built-in corpus if not given.
    pub path: Option<String>,
    /// The share that is held out to measure on, where the data does not come with such a part.
    pub held_out: f64,
    /// The most examples to learn from, drawn from all over them where they have labels; all if 0. Of texts with hidden words, no more
    /// than that are measured on either.
    pub limit: usize,
    /// The number of texts of the built-in corpus.
    pub texts: usize,
    /// The fewest and the most sentences of a built-in text; 3 and 12 if not given.
    pub sentences: Option<[usize; 2]>,
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
    /// The most ids of a text for language models that are kept in memory (134,217,728 if not given); those of a longer one are
    /// kept in a file in the run's folder.
    pub in_memory: Option<usize>,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            path: None,
            held_out: 0.1,
            limit: 0,
            texts: 10_000,
            sentences: None,
            length: 0,
            keep: Keep::First,
            text_column: "sentence".to_owned(),
            label_column: "label".to_owned(),
            source: "en".to_owned(),
            target: "de".to_owned(),
            vectors: None,
            in_memory: None,
        }
    }
}

impl DataConfig {
    /// The settings of the built-in corpus.
    pub fn builtin(&self) -> CorpusSettings {
        let plain = CorpusSettings::default();
        match self.sentences {
            Some([fewest_sentences, most_sentences]) => {
                CorpusSettings { fewest_sentences, most_sentences, ..plain }
            }
            None => plain,
        }
    }

    /// The same with whole paths, so that a run can be resumed from any folder.
    pub fn located(mut self) -> Result<Self> {
        for path in [&mut self.path, &mut self.vectors].into_iter().flatten() {
            let whole = std::path::absolute(&*path).with_context(|| format!("there is no file {path:?}"))?;
            if let Some(whole) = whole.to_str() {
                whole.clone_into(path);
            }
        }
        Ok(self)
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
    let Some(Preset { text, .. }) = PRESETS.iter().find(|known| known.name == name) else {
        let names: Vec<&str> = PRESETS.iter().map(|known| known.name).collect();
        match nearest(name, &names) {
            Some(near) => bad_usage!("there is no preset {name}; did you mean {near}?"),
            None => bad_usage!("there is no preset {name}; there are {}", names.join(", ")),
        }
    };
    let plain: Table = text.parse()?;
    let mut changed = plain.clone();
    for setting in settings {
        settings::set(&mut changed, setting)?;
    }
    let config = read(changed).map_err(|problem| {
        // The problem of a value comes without its key: the setting that is wrong by itself is the one meant.
        let alone = settings.iter().find_map(|setting| {
            let mut table = plain.clone();
            settings::set(&mut table, setting).ok()?;
            Some(settings::explained(Some(setting), &read(table).err()?))
        });
        UsageError(alone.unwrap_or_else(|| settings::explained(None, &problem)))
    })?;
    settings::ensure_effective(&config, settings)?;
    Ok(config)
}

/// A configuration from its text.
pub fn parse(text: &str) -> Result<RunConfig> {
    let table = text.parse::<Table>().map_err(|error| {
        let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
        anyhow!("line {line}: {}", error.message().replace('\n', " "))
    })?;
    read(table).map_err(|problem| anyhow!("{}", settings::explained(None, &problem)))
}

fn read(table: Table) -> std::result::Result<RunConfig, String> {
    let config: RunConfig =
        Value::Table(table).try_into().map_err(|error: toml::de::Error| error.message().to_owned())?;
    config.train.check().map_err(|error| error.to_string())?;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_sound_and_survives_being_written() {
        for Preset { name, .. } in PRESETS {
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
    fn mistakes_get_a_hint_of_what_was_meant() {
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
        assert_eq!(
            error(&["train.steps=many"]),
            "train.steps=many: expected a whole number, got string \"many\""
        );
        assert_eq!(error(&["model.trained=3"]), "model.trained=3: expected true or false, got integer 3");
        assert_eq!(
            error(&["train.seed=1", "train.rate.highest=fast"]),
            "train.rate.highest=fast: expected a number, got string \"fast\""
        );
        let unknown = preset("sentiment-maximum", &[]).unwrap_err().to_string();
        assert!(unknown.contains("did you mean sentiment-max?"), "{unknown}");
        let turned = preset("bga", &[]).unwrap_err().to_string();
        assert!(turned.contains("did you mean bag?"), "{turned}");
    }

    #[test]
    fn settings_without_effect_are_rejected() {
        let error = |name: &str, setting: &str| preset(name, &[setting.to_owned()]).unwrap_err().to_string();
        assert!(error("words-gpt", "model.vocabulary=99").contains("tokens.size"));
        assert!(error("digits", "model.classes=9").contains("those of the data"));
        assert!(error("words-gpt", "data.limit=99").contains("windows of one long text"));
        assert!(error("words-llama", "data.vectors=glove.txt").contains("only a bag"));
        assert!(error("bag", "from=elsewhere").contains("--from"));
        let characters = error("shakespeare-char", "tokens.lowercase=false");
        assert_eq!(characters, "tokens.lowercase=false has no effect: tokens.kind is characters");
        for share in ["nan", "0", "1", "-0.1", "inf"] {
            assert!(
                error("bag", &format!("data.held_out={share}")).contains("data.held_out must be"),
                "{share}"
            );
        }
        assert!(error("bag", "train.steps=0").contains("at least 1"));
    }

    #[test]
    fn the_error_of_a_damaged_file_names_the_line() {
        let error = |text: &str| parse(text).unwrap_err().to_string();
        assert!(error("about = \"x\"\n[model\nkind = 3").starts_with("line 2: "), "{}", error("[model"));
        assert!(!error("about = \"x\"\n[model\nkind = 3").contains('\n'));
    }
}
