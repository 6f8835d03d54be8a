//! `regard eval`: how good a model is on data it has not seen.

use crate::classes::matched;
use crate::compute::Compute;
use crate::corpus::evenly;
use crate::corpus_analysis::texts::normalised;
use crate::forward_pass::prediction::class_names;
use crate::model::Opened;
use crate::run::{EvaluationData, RunFolder, sources};
use crate::terminal::{self, line};
use anyhow::{Result, bail};
use clap::Args;
use regard_nn::Context;
use regard_nn::data::batches::{Batches, Classification, Masked, Masking, PackedWindows};
use regard_nn::generate::{Answer, BeamSettings, beam_search};
use regard_nn::metrics::{Bleu, Confusion, RocCurve, perplexity};
use regard_nn::models::{Inputs, Model, Predicts, Reads};
use regard_nn::tensor::ops::CrossEntropy;
use regard_nn::tensor::random::Key;
use regard_nn::tensor::{Ids, Mask};
use regard_nn::tokens::Special;
use regard_nn::train::evaluate;

/// Measure a trained model on data.
///
/// Language models: loss and perplexity. Classifiers: accuracy, precision, recall, F1, ROC-AUC, confusion matrix.
/// Translation: BLEU. The first line of the output names the data. Of data that the model was trained on, only the test
/// part (or else the held-out part) is used.
#[derive(Args)]
#[command(after_help = "Examples:
  regard eval runs/bag
  regard eval runs/imdb --data aclImdb_v1.tar.gz        its test split
  regard eval runs/multi30k --data multi30k --part test_2016_flickr --beams 4")]
pub struct Evaluate {
    /// A run or another model
    model: String,
    /// A file or folder to measure on (default: what the run learned from, else the built-in corpus)
    #[arg(long)]
    data: Option<String>,
    /// The part of a parallel corpus
    #[arg(long, default_value = "test")]
    part: String,
    /// The number of beams for translation
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    beams: u16,
    /// The most examples (for language models: windows) to measure on, taken evenly (0: all)
    #[arg(long, default_value_t = 0)]
    limit: usize,
    /// The number of examples in a batch
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    batch_size: u32,
    #[command(flatten)]
    compute: Compute,
}

impl Evaluate {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        let opened = self.compute.open(&self.model)?;
        let learned = RunFolder::config_in(&opened.folder)?;
        let path = self.data.as_deref().map(crate::fetch::data::named).transpose()?;
        let data = EvaluationData::new(path, learned);
        let abilities = opened.model.abilities();
        match (abilities.predicts, abilities.reads) {
            (Predicts::NextToken, Reads::Source) => self.translation(&opened, &data),
            (Predicts::NextToken, _) => self.language(&opened, &data),
            (Predicts::MaskedToken, _) => self.masked(&opened, &data),
            (Predicts::Class, Reads::Pictures(_)) => self.pictures(&opened, &data),
            (Predicts::Class, _) => self.classes(&opened, &data),
            (Predicts::TokenClass, _) => self.tags(&opened, &data),
            _ => bail!("this {} predicts nothing that could be measured", opened.model.kind()),
        }
    }

    /// As many as requested, spread evenly: files often have one class after the other.
    fn limited<T: Clone>(&self, all: &[T]) -> Vec<T> {
        evenly(all, self.limit).cloned().collect()
    }

    fn language(&self, opened: &Opened, data: &EvaluationData) -> Result<()> {
        let tokenizer = opened.tokenizer()?;
        let (stream, about) = data.language(tokenizer)?;
        // Positions beyond those it was trained on mean nothing to some models.
        let length = sources::length(data.config(), opened.model.abilities().context.unwrap_or(usize::MAX));
        let windows = PackedWindows::new(stream, length, self.batch_size as usize)?;
        measured_on(&about);
        let (mut sum, mut count) = (0.0, 0);
        let most = if self.limit == 0 { usize::MAX } else { self.limit };
        for batch in windows.evenly(most) {
            let batch = batch?;
            let context = Context::inference();
            let inputs = Inputs::ids(&batch.ids);
            let loss = opened.model.loss_of(&context, &inputs, &batch.targets, CrossEntropy::default())?;
            let tokens = batch.targets.values().len();
            sum += f64::from(loss.item()?) * tokens as f64;
            count += tokens as u64;
        }
        line(format!("tokens      {count}"));
        line(format!("loss        {:.4}", sum / count as f64));
        line(format!("perplexity  {:.3}", perplexity(sum, count)?));
        Ok(())
    }

    fn masked(&self, opened: &Opened, data: &EvaluationData) -> Result<()> {
        let tokenizer = opened.tokenizer()?;
        let (texts, about) = data.texts(self.limit)?;
        measured_on(&about);
        let length = sources::length(data.config(), opened.model.abilities().context.unwrap_or(usize::MAX));
        let ids = tokenizer.encode_all(&texts, Special::Keep, Some((length, data.config().keep)))?;
        let masked = Masked::new(ids, Masking::new(tokenizer)?, Key::new(0).site("eval"));
        let batches = Batches::new(masked, self.batch_size as usize, Key::new(0))?;
        simple(opened, &batches, texts.len())
    }

    fn classes(&self, opened: &Opened, data: &EvaluationData) -> Result<()> {
        let tokenizer = opened.tokenizer()?;
        let (labelled, about) = data.labelled()?;
        let names = class_names(opened);
        let (classes, remark) = matched(&names, &labelled.classes)?;
        measured_on(&about);
        if let Some(remark) = remark {
            terminal::remark(remark);
        }
        let examples = self.limited(&labelled.examples);
        let texts: Vec<&str> = examples.iter().map(|example| example.text.as_str()).collect();
        let length = sources::length(data.config(), opened.model.abilities().context.unwrap_or(usize::MAX));
        let ids = tokenizer.encode_all(&texts, Special::Keep, Some((length, data.config().keep)))?;
        let labels: Vec<usize> = examples.iter().map(|example| classes[example.label]).collect();
        let padding = tokenizer.special().pad.unwrap_or(0);
        let batches =
            Batches::new(Classification::new(ids, labels, padding)?, self.batch_size as usize, Key::new(0))?;
        let (mut truth, mut predicted, mut scores) = (Vec::new(), Vec::new(), Vec::new());
        for batch in batches.once() {
            let batch = batch?;
            let inputs = Inputs::padded(&batch.ids, &batch.lengths)?;
            let logits = opened.model.forward(&Context::inference(), &inputs)?;
            let classes = logits.shape().last();
            truth.extend(batch.labels.values().iter().map(|&label| label as usize));
            predicted.extend(logits.argmax(-1)?.values().iter().map(|&class| class as usize));
            scores.extend(logits.values().chunks(classes).map(|row| row[classes - 1] - row[0]));
        }
        report_classes(&names, &truth, &predicted, &scores)
    }

    fn pictures(&self, opened: &Opened, data: &EvaluationData) -> Result<()> {
        let (images, about) = data.images()?;
        let images = sources::some_images(images, self.limit);
        measured_on(&about);
        let count = images.len();
        let pictures = normalised(opened, images)?;
        simple(opened, &Batches::new(pictures, self.batch_size as usize, Key::new(0))?, count)
    }

    fn tags(&self, opened: &Opened, data: &EvaluationData) -> Result<()> {
        let tokenizer = opened.tokenizer()?;
        let (sentences, about) = data.tagged()?;
        let sentences = self.limited(&sentences);
        measured_on(&about);
        let length = sources::length(data.config(), opened.model.abilities().context.unwrap_or(usize::MAX));
        let tagging = sources::tagging(tokenizer, &sentences, length, Key::new(0).site("eval"))?;
        simple(opened, &Batches::new(tagging, self.batch_size as usize, Key::new(0))?, sentences.len())
    }

    fn translation(&self, opened: &Opened, data: &EvaluationData) -> Result<()> {
        let (tokenizer, model) = (opened.tokenizer()?, &*opened.model);
        let (pairs, about) = data.pairs(&self.part)?;
        let pairs = self.limited(&pairs);
        measured_on(&about);
        let (mut bleu, mut exact) = (Bleu::default(), 0);
        let bar = crate::terminal::bar(pairs.len() as u64);
        for pairs in pairs.chunks(self.batch_size as usize) {
            let sources: Vec<&str> = pairs.iter().map(|(source, _)| source.as_str()).collect();
            let ids = tokenizer.encode_all(&sources, Special::Keep, None)?;
            let outputs = translate(model, tokenizer, &ids, usize::from(self.beams))?;
            for (output, (_, target)) in outputs.iter().zip(pairs) {
                bleu.add(output, &[target])?;
                exact += usize::from(output.trim() == target);
            }
            bar.inc(pairs.len() as u64);
        }
        bar.finish_and_clear();
        let score = bleu.score()?;
        line(format!("pairs       {}", pairs.len()));
        line(format!("BLEU        {:.2}", score.score));
        line(format!("exact       {:.4}", exact as f64 / pairs.len().max(1) as f64));
        Ok(())
    }
}

fn measured_on(about: &str) {
    line(format!("data        {about}"));
}

/// Loss and accuracy.
fn simple<E: regard_nn::train::Learn>(opened: &Opened, batches: &Batches<E>, count: usize) -> Result<()> {
    let found = evaluate(&*opened.model, batches, &Context::inference())?;
    line(format!("examples    {count}"));
    line(format!("loss        {:.4}", found.loss));
    for (name, value) in found.measures {
        line(format!("{name:<11} {value:.4}"));
    }
    Ok(())
}

/// The outputs of an encoder–decoder model for encoded sources.
fn translate(
    model: &dyn Model,
    tokenizer: &regard_nn::tokens::Tokenizer,
    sources: &[Vec<u32>],
    beams: usize,
) -> Result<Vec<String>> {
    let longest = sources.iter().map(Vec::len).max().unwrap_or(0);
    let pad = tokenizer.special().pad.unwrap_or(0);
    let padded: Vec<u32> = sources
        .iter()
        .flat_map(|ids| ids.iter().copied().chain(std::iter::repeat(pad)).take(longest))
        .collect();
    let ids = Ids::new(&padded, [sources.len(), longest])?;
    let present = Mask::from_fn([sources.len(), longest], |at| at[1] < sources[at[0]].len());
    let context = Context::inference();
    let answer = Answer::new(model, &context, &ids, Some(&present), beams.max(1))?;
    let settings = BeamSettings {
        beams: beams.max(1),
        max_tokens: 2 * longest + 10,
        stop_tokens: tokenizer.special().eos.into_iter().collect(),
        ..BeamSettings::default()
    };
    let found = beam_search(&answer, &context, &answer.start(), &settings)?;
    let best = found.iter().map(|texts| texts.first().map(|text| text.tokens.as_slice()).unwrap_or_default());
    Ok(best.map(|tokens| tokenizer.decode(tokens, Special::Drop)).collect::<regard_nn::Result<_>>()?)
}

fn report_classes(names: &[String], truth: &[usize], predicted: &[usize], scores: &[f32]) -> Result<()> {
    let confusion = Confusion::of(names.len(), truth, predicted)?;
    line(format!("examples    {}", truth.len()));
    line(format!("accuracy    {:.4}", confusion.accuracy()));
    if names.len() == 2 {
        line(format!("precision   {:.4}", confusion.precision(1)));
        line(format!("recall      {:.4}", confusion.recall(1)));
        line(format!("F1          {:.4}", confusion.f1(1)));
        let positive: Vec<bool> = truth.iter().map(|&class| class == 1).collect();
        if let Ok(curve) = RocCurve::of(&positive, scores) {
            line(format!("ROC-AUC     {:.4}", curve.area()));
        }
    } else {
        line(format!("macro F1    {:.4}", confusion.macro_f1()));
    }
    line("confusion (rows: truth, columns: prediction)");
    let widest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(8);
    let header: Vec<String> = names.iter().map(|name| format!("{name:>widest$}")).collect();
    line(format!("{:widest$} {}", "", header.join(" ")));
    for (row, name) in names.iter().enumerate() {
        let counts: Vec<String> =
            (0..names.len()).map(|column| format!("{:>widest$}", confusion.count(row, column))).collect();
        line(format!("{name:>widest$} {}", counts.join(" ")));
    }
    Ok(())
}
