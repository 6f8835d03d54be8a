//! Any configuration and any input either works, with a result of the right shape, or is refused in words: nothing panics.

use proptest::prelude::*;
use regard_nn::attention::AttentionKind;
use regard_nn::block::Placement;
use regard_nn::layers::Activation;
use regard_nn::models::form::Positions;
use regard_nn::models::{
    Bag, BagConfig, BertConfig, GptConfig, Inputs, LlamaConfig, Model, Pooling, Sentiment, SentimentConfig,
    T5Config, Tagger, TaggerConfig, Transformer, VitConfig,
};
use regard_nn::position::Position;
use regard_nn::tensor::ops::CrossEntropy;
use regard_nn::tensor::random::Key;
use regard_nn::tensor::{Ids, Mask, Tensor};
use regard_nn::{Context, Error, Probe, Result};

fn positions() -> impl Strategy<Value = Position> {
    prop::sample::select(crate::causality::POSITIONS.to_vec())
}

pub fn kinds() -> impl Strategy<Value = AttentionKind> {
    prop::sample::select(crate::causality::KINDS.to_vec())
}

/// A size that is usually sensible.
fn size(most: usize) -> impl Strategy<Value = usize> {
    prop_oneof![60 => 1..=most, 1 => Just(0), 1 => Just(usize::MAX)]
}

/// Ids of up to three axes, nearly all of which exist.
fn some_ids() -> impl Strategy<Value = Ids> {
    let shape = prop_oneof![
        8 => (1..=3_usize, 1..=6_usize).prop_map(|(batch, time)| vec![batch, time]),
        1 => prop::collection::vec(0..=3_usize, 0..=3),
    ];
    (shape, prop::collection::vec(prop_oneof![30 => 0..5_u32, 1 => Just(u32::MAX)], 27))
        .prop_map(|(shape, values)| Ids::new(&values[..shape.iter().product()], shape).unwrap())
}

fn some_mask() -> impl Strategy<Value = Option<(Vec<usize>, u64)>> {
    let shape = prop_oneof![
        4 => Just(Vec::new()),
        1 => prop::collection::vec(0..=4_usize, 1..=3),
    ];
    prop::option::of((shape, any::<u64>()))
}

/// A mask of a shape of its own, or of that of the ids.
fn mask(ids: &Ids, spec: Option<&(Vec<usize>, u64)>) -> Option<Mask> {
    let (shape, seed) = spec?;
    let shape = if shape.is_empty() { ids.shape().to_vec() } else { shape.clone() };
    let key = Key::new(*seed);
    Some(Mask::from_fn(shape, |at| key.uniform(0, at.iter().sum::<usize>() as u64) < 0.7))
}

/// A result has the right shape and no NaN; an error reads as a sentence about something.
pub fn sensible(result: Result<Tensor>, shape: &[usize]) -> std::result::Result<(), TestCaseError> {
    match result {
        Ok(output) => {
            prop_assert_eq!(&output.shape()[..], shape);
            prop_assert!(output.values().iter().all(|value| value.is_finite()));
        }
        Err(error) => readable(&error)?,
    }
    Ok(())
}

pub fn readable(error: &Error) -> std::result::Result<(), TestCaseError> {
    let text = error.to_string();
    let (about, rest) = text.split_once(": ").unwrap_or(("", &text));
    let starts_well = about.chars().all(|c| c.is_ascii_lowercase() || "0123456789-_ ".contains(c));
    prop_assert!(starts_well && !about.is_empty() && rest.len() > 8, "{}", text);
    prop_assert!(
        !["Some(", "None", "{", "Error", "Shape"].iter().any(|debris| text.contains(debris)),
        "{}",
        text
    );
    Ok(())
}

/// A pass that looks, one that learns, one that is watched.
fn contexts(choice: usize, probe: &Probe) -> Context<'_> {
    match choice {
        0 => Context::inference(),
        1 => Context::training(Key::new(1), 7),
        _ => Context::inference().with_probe(probe),
    }
}

fn with_time(ids: &Ids, width: usize) -> Vec<usize> {
    [ids.shape(), &[width][..]].concat()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn gpt(
        (vocabulary, context, n_layers, n_heads, width) in (size(5), size(6), 0..=2_usize, size(3), size(4)),
        (positions, attention, window) in (positions(), kinds(), prop::option::of(0..5_usize)),
        (post, tied, scaled) in any::<(bool, bool, bool)>(),
        (ids, spec, pass) in (some_ids(), some_mask(), 0..3_usize),
    ) {
        let config = GptConfig {
            vocabulary, context, n_layers, n_heads, positions, attention, window, tied, scaled,
            d_model: n_heads.saturating_mul(width),
            norm: if post { Placement::Post } else { Placement::Pre },
            dropout: 0.1,
            ..GptConfig::default()
        };
        let probe = Probe::new().track("layers.*.self.weights").zero_head("layers.0.self", 1);
        match Transformer::new(config.form(), 1) {
            Ok(gpt) => {
                let inputs = Inputs::masked(&ids, mask(&ids, spec.as_ref()).as_ref());
                let result = gpt.forward(&contexts(pass, &probe), &inputs);
                sensible(result, &with_time(&ids, vocabulary))?;
            }
            Err(error) => readable(&error)?,
        }
    }

    #[test]
    fn llama(
        (vocabulary, context, n_layers, width) in (size(5), size(6), 0..=2_usize, size(3)),
        (n_heads, n_kv_heads, d_hidden) in (size(4), size(3), size(5)),
        (ids, spec, pass) in (some_ids(), some_mask(), 0..3_usize),
    ) {
        let sizes = LlamaConfig { vocabulary, context, n_layers, n_heads, n_kv_heads, ..LlamaConfig::default() };
        let config = LlamaConfig { d_model: width.saturating_mul(2), d_head: Some(2), d_hidden, dropout: 0.1, ..sizes };
        let probe = Probe::new().block("layers.*.self", Some(0), 1, 0).mean_head("layers.0.self", 0);
        match Transformer::new(config.form(), 1) {
            Ok(llama) => {
                let inputs = Inputs::masked(&ids, mask(&ids, spec.as_ref()).as_ref());
                let result = llama.forward(&contexts(pass, &probe), &inputs);
                sensible(result, &with_time(&ids, vocabulary))?;
            }
            Err(error) => readable(&error)?,
        }
    }

    #[test]
    fn bert(
        (vocabulary, context, n_layers, n_heads, width) in (size(5), size(6), 0..=2_usize, size(3), size(4)),
        (n_types, position_offset, d_hidden) in (0..=2_usize, 0..=2_usize, size(5)),
        (words, pooler, classes) in (any::<bool>(), any::<bool>(), prop::option::of(0..3_usize)),
        (ids, types, spec, pass) in (some_ids(), prop::option::of(some_ids()), some_mask(), 0..3_usize),
    ) {
        let sizes = BertConfig { vocabulary, context, n_layers, n_heads, n_types, ..BertConfig::default() };
        let config = BertConfig { d_model: n_heads.saturating_mul(width), d_hidden, dropout: 0.1, ..sizes };
        let d_model = config.d_model;
        let mut form = config.form();
        let skips_padding = position_offset > 0;
        form.encoder.as_mut().unwrap().positions =
            Positions::Learned { context, offset: position_offset, skips_padding };
        let words = form.output.tokens.filter(|_| words);
        let form = crate::zoo::with_heads(form, words, pooler.then_some(Activation::Tanh), classes);
        let probe = Probe::new().track("layers.*.self.scores").patch("embeddings", Tensor::zeros([2, 3, 4]));
        match Transformer::new(form, 1) {
            Ok(bert) => {
                let context = contexts(pass, &probe);
                let inputs = Inputs { types, ..Inputs::masked(&ids, mask(&ids, spec.as_ref()).as_ref()) };
                let hidden = bert.hidden(&context, &inputs);
                if let Ok(hidden) = &hidden {
                    let batch = ids.shape().first().copied().unwrap_or(0);
                    let of_text = |classes: usize| vec![batch, 1, classes];
                    let shape = classes.map_or_else(|| with_time(&ids, vocabulary), of_text);
                    sensible(bert.scores(&context, hidden), &shape)?;
                }
                sensible(hidden, &with_time(&ids, d_model))?;
            }
            Err(error) => readable(&error)?,
        }
    }

    #[test]
    fn t5(
        (vocabulary, n_layers, n_decoder_layers, n_heads) in (size(5), 0..=1_usize, 0..=2_usize, size(3)),
        (d_model, d_head, d_hidden, buckets, max_distance) in (size(6), size(3), size(5), size(9), size(4)),
        (gated, tied, pass) in (any::<bool>(), any::<bool>(), 0..3_usize),
        (source, source_mask, target, target_mask) in (some_ids(), some_mask(), some_ids(), some_mask()),
    ) {
        let sizes = T5Config { vocabulary, n_layers, n_decoder_layers, n_heads, d_model, d_head, ..T5Config::default() };
        let config = T5Config { d_hidden, buckets, max_distance, gated, tied, dropout: 0.1, smoothing: 0.1, ..sizes };
        let probe = Probe::new().track("decoder.layers.0.cross.weights").track("encoder.layers.*.self.scores");
        match Transformer::new(config.form(), 1) {
            Ok(t5) => {
                let context = contexts(pass, &probe);
                let (of_source, of_target) = (mask(&source, source_mask.as_ref()), mask(&target, target_mask.as_ref()));
                let inputs = Inputs::masked(&source, of_source.as_ref()).answered(&target, of_target.as_ref());
                let hidden = t5.hidden(&context, &inputs);
                if let Ok(hidden) = &hidden {
                    sensible(t5.scores(&context, hidden), &with_time(&target, vocabulary))?;
                    let settings = CrossEntropy { ignored: Some(u32::MAX), smoothing: 0.0 };
                    if let Err(error) = t5.loss(&context, hidden, &target, settings) {
                        readable(&error)?;
                    }
                }
                sensible(hidden, &with_time(&target, d_model))?;
            }
            Err(error) => readable(&error)?,
        }
    }

    #[test]
    fn vit(
        (height, width, patch, channels) in (size(6), size(6), size(3), size(2)),
        (classes, n_layers, n_heads, head, d_hidden) in (0..3_usize, 0..=2_usize, size(3), size(3), size(4)),
        (batch, shape, pass) in (0..3_usize, prop::option::of(prop::collection::vec(0..3_usize, 0..5)), 0..3_usize),
    ) {
        let sizes = VitConfig { image: [height, width], patch, channels, classes, n_layers, ..VitConfig::default() };
        let config = VitConfig { n_heads, d_model: n_heads.saturating_mul(head), d_hidden, dropout: 0.1, ..sizes };
        let probe = Probe::new().block("layers.*.self", None, 0, 0).record("layers.*.*.*");
        match Transformer::new(config.form(), 1) {
            Ok(vit) => {
                let shape = shape.unwrap_or_else(|| vec![batch, channels, height, width]);
                let batch = shape.first().copied().unwrap_or(0);
                let inputs = Inputs::pictures(&Tensor::full(shape, 0.3));
                sensible(vit.forward(&contexts(pass, &probe), &inputs), &[batch, 1, classes])?;
            }
            Err(error) => readable(&error)?,
        }
    }

    #[test]
    fn small_models(
        (vocabulary, width, n_heads, context) in (size(5), size(4), 0..=3_usize, size(6)),
        (positions, residual, trained, pass) in (positions(), any::<bool>(), any::<bool>(), 0..3_usize),
        (classes, hidden) in (0..=3_usize, size(4)),
        pooling in prop::sample::select(vec![Pooling::Max, Pooling::Additive, Pooling::Heads]),
        (ids, lengths) in (some_ids(), prop::option::of(prop::collection::vec(0..=6_usize, 0..=3))),
        spec in some_mask(),
    ) {
        let probe = Probe::new().track("layers.0.self.weights").record("pool.weights");
        let context_of = |pass| contexts(pass, &probe);
        let batch = ids.shape().first().copied().unwrap_or(0);
        let inputs = match lengths {
            Some(lengths) => Inputs::padded(&ids, &lengths),
            None => Ok(Inputs::masked(&ids, mask(&ids, spec.as_ref()).as_ref())),
        };
        let inputs = match inputs {
            Ok(inputs) => inputs,
            Err(error) => {
                readable(&error)?;
                Inputs::ids(&ids)
            }
        };
        let config = BagConfig {
            vocabulary, n_heads, positions, context, residual, trained, d_embedding: width.saturating_mul(n_heads.max(1)), deviation: 0.1,
        };
        match Bag::new(config, 1) {
            Ok(bag) => sensible(bag.forward(&context_of(pass), &inputs), &[batch, 1, 2])?,
            Err(error) => readable(&error)?,
        }
        let config =
            TaggerConfig { vocabulary, d_model: width.saturating_mul(n_heads), n_heads, classes, positions, context };
        match Tagger::new(config, 1) {
            Ok(tagger) => {
                sensible(tagger.forward(&context_of(pass), &inputs), &with_time(&ids, classes))?;
            }
            Err(error) => readable(&error)?,
        }
        let config =
            SentimentConfig { vocabulary, d_embedding: width, d_hidden: hidden, pooling, n_heads, dropout: 0.1 };
        match Sentiment::new(config, 1) {
            Ok(sentiment) => sensible(sentiment.forward(&context_of(pass), &inputs), &[batch, 1, 2])?,
            Err(error) => readable(&error)?,
        }
    }
}
