//! The description of a forward pass that the page receives.

use crate::forward_pass::prediction::{Continuation, PredictionKind, continuation};
use crate::forward_pass::{ForwardPass, Group, ShownToken, Site, Token};
use serde::Serialize;

/// A forward pass in words and numbers, without attention weights.
#[derive(Debug, Clone, Serialize)]
pub struct Description {
    /// Its name in requests.
    pub id: String,
    /// The model's name.
    pub model: String,
    /// The model's kind.
    pub kind: String,
    /// What the model predicts.
    pub answer: PredictionKind,
    /// The tokens of the source, or of the only text.
    pub source: Vec<ShownToken>,
    /// The tokens of the target.
    pub target: Vec<ShownToken>,
    /// The text and its continuation, in models that predict the next token.
    pub said: Option<Continuation>,
    /// The attentions.
    pub sites: Vec<Site>,
    /// The reading that ran each attention: another one, where this one resumed after it.
    pub origins: Vec<String>,
    /// The groups there are, in order.
    pub groups: Vec<Group>,
    /// Rows and columns of patches, if a picture was read.
    pub patches: Option<[usize; 2]>,
    /// The changes made inside the model, as links write them.
    pub changes: Vec<String>,
    /// Whether the model is so small that what takes several passes is computed without being requested.
    pub small: bool,
    /// How many rows the logit lens has: the embeddings and one for each layer; 0 if the model predicts no tokens.
    pub lens: usize,
    /// Whether the layers read and write a residual stream.
    pub residual: bool,
}

/// The most parameters of a small model.
const SMALL: usize = 4_000_000;

/// Describes a forward pass.
pub fn describe(id: &str, model: &str, pass: &ForwardPass) -> Description {
    let mut groups: Vec<Group> = Vec::new();
    for site in pass.sites() {
        if !groups.contains(&site.group) {
            groups.push(site.group);
        }
    }
    let patches = pass.model().abilities().pictures().map(|patches| patches.grid().into());
    let shown = |tokens: &[Token]| ShownToken::all(tokens, pass.opened().tokenizer.as_ref());
    let answer = PredictionKind::of(pass.model());
    let tokens = matches!(answer, PredictionKind::Next | PredictionKind::Masked);
    Description {
        id: id.to_owned(),
        model: model.to_owned(),
        kind: pass.model().kind().to_owned(),
        answer,
        source: shown(pass.source()),
        target: shown(pass.target()),
        // What cannot be spelt is seen as tokens all the same.
        said: continuation(pass).ok().flatten(),
        sites: pass.sites().to_vec(),
        origins: pass
            .origins()
            .iter()
            .map(|origin| if origin == pass.id() { id } else { origin }.to_owned())
            .collect(),
        groups,
        patches,
        small: pass.model().parameters().iter().map(|(_, one)| one.tensor().count()).sum::<usize>() <= SMALL,
        changes: pass.changes().iter().map(ToString::to_string).collect(),
        lens: if tokens { pass.residuals().stream().len() } else { 0 },
        residual: !pass.residuals().stream().is_empty(),
    }
}
