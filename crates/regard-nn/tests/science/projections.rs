//! What may happen to queries, keys and values on their way into attention: norms, biases in some of them.

use crate::golden::agree;
use crate::numbers::{distance, normal, same_bits};
use crate::zoo;
use regard_nn::attention::{
    AttentionConfig, Biases, MultiHead, Pattern, QueryKeyNorm, Rules, Scale, scaled_dot_product,
};
use regard_nn::layers::{Norm, NormConfig};
use regard_nn::position::RotaryConfig;
use regard_nn::tensor::ops::concatenate;
use regard_nn::tensor::{Ids, Mask, Tensor};
use regard_nn::{Context, Draw, Initial, Module, Probe};
use std::collections::HashMap;
use std::sync::Arc;

const TIME: usize = 7;
const DRAW: (Draw, Draw) = (Draw::Constant(0.0), Draw::Constant(0.0));

/// Four query heads of width 6 that share two key-value heads.
fn grouped() -> AttentionConfig {
    AttentionConfig { n_kv_heads: 2, d_head: 6, ..AttentionConfig::new(16, 4) }
}

fn wide(config: AttentionConfig) -> MultiHead {
    let mut heads = MultiHead::new(&Initial::new(0), config, DRAW).unwrap();
    zoo::widen(&mut heads);
    heads
}

/// A norm of the heads, applied to (batch, time, heads, width).
fn normed(heads: &MultiHead, name: &str, x: &Tensor) -> Tensor {
    let (over, norm) = heads.config().query_key_norm.unwrap();
    let values: HashMap<String, Tensor> =
        heads.parameters().into_iter().map(|(name, value)| (name, value.tensor().detach())).collect();
    let initial = Initial::read(Arc::new(move |name, _| Ok(values[name].clone())));
    let [batch, time, count, width] = x.shape()[..] else { panic!() };
    let rows = match over {
        QueryKeyNorm::Head => vec![batch, time, count, width],
        QueryKeyNorm::EachHead => return normed_by_head(&initial, name, norm, x),
        QueryKeyNorm::All => vec![batch, time, count * width],
    };
    let norm = Norm::new(&initial.part(name), norm, [*rows.last().unwrap()]).unwrap();
    let weight = norm.parameters()[0].1.tensor().shape().clone();
    assert_eq!(weight[..], [*rows.last().unwrap()], "{name}");
    norm.forward(&Context::inference(), &x.reshape(rows).unwrap()).unwrap().reshape(x.shape()).unwrap()
}

/// The same with weights of its own for each head, one head at a time.
fn normed_by_head(initial: &Initial, name: &str, norm: NormConfig, x: &Tensor) -> Tensor {
    let [batch, time, count, width] = x.shape()[..] else { panic!() };
    let all = Norm::new(&initial.part(name), norm, [count, width]).unwrap();
    let heads: Vec<Tensor> = (0..count)
        .map(|head| {
            let values: HashMap<String, Tensor> = all
                .parameters()
                .into_iter()
                .map(|(name, value)| (name, value.tensor().detach().select(0, head).unwrap()))
                .collect();
            let initial = Initial::read(Arc::new(move |name, _| Ok(values[name].clone())));
            let one = Norm::new(&initial, norm, [width]).unwrap();
            let x = x.slice(2, head, 1).unwrap();
            one.forward(&Context::inference(), &x).unwrap().reshape([batch, time, 1, width]).unwrap()
        })
        .collect();
    concatenate(&heads.iter().collect::<Vec<_>>(), 2).unwrap()
}

/// (batch, time, heads, width) with heads before time, each as often as queries share it.
fn heads_first(x: &Tensor, heads: usize) -> Tensor {
    let [batch, time, count, width] = x.shape()[..] else { panic!() };
    let copies = Tensor::zeros([1, 1, 1, heads / count, 1]);
    let x = x.reshape([batch, time, count, 1, width]).unwrap().add(&copies).unwrap();
    x.reshape([batch, time, heads, width]).unwrap().permute(&[0, 2, 1, 3]).unwrap()
}

#[test]
fn queries_and_keys_are_normed_before_they_are_rotated_and_compared() {
    let x = normal("x", [2, TIME, 16]);
    let places = Ids::new(&(0..TIME as u32).collect::<Vec<_>>(), [1, TIME]).unwrap();
    let causal = Mask::from_fn([TIME, TIME], |at| at[1] <= at[0]);
    for over in [QueryKeyNorm::Head, QueryKeyNorm::EachHead, QueryKeyNorm::All] {
        for norm in [NormConfig::rms(1e-6), NormConfig::layer(1e-5)] {
            for (fused, rotary) in [(true, false), (false, false), (true, true), (false, true)] {
                let what = format!("{over:?} {norm:?}, fused {fused}, rotary {rotary}");
                let heads = wide(AttentionConfig { query_key_norm: Some((over, norm)), fused, ..grouped() });
                let rotary = rotary.then(|| RotaryConfig::default().rotary(6).rotation(&places, 2).unwrap());
                let rules = Rules::new(Pattern::Causal, TIME, TIME).unwrap().rotated(rotary.clone());
                let probe = ["query", "key", "value", "heads"].into_iter().fold(Probe::new(), Probe::record);
                heads.forward(&Context::inference().with_probe(&probe), &x, None, &rules).unwrap();
                let seen = |site: &str| probe.get(site).unwrap().unwrap();
                let compared = |site: &str| {
                    let x = normed(&heads, &format!("{site}_norm"), &seen(site));
                    heads_first(&rotary.as_ref().map_or(x.clone(), |turn| turn.apply(&x).unwrap()), 4)
                };
                let (query, key, value) =
                    (compared("query"), compared("key"), heads_first(&seen("value"), 4));
                let (want, _) =
                    scaled_dot_product(&query, &key, &value, Some(&causal), Scale::InverseRoot).unwrap();
                let got = heads_first(&seen("heads"), 4);
                agree(&what, &got, &want, 2e-6);
                let plain = heads_first(&seen("query"), 4);
                let (without, _) =
                    scaled_dot_product(&plain, &key, &value, Some(&causal), Scale::InverseRoot).unwrap();
                assert!(distance(&got, &without) > 1e-3, "{what}: the norm matters");
            }
        }
    }
}

#[test]
fn each_projection_has_a_bias_or_none() {
    let names = ["query.bias", "key.bias", "value.bias", "output.bias"];
    let x = normal("x", [2, TIME, 16]);
    let rules = Rules::new(Pattern::Full, TIME, TIME).unwrap();
    let run = |heads: &MultiHead| heads.forward(&Context::inference(), &x, None, &rules).unwrap();
    for choice in 0..16_usize {
        let [query, key, value, output] = [0, 1, 2, 3].map(|bit| choice >> bit & 1 == 1);
        let bias = Biases { query, key, value, output };
        let some = wide(AttentionConfig { fused: false, bias, ..grouped() });
        let parameters: Vec<String> = some.parameters().into_iter().map(|(name, _)| name).collect();
        let wanted = [query, key, value, output];
        for (name, wanted) in names.iter().zip(wanted) {
            assert_eq!(parameters.iter().any(|known| known == name), wanted, "{bias:?}: {name}");
        }
        assert_eq!(some.output_bias().is_some(), output);
        // The same as having all, those that are missing being 0.
        let mut all = wide(AttentionConfig { fused: false, ..grouped() });
        for (name, parameter) in all.parameters_mut() {
            if names.iter().zip(wanted).any(|(known, wanted)| *known == name && !wanted) {
                let zeros = vec![0.0; parameter.tensor().count()];
                parameter.tensor_mut().set_values(&zeros).unwrap();
            }
        }
        same_bits(&format!("{bias:?}"), &run(&some), &run(&all));
        // One projection for queries, keys and values has one bias.
        let fused = AttentionConfig { fused: true, bias, ..grouped() };
        let built = MultiHead::new(&Initial::new(0), fused, DRAW).map(|heads| heads.parameters().len());
        if query == key && key == value {
            assert_eq!(built.unwrap(), 2 + usize::from(query) + usize::from(output));
        } else {
            let expected =
                "multi-head attention: a fused projection has one bias for queries, keys and values, or none";
            assert_eq!(built.unwrap_err().to_string(), expected);
        }
    }
}
