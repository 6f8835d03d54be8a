//! Losses over rows of logits, without ever keeping probabilities.

use super::memory::convert;
use super::{moves, on_cpu};
use crate::array::Array;
use crate::error::Result;
use crate::ids::Ids;
use crate::storage::{DataType, Kernels};
use crate::{cpu, cuda};

/// Cross-entropy's settings: targets equal to `ignored` do not count, and `smoothing` of the target's probability
/// is spread over all classes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Targets<'a> {
    pub ids: &'a Ids,
    pub classes: usize,
    pub ignored: Option<u32>,
    pub smoothing: f32,
}

/// The mean loss of scored rows, in which ignored ones count with 0, and its gradients.
pub(crate) struct ScoredLoss {
    /// One value.
    pub loss: Array,
    /// Of the vectors, the weight and the bias, those that were wanted.
    pub x: Option<Array>,
    pub weight: Option<Array>,
    pub bias: Option<Array>,
}

moves!(ScoredLoss { loss, x, weight, bias });

/// For each row its loss, `lse − (1 − ε)·x[target] − ε·mean(x)`, and its log-sum-exp.
pub(crate) fn cross_entropy(logits: &Array, targets: Targets) -> Result<(Array, Array)> {
    match logits.kernels() {
        Kernels::Cuda => {
            let ids = targets.ids.cuda(logits.device())?;
            let out = cuda::loss::cross_entropy(logits.cuda()?, targets.on_cuda(ids.view()?))?;
            Ok((out.losses.into(), out.lse.into()))
        }
        Kernels::Cpu => on_cpu("cross_entropy", (logits, targets.ids), |(logits, ids)| {
            cpu::loss::cross_entropy(logits, Targets { ids, ..targets })
        }),
    }
}

/// `(softmax(x) − (1 − ε)·[target] − ε/classes) · upstream[row]`.
pub(crate) fn cross_entropy_gradient(
    logits: &Array,
    lse: &Array,
    targets: Targets,
    upstream: &Array,
) -> Result<Array> {
    match logits.kernels() {
        Kernels::Cuda => {
            let ids = targets.ids.cuda(logits.device())?;
            let upstream = convert(upstream, DataType::F32)?;
            let (lse, upstream) = (lse.cuda()?, upstream.cuda()?);
            let targets = targets.on_cuda(ids.view()?);
            Ok(cuda::loss::cross_entropy_gradient(logits.cuda()?, lse, upstream, targets)?.into())
        }
        Kernels::Cpu => {
            let operands = (logits, lse, targets.ids, upstream);
            on_cpu("cross_entropy_gradient", operands, |(logits, lse, ids, upstream)| {
                cpu::loss::cross_entropy_gradient(logits, lse, Targets { ids, ..targets }, upstream)
            })
        }
    }
}

/// The mean cross-entropy of x (rows, inputs) scored by a weight (classes, inputs) and a bias, with the gradients that are
/// wanted of the three.
pub(crate) fn scored_cross_entropy(
    (x, weight, bias): (&Array, &Array, Option<&Array>),
    inputs: usize,
    targets: Targets,
    wanted: [bool; 3],
) -> Result<ScoredLoss> {
    match x.kernels() {
        Kernels::Cuda => cuda::scored::scored_cross_entropy((x, weight, bias), inputs, targets, wanted),
        Kernels::Cpu => {
            let weight = weight.fetched();
            on_cpu("scored_cross_entropy", (x, bias, targets.ids), |(x, bias, ids)| {
                let targets = Targets { ids, ..targets };
                cpu::loss::scored_cross_entropy((x, &weight, bias), inputs, targets, wanted)
            })
        }
    }
}

/// `max(x, 0) − x·t + ln(1 + e^−|x|)` for each logit x and target t in [0, 1].
pub(crate) fn binary_cross_entropy(logits: &Array, targets: &Array) -> Result<Array> {
    match logits.kernels() {
        Kernels::Cuda => {
            let targets = convert(targets, DataType::F32)?;
            Ok(cuda::loss::binary_cross_entropy(logits.cuda()?, targets.cuda()?)?.into())
        }
        Kernels::Cpu => on_cpu("binary_cross_entropy", (logits, targets), |(logits, targets)| {
            cpu::loss::binary_cross_entropy(logits, targets)
        }),
    }
}

/// `(sigmoid(x) − t)·upstream`.
pub(crate) fn binary_cross_entropy_gradient(
    logits: &Array,
    targets: &Array,
    upstream: &Array,
) -> Result<Array> {
    match logits.kernels() {
        Kernels::Cuda => {
            let (targets, g) = (convert(targets, DataType::F32)?, convert(upstream, DataType::F32)?);
            let logits = logits.cuda()?;
            Ok(cuda::loss::binary_cross_entropy_gradient(logits, targets.cuda()?, g.cuda()?)?.into())
        }
        Kernels::Cpu => {
            let operands = (logits, targets, upstream);
            on_cpu("binary_cross_entropy_gradient", operands, |(logits, targets, upstream)| {
                cpu::loss::binary_cross_entropy_gradient(logits, targets, upstream)
            })
        }
    }
}
