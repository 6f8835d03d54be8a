//! Matrix products by cuBLASLt.
//!
//! f32 products are exact f32 arithmetic, never TF32. Products of bf16 or f16 are summed in f32. cuBLASLt's matrices are
//! column-major; a row-major matrix is its own transpose there, so C = A·B is computed as Cᵀ = Bᵀ·Aᵀ with no copies.
//!
//! For large products the heuristic's first algorithms are timed, and the fastest is kept on disk (`plans.rs`).

use super::device::Device;
use super::error::{Check, Error, Result, ensure};
use super::library;
use super::memory::{Element, View, ViewMut};
use super::plans::Plans;
use super::program::hash;
use super::recording;
use super::timer::Timer;
use cudarc::cublaslt::sys::{self, cublasLtMatmulDescAttributes_t as Descriptor};
use std::collections::HashMap;
use std::ffi::c_void;
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

/// An algorithm and the memory it needs.
#[derive(Clone, Copy)]
struct Algorithm {
    algorithm: sys::cublasLtMatmulAlgo_t,
    workspace: usize,
}

/// Descriptors of one kind of product. `first` and `second` are cuBLASLt's factors: our second and first.
struct Plan {
    operation: sys::cublasLtMatmulDesc_t,
    first: sys::cublasLtMatrixLayout_t,
    second: sys::cublasLtMatrixLayout_t,
    out: sys::cublasLtMatrixLayout_t,
    finish: FinishKey,
    add: bool,
    algorithm: Algorithm,
}

// SAFETY: descriptors are plain memory, changed only under the lock of the device's products.
unsafe impl Send for Plan {}
// SAFETY: as above.
unsafe impl Sync for Plan {}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: each was created by `Plan::new` and is destroyed once.
        unsafe {
            if !self.operation.is_null() {
                let _ = sys::cublasLtMatmulDescDestroy(self.operation);
            }
            for layout in [self.first, self.second, self.out] {
                let _ = sys::cublasLtMatrixLayoutDestroy(layout);
            }
        }
    }
}

impl Plan {
    fn new(key: &Key) -> Result<Self> {
        let none = sys::cublasLtMatmulAlgo_t { data: [0; 8] };
        let mut plan = Self {
            operation: std::ptr::null_mut(),
            first: layout(&key.b, key.batches)?,
            second: layout(&key.a, key.batches)?,
            out: layout(&key.out, key.batches)?,
            finish: key.finish,
            add: key.output == Output::Add,
            algorithm: Algorithm { algorithm: none, workspace: 0 },
        };
        let (compute, scale) = (sys::cublasComputeType_t::CUBLAS_COMPUTE_32F, sys::cudaDataType::CUDA_R_32F);
        // SAFETY: the library is loaded.
        unsafe { sys::cublasLtMatmulDescCreate(&raw mut plan.operation, compute, scale) }
            .check("cublasLtMatmulDescCreate")?;
        plan.set(Descriptor::CUBLASLT_MATMUL_DESC_TRANSA, transposition(&key.b))?;
        plan.set(Descriptor::CUBLASLT_MATMUL_DESC_TRANSB, transposition(&key.a))?;
        let epilogue = match key.finish {
            FinishKey::Nothing => sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_DEFAULT,
            FinishKey::Bias => sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS,
            FinishKey::BiasGelu => sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
        };
        plan.set(Descriptor::CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue)?;
        if key.finish == FinishKey::BiasGelu {
            plan.set(Descriptor::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, key.out.row_stride as i64)?;
            plan.set(
                Descriptor::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE,
                key.out.batch_stride as i64,
            )?;
        }
        Ok(plan)
    }

    fn set<V: Copy>(&self, attribute: Descriptor, value: V) -> Result<()> {
        // SAFETY: the descriptor was created, and the size is that of the value.
        unsafe {
            sys::cublasLtMatmulDescSetAttribute(
                self.operation,
                attribute,
                (&raw const value).cast(),
                size_of::<V>(),
            )
        }
        .check("cublasLtMatmulDescSetAttribute")
    }

    /// The heuristic's algorithms, the most promising first.
    fn candidates(&self, handle: sys::cublasLtHandle_t, key: &Key) -> Result<Vec<Algorithm>> {
        use sys::cublasLtMatmulPreferenceAttributes_t as Preference;
        // Some algorithms depend on whether a bias is there, not on where.
        self.set_pointers(FinishPointers { bias: 256, before: 256 })?;
        let mut preference = std::ptr::null_mut();
        let mut found = [sys::cublasLtMatmulHeuristicResult_t {
            algo: self.algorithm.algorithm,
            workspaceSize: 0,
            state: sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS,
            wavesCount: 0.0,
            reserved: [0; 4],
        }; CANDIDATES];
        let mut count = 0;
        let result = (|| {
            // SAFETY: all descriptors are alive, sizes are those of the values, and `found` has room for the count given.
            unsafe {
                sys::cublasLtMatmulPreferenceCreate(&raw mut preference)
                    .check("cublasLtMatmulPreferenceCreate")?;
                let set = |attribute, value: *const c_void, size| {
                    sys::cublasLtMatmulPreferenceSetAttribute(preference, attribute, value, size)
                        .check("cublasLtMatmulPreferenceSetAttribute")
                };
                let most = WORKSPACE;
                set(
                    Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                    (&raw const most).cast(),
                    size_of::<usize>(),
                )?;
                for (attribute, alignment) in [
                    (Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.b.alignment),
                    (Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.a.alignment),
                    (Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.out.alignment),
                    (Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.out.alignment),
                ] {
                    set(attribute, (&raw const alignment).cast(), size_of::<u32>())?;
                }
                sys::cublasLtMatmulAlgoGetHeuristic(
                    handle,
                    self.operation,
                    self.first,
                    self.second,
                    self.out,
                    self.out,
                    preference,
                    CANDIDATES as i32,
                    found.as_mut_ptr(),
                    &raw mut count,
                )
                .check("cublasLtMatmulAlgoGetHeuristic")
            }
        })();
        // SAFETY: the preference was created above or is null.
        let _ = unsafe { sys::cublasLtMatmulPreferenceDestroy(preference) };
        result?;
        let usable = found.iter().take(count as usize);
        let usable = usable.filter(|found| found.state == sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS);
        Ok(usable.map(|found| Algorithm { algorithm: found.algo, workspace: found.workspaceSize }).collect())
    }

    /// An algorithm from elsewhere, if cuBLASLt takes it for this product.
    fn checked(
        &self,
        handle: sys::cublasLtHandle_t,
        algorithm: sys::cublasLtMatmulAlgo_t,
    ) -> Option<Algorithm> {
        self.set_pointers(FinishPointers { bias: 256, before: 256 }).ok()?;
        let mut result = sys::cublasLtMatmulHeuristicResult_t {
            algo: algorithm,
            workspaceSize: 0,
            state: sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS,
            wavesCount: 0.0,
            reserved: [0; 4],
        };
        // SAFETY: all descriptors are alive, and the result is written to a live variable. The library checks the words.
        let status = unsafe {
            sys::cublasLtMatmulAlgoCheck(
                handle,
                self.operation,
                self.first,
                self.second,
                self.out,
                self.out,
                &raw const algorithm,
                &raw mut result,
            )
        };
        let fits = status == sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS && result.workspaceSize <= WORKSPACE;
        fits.then_some(Algorithm { algorithm, workspace: result.workspaceSize })
    }

    fn set_pointers(&self, pointers: FinishPointers) -> Result<()> {
        if self.finish != FinishKey::Nothing {
            self.set(Descriptor::CUBLASLT_MATMUL_DESC_BIAS_POINTER, pointers.bias)?;
        }
        if self.finish == FinishKey::BiasGelu {
            self.set(Descriptor::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, pointers.before)?;
        }
        Ok(())
    }

    fn run(
        &self,
        handle: sys::cublasLtHandle_t,
        device: &Arc<Device>,
        call: &Call,
        algorithm: &Algorithm,
    ) -> Result<()> {
        self.set_pointers(call.pointers)?;
        // Given back at once: whoever gets it next uses it later on the same stream.
        let workspace = device.allocate(algorithm.workspace, Element::U8)?;
        let (alpha, beta) = (call.scale, f32::from(u8::from(self.add)));
        let pointer = |address: u64| address as *mut c_void;
        // SAFETY: the descriptors fit the operands, whose lengths `product` checked.
        unsafe {
            sys::cublasLtMatmul(
                handle,
                self.operation,
                (&raw const alpha).cast(),
                pointer(call.b),
                self.first,
                pointer(call.a),
                self.second,
                (&raw const beta).cast(),
                pointer(call.out),
                self.out,
                pointer(call.out),
                self.out,
                &raw const algorithm.algorithm,
                pointer(workspace.view().pointer()),
                algorithm.workspace,
                device.stream().cast(),
            )
        }
        .check("cublasLtMatmul")
    }
}

/// cuBLASLt sees columns where we see rows.
fn layout(matrix: &MatrixKey, batches: usize) -> Result<sys::cublasLtMatrixLayout_t> {
    use sys::cublasLtMatrixLayoutAttribute_t as Attribute;
    let mut layout = std::ptr::null_mut();
    let (rows, columns, stride) = (matrix.columns as u64, matrix.rows as u64, matrix.row_stride as i64);
    let (batches, apart) = (batches as i32, matrix.batch_stride as i64);
    // SAFETY: the library is loaded, and sizes are those of the values.
    unsafe {
        sys::cublasLtMatrixLayoutCreate(&raw mut layout, data_type(matrix.element), rows, columns, stride)
            .check("cublasLtMatrixLayoutCreate")?;
        sys::cublasLtMatrixLayoutSetAttribute(
            layout,
            Attribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
            (&raw const batches).cast(),
            size_of::<i32>(),
        )
        .check("cublasLtMatrixLayoutSetAttribute")?;
        sys::cublasLtMatrixLayoutSetAttribute(
            layout,
            Attribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
            (&raw const apart).cast(),
            size_of::<i64>(),
        )
        .check("cublasLtMatrixLayoutSetAttribute")?;
    }
    Ok(layout)
}

/// `CUBLAS_OP_N` or `CUBLAS_OP_T`, which the bindings of cuBLASLt leave out.
fn transposition(matrix: &MatrixKey) -> i32 {
    i32::from(matrix.transposed)
}

fn data_type(element: Element) -> sys::cudaDataType {
    match element {
        Element::Bf16 => sys::cudaDataType::CUDA_R_16BF,
        Element::F16 => sys::cudaDataType::CUDA_R_16F,
        _ => sys::cudaDataType::CUDA_R_32F,
    }
}
