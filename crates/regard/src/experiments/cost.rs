//! The cost of attention: time and memory against length and width.

use super::instruments::stopwatch::{Spent, spend};
use crate::experiment::{
    Bound, Check, Data, Experiment, Findings, Lab, Sizes, Table, Verdict, facts, named, those_that_apply,
};
use crate::figure::{Axis, Chart, Picture, Series};
use crate::statistics::{Interval, Sample, exact, slope, slope_by_seed};
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
    claims: &["E8", "E13"],
    question: "How do the time and the memory of attention and of feed-forward layers grow with length and width?",
    prediction: "Attention written out takes time that grows as the square of the length (an exponent from 1.7 to 2.3) and memory \
        that grows as its square (1.8 to 2.2), and at most in proportion to the width (below 1.3); feed-forward layers grow \
        in proportion to the length (0.8 to 1.2) and as the square of the width (1.7 to 2.3); the memory of tiled attention \
        grows in proportion to the length (0.8 to 1.2). Of memory: written out, attention's grows in proportion to the number of heads \
        (0.9 to 1.1) and hardly with their width (below 0.3); tiled attention's grows at most in proportion to heads and width (below \
        1.1); a feed-forward layer's grows in proportion to length and width (0.9 to 1.1).",
    design: "Forward passes over random values, two heads of width 64: attention written out as in the reference, tiled attention, \
        the same with a window of 128 tokens to each side, linear attention, and a feed-forward layer of four times the width. \
        Times are processor times of one thread: in each round the median of repeated passes, and of five rounds the median again, so \
        that other programs do not count; memory is the peak beyond the inputs, which is counted and not estimated. Exponents are slopes \
        on logarithmic axes over the three largest sizes, one for every five rounds. For E13 the number of heads and their width are \
        varied at 512 tokens.",
    changed: Some(
        "E8: 35 rounds are taken instead of 15, and times are medians of five rounds instead of three: of three runs on an idle machine one \
         had an interval that ended at 2.295, next to the bound of 2.3, for one group of rounds that had been disturbed. Later the clock was \
         exchanged: the former one moved in ticks of 4 ms on some systems, so that passes of 5 ms counted as 4 or 8.",
    ),
    data: Data::Drawn,
    conditions: &["work", "heads", "length", "width"],
    seeds: Sizes::quick(35),
    seconds: Sizes::quick(35.0).standard(200.0).full(900.0),
    trains: |_| Ok(Vec::new()),
    run,
};

const HEADS: usize = 2;
const HEAD_WIDTH: usize = 64;
const WINDOW: usize = 128;
/// Lengths at which the width is varied.
const FIXED_LENGTH: usize = 512;
/// Beyond this the weights written out take gigabytes.
const LONGEST_REFERENCE: usize = 4_096;
/// Times are medians of so many rounds.
const ROUNDS: u64 = 5;
/// The numbers of heads and the widths at which memory is counted.
const HEAD_COUNTS: [usize; 4] = [1, 2, 4, 8];
const HEAD_WIDTHS: [usize; 4] = [16, 32, 64, 128];
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
    let lengths =
        doubled(128, lab.setting("longest", Sizes::quick(2_048).smoke(512).standard(4_096).full(16_384)));
    let widths = doubled(64, lab.setting("widest", Sizes::quick(512).smoke(256).standard(1_024)));
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
    let patience = Duration::from_millis(
        lab.setting("milliseconds of each measurement", Sizes::quick(20).smoke(1).standard(100).full(200)),
    );
    let measured = lab.timed_parts("costs", &inputs, |&(cell, _)| {
        let Spent { milliseconds, megabytes } = spend(patience, prepare(cell)?)?;
        Ok((milliseconds, megabytes))
    })?;
    let mut table = medians(&inputs, &measured);
    for (cell, megabytes) in count_memory(lab)? {
        table.add(cell, lab.first_seed(), MEMORY, megabytes);
    }
    let mut findings = Findings::default();
    draw(&mut findings, &table, &lengths, &widths);
    findings.verdicts = vec![judge(&table, &lengths, &widths), judge_memory(&table, &lengths)];
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

/// Times and memory: of every [`ROUNDS`] rounds the median, as one value of the first of them.
fn medians(inputs: &[(Cell, u64)], measured: &[(f64, f64)]) -> Measured {
    let mut groups: Vec<((Cell, u64), Vec<f64>, f64)> = Vec::new();
    let first = inputs.iter().map(|(_, round)| *round).min().unwrap_or(0);
    for (&(cell, round), &(milliseconds, megabytes)) in inputs.iter().zip(measured) {
        let group = first + (round - first) / ROUNDS;
        match groups.iter_mut().find(|(known, ..)| *known == (cell, group)) {
            Some((_, times, _)) => times.push(milliseconds),
            None => groups.push(((cell, group), vec![milliseconds], megabytes)),
        }
    }
    let mut table = Table::new();
    for ((cell, group), mut times, megabytes) in groups {
        times.sort_by(f64::total_cmp);
        table.add(cell, group, TIME, times[times.len() / 2]);
        table.add(cell, group, MEMORY, megabytes);
    }
    table
}

/// The cells at which memory is counted beside those at which time is measured: other numbers of heads, other widths.
fn memory_cells() -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    for work in [Work::Reference, Work::Tiled] {
        cells.extend(HEAD_COUNTS.map(|heads| (work, heads, FIXED_LENGTH, HEAD_WIDTH)));
        cells.extend(HEAD_WIDTHS.map(|width| (work, HEADS, FIXED_LENGTH, width)));
    }
    cells.extend(HEAD_WIDTHS.map(|width| (Work::FeedForward, HEADS, FIXED_LENGTH, width)));
    cells.sort_unstable();
    cells.dedup();
    cells
}

fn count_memory(lab: &Lab) -> Result<Vec<(Cell, f64)>> {
    // Measured with the times already.
    let cells: Vec<Cell> =
        memory_cells().into_iter().filter(|cell| *cell != long(cell.0, FIXED_LENGTH)).collect();
    let counted =
        lab.timed_parts("memory", &cells, |&cell| Ok(spend(Duration::ZERO, prepare(cell)?)?.megabytes))?;
    Ok(cells.into_iter().zip(counted).collect())
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
        Check::new("attention: exponent of time in n", time(Work::Reference), Bound::Between(1.7, 2.3))
            .part("attention's time is O(n²·d)"),
        Check::new("attention: exponent of memory in n", memory(Work::Reference), Bound::Between(1.8, 2.2))
            .part("attention's memory is O(n²)"),
        Check::new("attention: exponent of time in d", wide(Work::Reference), Bound::Below(1.3))
            .part("attention's time is O(n²·d)"),
        Check::new("feed-forward: exponent of time in n", time(Work::FeedForward), Bound::Between(0.8, 1.2))
            .part("feed-forward's time is O(n·d²)"),
        Check::new("feed-forward: exponent of time in d", wide(Work::FeedForward), Bound::Between(1.7, 2.3))
            .part("feed-forward's time is O(n·d²)"),
        Check::new("tiled attention: exponent of memory in n", memory(Work::Tiled), Bound::Between(0.8, 1.2))
            .part("tiled attention's memory is O(n)"),
    ];
    Verdict::new("E8", checks, finding).because(|checks| {
        those_that_apply([
            (
                checks[0].fails() && checks[0].effect.mean > 2.0,
                "Time grows faster than the number of products does: the weights of long texts no longer fit into the processor's caches.",
            ),
            (
                checks[0].fails() && checks[0].effect.mean <= 2.0,
                "At these lengths the part of the time that grows with the length alone still counts.",
            ),
            (checks[2].fails(), "Wide heads cost more than their number of products: their values leave the processor's caches."),
            (
                checks[3].fails() || checks[4].fails(),
                "Products of these sizes do not run at one speed: small ones are slower than their number of operations tells, or large ones \
                 leave the processor's caches.",
            ),
            (checks[1].fails() || checks[5].fails(), "Buffers that do not follow the length as stated take much of the memory at these lengths."),
        ])
    })
}

/// The exponent of memory over cells that differ in one number.
fn memory_over(table: &Measured, sizes: &[usize], cell: impl Fn(usize) -> Cell) -> Interval {
    // What is counted is the same in every round: one value, without an interval to guess.
    let points = sizes.iter().map(|&size| {
        let counted = table.values(cell(size), MEMORY).values().first().copied().unwrap_or(f64::NAN);
        ((size as f64).ln(), counted.max(f64::MIN_POSITIVE).ln())
    });
    exact(slope(&points.collect::<Vec<_>>()).mean)
}

fn judge_memory(table: &Measured, lengths: &[usize]) -> Verdict {
    let heads = |work| memory_over(table, &HEAD_COUNTS, |heads| (work, heads, FIXED_LENGTH, HEAD_WIDTH));
    let widths = |work| memory_over(table, &HEAD_WIDTHS, |width| (work, HEADS, FIXED_LENGTH, width));
    let largest = |work: Work| {
        let all =
            lengths.iter().copied().filter(|&length| !table.find(long(work, length), MEMORY).is_empty());
        let all: Vec<usize> = all.collect();
        memory_over(table, &all[all.len().saturating_sub(FITTED)..], |length| long(work, length))
    };
    let finding = format!(
        "Written out, attention's memory grows as n^{:.2}, h^{:.2} and d^{:.2}; tiled, as n^{:.2}, h^{:.2} and d^{:.2}. A feed-forward \
         layer's grows as n^{:.2} and d^{:.2}.",
        largest(Work::Reference).mean,
        heads(Work::Reference).mean,
        widths(Work::Reference).mean,
        largest(Work::Tiled).mean,
        heads(Work::Tiled).mean,
        widths(Work::Tiled).mean,
        largest(Work::FeedForward).mean,
        widths(Work::FeedForward).mean,
    );
    let (written, tiled, forward) =
        ("with heads it is O(n²·h)", "in tiles it is O(n·h·d)", "feed-forward's is O(n·d)");
    let checks = vec![
        Check::new("attention: exponent of memory in n", largest(Work::Reference), Bound::Between(1.8, 2.2))
            .part("attention's memory is O(n²)")
            .repeats("E8"),
        Check::new("attention: exponent of memory in h", heads(Work::Reference), Bound::Between(0.9, 1.1))
            .part(written),
        Check::new("attention: exponent of memory in d", widths(Work::Reference), Bound::Below(0.3))
            .part(written),
        Check::new("tiled attention: exponent of memory in h", heads(Work::Tiled), Bound::Below(1.1))
            .part(tiled),
        Check::new("tiled attention: exponent of memory in d", widths(Work::Tiled), Bound::Below(1.1))
            .part(tiled),
        Check::new(
            "feed-forward: exponent of memory in n",
            largest(Work::FeedForward),
            Bound::Between(0.9, 1.1),
        )
        .part(forward),
        Check::new(
            "feed-forward: exponent of memory in d",
            widths(Work::FeedForward),
            Bound::Between(0.9, 1.1),
        )
        .part(forward),
    ];
    Verdict::new("E13", checks, finding).because(|checks| {
        // What is counted has no interval: each exponent that is outside its bound is named with its value.
        let outside: Vec<String> = checks
            .iter()
            .filter(|check| check.fails())
            .map(|check| format!("{} is {:.2}, not {}", check.what, check.effect.mean, check.bound))
            .collect();
        format!(
            "Of what is counted, {}: other buffers take a part that does not follow the law.",
            outside.join("; ")
        )
    })
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

    #[test]
    fn the_median_of_five_rounds_counts() {
        let cell = long(Work::Tiled, 128);
        let inputs: Vec<(Cell, u64)> = (100..110).map(|round| (cell, round)).collect();
        let times = [1.0, 90.0, 2.0, 80.0, 1.5, 5.0, 4.0, 3.0, 6.0, 2.0];
        let table = medians(&inputs, &times.map(|time| (time, 7.0)));
        assert_eq!(table.values(cell, TIME).values(), [2.0, 4.0]);
        assert_eq!(table.values(cell, MEMORY).values(), [7.0, 7.0]);
    }

    #[test]
    fn each_exponent_of_memory_can_be_wrong_alone() {
        let judged = |heads: f64, width: f64, forward: f64| {
            let mut table = Table::new();
            for cell @ (work, heads_of, _, width_of) in memory_cells() {
                let (of_heads, of_width) = match work {
                    Work::Reference => (heads, width),
                    Work::FeedForward => (1.0, forward),
                    _ => (1.0, 1.0),
                };
                table.add(
                    cell,
                    0,
                    MEMORY,
                    (heads_of as f64).powf(of_heads) * (width_of as f64).powf(of_width),
                );
            }
            for work in Work::ALL {
                for length in LENGTHS.into_iter().filter(|&length| length != FIXED_LENGTH) {
                    let power: f64 = if work == Work::Reference { 2.0 } else { 1.0 };
                    let at = |length: usize| (length as f64 / FIXED_LENGTH as f64).powf(power);
                    let known = table.find(long(work, FIXED_LENGTH), MEMORY).mean().mean;
                    let known = if known.is_finite() { known } else { 1.0 };
                    table.add(long(work, length), 0, MEMORY, known * at(length));
                }
            }
            judge_memory(&table, &LENGTHS).outcome
        };
        assert_eq!(judged(1.0, 0.1, 1.0), Outcome::Holds);
        for (heads, width, forward) in [(0.0, 0.1, 1.0), (1.0, 1.0, 1.0), (1.0, 0.1, 2.0)] {
            assert_eq!(judged(heads, width, forward), Outcome::InPart, "{heads} {width} {forward}");
        }
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
                (Outcome::InPart, vec![place]),
                "check {place}: {power}"
            );
        }
        let mut narrow = claimed;
        narrow[2] = 0.3;
        assert_eq!(growing(narrow).outcome, Outcome::Holds, "at most in proportion to the width");
    }
}
