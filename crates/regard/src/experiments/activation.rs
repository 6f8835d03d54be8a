//! GELU against ReLU, in the same model.

use super::models::language as models;
use crate::experiment::{
    Bound, Check, Data, Experiment, Findings, Lab, Sizes, Sweep, Table, Verdict, charts, facts, named,
    those_that_apply,
};
use crate::figure::{Axis, Chart, Picture, Series, fixed};
use crate::model::Opened;
use crate::run::RunConfig;
use crate::statistics::{mean, paired};
use anyhow::{Context as _, Result};
use regard_nn::Context;
use regard_nn::data::batches::{PackedWindows, WindowBatch};
use regard_nn::layers::Activation;
use regard_nn::models::{Inputs, Model};
use regard_nn::tensor::Tensor;
use regard_nn::tensor::ops::CrossEntropy;
use regard_nn::tensor::random::Key;

pub const EXPERIMENT: Experiment = Experiment {
    name: "activation",
    claims: &["E6", "E12"],
    question: "Does a language model with GELU in its feed-forward layers reach a lower loss than the same model with ReLU, and are its \
        gradients smoother?",
    prediction: "The loss on test text is lower with GELU than with ReLU: the interval of the paired difference lies below 0. Along straight \
        lines in the space of weights, the gradient of the model with GELU varies less: ln of its variation over that of the model with ReLU \
        is below 0. The mean of a random gate that lets x pass if a standard normal number is below x is GELU, x·Φ(x), within 0.02.",
    design: "The base GPT, once with GELU and once with ReLU. Everything else is the same, including the seed: both models start \
        from the same weights and read the same windows in the same order. The difference of their losses on test text is taken \
        seed by seed. For the gradients, each trained model is moved along four random directions, in eight steps, by a twentieth of each \
        parameter's norm in all; the variation is the sum of the norms of the changes of the gradient on one batch of test text over the \
        mean norm of the gradient. The gate is sampled 20,000 times at each of 33 points from −4 to 4. E6 and the gradients are testable if \
        both models have a lower loss than the unigram distribution.",
    changed: None,
    data: Data::Text("plain text such as WikiText-2's folder"),
    conditions: &["function"],
    seeds: Sizes::quick(4).standard(5),
    seconds: Sizes::quick(9.0).standard(110.0).full(3_600.0),
    trains: |lab| Function::ALL.map(|function| config(lab, function, lab.first_seed())).into_iter().collect(),
    run,
};

named! {
    /// The activation functions compared.
    pub enum Function { Gelu = "GELU", Relu = "ReLU" }
}

impl Function {
    fn activation(self) -> Activation {
        match self {
            Function::Gelu => Activation::GeluNew,
            Function::Relu => Activation::Relu,
        }
    }
}

facts! {
    LOSS(function: Function) = "loss: {function}";
    VARIATION_OF(function: Function) = "variation of the gradient: {function}";
}

const UNIGRAM: &str = "loss of the unigram distribution";
const VARIATION: &str = "variation of the gradient ÷ its norm";
const GATE: &str = "largest difference of the gate's mean from GELU";

/// Lines in weight space: how many, of how many steps, and how long for each parameter of norm 1.
const LINES: u64 = 4;
const STEPS: usize = 8;
const REACH: f32 = 0.05;
/// How often the gate is sampled at each point.
const SAMPLES: usize = 20_000;

fn config(lab: &Lab, function: Function, seed: u64) -> Result<RunConfig> {
    let mut config = models::base_on_text(lab, seed)?;
    models::gpt(&mut config)?.activation = function.activation();
    Ok(config)
}

/// The first windows of the test text.
fn batch(lab: &Lab, config: &RunConfig, opened: &Opened) -> Result<WindowBatch> {
    let text = models::test_text(lab, config, opened.tokenizer()?)?;
    let windows = PackedWindows::new(text, config.data.length, config.train.batch_size)?;
    Ok(windows.iter().next().context("there is no test text")??)
}

/// The gradient of the loss on a batch, all parameters one after the other.
fn gradient(model: &dyn Model, batch: &WindowBatch) -> Result<Vec<f32>> {
    let inputs = Inputs::ids(&batch.ids);
    let loss = model.loss_of(&Context::differentiated(), &inputs, &batch.targets, CrossEntropy::default())?;
    let gradients = loss.backward()?;
    let all = model.parameters();
    Ok(all.iter().filter_map(|(_, one)| gradients.get(one.tensor())).flat_map(|one| one.to_vec()).collect())
}

/// How much the gradient varies along random lines from a model's weights, in units of its mean norm. The weights are changed.
fn variation(model: &mut dyn Model, batch: &WindowBatch, key: Key) -> Result<f64> {
    let norm = |values: &[f32]| values.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    let start: Vec<Vec<f32>> = model.parameters().iter().map(|(_, one)| one.tensor().to_vec()).collect();
    let mut lines = Vec::new();
    for line in 0..LINES {
        let direction = |(number, values): (usize, &Vec<f32>)| {
            let drawn = key.step(line).site(&number.to_string()).normal(values.len(), 1.0);
            let length = (REACH * norm(values) as f32) / (norm(&drawn) as f32).max(f32::MIN_POSITIVE);
            drawn.into_iter().map(|x| length * x).collect::<Vec<f32>>()
        };
        let directions: Vec<Vec<f32>> = start.iter().enumerate().map(direction).collect();
        let mut gradients: Vec<Vec<f32>> = Vec::new();
        for step in 0..=STEPS {
            let along = step as f32 / STEPS as f32;
            for ((_, parameter), (from, by)) in
                model.parameters_mut().into_iter().zip(start.iter().zip(&directions))
            {
                let moved: Vec<f32> = from.iter().zip(by).map(|(from, by)| from + along * by).collect();
                let shape = parameter.tensor().shape().clone();
                *parameter.tensor_mut() = Tensor::new(&moved, shape)?.tracked();
            }
            gradients.push(gradient(model, batch)?);
        }
        let changes = gradients.windows(2).map(|pair| {
            let change: Vec<f32> = pair[0].iter().zip(&pair[1]).map(|(a, b)| b - a).collect();
            norm(&change)
        });
        let size = gradients.iter().map(|one| norm(one)).sum::<f64>() / gradients.len() as f64;
        lines.push(changes.sum::<f64>() / size);
    }
    Ok(mean(&lines).mean)
}

/// The largest difference of the mean of a random gate, which lets x pass if a normal number is below it, from GELU.
fn gate_error(key: Key) -> Result<f64> {
    let xs: Vec<f32> = (-16..=16).map(|i| i as f32 / 4.0).collect();
    let gelu = Activation::Gelu.apply(&Tensor::new(&xs, [xs.len()])?)?.to_vec();
    let errors = xs.iter().zip(gelu).enumerate().map(|(place, (&x, gelu))| {
        let open = key.step(place as u64).normal(SAMPLES, 1.0).into_iter().filter(|&z| z < x).count();
        (f64::from(x) * open as f64 / SAMPLES as f64 - f64::from(gelu)).abs()
    });
    Ok(super::instruments::largest(errors))
}

fn run(lab: &Lab) -> Result<Findings> {
    let Sweep { table, runs } = lab.sweep("runs", lab.each(Function::ALL), |function, seed, rows| {
        let config = config(lab, function, seed)?;
        let trained = lab.train(&config)?;
        let mut opened = trained.open()?;
        rows.add(function, "loss", models::test_loss(lab, &config, &opened)?);
        rows.add(function, UNIGRAM, models::unigram_loss(lab, &config, opened.tokenizer()?)?);
        let batch = batch(lab, &config, &opened)?;
        rows.add(
            function,
            VARIATION,
            variation(&mut *opened.model, &batch, Key::new(seed).site("directions"))?,
        );
        if function == Function::Gelu {
            rows.add(function, GATE, gate_error(Key::new(seed).site("gate"))?);
        }
        let curve = trained.losses();
        for &(step, loss) in &curve {
            rows.add(function, loss_at(step), loss);
        }
        Ok(curve.into_iter().map(|(step, _)| step).collect::<Vec<u64>>())
    })?;
    let mut findings = Findings::default();
    draw(&mut findings, &table, runs.first().map_or(&[], |run| &run.result))?;
    findings.verdicts = vec![judge(&table), judge_smoothness(&table)];
    findings.facts(LOSS, Function::ALL, |function| table.mean(function, "loss").mean);
    findings.facts(VARIATION_OF, Function::ALL, |function| table.mean(function, VARIATION).mean);
    findings.finish(lab, table)
}

fn loss_at(step: u64) -> String {
    format!("loss at step {step}")
}

fn draw(findings: &mut Findings, table: &Table<Function>, steps: &[u64]) -> Result<()> {
    let xs: Vec<f32> = (-80..=80).map(|i| i as f32 / 20.0).collect();
    let x = Tensor::new(&xs, [xs.len()])?;
    let mut shapes = Chart::new(Axis::linear("x"), Axis::linear("f(x)"));
    for function in Function::ALL {
        let y = function.activation().apply(&x)?.to_vec();
        let points = xs.iter().zip(y).map(|(&x, y)| (f64::from(x), f64::from(y)));
        shapes = shapes.series(Series::new(function.name()).points(points));
    }
    // The gap is far smaller than the fall of the loss, so that it has a chart of its own.
    let gap = steps.iter().map(|&step| {
        let of = |function| table.values(function, loss_at(step));
        charts::point(step as f64, paired(&of(Function::Gelu), &of(Function::Relu)))
    });
    let gap: Vec<_> =
        gap.filter(|(_, mean, low, high)| [mean, low, high].iter().all(|x| x.is_finite())).collect();
    let gaps = Chart::new(Axis::linear("step"), Axis::linear("loss with GELU − with ReLU, nats"))
        .series(Series::new("difference, paired by seed").intervals(gap))
        .level(0.0, "no difference");
    findings.figure(
        "gelu_and_relu",
        "The two functions, and the difference of the losses on held-out text during training, with 95 % intervals over \
         seeds. Below 0 GELU is better.",
        Picture::new("A smooth or a sharp activation")
            .columns(2)
            .titled_panel("the functions", shapes.size(360.0, 300.0))
            .titled_panel("the difference in loss", gaps.size(440.0, 300.0)),
    );
    Ok(())
}

fn judge(table: &Table<Function>) -> Verdict {
    let [gelu, relu] = Function::ALL.map(|function| table.values(function, "loss"));
    let gain = paired(&gelu, &relu);
    let finding = format!(
        "The loss is {:.3} with GELU and {:.3} with ReLU: a difference of {:+.3} [{:+.3}, {:+.3}] over {} seeds, {:.1} % of the loss.",
        gelu.mean().mean,
        relu.mean().mean,
        gain.mean,
        gain.low,
        gain.high,
        gain.count,
        100.0 * (gain.mean / relu.mean().mean).abs(),
    );
    let verdict =
        Verdict::new("E6", vec![Check::new("loss with GELU − with ReLU", gain, Bound::Below(0.0))], finding);
    Function::ALL.map(|function| learned(table, function)).into_iter().fold(verdict, Verdict::requires)
}

fn learned(table: &Table<Function>, function: Function) -> Check {
    models::learned(function, &table.values(function, "loss"), &table.values(function, UNIGRAM))
}

/// The parts of E12.
const SMOOTHER: &str = "smoother gradients";
const GATED: &str = "the mean of a random gate";

fn judge_smoothness(table: &Table<Function>) -> Verdict {
    let [gelu, relu] = Function::ALL.map(|function| table.values(function, VARIATION));
    let gate = table.mean(Function::Gelu, GATE);
    let finding = format!(
        "Along lines of a twentieth of the weights' norm, the gradient varies by {:.2} times its norm with GELU and by {:.2} times with \
         ReLU. The mean of {} draws of a random gate differs from GELU by at most {:.4}.",
        gelu.mean().mean,
        relu.mean().mean,
        fixed(SAMPLES as f64, 0),
        gate.mean,
    );
    let checks = vec![
        Check::new(
            "ln of the variation of the gradient, GELU ÷ ReLU",
            gelu.over(&relu).map(f64::ln).mean(),
            Bound::Below(0.0),
        )
        .part(SMOOTHER),
        Check::new(GATE, gate, Bound::Below(0.02)).part(GATED),
    ];
    let verdict = Verdict::new("E12", checks, finding);
    let preconditions = Function::ALL.map(|function| learned(table, function).part(SMOOTHER));
    preconditions.into_iter().fold(verdict, Verdict::requires).because(|checks| {
        those_that_apply([
            (
                checks[0].fails(),
                "In these models the gradient of the loss varies more with GELU: smoother units do not make a smoother loss by themselves.",
            ),
            (checks[1].fails(), "The mean of the draws is not GELU: the gate or the number of draws is not what the identity needs."),
        ])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;
    use regard_nn::data::text::TokenStream;
    use regard_nn::models::{GptConfig, Transformer};

    fn planted(gap: f64) -> Table<Function> {
        let mut table = Table::new();
        for seed in 0..4 {
            let shared = 3.0 + 0.1 * seed as f64;
            table.add(Function::Gelu, seed, "loss", shared + gap + 0.001 * seed as f64);
            table.add(Function::Relu, seed, "loss", shared);
            for function in Function::ALL {
                table.add(function, seed, UNIGRAM, 6.0);
            }
        }
        table
    }

    #[test]
    fn smoothness_follows_the_variation_and_the_gate() {
        let judged = |gelu: f64, error: f64| {
            let mut table = planted(-0.02);
            for seed in 0..4 {
                let noise = 0.01 * seed as f64;
                table.add(Function::Gelu, seed, VARIATION, gelu + noise);
                table.add(Function::Relu, seed, VARIATION, 1.0 + noise);
                table.add(Function::Gelu, seed, GATE, error + 0.01 * noise);
            }
            judge_smoothness(&table).outcome
        };
        assert_eq!(judged(0.5, 0.005), Outcome::Holds);
        assert_eq!(judged(1.5, 0.005), Outcome::InPart);
        assert_eq!(judged(1.5, 0.3), Outcome::Fails);
    }

    #[test]
    fn the_gate_is_gelu_on_average() {
        assert!(gate_error(Key::new(1)).unwrap() < 0.02);
    }

    #[test]
    fn the_gradient_of_a_model_varies_along_lines() -> Result<()> {
        let form = GptConfig {
            vocabulary: 11,
            context: 8,
            n_layers: 1,
            n_heads: 2,
            d_model: 8,
            ..GptConfig::default()
        };
        let mut model: Box<dyn Model> = Box::new(Transformer::new(form.form(), 1)?);
        let text = TokenStream::new(&(0..40).map(|i| i * 7 % 11).collect::<Vec<u32>>())?;
        let batch = PackedWindows::new(text, 8, 4)?.iter().next().unwrap()?;
        let found = variation(&mut *model, &batch, Key::new(2))?;
        assert!(found > 0.0 && found < 10.0, "{found}");
        Ok(())
    }

    #[test]
    fn the_verdict_follows_the_paired_difference() {
        assert_eq!(judge(&planted(-0.02)).outcome, Outcome::Holds);
        assert_eq!(judge(&planted(0.02)).outcome, Outcome::Fails);
        assert_eq!(judge(&planted(-0.0015)).outcome, Outcome::Undecided);
    }
}
