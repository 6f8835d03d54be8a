//! What a probe changes, against the same done by hand.

use crate::golden::agree;
use crate::numbers::{distance, ids, normal, same_bits};
use crate::zoo;
use regard_nn::attention::{
    AttentionConfig, AttentionKind, MultiHead, Pattern, Rules, Scale, scaled_dot_product,
};
use regard_nn::layers::{Linear, LinearConfig};
use regard_nn::models::{Inputs, Model, Transformer};
use regard_nn::tensor::ops::concatenate;
use regard_nn::tensor::{Ids, Mask, Tensor};
use regard_nn::{Context, Draw, Initial, Module, Probe, Result};

/// One attention with three heads over two texts of five words.
struct Layer {
    heads: MultiHead,
    x: Tensor,
    rules: Rules,
}

const PATH: &str = "layers.0.self";

fn layer() -> Layer {
    let draw = Draw::Normal(0.4);
    let heads = MultiHead::new(&Initial::new(1), AttentionConfig::new(12, 3), (draw, draw)).unwrap();
    Layer { heads, x: normal("x", [2, 5, 12]), rules: Rules::new(Pattern::Causal, 5, 5).unwrap() }
}

impl Layer {
    fn run(&self, probe: &Probe) -> Result<Tensor> {
        let context = Context::inference().with_probe(probe);
        self.heads.forward(&context.within(PATH), &self.x, None, &self.rules)
    }

    fn value(&self, site: &str) -> Tensor {
        let site = format!("{PATH}.{site}");
        let probe = Probe::new().record(&site);
        self.run(&probe).unwrap();
        probe.get(&site).unwrap().unwrap()
    }

    /// What the layer says if its heads say this.
    fn finish(&self, heads: &Tensor) -> Tensor {
        let mut last = Linear::new(&Initial::new(0), LinearConfig::new(12, 12), Draw::Constant(0.0)).unwrap();
        let own = self.heads.parameters();
        for (name, parameter) in last.parameters_mut() {
            let (_, from) = own.iter().find(|(known, _)| *known == format!("output.{name}")).unwrap();
            parameter.tensor_mut().set_values(&from.tensor().values()).unwrap();
        }
        last.forward(&Context::inference(), &heads.reshape([2, 5, 12]).unwrap()).unwrap()
    }
}

/// (batch, time, heads, width) with head 1 replaced.
fn with_head(heads: &Tensor, head: &Tensor) -> Tensor {
    let part = |i| heads.slice(2, i, 1).unwrap();
    concatenate(&[&part(0), head, &part(2)], 2).unwrap()
}

#[test]
fn a_head_is_silenced_averaged_or_told_what_to_say() {
    let layer = layer();
    let heads = layer.value("heads");
    let head = heads.slice(2, 1, 1).unwrap(); // (2, 5, 1, 4)
    let plain = layer.run(&Probe::new()).unwrap();
    agree("what is finished by hand", &layer.finish(&heads), &plain, 1e-6);

    let silent = layer.run(&Probe::new().zero_head(PATH, 1)).unwrap();
    agree("silent", &silent, &layer.finish(&with_head(&heads, &Tensor::zeros([2, 5, 1, 4]))), 1e-6);

    let mean = head.reshape([10, 4]).unwrap().mean(0).unwrap();
    let everywhere = |vector: &Tensor| Tensor::zeros([2, 5, 1, 4]).add(vector).unwrap();
    let averaged = layer.run(&Probe::new().mean_head(PATH, 1)).unwrap();
    agree("mean", &averaged, &layer.finish(&with_head(&heads, &everywhere(&mean))), 1e-6);

    let vector = normal("vector", [4]);
    let told = layer.run(&Probe::new().set_head(PATH, 1, vector.clone())).unwrap();
    agree("told", &told, &layer.finish(&with_head(&heads, &everywhere(&vector))), 1e-6);

    let other = normal("other run", [2, 5, 3, 4]);
    let patched = layer.run(&Probe::new().patch_head(PATH, 1, other.clone())).unwrap();
    agree("patched", &patched, &layer.finish(&with_head(&heads, &other.slice(2, 1, 1).unwrap())), 1e-6);
    for changed in [silent, averaged, told, patched] {
        assert!(distance(&changed, &plain) > 0.01);
    }
}

#[test]
fn values_and_positions_are_patched_from_another_run() {
    let gpt = &zoo::all()[0].model;
    let (first, second) = (ids("first", 13, [2, 6]), ids("second", 13, [2, 6]));
    let run = |ids: &Ids, probe: &Probe| {
        gpt.forward(&Context::inference().with_probe(probe), &Inputs::ids(ids)).unwrap()
    };
    let record = Probe::new().record("layers.*.residual.after").record("embeddings");
    let other = run(&second, &record);
    // With the whole stream of another run, everything after is that run's.
    for site in ["embeddings", "layers.0.residual.after", "layers.1.residual.after"] {
        let value = record.get(site).unwrap().unwrap();
        same_bits(site, &run(&first, &Probe::new().patch(site, value)), &other);
    }
    // With one position of the embeddings, it is as if that word had been another.
    let mut mixed = first.values().to_vec();
    for row in 0..2 {
        mixed[row * 6 + 3] = second.values()[row * 6 + 3];
    }
    let mixed = run(&Ids::new(&mixed, [2, 6]).unwrap(), &Probe::new());
    let embeddings = record.get("embeddings").unwrap().unwrap();
    same_bits("position", &run(&first, &Probe::new().patch_position("embeddings", 3, embeddings)), &mixed);
}

/// The reference with some pairs blocked: (batch, heads, time, width).
fn blocked_by_hand(layer: &Layer, blocked: impl Fn(usize, usize, usize) -> bool) -> Tensor {
    let [query, key, value] =
        ["query", "key", "value"].map(|site| layer.value(site).permute(&[0, 2, 1, 3]).unwrap());
    let mask = Mask::from_fn([1, 3, 5, 5], |at| at[3] <= at[2] && !blocked(at[1], at[2], at[3]));
    let (output, _) = scaled_dot_product(&query, &key, &value, Some(&mask), Scale::InverseRoot).unwrap();
    layer.finish(&output.permute(&[0, 2, 1, 3]).unwrap())
}

#[test]
fn an_edge_is_blocked_and_its_weight_goes_to_the_others() {
    let layer = layer();
    let probe =
        Probe::new().block(PATH, Some(1), 3, 0).block(PATH, None, 4, 2).record(format!("{PATH}.weights"));
    let output = layer.run(&probe).unwrap();
    let blocked = |head, query, key| (head, query, key) == (1, 3, 0) || (query, key) == (4, 2);
    agree("blocked", &output, &blocked_by_hand(&layer, blocked), 1e-6);
    let weights = probe.weights(PATH).unwrap().head(1, 1).unwrap();
    let row = &weights.values()[15..20];
    assert!(row[0] == 0.0 && (row.iter().sum::<f32>() - 1.0).abs() < 1e-6, "{row:?}");
    // A query that may look at nobody says nothing.
    let nobody = layer.run(&Probe::new().block(PATH, None, 0, 0)).unwrap();
    agree("nobody", &nobody, &blocked_by_hand(&layer, |_, query, key| (query, key) == (0, 0)), 1e-6);
}

#[test]
fn edges_are_blocked_under_any_mask() {
    let plain = layer();
    for (examples, heads) in [(1, 3), (2, 1), (2, 3), (1, 1)] {
        let key = regard_nn::tensor::random::Key::new(2);
        let open =
            |plane: usize, q: usize, k: usize| k == 0 || key.uniform(plane as u64, (q * 5 + k) as u64) < 0.6;
        let mask = Mask::from_fn([examples, heads, 5, 5], |at| open(at[0] * heads + at[1], at[2], at[3]));
        let rules = Rules::new(Pattern::Explicit(mask), 5, 5).unwrap();
        let layer = Layer { rules, heads: plain.heads.clone(), x: plain.x.clone() };
        let probe = Probe::new().block(PATH, Some(2), 4, 0).record(format!("{PATH}.weights"));
        layer.run(&probe).unwrap();
        let weights = probe.weights(PATH).unwrap();
        for (example, head) in [(0, 0), (0, 2), (1, 1), (1, 2)] {
            let seen = weights.head(example, head).unwrap();
            for (pair, &weight) in seen.values().iter().enumerate() {
                let (query, key) = (pair / 5, pair % 5);
                let blocked = (head, query, key) == (2, 4, 0);
                let allowed = open(example % examples * heads + head % heads, query, key) && !blocked;
                assert_eq!(weight > 0.0, allowed, "{examples}×{heads}: {example} {head} {query} {key}");
            }
        }
    }
}

#[test]
fn scores_and_weights_can_be_changed_in_every_kind_of_attention() {
    for kind in crate::causality::KINDS {
        let draw = Draw::Normal(0.4);
        let config = AttentionConfig { kind, ..AttentionConfig::new(12, 3) };
        let heads = MultiHead::new(&Initial::new(1), config, (draw, draw)).unwrap();
        let layer = Layer { heads, ..layer() };
        let plain = layer.run(&Probe::new()).unwrap();
        for site in ["scores", "weights"] {
            let site = format!("{PATH}.{site}");
            let same = Probe::new().change(&site, |_, value| Ok(value));
            agree("a change that changes nothing", &layer.run(&same).unwrap(), &plain, 2e-6);
            let squared = Probe::new().change(&site, |_, value| Ok(value.multiply(&value)?));
            assert!(distance(&layer.run(&squared).unwrap(), &plain) > 1e-3, "{kind:?} {site}");
        }
        // Weights that look only at oneself let each head say its own value.
        let oneself = |_: &str, weights: Tensor| {
            let [batch, heads, queries, keys] = weights.shape()[..] else { panic!() };
            let one: Vec<f32> = (0..queries * keys).map(|i| f32::from(i / keys == i % keys)).collect();
            Ok(Tensor::zeros([batch, heads, queries, keys]).add(&Tensor::new(&one, [queries, keys])?)?)
        };
        let output = layer.run(&Probe::new().change(format!("{PATH}.weights"), oneself)).unwrap();
        agree("oneself", &output, &layer.finish(&layer.value("value")), 1e-6);
        if kind == AttentionKind::Softmax {
            assert!(distance(&output, &plain) > 0.01);
        }
    }
}

#[test]
fn changes_follow_one_another_and_reach_all_sites_that_match() {
    let gpt = Transformer::new(zoo::gpt_config().form(), 1).unwrap();
    let text = Inputs::ids(&ids("text", 13, [1, 5]));
    let probe = Probe::new()
        .change("layers.*.ffn.output", |_, value| Ok(value.scale(0.0)?))
        .change("layers.1.ffn.output", |site, value| {
            assert_eq!(site, "layers.1.ffn.output");
            Ok(value.shift(2.0)?)
        })
        .record("layers.*.ffn.output");
    gpt.forward(&Context::inference().with_probe(&probe), &text).unwrap();
    let said = |layer: usize| probe.get(&format!("layers.{layer}.ffn.output")).unwrap().unwrap();
    assert!(said(0).values().iter().all(|&value| value == 0.0));
    assert!(said(1).values().iter().all(|&value| value == 2.0));
}

#[test]
fn a_change_that_does_not_fit_is_refused_with_the_site() {
    let layer = layer();
    let refused = |probe: Probe| layer.run(&probe).unwrap_err().to_string();
    assert_eq!(
        refused(Probe::new().patch(&format!("{PATH}.output"), Tensor::zeros([2, 5]))),
        "probe: a change at layers.0.self.output turned [2×5×12] into [2×5]"
    );
    for probe in [
        Probe::new().zero_head(PATH, 3),
        Probe::new().patch_head(PATH, 1, Tensor::zeros([2, 5, 1, 4])),
        Probe::new().set_head(PATH, 0, Tensor::zeros([3])),
        Probe::new().patch_position(&format!("{PATH}.heads"), 5, Tensor::zeros([2, 5, 3, 4])),
    ] {
        let text = refused(probe);
        assert!(text.starts_with("probe: a change at layers.0.self.heads failed: "), "{text}");
    }
}

/// What every model of the zoo with layers reads, and the names of its layers.
fn residual_sites(model: &dyn Model, inputs: &Inputs) -> Vec<String> {
    let probe = Probe::new();
    model.hidden(&Context::inference().with_probe(&probe), inputs).unwrap();
    probe.sites().into_iter().filter(|site| site.ends_with("residual.before")).collect()
}

#[test]
fn a_pass_resumes_at_any_layer_of_any_model() {
    let mut resumed = 0;
    for zoo::Specimen { name, model } in zoo::all() {
        let (inputs, _) = zoo::question(&*model).unwrap();
        let sites = residual_sites(&*model, &inputs);
        let all = Probe::new().record("*.*.self.heads").record("*.*.*.self.heads");
        let all = sites.iter().fold(all, Probe::record);
        let whole = model.hidden(&Context::inference().with_probe(&all), &inputs).unwrap();
        for site in &sites {
            let layer = site.trim_end_matches(".residual.before");
            let stored = all.get(site).unwrap().unwrap();
            // What is changed where the pass resumes has been changed already.
            let probe = Probe::new().scale(site, None, 7.0).resume(layer, stored.clone());
            let again = model.hidden(&Context::inference().with_probe(&probe), &inputs).unwrap();
            agree(&format!("{name} from {layer}"), &again, &whole, 1e-6);
            // One layer alone has the same heads.
            let heads = format!("{layer}.self.heads");
            let probe = Probe::new().record(&heads).resume(layer, stored).stop_after(layer);
            model.hidden(&Context::inference().with_probe(&probe), &inputs).unwrap();
            let (alone, within) = (probe.get(&heads).unwrap(), all.get(&heads).unwrap());
            agree(&format!("{name}, {layer} alone"), &alone.unwrap(), &within.unwrap(), 1e-6);
            resumed += 1;
        }
    }
    assert!(resumed > 20, "only {resumed} layers were tried");
    let gpt = Transformer::new(zoo::gpt_config().form(), 1).unwrap();
    let wrong = Probe::new().resume("layers.1", Tensor::zeros([1, 3, 16]));
    let text = Inputs::ids(&Ids::new(&[1, 2], [1, 2]).unwrap());
    assert!(gpt.hidden(&Context::inference().with_probe(&wrong), &text).is_err(), "another length");
}

#[test]
fn a_residual_stream_is_scaled_and_steered() {
    let gpt = Transformer::new(zoo::gpt_config().form(), 1).unwrap();
    let site = "layers.0.residual.after";
    let run = |probe: &Probe, text: &[u32]| {
        let inputs = Inputs::ids(&Ids::new(text, [1, text.len()]).unwrap());
        gpt.forward_last(&Context::inference().with_probe(probe), &inputs).unwrap()
    };
    let value = |probe: Probe, text: &[u32]| {
        let probe = probe.record(site);
        run(&probe, text);
        probe.get(site).unwrap().unwrap()
    };
    let text = [3, 1, 4];
    let plain = value(Probe::new(), &text);
    let tripled = value(Probe::new().scale(site, Some(1), 3.0), &text);
    for position in 0..3 {
        let factor = if position == 1 { 3.0 } else { 1.0 };
        let expected = plain.select(1, position).unwrap().scale(factor).unwrap();
        agree("scaled", &tripled.select(1, position).unwrap(), &expected, 1e-6);
    }
    // Steered all the way at the last position of the last layer, a text continues as the other does.
    let last = "layers.1.residual.after";
    let other = Probe::new().record(last);
    let expected = run(&other, &[9, 2, 6, 5]);
    let toward = other.get(last).unwrap().unwrap().select(1, 3).unwrap();
    let steered = |factor: f32| run(&Probe::new().steer(last, Some(2), (2, toward.clone()), factor), &text);
    agree("steered", &steered(1.0), &expected, 1e-5);
    agree("not steered", &steered(0.0), &run(&Probe::new(), &text), 1e-6);
    // Everywhere, every position moves by the same vector.
    let toward = value(Probe::new(), &[9, 2]).select(1, 1).unwrap();
    let moved = value(Probe::new().steer(site, None, (2, toward.clone()), 0.5), &text);
    let vector = toward.subtract(&plain.select(1, 2).unwrap()).unwrap().scale(0.5).unwrap();
    for position in 0..3 {
        let expected = plain.select(1, position).unwrap().add(&vector).unwrap();
        agree("moved", &moved.select(1, position).unwrap(), &expected, 1e-6);
    }
}
