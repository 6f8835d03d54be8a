//! Pre-norm or post-norm: which trains, how deep, and at what rate?

use super::models::language as models;
use crate::experiment::{
    Bound, Check, Data, Experiment, Findings, Lab, Rows, Sizes, Sweep, Table, Verdict, charts, facts, named,
    those_that_apply,
};
use crate::figure::{Axis, Bar, Bars, Chart, Picture, Series, counted};
use crate::run::{RunConfig, prepare, sources};
use crate::statistics::{Sample, mean, paired};
use anyhow::{Context as _, Result};
use regard_nn::Module;
use regard_nn::block::Placement;
use regard_nn::tensor::Gradients;
use regard_nn::tensor::optimiser::global_norm;
use regard_nn::train::{Decay, Evaluation, Flow, Observer, Progress, Step, Task};
use std::collections::HashMap;

pub const EXPERIMENT: Experiment = Experiment {
    name: "norm-placement",
    claims: &["E5", "E14"],
    question: "Does pre-norm train more stably, and deeper, than post-norm, and do its gradients flow better?",
    prediction: "Over three depths and two rates, fewer runs fail to learn with pre-norm than with post-norm, by more than one run in six; \
        and at the largest depth, the loss on held-out text is lower with pre-norm. In the first step, the norm of the first layer's \
        gradients is nearer to that of the last layer's with pre-norm than with post-norm, at the middle and at the largest depth (their \
        ratio's logarithm is smaller).",
    design: "GPTs of three depths, pre-norm or post-norm, at two constant learning rates, without warm-up and without gradient clipping, \
        which would hide an instability. A run fails to learn if its loss is not finite, or if it ends no better than the unigram \
        distribution. Also measured is the norm of each layer's gradients in the first step, which no rate has touched yet. The seed is \
        shared, and differences are paired by it. E5 is testable if the shallowest pre-norm models learn at the lower rate.",
    changed: None,
    data: Data::Text("plain text such as WikiText-2's folder"),
    conditions: &["placement", "layers", "rate"],
    seeds: Sizes::quick(3).standard(4).full(3),
    seconds: Sizes::quick(14.0).standard(400.0).full(17_000.0),
    trains: |lab| {
        let depths = lab.at(DEPTHS).into_iter().flat_map(|depth| RATES.map(|rate| (depth, rate)));
        let cells = depths.flat_map(|(depth, rate)| Norm::ALL.map(|norm| (norm, depth, rate)));
        cells.map(|cell| config(lab, cell, lab.first_seed())).collect()
    },
    run,
};

named! {
    pub enum Norm { Pre = "pre-norm", Post = "post-norm" }
}

impl Norm {
    fn placement(self) -> Placement {
        match self {
            Norm::Pre => Placement::Pre,
            Norm::Post => Placement::Post,
        }
    }
}

/// Constant learning rates: one that suits small models, and a high one.
const RATES: [f32; 2] = [2e-3, 1e-2];
const DEPTHS: Sizes<[usize; 3]> =
    Sizes::quick([2, 5, 10]).smoke([1, 2, 3]).standard([2, 8, 24]).full([4, 12, 24]);
/// Training losses are kept as means of so many steps.
const SMOOTH: usize = 5;
const LOSS: &str = "loss";
const FAILED: &str = "failed to learn";
const UNIGRAM_LOSS: &str = "loss of the unigram distribution";

/// Placement of the norms, number of layers, and learning rate.
type Cell = (Norm, usize, f32);

facts! {
    /// How many runs failed to learn.
    pub FAILURES(norm: Norm) = "failed: {norm}";
    /// How many runs there were.
    pub RUNS(norm: Norm) = "runs: {norm}";
    DEEPEST = "deepest";
    UNIGRAM = "loss of word frequencies";
}

fn run(lab: &Lab) -> Result<Findings> {
    let depths = lab.setting("layers", DEPTHS);
    let of_depth = |norm| depths.into_iter().flat_map(move |depth| RATES.map(|rate| (norm, depth, rate)));
    let cells = lab.each(Norm::ALL.into_iter().flat_map(of_depth));
    let seeds = lab.seeds();
    let unigram = lab.parts("frequencies", &seeds, |&seed| unigram_loss(lab, seed))?;
    let by_seed: HashMap<u64, f64> = seeds.iter().copied().zip(unigram.iter().copied()).collect();
    let Sweep { table, runs } =
        lab.sweep("runs", cells, |cell, seed, rows| measure(lab, cell, seed, by_seed[&seed], rows))?;
    let mut findings = Findings::default();
    let points = runs.iter().map(|run| run.result).max().unwrap_or(0);
    draw(&mut findings, &table, &depths, (mean(&unigram).mean, points));
    findings.verdicts = vec![judge(&table, &depths), judge_flow(&table, &depths)];
    let of_norm = |norm| of_depth(norm).flat_map(|cell| table.values(cell, FAILED).values());
    findings.facts(FAILURES, Norm::ALL, |norm| of_norm(norm).sum());
    findings.facts(RUNS, Norm::ALL, |norm| of_norm(norm).count() as f64);
    findings.fact(DEEPEST, depths[2] as f64);
    findings.fact(UNIGRAM, mean(&unigram).mean);
    findings.finish(lab, table)
}

/// The measure of the training loss; the first point is 1.
fn training_loss(point: usize) -> String {
    format!("training loss, the {SMOOTH} steps to {}", point * SMOOTH)
}

/// The measure of the gradients of a layer; the first is 1.
fn gradient_norm(layer: usize) -> String {
    format!("gradient norm, layer {layer}")
}

fn config(lab: &Lab, (norm, depth, rate): Cell, seed: u64) -> Result<RunConfig> {
    let mut config = models::base_on_text(lab, seed)?;
    let (width, heads, length, words) = lab.at(Sizes::quick((32, 2, 32, 500))
        .smoke((8, 2, 8, 100))
        .standard((48, 4, 64, 1_000))
        .full((128, 4, 128, 10_000)));
    config.tokens.size = words;
    config.data.length = length;
    config.data.texts = lab.at(Sizes::quick(1_500).smoke(60).standard(6_000).full(40_000));
    let gpt = models::gpt(&mut config)?;
    (gpt.n_layers, gpt.d_model, gpt.n_heads, gpt.context) = (depth, width, heads, length);
    gpt.norm = norm.placement();
    gpt.dropout = 0.0;
    let train = &mut config.train;
    train.steps = lab.at(Sizes::quick(120).smoke(4).standard(300).full(1_000));
    train.batch_size = lab.at(Sizes::quick(8).smoke(4).standard(16));
    train.evaluate_every = 0;
    train.clip = 0.0;
    train.rate.highest = rate;
    train.rate.lowest = rate;
    train.rate.warmup = 0;
    train.rate.decay = Decay::Constant;
    Ok(config)
}

/// Trains a model, which is not kept, and returns how many points its curve has.
fn measure(lab: &Lab, cell: Cell, seed: u64, unigram: f64, rows: &mut Rows<Cell>) -> Result<usize> {
    let config = config(lab, cell, seed)?;
    let mut material = prepare(&config, None, None)?;
    let tokenizer = material.tokenizer.as_ref().context("words need a tokenizer")?;
    let uniform = (tokenizer.vocabulary_size() as f64).ln();
    let mut watch = Watch::default();
    let finite = match lab.train_task(material.task.as_mut(), &config, &mut watch) {
        Ok(()) => true,
        Err(error) if matches!(error.downcast_ref(), Some(regard_nn::Error::Diverged { .. })) => false,
        Err(error) => return Err(error),
    };
    // A run that diverged counts as a guess among all words, which is never better than the unigram distribution: it failed.
    let loss = watch.held_out.filter(|loss| finite && loss.is_finite()).unwrap_or(uniform);
    rows.add(cell, LOSS, loss);
    rows.add(cell, UNIGRAM_LOSS, unigram);
    rows.add(cell, FAILED, f64::from(u8::from(loss >= unigram)));
    let points = watch.losses.chunks(SMOOTH);
    let count = points.len();
    points.enumerate().for_each(|(i, part)| rows.add(cell, training_loss(i + 1), mean(part).mean));
    for (layer, norm) in watch.gradients.into_iter().enumerate() {
        rows.add(cell, gradient_norm(layer), norm);
    }
    Ok(count)
}

/// The loss of the unigram distribution, on the words of a seed's models.
fn unigram_loss(lab: &Lab, seed: u64) -> Result<f64> {
    let config = config(lab, (Norm::Pre, 1, RATES[0]), seed)?;
    let material = prepare(&config, None, None)?;
    let tokenizer = material.tokenizer.as_ref().context("words need a tokenizer")?;
    let texts = lab.setting("test texts", Sizes::quick(300).smoke(20).standard(1_000).full(2_000));
    models::entropy(&sources::test_stream(&config.data, tokenizer, texts)?)
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

fn draw(findings: &mut Findings, table: &Table<Cell>, depths: &[usize; 3], (unigram, points): (f64, usize)) {
    let mut picture = Picture::new("Deeper models, higher rates")
        .subtitle("Training loss, mean over seeds; without warm-up, without clipping")
        .columns(2);
    for &depth in depths {
        let mut chart = Chart::new(Axis::linear("step"), Axis::linear("loss, nats"));
        for norm in Norm::ALL {
            for rate in RATES {
                let loss = |point| table.mean_if_measured((norm, depth, rate), training_loss(point)).mean;
                let curve = (1..=points).map(|point| ((point * SMOOTH) as f64, loss(point)));
                let curve = curve.filter(|(_, loss)| loss.is_finite());
                chart = chart.series(Series::new(format!("{norm}, rate {rate}")).points(curve));
            }
        }
        let chart = chart.level(unigram, "unigram distribution").half();
        picture = picture.titled_panel(counted(depth, "layer"), chart);
    }
    findings.figure(
        "loss_by_depth_and_placement",
        "Training loss by number of layers, placement of the norms and learning rate. A curve that stays at the dashed level has \
         learned nothing but how frequent words are.",
        picture,
    );
    let deepest = depths[depths.len() - 1];
    let layers = (0..deepest).step_by(deepest.div_ceil(10)).map(|layer| layer as f64);
    let empty =
        Chart::new(Axis::linear("layer").ticks(layers), Axis::log("norm of its gradients, first step"));
    let chart = Norm::ALL.into_iter().fold(empty, |chart, norm| {
        let size = |layer| table.mean_if_measured((norm, deepest, RATES[0]), gradient_norm(layer)).mean;
        chart.series(Series::new(norm.name()).points((0..deepest).map(|layer| (layer as f64, size(layer)))))
    });
    let cells: Vec<(usize, f32)> = depths.iter().flat_map(|&depth| RATES.map(|rate| (depth, rate))).collect();
    let names =
        cells.iter().map(|(depth, rate)| format!("{}, rate {rate}", counted(*depth, "layer"))).collect();
    let empty = Bars::lying(names, Axis::linear("share of runs that fail to learn").range(0.0, 1.0));
    let bars = charts::grouped(empty, Norm::ALL, &cells, |norm, (depth, rate)| {
        Bar::new(table.mean((norm, depth, rate), FAILED).mean)
    });
    findings.figure(
        "gradients_and_failures",
        "The norm of each layer's gradients in the first step of the deepest model (if gradients vanished on the way back, the first \
         layers would have the smallest); and the share of runs that end no better than the unigram distribution.",
        Picture::new("Gradients at the start, failures at the end")
            .columns(2)
            .titled_panel(format!("gradients, {}", counted(deepest, "layer")), chart.half())
            .titled_panel("failures", bars.half()),
    );
}

fn judge(table: &Table<Cell>, depths: &[usize; 3]) -> Verdict {
    let deepest = depths[depths.len() - 1];
    let cells: Vec<(usize, f32)> = depths.iter().flat_map(|&depth| RATES.map(|rate| (depth, rate))).collect();
    // One value a seed: its share over all depths and rates, and its mean over the rates.
    let failed = Norm::ALL.map(|norm| {
        Sample::together(cells.iter().map(|&(depth, rate)| table.values((norm, depth, rate), FAILED)))
    });
    let losses =
        Norm::ALL.map(|norm| Sample::together(RATES.map(|rate| table.values((norm, deepest, rate), LOSS))));
    let count = |failed: &Sample| cells.len() as f64 * failed.values().iter().sum::<f64>();
    let at_rate = |rate: f32| {
        let at = |depth: usize| {
            let [pre, post] = Norm::ALL.map(|norm| table.mean((norm, depth, rate), LOSS).mean);
            format!("{pre:.2} and {post:.2} with {}", counted(depth, "layer"))
        };
        format!("at rate {rate} {}", depths.map(at).join(", "))
    };
    // The cells that speak for the other side.
    let better: Vec<String> = cells
        .iter()
        .filter_map(|&(depth, rate)| {
            let of = |norm| table.values((norm, depth, rate), LOSS);
            let gain = paired(&of(Norm::Post), &of(Norm::Pre));
            let told = format!(
                "{} at rate {rate} ({:+.2} [{:+.2}, {:+.2}])",
                counted(depth, "layer"),
                gain.mean,
                gain.low,
                gain.high
            );
            (gain.high < 0.0).then_some(told)
        })
        .collect();
    let finding = format!(
        "Of {:.0} runs each, {:.0} fail to learn with pre-norm and {:.0} with post-norm. Losses with pre-norm and with post-norm: {}. {}",
        (cells.len() * failed[0].len()) as f64,
        count(&failed[0]),
        count(&failed[1]),
        RATES.map(at_rate).join("; "),
        match better.is_empty() {
            true => "In no cell is post-norm clearly better.".to_owned(),
            false => format!(
                "Post-norm is better, with its whole interval, in these cells: {}.",
                better.join("; ")
            ),
        },
    );
    let checks = vec![
        Check::new(
            "share of runs that fail to learn, post-norm − pre-norm",
            // Both sides are counted, and their errors add up as squares do.
            paired(&failed[1], &failed[0]).in_steps(2_f64.sqrt() / cells.len() as f64),
            // More than one run in six: one cell that goes wrong is no pattern.
            Bound::Above(1.0 / 6.0),
        )
        .part("it fails to learn less often"),
        Check::new(
            "largest depth: loss, post-norm − pre-norm",
            paired(&losses[1], &losses[0]),
            Bound::Above(0.0),
        )
        .part("it trains deeper models"),
    ];
    let shallowest = (Norm::Pre, depths[0], RATES[0]);
    let of = |measure| table.values(shallowest, measure);
    Verdict::new("E5", checks, finding)
        .requires(models::learned("the shallowest pre-norm model, lower rate", &of(LOSS), &of(UNIGRAM_LOSS)))
        .because(|checks| {
            those_that_apply([
                (
                    checks[0].fails(),
                    "Post-norm fails to learn no more often than in one run of six beyond pre-norm.",
                ),
                (checks[1].fails(), "At the largest depth post-norm has the lower loss."),
            ])
        })
}

/// |ln| of the norm of the first layer's gradients over that of the last layer's, by seed: 0 where they are alike.
fn unevenness(table: &Table<Cell>, norm: Norm, depth: usize) -> Sample {
    flow(table, norm, depth).map(f64::abs)
}

/// ln of the norm of the first layer's gradients over that of the last layer's, by seed.
fn flow(table: &Table<Cell>, norm: Norm, depth: usize) -> Sample {
    let of = |layer| table.values((norm, depth, RATES[0]), gradient_norm(layer));
    of(0).over(&of(depth - 1)).map(f64::ln)
}

fn judge_flow(table: &Table<Cell>, depths: &[usize; 3]) -> Verdict {
    let told = depths.map(|depth| {
        let [pre, post] = Norm::ALL.map(|norm| flow(table, norm, depth).mean().mean.exp());
        format!("{pre:.2} and {post:.2} with {}", counted(depth, "layer"))
    });
    let finding = format!(
        "In the first step, the norm of the first layer's gradients over that of the last layer's, with pre-norm and with post-norm: {}.",
        told.join(", ")
    );
    let check = |(place, depth): (&str, usize)| {
        let what =
            format!("{place} depth: |ln(gradient of the first layer ÷ of the last)|, post-norm − pre-norm");
        let [pre, post] = Norm::ALL.map(|norm| unevenness(table, norm, depth));
        Check::new(what, paired(&post, &pre), Bound::Above(0.0))
    };
    let checks = [("largest", depths[2]), ("middle", depths[1])].map(check).into();
    Verdict::new("E14", checks, finding).because(|_| {
        let [pre, post] = Norm::ALL.map(|norm| flow(table, norm, depths[2]).mean().mean.exp());
        format!(
            "At the largest depth the first layer's gradients are {pre:.2} times the last layer's with pre-norm and {post:.2} times with \
             post-norm: post-norm's are the more even ones."
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;
    use crate::experiments::wrong;
    use regard_nn::data::text::TokenStream;

    const TESTED: [usize; 3] = [2, 6, 12];

    #[test]
    fn the_entropy_of_two_equal_words_is_a_bit() {
        let text = TokenStream::new(&[3, 9].repeat(8)).unwrap();
        assert!((models::entropy(&text).unwrap() - 2_f64.ln()).abs() < 1e-12);
    }

    /// Runs of which some fail, and how much larger the loss of deep post-norm models is than that of pre-norm ones.
    fn judged(fails: impl Fn(Norm, usize, u64) -> bool, gap: f64) -> Verdict {
        let mut table = Table::new();
        for norm in Norm::ALL {
            for depth in TESTED {
                for (bold, rate) in RATES.into_iter().enumerate() {
                    for seed in 0..4 {
                        let other = (seed as usize + norm as usize + bold) % 3;
                        let noise = 0.01 * seed as f64 + 0.003 * other as f64;
                        let failed = f64::from(u8::from(fails(norm, depth, seed)));
                        let loss = 3.0 + noise + gap * f64::from(norm as u8);
                        table.add((norm, depth, rate), seed, LOSS, loss);
                        table.add((norm, depth, rate), seed, FAILED, failed);
                        table.add((norm, depth, rate), seed, UNIGRAM_LOSS, 6.0);
                    }
                }
            }
        }
        judge(&table, &TESTED)
    }

    #[test]
    fn gradients_flow_better_where_the_first_layer_has_as_much_as_the_last() {
        let judged = |pre: f64, post: f64| {
            let mut table = Table::new();
            for (norm, first) in [(Norm::Pre, pre), (Norm::Post, post)] {
                for depth in TESTED {
                    for seed in 0..4 {
                        let noise = 1.0 + 0.01 * seed as f64 * (1.0 + f64::from(norm as u8));
                        table.add((norm, depth, RATES[0]), seed, gradient_norm(0), first * noise);
                        table.add((norm, depth, RATES[0]), seed, gradient_norm(depth - 1), 1.0);
                    }
                }
            }
            judge_flow(&table, &TESTED).outcome
        };
        assert_eq!(judged(1.2, 0.1), Outcome::Holds, "post-norm's vanish");
        assert_eq!(judged(1.2, 8.0), Outcome::Holds, "or explode");
        assert_eq!(judged(0.1, 1.2), Outcome::Fails);
    }

    #[test]
    fn failures_and_losses_can_be_wrong_alone() {
        // Deep models fail, and one of middle depth does with some seeds.
        let unstable = |depth: usize, seed: u64| depth == 12 || depth == 6 && seed.is_multiple_of(2);
        let post_fails = |norm, depth, seed| norm == Norm::Post && unstable(depth, seed);
        let pre_fails = |norm, depth, seed| norm == Norm::Pre && unstable(depth, seed);
        let holds = judged(post_fails, 0.5);
        assert_eq!((holds.outcome, wrong(&holds)), (Outcome::Holds, vec![]));
        let unstable_pre = judged(pre_fails, 0.5);
        assert_eq!((unstable_pre.outcome, wrong(&unstable_pre)), (Outcome::InPart, vec![0]));
        let better_post = judged(post_fails, -0.5);
        assert_eq!((better_post.outcome, wrong(&better_post)), (Outcome::InPart, vec![1]));
        assert!(
            better_post.finding.contains("in these cells: 2 layers at rate 0.002 (−0.5"),
            "{}",
            better_post.finding
        );
        let both = judged(pre_fails, -0.5);
        assert_eq!((both.outcome, wrong(&both)), (Outcome::Fails, vec![0, 1]));
        let alike = judged(|_, depth, seed| unstable(depth, seed), 0.5);
        assert_ne!(alike.outcome, Outcome::Holds, "both fail");
        assert_ne!(judged(|_, _, _| false, 0.5).outcome, Outcome::Holds, "none fails");
        let once = |norm, depth, _| norm == Norm::Post && depth == 12;
        let two_in_six = judged(once, 0.5);
        assert_eq!(two_in_six.outcome, Outcome::Holds, "two runs of six");
        assert_eq!(judged(post_fails, 0.0).outcome, Outcome::Undecided, "the losses are the same");
    }
}
