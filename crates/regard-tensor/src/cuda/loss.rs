//! Losses over rows of logits.

use super::error::{Result, ensure};
use super::launch::{Argument, Grid, arguments};
use super::memory::{Buffer, Element, View, ViewMut};
use super::program::{Source, source};

static PROGRAM: Source = source!("loss.cu");

/// The classes that rows of logits should have, and cross-entropy's settings.
#[derive(Clone, Copy)]
pub struct Targets<'a> {
    /// One for each row, below `classes` unless ignored. The kernel does not check them.
    pub ids: View<'a>,
    /// How many classes there are.
    pub classes: usize,
    /// Values from one row of logits to the next, at least `classes`.
    pub stride: usize,
    /// Rows with this target do not count.
    pub ignored: Option<u32>,
    /// The share of the target's probability that is spread over all classes.
    pub smoothing: f32,
}

impl Targets<'_> {
    fn check(&self, logits: View) -> Result<usize> {
        let rows = self.ids.len();
        ensure(self.ids.element() == Element::U32, "cross_entropy", "ids", self.ids.element().name())?;
        ensure(self.classes <= self.stride, "cross_entropy", self.classes, self.stride)?;
        ensure(logits.len() == rows * self.stride, "cross_entropy", rows * self.stride, logits.len())?;
        Ok(rows)
    }

    /// As kernels take it: no id is 2⁶⁴ − 1.
    fn ignored(&self) -> usize {
        self.ignored.map_or(usize::MAX, |id| id as usize)
    }
}

/// The losses of rows, and their log-sum-exps.
pub struct Losses {
    /// 0 for rows that are ignored.
    pub losses: Buffer,
    /// ln Σ eˣ of each row.
    pub lse: Buffer,
}

/// The cross-entropy of each row.
pub fn cross_entropy(logits: View, targets: Targets) -> Result<Losses> {
    launch(logits, None, targets, 0.0)
}

/// The cross-entropy of each row; the logits become its gradient, times `scale`.
pub fn cross_entropy_in_place(mut logits: ViewMut, targets: Targets, scale: f32) -> Result<Losses> {
    let gradient = Argument::from(&mut logits);
    launch(logits.as_view(), Some(gradient), targets, scale)
}

fn launch(logits: View, gradient: Option<Argument>, targets: Targets, scale: f32) -> Result<Losses> {
    let rows = targets.check(logits)?;
    let (device, element) = (logits.device(), logits.element());
    let losses = device.allocate(rows, Element::F32)?;
    let lse = device.allocate(rows, Element::F32)?;
    let Targets { ids, classes, stride, smoothing, .. } = targets;
    let (row_bytes, ignored) = (stride * element.size(), targets.ignored());
    // Two rows in shared memory, if rows are long enough to fill a processor one by one.
    let staged = gradient.is_some()
        && (LONG_ROW..=device.shared_limit() / 2).contains(&row_bytes)
        && row_bytes.is_multiple_of(16)
        && logits.pointer().is_multiple_of(16);
    let gradient = gradient.unwrap_or(Argument::from(None));
    if staged {
        let grid = Grid { shared: 2 * row_bytes, ..Grid::new(rows.min(device.multiprocessors()), 1024) };
        device.launch(
            &PROGRAM,
            &format!("cross_entropy_staged_{}", element.name()),
            grid,
            &[
                logits.into(),
                gradient,
                (&losses).into(),
                (&lse).into(),
                ids.into(),
                rows.into(),
                classes.into(),
                stride.into(),
                ignored.into(),
                smoothing.into(),
                scale.into(),
            ],
        )?;
        return Ok(Losses { losses, lse });
    }
    device.launch(
        &PROGRAM,
        &format!("cross_entropy_{}", element.name()),
        Grid::new(rows, threads(stride, element)),
        &[
            logits.into(),
            gradient,
            (&losses).into(),
            (&lse).into(),
            ids.into(),
            classes.into(),
            stride.into(),
            ignored.into(),
            smoothing.into(),
            scale.into(),
        ],
    )?;
    Ok(Losses { losses, lse })
}

/// Bytes of a row from which on it keeps a whole processor busy.
const LONG_ROW: usize = 48 << 10;

/// Threads for a row: each should have about four vectors.
fn threads(stride: usize, element: Element) -> usize {
    stride.div_ceil(4 * element.per_vector()).next_power_of_two().clamp(32, 512)
}

/// The gradient of each row's cross-entropy, from its log-sum-exp, times `upstream[row]`.
pub fn cross_entropy_gradient(logits: View, lse: View, upstream: View, targets: Targets) -> Result<Buffer> {
    let rows = targets.check(logits)?;
    for view in [lse, upstream] {
        let fits = view.len() == rows && view.element() == Element::F32;
        ensure(fits, "cross_entropy", format_args!("{rows} f32 values"), view.len())?;
    }
    let device = logits.device();
    let gradient = device.allocate(logits.len(), logits.element())?;
    device.launch(
        &PROGRAM,
        &format!("cross_entropy_gradient_{}", logits.element().name()),
        Grid::new(rows, threads(targets.stride, logits.element())),
        arguments![
            logits,
            lse,
            upstream,
            &gradient,
            targets.ids,
            targets.classes,
            targets.stride,
            targets.ignored(),
            targets.smoothing
        ],
    )?;
    Ok(gradient)
}

/// Binary cross-entropy of each logit against a target in [0, 1].
pub fn binary_cross_entropy(logits: View, targets: View) -> Result<Buffer> {
    ensure(logits.len() == targets.len(), "binary_cross_entropy", logits.len(), targets.len())?;
    let out = logits.device().allocate(logits.len(), Element::F32)?;
    let kernel = format!("binary_{}", logits.element().name());
    let grid = Grid::over(logits.len(), 1);
    logits.device().launch(&PROGRAM, &kernel, grid, arguments![logits, targets, &out, logits.len()])?;
    Ok(out)
}

/// `(sigmoid(x) − target)·g` for each logit x.
pub fn binary_cross_entropy_gradient(logits: View, targets: View, g: View) -> Result<Buffer> {
    let count = logits.len();
    ensure(count == targets.len() && count == g.len(), "binary_cross_entropy", count, g.len())?;
    let out = logits.device().allocate(count, logits.element())?;
    let kernel = format!("binary_gradient_{}", logits.element().name());
    let grid = Grid::over(count, 1);
    logits.device().launch(&PROGRAM, &kernel, grid, arguments![logits, targets, g, &out, count])?;
    Ok(out)
}
