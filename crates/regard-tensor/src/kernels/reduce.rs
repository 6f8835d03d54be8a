//! Sums, maxima and where they are, along one axis; the norm of many arrays.

use super::on_cpu;
use crate::array::Array;
use crate::error::Result;
use crate::ids::Ids;
use crate::storage::Kernels;
use crate::{cpu, cuda};

/// An axis in the middle of an array: how many blocks before it, its length, how many values after it.
pub(crate) type Axis = (usize, usize, usize);

/// The sum along an axis.
pub(crate) fn sum(x: &Array, axis: Axis) -> Result<Array> {
    match x.kernels() {
        Kernels::Cuda => Ok(cuda::reduce::sum(x.cuda()?, axis)?.into()),
        Kernels::Cpu => on_cpu("sum", x, |x| cpu::reduce::sum(x, axis)),
    }
}

/// The sum of each column of a matrix: the gradient of a bias.
pub(crate) fn column_sums(x: &Array, rows: usize, columns: usize) -> Result<Array> {
    match x.kernels() {
        Kernels::Cuda => Ok(cuda::columns::sums(x.cuda()?, rows, columns)?.into()),
        Kernels::Cpu => on_cpu("column_sums", x, |x| cpu::reduce::column_sums(x, rows, columns)),
    }
}

/// The largest value along an axis and its place (the first of equals); NaN wins over everything.
pub(crate) fn max(x: &Array, axis: Axis) -> Result<(Array, Ids)> {
    match x.kernels() {
        Kernels::Cuda => {
            let (values, places) = cuda::reduce::max(x.cuda()?, axis)?;
            Ok((values.into(), Ids::from_cuda(places, axis.1)))
        }
        Kernels::Cpu => on_cpu("max", x, |x| {
            let (values, places) = cpu::reduce::max(x, axis);
            (values, Ids::row(places, axis.1))
        }),
    }
}

/// Puts each value at its place along an axis that is zero elsewhere: the gradient of a maximum.
pub(crate) fn scatter(values: &Array, places: &Ids, axis: Axis) -> Result<Array> {
    match values.kernels() {
        Kernels::Cuda => {
            let places = places.cuda(values.device())?;
            Ok(cuda::reduce::scatter(values.cuda()?, places.view()?, axis)?.into())
        }
        Kernels::Cpu => on_cpu("scatter", (values, places), |(values, places)| {
            cpu::reduce::scatter(values, places.slice(), axis)
        }),
    }
}

/// The Euclidean norm of all arrays together, summed in their order: one value.
pub(crate) fn norm(arrays: &[&Array]) -> Result<Array> {
    match arrays.first().map_or(Kernels::Cpu, |array| array.kernels()) {
        Kernels::Cuda => cuda::update::norm(arrays),
        Kernels::Cpu => on_cpu("global_norm", arrays.to_vec(), |arrays| cpu::reduce::norm(&arrays)),
    }
}
