//! What the page is told about a reading.

use crate::inside::answer::{Kind, Said, spoken};
use crate::inside::{Group, Reading, Site, Token};
use serde::Serialize;

/// A reading in words and numbers, without any weight.
#[derive(Debug, Clone, Serialize)]
pub struct Description {
    /// Its name in requests.
    pub id: String,
    /// The model's name.
    pub model: String,
    /// The model's kind.
    pub kind: String,
    /// What the model can be asked.
    pub answer: Kind,
    /// The tokens of the source, or of the only text.
    pub source: Vec<Token>,
    /// The tokens of the target.
    pub target: Vec<Token>,
    /// The text that goes on, as the tokenizer writes it, in models that say what comes next.
    pub said: Option<Said>,
    /// The attentions.
    pub sites: Vec<Site>,
    /// The groups there are, in order.
    pub groups: Vec<Group>,
    /// Rows and columns of patches, if a picture was read.
    pub patches: Option<[usize; 2]>,
}

/// Describes a reading.
pub fn describe(id: &str, model: &str, reading: &Reading) -> Description {
    let mut groups: Vec<Group> = Vec::new();
    for site in reading.sites() {
        if !groups.contains(&site.group) {
            groups.push(site.group);
        }
    }
    let patches = reading.model().abilities().pictures().map(|patches| patches.grid().into());
    Description {
        id: id.to_owned(),
        model: model.to_owned(),
        kind: reading.model().kind().to_owned(),
        answer: Kind::of(reading.model()),
        source: reading.source().to_vec(),
        target: reading.target().to_vec(),
        // What cannot be spelt is seen as tokens all the same.
        said: spoken(reading).ok().flatten(),
        sites: reading.sites().to_vec(),
        groups,
        patches,
    }
}
