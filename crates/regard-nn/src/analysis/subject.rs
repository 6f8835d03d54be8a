//! The subject of an analysis: a model, a part of its attention layers, and a batch of inputs.

use super::{Tokens, pad};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::models::{AttentionSite, Inputs, Model, Part, Predicts, Reads};
use regard_tensor::{Ids, Tensor};

/// A model and the part of its attention layers to analyse. A model alone stands for its default part: the layers that
/// read the input.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The model.
    pub model: &'a dyn Model,
    /// The part.
    pub part: Part,
}

impl<'a> From<&'a dyn Model> for Subject<'a> {
    fn from(model: &'a dyn Model) -> Self {
        Self { model, part: Part::Reader }
    }
}

impl<'a, M: Model> From<&'a M> for Subject<'a> {
    fn from(model: &'a M) -> Self {
        Self { model, part: Part::Reader }
    }
}

impl<'a> Subject<'a> {
    /// The attention layers, in the order of the forward pass.
    pub fn attentions(self) -> Result<Vec<AttentionSite<'a>>> {
        self.model.part(self.part)
    }

    /// The number of keys that a text's queries may attend to.
    pub(super) fn keys(self, text: &Tokens) -> usize {
        match self.part {
            Part::Reader | Part::Decoder => text.len(),
            Part::Cross => text.source.as_ref().map_or(0, |source| source.len()),
        }
    }
}

/// The attention layers of a model; see [`Subject::attentions`].
pub fn attentions<'a>(subject: impl Into<Subject<'a>>) -> Result<Vec<AttentionSite<'a>>> {
    subject.into().attentions()
}

/// A batch of texts, padded at the end; with their sources for a decoder, or as images.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The tokens, (batch, time).
    pub ids: Ids,
    /// The length of each text.
    pub lengths: Vec<usize>,
    /// The source texts, if a decoder reads them: tokens and lengths.
    pub source: Option<(Ids, Vec<usize>)>,
    /// The pixels of each image, if the tokens are image patches.
    pub pixels: Vec<std::sync::Arc<[f32]>>,
}

impl Shown {
    /// Texts of one kind: all or none have a source, all or none are images.
    pub fn new(texts: &[Tokens]) -> Result<Self> {
        let (ids, lengths) = pad(texts)?;
        let sources: Vec<Tokens> = texts.iter().filter_map(|text| text.source.as_deref().cloned()).collect();
        let pixels: Vec<_> = texts.iter().filter_map(|text| text.pixels.clone()).collect();
        if [sources.len(), pixels.len()].iter().any(|&count| count > 0 && count < texts.len()) {
            return Err(Error::input("analysis", "texts of different kinds cannot share a batch"));
        }
        let source = if sources.is_empty() { None } else { Some(pad(&sources)?) };
        Ok(Self { ids, lengths, source, pixels })
    }

    /// Texts that are already padded.
    pub fn padded(ids: Ids, lengths: Vec<usize>) -> Self {
        Self { ids, lengths, source: None, pixels: Vec::new() }
    }

    /// The lengths of the queries of a part, and their padded length.
    pub(super) fn queries(&self, part: Part) -> (&[usize], usize) {
        match (part, &self.source) {
            (Part::Reader, Some((ids, lengths))) => (lengths, ids.shape().last()),
            _ => (&self.lengths, self.ids.shape().last()),
        }
    }

    /// The batch as a model's inputs.
    pub fn inputs(&self, model: &dyn Model) -> Result<Inputs> {
        if let Some(patches) = model.abilities().pictures() {
            let [height, width] = patches.image;
            let values: Vec<f32> = self.pixels.iter().flat_map(|pixels| pixels.iter().copied()).collect();
            let pictures = Tensor::new(&values, [self.pixels.len(), patches.channels, height, width])?;
            return Ok(Inputs::pictures(&pictures));
        }
        match &self.source {
            None => Inputs::padded(&self.ids, &self.lengths),
            Some((source, lengths)) => {
                let answer = Inputs::padded(&self.ids, &self.lengths)?;
                let answered =
                    Inputs { answer: answer.ids, answer_present: answer.present, ..Inputs::default() };
                let Inputs { ids, present, .. } = Inputs::padded(source, lengths)?;
                Ok(Inputs { ids, present, ..answered })
            }
        }
    }

    /// Runs a model and returns its logits, (batch, time, classes), or (batch, 1, classes) if it classifies whole texts;
    /// `None` if it has no head, or is an encoder–decoder model and the batch has no source.
    pub fn read(&self, model: &dyn Model, context: &Context) -> Result<Option<Tensor>> {
        let abilities = model.abilities();
        let hidden = model.hidden(context, &self.inputs(model)?)?;
        let unanswered = abilities.reads == Reads::Source && self.source.is_none();
        if unanswered || abilities.predicts == Predicts::Nothing {
            return Ok(None);
        }
        model.scores(context, &hidden).map(Some)
    }

    /// Runs a model without computing logits: a large vocabulary can cost more than the layers.
    pub fn attend(&self, model: &dyn Model, context: &Context) -> Result<()> {
        model.hidden(context, &self.inputs(model)?).map(drop)
    }

    /// The logits, or an error if the model has no head.
    pub fn scores(&self, model: &dyn Model, context: &Context) -> Result<Tensor> {
        let none =
            || Error::input("analysis", format!("this {} has no head that predicts anything", model.kind()));
        self.read(model, context)?.ok_or_else(none)
    }
}
