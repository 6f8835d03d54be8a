//! Does a head matter? Ablate it and measure the loss.
//!
//! A small GPT is trained to repeat eight letters. Each head in turn is zeroed, replaced by its mean, or kept alone in its
//! layer (all others are zeroed), and the loss is measured on unseen texts. The example prints these losses in nats,
//! together with that of the whole model. If zeroing a head hardly changes the loss, the model does not need it. That does
//! not mean that the head does nothing: if it is sufficient alone, other heads are redundant with it, as here in the
//! first layer. A layer whose heads have no effect either way is not needed for this task.

#![allow(clippy::print_stdout)] // examples print their results

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
    println!("  layer  head     zero     mean    alone");
    for layer in 0..2 {
        let attention = format!("layers.{layer}.self");
        let zero = |heads: &[usize]| {
            heads.iter().fold(Probe::new(), |probe, &head| probe.zero_head(&attention, head))
        };
        for head in 0..4 {
            let others: Vec<usize> = (0..4).filter(|&other| other != head).collect();
            let (zeroed, alone) = (measure(&zero(&[head]))?, measure(&zero(&others))?);
            let mean = measure(&Probe::new().mean_head(&attention, head))?;
            println!("{layer:7}{head:6}{zeroed:9.3}{mean:9.3}{alone:9.3}");
        }
        println!("{layer:7}   all{:9.3}", measure(&zero(&[0, 1, 2, 3]))?);
    }
    // Attention knockout: all heads stay, but none may attend to the letter to repeat.
    println!("\nwith the letter to repeat masked for all heads:");
    for layer in 0..2 {
        let attention = format!("layers.{layer}.self");
        let positions = PERIOD - 1..TIME;
        let masked =
            positions.fold(Probe::new(), |probe, p| probe.block(&attention, None, p, p + 1 - PERIOD));
        println!("  in layer {layer}: {:.3}", measure(&masked)?);
    }
    Ok(())
}
