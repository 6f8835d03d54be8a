//! Causal models cannot see the future: what comes later changes no earlier bit.

use crate::numbers::{distance, ids, same_bits};
use regard_nn::Context;
use regard_nn::attention::AttentionKind;
use regard_nn::block::Placement;
use regard_nn::models::{GptConfig, Inputs, LlamaConfig, Model, T5Config, Transformer};
use regard_nn::position::Position;
use regard_nn::tensor::{Ids, Tensor};

const TIME: usize = 70;
/// The token that changes.
const PLACE: usize = 66;

pub const POSITIONS: [Position; 7] = [
    Position::None,
    Position::Sinusoidal,
    Position::Learned,
    Position::Rotary,
    Position::RotaryInterleaved,
    Position::Alibi,
    Position::Relative,
];

pub const KINDS: [AttentionKind; 6] = [
    AttentionKind::Softmax,
    AttentionKind::ZeroSink,
    AttentionKind::LearnedSink,
    AttentionKind::Sigmoid,
    AttentionKind::Linear,
    AttentionKind::Additive,
];

/// Every GPT that can be built from a choice of positions, attention, window and norm.
pub fn gpts(context: usize) -> Vec<Transformer> {
    let mut all = Vec::new();
    for (i, positions) in POSITIONS.into_iter().enumerate() {
        for (j, attention) in KINDS.into_iter().enumerate() {
            for window in [None, Some(3)] {
                let config = GptConfig {
                    vocabulary: 17,
                    context,
                    n_layers: 2,
                    n_heads: 2,
                    d_model: 8,
                    positions,
                    attention,
                    window,
                    norm: if (i + j) % 2 == 0 { Placement::Pre } else { Placement::Post },
                    tied: i % 2 == 0,
                    ..GptConfig::default()
                };
                // Linear attention has nothing to which a bias could be added.
                let biased = matches!(positions, Position::Alibi | Position::Relative);
                match Transformer::new(config.form(), 3) {
                    Ok(gpt) => all.push(gpt),
                    Err(error) => assert!(biased && attention == AttentionKind::Linear, "{error}"),
                }
            }
        }
    }
    assert_eq!(all.len(), 2 * (POSITIONS.len() * KINDS.len() - 2));
    all
}

/// Changes one token, and cuts the text off before it.
fn check(what: &str, forward: impl Fn(&Ids) -> Tensor) {
    let text = ids("text", 17, [2, TIME]);
    let mut changed = text.values().to_vec();
    for row in 0..2 {
        changed[row * TIME + PLACE] = (changed[row * TIME + PLACE] + 1) % 17;
    }
    let changed = Ids::new(&changed, [2, TIME]).unwrap();
    let (before, after) = (forward(&text), forward(&changed));
    let early = |logits: &Tensor| logits.slice(1, 0, PLACE).unwrap();
    same_bits(what, &early(&after), &early(&before));
    let late = |logits: &Tensor| logits.slice(1, PLACE, 1).unwrap();
    assert!(distance(&late(&after), &late(&before)) > 1e-6, "{what}: the token itself matters");
    let beginning: Vec<u32> = text.values().chunks(TIME).flat_map(|row| row[..PLACE].to_vec()).collect();
    let shorter = forward(&Ids::new(&beginning, [2, PLACE]).unwrap());
    // Another length is cut into other tiles, so the last bits may differ.
    crate::golden::agree(what, &shorter, &early(&before), 2e-6);
}

fn forward(model: &dyn Model, ids: &Ids) -> Tensor {
    model.forward(&Context::inference(), &Inputs::ids(ids)).unwrap()
}

#[test]
fn gpt_in_every_form() {
    for gpt in gpts(TIME) {
        check(&format!("{:?}", gpt.form()), |ids| forward(&gpt, ids));
    }
}

#[test]
fn llama() {
    let sizes = LlamaConfig {
        vocabulary: 17,
        n_layers: 2,
        n_heads: 4,
        n_kv_heads: 2,
        d_model: 16,
        ..Default::default()
    };
    let llama = Transformer::new(LlamaConfig { d_hidden: 20, ..sizes }.form(), 3).unwrap();
    check("llama", |ids| forward(&llama, ids));
}

#[test]
fn the_decoder_of_t5() {
    let sizes = T5Config {
        vocabulary: 17,
        n_layers: 1,
        n_decoder_layers: 2,
        n_heads: 2,
        d_model: 8,
        ..Default::default()
    };
    for gated in [false, true] {
        let config = T5Config { d_head: 4, d_hidden: 12, gated, ..sizes.clone() };
        let t5 = Transformer::new(config.form(), 3).unwrap();
        let source = Inputs::ids(&ids("source", 17, [2, 9]));
        check("t5", |ids| t5.forward(&Context::inference(), &source.clone().answered(ids, None)).unwrap());
    }
}
