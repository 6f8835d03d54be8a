//! Tensors of a GGUF file under their names and in their order at Hugging Face.

use super::blocks::BlockType;
use super::config::architecture;
use super::file::{GgufFile, TensorEntry};
use crate::data::file::write_whole;
use crate::error::Result;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Names outside of layers.
const OUTSIDE: [(&str, &str); 3] =
    [("token_embd", "model.embed_tokens"), ("output_norm", "model.norm"), ("output", "lm_head")];

/// Names within a layer.
const INSIDE: [(&str, &str); 11] = [
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
];

/// Those of models with norms on both sides of each sublayer.
const SANDWICH: [(&str, &str); 3] = [
    ("post_attention_norm", "post_attention_layernorm"),
    ("ffn_norm", "pre_feedforward_layernorm"),
    ("post_ffw_norm", "post_feedforward_layernorm"),
];

/// What a tensor is called at Hugging Face; none if it is not part of a model there.
fn their_name(name: &str, sandwich: bool) -> Option<String> {
    let (stem, kind) = name.rsplit_once('.')?;
    if !["weight", "bias"].contains(&kind) {
        return None;
    }
    let Some((layer, stem)) = stem.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) else {
        let (_, theirs) = OUTSIDE.iter().find(|(ours, _)| *ours == stem)?;
        return Some(format!("{theirs}.{kind}"));
    };
    let layer: usize = layer.parse().ok()?;
    let own: &[(&str, &str)] = if sandwich { &SANDWICH } else { &[] };
    let (_, theirs) = own.iter().chain(&INSIDE).find(|(ours, _)| *ours == stem)?;
    Some(format!("model.layers.{layer}.{theirs}.{kind}"))
}

/// The types that weights can be written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeightType {
    /// 32 bits: exact for everything.
    F32,
    /// The upper 16 bits of an f32, rounded to the nearest.
    Bf16,
}

/// A tensor on its way into a `safetensors` file.
struct Outgoing<'a> {
    entry: &'a TensorEntry,
    /// The type in the new file.
    kind: &'static str,
    /// If rotary pairs lie side by side: the rows of a head.
    paired: Option<usize>,
    /// Whether it is stored as its distance from 0, and is to be read as that from 1.
    around_one: bool,
}

impl Outgoing<'_> {
    fn bytes(&self) -> usize {
        self.entry.shape.iter().product::<usize>() * if self.kind == "F32" { 4 } else { 2 }
    }

    /// The row of the file that becomes a row here: the first members of all pairs come before the second ones.
    fn source(&self, row: usize) -> usize {
        let Some(head) = self.paired else { return row };
        let (start, within) = (row - row % head, row % head);
        start + within % (head / 2) * 2 + within / (head / 2)
    }

    /// Writes the rows one by one.
    fn write(&self, file: &GgufFile, out: &mut impl Write) -> std::io::Result<()> {
        let bytes = file.bytes(self.entry);
        let columns = match self.entry.shape[..] {
            // A bias has one value for each row of its weight.
            [_] if self.paired.is_some() => 1,
            [.., columns] => columns,
            [] => 1,
        };
        let stride = self.entry.block.row_bytes(columns).unwrap_or(0).max(1);
        let mut values = Vec::with_capacity(columns);
        for row in 0..bytes.len() / stride {
            let start = self.source(row) * stride;
            let source = bytes.get(start..start + stride).unwrap_or_default();
            if self.kept() {
                out.write_all(source)?;
                continue;
            }
            values.clear();
            self.entry.block.widen(source, &mut values);
            if self.around_one {
                for value in &mut values {
                    *value -= 1.0;
                }
            }
            match self.kind {
                "F32" => values.iter().try_for_each(|value| out.write_all(&value.to_le_bytes()))?,
                _ => values.iter().try_for_each(|value| out.write_all(&to_bf16(*value).to_le_bytes()))?,
            }
        }
        Ok(())
    }

    /// Whether the bytes stay as they are.
    fn kept(&self) -> bool {
        let same = matches!(
            (self.entry.block, self.kind),
            (BlockType::F32, "F32") | (BlockType::F16, "F16") | (BlockType::Bf16, "BF16")
        );
        same && !self.around_one
    }
}

/// The upper half, rounded to the nearest, ties to even.
fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 64;
    }
    ((u64::from(bits) + 0x7fff + u64::from(bits >> 16 & 1)) >> 16) as u16
}

/// What became of the weights.
#[derive(Debug, Default)]
pub struct WrittenTypes {
    /// How many tensors the file has of each of its types.
    pub found: BTreeMap<String, usize>,
    /// Whether some were quantised.
    pub quantised: bool,
    /// What most of the new file's values are stored as, in the words of a `config.json`.
    pub main: &'static str,
    /// The bytes of the new file's tensors.
    pub bytes: u64,
}

/// The tensors of a file in their new form, checked but not yet written.
pub(super) struct Plan<'a> {
    file: &'a GgufFile,
    tensors: BTreeMap<String, Outgoing<'a>>,
    types: WrittenTypes,
}

/// Finds the new name, type and order of every tensor; heads are `head` wide.
pub(super) fn plan(file: &GgufFile, quantised: WeightType, head: usize) -> Result<Plan<'_>> {
    let kind = architecture(file)?;
    let gemma = kind.starts_with("gemma");
    let sandwich = ["gemma2", "gemma3"].contains(&kind);
    let widened = if quantised == WeightType::F32 { "F32" } else { "BF16" };
    let mut tensors: BTreeMap<String, Outgoing> = BTreeMap::new();
    let mut types = WrittenTypes::default();
    for (name, entry) in file.tensors() {
        // Frequencies are in the configuration.
        if name == "rope_freqs.weight" {
            continue;
        }
        let Some(theirs) = their_name(name, sandwich) else {
            return Err(file.wrong(format!("has a tensor {name:?}, which has no place in a {kind} model")));
        };
        let rotated = [".attn_q.", ".attn_k."].iter().any(|part| name.contains(part));
        let paired = (kind == "llama" && rotated).then_some(head);
        if paired
            .is_some_and(|head| head == 0 || !head.is_multiple_of(2) || !entry.shape[0].is_multiple_of(head))
        {
            return Err(file.wrong(format!("has {name:?} with {} rows for heads of {head}", entry.shape[0])));
        }
        if entry.shape.len() == 1 && entry.block.is_quantised() {
            return Err(
                file.wrong(format!("has {name:?} as {}, though it is a single row", entry.block.name()))
            );
        }
        let around_one = gemma && name.ends_with("norm.weight");
        let kind = match entry.block {
            _ if around_one => "F32",
            BlockType::F32 => "F32",
            BlockType::F16 => "F16",
            BlockType::Bf16 => "BF16",
            _ => widened,
        };
        types.quantised |= entry.block.is_quantised();
        *types.found.entry(entry.block.name().to_owned()).or_default() += 1;
        if tensors.insert(theirs, Outgoing { entry, kind, paired, around_one }).is_some() {
            return Err(file.wrong(format!("has the tensor {name:?} under another name as well")));
        }
    }
    types.main = main_type(&tensors);
    types.bytes = tensors.values().map(|tensor| tensor.bytes() as u64).sum();
    Ok(Plan { file, tensors, types })
}

impl Plan<'_> {
    /// Writes a `safetensors` file.
    pub fn write(self, path: &Path) -> Result<WrittenTypes> {
        // The widest numbers first, so that all are aligned.
        let mut order: Vec<(&String, &Outgoing)> = self.tensors.iter().collect();
        order.sort_by_key(|(name, tensor)| (tensor.kind != "F32", *name));
        let mut header = Map::new();
        header.insert("__metadata__".to_owned(), json!({"format": "pt"}));
        let mut end = 0;
        for (name, tensor) in &order {
            let start = end;
            end += tensor.bytes();
            let entry =
                json!({"dtype": tensor.kind, "shape": tensor.entry.shape, "data_offsets": [start, end]});
            header.insert((*name).clone(), entry);
        }
        let mut header = Value::Object(header).to_string();
        header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
        write_whole(path, |out| {
            let mut out = BufWriter::with_capacity(1 << 20, out);
            out.write_all(&(header.len() as u64).to_le_bytes())?;
            out.write_all(header.as_bytes())?;
            order.iter().try_for_each(|(_, tensor)| tensor.write(self.file, &mut out))?;
            out.flush()
        })?;
        Ok(self.types)
    }
}

/// The type of most values.
fn main_type(outgoing: &BTreeMap<String, Outgoing>) -> &'static str {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for tensor in outgoing.values() {
        *counts.entry(tensor.kind).or_default() += tensor.bytes();
    }
    match counts.into_iter().max_by_key(|(_, bytes)| *bytes) {
        Some(("F16", _)) => "float16",
        Some(("BF16", _)) => "bfloat16",
        _ => "float32",
    }
}
