//! Does the order of words matter to attention? Only through positions and masks.

use super::instruments::largest;
use crate::experiment::{
    Bound, Check, Data, Experiment, Findings, Lab, Sizes, Sweep, Table, Verdict, facts, named,
    those_that_apply,
};
use crate::figure::{Axis, IntervalRow, Intervals, Picture, number};
use anyhow::Result;
use regard_nn::Context;
use regard_nn::models::{GptConfig, Inputs, Model, Transformer};
use regard_nn::position::Position;
use regard_nn::tensor::Ids;
use regard_nn::tensor::random::Key;

pub const EXPERIMENT: Experiment = Experiment {
    name: "permutation",
    claims: &["E11"],
    question: "Does self-attention without positions know the order of its words?",
    prediction: "If the words of a text are put into another order, a transformer without positions and without a mask gives the same \
        outputs in that order, to rounding (a difference below 10⁻⁵ of the largest output). With a causal mask, and with each of five \
        position encodings, it does not (above 10⁻³).",
    design: "Transformers of two layers, four heads and width 32 with random weights; 16 different words and a random order of them. The \
        largest difference between the outputs for the reordered words and the reordered outputs, over the largest output. Each seed draws \
        weights, words and order.",
    changed: None,
    data: Data::Drawn,
    conditions: &["model"],
    seeds: Sizes::quick(20),
    seconds: Sizes::quick(1.0),
    trains: |_| Ok(Vec::new()),
    run,
};

named! {
    /// How a model could know the order.
    enum Order {
        None = "no positions, no mask",
        Causal = "no positions, causal mask",
        Sinusoidal = "sinusoidal",
        Learned = "learned",
        Rotary = "rotary",
        Alibi = "ALiBi",
        Bias = "T5 bias",
    }
}

impl Order {
    fn position(self) -> Position {
        match self {
            Order::None | Order::Causal => Position::None,
            Order::Sinusoidal => Position::Sinusoidal,
            Order::Learned => Position::Learned,
            Order::Rotary => Position::Rotary,
            Order::Alibi => Position::Alibi,
            Order::Bias => Position::Relative,
        }
    }
}

const WORDS: usize = 16;
const VOCABULARY: usize = 64;
const DIFFERENCE: &str = "difference ÷ largest output";

facts! {
    DIFFERENCE_OF(order: Order) = "difference: {order}";
}

fn run(lab: &Lab) -> Result<Findings> {
    let Sweep { table, .. } = lab.sweep("runs", lab.each(Order::ALL), |order, seed, rows| {
        rows.add(order, DIFFERENCE, difference(order, seed)?);
        Ok(())
    })?;
    let mut findings = Findings::default();
    // 0 has no place on a logarithmic axis: it is drawn where rounding begins.
    let panel = Order::ALL.into_iter().fold(
        Intervals::new(Axis::log(DIFFERENCE).range(1e-8, 10.0)),
        |panel, order| {
            let values = table.values(order, DIFFERENCE).values();
            let at = |value: f64| value.clamp(1e-8, 10.0);
            let (low, high) = crate::experiment::charts::range(&values);
            panel.line(IntervalRow::new(
                order.name(),
                at(table.mean(order, DIFFERENCE).mean),
                at(low),
                at(high),
            ))
        },
    );
    findings.figure(
        "reordered",
        "The largest difference between the outputs for reordered words and the reordered outputs, over the largest output: mean over draws, \
         from the smallest to the largest. Below 10⁻⁶ is rounding.",
        Picture::new("Does order matter?").panel(panel),
    );
    findings.verdicts = vec![judge(&table)];
    findings.facts(DIFFERENCE_OF, Order::ALL, |order| table.mean(order, DIFFERENCE).mean);
    findings.finish(lab, table)
}

/// How much the outputs of a random model change beyond their order when its words are reordered.
fn difference(order: Order, seed: u64) -> Result<f64> {
    let config = GptConfig {
        vocabulary: VOCABULARY,
        context: WORDS,
        n_layers: 2,
        n_heads: 4,
        d_model: 32,
        positions: order.position(),
        // As large as keeps the size of what passes through a layer.
        deviation: 32_f32.powf(-0.5),
        ..GptConfig::default()
    };
    let mut form = config.form();
    if order != Order::Causal {
        form.encoder = form.decoder.take();
    }
    let model = Transformer::new(form, seed)?;
    let key = Key::new(seed).site("permutation");
    let words: Vec<u32> =
        key.permutation(0, VOCABULARY).into_iter().take(WORDS).map(|word| word as u32).collect();
    let places = key.site("order").permutation(0, WORDS);
    let outputs = |words: &[u32]| -> Result<Vec<f32>> {
        let ids = Ids::new(words, [1, WORDS])?;
        Ok(model.forward(&Context::inference(), &Inputs::ids(&ids))?.to_vec())
    };
    let reordered: Vec<u32> = places.iter().map(|&place| words[place]).collect();
    let (plain, reordered) = (outputs(&words)?, outputs(&reordered)?);
    let width = plain.len() / WORDS;
    let apart = places.iter().enumerate().flat_map(|(now, &before)| {
        let [a, b] =
            [(&reordered, now), (&plain, before)].map(|(all, at)| &all[at * width..(at + 1) * width]);
        a.iter().zip(b).map(|(a, b)| f64::from((a - b).abs()))
    });
    Ok(largest(apart) / largest(plain.iter().map(|x| f64::from(x.abs()))))
}

fn judge(table: &Table<Order>) -> Verdict {
    let of = |order| table.mean(order, DIFFERENCE);
    // The largest of all draws, since one that differs is enough to refute it.
    let worst = largest(table.values(Order::None, DIFFERENCE).values());
    let told: Vec<String> =
        Order::ALL[1..].iter().map(|&order| format!("{order} {}", number(of(order).mean))).collect();
    let finding = format!(
        "Without positions and without a mask, outputs for reordered words differ from the reordered outputs by at most {} of the largest \
         output: attention sees a set. Mean difference, relative to the largest output: {}.",
        number(worst),
        told.join(", "),
    );
    let what = |order: Order| format!("{order}: difference after reordering");
    let mut checks = vec![
        Check::new(what(Order::None), crate::statistics::exact(worst), Bound::Below(1e-5))
            .part("without positions order does not matter"),
        Check::new(what(Order::Causal), of(Order::Causal), Bound::Above(1e-3))
            .part("a causal mask breaks that"),
    ];
    checks.extend(
        Order::ALL[2..].iter().map(|&order| {
            Check::new(what(order), of(order), Bound::Above(1e-3)).part("positions break that")
        }),
    );
    Verdict::new("E11", checks, finding).because(|checks| {
        those_that_apply([
            (checks[0].fails(), "Something in the model knows the order without being given it."),
            (checks[1..].iter().any(Check::fails), "A mask or an encoding leaves the outputs as they were."),
        ])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;

    fn judged(differences: [f64; 7]) -> Outcome {
        let mut table = Table::new();
        for (order, difference) in Order::ALL.into_iter().zip(differences) {
            for seed in 0..4 {
                table.add(order, seed, DIFFERENCE, difference * (1.0 + 0.01 * seed as f64));
            }
        }
        judge(&table).outcome
    }

    #[test]
    fn the_verdict_follows_the_differences() {
        assert_eq!(judged([1e-7, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]), Outcome::Holds);
        assert_eq!(judged([0.1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]), Outcome::InPart);
        assert_eq!(judged([0.1, 1e-7, 0.5, 1e-7, 0.5, 0.5, 0.5]), Outcome::Fails);
    }

    #[test]
    fn only_what_knows_no_order_is_equivariant() -> Result<()> {
        assert!(difference(Order::None, 3)? < 1e-5);
        for order in &Order::ALL[1..] {
            assert!(difference(*order, 3)? > 1e-3, "{order}");
        }
        Ok(())
    }
}
