//! What a form may say that no family of checkpoints does, against the same done by hand.

use crate::cache::check_causal;
use crate::golden::agree;
use crate::numbers::{distance, ids, same_bits};
use crate::zoo::{self, stack};
use regard_nn::attention::{AttentionKind, Pattern, Scale};
use regard_nn::layers::{Activation, NormConfig};
use regard_nn::models::form::{Form, Input, Positions, TokenScores, Tokens, Window};
use regard_nn::models::{GptConfig, Inputs, LlamaConfig, Model, Reads, Recipe, T5Config, Transformer};
use regard_nn::position::Position;
use regard_nn::tensor::ops::Layout;
use regard_nn::tensor::{Ids, Mask, Tensor};
use regard_nn::{Context, Module, Probe};
use serde_json::{Value, json};

fn build(form: Form) -> Transformer {
    let mut model = Transformer::new(form, 1).unwrap();
    zoo::widen(&mut model);
    model
}

fn text() -> Ids {
    ids("text", zoo::VOCABULARY, [2, 9])
}

fn forward(model: &dyn Model, probe: &Probe) -> Tensor {
    model.forward(&Context::inference().with_probe(probe), &Inputs::ids(&text())).unwrap()
}

fn value<'a>(model: &'a dyn Model, name: &str) -> &'a Tensor {
    let all = model.parameters();
    all.into_iter().find(|(known, _)| known == name).unwrap_or_else(|| panic!("{name}?")).1.tensor()
}

/// Every form here that continues texts.
fn newer() -> [Form; 6] {
    [
        zoo::sandwich(),
        zoo::parallel(),
        zoo::narrow(),
        zoo::one_layer(),
        zoo::experts(),
        zoo::experts_by_turns(),
    ]
}

#[test]
fn a_cache_serves_every_form() {
    for form in newer() {
        let longer = match stack(&mut form.clone()).positions {
            Positions::Learned { .. } => 9,
            _ => 40,
        };
        let text = ids("text", zoo::VOCABULARY, [2, longer]);
        let model = build(form);
        for pieces in [vec![1; longer], vec![3, longer - 5, 1, 1]] {
            check_causal(&model, &text, &pieces);
        }
    }
}

/// Positions that leave out padding count on where the cache ends, if a decoder may have them at all.
#[test]
fn positions_that_skip_padding_go_on_after_a_cache() {
    let mut form = zoo::gpt_config().form();
    stack(&mut form).positions = Positions::Learned { context: 9, offset: 2, skips_padding: true };
    if let Ok(mut model) = Transformer::new(form, 1) {
        zoo::widen(&mut model);
        check_causal(&model, &text(), &[4, 3, 2]);
    }
}

#[test]
fn windows_alternate_between_layers() {
    let mut form = zoo::parallel();
    stack(&mut form).n_layers = 5;
    let model = build(form.clone());
    let probe = Probe::new().record("layers.*.self.weights");
    let logits = forward(&model, &probe);
    let window = Window { before: 2, after: 0 };
    for (layer, site) in model.attentions().iter().enumerate() {
        let near = layer % 2 == 0;
        assert_eq!(site.visibility.window, near.then_some(window), "{}", site.name);
        assert!(site.visibility.causal);
        let weights = probe.get(&format!("{}.weights", site.name)).unwrap().unwrap();
        for (i, &weight) in weights.values().iter().enumerate() {
            let (query, key) = (i / 9 % 9, i % 9);
            let seen = site.visibility.keys(query, 9);
            assert_eq!(seen, if near { query.saturating_sub(2)..query + 1 } else { 0..query + 1 });
            assert_eq!(weight > 0.0, seen.contains(&key), "{}: {query} {key}", site.name);
        }
    }
    // The same weights under one window, and under none, are other models.
    for kept in [0, 1] {
        let mut one = form.clone();
        stack(&mut one).order = vec![kept];
        assert!(distance(&forward(&build(one), &Probe::new()), &logits) > 1e-3);
    }
    // An order that names each layer is the same as one that repeats.
    stack(&mut form).order = vec![0, 1, 0, 1, 0];
    same_bits("spelt out", &forward(&build(form.clone()), &Probe::new()), &logits);
    stack(&mut form).order = vec![0, 2];
    let error = Transformer::new(form, 1).unwrap_err().to_string();
    assert_eq!(error, "transformer: order names a form of layer that is none of 2");
}

#[test]
fn an_encoder_may_look_ahead_as_far_as_it_looks_back_or_not() {
    for window in [Window { before: 1, after: 2 }, Window { before: 3, after: 0 }] {
        let mut form = zoo::bert_config().form();
        stack(&mut form).layers[0].attention.window = Some(window);
        let model = build(form);
        let probe = Probe::new().record("layers.1.self.weights");
        forward(&model, &probe);
        let visibility = model.attentions()[1].visibility;
        let weights = probe.get("layers.1.self.weights").unwrap().unwrap();
        for (i, &weight) in weights.values().iter().enumerate() {
            let (query, key) = (i / 9 % 9, i % 9);
            let near = key + window.before >= query && key <= query + window.after;
            assert_eq!(weight > 0.0, near, "{window:?}: {query} {key}");
            assert_eq!(visibility.keys(query, 9).contains(&key), near, "{window:?}: {query} {key}");
        }
    }
}

#[test]
fn a_pattern_narrows_what_a_stack_allows() {
    let mut form = zoo::gpt_config().form();
    stack(&mut form).layers[0].attention.pattern = Some(Pattern::Strided(3));
    let probe = Probe::new().record("layers.0.self.weights");
    forward(&build(form), &probe);
    let weights = probe.get("layers.0.self.weights").unwrap().unwrap();
    for (i, &weight) in weights.values().iter().enumerate() {
        let (query, key) = (i / 9 % 9, i % 9);
        assert_eq!(weight > 0.0, key <= query && (query - key) % 3 == 0, "{query} {key}");
    }
}

#[test]
fn layers_that_share_weights_are_copies_of_one() {
    let mut form = zoo::one_layer();
    stack(&mut form).n_layers = 3;
    let shared = build(form.clone());
    stack(&mut form).shared = false;
    let mut apart = build(form);
    for (name, parameter) in apart.parameters_mut() {
        let one = name.replace("layers.1.", "layers.0.").replace("layers.2.", "layers.0.");
        parameter.tensor_mut().set_values(&value(&shared, &one).values()).unwrap();
    }
    let layers = |model: &Transformer| {
        let names =
            model.parameters().into_iter().map(|(name, _)| name).filter(|name| name.starts_with("layers."));
        names.collect::<Vec<_>>()
    };
    assert!(layers(&shared).iter().all(|name| name.starts_with("layers.0.")));
    assert_eq!(layers(&apart).len(), 3 * layers(&shared).len());
    let sites: Vec<String> = shared.attentions().into_iter().map(|site| site.name).collect();
    assert_eq!(sites, ["layers.0.self", "layers.1.self", "layers.2.self"]);
    same_bits("scores", &forward(&shared, &Probe::new()), &forward(&apart, &Probe::new()));
    // Each use of a layer adds to its gradient.
    let [of_shared, of_apart] = [&shared, &apart]
        .map(|model| zoo::loss(model, &Context::differentiated()).unwrap().backward().unwrap());
    for name in layers(&shared) {
        let each = (0..3).map(|layer| name.replace("layers.0.", &format!("layers.{layer}.")));
        let sum = each
            .map(|name| of_apart.get(value(&apart, &name)).unwrap())
            .reduce(|sum, gradient| sum.add(&gradient).unwrap());
        agree(&name, &of_shared.get(value(&shared, &name)).unwrap(), &sum.unwrap(), 1e-5);
    }
}

#[test]
fn narrow_embeddings_are_projected() {
    let model = build(zoo::narrow());
    let probe = Probe::new().record("embeddings");
    forward(&model, &probe);
    let table = value(&model, "tokens.weight").detach();
    assert_eq!(table.shape()[..], [zoo::VOCABULARY, 6]);
    let places = Ids::new(&(0..9).collect::<Vec<_>>(), [1, 9]).unwrap();
    let waves = regard_nn::position::sinusoidal(&places, 6).unwrap().scale(0.02).unwrap();
    let x = table.embedding(&text()).unwrap().scale(1.5).unwrap().add(&waves).unwrap();
    let [weight, bias] = ["projection.weight", "projection.bias"].map(|name| value(&model, name).detach());
    let want = x.linear(&weight, Some(&bias), Layout::OutIn, None).unwrap();
    agree("embeddings", &probe.get("embeddings").unwrap().unwrap(), &want, 1e-6);
}

/// ELECTRA's generator and ALBERT have such embeddings with learned positions and a table that scores.
#[test]
fn narrow_embeddings_that_can_be_built_can_be_read() {
    let norm = NormConfig::layer(1e-5);
    let learned = Positions::Learned { context: 9, offset: 0, skips_padding: false };
    for positions in [Positions::None, Positions::Sinusoidal { scale: 1.0, halves: false }, learned] {
        for tied in [false, true] {
            for transform in [None, Some((Activation::Gelu, norm))] {
                let mut form = zoo::bert_config().form();
                let tokens = Tokens { d_embedding: Some(6), types: 2, norm: Some(norm), ..Tokens::new(13) };
                form.input = Input::Tokens(tokens);
                form.output.tokens = Some(TokenScores { bias: true, transform, ..TokenScores::new(tied) });
                stack(&mut form).positions = positions;
                let what = format!("{positions:?}, tied {tied}, {transform:?}");
                // What cannot be run is refused when it is built.
                if let Ok(model) = Transformer::new(form, 1) {
                    let scores = model.forward(&Context::inference(), &Inputs::ids(&text()));
                    let scores = scores.unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert_eq!(scores.shape()[..], [2, 9, 13], "{what}");
                }
            }
        }
    }
    // This one makes sense in any case.
    let mut form = zoo::narrow();
    form.input = Input::Tokens(Tokens { d_embedding: Some(6), ..Tokens::new(13) });
    stack(&mut form).positions = learned;
    Transformer::new(form, 1).unwrap().forward(&Context::inference(), &Inputs::ids(&text())).unwrap();
}

#[test]
fn scores_are_divided_by_the_number_of_the_layer() {
    for (scaled, scale) in [(true, 1.0 / 8_f32.sqrt()), (false, 1.0)] {
        let mut form = GptConfig { scaled, n_layers: 3, ..zoo::gpt_config() }.form();
        stack(&mut form).layers[0].attention.scale_by_layer = true;
        let model = build(form);
        let probe = ["query", "key", "scores"]
            .into_iter()
            .fold(Probe::new(), |p, s| p.record(format!("layers.*.self.{s}")));
        forward(&model, &probe);
        for layer in 0..3 {
            let seen = |site: &str| probe.get(&format!("layers.{layer}.self.{site}")).unwrap().unwrap();
            let [query, key] = ["query", "key"].map(|site| seen(site).permute(&[0, 2, 1, 3]).unwrap());
            let products = query.matmul_transposed(&key, false, true).unwrap();
            let want = products.scale(scale / (layer + 1) as f32).unwrap();
            agree(&format!("layer {layer}, scaled {scaled}"), &seen("scores"), &want, 2e-6);
        }
    }
    // Another factor counts as well.
    let mut form = zoo::llama_config().form();
    let attention = &mut stack(&mut form).layers[0].attention;
    (attention.scale, attention.scale_by_layer) = (Scale::Factor(0.3), true);
    let factors = Transformer::new(form, 1).unwrap();
    let factors: Vec<f32> = factors
        .attentions()
        .iter()
        .map(|site| site.projections().unwrap().config().scale.factor(4))
        .collect();
    assert!((factors[0] - 0.3).abs() < 1e-6 && (factors[1] - 0.15).abs() < 1e-6, "{factors:?}");
}

#[test]
fn a_classifier_without_a_pooler_reads_the_first_position() {
    let form = zoo::with_heads(zoo::bert_config().form(), None, None, Some(3));
    let model = build(form);
    let context = Context::inference();
    let hidden = model.hidden(&context, &Inputs::ids(&text())).unwrap();
    let [weight, bias] = ["classifier.weight", "classifier.bias"].map(|name| value(&model, name).detach());
    let first = hidden.slice(1, 0, 1).unwrap();
    let want = first.linear(&weight, Some(&bias), Layout::OutIn, None).unwrap();
    agree("classes", &model.scores(&context, &hidden).unwrap(), &want, 1e-6);
}

/// Padding is left out by every form, wherever it stands.
#[test]
fn padding_changes_nothing() {
    let text = ids("text", 13, [1, 5]);
    let mut padded = vec![7; 3];
    padded.extend(text.values());
    let padded = Ids::new(&padded, [1, 8]).unwrap();
    let present = Mask::from_fn([1, 8], |at| at[1] >= 3);
    for form in newer() {
        let model = build(form);
        let alone = model.forward(&Context::inference(), &Inputs::ids(&text)).unwrap();
        let inputs = Inputs::masked(&padded, Some(&present));
        let beside = model.forward(&Context::inference(), &inputs).unwrap();
        agree(model.kind(), &beside.slice(1, 3, 5).unwrap(), &alone, 1e-5);
    }
}

#[test]
fn a_form_survives_being_written_down() {
    let specimens = zoo::all();
    let forms = specimens.iter().filter_map(|specimen| specimen.model.form().cloned());
    let mut exotic = zoo::parallel();
    let attention = &mut stack(&mut exotic).layers[1].attention;
    attention.pattern =
        Some(Pattern::All(vec![Pattern::Strided(2), Pattern::Window { before: 4, after: 1 }]));
    (attention.kind, attention.scale) = (AttentionKind::LearnedSink, Scale::Factor(0.37));
    for form in forms.chain([exotic]) {
        let text = serde_json::to_string(&form).unwrap();
        assert_eq!(serde_json::from_str::<Form>(&text).unwrap(), form, "{text}");
        let recipe = Recipe::Transformer(Box::new(form));
        let text = serde_json::to_string(&recipe).unwrap();
        assert_eq!(serde_json::from_str::<Recipe>(&text).unwrap(), recipe, "{text}");
    }
    // Settings that nobody reads are mistakes.
    let whole = serde_json::to_value(zoo::sandwich()).unwrap();
    for place in
        ["", "/input/tokens", "/decoder", "/decoder/layers/0", "/decoder/layers/0/attention", "/output"]
    {
        let mut form = whole.clone();
        let Some(Value::Object(part)) = form.pointer_mut(place) else { panic!("{place}?") };
        part.insert("colour".to_owned(), json!("red"));
        let error = serde_json::from_value::<Form>(form).unwrap_err().to_string();
        assert!(error.starts_with("unknown field `colour`"), "{place}: {error}");
    }
}

#[test]
fn a_recipe_builds_the_model_it_was_taken_from() {
    for specimen in zoo::all() {
        let recipe = Recipe::of(&*specimen.model).unwrap();
        let again = recipe.model(1).unwrap();
        assert_eq!(again.abilities(), specimen.model.abilities(), "{}", specimen.name);
        assert_eq!(recipe.form().ok().as_ref(), specimen.model.form(), "{}", specimen.name);
        let pairs = again.parameters().into_iter().zip(specimen.model.parameters());
        for ((name, again), (same, first)) in pairs {
            assert_eq!(name, same, "{}", specimen.name);
            same_bits(&name, again.tensor(), first.tensor());
        }
        // Another vocabulary and another number of classes, where it has any.
        let other = recipe.with_vocabulary(29).with_classes(5).model(1).unwrap();
        let rows = other.token_embeddings().map(|table| table.tensor().shape()[0]);
        assert_eq!(rows, specimen.model.token_embeddings().map(|_| 29), "{}", specimen.name);
    }
    let small: Recipe =
        serde_json::from_value(json!({"kind": "llama", "n_layers": 1, "vocabulary": 30})).unwrap();
    assert_eq!(small, Recipe::Llama(LlamaConfig { n_layers: 1, vocabulary: 30, ..LlamaConfig::default() }));
    assert!(small.abilities().unwrap().continues());
    let wrong: Recipe = serde_json::from_value(json!({"kind": "gpt", "n_heads": 5, "d_model": 16})).unwrap();
    assert!(wrong.abilities().is_err(), "found out before anything is read");
}

/// What a model can do is found on one with few tokens: its start token must not be beyond them.
#[test]
fn abilities_are_known_whatever_token_answers_start_with() {
    for start in [0, 7, 12] {
        let recipe = Recipe::T5(T5Config { start, ..zoo::t5_config() });
        let abilities = recipe.abilities().unwrap_or_else(|error| panic!("{start}: {error}"));
        assert!(abilities.predicts_tokens() && abilities.reads == Reads::Source);
        assert_eq!(recipe.model(1).unwrap().abilities().start, Some(start));
    }
}

#[test]
fn an_independent_copy_has_leaves_of_its_own() {
    for specimen in zoo::all() {
        let model = &specimen.model;
        let mut copy = model.clone();
        let gradients = specimen.loss(&Context::differentiated()).unwrap().backward().unwrap();
        let mut reached = 0;
        for ((name, first), (same, second)) in model.parameters().into_iter().zip(copy.parameters()) {
            assert_eq!(name, same, "{}", specimen.name);
            same_bits(&name, second.tensor(), first.tensor());
            reached += usize::from(gradients.get(first.tensor()).is_some());
            assert!(gradients.get(second.tensor()).is_none(), "{}: {name} is shared", specimen.name);
        }
        assert!(reached > 0);
        let before: Vec<Vec<f32>> = model.parameters().iter().map(|(_, p)| p.tensor().to_vec()).collect();
        zoo::widen(&mut *copy);
        let after: Vec<Vec<f32>> = model.parameters().iter().map(|(_, p)| p.tensor().to_vec()).collect();
        assert!(before == after, "{}: what is done to the copy stays there", specimen.name);
    }
    // A plain clone is a second handle to the same leaves.
    let gpt =
        Transformer::new(GptConfig { positions: Position::Alibi, ..zoo::gpt_config() }.form(), 1).unwrap();
    let gradients = zoo::loss(&gpt, &Context::differentiated()).unwrap().backward().unwrap();
    let [clone, apart] = [gpt.clone(), gpt.independent()];
    for ((name, clone), (_, apart)) in clone.parameters().iter().zip(apart.parameters()) {
        assert!(gradients.get(clone.tensor()).is_some() && gradients.get(apart.tensor()).is_none(), "{name}");
    }
}
