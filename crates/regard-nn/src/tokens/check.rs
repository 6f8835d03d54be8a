//! Validation of a `tokenizer.json` before the `tokenizers` library reads it.
//!
//! The library trusts its files: duplicate ids decode to an arbitrary token, a merge longer than any token or a
//! pre-tokenizer of length 0 panics, and an id of four billion is a loop of that length. Each of these is rejected here,
//! with its location in the file.

use super::charsmap;
use super::files::MAXIMUM_VOCABULARY_ID;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

type Checked<T> = std::result::Result<T, String>;

/// Rejects a file that would make the library panic, loop or give arbitrary results.
pub(super) fn check(file: &Value) -> Checked<()> {
    let model = file.get("model").ok_or("there is no `model`: is this a tokenizer.json?")?;
    let vocabulary = match model.get("vocab") {
        Some(Value::Object(entries)) => by_piece(entries)?,
        Some(Value::Array(entries)) => by_place(entries)?,
        _ => {
            return Err(
                "`model.vocab` must be an object of tokens and ids, or a list of tokens and scores".into()
            );
        }
    };
    if vocabulary.is_empty() {
        return Err("`model.vocab` is empty".into());
    }
    if let Some(merges) = model.get("merges") {
        let prefix = model.get("continuing_subword_prefix").and_then(Value::as_str).unwrap_or_default();
        check_merges(merges, prefix, &vocabulary)?;
    }
    check_added(file.get("added_tokens").unwrap_or(&Value::Null))?;
    for part in ["normalizer", "pre_tokenizer", "post_processor", "decoder"] {
        let content = file.get(part).unwrap_or(&Value::Null);
        check_part(content, part)?;
        let growth = growth(content);
        if growth > LARGEST_GROWTH {
            return Err(format!(
                "`{part}` may make texts {growth:.0} times as long, expected at most {LARGEST_GROWTH}"
            ));
        }
    }
    Ok(())
}

/// The largest factor by which a part may lengthen a text. Common ones replace a space by a character of three bytes.
const LARGEST_GROWTH: f64 = 64.0;
/// A prefix of up to this many bytes does not count.
const SHORT: usize = 256;

/// The factor by which a part and its nested parts may lengthen a text.
fn growth(part: &Value) -> f64 {
    let length = |key: &str| part.get(key).and_then(Value::as_str).map_or(0, str::len);
    let own = match part.get("type").and_then(Value::as_str) {
        Some("Replace") => {
            let fixed = part.get("pattern").and_then(|pattern| pattern.get("String")).and_then(Value::as_str);
            match fixed {
                Some(pattern) if !pattern.is_empty() => length("content") as f64 / pattern.len() as f64,
                // The pattern may match text of any length, even an empty one.
                _ => length("content") as f64 + 1.0,
            }
        }
        Some("Prepend") => length("prepend").saturating_sub(SHORT) as f64,
        Some("Metaspace") => length("replacement") as f64,
        _ => 1.0,
    };
    let lists = ["normalizers", "pretokenizers", "processors", "decoders"];
    let inside = lists.iter().filter_map(|list| part.get(list)?.as_array()).flatten();
    inside.fold(own.max(1.0), |product, part| product * growth(part))
}

fn by_piece(entries: &serde_json::Map<String, Value>) -> Checked<BTreeSet<&str>> {
    let mut pieces = BTreeMap::new();
    for (piece, id) in entries {
        let id = id
            .as_u64()
            .and_then(|id| u32::try_from(id).ok())
            .filter(|&id| id <= MAXIMUM_VOCABULARY_ID)
            .ok_or_else(|| {
                format!("`model.vocab`: {piece:?} has the id {id}, expected 0 to {MAXIMUM_VOCABULARY_ID}")
            })?;
        if let Some(other) = pieces.insert(id, piece) {
            return Err(format!("`model.vocab`: {other:?} and {piece:?} have the same id {id}"));
        }
    }
    Ok(entries.keys().map(String::as_str).collect())
}

fn by_place(entries: &[Value]) -> Checked<BTreeSet<&str>> {
    if entries.len() > MAXIMUM_VOCABULARY_ID as usize {
        return Err(format!(
            "`model.vocab` has {} tokens, expected at most {MAXIMUM_VOCABULARY_ID}",
            entries.len()
        ));
    }
    let pieces: BTreeSet<&str> = entries
        .iter()
        .enumerate()
        .map(|(place, entry)| match entry.as_array().map(Vec::as_slice) {
            Some([Value::String(piece), score]) if score.as_f64().is_some_and(f64::is_finite) => {
                Ok(piece.as_str())
            }
            _ => Err(format!("`model.vocab`: entry {place} is not a token and a score")),
        })
        .collect::<Checked<_>>()?;
    if pieces.len() < entries.len() {
        return Err(format!("`model.vocab`: {} tokens occur more than once", entries.len() - pieces.len()));
    }
    Ok(pieces)
}

fn check_merges(merges: &Value, prefix: &str, vocabulary: &BTreeSet<&str>) -> Checked<()> {
    let merges = merges.as_array().ok_or("`model.merges` must be a list")?;
    for (place, merge) in merges.iter().enumerate() {
        let pair = match merge {
            // The older notation, whose first line may give the version.
            Value::String(line) if line.starts_with("#version") => continue,
            Value::String(line) => match line.split(' ').collect::<Vec<_>>()[..] {
                [left, right] => Some((left, right)),
                _ => None,
            },
            Value::Array(pair) => match &pair[..] {
                [Value::String(left), Value::String(right)] => Some((left.as_str(), right.as_str())),
                _ => None,
            },
            _ => None,
        };
        let (left, right) =
            pair.ok_or_else(|| format!("`model.merges`: entry {place} is not a pair of tokens"))?;
        let rest = right.strip_prefix(prefix).ok_or_else(|| {
            format!("`model.merges`: entry {place}: {right:?} does not start with {prefix:?}")
        })?;
        let joined = format!("{left}{rest}");
        for piece in [left, right, &joined] {
            if !vocabulary.contains(piece) {
                return Err(format!("`model.merges`: entry {place}: {piece:?} is not in the vocabulary"));
            }
        }
    }
    Ok(())
}

fn check_added(added: &Value) -> Checked<()> {
    let entries = match added {
        Value::Null => return Ok(()),
        Value::Array(entries) => entries,
        _ => return Err("`added_tokens` must be a list".into()),
    };
    for (place, entry) in entries.iter().enumerate() {
        let id = entry.get("id").and_then(Value::as_u64);
        if id.is_none_or(|id| id > u64::from(MAXIMUM_VOCABULARY_ID)) {
            return Err(format!("`added_tokens`: entry {place} has no id from 0 to {MAXIMUM_VOCABULARY_ID}"));
        }
        if entry.get("content").and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err(format!("`added_tokens`: entry {place} has no content"));
        }
    }
    Ok(())
}

/// Checks a part and its nested parts. The recursion is bounded, because the JSON reader limits the depth.
fn check_part(part: &Value, name: &str) -> Checked<()> {
    let fields = match part {
        Value::Null => return Ok(()),
        Value::Object(fields) => fields,
        _ => return Err(format!("`{name}` must be an object or null")),
    };
    match fields.get("type").and_then(Value::as_str) {
        Some("FixedLength")
            if fields.get("length").is_some_and(|length| length.as_u64().is_none_or(|n| n == 0)) =>
        {
            return Err(format!("`{name}`: the length must be at least 1"));
        }
        Some("Precompiled") => {
            let map = fields.get("precompiled_charsmap").and_then(Value::as_str);
            let map = map.ok_or_else(|| format!("`{name}`: `precompiled_charsmap` is missing"))?;
            charsmap::check(map).map_err(|problem| format!("`{name}`: `precompiled_charsmap`: {problem}"))?;
        }
        _ => {}
    }
    for list in ["normalizers", "pretokenizers", "processors", "decoders"] {
        if let Some(Value::Array(parts)) = fields.get(list) {
            for part in parts {
                check_part(part, name)?;
            }
        }
    }
    Ok(())
}
