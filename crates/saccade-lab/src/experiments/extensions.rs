//! What the source left as future work: each part works, and what it costs.

use super::cross_attention::{Crossed, cross};
use super::extension_costs::{Cost, Saving};
use super::language_models as models;
use crate::experiment::{Bound, Check, Experiment, Findings, Lab, Measurements, Verdict};
use crate::figure::{Axis, Bar, Bars, ColourScale, Gallery, HeatMap, Matrix, Picture};
use crate::run::{RunConfig, preset, sources};
use crate::statistics::paired;
use anyhow::{Context as _, Result, bail};
use saccade::analysis::influence::{FLOW_LIMIT, Method, mean_attention, rollout};
use saccade::analysis::occlusion::{Agreement, Blank, Quantity, faithfulness};
use saccade::analysis::statistics::Resampling;
use saccade::analysis::{Target, Tokens};
use saccade::data::batches::{Batches, Pictures};
use saccade::data::builtin::{Pair, Pairs, Split};
use saccade::data::idx::Images;
use saccade::models::{Model, Vit};
use saccade::tensor::Tensor;
use saccade::tensor::random::Key;
use saccade::train::evaluate;
use saccade::{Context, Probe};
use serde::{Deserialize, Serialize};
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "extensions",
    claims: &["E10"],
    question: "Do tiled, sparse and linear attention, checkpointing, a vision transformer, cross-attention pictures and attention \
        rollout work, and at what cost?",
    prediction: "Tiled, sparse and linear attention and checkpointing give what the plain forms give, to 1e-5; tiled attention and \
        checkpointing take less memory, sparse and linear attention less time than attention over everything; a small vision \
        transformer reads nine in ten of the built-in digits; a head of cross-attention finds where a word comes from more \
        often than the word in the same place is it; the ranks that rollout gives to words correlate with what taking each of \
        them away does.",
    design: "Values and costs of each form beside the plain one, on texts long enough to matter: the time that one thread spends on a processor. \
        A ViT trained on the built-in digits. The T5 of `three-architectures`: its head is chosen on one half of the test pairs \
        and measured on the other. The GPT of `trained-heads` reads sentences; the probability of each sentence's last word is \
        taken with each other word made unknown, and compared with rollout and with raw attention of the last layer.",
    changed: Some(
        "The vision transformer got more digits and more steps after its first accuracies were below the bound; time is counted on the \
         processor since other programs made the first times differ. The bounds are the first ones.",
    ),
    real_data: None,
    seconds: [15.0, 130.0, 1_500.0],
    run,
};

const SOURCE: &str = "Abnar & Zuidema, 2020, verb number, layer 6";
/// The places of a ViT's example: so many digits.
const SHOWN: usize = 4;

#[derive(Serialize, Deserialize)]
struct Eye {
    accuracy: f64,
    /// Of the first seed: each digit's pixels, and the rollout of the class token over its patches.
    looks: Vec<Look>,
    patches: usize,
}

#[derive(Serialize, Deserialize)]
struct Look {
    pixels: Vec<f32>,
    side: usize,
    weights: Vec<f32>,
    label: u8,
    said: usize,
}

#[derive(Serialize, Deserialize)]
struct Reader {
    /// How often the chosen head of cross-attention finds a word's origin, and how often it is the word in the same place.
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
    let seeds = lab.seeds(3);
    let length = lab.by_size(256, 2_048, 4_096, 8_192);
    let patience = Duration::from_millis(lab.by_size(1, 60, 200, 400));
    let mut inputs = Vec::new();
    for &round in &seeds {
        inputs.extend(Saving::ALL.map(|saving| (saving, length, round)));
    }
    let costs = lab.timed_parts("costs", &inputs, |&(saving, length, round)| {
        // Written out, the pairs of longer texts take gigabytes.
        let length = if saving == Saving::Tiled { length.min(4_096) } else { length };
        saving.measure(if saving == Saving::Checkpointing { length / 2 } else { length }, patience, round)
    })?;
    let eyes = lab.parts("digits", &seeds, |&seed| look(lab, seed))?;
    let readers = lab.parts("readers", &seeds, |&seed| read(lab, seed))?;
    let mut findings = Findings::new(&["extension"]);
    for ((saving, _, round), cost) in inputs.iter().zip(&costs) {
        let Cost { difference, time, memory } = *cost;
        for (measure, value) in
            [("difference", difference), ("time ÷ plain", time), ("memory ÷ plain", memory)]
        {
            findings.measurements.add(&[&saving.name()], *round, measure, value);
        }
    }
    for ((&seed, eye), reader) in seeds.iter().zip(&eyes).zip(&readers) {
        let table = &mut findings.measurements;
        table.add(&[&"vision transformer"], seed, "accuracy", eye.accuracy);
        table.add(&[&"cross-attention"], seed, "origins found", reader.found.0);
        table.add(&[&"cross-attention"], seed, "origins in the same place", reader.found.1);
        for (method, &value) in Method::ALL.iter().zip(&reader.agreement) {
            table.add(&[&method.name()], seed, "correlation with blank-out", value);
        }
    }
    draw_costs(&mut findings, length);
    draw_looks(&mut findings, eyes.first(), readers.iter().find_map(|reader| reader.sentence.as_ref()));
    findings.verdicts = vec![judge(&findings.measurements)];
    tell(&mut findings, length);
    Ok(findings)
}

fn tell(findings: &mut Findings, length: usize) {
    findings.fact("length", length as f64);
    for saving in Saving::ALL {
        for measure in ["time ÷ plain", "memory ÷ plain"] {
            let value = findings.measurements.mean(&[&saving.name()], measure).mean;
            findings.fact(format!("{}: {measure}", saving.name()), value);
        }
    }
    let accuracy = findings.measurements.mean(&[&"vision transformer"], "accuracy").mean;
    findings.fact("digits", accuracy);
    for method in Method::ALL {
        let value = findings.measurements.mean(&[&method.name()], "correlation with blank-out").mean;
        findings.fact(format!("{} with blank-out", method.name()), value);
    }
}

fn digits(lab: &Lab, seed: u64) -> Result<RunConfig> {
    let settings: &[&str] = lab.by_size(
        &[
            "model.n_layers=1",
            "model.d_model=8",
            "model.n_heads=2",
            "model.d_hidden=16",
            "train.steps=6",
            "data.texts=60",
        ],
        &[
            "model.n_layers=2",
            "model.d_model=32",
            "model.d_hidden=64",
            "model.patch=7",
            "train.steps=1500",
            "train.batch_size=32",
            "train.rate.highest=8e-3",
            "train.rate.warmup=30",
            "data.texts=10000",
        ],
        &["train.steps=1000", "data.texts=10000"],
        &["data.texts=20000"],
    );
    let mut config = preset("digits", &settings.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    config.train.seed = seed;
    config.train.evaluate_every = (config.train.steps / 2).max(1);
    config.run.save_every = 0;
    Ok(config)
}

/// A ViT, and how it looks at digits that it was not trained on.
fn look(lab: &Lab, seed: u64) -> Result<Eye> {
    let config = digits(lab, seed)?;
    let opened = lab.train(&config)?.open()?;
    let settings = std::fs::read_to_string(opened.folder.join("preprocessor_config.json"))
        .context("how the ViT reads pictures is not known")?;
    let settings: serde_json::Value = serde_json::from_str(&settings)?;
    let number = |key: &str, default: f64| settings[key][0].as_f64().unwrap_or(default) as f32;
    let scale = (number("image_mean", 0.0), number("image_std", 1.0));
    let mut images = sources::test_images(&config.data)?;
    let count = lab.by_size(20, 500, 2_000, 2_000).min(images.len());
    images.labels.truncate(count);
    images.pixels.truncate(count * images.rows * images.columns);
    let Model::Vit(vit) = &opened.model else {
        bail!("the digits were learned by a {}", opened.model.kind())
    };
    let looks = (0..SHOWN.min(count)).map(|i| see(vit, &opened.model, &images, i, scale));
    let looks = if seed == 0 { looks.collect::<Result<_>>()? } else { Vec::new() };
    let patches = images.rows / vit.config().patch;
    let found = evaluate(
        &opened.model,
        &Batches::new(Pictures::new(images, scale), 64, Key::new(0))?,
        &Context::inference(),
    )?;
    let accuracy = found.measures.iter().find(|(name, _)| name == "accuracy").context("no accuracy")?.1;
    Ok(Eye { accuracy, looks, patches })
}

fn see(
    vit: &Vit,
    model: &Model,
    images: &Images,
    index: usize,
    (mean, deviation): (f32, f32),
) -> Result<Look> {
    let pixels = images.image(index).context("there are too few digits")?;
    let pixels: Vec<f32> = pixels.iter().map(|&pixel| f32::from(pixel) / 255.0).collect();
    let scaled: Vec<f32> = pixels.iter().map(|pixel| (pixel - mean) / deviation).collect();
    let image = Tensor::new(&scaled, [1, 1, images.rows, images.columns])?;
    let sites: Vec<String> = model.attentions().into_iter().map(|(site, _)| site).collect();
    let probe = sites.iter().fold(Probe::new(), |probe, site| probe.record(format!("{site}.weights")));
    let scores = vit.forward(&Context::inference().with_probe(&probe), &image)?;
    let mut layers = Vec::new();
    for site in &sites {
        let weights = probe.weights(site).with_context(|| format!("the model did not pass {site}"))?;
        layers.push(weights.all().mean(1)?.select(0, 0)?);
    }
    let rolled = rollout(&layers)?.pop().context("the ViT has no layers")?;
    Ok(Look {
        side: images.columns,
        weights: rolled.select(0, 0)?.to_vec().split_off(1),
        label: images.labels[index],
        said: scores.argmax(-1)?.values().first().map_or(0, |&class| class as usize),
        pixels,
    })
}

fn read(lab: &Lab, seed: u64) -> Result<Reader> {
    let t5 = lab.train(&models::passive(lab, seed)?)?.open()?;
    let pairs = Pairs::new(seed).split(Split::Test);
    let crossed = |pair: Pair| cross(&t5, &pair);
    let crossed: Vec<Crossed> =
        pairs.pairs().take(lab.by_size(10, 100, 400, 1_000)).map(crossed).collect::<Result<_>>()?;
    let gpt = models::trained_base(lab, seed)?.open()?;
    let tokenizer = gpt.tokenizer()?;
    let unknown = tokenizer.special().unknown.context("the tokenizer has no unknown word")?;
    let most = models::base(lab, seed)?.data.length.min(24);
    let mut texts = Vec::new();
    let mut sentence = None;
    for (tokens, _) in models::parsed_sentences(tokenizer, lab.by_size(6, 60, 300, 500), most)? {
        if sentence.is_none()
            && (9..=14).contains(&tokens.len())
            && !tokens.ids.contains(&unknown)
            && seed == 0
        {
            sentence = Some(picture(&gpt.model, &tokens, |id| tokenizer.piece(id).unwrap_or_default())?);
        }
        if let Some(asked) = last_word(&tokens) {
            texts.push(asked);
        }
    }
    let found: Vec<Agreement> = faithfulness(
        &gpt.model,
        texts.into_iter().map(Ok),
        (Blank::Replace(unknown), Quantity::Probability),
        FLOW_LIMIT,
        Resampling::new(0),
    )?;
    let agreement = found.iter().map(|agreement| agreement.correlation.mean).collect();
    Ok(Reader { found: origins(&crossed), agreement, sentence })
}

/// A sentence without its last word (the full stop goes, too), and that word as what is to be said next.
fn last_word(tokens: &Tokens) -> Option<(Tokens, Target)> {
    let last = (0..tokens.len()).rev().find(|&i| !tokens.delimiter[i]).filter(|&last| last >= 4)?;
    let class = tokens.ids[last] as usize;
    let mut read = Tokens::new(tokens.ids[..last].to_vec());
    read.delimiter = tokens.delimiter[..last].to_vec();
    Some((read, Target::at(last - 1, class)))
}

/// How often the head that finds origins best on one half of the pairs finds them on the other, and how often they are in the
/// same place.
fn origins(crossed: &[Crossed]) -> (f64, f64) {
    let share = |half: usize, count: &dyn Fn(&Crossed) -> (usize, usize)| {
        let sums = crossed.iter().skip(half).step_by(2).map(count);
        let (right, all) = sums.fold((0, 0), |sums, (right, all)| (sums.0 + right, sums.1 + all));
        right as f64 / all.max(1) as f64
    };
    let heads = crossed.first().map_or(0, |crossed| crossed.heads.len());
    let by_head: Vec<f64> = (0..heads).map(|head| share(0, &|crossed| crossed.found(head))).collect();
    let best = (0..heads).max_by(|&a, &b| by_head[a].total_cmp(&by_head[b])).unwrap_or(0);
    (share(1, &|crossed| crossed.found(best)), share(1, &Crossed::found_in_place))
}

fn picture(model: &Model, tokens: &Tokens, word: impl Fn(u32) -> String) -> Result<Sentence> {
    let layers = mean_attention(model, tokens)?;
    let last = |layers: &[Tensor]| layers.last().map(Tensor::to_vec).context("the model has no layers");
    Ok(Sentence {
        words: tokens.ids.iter().map(|&id| word(id)).collect(),
        raw: last(&layers)?,
        rolled: last(&rollout(&layers)?)?,
    })
}

fn draw_costs(findings: &mut Findings, length: usize) {
    let names: Vec<String> = Saving::ALL.map(|saving| saving.name().to_owned()).to_vec();
    let bars = ["time ÷ plain", "memory ÷ plain"].into_iter().fold(
        Bars::lying(names, Axis::linear("share of what the plain form takes").from_zero()),
        |bars, measure| {
            let bar = |saving: Saving| {
                let values = findings.measurements.values(&[&saving.name()], measure);
                let ends = values
                    .values()
                    .into_iter()
                    .fold((f64::INFINITY, 0.0_f64), |(low, high), x| (x.min(low), x.max(high)));
                Bar::new(values.mean().mean).interval(ends.0, ends.1)
            };
            bars.series(measure, Saving::ALL.map(bar).to_vec())
        },
    );
    findings.figure(
        "costs",
        "Time and memory over those of the plain form, from the smallest to the largest of repeated measurements. Tiled attention \
         is compared with attention written out, sparse and linear attention with tiled attention over everything, checkpointing \
         with a training step that keeps what it computed.",
        Picture::new("What each saves").subtitle(format!("Texts of {length} tokens")).panel(bars),
    );
    draw_patterns(findings);
}

/// Patterns are drawn coarsely: each cell is the share of pairs in it that may be seen.
fn draw_patterns(findings: &mut Findings) {
    const LENGTH: usize = 512;
    const CELL: usize = 8;
    let mut gallery = Gallery::new(3, ColourScale::sequential("share seen").range(0.0, 1.0)).side(150.0);
    for saving in [Saving::Tiled, Saving::Longformer, Saving::BigBird] {
        let Ok(mask) = saving.pattern().mask(LENGTH, LENGTH) else { continue };
        let seen = |row: usize, column: usize| {
            let pairs = (0..CELL * CELL)
                .filter(|i| mask.values()[(row * CELL + i / CELL) * LENGTH + column * CELL + i % CELL]);
            pairs.count() as f32 / (CELL * CELL) as f32
        };
        let name = if saving == Saving::Tiled { "everything" } else { saving.name() };
        gallery = gallery.map(name, Matrix::from_fn(LENGTH / CELL, LENGTH / CELL, seen));
    }
    findings.figure(
        "patterns",
        format!("Who may attend to whom among {LENGTH} tokens: rows look at columns."),
        Picture::new("Sparse patterns").panel(gallery),
    );
}

fn draw_looks(findings: &mut Findings, eye: Option<&Eye>, sentence: Option<&Sentence>) {
    if let Some(eye) = eye.filter(|eye| !eye.looks.is_empty()) {
        let mut picture = Picture::new("A vision transformer looks at digits")
            .subtitle(
                "Above: the picture. Below: how much of the class token comes from each patch, by rollout",
            )
            .columns(eye.looks.len());
        for look in &eye.looks {
            if let Ok(matrix) = Matrix::new(look.side, look.side, look.pixels.clone()) {
                let map =
                    HeatMap::new(matrix, ColourScale::sequential("ink").range(0.0, 1.0)).area(170.0, 170.0);
                picture = picture.titled_panel(format!("a {}, read as {}", look.label, look.said), map);
            }
        }
        for look in &eye.looks {
            if let Ok(matrix) = Matrix::new(eye.patches, eye.patches, look.weights.clone()) {
                let map = HeatMap::new(matrix, ColourScale::sequential("share")).area(170.0, 170.0);
                picture = picture.panel(map);
            }
        }
        findings.figure(
            "digits",
            "Built-in digits that the model was not trained on, and the patches that its class token is made of.",
            picture,
        );
    }
    if let Some(Sentence { words, raw, rolled }) = sentence {
        let map = |values: &Vec<f32>| {
            let matrix = Matrix::new(words.len(), words.len(), values.clone()).ok()?;
            let map = HeatMap::new(matrix, ColourScale::sequential("share").range(0.0, 1.0))
                .words(words.clone(), words.clone())
                .mask(|row, column| column > row);
            Some(map)
        };
        if let (Some(raw), Some(rolled)) = (map(raw), map(rolled)) {
            findings.figure(
                "rollout",
                "Left: the last layer's weights, the mean of its heads. Right: rollout, which multiplies the layers' weights, half of \
                 each position being what it was before.",
                Picture::new("Raw attention and rollout")
                    .columns(2)
                    .titled_panel("raw attention, last layer", raw)
                    .titled_panel("rollout through all layers", rolled),
            );
        }
    }
}

fn judge(table: &Measurements) -> Verdict {
    let of = |what: &str, measure: &str| table.mean(&[&what], measure);
    let exact = Saving::ALL.map(|saving| {
        let what = format!("{}: largest difference from the plain form", saving.name());
        Check::new(what, of(saving.name(), "difference"), Bound::Below(1e-5))
    });
    let cheaper = [
        (Saving::Tiled, "memory ÷ plain"),
        (Saving::Longformer, "time ÷ plain"),
        (Saving::BigBird, "time ÷ plain"),
        (Saving::Linear, "time ÷ plain"),
        (Saving::Checkpointing, "memory ÷ plain"),
    ];
    let cheaper = cheaper.map(|(saving, measure)| {
        Check::new(format!("{}: {measure}", saving.name()), of(saving.name(), measure), Bound::Below(1.0))
    });
    let found = |measure: &str| table.values(&[&"cross-attention"], measure);
    let rolled = of(Method::Rollout.name(), "correlation with blank-out");
    let raw = of(Method::Attention.name(), "correlation with blank-out");
    let accuracy = of("vision transformer", "accuracy");
    let mut checks: Vec<Check> = exact.into_iter().chain(cheaper).collect();
    checks.extend([
        Check::new("vision transformer: accuracy on digits", accuracy, Bound::Above(0.9)),
        Check::new(
            "cross-attention: origins of words found − origins in the same place",
            paired(&found("origins found"), &found("origins in the same place")),
            Bound::Above(0.0),
        ),
        Check::new("rollout: rank correlation with blank-out", rolled, Bound::Above(0.0)),
    ]);
    let told = |saving: Saving, measure: &str| 100.0 * of(saving.name(), measure).mean;
    let finding = format!(
        "Tiled attention takes {:.0} % of the memory; Longformer, BigBird and linear attention {:.0} %, {:.0} % and {:.0} % of the \
         time; checkpointing {:.0} % of the memory for {:.0} % of the time. The ViT reads {:.1} % of digits; cross-attention finds \
         {:.0} % of origins. Rollout correlates with blank-out by {:.2}, raw attention by {:.2}.",
        told(Saving::Tiled, "memory ÷ plain"),
        told(Saving::Longformer, "time ÷ plain"),
        told(Saving::BigBird, "time ÷ plain"),
        told(Saving::Linear, "time ÷ plain"),
        told(Saving::Checkpointing, "memory ÷ plain"),
        told(Saving::Checkpointing, "time ÷ plain"),
        100.0 * accuracy.mean,
        100.0 * of("cross-attention", "origins found").mean,
        rolled.mean,
        raw.mean,
    );
    Verdict::new("E10", checks, finding)
        .published("rollout: correlation with blank-out", 0.71, Some(rolled.mean), SOURCE)
        .published("raw attention: correlation with blank-out", 0.29, Some(raw.mean), SOURCE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;
    use crate::experiments::wrong;
    use saccade::models::VitConfig;
    use saccade::train::{Progress, Schedule, Supervised, Task, TrainConfig, train};

    fn planted(difference: f64, cost: f64, accuracy: f64, correlation: f64) -> Measurements {
        let mut table = Measurements::new(&["extension"]);
        for seed in 0..3 {
            let noise = 1.0 + 0.01 * seed as f64;
            for saving in Saving::ALL {
                table.add(&[&saving.name()], seed, "difference", difference * noise);
                table.add(&[&saving.name()], seed, "time ÷ plain", cost * noise);
                table.add(&[&saving.name()], seed, "memory ÷ plain", cost * noise);
            }
            table.add(&[&"vision transformer"], seed, "accuracy", accuracy / noise);
            table.add(&[&"cross-attention"], seed, "origins found", 0.8 * noise);
            table.add(&[&"cross-attention"], seed, "origins in the same place", 0.2);
            for method in Method::ALL {
                table.add(&[&method.name()], seed, "correlation with blank-out", correlation * noise);
            }
        }
        table
    }

    #[test]
    fn the_verdict_follows_what_was_measured() {
        assert_eq!(judge(&planted(1e-7, 0.4, 0.99, 0.5)).outcome, Outcome::Holds);
        assert_eq!(judge(&planted(1e-2, 0.4, 0.99, 0.5)).outcome, Outcome::Fails, "not exact");
        assert_eq!(judge(&planted(1e-7, 1.4, 0.99, 0.5)).outcome, Outcome::Fails, "not cheaper");
        assert_eq!(judge(&planted(1e-7, 0.4, 0.1, 0.5)).outcome, Outcome::Fails, "blind");
        assert_eq!(judge(&planted(1e-7, 0.4, 0.99, -0.5)).outcome, Outcome::Fails, "rollout misleads");
    }

    #[test]
    fn the_last_word_is_asked_for_and_not_shown() {
        let mut tokens = Tokens::new(vec![5, 6, 7, 8, 9, 2]);
        tokens.delimiter[5] = true;
        let (read, target) = last_word(&tokens).unwrap();
        assert_eq!((read.ids, target), (vec![5, 6, 7, 8], Target::at(3, 9)));
    }

    /// What would be measured if all of E10 were true but for one check, with a little noise that differs between seeds.
    fn judged_but_for(place: usize) -> Verdict {
        let mut table = Measurements::new(&["extension"]);
        let cheaper = [false, true, true, true, false]
            .map(|time| ["memory ÷ plain", "time ÷ plain"][usize::from(time)]);
        for seed in 0..4 {
            let noise = 1.0 + 0.01 * seed as f64 + 0.002 * (seed % 2) as f64;
            for (i, saving) in Saving::ALL.into_iter().enumerate() {
                let difference = if place == i { 1e-3 } else { 1e-7 };
                table.add(&[&saving.name()], seed, "difference", difference * noise);
                for measure in ["time ÷ plain", "memory ÷ plain"] {
                    // What a saving does not save may cost more.
                    let dear = place == 5 + i || measure != cheaper[i];
                    table.add(&[&saving.name()], seed, measure, if dear { 1.4 } else { 0.4 } * noise);
                }
            }
            let accuracy = if place == 10 { 0.5 } else { 0.96 };
            table.add(&[&"vision transformer"], seed, "accuracy", accuracy + 0.01 * noise);
            let (found, in_place) = if place == 11 { (0.2, 0.6) } else { (0.6, 0.2) };
            table.add(&[&"cross-attention"], seed, "origins found", found * noise);
            table.add(
                &[&"cross-attention"],
                seed,
                "origins in the same place",
                in_place + 0.001 * (seed % 3) as f64,
            );
            for method in Method::ALL {
                let correlation = if place == 12 && method == Method::Rollout { -0.3 } else { 0.3 };
                table.add(&[&method.name()], seed, "correlation with blank-out", correlation * noise);
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
            assert_eq!((fails.outcome, wrong(&fails)), (Outcome::Fails, vec![place]), "{}", check.what);
        }
    }

    /// Pairs of four words whose passive has them the other way round, read by two heads: one looks at the first word, the
    /// other wherever it is told to.
    fn pairs(looks_at: impl Fn(usize) -> usize) -> Vec<Crossed> {
        let words = || ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        let weights = |at: &dyn Fn(usize) -> usize| {
            (0..16).map(|i| if i % 4 == at(i / 4) { 0.7 } else { 0.1 }).collect::<Vec<f32>>()
        };
        let pair = || Crossed {
            source: words(),
            target: words(),
            heads: vec![weights(&|_| 0), weights(&looks_at)],
            origins: vec![vec![3], vec![2], vec![1], vec![0]],
            right: vec![true; 4],
        };
        (0..4).map(|_| pair()).collect()
    }

    #[test]
    fn origins_are_found_by_a_head_that_looks_at_them_and_by_no_other() {
        assert_eq!(origins(&pairs(|target| 3 - target)), (1.0, 0.0));
        assert_eq!(
            origins(&pairs(|target| target)),
            (0.25, 0.0),
            "the head that always looks at the first word"
        );
        // A head is not praised on the pairs that it was chosen by.
        let mut mixed = pairs(|target| 3 - target);
        mixed[1] = pairs(|target| target).remove(0);
        mixed[3] = pairs(|target| target).remove(0);
        assert_eq!(origins(&mixed).0, 0.0);
        assert_eq!(origins(&[]), (0.0, 0.0));
    }

    /// The accuracy of a small ViT, measured as in [`look`], that was trained on digits with some labels.
    fn trained_on(label: impl Fn(&Images, usize) -> u8) -> Result<f64> {
        let labelled = |part: &str, count: usize| {
            let mut images = saccade::data::builtin::digits(0, part, count);
            images.labels = (0..count).map(|i| label(&images, i)).collect();
            Pictures::new(images, (0.1, 0.3))
        };
        let form = VitConfig {
            n_layers: 1,
            n_heads: 2,
            d_model: 16,
            d_hidden: 32,
            patch: 7,
            classes: 10,
            ..VitConfig::default()
        };
        let rate = Schedule { highest: 8e-3, ..Schedule::default() };
        let config =
            TrainConfig { steps: 300, batch_size: 32, evaluate_every: 0, rate, ..TrainConfig::default() };
        let batches = |pictures, size| Batches::new(pictures, size, Key::new(0));
        let model = Model::Vit(Vit::new(form, 0)?);
        let mut task = Supervised::new(
            model,
            batches(labelled("train", 1_500), 32)?,
            batches(labelled("held", 64), 64)?,
        );
        train(&mut task, &config, &mut Progress::new(&config), &mut ())?;
        let found = evaluate(task.model(), &batches(labelled("test", 400), 64)?, &Context::inference())?;
        Ok(found.measures.iter().find(|(name, _)| name == "accuracy").context("no accuracy")?.1)
    }

    #[test]
    fn a_vit_reads_digits_no_better_than_by_chance_if_their_labels_mean_nothing() -> Result<()> {
        let key = Key::new(7);
        // The pixels decide which of the labels is drawn, so that the parts do not share their draws.
        let drawn = |images: &Images, i: usize| {
            let ink: u64 = images.image(i).unwrap_or_default().iter().map(|&pixel| u64::from(pixel)).sum();
            key.below(ink, i as u64, 10) as u8
        };
        let (sense, nonsense) = (trained_on(|images, i| images.labels[i])?, trained_on(drawn)?);
        assert!(sense > 0.4, "it learns digits: {sense}");
        // 400 digits: three standard deviations of one in ten are 0.045.
        assert!((nonsense - 0.1).abs() < 0.045, "{nonsense}");
        assert_eq!(judge(&planted(1e-7, 0.4, nonsense, 0.5)).outcome, Outcome::Fails);
        Ok(())
    }
}
