//! An LSTM over whole sequences: products for all steps at once, and one launch for what goes step by step.

use super::arrays::Copy;
use super::columns;
use super::device::Device;
use super::launch::{Grid, arguments};
use super::layout::permute;
use super::matmul::{Finish, Matrix, Output, product};
use super::memory::{Buffer, Element, View};
use super::program::{Source, source};
use crate::array::Array;
use crate::error::Result;
use crate::kernels::lstm::{Lengths, LstmGradients, Sizes, Weights};
use crate::kernels::memory::convert;
use crate::shape::Shape;
use crate::storage::DataType;

static PROGRAM: Source = source!("lstm.cu");

/// Up to so many units, recurrent weights fit a processor: see `lstm.cu`.
const HELD_UNITS: usize = 128;
/// A thread's weights that are in registers, not in shared memory.
const IN_REGISTERS: usize = 60;

/// What the backward pass needs of the forward pass.
pub(crate) struct Saved {
    /// The weights in the type of the activations.
    weights: Vec<Weights>,
    /// (directions, batch, time, 4·hidden) and (directions, batch, time, hidden).
    gates: Buffer,
    cells: Buffer,
    lengths: Option<Copy>,
}

/// Whether there are kernels for these sizes.
pub(crate) fn takes(sizes: Sizes) -> bool {
    let Sizes { batch, time, inputs, hidden, directions } = sizes;
    // Shared memory holds a few rows of gates.
    inputs > 0 && hidden <= 1024 && directions <= 2 && u32::try_from(batch.max(time)).is_ok()
}

/// How a kernel is launched: how many sequences a block has, and where the weights are.
struct Plan {
    variant: String,
    sequences: usize,
    held: bool,
}

impl Plan {
    fn new(device: &Device, sizes: Sizes, element: Element) -> Self {
        let held = sizes.hidden <= HELD_UNITS && sizes.hidden.is_multiple_of(4);
        // One sequence a block while all blocks are on the device at once: then four share what a step waits for. Weights that
        // come from the cache in every step are always shared by four: each block reads them all.
        let all_at_once = sizes.batch * sizes.directions <= device.multiprocessors();
        let sequences = if held && all_at_once { 1 } else { 4 };
        let place = if held { "held" } else { "streamed" };
        Self { variant: format!("{}_{place}_{sequences}", element.name()), sequences, held }
    }

    /// The grid, with shared memory for `rows` values of each unit of each sequence.
    fn grid(&self, sizes: Sizes, rows: usize) -> Grid {
        let Sizes { batch, hidden, directions, .. } = sizes;
        let threads = (4 * hidden).next_multiple_of(32).min(512);
        let weights = if self.held { threads * hidden.saturating_sub(IN_REGISTERS) } else { 0 };
        let shared = (self.sequences * rows * hidden + weights) * size_of::<f32>();
        Grid { blocks: (batch.div_ceil(self.sequences), directions, 1), threads, shared, early: false }
    }
}

/// The hidden states (batch, time, directions·hidden), zero in the padding.
pub(crate) fn forward(
    sizes: Sizes,
    x: &Array,
    weights: &[Weights],
    lengths: Lengths,
) -> Result<(Array, Saved)> {
    let Sizes { batch, time, inputs, hidden, directions } = sizes;
    let (rows, gate_width) = (batch * time, 4 * hidden);
    let view = x.cuda()?;
    let (device, element) = (view.device(), view.element());
    let rounded = |weights: &Weights| -> Result<Weights> {
        Ok(Weights {
            input: weights.input.cuda_rounded(x.data_type())?,
            hidden: weights.hidden.cuda_rounded(x.data_type())?,
            bias: convert(&weights.bias, DataType::F32)?,
        })
    };
    let weights = weights.iter().map(rounded).collect::<Result<Vec<_>>>()?;
    let mut before = device.allocate(directions * rows * gate_width, Element::F32)?;
    for (direction, weights) in weights.iter().enumerate() {
        let out = before.view_mut().part(direction * rows * gate_width, rows * gate_width)?;
        let weight = Matrix::new(weights.input.cuda()?, gate_width, inputs).transposed();
        let finish = Finish::Bias(weights.bias.cuda()?);
        product(Matrix::new(view, rows, inputs), weight, 1, out, (1.0, Output::Replace), finish)?;
    }
    let saved = Saved {
        weights,
        gates: device.allocate(directions * rows * gate_width, Element::F32)?,
        cells: device.allocate(directions * rows * hidden, Element::F32)?,
        lengths: lengths.map(|lengths| lengths.cuda(x.device())).transpose()?,
    };
    let count = rows * directions * hidden;
    let out = match saved.lengths {
        Some(_) => device.zeros(count, element)?,
        None => device.allocate(count, element)?,
    };
    let plan = Plan::new(device, sizes, element);
    // Threads are gates, so that neighbouring threads should read neighbouring gates' weights for the same unit.
    let turned = match plan.held {
        true => Vec::new(),
        false => {
            let shape = Shape::from(vec![gate_width, hidden]);
            let turn = |weights: &Weights| Ok(permute(weights.hidden.cuda()?, &shape, &[1, 0])?);
            saved.weights.iter().map(turn).collect::<Result<Vec<_>>>()?
        }
    };
    let [first, last] = match turned.as_slice() {
        [] => saved.recurrent()?,
        [first, .., last] | [first @ last] => [first.view(), last.view()],
    };
    device.launch(
        &PROGRAM,
        &format!("forward_{}", plan.variant),
        plan.grid(sizes, 6),
        arguments![
            &before,
            first,
            last,
            &out,
            &saved.gates,
            &saved.cells,
            batch as u32,
            time as u32,
            hidden as u32,
            directions as u32,
            saved.lengths.as_ref().map(Copy::view).transpose()?
        ],
    )?;
    Ok((out.into(), saved))
}

impl Saved {
    /// The recurrent weights of the first and of the last direction.
    fn recurrent(&self) -> Result<[View<'_>; 2]> {
        let last = self.weights.len() - 1;
        Ok([self.weights[0].hidden.cuda()?, self.weights[last].hidden.cuda()?])
    }
}

/// The gradients of everything [`forward`] read: of the weights in f32, of the input in its type.
pub(crate) fn backward(
    sizes: Sizes,
    x: &Array,
    output: &Array,
    saved: &Saved,
    upstream: &Array,
) -> Result<LstmGradients> {
    let Sizes { batch, time, inputs, hidden, directions } = sizes;
    let (rows, gate_width) = (batch * time, 4 * hidden);
    let upstream = convert(upstream, output.data_type())?;
    let (x, output) = (x.cuda()?, output.cuda()?);
    let (device, element) = (output.device(), output.element());
    let room = |len: usize| match saved.lengths {
        // The padding sends nothing back.
        Some(_) => device.zeros(len, element),
        None => device.allocate(len, element),
    };
    let (before, earlier) = (room(directions * rows * gate_width)?, room(directions * rows * hidden)?);
    let plan = Plan::new(device, sizes, element);
    let [first, last] = saved.recurrent()?;
    device.launch(
        &PROGRAM,
        &format!("backward_{}", plan.variant),
        plan.grid(sizes, 10),
        arguments![
            upstream.cuda()?,
            first,
            last,
            output,
            &saved.gates,
            &saved.cells,
            &before,
            &earlier,
            batch as u32,
            time as u32,
            hidden as u32,
            directions as u32,
            saved.lengths.as_ref().map(Copy::view).transpose()?
        ],
    )?;
    let mut dx = device.allocate(x.len(), element)?;
    let mut weights = Vec::with_capacity(directions);
    for (direction, of) in saved.weights.iter().enumerate() {
        let before = before.view().part(direction * rows * gate_width, rows * gate_width)?;
        let earlier = earlier.view().part(direction * rows * hidden, rows * hidden)?;
        let g = Matrix::new(before, rows, gate_width);
        let add = if direction == 0 { Output::Replace } else { Output::Add };
        let weight = Matrix::new(of.input.cuda()?, gate_width, inputs);
        product(g, weight, 1, dx.view_mut(), (1.0, add), Finish::Nothing)?;
        let slope = |values: View, width: usize| -> Result<Array> {
            let mut out = device.allocate(gate_width * width, Element::F32)?;
            let values = Matrix::new(values, rows, width);
            product(g.transposed(), values, 1, out.view_mut(), (1.0, Output::Replace), Finish::Nothing)?;
            Ok(out.into())
        };
        weights.push(Weights {
            input: slope(x, inputs)?,
            hidden: slope(earlier, hidden)?,
            bias: columns::sums(before, rows, gate_width)?.into(),
        });
    }
    Ok(LstmGradients { x: dx.into(), weights })
}
