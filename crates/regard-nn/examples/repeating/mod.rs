//! A small GPT trained to repeat eight random letters.

use regard_nn::models::{GptConfig, Inputs, Model, Transformer};
use regard_nn::tensor::Ids;
use regard_nn::tensor::ops::CrossEntropy;
use regard_nn::tensor::optimiser::{Method, Optimiser};
use regard_nn::tensor::random::Key;
use regard_nn::{Context, Result, train};

pub const PERIOD: usize = 8;
/// The last letter is only a target.
pub const TIME: usize = 2 * PERIOD - 1;
pub const LETTERS: usize = 16;

/// Texts (batch, time) and the next letters. The first eight are unpredictable; only the others are targets.
pub fn texts(batch: usize, seed: u64) -> Result<(Ids, Ids)> {
    let key = Key::new(seed).site("texts");
    let letter =
        |row: usize, position: usize| key.below(row as u64, (position % PERIOD) as u64, LETTERS) as u32;
    let positions = |shift: usize| (0..batch * TIME).map(move |i| (i / TIME, i % TIME + shift));
    let inputs: Vec<u32> = positions(0).map(|(row, position)| letter(row, position)).collect();
    let known =
        |(row, position): (usize, usize)| if position < PERIOD { u32::MAX } else { letter(row, position) };
    let targets: Vec<u32> = positions(1).map(known).collect();
    Ok((Ids::new(&inputs, [batch, TIME])?, Ids::new(&targets, [batch, TIME])?))
}

/// The mean cross-entropy of the predictable letters.
pub fn loss(
    gpt: &dyn Model,
    context: &Context,
    (inputs, targets): &(Ids, Ids),
) -> Result<regard_nn::tensor::Tensor> {
    let settings = CrossEntropy { ignored: Some(u32::MAX), smoothing: 0.0 };
    Ok(gpt.forward(context, &Inputs::ids(inputs))?.cross_entropy(targets, settings)?)
}

/// Trains for a few seconds.
pub fn trained() -> Result<Transformer> {
    let sizes = GptConfig {
        vocabulary: LETTERS,
        context: 16,
        n_layers: 2,
        n_heads: 4,
        d_model: 48,
        ..GptConfig::default()
    };
    let mut gpt = Transformer::new(sizes.form(), 1)?;
    let mut optimiser = Optimiser::new(Method::adam(), 0.0);
    for step in 0..400 {
        let loss = loss(&gpt, &Context::differentiated(), &texts(32, step + 10)?)?;
        train::update(&mut gpt, &loss, &mut optimiser, 3e-3, Some(1.0))?;
    }
    Ok(gpt)
}
