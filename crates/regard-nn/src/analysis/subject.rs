//! What is looked at: a model, and which of its attentions; and what it is shown.

use super::{Sight, Tokens, pad};
use crate::attention::MultiHead;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::models::Model;
use regard_tensor::{Ids, Mask, Tensor};
use std::ops::Range;

/// Which of a model's attentions are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Part {
    /// Those with which it reads. An encoder–decoder model reads with its encoder.
    #[default]
    Reading,
    /// Those with which a decoder looks back at what it has said.
    Answering,
    /// Those with which a decoder looks at what the encoder read.
    Crossing,
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 3] = [Self::Reading, Self::Answering, Self::Crossing];

    /// The parts that a model has.
    pub fn of(model: &Model) -> &'static [Self] {
        match model {
            Model::T5(_) => &Self::ALL,
            _ => &[Self::Reading],
        }
    }

    /// What it is called in an encoder–decoder model.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reading => "encoder",
            Self::Answering => "decoder",
            Self::Crossing => "cross",
        }
    }

    fn has(self, site: &str) -> bool {
        let kind = site.rsplit('.').next();
        match self {
            Self::Reading => !site.starts_with("decoder."),
            Self::Answering => site.starts_with("decoder.") && kind == Some("self"),
            Self::Crossing => kind == Some("cross"),
        }
    }
}

/// A model, and which of its attentions are looked at. A model alone stands for those with which it reads.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The model.
    pub model: &'a Model,
    /// The attentions.
    pub part: Part,
}

impl<'a> From<&'a Model> for Subject<'a> {
    fn from(model: &'a Model) -> Self {
        Self { model, part: Part::Reading }
    }
}

impl<'a> Subject<'a> {
    /// The attentions, with their places, in the order in which a text passes them.
    pub fn attentions(self) -> Result<Vec<(String, &'a MultiHead)>> {
        let mut all = self.model.attentions();
        all.retain(|(site, _)| self.part.has(site));
        match all.is_empty() {
            true => {
                Err(Error::input("analysis", format!("this {} has no attention heads", self.model.kind())))
            }
            false => Ok(all),
        }
    }

    /// The keys that a query of a text may see.
    pub fn keys(self, text: &Tokens, query: usize) -> Range<usize> {
        match self.part {
            Part::Reading => Sight::of(self.model).keys(query, text.len()),
            Part::Answering => 0..query + 1,
            Part::Crossing => 0..text.source.as_ref().map_or(0, |source| source.len()),
        }
    }
}

/// The attentions of a model, with their places; see [`Subject::attentions`].
pub fn attentions<'a>(subject: impl Into<Subject<'a>>) -> Result<Vec<(String, &'a MultiHead)>> {
    subject.into().attentions()
}

/// Texts side by side as a model reads them, padded at the end; with what they answer, or as pictures.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The tokens, (batch, time).
    pub ids: Ids,
    /// The length of each text.
    pub lengths: Vec<usize>,
    /// What the texts answer, if a decoder reads them: tokens and lengths.
    pub source: Option<(Ids, Vec<usize>)>,
    /// The pixels of each picture, if the tokens are their patches.
    pub pixels: Vec<std::sync::Arc<[f32]>>,
}

impl Shown {
    /// Texts of one kind: all or none have a source, all or none are pictures.
    pub fn new(texts: &[Tokens]) -> Result<Self> {
        let (ids, lengths) = pad(texts)?;
        let sources: Vec<Tokens> = texts.iter().filter_map(|text| text.source.as_deref().cloned()).collect();
        let pixels: Vec<_> = texts.iter().filter_map(|text| text.pixels.clone()).collect();
        if [sources.len(), pixels.len()].iter().any(|&count| count > 0 && count < texts.len()) {
            return Err(Error::input("analysis", "texts of different kinds cannot be read together"));
        }
        let source = if sources.is_empty() { None } else { Some(pad(&sources)?) };
        Ok(Self { ids, lengths, source, pixels })
    }

    /// Texts that are padded already.
    pub fn padded(ids: Ids, lengths: Vec<usize>) -> Self {
        Self { ids, lengths, source: None, pixels: Vec::new() }
    }

    /// The lengths of what the queries of a part stand for, and to how many they are padded.
    pub(super) fn queries(&self, part: Part) -> (&[usize], usize) {
        match (part, &self.source) {
            (Part::Reading, Some((ids, lengths))) => (lengths, ids.shape().last()),
            _ => (&self.lengths, self.ids.shape().last()),
        }
    }

    /// Shows everything to a model and gives the scores of its classes, (batch, time, classes), or (batch, 1, classes) if
    /// it judges a text as a whole; none if it has no head, or is an encoder–decoder model that is asked nothing.
    pub fn read(&self, model: &Model, context: &Context) -> Result<Option<Tensor>> {
        match (model, &self.source) {
            (Model::T5(t5), Some((source, lengths))) => {
                let (source_present, present) = (mask(source, lengths), mask(&self.ids, &self.lengths));
                let encoded = t5.encode(context, source, Some(&source_present))?;
                let scores =
                    t5.decode(context, &self.ids, Some(&present), (&encoded, Some(&source_present)))?;
                Ok(Some(scores))
            }
            (Model::Vit(vit), _) => {
                let config = vit.config();
                let [height, width] = config.image;
                let values: Vec<f32> = self.pixels.iter().flat_map(|pixels| pixels.iter().copied()).collect();
                let pictures = Tensor::new(&values, [self.pixels.len(), config.channels, height, width])?;
                if config.classes == 0 {
                    vit.encode(context, &pictures)?;
                    return Ok(None);
                }
                let scores = vit.forward(context, &pictures)?;
                Ok(Some(scores.reshape([self.pixels.len(), 1, config.classes])?))
            }
            _ => model.read(context, &self.ids, &self.lengths),
        }
    }

    /// The same without scores, where they cost more than they are worth: see [`Model::attend`].
    pub fn attend(&self, model: &Model, context: &Context) -> Result<()> {
        match model {
            Model::Vit(_) => self.read(model, context).map(drop),
            Model::T5(_) if self.source.is_some() => self.read(model, context).map(drop),
            _ => model.attend(context, &self.ids, &self.lengths),
        }
    }

    /// The scores, or an error if there is no head to score with.
    pub fn scores(&self, model: &Model, context: &Context) -> Result<Tensor> {
        let none =
            || Error::input("analysis", format!("this {} has no head that scores anything", model.kind()));
        self.read(model, context)?.ok_or_else(none)
    }
}

fn mask(ids: &Ids, lengths: &[usize]) -> Mask {
    Mask::from_fn([lengths.len(), ids.shape().last()], |at| at[1] < lengths[at[0]])
}
