//! Linear layers on a few rows, such as the tokens of one step of a generation: reading the weights takes all the time.

use super::error::{Result, ensure};
use super::launch::{Grid, arguments};
use super::memory::{Buffer, Element, View};
use super::private::Private;
use super::program::{Source, source};
use super::recording;
use crate::kernels::linear::{Layout, Sizes};
use crate::ops::Function;
use std::sync::Arc;

static PROGRAM: Source = source!("few_rows.cu");

/// Warps of a block, as in the program.
const WARPS: usize = 8;

/// With as many outputs, each warp or block takes more of them and there are still enough to fill a device.
const MANY: usize = 1 << 13;

/// With fewer outputs than this, a block takes as few as it can: 768 outputs, two vectors of 8 a block, would leave most of a
/// device idle.
const FEW: usize = 1 << 11;

/// Whether there is a kernel for a layer of these sizes. Others are products like any.
pub fn has(sizes: Sizes, x: View, weight: View) -> bool {
    let Sizes { rows, inputs, outputs, layout } = sizes;
    let (n, most) = (x.element().per_vector(), u32::MAX as usize);
    let whole = match layout {
        Layout::OutIn => inputs.is_multiple_of(n),
        Layout::InOut => outputs.is_multiple_of(n),
    };
    let aligned = [x, weight].iter().all(|view| view.pointer().is_multiple_of(16));
    let known = matches!(x.element(), Element::F32 | Element::Bf16) && weight.element() == x.element();
    matches!(rows, 1 | 2 | 4) && inputs > 0 && inputs.max(outputs) <= most && whole && aligned && known
}

/// `f(x·W + b)`, and the values before the function if its derivative is computed from them.
pub fn forward(
    sizes: Sizes,
    x: View,
    weight: View,
    bias: Option<View>,
    function: Option<Function>,
) -> Result<(Buffer, Option<Buffer>)> {
    let Sizes { rows, inputs, outputs, layout } = sizes;
    ensure(has(sizes, x, weight), "few rows", "1, 2 or 4 rows of whole vectors", rows)?;
    ensure(x.len() == rows * inputs, "few rows", rows * inputs, x.len())?;
    // A table of words may have rows beyond the last word.
    ensure(weight.len() >= inputs * outputs, "few rows", inputs * outputs, weight.len())?;
    let fits = bias.is_none_or(|bias| bias.len() == outputs && bias.element() == x.element());
    ensure(fits, "few rows", format_args!("a bias of {outputs} {:?}", x.element()), "another")?;
    let (device, element) = (x.device(), x.element());
    let out = device.allocate(rows * outputs, element)?;
    let saves = function.is_some_and(|function| !function.saves_output());
    let before = saves.then(|| device.allocate(rows * outputs, element)).transpose()?;
    let (kernel, each, blocks) = match layout {
        Layout::OutIn => {
            let each = if outputs >= MANY { 4 } else { 1 };
            ("by_rows", each, outputs.div_ceil(WARPS * each))
        }
        Layout::InOut => {
            let each = match outputs {
                ..FEW => 1,
                FEW..MANY => 2,
                _ => 8,
            };
            ("by_columns", each, outputs.div_ceil(element.per_vector() * each))
        }
    };
    let name = format!("{kernel}_{}_{rows}_{each}", element.name());
    // In the order of FOR_FUNCTIONS, which is that of the enumeration; 0 is none.
    let number = function.map_or(0, |function| function as u32 + 1);
    let saved = before.as_ref().map(Buffer::view);
    let (inputs, outputs) = (inputs as u32, outputs as u32);
    let computed =
        |pool: Arc<Private>| [Some(weight), bias].iter().flatten().any(|view| pool.owns(view.pointer()));
    let ahead = !recording::pool(device.ordinal()).is_some_and(computed);
    let grid = Grid::new(blocks, WARPS * 32).early();
    let arguments = arguments![x, weight, bias, &out, saved, inputs, outputs, number, ahead];
    device.launch(&PROGRAM, &name, grid, arguments)?;
    Ok((out, before))
}

#[cfg(test)]
mod tests {
    use super::super::pointwise;
    use crate::ops::Function::{EluPlusOne, Exp, Gelu, GeluTanh, Ln, Relu, Sigmoid, Silu, Sqrt, Tanh};

    #[test]
    fn functions_are_numbered_as_in_the_header() {
        let listed = include_str!("functions.cuh").split("#define FOR_FUNCTIONS(DO)").nth(1).unwrap();
        let names: Vec<&str> =
            listed.split("DO(").skip(1).map(|part| part.split(',').next().unwrap()).collect();
        let all = [Exp, Ln, Sqrt, Tanh, Sigmoid, Relu, Gelu, GeluTanh, Silu, EluPlusOne];
        assert_eq!(names.len(), all.len());
        for function in all {
            assert_eq!(names[function as usize], pointwise::name(function));
        }
    }
}
