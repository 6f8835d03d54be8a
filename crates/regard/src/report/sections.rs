//! The sections of the article, in the order of the pipeline, one file each.

mod architectures;
mod block;
mod cost;
mod critique;
mod embeddings;
mod heads;
mod inside;
mod isolated;
mod positions;
mod scores;
mod tokens;
mod training;
mod weights;

use super::article::Article;
use anyhow::Result;

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
        critique::write,
    ];
    sections.iter().try_for_each(|section| section(article))
}
