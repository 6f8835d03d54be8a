//! The vocabulary of a GGUF file as a `tokenizer.json`.
//!
//! Files hold pieces, scores or merges, and what each piece is for; how texts are cut into words is named, not described. Two kinds can be
//! converted: SentencePiece's byte-pair encoding (`llama`), where characters join by score and unknown ones become bytes, and byte-level
//! byte-pair encoding (`gpt2`), with merges in their order.

use super::file::GgufFile;
use crate::checkpoint::sentencepiece;
use crate::error::Result;
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// What a piece is for, as files number it.
const UNKNOWN: f64 = 2.0;
const CONTROL: f64 = 3.0;
const USER_DEFINED: f64 = 4.0;
const BYTE: f64 = 6.0;
/// A space in SentencePiece's pieces.
const SPACE: &str = "▁";

/// How byte-level models cut texts into words, by the names that files have for it: a pattern, none for GPT-2's own.
const CUTS: [(&[&str], Option<&str>); 3] = [
    (&["gpt-2", "default"], None),
    (
        &["llama-bpe", "llama3", "llama-v3"],
        Some(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ),
    ),
    (
        &["qwen2"],
        Some(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ),
    ),
];

/// A tokenizer in Hugging Face's files.
pub(super) struct Vocabulary {
    /// `tokenizer.json`.
    pub tokenizer: Value,
    /// `tokenizer_config.json`.
    pub settings: Map<String, Value>,
    /// The ids that begin and end texts, for `config.json` and `generation_config.json`.
    pub ids: Map<String, Value>,
}

/// The pieces of a file and what they are for.
struct Pieces<'a> {
    texts: &'a [String],
    kinds: &'a [f64],
}

impl Pieces<'_> {
    fn kind(&self, id: usize) -> f64 {
        self.kinds.get(id).copied().unwrap_or(1.0)
    }

    /// Pieces that are found in texts before anything else.
    fn added(&self) -> Vec<Value> {
        let is_space = |text: &str| text.trim_matches(' ').replace(SPACE, "").is_empty();
        let entry = |(id, text): (usize, &String)| {
            let kind = self.kind(id);
            let special = kind == CONTROL || kind == UNKNOWN;
            // Runs of spaces are ordinary pieces.
            let added = !text.is_empty() && (special || kind == USER_DEFINED && !is_space(text));
            added.then(|| {
                json!({"id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false,
                       "normalized": false, "special": special})
            })
        };
        self.texts.iter().enumerate().filter_map(entry).collect()
    }
}

/// The tokenizer of a file, for a model of so many tokens.
pub(super) fn read(file: &GgufFile, vocabulary: usize) -> Result<Vocabulary> {
    let Some(texts) = file.texts("tokenizer.ggml.tokens")? else {
        return Err(file.wrong("has no vocabulary, tokenizer.ggml.tokens"));
    };
    if texts.len() > vocabulary {
        let problem = format!("has {} pieces for a table of {vocabulary} embeddings", texts.len());
        return Err(file.wrong(problem));
    }
    let mut seen = HashSet::new();
    if let Some(twice) = texts.iter().find(|text| !seen.insert(text.as_str())) {
        return Err(file.wrong(format!("has the piece {twice:?} twice")));
    }
    let pieces = Pieces { texts, kinds: file.numbers("tokenizer.ggml.token_type")?.unwrap_or_default() };
    let kind = file.text("tokenizer.ggml.model")?.unwrap_or("none");
    let (mut tokenizer, begins) = match kind {
        "llama" => (sentence_pieces(file, &pieces)?, true),
        "gpt2" => (byte_pairs(file, &pieces)?, false),
        other => {
            let other: String = other.chars().take(40).collect();
            return Err(
                file.wrong(format!("has a tokenizer of type {other:?}; llama and gpt2 can be converted"))
            );
        }
    };
    let id = |role: &str| -> Result<Option<usize>> {
        let id = file.whole(&format!("tokenizer.ggml.{role}_token_id"))?;
        Ok(id.filter(|&id| id < texts.len()))
    };
    let (begin, end) = (id("bos")?, id("eos")?);
    let adds = |name: &str, usual: bool| -> Result<bool> {
        Ok(file.flag(&format!("tokenizer.ggml.add_{name}_token"))?.unwrap_or(usual))
    };
    let first = if adds("bos", begins)? { begin } else { None };
    let last = if adds("eos", false)? { end } else { None };
    tokenizer["post_processor"] = template(texts, first, last, kind == "gpt2");
    let mut settings = Map::new();
    settings.insert("tokenizer_class".to_owned(), json!("PreTrainedTokenizerFast"));
    for (role, id) in [
        ("bos_token", begin),
        ("eos_token", end),
        ("unk_token", id("unknown")?.or(id("unk")?)),
        ("pad_token", id("padding")?),
    ] {
        if let Some(id) = id {
            settings.insert(role.to_owned(), json!(texts[id]));
        }
    }
    if let Some(template) = file.text("tokenizer.chat_template")? {
        settings.insert("chat_template".to_owned(), json!(template));
    }
    let mut ids = Map::new();
    ids.extend(begin.map(|id| ("bos_token_id".to_owned(), json!(id))));
    let mut ends: Vec<usize> = end.into_iter().chain(id("eot")?).collect();
    ends.dedup();
    match ends[..] {
        [] => {}
        [one] => {
            ids.insert("eos_token_id".to_owned(), json!(one));
        }
        _ => {
            ids.insert("eos_token_id".to_owned(), json!(ends));
        }
    }
    Ok(Vocabulary { tokenizer, settings, ids })
}

/// Tokens around a text.
fn template(texts: &[String], first: Option<usize>, last: Option<usize>, byte_level: bool) -> Value {
    let offsets =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false});
    if first.is_none() && last.is_none() {
        return if byte_level { offsets } else { Value::Null };
    }
    let around = |name: &str, kind: u32| {
        let special = |id: usize| json!({"SpecialToken": {"id": texts[id], "type_id": kind}});
        let mut parts: Vec<Value> = first.map(special).into_iter().collect();
        parts.push(json!({"Sequence": {"id": name, "type_id": kind}}));
        parts.extend(last.map(special));
        parts
    };
    let token = |id: usize| (texts[id].clone(), json!({"id": texts[id], "ids": [id], "tokens": [texts[id]]}));
    let tokens: Map<String, Value> = first.into_iter().chain(last).map(token).collect();
    let pair = [around("A", 0), around("B", 1)].concat();
    let processor = json!({
        "type": "TemplateProcessing",
        "single": around("A", 0),
        "pair": pair,
        "special_tokens": tokens,
    });
    if byte_level { json!({"type": "Sequence", "processors": [offsets, processor]}) } else { processor }
}

/// What both kinds share.
fn model(vocabulary: &Map<String, Value>, merges: &[Value]) -> Value {
    json!({
        "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
        "fuse_unk": false, "byte_fallback": false, "ignore_merges": false, "vocab": vocabulary, "merges": merges,
    })
}

/// Pieces with scores.
fn sentence_pieces(file: &GgufFile, pieces: &Pieces) -> Result<Value> {
    let Some(scores) = file.numbers("tokenizer.ggml.scores")? else {
        return Err(file.wrong("has no tokenizer.ggml.scores"));
    };
    if scores.len() != pieces.texts.len() || scores.iter().any(|score| score.is_nan()) {
        return Err(file.wrong("has scores that do not belong to its pieces"));
    }
    // Runs of spaces may be written with either kind of space.
    let name = |text: &str| text.replace(' ', SPACE);
    let mut vocabulary = Map::new();
    for (id, text) in pieces.texts.iter().enumerate() {
        let spaces = pieces.kind(id) == USER_DEFINED && text.trim_matches(' ').is_empty();
        let text = if spaces { name(text) } else { text.clone() };
        let text = if text.is_empty() { format!("<unused {id}>") } else { text };
        if vocabulary.insert(text.clone(), json!(id)).is_some() {
            return Err(file.wrong(format!("has the piece {text:?} twice")));
        }
    }
    // Only ordinary pieces join and are joined.
    let mut joined = vec![None; pieces.texts.len()];
    for (text, id) in &vocabulary {
        let id = id.as_u64().unwrap_or(0) as usize;
        let kind = pieces.kind(id);
        let ordinary = ![UNKNOWN, CONTROL, BYTE].contains(&kind)
            && (kind != USER_DEFINED || text.replace(SPACE, "").is_empty());
        joined[id] = ordinary.then(|| (scores[id] as f32, text.clone()));
    }
    let merges = sentencepiece::merges(&joined)
        .into_iter()
        .map(|(left, right)| json!([left, right]))
        .collect::<Vec<_>>();
    let bytes = pieces.texts.iter().enumerate().any(|(id, _)| pieces.kind(id) == BYTE);
    let unknown = (0..pieces.texts.len()).find(|&id| pieces.kind(id) == UNKNOWN).map(|id| &pieces.texts[id]);
    let mut model = model(&vocabulary, &merges);
    model["unk_token"] = json!(unknown);
    model["fuse_unk"] = json!(true);
    model["byte_fallback"] = json!(bytes);
    let prefix = file.flag("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
    let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": SPACE});
    let prepend = json!({"type": "Prepend", "prepend": SPACE});
    let normalizers = if prefix { vec![prepend, replace] } else { vec![replace] };
    let mut decoders = vec![
        json!({"type": "Replace", "pattern": {"String": SPACE}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if prefix {
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    Ok(json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": pieces.added(),
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": null, "post_processor": null,
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": model,
    }))
}

/// Pieces of bytes, each written as a printable character, and their merges.
fn byte_pairs(file: &GgufFile, pieces: &Pieces) -> Result<Value> {
    let Some(merges) = file.texts("tokenizer.ggml.merges")? else {
        return Err(file.wrong("has no tokenizer.ggml.merges"));
    };
    let cut = file.text("tokenizer.ggml.pre")?.unwrap_or("default");
    let Some((names, pattern)) = CUTS.iter().find(|(names, _)| names.contains(&cut)) else {
        let cut: String = cut.chars().take(40).collect();
        let known: Vec<&str> = CUTS.iter().flat_map(|(names, _)| names.iter().copied()).collect();
        let known = known.join(", ");
        return Err(file.wrong(format!("cuts texts into words as {cut:?} does; {known} can be converted")));
    };
    let name =
        |(id, text): (usize, &String)| if text.is_empty() { format!("<unused {id}>") } else { text.clone() };
    let vocabulary: Map<String, Value> =
        pieces.texts.iter().enumerate().map(|(id, text)| (name((id, text)), json!(id))).collect();
    let pairs = merges.iter().map(|merge| match merge.split_once(' ') {
        Some((left, right)) if !left.is_empty() && !right.is_empty() => Ok(json!([left, right])),
        _ => Err(file.wrong(format!("has a merge {merge:?} that is not a pair"))),
    });
    let mut model = model(&vocabulary, &pairs.collect::<Result<Vec<_>>>()?);
    // Llama 3 takes a word that is a piece whole, even if no merges lead to it.
    model["ignore_merges"] = json!(names.contains(&"llama-bpe"));
    let bytes = |own: bool| json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": own});
    let pre_tokenizer = match pattern {
        None => bytes(true),
        Some(pattern) => json!({"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false},
            bytes(false),
        ]}),
    };
    let normalizer = if cut == "qwen2" { json!({"type": "NFC"}) } else { Value::Null };
    Ok(json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": pieces.added(),
        "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": model,
    }))
}
