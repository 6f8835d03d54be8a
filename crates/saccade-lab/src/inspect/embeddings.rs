//! A table of embeddings, looked at: principal components and nearest neighbours.

use super::target::spelt;
use super::{Output, columns};
use crate::figure::{Axis, Picture, Point, Scatter};
use crate::model::Opened;
use crate::terminal::line;
use crate::usage::Usage;
use anyhow::{Context as _, Result};
use saccade::analysis::projection::{Pca, neighbours, pca};
use saccade::tensor::Tensor;
use saccade::tokens::{Special, Tokenizer};

/// The principal components that are told; two are drawn.
const COMPONENTS: usize = 5;
/// The tokens that are drawn where none are named.
const DRAWN: u32 = 120;

/// The rows of an embedding table that are tokens, and what they are called.
pub struct Embeddings<'a> {
    tokenizer: &'a Tokenizer,
    table: Tensor,
    /// The token of each row.
    ids: Vec<u32>,
}

impl<'a> Embeddings<'a> {
    /// The table of a model, without special tokens and rows that no token has.
    pub fn of(opened: &'a Opened) -> Result<Self> {
        let tokenizer = opened.tokenizer()?;
        let missing = || format!("a {} has no embeddings of tokens", opened.model.kind());
        let all = opened.model.token_embeddings().with_context(missing)?;
        let [rows, width] = all.shape()[..] else { return Err(anyhow::anyhow!(missing())) };
        let used = |&id: &u32| !tokenizer.is_special(id) && tokenizer.piece(id).is_some();
        let ids: Vec<u32> = (0..rows as u32).filter(used).collect();
        let values = all.values();
        let kept: Vec<f32> = ids
            .iter()
            .flat_map(|&id| &values[id as usize * width..(id as usize + 1) * width])
            .copied()
            .collect();
        Ok(Self { tokenizer, table: Tensor::new(&kept, [ids.len(), width])?, ids })
    }

    /// The row of a word.
    pub fn find(&self, word: &str) -> Result<usize> {
        // In the middle of a text words have a space before them, which some tokenizers count in.
        for spelling in [format!(" {word}"), word.to_owned()] {
            let ids = self.tokenizer.encode(&spelling, Special::Drop)?.ids;
            if let [id] = ids[..]
                && self.tokenizer.special().unknown != Some(id)
                && let Ok(row) = self.ids.binary_search(&id)
            {
                return Ok(row);
            }
        }
        Err(Usage::error(format!("{word:?} is no single token of this model")))
    }

    /// Prints the nearest neighbours of words.
    pub fn show_near(&self, words: &[String], count: usize) -> Result<()> {
        for word in words {
            line(format!("nearest to {word}, by cosine"));
            let near = neighbours(&self.table, self.find(word)?, count)?;
            let row = |(row, cosine): (usize, f64)| -> Result<Vec<String>> {
                Ok(vec![format!("  {}", spelt(self.tokenizer, self.ids[row])?), format!("{cosine:.3}")])
            };
            columns(&near.into_iter().map(row).collect::<Result<Vec<_>>>()?);
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
            let first = self.ids.iter().take(DRAWN as usize).enumerate();
            chosen =
                first.map(|(row, &id)| Ok((row, 0, spelt(self.tokenizer, id)?))).collect::<Result<_>>()?;
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
            "{} tokens of width {}; variance along the first components: {}",
            self.ids.len(),
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
        .subtitle("Principal components of all embeddings of the model")
        .panel(scatter)
}
