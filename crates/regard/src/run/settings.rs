//! Settings of `--set key=value`: applying them, and errors with hints for those that are wrong.

use super::config::{DataConfig, KeepConfig, RunConfig, TokensConfig, TokensKind};
use super::memory;
use crate::bad_usage;
use crate::error::{UsageError, usage_error};
use anyhow::Result;
use regard_nn::models::{Abilities, Reads, Recipe};
use regard_nn::train::TrainConfig;
use toml::{Table, Value};

/// Changes one value: `key=value`, the key with dots.
pub(super) fn set(table: &mut Table, setting: &str) -> Result<()> {
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

/// What is wrong with a setting, in the user's words: which one, what was expected, the nearest known name.
pub(super) fn explained(setting: Option<&str>, problem: &str) -> String {
    if problem.starts_with("unknown field") {
        return with_hint(problem);
    }
    let problem = ["invalid type: ", "invalid value: "]
        .iter()
        .find_map(|start| problem.strip_prefix(start)?.rsplit_once(", expected "))
        .map_or_else(
            || problem.to_owned(),
            |(got, expected)| format!("expected {}, got {}", in_words(expected), got.replace('`', "")),
        );
    match setting {
        Some(setting) => format!("{setting}: {problem}"),
        None => problem,
    }
}

/// A Rust type in the words of a user who writes a setting.
fn in_words(expected: &str) -> &str {
    match expected {
        "u8" | "u32" | "u64" | "usize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        other => other,
    }
}

/// Rejects settings that would have no effect, or that leave nothing to do.
pub(super) fn ensure_effective(config: &RunConfig, settings: &[String]) -> Result<()> {
    let effective = Table::try_from(&config.tokens)?;
    for setting in settings {
        let key = setting.split('=').next().unwrap_or_default().trim();
        if let Some(inner) = key.strip_prefix("tokens.")
            && !effective.contains_key(inner)
        {
            let kind = effective.get("kind").and_then(Value::as_str).unwrap_or_default();
            bad_usage!("{setting} has no effect: tokens.kind is {kind}");
        }
        match key {
            "from" => bad_usage!("{setting}: the model to begin from is given by --from"),
            "model.vocabulary" => {
                bad_usage!("{setting}: the vocabulary is made from the text; tokens.size limits its size")
            }
            "model.classes" => {
                bad_usage!("{setting}: the classes are those of the data")
            }
            "run.snapshots" => {
                let last = config.run.snapshots.iter().max().copied().unwrap_or(0);
                if last > config.train.steps {
                    bad_usage!("{setting}: there are {} steps (train.steps)", config.train.steps);
                }
            }
            _ => {}
        }
    }
    let (data, abilities) = (&config.data, possible(&config.model)?);
    if abilities.continues() && data.limit > 0 {
        bad_usage!(
            "data.limit: a language model reads windows of one long text, which are not counted; train.steps sets how much it \
             reads"
        );
    }
    if abilities.reads == Reads::Source && config.tokens.kind != TokensKind::BytePairs {
        bad_usage!(
            "tokens.kind: of the tokens that are made here only byte-pairs have one that ends a text; without it a translation would \
             never end"
        );
    }
    if data.vectors.is_some() && config.model.form().is_ok() {
        bad_usage!(
            "data.vectors: only a bag and the sentiment models can begin with the vectors of whole words"
        );
    }
    if !(data.held_out > 0.0 && data.held_out < 1.0) {
        bad_usage!("data.held_out must be above 0 and below 1, got {}", data.held_out);
    }
    if config.train.steps == 0 {
        bad_usage!("train.steps must be at least 1");
    }
    Ok(())
}

/// What a model reads and predicts; invalid settings are rejected before any data is read.
pub fn possible(model: &Recipe) -> Result<Abilities> {
    // Small models are built to find out. Those of data have far more tokens and classes.
    const FEW: usize = 8;
    let small = model.clone().with_vocabulary(FEW).with_classes(FEW);
    if let Err(error) = memory::ensure_model_fits(&small)
        && error.is::<UsageError>()
    {
        return Err(error);
    }
    let wrong = |problem| usage_error(format!("the model's settings (--set model.…): {problem}"));
    model.abilities().map_err(wrong)
}

/// Rejects a `data.length` setting that the model cannot read; lengths of presets are cut to what the model reads.
pub fn ensure_length(config: &RunConfig, model: &Recipe, settings: &[String]) -> Result<()> {
    let set = settings.iter().any(|setting| setting.trim_start().starts_with("data.length"));
    if let Some(context) = possible(model)?.context.filter(|context| set && config.data.length > *context) {
        bad_usage!(
            "data.length={}: the model reads {context} tokens at most (model.context)",
            config.data.length
        );
    }
    Ok(())
}

/// Adds the nearest known key to a message about an unknown one.
fn with_hint(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let Some(unknown) = quoted.next().filter(|_| message.starts_with("unknown field")) else {
        return message.to_owned();
    };
    let known: Vec<&str> = quoted.collect();
    let known: Vec<&str> = known.into_iter().filter(|key| !["from", "about"].contains(key)).collect();
    // The commonest mistake is to leave out the group.
    let group = known.iter().find_map(|group| in_group(group, unknown));
    match group.or_else(|| nearest(unknown, &known).map(str::to_owned)) {
        Some(near) => format!("there is no setting {unknown}; did you mean {near}?"),
        None => format!("there is no setting {unknown}; there are {}", known.join(", ")),
    }
}

/// The setting of a group by its last name, such as train.steps for steps. Of `model`, the keys that most models have.
fn in_group(group: &str, key: &str) -> Option<String> {
    const OF_MODELS: [&str; 8] =
        ["dropout", "n_layers", "n_heads", "d_model", "d_hidden", "d_embedding", "context", "positions"];
    let keys = match group {
        "train" => Table::try_from(TrainConfig::default()).ok()?,
        "data" => Table::try_from(DataConfig::default()).ok()?,
        "tokens" => Table::try_from(TokensConfig::default()).ok()?,
        "run" => Table::try_from(KeepConfig::default()).ok()?,
        "model" if OF_MODELS.contains(&key) => return Some(format!("model.{key}")),
        _ => return None,
    };
    keys.contains_key(key).then(|| format!("{group}.{key}"))
}

/// The most similar of some words, if any is similar enough to be meant.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let scored = known.iter().map(|&candidate| (distance(word, candidate), candidate));
    let (edits, near) = scored.min_by_key(|(edits, _)| *edits)?;
    (edits <= near.chars().count().max(word.chars().count()) / 2).then_some(near)
}

/// The number of letters to insert, remove, change, or to exchange with their neighbour (Damerau, 1964).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut edits = changed.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                edits = edits.min(rows[i - 2][j - 2] + 1);
            }
            row.push(edits);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}
