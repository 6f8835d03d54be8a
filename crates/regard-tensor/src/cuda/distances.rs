//! Biases by distance: from slopes or buckets to a value for each distance, and back.

use super::launch::{Grid, arguments};
use super::memory::Element;
use super::program::{Source, source};
use crate::array::Array;
use crate::error::Result;
use crate::ids::Ids;
use crate::kernels::memory::convert;
use crate::storage::DataType;

static PROGRAM: Source = source!("distances.cu");

/// One value for each distance from one slope a head.
pub(crate) fn from_slopes(slopes: &Array, queries: usize, keys: usize) -> Result<Array> {
    let (heads, span) = (slopes.len(), queries + keys - 1);
    let slopes = convert(slopes, DataType::F32)?;
    let slopes = slopes.cuda()?;
    let out = slopes.device().allocate(heads * span, Element::F32)?;
    let arguments = arguments![slopes, &out, heads, span, queries];
    slopes.device().launch(&PROGRAM, "from_slopes", Grid::over(heads * span, 1), arguments)?;
    Ok(out.into())
}

/// The gradient of [`from_slopes`].
pub(crate) fn to_slopes(gradient: &Array, heads: usize, queries: usize) -> Result<Array> {
    let g = gradient.cuda()?;
    let out = g.device().allocate(heads, Element::F32)?;
    let arguments = arguments![g, &out, g.len() / heads.max(1), queries];
    g.device().launch(&PROGRAM, "to_slopes", Grid::new(heads, 256), arguments)?;
    Ok(out.into())
}

/// One value for each distance from a table (buckets, heads) and each distance's bucket.
pub(crate) fn from_buckets(table: &Array, heads: usize, buckets: &Ids) -> Result<Array> {
    let (ids, span) = (buckets.cuda(table.device())?, buckets.count());
    let table = convert(table, DataType::F32)?;
    let table = table.cuda()?;
    let out = table.device().allocate(heads * span, Element::F32)?;
    let arguments = arguments![table, ids.view()?, &out, heads, span];
    table.device().launch(&PROGRAM, "from_buckets", Grid::over(heads * span, 1), arguments)?;
    Ok(out.into())
}

/// The gradient of [`from_buckets`] for a table of `rows` buckets.
pub(crate) fn to_buckets(gradient: &Array, heads: usize, buckets: &Ids, rows: usize) -> Result<Array> {
    let (ids, span) = (buckets.cuda(gradient.device())?, buckets.count());
    let g = gradient.cuda()?;
    let out = g.device().allocate(rows * heads, Element::F32)?;
    let grid = Grid::new((rows * heads).div_ceil(8), 256);
    let arguments = arguments![g, ids.view()?, &out, rows, heads, span];
    g.device().launch(&PROGRAM, "to_buckets", grid, arguments)?;
    Ok(out.into())
}
