//! Any form of a transformer either works, with scores of the right shape, or is refused in words: nothing panics.

use crate::anything::{kinds, readable, sensible};
use crate::causality::POSITIONS;
use crate::numbers::distance;
use crate::zoo;
use proptest::prelude::*;
use regard_nn::Context;
use regard_nn::attention::{Biases, Cache, Pattern, QueryKeyNorm};
use regard_nn::block::Placement;
use regard_nn::layers::{Activation, MixtureConfig, NormConfig, NormKind};
use regard_nn::models::form::{
    Attention, AttentionPositions, FeedForward, Form, Input, Layer, Positions, Window,
};
use regard_nn::models::{GptConfig, Inputs, Model, Reads, Transformer};
use regard_nn::position::RotaryConfig;
use regard_nn::tensor::{Ids, Tensor};

const PLACEMENTS: [Placement; 6] = [
    Placement::Pre,
    Placement::Post,
    Placement::Sandwich,
    Placement::Output,
    Placement::Parallel,
    Placement::ParallelShared,
];

const NORM: NormConfig = NormConfig { kind: NormKind::Layer, epsilon: 1e-5 };

const FEED_FORWARD: FeedForward = FeedForward {
    d_hidden: 9,
    activation: Activation::Silu,
    gated: false,
    clamp: None,
    bias: false,
    transposed: false,
    mixture: None,
};

fn norm_of_queries() -> impl Strategy<Value = Option<(QueryKeyNorm, NormConfig)>> {
    let over = prop::sample::select(vec![QueryKeyNorm::Head, QueryKeyNorm::EachHead, QueryKeyNorm::All]);
    prop::option::of((over, prop::sample::select(vec![NormConfig::rms(1e-6), NORM])))
}

fn positions() -> impl Strategy<Value = Option<AttentionPositions>> {
    let width = prop_oneof![20 => prop::sample::select(vec![2, 4, 8]), 1 => 0..10_usize];
    let rotary = (prop::option::of(width), any::<bool>()).prop_map(|(width, interleaved)| {
        Some(AttentionPositions::Rotary(RotaryConfig { width, interleaved, ..RotaryConfig::default() }))
    });
    let sizes = prop_oneof![20 => Just((8, 12)), 1 => (0..9_usize, 0..9_usize)];
    let relative = (sizes, any::<bool>()).prop_map(|((buckets, max_distance), by_layer)| {
        Some(AttentionPositions::Relative { buckets, max_distance, by_layer })
    });
    prop_oneof![4 => rotary, 1 => relative, 1 => Just(Some(AttentionPositions::Alibi)), 2 => Just(None)]
}

/// A layer of any form, of width 16.
fn layers() -> impl Strategy<Value = Layer> {
    let window = (0..4_usize, 0..3_usize).prop_map(|(before, after)| Window { before, after });
    let pattern = vec![Pattern::Strided(2), Pattern::TopK(2), Pattern::Full];
    let pattern = prop_oneof![20 => prop::sample::select(pattern), 1 => Just(Pattern::Strided(0))];
    let masks = (prop::option::of(window), prop::option::of(pattern));
    let cap = prop::option::of(prop_oneof![20 => Just(2.0_f32), 1 => -1.0..1.0_f32]);
    let kv_heads = prop_oneof![20 => 1..=2_usize, 1 => Just(3)];
    let projections = (any::<[bool; 5]>(), kv_heads, norm_of_queries(), positions());
    let rest = (prop::sample::select(PLACEMENTS.to_vec()), prop::sample::select(vec![1.0_f32, 0.5, 0.0]));
    (masks, (kinds(), cap), projections, rest).prop_map(
        |((window, pattern), (kind, soft_cap), (flags, n_kv_heads, query_key_norm, positions), rest)| {
            let [fused, query, key, value, output] = flags;
            // Projections that are one have one bias.
            let bias = if fused {
                Biases { output, ..Biases::all(query) }
            } else {
                Biases { query, key, value, output }
            };
            let attention = Attention {
                n_kv_heads,
                fused,
                bias,
                query_key_norm,
                soft_cap,
                kind,
                window,
                pattern,
                positions,
                ..Attention::new(16, 2)
            };
            let (placement, residual_scale) = rest;
            // Some layers have experts: rarely more active ones than there are.
            let mixture =
                MixtureConfig { experts: 2, active: n_kv_heads, normalised: key, router_bias: value };
            let mixture = (query && output).then_some(mixture);
            let feed_forward = FeedForward { bias: query, gated: key, mixture, ..FEED_FORWARD };
            Layer {
                attention,
                cross: None,
                feed_forward,
                norm: NORM,
                placement,
                residual_scale,
                layer_scale: None,
            }
        },
    )
}

/// Which of two forms each layer has: rarely one that is not there.
fn orders() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![20 => prop::collection::vec(0..2_usize, 0..4), 1 => Just(vec![0, 2])]
}

/// The width of embeddings, where it is another one.
fn narrow() -> impl Strategy<Value = Option<usize>> {
    prop_oneof![4 => Just(None), 1 => (0..8_usize).prop_map(Some)]
}

/// The forms that others are made from.
fn bases() -> Vec<Form> {
    let gpt = |positions| GptConfig { positions, ..zoo::gpt_config() }.form();
    let others = [
        zoo::llama_config().form(),
        zoo::bert_config().form(),
        zoo::t5_config().form(),
        zoo::vit_config().form(),
    ];
    POSITIONS.into_iter().map(gpt).chain(others).collect()
}

/// How far scores are off if a text is read in two pieces, the first of which is cached.
fn in_pieces(model: &Transformer, whole: &Tensor) -> f32 {
    let (ids, _) = zoo::texts();
    let cache = Cache::new();
    let context = Context::inference().with_cache(&cache);
    let piece = |from: usize, to: usize| {
        let ids: Vec<u32> = ids.values().chunks(7).flat_map(|row| row[from..to].to_vec()).collect();
        let ids = Ids::new(&ids, [3, to - from]).unwrap();
        model.forward(&context, &Inputs::ids(&ids)).unwrap()
    };
    let (first, second) = (piece(0, 4), piece(4, 7));
    let off = |piece: &Tensor, from: usize| distance(piece, &whole.slice(1, from, piece.shape()[1]).unwrap());
    off(&first, 0).max(off(&second, 4))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_form(
        mut form in prop::sample::select(bases()),
        (one, two, order) in (layers(), layers(), orders()),
        (shared, n_layers, last_norm, cross) in (any::<bool>(), 0..4_usize, any::<bool>(), any::<[bool; 2]>()),
        (d_embedding, scale, embedding_norm) in (narrow(), any::<bool>(), any::<bool>()),
        (learned, tied, transform, training) in (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()),
    ) {
        for (stack, causal) in [(&mut form.encoder, false), (&mut form.decoder, true)] {
            let Some(stack) = stack else { continue };
            stack.layers = vec![one.clone(), two.clone()];
            for (layer, cross) in stack.layers.iter_mut().zip(cross) {
                // A decoder may attend to an encoder or not; so may layers that have none to attend to.
                layer.cross = (cross && causal).then(|| layer.attention.clone());
            }
            (stack.order, stack.shared, stack.n_layers) = (order.clone(), shared, n_layers);
            stack.norm = last_norm.then_some(NORM);
            if learned {
                stack.positions = Positions::Learned { context: 7, offset: 1, skips_padding: !causal };
            }
        }
        if let Input::Tokens(tokens) = &mut form.input {
            tokens.d_embedding = d_embedding;
            tokens.scale = if scale { 2.0 } else { 1.0 };
            tokens.norm = embedding_norm.then_some(NORM);
        }
        if let Some(scores) = &mut form.output.tokens {
            scores.tied = tied;
            scores.transform = transform.then_some((Activation::Gelu, NORM));
        }
        match Transformer::new(form, 1) {
            Err(error) => readable(&error)?,
            Ok(mut model) => {
                zoo::widen(&mut model);
                let key = regard_nn::tensor::random::Key::new(1);
                let context = if training { Context::training(key, 0) } else { Context::inference() };
                let (inputs, _) = zoo::question(&model).unwrap();
                let abilities = model.abilities();
                let time = if matches!(abilities.reads, Reads::Pictures(_)) { 1 } else { 7 };
                let scores = model.forward(&context, &inputs);
                if let (Ok(scores), true, false) = (&scores, abilities.continues(), training) {
                    prop_assert!(in_pieces(&model, scores) < 1e-4, "a cache changes nothing");
                }
                sensible(scores, &[3, time, abilities.classes])?;
                match zoo::loss(&model, &context) {
                    Err(error) => readable(&error)?,
                    Ok(loss) if training => {
                        prop_assert!(loss.backward().is_ok());
                    }
                    Ok(loss) => prop_assert!(loss.item().unwrap().is_finite()),
                }
                // What is written down can be read, and is the same form.
                let text = serde_json::to_string(Model::form(&model).unwrap()).unwrap();
                prop_assert_eq!(&serde_json::from_str::<Form>(&text).unwrap(), model.form());
                regard_nn::checkpoint::to_parts(&model).unwrap();
            }
        }
    }
}
