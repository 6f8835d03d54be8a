//! The CUDA device compared with the CPU: operations, gradients, training and 16-bit activations. Without a device these
//! tests are skipped and print the reason.

use crate::training::{parameters, train};
use crate::{alone, counted, draw, ids};
use regard_tensor::ops::{
    Attention, Bias, CrossEntropy, Dropout, Function, Layout, LstmWeights, Pairing, Projections, attend,
    concatenate, lstm,
};
use regard_tensor::random::Key;
use regard_tensor::{BlockMask, DataType, Device, Mask, Pass, Result, Tensor, cuda_devices};
use std::sync::Arc;

/// Whether there is a CUDA device.
#[expect(clippy::print_stderr, reason = "prints why a test is skipped")]
fn found() -> bool {
    match cuda_devices() {
        Ok(devices) if !devices.is_empty() => true,
        Ok(_) => {
            eprintln!("skipped: this machine has no CUDA device");
            false
        }
        Err(error) => {
            eprintln!("skipped: {error}");
            false
        }
    }
}

/// ‖got − expected‖ / ‖expected‖.
fn distance(got: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(got.len(), expected.len());
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    let apart = norm(&mut got.iter().zip(expected).map(|(&a, &b)| f64::from(a) - f64::from(b)));
    apart / norm(&mut expected.iter().map(|&x| f64::from(x))).max(1e-30)
}

/// Values and gradients of a function of tensors on a device, the inputs rounded to a type.
fn run(
    device: Device,
    data_type: DataType,
    inputs: &[Tensor],
    function: &impl Fn(&[Tensor]) -> Result<Tensor>,
) -> (Vec<Vec<f32>>, Vec<&'static str>) {
    let inputs: Vec<Tensor> =
        inputs.iter().map(|x| x.to_type(data_type).unwrap().to(device).unwrap().tracked()).collect();
    let (results, traffic) = counted(|| {
        let output = function(&inputs).unwrap();
        assert_eq!(output.device(), device);
        let upstream = draw("upstream", output.shape()).to(device).unwrap();
        let gradients = output.gradients(&Pass::new().from_upstream(upstream)).unwrap();
        let gradients = inputs.iter().filter_map(|x| gradients.get(x));
        [output].into_iter().chain(gradients).collect::<Vec<_>>()
    });
    assert_eq!(traffic.host_reads, 0);
    (results.iter().map(Tensor::to_vec).collect(), traffic.fallbacks.keys().copied().collect())
}

/// Checks that a function gives nearly the same result on the CPU and on the device in both types, without fallbacks.
fn near(name: &str, inputs: &[Tensor], function: impl Fn(&[Tensor]) -> Result<Tensor>) {
    for (data_type, tolerance) in [(DataType::F32, 2e-5), (DataType::Bf16, 3e-2)] {
        let (expected, _) = run(Device::Cpu, data_type, inputs, &function);
        let (got, fallbacks) = run(Device::Cuda(0), data_type, inputs, &function);
        assert!(fallbacks.is_empty(), "{name} {data_type:?}: {fallbacks:?} ran on the CPU");
        for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
            let distance = distance(got, expected);
            assert!(distance <= tolerance, "{name} {data_type:?}: result {i} differs by {distance:.1e}");
        }
        let (again, _) = run(Device::Cuda(0), data_type, inputs, &function);
        assert_eq!(got, again, "{name} {data_type:?}: another run has other bits");
    }
}

#[test]
fn operations_agree_with_the_cpu() {
    let _alone = alone();
    if !found() {
        return;
    }
    let (a, b) = (draw("a", &[4, 6]), draw("b", &[6]));
    near("arithmetic", &[a.clone(), b.clone()], |x| x[0].add(&x[1])?.multiply(&x[0])?.subtract(&x[1]));
    near("divide", &[a.clone(), b.exp().unwrap()], |x| x[0].divide(&x[1]));
    near("pointwise", std::slice::from_ref(&a), |x| x[0].gelu()?.softmax()?.affine(2.0, 1.0));
    near("masked", std::slice::from_ref(&a), |x| {
        x[0].softmax_masked(&Mask::from_fn([6], |at| at[0] != 2))?.max(1)?.0.sum_all()
    });
    near("matmul", &[a.clone(), draw("c", &[5, 6])], |x| {
        x[0].matmul_transposed(&x[1], false, true)?.permute(&[1, 0])
    });
    near("batched", &[draw("p", &[3, 4, 6]), draw("q", &[6, 5])], |x| x[0].matmul(&x[1]));
    near("norm", &[a.clone(), b.clone(), draw("bias", &[6])], |x| x[0].layer_norm(&x[1], Some(&x[2]), 1e-5));
    near("rms", &[draw("x", &[40, 64]), draw("w", &[64])], |x| x[0].rms_norm(&x[1], 1e-5));
    for function in [None, Some(Function::Silu), Some(Function::Relu), Some(Function::GeluTanh)] {
        near("linear", &[draw("x", &[3, 20, 16]), draw("w", &[16, 8]), draw("v", &[8])], |x| {
            x[0].linear(&x[1], Some(&x[2]), Layout::InOut, function)
        });
    }
    near("twice", &[draw("x", &[20, 16]), draw("w", &[16, 16])], |x| {
        let once = x[0].linear(&x[1], None, Layout::OutIn, None)?.tanh()?;
        once.linear(&x[1], None, Layout::OutIn, None)?.add(&once)
    });
    near("layout", &[a.clone(), b.reshape([1, 6]).unwrap()], |x| {
        concatenate(&[&x[0].slice(1, 1, 4)?, &x[1].slice(1, 0, 4)?], 0)?.select(0, 4)?.sum_all()
    });
    let dropout = Dropout { probability: 0.3, key: Key::new(1), first_example: 5 };
    near("dropout", std::slice::from_ref(&a), |x| x[0].dropout(&dropout)?.mean(0));
    near("patches", &[draw("image", &[2, 1, 4, 4])], |x| x[0].patches(2));
    near("embedding", &[draw("table", &[9, 16])], |x| x[0].embedding(&ids(&[3, 3, 0, 8, 3])));
    let targets = ids(&[0, 5, 2, 2]);
    let settings = CrossEntropy { ignored: Some(5), smoothing: 0.1 };
    near("loss", std::slice::from_ref(&a), |x| x[0].cross_entropy(&targets, settings));
    near("scored", &[draw("rows", &[4, 8]), draw("classes", &[6, 8]), b], |x| {
        x[0].scored_cross_entropy(&x[1], Some(&x[2]), &targets, settings)?.scale(3.0)
    });
    near("binary", &[a, draw("targets", &[4, 6]).sigmoid().unwrap()], |x| {
        x[0].binary_cross_entropy_rows(&x[1])
    });
}

#[test]
fn attention_lstm_and_positions_agree_with_the_cpu() {
    let _alone = alone();
    if !found() {
        return;
    }
    let packed = draw("packed", &[2, 70, 3 * 32]);
    let fused = |x: &[Tensor], how: &Attention| {
        Ok(attend(Projections::Fused { packed: &x[0], heads: 2, kv_heads: 2 }, how)?.output)
    };
    near("fused", std::slice::from_ref(&packed), |x| {
        let mut how = Attention::scaled(0.25).causal();
        how.allowed.keys = Some(Mask::from_fn([2, 70], |at| at[1] != 3));
        how.dropout = Some(Dropout { probability: 0.2, key: Key::new(4), first_example: 1 });
        fused(x, &how)
    });
    let window = BlockMask::build((70, 70), |_| vec![0, 1], |query, key| query.abs_diff(key) <= 9);
    near("window", std::slice::from_ref(&packed), |x| {
        let mut how = Attention::scaled(0.25);
        how.allowed.blocks = Some(Arc::new(window.clone()));
        fused(x, &how)
    });
    let heads = [draw("q", &[1, 5, 2, 8]), draw("k", &[1, 6, 1, 8]), draw("v", &[1, 6, 1, 16])];
    let with = |more: Tensor| heads.iter().cloned().chain([more]).collect::<Vec<_>>();
    let attended = |x: &[Tensor], how: &Attention| {
        Ok(attend(Projections::Separate { query: &x[0], key: &x[1], value: &x[2] }, how)?.output)
    };
    let plain = Attention::scaled(0.5);
    near("dense", &with(draw("bias", &[1, 2, 5, 6])), |x| {
        attended(x, &Attention { bias: Bias::Dense(x[3].clone()), ..plain.clone() })
    });
    near("slopes", &with(draw("slopes", &[2])), |x| {
        attended(x, &Attention { bias: Bias::Slopes(x[3].clone()), ..plain.clone() })
    });
    near("buckets", &with(draw("table", &[4, 2])), |x| {
        let bias = Bias::Buckets { table: x[3].clone(), buckets: ids(&[0, 1, 2, 3, 3, 2, 1, 0, 1, 2]) };
        attended(x, &Attention { bias, ..plain.clone() })
    });
    near("sinks", &with(draw("sinks", &[2])), |x| {
        attended(x, &Attention { sink: Some(x[3].clone()), ..plain.clone() })
    });
    near("cached", &heads, |x| {
        let cached = Projections::Cached { query: &x[0], key: &x[1], value: &x[2], length: 5 };
        Ok(attend(cached, &plain)?.output)
    });
    // Few units, as many as fit a processor, more; few sequences, and more than there are processors.
    for (batch, hidden) in [(2, 4), (3, 128), (3, 132), (70, 36)] {
        let draw = |name: &str, shape: &[usize]| draw(name, shape).scale(0.2).unwrap();
        let of = |direction: &str| {
            [("input", vec![4 * hidden, 3]), ("hidden", vec![4 * hidden, hidden]), ("bias", vec![4 * hidden])]
                .map(|(name, shape)| draw(&format!("{direction} {name}"), &shape))
        };
        let inputs: Vec<Tensor> =
            [draw("x", &[batch, 5, 3])].into_iter().chain(of("first")).chain(of("last")).collect();
        let lengths = ids(&(0..batch).map(|i| [5, 2, 0, 4][i % 4]).collect::<Vec<_>>());
        for lengths in [None, Some(&lengths)] {
            near(&format!("lstm {batch}×{hidden}"), &inputs, |x| {
                let one = |w: &[Tensor]| LstmWeights {
                    input: w[0].clone(),
                    hidden: w[1].clone(),
                    bias: w[2].clone(),
                };
                lstm(&x[0], &[one(&x[1..4]), one(&x[4..7])], lengths)
            });
        }
    }
    let (cos, sin) = (draw("cos", &[9, 2]), draw("sin", &[9, 2]));
    near("rotary", std::slice::from_ref(&heads[0]), |x| {
        let (cos, sin) = (cos.to(x[0].device())?, sin.to(x[0].device())?);
        x[0].rotary(&cos, &sin, &ids(&[0, 8, 3, 4, 4]).reshape([1, 5])?, Pairing::Halves)
    });
}

#[test]
fn weights_of_attention_can_be_computed_on_demand() {
    let _alone = alone();
    if !found() {
        return;
    }
    let packed = draw("packed", &[2, 70, 3 * 32]);
    let weights = |device: Device| {
        let packed = packed.to(device).unwrap();
        let how = Attention::scaled(0.25).causal();
        let attended = attend(Projections::Fused { packed: &packed, heads: 2, kv_heads: 2 }, &how).unwrap();
        let block = attended.weights(1, 1, 3..69, 10..66).unwrap();
        (attended.all_weights().to_vec(), block.to_vec())
    };
    let (on_cpu, on_cuda) = (weights(Device::Cpu), weights(Device::Cuda(0)));
    assert!(distance(&on_cuda.0, &on_cpu.0) < 1e-5 && distance(&on_cuda.1, &on_cpu.1) < 1e-5);
}

#[test]
fn training_agrees_with_the_cpu_and_reads_nothing() {
    let _alone = alone();
    if !found() {
        return;
    }
    let (on_cpu, _) = train(Device::Cpu);
    let (on_cuda, traffic) = train(Device::Cuda(0));
    let (again, _) = train(Device::Cuda(0));
    assert_eq!(on_cuda, again, "another run has other bits");
    assert_eq!((traffic.host_reads, traffic.fallbacks.len()), (0, 0), "{:?}", traffic.fallbacks);
    let floats = |bits: &[u32]| bits.iter().map(|&bits| f32::from_bits(bits)).collect::<Vec<_>>();
    for (got, expected) in on_cuda.iter().zip(&on_cpu) {
        assert!(distance(&floats(got), &floats(expected)) < 1e-4);
    }
    assert_eq!(parameters(Device::Cuda(0))[0].device(), Device::Cuda(0));
}

#[test]
fn values_of_any_type_copy_to_the_device_and_back() {
    let _alone = alone();
    if !found() {
        return;
    }
    let x = draw("x", &[3, 5]);
    for data_type in [DataType::F32, DataType::Bf16, DataType::F16] {
        let there = x.to(Device::Cuda(0)).unwrap().to_type(data_type).unwrap();
        assert_eq!(there.data_type(), data_type);
        assert_eq!(there.to_vec(), x.to_type(data_type).unwrap().to_vec());
        let mut changed = there.clone();
        changed.overwrite(0, 1, &Tensor::full_on(Device::Cuda(0), [1, 5], 0.5).unwrap()).unwrap();
        assert_eq!(changed.to_vec()[5..10], [0.5; 5]);
        assert_eq!(there.to_vec(), x.to_type(data_type).unwrap().to_vec(), "the other handle is untouched");
    }
}

#[test]
fn devices_that_do_not_exist_are_errors() {
    let far = Device::Cuda(4096);
    assert_eq!(far.to_string().parse(), Ok(far));
    assert!(Tensor::zeros([2]).to(far).is_err());
    assert!("cuda:x".parse::<Device>().is_err());
}
