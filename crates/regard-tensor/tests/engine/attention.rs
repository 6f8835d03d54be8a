//! Attention compared with its definition: every rule alone and in combination, for lengths around every tile size.

use crate::gradcheck::{Draw, cases, check, close};
use crate::reference::Array;
use crate::reference::attention::{self as reference, attend as reference_attend};
use proptest::prelude::*;
use proptest::sample::select;
use regard_tensor::ops::{Allowed, Attended, Attention, Bias, Dropout, Projections, attend};
use regard_tensor::random::Key;
use regard_tensor::{BlockMask, Mask, Result, Tensor};
use std::sync::Arc;

/// The sizes of a problem.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    pub batch: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub queries: usize,
    pub keys: usize,
    pub width: usize,
    pub value_width: usize,
}

impl Sizes {
    pub fn small(queries: usize, keys: usize) -> Self {
        Self { batch: 2, heads: 2, kv_heads: 2, queries, keys, width: 8, value_width: 8 }
    }

    pub fn projections(&self, draw: &mut Draw) -> Vec<Tensor> {
        let Self { batch, heads, kv_heads, queries, keys, width, value_width } = *self;
        vec![
            draw.tensor([batch, queries, heads, width]),
            draw.tensor([batch, keys, kv_heads, width]),
            draw.tensor([batch, keys, kv_heads, value_width]),
        ]
    }

    pub fn scale(&self) -> f32 {
        1.0 / (self.width.max(1) as f32).sqrt()
    }
}

pub fn separate(x: &[Tensor], attention: &Attention) -> Result<Attended> {
    attend(Projections::Separate { query: &x[0], key: &x[1], value: &x[2] }, attention)
}

/// Causality by its definition: the last query is at the position of the last key.
pub fn is_visible(sizes: &Sizes, query: usize, key: usize) -> bool {
    key + sizes.queries <= query + sizes.keys
}

/// Which rules apply.
#[allow(clippy::struct_excessive_bools)] // independent rules, tried in all combinations
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    pub causal: bool,
    pub key_mask: bool,
    /// A pattern with planes for (each example, each head), or shared ones.
    pub blocks: Option<(bool, bool)>,
    pub sink: bool,
    pub dropout: bool,
}

/// The dropout factor of a weight, by the documented draw: one Philox block for four neighbouring keys of a query, head
/// and example.
fn factor(dropout: &Dropout, sizes: &Sizes, (b, h, q, k): (usize, usize, usize, usize)) -> f64 {
    let block = (h * sizes.queries + q) * sizes.keys.div_ceil(4) + k / 4;
    let word = dropout.key.words(dropout.first_example + b as u64, block as u64)[k % 4];
    let dropped = f64::from(word) < f64::from(dropout.probability) * 4294967296.0;
    if dropped { 0.0 } else { 1.0 / (1.0 - f64::from(dropout.probability)) }
}

/// Checks value, log-sum-exp, weights and all gradients.
pub fn check_attention(seed: u64, sizes: &Sizes, rules: Rules) {
    let mut draw = Draw(seed);
    let mut inputs = sizes.projections(&mut draw);
    if rules.sink {
        inputs.push(draw.tensor([sizes.heads]));
    }
    let keys = rules.key_mask.then(|| draw.mask(0.7, [sizes.batch, sizes.keys]));
    let pattern = rules.blocks.map(|(examples, heads)| {
        let planes = [if examples { sizes.batch } else { 1 }, if heads { sizes.heads } else { 1 }];
        // Blocks are empty, full, or partly allowed.
        let kinds: Vec<usize> = (0..64).map(|_| draw.below(3)).collect();
        Mask::from_fn([planes[0], planes[1], sizes.queries, sizes.keys], |at| {
            match kinds[(at[0] * 31 + at[1] * 17 + at[2] / 64 * 5 + at[3] / 64) % 64] {
                0 => false,
                1 => true,
                _ => draw.unit() < 0.5,
            }
        })
    });
    let dropout = rules.dropout.then(|| Dropout {
        probability: 0.3,
        key: Key::new(seed).site("test"),
        first_example: 5,
    });
    let how = |x: &[Tensor]| Attention {
        soft_cap: None,
        scale: sizes.scale(),
        allowed: Allowed {
            causal: rules.causal,
            keys: keys.clone(),
            blocks: pattern.as_ref().map(|mask| Arc::new(BlockMask::from_mask(mask).unwrap())),
        },
        bias: Bias::None,
        sink: x.get(3).cloned(),
        dropout,
    };
    let allowed = |b: usize, h: usize, q: usize, k: usize| {
        (!rules.causal || is_visible(sizes, q, k))
            && keys.as_ref().is_none_or(|mask| mask.values()[b * sizes.keys + k])
            && pattern.as_ref().is_none_or(|mask| {
                let shape = mask.shape();
                let plane = b % shape[0] * shape[1] + h % shape[1];
                mask.values()[(plane * sizes.queries + q) * sizes.keys + k]
            })
    };
    let factors = |b, h, q, k| dropout.map_or(1.0, |dropout| factor(&dropout, sizes, (b, h, q, k)));
    let reference = |x: &[Array]| {
        let scale = f64::from(sizes.scale());
        let how = reference::Attention {
            allowed: &allowed,
            sink: x.get(3),
            factor: &factors,
            ..reference::Attention::scaled(scale)
        };
        reference_attend(&x[0], &x[1], &x[2], &how)
    };
    check(&inputs, |x| Ok(separate(x, &how(x))?.output), |x| reference(x).output);
    let exact: Vec<Array> = inputs.iter().map(Array::of).collect();
    compare_extras(&separate(&inputs, &how(&inputs)).unwrap(), &reference(&exact), sizes);
}

/// Compares the log-sum-exp, and the weights in blocks that are not aligned with tiles.
pub fn compare_extras(got: &Attended, want: &reference::Attended, sizes: &Sizes) {
    close("log-sum-exp", &got.log_sum_exp.values(), &want.log_sum_exp.values, 1e-5);
    for (example, head) in [(0, 0), (sizes.batch - 1, sizes.heads - 1)] {
        for (queries, keys) in [
            (0..sizes.queries, 0..sizes.keys),
            (sizes.queries / 3..sizes.queries, sizes.keys / 4..sizes.keys),
        ] {
            let got = got.weights(example, head, queries.clone(), keys.clone()).unwrap();
            let want = Array::from_fn(&[queries.len(), keys.len()], |at| {
                want.weights.at(&[example, head, queries.start + at[0], keys.start + at[1]])
            });
            assert_eq!(got.shape()[..], want.shape[..]);
            close("weights", &got.values(), &want.values, 1e-5);
        }
    }
}

const LENGTHS: [usize; 14] = [1, 2, 5, 8, 15, 17, 33, 63, 64, 65, 66, 100, 128, 130];
const WIDTHS: [usize; 8] = [1, 7, 8, 16, 24, 48, 64, 80];

fn rules() -> impl Strategy<Value = Rules> {
    (any::<bool>(), any::<bool>(), prop::option::of(any::<(bool, bool)>()), any::<bool>(), any::<bool>())
        .prop_map(|(causal, key_mask, blocks, sink, dropout)| Rules {
            causal,
            key_mask,
            blocks,
            sink,
            dropout,
        })
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn any_rules_at_any_length(
        (queries, keys) in (select(&LENGTHS[..]), select(&LENGTHS[..])),
        (batch, kv_heads, group) in (1_usize..3, 1_usize..3, 1_usize..3),
        rules in rules(),
        seed: u64,
    ) {
        let sizes =
            Sizes { batch, heads: kv_heads * group, kv_heads, queries, keys, width: 4, value_width: 5 };
        check_attention(seed, &sizes, rules);
    }

    #[test]
    fn any_width_of_keys_and_values(
        (width, value_width) in (select(&WIDTHS[..]), select(&WIDTHS[..])),
        time in select(&[3_usize, 17, 65][..]),
        rules in rules(),
        seed: u64,
    ) {
        let sizes = Sizes { batch: 1, heads: 2, kv_heads: 1, queries: time, keys: time, width, value_width };
        check_attention(seed, &sizes, rules);
    }
}

const PLAIN: Rules = Rules { causal: false, key_mask: false, blocks: None, sink: false, dropout: false };

#[test]
fn every_pair_of_rules() {
    let sizes = Sizes { batch: 2, heads: 2, kv_heads: 1, queries: 67, keys: 70, width: 5, value_width: 3 };
    for causal in [false, true] {
        for key_mask in [false, true] {
            for blocks in [None, Some((false, true)), Some((true, false))] {
                check_attention(1, &sizes, Rules { causal, key_mask, blocks, ..PLAIN });
            }
            check_attention(2, &sizes, Rules { causal, key_mask, sink: true, ..PLAIN });
            check_attention(3, &sizes, Rules { causal, key_mask, dropout: true, ..PLAIN });
        }
    }
}

#[test]
fn few_heads_and_many_queries_are_split_into_tasks() {
    // One head of four or more query tiles: the backward pass sums key gradients over several tasks.
    for (queries, keys) in [(300, 70), (260, 260)] {
        let sizes = Sizes { batch: 1, heads: 1, kv_heads: 1, queries, keys, width: 3, value_width: 4 };
        check_attention(4, &sizes, Rules { causal: true, ..PLAIN });
        check_attention(5, &sizes, Rules { sink: true, dropout: true, ..PLAIN });
    }
}

#[test]
fn many_query_heads_share_a_key_head() {
    let sizes = Sizes { batch: 2, heads: 6, kv_heads: 2, queries: 9, keys: 20, width: 8, value_width: 8 };
    check_attention(6, &sizes, Rules { causal: true, key_mask: true, ..PLAIN });
    check_attention(7, &Sizes { kv_heads: 1, ..sizes }, Rules { sink: true, ..PLAIN });
}
