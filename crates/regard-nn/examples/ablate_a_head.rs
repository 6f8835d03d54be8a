//! Does a head matter? Take it away and see.
//!
//! A small GPT is trained to repeat eight letters. Each head in turn is silenced (it says 0), averaged (it says its mean
//! everywhere) or left alone in its layer (all others are silent), and the loss is measured on texts the model has never
//! seen. What is printed: the loss for each, in nats, beside that of the whole model. Where silence hardly changes it, the
//! model can do without the head. That does not mean that the head does nothing: if it is enough alone, others do the same
//! work, as they do here in the first layer. A layer whose heads change nothing either way is not needed for this task.

#![allow(clippy::print_stdout)] // an example is there to print

mod repeating;

use regard_nn::{Context, Probe};
use repeating::{LETTERS, PERIOD, TIME, loss, texts};

fn main() -> regard_nn::Result<()> {
    let gpt = repeating::trained()?;
    let unseen = texts(64, 1)?;
    let measure = |probe: &Probe| -> regard_nn::Result<f32> {
        Ok(loss(&gpt, &Context::inference().with_probe(probe), &unseen)?.item()?)
    };
    println!("the whole model: {:.3}  (guessing: {:.3})\n", measure(&Probe::new())?, (LETTERS as f32).ln());
    println!("  layer  head   silent     mean    alone");
    for layer in 0..2 {
        let attention = format!("layers.{layer}.self");
        let silence = |heads: &[usize]| {
            heads.iter().fold(Probe::new(), |probe, &head| probe.zero_head(&attention, head))
        };
        for head in 0..4 {
            let others: Vec<usize> = (0..4).filter(|&other| other != head).collect();
            let (silent, alone) = (measure(&silence(&[head]))?, measure(&silence(&others))?);
            let mean = measure(&Probe::new().mean_head(&attention, head))?;
            println!("{layer:7}{head:6}{silent:9.3}{mean:9.3}{alone:9.3}");
        }
        println!("{layer:7}   all{:9.3}", measure(&silence(&[0, 1, 2, 3]))?);
    }
    // A finer cut: all heads stay, but none may look at the one letter that is to be repeated.
    println!("\nwith no head looking at the letter to repeat:");
    for layer in 0..2 {
        let attention = format!("layers.{layer}.self");
        let places = PERIOD - 1..TIME;
        let blind = places.fold(Probe::new(), |probe, p| probe.block(&attention, None, p, p + 1 - PERIOD));
        println!("  in layer {layer}: {:.3}", measure(&blind)?);
    }
    Ok(())
}
