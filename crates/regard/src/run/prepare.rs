//! Preparing a run: data from files or the built-in corpus, tokenizer and model become a task.

mod language;

use super::config::{DataConfig, RunConfig};
use super::config_fields::{class_name_fields, special_token_fields};
use super::settings::possible;
use super::sources::{
    Tagged, builtin_labelled, held_out_part, images, labelled_file_and_duplicates, length, limited, parallel,
    some_images, tagged_parts, tagging, thinned,
};
use super::tokenizer::make_tokenizer;
use super::word_vectors::load_word_vectors;
use super::{initial_model, memory};
use crate::bad_usage;
use crate::terminal::thousands;
use anyhow::{Result, bail};
use regard_nn::Checksum;
use regard_nn::data::Labelled;
use regard_nn::data::batches::{Batches, Classification, Examples as _, Pictures, Translation};
use regard_nn::data::builtin::{self, Corpus, Pairs, Split};
use regard_nn::data::text::{IN_MEMORY, TokenStream};
use regard_nn::models::{Model, Predicts, Reads, Recipe};
use regard_nn::tensor::random::Key;
use regard_nn::tokens::{Special, Tokenizer};
use regard_nn::train::{Supervised, Task};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// A task that is ready to be trained, and what else its folder holds.
pub struct PreparedRun {
    /// The model with its data.
    pub task: Box<dyn Task>,
    /// The tokenizer, if the model reads text.
    pub tokenizer: Option<Tokenizer>,
    /// The image preprocessing, as in `preprocessor_config.json`.
    pub pixels: Option<Value>,
    /// Fields of `config.json` beyond the model's form: special ids, names of classes.
    pub config_fields: Map<String, Value>,
    /// A line about the data.
    pub summary: String,
    /// A checksum of the data, to notice changes.
    pub checksum: u64,
    /// Remarks to print before training begins.
    pub remarks: Vec<String>,
}

/// Reads the data, makes or takes the tokenizer, and builds the model (or takes the one given).
pub fn prepare(
    config: &RunConfig,
    tokenizer: Option<Tokenizer>,
    model: Option<Box<dyn Model>>,
) -> Result<PreparedRun> {
    prepare_in(None, config, tokenizer, model)
}

/// The same for a run in a folder, which keeps data that is too long for memory.
pub fn prepare_in(
    folder: Option<&Path>,
    config: &RunConfig,
    tokenizer: Option<Tokenizer>,
    model: Option<Box<dyn Model>>,
) -> Result<PreparedRun> {
    let key = data_key(config);
    let preparation =
        Preparation { config, folder, tokenizer, model, key, remarks: Vec::new(), sum: Checksum::default() };
    let abilities = possible(&config.model)?;
    let prepared = match (abilities.predicts, abilities.reads) {
        (Predicts::NextToken, Reads::Source) => preparation.translate(),
        (Predicts::NextToken, _) => preparation.next_word(),
        (Predicts::MaskedToken, _) => preparation.masked_words(),
        (Predicts::Class, Reads::Pictures(_)) => preparation.pictures(),
        (Predicts::Class, _) => preparation.classify(),
        (Predicts::TokenClass, _) => preparation.tag(),
        _ => bail!("this model predicts nothing that it could be trained on"),
    };
    // Problems of the data name the file, wherever they were found.
    prepared.map_err(|error| match &config.data.path {
        Some(path) if !format!("{error:#}").contains(path.as_str()) => error.context(path.clone()),
        _ => error,
    })
}

/// The random key for the order of the data and for what is held out.
pub(super) fn data_key(config: &RunConfig) -> Key {
    Key::new(config.train.seed).site("data")
}

/// Content words are class 1, function words class 0.
const WORD_CLASSES: [&str; 2] = ["function", "content"];

/// A run in preparation: one method for each kind of task.
struct Preparation<'a> {
    config: &'a RunConfig,
    folder: Option<&'a Path>,
    tokenizer: Option<Tokenizer>,
    model: Option<Box<dyn Model>>,
    key: Key,
    remarks: Vec<String>,
    sum: Checksum,
}

impl Preparation<'_> {
    fn data(&self) -> &DataConfig {
        &self.config.data
    }

    fn path(&self) -> Option<&Path> {
        self.data().path.as_deref().map(Path::new)
    }

    fn corpus(&self) -> Result<Corpus> {
        Ok(Corpus::new(self.data().builtin(), self.config.train.seed)?)
    }

    /// The built-in texts of a part; a tenth as many to measure on as to learn from.
    fn builtin_texts(&self, split: Split) -> Result<Vec<builtin::Text>> {
        let (texts, settings) = (self.data().texts, self.data().builtin());
        memory::ensure_texts_fit(
            texts,
            settings.fewest_sentences.saturating_mul(memory::BYTES_OF_A_SENTENCE),
        )?;
        let count = if split == Split::Train { texts } else { texts.div_ceil(10) };
        Ok(self.corpus()?.split(split).texts().take(count).collect())
    }

    /// The tokenizer that was given, or one made from these texts.
    fn tokenizer(&mut self, texts: &mut dyn Iterator<Item = String>, mask: bool) -> Result<Tokenizer> {
        match self.tokenizer.take() {
            Some(tokenizer) => Ok(tokenizer),
            None => make_tokenizer(
                &self.config.tokens,
                texts,
                mask,
                self.config.model.abilities()?.reads == Reads::Source,
            ),
        }
    }

    /// The model that was given, or a new one for so many tokens and classes.
    fn model(&mut self, vocabulary: usize, classes: usize) -> Result<Box<dyn Model>> {
        let (form, seed) = (&self.config.model, self.config.train.seed);
        if let Some(given) = self.model.take() {
            let (model, remark) = initial_model::fit(form, &*given, classes, seed)?;
            self.remarks.extend(remark);
            return Ok(model);
        }
        // Of a run that began from a model, all is known: that one may have had room for more tokens than there are.
        let form = match self.config.from {
            Some(_) => form.clone(),
            None => form.clone().with_vocabulary(vocabulary).with_classes(classes),
        };
        memory::ensure_model_fits(&form)?;
        Ok(form.model(seed)?)
    }

    /// Remarks that only a part of the data is trained on.
    fn remark_limit(&mut self, what: &str, kept: usize, all: usize) {
        if kept < all {
            let [kept, all] = [kept, all].map(|count| thousands(count as u64));
            self.remarks.push(format!(
                "trains on {kept} of {all} {what}: data.limit is {kept}; --set data.limit=0 trains on all"
            ));
        }
    }

    /// Rejects a batch size whose batches do not fit memory, given the lengths of the examples.
    fn ensure_batch_fits(&self, model: &dyn Model, lengths: &[usize]) -> Result<()> {
        let train = &self.config.train;
        let mean = lengths.iter().sum::<usize>() / lengths.len().max(1);
        let size = train.batch_size.min(lengths.len());
        memory::ensure_batch_fits(&Recipe::of(model)?, size, mean, train.accumulate)
    }

    /// The ids of files: in memory, or of a long text in a file in the run's folder.
    fn stream(&self, files: &[PathBuf], tokenizer: &Tokenizer, name: &str) -> Result<TokenStream> {
        let Some(folder) = self.folder else { return Ok(TokenStream::read(files, tokenizer)?) };
        let most = self.data().in_memory.unwrap_or(IN_MEMORY);
        Ok(TokenStream::read_within(files, tokenizer, most, &folder.join(name))?)
    }

    /// All of it together.
    fn finish(
        self,
        task: Box<dyn Task>,
        tokenizer: Option<Tokenizer>,
        config_fields: Map<String, Value>,
        summary: String,
    ) -> PreparedRun {
        let checksum = self.sum.value();
        PreparedRun { task, tokenizer, pixels: None, config_fields, summary, checksum, remarks: self.remarks }
    }

    fn classify(mut self) -> Result<PreparedRun> {
        let (train, held, about) = self.labelled()?;
        let (all, limit) = (train.examples.len(), self.data().limit);
        let train = thinned(train, limit);
        self.remark_limit("texts", train.examples.len(), all);
        for example in train.examples.iter().chain(&held.examples) {
            self.sum.bytes(example.text.as_bytes());
            self.sum.number(example.label as u64);
        }
        let tokenizer =
            self.tokenizer(&mut train.examples.iter().map(|example| example.text.clone()), false)?;
        let classes = train.classes.clone();
        let mut model = self.model(tokenizer.vocabulary_size(), classes.len())?;
        if let Some(file) = &self.config.data.vectors {
            let remark = load_word_vectors(&mut *model, &tokenizer, Path::new(file))?;
            self.remarks.push(remark);
        }
        let abilities = model.abilities();
        if abilities.classes != classes.len() {
            let (kind, can) = (model.kind(), abilities.classes);
            bail!("a {kind} distinguishes {can} classes, but the data has {}", classes.len());
        }
        let length = length(self.data(), abilities.context.unwrap_or(usize::MAX));
        let padding = tokenizer.special().pad.unwrap_or(0);
        let batches = |labelled: &Labelled| -> Result<Batches<Classification>> {
            let texts: Vec<&str> = labelled.examples.iter().map(|example| example.text.as_str()).collect();
            let ids = tokenizer.encode_all(&texts, Special::Keep, Some((length, self.data().keep)))?;
            let examples = Classification::new(ids, labelled.labels(), padding)?;
            self.ensure_batch_fits(&*model, &examples.lengths())?;
            Ok(Batches::new(examples, self.config.train.batch_size, self.key)?)
        };
        let summary = format!(
            "{about}: {} texts to learn from, {} held out",
            train.examples.len(),
            held.examples.len()
        );
        let mut config_fields = special_token_fields(&tokenizer);
        class_name_fields(&mut config_fields, &classes);
        let (train, held) = (batches(&train)?, batches(&held)?);
        let task = Box::new(Supervised::new(model, train, held)?);
        Ok(self.finish(task, Some(tokenizer), config_fields, summary))
    }

    /// Labelled texts to learn from and to measure on, and where they are from.
    fn labelled(&mut self) -> Result<(Labelled, Labelled, String)> {
        let Some(path) = self.path().map(Path::to_owned) else {
            let held = builtin_labelled(&self.builtin_texts(Split::Validation)?);
            let train = builtin_labelled(&self.builtin_texts(Split::Train)?);
            return Ok((train, held, "the built-in corpus".to_owned()));
        };
        let (all, duplicates) = labelled_file_and_duplicates(&path, self.data())?;
        self.remarks.extend(duplicates);
        let (train, held) = all.hold_out(self.data().held_out, self.key)?;
        Ok((train, held, path.display().to_string()))
    }

    fn translate(mut self) -> Result<PreparedRun> {
        let (train, held, about) = match self.path().map(Path::to_owned) {
            Some(folder) => {
                let part = |name: &str| parallel(&folder, name, self.data());
                let train = part("train")?;
                let held = part(held_out_part(&folder, self.data())?)?;
                (train, held, folder.display().to_string())
            }
            None => {
                let pairs = Pairs::new(self.config.train.seed);
                let take = |split: Split, count: usize| -> Vec<(String, String)> {
                    pairs.split(split).pairs().take(count).map(|pair| (pair.source, pair.target)).collect()
                };
                let count = self.data().texts;
                memory::ensure_texts_fit(count, memory::BYTES_OF_A_PAIR)?;
                let held = take(Split::Validation, count.div_ceil(10));
                (take(Split::Train, count), held, "the built-in pairs".to_owned())
            }
        };
        let all = train.len();
        let train = limited(train, self.data().limit);
        self.remark_limit("pairs", train.len(), all);
        for text in train.iter().chain(&held).flat_map(|(source, target)| [source, target]) {
            self.sum.bytes(text.as_bytes());
        }
        let mut both = train.iter().flat_map(|(source, target)| [source.clone(), target.clone()]);
        let tokenizer = self.tokenizer(&mut both, false)?;
        let model = self.model(tokenizer.vocabulary_size(), 0)?;
        let Some(start) = model.abilities().start else { bail!("a {} cannot translate", model.kind()) };
        let length = length(self.data(), usize::MAX);
        let encode = |pairs: &[(String, String)]| -> Result<Translation> {
            let side = |texts: Vec<&str>| {
                tokenizer.encode_all(&texts, Special::Keep, Some((length, self.data().keep)))
            };
            let sources = side(pairs.iter().map(|(source, _)| source.as_str()).collect())?;
            let targets = side(pairs.iter().map(|(_, target)| target.as_str()).collect())?;
            let padding = tokenizer.special().pad.unwrap_or(0);
            Ok(Translation::new(sources.into_iter().zip(targets).collect(), padding, start)?)
        };
        let size = self.config.train.batch_size;
        let summary = format!("{about}: {} pairs to learn from, {} held out", train.len(), held.len());
        let train = encode(&train)?;
        self.ensure_batch_fits(&*model, &train.lengths())?;
        let batches = Batches::new(train, size, self.key)?;
        let held_out = Batches::new(encode(&held)?, size, self.key)?;
        let mut config_fields = special_token_fields(&tokenizer);
        config_fields.insert("decoder_start_token_id".to_owned(), json!(start));
        let task = Box::new(Supervised::new(model, batches, held_out)?);
        Ok(self.finish(task, Some(tokenizer), config_fields, summary))
    }

    fn pictures(mut self) -> Result<PreparedRun> {
        let (train, held, about) = match self.path() {
            Some(folder) => {
                let (train, held) = images(folder, "train")?.hold_out(self.data().held_out, self.key)?;
                (train, held, folder.display().to_string())
            }
            None => {
                let digits =
                    |split: &str, count: usize| builtin::digits(self.config.train.seed, split, count);
                let count = self.data().texts;
                memory::ensure_texts_fit(count, memory::BYTES_OF_A_DIGIT)?;
                (
                    digits("train", count),
                    digits("validation", count.div_ceil(10)),
                    "the built-in digits".to_owned(),
                )
            }
        };
        let all = train.len();
        let train = some_images(train, self.data().limit);
        self.remark_limit("images", train.len(), all);
        for images in [&train, &held] {
            self.sum.bytes(&images.pixels);
            self.sum.bytes(&images.labels);
        }
        if let Some(patches) = self.config.model.abilities()?.pictures()
            && patches.image != [train.rows, train.columns]
            && self.model.is_none()
        {
            let [rows, columns] = patches.image;
            bad_usage!(
                "the images are {}×{}, but the model is for {rows}×{columns}: add --set model.image=[{},{}], and a model.patch that \
                 divides them",
                train.rows,
                train.columns,
                train.rows,
                train.columns
            );
        }
        let classes = train.labels.iter().chain(&held.labels).max().map_or(0, |&most| usize::from(most) + 1);
        let mean = train.pixels.iter().map(|&pixel| f64::from(pixel)).sum::<f64>()
            / train.pixels.len() as f64
            / 255.0;
        let square = |&pixel: &u8| (f64::from(pixel) / 255.0 - mean).powi(2);
        let deviation =
            (train.pixels.iter().map(square).sum::<f64>() / train.pixels.len() as f64).sqrt().max(1e-3);
        let summary = format!("{about}: {} images to learn from, {} held out", train.len(), held.len());
        let mut config_fields = Map::new();
        let names: Vec<String> = (0..classes).map(|class| class.to_string()).collect();
        class_name_fields(&mut config_fields, &names);
        let pixels = json!({
            "do_resize": true,
            "size": {"height": train.rows, "width": train.columns},
            "do_rescale": true,
            "rescale_factor": 1.0 / 255.0,
            "do_normalize": true,
            "image_mean": [mean],
            "image_std": [deviation],
            "image_processor_type": "ViTImageProcessor",
        });
        let model = self.model(0, classes)?;
        let scale = (mean as f32, deviation as f32);
        let size = self.config.train.batch_size;
        let patches = model.abilities().pictures().map_or(1, |patches| patches.count());
        self.ensure_batch_fits(&*model, &vec![patches; train.len()])?;
        let batches = Batches::new(Pictures::new(train, scale), size, self.key)?;
        let held_out = Batches::new(Pictures::new(held, scale), size.saturating_mul(4), self.key)?;
        let task = Box::new(Supervised::new(model, batches, held_out)?);
        Ok(PreparedRun { pixels: Some(pixels), ..self.finish(task, None, config_fields, summary) })
    }

    fn tag(mut self) -> Result<PreparedRun> {
        let (train, held, about) = tagged_parts(self.data(), self.config.train.seed)?;
        for (word, class) in train.iter().chain(&held).flatten() {
            self.sum.bytes(word.as_bytes());
            self.sum.number(u64::from(*class));
        }
        let mut words = train
            .iter()
            .map(|sentence| sentence.iter().map(|(word, _)| word.as_str()).collect::<Vec<_>>().join(" "));
        let tokenizer = self.tokenizer(&mut words, true)?;
        let model = self.model(tokenizer.vocabulary_size(), WORD_CLASSES.len())?;
        let length = length(self.data(), model.abilities().context.unwrap_or(usize::MAX));
        let encode = |sentences: &[Tagged], key: Key| tagging(&tokenizer, sentences, length, key);
        let size = self.config.train.batch_size;
        let summary = format!("{about}: {} sentences to learn from, {} held out", train.len(), held.len());
        let train = encode(&train, self.key.site("mask"))?;
        self.ensure_batch_fits(&*model, &train.lengths())?;
        let batches = Batches::new(train, size, self.key)?;
        let held_out = Batches::new(encode(&held, self.key.site("held out mask"))?, size, self.key)?;
        let mut config_fields = special_token_fields(&tokenizer);
        class_name_fields(&mut config_fields, &WORD_CLASSES.map(str::to_owned));
        let task = Box::new(Supervised::new(model, batches, held_out)?);
        Ok(self.finish(task, Some(tokenizer), config_fields, summary))
    }
}
