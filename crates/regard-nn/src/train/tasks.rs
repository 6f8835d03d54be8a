//! Models with the data they learn from.

use super::{Evaluation, Loss, Task};
use crate::context::Context;
use crate::data::batches::{
    Batches, Classification, ClassificationBatch, Examples, IGNORED, Masked, MaskedBatch, PackedWindows,
    Pictures, PicturesBatch, Position, RandomWindows, Tagging, TaggingBatch, Translation, TranslationBatch,
};
use crate::error::{Error, Result};
use crate::models::Model;
use regard_tensor::ops::CrossEntropy;
use regard_tensor::{Ids, Tensor};

/// A model that learns to say what comes next, from windows of a long text.
pub struct NextWord {
    model: Model,
    windows: RandomWindows,
    held_out: PackedWindows,
    position: Position,
}

impl NextWord {
    /// A GPT or Llama, the text it learns from, and the text it is measured on.
    pub fn new(model: Model, windows: RandomWindows, held_out: PackedWindows) -> Result<Self> {
        match model {
            Model::Gpt(_) | Model::Llama(_) => {
                Ok(Self { model, windows, held_out, position: Position::default() })
            }
            other => Err(unfit(&other, "say what comes next")),
        }
    }

    fn loss(&self, context: &Context, ids: &Ids, targets: &Ids) -> Result<Tensor> {
        match &self.model {
            Model::Gpt(model) => model.loss(context, ids, targets),
            Model::Llama(model) => model.loss(context, ids, targets),
            other => Err(unfit(other, "say what comes next")),
        }
    }
}

impl Task for NextWord {
    fn model(&self) -> &Model {
        &self.model
    }

    fn model_mut(&mut self) -> &mut Model {
        &mut self.model
    }

    fn next_loss(&mut self, context: &Context) -> Result<Loss> {
        let batch = self.windows.batch(self.position.batch)?;
        self.position.batch += 1;
        let mean = self.loss(context, &batch.ids, &batch.targets)?;
        Ok(Loss { mean, examples: batch.ids.shape()[0], tokens: batch.ids.values().len() })
    }

    fn evaluate(&self, context: &Context) -> Result<Evaluation> {
        let mut sum = Mean::default();
        for batch in self.held_out.iter() {
            let batch = batch?;
            let loss = self.loss(context, &batch.ids, &batch.targets)?.item()?;
            sum.add(f64::from(loss), batch.targets.values().len());
        }
        let loss = sum.mean();
        Ok(Evaluation { loss, measures: vec![("perplexity".to_owned(), loss.exp())] })
    }

    fn position(&self) -> Position {
        self.position
    }

    fn seek(&mut self, position: Position) -> Result<()> {
        self.position = position;
        Ok(())
    }
}

/// Examples that a model can learn from.
pub trait Learn: Examples {
    /// The loss of a batch.
    fn loss(model: &Model, context: &Context, batch: &Self::Batch) -> Result<Loss>;

    /// How often a model is right on a batch, and how many answers that was; `None` if there is no right or wrong.
    fn right(model: &Model, context: &Context, batch: &Self::Batch) -> Result<Option<(usize, usize)>>;

    /// How much a batch counts in a mean over all.
    fn weight(batch: &Self::Batch) -> usize;
}

/// A model that learns from examples in batches.
pub struct Supervised<E> {
    model: Model,
    batches: Batches<E>,
    held_out: Batches<E>,
}

impl<E: Learn> Supervised<E> {
    /// A model, the examples it learns from, and those it is measured on.
    pub fn new(model: Model, batches: Batches<E>, held_out: Batches<E>) -> Self {
        Self { model, batches, held_out }
    }
}

impl<E: Learn> Task for Supervised<E> {
    fn model(&self) -> &Model {
        &self.model
    }

    fn model_mut(&mut self) -> &mut Model {
        &mut self.model
    }

    fn next_loss(&mut self, context: &Context) -> Result<Loss> {
        let batch = self.batches.next()?;
        E::loss(&self.model, context, &batch)
    }

    fn evaluate(&self, context: &Context) -> Result<Evaluation> {
        evaluate(&self.model, &self.held_out, context)
    }

    fn position(&self) -> Position {
        self.batches.position()
    }

    fn seek(&mut self, position: Position) -> Result<()> {
        self.batches.seek(position)
    }
}

/// The mean loss of a model on all examples, and its accuracy where there is one.
pub fn evaluate<E: Learn>(model: &Model, batches: &Batches<E>, context: &Context) -> Result<Evaluation> {
    let (mut sum, mut right, mut answers) = (Mean::default(), 0, 0);
    for batch in batches.once() {
        context.check()?;
        let batch = batch?;
        let loss = f64::from(E::loss(model, context, &batch)?.mean.item()?);
        sum.add(loss, E::weight(&batch));
        if let Some((these, of)) = E::right(model, context, &batch)? {
            right += these;
            answers += of;
        }
    }
    let accuracy = (answers > 0).then(|| ("accuracy".to_owned(), right as f64 / answers as f64));
    Ok(Evaluation { loss: sum.mean(), measures: accuracy.into_iter().collect() })
}

impl Learn for Classification {
    fn loss(model: &Model, context: &Context, batch: &ClassificationBatch) -> Result<Loss> {
        let scores = model.classify(context, &batch.ids, &batch.lengths)?;
        let mean = scores.cross_entropy(&batch.labels, CrossEntropy::default())?;
        Ok(Loss { mean, examples: batch.lengths.len(), tokens: batch.lengths.iter().sum() })
    }

    fn right(
        model: &Model,
        context: &Context,
        batch: &ClassificationBatch,
    ) -> Result<Option<(usize, usize)>> {
        let scores = model.classify(context, &batch.ids, &batch.lengths)?;
        count_right(&scores, &batch.labels).map(Some)
    }

    fn weight(batch: &ClassificationBatch) -> usize {
        batch.lengths.len()
    }
}

impl Learn for Pictures {
    fn loss(model: &Model, context: &Context, batch: &PicturesBatch) -> Result<Loss> {
        let Model::Vit(model) = model else { return Err(unfit(model, "look at pictures")) };
        let mean = model.loss(context, &batch.pixels, &batch.labels)?;
        let examples = batch.labels.values().len();
        Ok(Loss { mean, examples, tokens: examples })
    }

    fn right(model: &Model, context: &Context, batch: &PicturesBatch) -> Result<Option<(usize, usize)>> {
        let Model::Vit(model) = model else { return Err(unfit(model, "look at pictures")) };
        count_right(&model.forward(context, &batch.pixels)?, &batch.labels).map(Some)
    }

    fn weight(batch: &PicturesBatch) -> usize {
        batch.labels.values().len()
    }
}

impl Learn for Masked {
    fn loss(model: &Model, context: &Context, batch: &MaskedBatch) -> Result<Loss> {
        let Model::Bert(model) = model else { return Err(unfit(model, "guess words")) };
        let mean = model.loss(context, &batch.ids, Some(&batch.present), &batch.targets, IGNORED)?;
        Ok(Loss { mean, examples: batch.lengths.len(), tokens: batch.lengths.iter().sum() })
    }

    fn right(model: &Model, context: &Context, batch: &MaskedBatch) -> Result<Option<(usize, usize)>> {
        let Model::Bert(model) = model else { return Err(unfit(model, "guess words")) };
        let encoded = model.encode(context, &batch.ids, None, Some(&batch.present))?;
        count_right(&model.words(context, &encoded)?, &batch.targets).map(Some)
    }

    fn weight(batch: &MaskedBatch) -> usize {
        counted(&batch.targets)
    }
}

impl Learn for Tagging {
    fn loss(model: &Model, context: &Context, batch: &TaggingBatch) -> Result<Loss> {
        let Model::Tagger(model) = model else { return Err(unfit(model, "tag words")) };
        let mean = model.loss(context, &batch.ids, Some(&batch.lengths), &batch.targets, IGNORED)?;
        Ok(Loss { mean, examples: batch.lengths.len(), tokens: batch.lengths.iter().sum() })
    }

    fn right(model: &Model, context: &Context, batch: &TaggingBatch) -> Result<Option<(usize, usize)>> {
        let Model::Tagger(model) = model else { return Err(unfit(model, "tag words")) };
        let scores = model.forward(context, &batch.ids, Some(&batch.lengths))?;
        count_right(&scores, &batch.targets).map(Some)
    }

    fn weight(batch: &TaggingBatch) -> usize {
        counted(&batch.targets)
    }
}

impl Learn for Translation {
    fn loss(model: &Model, context: &Context, batch: &TranslationBatch) -> Result<Loss> {
        let Model::T5(model) = model else { return Err(unfit(model, "translate")) };
        let source = (&batch.source, Some(&batch.source_present));
        let mean = model.loss(context, source, (&batch.input, &batch.targets), IGNORED)?;
        let tokens = [&batch.source_present, &batch.target_present]
            .map(|mask| mask.values().iter().filter(|&&here| here).count());
        Ok(Loss { mean, examples: batch.source.shape()[0], tokens: tokens.iter().sum() })
    }

    fn right(_: &Model, _: &Context, _: &TranslationBatch) -> Result<Option<(usize, usize)>> {
        Ok(None)
    }

    fn weight(batch: &TranslationBatch) -> usize {
        counted(&batch.targets)
    }
}

fn unfit(model: &Model, what: &str) -> Error {
    Error::Checkpoint(format!("a {} cannot {what}", model.kind()))
}

/// How many targets count.
fn counted(targets: &Ids) -> usize {
    targets.values().iter().filter(|&&id| id != IGNORED).count()
}

/// How many of the best scores (…, classes) are the targets that count.
fn count_right(scores: &Tensor, targets: &Ids) -> Result<(usize, usize)> {
    let best = scores.argmax(-1)?;
    let counts = best.values().iter().zip(targets.values()).filter(|(_, target)| **target != IGNORED);
    Ok((counts.clone().filter(|(best, target)| best == target).count(), counts.count()))
}

/// A mean of parts of different weight.
#[derive(Default)]
struct Mean {
    sum: f64,
    weight: usize,
}

impl Mean {
    fn add(&mut self, value: f64, weight: usize) {
        self.sum += value * weight as f64;
        self.weight += weight;
    }

    fn mean(&self) -> f64 {
        self.sum / self.weight.max(1) as f64
    }
}
