//! Launching kernels.

use super::axes::Axes;
use super::device::Device;
use super::error::{Check, Result, ensure};
use super::memory::{Buffer, View, ViewMut};
use super::program::{Kernel, Source, Variant};
use super::recording;
use cudarc::driver::sys;
use std::ffi::c_void;

/// How many blocks run a kernel, how many threads each has, and its shared memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    pub blocks: (usize, usize, usize),
    pub threads: usize,
    /// Shared memory requested at launch, in bytes.
    pub shared: usize,
    /// Whether the kernel waits by itself for those before it (`wait_for_earlier` in `block.cuh`). In a recording it then begins
    /// while they run, and may read ahead what none of them writes.
    pub early: bool,
}

impl Grid {
    /// `blocks` blocks in a row.
    pub fn new(blocks: usize, threads: usize) -> Self {
        Self { blocks: (blocks, 1, 1), threads, shared: 0, early: false }
    }

    /// The same for a kernel that waits by itself.
    pub fn early(self) -> Self {
        Self { early: true, ..self }
    }

    /// Enough blocks of 256 threads for `items` items, `each` to a thread.
    pub fn over(items: usize, each: usize) -> Self {
        Self::new(items.div_ceil(256 * each), 256)
    }
}

/// One argument of a kernel.
#[derive(Clone, Copy)]
pub(super) enum Argument<'a> {
    /// The bits of a number or a pointer; the driver reads as many as the parameter has.
    Word(u64),
    /// The bytes of a structure.
    Bytes(&'a [u8]),
}

impl Argument<'_> {
    /// Whether a parameter of `size` bytes can be read from it.
    fn fits(&self, size: usize) -> bool {
        match self {
            Self::Word(_) => size <= 8,
            Self::Bytes(bytes) => size == bytes.len(),
        }
    }
}

impl From<View<'_>> for Argument<'_> {
    fn from(view: View) -> Self {
        Self::Word(view.pointer())
    }
}

impl From<Option<View<'_>>> for Argument<'_> {
    fn from(view: Option<View>) -> Self {
        Self::Word(view.map_or(0, |view| view.pointer()))
    }
}

impl From<&Buffer> for Argument<'_> {
    fn from(buffer: &Buffer) -> Self {
        buffer.view().into()
    }
}

impl From<&mut Buffer> for Argument<'_> {
    fn from(buffer: &mut Buffer) -> Self {
        buffer.view().into()
    }
}

impl From<&mut ViewMut<'_>> for Argument<'_> {
    fn from(view: &mut ViewMut) -> Self {
        view.as_view().into()
    }
}

impl<'a> From<&'a Axes> for Argument<'a> {
    fn from(axes: &'a Axes) -> Self {
        Self::Bytes(bytemuck::bytes_of(axes))
    }
}

impl From<f32> for Argument<'_> {
    fn from(value: f32) -> Self {
        Self::Word(value.to_bits().into())
    }
}

impl From<u32> for Argument<'_> {
    fn from(value: u32) -> Self {
        Self::Word(value.into())
    }
}

/// Sizes are 64 bits wide in kernels.
impl From<usize> for Argument<'_> {
    fn from(value: usize) -> Self {
        Self::Word(value as u64)
    }
}

impl From<bool> for Argument<'_> {
    fn from(value: bool) -> Self {
        Self::Word(value.into())
    }
}

/// A list of arguments, each converted.
macro_rules! arguments {
    ($($value:expr),* $(,)?) => {
        &[$($crate::cuda::launch::Argument::from($value)),*]
    };
}

pub(super) use arguments;

impl Device {
    /// Queues a kernel. A grid without blocks is no work, and no error.
    pub(super) fn launch(
        &self,
        source: &'static Source,
        name: &str,
        grid: Grid,
        arguments: &[Argument],
    ) -> Result<()> {
        self.launch_variant(Variant { source, defines: "" }, name, grid, arguments)
    }

    /// Three integers that a program exports for the host.
    pub(super) fn constants(&self, variant: Variant, name: &str) -> Result<[usize; 3]> {
        self.bind()?;
        self.programs.constants(variant, name)
    }

    /// Queues a kernel of a program compiled with macros of its own.
    pub(super) fn launch_variant(
        &self,
        variant: Variant,
        name: &str,
        grid: Grid,
        arguments: &[Argument],
    ) -> Result<()> {
        let Grid { blocks: (x, y, z), threads, shared, early } = grid;
        if x == 0 || y == 0 || z == 0 {
            return Ok(());
        }
        let fits = i32::try_from(x).is_ok() && y.max(z) <= 65_535 && shared <= self.shared_limit();
        ensure(fits, "launch", "a grid that the device can run", format_args!("{grid:?}"))?;
        self.bind()?;
        let Kernel { function, parameters } = self.programs.kernel(variant, name)?;
        if let Some(sizes) = parameters {
            let fits = sizes.len() == arguments.len()
                && arguments.iter().zip(&*sizes).all(|(a, &size)| a.fits(size));
            ensure(
                fits,
                "launch",
                format_args!("{name} with parameters of {sizes:?} bytes"),
                arguments.len(),
            )?;
        }
        if shared > 48 << 10 {
            let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function is loaded.
            unsafe { sys::cuFuncSetAttribute(function, attribute, shared as i32) }
                .check("cuFuncSetAttribute")?;
        }
        // The driver takes pointers to the values, and only reads them.
        let mut pointers: Vec<*mut c_void> = arguments
            .iter()
            .map(|argument| match argument {
                Argument::Word(word) => std::ptr::from_ref(word).cast_mut().cast(),
                Argument::Bytes(bytes) => bytes.as_ptr().cast_mut().cast(),
            })
            .collect();
        let mut attribute = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        // Devices before Hopper have no instruction to wait with.
        let early = early && self.capability() >= (9, 0) && recording::stream(self.ordinal()).is_some();
        let config = sys::CUlaunchConfig {
            gridDimX: x as u32,
            gridDimY: y as u32,
            gridDimZ: z as u32,
            blockDimX: threads as u32,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: shared as u32,
            hStream: self.stream(),
            attrs: &raw mut attribute,
            numAttrs: early.into(),
        };
        // SAFETY: there are as many arguments as the kernel takes, each as wide as its parameter; the callers in this
        // folder check that the views are as long as the kernel expects. The attribute outlives the call.
        unsafe {
            sys::cuLaunchKernelEx(&raw const config, function, pointers.as_mut_ptr(), std::ptr::null_mut())
        }
        .check(name)
    }
}
