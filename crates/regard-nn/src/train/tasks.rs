//! Models with the data they learn from.

use super::{Evaluation, Question, Task};
use crate::context::Context;
use crate::data::batches::{
    Batches, Classification, ClassificationBatch, Examples, IGNORED, Masked, MaskedBatch, PackedWindows,
    Pictures, PicturesBatch, Position, RandomWindows, Tagging, TaggingBatch, Translation, TranslationBatch,
};
use crate::error::{Error, Result};
use crate::models::{Inputs, Model, Predicts, Reads};
use regard_tensor::ops::CrossEntropy;
use regard_tensor::{Ids, Tensor};

/// A model that learns to predict the next token, from windows of a long text.
pub struct NextWord {
    model: Box<dyn Model>,
    windows: RandomWindows,
    held_out: PackedWindows,
    position: Position,
}

impl NextWord {
    /// A causal language model, the text it learns from, and the text it is measured on.
    pub fn new(model: Box<dyn Model>, windows: RandomWindows, held_out: PackedWindows) -> Result<Self> {
        ensure_fit(&*model, (Predicts::NextToken, Reads::Tokens))?;
        Ok(Self { model, windows, held_out, position: Position::default() })
    }
}

impl Task for NextWord {
    fn model(&self) -> &dyn Model {
        &*self.model
    }

    fn model_mut(&mut self) -> &mut dyn Model {
        &mut *self.model
    }

    fn next_question(&mut self) -> Result<Question> {
        let batch = self.windows.batch(self.position.batch)?;
        self.position.batch += 1;
        let (examples, tokens) = (batch.ids.shape()[0], batch.ids.values().len());
        Ok(Question { inputs: Inputs::ids(&batch.ids), targets: batch.targets, examples, tokens })
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

    fn position(&self) -> Position {
        self.position
    }

    fn seek(&mut self, position: Position) -> Result<()> {
        self.position = position;
        Ok(())
    }
}

/// Targets equal to [`IGNORED`] do not count.
pub(super) fn settings() -> CrossEntropy {
    CrossEntropy { ignored: Some(IGNORED), smoothing: 0.0 }
}

/// Examples that a model can learn from.
pub trait Learn: Examples {
    /// What a model must predict and read to learn from them.
    const FIT: (Predicts, Option<Reads>);

    /// Whether the share of correct predictions says anything.
    const COUNTS_CORRECT: bool = true;

    /// What a batch asks, and the right answers.
    fn question(batch: &Self::Batch) -> Result<Question>;
}

/// A model that learns from examples in batches.
pub struct Supervised<E> {
    model: Box<dyn Model>,
    batches: Batches<E>,
    held_out: Batches<E>,
}

impl<E: Learn> Supervised<E> {
    /// A model, the examples it learns from, and those it is measured on.
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

    fn next_question(&mut self) -> Result<Question> {
        E::question(&self.batches.next()?)
    }

    fn evaluate(&self, context: &Context) -> Result<Evaluation> {
        evaluate(&*self.model, &self.held_out, context)
    }

    fn position(&self) -> Position {
        self.batches.position()
    }

    fn seek(&mut self, position: Position) -> Result<()> {
        self.batches.seek(position)
    }
}

/// The mean loss of a model on all examples, and its accuracy where there is one.
pub fn evaluate<E: Learn>(model: &dyn Model, batches: &Batches<E>, context: &Context) -> Result<Evaluation> {
    ensure_learns::<E>(model)?;
    let (mut sum, mut correct, mut answers) = (Mean::default(), 0, 0);
    for batch in batches.once() {
        context.check()?;
        let Question { inputs, targets, .. } = E::question(&batch?)?;
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

    fn question(batch: &ClassificationBatch) -> Result<Question> {
        Ok(Question {
            inputs: Inputs::padded(&batch.ids, &batch.lengths)?,
            targets: batch.labels.clone(),
            examples: batch.lengths.len(),
            tokens: batch.lengths.iter().sum(),
        })
    }
}

impl Learn for Pictures {
    const FIT: (Predicts, Option<Reads>) = (Predicts::Class, None);

    fn question(batch: &PicturesBatch) -> Result<Question> {
        let examples = batch.labels.values().len();
        let (inputs, targets) = (Inputs::pictures(&batch.pixels), batch.labels.clone());
        Ok(Question { inputs, targets, examples, tokens: examples })
    }
}

impl Learn for Masked {
    const FIT: (Predicts, Option<Reads>) = (Predicts::MaskedToken, Some(Reads::Tokens));

    fn question(batch: &MaskedBatch) -> Result<Question> {
        Ok(Question {
            inputs: Inputs::masked(&batch.ids, Some(&batch.present)),
            targets: batch.targets.clone(),
            examples: batch.lengths.len(),
            tokens: batch.lengths.iter().sum(),
        })
    }
}

impl Learn for Tagging {
    const FIT: (Predicts, Option<Reads>) = (Predicts::TokenClass, Some(Reads::Tokens));

    fn question(batch: &TaggingBatch) -> Result<Question> {
        Ok(Question {
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

    fn question(batch: &TranslationBatch) -> Result<Question> {
        let tokens = [&batch.source_present, &batch.target_present]
            .map(|mask| mask.values().iter().filter(|&&here| here).count());
        let source = Inputs::masked(&batch.source, Some(&batch.source_present));
        Ok(Question {
            inputs: source.answered(&batch.input, None),
            targets: batch.targets.clone(),
            examples: batch.source.shape()[0],
            tokens: tokens.iter().sum(),
        })
    }
}

/// Rejects a model that predicts something else than examples ask for.
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

/// How many targets count.
pub(super) fn counted(targets: &Ids) -> usize {
    targets.values().iter().filter(|&&id| id != IGNORED).count()
}

/// How many of the best scores (…, classes) are the targets that count.
fn count_correct(scores: &Tensor, targets: &Ids) -> Result<usize> {
    let best = scores.argmax(-1)?;
    let counts = best.values().iter().zip(targets.values()).filter(|(_, target)| **target != IGNORED);
    Ok(counts.filter(|(best, target)| best == target).count())
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
