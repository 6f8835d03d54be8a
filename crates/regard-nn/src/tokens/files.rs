//! Reads and writes `tokenizer.json`.

use super::recipe::TokenizerRecipe;
use super::{SpecialIds, Tokenizer, check, guarded, older};
use crate::data::file;
use crate::error::{Error, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::str::FromStr;

/// The size limit of a `tokenizer.json`, in bytes. The largest in use have about 35 million.
pub const TOKENIZER_FILE_LIMIT: u64 = 64 << 20;

/// The largest id of a vocabulary; the largest in use are about a million.
pub const MAXIMUM_VOCABULARY_ID: u32 = (1 << 24) - 1;

/// Files that assign roles to special tokens; later files take precedence.
const ROLE_FILES: [&str; 2] = ["special_tokens_map.json", "tokenizer_config.json"];

impl Tokenizer {
    /// Opens a `tokenizer.json`, or a folder as [`from_folder`](Self::from_folder) does.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        if path.is_dir() {
            return Self::from_folder(path);
        }
        let json = file::read_text(path, TOKENIZER_FILE_LIMIT)?;
        Self::from_json(&json).map_err(|error| at(path, error))
    }

    /// Opens the tokenizer in a model's folder: `tokenizer.json`, or older files: `vocab.json` and `merges.txt`,
    /// `encoder.json` and `vocab.bpe` (GPT-2), or `vocab.txt` (BERT).
    ///
    /// If present, `tokenizer_config.json` and `special_tokens_map.json` assign roles to special tokens. For a `vocab.txt`
    /// they also decide whether text is lower-cased; without them it is, unless the vocabulary has tokens with capital
    /// letters.
    pub fn from_folder(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref();
        let settings = TokenizerFolderSettings::read(folder)?;
        let tokenizer = folder.join("tokenizer.json");
        if tokenizer.is_file() {
            let json = file::read_text(&tokenizer, TOKENIZER_FILE_LIMIT)?;
            return build(&json)
                .and_then(|inner| Self::wrap(inner, &settings.roles))
                .map_err(|error| at(&tokenizer, error));
        }
        let recipe = older::read(folder, &settings)?.with_added(settings.added.clone());
        let tokenizer = build(&recipe.to_json())
            .and_then(|inner| Self::wrap(inner, &settings.roles))
            .map_err(|error| at(folder, error))?;
        // The library assigns ids in sequence, so a gap would shift the ids after it.
        match settings.added.iter().find(|(id, (piece, _))| tokenizer.id(piece) != Some(**id)) {
            Some((id, (piece, _))) => {
                let problem =
                    format!("the added token {piece:?} cannot have the id {id}: smaller ids are missing");
                Err(Error::file(folder, problem))
            }
            None => Ok(tokenizer),
        }
    }

    /// Parses the text of a `tokenizer.json`.
    pub fn from_json(json: &str) -> Result<Self> {
        Self::wrap(build(json)?, &BTreeMap::new())
    }

    /// The text of a `tokenizer.json`, for [`from_json`](Self::from_json) and Hugging Face's library.
    pub fn to_json(&self) -> Result<String> {
        guarded("writing", || self.inner.to_string(true))
    }

    /// The text of a `tokenizer_config.json`, from which Hugging Face's `transformers` reads the roles of special tokens.
    pub fn configuration_json(&self) -> String {
        let mut configuration = json!({ "tokenizer_class": "PreTrainedTokenizerFast" });
        for (role, id) in self.special.roles() {
            configuration[role] = json!(self.piece(id));
        }
        format!("{configuration:#}\n")
    }

    /// Writes a `tokenizer.json` atomically: to a temporary name first, then renamed.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let json = self.to_json()?;
        file::write_whole(path.as_ref(), |file| file.write_all(json.as_bytes()))
    }
}

/// The settings in a folder's files besides the vocabulary.
#[derive(Default)]
pub(super) struct TokenizerFolderSettings {
    /// Special tokens by role, under the keys of `tokenizer_config.json`.
    pub roles: BTreeMap<String, String>,
    /// Other settings of `tokenizer_config.json`.
    pub flags: BTreeMap<String, bool>,
    /// Tokens outside the vocabulary, by id, and whether they are special.
    pub added: BTreeMap<u32, (String, bool)>,
}

impl TokenizerFolderSettings {
    fn read(folder: &Path) -> Result<Self> {
        let mut settings = Self::default();
        for name in ROLE_FILES {
            let path = folder.join(name);
            if !path.is_file() {
                continue;
            }
            let text = file::read_text(&path, TOKENIZER_FILE_LIMIT)?;
            let content: Value =
                serde_json::from_str(&text).map_err(|problem| Error::file(&path, problem))?;
            for role in SpecialIds::keys() {
                let piece = match content.get(role) {
                    Some(Value::String(piece)) => Some(piece),
                    // A token written as an object.
                    Some(Value::Object(fields)) => match fields.get("content") {
                        Some(Value::String(piece)) => Some(piece),
                        _ => None,
                    },
                    _ => None,
                };
                settings.roles.extend(piece.map(|piece| (role.to_owned(), piece.clone())));
            }
            let added = content.get("added_tokens_decoder").and_then(Value::as_object).into_iter().flatten();
            settings.added.extend(added.filter_map(|(id, piece)| {
                let special = piece.get("special").and_then(Value::as_bool).unwrap_or(false);
                Some((id.parse().ok()?, (piece.get("content")?.as_str()?.to_owned(), special)))
            }));
            let flags = content.as_object().into_iter().flatten();
            settings.flags.extend(flags.filter_map(|(key, value)| Some((key.clone(), value.as_bool()?))));
        }
        let path = folder.join("added_tokens.json");
        if path.is_file() {
            let text = file::read_text(&path, TOKENIZER_FILE_LIMIT)?;
            let content: BTreeMap<String, u32> =
                serde_json::from_str(&text).map_err(|problem| Error::file(&path, problem))?;
            for (piece, id) in content {
                settings.added.entry(id).or_insert((piece, false));
            }
        }
        Ok(settings)
    }
}

/// Checks the text of a `tokenizer.json` and builds the tokenizer.
pub(super) fn build(json: &str) -> Result<tokenizers::Tokenizer> {
    if json.len() as u64 > TOKENIZER_FILE_LIMIT {
        let problem = format!("the file has {} bytes, expected at most {TOKENIZER_FILE_LIMIT}", json.len());
        return Err(Error::data("tokenizer", problem));
    }
    let content: Value = serde_json::from_str(json)
        .map_err(|problem| Error::data("tokenizer", format!("not JSON: {problem}")))?;
    check::check(&content).map_err(|problem| Error::data("tokenizer", problem))?;
    drop(content);
    guarded("reading", || tokenizers::Tokenizer::from_str(json))
}

/// Builds a tokenizer from a recipe.
pub(super) fn assemble(recipe: &TokenizerRecipe) -> Result<Tokenizer> {
    Tokenizer::from_json(&recipe.to_json())
}

/// The same error, with the file it is about.
fn at(path: &Path, error: Error) -> Error {
    match error {
        Error::Data { problem, .. } => Error::file(path, problem),
        other => other,
    }
}
