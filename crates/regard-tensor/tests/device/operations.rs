//! Operations and gradients on a device without kernels have the same bits as on the CPU.

use crate::{alone, bits, counted, draw, ids};
use regard_tensor::ops::{
    Attention, Bias, CrossEntropy, Dropout, Function, Layout, LstmWeights, Pairing, Projections, attend,
    concatenate, lstm,
};
use regard_tensor::random::Key;
use regard_tensor::{Device, Mask, Pass, Result, Tensor};

/// Checks that values and gradients of a function have the same bits on the CPU and on `Apart`, without host reads.
fn same(inputs: &[Tensor], function: impl Fn(&[Tensor]) -> Result<Tensor>) {
    let run = |device: Device| {
        let inputs: Vec<Tensor> = inputs.iter().map(|x| x.to(device).unwrap().tracked()).collect();
        let (results, traffic) = counted(|| {
            let output = function(&inputs).unwrap();
            assert_eq!(output.device(), device);
            let upstream = Tensor::full_on(device, output.shape(), 0.5).unwrap();
            let gradients = output.gradients(&Pass::new().from_upstream(upstream)).unwrap();
            // Constants, such as the targets of a loss, get none.
            let gradients = inputs.iter().filter_map(|x| gradients.get(x));
            [output].into_iter().chain(gradients).collect::<Vec<_>>()
        });
        assert_eq!((traffic.host_reads, traffic.uploads), (0, 0));
        assert_eq!(traffic.fallbacks.is_empty(), device == Device::Cpu, "{:?}", traffic.fallbacks);
        results.iter().map(bits).collect::<Vec<_>>()
    };
    assert_eq!(run(Device::Cpu), run(Device::Apart));
}

#[test]
fn operations_match_the_cpu_bit_for_bit() {
    let _alone = alone();
    let (a, b) = (draw("a", &[4, 6]), draw("b", &[6]));
    same(&[a.clone(), b.clone()], |x| x[0].add(&x[1])?.multiply(&x[0])?.divide(&x[1])?.subtract(&x[1]));
    same(std::slice::from_ref(&a), |x| x[0].gelu()?.softmax()?.affine(2.0, 1.0));
    same(std::slice::from_ref(&a), |x| {
        let mask = Mask::from_fn([6], |at| at[0] != 2);
        x[0].softmax_masked(&mask)?.max(1)?.0.sum_all()
    });
    same(&[a.clone(), draw("c", &[5, 6])], |x| x[0].matmul_transposed(&x[1], false, true)?.permute(&[1, 0]));
    same(&[a.clone(), b.clone(), draw("bias", &[6])], |x| x[0].layer_norm(&x[1], Some(&x[2]), 1e-5));
    same(&[a.clone(), draw("w", &[6, 3]), draw("v", &[3])], |x| {
        x[0].linear(&x[1], Some(&x[2]), Layout::InOut, Some(Function::Silu))
    });
    same(&[a.clone(), b.reshape([1, 6]).unwrap()], |x| {
        concatenate(&[&x[0].slice(1, 1, 4)?, &x[1].slice(1, 0, 4)?], 0)?.select(0, 4)?.sum_all()
    });
    let dropout = Dropout { probability: 0.3, key: Key::new(1), first_example: 5 };
    same(std::slice::from_ref(&a), |x| x[0].dropout(&dropout)?.mean(0));
    same(&[draw("image", &[2, 1, 4, 4])], |x| x[0].patches(2));
    let targets = ids(&[0, 5, 2, 2]);
    let settings = CrossEntropy { ignored: Some(5), smoothing: 0.1 };
    same(std::slice::from_ref(&a), |x| x[0].cross_entropy(&targets, settings));
    same(&[draw("rows", &[4, 3]), draw("classes", &[6, 3]), b], |x| {
        x[0].scored_cross_entropy(&x[1], Some(&x[2]), &targets, settings)?.scale(3.0)
    });
    same(&[a, draw("targets", &[4, 6]).sigmoid().unwrap()], |x| x[0].binary_cross_entropy_rows(&x[1]));
}

#[test]
fn attention_lstm_and_positions_match_the_cpu_bit_for_bit() {
    let _alone = alone();
    let packed = draw("packed", &[2, 70, 3 * 8]);
    same(std::slice::from_ref(&packed), |x| {
        let mut how = Attention::scaled(0.5).causal();
        how.allowed.keys = Some(Mask::from_fn([2, 70], |at| at[1] != 3));
        Ok(attend(Projections::Fused { packed: &x[0], heads: 2, kv_heads: 2 }, &how)?.output)
    });
    let heads = [draw("q", &[1, 5, 2, 4]), draw("k", &[1, 6, 1, 4]), draw("v", &[1, 6, 1, 3])];
    let with = |more: Tensor| heads.iter().cloned().chain([more]).collect::<Vec<_>>();
    let attended = |x: &[Tensor], how: &Attention| {
        Ok(attend(Projections::Separate { query: &x[0], key: &x[1], value: &x[2] }, how)?.output)
    };
    let plain = Attention::scaled(0.5);
    same(&with(draw("slopes", &[2])), |x| {
        attended(x, &Attention { bias: Bias::Slopes(x[3].clone()), ..plain.clone() })
    });
    same(&with(draw("table", &[4, 2])), |x| {
        let bias = Bias::Buckets { table: x[3].clone(), buckets: ids(&[0, 1, 2, 3, 3, 2, 1, 0, 1, 2]) };
        attended(x, &Attention { bias, ..plain.clone() })
    });
    same(&with(draw("sinks", &[2])), |x| {
        attended(x, &Attention { sink: Some(x[3].clone()), ..plain.clone() })
    });
    let weights = [[16, 3], [16, 4]].map(|shape| draw("lstm", &shape));
    same(&[draw("x", &[2, 5, 3]), weights[0].clone(), weights[1].clone(), draw("b", &[16])], |x| {
        let weights = LstmWeights { input: x[1].clone(), hidden: x[2].clone(), bias: x[3].clone() };
        lstm(&x[0], &[weights], Some(&ids(&[5, 2])))
    });
    same(&[heads[0].clone(), draw("cos", &[9, 2]), draw("sin", &[9, 2])], |x| {
        x[0].rotary(&x[1], &x[2], &ids(&[0, 8, 3, 4, 4]).reshape([1, 5])?, Pairing::Halves)
    });
}
