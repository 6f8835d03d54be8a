//! The least memory that a run needs, estimated before anything is allocated.
//!
//! The sizes of parameters are counted without their values. Estimates are lower bounds: a run that is rejected could not have
//! fitted, one that is accepted may still turn out too large.

use crate::error::usage_error;
use crate::terminal::thousands;
use anyhow::Result;
use regard_nn::Initial;
use regard_nn::data::memory;
use regard_nn::models::form::Stack;
use regard_nn::models::{Form, Recipe};
use regard_nn::tensor::{Shape, Tensor};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes of a parameter's value in training: the value, its gradient and the optimiser's two means, in f32.
const BYTES_OF_A_PARAMETER: f64 = 16.0;
/// The bytes of an activation.
const BYTES_OF_AN_ACTIVATION: f64 = 4.0;
/// The bytes of a built-in sentence with its tree.
pub const BYTES_OF_A_SENTENCE: usize = 1000;
/// The bytes of a built-in pair of sentences.
pub const BYTES_OF_A_PAIR: usize = 100;
/// The bytes of a built-in digit.
pub const BYTES_OF_A_DIGIT: usize = 28 * 28;

/// What a model needs, counted from the shapes of its parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Needs {
    /// The number of learned values.
    pub parameters: f64,
    /// The values that each token leaves behind for the backward pass, at least.
    pub activations: f64,
}

impl Needs {
    /// What a model of these settings needs. No values are allocated.
    pub fn of(recipe: &Recipe) -> Result<Self> {
        let Ok(form) = recipe.form() else { return counted(recipe) };
        // Layers repeat after as many as the order has: two periods tell what any number of layers needs.
        let period = |stack: &Option<Stack>| stack.as_ref().map_or(0, |stack| stack.order.len().max(1));
        let (encoder, decoder) = (period(&form.encoder), period(&form.decoder));
        let shallow = |encoder: usize, decoder: usize| {
            counted(&Recipe::Transformer(Box::new(shortened(&form, encoder, decoder))))
        };
        let one = shallow(encoder, decoder)?;
        let deeper = |stack: &Option<Stack>, period: usize, longer: Self| match stack {
            Some(stack) if stack.n_layers > period => {
                let periods = (stack.n_layers - period) as f64 / period as f64;
                [
                    (longer.parameters - one.parameters) * periods,
                    (longer.activations - one.activations) * periods,
                ]
            }
            _ => [0.0; 2],
        };
        let added = [
            deeper(&form.encoder, encoder, shallow(2 * encoder, decoder)?),
            deeper(&form.decoder, decoder, shallow(encoder, 2 * decoder)?),
        ];
        let [parameters, activations] =
            [0, 1].map(|which| added.iter().map(|added| added[which]).sum::<f64>());
        // Checkpointed layers are computed again in the backward pass: only what lies between them is kept.
        let activations = match form.checkpointing {
            true => form.d_model as f64,
            false => one.activations + activations,
        };
        Ok(Self { parameters: one.parameters + parameters, activations })
    }
}

/// The same form with at most so many layers.
fn shortened(form: &Form, encoder: usize, decoder: usize) -> Form {
    let mut form = form.clone();
    for (stack, most) in [(&mut form.encoder, encoder), (&mut form.decoder, decoder)] {
        if let Some(stack) = stack {
            stack.n_layers = stack.n_layers.min(most);
        }
    }
    form
}

/// Builds a model of empty parameters, and counts what they would hold.
fn counted(recipe: &Recipe) -> Result<Needs> {
    let sums = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let counters = Arc::clone(&sums);
    let reader = move |_: &str, shape: &Shape| {
        let values = shape.iter().fold(1_u64, |product, &length| product.saturating_mul(length as u64));
        // The output of a matrix is as wide as one of its two sides.
        let output = if shape.rank() == 2 { shape.iter().copied().min().unwrap_or(0) as u64 } else { 0 };
        for (sum, value) in counters.iter().zip([values, output]) {
            let _ =
                sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |sum| Some(sum.saturating_add(value)));
        }
        Ok(Tensor::zeros([0]))
    };
    recipe.build(&Initial::read(Arc::new(reader)))?;
    let [parameters, activations] = [0, 1].map(|which: usize| sums[which].load(Ordering::Relaxed) as f64);
    Ok(Needs { parameters, activations })
}

/// Rejects a model that does not fit memory while it is trained.
pub fn ensure_model_fits(recipe: &Recipe) -> Result<()> {
    let needs = Needs::of(recipe)?;
    let what = format!("training {} parameters", thousands(needs.parameters as u64));
    let remedy = "lower model.n_layers, the widths of the model, model.context or tokens.size";
    ensure(&what, needs.parameters * BYTES_OF_A_PARAMETER, remedy)
}

/// Rejects batches that do not fit memory beside the model.
pub fn ensure_batch_fits(recipe: &Recipe, batch_size: usize, length: usize, accumulate: usize) -> Result<()> {
    let needs = Needs::of(recipe)?;
    let tokens = batch_size as f64 * length as f64;
    // All batches of an update are put together first: ids and targets, in four bytes each.
    let inputs = tokens * accumulate as f64 * 8.0;
    let bytes = needs.parameters * BYTES_OF_A_PARAMETER
        + tokens * needs.activations * BYTES_OF_AN_ACTIVATION
        + inputs;
    let what = format!("a batch of {} × {} tokens", thousands(batch_size as u64), thousands(length as u64));
    ensure(
        &what,
        bytes,
        "lower train.batch_size (train.accumulate makes up for it), data.length or model.context",
    )
}

/// Rejects more built-in texts, of so many bytes each at least, than fit memory.
pub fn ensure_texts_fit(texts: usize, bytes_each: usize) -> Result<()> {
    let bytes = texts as f64 * bytes_each as f64;
    ensure(&format!("{} built-in texts", thousands(texts as u64)), bytes, "lower data.texts")
}

fn ensure(what: &str, bytes: f64, remedy: &str) -> Result<()> {
    let limit = memory::limit();
    if bytes <= limit as f64 {
        return Ok(());
    }
    let problem = format!(
        "{what} takes at least {} of memory, {} are available: {remedy}",
        size(bytes),
        size(limit as f64)
    );
    Err(usage_error(problem))
}

/// A number of bytes for people.
fn size(bytes: f64) -> String {
    match bytes / 1e9 {
        large if large >= 100.0 => format!("{} GB", thousands(large as u64)),
        medium if medium >= 1.0 => format!("{medium:.1} GB"),
        small => format!("{:.0} MB", small * 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{PRESETS, preset};
    use regard_nn::models::GptConfig;

    #[test]
    fn parameters_are_counted_as_the_built_model_has_them() {
        for name in PRESETS.iter().map(|known| known.name) {
            let recipe = preset(name, &[]).unwrap().model.with_vocabulary(300).with_classes(3);
            let built = recipe.model(0).unwrap().parameter_count();
            assert_eq!(Needs::of(&recipe).unwrap().parameters, built as f64, "{name}");
        }
    }

    #[test]
    fn any_number_of_layers_is_counted_at_once() {
        let needs = |layers: usize| {
            let config = GptConfig { n_layers: layers, vocabulary: 300, ..GptConfig::default() };
            Needs::of(&Recipe::Gpt(config)).unwrap()
        };
        let (one, two, many) = (needs(1), needs(2), needs(1_000_001));
        assert_eq!(many.parameters, one.parameters + 1e6 * (two.parameters - one.parameters));
    }

    #[test]
    fn sizes_are_written_for_people() {
        assert_eq!(
            (size(2.5e6), size(1.25e9), size(3e15)),
            ("2 MB".into(), "1.2 GB".into(), "3,000,000 GB".into())
        );
    }
}
