//! Text to ids and back.

use crate::error::OrRaise as _;
use crate::work::work;
use pyo3::prelude::*;
use regard_nn::tokens::{self, Special, UnknownCharacter, WordSettings};
use std::path::PathBuf;

/// Turns texts into ids and ids into texts.
#[pyclass(frozen, module = "regard._regard")]
pub struct Tokenizer(pub tokens::Tokenizer);

#[pymethods]
impl Tokenizer {
    /// From a `tokenizer.json` or a model's folder.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        work(py, move |_| Ok(Self(tokens::Tokenizer::open(path)?)))
    }

    /// From the text of a `tokenizer.json`.
    #[staticmethod]
    fn from_json(py: Python<'_>, json: &str) -> PyResult<Self> {
        work(py, |_| Ok(Self(tokens::Tokenizer::from_json(json)?)))
    }

    /// The text of a `tokenizer.json`.
    fn to_json(&self) -> PyResult<String> {
        self.0.to_json().or_raise()
    }

    /// One piece a character.
    #[staticmethod]
    fn characters(py: Python<'_>, texts: Vec<String>) -> PyResult<Self> {
        work(py, move |_| Ok(Self(tokens::Tokenizer::characters(texts, UnknownCharacter::Piece)?)))
    }

    /// One piece a word, the most frequent ones.
    #[staticmethod]
    fn words(py: Python<'_>, texts: Vec<String>, maximum: usize, lowercase: bool) -> PyResult<Self> {
        let settings = WordSettings { maximum, lowercase, mask: true, ..WordSettings::default() };
        work(py, move |_| Ok(Self(tokens::Tokenizer::words(texts, &settings)?)))
    }

    /// Writes a `tokenizer.json`.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        work(py, |_| Ok(self.0.save(path)?))
    }

    fn encode(&self, text: &str, special: bool) -> PyResult<Vec<u32>> {
        let special = if special { Special::Keep } else { Special::Drop };
        Ok(self.0.encode(text, special).or_raise()?.ids)
    }

    fn decode(&self, ids: Vec<u32>, special: bool) -> PyResult<String> {
        self.0.decode(&ids, if special { Special::Keep } else { Special::Drop }).or_raise()
    }

    fn id(&self, piece: &str) -> Option<u32> {
        self.0.id(piece)
    }

    fn piece(&self, id: u32) -> Option<String> {
        self.0.piece(id)
    }

    fn __len__(&self) -> usize {
        self.0.vocabulary_size()
    }
}
