//! Activation caches: what a model computes at chosen sites over many texts, in files that other tools read.
//!
//! A cache is a folder. `index.json` names its settings, its sites and its shards; each shard is a `safetensors` file of whole texts:
//!
//! | tensor | shape | what it is |
//! |---|---|---|
//! | `texts` | (texts) | the number of each text in the corpus, from 0 |
//! | `token_offsets` | (texts + 1) | where each text's tokens begin, and where the last one ends |
//! | `ids` | (tokens) | the token ids of all texts, one after the other |
//! | a site with a value for each token | (tokens, …) | such as `layers.0.residual.after` (tokens, width) |
//! | a site with a value for each pair of tokens | (heads, pairs) | such as `layers.0.self.weights`; of text i: `[:, pair_offsets[i]:pair_offsets[i + 1]]`, reshaped to (heads, queries, keys) |
//! | `pair_offsets` | (texts + 1) | where each text's pairs begin |
//! | a site with a value for each text | (texts, …) | such as the `logits` of a classifier |
//!
//! A shard is written whole, and the index after it: whatever is killed goes on with the first text that no shard has.

use crate::model;
use crate::trace_file::{self, StoredTensor};
use anyhow::{Context as _, Result, bail};
use regard_nn::data::file::write_whole;
use regard_nn::tensor::{Ids, Tensor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// What the index calls its format.
const FORMAT: &str = "regard activations 1";
/// The index of a cache.
const INDEX: &str = "index.json";
/// No index is larger than this, in bytes.
const LARGEST_INDEX: u64 = 256 << 20;

/// What a site has a value for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Per {
    /// Each token.
    Token,
    /// Each pair of tokens, in each head.
    Pair,
    /// Each text.
    Text,
}

impl Per {
    /// What a value of a batch has, by its site and shape: (texts, heads, queries, keys), (texts, tokens, …) or (texts, …).
    pub fn of(site: &str, shape: &[usize], tokens: usize) -> Option<Self> {
        let pairs = ["weights", "scores"].iter().any(|end| site.rsplit('.').next() == Some(end));
        match shape {
            [_, _, queries, keys] if pairs && *queries == tokens && *keys == tokens => Some(Self::Pair),
            _ if pairs && shape.len() > 2 => None,
            [_, time, ..] if shape.len() > 2 && *time == tokens => Some(Self::Token),
            // The weights of a pooling are those of its tokens.
            [_, time] if pairs && *time == tokens => Some(Self::Token),
            [_, _] | [_] => Some(Self::Text),
            _ => None,
        }
    }
}

/// The value of one text at a site, without padding.
#[derive(Debug, Clone)]
pub struct SiteValue {
    /// What it has a value for.
    pub per: Per,
    /// The lengths of one of these values: (heads) for pairs.
    pub shape: Vec<usize>,
    /// All values.
    pub values: Vec<f32>,
}

impl SiteValue {
    /// The part of a batch's value that belongs to one of its texts, which has so many tokens.
    pub fn of(site: &str, value: &Tensor, text: usize, (length, padded): (usize, usize)) -> Result<Self> {
        let shape = value.shape();
        let Some(per) = Per::of(site, shape, padded) else {
            bail!("{site} has the shape {shape}, which a cache of texts cannot hold");
        };
        let (texts, all) = (shape[0].max(1), value.values());
        let size = all.len() / texts;
        let own = &all[text * size..(text + 1) * size];
        Ok(match per {
            Per::Text => Self { per, shape: shape[1..].to_vec(), values: own.to_vec() },
            Per::Token => {
                let width = size / padded.max(1);
                Self { per, shape: shape[2..].to_vec(), values: own[..length * width].to_vec() }
            }
            Per::Pair => {
                let rows = own.chunks_exact(padded.max(1)).enumerate();
                let real = rows.filter(|(row, _)| row % padded < length);
                let values = real.flat_map(|(_, row)| row[..length].iter().copied()).collect();
                Self { per, shape: vec![shape[1]], values }
            }
        })
    }
}

/// A shard, as the index lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shard {
    file: String,
    /// The first text that it may have, and the first that it no more has.
    from_text: u64,
    to_text: u64,
    texts: u64,
    tokens: u64,
    bytes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Index {
    format: String,
    complete: bool,
    settings: Map<String, Value>,
    total_size: u64,
    texts: u64,
    tokens: u64,
    /// The sites: what they have values for, and the shape of one of these.
    sites: BTreeMap<String, Value>,
    /// The files that hold a site, as the index of a model's shards has it.
    weight_map: BTreeMap<String, Vec<String>>,
    shards: Vec<Shard>,
}

/// A cache that is being written.
pub struct ActivationCache {
    folder: PathBuf,
    index: Index,
    shard_bytes: usize,
    pending: Pending,
}

/// Texts that are not in a shard yet.
#[derive(Default)]
struct Pending {
    numbers: Vec<u32>,
    ids: Vec<u32>,
    lengths: Vec<usize>,
    sites: BTreeMap<String, Vec<SiteValue>>,
    bytes: usize,
}

impl ActivationCache {
    /// A new cache in a folder, or the one that is there if it was begun with the same settings.
    pub fn open(folder: &Path, settings: Map<String, Value>, shard_bytes: usize) -> Result<Self> {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let path = folder.join(INDEX);
        let found = model::settings_up_to(&path, LARGEST_INDEX)?;
        let index = if found.is_null() {
            Index {
                format: FORMAT.to_owned(),
                complete: false,
                settings,
                total_size: 0,
                texts: 0,
                tokens: 0,
                sites: BTreeMap::new(),
                weight_map: BTreeMap::new(),
                shards: Vec::new(),
            }
        } else {
            let index: Index = serde_json::from_value(found)
                .with_context(|| format!("{} is not the index of a cache", path.display()))?;
            if index.format != FORMAT || index.settings != settings {
                bail!(
                    "{} holds a cache of other texts, sites or settings: choose another --out, or remove it",
                    folder.display()
                );
            }
            index
        };
        let missing = index.shards.iter().find(|shard| !folder.join(&shard.file).is_file());
        if let Some(shard) = missing {
            bail!("{} lacks its shard {}: remove the folder to begin again", folder.display(), shard.file);
        }
        Ok(Self { folder: folder.to_owned(), index, shard_bytes, pending: Pending::default() })
    }

    /// The first text that no shard has.
    pub fn next_text(&self) -> u64 {
        self.index.shards.last().map_or(0, |shard| shard.to_text)
    }

    /// Whether nothing is left to add.
    pub fn is_complete(&self) -> bool {
        self.index.complete
    }

    /// Texts, tokens and bytes so far.
    pub fn size(&self) -> (u64, u64, u64) {
        (self.index.texts, self.index.tokens, self.index.total_size)
    }

    /// Adds a text: its number in the corpus, its ids and its values. It is in memory until [`flush`](Self::flush).
    pub fn add(&mut self, number: u32, ids: &[u32], sites: BTreeMap<String, SiteValue>) {
        let values: usize = sites.values().map(|site| site.values.len()).sum();
        self.pending.bytes += 4 * values + 8 * ids.len() + 24;
        self.pending.numbers.push(number);
        self.pending.ids.extend_from_slice(ids);
        self.pending.lengths.push(ids.len());
        for (site, value) in sites {
            self.pending.sites.entry(site).or_default().push(value);
        }
    }

    /// Whether enough was added for a shard.
    pub fn is_full(&self) -> bool {
        self.pending.bytes >= self.shard_bytes
    }

    /// Writes what was added as a shard, and the index. `to_text` is the first text that was not read yet, `complete` says that there is
    /// none.
    pub fn flush(&mut self, to_text: u64, complete: bool) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        if !pending.numbers.is_empty() {
            let file = format!("activations-{:05}.safetensors", self.index.shards.len());
            let shard = Shard {
                from_text: self.next_text(),
                to_text,
                texts: pending.numbers.len() as u64,
                tokens: pending.ids.len() as u64,
                bytes: pending.bytes as u64,
                file: file.clone(),
            };
            let tensors = self.tensors(&pending)?;
            let notes = BTreeMap::from([
                ("format".to_owned(), FORMAT.to_owned()),
                ("settings".to_owned(), Value::Object(self.index.settings.clone()).to_string()),
            ]);
            trace_file::write(&self.folder.join(&file), &tensors, &notes)?;
            for site in pending.sites.keys() {
                self.index.weight_map.entry(site.clone()).or_default().push(file.clone());
            }
            self.index.texts += shard.texts;
            self.index.tokens += shard.tokens;
            self.index.total_size += shard.bytes;
            self.index.shards.push(shard);
        }
        self.index.complete = complete;
        let text = format!("{}\n", serde_json::to_string_pretty(&self.index)?);
        write_whole(&self.folder.join(INDEX), |out| out.write_all(text.as_bytes()))?;
        Ok(())
    }

    /// The tensors of a shard. The sites and their shapes are the same in all shards.
    fn tensors(&mut self, pending: &Pending) -> Result<BTreeMap<String, StoredTensor>> {
        let integers = |values: Vec<u32>| -> Result<StoredTensor> {
            let count = values.len();
            Ok(StoredTensor::Integers(Ids::new(&values, [count])?))
        };
        let offsets = |length: &dyn Fn(usize) -> usize| -> Result<StoredTensor> {
            let mut all = vec![0_u32];
            for &tokens in &pending.lengths {
                let end = all.last().copied().unwrap_or(0) as usize + length(tokens);
                all.push(
                    u32::try_from(end)
                        .context("a shard has too many values: choose a smaller --shard-size")?,
                );
            }
            integers(all)
        };
        let mut tensors = BTreeMap::from([
            ("texts".to_owned(), integers(pending.numbers.clone())?),
            ("ids".to_owned(), integers(pending.ids.clone())?),
            ("token_offsets".to_owned(), offsets(&|tokens| tokens)?),
        ]);
        for (site, values) in &pending.sites {
            let first = &values[0];
            let described = json!({"per": first.per, "shape": first.shape});
            let known = self.index.sites.entry(site.clone()).or_insert_with(|| described.clone());
            if *known != described || values.len() != pending.numbers.len() {
                bail!("{site} differs between texts");
            }
            if first.per == Per::Pair {
                tensors.insert("pair_offsets".to_owned(), offsets(&|tokens| tokens * tokens)?);
            }
            tensors.insert(site.clone(), StoredTensor::Floats(joined(values)?));
        }
        Ok(tensors)
    }
}

/// The values of all texts as one tensor.
fn joined(values: &[SiteValue]) -> Result<Tensor> {
    let first = &values[0];
    let total: usize = values.iter().map(|value| value.values.len()).sum();
    let size: usize = first.shape.iter().product::<usize>().max(1);
    let mut all = Vec::with_capacity(total);
    if first.per == Per::Pair {
        for head in 0..size {
            for value in values {
                let pairs = value.values.len() / size;
                all.extend_from_slice(&value.values[head * pairs..(head + 1) * pairs]);
            }
        }
        return Ok(Tensor::new(&all, [size, total / size])?);
    }
    for value in values {
        all.extend_from_slice(&value.values);
    }
    let shape: Vec<usize> = [total / size].into_iter().chain(first.shape.iter().copied()).collect();
    Ok(Tensor::new(&all, shape)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_text_are_cut_from_a_padded_batch() {
        // Two texts of 3 and 2 tokens, padded to 3; width 2.
        let tokens = Tensor::new(&(0..12).map(|i| i as f32).collect::<Vec<_>>(), [2, 3, 2]).unwrap();
        let value = SiteValue::of("layers.0.residual.after", &tokens, 1, (2, 3)).unwrap();
        assert_eq!(
            (value.per, &value.shape[..], &value.values[..]),
            (Per::Token, &[2][..], &[6., 7., 8., 9.][..])
        );
        // One head of 3 × 3.
        let pairs = Tensor::new(&(0..18).map(|i| i as f32).collect::<Vec<_>>(), [2, 1, 3, 3]).unwrap();
        let value = SiteValue::of("layers.0.self.weights", &pairs, 1, (2, 3)).unwrap();
        assert_eq!((value.per, &value.values[..]), (Per::Pair, &[9., 10., 12., 13.][..]));
        let classes = Tensor::new(&[1., 2., 3., 4.], [2, 2]).unwrap();
        let value = SiteValue::of("logits", &classes, 1, (2, 3)).unwrap();
        assert_eq!((value.per, &value.values[..]), (Per::Text, &[3., 4.][..]));
        let cross = Tensor::zeros([2, 1, 3, 4]);
        assert!(SiteValue::of("layers.0.cross.weights", &cross, 0, (3, 3)).is_err());
    }

    #[test]
    fn heads_of_several_texts_lie_side_by_side() {
        let pair = |values: &[f32]| SiteValue { per: Per::Pair, shape: vec![2], values: values.to_vec() };
        let all = joined(&[pair(&[1., 2.]), pair(&[3., 4., 5., 6., 7., 8., 9., 10.])]).unwrap();
        assert_eq!(all.shape()[..], [2, 5]);
        assert_eq!(all.to_vec(), [1., 3., 4., 5., 6., 2., 7., 8., 9., 10.]);
    }
}
