//! Several heads look for different things at once.
//!
//! Nothing is trained here: the projections of two heads are written by hand. A word's vector says which word it is and
//! where it stands. The first head asks for the same word, the second for the place before. What is printed is each head's
//! map: a row for each word that looks, a column for each that is looked at, darker where more weight lies.

#![allow(clippy::print_stdout)] // an example is there to print

use regard_nn::attention::{AttentionConfig, MultiHead, Pattern, Rules};
use regard_nn::tensor::Tensor;
use regard_nn::{Context, Draw, Initial, Module, Probe};

const SENTENCE: [&str; 6] = ["the", "cat", "saw", "the", "other", "cat"];
/// The sentence in numbers: there are four different words.
const WORDS: [usize; 6] = [0, 1, 2, 0, 3, 1];
/// Four features for the word, six for the place.
const WIDTH: usize = 10;

fn main() -> regard_nn::Result<()> {
    let mut x = vec![0.0; 6 * WIDTH];
    for (place, word) in WORDS.into_iter().enumerate() {
        x[place * WIDTH + word] = 1.0;
        x[place * WIDTH + 4 + place] = 1.0;
    }
    let x = Tensor::new(&x, [1, 6, WIDTH])?;

    let form = AttentionConfig { d_head: 6, fused: false, ..AttentionConfig::new(WIDTH, 2) };
    let mut heads = MultiHead::new(&Initial::new(0), form, (Draw::Constant(0.0), Draw::Normal(0.1)))?;
    for (name, parameter) in heads.parameters_mut() {
        // A weight has a row for each feature of a head (two heads of six) and a column for each feature of a word.
        let mut weight = vec![0.0; parameter.tensor().count()];
        let mut set = |head: usize, to: usize, from: usize| weight[(head * 6 + to) * WIDTH + from] = 3.0;
        match name.as_str() {
            "query.weight" => {
                (0..4).for_each(|word| set(0, word, word)); // "which word am I?"
                (1..6).for_each(|place| set(1, place - 1, 4 + place)); // "who stands one place before me?"
            }
            "key.weight" => {
                (0..4).for_each(|word| set(0, word, word)); // "I am this word"
                (0..6).for_each(|place| set(1, place, 4 + place)); // "I stand here"
            }
            _ => continue,
        }
        parameter.tensor_mut().set_values(&weight)?;
    }

    // A probe keeps what it is asked for; looking at weights does not change how they are computed.
    let probe = Probe::new().record("weights");
    let everyone = Rules::new(Pattern::Full, 6, 6)?;
    heads.forward(&Context::inference().with_probe(&probe), &x, None, &everyone)?;
    let weights = probe.weights("").expect("recorded above");
    for (head, title) in ["the same word", "the word before"].into_iter().enumerate() {
        println!(
            "\nhead {head} looks for {title}\n{:7}{}",
            "",
            SENTENCE.map(|word| format!("{word:>7}")).concat()
        );
        for (word, row) in SENTENCE.iter().zip(weights.head(0, head)?.values().chunks(6)) {
            let shade = |weight: &f32| ["·", "░░", "▒▒", "▓▓", "██"][(weight * 4.9) as usize];
            let row: Vec<String> = row.iter().map(|weight| format!("{:>7}", shade(weight))).collect();
            println!("{word:7}{}", row.concat());
        }
    }
    println!("\n(The first word has nobody before it, so its second head looks at everyone alike.)");
    Ok(())
}
