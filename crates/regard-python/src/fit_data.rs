//! Data in memory as batches: texts or rows of ids with their targets, one long text, pictures.

use anyhow::{Context as _, Result, bail, ensure};
use pyo3::prelude::*;
use regard::model::Opened;
use regard::run::memory::ensure_batch_fits;
use regard_nn::data::batches::{
    Batches, DataPosition, Examples, IGNORED, Masked, Masking, PackedWindows, RandomWindows, Selection,
    WindowBatch,
};
use regard_nn::data::text::TokenStream;
use regard_nn::models::{Inputs, Model, Predicts, Reads, Recipe};
use regard_nn::tensor::random::Key;
use regard_nn::tensor::{Ids, Tensor};
use regard_nn::tokens::{Keep, Special};
use regard_nn::train::{Learn as _, TrainConfig, TrainingBatch};

/// What Python gives. Pictures come beside it.
#[derive(FromPyObject)]
pub struct Given {
    /// Texts or rows of ids; empty if the inputs are pictures.
    inputs: Rows,
    /// Whether the only input is one long text, of which windows are read.
    windows: bool,
    /// What to predict, where that does not follow from the inputs.
    targets: Option<Targets>,
    /// The id of the token that hides others, for models without a tokenizer.
    mask: Option<u32>,
}

/// Texts, or rows of ids.
#[derive(FromPyObject)]
enum Rows {
    Texts(Vec<String>),
    Ids(Vec<Vec<u32>>),
}

/// A class for each input, a class or token for each of its tokens (below 0: none), or answers.
#[derive(FromPyObject)]
enum Targets {
    Classes(Vec<i64>),
    Rows(Vec<Vec<i64>>),
    Texts(Vec<String>),
}

/// One example: what is read, what a decoder has read, what is predicted.
struct Example {
    ids: Vec<u32>,
    answer: Vec<u32>,
    targets: Vec<u32>,
}

/// Examples with pictures, if they are some.
pub struct Arrays {
    examples: Vec<Example>,
    pictures: Option<Tensor>,
    /// Whether there is one target for each token.
    by_token: bool,
}

/// Batches for training, without end.
pub enum Source {
    Arrays(Batches<Arrays>),
    Masked(Batches<Masked>),
    Windows(RandomWindows, u64),
}

/// Batches for evaluation.
pub enum Held {
    Arrays(Batches<Arrays>),
    Masked(Batches<Masked>),
    Windows(PackedWindows),
}

/// What was given, before it is divided into batches.
enum Prepared {
    Arrays(Arrays),
    Masked(Masked),
    Stream(TokenStream, usize),
}

impl Source {
    pub fn new(
        opened: &Opened,
        given: Given,
        pictures: Option<Tensor>,
        config: &TrainConfig,
    ) -> Result<Self> {
        let key = Key::new(config.seed);
        let prepared = prepare(opened, given, pictures, config)?;
        Ok(match prepared {
            Prepared::Arrays(arrays) => Self::Arrays(Batches::new(arrays, config.batch_size, key)?),
            Prepared::Masked(masked) => Self::Masked(Batches::new(masked, config.batch_size, key)?),
            Prepared::Stream(stream, context) => {
                let length = context.min(stream.len().saturating_sub(1)).max(1);
                Self::Windows(RandomWindows::new(stream, length, config.batch_size, key)?, 0)
            }
        })
    }

    pub fn next(&mut self) -> regard_nn::Result<TrainingBatch> {
        match self {
            Self::Arrays(batches) => batches.next(),
            Self::Masked(batches) => Masked::training_batch(&batches.next()?),
            Self::Windows(windows, batch) => {
                let window = windows.batch(*batch)?;
                *batch += 1;
                Ok(of_windows(&window))
            }
        }
    }

    pub fn position(&self) -> DataPosition {
        match self {
            Self::Arrays(batches) => batches.position(),
            Self::Masked(batches) => batches.position(),
            Self::Windows(_, batch) => DataPosition { epoch: 0, batch: *batch },
        }
    }

    pub fn seek(&mut self, position: DataPosition) -> regard_nn::Result<()> {
        match self {
            Self::Arrays(batches) => batches.seek(position),
            Self::Masked(batches) => batches.seek(position),
            Self::Windows(_, batch) => {
                *batch = position.batch;
                Ok(())
            }
        }
    }
}

impl Held {
    pub fn new(
        opened: &Opened,
        given: Given,
        pictures: Option<Tensor>,
        config: &TrainConfig,
    ) -> Result<Self> {
        // What is masked in them must not change between evaluations, nor be that of the training data.
        let key = Key::new(config.seed).site("held out");
        Ok(match prepare(opened, given, pictures, config)? {
            Prepared::Arrays(arrays) => Self::Arrays(Batches::new(arrays, config.batch_size, key)?),
            Prepared::Masked(masked) => Self::Masked(Batches::new(masked, config.batch_size, key)?),
            Prepared::Stream(stream, context) => {
                Self::Windows(PackedWindows::new(stream, context, config.batch_size)?)
            }
        })
    }

    /// Calls a function with every batch.
    pub fn each(
        &self,
        call: &mut dyn FnMut(TrainingBatch) -> regard_nn::Result<()>,
    ) -> regard_nn::Result<()> {
        match self {
            Self::Arrays(batches) => batches.once().try_for_each(|batch| call(batch?)),
            Self::Masked(batches) => {
                batches.once().try_for_each(|batch| call(Masked::training_batch(&batch?)?))
            }
            Self::Windows(windows) => windows.iter().try_for_each(|batch| call(of_windows(&batch?))),
        }
    }
}

fn of_windows(batch: &WindowBatch) -> TrainingBatch {
    let WindowBatch { ids, targets, .. } = batch;
    let (examples, tokens) = (ids.shape()[0], ids.count());
    TrainingBatch { inputs: Inputs::ids(ids), targets: targets.clone(), examples, tokens }
}

/// What a model needs of what was given.
fn prepare(
    opened: &Opened,
    given: Given,
    pictures: Option<Tensor>,
    config: &TrainConfig,
) -> Result<Prepared> {
    let model = &*opened.model;
    let Given { inputs, windows, targets, mask } = given;
    if model.abilities().pictures().is_some() {
        let pictures = pictures.context("a model that reads pictures is trained on an array of them")?;
        return of_pictures(model, pictures, targets).map(Prepared::Arrays);
    }
    ensure!(pictures.is_none(), "a {} reads text, not pictures", model.kind());
    let rows = encoded(opened, inputs, windows)?;
    if let Some(row) = rows.iter().position(Vec::is_empty) {
        bail!("input {row} is empty: there is nothing to read");
    }
    ensure_ids(model, &rows)?;
    let longest = rows.iter().map(Vec::len).max().context("there is nothing to learn from")?;
    let context = model.abilities().context.unwrap_or(longest);
    ensure_batch_fits(
        &Recipe::of(model)?,
        if windows { config.batch_size } else { config.batch_size.min(rows.len()) },
        longest.min(context),
        config.accumulate,
    )?;
    let abilities = model.abilities();
    match (abilities.predicts, abilities.reads, targets) {
        (Predicts::NextToken, Reads::Source, targets) => answers(opened, rows, targets).map(Prepared::Arrays),
        (Predicts::NextToken, _, None) if windows => {
            let ids = rows.into_iter().next().unwrap_or_default();
            Ok(Prepared::Stream(TokenStream::new(&ids)?, context))
        }
        (Predicts::NextToken, _, None) => Ok(Prepared::Arrays(shifted(rows)?)),
        (Predicts::MaskedToken, _, None) => {
            let masking = masking(opened, mask)?;
            Ok(Prepared::Masked(Masked::new(rows, masking, Key::new(config.seed))))
        }
        (Predicts::Class, _, Some(Targets::Classes(classes))) => {
            ensure_as_many(rows.len(), classes.len())?;
            let one = |(ids, class): (Vec<u32>, i64)| {
                let targets = vec![target(class, abilities.classes)?];
                Ok(Example { ids, answer: Vec::new(), targets })
            };
            let examples = rows.into_iter().zip(classes).map(one).collect::<Result<_>>()?;
            Ok(Prepared::Arrays(Arrays { examples, pictures: None, by_token: false }))
        }
        (Predicts::NextToken | Predicts::MaskedToken | Predicts::TokenClass, _, Some(Targets::Rows(all))) => {
            by_token(rows, all, abilities.classes).map(Prepared::Arrays)
        }
        (Predicts::Class, ..) => bail!("a {} needs a class for each input, from 0", model.kind()),
        (Predicts::TokenClass, ..) => {
            bail!("a {} needs a row of classes for each input, one a token", model.kind())
        }
        (Predicts::NextToken | Predicts::MaskedToken, ..) => bail!(
            "a {} predicts tokens of its inputs: targets are left out, or a row of tokens for each input",
            model.kind()
        ),
        _ => bail!("a {} has no head that could be trained on data", model.kind()),
    }
}

fn ensure_as_many(inputs: usize, targets: usize) -> Result<()> {
    ensure!(inputs == targets, "there are {inputs} inputs and {targets} targets");
    Ok(())
}

fn ensure_ids(model: &dyn Model, rows: &[Vec<u32>]) -> Result<()> {
    let known = model.token_embeddings().map_or(usize::MAX, |table| table.tensor().shape()[0]);
    let unknown = rows.iter().flatten().find(|&&id| id as usize >= known);
    ensure!(unknown.is_none(), "the model has {known} tokens: there is no token {}", unknown.unwrap_or(&0));
    Ok(())
}

/// Texts and rows as ids, cut to what the model reads unless windows of them are read.
fn encoded(opened: &Opened, rows: Rows, windows: bool) -> Result<Vec<Vec<u32>>> {
    let context = opened.model.abilities().context.filter(|_| !windows);
    match rows {
        Rows::Texts(texts) if texts.is_empty() => Ok(Vec::new()),
        Rows::Texts(texts) => {
            let Some(tokenizer) = &opened.tokenizer else {
                bail!("this {} has no tokenizer; give token ids instead of texts", opened.model.kind());
            };
            let limit = context.map(|context| (context, Keep::First));
            Ok(tokenizer.encode_all(&texts, if windows { Special::Drop } else { Special::Keep }, limit)?)
        }
        Rows::Ids(mut rows) => {
            for row in &mut rows {
                row.truncate(context.unwrap_or(usize::MAX));
            }
            Ok(rows)
        }
    }
}

/// A class or token as a target; below 0 it does not count.
fn target(class: i64, classes: usize) -> Result<u32> {
    match usize::try_from(class) {
        Err(_) => Ok(IGNORED),
        Ok(class) if class < classes => Ok(class as u32),
        Ok(class) => bail!("the model predicts one of {classes}: there is no target {class}"),
    }
}

/// Every token but the first is to be predicted from those before it.
fn shifted(rows: Vec<Vec<u32>>) -> Result<Arrays> {
    let one = |mut ids: Vec<u32>| {
        let targets = ids[1..].to_vec();
        ids.pop();
        Example { ids, answer: Vec::new(), targets }
    };
    let examples: Vec<Example> = rows.into_iter().filter(|ids| ids.len() > 1).map(one).collect();
    ensure!(!examples.is_empty(), "no input has two tokens: there is nothing to predict");
    Ok(Arrays { examples, pictures: None, by_token: true })
}

fn by_token(rows: Vec<Vec<u32>>, targets: Vec<Vec<i64>>, classes: usize) -> Result<Arrays> {
    ensure_as_many(rows.len(), targets.len())?;
    let one = |(number, (ids, row)): (usize, (Vec<u32>, Vec<i64>))| {
        ensure!(row.len() >= ids.len(), "input {number} has {} tokens and {} targets", ids.len(), row.len());
        let targets =
            row[..ids.len()].iter().map(|&class| target(class, classes)).collect::<Result<Vec<_>>>()?;
        Ok(Example { ids, answer: Vec::new(), targets })
    };
    let examples = rows.into_iter().zip(targets).enumerate().map(one).collect::<Result<_>>()?;
    Ok(Arrays { examples, pictures: None, by_token: true })
}

/// Sources and what is answered to them: the decoder reads its start and the answer but for the last token.
fn answers(opened: &Opened, rows: Vec<Vec<u32>>, targets: Option<Targets>) -> Result<Arrays> {
    let model = &*opened.model;
    let answers = match targets {
        Some(Targets::Texts(texts)) => encoded(opened, Rows::Texts(texts), false)?,
        Some(Targets::Rows(all)) => {
            let id = |&id: &i64| u32::try_from(id).context("the ids of an answer count from 0");
            all.iter().map(|row| row.iter().map(id).collect()).collect::<Result<Vec<Vec<u32>>>>()?
        }
        _ => bail!("a {} learns from answers: texts or rows of ids as targets", model.kind()),
    };
    ensure_as_many(rows.len(), answers.len())?;
    ensure_ids(model, &answers)?;
    let start = model.abilities().start.unwrap_or(0);
    let one = |(number, (ids, targets)): (usize, (Vec<u32>, Vec<u32>))| {
        ensure!(!targets.is_empty(), "answer {number} is empty");
        let answer = std::iter::once(start).chain(targets.iter().copied()).take(targets.len()).collect();
        Ok(Example { ids, answer, targets })
    };
    let examples = rows.into_iter().zip(answers).enumerate().map(one).collect::<Result<_>>()?;
    Ok(Arrays { examples, pictures: None, by_token: true })
}

fn of_pictures(model: &dyn Model, pictures: Tensor, targets: Option<Targets>) -> Result<Arrays> {
    let abilities = model.abilities();
    let Some(patches) = abilities.pictures() else { bail!("a {} reads text", model.kind()) };
    let ([height, width], channels) = (patches.image, patches.channels);
    let count = match pictures.shape()[..] {
        [count, c, h, w] if [c, h, w] == [channels, height, width] => count,
        _ => bail!(
            "the model reads pictures of {channels} × {height} × {width}: an array (pictures, {channels}, {height}, {width}) was \
             expected, got {}",
            pictures.shape()
        ),
    };
    let Some(Targets::Classes(classes)) = targets else { bail!("pictures need a class each, from 0") };
    ensure!(count > 0, "there is nothing to learn from");
    ensure_as_many(count, classes.len())?;
    let one = |class: i64| {
        Ok(Example { ids: Vec::new(), answer: Vec::new(), targets: vec![target(class, abilities.classes)?] })
    };
    let examples = classes.into_iter().map(one).collect::<Result<_>>()?;
    Ok(Arrays { examples, pictures: Some(pictures), by_token: false })
}

/// Which token hides others: the tokenizer's, or the one given.
fn masking(opened: &Opened, mask: Option<u32>) -> Result<Masking> {
    if let (Some(tokenizer), None) = (&opened.tokenizer, mask) {
        return Ok(Masking::new(tokenizer)?);
    }
    let rows = opened.model.token_embeddings().map_or(0, |table| table.tensor().shape()[0]);
    let Some(mask) = mask.filter(|&mask| (mask as usize) < rows) else {
        bail!("masked words need a tokenizer, or mask= with the id of the token that hides others");
    };
    let allowed = (0..rows as u32).map(|id| id != mask).collect();
    Ok(Masking::from_ids(mask, 0, allowed)?)
}

impl Examples for Arrays {
    type Batch = TrainingBatch;

    fn lengths(&self) -> Vec<usize> {
        self.examples.iter().map(|example| (example.ids.len() + example.answer.len()).max(1)).collect()
    }

    fn batch(&self, selection: Selection) -> regard_nn::Result<TrainingBatch> {
        let chosen: Vec<&Example> =
            selection.examples.iter().map(|&example| &self.examples[example]).collect();
        let count = chosen.len();
        let targets = if self.by_token {
            padded(chosen.iter().map(|example| &example.targets[..]), IGNORED)?.0
        } else {
            let all: Vec<u32> = chosen.iter().flat_map(|example| example.targets.iter().copied()).collect();
            Ids::new(&all, [count])?
        };
        if let Some(pictures) = &self.pictures {
            let shape = pictures.shape();
            let size = shape[1..].iter().product::<usize>();
            let values = pictures.values();
            let mut chosen = Vec::with_capacity(count * size);
            for &example in &selection.examples {
                chosen.extend_from_slice(&values[example * size..][..size]);
            }
            let chosen = Tensor::new(&chosen, [count, shape[1], shape[2], shape[3]])?;
            return Ok(TrainingBatch {
                inputs: Inputs::pictures(&chosen),
                targets,
                examples: count,
                tokens: count,
            });
        }
        let (ids, lengths) = padded(chosen.iter().map(|example| &example.ids[..]), 0)?;
        let tokens = lengths.iter().sum();
        let even = lengths.iter().all(|&length| length == ids.shape()[1]);
        let mut inputs = if even { Inputs::ids(&ids) } else { Inputs::padded(&ids, &lengths)? };
        if chosen.iter().any(|example| !example.answer.is_empty()) {
            // Decoders look back: what follows an answer changes nothing in it.
            let (answer, _) = padded(chosen.iter().map(|example| &example.answer[..]), 0)?;
            inputs = inputs.answered(&answer, None);
        }
        Ok(TrainingBatch { inputs, targets, examples: count, tokens })
    }
}

/// Rows as one array, padded to the longest, and their lengths.
fn padded<'a>(rows: impl Iterator<Item = &'a [u32]>, with: u32) -> regard_nn::Result<(Ids, Vec<usize>)> {
    let rows: Vec<&[u32]> = rows.collect();
    let longest = rows.iter().map(|row| row.len()).max().unwrap_or(0);
    let mut all = Vec::with_capacity(rows.len() * longest);
    for row in &rows {
        all.extend_from_slice(row);
        all.resize(all.len() + longest - row.len(), with);
    }
    let lengths = rows.iter().map(|row| row.len()).collect();
    Ok((Ids::new(&all, [rows.len(), longest])?, lengths))
}
