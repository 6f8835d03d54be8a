//! Look inside a trained model: where its heads look, when it knows the answer, and what the answer hangs on.
//!
//! A small GPT is trained to repeat eight letters. The letter after place p is the one at p − 7, so a head that finds it
//! must look exactly there. What is printed: how much weight each head gives to that place, one such head's map, what the
//! model would say if it stopped after each layer, and how strongly the answer depends on each letter that was read.

#![allow(clippy::print_stdout)] // an example is there to print

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
        "\nthe map of head {head} in layer {layer}: each row is a letter, darker where it looks\n   {letters}"
    );
    let map = probe.weights(&format!("layers.{layer}.self")).expect("recorded").head(0, head)?;
    for (letter, row) in letters.chars().zip(map.values().chunks(TIME)) {
        println!(
            " {letter} {}",
            row.iter().map(|weight| ["·", "░", "▒", "▓", "█"][(weight * 4.9) as usize]).collect::<String>()
        );
    }

    // The stream after a layer, put in the place of the last layer's, is read by the same output.
    println!("\nif the model stopped there, it would get right");
    for layer in 0..2 {
        let stream = probe.get(&format!("layers.{layer}.residual.after"))?.expect("recorded");
        let lens = Probe::new().patch("layers.1.residual.after", stream);
        let said = gpt.forward(&Context::inference().with_probe(&lens), &inputs)?.argmax(-1)?;
        let right = (PERIOD - 1..TIME).filter(|&p| said.values()[p] == targets.values()[p]).count();
        println!("  after layer {layer}: {right} of {PERIOD} letters");
    }

    // The slope of the last answer's surprise with respect to each letter's vector.
    let last = logits.slice(1, TIME - 1, 1)?;
    let answer = Ids::new(&targets.values()[TIME - 1..], [1, 1])?;
    let embeddings = probe.get("embeddings")?.expect("tracked");
    let surprise = last.cross_entropy(&answer, CrossEntropy::default())?;
    let slopes =
        surprise.gradients(&Pass::new().with_respect_to(&embeddings))?.get(&embeddings).expect("asked for");
    println!(
        "\nhow strongly the last answer depends on each letter (the one to repeat is at place {})",
        TIME - PERIOD
    );
    for (place, (letter, slope)) in letters.chars().zip(slopes.values().chunks(48)).enumerate() {
        let length = slope.iter().map(|value| value * value).sum::<f32>().sqrt();
        println!("  {place:2} {letter} {length:9.5}");
    }
    Ok(())
}
