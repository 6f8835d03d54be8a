//! Models of [llama2.c](https://github.com/karpathy/llama2.c), whose files have no names, only an order.
//!
//! The model (version 0, the one its `.bin` files on the hub have): seven `i32` — width, hidden width, layers, query heads,
//! key-value heads, vocabulary (negative if the output has a table of its own), context — and then every weight as `f32`.
//! Rotary pairs lie side by side there and in two halves here, as in Hugging Face's Llama, so that the rows of the query and
//! key projections change places. The tokenizer: the longest piece's length, then for each piece its score, its length and
//! its bytes. llama2.c joins the two neighbours whose union has the best score until none is left: byte-pair encoding, with
//! every way to make a piece of two as a merge, the best score first.

use super::{read_small, sentencepiece};
use crate::error::{Error, Result};
use crate::models::{LlamaConfig, Transformer};
use crate::parameter::Initial;
use crate::tokens::Tokenizer;
use regard_tensor::{MappedFile, Shape, Tensor};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The bytes of the header.
const HEADER: usize = 28;
/// What newer versions of the format begin with.
const LATER: u32 = 0x616b_3432;
/// Nothing in a header is larger than this.
const LARGEST: i32 = 1 << 24;
/// No tokenizer is larger than this; that of Llama 2 has 0.4 MB.
const LARGEST_TOKENIZER: u64 = 4 << 20;
/// No piece is longer than this, in bytes.
const LONGEST_PIECE: usize = 512;
/// The ids of the unknown token, of the start of a text and of its end, and the first id of another piece.
const UNKNOWN: usize = 0;
const START: usize = 1;
const END: usize = 2;
const FIRST_PIECE: usize = 3;

/// The tokens that begin and end texts, for a `config.json` or `generation_config.json`. Models trained by llama2.c begin
/// the next text where one ends.
pub fn special_tokens() -> Map<String, Value> {
    super::options::object(json!({"bos_token_id": START, "eos_token_id": [START, END]}))
}

/// Reads a model.
pub fn read_model(path: &Path) -> Result<Transformer> {
    let file = MappedFile::open(path).map_err(|error| Error::file(path, error))?;
    let header = Header::read(file.bytes()).map_err(|problem| Error::file(path, problem))?;
    let places = header.places();
    let (expected, found) = (places.end, file.bytes().len() as u128);
    if expected != found {
        let problem = format!("has {found} bytes, but its header promises {expected}: {header:?}");
        return Err(Error::file(path, problem));
    }
    let config = header.config();
    let rotated = config.d_model / config.n_heads;
    let read = move |name: &str, shape: &Shape| {
        let Some(range) = places.find(name, shape.count()) else {
            return Err(Error::checkpoint(format!("{name} has no place in a llama2.c file")));
        };
        let tensor = file.tensor(range, shape)?;
        let pairs = name.ends_with("attention.query.weight") || name.ends_with("attention.key.weight");
        if pairs { halves(&tensor, rotated) } else { Ok(tensor) }
    };
    Transformer::build(config.form(), &Initial::read(Arc::new(read)))
}

/// The rows of each head with the first members of all pairs before the second ones.
fn halves(weight: &Tensor, head: usize) -> Result<Tensor> {
    let (values, width) = (weight.values(), weight.shape().last());
    let mut ordered = Vec::with_capacity(values.len());
    for rows in values.chunks_exact(head * width) {
        for member in [0, 1] {
            for row in rows.chunks_exact(width).skip(member).step_by(2) {
                ordered.extend_from_slice(row);
            }
        }
    }
    Ok(Tensor::new(&ordered, weight.shape())?)
}

/// What a file says of its model.
#[derive(Debug, Clone, Copy)]
struct Header {
    width: usize,
    hidden: usize,
    layers: usize,
    heads: usize,
    kv_heads: usize,
    vocabulary: usize,
    context: usize,
    tied: bool,
}

impl Header {
    fn read(bytes: &[u8]) -> std::result::Result<Self, String> {
        let Some(bytes) = bytes.get(..HEADER) else {
            return Err(format!("has {} bytes, a llama2.c file begins with {HEADER}", bytes.len()));
        };
        let number = |i: usize| {
            let four = bytes.get(4 * i..4 * i + 4).and_then(|four| four.try_into().ok());
            i32::from_le_bytes(four.unwrap_or_default())
        };
        if number(0) as u32 == LATER {
            return Err(format!(
                "has version {} of llama2.c's format; version 0 can be read (export.py --version 0)",
                number(1)
            ));
        }
        let size = |what: &str, value: i32| match value {
            1..=LARGEST => Ok(value as usize),
            _ => Err(format!("is no llama2.c file: its {what} would be {value}")),
        };
        let header = Self {
            width: size("width", number(0))?,
            hidden: size("hidden width", number(1))?,
            layers: size("number of layers", number(2))?,
            heads: size("number of heads", number(3))?,
            kv_heads: size("number of key-value heads", number(4))?,
            vocabulary: size("vocabulary", number(5).checked_abs().unwrap_or(0))?,
            context: size("context", number(6))?,
            tied: number(5) > 0,
        };
        let Self { width, heads, kv_heads, .. } = header;
        if !width.is_multiple_of(2 * heads) || !heads.is_multiple_of(kv_heads) {
            return Err(format!("has a width of {width} for {heads} heads and {kv_heads} key-value heads"));
        }
        Ok(header)
    }

    fn config(self) -> LlamaConfig {
        LlamaConfig {
            vocabulary: self.vocabulary,
            context: self.context,
            n_layers: self.layers,
            n_heads: self.heads,
            n_kv_heads: self.kv_heads,
            d_model: self.width,
            d_hidden: self.hidden,
            norm_epsilon: 1e-5,
            tied: self.tied,
            ..LlamaConfig::default()
        }
    }

    /// Where everything is. The numbers of a header fit 24 bits, so that no sum here is too large.
    fn places(self) -> Places {
        let [width, hidden, layers, vocabulary] =
            [self.width, self.hidden, self.layers, self.vocabulary].map(|size| size as u128);
        let keys = width / self.heads as u128 * self.kv_heads as u128;
        // Two tables of cosines and sines that nobody needs.
        let turns = self.context as u128 * (width / self.heads as u128);
        let order = [
            ("tokens.weight", 1, vocabulary * width),
            ("attention_norm.weight", layers, width),
            ("attention.query.weight", layers, width * width),
            ("attention.key.weight", layers, keys * width),
            ("attention.value.weight", layers, keys * width),
            ("attention.output.weight", layers, width * width),
            ("ffn_norm.weight", layers, width),
            ("ffn.gate.weight", layers, hidden * width),
            ("ffn.down.weight", layers, width * hidden),
            ("ffn.up.weight", layers, hidden * width),
            ("norm.weight", 1, width),
            ("", 1, turns),
            ("head.weight", 1, if self.tied { 0 } else { vocabulary * width }),
        ];
        let mut end = HEADER as u128;
        let mut starts = HashMap::new();
        for (name, count, size) in order {
            starts.insert(name, end);
            end += 4 * count * size;
        }
        Places { starts, end }
    }
}

/// Where each kind of weight begins, those of all layers one after the other.
struct Places {
    starts: HashMap<&'static str, u128>,
    end: u128,
}

impl Places {
    /// The bytes of one of our parameters.
    fn find(&self, name: &str, count: usize) -> Option<Range<usize>> {
        let (layer, kind) = match name.strip_prefix("layers.").and_then(|rest| rest.split_once('.')) {
            Some((layer, kind)) => (layer.parse::<usize>().ok()?, kind),
            None => (0, name),
        };
        let size = count.checked_mul(4)?;
        let start = usize::try_from(*self.starts.get(kind)?).ok()?.checked_add(layer.checked_mul(size)?)?;
        Some(start..start.checked_add(size)?)
    }
}

/// Reads a tokenizer for a model of so many tokens.
///
/// Characters that are no pieces become bytes, `<0x00>` to `<0xFF>`; in tokenizers without byte pieces, such as those trained
/// on characters alone, they become the unknown token. (llama2.c has no such case: it takes whatever piece has the id of the
/// byte plus 3.)
///
/// Two more things differ from llama2.c: the literal texts `<s>`, `</s>` and `<unk>` are special tokens, as they are with every
/// Hugging Face tokenizer; and of two overlapping ways to make the same piece the first in the text is not always taken (it
/// takes a text that repeats itself, such as "aaaaa").
pub fn read_tokenizer(path: &Path, vocabulary: usize) -> Result<Tokenizer> {
    let bytes = read_small(path, LARGEST_TOKENIZER)?;
    let pieces = pieces(&bytes, vocabulary).map_err(|problem| Error::file(path, problem))?;
    let json = to_json(&pieces).map_err(|problem| Error::file(path, problem))?;
    Tokenizer::from_json(&json.to_string())
}

/// Scores and texts, by id.
fn pieces(bytes: &[u8], vocabulary: usize) -> std::result::Result<Vec<(f32, String)>, String> {
    let mut rest = bytes.get(4..).ok_or("is no llama2.c tokenizer: it is too short")?;
    // Not more than the file can hold, whatever the model says.
    let mut pieces = Vec::with_capacity(vocabulary.min(bytes.len() / 8));
    for id in 0..vocabulary {
        let short = || format!("ends at piece {id} of {vocabulary}");
        let (score, after) = rest.split_first_chunk::<4>().ok_or_else(short)?;
        let (length, after) = after.split_first_chunk::<4>().ok_or_else(short)?;
        let length = i32::from_le_bytes(*length);
        let Some(length) = usize::try_from(length).ok().filter(|&length| length <= LONGEST_PIECE) else {
            return Err(format!("has a piece {id} of {length} bytes, at most {LONGEST_PIECE} were expected"));
        };
        let text = after.get(..length).ok_or_else(short)?;
        let text = std::str::from_utf8(text).map_err(|_| format!("has a piece {id} that is not UTF-8"))?;
        let score = f32::from_le_bytes(*score);
        if score.is_nan() {
            return Err(format!("has a piece {id} whose score is not a number"));
        }
        pieces.push((score, text.to_owned()));
        rest = after.get(length..).ok_or_else(short)?;
    }
    match rest.len() {
        0 => Ok(pieces),
        more => Err(format!("goes on for {more} bytes after the {vocabulary} pieces of the model")),
    }
}

/// The piece that stands for a byte.
fn byte_piece(byte: usize) -> String {
    format!("<0x{byte:02X}>")
}

/// A `tokenizer.json` that encodes as llama2.c does: a space in front, characters, bytes for those that are unknown, merges.
fn to_json(pieces: &[(f32, String)]) -> std::result::Result<Value, String> {
    if pieces.len() <= FIRST_PIECE {
        return Err(format!("has {} pieces; more than the three special ones were expected", pieces.len()));
    }
    // Byte pieces come right after the special ones, all or none.
    let bytes = pieces[FIRST_PIECE].1 == byte_piece(0);
    let first_text = if bytes { FIRST_PIECE + 256 } else { FIRST_PIECE };
    for (byte, (_, text)) in pieces[FIRST_PIECE..].iter().take(first_text - FIRST_PIECE).enumerate() {
        if *text != byte_piece(byte) {
            return Err(format!("has {text:?} where the piece {} was expected", byte_piece(byte)));
        }
    }
    if pieces.len() < first_text {
        return Err(format!("has {} pieces, too few for 256 bytes", pieces.len()));
    }
    let name = |id: usize, text: &str| match id {
        UNKNOWN => "<unk>".to_owned(),
        START => "<s>".to_owned(),
        END => "</s>".to_owned(),
        _ => text.to_owned(),
    };
    let mut ids: HashMap<String, usize> = HashMap::new();
    for (id, (_, text)) in pieces.iter().enumerate() {
        let name = name(id, text);
        if name.is_empty() {
            return Err(format!("has an empty piece {id}"));
        }
        if let Some(other) = ids.insert(name, id) {
            return Err(format!("has the piece {text:?} twice, as {other} and as {id}"));
        }
    }
    let joined: Vec<Option<(f32, String)>> =
        pieces.iter().enumerate().map(|(id, piece)| (id >= first_text).then(|| piece.clone())).collect();
    let merges = sentencepiece::merges(&joined).into_iter().map(|(left, right)| json!([left, right]));
    let vocabulary: Map<String, Value> =
        pieces.iter().enumerate().map(|(id, (_, text))| (name(id, text), json!(id))).collect();
    let special = |id: usize| {
        json!({"id": id, "content": name(id, ""), "single_word": false, "lstrip": false, "rstrip": false,
               "normalized": false, "special": true})
    };
    Ok(json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": [special(UNKNOWN), special(START), special(END)],
        "normalizer": {"type": "Prepend", "prepend": " "},
        "pre_tokenizer": null,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [
                {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "<s>", "type_id": 1}}, {"Sequence": {"id": "B", "type_id": 1}},
            ],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [START], "tokens": ["<s>"]}},
        },
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ]},
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": "<unk>",
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": true,
            "byte_fallback": bytes,
            "ignore_merges": false,
            "vocab": vocabulary,
            "merges": merges.collect::<Vec<_>>(),
        },
    }))
}
