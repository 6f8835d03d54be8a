//! The description of a forward pass that the page receives.

use crate::forward_pass::prediction::{Continuation, PredictionKind, continuation};
use crate::forward_pass::{ForwardPass, Group, Site, Token};
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
    pub source: Vec<Token>,
    /// The tokens of the target.
    pub target: Vec<Token>,
    /// The text and its continuation, in models that predict the next token.
    pub said: Option<Continuation>,
    /// The attentions.
    pub sites: Vec<Site>,
    /// The groups there are, in order.
    pub groups: Vec<Group>,
    /// Rows and columns of patches, if a picture was read.
    pub patches: Option<[usize; 2]>,
}

/// Describes a forward pass.
pub fn describe(id: &str, model: &str, pass: &ForwardPass) -> Description {
    let mut groups: Vec<Group> = Vec::new();
    for site in pass.sites() {
        if !groups.contains(&site.group) {
            groups.push(site.group);
        }
    }
    let patches = pass.model().abilities().pictures().map(|patches| patches.grid().into());
    Description {
        id: id.to_owned(),
        model: model.to_owned(),
        kind: pass.model().kind().to_owned(),
        answer: PredictionKind::of(pass.model()),
        source: pass.source().to_vec(),
        target: pass.target().to_vec(),
        // What cannot be spelt is seen as tokens all the same.
        said: continuation(pass).ok().flatten(),
        sites: pass.sites().to_vec(),
        groups,
        patches,
    }
}
