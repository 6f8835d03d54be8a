//! Inputs for a part of a model: texts of a corpus, target texts (T5), pictures (ViT).

use crate::corpus::{BUILT_IN, Corpus, CorpusArguments, CorpusSize, TokenizedCorpus, evenly};
use crate::fetch::data::named;
use crate::image::{self, Preprocessing};
use crate::model::{self, Opened};
use crate::run::{DataConfig, sources};
use anyhow::{Context as _, Result, bail};
use regard_nn::Context;
use regard_nn::analysis::Tokens;
use regard_nn::data::batches::{Examples as _, Pictures, Selection};
use regard_nn::data::builtin::{Pairs, Split};
use regard_nn::data::file::Lines;
use regard_nn::data::idx::Images;
use regard_nn::generate::{Answer, GenerationSettings, Sampling, generate};
use regard_nn::models::form::Patches;
use regard_nn::models::{Model, Reads};
use regard_nn::tensor::Ids;
use regard_nn::tokens::{Keep, Special};
use std::path::{Path, PathBuf};

/// The most tokens of an answer that a model makes up itself.
const LONGEST_ANSWER: usize = 48;

/// Texts that can be read several times.
pub enum Texts<'a> {
    /// Those of a corpus, never all in memory.
    Corpus(&'a TokenizedCorpus<'a>, CorpusSize),
    /// Answers or pictures: few enough to be held.
    Held(Vec<Tokens>),
}

impl Texts<'_> {
    /// How many there are.
    pub fn count(&self) -> u64 {
        match self {
            Self::Corpus(_, size) => size.texts,
            Self::Held(texts) => texts.len() as u64,
        }
    }

    /// One after the other.
    pub fn stream(&self) -> Result<Box<dyn Iterator<Item = regard_nn::Result<Tokens>> + '_>> {
        Ok(match self {
            Self::Corpus(tokenized, _) => {
                Box::new(tokenized.encodings()?.map(|encoding| Ok(Tokens::from_encoding(&encoding?))))
            }
            Self::Held(texts) => Box::new(texts.iter().cloned().map(Ok)),
        })
    }
}

/// The input and the target tokens of a decoder.
pub struct Answered {
    /// The start and all tokens but the last, with what they answer.
    pub input: Tokens,
    /// The tokens.
    pub output: Vec<u32>,
}

/// Texts and what an encoder–decoder model should answer: built-in pairs, two files line by line, or else what it does answer.
pub fn answers(
    opened: &Opened,
    tokenized: &TokenizedCorpus,
    arguments: &CorpusArguments,
) -> Result<Vec<Answered>> {
    let mut all = Vec::new();
    let start = opened.model.abilities().start.unwrap_or(0);
    let mut add = |source: &str, answer: Option<&str>| -> Result<()> {
        let source = Tokens::from_encoding(&tokenized.encode(source)?);
        let mut output = match answer {
            Some(answer) => {
                let mut encoding = tokenized.tokenizer.encode(answer, Special::Keep)?;
                encoding.truncate(tokenized.length, Keep::First)?;
                encoding.ids
            }
            None => own_answer(opened, &source)?,
        };
        output.truncate(tokenized.length);
        if source.len() > 1 && output.len() > 1 {
            let ids: Vec<u32> = [start].into_iter().chain(output.iter().copied()).collect();
            let delimits = |&id: &u32| {
                tokenized.tokenizer.piece(id).is_some_and(|piece| regard_nn::analysis::delimits(&piece))
            };
            let mut input = Tokens::new(ids[..output.len()].to_vec());
            input.special = input.ids.iter().map(|&id| tokenized.tokenizer.is_special(id)).collect();
            input.special[0] = true;
            input.delimiter = input.ids.iter().map(delimits).collect();
            all.push(Answered { input: input.with_source(source), output });
        }
        Ok(())
    };
    match (&arguments.answers, tokenized.corpus) {
        (None, Corpus::BuiltIn(_)) => {
            let count = if arguments.limit == 0 { 2_000 } else { arguments.limit };
            for pair in Pairs::new(0).split(Split::Test).pairs().take(count) {
                add(&pair.source, Some(&pair.target))?;
            }
        }
        (None, _) => {
            for text in tokenized.corpus.texts(tokenized.limit)? {
                add(&text?, None)?;
            }
        }
        (Some(path), Corpus::Lines(_)) => {
            let mut lines = Lines::open(path)?;
            for text in tokenized.corpus.texts(tokenized.limit)? {
                let Some(answer) = lines.next()? else {
                    bail!("{} has fewer lines than {}", path.display(), arguments.corpus);
                };
                add(&text?, Some(answer))?;
            }
        }
        (Some(_), _) => bail!("--answers goes with a --corpus of plain lines"),
    }
    if all.is_empty() {
        bail!("there is no text of two tokens or more with an answer of as many");
    }
    Ok(all)
}

/// A model's own output, by greedy decoding.
pub fn own_answer(opened: &Opened, source: &Tokens) -> Result<Vec<u32>> {
    let context = Context::inference();
    let answer = Answer::new(&*opened.model, &context, &Ids::new(&source.ids, [1, source.len()])?, None, 1)?;
    let settings = GenerationSettings {
        max_tokens: LONGEST_ANSWER,
        sampling: Sampling { greedy: true, ..Sampling::default() },
        stop_tokens: opened.token_ids("eos_token_id"),
        ..GenerationSettings::default()
    };
    let texts = generate(&answer, &context, &answer.start(), &settings, &mut |_, _| true)?;
    Ok(texts.into_iter().next().map(|text| text.tokens).unwrap_or_default())
}

/// Pictures, and the class of each where it is known: PNG or JPEG files, MNIST's files, or built-in digits.
pub fn pictures(
    opened: &Opened,
    patches: Patches,
    arguments: &CorpusArguments,
) -> Result<(Vec<Tokens>, Option<Vec<u32>>)> {
    let ([height, width], first, count) = (patches.image, patches.first(), patches.count());
    let argument = if arguments.corpus == BUILT_IN { None } else { Some(named(&arguments.corpus)?) };
    let files =
        argument.as_deref().map(|path| picture_files(Path::new(path))).transpose()?.unwrap_or_default();
    if !files.is_empty() {
        let preprocessing = Preprocessing::of(&opened.folder)?;
        let read = |path: &PathBuf| -> Result<Tokens> {
            let pixels = image::read(path, &preprocessing, patches)?;
            Ok(Tokens::from_image(pixels.to_vec().into(), first, count))
        };
        let texts = evenly(&files, arguments.limit).map(read).collect::<Result<_>>()?;
        return Ok((texts, None));
    }
    let images = sources::test_images(&DataConfig { path: argument, ..DataConfig::default() })?;
    if (images.rows, images.columns, 1) != (height, width, patches.channels) {
        bail!(
            "the pictures are {}×{} in grey, but the model reads {height}×{width} in {} channels",
            images.rows,
            images.columns,
            patches.channels
        );
    }
    let all: Vec<usize> = (0..images.len()).collect();
    let examples = evenly(&all, arguments.limit).copied().collect();
    let batch = normalised(opened, images)?.batch(Selection { examples, first: 0, epoch: 0 })?;
    let values = batch.pixels.values();
    let pictures = values.chunks_exact(height * width);
    let texts = pictures.map(|pixels| Tokens::from_image(pixels.into(), first, count)).collect();
    Ok((texts, Some(batch.labels.values().to_vec())))
}

/// Grey pictures as a model was trained to read them.
pub fn normalised(opened: &Opened, images: Images) -> Result<Pictures> {
    let pixels = model::settings(&opened.folder.join("preprocessor_config.json"))?;
    let scale = |key: &str, default: f64| pixels[key][0].as_f64().unwrap_or(default) as f32;
    Ok(Pictures::new(images, (scale("image_mean", 0.0), scale("image_std", 1.0))))
}

/// A PNG or JPEG file, or those in a folder, in order.
fn picture_files(path: &Path) -> Result<Vec<PathBuf>> {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).with_context(|| path.display().to_string())?;
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let mut files: Vec<PathBuf> = paths.filter(|path| image::is_picture(path)).collect();
        files.sort();
        return Ok(files);
    }
    Ok(if image::is_picture(path) { vec![path.to_owned()] } else { Vec::new() })
}

/// Refuses answers for models that give none.
pub fn ensure_answers_fit(model: &dyn Model, arguments: &CorpusArguments) -> Result<()> {
    if arguments.answers.is_some() && model.abilities().reads != Reads::Source {
        bail!("--answers is for encoder–decoder models, and this is a {}", model.kind());
    }
    Ok(())
}
