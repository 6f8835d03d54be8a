//! What attention costs: time and memory against length and width.

use super::stopwatch::{Spent, spend};
use crate::experiment::{Bound, Check, Experiment, Findings, Lab, Measurements, Verdict};
use crate::figure::{Axis, Chart, Picture, Series};
use crate::statistics::{Interval, Sample, slope_by_seed};
use anyhow::Result;
use regard_nn::attention::{How, Pattern, Rules, Scale, Weigh, attend, scaled_dot_product};
use regard_nn::layers::{Activation, FeedForward, FeedForwardConfig};
use regard_nn::tensor::Tensor;
use regard_nn::tensor::ops::{Layout, Projections};
use regard_nn::tensor::random::Key;
use regard_nn::{Context, Draw, Initial};
use serde::{Deserialize, Serialize};
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "cost",
    claims: &["E8"],
    question: "How do the time and the memory of attention and of feed-forward layers grow with length and width?",
    prediction: "Attention written out takes time that grows as the square of the length (an exponent from 1.7 to 2.3) and memory \
        that grows as its square (1.8 to 2.2), and at most in proportion to the width (below 1.3); feed-forward layers grow \
        in proportion to the length (0.8 to 1.2) and as the square of the width (1.7 to 2.3); the memory of tiled attention \
        grows in proportion to the length (0.8 to 1.2).",
    design: "Forward passes over random values, two heads of 64: attention written out as the reference has it, tiled attention, \
        the same with a window of 128 tokens to each side, linear attention, and a feed-forward layer of four times the width. \
        Times are those that one thread spends on a processor, the mean of repeated passes; memory is the most that is in use at one time \
        beyond the inputs. Exponents are slopes on logarithmic axes over the three largest sizes.",
    changed: Some(
        "After first runs times were counted on the processor rather than on the clock, since other programs made them differ, and five \
         rounds were taken instead of three, which had left the exponents open. The bounds are the first ones.",
    ),
    real_data: None,
    seconds: [10.0, 50.0, 250.0],
    run,
};

const HEADS: usize = 2;
const HEAD_WIDTH: usize = 64;
const WINDOW: usize = 128;
/// Lengths at which the width is varied.
const FIXED_LENGTH: usize = 512;
/// Beyond this the weights written out take gigabytes.
const LONGEST_REFERENCE: usize = 4_096;
/// Exponents are taken over so many of the largest sizes.
const FITTED: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Work {
    Reference,
    Tiled,
    Window,
    Linear,
    FeedForward,
}

impl Work {
    const ALL: [Work; 5] = [Work::Reference, Work::Tiled, Work::Window, Work::Linear, Work::FeedForward];

    fn name(self) -> &'static str {
        match self {
            Work::Reference => "attention, written out",
            Work::Tiled => "attention, tiled",
            Work::Window => "attention, window",
            Work::Linear => "attention, linear",
            Work::FeedForward => "feed-forward",
        }
    }
}

/// One thing to measure: what, over how many tokens, how wide, for the how-manieth time.
#[derive(Clone, Copy, Serialize)]
struct Cell {
    work: Work,
    length: usize,
    heads: usize,
    width: usize,
    round: u64,
}

#[derive(Serialize, Deserialize)]
struct Cost {
    milliseconds: f64,
    megabytes: f64,
}

fn run(lab: &Lab) -> Result<Findings> {
    let rounds = lab.seeds(5);
    let most = lab.by_size(512, 2_048, 4_096, 16_384);
    let widest = lab.by_size(256, 512, 1_024, 1_024);
    let doubled = |least: usize, most: usize| -> Vec<usize> {
        (0..16).map(|power| least << power).filter(|size| *size <= most).collect()
    };
    let (lengths, widths) = (doubled(128, most), doubled(64, widest));
    let mut inputs = Vec::new();
    for &round in &rounds {
        for work in Work::ALL {
            let possible = |length: &&usize| work != Work::Reference || **length <= LONGEST_REFERENCE;
            inputs.extend(lengths.iter().filter(possible).map(|&length| Cell {
                work,
                length,
                heads: HEADS,
                width: HEAD_WIDTH,
                round,
            }));
        }
        for work in [Work::Reference, Work::FeedForward] {
            let cell = |&width: &usize| Cell { work, length: FIXED_LENGTH, heads: 1, width, round };
            inputs.extend(widths.iter().map(cell));
        }
    }
    let patience = Duration::from_millis(lab.by_size(1, 50, 150, 300));
    let costs = lab.timed_parts("costs", &inputs, |cell| measure(*cell, patience))?;
    let mut findings = Findings::new(&["work", "heads", "length", "width"]);
    for (cell, cost) in inputs.iter().zip(&costs) {
        let conditions: [&dyn std::fmt::Display; 4] =
            [&cell.work.name(), &cell.heads, &cell.length, &cell.width];
        findings.measurements.add(&conditions, cell.round, "milliseconds", cost.milliseconds);
        findings.measurements.add(&conditions, cell.round, "megabytes", cost.megabytes);
    }
    draw(&mut findings, &lengths, &widths);
    findings.verdicts = vec![judge(&findings.measurements, &lengths, &widths)];
    let longest = lengths.last().copied().unwrap_or(0).min(LONGEST_REFERENCE);
    findings.fact("longest", longest as f64);
    for work in Work::ALL {
        for measure in ["milliseconds", "megabytes"] {
            let value =
                findings.measurements.mean(&[&work.name(), &HEADS, &longest, &HEAD_WIDTH], measure).mean;
            findings.fact(format!("{measure}: {}", work.name()), value);
        }
        let exponent = by_length(&findings.measurements, work, "milliseconds", &lengths).mean;
        findings.fact(format!("time exponent: {}", work.name()), exponent);
    }
    Ok(findings)
}

fn measure(cell: Cell, patience: Duration) -> Result<Cost> {
    let Spent { milliseconds, megabytes } = spend(patience, prepare(cell)?)?;
    Ok(Cost { milliseconds, megabytes })
}

type Pass = Box<dyn Fn() -> Result<Tensor>>;

fn prepare(Cell { work, length, heads, width, .. }: Cell) -> Result<Pass> {
    let key = Key::new(1).site("cost");
    let random = |name: &str, shape: &[usize]| {
        Tensor::new(&key.site(name).normal(shape.iter().product(), 1.0), shape.to_vec())
    };
    if work == Work::FeedForward {
        let d_model = heads * width;
        let config = FeedForwardConfig {
            d_model,
            d_hidden: 4 * d_model,
            activation: Activation::GeluNew,
            gated: false,
            clamp: None,
            mixture: None,
            bias: true,
            layout: Layout::InOut,
        };
        let draw = Draw::Normal(0.02);
        let layer = FeedForward::new(&Initial::new(1), config, (draw, draw))?;
        let x = random("x", &[1, length, d_model])?;
        return Ok(Box::new(move || Ok(layer.forward(&Context::inference(), &x)?)));
    }
    if work == Work::Reference {
        let [q, k, v] = ["query", "key", "value"].map(|name| random(name, &[heads, length, width]));
        let (q, k, v) = (q?, k?, v?);
        return Ok(Box::new(move || Ok(scaled_dot_product(&q, &k, &v, None, Scale::InverseRoot)?.0)));
    }
    let [q, k, v] = ["query", "key", "value"].map(|name| random(name, &[1, length, heads, width]));
    let (query, key, value) = (q?, k?, v?);
    let pattern = match work {
        Work::Window => Pattern::Window { before: WINDOW, after: WINDOW },
        _ => Pattern::Full,
    };
    let weigh = if work == Work::Linear { Weigh::Linear } else { Weigh::Softmax };
    let (how, rules) = (How { weigh, ..How::default() }, Rules::new(pattern, length, length)?);
    Ok(Box::new(move || {
        let projections = Projections::Separate { query: &query, key: &key, value: &value };
        Ok(attend(&Context::inference(), projections, &how, &rules)?)
    }))
}

/// The slope on logarithmic axes over the largest sizes, of each round, and their mean. Memory is the same in every round:
/// it is counted, not estimated.
fn exponent(points: impl Iterator<Item = (usize, Sample)>) -> Interval {
    let all: Vec<(usize, Sample)> = points.filter(|(_, values)| !values.is_empty()).collect();
    let log = |value: f64| value.max(f64::MIN_POSITIVE).ln();
    let last = all.iter().rev().take(FITTED).map(|(size, values)| ((*size as f64).ln(), values.map(log)));
    slope_by_seed(&last.collect::<Vec<_>>())
}

fn by_length(table: &Measurements, work: Work, measure: &str, lengths: &[usize]) -> Interval {
    exponent(
        lengths
            .iter()
            .map(|&length| (length, table.values(&[&work.name(), &HEADS, &length, &HEAD_WIDTH], measure))),
    )
}

fn by_width(table: &Measurements, work: Work, measure: &str, widths: &[usize]) -> Interval {
    exponent(
        widths
            .iter()
            .map(|&width| (width, table.values(&[&work.name(), &1, &FIXED_LENGTH, &width], measure))),
    )
}

fn draw(findings: &mut Findings, lengths: &[usize], widths: &[usize]) {
    let table = &findings.measurements;
    let chart = |measure: &'static str, label: &str| {
        let empty = Chart::new(
            Axis::log("length, tokens").ticks(lengths.iter().map(|&length| length as f64)),
            Axis::log(label),
        );
        Work::ALL.into_iter().fold(empty, |chart, work| {
            let points = lengths.iter().filter_map(|&length| {
                let interval = table.mean(&[&work.name(), &HEADS, &length, &HEAD_WIDTH], measure);
                interval.mean.is_finite().then_some((length as f64, interval.mean))
            });
            let power = by_length(table, work, measure, lengths).mean;
            chart.series(Series::new(format!("{}, n^{power:.2}", work.name())).points(points))
        })
    };
    let picture = Picture::new("Cost against length")
        .subtitle("One forward pass on one thread, two heads of 64; exponents over the three largest lengths")
        .columns(2)
        .titled_panel("time", chart("milliseconds", "milliseconds").size(460.0, 360.0))
        .titled_panel("memory", chart("megabytes", "megabytes beyond the inputs").size(460.0, 360.0));
    let empty = Chart::new(
        Axis::log("width").ticks(widths.iter().map(|&width| width as f64)),
        Axis::log("milliseconds"),
    );
    let width = [Work::Reference, Work::FeedForward].into_iter().fold(empty, |chart, work| {
        let points = widths.iter().map(|&width| {
            (width as f64, table.mean(&[&work.name(), &1, &FIXED_LENGTH, &width], "milliseconds").mean)
        });
        let power = by_width(table, work, "milliseconds", widths).mean;
        chart.series(Series::new(format!("{}, d^{power:.2}", work.name())).points(points))
    });
    findings.figure(
        "cost_against_length",
        "Time and memory of one forward pass against the length of the text, on logarithmic axes: a line's slope is its exponent.",
        picture,
    );
    findings.figure(
        "cost_against_width",
        format!("Time of one forward pass over {FIXED_LENGTH} tokens against the width, one head."),
        Picture::new("Cost against width").panel(width),
    );
}

fn judge(table: &Measurements, lengths: &[usize], widths: &[usize]) -> Verdict {
    let time = |work| by_length(table, work, "milliseconds", lengths);
    let memory = |work| by_length(table, work, "megabytes", lengths);
    let wide = |work| by_width(table, work, "milliseconds", widths);
    let finding = format!(
        "Written out, attention's time grows as n^{:.2} and its memory as n^{:.2}; tiled, n^{:.2} and n^{:.2}; with a window, time \
         n^{:.2}; linear attention, n^{:.2}. A feed-forward layer's time grows as n^{:.2} and d^{:.2}, attention's as d^{:.2}.",
        time(Work::Reference).mean,
        memory(Work::Reference).mean,
        time(Work::Tiled).mean,
        memory(Work::Tiled).mean,
        time(Work::Window).mean,
        time(Work::Linear).mean,
        time(Work::FeedForward).mean,
        wide(Work::FeedForward).mean,
        wide(Work::Reference).mean,
    );
    let checks = vec![
        Check::new("attention: exponent of time in n", time(Work::Reference), Bound::Between(1.7, 2.3)),
        Check::new("attention: exponent of memory in n", memory(Work::Reference), Bound::Between(1.8, 2.2)),
        Check::new("attention: exponent of time in d", wide(Work::Reference), Bound::Below(1.3)),
        Check::new("feed-forward: exponent of time in n", time(Work::FeedForward), Bound::Between(0.8, 1.2)),
        Check::new("feed-forward: exponent of time in d", wide(Work::FeedForward), Bound::Between(1.7, 2.3)),
        Check::new("tiled attention: exponent of memory in n", memory(Work::Tiled), Bound::Between(0.8, 1.2)),
    ];
    Verdict::new("E8", checks, finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;
    use crate::experiments::wrong;

    const LENGTHS: [usize; 4] = [128, 256, 512, 1024];
    const WIDTHS: [usize; 4] = [64, 128, 256, 512];

    /// Costs as powers: of attention's time and memory in n, and of tiled attention's memory.
    fn planted(time: f64, memory: f64, tiled: f64) -> Measurements {
        let mut table = Measurements::new(&["work", "heads", "length", "width"]);
        for round in 0..3 {
            let noise = 1.0 + 0.01 * round as f64;
            for work in Work::ALL {
                for length in LENGTHS {
                    let n = length as f64;
                    let (t, m) = match work {
                        Work::Reference => (n.powf(time), n.powf(memory)),
                        Work::Tiled => (n * n, n.powf(tiled)),
                        _ => (n, n),
                    };
                    let conditions: [&dyn std::fmt::Display; 4] =
                        [&work.name(), &HEADS, &length, &HEAD_WIDTH];
                    table.add(&conditions, round, "milliseconds", noise * t);
                    table.add(&conditions, round, "megabytes", m);
                }
                for width in WIDTHS {
                    let d = width as f64;
                    let t = if work == Work::FeedForward { d * d } else { d };
                    table.add(&[&work.name(), &1, &FIXED_LENGTH, &width], round, "milliseconds", noise * t);
                }
            }
        }
        table
    }

    #[test]
    fn the_verdict_follows_the_exponents() {
        assert_eq!(judge(&planted(2.0, 2.0, 1.0), &LENGTHS, &WIDTHS).outcome, Outcome::Holds);
        assert_eq!(judge(&planted(1.0, 2.0, 1.0), &LENGTHS, &WIDTHS).outcome, Outcome::Fails);
        assert_eq!(
            judge(&planted(2.0, 2.0, 2.0), &LENGTHS, &WIDTHS).outcome,
            Outcome::Fails,
            "tiled is not linear"
        );
    }

    #[test]
    fn all_kinds_of_work_give_as_many_vectors_as_they_get() -> Result<()> {
        for work in Work::ALL {
            let cell = Cell { work, length: 32, heads: 2, width: 8, round: 0 };
            assert_eq!(prepare(cell)?()?.count(), 32 * 2 * 8, "{work:?}");
        }
        Ok(())
    }

    /// Costs that grow with these powers, in the order of the checks, a little differently in each round.
    fn growing(powers: [f64; 6]) -> Verdict {
        let [time, memory, wide, forward, forward_wide, tiled] = powers;
        let mut table = Measurements::new(&["work", "heads", "length", "width"]);
        for round in 0..4 {
            let power = |size: usize, power: f64| {
                (1.0 + 0.02 * round as f64) * (size as f64).powf(power + 0.004 * (round % 3) as f64)
            };
            for work in Work::ALL {
                for length in LENGTHS {
                    let (in_time, in_memory) = match work {
                        Work::Reference => (time, memory),
                        Work::Tiled => (2.0, tiled),
                        Work::FeedForward => (forward, 1.0),
                        Work::Window | Work::Linear => (1.0, 1.0),
                    };
                    let conditions: [&dyn std::fmt::Display; 4] =
                        [&work.name(), &HEADS, &length, &HEAD_WIDTH];
                    table.add(&conditions, round, "milliseconds", power(length, in_time));
                    table.add(&conditions, round, "megabytes", power(length, in_memory));
                }
            }
            for (work, of_width) in [(Work::Reference, wide), (Work::FeedForward, forward_wide)] {
                for width in WIDTHS {
                    let conditions: [&dyn std::fmt::Display; 4] = [&work.name(), &1, &FIXED_LENGTH, &width];
                    table.add(&conditions, round, "milliseconds", power(width, of_width));
                }
            }
        }
        judge(&table, &LENGTHS, &WIDTHS)
    }

    #[test]
    fn each_exponent_can_be_wrong_alone() {
        let claimed = [2.0, 2.0, 1.0, 1.0, 2.0, 1.0];
        let holds = growing(claimed);
        assert_eq!((holds.outcome, wrong(&holds)), (Outcome::Holds, vec![]));
        // On the side that the claim rules out, and for the two-sided bounds on the other.
        let above = [2.6, 2.6, 2.0, 2.0, 3.0, 2.0];
        let below = [(0, 1.0), (1, 1.0), (3, 0.0), (4, 1.0), (5, 0.0)];
        for (place, power) in above.into_iter().enumerate().chain(below) {
            let mut powers = claimed;
            powers[place] = power;
            let fails = growing(powers);
            assert_eq!(
                (fails.outcome, wrong(&fails)),
                (Outcome::Fails, vec![place]),
                "check {place}: {power}"
            );
        }
        let mut narrow = claimed;
        narrow[2] = 0.3;
        assert_eq!(growing(narrow).outcome, Outcome::Holds, "at most in proportion to the width");
    }
}
