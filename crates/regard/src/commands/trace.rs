//! `regard trace`: what happens inside a model, in a file; or, over many texts, in an activation cache.

mod corpus;

use crate::compute::Compute;
use crate::error::usage_error;
use crate::image::{self, Preprocessing};
use crate::input_tensors;
use crate::model::Opened;
use crate::terminal::line;
use crate::trace_file::{self, StoredTensor};
use anyhow::{Context as _, Result, bail};
use clap::{ArgGroup, Args};
use regard_nn::models::Inputs;
use regard_nn::tensor::{Ids, Tensor};
use regard_nn::tokens::{Encoding, Special};
use regard_nn::{Context, Probe};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Write what happens inside a model to a file that NumPy and PyTorch open.
///
/// The file is a .safetensors with one tensor a site, the batch of one in front: `logits`, `layers.0.self.weights`
/// (1, heads, queries, keys) and so on; `inputs/ids` has what was read, and the metadata `tokens` the tokens with their
/// text, as JSON (`start` and `end` are bytes of the text in UTF-8). In a pattern `*` stands for one part of a name.
///
/// With --corpus, --out is a folder: an activation cache of many texts, in .safetensors shards with an index.json that lists them.
/// Texts lie one after the other without padding; `token_offsets` has where each begins. The same command continues a cache that was
/// interrupted. docs/checkpoints.md shows how to read it.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  regard trace gpt2 --text \"The cat sat\" -o trace.safetensors\n  regard trace gpt2 --ids 464,3797 --site 'layers.*.residual.after' -o trace.safetensors\n  regard trace t5-small --text \"Good morning.\" --decoder-text Guten -o trace.safetensors\n  regard trace google/vit-base-patch16-224 --image cat.png -o trace.safetensors\n  regard trace gpt2 --list-sites\n  regard trace gpt2 --corpus wiki.txt --site 'layers.*.residual.after' -o activations"
)]
#[command(group(ArgGroup::new("input").args(["text", "ids", "image", "corpus", "list_sites"]).required(true)))]
#[command(group(ArgGroup::new("target").args(["decoder_text", "decoder_ids"])))]
pub struct Trace {
    /// A run or checkpoint folder, or a name in the Hugging Face cache
    model: String,
    /// A text to read
    #[arg(long)]
    text: Option<String>,
    /// Token ids to read
    #[arg(long, value_name = "1,2,3", value_delimiter = ',')]
    ids: Vec<u32>,
    /// A picture to read: a PNG or JPEG, or `pixels` in a .safetensors
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// The beginning of a T5 decoder's output, after its start token
    #[arg(long, value_name = "TEXT")]
    decoder_text: Option<String>,
    /// The decoder's ids, the start token included
    #[arg(long, value_name = "1,2,3", value_delimiter = ',')]
    decoder_ids: Vec<u32>,
    /// Many texts to read: a file with a text a line, a treebank, a table, IMDb's archive, or built-in
    #[arg(long, value_name = "FILE|built-in", conflicts_with = "target")]
    corpus: Option<String>,
    /// Print the sites of the model and stop
    #[arg(long)]
    list_sites: bool,
    /// A site or pattern, such as `layers.*.self.weights`; may be given more than once [default: logits and all weights; of a corpus
    /// `layers.*.residual.after`]
    #[arg(long, value_name = "SITE")]
    site: Vec<String>,
    /// The most texts of a corpus (0: all of a file)
    #[arg(long, value_name = "N", default_value_t = 0, requires = "corpus")]
    limit: usize,
    /// The most tokens of a text of a corpus; the rest is cut off [default: 128, or what the model can read]
    #[arg(long, value_name = "N", requires = "corpus", value_parser = clap::value_parser!(u32).range(1..))]
    length: Option<u32>,
    /// How many texts of a corpus are read at once
    #[arg(long, value_name = "N", default_value_t = 16, requires = "corpus", value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: u32,
    /// The size of a shard, in MB: so much is held in memory
    #[arg(long, value_name = "MB", default_value_t = 256, requires = "corpus", value_parser = clap::value_parser!(u32).range(1..=4000))]
    shard_size: u32,
    /// Where to write: a file, or with --corpus a folder
    #[arg(long, short, value_name = "FILE|DIR", required_unless_present = "list_sites")]
    out: Option<PathBuf>,
    #[command(flatten)]
    compute: Compute,
}

/// Everything that is recorded unless sites are named. Which of them there are depends on the model.
const DEFAULT_SITES: [&str; 6] = [
    "logits",
    "layers.*.self.weights",
    "encoder.layers.*.self.weights",
    "decoder.layers.*.self.weights",
    "decoder.layers.*.cross.weights",
    "pool.weights",
];

/// The number of names that are suggested for an unknown one.
const NEAR: usize = 5;

impl Trace {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        let opened = self.compute.open(&self.model)?;
        if self.list_sites {
            return list_sites(&opened);
        }
        if let Some(corpus) = &self.corpus {
            return self.cache(&opened, corpus);
        }
        let mut notes = BTreeMap::from([
            ("model".to_owned(), self.model.clone()),
            ("kind".to_owned(), opened.model.kind().to_owned()),
            ("regard".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ]);
        let inputs = self.inputs(&opened, &mut notes)?;
        let sites: Vec<&str> = match self.site.is_empty() {
            true => DEFAULT_SITES.to_vec(),
            false => self.site.iter().map(String::as_str).collect(),
        };
        let probe = sites.iter().fold(Probe::new(), |probe, &site| probe.record(site));
        input_tensors::run(&*opened.model, &inputs, &Context::inference().with_probe(&probe))?;
        if !self.site.is_empty() {
            ensure_matched(&probe)?;
        }
        let mut tensors = input_tensors::to_tensors(&inputs);
        for site in probe.recorded() {
            if let Some(value) = probe.get(&site)? {
                tensors.insert(site, StoredTensor::Floats(value));
            }
        }
        trace_file::write(self.out()?, &tensors, &notes)
    }

    fn out(&self) -> Result<&Path> {
        self.out.as_deref().context("--out is missing")
    }

    fn inputs(&self, opened: &Opened, notes: &mut BTreeMap<String, String>) -> Result<Inputs> {
        let abilities = opened.model.abilities();
        if let Some(path) = &self.image {
            let Some(patches) = abilities.pictures() else {
                return Err(usage_error(format!("{} reads text, not images", self.model)));
            };
            let preprocessing = Preprocessing::of(&opened.folder)?;
            let pixels = image::read(path, &preprocessing, patches)?;
            return Ok(Inputs::pictures(&pixels));
        }
        if abilities.pictures().is_some() {
            return Err(usage_error(format!("{} reads images: give --image", self.model)));
        }
        let mut inputs = Inputs::default();
        let ids = if let Some(text) = &self.text {
            let encoding = opened.tokenizer()?.encode(text, Special::Keep)?;
            notes.insert("text".to_owned(), text.clone());
            notes.insert("tokens".to_owned(), spelt(&encoding, text));
            if abilities.types > 1 {
                inputs.types = Some(row(&encoding.types)?);
            }
            encoding.ids
        } else {
            notes.insert("tokens".to_owned(), named(opened, &self.ids)?);
            self.ids.clone()
        };
        if ids.is_empty() {
            return Err(usage_error("there is nothing to read: the text has no tokens"));
        }
        inputs.ids = Some(row(&ids)?);
        self.read_target(opened, notes, &mut inputs)?;
        Ok(inputs)
    }

    /// The decoder's input.
    fn read_target(
        &self,
        opened: &Opened,
        notes: &mut BTreeMap<String, String>,
        inputs: &mut Inputs,
    ) -> Result<()> {
        let Some(start) = opened.model.abilities().start else {
            if self.decoder_text.is_some() || !self.decoder_ids.is_empty() {
                return Err(usage_error(format!("{} has no decoder", self.model)));
            }
            return Ok(());
        };
        let mut ids = match self.decoder_ids.is_empty() {
            true => vec![start],
            false => self.decoder_ids.clone(),
        };
        if let Some(text) = &self.decoder_text {
            ids.extend(opened.tokenizer()?.encode(text, Special::Drop)?.ids);
            notes.insert("decoder_text".to_owned(), text.clone());
        }
        notes.insert("decoder_tokens".to_owned(), named(opened, &ids)?);
        inputs.answer = Some(row(&ids)?);
        Ok(())
    }
}

/// Prints the sites of a model, those of all layers in one line.
fn list_sites(opened: &Opened) -> Result<()> {
    let abilities = opened.model.abilities();
    let inputs = match abilities.pictures() {
        Some(patches) => {
            let [height, width] = patches.image;
            Inputs::pictures(&Tensor::zeros([1, patches.channels, height, width]))
        }
        None => {
            let ids = row(&[0, 0])?;
            let answer = abilities.start.map(|start| row(&[start])).transpose()?;
            Inputs { ids: Some(ids), answer, ..Inputs::default() }
        }
    };
    let probe = Probe::new();
    input_tensors::run(&*opened.model, &inputs, &Context::inference().with_probe(&probe))?;
    let mut kinds: Vec<(String, BTreeSet<usize>)> = Vec::new();
    for site in probe.sites() {
        let layers = site.split('.').filter_map(|part| part.parse::<usize>().ok());
        let kind = general(&site);
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, known)) => known.extend(layers),
            None => kinds.push((kind, layers.collect())),
        }
    }
    for (kind, layers) in kinds {
        match (layers.first(), layers.last()) {
            (Some(first), Some(last)) if last - first + 1 == layers.len() => {
                line(format!("{kind:<44} {first} to {last}"));
            }
            (Some(_), _) => {
                let layers: Vec<String> = layers.iter().map(usize::to_string).collect();
                line(format!("{kind:<44} {}", layers.join(", ")));
            }
            _ => line(kind),
        }
    }
    Ok(())
}

/// A site with `*` for the number of its layer.
fn general(site: &str) -> String {
    let part =
        |part: &str| if part.bytes().all(|b| b.is_ascii_digit()) { "*".to_owned() } else { part.to_owned() };
    site.split('.').map(part).collect::<Vec<_>>().join(".")
}

/// A batch of one.
fn row(ids: &[u32]) -> Result<Ids> {
    Ok(Ids::new(ids, [1, ids.len()])?)
}

/// The tokens of a text and the part of it that each stands for.
fn spelt(encoding: &Encoding, text: &str) -> String {
    let token = |i: usize| -> Option<Value> {
        let (piece, range) = (encoding.pieces.get(i)?, encoding.offsets.get(i)?);
        let special = encoding.special.get(i)?;
        let stands_for = if *special { piece } else { text.get(range.clone())? };
        Some(json!({
            "id": encoding.ids.get(i)?, "piece": piece, "text": stands_for,
            "start": range.start, "end": range.end, "special": special,
        }))
    };
    Value::from((0..encoding.ids.len()).filter_map(token).collect::<Vec<_>>()).to_string()
}

/// Ids with what the tokenizer calls them, if there is one.
fn named(opened: &Opened, ids: &[u32]) -> Result<String> {
    let token = |&id: &u32| -> Result<Value> {
        let Some(tokenizer) = &opened.tokenizer else { return Ok(json!({ "id": id })) };
        let text = tokenizer.decode(&[id], Special::Keep)?;
        Ok(
            json!({ "id": id, "piece": tokenizer.piece(id), "text": text, "special": tokenizer.is_special(id) }),
        )
    };
    Ok(Value::from(ids.iter().map(token).collect::<Result<Vec<_>>>()?).to_string())
}

/// Fails if a pattern named nothing, with the sites that are spelt most like it.
pub(super) fn ensure_matched(probe: &Probe) -> Result<()> {
    let Some(lonely) = probe.unmatched().first().copied().map(str::to_owned) else { return Ok(()) };
    let wanted = general(&lonely);
    let sites = probe.sites();
    let kinds: BTreeSet<String> = sites.iter().map(|site| general(site)).collect();
    if kinds.contains(&wanted) {
        let like: Vec<&String> = sites.iter().filter(|site| general(site) == wanted).collect();
        let (first, last) = (like.first().context("no site")?, like.last().context("no site")?);
        bail!("there is no site {lonely}; of this kind there are {first} to {last}");
    }
    let mut near: Vec<String> = kinds.into_iter().collect();
    near.sort_by_key(|kind| distance(&wanted, kind));
    near.truncate(NEAR);
    bail!("there is no site {lonely}; near it are {}", near.join(", "))
}

/// How many characters must be changed, added or removed to make one text of another (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    // Nothing that long is nearly a site.
    let a: Vec<char> = a.chars().take(200).collect();
    let mut row: Vec<usize> = (0..=a.len()).collect();
    for (j, other) in b.chars().enumerate() {
        let mut before = std::mem::replace(&mut row[0], j + 1);
        for (i, &character) in a.iter().enumerate() {
            let change = before + usize::from(character != other);
            before = row[i + 1];
            row[i + 1] = change.min(before + 1).min(row[i] + 1);
        }
    }
    row[a.len()]
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn distances_on_paper() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("weights", "weights"), 0);
    }
}
