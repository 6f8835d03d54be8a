//! A mixture of experts, against one in which every expert reads every token.

use crate::golden::agree;
use crate::numbers::{gradients, normal};
use crate::zoo;
use regard_nn::layers::{Activation, FeedForwardConfig, Mixture, MixtureConfig};
use regard_nn::tensor::Tensor;
use regard_nn::tensor::ops::Layout;
use regard_nn::{Context, Draw, Initial, Module, Probe};

const DRAW: (Draw, Draw) = (Draw::Constant(0.0), Draw::Constant(0.0));
const EXPERTS: usize = 4;

fn mixture(config: MixtureConfig, clamp: Option<f32>) -> Mixture {
    let expert = FeedForwardConfig {
        d_model: 6,
        d_hidden: 5,
        activation: Activation::QuickGelu,
        gated: true,
        clamp,
        bias: true,
        layout: Layout::OutIn,
        mixture: None,
    };
    let mut mixture = Mixture::new(&Initial::new(0), (config, expert), DRAW).unwrap();
    zoo::widen(&mut mixture);
    mixture
}

/// min(x, limit) and, if `both`, at least −limit, value by value; a product with 0 where it is cut off.
fn cut(x: &Tensor, limit: f32, both: bool) -> Tensor {
    let within = |v: f32| v <= limit && (!both || v >= -limit);
    let keep: Vec<f32> = x.values().iter().map(|&v| f32::from(within(v))).collect();
    let rest: Vec<f32> =
        x.values().iter().map(|&v| if within(v) { 0.0 } else { limit * v.signum() }).collect();
    let [keep, rest] = [keep, rest].map(|values| Tensor::new(&values, x.shape()).unwrap());
    x.multiply(&keep).unwrap().add(&rest).unwrap()
}

/// All experts of all tokens x (tokens, width), weighted: what was not chosen by 0.
fn by_hand(mixture: &Mixture, config: MixtureConfig, clamp: Option<f32>, x: &Tensor) -> (Tensor, Tensor) {
    let context = Context::differentiated();
    let all = mixture.parameters();
    let parameter = |name: &str| {
        let found = all.iter().find(|(known, _)| known == name);
        found.map(|(_, parameter)| context.parameter(parameter))
    };
    let linear = |name: &str, x: &Tensor| {
        let weight = parameter(&format!("{name}.weight")).unwrap();
        let bias = parameter(&format!("{name}.bias"));
        x.linear(&weight, bias.as_ref(), Layout::OutIn, None).unwrap()
    };
    let tokens = x.shape()[0];
    let chances = linear("router", x).softmax().unwrap();
    let mut kept = vec![0.0; tokens * EXPERTS];
    for (row, kept) in chances.values().chunks(EXPERTS).zip(kept.chunks_mut(EXPERTS)) {
        for (expert, kept) in kept.iter_mut().enumerate() {
            let better = row.iter().filter(|&&other| other > row[expert]).count();
            *kept = f32::from(better < config.active);
        }
    }
    let mut weights = chances.multiply(&Tensor::new(&kept, [tokens, EXPERTS]).unwrap()).unwrap();
    if config.normalised {
        let sum = weights.sum(-1).unwrap().reshape([tokens, 1]).unwrap();
        weights = weights.divide(&sum).unwrap();
    }
    let mut total = Tensor::zeros(x.shape());
    for expert in 0..EXPERTS {
        let part = |name: &str, x: &Tensor| linear(&format!("experts.{expert}.{name}"), x);
        let (mut gate, mut up) = (part("gate", x), part("up", x));
        if let Some(limit) = clamp {
            gate = cut(&gate, limit, false);
            up = cut(&up, limit, true).shift(1.0).unwrap();
        }
        let gate = gate.multiply(&gate.scale(1.702).unwrap().sigmoid().unwrap()).unwrap();
        let value = part("down", &gate.multiply(&up).unwrap());
        let weight = weights.slice(1, expert, 1).unwrap();
        total = total.add(&value.multiply(&weight).unwrap()).unwrap();
    }
    (total, weights)
}

#[test]
fn experts_say_what_they_would_say_if_all_read_everything() {
    let x = normal("x", [2, 7, 6]).tracked();
    for active in 1..=EXPERTS {
        for (normalised, clamp) in [(true, None), (false, Some(0.7)), (true, Some(0.7)), (false, None)] {
            let config = MixtureConfig { experts: EXPERTS, active, normalised, router_bias: normalised };
            let what = format!("{config:?}, {clamp:?}");
            let mixture = mixture(config, clamp);
            let probe = Probe::new().record("router");
            let got = mixture.forward(&Context::differentiated().with_probe(&probe), &x).unwrap();
            let rows = x.reshape([14, 6]).unwrap();
            let (want, weights) = by_hand(&mixture, config, clamp, &rows);
            agree(&what, &got, &want.reshape([2, 7, 6]).unwrap(), 1e-6);
            let shown = probe.get("router").unwrap().unwrap();
            agree(&what, &shown.reshape([14, EXPERTS]).unwrap(), &weights.detach(), 1e-6);
            let parameters = mixture.parameters();
            let leaves: Vec<&Tensor> =
                [&x].into_iter().chain(parameters.iter().map(|(_, parameter)| parameter.tensor())).collect();
            let slow = gradients(&want.reshape([2, 7, 6]).unwrap(), &leaves);
            for ((got, want), i) in gradients(&got, &leaves).iter().zip(&slow).zip(0..) {
                agree(&format!("{what}, gradient {i}"), got, want, 1e-5);
            }
        }
    }
}

#[test]
fn a_token_cannot_take_more_experts_than_there_are() {
    for (experts, active) in [(3, 4), (3, 0), (0, 0)] {
        let config = MixtureConfig { experts, active, normalised: true, router_bias: false };
        let expert = FeedForwardConfig {
            d_model: 6,
            d_hidden: 5,
            activation: Activation::Silu,
            gated: false,
            clamp: None,
            bias: false,
            layout: Layout::OutIn,
            mixture: None,
        };
        let error = Mixture::new(&Initial::new(0), (config, expert), DRAW).unwrap_err().to_string();
        assert_eq!(error, format!("mixture of experts: a token cannot take {active} of {experts} experts"));
    }
}
