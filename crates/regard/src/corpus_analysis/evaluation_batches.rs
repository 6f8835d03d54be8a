//! Texts with known targets, to measure losses on: the next token, masked tokens, the class of a text or of words.

use super::texts::{answers, pictures};
use crate::classes::matched;
use crate::corpus::{Corpus, CorpusArguments, TokenizedCorpus, evenly};
use crate::forward_pass::prediction::{class_names, label};
use crate::model::Opened;
use crate::run::{DataConfig, sources};
use crate::terminal;
use anyhow::{Result, bail};
use regard_nn::Context;
use regard_nn::analysis::ablation::{AblationBatch, Kinds};
use regard_nn::analysis::{Shown, Tokens, delimits};
use regard_nn::data::batches::{Batches, IGNORED, Masking};
use regard_nn::models::form::Patches;
use regard_nn::models::{Predicts, Reads};
use regard_nn::tensor::Ids;
use regard_nn::tensor::random::Key;

/// Texts with the targets that a model should predict.
pub struct EvaluationBatches {
    /// What is predicted, in a few words.
    pub about: &'static str,
    /// The texts: their ids are in memory, nothing else.
    pub batches: Vec<AblationBatch>,
    /// The names of the kinds of targets.
    pub kinds: Vec<String>,
    kind: TargetKind,
}

/// How targets are grouped into kinds.
enum TargetKind {
    /// Tokens by whether they occurred before.
    Novelty {
        /// Whether the model is causal.
        causal: bool,
        /// Whether each id delimits.
        delimiters: Vec<bool>,
    },
    /// The class itself.
    Class,
}

/// The kinds of tokens: delimiters; tokens that follow the same token as they did before (what induction heads are good
/// for); other tokens that were there before; new ones.
const NOVELTY: [&str; 4] = ["delimiter", "repeated pair", "repeated", "new"];

impl EvaluationBatches {
    /// The targets that a model was trained to predict, in the texts of a corpus.
    pub fn target_text(
        opened: &Opened,
        corpus: &Corpus,
        tokenized: &TokenizedCorpus,
        arguments: &CorpusArguments,
    ) -> Result<Self> {
        let abilities = opened.model.abilities();
        match abilities.predicts {
            Predicts::NextToken if abilities.reads == Reads::Source => {
                answer_tokens(opened, tokenized, arguments)
            }
            Predicts::NextToken => next_tokens(tokenized, arguments),
            Predicts::MaskedToken => hidden_tokens(tokenized, arguments),
            Predicts::Class => classes(opened, corpus, tokenized, arguments),
            // This program's own tagger says whether words carry content; what others tag is theirs.
            Predicts::TokenClass if opened.model.form().is_none() => {
                word_classes(tokenized, corpus, arguments)
            }
            Predicts::TokenClass => own_tags(opened, tokenized, arguments),
            Predicts::Span => bail!(
                "a {} that finds answers in passages has no loss without questions; heads and trace read it",
                opened.model.kind()
            ),
            _ => bail!(
                "a {} without a head that predicts a token or a class has no loss to measure; heads and trace read it",
                opened.model.kind()
            ),
        }
    }

    /// The class of each of some pictures.
    pub fn of_pictures(opened: &Opened, patches: Patches, arguments: &CorpusArguments) -> Result<Self> {
        let abilities = opened.model.abilities();
        if abilities.predicts != Predicts::Class {
            bail!(
                "a {} without a head that predicts a class has no loss to measure; heads and trace read it",
                opened.model.kind()
            );
        }
        let (texts, labels) = pictures(opened, patches, arguments)?;
        let (about, labels) = match labels {
            Some(labels) => ("the class of a picture", labels),
            // Picture files have no labels.
            None => ("the class that the whole model predicts", own_classes(opened, &texts)?),
        };
        let known = abilities.classes;
        if let Some(label) = labels.iter().find(|&&label| label as usize >= known) {
            bail!("the model knows {known} classes, and the pictures have a class {label}");
        }
        let examples: Vec<(Tokens, u32)> = texts.into_iter().zip(labels).collect();
        Ok(Self {
            about,
            batches: labelled_batches(&examples, arguments)?,
            kinds: (0..known).map(|class| label(opened, class)).collect(),
            kind: TargetKind::Class,
        })
    }

    /// The batches; can be read several times.
    pub fn iter(&self) -> impl Iterator<Item = regard_nn::Result<AblationBatch>> + Clone {
        self.batches.iter().cloned().map(Ok)
    }

    /// The number of texts.
    pub fn texts(&self) -> usize {
        self.batches.iter().map(|batch| batch.shown.lengths.len()).sum()
    }

    /// The number of answers.
    pub fn answers(&self) -> usize {
        let targeted = |batch: &AblationBatch| {
            batch.targets.values().iter().filter(|&&target| target != IGNORED).count()
        };
        self.batches.iter().map(targeted).sum()
    }

    /// The kinds of answers, as ablation wants them.
    pub fn with_kinds<R>(&self, run: impl FnOnce(&Kinds) -> R) -> R {
        let of = |batch: &AblationBatch, text: usize, place: usize| self.kind(batch, text, place);
        run(&Kinds { count: self.kinds.len(), of: &of })
    }

    fn kind(&self, batch: &AblationBatch, text: usize, place: usize) -> usize {
        let target = batch.targets.values()[text * batch.targets.shape().last() + place];
        let TargetKind::Novelty { causal, delimiters } = &self.kind else { return target as usize };
        if delimiters.get(target as usize).copied().unwrap_or(false) {
            return 0;
        }
        let time = batch.shown.ids.shape().last();
        let ids = &batch.shown.ids.values()[text * time..text * time + batch.shown.lengths[text]];
        // A causal model has read up to the position and predicts the next token; others predict the token there.
        let (seen, before) = match causal {
            true => (&ids[..=place], Some(ids[place])),
            false => (ids, place.checked_sub(1).map(|before| ids[before])),
        };
        let elsewhere = |at: usize| *causal || at != place;
        let repeated = |at: usize| seen[at] == target && elsewhere(at);
        let pair = |at: usize| at > 0 && repeated(at) && Some(seen[at - 1]) == before;
        match () {
            () if (0..seen.len()).any(pair) => 1,
            () if (0..seen.len()).any(repeated) => 2,
            () => 3,
        }
    }
}

fn novelty(tokenized: &TokenizedCorpus, causal: bool) -> TargetKind {
    let tokenizer = tokenized.tokenizer;
    let delimiter = |id: u32| tokenizer.piece(id).is_some_and(|piece| delimits(&piece));
    TargetKind::Novelty {
        causal,
        delimiters: (0..tokenizer.vocabulary_size() as u32).map(delimiter).collect(),
    }
}

fn next_tokens(tokenized: &TokenizedCorpus, arguments: &CorpusArguments) -> Result<EvaluationBatches> {
    let texts = tokenized.encodings()?.map(|encoding| Ok(Tokens::from_encoding(&encoding?)));
    let texts: Vec<Tokens> = texts.collect::<Result<_>>()?;
    let batches = texts.chunks(arguments.batch as usize).map(AblationBatch::next_tokens);
    Ok(EvaluationBatches {
        about: "the next token",
        batches: batches.collect::<regard_nn::Result<_>>()?,
        kinds: NOVELTY.map(str::to_owned).to_vec(),
        kind: novelty(tokenized, true),
    })
}

fn hidden_tokens(tokenized: &TokenizedCorpus, arguments: &CorpusArguments) -> Result<EvaluationBatches> {
    let masking = Masking::new(tokenized.tokenizer)?;
    let key = Key::new(arguments.seed).site("hidden tokens");
    let (mut texts, mut targets) = (Vec::new(), Vec::new());
    for (number, encoding) in tokenized.encodings()?.enumerate() {
        let mut ids = encoding?.ids;
        targets.push(masking.apply(&mut ids, key, number as u64));
        texts.push(Tokens::new(ids));
    }
    about_tokens("hidden tokens", (&texts, &targets), arguments, novelty(tokenized, false))
}

/// Texts with a target for each of their tokens, grouped by whether they occurred before.
fn about_tokens(
    about: &'static str,
    (texts, targets): (&[Tokens], &[Vec<u32>]),
    arguments: &CorpusArguments,
    kind: TargetKind,
) -> Result<EvaluationBatches> {
    let size = arguments.batch as usize;
    let batches = texts.chunks(size).zip(targets.chunks(size));
    Ok(EvaluationBatches {
        about,
        batches: batches.map(|(texts, targets)| padded(texts, targets)).collect::<Result<_>>()?,
        kinds: NOVELTY.map(str::to_owned).to_vec(),
        kind,
    })
}

/// Texts with an answer for each of their tokens.
fn padded(texts: &[Tokens], targets: &[Vec<u32>]) -> Result<AblationBatch> {
    let shown = Shown::new(texts)?;
    let time = shown.ids.shape().last();
    let mut all = Vec::with_capacity(texts.len() * time);
    for targets in targets {
        all.extend_from_slice(targets);
        all.resize(all.len() + time - targets.len(), IGNORED);
    }
    Ok(AblationBatch { targets: Ids::new(&all, shown.ids.shape())?, shown })
}

fn classes(
    opened: &Opened,
    corpus: &Corpus,
    tokenized: &TokenizedCorpus,
    arguments: &CorpusArguments,
) -> Result<EvaluationBatches> {
    let Some(labelled) = corpus.labelled(arguments.limit) else {
        bail!(
            "a classifier needs labels, which {} does not have: give a table (.tsv, .csv), IMDb's archive, or \
             built-in",
            arguments.corpus
        );
    };
    let kinds = class_names(opened);
    let (classes, remark) = matched(&kinds, &labelled.classes)?;
    if let Some(remark) = remark {
        terminal::remark(remark);
    }
    let mut examples = Vec::new();
    for example in &labelled.examples {
        let encoding = tokenized.encode(&example.text)?;
        if encoding.len() > 1 {
            examples.push((Tokens::from_encoding(&encoding), classes[example.label] as u32));
        }
    }
    Ok(EvaluationBatches {
        about: "the class of a text",
        batches: labelled_batches(&examples, arguments)?,
        kinds,
        kind: TargetKind::Class,
    })
}

/// The class that a model predicts for each of some texts or pictures.
fn own_classes(opened: &Opened, texts: &[Tokens]) -> Result<Vec<u32>> {
    let mut classes = Vec::new();
    for text in texts {
        let scores = Shown::new(std::slice::from_ref(text))?.scores(&*opened.model, &Context::inference())?;
        classes.push(scores.select(1, 0)?.argmax(-1)?.values()[0]);
    }
    Ok(classes)
}

/// Texts with the class that a model predicts for each of their tokens.
fn own_tags(
    opened: &Opened,
    tokenized: &TokenizedCorpus,
    arguments: &CorpusArguments,
) -> Result<EvaluationBatches> {
    let (mut texts, mut targets) = (Vec::new(), Vec::new());
    for encoding in tokenized.encodings()? {
        let text = Tokens::from_encoding(&encoding?);
        let scores =
            Shown::new(std::slice::from_ref(&text))?.scores(&*opened.model, &Context::inference())?;
        let tags = scores.argmax(-1)?;
        // Nobody reads the tags of special tokens.
        let tag = |(&tag, &special): (&u32, &bool)| if special { IGNORED } else { tag };
        targets.push(tags.values().iter().zip(&text.special).map(tag).collect());
        texts.push(text);
    }
    let batches = about_tokens(
        "the class of each token that the whole model predicts",
        (&texts, &targets),
        arguments,
        TargetKind::Class,
    )?;
    Ok(EvaluationBatches { kinds: class_names(opened), ..batches })
}

/// Texts or pictures with a class each.
fn labelled_batches(examples: &[(Tokens, u32)], arguments: &CorpusArguments) -> Result<Vec<AblationBatch>> {
    let batch = |examples: &[(Tokens, u32)]| -> Result<AblationBatch> {
        let (texts, labels): (Vec<Tokens>, Vec<u32>) = examples.iter().cloned().unzip();
        Ok(AblationBatch { shown: Shown::new(&texts)?, targets: Ids::new(&labels, [labels.len(), 1])? })
    };
    examples.chunks(arguments.batch as usize).map(batch).collect()
}

/// The target tokens of an encoder–decoder model.
fn answer_tokens(
    opened: &Opened,
    tokenized: &TokenizedCorpus,
    arguments: &CorpusArguments,
) -> Result<EvaluationBatches> {
    let answered = answers(opened, tokenized, arguments)?;
    let (texts, targets): (Vec<Tokens>, Vec<Vec<u32>>) =
        answered.into_iter().map(|answered| (answered.input, answered.output)).unzip();
    about_tokens("its answer", (&texts, &targets), arguments, novelty(tokenized, true))
}

fn word_classes(
    tokenized: &TokenizedCorpus,
    corpus: &Corpus,
    arguments: &CorpusArguments,
) -> Result<EvaluationBatches> {
    let path = match corpus {
        Corpus::BuiltIn(_) => None,
        Corpus::Treebank(_, path) => Some(path.display().to_string()),
        Corpus::Lines(_) | Corpus::Labelled(_) => {
            bail!("a tagger needs parts of speech: give a treebank (.conllu) or built-in")
        }
    };
    let sentences = sources::test_tagged(&DataConfig { path, ..DataConfig::default() })?;
    let sentences: Vec<sources::Tagged> = evenly(&sentences, arguments.limit).cloned().collect();
    let key = Key::new(arguments.seed).site("hidden words");
    let tagging = sources::tagging(tokenized.tokenizer, &sentences, tokenized.length, key)?;
    let batches = Batches::new(tagging, arguments.batch as usize, key)?;
    let batches = batches.once().map(|batch| {
        let batch = batch?;
        Ok(AblationBatch { shown: Shown::padded(batch.ids, batch.lengths), targets: batch.targets })
    });
    Ok(EvaluationBatches {
        about: "whether hidden words carry content",
        batches: batches.collect::<Result<_>>()?,
        kinds: ["function word", "content word"].map(str::to_owned).to_vec(),
        kind: TargetKind::Class,
    })
}
