//! The worked examples of the lesson: three words, two numbers each, small enough to check by hand. The library computes every
//! number that the page shows of them, and the page shows these functions: they are written to be read.
//!
//! The words and matrices are those of `examples/one_head_by_hand.rs`; a test compares them.

use anyhow::{Context as _, Result};
use regard_nn::analysis::influence;
use regard_nn::attention::{Scale, scaled_dot_product};
use regard_nn::position::{Rotary, RotaryScaling, alibi_slopes, sinusoidal};
use regard_nn::tensor::ops::{CrossEntropy, Pairing, concatenate};
use regard_nn::tensor::optimiser::{Method, Optimiser, Update};
use regard_nn::tensor::{Ids, Mask, Tensor};
use regard_nn::tokens::{Special, Tokenizer, WordSettings};

/// The file itself, to quote from.
pub const SOURCE: (&str, &str) = ("crates/regard/src/report/worked.rs", include_str!("worked.rs"));

pub const WORDS: [&str; 3] = ["time", "flies", "fast"];
/// The words' vectors, one row each.
pub const X: [f32; 6] = [1.0, 0.0, 0.0, 1.0, 1.0, 1.0];
/// Doubles both numbers.
pub const W_QUERY: [f32; 4] = [2.0, 0.0, 0.0, 2.0];
/// Swaps the two numbers.
pub const W_KEY: [f32; 4] = [0.0, 1.0, 1.0, 0.0];
/// Changes the sign of the second number.
pub const W_VALUE: [f32; 4] = [1.0, 0.0, 0.0, -1.0];

/// The table of embeddings: `<PAD>` and `<UNK>` have zeros, then come the three words.
pub fn table() -> Result<Tensor> {
    Ok(concatenate(&[&Tensor::zeros([2, 2]), &Tensor::new(&X, [3, 2])?], 0)?)
}

/// The vectors of the three words: an id picks its row of the table.
pub fn vectors() -> Result<Tensor> {
    let (_, texts) = tokens()?;
    let ids = Ids::new(&texts[0], [3])?; // 2, 3, 4: time flies fast
    Ok(table()?.embedding(&ids)?) // x, (3, 2)
}

fn matrix(values: &[f32; 4]) -> Result<Tensor> {
    Ok(Tensor::new(values, [2, 2])?)
}

/// A query may attend to keys up to its own position.
pub fn causal() -> Mask {
    Mask::from_fn([3, 3], |at| at[1] <= at[0])
}

/// A vocabulary of three words, and two texts as ids in it.
pub fn tokens() -> Result<(Vec<String>, Vec<Vec<u32>>)> {
    let tokenizer = Tokenizer::words(["time time time flies flies fast"], &WordSettings::default())?;
    let vocabulary = (0..tokenizer.vocabulary_size() as u32).filter_map(|id| tokenizer.piece(id)).collect();
    let ids = |text: &str| anyhow::Ok(tokenizer.encode(text, Special::Drop)?.ids);
    Ok((vocabulary, vec![ids("Time flies fast.")?, ids("Time flies slowly.")?]))
}

/// Every intermediate value of one head.
pub struct Head {
    pub query: Tensor,
    pub key: Tensor,
    pub value: Tensor,
    pub scores: Tensor,
    pub scaled: Tensor,
    pub weights: Tensor,
    pub output: Tensor,
}

/// One head over the vectors `x` (3, 2).
pub fn one_head(x: &Tensor, mask: Option<&Mask>) -> Result<Head> {
    let query = x.matmul(&matrix(&W_QUERY)?)?; // Q = x·W_Q (3, 2)
    let key = x.matmul(&matrix(&W_KEY)?)?; // K = x·W_K (3, 2)
    let value = x.matmul(&matrix(&W_VALUE)?)?; // V = x·W_V (3, 2)
    let scores = query.matmul_transposed(&key, false, true)?; // Q·Kᵀ (3, 3)
    let scaled = scores.scale(1.0 / 2_f32.sqrt())?; // over √d_k
    let (output, weights) = scaled_dot_product(&query, &key, &value, mask, Scale::InverseRoot)?;
    Ok(Head { query, key, value, scores, scaled, weights, output })
}

/// The same head split into `n_heads`: each takes its own columns of Q, K and V. Returns each head's weights, and the outputs side
/// by side, which W_O would mix.
pub fn many_heads(x: &Tensor, n_heads: usize) -> Result<(Vec<Tensor>, Tensor)> {
    let Head { query, key, value, .. } = one_head(x, None)?;
    let width = 2 / n_heads; // d_k = d / h
    let (mut maps, mut outputs) = (Vec::new(), Vec::new());
    for head in 0..n_heads {
        let own = |x: &Tensor| x.slice(1, head * width, width);
        let (query, key, value) = (own(&query)?, own(&key)?, own(&value)?);
        let (output, weights) = scaled_dot_product(&query, &key, &value, None, Scale::InverseRoot)?;
        maps.push(weights);
        outputs.push(output);
    }
    Ok((maps, concatenate(&outputs.iter().collect::<Vec<_>>(), 1)?)) // (3, 2)
}

/// A soft lookup of seed 004's question, "What comes after *cat*?": each key is the word before its value. The query is that of
/// *cat*, `sharpness` long. Returns the weights of the entries.
pub fn lookup(sharpness: f32) -> Result<Vec<f32>> {
    // Three words that come before another; each key points its own way.
    let key = Tensor::new(&[1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0], [3, 3])?; // The, cat, sat
    let value = Tensor::new(&[1.0, 2.0, 3.0], [3, 1])?; // cat, sat, on
    let query = Tensor::new(&[0.0, sharpness, 0.0], [1, 3])?; // the key of cat, made longer
    let (_, weights) = scaled_dot_product(&query, &key, &value, None, Scale::None)?;
    Ok(weights.to_vec())
}

/// A vector of two numbers at positions 0, 1, 2, …, turned by one radian a position.
pub fn rotated(vector: [f32; 2], positions: u32) -> Result<Vec<[f32; 2]>> {
    let rotary = Rotary::new(2, 10_000.0, RotaryScaling::None, Pairing::Halves);
    let places: Vec<u32> = (0..positions).collect();
    let rotation = rotary.rotation(&Ids::new(&places, [1, places.len()])?, 1)?;
    let x = Tensor::new(&vector.repeat(places.len()), [1, places.len(), 1, 2])?;
    Ok(rotation.apply(&x)?.to_vec().chunks(2).map(|pair| [pair[0], pair[1]]).collect())
}

/// The sinusoidal encoding of positions 0, 1, 2 at a width of two.
pub fn waves() -> Result<Tensor> {
    Ok(sinusoidal(&Ids::new(&[0, 1, 2], [3])?, 2)?)
}

/// The causal weights when ALiBi takes `slope` off a score for each step of distance. Returns the scores, too.
pub fn alibi() -> Result<(f32, Tensor, Tensor)> {
    let slope = alibi_slopes(8)[0]; // the first of eight heads
    let bias: Vec<f32> = (0..9).map(|at: i32| -slope * (at / 3 - at % 3) as f32).collect();
    let scores = one_head(&vectors()?, None)?.scaled.add(&Tensor::new(&bias, [3, 3])?)?;
    let weights = scores.softmax_masked(&causal())?;
    Ok((slope, scores, weights))
}

/// A layer norm with g = 1 and b = 0.
pub fn norm(x: &Tensor) -> Result<Tensor> {
    let width = x.shape().last();
    Ok(x.layer_norm(&Tensor::full_on(x.device(), [width], 1.0)?, None, 1e-5)?)
}

/// A pre-norm block: two sums on the residual stream.
pub fn block(
    x: &Tensor,
    attention: impl Fn(&Tensor) -> Result<Tensor>,
    feed_forward: impl Fn(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let x = x.add(&attention(&norm(x)?)?)?; // words exchange information
    let x = x.add(&feed_forward(&norm(&x)?)?)?; // each word is processed alone
    Ok(x)
}

/// The block on the three words, with the head of the lesson and a feed-forward layer of four hidden units.
pub fn block_example() -> Result<Tensor> {
    let up = Tensor::new(&[1.0, -1.0, 0.0, 0.0, 0.0, 0.0, 1.0, -1.0], [2, 4])?; // W₁
    let down = Tensor::new(&[1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0], [4, 2])?; // W₂
    block(
        &vectors()?,
        |x| Ok(one_head(x, Some(&causal()))?.output),
        |x| Ok(x.matmul(&up)?.gelu()?.matmul(&down)?),
    )
}

/// The logits and probabilities of all words of the vocabulary after *time*, from the block's output: its norm times the table of embeddings.
pub fn next_word() -> Result<(Tensor, Vec<f32>, Vec<f32>)> {
    let x = norm(&block_example()?.slice(0, 0, 1)?)?; // (1, 2)
    let logits = x.matmul_transposed(&table()?, false, true)?; // x·Eᵀ (1, 5)
    Ok((x, logits.to_vec(), logits.softmax()?.to_vec()))
}

/// GELU and ReLU of some numbers.
pub fn activations(at: &[f32]) -> Result<(Vec<f32>, Vec<f32>)> {
    let x = Tensor::new(at, [at.len()])?;
    Ok((x.gelu()?.to_vec(), x.relu()?.to_vec()))
}

/// One step of training on a single guess.
pub struct Step {
    pub probabilities: Vec<f32>,
    pub loss: f32,
    pub gradient: Vec<f32>,
    pub logits_after: Vec<f32>,
    pub loss_after: f32,
}

/// The logits of the next word after *time*, one step of gradient descent towards the right answer, and the loss after it.
pub fn one_step(logits: [f32; 3], answer: u32, rate: f32) -> Result<Step> {
    let answer = Ids::new(&[answer], [1])?;
    let logits = Tensor::new(&logits, [1, 3])?.tracked();
    let loss = logits.cross_entropy(&answer, CrossEntropy::default())?; // −ln p of the answer
    let gradient = loss.backward()?.get(&logits).context("the loss depends on the logits")?; // p − y
    let after = logits.subtract(&gradient.scale(rate)?)?; // θ ← θ − η·g
    let loss_after = after.cross_entropy(&answer, CrossEntropy::default())?;
    Ok(Step {
        probabilities: logits.softmax()?.to_vec(),
        loss: loss.item()?,
        gradient: gradient.to_vec(),
        logits_after: after.to_vec(),
        loss_after: loss_after.item()?,
    })
}

/// How far Adam moves two numbers in its first step, whose gradients are `large` and `small`.
pub fn adam((large, small): (f32, f32), rate: f32) -> Result<Vec<f32>> {
    let mut parameter = Tensor::new(&[0.0, 0.0], [2])?.tracked();
    let loss = parameter.multiply(&Tensor::new(&[large, small], [2])?)?.sum_all()?;
    let gradients = loss.backward()?;
    let gradient = gradients.find(&parameter);
    let mut updates = [Update { parameter: &mut parameter, gradient, decays: false }];
    Optimiser::new(Method::adam(), 0.0).step(&mut updates, rate, 1.0)?;
    Ok(parameter.to_vec())
}

/// Additive attention over three states: their scores and their weights.
pub fn additive() -> Result<(Vec<f32>, Vec<f32>, Vec<f32>)> {
    let states = vectors()?; // h, one row a word
    let v = Tensor::new(&[1.0, 1.0], [2, 1])?;
    let scores = states.tanh()?.matmul(&v)?.reshape([1, 3])?; // vᵀ·tanh(W·h), W = 1
    let weights = scores.softmax()?;
    let pooled = weights.matmul(&states)?; // the weighted sum of the states
    Ok((scores.to_vec(), weights.to_vec(), pooled.to_vec()))
}

/// Rollout through two layers that both have the causal weights of the lesson's head.
pub fn rollout() -> Result<Tensor> {
    let weights = one_head(&vectors()?, Some(&causal()))?.weights;
    let after = influence::rollout(&[weights.clone(), weights])?;
    after.into_iter().next_back().context("there are two layers")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: &[f32], wanted: &[f64]) {
        assert_eq!(found.len(), wanted.len());
        for (found, wanted) in found.iter().zip(wanted) {
            assert!((f64::from(*found) - wanted).abs() < 1e-5, "{found} is not {wanted}");
        }
    }

    #[test]
    fn the_numbers_are_those_of_the_example_program() {
        let (_, example) = regard_nn::source::ONE_HEAD;
        for name in ["WORDS", "X", "W_QUERY", "W_KEY", "W_VALUE"] {
            let of = |text: &str| {
                let start = format!("const {name}: ");
                let line = text.lines().find(|line| line.trim_start_matches("pub ").starts_with(&start));
                line.map(|line| line.trim_start_matches("pub ").to_owned())
            };
            assert!(of(example).is_some(), "{name}");
            assert_eq!(of(example), of(SOURCE.1), "{name}");
        }
    }

    #[test]
    fn one_head_is_right_by_hand() {
        assert_eq!(vectors().unwrap().to_vec(), X);
        let head = one_head(&vectors().unwrap(), None).unwrap();
        close(&head.query.to_vec(), &[2.0, 0.0, 0.0, 2.0, 2.0, 2.0]);
        close(&head.key.to_vec(), &[0.0, 1.0, 1.0, 0.0, 1.0, 1.0]);
        close(&head.value.to_vec(), &[1.0, 0.0, 0.0, -1.0, 1.0, -1.0]);
        close(&head.scores.to_vec(), &[0.0, 2.0, 2.0, 2.0, 0.0, 2.0, 2.0, 2.0, 4.0]);
        let (one, root) = (1.0, 2_f64.sqrt().exp());
        let time = [one / (one + 2.0 * root), root / (one + 2.0 * root), root / (one + 2.0 * root)];
        close(&head.weights.to_vec()[..3], &time);
        close(&head.output.to_vec()[..2], &[time[0] + time[2], -time[1] - time[2]]);
    }

    #[test]
    fn two_heads_are_two_heads_of_width_one() {
        let (maps, joined) = many_heads(&vectors().unwrap(), 2).unwrap();
        let square = 2_f64.exp();
        let sharp =
            [1.0 / (1.0 + 2.0 * square), square / (1.0 + 2.0 * square), square / (1.0 + 2.0 * square)];
        close(&maps[0].to_vec()[..3], &sharp);
        close(&maps[1].to_vec()[..3], &[1.0 / 3.0; 3]);
        assert_eq!(joined.shape()[..], [3, 2]);
        let (single, _) = many_heads(&vectors().unwrap(), 1).unwrap();
        assert_eq!(single[0].to_vec(), one_head(&vectors().unwrap(), None).unwrap().weights.to_vec());
    }

    #[test]
    fn rotation_keeps_lengths_and_makes_scores_depend_on_distance() {
        let (query, key) = (rotated([2.0, 0.0], 4).unwrap(), rotated([1.0, 0.0], 4).unwrap());
        for (position, [x, y]) in query.iter().enumerate() {
            let angle = position as f64;
            close(&[*x, *y], &[2.0 * angle.cos(), 2.0 * angle.sin()]);
        }
        let score = |q: usize, k: usize| query[q][0] * key[k][0] + query[q][1] * key[k][1];
        assert!((score(3, 2) - score(1, 0)).abs() < 1e-6);
    }

    #[test]
    fn the_block_adds_what_its_parts_compute() {
        let x = vectors().unwrap();
        let nothing = |x: &Tensor| Ok(x.scale(0.0)?);
        assert_eq!(
            block(&x, nothing, nothing).unwrap().to_vec(),
            x.to_vec(),
            "a block that adds nothing changes nothing"
        );
        close(&norm(&Tensor::new(&[2.0, 4.0, 6.0, 8.0], [1, 4]).unwrap()).unwrap().to_vec(), &{
            let deviation = 5_f64.sqrt();
            [-3.0, -1.0, 1.0, 3.0].map(|x: f64| x / deviation)
        });
        // The last word's vector is even, so that its norm is 0: attention is uniform and its values' mean is added.
        assert_eq!(block_example().unwrap().shape()[..], [3, 2]);
        let (_, logits, probabilities) = next_word().unwrap();
        let near =
            |found: &[f32], wanted: [f32; 5]| found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-3);
        assert!(near(&logits, [0.0, 0.0, 1.0, -1.0, 0.0]), "{logits:?}");
        assert!((probabilities.iter().sum::<f32>() - 1.0).abs() < 1e-6);
    }

    #[test]
    fn a_step_follows_the_formulas() {
        let step = one_step([2.0, 1.0, 0.0], 1, 1.0).unwrap();
        let total = 2_f64.exp() + 1_f64.exp() + 1.0;
        let p = [2_f64.exp() / total, 1_f64.exp() / total, 1.0 / total];
        close(&step.probabilities, &p);
        close(&[step.loss], &[-p[1].ln()]);
        close(&step.gradient, &[p[0], p[1] - 1.0, p[2]]);
        assert!(step.loss_after < step.loss);
        close(&adam((10.0, 0.001), 0.1).unwrap(), &[-0.1, -0.1]);
    }

    #[test]
    fn the_other_examples_are_right_by_hand() {
        let (vocabulary, ids) = tokens().unwrap();
        assert_eq!(vocabulary, ["<PAD>", "<UNK>", "time", "flies", "fast"]);
        assert_eq!(ids, [vec![2, 3, 4], vec![2, 3, 1]]);
        let (slope, scores, weights) = alibi().unwrap();
        close(&[slope], &[0.5]);
        close(&scores.to_vec()[6..], &[2_f64.sqrt() - 1.0, 2_f64.sqrt() - 0.5, 8_f64.sqrt()]);
        close(&weights.to_vec()[..3], &[1.0, 0.0, 0.0]);
        close(&waves().unwrap().to_vec()[..4], &[0.0, 1.0, 1_f64.sin(), 1_f64.cos()]);
        let (scores, weights, _) = additive().unwrap();
        close(&scores, &[1_f64.tanh(), 1_f64.tanh(), 2.0 * 1_f64.tanh()]);
        close(&[weights.iter().sum()], &[1.0]);
        let rolled = rollout().unwrap().to_vec();
        close(&[rolled[6] + rolled[7] + rolled[8]], &[1.0]);
        close(&[lookup(0.0).unwrap()[1]], &[1.0 / 3.0]);
        assert!(lookup(8.0).unwrap()[1] > 0.99);
        let (gelu, relu) = activations(&[-1.0, 2.0]).unwrap();
        close(&gelu, &[-0.158_655, 1.954_500]);
        close(&relu, &[0.0, 2.0]);
    }
}
