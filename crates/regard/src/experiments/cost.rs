//! The cost of attention: time and memory against length and width.

use super::instruments::stopwatch::{Spent, spend};
use crate::experiment::{
    Bound, Check, Experiment, Findings, Lab, Sizes, Sweep, Table, Verdict, facts, named,
};
use crate::figure::{Axis, Chart, Picture, Series};
use crate::statistics::{Interval, Sample, slope_by_seed};
use anyhow::Result;
use regard_nn::attention::{How, Pattern, Rules, Scale, Weigh, attend, scaled_dot_product};
use regard_nn::layers::{Activation, FeedForward, FeedForwardConfig};
use regard_nn::tensor::Tensor;
use regard_nn::tensor::ops::{Layout, Projections};
use regard_nn::tensor::random::Key;
use regard_nn::{Context, Draw, Initial};
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "cost",
    claims: &["E8"],
    question: "How do the time and the memory of attention and of feed-forward layers grow with length and width?",
    prediction: "Attention written out takes time that grows as the square of the length (an exponent from 1.7 to 2.3) and memory \
        that grows as its square (1.8 to 2.2), and at most in proportion to the width (below 1.3); feed-forward layers grow \
        in proportion to the length (0.8 to 1.2) and as the square of the width (1.7 to 2.3); the memory of tiled attention \
        grows in proportion to the length (0.8 to 1.2).",
    design: "Forward passes over random values, two heads of width 64: attention written out as in the reference, tiled attention, \
        the same with a window of 128 tokens to each side, linear attention, and a feed-forward layer of four times the width. \
        Times are processor times of one thread, the mean of repeated passes; memory is the peak beyond the inputs. Exponents are slopes \
        on logarithmic axes over the three largest sizes.",
    changed: Some(
        "After the first runs processor time was measured instead of wall-clock time, since other programs had disturbed it, and five \
         rounds were taken instead of three, which had left the exponents undecided. The bounds are the original ones.",
    ),
    real_data: None,
    conditions: &["work", "heads", "length", "width"],
    seeds: Sizes::quick(5),
    seconds: Sizes::quick(10.0).standard(50.0).full(250.0),
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

named! {
    /// What is measured.
    enum Work {
        Reference = "attention, written out",
        Tiled = "attention, tiled",
        Window = "attention, window",
        Linear = "attention, linear",
        FeedForward = "feed-forward",
    }
}

/// Work, heads, length and width of a head.
type Cell = (Work, usize, usize, usize);
type Measured = Table<Cell>;

const TIME: &str = "milliseconds";
const MEMORY: &str = "megabytes";

facts! {
    LONGEST = "longest";
    COST(measure: &'static str, work: Work) = "{measure}: {work}";
    EXPONENT(work: Work) = "time exponent: {work}";
}

/// The cell of some work at a length.
fn long(work: Work, length: usize) -> Cell {
    (work, HEADS, length, HEAD_WIDTH)
}

/// The cell of some work at a width.
fn wide(work: Work, width: usize) -> Cell {
    (work, 1, FIXED_LENGTH, width)
}

fn run(lab: &Lab) -> Result<Findings> {
    let doubled = |least: usize, most: usize| -> Vec<usize> {
        (0..16).map(|power| least << power).filter(|size| *size <= most).collect()
    };
    let lengths = doubled(128, lab.at(Sizes::quick(2_048).smoke(512).standard(4_096).full(16_384)));
    let widths = doubled(64, lab.at(Sizes::quick(512).smoke(256).standard(1_024)));
    let possible = |work, length| work != Work::Reference || length <= LONGEST_REFERENCE;
    let mut inputs = Vec::new();
    for round in lab.seeds() {
        for work in Work::ALL {
            let lengths = lengths.iter().filter(|&&length| possible(work, length));
            inputs.extend(lengths.map(|&length| (long(work, length), round)));
        }
        for work in [Work::Reference, Work::FeedForward] {
            inputs.extend(widths.iter().map(|&width| (wide(work, width), round)));
        }
    }
    let patience = Duration::from_millis(lab.at(Sizes::quick(50).smoke(1).standard(150).full(300)));
    let Sweep { table, .. } = lab.timed_sweep("costs", inputs, |cell, _, rows| {
        let Spent { milliseconds, megabytes } = spend(patience, prepare(cell)?)?;
        rows.add(cell, TIME, milliseconds);
        rows.add(cell, MEMORY, megabytes);
        Ok(())
    })?;
    let mut findings = Findings::default();
    draw(&mut findings, &table, &lengths, &widths);
    findings.verdicts = vec![judge(&table, &lengths, &widths)];
    let longest = lengths.last().copied().unwrap_or(0).min(LONGEST_REFERENCE);
    findings.fact(LONGEST, longest as f64);
    for measure in [TIME, MEMORY] {
        findings.facts(COST, Work::ALL.map(|work| (measure, work)), |(measure, work)| {
            table.mean(long(work, longest), measure).mean
        });
    }
    findings.facts(EXPONENT, Work::ALL, |work| by_length(&table, work, TIME, &lengths).mean);
    findings.finish(lab, table)
}

type Pass = Box<dyn Fn() -> Result<Tensor>>;

fn prepare((work, heads, length, width): Cell) -> Result<Pass> {
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

fn by_length(table: &Measured, work: Work, measure: &str, lengths: &[usize]) -> Interval {
    exponent(lengths.iter().map(|&length| (length, table.find(long(work, length), measure))))
}

fn by_width(table: &Measured, work: Work, measure: &str, widths: &[usize]) -> Interval {
    exponent(widths.iter().map(|&width| (width, table.values(wide(work, width), measure))))
}

fn draw(findings: &mut Findings, table: &Measured, lengths: &[usize], widths: &[usize]) {
    let ticks = |sizes: &[usize]| sizes.iter().map(|&size| size as f64).collect::<Vec<_>>();
    let chart = |measure: &str, label: &str| {
        let empty = Chart::new(Axis::log("length, tokens").ticks(ticks(lengths)), Axis::log(label));
        let chart = Work::ALL.into_iter().fold(empty, |chart, work| {
            let mean = |length| table.mean_if_measured(long(work, length), measure).mean;
            let points = lengths.iter().map(|&length| (length as f64, mean(length)));
            let power = by_length(table, work, measure, lengths).mean;
            let name = format!("{work}, n^{power:.2}");
            chart.series(Series::new(name).points(points.filter(|(_, mean)| mean.is_finite())))
        });
        chart.size(460.0, 360.0)
    };
    findings.figure(
        "cost_against_length",
        "Time and memory of one forward pass against the length of the text, on logarithmic axes: the slope of a line is its exponent.",
        Picture::new("Cost against length")
            .subtitle("One forward pass on one thread, two heads of 64; exponents over the three largest lengths")
            .columns(2)
            .titled_panel("time", chart(TIME, "milliseconds"))
            .titled_panel("memory", chart(MEMORY, "megabytes beyond the inputs")),
    );
    let empty = Chart::new(Axis::log("width").ticks(ticks(widths)), Axis::log("milliseconds"));
    let width = [Work::Reference, Work::FeedForward].into_iter().fold(empty, |chart, work| {
        let points = widths.iter().map(|&width| (width as f64, table.mean(wide(work, width), TIME).mean));
        let power = by_width(table, work, TIME, widths).mean;
        chart.series(Series::new(format!("{work}, d^{power:.2}")).points(points))
    });
    findings.figure(
        "cost_against_width",
        format!("Time of one forward pass over {FIXED_LENGTH} tokens against the width, one head."),
        Picture::new("Cost against width").panel(width),
    );
}

fn judge(table: &Measured, lengths: &[usize], widths: &[usize]) -> Verdict {
    let time = |work| by_length(table, work, TIME, lengths);
    let memory = |work| by_length(table, work, MEMORY, lengths);
    let wide = |work| by_width(table, work, TIME, widths);
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

    #[test]
    fn all_kinds_of_work_give_as_many_vectors_as_they_get() -> Result<()> {
        for work in Work::ALL {
            assert_eq!(prepare((work, 2, 32, 8))?()?.count(), 32 * 2 * 8, "{work:?}");
        }
        Ok(())
    }

    /// Costs that grow with these powers, in the order of the checks, a little differently in each round.
    fn growing(powers: [f64; 6]) -> Verdict {
        let [time, memory, wide, forward, forward_wide, tiled] = powers;
        let mut table = Table::new();
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
                    table.add(long(work, length), round, TIME, power(length, in_time));
                    table.add(long(work, length), round, MEMORY, power(length, in_memory));
                }
            }
            for (work, of_width) in [(Work::Reference, wide), (Work::FeedForward, forward_wide)] {
                for width in WIDTHS {
                    table.add(super::wide(work, width), round, TIME, power(width, of_width));
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
