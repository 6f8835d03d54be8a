//! A GPT learns a short rhyme, letter by letter, in a few seconds.
//!
//! The example prints the loss (the mean cross-entropy of the next letter, in nats) as it decreases from ln 22 ≈ 3.1, the
//! loss of a uniform guess among 22 letters. It does not reach 0, because the first letters of a window are unpredictable.
//! It also prints the model's continuation of "the " before, during and after training.

#![allow(clippy::print_stdout)] // examples print their results

use regard_nn::generate::{Continue, GenerationSettings, generate};
use regard_nn::models::{GptConfig, Inputs, Model, Transformer};
use regard_nn::tensor::Ids;
use regard_nn::tensor::ops::CrossEntropy;
use regard_nn::tensor::optimiser::{Method, Optimiser};
use regard_nn::tensor::random::Key;
use regard_nn::{Context, Module, train};

const RHYME: &str = "the moon is out, the mouse is in, the night is wide, the cat is thin; \
                     the mouse is still, the moon is bright, the cat sits out for half the night. ";
const TIME: usize = 48;
const BATCH: usize = 8;

fn main() -> regard_nn::Result<()> {
    let mut letters: Vec<char> = RHYME.chars().collect();
    letters.sort_unstable();
    letters.dedup();
    let number = |letter: char| letters.iter().position(|&known| known == letter).unwrap_or(0) as u32;
    let text: Vec<u32> = RHYME.chars().map(number).collect();

    let sizes = GptConfig {
        vocabulary: letters.len(),
        context: 64,
        n_layers: 2,
        n_heads: 4,
        d_model: 64,
        ..GptConfig::default()
    };
    let mut gpt = Transformer::new(sizes.form(), 1)?;
    println!("{} letters, {} parameters", letters.len(), gpt.parameter_count());
    let mut optimiser = Optimiser::new(Method::adamw(), 0.1);
    for step in 0..=300_u64 {
        // Random windows of the rhyme; the target of each letter is the next one.
        let starts = (0..BATCH as u64).map(|i| Key::new(1).step(step).below(i, 0, text.len() - TIME - 1));
        let starts: Vec<usize> = starts.collect();
        let cut = |shift: usize| {
            starts.iter().flat_map(|&at| text[at + shift..][..TIME].to_vec()).collect::<Vec<_>>()
        };
        let (inputs, targets) = (Ids::new(&cut(0), [BATCH, TIME])?, Ids::new(&cut(1), [BATCH, TIME])?);

        let context = Context::training(Key::new(2).step(step), 0);
        let loss = gpt.loss_of(&context, &Inputs::ids(&inputs), &targets, CrossEntropy::default())?;
        if step % 100 == 0 {
            let prompt: Vec<u32> = "the ".chars().map(number).collect();
            let settings = GenerationSettings { max_tokens: 44, ..GenerationSettings::default() };
            let model = Continue::new(&gpt)?;
            let texts = generate(&model, &Context::inference(), &[prompt], &settings, &mut |_, _| true)?;
            let text: String = texts[0].tokens.iter().map(|&token| letters[token as usize]).collect();
            println!("step {step:3}   loss {:.3}   the {text}", loss.item()?);
        }
        train::update(&mut gpt, &loss, &mut optimiser, 3e-3, Some(1.0))?;
    }
    Ok(())
}
