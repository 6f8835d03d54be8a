//! Descriptors of a kind of product for cuBLASLt, and its algorithms.

use super::{CANDIDATES, Call, FinishKey, FinishPointers, Key, MatrixKey, Output, WORKSPACE};
use crate::cuda::device::Device;
use crate::cuda::error::{Check, Result};
use crate::cuda::memory::Element;
use cudarc::cublaslt::sys::{self, cublasLtMatmulDescAttributes_t as Descriptor};
use std::ffi::c_void;
use std::sync::Arc;

/// An algorithm and the memory it needs.
#[derive(Clone, Copy)]
pub(super) struct Algorithm {
    pub algorithm: sys::cublasLtMatmulAlgo_t,
    pub workspace: usize,
}

/// Descriptors of one kind of product. `first` and `second` are cuBLASLt's factors: our second and first.
pub(super) struct Plan {
    operation: sys::cublasLtMatmulDesc_t,
    first: sys::cublasLtMatrixLayout_t,
    second: sys::cublasLtMatrixLayout_t,
    out: sys::cublasLtMatrixLayout_t,
    finish: FinishKey,
    add: bool,
    pub algorithm: Algorithm,
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
    pub fn new(key: &Key) -> Result<Self> {
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
    pub fn candidates(&self, handle: sys::cublasLtHandle_t, key: &Key) -> Result<Vec<Algorithm>> {
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
    pub fn checked(
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

    pub fn run(
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
