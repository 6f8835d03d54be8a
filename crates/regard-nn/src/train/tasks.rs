//! Training tasks: models with their data.

use super::{Evaluation, Task, TrainingBatch};
use crate::context::Context;
use crate::data::batches::{
    Batches, Classification, ClassificationBatch, DataPosition, Examples, IGNORED, Masked, MaskedBatch,
    PackedWindows, Pictures, PicturesBatch, RandomWindows, Tagging, TaggingBatch, Translation,
    TranslationBatch,
};
use crate::error::{Error, Result};
use crate::models::{Inputs, Model, Predicts, Reads};
use regard_tensor::ops::CrossEntropy;
use regard_tensor::{Ids, Tensor};

/// Next-token prediction on windows of a long text.
pub struct LanguageModelling {
    model: Box<dyn Model>,
    windows: RandomWindows,
    held_out: PackedWindows,
    position: DataPosition,
}

impl LanguageModelling {
    /// A causal language model, its training text and its held-out text.
    pub fn new(model: Box<dyn Model>, windows: RandomWindows, held_out: PackedWindows) -> Result<Self> {
        ensure_fit(&*model, (Predicts::NextToken, Reads::Tokens))?;
        Ok(Self { model, windows, held_out, position: DataPosition::default() })
    }
}

impl Task for LanguageModelling {
    fn model(&self) -> &dyn Model {
        &*self.model
    }

    fn model_mut(&mut self) -> &mut dyn Model {
        &mut *self.model
    }

    fn next_batch(&mut self) -> Result<TrainingBatch> {
        let batch = self.windows.batch(self.position.batch)?;
        self.position.batch += 1;
        let (examples, tokens) = (batch.ids.shape()[0], batch.ids.values().len());
        Ok(TrainingBatch { inputs: Inputs::ids(&batch.ids), targets: batch.targets, examples, tokens })
    }

    fn evaluate(&self, context: &Context) -> Result<Evaluation> {
        let mut sum = Mean::default();
        for batch in self.held_out.iter() {
            let batch = batch?;
            let inputs = Inputs::ids(&batch.ids);
            let loss = self.model.loss_of(context, &inputs, &batch.targets, settings())?.item()?;
            sum.add(f64::from(loss), batch.targets.values().len());
        }
        let loss = sum.mean();
        Ok(Evaluation { loss, measures: vec![("perplexity".to_owned(), loss.exp())] })
    }

    fn position(&self) -> DataPosition {
        self.position
    }

    fn seek(&mut self, position: DataPosition) -> Result<()> {
        self.position = position;
        Ok(())
    }
}

/// Cross-entropy in which targets equal to [`IGNORED`] do not count.
pub(super) fn settings() -> CrossEntropy {
    CrossEntropy { ignored: Some(IGNORED), smoothing: 0.0 }
}

/// Labelled examples for training.
pub trait Learn: Examples {
    /// What a model must predict and read to train on these examples.
    const FIT: (Predicts, Option<Reads>);

    /// Whether accuracy is a meaningful measure.
    const COUNTS_CORRECT: bool = true;

    /// The inputs and targets of a batch.
    fn training_batch(batch: &Self::Batch) -> Result<TrainingBatch>;
}

/// Supervised training on batches of examples.
pub struct Supervised<E> {
    model: Box<dyn Model>,
    batches: Batches<E>,
    held_out: Batches<E>,
}

impl<E: Learn> Supervised<E> {
    /// A model, its training examples and its held-out examples.
    pub fn new(model: Box<dyn Model>, batches: Batches<E>, held_out: Batches<E>) -> Result<Self> {
        ensure_learns::<E>(&*model)?;
        Ok(Self { model, batches, held_out })
    }
}

impl<E: Learn> Task for Supervised<E> {
    fn model(&self) -> &dyn Model {
        &*self.model
    }

    fn model_mut(&mut self) -> &mut dyn Model {
        &mut *self.model
    }

    fn next_batch(&mut self) -> Result<TrainingBatch> {
        E::training_batch(&self.batches.next()?)
    }

    fn evaluate(&self, context: &Context) -> Result<Evaluation> {
        evaluate(&*self.model, &self.held_out, context)
    }

    fn position(&self) -> DataPosition {
        self.batches.position()
    }

    fn seek(&mut self, position: DataPosition) -> Result<()> {
        self.batches.seek(position)
    }
}

/// The mean loss of a model on all examples, and its accuracy if [`Learn`] declares it meaningful.
pub fn evaluate<E: Learn>(model: &dyn Model, batches: &Batches<E>, context: &Context) -> Result<Evaluation> {
    ensure_learns::<E>(model)?;
    let (mut sum, mut correct, mut answers) = (Mean::default(), 0, 0);
    for batch in batches.once() {
        context.check()?;
        let TrainingBatch { inputs, targets, .. } = E::training_batch(&batch?)?;
        let hidden = model.hidden(context, &inputs)?;
        let loss = f64::from(model.loss(context, &hidden, &targets, settings())?.item()?);
        let counted = counted(&targets);
        sum.add(loss, counted);
        if E::COUNTS_CORRECT {
            correct += count_correct(&model.scores(context, &hidden)?, &targets)?;
            answers += counted;
        }
    }
    let accuracy = (answers > 0).then(|| ("accuracy".to_owned(), correct as f64 / answers as f64));
    Ok(Evaluation { loss: sum.mean(), measures: accuracy.into_iter().collect() })
}

impl Learn for Classification {
    const FIT: (Predicts, Option<Reads>) = (Predicts::Class, Some(Reads::Tokens));

    fn training_batch(batch: &ClassificationBatch) -> Result<TrainingBatch> {
        Ok(TrainingBatch {
            inputs: Inputs::padded(&batch.ids, &batch.lengths)?,
            targets: batch.labels.clone(),
            examples: batch.lengths.len(),
            tokens: batch.lengths.iter().sum(),
        })
    }
}

impl Learn for Pictures {
    const FIT: (Predicts, Option<Reads>) = (Predicts::Class, None);

    fn training_batch(batch: &PicturesBatch) -> Result<TrainingBatch> {
        let examples = batch.labels.values().len();
        let (inputs, targets) = (Inputs::pictures(&batch.pixels), batch.labels.clone());
        Ok(TrainingBatch { inputs, targets, examples, tokens: examples })
    }
}

impl Learn for Masked {
    const FIT: (Predicts, Option<Reads>) = (Predicts::MaskedToken, Some(Reads::Tokens));

    fn training_batch(batch: &MaskedBatch) -> Result<TrainingBatch> {
        Ok(TrainingBatch {
            inputs: Inputs::masked(&batch.ids, Some(&batch.present)),
            targets: batch.targets.clone(),
            examples: batch.lengths.len(),
            tokens: batch.lengths.iter().sum(),
        })
    }
}

impl Learn for Tagging {
    const FIT: (Predicts, Option<Reads>) = (Predicts::TokenClass, Some(Reads::Tokens));

    fn training_batch(batch: &TaggingBatch) -> Result<TrainingBatch> {
        Ok(TrainingBatch {
            inputs: Inputs::padded(&batch.ids, &batch.lengths)?,
            targets: batch.targets.clone(),
            examples: batch.lengths.len(),
            tokens: batch.lengths.iter().sum(),
        })
    }
}

impl Learn for Translation {
    const FIT: (Predicts, Option<Reads>) = (Predicts::NextToken, Some(Reads::Source));
    const COUNTS_CORRECT: bool = false;

    fn training_batch(batch: &TranslationBatch) -> Result<TrainingBatch> {
        let tokens = [&batch.source_present, &batch.target_present]
            .map(|mask| mask.values().iter().filter(|&&here| here).count());
        let source = Inputs::masked(&batch.source, Some(&batch.source_present));
        Ok(TrainingBatch {
            inputs: source.answered(&batch.input, None),
            targets: batch.targets.clone(),
            examples: batch.source.shape()[0],
            tokens: tokens.iter().sum(),
        })
    }
}

/// Rejects a model that cannot predict the targets of the examples.
fn ensure_learns<E: Learn>(model: &dyn Model) -> Result<()> {
    let (predicts, reads) = E::FIT;
    match (reads, model.abilities().pictures()) {
        (Some(reads), _) => ensure_fit(model, (predicts, reads)),
        (None, Some(patches)) => ensure_fit(model, (predicts, Reads::Pictures(patches))),
        (None, None) => Err(Error::input("training", format!("a {} cannot classify pictures", model.kind()))),
    }
}

fn ensure_fit(model: &dyn Model, (predicts, reads): (Predicts, Reads)) -> Result<()> {
    let abilities = model.abilities();
    if (abilities.predicts, abilities.reads) == (predicts, reads) {
        return Ok(());
    }
    let what = match (predicts, reads) {
        (Predicts::NextToken, Reads::Source) => "translate",
        (Predicts::NextToken, _) => "predict the next token",
        (Predicts::MaskedToken, _) => "predict masked words",
        (Predicts::Class, Reads::Pictures(_)) => "classify pictures",
        (Predicts::Class, _) => "classify texts",
        (Predicts::TokenClass, _) => "classify words",
        (Predicts::Span, _) => "find answers",
        (Predicts::Vector, _) => "compare inputs",
        (Predicts::Nothing, _) => "be trained",
    };
    Err(Error::input("training", format!("a {} cannot {what}", model.kind())))
}

/// The number of targets that are not ignored.
pub(super) fn counted(targets: &Ids) -> usize {
    targets.values().iter().filter(|&&id| id != IGNORED).count()
}

/// The number of correct predictions among the targets that are not ignored.
fn count_correct(scores: &Tensor, targets: &Ids) -> Result<usize> {
    let best = scores.argmax(-1)?;
    let counts = best.values().iter().zip(targets.values()).filter(|(_, target)| **target != IGNORED);
    Ok(counts.filter(|(best, target)| best == target).count())
}

/// A weighted mean.
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
