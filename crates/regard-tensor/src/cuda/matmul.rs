//! Matrix products by cuBLASLt.
//!
//! f32 products are exact f32 arithmetic, never TF32. Products of bf16 or f16 are summed in f32. cuBLASLt's matrices are
//! column-major; a row-major matrix is its own transpose there, so C = A·B is computed as Cᵀ = Bᵀ·Aᵀ with no copies.
//!
//! For large products the heuristic's first algorithms are timed, and the fastest is kept on disk (`plans.rs`).

mod plan;

use super::device::Device;
use super::error::{Check, Error, Result, ensure};
use super::library;
use super::memory::{Element, View, ViewMut};
use super::plans::Plans;
use super::program::hash;
use super::recording;
use super::timer::Timer;
use cudarc::cublaslt::sys;
use plan::{Algorithm, Plan};
use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, PoisonError};

/// A row-major matrix, or one in each of several batches.
#[derive(Clone, Copy)]
pub struct Matrix<'a> {
    values: View<'a>,
    rows: usize,
    columns: usize,
    row_stride: usize,
    batch_stride: usize,
    transposed: bool,
}

impl<'a> Matrix<'a> {
    /// A matrix whose rows follow one another; so do batches of it.
    pub fn new(values: View<'a>, rows: usize, columns: usize) -> Self {
        Self { values, rows, columns, row_stride: columns, batch_stride: rows * columns, transposed: false }
    }

    /// The same with `row_stride` values from one row to the next and `batch_stride` from one batch to the next.
    #[must_use]
    pub fn strided(self, row_stride: usize, batch_stride: usize) -> Self {
        Self { row_stride, batch_stride, ..self }
    }

    /// Its transpose, without moving values.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self { transposed: !self.transposed, ..self }
    }

    /// The device it is on.
    pub(super) fn device(&self) -> &'a Arc<Device> {
        self.values.device()
    }

    /// Rows and columns, after transposition.
    fn shape(&self) -> (usize, usize) {
        if self.transposed { (self.columns, self.rows) } else { (self.rows, self.columns) }
    }

    /// How many values it reaches over.
    fn extent(&self, batches: usize) -> usize {
        if self.rows == 0 || self.columns == 0 || batches == 0 {
            return 0;
        }
        (batches - 1) * self.batch_stride + (self.rows - 1) * self.row_stride + self.columns
    }

    fn layout(&self) -> MatrixKey {
        MatrixKey {
            rows: self.rows,
            columns: self.columns,
            row_stride: self.row_stride,
            batch_stride: self.batch_stride,
            transposed: self.transposed,
            element: self.values.element(),
            alignment: alignment(self.values),
        }
    }
}

/// What happens to the values that the output held before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Output {
    /// They are overwritten.
    Replace,
    /// The product is added to them.
    Add,
}

/// What happens to a product before it is stored.
pub enum Finish<'a> {
    /// Nothing.
    Nothing,
    /// A bias, one value for each column, is added.
    Bias(View<'a>),
    /// A bias is added, the sum is stored in `before`, and its GELU (the form with a hyperbolic tangent) is the result.
    BiasGelu {
        /// One value for each column.
        bias: View<'a>,
        /// As many values as the output has.
        before: ViewMut<'a>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct MatrixKey {
    rows: usize,
    columns: usize,
    row_stride: usize,
    batch_stride: usize,
    transposed: bool,
    element: Element,
    alignment: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum FinishKey {
    Nothing,
    Bias,
    BiasGelu,
}

/// Everything that the choice of an algorithm depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    a: MatrixKey,
    b: MatrixKey,
    out: MatrixKey,
    batches: usize,
    output: Output,
    finish: FinishKey,
}

/// cuBLASLt's handle and the plans made so far.
pub(super) struct Products {
    handle: Option<Handle>,
    plans: HashMap<Key, Arc<Plan>>,
    /// The choices of earlier runs, read when the first is needed.
    kept: Option<Plans>,
    tune: bool,
}

impl Default for Products {
    fn default() -> Self {
        Self { handle: None, plans: HashMap::new(), kept: None, tune: true }
    }
}

struct Handle(sys::cublasLtHandle_t);

// SAFETY: a handle may be used from any thread.
unsafe impl Send for Handle {}

/// The most memory that an algorithm may use beside its operands.
const WORKSPACE: usize = 32 << 20;

/// How many of the heuristic's algorithms are timed.
const CANDIDATES: usize = 8;

/// Products with fewer multiplications take the heuristic's first algorithm: timing them would take longer than running them.
const WORTH_TIMING: usize = 1 << 30;

/// `out = scale · a · b`, for each of `batches` matrices, row by row.
pub fn product(
    a: Matrix,
    b: Matrix,
    batches: usize,
    mut out: ViewMut,
    (scale, output): (f32, Output),
    finish: Finish,
) -> Result<()> {
    let ((m, k), (inner, n)) = (a.shape(), b.shape());
    ensure(k == inner, "product", format_args!("{k} rows of the second factor"), inner)?;
    ensure(a.extent(batches) <= a.values.len(), "product", a.extent(batches), a.values.len())?;
    ensure(b.extent(batches) <= b.values.len(), "product", b.extent(batches), b.values.len())?;
    ensure(out.as_view().len() == batches * m * n, "product", batches * m * n, out.as_view().len())?;
    let types = (a.values.element(), b.values.element(), out.as_view().element());
    let known = matches!(types, (Element::F32, Element::F32, Element::F32))
        || matches!(types, (Element::Bf16, Element::Bf16, Element::Bf16 | Element::F32))
        || matches!(types, (Element::F16, Element::F16, Element::F16 | Element::F32));
    ensure(known, "product", "factors of one type, and a result of that or f32", format_args!("{types:?}"))?;
    let (finish_key, pointers) = check_finish(finish, (batches, m, n), types.2)?;
    if m == 0 || n == 0 || batches == 0 {
        return Ok(());
    }
    if k == 0 {
        return if output == Output::Replace { out.fill_bytes(0) } else { Ok(()) };
    }
    let key = Key {
        a: a.layout(),
        b: b.layout(),
        out: Matrix::new(out.as_view(), m, n).layout(),
        batches,
        output,
        finish: finish_key,
    };
    let call =
        Call { a: a.values.pointer(), b: b.values.pointer(), out: out.as_view().pointer(), pointers, scale };
    a.values.device().product(&key, &call)
}

/// The operands of one call.
struct Call {
    a: u64,
    b: u64,
    out: u64,
    pointers: FinishPointers,
    scale: f32,
}

/// Device pointers of the bias and of the values before the function, 0 where there are none.
#[derive(Clone, Copy)]
struct FinishPointers {
    bias: u64,
    before: u64,
}

fn check_finish(
    finish: Finish,
    (batches, m, n): (usize, usize, usize),
    element: Element,
) -> Result<(FinishKey, FinishPointers)> {
    let check_bias = |bias: View| {
        let fits = bias.len() == n && bias.element() == element;
        ensure(fits, "product", format_args!("a bias of {n} {element:?}"), bias.len())
    };
    Ok(match finish {
        Finish::Nothing => (FinishKey::Nothing, FinishPointers { bias: 0, before: 0 }),
        Finish::Bias(bias) => {
            check_bias(bias)?;
            (FinishKey::Bias, FinishPointers { bias: bias.pointer(), before: 0 })
        }
        Finish::BiasGelu { bias, before } => {
            check_bias(bias)?;
            let before = before.as_view();
            let fits = before.len() == batches * m * n && before.element() == element;
            ensure(fits, "product", format_args!("{} values before GELU", batches * m * n), before.len())?;
            (FinishKey::BiasGelu, FinishPointers { bias: bias.pointer(), before: before.pointer() })
        }
    })
}

/// The largest power of two up to 256 that divides a view's address.
fn alignment(view: View) -> u32 {
    1 << view.pointer().trailing_zeros().min(8)
}

impl Device {
    /// With `tune`, which is the default, the heuristic's first algorithms are timed when a large shape is first met, and
    /// the fastest is kept. Without, its first one is taken.
    pub fn tune_products(&self, tune: bool) {
        let mut products = self.products();
        products.tune = tune;
        products.plans.clear();
    }

    fn products(&self) -> MutexGuard<'_, Products> {
        self.products.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn product(self: &Arc<Self>, key: &Key, call: &Call) -> Result<()> {
        self.bind()?;
        let mut products = self.products();
        let handle = products.handle()?;
        let plan = match products.plans.get(key) {
            Some(plan) => plan.clone(),
            None => {
                let plan = Arc::new(self.plan(handle, key, call, &mut products)?);
                products.plans.insert(*key, plan.clone());
                plan
            }
        };
        // The lock is held: the call sets pointers in the plan's descriptor.
        plan.run(handle, self, call, &plan.algorithm)
    }

    fn plan(
        self: &Arc<Self>,
        handle: sys::cublasLtHandle_t,
        key: &Key,
        call: &Call,
        products: &mut Products,
    ) -> Result<Plan> {
        let mut plan = Plan::new(key)?;
        // Nothing can be timed while it is recorded.
        let timed = products.tune
            && key.multiplications() >= WORTH_TIMING
            && recording::pool(self.ordinal()).is_none();
        let shape = hash(&[&format!("{key:?}")]);
        if timed {
            let kept = products.kept.get_or_insert_with(|| Plans::open(self.name(), version()));
            let words = kept.get(shape).map(|data| sys::cublasLtMatmulAlgo_t { data });
            if let Some(algorithm) = words.and_then(|algorithm| plan.checked(handle, algorithm)) {
                plan.algorithm = algorithm;
                return Ok(plan);
            }
        }
        let candidates = plan.candidates(handle, key)?;
        let Some(first) = candidates.first() else {
            return Err(Error::Call {
                call: "cublasLtMatmul".into(),
                reason: "no algorithm for this shape".into(),
            });
        };
        plan.algorithm = *first;
        if timed && candidates.len() > 1 {
            plan.algorithm = self.fastest(handle, &plan, key, call, &candidates)?;
            if let Some(kept) = &mut products.kept {
                kept.put(shape, plan.algorithm.algorithm.data);
            }
        }
        Ok(plan)
    }

    /// Runs each candidate a few times on the operands of the call, whose output is overwritten afterwards.
    fn fastest(
        self: &Arc<Self>,
        handle: sys::cublasLtHandle_t,
        plan: &Plan,
        key: &Key,
        call: &Call,
        candidates: &[Algorithm],
    ) -> Result<Algorithm> {
        // What is added to must not be added to twice.
        let scratch = match key.output {
            Output::Replace => None,
            Output::Add => Some(self.zeros(key.batches * key.out.rows * key.out.columns, key.out.element)?),
        };
        let out = scratch.as_ref().map_or(call.out, |scratch| scratch.view().pointer());
        let call = Call { out, ..*call };
        let mut best = (f32::INFINITY, candidates[0]);
        for candidate in candidates {
            plan.run(handle, self, &call, candidate)?;
            for _ in 0..3 {
                let timer = Timer::start(self)?;
                plan.run(handle, self, &call, candidate)?;
                let time = timer.stop()?;
                if time < best.0 {
                    best = (time, *candidate);
                }
            }
        }
        Ok(best.1)
    }
}

impl Key {
    fn multiplications(&self) -> usize {
        let depth = if self.a.transposed { self.a.rows } else { self.a.columns };
        self.batches * self.out.rows * self.out.columns * depth
    }
}

/// The version of cuBLASLt: algorithms of one mean nothing to another.
fn version() -> usize {
    // SAFETY: the library is loaded before a product is planned.
    unsafe { sys::cublasLtGetVersion() }
}

impl Products {
    fn handle(&mut self) -> Result<sys::cublasLtHandle_t> {
        if let Some(Handle(handle)) = self.handle {
            return Ok(handle);
        }
        library::cublaslt()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the library is loaded and the context is current.
        unsafe { sys::cublasLtCreate(&raw mut handle) }.check("cublasLtCreate")?;
        self.handle = Some(Handle(handle));
        Ok(handle)
    }
}
