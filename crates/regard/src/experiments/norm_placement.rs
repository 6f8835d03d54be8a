//! Norms before each layer or after each sum: which trains, how deep, and at what rate?

use super::models::language as models;
use crate::experiment::Sizes;
use crate::experiment::{Bound, Check, Experiment, Findings, Lab, Measurements, Verdict};
use crate::figure::{Axis, Bar, Bars, Chart, Picture, Series};
use crate::run::{RunConfig, prepare, sources};
use crate::statistics::{Sample, mean, paired};
use anyhow::{Context as _, Result};
use regard_nn::Module;
use regard_nn::block::Placement;
use regard_nn::data::text::TokenStream;
use regard_nn::tensor::Gradients;
use regard_nn::tensor::optimiser::global_norm;
use regard_nn::train::{Decay, Evaluation, Flow, Observer, Progress, Step, Task};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

pub const EXPERIMENT: Experiment = Experiment {
    name: "norm-placement",
    claims: &["E5"],
    question: "Does pre-norm train more stably, and deeper, than post-norm?",
    prediction: "Over depths and rates, fewer runs fail to learn with norms before the layers than with norms after the sums; and \
        at the largest depth, the loss on held-out text is lower with them.",
    design: "GPTs of three depths, with norms before each layer or after each sum, at two constant learning rates, without \
        warm-up and without clipping of gradients: nothing that would hide an instability. A run fails to learn if its loss is \
        not finite, or if it ends no better than a model that knows the frequencies of words and nothing else. Also the norm \
        of each layer's gradients in the first step. The seed is shared, and differences are paired by it.",
    changed: Some(
        "These are the third settings of the models: with the first two, which started from GPT-2's initial weights, the answer was once \
         that it holds and once undecided. The share of failures was first counted as if every run were independent; it is one share \
         for each seed now. Its interval was later made no narrower than a count allows. Standard size \
         had five seeds and 400 steps; for its time it has four and 300.",
    ),
    real_data: Some("plain text such as WikiText-2's folder"),
    conditions: &["placement", "layers", "rate"],
    seeds: Sizes::quick(3).standard(4).full(3),
    seconds: Sizes::quick(14.0).standard(400.0).full(17_000.0),
    run,
};

const PLACEMENTS: [(Placement, &str); 2] = [(Placement::Pre, "pre-norm"), (Placement::Post, "post-norm")];
/// Constant learning rates: one that small models like, and one that is bold.
const RATES: [f32; 2] = [2e-3, 1e-2];
/// Training losses are kept as means of so many steps.
const SMOOTH: usize = 5;

/// What a run is, by place in [`PLACEMENTS`], number of layers, place in [`RATES`], and seed.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Cell {
    placement: usize,
    depth: usize,
    rate: usize,
    seed: u64,
}

#[derive(Serialize, Deserialize)]
struct Run {
    /// The step and the mean loss of the steps before it.
    curve: Vec<(u64, f64)>,
    /// The held-out loss; that of a guess among all words if the run ended in numbers that are not finite.
    loss: f64,
    /// The norm of each layer's gradients in the first step.
    gradients: Vec<f64>,
}

fn run(lab: &Lab) -> Result<Findings> {
    let seeds = lab.seeds();
    let depths = lab.at(Sizes::quick([2, 5, 10]).smoke([1, 2, 3]).standard([2, 8, 24]).full([4, 12, 24]));
    let mut inputs = Vec::new();
    for placement in 0..PLACEMENTS.len() {
        for depth in depths {
            for rate in 0..RATES.len() {
                inputs.extend(seeds.iter().map(|&seed| Cell { placement, depth, rate, seed }));
            }
        }
    }
    let runs = lab.parts("runs", &inputs, |cell| read(lab, *cell))?;
    let frequencies = lab.parts("frequencies", &seeds, |&seed| word_frequencies(lab, seed))?;
    let by_seed: HashMap<u64, f64> = seeds.iter().copied().zip(frequencies.iter().copied()).collect();
    // A guess among all words is never better than their frequencies: a run that ended in no number counts as failed.
    let failed = |cell: &Cell, run: &Run| run.loss >= by_seed[&cell.seed];
    let mut findings = Findings::new(&["placement", "layers", "rate"]);
    for (cell, run) in inputs.iter().zip(&runs) {
        let conditions: [&dyn std::fmt::Display; 3] =
            [&PLACEMENTS[cell.placement].1, &cell.depth, &RATES[cell.rate]];
        findings.measurements.add(&conditions, cell.seed, "loss", run.loss);
        findings.measurements.add(
            &conditions,
            cell.seed,
            "failed to learn",
            f64::from(u8::from(failed(cell, run))),
        );
        for (step, loss) in &run.curve {
            let measure = format!("training loss, the {SMOOTH} steps to {step}");
            findings.measurements.add(&conditions, cell.seed, measure, *loss);
        }
        for (layer, &norm) in run.gradients.iter().enumerate() {
            findings.measurements.add(
                &conditions,
                cell.seed,
                format!("gradient norm, layer {}", layer + 1),
                norm,
            );
        }
    }
    let usual = mean(&frequencies).mean;
    draw(&mut findings, &depths, usual, (&inputs, &runs));
    findings.verdicts = vec![judge(&findings.measurements, &depths)];
    for (placement, name) in PLACEMENTS.iter().map(|(_, name)| name).enumerate() {
        let of = || inputs.iter().zip(&runs).filter(move |(cell, _)| cell.placement == placement);
        findings.fact(format!("failed: {name}"), of().filter(|(cell, run)| failed(cell, run)).count() as f64);
        findings.fact(format!("runs: {name}"), of().count() as f64);
    }
    findings.fact("deepest", depths[2] as f64);
    findings.fact("loss of word frequencies", usual);
    Ok(findings)
}

fn config(lab: &Lab, cell: Cell) -> Result<RunConfig> {
    let mut config = models::base_on_text(lab, cell.seed)?;
    let (width, heads, length, words) = lab.at(Sizes::quick((32, 2, 32, 500))
        .smoke((8, 2, 8, 100))
        .standard((48, 4, 64, 1_000))
        .full((128, 4, 128, 10_000)));
    config.tokens.size = words;
    config.data.length = length;
    config.data.texts = lab.at(Sizes::quick(1_500).smoke(60).standard(6_000).full(40_000));
    let gpt = models::gpt(&mut config)?;
    (gpt.n_layers, gpt.d_model, gpt.n_heads, gpt.context) = (cell.depth, width, heads, length);
    gpt.norm = PLACEMENTS[cell.placement].0;
    gpt.dropout = 0.0;
    let train = &mut config.train;
    train.steps = lab.at(Sizes::quick(120).smoke(4).standard(300).full(1_000));
    train.batch_size = lab.at(Sizes::quick(8).smoke(4).standard(16));
    train.evaluate_every = 0;
    train.clip = 0.0;
    train.rate.highest = RATES[cell.rate];
    train.rate.lowest = RATES[cell.rate];
    train.rate.warmup = 0;
    train.rate.decay = Decay::Constant;
    Ok(config)
}

/// Trains without keeping the model: only how it went matters.
fn read(lab: &Lab, cell: Cell) -> Result<Run> {
    let config = config(lab, cell)?;
    let mut material = prepare(&config, None, None)?;
    let tokenizer = material.tokenizer.as_ref().context("words need a tokenizer")?;
    let guess = (tokenizer.vocabulary_size() as f64).ln();
    let mut watch = Watch::default();
    let finite = match lab.train_task(material.task.as_mut(), &config, &mut watch) {
        Ok(()) => true,
        Err(error) if matches!(error.downcast_ref(), Some(regard_nn::Error::Diverged { .. })) => false,
        Err(error) => return Err(error),
    };
    let loss = watch.held_out.filter(|loss| finite && loss.is_finite());
    let means = watch.losses.chunks(SMOOTH).enumerate();
    Ok(Run {
        curve: means.map(|(i, part)| (((i + 1) * SMOOTH) as u64, mean(part).mean)).collect(),
        loss: loss.unwrap_or(guess),
        gradients: watch.gradients,
    })
}

/// The loss of who knows how frequent words are and nothing else, on the words of a seed's models.
fn word_frequencies(lab: &Lab, seed: u64) -> Result<f64> {
    let config = config(lab, Cell { placement: 0, depth: 1, rate: 0, seed })?;
    let material = prepare(&config, None, None)?;
    let tokenizer = material.tokenizer.as_ref().context("words need a tokenizer")?;
    entropy(&sources::test_stream(
        &config.data,
        tokenizer,
        lab.at(Sizes::quick(300).smoke(20).standard(1_000).full(2_000)),
    )?)
}

/// The entropy of the frequencies of a text's words, in nats: what is left to guess for who knows them alone.
fn entropy(text: &TokenStream) -> Result<f64> {
    let mut ids = vec![0; text.len()];
    text.copy(0, &mut ids)?;
    let mut counts: HashMap<u32, u32> = HashMap::new();
    for id in ids {
        *counts.entry(id).or_default() += 1;
    }
    let mut counts: Vec<f64> = counts.into_values().map(f64::from).collect();
    // Sums depend on their order, and a map has none.
    counts.sort_by(f64::total_cmp);
    let total: f64 = counts.iter().sum();
    Ok(counts.iter().map(|count| -count / total * (count / total).ln()).sum())
}

/// What is kept of a run.
#[derive(Default)]
struct Watch {
    losses: Vec<f64>,
    gradients: Vec<f64>,
    held_out: Option<f64>,
}

impl Observer for Watch {
    fn gradients(&mut self, step: u64, model: &dyn Module, gradients: &Gradients) -> regard_nn::Result<()> {
        if step > 1 {
            return Ok(());
        }
        let all = model.parameters();
        let layer = |name: &str| name.strip_prefix("layers.")?.split('.').next()?.parse::<usize>().ok();
        let count = all.iter().filter_map(|(name, _)| layer(name)).max().map_or(0, |last| last + 1);
        let norm = |wanted: usize| {
            let of_layer = all.iter().filter(|(name, _)| layer(name) == Some(wanted));
            let found: Vec<_> =
                of_layer.filter_map(|(_, parameter)| gradients.find(parameter.tensor())).collect();
            Ok(f64::from(global_norm(found)?.item()?))
        };
        self.gradients = (0..count).map(norm).collect::<regard_nn::Result<_>>()?;
        Ok(())
    }

    fn stepped(&mut self, step: &Step, _: &dyn Task, _: &Progress) -> regard_nn::Result<Flow> {
        self.losses.push(f64::from(step.loss));
        Ok(Flow::Continue)
    }

    fn evaluated(
        &mut self,
        evaluation: &Evaluation,
        _: bool,
        _: &dyn Task,
        _: &Progress,
    ) -> regard_nn::Result<()> {
        self.held_out = Some(evaluation.loss);
        Ok(())
    }
}

fn draw(findings: &mut Findings, depths: &[usize; 3], frequencies: f64, (inputs, runs): (&[Cell], &[Run])) {
    let of = |placement: usize, depth: usize, rate: usize| {
        let same = move |cell: &Cell| (cell.placement, cell.depth, cell.rate) == (placement, depth, rate);
        inputs.iter().zip(runs).filter(move |(cell, _)| same(cell)).map(|(_, run)| run).collect::<Vec<_>>()
    };
    let mut picture = Picture::new("Deeper and bolder")
        .subtitle("Training loss, mean over seeds; without warm-up, without clipping")
        .columns(2);
    for &depth in depths {
        let mut chart = Chart::new(Axis::linear("step"), Axis::linear("loss, nats"));
        for (placement, (_, name)) in PLACEMENTS.iter().enumerate() {
            for (rate, value) in RATES.iter().enumerate() {
                let runs = of(placement, depth, rate);
                let steps = runs.iter().map(|run| run.curve.len()).max().unwrap_or(0);
                let points: Vec<(f64, f64)> = (0..steps)
                    .map(|i| {
                        let losses: Vec<f64> =
                            runs.iter().filter_map(|run| Some(run.curve.get(i)?.1)).collect();
                        (((i + 1) * SMOOTH) as f64, mean(&losses).mean)
                    })
                    .collect();
                chart = chart.series(Series::new(format!("{name}, rate {value}")).points(points));
            }
        }
        let chart = chart.level(frequencies, "word frequencies alone").half();
        picture = picture.titled_panel(format!("{depth} layers"), chart);
    }
    findings.figure(
        "loss_by_depth_and_placement",
        "Training loss by number of layers, place of the norms and learning rate. A curve that stays at the dashed level has \
         learned nothing but how frequent words are.",
        picture,
    );
    let deepest = depths[depths.len() - 1];
    let layers = (1..=deepest).step_by(deepest.div_ceil(10)).map(|layer| layer as f64);
    let empty =
        Chart::new(Axis::linear("layer").ticks(layers), Axis::log("norm of its gradients, first step"));
    let chart = PLACEMENTS.iter().enumerate().fold(empty, |chart, (placement, (_, name))| {
        let runs = of(placement, deepest, 0);
        let points: Vec<(f64, f64)> = (0..deepest)
            .map(|layer| {
                let norms: Vec<f64> =
                    runs.iter().filter_map(|run| run.gradients.get(layer).copied()).collect();
                (layer as f64 + 1.0, mean(&norms).mean)
            })
            .collect();
        chart.series(Series::new(*name).points(points))
    });
    let names: Vec<String> =
        depths.iter().flat_map(|depth| RATES.map(|rate| format!("{depth} layers, rate {rate}"))).collect();
    let bars = PLACEMENTS.iter().fold(
        Bars::lying(names, Axis::linear("share of runs that fail to learn").range(0.0, 1.0)),
        |bars, (_, name)| {
            let share = |depth: usize, rate: f32| {
                findings.measurements.mean(&[name, &depth, &rate], "failed to learn").mean
            };
            let shares = depths.iter().flat_map(|&depth| RATES.map(|rate| Bar::new(share(depth, rate))));
            bars.series(*name, shares.collect())
        },
    );
    findings.figure(
        "gradients_and_failures",
        "The norm of each layer's gradients before anything is learned, in the deepest model (were the way back narrow, the first layers \
         would have the smallest); and how many runs end no better than the frequencies of words.",
        Picture::new("Gradients at the start, failures at the end")
            .columns(2)
            .titled_panel(format!("gradients, {deepest} layers"), chart.half())
            .titled_panel("failures", bars.half()),
    );
}

fn judge(table: &Measurements, depths: &[usize; 3]) -> Verdict {
    let deepest = depths[depths.len() - 1];
    let of = |placement: usize, depth: usize, rate: f32, measure: &str| {
        table.values(&[&PLACEMENTS[placement].1, &depth, &rate], measure)
    };
    // One value a seed: its share over all depths and rates, and its mean over the rates.
    let failed = [0, 1].map(|placement| {
        let cells = depths.iter().flat_map(|&depth| RATES.map(|rate| (depth, rate)));
        Sample::together(cells.map(|(depth, rate)| of(placement, depth, rate, "failed to learn")))
    });
    let losses =
        [0, 1].map(|placement| Sample::together(RATES.map(|rate| of(placement, deepest, rate, "loss"))));
    let cells = (depths.len() * RATES.len()) as f64;
    let count = |placement: usize| cells * failed[placement].values().iter().sum::<f64>();
    let at_rate = |rate: f32| {
        let at = |depth: usize| {
            let [pre, post] = [0, 1].map(|placement| of(placement, depth, rate, "loss").mean().mean);
            format!("{pre:.2} and {post:.2} with {depth} layers")
        };
        format!("at rate {rate} {}", depths.map(at).join(", "))
    };
    let finding = format!(
        "Of {:.0} runs each, {:.0} fail to learn with pre-norm and {:.0} with post-norm. Losses with pre-norm and with post-norm: {}.",
        cells * failed[0].len() as f64,
        count(0),
        count(1),
        RATES.map(at_rate).join("; "),
    );
    let checks = vec![
        Check::new(
            "share of runs that fail to learn, post-norm − pre-norm",
            // Both sides are counted, and their errors add up as squares do.
            paired(&failed[1], &failed[0]).in_steps(2_f64.sqrt() / cells),
            Bound::Above(0.0),
        ),
        Check::new(
            format!("{deepest} layers: loss, post-norm − pre-norm"),
            paired(&losses[1], &losses[0]),
            Bound::Above(0.0),
        ),
    ];
    Verdict::new("E5", checks, finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;
    use crate::experiments::wrong;

    const DEPTHS: [usize; 3] = [2, 6, 12];

    fn planted(post_fails_from: usize, gap: f64) -> Measurements {
        let mut table = Measurements::new(&["placement", "layers", "rate"]);
        for (placement, (_, name)) in PLACEMENTS.iter().enumerate() {
            for depth in DEPTHS {
                for rate in RATES {
                    for seed in 0..3 {
                        let fails = placement == 1 && depth >= post_fails_from;
                        let loss = 3.0 + 0.01 * seed as f64 * (1 + placement) as f64 + gap * placement as f64;
                        table.add(&[name, &depth, &rate], seed, "loss", loss);
                        table.add(
                            &[name, &depth, &rate],
                            seed,
                            "failed to learn",
                            f64::from(u8::from(fails)),
                        );
                    }
                }
            }
        }
        table
    }

    #[test]
    fn the_verdict_follows_failures_and_losses() {
        assert_eq!(judge(&planted(6, 0.5), &DEPTHS).outcome, Outcome::Holds);
        assert_eq!(
            judge(&planted(6, -0.5), &DEPTHS).outcome,
            Outcome::Fails,
            "deep post-norm models do better"
        );
        assert_ne!(judge(&planted(99, 0.5), &DEPTHS).outcome, Outcome::Holds, "nobody fails");
    }

    #[test]
    fn the_entropy_of_two_equal_words_is_a_bit() {
        let text = TokenStream::new(&[3, 9].repeat(8)).unwrap();
        assert!((entropy(&text).unwrap() - 2_f64.ln()).abs() < 1e-12);
    }

    /// Runs of which some fail, and what deep post-norm models lose beyond pre-norm ones.
    fn judged(fails: impl Fn(usize, usize, u64) -> bool, gap: f64) -> Verdict {
        let mut table = Measurements::new(&["placement", "layers", "rate"]);
        for (placement, (_, name)) in PLACEMENTS.iter().enumerate() {
            for depth in DEPTHS {
                for (bold, rate) in RATES.into_iter().enumerate() {
                    for seed in 0..4 {
                        let noise =
                            0.01 * seed as f64 + 0.003 * ((seed as usize + placement + bold) % 3) as f64;
                        let failed = f64::from(u8::from(fails(placement, depth, seed)));
                        table.add(&[name, &depth, &rate], seed, "loss", 3.0 + noise + gap * placement as f64);
                        table.add(&[name, &depth, &rate], seed, "failed to learn", failed);
                    }
                }
            }
        }
        judge(&table, &DEPTHS)
    }

    #[test]
    fn failures_and_losses_can_be_wrong_alone() {
        // Deep models fail, and one of middle depth does with some seeds.
        let unstable = |depth: usize, seed: u64| depth == 12 || depth == 6 && seed.is_multiple_of(2);
        let post_fails = |placement: usize, depth: usize, seed: u64| placement == 1 && unstable(depth, seed);
        let pre_fails = |placement: usize, depth: usize, seed: u64| placement == 0 && unstable(depth, seed);
        let holds = judged(post_fails, 0.5);
        assert_eq!((holds.outcome, wrong(&holds)), (Outcome::Holds, vec![]));
        let unstable_pre = judged(pre_fails, 0.5);
        assert_eq!((unstable_pre.outcome, wrong(&unstable_pre)), (Outcome::Fails, vec![0]));
        let better_post = judged(post_fails, -0.5);
        assert_eq!((better_post.outcome, wrong(&better_post)), (Outcome::Fails, vec![1]));
        let both = judged(pre_fails, -0.5);
        assert_eq!((both.outcome, wrong(&both)), (Outcome::Fails, vec![0, 1]));
        assert_eq!(
            judged(|_, depth, seed| unstable(depth, seed), 0.5).outcome,
            Outcome::Undecided,
            "both fail"
        );
        assert_eq!(judged(post_fails, 0.0).outcome, Outcome::Undecided, "the losses are the same");
    }
}
