//! The sections of the lesson, in the order of the pipeline, one file each.

mod architectures;
mod block;
mod cost;
mod embeddings;
mod heads;
mod inside;
mod isolated;
mod positions;
mod real_models;
mod scores;
mod tokens;
mod training;
mod weights;

use super::article::Article;
use super::diagrams::rows;
use anyhow::Result;
use regard_nn::tensor::Tensor;

/// Writes all of them.
pub fn write(article: &mut Article) -> Result<()> {
    let sections: [fn(&mut Article) -> Result<()>; 13] = [
        tokens::write,
        embeddings::write,
        scores::write,
        weights::write,
        heads::write,
        positions::write,
        block::write,
        architectures::write,
        training::write,
        isolated::write,
        inside::write,
        cost::write,
        real_models::write,
    ];
    sections.iter().try_for_each(|section| section(article))
}

/// A table of numbers as part of a formula.
fn matrix(tensor: &Tensor, decimals: usize) -> String {
    let rows: Vec<String> = rows(tensor, decimals).into_iter().map(|row| row.join(" & ")).collect();
    format!("\\matrix{{{}}}", rows.join(" \\\\ "))
}

/// Numbers in a sentence.
fn listed(values: &[f32], decimals: usize) -> String {
    let digits: Vec<String> = values.iter().map(|value| super::diagrams::digits(*value, decimals)).collect();
    digits.join(", ")
}
