//! Layers against PyTorch's: attention in every combination of rules, multi-head attention, LSTM.
//!
//! `tools/golden_models.py` makes the file.

use crate::golden::{Golden, agree};
use regard_nn::attention::{
    AttentionConfig, Biases, How, MultiHead, Pattern, Rules, Scale, Score, attend, scaled_dot_product,
};
use regard_nn::recurrent::Lstm;
use regard_nn::tensor::ops::{Bias, Projections, concatenate};
use regard_nn::tensor::{Gradients, Ids, Mask, Pass, Tensor};
use regard_nn::{Context, Draw, Initial, Module, Probe};
use std::collections::BTreeSet;

/// PyTorch computed these in f64.
const TOLERANCE: f32 = 4e-6;

fn layers() -> Golden {
    Golden::open("models/layers")
}

/// The names of all cases of a kind.
fn cases(golden: &Golden, kind: &str) -> Vec<String> {
    let names = golden.below(&format!("{kind}/"));
    let names: BTreeSet<_> =
        names.iter().filter_map(|name| name.split_once('/')).map(|(case, _)| case).collect();
    names.into_iter().map(|case| format!("{kind}/{case}")).collect()
}

fn gradients(golden: &Golden, case: &str, out: &Tensor) -> Gradients {
    let upstream = golden.tensor(&format!("{case}/upstream"));
    out.gradients(&Pass::new().from_upstream(upstream)).unwrap()
}

/// One case of attention: (batch, heads, time, width), as PyTorch has it.
struct Attention {
    golden: Golden,
    case: String,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Option<Tensor>,
    present: Option<Mask>,
    causal: bool,
    scale: Scale,
}

impl Attention {
    fn open(case: &str) -> Self {
        let golden = layers();
        let name = |part: &str| format!("{case}/{part}");
        let tracked = |part: &str| golden.tensor(&name(part)).tracked();
        let scale = golden.metadata["scale"].parse().unwrap();
        Self {
            query: tracked("query"),
            key: tracked("key"),
            value: tracked("value"),
            bias: golden.has(&name("bias")).then(|| tracked("bias")),
            present: golden.has(&name("key_mask")).then(|| golden.mask(&name("key_mask"))),
            causal: case.contains("causal") || case.contains("nothing"),
            scale: if case.contains("scaled") { Scale::Factor(scale) } else { Scale::InverseRoot },
            case: case.to_owned(),
            golden,
        }
    }

    /// Query heads, key-value heads, queries, keys.
    fn sizes(&self) -> [usize; 4] {
        [self.query.shape()[1], self.key.shape()[1], self.query.shape()[2], self.key.shape()[2]]
    }

    fn check(&self, out: &Tensor, weights: &Tensor) {
        let name = |part: &str| format!("{}/{part}", self.case);
        agree(&name("out"), out, &self.golden.tensor(&name("out")), TOLERANCE);
        agree(&name("weights"), weights, &self.golden.tensor(&name("weights")), TOLERANCE);
        let gradients = gradients(&self.golden, &self.case, out);
        let inputs = [("query", &self.query), ("key", &self.key), ("value", &self.value)];
        for (part, input) in inputs.into_iter().chain(self.bias.iter().map(|bias| ("bias", bias))) {
            let part = name(&format!("grad/{part}"));
            agree(&part, &gradients.get(input).unwrap(), &self.golden.tensor(&part), TOLERANCE);
        }
    }

    /// The reference, with each key-value head repeated for its queries.
    fn by_reference(&self) -> (Tensor, Tensor) {
        let [heads, kv_heads, queries, keys] = self.sizes();
        let repeated = |x: &Tensor| {
            let [batch, _, time, width] = x.shape()[..] else { panic!() };
            let copies = Tensor::zeros([1, 1, heads / kv_heads, 1, 1]);
            let x = x.reshape([batch, kv_heads, 1, time, width]).unwrap().add(&copies).unwrap();
            x.reshape([batch, heads, time, width]).unwrap()
        };
        let mask = Mask::from_fn([2, 1, queries, keys], |at| {
            let present = self.present.as_ref().is_none_or(|present| present.values()[at[0] * keys + at[3]]);
            present && (!self.causal || at[3] + queries <= at[2] + keys)
        });
        let mask = (self.causal || self.present.is_some()).then_some(mask);
        let (key, value) = (repeated(&self.key), repeated(&self.value));
        scaled_dot_product(&self.query, &key, &value, mask.as_ref(), self.scale).unwrap()
    }

    /// The composed attention: in tiles, or step by step if the probe wants the weights themselves.
    fn composed(&self, probe: &Probe) -> (Tensor, Tensor) {
        let [.., queries, keys] = self.sizes();
        let pattern = if self.causal { Pattern::Causal } else { Pattern::Full };
        let bias = self.bias.clone().map_or(Bias::None, Bias::Dense);
        let rules = Rules::new(pattern, queries, keys).unwrap().padded(self.present.clone()).biased(bias);
        let how = How { score: Score::Dot(self.scale), ..How::default() };
        let time_first = |x: &Tensor| x.permute(&[0, 2, 1, 3]).unwrap();
        let [query, key, value] = [&self.query, &self.key, &self.value].map(time_first);
        let projections = Projections::Separate { query: &query, key: &key, value: &value };
        let out = attend(&Context::inference().with_probe(probe), projections, &how, &rules).unwrap();
        (time_first(&out), probe.get("weights").unwrap().unwrap())
    }
}

#[test]
fn attention_by_the_reference() {
    let golden = layers();
    let mut count = 0;
    for case in cases(&golden, "attention").iter().filter(|case| !case.contains("bias")) {
        let case = Attention::open(case);
        let (out, weights) = case.by_reference();
        case.check(&out, &weights);
        count += 1;
    }
    assert_eq!(count, 18);
}

#[test]
fn attention_in_tiles_and_step_by_step() {
    let golden = layers();
    let all = cases(&golden, "attention");
    assert_eq!(all.len(), 35);
    for case in all {
        let case = Attention::open(&case);
        for probe in [Probe::new().record("weights"), Probe::new().track("weights")] {
            let (out, weights) = case.composed(&probe);
            case.check(&out, &weights);
        }
    }
}

/// Puts values into parameters, each by its name.
fn fill(module: &mut impl Module, values: &[(&str, Tensor)]) {
    let mut left: Vec<_> = values.iter().collect();
    for (name, parameter) in module.parameters_mut() {
        let place = left.iter().position(|(known, _)| *known == name).unwrap_or_else(|| panic!("{name}?"));
        let (_, values) = left.remove(place);
        assert_eq!(values.shape(), parameter.tensor().shape(), "{name}");
        parameter.tensor_mut().set_values(&values.values()).unwrap();
    }
    assert!(left.is_empty(), "parameters that are not there: {left:?}");
}

fn gradient_of(module: &impl Module, gradients: &Gradients, name: &str) -> Tensor {
    let all = module.parameters();
    let (_, parameter) = all.iter().find(|(known, _)| known == name).unwrap_or_else(|| panic!("{name}?"));
    gradients.get(parameter.tensor()).unwrap()
}

fn rows(x: &Tensor, first: usize, count: usize) -> Tensor {
    x.slice(0, first, count).unwrap()
}

/// A multi-head attention with PyTorch's weights. Keys and values come from one memory here, so where PyTorch reads two,
/// the memory holds both side by side and each projection ignores the other's half.
struct Heads {
    module: MultiHead,
    /// The widths of what PyTorch makes keys and values from.
    widths: Option<[usize; 2]>,
}

impl Heads {
    const WIDTH: usize = 12;

    fn open(golden: &Golden, case: &str) -> Self {
        let tensor = |name: &str| golden.tensor(&format!("{case}/{name}"));
        let has = |name: &str| golden.has(&format!("{case}/{name}"));
        let width = Self::WIDTH;
        let bias = has("in_proj_bias");
        let mut config = AttentionConfig { bias: Biases::all(bias), ..AttentionConfig::new(width, 3) };
        let mut values = vec![("output.weight", tensor("out_proj.weight"))];
        if bias {
            values.push(("output.bias", tensor("out_proj.bias")));
        }
        let widths = has("key").then(|| ["key", "value"].map(|name| tensor(name).shape().last()));
        if let Some([of_keys, of_values]) = widths {
            config = AttentionConfig { fused: false, d_memory: of_keys + of_values, ..config };
            let part = |i: usize, name: &str| match has(name) {
                true => tensor(name),
                false => rows(&tensor("in_proj_weight"), i * width, width),
            };
            let none = |inputs: usize| Tensor::zeros([width, inputs]);
            let [query, key, value] = [(0, "q_proj_weight"), (1, "k_proj_weight"), (2, "v_proj_weight")]
                .map(|(i, name)| part(i, name));
            values.push(("query.weight", query));
            values.push(("key.weight", concatenate(&[&key, &none(of_values)], 1).unwrap()));
            values.push(("value.weight", concatenate(&[&none(of_keys), &value], 1).unwrap()));
            for (i, name) in ["query.bias", "key.bias", "value.bias"].into_iter().enumerate() {
                values.push((name, rows(&tensor("in_proj_bias"), i * width, width)));
            }
        } else {
            values.push(("project.weight", tensor("in_proj_weight")));
            if bias {
                values.push(("project.bias", tensor("in_proj_bias")));
            }
        }
        let draw = (Draw::Constant(0.0), Draw::Constant(0.0));
        let mut module = MultiHead::new(&Initial::new(0), config, draw).unwrap();
        fill(&mut module, &values);
        Self { module, widths }
    }

    /// The gradient of one of PyTorch's parameters.
    fn gradient(&self, gradients: &Gradients, name: &str) -> Tensor {
        let own = |name: &str| gradient_of(&self.module, gradients, name);
        let Some([of_keys, of_values]) = self.widths else {
            return own(&name.replace("in_proj_", "project.").replace("out_proj", "output"));
        };
        let weights = || {
            let (key, value) = (own("key.weight"), own("value.weight"));
            [
                own("query.weight"),
                key.slice(1, 0, of_keys).unwrap(),
                value.slice(1, of_keys, of_values).unwrap(),
            ]
        };
        let join = |parts: [Tensor; 3]| concatenate(&parts.each_ref(), 0).unwrap();
        match name {
            "in_proj_weight" => join(weights()),
            "in_proj_bias" => join(["query.bias", "key.bias", "value.bias"].map(own)),
            "q_proj_weight" => weights()[0].clone(),
            "k_proj_weight" => weights()[1].clone(),
            "v_proj_weight" => weights()[2].clone(),
            other => own(&other.replace("out_proj", "output")),
        }
    }
}

#[test]
fn multi_head_attention() {
    let golden = layers();
    let all = cases(&golden, "multi_head");
    assert_eq!(all.len(), 7);
    for case in all {
        let name = |part: &str| format!("{case}/{part}");
        let heads = Heads::open(&golden, &case);
        let x = golden.tensor(&name("query")).tracked();
        let memory = heads.widths.map(|_| ["key", "value"].map(|part| golden.tensor(&name(part)).tracked()));
        let joined = memory.as_ref().map(|[key, value]| concatenate(&[key, value], 2).unwrap());
        let keys = joined.as_ref().unwrap_or(&x).shape()[1];
        let pattern = if case.contains("causal") { Pattern::Causal } else { Pattern::Full };
        let present = golden.has(&name("key_mask")).then(|| golden.mask(&name("key_mask")));
        let rules = Rules::new(pattern, x.shape()[1], keys).unwrap().padded(present);
        let probe = Probe::new().record("layers.0.self.weights");
        let context = Context::differentiated().with_probe(&probe);
        let out =
            heads.module.forward(&context.within("layers.0.self"), &x, joined.as_ref(), &rules).unwrap();
        agree(&name("out"), &out, &golden.tensor(&name("out")), TOLERANCE);
        let weights = probe.get("layers.0.self.weights").unwrap().unwrap();
        agree(&name("weights"), &weights, &golden.tensor(&name("weights")), TOLERANCE);
        let found = gradients(&golden, &case, &out);
        for part in golden.below(&name("grad/")) {
            let got = match (part.as_str(), &memory) {
                ("query", _) => found.get(&x).unwrap(),
                ("key", Some([key, _])) => found.get(key).unwrap(),
                ("value", Some([_, value])) => found.get(value).unwrap(),
                (parameter, _) => heads.gradient(&found, parameter),
            };
            let part = name(&format!("grad/{part}"));
            agree(&part, &got, &golden.tensor(&part), TOLERANCE);
        }
    }
}

#[test]
fn lstm_over_padded_texts() {
    let golden = layers();
    for (case, ends) in [("lstm/forward", &[""][..]), ("lstm/both", &["", "_reverse"][..])] {
        let tensor = |name: &str| golden.tensor(&format!("{case}/{name}"));
        let x = tensor("x").tracked();
        let mut lstm = Lstm::new(&Initial::new(0), (5, 4), ends.len() == 2).unwrap();
        let names: Vec<[String; 3]> = (0..ends.len())
            .map(|i| ["input", "hidden", "bias"].map(|part| format!("directions.{i}.{part}")))
            .collect();
        let mut values = Vec::new();
        for (end, [input, hidden, bias]) in ends.iter().zip(&names) {
            values.push((input.as_str(), tensor(&format!("weight_ih_l0{end}"))));
            values.push((hidden.as_str(), tensor(&format!("weight_hh_l0{end}"))));
            // PyTorch has two biases, of which only the sum matters.
            let biases = ["bias_ih_l0", "bias_hh_l0"].map(|name| tensor(&format!("{name}{end}")));
            values.push((bias.as_str(), biases[0].add(&biases[1]).unwrap()));
        }
        fill(&mut lstm, &values);
        let lengths: Vec<u32> =
            golden.integers(&format!("{case}/lengths")).0.iter().map(|&length| length as u32).collect();
        let lengths = Ids::new(&lengths, [lengths.len()]).unwrap();
        let out = lstm.forward(&Context::differentiated(), &x, Some(&lengths)).unwrap();
        agree(case, &out, &tensor("out"), TOLERANCE);
        let found = gradients(&golden, case, &out);
        agree(case, &found.get(&x).unwrap(), &tensor("grad/x"), TOLERANCE);
        for (end, [input, hidden, bias]) in ends.iter().zip(&names) {
            let pairs = [(input, "weight_ih"), (hidden, "weight_hh"), (bias, "bias_ih"), (bias, "bias_hh")];
            for (ours, theirs) in pairs {
                let want = tensor(&format!("grad/{theirs}_l0{end}"));
                agree(ours, &gradient_of(&lstm, &found, ours), &want, TOLERANCE);
            }
        }
    }
}
