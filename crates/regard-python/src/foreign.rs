//! Attention that another program computed, as a model that knows nothing else.

use crate::arrays::{GivenReals, to_tensor};
use crate::model::nowhere;
use crate::pass::{known_group, known_view};
use crate::work::work;
use anyhow::{Result, bail, ensure};
use pyo3::prelude::*;
use regard::forward_pass::{EncodedInput, ForwardPass, Input, Token};
use regard::model::Opened;
use regard::standalone::{self, HeadFilter, PageContents, Start};
use regard_nn::models::{Abilities, AttentionSite, Inputs, Model, Part, Predicts, Reads, Visibility};
use regard_nn::tensor::{Ids, Tensor};
use regard_nn::{Context, Error, Module, Parameter};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Weights of one layer: (heads, queries, keys).
#[derive(Debug, Clone)]
struct Layer {
    name: String,
    part: Part,
    weights: Tensor,
}

/// A model that is nothing but its attention weights on one input.
#[derive(Debug, Clone)]
struct Foreign {
    layers: Vec<Layer>,
    decodes: bool,
    causal: [bool; 3],
    tokens: Parameter,
}

impl Module for Foreign {
    fn visit<'a>(&'a self, _: &str, _: &mut dyn FnMut(String, &'a Parameter)) {}

    fn visit_mut<'a>(&'a mut self, _: &str, _: &mut dyn FnMut(String, &'a mut Parameter)) {}
}

impl Model for Foreign {
    fn kind(&self) -> &'static str {
        "model of another program"
    }

    fn abilities(&self) -> Abilities {
        let mut abilities = Abilities::new(Predicts::Nothing, 0);
        if self.decodes {
            (abilities.reads, abilities.start) = (Reads::Source, Some(0));
        }
        abilities
    }

    fn attentions(&self) -> Vec<AttentionSite<'_>> {
        let site = |layer: &Layer| {
            let mut site = AttentionSite::named(layer.name.clone(), layer.weights.shape()[0], 1);
            site.part = layer.part;
            site.visibility = Visibility { causal: self.causal[layer.part as usize], window: None };
            site
        };
        self.layers.iter().map(site).collect()
    }

    fn hidden(&self, context: &Context, _: &Inputs) -> regard_nn::Result<Tensor> {
        for layer in &self.layers {
            let [heads, queries, keys] = layer.weights.shape()[..] else { continue };
            let weights = layer.weights.reshape([1, heads, queries, keys])?;
            context.within(&layer.name).see("weights", weights)?;
        }
        Ok(Tensor::zeros([1, 1, 1]))
    }

    fn scores(&self, _: &Context, hidden: &Tensor) -> regard_nn::Result<Tensor> {
        Ok(hidden.clone())
    }

    fn token_embeddings(&self) -> Option<&Parameter> {
        Some(&self.tokens)
    }

    fn token_embeddings_mut(&mut self) -> Option<&mut Parameter> {
        Some(&mut self.tokens)
    }

    fn fresh(&self, _: u64) -> regard_nn::Result<Box<dyn Model>> {
        Err(Error::input("model", "of another program's model only its attention is known"))
    }

    fn duplicate(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }

    fn settings(&self) -> regard_nn::Result<(&'static str, Value)> {
        Err(Error::input("model", "of another program's model only its attention is known"))
    }
}

/// One kind of attention: its name, a layer's weights (heads, queries, keys) each.
type Given<'py> = (String, Vec<GivenReals<'py>>);

fn foreign(groups: Vec<(String, Vec<Tensor>)>, counts: (usize, usize)) -> Result<Foreign> {
    let decodes = groups.iter().any(|(name, _)| name != "self");
    let mut layers = Vec::new();
    let mut causal = [true; 3];
    for (kind, weights) in groups {
        let (part, rows, columns) = match kind.as_str() {
            "self" | "encoder" => (Part::Reader, counts.0, counts.0),
            "decoder" => (Part::Decoder, counts.1, counts.1),
            "cross" => (Part::Cross, counts.1, counts.0),
            other => bail!("there is no attention {other}: it is self, encoder, decoder or cross"),
        };
        for (number, weights) in weights.into_iter().enumerate() {
            let [heads, queries, keys] = weights.shape()[..] else {
                bail!(
                    "{kind}, layer {number}: weights must be (heads, queries, keys), got {}",
                    weights.shape()
                );
            };
            ensure!(heads > 0, "{kind}, layer {number}: there is no head");
            ensure!(
                (queries, keys) == (rows, columns),
                "{kind}, layer {number}: there are {rows} × {columns} tokens and weights of {queries} × {keys}"
            );
            causal[part as usize] &= looks_back(&weights.values(), queries, keys);
            let name = match (decodes, part) {
                (false, _) => format!("layers.{number}.self"),
                (true, Part::Reader) => format!("encoder.layers.{number}.self"),
                (true, Part::Decoder) => format!("decoder.layers.{number}.self"),
                (true, Part::Cross) => format!("decoder.layers.{number}.cross"),
            };
            layers.push(Layer { name, part, weights });
        }
    }
    ensure!(!layers.is_empty(), "there is no attention to look at");
    causal[Part::Cross as usize] = false;
    let tokens = Parameter::new(&Tensor::zeros([counts.0.max(counts.1).max(1), 1]));
    Ok(Foreign { layers, decodes, causal, tokens })
}

/// Whether no query attends to a later key.
pub fn looks_back(weights: &[f32], queries: usize, keys: usize) -> bool {
    let rows = weights.chunks(keys.max(1)).enumerate();
    queries > 1
        && rows.into_iter().all(|(i, row)| row.iter().skip(i % queries + 1).all(|&weight| weight == 0.0))
}

/// Tokens by their texts: equal texts have equal ids, as measures of repetition need it.
fn tokens(texts: &[String]) -> Vec<Token> {
    let between = |text: &str, open: char, close: char| text.starts_with(open) && text.ends_with(close);
    let token = |(i, text): (usize, &String)| {
        let id = texts.iter().position(|other| other == text).unwrap_or(i) as u32;
        let text = if text.trim().is_empty() { "␣" } else { text.trim() };
        let special = text.len() > 2 && (between(text, '[', ']') || between(text, '<', '>'));
        Token { id, text: text.to_owned(), special, word: i }
    };
    texts.iter().enumerate().map(token).collect()
}

/// The page about attention that another program computed.
#[pyfunction]
#[pyo3(signature = (name, groups, source, target, view, kind, layer, head))]
#[allow(clippy::too_many_arguments)]
pub fn view(
    py: Python<'_>,
    name: String,
    groups: Vec<Given<'_>>,
    source: Vec<String>,
    target: Vec<String>,
    view: Option<&str>,
    kind: Option<&str>,
    layer: Option<usize>,
    head: Option<usize>,
) -> PyResult<String> {
    let view = view.map(known_view).transpose()?;
    let group = kind.map(known_group).transpose()?;
    let groups = groups
        .iter()
        .map(|(kind, weights)| {
            Ok((kind.clone(), weights.iter().map(to_tensor).collect::<PyResult<Vec<_>>>()?))
        })
        .collect::<PyResult<Vec<_>>>()?;
    work(py, move |cancel| {
        let model = foreign(groups, (source.len(), target.len()))?;
        let decodes = model.decodes;
        let (source_tokens, target_tokens) = (tokens(&source), tokens(&target));
        let row = |tokens: &[Token]| -> Result<Ids> {
            Ok(Ids::new(&tokens.iter().map(|token| token.id).collect::<Vec<_>>(), [1, tokens.len()])?)
        };
        let inputs = Inputs {
            ids: Some(row(&source_tokens)?),
            answer: if decodes { Some(row(&target_tokens)?) } else { None },
            ..Inputs::default()
        };
        let encoded = EncodedInput { inputs, source: source_tokens, target: target_tokens };
        let opened =
            Opened { model: Box::new(model), tokenizer: None, config: Map::new(), folder: nowhere() };
        let pass = ForwardPass::intervened(&Arc::new(opened), encoded, None, cancel)?;
        HeadFilter { group, layer, head }.heads(&pass)?;
        let text = Input::Text(source.join(" "), target.join(" "));
        let contents = PageContents::new(&name, &pass, &text, HeadFilter::default())?;
        standalone::page(&contents.starting_at(Start { group, layer, head, query: None, view }))
    })
}
