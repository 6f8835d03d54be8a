//! How a model knows where a word stands, and what becomes of it in texts longer than those it was trained on.

use super::models::language as models;
use crate::experiment::Sizes;
use crate::experiment::claims::SOURCES;
use crate::experiment::{
    Bound, Check, Experiment, Findings, Lab, Measurements, Trained, Verdict, those_that_apply,
};
use crate::figure::{Axis, Chart, ColourScale, HeatMap, Matrix, Picture, Series};
use crate::statistics::{Interval, Sample, mean, paired};
use anyhow::{Context as _, Result};
use regard_nn::position::{Position, alibi_slopes, relative_bucket, sinusoidal};
use regard_nn::tensor::Ids;
use serde::{Deserialize, Serialize};

pub const EXPERIMENT: Experiment = Experiment {
    name: "positions",
    claims: &["E3"],
    question: "How much does it matter how positions are told, at the trained length and beyond it?",
    prediction: "At the trained length, the perplexities of sinusoidal, learned and rotary positions lie within 5 % of each \
        other. At twice that length the perplexity of learned positions rises by the largest share, that of sinusoidal ones by \
        less, and that of rotary ones by the least.",
    design: "The same GPT, trained alike but for how it knows positions: a fixed wave, a learned table, rotation, a penalty by \
        distance (ALiBi), a learned bias by distance (T5), or not at all. Its perplexity on test text in windows of 1, 1.5, \
        2 and 4 times the length of its training windows, and its loss by the place in the longest of them. The learned table has \
        four times as many rows; the extra ones are never trained. The seed is shared by all encodings, and differences are paired by it.",
    changed: Some(
        "After a first run, fixed waves were made as large as the vectors they are added to; before, they drowned them. The bounds are \
         the first ones.",
    ),
    real_data: Some("plain text such as WikiText-2's folder"),
    conditions: &["encoding", "length"],
    seeds: Sizes::quick(3),
    seconds: Sizes::quick(30.0).standard(300.0).full(7_600.0),
    run,
};

const ENCODINGS: [(Position, &str); 6] = [
    (Position::Sinusoidal, "sinusoidal"),
    (Position::Learned, "learned"),
    (Position::Rotary, "rotary"),
    (Position::Alibi, "ALiBi"),
    (Position::Relative, "T5 bias"),
    (Position::None, "none"),
];
/// Lengths of windows over the trained one.
const STRETCHES: [f64; 4] = [1.0, 1.5, 2.0, LONGEST];
const LONGEST: f64 = models::ROOM as f64;
/// Places of the longest windows are told in so many groups; those within the trained length come first.
const GROUPS: usize = 16;
/// The last group within the trained length.
const TRAINED: usize = GROUPS / models::ROOM;
/// Name, perplexity, and its rise at twice the length.
const PUBLISHED: [(&str, f64, f64); 3] =
    [("sinusoidal", 45.2, 0.157), ("learned", 43.8, 0.783), ("rotary", 44.1, 0.104)];
const SOURCE: &str = SOURCES[4];
/// Perplexities that differ by less than this share are near each other.
const NEAR: f64 = 0.05;
/// Trained at 512, read at 1,012, WikiText-103.
const PRESS: [(&str, f64); 4] = [("sinusoidal", 43.5), ("rotary", 21.4), ("T5 bias", 18.8), ("ALiBi", 18.7)];
const PRESS_SOURCE: &str = "Press et al., 2021, WikiText-103, trained at 512, read at 1,012";

#[derive(Serialize, Deserialize)]
struct Run {
    /// By [`STRETCHES`].
    losses: Vec<f64>,
    /// By [`GROUPS`] of places in the longest windows.
    places: Vec<f64>,
    /// The held-out loss when it was first measured in training, and at the end.
    held_out: [f64; 2],
    /// What the model learned about positions, of the first seed: the rows of its table, or a bias by distance and head.
    learned: Option<(usize, Vec<f32>)>,
}

fn run(lab: &Lab) -> Result<Findings> {
    let seeds = lab.seeds();
    let inputs: Vec<(usize, u64)> =
        (0..ENCODINGS.len()).flat_map(|encoding| seeds.iter().map(move |&seed| (encoding, seed))).collect();
    let runs = lab.parts("runs", &inputs, |&(encoding, seed)| read(lab, encoding, seed))?;
    let length = models::base_on_text(lab, 0)?.data.length;
    let mut findings = Findings::new(&["encoding", "length"]);
    for (&(encoding, seed), run) in inputs.iter().zip(&runs) {
        for (stretch, &loss) in STRETCHES.iter().zip(&run.losses) {
            let conditions: [&dyn std::fmt::Display; 2] = [&ENCODINGS[encoding].1, stretch];
            findings.measurements.add(&conditions, seed, "loss", loss);
            findings.measurements.add(&conditions, seed, "perplexity", loss.exp());
        }
        let name = ENCODINGS[encoding].1;
        for (group, &loss) in run.places.iter().enumerate() {
            findings.measurements.add(&[&name, &LONGEST], seed, at_places(group + 1), loss);
        }
        for (when, loss) in WHEN.into_iter().zip(run.held_out) {
            findings.measurements.add(&[&name, &STRETCHES[0]], seed, when, loss);
        }
    }
    draw_extrapolation(&mut findings, length);
    let learned = |wanted: Position| {
        let of = |((encoding, _), run): (&(usize, u64), &Run)| {
            run.learned.clone().filter(|_| ENCODINGS[*encoding].0 == wanted)
        };
        inputs.iter().zip(&runs).find_map(of)
    };
    draw_encodings(&mut findings, length, learned(Position::Learned), learned(Position::Relative))?;
    findings.verdicts = vec![judge(&findings.measurements)];
    for (_, name) in ENCODINGS {
        for stretch in STRETCHES {
            let value = findings.measurements.mean(&[&name, &stretch], "perplexity").mean;
            findings.fact(format!("perplexity: {name}, {stretch}×"), value);
        }
        let rise = rises(&findings.measurements, name, 2.0).mean().mean;
        findings.fact(format!("rise: {name}"), rise);
    }
    findings.fact("trained length", length as f64);
    Ok(findings)
}

/// When the held-out loss was measured that is kept.
const WHEN: [&str; 2] = ["held-out loss, a fifth of the training", "held-out loss, end of the training"];

/// What the loss at a group of places is called; the first is 1.
fn at_places(group: usize) -> String {
    format!("loss, places {group}/{GROUPS}")
}

fn train(lab: &Lab, position: Position, seed: u64) -> Result<Trained> {
    let mut config = models::base_on_text(lab, seed)?;
    models::gpt(&mut config)?.positions = position;
    lab.train(&config)
}

fn read(lab: &Lab, encoding: usize, seed: u64) -> Result<Run> {
    let (position, _) = ENCODINGS[encoding];
    let trained = train(lab, position, seed)?;
    let opened = trained.open()?;
    let config = models::base_on_text(lab, seed)?;
    let text = models::test_text(lab, &config, opened.tokenizer()?)?;
    let length = config.data.length;
    let batch = |window: usize| 2_048_usize.div_ceil(window);
    let longest = models::ROOM * length;
    let places = models::losses_by_place(&*opened.model, &text, longest, batch(longest))?;
    let loss = |&stretch: &f64| match (length as f64 * stretch) as usize {
        window if window == longest => Ok(mean(&places).mean),
        window => models::loss_at(&*opened.model, &text, window, batch(window)),
    };
    let held_out: Vec<f64> = trained.curve.iter().filter_map(|line| line.loss).collect();
    let learned = match (position, seed) {
        (Position::Learned, 0) => models::parameter(&*opened.model, "positions.table.weight"),
        (Position::Relative, 0) => models::parameter(&*opened.model, "positions.relative"),
        _ => None,
    };
    let form = models::gpt(&mut config.clone())?.clone();
    let width = |_: &Vec<f32>| if position == Position::Learned { form.d_model } else { form.n_heads };
    Ok(Run {
        losses: STRETCHES.iter().map(loss).collect::<Result<_>>()?,
        places: places.chunks(longest.div_ceil(GROUPS)).map(|group| mean(group).mean).collect(),
        held_out: [
            held_out.first().copied().context("the model was never evaluated")?,
            held_out.last().copied().context("the model was never evaluated")?,
        ],
        learned: learned.map(|values| (width(&values), values)),
    })
}

fn draw_extrapolation(findings: &mut Findings, length: usize) {
    let lengths = STRETCHES.map(|stretch| stretch * length as f64);
    let empty = Chart::new(
        Axis::linear("length of the window, tokens").ticks(lengths),
        Axis::log("perplexity on test text"),
    );
    let chart = ENCODINGS.iter().fold(empty, |chart, (_, name)| {
        let points: Vec<_> = STRETCHES
            .iter()
            .zip(lengths)
            .map(|(stretch, length)| {
                let values = findings.measurements.values(&[name, stretch], "perplexity");
                let (low, high) = values
                    .values()
                    .into_iter()
                    .fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), x| (x.min(low), x.max(high)));
                (length, values.mean().mean, low, high)
            })
            .collect();
        chart.series(Series::new(*name).intervals(points))
    });
    let wide = (models::ROOM * length) as f64 / GROUPS as f64;
    let empty = Chart::new(
        Axis::linear("place in the window, tokens").ticks(lengths),
        Axis::linear("loss at the place, nats"),
    );
    let places = ENCODINGS.iter().fold(empty, |chart, (_, name)| {
        let loss = |group: usize| findings.measurements.mean(&[name, &LONGEST], &at_places(group)).mean;
        chart.series(Series::new(*name).points((1..=GROUPS).map(|group| (wide * group as f64, loss(group)))))
    });
    let mark = |chart: Chart| chart.upright(length as f64, "trained length").half();
    findings.figure(
        "extrapolation",
        "Perplexity against the length of the window, for six ways to tell positions: mean over seeds, from the smallest to the largest; \
         and the loss by the place in the longest windows, mean over seeds.",
        Picture::new("Beyond the trained length")
            .columns(2)
            .titled_panel("by the length of the window", mark(chart))
            .titled_panel("by the place in the longest window", mark(places)),
    );
}

fn draw_encodings(
    findings: &mut Findings,
    length: usize,
    table: Option<(usize, Vec<f32>)>,
    bias: Option<(usize, Vec<f32>)>,
) -> Result<()> {
    let rows = models::ROOM * length;
    let width = table.as_ref().map_or(64, |(width, _)| *width);
    let places: Vec<u32> = (0..rows as u32).collect();
    let waves = sinusoidal(&Ids::new(&places, [rows])?, width)?.to_vec();
    let picture = |values: Vec<f32>| -> Result<HeatMap> {
        Ok(HeatMap::new(Matrix::new(rows, width, values)?, ColourScale::diverging("value"))
            .names("position", "feature")
            .area(350.0, 300.0))
    };
    let mut pictures = Picture::new("Positions as vectors")
        .subtitle(format!("Trained on windows of {length}; later rows are never seen in training"))
        .columns(2)
        .titled_panel("sinusoidal", picture(waves.clone())?);
    let mut series = vec![Series::new("sinusoidal").points(cosines(&waves, width, length))];
    if let Some((_, table)) = table {
        series.push(Series::new("learned").points(cosines(&table, width, length)));
        pictures = pictures.titled_panel("learned", picture(table)?);
    }
    // Rotation is by head, and a head is narrower than the model.
    let head = width / bias.as_ref().map_or(4, |(heads, _)| *heads).max(1);
    let frequencies = (0..head / 2).map(|i| 10_000_f64.powf(-2.0 * i as f64 / head as f64));
    let turned = |distance: usize| {
        let sum: f64 = frequencies.clone().map(|frequency| (distance as f64 * frequency).cos()).sum();
        (distance as f64, sum / (head / 2).max(1) as f64)
    };
    series.push(Series::new("rotary").points((0..length).map(turned)));
    findings.figure(
        "positions_as_pictures",
        "What is added to a word's vector at each position: waves of falling frequency, and the table that a model learned. The \
         learned table has rows that no training window reaches.",
        pictures,
    );
    let empty = Chart::new(Axis::linear("distance, tokens"), Axis::linear("mean cosine of two positions"));
    let alike = series.into_iter().fold(empty, Chart::series);
    let empty = Chart::new(Axis::linear("distance, tokens"), Axis::linear("added to the score"));
    let slopes = alibi_slopes(bias.as_ref().map_or(4, |(heads, _)| *heads));
    let mut penalties = slopes.iter().take(2).enumerate().fold(empty, |chart, (head, slope)| {
        let points = (0..length).map(|distance| (distance as f64, -f64::from(*slope) * distance as f64));
        chart.series(Series::new(format!("ALiBi, head {}", head + 1)).points(points))
    });
    if let Some((heads, bias)) = bias {
        for head in 0..heads.min(2) {
            let points = (0..length).map(|distance| {
                let bucket = relative_bucket(-(distance as i64), bias.len() / heads, 128, false) as usize;
                (distance as f64, f64::from(bias[bucket * heads + head]))
            });
            penalties = penalties.series(Series::new(format!("T5 bias, head {}", head + 1)).points(points));
        }
    }
    findings.figure(
        "positions_against_distance",
        "How alike two positions are, by their distance: the cosine of their vectors, and for rotary positions that of a vector with \
         itself turned. And what ALiBi and the trained T5 bias add to a score.",
        Picture::new("Near and far")
            .columns(2)
            .titled_panel("by likeness", alike.half())
            .titled_panel("by penalty", penalties.half()),
    );
    Ok(())
}

/// The mean cosine of the rows of a table by their distance, among those that are trained.
fn cosines(table: &[f32], width: usize, length: usize) -> Vec<(f64, f64)> {
    let row = |i: usize| &table[i * width..(i + 1) * width];
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
    let cosine = |i: usize, j: usize| {
        dot(row(i), row(j)) / (dot(row(i), row(i)) * dot(row(j), row(j))).sqrt().max(f64::MIN_POSITIVE)
    };
    let at = |distance: usize| {
        let pairs = length - distance;
        let sum: f64 = (0..pairs).map(|i| cosine(i, i + distance)).sum();
        (distance as f64, sum / pairs as f64)
    };
    // The last distances have few pairs.
    (0..length - length / 8).map(at).collect()
}

/// The share by which each seed's perplexity rises at a stretch.
fn rises(table: &Measurements, name: &str, stretch: f64) -> Sample {
    let of = |stretch: f64| table.values(&[&name, &stretch], "perplexity");
    of(stretch).over(&of(1.0)).map(|ratio| ratio - 1.0)
}

fn judge(table: &Measurements) -> Verdict {
    let apart = |a: &str, b: &str| -> Interval {
        let of = |name: &str| table.values(&[&name, &1.0], "loss");
        paired(&of(a), &of(b))
    };
    let more = |a: &str, b: &str| paired(&rises(table, a, 2.0), &rises(table, b, 2.0));
    let told = |name: &str| {
        format!(
            "{name} {:.1} ({:+.1} %)",
            table.mean(&[&name, &1.0], "perplexity").mean,
            100.0 * rises(table, name, 2.0).mean().mean
        )
    };
    let finding = format!(
        "Perplexity at the trained length, and its change at twice that length: {}.",
        ENCODINGS.iter().map(|(_, name)| told(name)).collect::<Vec<_>>().join(", ")
    );
    let near = Bound::Between(-NEAR, NEAR);
    let ratio = |a: &str, b: &str| format!("trained length: ln of perplexity, {a} − {b}");
    let rise = |a: &str, b: &str| format!("twice the length: share by which perplexity rises, {a} − {b}");
    let checks = vec![
        Check::new(ratio("sinusoidal", "learned"), apart("sinusoidal", "learned"), near),
        Check::new(ratio("rotary", "learned"), apart("rotary", "learned"), near),
        Check::new(rise("learned", "sinusoidal"), more("learned", "sinusoidal"), Bound::Above(0.0)),
        Check::new(rise("sinusoidal", "rotary"), more("sinusoidal", "rotary"), Bound::Above(0.0)),
    ];
    let mut verdict = Verdict::new("E3", checks, finding).because(|checks| why(table, checks));
    for (name, perplexity, rise) in PUBLISHED {
        let ours = table.mean(&[&name, &1.0], "perplexity").mean;
        verdict = verdict.published(format!("perplexity, {name}"), perplexity, Some(ours), SOURCE);
        let ours = rises(table, name, 2.0).mean().mean;
        verdict = verdict.published(format!("rise at twice the length, {name}"), rise, Some(ours), SOURCE);
    }
    for (name, perplexity) in PRESS {
        let ours = table.mean(&[&name, &2.0], "perplexity").mean;
        let what = format!("perplexity at twice the length, {name}");
        verdict = verdict.published(what, perplexity, Some(ours), PRESS_SOURCE);
    }
    verdict
}

/// Where the loss jumps, and whether what differs at the trained length is on its way out.
fn why(table: &Measurements, checks: &[Check]) -> String {
    let gap = |name: &str, measure: &str| {
        paired(&table.values(&[&name, &1.0], measure), &table.values(&[&"learned", &1.0], measure)).mean
    };
    let apart = |name: &str| {
        let [early, late] = WHEN.map(|when| gap(name, when));
        let closes = match late.signum() == early.signum() && late.abs() < early.abs() / 2.0 {
            true => "the gap closes as training goes on",
            false => "training does not close the gap",
        };
        format!(
            "At the trained length {name} positions differ from learned ones by {early:+.2} nats of held-out loss after a fifth of the \
             training and by {late:+.2} at its end: {closes}."
        )
    };
    let jumps = |name: &str| {
        let at = |group: usize| table.values(&[&name, &LONGEST], &at_places(group));
        at(TRAINED + 1).minus(&at(TRAINED))
    };
    let told = ENCODINGS.iter().map(|(_, name)| format!("{name} {:+.2}", jumps(name).mean().mean));
    let told = format!(
        "In the longest windows, the loss just beyond the trained length differs from that just before it by (nats): {}.",
        told.collect::<Vec<_>>().join(", ")
    );
    let turned = paired(&jumps("rotary"), &jumps("sinusoidal")).low > 0.0;
    those_that_apply([
        (checks[0].fails(), apart("sinusoidal").as_str()),
        (checks[1].fails(), &apart("rotary")),
        (checks[2].fails() || checks[3].fails(), &told),
        (
            checks[3].fails() && turned,
            "To turn by angles that training never reached is a larger step here than to add waves that it never reached.",
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;
    use crate::experiments::wrong;

    /// Losses at the trained length and rises at twice the length, in the order of [`PUBLISHED`].
    fn planted(losses: [f64; 3], rises: [f64; 3]) -> Measurements {
        let mut table = Measurements::new(&["encoding", "length"]);
        for (i, (name, ..)) in PUBLISHED.iter().enumerate() {
            for seed in 0..3 {
                let perplexity = (losses[i] + 0.001 * seed as f64 * i as f64).exp();
                table.add(&[name, &1.0], seed, "loss", perplexity.ln());
                table.add(&[name, &1.0], seed, "perplexity", perplexity);
                table.add(&[name, &2.0], seed, "perplexity", perplexity * (1.0 + rises[i]));
            }
        }
        table
    }

    #[test]
    fn the_verdict_follows_the_perplexities() {
        let published = planted([3.811, 3.780, 3.786], [0.157, 0.783, 0.104]);
        assert_eq!(judge(&published).outcome, Outcome::Holds);
        let far_apart = planted([4.2, 3.780, 3.786], [0.157, 0.783, 0.104]);
        assert_eq!(judge(&far_apart).outcome, Outcome::Fails);
        let rotary_breaks = planted([3.811, 3.780, 3.786], [0.157, 0.783, 0.504]);
        assert_eq!(judge(&rotary_breaks).outcome, Outcome::Fails);
    }

    #[test]
    fn the_reason_is_told_from_what_was_measured() {
        let mut table = planted([3.4, 3.8, 3.8], [0.157, 0.783, 0.504]);
        let look = |table: &mut Measurements, jumps: [f64; 3]| {
            let models = [("sinusoidal", 4.5, 3.7), ("learned", 5.0, 3.8), ("rotary", 5.0, 3.8)];
            for seed in 0..3 {
                for ((name, early, late), jump) in models.into_iter().zip(jumps) {
                    table.add(&[&name, &1.0], seed, WHEN[0], early);
                    table.add(&[&name, &1.0], seed, WHEN[1], late);
                    table.add(&[&name, &LONGEST], seed, at_places(TRAINED), 4.0);
                    let noise = 0.001 * seed as f64;
                    table.add(&[&name, &LONGEST], seed, at_places(TRAINED + 1), 4.0 + jump + noise);
                }
            }
        };
        look(&mut table, [0.1, 0.4, 0.3]);
        let why = judge(&table).why.unwrap_or_default();
        for told in [
            "sinusoidal positions differ",
            "by −0.50 nats",
            "by −0.10 at",
            "the gap closes",
            "rotary +0.30",
            "To turn by angles",
        ] {
            assert!(why.contains(told), "{told}: {why}");
        }
        let mut turned = planted([3.80, 3.78, 3.79], [0.104, 0.783, 0.157]);
        look(&mut turned, [0.3, 0.4, 0.1]);
        let near = judge(&turned).why.unwrap_or_default();
        assert!(near.contains("rotary +0.10"), "{near}");
        assert!(!near.contains("At the trained length") && !near.contains("To turn"), "{near}");
    }

    #[test]
    fn likeness_is_the_cosine_at_each_distance() {
        // Rows that turn by a quarter: alike at 0, at right angles at 1, opposite at 2.
        let table: Vec<f32> = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]].concat().repeat(4);
        let likeness: Vec<f64> = cosines(&table, 2, 16).into_iter().map(|(_, cosine)| cosine).collect();
        assert_eq!(likeness[..3], [1.0, 0.0, -1.0]);
    }

    /// The same with a little noise in everything, another for each seed.
    fn with_noise(losses: [f64; 3], rises: [f64; 3]) -> Verdict {
        let mut table = Measurements::new(&["encoding", "length"]);
        for (i, (name, ..)) in PUBLISHED.iter().enumerate() {
            for seed in 0..4 {
                let noise = 0.001 * ((seed + i as u64) % 3) as f64;
                let loss = losses[i] + 0.01 * seed as f64 + noise;
                table.add(&[name, &1.0], seed, "loss", loss);
                table.add(&[name, &1.0], seed, "perplexity", loss.exp());
                table.add(&[name, &2.0], seed, "perplexity", loss.exp() * (1.0 + rises[i] + noise));
            }
        }
        judge(&table)
    }

    #[test]
    fn each_part_of_the_claim_about_positions_can_be_wrong_alone() {
        let (near, published) = ([3.80, 3.78, 3.79], [0.157, 0.783, 0.104]);
        let holds = with_noise(near, published);
        assert_eq!((holds.outcome, wrong(&holds)), (Outcome::Holds, vec![]));
        let cases = [
            ("sinusoidal is worse at the trained length", [4.20, 3.78, 3.79], published),
            ("rotary is worse at the trained length", [3.80, 3.78, 4.20], published),
            ("learned positions rise less than sinusoidal ones", near, [0.783, 0.157, 0.104]),
            ("rotary positions rise more than sinusoidal ones", near, [0.157, 0.783, 0.504]),
        ];
        for (place, (what, losses, rises)) in cases.into_iter().enumerate() {
            let fails = with_noise(losses, rises);
            assert_eq!((fails.outcome, wrong(&fails)), (Outcome::Fails, vec![place]), "{what}");
        }
        let better = with_noise([3.80, 3.78, 3.40], published);
        assert_eq!((better.outcome, wrong(&better)), (Outcome::Fails, vec![1]), "much better differs, too");
        assert_eq!(with_noise(near, [0.5, 0.5, 0.104]).outcome, Outcome::Undecided, "as much as each other");
    }
}
