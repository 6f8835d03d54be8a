//! Several heads attend to different tokens at once.
//!
//! Nothing is trained here: the projections of two heads are set by hand. A word's vector encodes its identity and its
//! position. The first head attends to the same word, the second to the previous position. The example prints each head's
//! attention map: one row per query, one column per key, darker for more weight.

#![allow(clippy::print_stdout)] // examples print their results

use regard_nn::attention::{AttentionConfig, MultiHead, Pattern, Rules};
use regard_nn::tensor::Tensor;
use regard_nn::{Context, Draw, Initial, Module, Probe};

const SENTENCE: [&str; 6] = ["the", "cat", "saw", "the", "other", "cat"];
/// The sentence as ids of four distinct words.
const WORDS: [usize; 6] = [0, 1, 2, 0, 3, 1];
/// Four dimensions for the word, six for the position.
const WIDTH: usize = 10;

fn main() -> regard_nn::Result<()> {
    let mut x = vec![0.0; 6 * WIDTH];
    for (position, word) in WORDS.into_iter().enumerate() {
        x[position * WIDTH + word] = 1.0;
        x[position * WIDTH + 4 + position] = 1.0;
    }
    let x = Tensor::new(&x, [1, 6, WIDTH])?;

    let form = AttentionConfig { d_head: 6, fused: false, ..AttentionConfig::new(WIDTH, 2) };
    let mut heads = MultiHead::new(&Initial::new(0), form, (Draw::Constant(0.0), Draw::Normal(0.1)))?;
    for (name, parameter) in heads.parameters_mut() {
        // A weight has one row per output (two heads of width six) and one column per input.
        let mut weight = vec![0.0; parameter.tensor().count()];
        let mut set = |head: usize, to: usize, from: usize| weight[(head * 6 + to) * WIDTH + from] = 3.0;
        match name.as_str() {
            "query.weight" => {
                (0..4).for_each(|word| set(0, word, word)); // "Which positions have my word?"
                (1..6).for_each(|position| set(1, position - 1, 4 + position)); // "Who is just before me?"
            }
            "key.weight" => {
                (0..4).for_each(|word| set(0, word, word)); // "I am this word."
                (0..6).for_each(|position| set(1, position, 4 + position)); // "I am at this position."
            }
            _ => continue,
        }
        parameter.tensor_mut().set_values(&weight)?;
    }

    // The probe records the weights; that does not change how they are computed.
    let probe = Probe::new().record("weights");
    let full = Rules::new(Pattern::Full, 6, 6)?;
    heads.forward(&Context::inference().with_probe(&probe), &x, None, &full)?;
    let weights = probe.weights("").expect("recorded above");
    for (head, title) in ["the same word", "the previous word"].into_iter().enumerate() {
        println!(
            "\nhead {head} attends to {title}\n{:7}{}",
            "",
            SENTENCE.map(|word| format!("{word:>7}")).concat()
        );
        for (word, row) in SENTENCE.iter().zip(weights.head(0, head)?.values().chunks(6)) {
            let shade = |weight: &f32| ["·", "░░", "▒▒", "▓▓", "██"][(weight * 4.9) as usize];
            let row: Vec<String> = row.iter().map(|weight| format!("{:>7}", shade(weight))).collect();
            println!("{word:7}{}", row.concat());
        }
    }
    println!("\n(The first word has no previous word, so its second head attends to all words equally.)");
    Ok(())
}
