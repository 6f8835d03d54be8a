//! The language model that the report's own run has trained, opened: what the lesson shows of it, and the page of its inside that is
//! written beside the report.

use super::results::Results;
use crate::experiments::trained_heads;
use crate::forward_pass::{ForwardPass, Input};
use crate::model::{self, Opened};
use crate::run::sources;
use crate::standalone::{self, HeadFilter, PageContents};
use anyhow::{Context as _, Result};
use regard_nn::Context;
use regard_nn::analysis::Tokens;
use regard_nn::analysis::dependencies::Parsed;
use regard_nn::analysis::heads::record_weights;
use regard_nn::models::Inputs;
use regard_nn::tensor::Ids;
use regard_nn::tokens::{Encoding, Special};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The file of the page beside the report.
pub const FILE: &str = "inside.html";
/// Where `regard serve` listens unless it is given another port.
const SERVER: &str = "http://127.0.0.1:8420/";
/// How many tokens the sentence has, if there is one that the model knows all words of.
const LENGTHS: std::ops::RangeInclusive<usize> = 8..=11;
/// How many guesses of the next word are listed.
const GUESSES: usize = 5;

/// A head, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub layer: usize,
    pub head: usize,
}

/// A trained language model and one sentence in it.
pub struct Inside {
    /// Its folder, as a MODEL argument.
    pub model: String,
    /// The sentence.
    pub text: String,
    /// The sentence's tokens.
    pub words: Vec<String>,
    /// Their ids.
    pub ids: Vec<u32>,
    /// How many words the model knows.
    pub vocabulary: usize,
    /// The words that the model expects after all but the last two tokens, with their probabilities, best first.
    pub next: Vec<(String, f32)>,
    n_heads: usize,
    /// By layer: weights of (heads, words, words).
    layers: Vec<Vec<f32>>,
    /// The head that attends most to the previous word.
    pub previous: Place,
    page: String,
}

impl Inside {
    /// Opens the model that the experiment on trained heads names.
    pub fn new(results: &Results) -> Result<Self> {
        let folder = results.words(trained_heads::MODEL)?.to_owned();
        let opened = Arc::new(model::open(&folder)?);
        let tokenizer = opened.tokenizer()?;
        let (text, encoding) = sentence(&opened)?;
        let weights = record_weights(&*opened.model, &[Tokens::from_encoding(&encoding)])?;
        let layers: Vec<Vec<f32>> = weights.iter().map(|layer| layer.all().to_vec()).collect();
        let n = encoding.ids.len();
        let n_heads = layers.first().map_or(0, |layer| layer.len() / (n * n).max(1));
        let input = Input::Text(text.clone(), String::new());
        let pass = ForwardPass::new(&opened, &input, n.max(16), &AtomicBool::new(false))?;
        let page = standalone::page(&PageContents::new(&folder, &pass, &input, HeadFilter::default())?)?;
        let mut inside = Self {
            words: encoding.offsets.iter().map(|span| text[span.clone()].to_owned()).collect(),
            ids: encoding.ids.clone(),
            vocabulary: tokenizer.vocabulary_size(),
            next: next(&opened, &encoding.ids[..n.saturating_sub(2).max(1)])?,
            previous: Place { layer: 0, head: 0 },
            model: folder,
            text,
            n_heads,
            layers,
            page,
        };
        inside.previous = inside.best_previous().context("the model has no heads")?;
        Ok(inside)
    }

    /// The sentence up to what is predicted.
    pub fn beginning(&self) -> &[String] {
        &self.words[..self.words.len().saturating_sub(2).max(1)]
    }

    /// The weights of a head: one row a query.
    pub fn weights(&self, place: Place) -> &[f32] {
        let size = self.words.len() * self.words.len();
        &self.layers[place.layer][place.head * size..][..size]
    }

    /// The number of layers, and of heads in each.
    pub fn sizes(&self) -> (usize, usize) {
        (self.layers.len(), self.n_heads)
    }

    /// The mean weight of a head on the token before each query, in this sentence.
    pub fn on_previous(&self, place: Place) -> f32 {
        let n = self.words.len();
        let weights = self.weights(place);
        (1..n).map(|query| weights[query * n + query - 1]).sum::<f32>() / (n.max(2) - 1) as f32
    }

    fn best_previous(&self) -> Option<Place> {
        let layers = 0..self.layers.len();
        let places = layers.flat_map(|layer| (0..self.n_heads).map(move |head| Place { layer, head }));
        places.max_by(|a, b| self.on_previous(*a).total_cmp(&self.on_previous(*b)))
    }

    /// The page of the model's inside.
    pub fn page(&self) -> &str {
        &self.page
    }

    /// What follows the page's address: a view, and a head where the view shows one.
    fn selection(view: &str, place: Option<Place>) -> String {
        let head =
            place.map(|Place { layer, head }| format!("&layer={layer}&head={head}")).unwrap_or_default();
        format!("view={view}{head}")
    }

    /// The address of a view in the file beside the report.
    pub fn link(view: &str, place: Option<Place>) -> String {
        format!("{FILE}#{}", Self::selection(view, place))
    }

    /// The address of the same view in a running `regard serve`, where other sentences can be typed.
    pub fn live_link(&self, view: &str, place: Option<Place>) -> String {
        let selection = Self::selection(view, place);
        format!("{SERVER}#model={}&text={}&{selection}", encoded(&self.model), encoded(&self.text))
    }
}

/// Text as it stands in an address.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// A sentence that the model knows all words of; the smallest models may know none, and read the first sentence instead.
fn sentence(opened: &Opened) -> Result<(String, Encoding)> {
    let tokenizer = opened.tokenizer()?;
    let unknown = tokenizer.special().unknown;
    let mut first = None;
    for parsed in sources::builtin_test()?.iter().flat_map(Parsed::from_text) {
        let encoding = tokenizer.encode(&parsed.text, Special::Drop)?;
        let known = !unknown.is_some_and(|unknown| encoding.ids.contains(&unknown));
        let has = |relation: &str| parsed.words.iter().any(|word| word.relation == relation);
        if LENGTHS.contains(&encoding.ids.len()) && known && has("nsubj") && has("amod") {
            return Ok((parsed.text, encoding));
        }
        if first.is_none() && encoding.ids.len() > 2 && encoding.ids.len() <= *LENGTHS.end() {
            first = Some((parsed.text, encoding));
        }
    }
    first.context("the built-in corpus has no sentence to show")
}

/// The most probable next words.
fn next(opened: &Opened, ids: &[u32]) -> Result<Vec<(String, f32)>> {
    let tokenizer = opened.tokenizer()?;
    let inputs = Inputs::ids(&Ids::new(ids, [1, ids.len()])?);
    let context = Context::inference();
    let logits = opened.model.scores(&context, &opened.model.hidden(&context, &inputs)?)?; // (1, T, V)
    let width = logits.shape().last();
    let last = logits.reshape([logits.count() / width.max(1), width])?.slice(0, ids.len() - 1, 1)?;
    let probabilities = last.softmax()?.to_vec();
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|&a, &b| probabilities[b].total_cmp(&probabilities[a]).then(a.cmp(&b)));
    let named = |&id: &usize| (tokenizer.piece(id as u32).unwrap_or_default(), probabilities[id]);
    Ok(order.iter().take(GUESSES).map(named).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_no_characters_of_their_own() {
        assert_eq!(encoded("outputs/models/a b"), "outputs/models/a%20b");
        assert_eq!(encoded("café & #1"), "caf%C3%A9%20%26%20%231");
        assert_eq!(Inside::selection("head", Some(Place { layer: 1, head: 2 })), "view=head&layer=1&head=2");
    }
}
