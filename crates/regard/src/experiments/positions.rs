//! Position encodings, at the trained length and beyond it.

mod pictures;

use super::models::language as models;
use crate::experiment::claims::SOURCES;
use crate::experiment::{
    Bound, Check, Data, Experiment, Findings, Lab, Rows, Sizes, Table, Verdict, charts, facts, named,
    those_that_apply,
};
use crate::figure::{Axis, Chart, Picture, Series};
use crate::run::RunConfig;
use crate::statistics::{Sample, mean, paired};
use anyhow::{Context as _, Result};
use regard_nn::position::Position;

pub const EXPERIMENT: Experiment = Experiment {
    name: "positions",
    claims: &["E3"],
    question: "How much does the position encoding matter, at the trained length and beyond it?",
    prediction: "At the trained length, the perplexities of sinusoidal, learned and rotary positions lie within 5 % of each \
        other. At twice that length the perplexity of learned positions rises by the largest share, that of sinusoidal ones by \
        less, and that of rotary ones by the least. Each is a part. The claim is testable if all three models have a lower loss than the \
        unigram distribution.",
    design: "The same GPT, trained alike but for its position encoding: sinusoidal, learned, rotary, a penalty by distance (ALiBi), a \
        learned bias by distance (T5), or none. Measured are its perplexity on test text in windows of 1, 1.5, 2 and 4 times the length of \
        its training windows, and its loss by the position in the longest of them. The learned table has four times as many rows as a \
        training window; the extra rows are never trained. All encodings share the seed, and differences are paired by it.",
    changed: None,
    data: Data::Text("plain text such as WikiText-2's folder"),
    conditions: &["encoding", "length"],
    seeds: Sizes::quick(3),
    seconds: Sizes::quick(30.0).standard(300.0).full(7_600.0).large(700.0),
    trains: |lab| Encoding::ALL.map(|encoding| config(lab, encoding, lab.first_seed())).into_iter().collect(),
    run,
};

named! {
    pub enum Encoding {
        Sinusoidal = "sinusoidal",
        Learned = "learned",
        Rotary = "rotary",
        Alibi = "ALiBi",
        Bias = "T5 bias",
        None = "none",
    }
}

impl Encoding {
    fn position(self) -> Position {
        match self {
            Encoding::Sinusoidal => Position::Sinusoidal,
            Encoding::Learned => Position::Learned,
            Encoding::Rotary => Position::Rotary,
            Encoding::Alibi => Position::Alibi,
            Encoding::Bias => Position::Relative,
            Encoding::None => Position::None,
        }
    }
}

/// Lengths of windows over the trained one.
const STRETCHES: [f64; 4] = [1.0, 1.5, 2.0, LONGEST];
const LONGEST: f64 = models::ROOM as f64;
/// Positions of the longest windows are reported in so many groups; those within the trained length come first.
const GROUPS: usize = 16;
/// The last group within the trained length.
const TRAINED: usize = GROUPS / models::ROOM;
/// Perplexity, and its rise at twice the length.
const PUBLISHED: [(Encoding, f64, f64); 3] =
    [(Encoding::Sinusoidal, 45.2, 0.157), (Encoding::Learned, 43.8, 0.783), (Encoding::Rotary, 44.1, 0.104)];
const SOURCE: &str = SOURCES[4];
/// Perplexities that differ by less than this share are near each other.
const NEAR: f64 = 0.05;
/// Trained at 512, read at 1,012, WikiText-103.
const PRESS: [(Encoding, f64); 4] =
    [(Encoding::Sinusoidal, 43.5), (Encoding::Rotary, 21.4), (Encoding::Bias, 18.8), (Encoding::Alibi, 18.7)];
const PRESS_SOURCE: &str = "Press et al., 2021, WikiText-103, trained at 512, read at 1,012";

const LOSS: &str = "loss";
const UNIGRAM: &str = "loss of the unigram distribution";
const PERPLEXITY: &str = "perplexity";
/// When in training the held-out loss that is kept was measured.
const WHEN: [&str; 2] = ["held-out loss, a fifth of the training", "held-out loss, end of the training"];

/// Encoding, and the length of the windows over the trained length.
type Measured = Table<(Encoding, f64)>;

facts! {
    PERPLEXITY_AT(encoding: Encoding, stretch: f64) = "perplexity: {encoding}, {stretch}×";
    /// The share by which perplexity rises at twice the trained length.
    pub RISE(encoding: Encoding) = "rise: {encoding}";
    LENGTH = "trained length";
}

fn run(lab: &Lab) -> Result<Findings> {
    let sweep = lab
        .sweep("runs", lab.each(Encoding::ALL), |encoding, seed, rows| measure(lab, encoding, seed, rows))?;
    let length = models::base_on_text(lab, lab.first_seed())?.data.length;
    let mut findings = Findings::default();
    draw(&mut findings, &sweep.table, length);
    let learned = |encoding| sweep.under(encoding).find_map(Option::clone);
    pictures::draw(&mut findings, length, learned(Encoding::Learned), learned(Encoding::Bias))?;
    let table = sweep.table;
    findings.verdicts = vec![judge(&table)];
    for encoding in Encoding::ALL {
        findings.facts(PERPLEXITY_AT, STRETCHES.map(|stretch| (encoding, stretch)), |condition| {
            table.mean(condition, PERPLEXITY).mean
        });
    }
    findings.facts(RISE, Encoding::ALL, |encoding| rises(&table, encoding, 2.0).mean().mean);
    findings.fact(LENGTH, length as f64);
    findings.finish(lab, table)
}

/// The measure of the loss in a group of positions; the first is 1.
fn loss_in(group: usize) -> String {
    format!("loss, places {group}/{GROUPS}")
}

/// What a model of the first seed learned about positions, row by row: the width and values of its table, or the number of heads
/// and a bias by distance and head.
type Learned = (usize, Vec<f32>);

fn config(lab: &Lab, encoding: Encoding, seed: u64) -> Result<RunConfig> {
    let mut config = models::base_on_text(lab, seed)?;
    models::gpt(&mut config)?.positions = encoding.position();
    Ok(config)
}

fn measure(
    lab: &Lab,
    encoding: Encoding,
    seed: u64,
    rows: &mut Rows<(Encoding, f64)>,
) -> Result<Option<Learned>> {
    let mut config = config(lab, encoding, seed)?;
    let trained = lab.train(&config)?;
    let opened = trained.open()?;
    let text = models::test_text(lab, &config, opened.tokenizer()?)?;
    rows.add((encoding, 1.0), UNIGRAM, models::entropy(&text)?);
    let length = config.data.length;
    let batch = |window: usize| 2_048_usize.div_ceil(window);
    let longest = models::ROOM * length;
    let places = models::losses_by_place(&*opened.model, &text, longest, batch(longest))?;
    for stretch in STRETCHES {
        let loss = match (length as f64 * stretch) as usize {
            window if window == longest => mean(&places).mean,
            window => models::loss_at(&*opened.model, &text, window, batch(window))?,
        };
        rows.add((encoding, stretch), LOSS, loss);
        rows.add((encoding, stretch), PERPLEXITY, loss.exp());
    }
    for (group, losses) in places.chunks(longest.div_ceil(GROUPS)).enumerate() {
        rows.add((encoding, LONGEST), loss_in(group + 1), mean(losses).mean);
    }
    let held_out = trained.losses();
    for (when, found) in WHEN.into_iter().zip([held_out.first(), held_out.last()]) {
        rows.add((encoding, 1.0), when, found.context("the model was never evaluated")?.1);
    }
    let form = models::gpt(&mut config)?;
    let learned = |width, name| models::parameter(&*opened.model, name).map(|values| (width, values));
    Ok(match (encoding, seed == lab.first_seed()) {
        (Encoding::Learned, true) => learned(form.d_model, "positions.table.weight"),
        (Encoding::Bias, true) => learned(form.n_heads, "positions.relative"),
        _ => None,
    })
}

fn draw(findings: &mut Findings, table: &Measured, length: usize) {
    let lengths = STRETCHES.map(|stretch| stretch * length as f64);
    let empty = Chart::new(
        Axis::linear("length of the window, tokens").ticks(lengths),
        Axis::log("perplexity on test text"),
    );
    let chart = Encoding::ALL.into_iter().fold(empty, |chart, encoding| {
        let points = STRETCHES.into_iter().zip(lengths).map(|(stretch, length)| {
            charts::range_point(length, &table.values((encoding, stretch), PERPLEXITY).values())
        });
        chart.series(Series::new(encoding.name()).intervals(points))
    });
    let wide = (models::ROOM * length) as f64 / GROUPS as f64;
    let empty = Chart::new(
        Axis::linear("position in the window, tokens").ticks(lengths),
        Axis::linear("loss at the position, nats"),
    );
    let places = Encoding::ALL.into_iter().fold(empty, |chart, encoding| {
        let loss = |group| table.mean((encoding, LONGEST), loss_in(group)).mean;
        let points = (1..=GROUPS).map(|group| (wide * group as f64, loss(group)));
        chart.series(Series::new(encoding.name()).points(points))
    });
    let mark = |chart: Chart| chart.upright(length as f64, "trained length").half();
    findings.figure(
        "extrapolation",
        "Perplexity against the length of the window, for six position encodings: mean over seeds, from the smallest to the largest; and \
         the loss by the position in the longest windows, mean over seeds.",
        Picture::new("Beyond the trained length")
            .columns(2)
            .titled_panel("by the length of the window", mark(chart))
            .titled_panel("by the position in the longest window", mark(places)),
    );
}

/// The share by which each seed's perplexity rises at a stretch.
fn rises(table: &Measured, encoding: Encoding, stretch: f64) -> Sample {
    let of = |stretch| table.values((encoding, stretch), PERPLEXITY);
    of(stretch).over(&of(1.0)).map(|ratio| ratio - 1.0)
}

fn judge(table: &Measured) -> Verdict {
    let perplexity = |encoding, stretch| table.mean((encoding, stretch), PERPLEXITY).mean;
    let rise = |encoding| rises(table, encoding, 2.0);
    let reported = Encoding::ALL.map(|encoding| {
        let change = 100.0 * rise(encoding).mean().mean;
        format!("{encoding} {:.1} ({change:+.1} %)", perplexity(encoding, 1.0))
    });
    let finding = format!(
        "Perplexity at the trained length, and its change at twice that length: {}.",
        reported.join(", ")
    );
    let near = |a: Encoding, b: Encoding| {
        let of = |encoding| table.values((encoding, 1.0), LOSS);
        let what = format!("trained length: ln of perplexity, {a} − {b}");
        Check::new(what, paired(&of(a), &of(b)), Bound::Between(-NEAR, NEAR))
            .part("at the trained length they differ little")
    };
    let more = |a: Encoding, b: Encoding| {
        let what = format!("twice the length: share by which perplexity rises, {a} − {b}");
        Check::new(what, paired(&rise(a), &rise(b)), Bound::Above(0.0))
            .part("beyond it learned loses most, rotary least")
    };
    let checks = vec![
        near(Encoding::Sinusoidal, Encoding::Learned),
        near(Encoding::Rotary, Encoding::Learned),
        more(Encoding::Learned, Encoding::Sinusoidal),
        more(Encoding::Sinusoidal, Encoding::Rotary),
    ];
    let learned = |encoding: Encoding| {
        let of = |measure| table.values((encoding, 1.0), measure);
        models::learned(encoding, &of(LOSS), &of(UNIGRAM))
    };
    let judged = [Encoding::Sinusoidal, Encoding::Learned, Encoding::Rotary];
    let verdict =
        judged.map(learned).into_iter().fold(Verdict::new("E3", checks, finding), Verdict::requires);
    let mut verdict = verdict.because(|checks| why(table, checks));
    for (encoding, theirs, their_rise) in PUBLISHED {
        let (ours, our_rise) = (perplexity(encoding, 1.0), rise(encoding).mean().mean);
        verdict = verdict.published(format!("perplexity, {encoding}"), theirs, Some(ours), SOURCE).published(
            format!("rise at twice the length, {encoding}"),
            their_rise,
            Some(our_rise),
            SOURCE,
        );
    }
    for (encoding, theirs) in PRESS {
        let what = format!("perplexity at twice the length, {encoding}");
        verdict = verdict.published(what, theirs, Some(perplexity(encoding, 2.0)), PRESS_SOURCE);
    }
    verdict
}

/// Where the loss jumps, and whether a difference at the trained length shrinks during training.
fn why(table: &Measured, checks: &[Check]) -> String {
    let apart = |encoding: Encoding| {
        let [early, late] = WHEN.map(|when| {
            let of = |encoding| table.values((encoding, 1.0), when);
            paired(&of(encoding), &of(Encoding::Learned)).mean
        });
        let closes = match late.signum() == early.signum() && late.abs() < early.abs() / 2.0 {
            true => "training closes the gap",
            false => "training does not close the gap",
        };
        format!(
            "At the trained length {encoding} positions differ from learned ones by {early:+.2} nats of held-out loss after a fifth of \
             the training and by {late:+.2} at its end: {closes}."
        )
    };
    let jumps = |encoding| {
        let at = |group| table.values((encoding, LONGEST), loss_in(group));
        at(TRAINED + 1).minus(&at(TRAINED))
    };
    let reported = Encoding::ALL.map(|encoding| format!("{encoding} {:+.2}", jumps(encoding).mean().mean));
    let reported = format!(
        "In the longest windows, the loss just beyond the trained length differs from that just before it by (nats): {}.",
        reported.join(", ")
    );
    let turned = paired(&jumps(Encoding::Rotary), &jumps(Encoding::Sinusoidal));
    those_that_apply([
        (checks[0].fails(), apart(Encoding::Sinusoidal).as_str()),
        (checks[1].fails(), &apart(Encoding::Rotary)),
        (checks[2].fails() || checks[3].fails(), &reported),
        (
            checks[3].fails() && turned.low > 0.0,
            "Rotating by angles outside the training range does more harm here than adding waves outside it.",
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;
    use crate::experiments::wrong;

    /// Losses at the trained length and rises at twice the length, in the order of [`PUBLISHED`].
    fn planted(losses: [f64; 3], rises: [f64; 3]) -> Measured {
        let mut table = Table::new();
        for (i, (encoding, ..)) in PUBLISHED.into_iter().enumerate() {
            for seed in 0..3 {
                let perplexity = (losses[i] + 0.001 * seed as f64 * i as f64).exp();
                table.add((encoding, 1.0), seed, LOSS, perplexity.ln());
                table.add((encoding, 1.0), seed, UNIGRAM, 6.0);
                table.add((encoding, 1.0), seed, PERPLEXITY, perplexity);
                table.add((encoding, 2.0), seed, PERPLEXITY, perplexity * (1.0 + rises[i]));
            }
        }
        table
    }

    #[test]
    fn the_verdict_follows_the_perplexities() {
        let published = planted([3.811, 3.780, 3.786], [0.157, 0.783, 0.104]);
        assert_eq!(judge(&published).outcome, Outcome::Holds);
        let far_apart = planted([4.2, 3.780, 3.786], [0.157, 0.783, 0.104]);
        assert_eq!(judge(&far_apart).outcome, Outcome::InPart);
        let rotary_breaks = planted([3.811, 3.780, 3.786], [0.157, 0.783, 0.504]);
        assert_eq!(judge(&rotary_breaks).outcome, Outcome::InPart);
    }

    #[test]
    fn the_reason_follows_from_what_was_measured() {
        let mut table = planted([3.4, 3.8, 3.8], [0.157, 0.783, 0.504]);
        let look = |table: &mut Measured, jumps: [f64; 3]| {
            let models = PUBLISHED.map(|(encoding, ..)| encoding).into_iter().zip([
                (4.5, 3.7),
                (5.0, 3.8),
                (5.0, 3.8),
            ]);
            for seed in 0..3 {
                for ((encoding, (early, late)), jump) in models.clone().zip(jumps) {
                    table.add((encoding, 1.0), seed, WHEN[0], early);
                    table.add((encoding, 1.0), seed, WHEN[1], late);
                    table.add((encoding, LONGEST), seed, loss_in(TRAINED), 4.0);
                    let noise = 0.001 * seed as f64;
                    table.add((encoding, LONGEST), seed, loss_in(TRAINED + 1), 4.0 + jump + noise);
                }
            }
        };
        look(&mut table, [0.1, 0.4, 0.3]);
        let why = judge(&table).why.unwrap_or_default();
        for part in [
            "sinusoidal positions differ",
            "by −0.50 nats",
            "by −0.10 at",
            "closes the gap",
            "rotary +0.30",
            "Rotating by angles",
        ] {
            assert!(why.contains(part), "{part}: {why}");
        }
        let mut turned = planted([3.80, 3.78, 3.79], [0.104, 0.783, 0.157]);
        look(&mut turned, [0.3, 0.4, 0.1]);
        let near = judge(&turned).why.unwrap_or_default();
        assert!(near.contains("rotary +0.10"), "{near}");
        assert!(!near.contains("At the trained length") && !near.contains("Rotating"), "{near}");
    }

    /// The same with a little noise in everything, another for each seed.
    fn with_noise(losses: [f64; 3], rises: [f64; 3]) -> Verdict {
        let mut table = Table::new();
        for (i, (encoding, ..)) in PUBLISHED.into_iter().enumerate() {
            for seed in 0..4 {
                let noise = 0.001 * ((seed + i as u64) % 3) as f64;
                let loss = losses[i] + 0.01 * seed as f64 + noise;
                table.add((encoding, 1.0), seed, LOSS, loss);
                table.add((encoding, 1.0), seed, UNIGRAM, 6.0);
                table.add((encoding, 1.0), seed, PERPLEXITY, loss.exp());
                table.add((encoding, 2.0), seed, PERPLEXITY, loss.exp() * (1.0 + rises[i] + noise));
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
            assert_eq!((fails.outcome, wrong(&fails)), (Outcome::InPart, vec![place]), "{what}");
        }
        let better = with_noise([3.80, 3.78, 3.40], published);
        assert_eq!((better.outcome, wrong(&better)), (Outcome::InPart, vec![1]), "much better differs, too");
        assert_eq!(with_noise(near, [0.5, 0.5, 0.104]).outcome, Outcome::Undecided, "as much as each other");
    }
}
