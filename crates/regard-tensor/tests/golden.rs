//! Every operation of the engine and its gradients, compared with PyTorch.
//!
//! `tools/golden_engine.py` writes the golden files. Dropout is not compared, because its random draws differ.

#[path = "golden/case.rs"]
mod case;
#[path = "engine/device.rs"]
#[allow(dead_code, reason = "the suite `engine` uses the other constructors")]
mod device;
#[path = "golden/gpt.rs"]
mod gpt;

use case::{Case, Golden};
use regard_tensor::ops::{
    Attended, Attention, Bias, CrossEntropy, Function, Layout, LstmWeights, Pairing, Projections, attend,
    concatenate, lstm,
};
use regard_tensor::optimiser::{Method, Optimiser, Update, clip_scale, global_norm};
use regard_tensor::{BlockMask, Device, Gradient, Ids, Pass, Result, Tensor};
use std::sync::Arc;

const ACTIVATIONS: [(&str, Function); 6] = [
    ("tanh", Function::Tanh),
    ("relu", Function::Relu),
    ("gelu", Function::Gelu),
    ("gelu_tanh", Function::GeluTanh),
    ("silu", Function::Silu),
    ("sigmoid", Function::Sigmoid),
];

#[test]
fn pointwise() -> Result<()> {
    let golden = Golden::open("pointwise");
    let others = [("exp", Function::Exp), ("ln", Function::Ln), ("sqrt", Function::Sqrt)];
    for (name, function) in ACTIVATIONS.into_iter().chain(others) {
        golden.case(name).unary(|x| x.apply(function))?;
    }
    golden.finish();
    Ok(())
}

#[test]
fn arithmetic() -> Result<()> {
    type Binary = fn(&Tensor, &Tensor) -> Result<Tensor>;
    let golden = Golden::open("arithmetic");
    let functions: [(&str, Binary); 4] = [
        ("add", Tensor::add),
        ("subtract", Tensor::subtract),
        ("multiply", Tensor::multiply),
        ("divide", Tensor::divide),
    ];
    for (name, function) in functions {
        golden.case(name).binary(function)?;
    }
    golden.case("affine").unary(|x| x.affine(1.7, -0.3))?;
    golden.finish();
    Ok(())
}

#[test]
fn layout() -> Result<()> {
    let golden = Golden::open("layout");
    golden.case("reshape").unary(|x| x.reshape([6, 10]))?;
    golden.case("permute").unary(|x| x.permute(&[2, 0, 1]))?;
    golden.case("transpose").unary(|x| x.transpose(-1, 0))?;
    golden.case("slice").unary(|x| x.slice(1, 1, 3))?;
    golden.case("select").unary(|x| x.select(-1, 2))?;
    let case = golden.case("concatenate");
    let [a, b, c] = ["a", "b", "c"].map(|name| case.tracked(name));
    case.check(&concatenate(&[&a, &b, &c], 1)?, &[("a", &a), ("b", &b), ("c", &c)])?;
    golden.finish();
    Ok(())
}

#[test]
fn reductions() -> Result<()> {
    let golden = Golden::open("reductions");
    for axis in 0..3 {
        golden.case(&format!("sum_{axis}")).unary(|x| x.sum(axis))?;
        golden.case(&format!("mean_{axis}")).unary(|x| x.mean(axis - 3))?;
        let case = golden.case(&format!("max_{axis}"));
        case.unary(|x| Ok(x.max(axis)?.0))?;
        assert_eq!(case.tracked("x").argmax(axis)?, case.ids("places"));
    }
    golden.case("sum_all").unary(Tensor::sum_all)?;
    golden.case("mean_all").unary(Tensor::mean_all)?;
    golden.case("sum_rows").unary(Tensor::sum_rows)?;
    golden.finish();
    Ok(())
}

#[test]
fn matmul() -> Result<()> {
    let golden = Golden::open("matmul");
    for outer in ["single", "batched", "shared_a", "shared_b"] {
        for (letters, a, b) in
            [("nn", false, false), ("nt", false, true), ("tn", true, false), ("tt", true, true)]
        {
            let case = golden.case(&format!("{outer}_{letters}"));
            case.binary(|left, right| left.matmul_transposed(right, a, b))?;
        }
    }
    golden.finish();
    Ok(())
}

#[test]
fn linear() -> Result<()> {
    let golden = Golden::open("linear");
    for (layout_name, layout) in [("out_in", Layout::OutIn), ("in_out", Layout::InOut)] {
        let functions = ACTIVATIONS.map(|(name, function)| (name, Some(function)));
        for (name, function) in functions.into_iter().chain([("plain", None)]) {
            let case = golden.case(&format!("{layout_name}_{name}"));
            let [x, weight, bias] = ["x", "weight", "bias"].map(|name| case.tracked(name));
            let out = x.linear(&weight, Some(&bias), layout, function)?;
            case.check(&out, &[("x", &x), ("weight", &weight), ("bias", &bias)])?;
        }
    }
    let case = golden.case("without_bias");
    let [x, weight] = ["x", "weight"].map(|name| case.tracked(name));
    case.check(&x.linear(&weight, None, Layout::OutIn, None)?, &[("x", &x), ("weight", &weight)])?;
    golden.finish();
    Ok(())
}

#[test]
fn embedding() -> Result<()> {
    let golden = Golden::open("embedding");
    let case = golden.case("embedding");
    let table = case.tracked("table");
    case.check(&table.embedding(&case.ids("ids"))?, &[("table", &table)])?;
    golden.finish();
    Ok(())
}

#[test]
fn softmax() -> Result<()> {
    let golden = Golden::open("softmax");
    golden.case("softmax").unary(Tensor::softmax)?;
    golden.case("log_softmax").unary(Tensor::log_softmax)?;
    let case = golden.case("softmax_masked");
    case.unary(|x| x.softmax_masked(&case.mask("mask")))?;
    let case = golden.case("log_softmax_masked");
    case.unary(|x| x.log_softmax_masked(&case.mask("mask")))?;
    golden.finish();
    Ok(())
}

#[test]
fn norm() -> Result<()> {
    let golden = Golden::open("norm");
    for width in [37, 3] {
        let case = golden.case(&format!("layer_norm_{width}"));
        let [x, weight, bias] = ["x", "weight", "bias"].map(|name| case.tracked(name));
        let inputs = [("x", &x), ("weight", &weight), ("bias", &bias)];
        case.check(&x.layer_norm(&weight, Some(&bias), 1e-5)?, &inputs)?;

        let case = golden.case(&format!("layer_norm_without_bias_{width}"));
        let [x, weight] = ["x", "weight"].map(|name| case.tracked(name));
        case.check(&x.layer_norm(&weight, None, 1e-5)?, &[("x", &x), ("weight", &weight)])?;

        let case = golden.case(&format!("rms_norm_{width}"));
        let [x, weight] = ["x", "weight"].map(|name| case.tracked(name));
        case.check(&x.rms_norm(&weight, 1e-6)?, &[("x", &x), ("weight", &weight)])?;
    }
    golden.finish();
    Ok(())
}

#[test]
fn losses() -> Result<()> {
    let golden = Golden::open("losses");
    let plain = CrossEntropy { ignored: Some(99), smoothing: 0.0 };
    let smoothed = CrossEntropy { smoothing: 0.1, ..plain };
    for (name, settings) in [("", CrossEntropy::default()), ("_ignored", plain), ("_smoothed", smoothed)] {
        let case = golden.case(&format!("cross_entropy{name}"));
        let logits = case.tracked("logits");
        case.check(&logits.cross_entropy(&case.ids("targets"), settings)?, &[("logits", &logits)])?;
    }
    for (name, settings) in [("", plain), ("_smoothed", smoothed)] {
        let case = golden.case(&format!("cross_entropy{name}_rows"));
        let logits = case.tracked("logits");
        case.check(&logits.cross_entropy_rows(&case.ids("targets"), settings)?, &[("logits", &logits)])?;
    }
    let case = golden.case("binary_cross_entropy");
    let logits = case.tracked("logits");
    case.check(&logits.binary_cross_entropy(&case.tensor("targets"))?, &[("logits", &logits)])?;
    let case = golden.case("binary_cross_entropy_rows");
    let logits = case.tracked("logits");
    case.check(&logits.binary_cross_entropy_rows(&case.tensor("targets"))?, &[("logits", &logits)])?;
    golden.finish();
    Ok(())
}

#[test]
fn rotary() -> Result<()> {
    let golden = Golden::open("rotary");
    for rotated in [10, 6] {
        for (name, pairing) in [("halves", Pairing::Halves), ("interleaved", Pairing::Interleaved)] {
            let case = golden.case(&format!("{name}_{rotated}"));
            let (cos, sin, positions) = (case.tensor("cos"), case.tensor("sin"), case.ids("positions"));
            case.unary(|x| x.rotary(&cos, &sin, &positions, pairing))?;
        }
    }
    golden.finish();
    Ok(())
}

#[test]
fn patches() -> Result<()> {
    let golden = Golden::open("patches");
    golden.case("patches").unary(|x| x.patches(3))?;
    let case = golden.case("convolution");
    let [x, weight, bias] = ["x", "weight", "bias"].map(|name| case.tracked(name));
    let out = x.patches(3)?.linear(&weight, Some(&bias), Layout::OutIn, None)?;
    case.check(&out, &[("x", &x), ("weight", &weight), ("bias", &bias)])?;
    golden.finish();
    Ok(())
}

/// Runs attention on the case's queries, keys and values. Checks the output, the log-sum-exp, the weights, and the
/// gradients of the three inputs and of the `extra` parameter of `attention`.
fn check_attention(case: &Case, attention: &Attention, extra: Option<(&str, &Tensor)>) -> Result<()> {
    let [query, key, value] = ["query", "key", "value"].map(|name| case.tracked(name));
    let attended = attend(Projections::Separate { query: &query, key: &key, value: &value }, attention)?;
    let inputs: Vec<_> =
        [("query", &query), ("key", &key), ("value", &value)].into_iter().chain(extra).collect();
    case.check(&attended.output, &inputs)?;
    check_internals(case, &attended)
}

fn check_internals(case: &Case, attended: &Attended) -> Result<()> {
    case.compare("log_sum_exp", &attended.log_sum_exp);
    if !case.has("weights") {
        return Ok(());
    }
    let expected = case.tensor("weights");
    let [batch, heads, queries, keys] = expected.shape()[..] else { panic!("weights have four axes") };
    let mut planes = Vec::new();
    for example in 0..batch {
        for head in 0..heads {
            planes.extend(attended.weights(example, head, 0..queries, 0..keys)?.to_vec());
        }
    }
    case.compare("weights", &device::new(&planes, expected.shape())?);
    let block = attended.weights(1, 2, 1..3, 2..keys)?;
    let stored = expected.select(0, 1)?.select(0, 2)?.slice(0, 1, 2)?.slice(1, 2, keys - 2)?;
    case::assert_close("a block of the weights", &block, &stored);
    Ok(())
}

/// Attention with the scale 1/√width of the case.
fn scaled(case: &Case) -> Attention {
    Attention::scaled((case.tensor("query").shape()[3] as f32).sqrt().recip())
}

#[test]
fn attention() -> Result<()> {
    let golden = Golden::open("attention");
    for name in ["full", "value_width", "multi_query"] {
        let case = golden.case(name);
        check_attention(&case, &scaled(&case), None)?;
    }
    for name in ["causal", "causal_fewer_queries", "grouped", "long_causal"] {
        let case = golden.case(name);
        check_attention(&case, &scaled(&case).causal(), None)?;
    }
    check_attention(&golden.case("scale"), &Attention::scaled(0.31), None)?;
    masked_attention(&golden)?;
    biased_attention(&golden)?;

    let case = golden.case("sink");
    let sink = case.tracked("sink");
    let attention = Attention { sink: Some(sink.clone()), ..scaled(&case) };
    check_attention(&case, &attention, Some(("sink", &sink)))?;

    let case = golden.case("fused");
    let packed = case.tracked("packed");
    let projections = Projections::Fused { packed: &packed, heads: 4, kv_heads: 2 };
    let attended = attend(projections, &Attention::scaled(3.0_f32.sqrt().recip()).causal())?;
    case.check(&attended.output, &[("packed", &packed)])?;
    check_internals(&case, &attended)?;
    golden.finish();
    Ok(())
}

fn masked_attention(golden: &Golden) -> Result<()> {
    for (name, causal) in [("padding", false), ("padding_causal", true), ("nothing_allowed", true)] {
        let case = golden.case(name);
        let mut attention = scaled(&case);
        attention.allowed.causal = causal;
        attention.allowed.keys = Some(case.mask("key_mask"));
        check_attention(&case, &attention, None)?;
    }
    for name in ["mask", "mask_of_each"] {
        let case = golden.case(name);
        let mut attention = scaled(&case);
        attention.allowed.blocks = Some(Arc::new(BlockMask::from_mask(&case.mask("mask"))?));
        check_attention(&case, &attention, None)?;
    }
    Ok(())
}

fn biased_attention(golden: &Golden) -> Result<()> {
    for name in ["bias", "bias_of_heads", "bias_of_examples", "bias_shared", "bias_causal"] {
        let case = golden.case(name);
        let bias = case.tracked("bias");
        let mut attention = Attention { bias: Bias::Dense(bias.clone()), ..scaled(&case) };
        attention.allowed.causal = name == "bias_causal";
        check_attention(&case, &attention, Some(("bias", &bias)))?;
    }
    for name in ["slopes", "slopes_causal"] {
        let case = golden.case(name);
        let slopes = case.tracked("slopes");
        let mut attention = Attention { bias: Bias::Slopes(slopes.clone()), ..scaled(&case) };
        attention.allowed.causal = name == "slopes_causal";
        check_attention(&case, &attention, Some(("slopes", &slopes)))?;
    }
    let case = golden.case("buckets");
    let table = case.tracked("table");
    let bias = Bias::Buckets { table: table.clone(), buckets: case.ids("buckets") };
    check_attention(&case, &Attention { bias, ..scaled(&case) }, Some(("table", &table)))
}

#[test]
fn lstm_in_one_and_both_directions() -> Result<()> {
    const NAMES: [[&str; 3]; 2] = [["input_0", "hidden_0", "bias_0"], ["input_1", "hidden_1", "bias_1"]];
    let golden = Golden::open("lstm");
    for (name, directions) in [("forward", 1), ("both", 2), ("forward_padded", 1), ("both_padded", 2)] {
        let case = golden.case(name);
        let x = case.tracked("x");
        let weights: Vec<LstmWeights> = NAMES[..directions]
            .iter()
            .map(|names| names.map(|name| case.tracked(name)))
            .map(|[input, hidden, bias]| LstmWeights { input, hidden, bias })
            .collect();
        let lengths = case.has("lengths").then(|| case.ids("lengths"));
        let parameters = NAMES.iter().zip(&weights).flat_map(|(&[input, hidden, bias], w)| {
            [(input, &w.input), (hidden, &w.hidden), (bias, &w.bias)]
        });
        let inputs: Vec<_> = [("x", &x)].into_iter().chain(parameters).collect();
        case.check(&lstm(&x, &weights, lengths.as_ref())?, &inputs)?;
    }
    golden.finish();
    Ok(())
}

#[test]
fn optimisers() -> Result<()> {
    let golden = Golden::open("optimisers");
    let adamw = Method::Adam { betas: (0.9, 0.95), epsilon: 1e-8, decoupled: true };
    ten_updates(&golden.case("sgd"), Method::Sgd { momentum: 0.9 }, 0.05)?;
    ten_updates(&golden.case("adam"), Method::adam(), 0.02)?;
    ten_updates(&golden.case("adamw"), adamw, 0.02)?;
    ten_updates_of_rows(&golden.case("adam_rows"))?;
    clipping(&golden.case("clip"))?;
    golden.finish();
    Ok(())
}

/// Ten steps on a matrix with weight decay and a vector without.
fn ten_updates(case: &Case, method: Method, rate: f32) -> Result<()> {
    let [mut matrix, mut vector] = ["matrix", "vector"].map(|name| case.tensor(name));
    let [matrix_slopes, vector_slopes] =
        ["matrix", "vector"].map(|name| case.tensor(&format!("gradients/{name}")));
    let mut optimiser = Optimiser::new(method, 0.1);
    for step in 0..10 {
        let slopes = [&matrix_slopes, &vector_slopes].map(|slopes| slopes.select(0, step));
        let [matrix_slope, vector_slope] = slopes.map(|slope| slope.map(Gradient::Dense));
        let (matrix_slope, vector_slope) = (matrix_slope?, vector_slope?);
        let mut updates = [
            Update { parameter: &mut matrix, gradient: Some(&matrix_slope), decays: true },
            Update { parameter: &mut vector, gradient: Some(&vector_slope), decays: false },
        ];
        optimiser.step(&mut updates, rate, 1.0)?;
        for (name, parameter) in [("matrix", &matrix), ("vector", &vector)] {
            let expected = case.tensor(&format!("after/{name}")).select(0, step)?;
            case::assert_close(&format!("{name} after step {step}"), parameter, &expected);
        }
    }
    Ok(())
}

/// Ten steps of Adam on a table with a sparse gradient give the same result as with a dense one.
fn ten_updates_of_rows(case: &Case) -> Result<()> {
    let mut table = case.tracked("table");
    let (ids, upstream, after) = (case.ids("ids"), case.tensor("upstream"), case.tensor("after/table"));
    let mut optimiser = Optimiser::new(Method::adam(), 0.0);
    for (step, ids) in ids.values().chunks(4).enumerate() {
        let rows = table.embedding(&Ids::new(ids, [4])?)?;
        let gradients = rows.gradients(&Pass::new().from_upstream(upstream.select(0, step)?))?;
        let gradient = gradients.find(&table);
        // CUDA devices make it dense at once.
        let on_cuda = matches!(table.device(), Device::Cuda(_));
        assert!(on_cuda || matches!(gradient, Some(Gradient::Rows(_))));
        optimiser.step(&mut [Update { gradient, parameter: &mut table, decays: false }], 0.02, 1.0)?;
        case::assert_close(&format!("the table after step {step}"), &table, &after.select(0, step)?);
    }
    Ok(())
}

/// PyTorch divides by the norm + 1e-6; the difference is within the tolerance.
fn clipping(case: &Case) -> Result<()> {
    let gradients = ["a", "b"].map(|name| Gradient::Dense(case.tensor(name)));
    let norm = global_norm(&gradients)?;
    case.compare("norm", &norm);
    let scale = clip_scale(&norm, 1.0)?;
    for (name, gradient) in ["clipped/a", "clipped/b"].into_iter().zip(gradients) {
        case.compare(name, &gradient.to_dense()?.multiply(&scale)?);
    }
    Ok(())
}
