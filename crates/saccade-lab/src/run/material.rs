//! What a run learns from: files or the built-in corpus, turned into a task.

use super::config::{DataConfig, ModelConfig, RunConfig, TokensConfig, TokensKind};
use anyhow::{Context as _, Result, bail};
use saccade::data::batches::{
    Batches, Classification, IGNORED, Masked, Masking, PackedWindows, Pictures, RandomWindows, Tagging,
    Translation,
};
use saccade::data::builtin::{self, Corpus, Pairs, Settings, Split};
use saccade::data::idx::Images;
use saccade::data::imdb::Imdb;
use saccade::data::parallel::Parallel;
use saccade::data::text::{TokenStream, with_texts};
use saccade::data::{Example, Labelled, table, treebank};
use saccade::models::{Bag, Bert, Gpt, Llama, Model, Sentiment, T5, Tagger, Vit};
use saccade::tensor::random::Key;
use saccade::tokens::{
    BytePairSettings, Special, Tokenizer, UnknownCharacter, WhitespaceSettings, WordPieceSettings,
    WordSettings,
};
use saccade::train::{NextWord, Supervised, Task};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// A task ready to be trained, and what its folder needs besides.
pub struct Material {
    /// The model with its data.
    pub task: Box<dyn Task>,
    /// How text becomes ids, where there is text.
    pub tokenizer: Option<Tokenizer>,
    /// How images become what the model reads, as `preprocessor_config.json` says it.
    pub pixels: Option<Value>,
    /// What `config.json` says beyond the model's form: special ids, names of classes.
    pub notes: Map<String, Value>,
    /// A line about the data, which also tells whether it has changed.
    pub summary: String,
}

/// Reads the data, makes or takes the tokenizer, and builds the model (or takes the one given).
pub fn prepare(config: &RunConfig, tokenizer: Option<Tokenizer>, model: Option<Model>) -> Result<Material> {
    let key = Key::new(config.train.seed).site("data");
    let plan = Plan { config, tokenizer, model, key };
    match &config.model {
        ModelConfig::Gpt(_) | ModelConfig::Llama(_) => plan.next_word(),
        ModelConfig::Bert(bert) if bert.heads.classes.is_none() => plan.masked_words(),
        ModelConfig::Bert(_) | ModelConfig::Sentiment(_) | ModelConfig::Bag(_) => plan.classify(),
        ModelConfig::T5(_) => plan.translate(),
        ModelConfig::Vit(_) => plan.pictures(),
        ModelConfig::Tagger(_) => plan.tag(),
    }
}

/// Content words are class 1, function words class 0.
const WORD_CLASSES: [&str; 2] = ["function", "content"];

struct Plan<'a> {
    config: &'a RunConfig,
    tokenizer: Option<Tokenizer>,
    model: Option<Model>,
    key: Key,
}

impl Plan<'_> {
    fn data(&self) -> &DataConfig {
        &self.config.data
    }

    fn path(&self) -> Option<&Path> {
        self.data().path.as_deref().map(Path::new)
    }

    fn corpus(&self) -> Result<Corpus> {
        Ok(Corpus::new(Settings::default(), self.config.train.seed)?)
    }

    /// The built-in texts of a part; a tenth as many to measure on as to learn from.
    fn builtin_texts(&self, split: Split) -> Result<Vec<builtin::Text>> {
        let count = if split == Split::Train { self.data().texts } else { self.data().texts.div_ceil(10) };
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
                matches!(self.config.model, ModelConfig::T5(_)),
            ),
        }
    }

    /// The model that was given, or a new one for so many tokens and classes.
    fn model(&mut self, vocabulary: usize, classes: usize) -> Result<Model> {
        if let Some(model) = self.model.take() {
            return Ok(model);
        }
        build(&self.config.model, vocabulary, classes, self.config.train.seed)
    }

    fn next_word(mut self) -> Result<Material> {
        let (tokenizer, stream, held_out, about) = if let Some(path) = self.path().map(Path::to_owned) {
            let (train, test) = text_files(&path)?;
            let tokenizer = match self.tokenizer.take() {
                Some(tokenizer) => tokenizer,
                None => with_texts(&train, |texts| {
                    make_tokenizer(&self.config.tokens, texts, false, false)
                        .map_err(|error| saccade::Error::Checkpoint(format!("{error:#}")))
                })?,
            };
            let stream = TokenStream::read(&train, &tokenizer)?;
            let (stream, held_out) = match test {
                Some(test) => (stream, TokenStream::read(&[test], &tokenizer)?),
                None => stream.hold_out(self.data().held_out)?,
            };
            (tokenizer, stream, held_out, path.display().to_string())
        } else {
            let join = |texts: Vec<builtin::Text>| -> Vec<String> {
                texts.iter().map(|text| format!("{}\n", text.text())).collect()
            };
            let (train, held) =
                (join(self.builtin_texts(Split::Train)?), join(self.builtin_texts(Split::Validation)?));
            let tokenizer = self.tokenizer(&mut train.iter().cloned(), false)?;
            let stream = |texts: &[String]| -> Result<TokenStream> {
                let end = tokenizer.special().eos;
                let ids = tokenizer.encode_all(texts, Special::Drop, None)?;
                Ok(TokenStream::new(
                    &ids.into_iter().flat_map(|ids| ids.into_iter().chain(end)).collect::<Vec<_>>(),
                )?)
            };
            let (stream, held_out) = (stream(&train)?, stream(&held)?);
            (tokenizer, stream, held_out, "the built-in corpus".to_owned())
        };
        let summary = format!("{about}: {} tokens to learn from, {} held out", stream.len(), held_out.len());
        let model = self.model(tokenizer.vocabulary_size(), 0)?;
        tokenizer.ensure_fits(model.token_embeddings().map_or(0, |table| table.shape()[0]))?;
        let context = match &model {
            Model::Gpt(model) => model.config().context,
            Model::Llama(model) => model.config().context,
            other => bail!("a {} cannot say what comes next", other.kind()),
        };
        let train = &self.config.train;
        let windows = RandomWindows::new(stream, context, train.batch_size, self.key)?;
        let held_out = PackedWindows::new(held_out, context, 4 * train.batch_size)?;
        let notes = special_notes(&tokenizer);
        let task = Box::new(NextWord::new(model, windows, held_out)?);
        Ok(Material { task, tokenizer: Some(tokenizer), pixels: None, notes, summary })
    }

    fn masked_words(mut self) -> Result<Material> {
        let (train, held) = match self.path().map(Path::to_owned) {
            Some(path) => {
                let (train, test) = text_files(&path)?;
                let mut lines = lines(&train)?;
                let held = match test {
                    Some(test) => self::lines(&[test])?,
                    None => lines.split_off(split_point(lines.len(), self.data().held_out)?),
                };
                (lines, held)
            }
            None => {
                let join =
                    |texts: Vec<builtin::Text>| texts.iter().map(|text| text.text().to_owned()).collect();
                let train: Vec<String> = join(self.builtin_texts(Split::Train)?);
                (train, join(self.builtin_texts(Split::Validation)?))
            }
        };
        let train = limited(train, self.data().limit);
        let tokenizer = self.tokenizer(&mut train.iter().cloned(), true)?;
        let model = self.model(tokenizer.vocabulary_size(), 0)?;
        let Model::Bert(bert) = &model else { bail!("a {} cannot guess words", model.kind()) };
        let length = length(self.data(), bert.config().context);
        let encode =
            |texts: &[String]| tokenizer.encode_all(texts, Special::Keep, Some((length, self.data().keep)));
        let masking = Masking::new(&tokenizer)?;
        let size = self.config.train.batch_size;
        let summary = format!("{} texts to learn from, {} held out", train.len(), held.len());
        let batches = Batches::new(Masked::new(encode(&train)?, masking.clone(), self.key), size, self.key)?;
        let held_out =
            Batches::new(Masked::new(encode(&held)?, masking, self.key.site("held out")), size, self.key)?;
        let notes = special_notes(&tokenizer);
        let task = Box::new(Supervised::new(model, batches, held_out));
        Ok(Material { task, tokenizer: Some(tokenizer), pixels: None, notes, summary })
    }

    fn classify(mut self) -> Result<Material> {
        let (train, held, about) = self.labelled()?;
        let train = Labelled { examples: limited(train.examples, self.data().limit), ..train };
        let tokenizer =
            self.tokenizer(&mut train.examples.iter().map(|example| example.text.clone()), false)?;
        let classes = train.classes.clone();
        let model = self.model(tokenizer.vocabulary_size(), classes.len())?;
        if !matches!(model, Model::Bert(_)) && classes.len() != 2 {
            bail!("a {} tells two classes apart, but the data has {}", model.kind(), classes.len());
        }
        let most = if let Model::Bert(model) = &model { model.config().context } else { usize::MAX };
        let length = length(self.data(), most);
        let padding = tokenizer.special().pad.unwrap_or(0);
        let batches = |labelled: &Labelled| -> Result<Batches<Classification>> {
            let texts: Vec<&str> = labelled.examples.iter().map(|example| example.text.as_str()).collect();
            let ids = tokenizer.encode_all(&texts, Special::Keep, Some((length, self.data().keep)))?;
            let examples = Classification::new(ids, labelled.labels(), padding)?;
            Ok(Batches::new(examples, self.config.train.batch_size, self.key)?)
        };
        let summary = format!(
            "{about}: {} texts to learn from, {} held out",
            train.examples.len(),
            held.examples.len()
        );
        let mut notes = special_notes(&tokenizer);
        class_notes(&mut notes, &classes);
        let task = Box::new(Supervised::new(model, batches(&train)?, batches(&held)?));
        Ok(Material { task, tokenizer: Some(tokenizer), pixels: None, notes, summary })
    }

    /// Labelled texts to learn from and to measure on, and where they are from.
    fn labelled(&self) -> Result<(Labelled, Labelled, String)> {
        let Some(path) = self.path() else {
            let held = builtin_labelled(&self.builtin_texts(Split::Validation)?);
            let train = builtin_labelled(&self.builtin_texts(Split::Train)?);
            return Ok((train, held, "the built-in corpus".to_owned()));
        };
        let all = labelled_file(path, self.data())?;
        let (train, held) = all.hold_out(self.data().held_out, self.key)?;
        Ok((train, held, path.display().to_string()))
    }

    fn translate(mut self) -> Result<Material> {
        let (train, held, about) = match self.path().map(Path::to_owned) {
            Some(folder) => {
                let part = |name: &str| parallel(&folder, name, self.data());
                let train = part("train")?;
                let held = part("val").or_else(|_| part("valid")).or_else(|_| part("dev"))?;
                (train, held, folder.display().to_string())
            }
            None => {
                let pairs = Pairs::new(self.config.train.seed);
                let take = |split: Split, count: usize| -> Vec<(String, String)> {
                    pairs.split(split).pairs().take(count).map(|pair| (pair.source, pair.target)).collect()
                };
                let count = self.data().texts;
                let held = take(Split::Validation, count.div_ceil(10));
                (take(Split::Train, count), held, "the built-in pairs".to_owned())
            }
        };
        let train = limited(train, self.data().limit);
        let mut both = train.iter().flat_map(|(source, target)| [source.clone(), target.clone()]);
        let tokenizer = self.tokenizer(&mut both, false)?;
        let model = self.model(tokenizer.vocabulary_size(), 0)?;
        let Model::T5(t5) = &model else { bail!("a {} cannot translate", model.kind()) };
        let length = length(self.data(), usize::MAX);
        let encode = |pairs: &[(String, String)]| -> Result<Translation> {
            let side = |texts: Vec<&str>| {
                tokenizer.encode_all(&texts, Special::Keep, Some((length, self.data().keep)))
            };
            let sources = side(pairs.iter().map(|(source, _)| source.as_str()).collect())?;
            let targets = side(pairs.iter().map(|(_, target)| target.as_str()).collect())?;
            let padding = tokenizer.special().pad.unwrap_or(0);
            Ok(Translation::new(sources.into_iter().zip(targets).collect(), padding, t5.config().start)?)
        };
        let size = self.config.train.batch_size;
        let summary = format!("{about}: {} pairs to learn from, {} held out", train.len(), held.len());
        let batches = Batches::new(encode(&train)?, size, self.key)?;
        let held_out = Batches::new(encode(&held)?, size, self.key)?;
        let mut notes = special_notes(&tokenizer);
        notes.insert("decoder_start_token_id".to_owned(), json!(t5.config().start));
        let task = Box::new(Supervised::new(model, batches, held_out));
        Ok(Material { task, tokenizer: Some(tokenizer), pixels: None, notes, summary })
    }

    fn pictures(mut self) -> Result<Material> {
        let (train, held, about) = match self.path() {
            Some(folder) => {
                let open = |part: &str| images(folder, part);
                (open("train")?, open("t10k")?, folder.display().to_string())
            }
            None => {
                let digits =
                    |split: &str, count: usize| builtin::digits(self.config.train.seed, split, count);
                let count = self.data().texts;
                (
                    digits("train", count),
                    digits("validation", count.div_ceil(10)),
                    "the built-in digits".to_owned(),
                )
            }
        };
        let train = Images { labels: limited(train.labels.clone(), self.data().limit), ..train };
        let classes = train.labels.iter().chain(&held.labels).max().map_or(0, |&most| usize::from(most) + 1);
        let mean = train.pixels.iter().map(|&pixel| f64::from(pixel)).sum::<f64>()
            / train.pixels.len() as f64
            / 255.0;
        let square = |&pixel: &u8| (f64::from(pixel) / 255.0 - mean).powi(2);
        let deviation =
            (train.pixels.iter().map(square).sum::<f64>() / train.pixels.len() as f64).sqrt().max(1e-3);
        let summary = format!("{about}: {} images to learn from, {} held out", train.len(), held.len());
        let mut notes = Map::new();
        let names: Vec<String> = (0..classes).map(|class| class.to_string()).collect();
        class_notes(&mut notes, &names);
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
        let batches = Batches::new(Pictures::new(train, scale), size, self.key)?;
        let held_out = Batches::new(Pictures::new(held, scale), 4 * size, self.key)?;
        let task = Box::new(Supervised::new(model, batches, held_out));
        Ok(Material { task, tokenizer: None, pixels: Some(pixels), notes, summary })
    }

    fn tag(mut self) -> Result<Material> {
        let (train, held, about) = match self.path() {
            Some(path) => {
                let mut sentences = tagged_file(path)?;
                let held = sentences.split_off(split_point(sentences.len(), self.data().held_out)?);
                (sentences, held, path.display().to_string())
            }
            None => {
                let (train, held) =
                    (self.builtin_texts(Split::Train)?, self.builtin_texts(Split::Validation)?);
                (tagged(&train), tagged(&held), "the built-in corpus".to_owned())
            }
        };
        let train = limited(train, self.data().limit);
        let mut words = train
            .iter()
            .map(|sentence| sentence.iter().map(|(word, _)| word.as_str()).collect::<Vec<_>>().join(" "));
        let tokenizer = self.tokenizer(&mut words, true)?;
        let model = self.model(tokenizer.vocabulary_size(), WORD_CLASSES.len())?;
        let Model::Tagger(tagger) = &model else { bail!("a {} cannot tag words", model.kind()) };
        let length = length(self.data(), tagger.config().context);
        let encode = |sentences: &[Tagged], key: Key| tagging(&tokenizer, sentences, length, key);
        let size = self.config.train.batch_size;
        let summary = format!("{about}: {} sentences to learn from, {} held out", train.len(), held.len());
        let batches = Batches::new(encode(&train, self.key.site("mask"))?, size, self.key)?;
        let held_out = Batches::new(encode(&held, self.key.site("held out mask"))?, size, self.key)?;
        let mut notes = special_notes(&tokenizer);
        class_notes(&mut notes, &WORD_CLASSES.map(str::to_owned));
        let task = Box::new(Supervised::new(model, batches, held_out));
        Ok(Material { task, tokenizer: Some(tokenizer), pixels: None, notes, summary })
    }
}

/// Words with their class.
pub type Tagged = Vec<(String, u32)>;

/// Sentences in which some words are hidden, to be told content or function word.
pub fn tagging(tokenizer: &Tokenizer, sentences: &[Tagged], length: usize, key: Key) -> Result<Tagging> {
    let Some(mask) = tokenizer.special().mask else { bail!("the tokenizer has no mask") };
    let (mut texts, mut classes) = (Vec::new(), Vec::new());
    for (i, sentence) in sentences.iter().enumerate() {
        let sentence = &sentence[..sentence.len().min(length)];
        let (text, class) = masked_sentence(tokenizer, sentence, mask, key, i)?;
        texts.push(text);
        classes.push(class);
    }
    Ok(Tagging::new(texts, classes, tokenizer.special().pad.unwrap_or(0))?)
}

/// The most tokens of a text that a model which reads `most` is to get.
pub fn length(config: &DataConfig, most: usize) -> usize {
    if config.length == 0 { most } else { config.length.min(most) }
}

/// The number of built-in texts that a model is tested on.
const TEST_TEXTS: usize = 2_000;

/// Built-in texts that no model was trained on.
pub fn builtin_test(_: &DataConfig) -> Result<Vec<builtin::Text>> {
    let corpus = Corpus::new(Settings::default(), 0)?.split(Split::Test);
    Ok(corpus.texts().take(TEST_TEXTS).collect())
}

/// Texts to test on: the lines of a file, or built-in ones.
pub fn test_texts(config: &DataConfig) -> Result<Vec<String>> {
    match &config.path {
        Some(path) => lines(&[PathBuf::from(path)]),
        None => Ok(builtin_test(config)?.iter().map(|text| text.text().to_owned()).collect()),
    }
}

/// Labelled texts to test on: IMDb's test part, a table, or built-in ones.
pub fn test_labelled(config: &DataConfig) -> Result<Labelled> {
    match config.path.as_deref().map(Path::new) {
        Some(path) if is_imdb(path) => Ok(Imdb::open(path)?.test),
        Some(path) => labelled_file(path, config),
        None => Ok(builtin_labelled(&builtin_test(config)?)),
    }
}

/// Images to test on.
pub fn test_images(config: &DataConfig) -> Result<Images> {
    match &config.path {
        Some(path) => images(Path::new(path), "t10k"),
        None => Ok(builtin::digits(0, "test", TEST_TEXTS)),
    }
}

/// Sentences with the classes of their words to test on.
pub fn test_tagged(config: &DataConfig) -> Result<Vec<Tagged>> {
    match &config.path {
        Some(path) => tagged_file(Path::new(path)),
        None => Ok(tagged(&builtin_test(config)?)),
    }
}

/// Pairs to test on.
pub fn test_pairs(config: &DataConfig, part: &str) -> Result<Vec<(String, String)>> {
    match &config.path {
        Some(path) => parallel(Path::new(path), part, config),
        None => {
            let pairs = Pairs::new(0).split(Split::Test);
            Ok(pairs.pairs().take(TEST_TEXTS / 2).map(|pair| (pair.source, pair.target)).collect())
        }
    }
}

fn builtin_labelled(texts: &[builtin::Text]) -> Labelled {
    let example = |text: &builtin::Text| Example {
        text: text.text().to_owned(),
        second: None,
        label: text.label.class(),
    };
    Labelled {
        classes: vec!["negative".to_owned(), "positive".to_owned()],
        examples: texts.iter().map(example).collect(),
    }
}

/// Whether a path is IMDb's archive or folder rather than a table.
fn is_imdb(path: &Path) -> bool {
    let name = path.to_string_lossy();
    path.is_dir() || [".tar.gz", ".tar", ".tgz"].iter().any(|end| name.ends_with(end))
}

/// A sentence with about one word in seven hidden (at least one), and the classes of those.
fn masked_sentence(
    tokenizer: &Tokenizer,
    sentence: &[(String, u32)],
    mask: u32,
    key: Key,
    number: usize,
) -> Result<(Vec<u32>, Vec<u32>)> {
    let sure = key.below(number as u64, u64::MAX, sentence.len().max(1));
    let (mut ids, mut classes) = (Vec::new(), Vec::new());
    for (place, (word, class)) in sentence.iter().enumerate() {
        let hidden = place == sure || key.uniform(number as u64, place as u64) < 1.0 / 7.0;
        let pieces = tokenizer.encode(word, Special::Drop)?.ids;
        let id = pieces.first().copied().or(tokenizer.special().unknown).unwrap_or(mask);
        ids.push(if hidden { mask } else { id });
        classes.push(if hidden { *class } else { IGNORED });
    }
    Ok((ids, classes))
}

fn tagged(texts: &[builtin::Text]) -> Vec<Tagged> {
    let sentences = texts.iter().flat_map(|text| &text.sentences);
    let words = sentences.map(|sentence| {
        let kept = sentence.words.iter().filter(|word| word.part_of_speech.tag() != "PUNCT");
        kept.map(|word| (word.text.clone(), u32::from(word.part_of_speech.is_content()))).collect()
    });
    words.filter(|sentence: &Tagged| !sentence.is_empty()).collect()
}

fn tagged_file(path: &Path) -> Result<Vec<Tagged>> {
    const CONTENT: [&str; 6] = ["ADJ", "ADV", "INTJ", "NOUN", "PROPN", "VERB"];
    let sentences = treebank::read(path)?.into_iter().map(|sentence| {
        let words = sentence
            .words
            .into_iter()
            .map(|word| (word.form, treebank::PARTS_OF_SPEECH[word.part_of_speech]));
        let kept = words.filter(|(_, tag)| !["PUNCT", "SYM", "X"].contains(tag));
        kept.map(|(form, tag)| (form, u32::from(CONTENT.contains(&tag)))).collect()
    });
    Ok(sentences.filter(|sentence: &Tagged| !sentence.is_empty()).collect())
}

/// Labelled texts of a file: IMDb's archive or folder, or a table.
pub fn labelled_file(path: &Path, config: &DataConfig) -> Result<Labelled> {
    if is_imdb(path) {
        return Ok(Imdb::open(path)?.train);
    }
    let columns =
        table::Columns { text: config.text_column.clone(), second: None, label: config.label_column.clone() };
    Ok(table::read(path, table::Format::of(path), &columns)?)
}

/// The files of a text to learn from, and the one to measure on if the folder has it.
fn text_files(path: &Path) -> Result<(Vec<PathBuf>, Option<PathBuf>)> {
    if !path.is_dir() {
        return Ok((vec![path.to_owned()], None));
    }
    let entries = std::fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.is_file());
    files.sort();
    let named = |part: &str| -> Vec<PathBuf> {
        let has =
            |file: &&PathBuf| file.file_name().is_some_and(|name| name.to_string_lossy().contains(part));
        files.iter().filter(has).cloned().collect()
    };
    let (train, held) = (named("train"), named("val"));
    match (train.is_empty(), held.into_iter().next()) {
        (false, held) => Ok((train, held)),
        (true, _) if files.is_empty() => bail!("{} has no files", path.display()),
        (true, _) => Ok((files, None)),
    }
}

/// The lines of files that are not empty.
fn lines(files: &[PathBuf]) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for file in files {
        let mut lines = saccade::data::file::Lines::open(file)?;
        while let Some(line) = lines.next()? {
            if !line.trim().is_empty() {
                all.push(line.to_owned());
            }
        }
    }
    if all.is_empty() {
        bail!(
            "there is no text in {}",
            files.first().map(|file| file.display().to_string()).unwrap_or_default()
        );
    }
    Ok(all)
}

/// Pairs of lines of `PART.SOURCE` and `PART.TARGET`, plain or gzipped.
pub fn parallel(folder: &Path, part: &str, config: &DataConfig) -> Result<Vec<(String, String)>> {
    let file = |language: &str| -> Result<PathBuf> {
        let names = [format!("{part}.{language}"), format!("{part}.{language}.gz")];
        let found = names.iter().map(|name| folder.join(name)).find(|path| path.is_file());
        found.with_context(|| format!("{} has neither {} nor {}", folder.display(), names[0], names[1]))
    };
    let parallel = Parallel::open(file(&config.source)?, file(&config.target)?)?;
    Ok(parallel.pairs.into_iter().map(|pair| (pair.source, pair.target)).collect())
}

fn images(folder: &Path, part: &str) -> Result<Images> {
    let file = |kind: &str| -> Result<PathBuf> {
        let names = [format!("{part}-{kind}"), format!("{part}-{kind}.gz")];
        let found = names.iter().map(|name| folder.join(name)).find(|path| path.is_file());
        found.with_context(|| format!("{} has neither {} nor {}", folder.display(), names[0], names[1]))
    };
    Ok(Images::open(file("images-idx3-ubyte")?, file("labels-idx1-ubyte")?)?)
}

fn split_point(count: usize, share: f64) -> Result<usize> {
    let point = (count as f64 * (1.0 - share)) as usize;
    if point == 0 || point >= count {
        bail!("{count} examples are too few to hold out a share of {share}");
    }
    Ok(point)
}

fn limited<T>(mut all: Vec<T>, limit: usize) -> Vec<T> {
    if limit > 0 {
        all.truncate(limit);
    }
    all
}

fn make_tokenizer(
    config: &TokensConfig,
    texts: &mut dyn Iterator<Item = String>,
    mask: bool,
    ends: bool,
) -> Result<Tokenizer> {
    let TokensConfig { size, minimum_count, lowercase, punctuation, .. } = *config;
    Ok(match config.kind {
        TokensKind::Words => Tokenizer::words(
            texts,
            &WordSettings { maximum: size, minimum_count, lowercase, punctuation, mask },
        )?,
        TokensKind::Whitespace => {
            Tokenizer::whitespace_words(texts, &WhitespaceSettings { maximum: size, minimum_count })?
        }
        TokensKind::Characters => Tokenizer::characters(texts, UnknownCharacter::Error)?,
        TokensKind::WordPieces => {
            let settings =
                WordPieceSettings { size, minimum_count: minimum_count.max(2), lowercase, alphabet: 1_000 };
            Tokenizer::word_pieces(texts, &settings)?
        }
        TokensKind::BytePairs => {
            let mut settings =
                BytePairSettings { size, minimum_count: minimum_count.max(2), ..Default::default() };
            if ends {
                settings.special = vec!["<pad>".to_owned(), "</s>".to_owned()];
                settings.end = Some("</s>".to_owned());
            }
            Tokenizer::byte_pairs(texts, &settings)?
        }
    })
}

/// A new model, its vocabulary and classes those of the data.
pub fn build(config: &ModelConfig, vocabulary: usize, classes: usize, seed: u64) -> Result<Model> {
    Ok(match config.clone() {
        ModelConfig::Gpt(config) => {
            Model::Gpt(Gpt::new(saccade::models::GptConfig { vocabulary, ..config }, seed)?)
        }
        ModelConfig::Llama(config) => {
            Model::Llama(Llama::new(saccade::models::LlamaConfig { vocabulary, ..config }, seed)?)
        }
        ModelConfig::Bert(mut config) => {
            if config.heads.classes.is_some() {
                config.heads.classes = Some(classes);
            }
            Model::Bert(Bert::new(saccade::models::BertConfig { vocabulary, ..config }, seed)?)
        }
        ModelConfig::T5(config) => {
            Model::T5(T5::new(saccade::models::T5Config { vocabulary, ..config }, seed)?)
        }
        ModelConfig::Vit(config) => {
            Model::Vit(Vit::new(saccade::models::VitConfig { classes, ..config }, seed)?)
        }
        ModelConfig::Sentiment(config) => {
            Model::Sentiment(Sentiment::new(saccade::models::SentimentConfig { vocabulary, ..config }, seed)?)
        }
        ModelConfig::Bag(config) => {
            Model::Bag(Bag::new(saccade::models::BagConfig { vocabulary, ..config }, seed)?)
        }
        ModelConfig::Tagger(config) => {
            Model::Tagger(Tagger::new(saccade::models::TaggerConfig { vocabulary, classes, ..config }, seed)?)
        }
    })
}

fn special_notes(tokenizer: &Tokenizer) -> Map<String, Value> {
    let special = tokenizer.special();
    let ids = [
        ("pad_token_id", special.pad),
        ("bos_token_id", special.bos),
        ("eos_token_id", special.eos),
        ("mask_token_id", special.mask),
    ];
    ids.into_iter().filter_map(|(key, id)| Some((key.to_owned(), json!(id?)))).collect()
}

fn class_notes(notes: &mut Map<String, Value>, classes: &[String]) {
    let names: Map<String, Value> =
        classes.iter().enumerate().map(|(i, class)| (i.to_string(), json!(class))).collect();
    let numbers: Map<String, Value> =
        classes.iter().enumerate().map(|(i, class)| (class.clone(), json!(i))).collect();
    notes.insert("id2label".to_owned(), Value::Object(names));
    notes.insert("label2id".to_owned(), Value::Object(numbers));
}
