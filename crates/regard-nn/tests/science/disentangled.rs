//! Disentangled attention, against the same written out pair by pair, and its gradients against finite differences.

use crate::golden::agree;
use crate::numbers::{ids, normal};
use crate::zoo::{self, stack};
use regard_nn::attention::{DisentangledConfig, Scale};
use regard_nn::layers::NormConfig;
use regard_nn::models::form::{AttentionPositions, Form};
use regard_nn::models::{Inputs, Model, Transformer};
use regard_nn::position::disentangled_row;
use regard_nn::tensor::{Ids, Tensor};
use regard_nn::{Context, Module, Probe};

const TIME: usize = 7;

fn form(parts: DisentangledConfig, max_distance: Option<usize>) -> Form {
    let mut form = zoo::bert_config().form();
    let attention = &mut stack(&mut form).layers[0].attention;
    attention.scale = Scale::Factor(0.3);
    let norm = Some(NormConfig::layer(1e-5));
    attention.positions = Some(AttentionPositions::Disentangled { span: 4, max_distance, parts, norm });
    form
}

fn every_form() -> impl Iterator<Item = Form> {
    let choices = [(true, true), (true, false), (false, true)];
    choices.into_iter().flat_map(|(content_to_position, position_to_content)| {
        [(false, None), (true, Some(6)), (false, Some(5))].map(|(shared, far)| {
            form(DisentangledConfig { content_to_position, position_to_content, shared }, far)
        })
    })
}

fn text() -> Ids {
    ids("text", zoo::VOCABULARY, [2, TIME])
}

fn value(model: &dyn Model, name: &str) -> Option<Tensor> {
    let all = model.parameters();
    all.into_iter().find(|(known, _)| known == name).map(|(_, parameter)| parameter.tensor().detach())
}

/// Rows that transformers' `make_log_bucket_position` gives, 4 added, for 4 vectors to each side.
#[test]
fn distances_share_vectors_as_the_original_has_it() {
    let row = |distance, far| disentangled_row(distance, 4, far);
    let exact: Vec<u32> = (-6..=6).map(|distance| row(distance, None)).collect();
    assert_eq!(exact, [0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 7, 7, 7]);
    let shared: Vec<u32> = (-12..=12).map(|distance| row(distance, Some(12))).collect();
    assert_eq!(&shared[10..15], [2, 3, 4, 5, 6]);
    assert_eq!(shared[0], 0);
    assert!(shared.windows(2).all(|pair| pair[0] <= pair[1]));
    assert_eq!((row(3, Some(12)), row(11, Some(12)), row(-3, Some(12))), (7, 7, 1));
}

#[test]
fn scores_are_content_and_positions_compared_pair_by_pair() {
    for form in every_form() {
        let Some(AttentionPositions::Disentangled { max_distance, parts, .. }) =
            stack(&mut form.clone()).layers[0].attention.positions
        else {
            panic!("positions are disentangled")
        };
        let mut model = Transformer::new(form, 1).unwrap();
        zoo::widen(&mut model);
        let names = ["query", "key", "scores", "content_to_position", "position_to_content"];
        let probe =
            names.iter().fold(Probe::new(), |probe, name| probe.record(format!("layers.1.self.{name}")));
        model.forward(&Context::inference().with_probe(&probe), &Inputs::ids(&text())).unwrap();
        let seen = |name: &str| probe.get(&format!("layers.1.self.{name}")).unwrap();
        let (query, key) = (seen("query").unwrap(), seen("key").unwrap());
        let [batch, _, heads, width] = query.shape()[..] else { panic!("queries of {}", query.shape()) };
        let vectors = value(&model, "positions.vectors").unwrap();
        let [norm, shift] =
            ["weight", "bias"].map(|name| value(&model, &format!("positions.norm.{name}")).unwrap());
        let vectors = vectors.layer_norm(&norm, Some(&shift), 1e-5).unwrap();
        let projected = |name: &str| {
            let place = if parts.shared { String::new() } else { "positions.".to_owned() };
            let parameter =
                |kind: &str| value(&model, &format!("layers.1.attention.{place}{name}.{kind}")).unwrap();
            let layout = regard_nn::tensor::ops::Layout::OutIn;
            vectors.linear(&parameter("weight"), Some(&parameter("bias")), layout, None).unwrap().to_vec()
        };
        let dot = |one: &[f32], other: &[f32]| one.iter().zip(other).map(|(a, b)| a * b).sum::<f32>() * 0.3;
        let at = |x: &[f32], b: usize, t: usize, h: usize| {
            let start = ((b * TIME + t) * heads + h) * width;
            x[start..start + width].to_vec()
        };
        let pairs = |score: &dyn Fn(usize, usize, usize, usize) -> f32| {
            let all = (0..batch * heads * TIME * TIME).map(|i| {
                let (plane, pair) = (i / (TIME * TIME), i % (TIME * TIME));
                score(plane / heads, plane % heads, pair / TIME, pair % TIME)
            });
            Tensor::new(&all.collect::<Vec<f32>>(), [batch, heads, TIME, TIME]).unwrap()
        };
        let vector = |rows: &[f32], h: usize, q: usize, k: usize| {
            let row = disentangled_row(q as i64 - k as i64, 4, max_distance) as usize;
            rows[(row * heads + h) * width..][..width].to_vec()
        };
        let (queries, keys) = (query.to_vec(), key.to_vec());
        let mut want = pairs(&|b, h, q, k| dot(&at(&queries, b, q, h), &at(&keys, b, k, h)));
        if parts.content_to_position {
            let rows = projected("key");
            let part = pairs(&|b, h, q, k| dot(&at(&queries, b, q, h), &vector(&rows, h, q, k)));
            agree("content to position", &seen("content_to_position").unwrap(), &part, 1e-5);
            want = want.add(&part).unwrap();
        }
        if parts.position_to_content {
            let rows = projected("query");
            let part = pairs(&|b, h, q, k| dot(&at(&keys, b, k, h), &vector(&rows, h, q, k)));
            agree("position to content", &seen("position_to_content").unwrap(), &part, 1e-5);
            want = want.add(&part).unwrap();
        }
        assert_eq!(seen("content_to_position").is_some(), parts.content_to_position);
        assert_eq!(seen("position_to_content").is_some(), parts.position_to_content);
        agree("scores", &seen("scores").unwrap(), &want, 1e-5);
    }
}

#[test]
fn gradients_of_positions_are_finite_differences() {
    for form in every_form() {
        let mut model = Transformer::new(form, 2).unwrap();
        zoo::widen(&mut model);
        let upstream = normal("upstream", [2, TIME, 16]);
        let loss = |model: &Transformer| {
            let hidden = model.hidden(&Context::differentiated(), &Inputs::ids(&text())).unwrap();
            hidden.multiply(&upstream).unwrap().sum_all().unwrap()
        };
        let gradients = loss(&model).backward().unwrap();
        let names: Vec<String> = model.parameters().into_iter().map(|(name, _)| name).collect();
        for name in names.iter().filter(|name| name.contains("positions.") && !name.contains("table")) {
            let before = value(&model, name).unwrap();
            let gradient = {
                let all = model.parameters();
                let (_, parameter) = all.into_iter().find(|(known, _)| known == name).unwrap();
                gradients.get(parameter.tensor()).unwrap_or_else(|| panic!("no gradient of {name}"))
            };
            // Along one random direction, so that a few passes check all values.
            let direction = normal(name, before.shape().to_vec());
            let want = gradient.multiply(&direction).unwrap().sum_all().unwrap().item().unwrap();
            let step = 2e-3;
            let [above, below] = [step, -step].map(|step| {
                let moved = before.add(&direction.scale(step).unwrap()).unwrap();
                let mut moving = model.independent();
                let mut all = moving.parameters_mut();
                let (_, parameter) = all.iter_mut().find(|(known, _)| known == name).unwrap();
                parameter.tensor_mut().set_values(&moved.values()).unwrap();
                loss(&moving).item().unwrap()
            });
            let got = (above - below) / (2.0 * step);
            assert!((got - want).abs() < 0.02 * want.abs().max(1.0), "{name}: {got}, expected {want}");
        }
    }
}
