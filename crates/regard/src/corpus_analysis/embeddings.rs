//! A table of embeddings: principal components and nearest neighbours.

use super::target::spelt;
use super::{Output, columns};
use crate::error::usage_error;
use crate::figure::{Axis, Picture, Point, Scatter};
use crate::model::Opened;
use crate::terminal::line;
use anyhow::{Context as _, Result};
use regard_nn::analysis::projection::{Pca, neighbours, pca};
use regard_nn::data::file::Lines;
use regard_nn::data::vectors::WordVectors;
use regard_nn::tensor::Tensor;
use regard_nn::tokens::{Special, Tokenizer};
use std::collections::HashMap;
use std::path::Path;

/// The principal components that are reported; two are drawn.
const COMPONENTS: usize = 5;
/// The tokens that are drawn where none are named.
const DRAWN: usize = 120;

/// The most numbers that are read of a file of vectors: its first words, which are the most frequent.
const MOST_NUMBERS: usize = 1 << 25;

/// A table of vectors and what its rows are called.
pub struct EmbeddingTable<'a> {
    table: Tensor,
    names: Vec<String>,
    rows: Rows<'a>,
}

/// How the row of a word is found.
enum Rows<'a> {
    /// By its token; the tokens of the rows, in order.
    Tokens(&'a Tokenizer, Vec<u32>),
    /// By its name.
    Names(HashMap<String, usize>),
}

impl<'a> EmbeddingTable<'a> {
    /// The table of a model, without special tokens and rows that no token has.
    pub fn of(opened: &'a Opened) -> Result<Self> {
        let tokenizer = opened.tokenizer()?;
        let missing = || format!("a {} has no embeddings of tokens", opened.model.kind());
        let all = opened.model.token_embeddings().with_context(missing)?.tensor();
        let [rows, width] = all.shape()[..] else { return Err(anyhow::anyhow!(missing())) };
        let used = |&id: &u32| !tokenizer.is_special(id) && tokenizer.piece(id).is_some();
        let ids: Vec<u32> = (0..rows as u32).filter(used).collect();
        let values = all.values();
        let row = |id: u32| &values[id as usize * width..(id as usize + 1) * width];
        let kept: Vec<f32> = ids.iter().flat_map(|&id| row(id)).copied().collect();
        let names = ids.iter().map(|&id| spelt(tokenizer, id)).collect::<Result<_>>()?;
        let table = Tensor::new(&kept, [ids.len(), width])?;
        Ok(Self { table, names, rows: Rows::Tokens(tokenizer, ids) })
    }

    /// The first words of a file of vectors, as GloVe and fastText publish them.
    pub fn read(path: &Path) -> Result<Self> {
        let width = WordVectors::open::<&str>(path, &[])?.dimension();
        let (mut lines, mut names) = (Lines::open(path)?, Vec::new());
        while let Some(line) = lines.next()? {
            // The last fields are numbers; whatever stands before them is the word. fastText's first line has none.
            if let Some((end, _)) = line.trim_end_matches(' ').rmatch_indices(' ').nth(width - 1) {
                names.push(line[..end].to_owned());
            }
            if names.len() >= MOST_NUMBERS / width {
                break;
            }
        }
        let vectors = WordVectors::open(path, &names)?;
        let mut values = Vec::with_capacity(names.len() * width);
        for (row, name) in names.iter().enumerate() {
            let missing = || format!("{}: {name:?} has no vector", path.display());
            values.extend_from_slice(vectors.vector(row).with_context(missing)?);
        }
        let table = Tensor::new(&values, [names.len(), width])?;
        let rows = Rows::Names(names.iter().cloned().zip(0..).collect());
        Ok(Self { table, names, rows })
    }

    /// The row of a word.
    pub fn find(&self, word: &str) -> Result<usize> {
        let (tokenizer, ids) = match &self.rows {
            Rows::Tokens(tokenizer, ids) => (tokenizer, ids),
            Rows::Names(rows) => {
                let missing = || usage_error(format!("the file has no vector of {word:?}"));
                return rows.get(word).copied().ok_or_else(missing);
            }
        };
        // In the middle of a text words have a space before them, which some tokenizers count in.
        for spelling in [format!(" {word}"), word.to_owned()] {
            let found = tokenizer.encode(&spelling, Special::Drop)?.ids;
            if let [id] = found[..]
                && tokenizer.special().unknown != Some(id)
                && let Ok(row) = ids.binary_search(&id)
            {
                return Ok(row);
            }
        }
        Err(usage_error(format!("{word:?} is no single token of this model")))
    }

    /// Prints the nearest neighbours of words.
    pub fn show_near(&self, words: &[String], count: usize) -> Result<()> {
        for word in words {
            line(format!("nearest to {word}, by cosine"));
            let near = neighbours(&self.table, self.find(word)?, count)?;
            let row = |(row, cosine)| vec![format!("  {}", self.names[row]), format!("{cosine:.3}")];
            columns(&near.into_iter().map(row).collect::<Vec<_>>());
        }
        Ok(())
    }

    /// Writes principal components and a picture of groups of words: the first tokens of the vocabulary if there are none.
    pub fn components(&self, groups: &[Vec<String>], output: &Output) -> Result<()> {
        let found = pca(&self.table, COMPONENTS)?;
        let mut chosen = Vec::new();
        for (group, words) in groups.iter().enumerate() {
            for word in words {
                chosen.push((self.find(word)?, group, word.clone()));
            }
        }
        if groups.is_empty() {
            let first = self.names.iter().take(DRAWN).enumerate();
            chosen = first.map(|(row, name)| (row, 0, name.clone())).collect();
        }
        let mut header = vec!["token".to_owned(), "group".to_owned()];
        header.extend((1..=found.explained.len()).map(|component| format!("pc{component}")));
        let rows = chosen.iter().map(|(row, group, word)| {
            let places = found.coordinates[*row].iter().map(ToString::to_string);
            [word.clone(), group.to_string()].into_iter().chain(places).collect()
        });
        output.csv("components", &header.iter().map(String::as_str).collect::<Vec<_>>(), rows)?;
        output.picture("components", &picture(&found, &chosen, groups))?;
        let shares = found.explained.iter().map(|share| format!("{:.1} %", 100.0 * share));
        line(format!(
            "{} vectors of width {}; variance along the first components: {}",
            self.names.len(),
            self.table.shape().last(),
            shares.collect::<Vec<_>>().join(", ")
        ));
        Ok(())
    }
}

fn picture(found: &Pca, chosen: &[(usize, usize, String)], groups: &[Vec<String>]) -> Picture {
    let axis = |component: usize| {
        let share = found.explained.get(component).copied().unwrap_or(0.0);
        Axis::linear(format!("component {} ({:.1} % of the variance)", component + 1, 100.0 * share))
    };
    let points = chosen.iter().map(|(row, group, word)| {
        let at = |component: usize| found.coordinates[*row].get(component).copied().unwrap_or(0.0);
        Point::new(at(0), at(1)).label(word).class(*group)
    });
    let scatter = Scatter::new(axis(0), axis(1)).points(points.collect::<Vec<_>>()).size(760.0, 560.0);
    let scatter = match groups.len() {
        0 | 1 => scatter,
        _ => scatter
            .classes(groups.iter().map(|words| format!("{}, …", words.first().map_or("", String::as_str)))),
    };
    Picture::new("Words where their embeddings put them")
        .subtitle("Principal components of the whole table")
        .panel(scatter)
}
