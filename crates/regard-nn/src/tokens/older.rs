//! File formats older than `tokenizer.json`: GPT-2's vocabulary with merges, and BERT's `vocab.txt`.

use super::files::{MAXIMUM_VOCABULARY_ID, TOKENIZER_FILE_LIMIT, TokenizerFolderSettings};
use super::recipe::{self, TokenizerRecipe};
use crate::data::file;
use crate::error::{Error, Result};
use serde_json::{Map, Value, json};
use std::path::Path;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

/// Names of a vocabulary and its merges.
const PAIRS: [(&str, &str); 2] = [("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe")];

/// Special tokens of byte-level vocabularies.
const BYTE_LEVEL: [&str; 6] = ["<|endoftext|>", "<s>", "<pad>", "</s>", "<unk>", "<mask>"];

/// Special tokens of BERT's vocabularies.
const BERT: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];

pub(super) fn read(folder: &Path, settings: &TokenizerFolderSettings) -> Result<TokenizerRecipe> {
    for (vocabulary, merges) in PAIRS {
        let (vocabulary, merges) = (folder.join(vocabulary), folder.join(merges));
        if vocabulary.is_file() && merges.is_file() {
            return byte_pairs(&vocabulary, &merges, settings);
        }
    }
    let list = folder.join("vocab.txt");
    if list.is_file() {
        return word_pieces(&list, settings);
    }
    let mut problem =
        "no tokenizer here: expected tokenizer.json, vocab.json with merges.txt, encoder.json with \
                       vocab.bpe, or vocab.txt"
            .to_owned();
    for name in ["spiece.model", "tokenizer.model", "sentencepiece.bpe.model"] {
        if folder.join(name).is_file() {
            problem =
                format!("{problem}; {name} has SentencePiece's own format: convert it to tokenizer.json");
        }
    }
    Err(Error::file(folder, problem))
}

fn byte_pairs(
    vocabulary_path: &Path,
    merges_path: &Path,
    settings: &TokenizerFolderSettings,
) -> Result<TokenizerRecipe> {
    let text = file::read_text(vocabulary_path, TOKENIZER_FILE_LIMIT)?;
    let vocabulary: Map<String, Value> = serde_json::from_str(&text)
        .map_err(|problem| Error::file(vocabulary_path, format!("not a vocabulary: {problem}")))?;
    if let Some(byte) =
        ByteLevel::alphabet().into_iter().filter(|c| !vocabulary.contains_key(&c.to_string())).min()
    {
        let problem = format!("not a byte-level vocabulary: it has no token {byte:?}");
        return Err(Error::file(vocabulary_path, problem));
    }
    if vocabulary.keys().any(|piece| piece.ends_with("</w>")) {
        let problem =
            "its tokens end with </w>: only byte-level BPE as in GPT-2 can be read from this format";
        return Err(Error::file(vocabulary_path, problem));
    }
    let id =
        |piece: &str| vocabulary.get(piece).and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
    let special: Vec<(String, u32)> = BYTE_LEVEL
        .into_iter()
        .chain(settings.roles.values().map(String::as_str))
        .filter_map(|piece| Some((piece.to_owned(), id(piece)?)))
        .collect();
    let spaced = settings.flags.get("add_prefix_space").copied().unwrap_or(false);
    let mut bytes = recipe::byte_level();
    bytes["add_prefix_space"] = json!(spaced);
    let post_processor = match (id("<s>"), id("</s>"), id("<mask>")) {
        // Three tokens that only RoBERTa and related models have together.
        (Some(bos), Some(eos), Some(_)) => json!({
            "type": "RobertaProcessing", "sep": ["</s>", eos], "cls": ["<s>", bos],
            "trim_offsets": true, "add_prefix_space": spaced,
        }),
        _ => recipe::byte_level(),
    };
    let model = json!({
        "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
        "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
        "vocab": vocabulary, "merges": merges(merges_path)?,
    });
    Ok(TokenizerRecipe {
        pre_tokenizer: bytes,
        model,
        post_processor,
        decoder: recipe::byte_level(),
        special,
        ..TokenizerRecipe::default()
    })
}

/// The pairs of a `merges.txt`, in order of priority.
fn merges(path: &Path) -> Result<Vec<[String; 2]>> {
    let mut lines = file::Lines::open_limited(path, TOKENIZER_FILE_LIMIT)?;
    let mut merges = Vec::new();
    while let Some(line) = lines.next()? {
        if line.is_empty() || (merges.is_empty() && line.starts_with("#version")) {
            continue;
        }
        match line.split_once(' ') {
            Some((left, right)) if !left.is_empty() && !right.is_empty() && !right.contains(' ') => {
                merges.push([left.to_owned(), right.to_owned()]);
            }
            _ => {
                let problem = format!("expected two tokens separated by a space, got {line:?}");
                return Err(Error::line(path, lines.number(), problem));
            }
        }
    }
    Ok(merges)
}

fn word_pieces(path: &Path, settings: &TokenizerFolderSettings) -> Result<TokenizerRecipe> {
    let mut lines = file::Lines::open_limited(path, TOKENIZER_FILE_LIMIT)?;
    let mut vocabulary = Map::new();
    let mut count = 0_u32;
    while let Some(line) = lines.next()? {
        if count > MAXIMUM_VOCABULARY_ID {
            return Err(Error::file(path, format!("more than {MAXIMUM_VOCABULARY_ID} tokens")));
        }
        // A duplicate token has its last id, as in Hugging Face's reader.
        vocabulary.insert(line.to_owned(), json!(count));
        count += 1;
    }
    let id =
        |piece: &str| vocabulary.get(piece).and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
    let special: Vec<(String, u32)> =
        BERT.into_iter().filter_map(|piece| Some((piece.to_owned(), id(piece)?))).collect();
    let (Some(_), Some(cls), Some(sep)) = (id("[UNK]"), id("[CLS]"), id("[SEP]")) else {
        return Err(Error::file(
            path,
            "not a BERT vocabulary: [UNK], [CLS] and [SEP] are required, one token per line",
        ));
    };
    let capitals =
        || vocabulary.keys().any(|p| !p.starts_with('[') && p.chars().any(|c| c.is_ascii_uppercase()));
    let flag = |name: &str| settings.flags.get(name).copied();
    let lowercase = flag("do_lower_case").unwrap_or_else(|| !capitals());
    let chinese = flag("tokenize_chinese_chars").unwrap_or(true);
    Ok(TokenizerRecipe {
        normalizer: recipe::bert_normalizer(lowercase, flag("strip_accents"), chinese),
        pre_tokenizer: json!({ "type": "BertPreTokenizer" }),
        model: recipe::word_piece(vocabulary),
        post_processor: recipe::bert_frame(cls, sep),
        decoder: json!({ "type": "WordPiece", "prefix": "##", "cleanup": true }),
        special,
        ..TokenizerRecipe::default()
    })
}
