//! Layer norm and RMS norm over rows, alone or after a residual sum.

use super::columns;
use super::error::{Result, ensure};
use super::launch::{Grid, arguments};
use super::memory::{Buffer, Element, View};
use super::program::{Source, source};

static PROGRAM: Source = source!("norm.cu");

/// The parameters of a norm.
#[derive(Clone, Copy)]
pub struct Norm<'a> {
    /// Whether the mean is taken away first (layer norm; else RMS norm).
    pub centred: bool,
    /// One f32 for each column.
    pub weight: View<'a>,
    /// One f32 for each column.
    pub bias: Option<View<'a>>,
    /// Added to the mean of squares.
    pub epsilon: f32,
}

/// For each row its mean and 1 / deviation, which the backward pass needs.
pub struct Moments {
    /// The means, zeros for RMS norm.
    pub mean: Buffer,
    /// 1 / deviation.
    pub inverse: Buffer,
}

/// Gradients of a norm.
pub struct Gradients {
    /// Of the rows, in their type.
    pub x: Buffer,
    /// Of the weight, then of the bias: 2·width f32 values.
    pub parameters: Buffer,
}

/// Up to so many rows, how long a norm takes is how long it waits: it is launched early. As in the program.
const FEW: usize = 8;

/// Up to so many vectors a lane, the backward pass fetches rows ahead.
const MOST_STAGED: usize = 6;

/// Which kernel takes a row: how many vectors a lane holds, or the one for wide rows.
fn variant(width: usize, views: &[View]) -> Result<(&'static str, usize)> {
    let element = views[0].element();
    ensure(
        matches!(element, Element::F32 | Element::Bf16) && views.iter().all(|view| view.element() == element),
        "norm",
        "rows of f32 or bf16, all of one type",
        element.name(),
    )?;
    let even = width.is_multiple_of(element.per_vector())
        && views.iter().all(|view| view.pointer().is_multiple_of(16));
    let chunks = width.div_ceil(32 * element.per_vector());
    Ok(match chunks {
        _ if !even => ("wide", 0),
        0 | 1 => ("1", 1),
        2 => ("2", 2),
        3 => ("3", 3),
        4 => ("4", 4),
        5 | 6 => ("6", 6),
        7 | 8 => ("8", 8),
        _ => ("wide", 0),
    })
}

fn check_parameters(norm: &Norm) -> Result<usize> {
    let width = norm.weight.len();
    for parameter in [Some(norm.weight), norm.bias].into_iter().flatten() {
        let fits = parameter.len() == width && parameter.element() == Element::F32;
        ensure(fits, "norm", format_args!("{width} f32 parameters"), parameter.len())?;
    }
    ensure(width > 0, "norm", "at least one column", width)?;
    Ok(width)
}

/// The norm of each row of `x`, and its moments.
pub fn forward(x: View, norm: &Norm) -> Result<(Buffer, Moments)> {
    let (_, y, moments) = launch_forward(x, None, norm)?;
    Ok((y, moments))
}

/// The sum `x + residual`, the norm of each of its rows, and their moments.
pub fn add_forward(x: View, residual: View, norm: &Norm) -> Result<(Buffer, Buffer, Moments)> {
    ensure(x.len() == residual.len(), "add_norm", x.len(), residual.len())?;
    let (sum, y, moments) = launch_forward(x, Some(residual), norm)?;
    Ok((sum.expect("there is a residual"), y, moments))
}

fn launch_forward(x: View, residual: Option<View>, norm: &Norm) -> Result<(Option<Buffer>, Buffer, Moments)> {
    let width = check_parameters(norm)?;
    let rows = x.len() / width;
    ensure(rows * width == x.len(), "norm", format_args!("rows of {width}"), x.len())?;
    let device = x.device();
    let views: Vec<View> = [Some(x), residual].into_iter().flatten().collect();
    let (suffix, chunks) = variant(width, &views)?;
    let y = device.allocate(x.len(), x.element())?;
    let sum = residual.map(|_| device.allocate(x.len(), x.element())).transpose()?;
    let (mean, inverse) = (device.allocate(rows, Element::F32)?, device.allocate(rows, Element::F32)?);
    let grid = if chunks == 0 { Grid::new(rows, 256) } else { Grid::new(rows.div_ceil(8), 256) };
    let sum_view = sum.as_ref().map(Buffer::view);
    device.launch(
        &PROGRAM,
        &format!("forward_{}_{suffix}", x.element().name()),
        if rows <= FEW { grid.early() } else { grid },
        arguments![
            x,
            residual,
            sum_view,
            &y,
            norm.weight,
            norm.bias,
            &mean,
            &inverse,
            rows,
            width as u32,
            norm.epsilon,
            norm.centred
        ],
    )?;
    Ok((sum, y, Moments { mean, inverse }))
}

/// Gradients from the rows that entered the norm (after a residual sum), their moments, and the gradient `g` of its output.
///
/// `through` is what reaches the residual sum beside the norm; it is added to the rows' gradient.
pub fn backward(
    x: View,
    norm: &Norm,
    (mean, inverse): (View, View),
    g: View,
    through: Option<View>,
) -> Result<Gradients> {
    let width = check_parameters(norm)?;
    let rows = x.len() / width;
    for (len, expected) in [(g.len(), x.len()), (mean.len(), rows), (inverse.len(), rows)] {
        ensure(len == expected, "norm backward", expected, len)?;
    }
    ensure(through.is_none_or(|t| t.len() == x.len()), "norm backward", x.len(), "another length")?;
    let device = x.device();
    let views: Vec<View> = [Some(x), Some(g), through].into_iter().flatten().collect();
    let (suffix, chunks) = variant(width, &views)?;
    let dx = device.allocate(x.len(), x.element())?;
    // Enough blocks to fill the device; more would only leave more partial sums.
    let per_block = if chunks == 0 { 1 } else { 8 };
    let blocks = rows.div_ceil(per_block).min(2 * device.multiprocessors()).max(1);
    let partial = device.allocate(blocks * 2 * width, Element::F32)?;
    let sums = if chunks == 0 { 0 } else { 2 * width * size_of::<f32>() };
    // Of each row, two at a time, a warp has x, g and what passes by the norm in shared memory: see `norm.cu`.
    let staged = if chunks <= MOST_STAGED { 8 * 2 * 3 * chunks * 32 * 16 } else { 0 };
    let shared = sums.next_multiple_of(16) + staged;
    device.launch(
        &PROGRAM,
        &format!("backward_{}_{suffix}", x.element().name()),
        Grid { shared, ..Grid::new(blocks, 256) },
        arguments![
            x,
            g,
            through,
            &dx,
            norm.weight,
            mean,
            inverse,
            &partial,
            rows,
            width as u32,
            norm.centred
        ],
    )?;
    let mut parameters = device.allocate(2 * width, Element::F32)?;
    columns::join(&partial, blocks, 2 * width, &mut parameters.view_mut(), false)?;
    Ok(Gradients { x: dx, parameters })
}
