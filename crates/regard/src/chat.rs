//! Chat templates: how a model's folder wants a conversation written as one text.
//!
//! A template is a Jinja program that comes with the model, in `chat_template.jinja` or in `tokenizer_config.json`. It is run as
//! transformers runs it (`apply_chat_template`): blocks trimmed, loop controls, `raise_exception`, `strftime_now`, the methods of
//! Python's strings and dictionaries, the special tokens by name. It can reach nothing but these values, and its steps, its depth and
//! its output are bounded.

use crate::model;
use anyhow::{Context as _, Result, bail};
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The largest template, in bytes; the longest known are a tenth of it.
const LARGEST_TEMPLATE: u64 = 1 << 20;
/// The most instructions that a template may run.
const MOST_STEPS: u64 = 10_000_000;
/// The most text that a template may write, in bytes.
const LONGEST_TEXT: usize = 16 << 20;

/// One message of a conversation.
#[derive(Debug, Clone, Serialize)]
pub struct Message {
    /// `system`, `user` or `assistant`.
    pub role: String,
    /// The text.
    pub content: String,
}

/// A folder's chat template.
pub struct ChatTemplate {
    source: String,
    /// The special tokens by their names, such as `bos_token`.
    special: BTreeMap<String, String>,
}

impl ChatTemplate {
    /// The template of a model's folder; an error if it has none.
    pub fn of(folder: &Path) -> Result<Self> {
        let settings = model::settings(&folder.join("tokenizer_config.json"))?;
        let special = special_tokens(&settings);
        let path = folder.join("chat_template.jinja");
        if let Ok(file) = std::fs::metadata(&path) {
            if !file.is_file() || file.len() > LARGEST_TEMPLATE {
                bail!("{} is not a template: it has {} bytes or is no file", path.display(), file.len());
            }
            let source = std::fs::read_to_string(&path);
            let source = source.with_context(|| format!("{} cannot be read", path.display()))?;
            return Ok(Self { source, special });
        }
        let Some(source) = stored_template(&settings) else {
            bail!(
                "{} has no chat template: neither chat_template.jinja nor one in tokenizer_config.json (models without \
                 one were not trained to chat; leave out --chat)",
                folder.display()
            );
        };
        Ok(Self { source, special })
    }

    /// A template from its text.
    pub fn new(source: String, special: BTreeMap<String, String>) -> Self {
        Self { source, special }
    }

    /// The conversation as one text, up to where the model's answer begins.
    pub fn render(&self, messages: &[Message]) -> Result<String> {
        let environment = environment();
        let source = without_generation_blocks(&self.source);
        let template = environment.template_from_str(&source).map_err(|error| readable(&error))?;
        let nothing = Value::from(());
        let given = minijinja::context! {
            messages => messages, tools => nothing, documents => nothing, add_generation_prompt => true,
            ..Value::from_serialize(&self.special)
        };
        let mut text = Bounded(Vec::new());
        template.render_captured_to(given, &mut text).map_err(|error| readable(&error))?;
        Ok(String::from_utf8(text.0)?)
    }
}

/// The template in a `tokenizer_config.json`: one text, or several by name.
fn stored_template(settings: &serde_json::Value) -> Option<String> {
    match settings.get("chat_template")? {
        serde_json::Value::String(source) => Some(source.clone()),
        serde_json::Value::Array(several) => {
            let default = several.iter().find(|entry| entry["name"] == "default").or(several.first())?;
            default["template"].as_str().map(str::to_owned)
        }
        _ => None,
    }
}

/// `bos_token` and the like, as texts or as objects with the text in `content`.
fn special_tokens(settings: &serde_json::Value) -> BTreeMap<String, String> {
    let text = |value: &serde_json::Value| {
        value.as_str().or_else(|| value.get("content")?.as_str()).map(str::to_owned)
    };
    let entries = settings.as_object().into_iter().flatten();
    entries
        .filter(|(key, _)| key.ends_with("_token") && !key.starts_with("add_"))
        .filter_map(|(key, value)| Some((key.clone(), text(value)?)))
        .collect()
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_fuel(Some(MOST_STEPS));
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_formatter(print_as_python);
    environment.add_filter("tojson", to_json);
    environment.add_function("raise_exception", |problem: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, problem))
    });
    environment.add_function("strftime_now", |format: &str| strftime(now(), format));
    environment
}

/// What templates print, they print as Python does: `None`, `True`, `False`.
fn print_as_python(output: &mut Output, state: &State, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::None => output.write_str("None").map_err(Error::from),
        ValueKind::Bool => {
            output.write_str(if value.is_true() { "True" } else { "False" }).map_err(Error::from)
        }
        _ => minijinja::escape_formatter(output, state, value),
    }
}

/// JSON as Python's `json.dumps` writes it: a space after each comma and colon, letters as they are.
#[allow(clippy::needless_pass_by_value)] // filters take their options by value
fn to_json(value: &Value, options: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = options.get("indent")?;
    // Letters are always left as they are, which is transformers' default, and keys in their order.
    let _: Option<Value> = options.get("ensure_ascii")?;
    let _: Option<Value> = options.get("sort_keys")?;
    options.assert_all_used()?;
    let wrong = |error: serde_json::Error| Error::new(ErrorKind::BadSerialization, error.to_string());
    let mut text = Vec::new();
    match indent {
        None => value.serialize(&mut serde_json::Serializer::with_formatter(&mut text, Spaced)),
        Some(width) => {
            let spaces = " ".repeat(width.min(16));
            let pretty = serde_json::ser::PrettyFormatter::with_indent(spaces.as_bytes());
            value.serialize(&mut serde_json::Serializer::with_formatter(&mut text, pretty))
        }
    }
    .map_err(wrong)?;
    Ok(Value::from(String::from_utf8_lossy(&text).into_owned()))
}

/// One line, with spaces after commas and colons.
struct Spaced;

impl serde_json::ser::Formatter for Spaced {
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        writer.write_all(b": ")
    }
}

/// `{% generation %}` marks what the assistant wrote, for training. It changes no text: a condition that holds stands for it.
fn without_generation_blocks(source: &str) -> String {
    let mut changed = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start);
        changed.push_str(before);
        let Some(end) = tag.find("%}").map(|end| end + 2) else {
            rest = tag;
            break;
        };
        let (tag, after) = tag.split_at(end);
        let inside = &tag[2..tag.len() - 2];
        let word = inside.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
        match word {
            "generation" => changed.push_str(&tag.replacen("generation", "if true", 1)),
            "endgeneration" => changed.push_str(&tag.replacen("endgeneration", "endif", 1)),
            _ => changed.push_str(tag),
        }
        rest = after;
    }
    changed + rest
}

/// An error in one line.
fn readable(error: &Error) -> anyhow::Error {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    let what =
        cause.or_else(|| error.detail().map(str::to_owned)).unwrap_or_else(|| error.kind().to_string());
    let line = error.line().map(|line| format!(" (line {line} of the template)")).unwrap_or_default();
    anyhow::anyhow!("the chat template fails: {}{line}", what.replace('\n', " "))
}

/// Text up to a limit.
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > LONGEST_TEXT {
            return Err(std::io::Error::other(format!("it writes more than {LONGEST_TEXT} bytes")));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A time (UTC, seconds since 1970) in a format of C's `strftime`, as far as templates use it.
fn strftime(seconds: u64, format: &str) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day, day_of_year) = date(days);
    let (weekday, month_name) = (DAYS[((days + 4) % 7) as usize], MONTHS[month - 1]);
    let digits = |number: u64, width: usize| format!("{number:0width$}");
    let mut text = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            text.push(character);
            continue;
        }
        match characters.next() {
            Some('Y') => text += &year.to_string(),
            Some('y') => text += &digits(year % 100, 2),
            Some('m') => text += &digits(month as u64, 2),
            Some('d') => text += &digits(day, 2),
            Some('j') => text += &digits(day_of_year, 3),
            Some('B') => text += month_name,
            Some('b' | 'h') => text += &month_name[..3],
            Some('A') => text += weekday,
            Some('a') => text += &weekday[..3],
            Some('H') => text += &digits(rest / 3600, 2),
            Some('M') => text += &digits(rest / 60 % 60, 2),
            Some('S') => text += &digits(rest % 60, 2),
            Some('F') => text += &[year.to_string(), digits(month as u64, 2), digits(day, 2)].join("-"),
            Some('%') | None => text.push('%'),
            Some(other) => text.extend(['%', other]),
        }
    }
    text
}

/// Year, month (from 1), day (from 1) and day of the year (from 1) of a day since 1970-01-01.
fn date(mut days: u64) -> (u64, usize, u64, u64) {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let day_of_year = days + 1;
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    (year, month + 1, days + 1, day_of_year)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_on_paper() {
        assert_eq!(strftime(0, "%A %d %B %Y, %H:%M:%S"), "Thursday 01 January 1970, 00:00:00");
        assert_eq!(strftime(951_782_399, "%F %j"), "2000-02-28 059");
        assert_eq!(strftime(951_782_400, "%d %b %y %a"), "29 Feb 00 Tue");
        assert_eq!(strftime(1_735_689_599, "%d %b %Y %% %q"), "31 Dec 2024 % %q");
    }

    #[test]
    fn generation_blocks_become_conditions() {
        let marked = "a{% generation %}b{%- endgeneration -%}c{% set generation = 1 %}{%";
        assert_eq!(
            without_generation_blocks(marked),
            "a{% if true %}b{%- endif -%}c{% set generation = 1 %}{%"
        );
    }
}
