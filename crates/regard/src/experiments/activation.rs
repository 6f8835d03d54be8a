//! GELU against ReLU, in the same model.

use super::language_models as models;
use crate::experiment::{Bound, Check, Experiment, Findings, Lab, Measurements, Verdict};
use crate::figure::{Axis, Chart, Picture, Series};
use crate::statistics::paired;
use anyhow::Result;
use regard_nn::layers::Activation;
use regard_nn::tensor::Tensor;
use serde::{Deserialize, Serialize};

pub const EXPERIMENT: Experiment = Experiment {
    name: "activation",
    claims: &["E6"],
    question: "Does a language model with GELU in its feed-forward layers learn better than the same model with ReLU?",
    prediction: "The loss on test text is lower with GELU than with ReLU: the interval of the paired difference lies below 0.",
    design: "The base GPT, once with GELU and once with ReLU, everything else and the seed the same: the two begin with the same \
        weights and read the same windows in the same order. The difference of their losses on test text, by seed.",
    changed: Some(models::GPT_CHANGED),
    real_data: Some("plain text such as WikiText-2's folder"),
    seconds: [9.0, 110.0, 3_600.0],
    run,
};

const FUNCTIONS: [(Activation, &str); 2] = [(Activation::GeluNew, "GELU"), (Activation::Relu, "ReLU")];

#[derive(Serialize, Deserialize)]
struct Run {
    loss: f64,
    curve: Vec<(u64, f64)>,
}

fn run(lab: &Lab) -> Result<Findings> {
    let seeds = lab.seeds(lab.by_size(2, 4, 5, 5));
    let inputs: Vec<(usize, u64)> =
        (0..FUNCTIONS.len()).flat_map(|function| seeds.iter().map(move |&seed| (function, seed))).collect();
    let runs = lab.parts("runs", &inputs, |&(function, seed)| {
        let mut config = models::base_on_text(lab, seed)?;
        models::gpt(&mut config)?.activation = FUNCTIONS[function].0;
        let trained = lab.train(&config)?;
        let loss = models::test_loss(lab, &config, &trained.open()?)?;
        let curve = trained.curve.iter().filter_map(|line| Some((line.step, line.loss?))).collect();
        Ok(Run { loss, curve })
    })?;
    let mut findings = Findings::new(&["function"]);
    for (&(function, seed), run) in inputs.iter().zip(&runs) {
        findings.measurements.add(&[&FUNCTIONS[function].1], seed, "loss", run.loss);
        for &(step, loss) in &run.curve {
            findings.measurements.add(&[&FUNCTIONS[function].1], seed, format!("loss at step {step}"), loss);
        }
    }
    let steps: Vec<u64> =
        runs.first().map_or_else(Vec::new, |run| run.curve.iter().map(|(step, _)| *step).collect());
    draw(&mut findings, &steps)?;
    findings.verdicts = vec![judge(&findings.measurements)];
    for (_, name) in FUNCTIONS {
        let loss = findings.measurements.mean(&[&name], "loss").mean;
        findings.fact(format!("loss: {name}"), loss);
    }
    Ok(findings)
}

fn draw(findings: &mut Findings, steps: &[u64]) -> Result<()> {
    let places: Vec<f32> = (-80..=80).map(|i| i as f32 / 20.0).collect();
    let x = Tensor::new(&places, [places.len()])?;
    let empty = Chart::new(Axis::linear("x"), Axis::linear("f(x)"));
    let mut shapes = empty;
    for (activation, name) in FUNCTIONS {
        let y = activation.apply(&x)?.to_vec();
        let points = places.iter().zip(y).map(|(&x, y)| (f64::from(x), f64::from(y)));
        shapes = shapes.series(Series::new(name).points(points));
    }
    // The gap is far smaller than the fall of the loss: it is drawn by itself.
    let gap = steps.iter().map(|step| {
        let of = |name: &str| findings.measurements.values(&[&name], &format!("loss at step {step}"));
        let gap = paired(&of(FUNCTIONS[0].1), &of(FUNCTIONS[1].1));
        (*step as f64, gap.mean, gap.low, gap.high)
    });
    let gap: Vec<_> =
        gap.filter(|(_, mean, low, high)| [mean, low, high].iter().all(|x| x.is_finite())).collect();
    let gaps = Chart::new(Axis::linear("step"), Axis::linear("loss with GELU − with ReLU, nats"))
        .series(Series::new("difference, paired by seed").intervals(gap))
        .level(0.0, "no difference");
    findings.figure(
        "gelu_and_relu",
        "The two functions, and the difference of the losses on held-out text while training, with 95 % intervals over \
         seeds; below 0 GELU is better.",
        Picture::new("A smooth bend or a sharp one")
            .columns(2)
            .titled_panel("the functions", shapes.size(360.0, 300.0))
            .titled_panel("what they are worth", gaps.size(440.0, 300.0)),
    );
    Ok(())
}

fn judge(table: &Measurements) -> Verdict {
    let of = |name: &str| table.values(&[&name], "loss");
    let (gelu, relu) = (of(FUNCTIONS[0].1), of(FUNCTIONS[1].1));
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

    fn planted(gap: f64) -> Measurements {
        let mut table = Measurements::new(&["function"]);
        for seed in 0..4 {
            let shared = 3.0 + 0.1 * seed as f64;
            table.add(&[&"GELU"], seed, "loss", shared + gap + 0.001 * seed as f64);
            table.add(&[&"ReLU"], seed, "loss", shared);
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
