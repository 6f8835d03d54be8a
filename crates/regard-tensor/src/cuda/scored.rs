//! The mean cross-entropy of scored rows, whose scores exist for some rows at a time.

use super::arithmetic;
use super::columns;
use super::loss::{self, Losses};
use super::matmul::{Finish, Matrix, Output, product};
use super::memory::{Buffer, Element, View};
use super::reduce;
use crate::array::Array;
use crate::error::Result;
use crate::kernels::loss::{ScoredLoss, Targets};

/// Rows that are scored at a time: enough to fill the device.
const ROWS_AT_ONCE: usize = 4096;

impl<'a> Targets<'a> {
    /// The same for the device's kernels, with ids that lie there and rows without gaps.
    pub(crate) fn on_cuda(&self, ids: View<'a>) -> loss::Targets<'a> {
        let Self { classes, ignored, smoothing, .. } = *self;
        loss::Targets { ids, classes, stride: classes, ignored, smoothing }
    }
}

/// The loss, and the gradients that are wanted of the vectors (in their type), the weight and the bias (in f32).
pub(crate) fn scored_cross_entropy(
    (x, weight, bias): (&Array, &Array, Option<&Array>),
    inputs: usize,
    targets: Targets,
    wanted: [bool; 3],
) -> Result<ScoredLoss> {
    let (rows, classes) = (targets.ids.count(), targets.classes);
    let scale = 1.0 / rows.max(1) as f32;
    let weight = weight.cuda_rounded(x.data_type())?;
    let bias = bias.map(|bias| bias.cuda_rounded(x.data_type())).transpose()?;
    let ids = targets.ids.cuda(x.device())?;
    let mut pass = Pass {
        x: x.cuda()?,
        weight: Matrix::new(weight.cuda()?, classes, inputs),
        bias: bias.as_ref().map(Array::cuda).transpose()?,
        targets: targets.on_cuda(ids.view()?),
        inputs,
        scale,
        gradients: Gradients::new(x.cuda()?, classes * inputs, classes, wanted)?,
    };
    let device = x.cuda()?.device();
    let mut losses = device.allocate(rows, Element::F32)?;
    let block = ROWS_AT_ONCE.min(rows);
    let mut scores = device.allocate(block * classes, pass.x.element())?;
    for first in (0..rows).step_by(block.max(1)) {
        let count = block.min(rows - first);
        let chunk = pass.chunk(first, count, &mut scores)?;
        losses.view_mut().part(first, count)?.copy_from(chunk.losses.view())?;
    }
    let total = reduce::sum(losses.view(), (1, rows, 1))?;
    let loss = arithmetic::affine(total.view(), scale, 0.0, None, Element::F32)?;
    let Gradients { x, weight, bias } = pass.gradients;
    Ok(ScoredLoss {
        loss: loss.into(),
        x: x.map(Array::from),
        weight: weight.map(Array::from),
        bias: bias.map(Array::from),
    })
}

/// The gradients that are wanted, filled chunk by chunk.
struct Gradients {
    x: Option<Buffer>,
    weight: Option<Buffer>,
    bias: Option<Buffer>,
}

impl Gradients {
    fn new(x: View, weight: usize, bias: usize, wanted: [bool; 3]) -> Result<Self> {
        let device = x.device();
        let sums = |wanted: bool, len| wanted.then(|| device.zeros(len, Element::F32)).transpose();
        Ok(Self {
            x: wanted[0].then(|| device.allocate(x.len(), x.element())).transpose()?,
            weight: sums(wanted[1], weight)?,
            bias: sums(wanted[2], bias)?,
        })
    }

    fn any(&self) -> bool {
        self.x.is_some() || self.weight.is_some() || self.bias.is_some()
    }
}

/// What every chunk of rows needs.
struct Pass<'a> {
    x: View<'a>,
    /// (classes, inputs).
    weight: Matrix<'a>,
    bias: Option<View<'a>>,
    targets: loss::Targets<'a>,
    inputs: usize,
    scale: f32,
    gradients: Gradients,
}

impl Pass<'_> {
    /// Scores some rows, turns the scores into their gradient and passes it on; returns the rows' losses.
    fn chunk(&mut self, first: usize, count: usize, scores: &mut Buffer) -> Result<Losses> {
        let Self { inputs, scale, .. } = *self;
        let classes = self.targets.classes;
        let x = Matrix::new(self.x.part(first * inputs, count * inputs)?, count, inputs);
        let mut scores = scores.view_mut().part(0, count * classes)?;
        let finish = self.bias.map_or(Finish::Nothing, Finish::Bias);
        product(x, self.weight.transposed(), 1, scores.reborrow(), (1.0, Output::Replace), finish)?;
        let targets = loss::Targets { ids: self.targets.ids.part(first, count)?, ..self.targets };
        if !self.gradients.any() {
            return Ok(loss::cross_entropy(scores.as_view(), targets)?);
        }
        let losses = loss::cross_entropy_in_place(scores.reborrow(), targets, scale)?;
        let g = Matrix::new(scores.as_view(), count, classes);
        if let Some(out) = &mut self.gradients.x {
            let out = out.view_mut().part(first * inputs, count * inputs)?;
            product(g, self.weight, 1, out, (1.0, Output::Replace), Finish::Nothing)?;
        }
        if let Some(out) = &mut self.gradients.weight {
            product(g.transposed(), x, 1, out.view_mut(), (1.0, Output::Add), Finish::Nothing)?;
        }
        if let Some(out) = &mut self.gradients.bias {
            columns::add_sums(scores.as_view(), count, classes, out.view_mut())?;
        }
        Ok(losses)
    }
}
