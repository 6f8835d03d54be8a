//! GPT, BERT and T5 at the same size and budget: which is better at what?

use super::instruments::cross_attention::{Crossed, cross};
use super::instruments::word_guessing::{Side, from_the_left, masked, places, share_of_most_frequent};
use super::models::language as models;
use crate::experiment::{
    Bound, Check, Data, Experiment, Findings, Lab, Rows, Sizes, Sweep, Table, Verdict, charts, facts, named,
    those_that_apply,
};
use crate::figure::{Axis, Bar, Bars, ColourScale, HeatMap, Matrix, Picture};
use crate::run::RunConfig;
use crate::statistics::paired;
use anyhow::{Context as _, Result};
use regard_nn::Context;
use regard_nn::data::batches::{PackedWindows, RandomWindows};
use regard_nn::data::builtin::{Pair, Pairs, Split};
use regard_nn::data::text::TokenStream;
use regard_nn::models::{Inputs, Transformer};
use regard_nn::tensor::Ids;
use regard_nn::tensor::random::Key;
use regard_nn::tokens::Special;
use regard_nn::train::{LanguageModelling, Task};
use serde::Serialize;
use std::collections::HashMap;

pub const EXPERIMENT: Experiment = Experiment {
    name: "three-architectures",
    claims: &["E9"],
    question: "At the same size and budget, what are GPT, BERT and T5 each better at than the others?",
    prediction: "GPT predicts a word from the words before it more often correctly than BERT; BERT predicts it from both sides more often \
        correctly than GPT; T5 puts sentences into the passive with more correct words than a GPT that reads the sentence and continues \
        with its passive. Each is a part, and is testable if the model that should be better is right more often than the most frequent \
        word.",
    design: "One architecture for all: the same layers, heads, features, pre-norm and rotary positions; a GPT is its causal form, a BERT \
        its form without a mask, a T5 has half of its layers in an encoder and half in a decoder with cross-attention. Budgets are matched \
        by guesses, the words that a model predicts in training: a BERT, which predicts 15 % of the words of a text, reads as many more \
        steps; a T5 and a second GPT, on pairs of an active sentence and its passive, predict as many words of passives. The GPT and the \
        BERT read the texts of the built-in corpus. Words are predicted at random positions of texts outside the training data: \
        GPT reads the words before; BERT reads the same and a mask at the end, or the whole text with a mask in it. A word of the \
        passive counts as correct if it is predicted after the true words before it. Differences are paired by seed.",
    changed: None,
    data: Data::BuiltIn,
    conditions: &["model", "task"],
    seeds: Sizes::quick(3),
    seconds: Sizes::quick(45.0).standard(500.0).full(14_000.0),
    trains: |lab| {
        let seed = lab.first_seed();
        Ok(vec![models::base(lab, seed)?, models::masked_words(lab, seed)?, models::passive(lab, seed)?])
    },
    run,
};

named! {
    enum Kind {
        Gpt = "GPT",
        Bert = "BERT",
        T5 = "T5",
        /// Always the most frequent word.
        Frequent = "the most frequent word",
    }
}

named! {
    enum Goal {
        Left = "from the left",
        Both = "from both sides",
        Passive = "into the passive",
        /// What does not depend on the task.
        Any = "any",
    }
}

/// The models that are compared, those whose parameters are counted, and the tasks.
const COMPARED: [Kind; 3] = [Kind::Gpt, Kind::Bert, Kind::T5];
const COUNTED: [Kind; 3] = [Kind::Gpt, Kind::Bert, Kind::T5];
const TASKS: [Goal; 3] = [Goal::Left, Goal::Both, Goal::Passive];
const RIGHT: &str = "right";
const SENTENCES_RIGHT: &str = "whole sentences right";
const PARAMETERS: &str = "parameters";

type Measured = Table<(Kind, Goal)>;

facts! {
    ACCURACY(model: Kind, task: Goal) = "{model}, {task}";
    PARAMETERS_OF(model: Kind) = "parameters: {model}";
}

fn run(lab: &Lab) -> Result<Findings> {
    // Each model is a part of its own, so that all cores are busy and progress is shown.
    let inputs = lab.each(Training::ALL);
    let trained = lab.parts("models", &inputs, |&(model, seed)| model.train(lab, seed))?;
    let passives = inputs.iter().zip(trained).filter_map(|(&(_, seed), passive)| Some((seed, passive?)));
    let passives: HashMap<u64, Shares> = passives.collect();
    let Sweep { table, runs } = lab.sweep_seeds("runs", |seed, rows| {
        let passive = passives.get(&seed).context("the second GPT was not trained")?;
        measure(lab, seed, *passive, rows)
    })?;
    let mut findings = Findings::default();
    draw(&mut findings, &table, runs.iter().find_map(|run| run.result.as_ref()));
    findings.verdicts = vec![judge(&table)];
    for condition in COMPARED.into_iter().flat_map(|model| TASKS.map(|task| (model, task))) {
        // Not every model was trained for every task.
        let values = table.find(condition, RIGHT);
        if !values.is_empty() {
            findings.fact(ACCURACY.of(condition), values.mean().mean);
        }
    }
    findings.facts(PARAMETERS_OF, COUNTED, |model| table.mean((model, Goal::Any), PARAMETERS).mean);
    findings.finish(lab, table)
}

/// What is trained: the models, and the second GPT, of which only its results are kept.
#[derive(Clone, Copy, Serialize)]
enum Training {
    Bert,
    Gpt,
    T5,
    GptPassive,
}

impl Training {
    /// The longest first, the second GPT last.
    const ALL: [Self; 4] = [Self::Bert, Self::Gpt, Self::T5, Self::GptPassive];

    fn train(self, lab: &Lab, seed: u64) -> Result<Option<Shares>> {
        let config = match self {
            Self::Gpt => models::base(lab, seed)?,
            Self::Bert => models::masked_words(lab, seed)?,
            Self::T5 => models::passive(lab, seed)?,
            Self::GptPassive => return gpt_passive(lab, seed).map(Some),
        };
        lab.train(&config)?;
        Ok(None)
    }
}

/// Sentences to put into the passive.
fn test_pairs(lab: &Lab, seed: u64) -> Vec<Pair> {
    Pairs::new(seed)
        .split(Split::Test)
        .pairs()
        .take(lab.setting("pairs", Sizes::quick(200).smoke(10).standard(500).full(1_000)))
        .collect()
}

/// The share of correct words, and of sentences that are correct as a whole.
type Shares = (f64, f64);

/// Measures the models of a seed. Returns a short pair to show, of the first seed.
fn measure(lab: &Lab, seed: u64, passive: Shares, rows: &mut Rows<(Kind, Goal)>) -> Result<Option<Crossed>> {
    let gpt = models::trained_base(lab, seed)?.open()?;
    let bert = |config: RunConfig| {
        let bert = lab.train(&config)?.open()?;
        anyhow::Ok((bert.model, bert.tokenizer.context("the BERT has no tokenizer")?))
    };
    let bert = bert(models::masked_words(lab, seed)?)?;
    let t5 = lab.train(&models::passive(lab, seed)?)?.open()?;
    let places = places(lab, gpt.tokenizer()?, &bert.1, models::base(lab, seed)?.data.length)?;
    let pairs = test_pairs(lab, seed);
    let crossed: Vec<Crossed> = pairs.iter().map(|pair| cross(&t5, pair)).collect::<Result<_>>()?;
    let right: Vec<&[bool]> = crossed.iter().map(|crossed| crossed.right.as_slice()).collect();
    let t5_right = shares(&right);
    let gpt_right = from_the_left(&*gpt.model, &places)?;
    let bert_right = (masked(&bert, &places, Side::Left)?, masked(&bert, &places, Side::Both)?);
    let words = pairs.iter().map(|pair| Ok(t5.tokenizer()?.encode(&pair.target, Special::Drop)?.ids));
    let most_frequent = share_of_most_frequent_id(&words.collect::<Result<Vec<_>>>()?.concat());
    let values = [
        (Kind::Gpt, Goal::Left, RIGHT, gpt_right),
        // The words after it cannot help a model that never sees them.
        (Kind::Gpt, Goal::Both, RIGHT, gpt_right),
        (Kind::Gpt, Goal::Passive, RIGHT, passive.0),
        (Kind::Gpt, Goal::Passive, SENTENCES_RIGHT, passive.1),
        (Kind::Bert, Goal::Left, RIGHT, bert_right.0),
        (Kind::Bert, Goal::Both, RIGHT, bert_right.1),
        (Kind::Frequent, Goal::Left, RIGHT, share_of_most_frequent(&places)),
        (Kind::Frequent, Goal::Both, RIGHT, share_of_most_frequent(&places)),
        (Kind::Frequent, Goal::Passive, RIGHT, most_frequent),
        (Kind::T5, Goal::Passive, RIGHT, t5_right.0),
        (Kind::T5, Goal::Passive, SENTENCES_RIGHT, t5_right.1),
    ];
    for (model, task, measure, value) in values {
        rows.add((model, task), measure, value);
    }
    for (kind, model) in COUNTED.into_iter().zip([&*gpt.model, &*bert.0, &*t5.model]) {
        rows.add((kind, Goal::Any), PARAMETERS, model.parameter_count() as f64);
    }
    Ok(crossed.into_iter().find(|one| seed == lab.first_seed() && (6..=12).contains(&one.source.len())))
}

/// How often the most frequent of some words occurs among them.
fn share_of_most_frequent_id(ids: &[u32]) -> f64 {
    let mut counts: HashMap<u32, usize> = HashMap::new();
    for &id in ids {
        *counts.entry(id).or_default() += 1;
    }
    counts.values().max().copied().unwrap_or(0) as f64 / ids.len().max(1) as f64
}

fn shares(right: &[&[bool]]) -> Shares {
    let words = right.iter().map(|words| words.len()).sum::<usize>().max(1) as f64;
    let correct = right.iter().flat_map(|words| words.iter()).filter(|&&right| right).count() as f64;
    let whole = right.iter().filter(|words| words.iter().all(|&right| right)).count() as f64;
    (correct / words, whole / right.len().max(1) as f64)
}

/// Trains a GPT of the base model's form that reads a sentence, a mark, its passive and another mark; and measures how much of the
/// passive of other sentences it predicts correctly.
fn gpt_passive(lab: &Lab, seed: u64) -> Result<Shares> {
    let t5 = lab.train(&models::passive(lab, seed)?)?.open()?;
    let tokenizer = t5.tokenizer()?;
    let mut config = models::base(lab, seed)?;
    let (mark, end) = (tokenizer.vocabulary_size() as u32, tokenizer.vocabulary_size() as u32 + 1);
    let ids = |text: &str| anyhow::Ok(tokenizer.encode(text, Special::Drop)?.ids);
    let line =
        |pair: &Pair| anyhow::Ok([ids(&pair.source)?, vec![mark], ids(&pair.target)?, vec![end]].concat());
    let stream = |split: Split, count: usize| -> Result<TokenStream> {
        let pairs = Pairs::new(seed).split(split);
        let lines = pairs.pairs().take(count).map(|pair| line(&pair));
        Ok(TokenStream::new(&lines.collect::<Result<Vec<_>>>()?.concat())?)
    };
    let length = config.data.length;
    let mut form = models::gpt(&mut config)?.clone();
    (form.vocabulary, form.context) = (end as usize + 1, models::ROOM * length);
    "a GPT that puts sentences into the passive".clone_into(&mut config.about);
    // It also predicts the sentences themselves: so many more windows have as many words of passives as the T5 predicts.
    config.train.batch_size =
        (config.train.batch_size as f64 / models::share_of_passives(seed)).round() as usize;
    let windows = RandomWindows::new(
        stream(Split::Train, config.data.texts)?,
        length,
        config.train.batch_size,
        Key::new(seed).site("data"),
    )?;
    let held_out = PackedWindows::new(stream(Split::Validation, 20)?, length, 16)?;
    let mut task = LanguageModelling::new(Box::new(Transformer::new(form.form(), seed)?), windows, held_out)?;
    config.train.evaluate_every = 0;
    lab.train_task(&mut task, &config, &mut ())?;
    let mut all = Vec::new();
    for pair in &test_pairs(lab, seed) {
        let (line, from) = (line(pair)?, ids(&pair.source)?.len());
        // Every token but the first is to be predicted; those from the mark on are the passive.
        let read = Ids::new(&line[..line.len() - 2], [1, line.len() - 2])?;
        let best = task.model().forward(&Context::inference(), &Inputs::ids(&read))?.argmax(-1)?;
        let wanted = &line[1..line.len() - 1];
        let right = best.values().iter().zip(wanted).skip(from).map(|(best, wanted)| best == wanted);
        all.push(right.collect::<Vec<bool>>());
    }
    Ok(shares(&all.iter().map(Vec::as_slice).collect::<Vec<_>>()))
}

fn draw(findings: &mut Findings, table: &Measured, example: Option<&Crossed>) {
    let empty = Bars::upright(charts::names(TASKS), Axis::linear("share of correct words").from_zero());
    let bars = charts::grouped(empty, COMPARED, &TASKS, |model, task| {
        let values = table.find((model, task), RIGHT);
        if values.is_empty() { Bar::new(f64::NAN) } else { charts::share(values.mean()) }
    });
    findings.figure(
        "three_architectures",
        "The share of words that each model predicts correctly: from the words before, from both sides, and in the passive of a \
         sentence. Mean over seeds with 95 % intervals; BERT cannot write a passive, and T5 was trained for nothing else. All have the same \
         width, heads and number of layers (T5's are divided between encoder and decoder, with cross-attention), and predicted the same number of \
         words in training.",
        Picture::new("What each is better at").panel(bars),
    );
    let Some(example) = example else { return };
    let best = (0..example.heads.len()).max_by_key(|&head| example.found(head).0);
    let Some(best) = best else { return };
    let (rows, columns) = (example.target.len(), example.source.len());
    if let Ok(matrix) = Matrix::new(rows, columns, example.heads[best].clone()) {
        let map = HeatMap::new(matrix, ColourScale::sequential("weight").range(0.0, 1.0))
            .words(example.target.clone(), example.source.clone())
            .names("query: predicts", "key");
        findings.figure(
            "cross_attention",
            "Where T5's decoder attends in the active sentence before it predicts each word of the passive one: the head that finds the \
             words' origins best on this sentence. Where a word has an origin, the cell in its column should be dark.",
            Picture::new("Where cross-attention attends").panel(map),
        );
    }
}

fn judge(table: &Measured) -> Verdict {
    let of = |model, task| table.values((model, task), RIGHT);
    let percent = |model, task| 100.0 * of(model, task).mean().mean;
    let finding = format!(
        "From the left GPT predicts {:.1} % of words correctly and BERT {:.1} %. From both sides BERT predicts {:.1} %; GPT cannot look \
         ahead; the most frequent word is correct in {:.1} % of cases. Of the words of a passive T5 predicts {:.1} % and GPT {:.1} % (the \
         most frequent word: {:.1} %).",
        percent(Kind::Gpt, Goal::Left),
        percent(Kind::Bert, Goal::Left),
        percent(Kind::Bert, Goal::Both),
        percent(Kind::Frequent, Goal::Both),
        percent(Kind::T5, Goal::Passive),
        percent(Kind::Gpt, Goal::Passive),
        percent(Kind::Frequent, Goal::Passive),
    );
    let gain = |better: Kind, worse: Kind, task: Goal| {
        let what = format!("{task}: share of correct words, {better} − {worse}");
        Check::new(what, paired(&of(better, task), &of(worse, task)), Bound::Above(0.0)).part(task.name())
    };
    let learned = |model: Kind, task: Goal| {
        let what = format!("{task}: share of correct words, {model} − the most frequent word");
        Check::new(what, paired(&of(model, task), &of(Kind::Frequent, task)), Bound::Above(0.0))
            .part(task.name())
    };
    let checks = vec![
        gain(Kind::Gpt, Kind::Bert, Goal::Left),
        gain(Kind::Bert, Kind::Gpt, Goal::Both),
        gain(Kind::T5, Kind::Gpt, Goal::Passive),
    ];
    Verdict::new("E9", checks, finding)
        .requires(learned(Kind::Gpt, Goal::Left))
        .requires(learned(Kind::Bert, Goal::Both))
        .requires(learned(Kind::T5, Goal::Passive))
        .because(|checks| {
            let ahead = format!(
                "After as many guesses as the GPT, BERT predicts {:.1} % of words correctly from both sides, and the GPT {:.1} % from the left \
                 alone.",
                percent(Kind::Bert, Goal::Both),
                percent(Kind::Gpt, Goal::Both),
            );
            those_that_apply([
                (checks[1].fails(), ahead.as_str()),
                (checks[0].fails(), "BERT predicts the next word better than GPT does."),
                (checks[2].fails(), "GPT predicts more words of a passive correctly than T5 does."),
            ])
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;

    fn planted(gpt: [f64; 3], bert: [f64; 2], t5: f64) -> Measured {
        let mut table = Table::new();
        for seed in 0..3 {
            let noise = 0.004 * seed as f64;
            for (task, value) in TASKS.into_iter().zip(gpt) {
                table.add((Kind::Gpt, task), seed, RIGHT, value + noise);
            }
            for (task, value) in TASKS.into_iter().zip(bert) {
                table.add((Kind::Bert, task), seed, RIGHT, value - noise);
            }
            table.add((Kind::T5, Goal::Passive), seed, RIGHT, t5);
            for task in TASKS {
                table.add((Kind::Frequent, task), seed, RIGHT, 0.15);
            }
        }
        table
    }

    #[test]
    fn a_model_that_has_not_learned_makes_its_part_untestable() {
        let idle = judge(&planted([0.4, 0.4, 0.5], [0.14, 0.12], 0.8));
        assert_eq!(idle.outcome, Outcome::InPart);
        let parts: Vec<Outcome> = idle.parts.iter().map(|part| part.outcome).collect();
        assert_eq!(parts, [Outcome::Holds, Outcome::NotTestable, Outcome::Holds]);
    }

    #[test]
    fn the_verdict_follows_the_tasks() {
        assert_eq!(judge(&planted([0.4, 0.4, 0.5], [0.3, 0.6], 0.8)).outcome, Outcome::Holds);
        let writes = judge(&planted([0.4, 0.4, 0.9], [0.3, 0.6], 0.8));
        assert_eq!(writes.outcome, Outcome::InPart, "GPT writes better passives");
        let why = "GPT predicts more words of a passive correctly than T5 does.";
        assert_eq!(writes.why.as_deref(), Some(why));
        let turned = judge(&planted([0.3, 0.6, 0.9], [0.4, 0.4], 0.8));
        assert_eq!(turned.outcome, Outcome::Fails, "the tables are turned");
    }

    #[test]
    fn whole_sentences_are_right_if_all_their_words_are() {
        assert_eq!(shares(&[&[true, true], &[true, false]]), (0.75, 0.5));
        assert_eq!(share_of_most_frequent_id(&[3, 5, 3, 3]), 0.75);
    }
}
