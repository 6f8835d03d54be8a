//! What is looked at: a model, and which of its attentions; and what it is shown.

use super::{Tokens, pad};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::models::{AttentionSite, Inputs, Model, Part, Predicts, Reads};
use regard_tensor::{Ids, Tensor};

/// A model, and which of its attentions are looked at. A model alone stands for those with which it reads.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The model.
    pub model: &'a dyn Model,
    /// The attentions.
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
    /// The attentions, in the order in which a text passes them.
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

/// The attentions of a model; see [`Subject::attentions`].
pub fn attentions<'a>(subject: impl Into<Subject<'a>>) -> Result<Vec<AttentionSite<'a>>> {
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
            (Part::Reader, Some((ids, lengths))) => (lengths, ids.shape().last()),
            _ => (&self.lengths, self.ids.shape().last()),
        }
    }

    /// What a model reads of it.
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

    /// Shows everything to a model and gives its scores, (batch, time, classes), or (batch, 1, classes) if it classifies a
    /// text as a whole; none if it has no head, or is an encoder–decoder model without an answer to read.
    pub fn read(&self, model: &dyn Model, context: &Context) -> Result<Option<Tensor>> {
        let abilities = model.abilities();
        let hidden = model.hidden(context, &self.inputs(model)?)?;
        let unanswered = abilities.reads == Reads::Source && self.source.is_none();
        if unanswered || abilities.predicts == Predicts::Nothing {
            return Ok(None);
        }
        model.scores(context, &hidden).map(Some)
    }

    /// The same without scores: a large vocabulary costs more than the layers before it.
    pub fn attend(&self, model: &dyn Model, context: &Context) -> Result<()> {
        model.hidden(context, &self.inputs(model)?).map(drop)
    }

    /// The scores, or an error if there is no head to score with.
    pub fn scores(&self, model: &dyn Model, context: &Context) -> Result<Tensor> {
        let none =
            || Error::input("analysis", format!("this {} has no head that scores anything", model.kind()));
        self.read(model, context)?.ok_or_else(none)
    }
}
