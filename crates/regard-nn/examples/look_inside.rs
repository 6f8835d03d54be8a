//! Look inside a trained model: attention weights, the logit lens, and gradients.
//!
//! A small GPT is trained to repeat eight letters. The letter after position p is the one at p − 7, so a head that finds
//! it must attend to exactly that position. The example prints the weight that each head gives to that position, the
//! attention map of one such head, the accuracy of the logit lens after each layer, and how strongly the prediction
//! depends on each input letter.

#![allow(clippy::print_stdout)] // examples print their results

mod repeating;

use regard_nn::models::{Inputs, Model};
use regard_nn::tensor::ops::CrossEntropy;
use regard_nn::tensor::{Ids, Pass};
use regard_nn::{Context, Probe};
use repeating::{PERIOD, TIME, texts};

fn main() -> regard_nn::Result<()> {
    let gpt = repeating::trained()?;
    let (text, targets) = texts(1, 1)?;
    let letters: String = text.values().iter().map(|&id| (b'a' + id as u8) as char).collect();
    println!("the model reads {letters}");

    let inputs = Inputs::ids(&text);
    let probe =
        Probe::new().record("layers.*.self.weights").record("layers.*.residual.after").track("embeddings");
    let logits = gpt.forward(&Context::inference().with_probe(&probe), &inputs)?;

    println!("\nweight on the letter to repeat, by layer and head");
    let mut best = (0.0, 0, 0);
    for layer in 0..2 {
        let weights = probe.weights(&format!("layers.{layer}.self")).expect("recorded");
        print!("  layer {layer} ");
        for head in 0..4 {
            let map = weights.head(0, head)?;
            let there = (PERIOD..TIME).map(|p| map.values()[p * TIME + p + 1 - PERIOD]).sum::<f32>();
            let mean = there / (TIME - PERIOD) as f32;
            print!("{mean:7.2}");
            best = if mean > best.0 { (mean, layer, head) } else { best };
        }
        println!();
    }
    let (_, layer, head) = best;
    println!(
        "\nthe attention map of head {head} in layer {layer}: one row per query, darker for more weight\n   {letters}"
    );
    let map = probe.weights(&format!("layers.{layer}.self")).expect("recorded").head(0, head)?;
    for (letter, row) in letters.chars().zip(map.values().chunks(TIME)) {
        println!(
            " {letter} {}",
            row.iter().map(|weight| ["·", "░", "▒", "▓", "█"][(weight * 4.9) as usize]).collect::<String>()
        );
    }

    // The logit lens: the residual stream after each layer is unembedded as if it were the last.
    println!("\ncorrect predictions of the logit lens");
    for layer in 0..2 {
        let residual = probe.get(&format!("layers.{layer}.residual.after"))?.expect("recorded");
        let lens = Probe::new().patch("layers.1.residual.after", residual);
        let predicted = gpt.forward(&Context::inference().with_probe(&lens), &inputs)?.argmax(-1)?;
        let right = (PERIOD - 1..TIME).filter(|&p| predicted.values()[p] == targets.values()[p]).count();
        println!("  after layer {layer}: {right} of {PERIOD} letters");
    }

    // The gradient of the last prediction's loss with respect to each letter's embedding.
    let last = logits.slice(1, TIME - 1, 1)?;
    let answer = Ids::new(&targets.values()[TIME - 1..], [1, 1])?;
    let embeddings = probe.get("embeddings")?.expect("tracked");
    let loss = last.cross_entropy(&answer, CrossEntropy::default())?;
    let gradients =
        loss.gradients(&Pass::new().with_respect_to(&embeddings))?.get(&embeddings).expect("requested");
    println!(
        "\ngradient norm of the last prediction's loss for each letter (the one to repeat is at position {})",
        TIME - PERIOD
    );
    for (position, (letter, gradient)) in letters.chars().zip(gradients.values().chunks(48)).enumerate() {
        let norm = gradient.iter().map(|value| value * value).sum::<f32>().sqrt();
        println!("  {position:2} {letter} {norm:9.5}");
    }
    Ok(())
}
