//! The extensions that the source left as future work: whether each works, and what it costs.

use super::instruments::cross_attention::{Crossed, cross, found_by_best_head};
use super::instruments::savings::{Cost, Saving};
use super::models::digits::{self, Look, Tested};
use super::models::language as models;
use crate::experiment::{
    Bound, Check, Condition, Data, Experiment, Findings, Lab, Sizes, Table, Verdict, charts, facts, named,
};
use crate::figure::{Axis, Bar, Bars, ColourScale, Gallery, HeatMap, Matrix, Picture, fixed};
use crate::statistics::paired;
use anyhow::{Context as _, Result};
use regard_nn::analysis::influence::{FLOW_LIMIT, Method, mean_attention, rollout};
use regard_nn::analysis::occlusion::{Agreement, Blank, Quantity, faithfulness};
use regard_nn::analysis::statistics::Resampling;
use regard_nn::analysis::{Target, Tokens};
use regard_nn::data::builtin::{Pair, Pairs, Split};
use regard_nn::models::Model;
use regard_nn::tensor::Tensor;
use serde::{Deserialize, Serialize};
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "extensions",
    claims: &["E10"],
    question: "Do tiled, sparse and linear attention, checkpointing, a vision transformer, cross-attention pictures and attention \
        rollout work, and at what cost?",
    prediction: "Tiled, sparse and linear attention and checkpointing give the values of the plain forms, to 1e-5. Tiled attention and \
        checkpointing take less memory, sparse and linear attention less time than full attention. A small vision transformer classifies \
        nine in ten of the built-in digits correctly. A head of cross-attention finds the origin of a word more often than the word at the \
        same position is it. The ranks that rollout gives to words correlate with the effect of blanking out each of them. Each extension \
        is a part.",
    design: "Values and costs of each form beside the plain one, on texts long enough to matter; times are processor times of one thread. \
        A ViT trained on the built-in digits. The T5 of `three-architectures`: its head is chosen on one half of the test pairs \
        and measured on the other. The GPT of `trained-heads` reads sentences; the probability of each sentence's last word is \
        measured with each other word replaced by the unknown word, and compared with rollout and with raw attention of the last layer.",
    changed: None,
    data: Data::BuiltIn,
    conditions: &["extension"],
    seeds: Sizes::quick(3),
    seconds: Sizes::quick(15.0).standard(130.0).full(1_500.0),
    trains: |lab| {
        let seed = lab.first_seed();
        Ok(vec![digits::digits(lab, seed)?, models::passive(lab, seed)?, models::base(lab, seed)?])
    },
    run,
};

const SOURCE: &str = "Abnar & Zuidema, 2020, verb number, layer 6";

named! {
    /// What a saving is measured by.
    pub enum Measure { Difference = "difference", Time = "time ÷ plain", Memory = "memory ÷ plain" }
}

/// What is measured.
#[derive(Clone, Copy)]
enum Extension {
    Saving(Saving),
    Vision,
    Cross,
    Influence(Method),
}

impl Condition for Extension {
    fn columns(self) -> Vec<String> {
        let name = match self {
            Extension::Saving(saving) => saving.name(),
            Extension::Vision => "vision transformer",
            Extension::Cross => "cross-attention",
            Extension::Influence(method) => method.name(),
        };
        vec![name.to_owned()]
    }
}

const ACCURACY: &str = "accuracy";
const FOUND: &str = "origins found";
const IN_PLACE: &str = "origins in the same place";
const CORRELATION: &str = "correlation with blank-out";

facts! {
    /// The length of the texts.
    pub LENGTH = "length";
    /// Time or memory of a saving over that of the plain form.
    pub COST(saving: Saving, measure: Measure) = "{saving}: {measure}";
    DIGITS = "digits";
    AGREEMENT(method: &'static str) = "{method} with blank-out";
}

/// A model of language, read.
#[derive(Serialize, Deserialize)]
struct Reader {
    /// How often the chosen head of cross-attention finds a word's origin, and how often it is at the same position.
    found: (f64, f64),
    /// Rank correlation with blank-out, by [`Method::ALL`].
    agreement: Vec<f64>,
    /// Of the first seed: a sentence with raw attention and rollout.
    sentence: Option<Sentence>,
}

#[derive(Serialize, Deserialize)]
struct Sentence {
    words: Vec<String>,
    raw: Vec<f32>,
    rolled: Vec<f32>,
}

fn run(lab: &Lab) -> Result<Findings> {
    let seeds = lab.seeds();
    let length = lab.setting("length", Sizes::quick(2_048).smoke(256).standard(4_096).full(8_192));
    let patience = Duration::from_millis(
        lab.setting("milliseconds of each measurement", Sizes::quick(60).smoke(1).standard(200).full(400)),
    );
    let inputs = seeds.iter().flat_map(|&round| Saving::ALL.map(|saving| (saving, round))).collect();
    let sweep = lab.timed_sweep("costs", inputs, |saving, round, rows| {
        let length = match saving {
            // Written out, the pairs of longer texts take gigabytes.
            Saving::Tiled => length.min(4_096),
            Saving::Checkpointing => length / 2,
            _ => length,
        };
        let Cost { difference, time, memory } = saving.measure(length, patience, round)?;
        for (measure, value) in Measure::ALL.into_iter().zip([difference, time, memory]) {
            rows.add(Extension::Saving(saving), measure, value);
        }
        Ok(())
    })?;
    let tested = lab.parts("digits", &seeds, |&seed| digits::train_and_test(lab, seed))?;
    let readers = lab.parts("readers", &seeds, |&seed| read(lab, seed))?;
    let mut table = sweep.table;
    for ((&seed, tested), reader) in seeds.iter().zip(&tested).zip(&readers) {
        table.add(Extension::Vision, seed, ACCURACY, tested.accuracy);
        table.add(Extension::Cross, seed, FOUND, reader.found.0);
        table.add(Extension::Cross, seed, IN_PLACE, reader.found.1);
        for (method, &value) in Method::ALL.into_iter().zip(&reader.agreement) {
            table.add(Extension::Influence(method), seed, CORRELATION, value);
        }
    }
    let mut findings = Findings::default();
    draw_costs(&mut findings, &table, length);
    draw_patterns(&mut findings);
    draw_digits(&mut findings, tested.first());
    draw_rollout(&mut findings, readers.iter().find_map(|reader| reader.sentence.as_ref()));
    findings.verdicts = vec![judge(&table)];
    findings.fact(LENGTH, length as f64);
    for measure in [Measure::Time, Measure::Memory] {
        findings.facts(COST, Saving::ALL.map(|saving| (saving, measure)), |(saving, measure)| {
            table.mean(Extension::Saving(saving), measure).mean
        });
    }
    findings.fact(DIGITS, table.mean(Extension::Vision, ACCURACY).mean);
    for method in Method::ALL {
        let value = table.mean(Extension::Influence(method), CORRELATION).mean;
        findings.fact(AGREEMENT.of(method.name()), value);
    }
    findings.finish(lab, table)
}

fn read(lab: &Lab, seed: u64) -> Result<Reader> {
    let t5 = lab.train(&models::passive(lab, seed)?)?.open()?;
    let pairs = Pairs::new(seed).split(Split::Test);
    let crossed = |pair: Pair| cross(&t5, &pair);
    let crossed: Vec<Crossed> = pairs
        .pairs()
        .take(lab.setting("pairs for cross-attention", Sizes::quick(100).smoke(10).standard(400).full(1_000)))
        .map(crossed)
        .collect::<Result<_>>()?;
    let gpt = models::trained_base(lab, seed)?.open()?;
    let tokenizer = gpt.tokenizer()?;
    let unknown = tokenizer.special().unknown.context("the tokenizer has no unknown word")?;
    let most = models::base(lab, seed)?.data.length.min(24);
    let mut texts = Vec::new();
    let mut sentence = None;
    for (tokens, _) in models::parsed_sentences(
        tokenizer,
        lab.setting("sentences for rollout", Sizes::quick(60).smoke(6).standard(300).full(500)),
        most,
    )? {
        if sentence.is_none()
            && (9..=14).contains(&tokens.len())
            && !tokens.ids.contains(&unknown)
            && seed == lab.first_seed()
        {
            sentence = Some(picture(&*gpt.model, &tokens, |id| tokenizer.piece(id).unwrap_or_default())?);
        }
        texts.extend(last_word(&tokens));
    }
    let found: Vec<Agreement> = faithfulness(
        &*gpt.model,
        texts.into_iter().map(Ok),
        (Blank::Replace(unknown), Quantity::Probability),
        FLOW_LIMIT,
        Resampling::new(0),
    )?;
    let agreement = found.iter().map(|agreement| agreement.correlation.mean).collect();
    Ok(Reader { found: found_by_best_head(&crossed), agreement, sentence })
}

/// A sentence without its last word and what follows it, and that word as the one to be predicted.
fn last_word(tokens: &Tokens) -> Option<(Tokens, Target)> {
    let last = (0..tokens.len()).rev().find(|&i| !tokens.delimiter[i]).filter(|&last| last >= 4)?;
    let class = tokens.ids[last] as usize;
    let mut read = Tokens::new(tokens.ids[..last].to_vec());
    read.delimiter = tokens.delimiter[..last].to_vec();
    Some((read, Target::at(last - 1, class)))
}

fn picture(model: &dyn Model, tokens: &Tokens, word: impl Fn(u32) -> String) -> Result<Sentence> {
    let layers = mean_attention(model, tokens)?;
    let last = |layers: &[Tensor]| layers.last().map(Tensor::to_vec).context("the model has no layers");
    Ok(Sentence {
        words: tokens.ids.iter().map(|&id| word(id)).collect(),
        raw: last(&layers)?,
        rolled: last(&rollout(&layers)?)?,
    })
}

fn draw_costs(findings: &mut Findings, table: &Table<Extension>, length: usize) {
    let axis = Axis::linear("share of the cost of the plain form").from_zero();
    let empty = Bars::lying(charts::names(Saving::ALL), axis);
    let bars = charts::grouped(empty, [Measure::Time, Measure::Memory], &Saving::ALL, |measure, saving| {
        let values = table.values(Extension::Saving(saving), measure);
        let (low, high) = charts::range(&values.values());
        Bar::new(values.mean().mean).interval(low, high)
    });
    findings.figure(
        "costs",
        "Time and memory over those of the plain form, from the smallest to the largest of repeated measurements. Tiled attention \
         is compared with attention written out, sparse and linear attention with tiled full attention, checkpointing with a training \
         step that keeps all activations.",
        Picture::new("What each saves and costs").subtitle(format!("Texts of {} tokens", fixed(length as f64, 0))).panel(bars),
    );
}

/// Patterns are drawn coarsely: each cell is the share of its pairs that may attend.
fn draw_patterns(findings: &mut Findings) {
    const TOKENS: usize = 512;
    const CELL: usize = 8;
    let mut gallery = Gallery::new(3, ColourScale::sequential("share of pairs").range(0.0, 1.0)).side(150.0);
    for saving in [Saving::Tiled, Saving::Longformer, Saving::BigBird] {
        let Ok(mask) = saving.pattern().mask(TOKENS, TOKENS) else { continue };
        let seen = |row: usize, column: usize| {
            let pairs = (0..CELL * CELL)
                .filter(|i| mask.values()[(row * CELL + i / CELL) * TOKENS + column * CELL + i % CELL]);
            pairs.count() as f32 / (CELL * CELL) as f32
        };
        let name = if saving == Saving::Tiled { "everything" } else { saving.name() };
        gallery = gallery.map(name, Matrix::from_fn(TOKENS / CELL, TOKENS / CELL, seen));
    }
    findings.figure(
        "patterns",
        format!("Which pairs of {TOKENS} tokens may attend: rows attend to columns."),
        Picture::new("Sparse patterns").panel(gallery),
    );
}

fn draw_digits(findings: &mut Findings, tested: Option<&Tested>) {
    let Some(Tested { looks, patches, .. }) = tested.filter(|tested| !tested.looks.is_empty()) else {
        return;
    };
    let mut picture = Picture::new("A vision transformer classifies digits")
        .subtitle("Above: the picture. Below: how much of the class token comes from each patch, by rollout")
        .columns(looks.len());
    let map = |side, values: &[f32], scale| {
        Some(HeatMap::new(Matrix::new(side, side, values.to_vec()).ok()?, scale).area(170.0, 170.0))
    };
    for Look { side, pixels, label, predicted, .. } in looks {
        if let Some(map) = map(*side, pixels, ColourScale::sequential("ink").range(0.0, 1.0)) {
            picture = picture.titled_panel(format!("a {label}, classified as {predicted}"), map);
        }
    }
    for look in looks {
        if let Some(map) = map(*patches, &look.weights, ColourScale::sequential("share")) {
            picture = picture.panel(map);
        }
    }
    findings.figure(
        "digits",
        "Built-in digits outside the training data, and the patches that the class token comes from.",
        picture,
    );
}

fn draw_rollout(findings: &mut Findings, sentence: Option<&Sentence>) {
    let Some(Sentence { words, raw, rolled }) = sentence else { return };
    let map = |values: &Vec<f32>| {
        let matrix = Matrix::new(words.len(), words.len(), values.clone()).ok()?;
        let map = HeatMap::new(matrix, ColourScale::sequential("share").range(0.0, 1.0))
            .words(words.clone(), words.clone())
            .mask(|row, column| column > row);
        Some(map)
    };
    let (Some(raw), Some(rolled)) = (map(raw), map(rolled)) else { return };
    findings.figure(
        "rollout",
        "The weights of the last layer, the mean of its heads; and rollout, which multiplies the weights of the layers, half of each \
         position being its residual stream. Hatched: masked.",
        Picture::new("Raw attention and rollout")
            .columns(2)
            .titled_panel("raw attention, last layer", raw)
            .titled_panel("rollout through all layers", rolled),
    );
}

fn judge(table: &Table<Extension>) -> Verdict {
    let cost = |saving, measure: Measure| table.mean(Extension::Saving(saving), measure);
    let exact = Saving::ALL.map(|saving| {
        let what = format!("{saving}: largest difference from the same rule written out");
        Check::new(what, cost(saving, Measure::Difference), Bound::Below(1e-5)).part(saving.name())
    });
    let cheaper = Saving::ALL.map(|saving| {
        let measure = saves(saving);
        Check::new(format!("{saving}: {measure}"), cost(saving, measure), Bound::Below(1.0))
            .part(saving.name())
    });
    let found = |measure: &str| table.values(Extension::Cross, measure);
    let [rolled, raw] = [Method::Rollout, Method::Attention]
        .map(|method| table.mean(Extension::Influence(method), CORRELATION));
    let accuracy = table.mean(Extension::Vision, ACCURACY);
    let mut checks: Vec<Check> = exact.into_iter().chain(cheaper).collect();
    checks.extend([
        Check::new("vision transformer: accuracy on digits", accuracy, Bound::Above(0.9))
            .part("vision transformer"),
        Check::new(
            "cross-attention: origins of words found − origins at the same position",
            paired(&found(FOUND), &found(IN_PLACE)),
            Bound::Above(0.0),
        )
        .part("cross-attention"),
        Check::new("rollout: rank correlation with blank-out", rolled, Bound::Above(0.0)).part("rollout"),
    ]);
    let percent = |saving, measure| 100.0 * cost(saving, measure).mean;
    let sparse = [Saving::Longformer, Saving::BigBird, Saving::Linear];
    let [time, memory] = [Measure::Time, Measure::Memory].map(|measure| {
        let [longformer, big_bird, linear] = sparse.map(|saving| percent(saving, measure));
        format!("{longformer:.0} %, {big_bird:.0} % and {linear:.0} %")
    });
    let finding = format!(
        "Tiled attention takes {:.0} % of the memory of attention written out. Longformer, BigBird and linear attention take {time} of \
         the time and {memory} of the memory of tiled full attention; checkpointing takes {:.0} % of the memory for {:.0} % of the time. The \
         ViT classifies {:.1} % of digits correctly; cross-attention finds {:.0} % of origins. Rollout correlates with blank-out by {:.2}, \
         raw attention by {:.2}.",
        percent(Saving::Tiled, Measure::Memory),
        percent(Saving::Checkpointing, Measure::Memory),
        percent(Saving::Checkpointing, Measure::Time),
        100.0 * accuracy.mean,
        100.0 * found(FOUND).mean().mean,
        rolled.mean,
        raw.mean,
    );
    Verdict::new("E10", checks, finding)
        .published("rollout: correlation with blank-out", 0.71, Some(rolled.mean), SOURCE)
        .published("raw attention: correlation with blank-out", 0.29, Some(raw.mean), SOURCE)
}

/// What each saving is claimed to save.
fn saves(saving: Saving) -> Measure {
    match saving {
        Saving::Tiled | Saving::Checkpointing => Measure::Memory,
        Saving::Longformer | Saving::BigBird | Saving::Linear => Measure::Time,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;
    use crate::experiments::wrong;

    #[test]
    fn the_last_word_is_to_be_predicted_and_not_shown() {
        let mut tokens = Tokens::new(vec![5, 6, 7, 8, 9, 2]);
        tokens.delimiter[5] = true;
        let (read, target) = last_word(&tokens).unwrap();
        assert_eq!((read.ids, target), (vec![5, 6, 7, 8], Target::at(3, 9)));
    }

    /// What would be measured if all of E10 were true but for one check, with a little noise that differs between seeds.
    fn judged_but_for(place: usize) -> Verdict {
        let mut table = Table::new();
        for seed in 0..4 {
            let noise = 1.0 + 0.01 * seed as f64 + 0.002 * (seed % 2) as f64;
            for (i, saving) in Saving::ALL.into_iter().enumerate() {
                let difference = if place == i { 1e-3 } else { 1e-7 };
                table.add(Extension::Saving(saving), seed, Measure::Difference, difference * noise);
                for measure in [Measure::Time, Measure::Memory] {
                    // A saving may cost more of what it is not claimed to save.
                    let dear = place == 5 + i || measure != saves(saving);
                    table.add(Extension::Saving(saving), seed, measure, if dear { 1.4 } else { 0.4 } * noise);
                }
            }
            let accuracy = if place == 10 { 0.5 } else { 0.96 };
            table.add(Extension::Vision, seed, ACCURACY, accuracy + 0.01 * noise);
            let (found, in_place) = if place == 11 { (0.2, 0.6) } else { (0.6, 0.2) };
            table.add(Extension::Cross, seed, FOUND, found * noise);
            table.add(Extension::Cross, seed, IN_PLACE, in_place + 0.001 * (seed % 3) as f64);
            for method in Method::ALL {
                let correlation = if place == 12 && method == Method::Rollout { -0.3 } else { 0.3 };
                table.add(Extension::Influence(method), seed, CORRELATION, correlation * noise);
            }
        }
        judge(&table)
    }

    #[test]
    fn each_extension_can_be_wrong_alone() {
        let checks = 13;
        let holds = judged_but_for(checks);
        assert_eq!(holds.checks.len(), checks);
        assert_eq!((holds.outcome, wrong(&holds)), (Outcome::Holds, vec![]));
        for (place, check) in holds.checks.iter().enumerate() {
            let fails = judged_but_for(place);
            assert_eq!((fails.outcome, wrong(&fails)), (Outcome::InPart, vec![place]), "{}", check.what);
        }
    }
}
