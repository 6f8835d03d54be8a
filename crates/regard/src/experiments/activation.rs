//! GELU against ReLU, in the same model.

use super::models::language as models;
use crate::experiment::{
    Bound, Check, Experiment, Findings, Lab, Sizes, Sweep, Table, Verdict, charts, facts, named,
};
use crate::figure::{Axis, Chart, Picture, Series};
use crate::statistics::paired;
use anyhow::Result;
use regard_nn::layers::Activation;
use regard_nn::tensor::Tensor;

pub const EXPERIMENT: Experiment = Experiment {
    name: "activation",
    claims: &["E6"],
    question: "Does a language model with GELU in its feed-forward layers reach a lower loss than the same model with ReLU?",
    prediction: "The loss on test text is lower with GELU than with ReLU: the interval of the paired difference lies below 0.",
    design: "The base GPT, once with GELU and once with ReLU. Everything else is the same, including the seed: both models start \
        from the same weights and read the same windows in the same order. The difference of their losses on test text is taken \
        seed by seed.",
    changed: Some(models::GPT_CHANGED),
    real_data: Some("plain text such as WikiText-2's folder"),
    conditions: &["function"],
    seeds: Sizes::quick(4).standard(5),
    seconds: Sizes::quick(9.0).standard(110.0).full(3_600.0),
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
}

fn run(lab: &Lab) -> Result<Findings> {
    let Sweep { table, runs } = lab.sweep("runs", lab.each(Function::ALL), |function, seed, rows| {
        let mut config = models::base_on_text(lab, seed)?;
        models::gpt(&mut config)?.activation = function.activation();
        let trained = lab.train(&config)?;
        rows.add(function, "loss", models::test_loss(lab, &config, &trained.open()?)?);
        let curve = trained.losses();
        for &(step, loss) in &curve {
            rows.add(function, loss_at(step), loss);
        }
        Ok(curve.into_iter().map(|(step, _)| step).collect::<Vec<u64>>())
    })?;
    let mut findings = Findings::default();
    draw(&mut findings, &table, runs.first().map_or(&[], |run| &run.result))?;
    findings.verdicts = vec![judge(&table)];
    findings.facts(LOSS, Function::ALL, |function| table.mean(function, "loss").mean);
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
    Verdict::new("E6", vec![Check::new("loss with GELU − with ReLU", gain, Bound::Below(0.0))], finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;

    fn planted(gap: f64) -> Table<Function> {
        let mut table = Table::new();
        for seed in 0..4 {
            let shared = 3.0 + 0.1 * seed as f64;
            table.add(Function::Gelu, seed, "loss", shared + gap + 0.001 * seed as f64);
            table.add(Function::Relu, seed, "loss", shared);
        }
        table
    }

    #[test]
    fn the_verdict_follows_the_paired_difference() {
        assert_eq!(judge(&planted(-0.02)).outcome, Outcome::Holds);
        assert_eq!(judge(&planted(0.02)).outcome, Outcome::Fails);
        assert_eq!(judge(&planted(-0.0015)).outcome, Outcome::Undecided);
    }
}
