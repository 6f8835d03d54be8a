//! Pretrained word vectors as initial embeddings.

use anyhow::{Result, bail};
use regard_nn::data::vectors::WordVectors;
use regard_nn::models::Model;
use regard_nn::tensor::Tensor;
use regard_nn::tokens::Tokenizer;
use std::path::Path;

/// Sets the embeddings of the words that a file has vectors for; the others stay random. Returns a line about how many were found.
pub fn load_word_vectors(model: &mut dyn Model, tokenizer: &Tokenizer, file: &Path) -> Result<String> {
    let Some(table) = model.token_embeddings_mut() else { bail!("the model has no word vectors") };
    let table = table.tensor_mut();
    let words: Vec<String> =
        (0..tokenizer.vocabulary_size() as u32).map(|id| tokenizer.piece(id).unwrap_or_default()).collect();
    let vectors = WordVectors::open(file, &words)?;
    let width = table.shape().last();
    if vectors.dimension() != width {
        bail!(
            "the vectors of {} have {} dimensions, the model's {width}; set model.d_embedding={}",
            file.display(),
            vectors.dimension(),
            vectors.dimension()
        );
    }
    let mut values = table.to_vec();
    for (index, row) in values.chunks_mut(width).enumerate() {
        if let Some(vector) = vectors.vector(index) {
            row.copy_from_slice(vector);
        }
    }
    *table = Tensor::new(&values, table.shape())?.tracked();
    let found = vectors.found();
    Ok(format!("{}: vectors for {found} of the {} words of the vocabulary", file.display(), words.len()))
}
