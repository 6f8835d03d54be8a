//! The sites of every model: all that are documented are there, with the shapes that are documented.

use crate::numbers::{ids, same_bits};
use crate::zoo::{self, Specimen};
use regard_nn::models::form::{AttentionPositions, Form};
use regard_nn::models::{Inputs, Model};
use regard_nn::{Context, Probe};
use std::collections::BTreeMap;

const BATCH: usize = 3;
const TIME: usize = 7;

/// The sizes that a site's shape depends on.
#[derive(Clone, Copy)]
struct Sizes {
    time: usize,
    d_model: usize,
    d_hidden: usize,
    heads: usize,
    kv_heads: usize,
    d_head: usize,
    rotary: bool,
}

/// The documented sites of one attention.
fn attention(sites: &mut BTreeMap<String, Vec<usize>>, path: &str, sizes: Sizes, keys: usize) {
    let Sizes { time, d_model, heads, kv_heads, d_head, .. } = sizes;
    let mut add = |name: &str, shape: [usize; 4]| sites.insert(format!("{path}.{name}"), shape.to_vec());
    add("query", [BATCH, time, heads, d_head]);
    add("key", [BATCH, keys, kv_heads, d_head]);
    add("value", [BATCH, keys, kv_heads, d_head]);
    if sizes.rotary {
        add("query_rotated", [BATCH, time, heads, d_head]);
        add("key_rotated", [BATCH, keys, kv_heads, d_head]);
    }
    add("scores", [BATCH, heads, time, keys]);
    add("weights", [BATCH, heads, time, keys]);
    add("heads", [BATCH, time, heads, d_head]);
    sites.insert(format!("{path}.output"), vec![BATCH, time, d_model]);
}

/// The documented sites of some layers.
fn layers(
    sites: &mut BTreeMap<String, Vec<usize>>,
    path: &str,
    count: usize,
    sizes: Sizes,
    memory: Option<usize>,
) {
    let stream = vec![BATCH, sizes.time, sizes.d_model];
    sites.insert(format!("{path}embeddings"), stream.clone());
    for layer in (0..count).map(|i| format!("{path}layers.{i}")) {
        for name in ["residual.before", "residual.middle", "residual.after", "ffn.output"] {
            sites.insert(format!("{layer}.{name}"), stream.clone());
        }
        sites.insert(format!("{layer}.ffn.hidden"), vec![BATCH, sizes.time, sizes.d_hidden]);
        attention(sites, &format!("{layer}.self"), sizes, sizes.time);
        if let Some(memory) = memory {
            attention(sites, &format!("{layer}.cross"), sizes, memory);
        }
    }
}

/// Layers with experts show the weights of these in place of what is inside them.
fn routers(sites: &mut BTreeMap<String, Vec<usize>>, form: &Form) {
    let stack = form.last_stack().unwrap();
    for i in 0..stack.n_layers {
        if let Some(mixture) = stack.layer(i).feed_forward.mixture {
            sites.remove(&format!("layers.{i}.ffn.hidden"));
            sites.insert(format!("layers.{i}.ffn.router"), vec![BATCH, TIME, mixture.experts]);
        }
    }
}

/// The first layer of a form says what the others are.
fn first_attention(form: &Form) -> &regard_nn::models::form::Attention {
    &form.last_stack().unwrap().layers[0].attention
}

fn documented(model: &dyn Model) -> BTreeMap<String, Vec<usize>> {
    let mut sites = BTreeMap::new();
    let words = vec![BATCH, TIME, zoo::VOCABULARY];
    let base =
        Sizes { time: TIME, d_model: 16, d_hidden: 24, heads: 2, kv_heads: 2, d_head: 8, rotary: false };
    let (kind, form, has_heads) = (model.kind(), model.form(), !model.attentions().is_empty());
    match (kind, form) {
        ("gpt", Some(form)) => {
            let rotary = matches!(first_attention(form).positions, Some(AttentionPositions::Rotary(_)));
            layers(&mut sites, "", 2, Sizes { d_hidden: 64, rotary, ..base }, None);
            routers(&mut sites, form);
            sites.insert("logits".to_owned(), words);
        }
        ("bert", Some(form)) => {
            layers(&mut sites, "", 2, base, None);
            if form.output.tokens.is_some() {
                sites.insert("logits".to_owned(), words);
            } else if form.output.classes.is_some() {
                sites.insert("logits".to_owned(), vec![BATCH, 3]);
            }
        }
        ("t5", Some(_)) => {
            let sizes = Sizes { d_head: 6, ..base };
            layers(&mut sites, "encoder.", 2, sizes, None);
            layers(&mut sites, "decoder.", 1, sizes, Some(TIME));
            sites.insert("logits".to_owned(), words);
        }
        ("llama", Some(form)) => {
            let d_head = first_attention(form).d_head;
            layers(&mut sites, "", 2, Sizes { heads: 4, d_head, rotary: true, ..base }, None);
            routers(&mut sites, form);
            let classes = form.output.classes.map(|classes| vec![BATCH, classes]);
            sites.insert("logits".to_owned(), classes.unwrap_or(words));
        }
        ("vit", Some(_)) => {
            layers(&mut sites, "", 2, base, None);
            sites.insert("logits".to_owned(), vec![BATCH, 3]);
        }
        ("sentiment", _) => {
            sites.insert("embeddings".to_owned(), vec![BATCH, TIME, 6]);
            sites.insert("pool.weights".to_owned(), vec![BATCH, TIME]);
            sites.insert("logits".to_owned(), vec![BATCH]);
            if has_heads {
                attention(&mut sites, "layers.0.self", base, TIME);
            }
        }
        ("bag", _) => {
            sites.insert("embeddings".to_owned(), vec![BATCH, TIME, 8]);
            sites.insert("logits".to_owned(), vec![BATCH]);
            if has_heads {
                attention(&mut sites, "layers.0.self", Sizes { d_model: 8, d_head: 4, ..base }, TIME);
            }
        }
        ("tagger", _) => {
            sites.insert("embeddings".to_owned(), vec![BATCH, TIME, 12]);
            sites.insert("logits".to_owned(), vec![BATCH, TIME, 2]);
            attention(&mut sites, "layers.0.self", Sizes { d_model: 12, d_head: 6, ..base }, TIME);
        }
        (other, _) => panic!("{other}?"),
    }
    sites
}

fn run(specimen: &Specimen, probe: &Probe) -> regard_nn::tensor::Tensor {
    specimen.loss(&Context::inference().with_probe(probe)).unwrap()
}

#[test]
fn every_documented_site_is_there_with_its_shape() {
    for specimen in zoo::all() {
        let want = documented(&*specimen.model);
        let probe = want.keys().fold(Probe::new(), Probe::record);
        run(&specimen, &probe);
        assert_eq!(probe.unmatched(), Vec::<&str>::new(), "{}", specimen.name);
        assert_eq!(probe.recorded(), want.keys().cloned().collect::<Vec<_>>(), "{}", specimen.name);
        for (site, shape) in &want {
            let value = probe.get(site).unwrap().unwrap();
            assert_eq!(value.shape()[..], shape[..], "{}: {site}", specimen.name);
            assert!(!value.is_tracked(), "{}: {site} was only recorded", specimen.name);
        }
    }
}

#[test]
fn an_idle_probe_sees_every_site_and_changes_no_bit() {
    for specimen in zoo::all() {
        let plain = specimen.loss(&Context::inference()).unwrap();
        let idle = Probe::new();
        same_bits(specimen.name, &run(&specimen, &idle), &plain);
        let want: Vec<String> = documented(&*specimen.model).into_keys().collect();
        assert_eq!(idle.sites(), want, "{}", specimen.name);
        assert!(idle.recorded().is_empty() && idle.get("logits").unwrap().is_none());
        // Nor does looking at everything, save at logits in a loss, which are otherwise never there as a whole.
        let inside = want.iter().filter(|site| *site != "logits");
        let all = inside.fold(Probe::new(), Probe::record);
        same_bits(specimen.name, &run(&specimen, &all), &plain);
    }
}

#[test]
fn patterns_that_match_nothing_are_named() {
    let specimen = &zoo::all()[0];
    let probe = Probe::new()
        .record("layers.*.self.weights")
        .record("layers.7.self.weights")
        .record("layer.0.self.query")
        .zero_head("layers.1.self", 0)
        .block("layers.0.cross", None, 0, 0);
    run(specimen, &probe);
    assert_eq!(probe.unmatched(), ["layers.7.self.weights", "layer.0.self.query", "layers.0.cross.weights"]);
}

#[test]
fn a_probe_that_is_used_again_shows_the_last_pass() {
    let gpt = &zoo::all()[0].model;
    let probe = Probe::new().record("logits").record("layers.0.self.weights");
    for time in [5, 3] {
        let text = ids("text", zoo::VOCABULARY, [2, time]);
        let logits = gpt.forward(&Context::inference().with_probe(&probe), &Inputs::ids(&text)).unwrap();
        same_bits("logits", &probe.get("logits").unwrap().unwrap(), &logits);
        assert_eq!(probe.weights("layers.0.self").unwrap().sizes(), [2, 2, time, time]);
    }
}

#[test]
fn what_only_tells_who_won_cannot_be_changed() {
    let specimens = zoo::all();
    for name in ["sentiment, max", "sentiment, heads"] {
        let specimen = specimens.iter().find(|specimen| specimen.name == name).unwrap();
        for probe in
            [Probe::new().track("pool.weights"), Probe::new().change("pool.weights", |_, value| Ok(value))]
        {
            let error = specimen.loss(&Context::inference().with_probe(&probe)).unwrap_err().to_string();
            assert!(error.starts_with("sentiment: pool.weights tell who had the largest values"), "{error}");
        }
    }
    let additive = specimens.iter().find(|specimen| specimen.name == "sentiment, additive").unwrap();
    let probe = Probe::new().track("pool.weights");
    let loss = run(additive, &probe);
    let weights = probe.get("pool.weights").unwrap().unwrap();
    assert!(loss.backward().unwrap().get(&weights).is_some(), "attention's weights can");
}
