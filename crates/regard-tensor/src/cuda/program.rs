//! Programs: `.cu` files compiled for the device at hand, with their machine code cached on disk.

use super::error::{Check, Error, Result, ensure};
use super::library;
use cudarc::driver::sys as driver;
use cudarc::nvrtc::sys as nvrtc;
use std::collections::HashMap;
use std::ffi::{CString, c_char};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A source file: its name and its text.
pub(super) type File = (&'static str, &'static str);

/// A program: a source file and the files that it may include.
pub(super) struct Source {
    pub file: File,
    pub headers: &'static [File],
}

/// A source file of this folder and the headers beside it.
macro_rules! source {
    ($name:literal) => {
        $crate::cuda::program::Source {
            file: ($name, include_str!($name)),
            headers: &$crate::cuda::program::HEADERS,
        }
    };
}

pub(super) use source;

/// Files that programs include.
pub(super) const HEADERS: [File; 4] = [
    ("values.cuh", include_str!("values.cuh")),
    ("block.cuh", include_str!("block.cuh")),
    ("functions.cuh", include_str!("functions.cuh")),
    ("axes.cuh", include_str!("axes.cuh")),
];

/// A program compiled with macros of its own.
#[derive(Clone, Copy)]
pub(super) struct Variant<'a> {
    pub source: &'static Source,
    /// Compiler options such as `-DCAUSAL=1`, separated by spaces.
    pub defines: &'a str,
}

/// A kernel, ready to launch.
#[derive(Clone)]
pub(super) struct Kernel {
    pub function: driver::CUfunction,
    /// The bytes of each of its parameters, where the driver reports them.
    pub parameters: Option<Arc<[usize]>>,
}

// SAFETY: a function may be launched from any thread that has made its context current.
unsafe impl Send for Kernel {}

/// A program on the device, with those of its kernels and constants that were used.
#[derive(Default)]
struct Program {
    module: Option<Module>,
    kernels: HashMap<String, Kernel>,
    constants: HashMap<String, [usize; 3]>,
}

#[derive(Clone, Copy)]
struct Module(driver::CUmodule);

// SAFETY: a module may be used from any thread that has made its context current.
unsafe impl Send for Module {}

impl Program {
    fn module(&mut self, variant: Variant, architecture: &str) -> Result<Module> {
        if let Some(module) = self.module {
            return Ok(module);
        }
        let module = Module(load(&machine_code(variant, architecture)?, variant.source.file.0)?);
        Ok(*self.module.insert(module))
    }
}

/// A file's name and its macros.
type ProgramKey = (&'static str, String);

/// The programs of one device, each compiled when a kernel of it is first used.
pub(super) struct Programs {
    architecture: String,
    /// Each has a lock of its own, so that threads can compile different ones at a time.
    loaded: Mutex<HashMap<ProgramKey, Arc<Mutex<Program>>>>,
}

impl Programs {
    pub fn new((major, minor): (u32, u32)) -> Self {
        // Only the architecture-specific target of Hopper has its matrix instructions.
        let suffix = if (major, minor) == (9, 0) { "a" } else { "" };
        Self { architecture: format!("sm_{major}{minor}{suffix}"), loaded: Mutex::default() }
    }

    fn program(&self, variant: Variant) -> Arc<Mutex<Program>> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (variant.source.file.0, variant.defines.to_owned());
        loaded.entry(key).or_default().clone()
    }

    /// A kernel of a program. The device's context must be current.
    pub fn kernel(&self, variant: Variant, name: &str) -> Result<Kernel> {
        let program = self.program(variant);
        let mut program = program.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernel) = program.kernels.get(name) {
            return Ok(kernel.clone());
        }
        let kernel = find(program.module(variant, &self.architecture)?.0, name)?;
        program.kernels.insert(name.to_owned(), kernel.clone());
        Ok(kernel)
    }

    /// Three integers that a program exports for the host. The device's context must be current.
    pub fn constants(&self, variant: Variant, name: &str) -> Result<[usize; 3]> {
        let program = self.program(variant);
        let mut program = program.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&values) = program.constants.get(name) {
            return Ok(values);
        }
        let values = read_constants(program.module(variant, &self.architecture)?.0, name)?;
        program.constants.insert(name.to_owned(), values);
        Ok(values)
    }
}

fn read_constants(module: driver::CUmodule, name: &str) -> Result<[usize; 3]> {
    let (mut address, mut size, mut values) = (0, 0, [0_i32; 3]);
    let symbol = c_string(name);
    // SAFETY: the module is loaded, and the name ends in a zero.
    unsafe { driver::cuModuleGetGlobal_v2(&raw mut address, &raw mut size, module, symbol.as_ptr()) }
        .check(&format!("finding {name}"))?;
    ensure(size == size_of_val(&values), "constants", "three integers", format_args!("{size} bytes"))?;
    // SAFETY: both sides have as many bytes, and the call returns when they are copied.
    unsafe { driver::cuMemcpyDtoH_v2(values.as_mut_ptr().cast(), address, size) }
        .check(&format!("reading {name}"))?;
    Ok(values.map(|value| usize::try_from(value).unwrap_or(0)))
}

fn load(code: &[u8], name: &str) -> Result<driver::CUmodule> {
    let mut module = std::ptr::null_mut();
    // SAFETY: `code` is machine code from NVRTC; the driver checks its header and copies it.
    unsafe { driver::cuModuleLoadData(&raw mut module, code.as_ptr().cast()) }
        .check(&format!("loading {name}"))?;
    Ok(module)
}

fn find(module: driver::CUmodule, name: &str) -> Result<Kernel> {
    let mut function = std::ptr::null_mut();
    let symbol = c_string(name);
    // SAFETY: the module is loaded, and the name ends in a zero.
    unsafe { driver::cuModuleGetFunction(&raw mut function, module, symbol.as_ptr()) }
        .check(&format!("finding kernel {name}"))?;
    let parameters = library::driver_has("cuFuncGetParamInfo").then(|| parameter_sizes(function));
    Ok(Kernel { function, parameters })
}

fn parameter_sizes(function: driver::CUfunction) -> Arc<[usize]> {
    let (mut sizes, mut offset, mut size) = (Vec::new(), 0, 0);
    // SAFETY: the function is loaded; an index beyond the last parameter gives an error code.
    while unsafe { driver::cuFuncGetParamInfo(function, sizes.len(), &raw mut offset, &raw mut size) }
        .result()
        .is_ok()
    {
        sizes.push(size);
    }
    sizes.into()
}

/// The machine code of a program: from the cache, else compiled and put there.
pub(super) fn machine_code(variant: Variant, architecture: &str) -> Result<Vec<u8>> {
    let Source { file: (name, text), headers } = variant.source;
    library::nvrtc()?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the library is loaded.
    unsafe { nvrtc::nvrtcVersion(&raw mut major, &raw mut minor) }.check("nvrtcVersion")?;
    let mut options = vec![format!("--gpu-architecture={architecture}"), "--std=c++17".into()];
    options.extend(variant.defines.split_whitespace().map(str::to_owned));
    let compiler = format!("{major}.{minor}");
    let mut parts: Vec<&str> = vec![&compiler];
    parts.extend(options.iter().map(String::as_str));
    parts.extend(headers.iter().map(|header| header.1).chain([*text]));
    let file = cache_folder().map(|folder| folder.join(format!("{name}-{:016x}.cubin", hash(&parts))));
    if let Some(code) = file.as_ref().and_then(|file| std::fs::read(file).ok()).filter(|code| is_elf(code)) {
        return Ok(code);
    }
    let code = compile(variant.source, &options)?;
    if let Some(file) = file {
        // A cache that cannot be written costs time, not correctness.
        let _ = write_aside(&file, &code);
    }
    Ok(code)
}

/// FNV-1a over all parts, each ended by a byte that no text has.
pub(super) fn hash(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn is_elf(code: &[u8]) -> bool {
    code.starts_with(b"\x7fELF")
}

/// The user's folder for files that can be made again.
pub(super) fn cache_folder() -> Option<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME")
        .or_else(|| std::env::var_os("LOCALAPPDATA"))
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    Some(base.join("regard").join("cuda"))
}

/// Writes under another name first, so that no reader sees half a file.
pub(super) fn write_aside(file: &Path, content: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let thread = format!("{:?}", std::thread::current().id());
    let digits: String = thread.chars().filter(char::is_ascii_digit).collect();
    let aside = file.with_extension(format!("{}-{digits}.part", std::process::id()));
    std::fs::write(&aside, content)?;
    std::fs::rename(&aside, file)
}

fn compile(source: &Source, options: &[String]) -> Result<Vec<u8>> {
    let (name, text) = (c_string(source.file.0), c_string(source.file.1));
    let headers: Vec<CString> = source.headers.iter().map(|header| c_string(header.1)).collect();
    let names: Vec<CString> = source.headers.iter().map(|header| c_string(header.0)).collect();
    let options: Vec<CString> = options.iter().map(|option| c_string(option)).collect();
    let pointers = |strings: &[CString]| -> Vec<*const c_char> {
        strings.iter().map(|string| string.as_ptr()).collect()
    };
    let (header_pointers, name_pointers, option_pointers) =
        (pointers(&headers), pointers(&names), pointers(&options));
    let mut program = std::ptr::null_mut();
    // SAFETY: all strings end in a zero and outlive the program, and the counts are those of the lists.
    unsafe {
        nvrtc::nvrtcCreateProgram(
            &raw mut program,
            text.as_ptr(),
            name.as_ptr(),
            header_pointers.len() as i32,
            header_pointers.as_ptr(),
            name_pointers.as_ptr(),
        )
        .check("nvrtcCreateProgram")?;
        let compiled =
            nvrtc::nvrtcCompileProgram(program, option_pointers.len() as i32, option_pointers.as_ptr());
        let code = match compiled.check("nvrtcCompileProgram") {
            Ok(()) => {
                fetch(|size| nvrtc::nvrtcGetCUBINSize(program, size), |to| nvrtc::nvrtcGetCUBIN(program, to))
            }
            Err(error) => {
                let log = fetch(
                    |size| nvrtc::nvrtcGetProgramLogSize(program, size),
                    |to| nvrtc::nvrtcGetProgramLog(program, to),
                );
                let log =
                    log.map_or_else(|_| error.to_string(), |log| String::from_utf8_lossy(&log).into_owned());
                Err(Error::Compile { program: source.file.0, log })
            }
        };
        nvrtc::nvrtcDestroyProgram(&raw mut program).check("nvrtcDestroyProgram")?;
        code
    }
}

/// Bytes of a size that one call reports and another writes.
fn fetch(
    size: impl FnOnce(*mut usize) -> nvrtc::nvrtcResult,
    write: impl FnOnce(*mut c_char) -> nvrtc::nvrtcResult,
) -> Result<Vec<u8>> {
    let mut len = 0;
    size(&raw mut len).check("the size of an NVRTC result")?;
    let mut bytes = vec![0_u8; len];
    write(bytes.as_mut_ptr().cast()).check("reading an NVRTC result")?;
    Ok(bytes)
}

/// Sources and names of ours hold no zero byte.
fn c_string(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Source, Variant, hash, is_elf, library, machine_code};

    #[test]
    fn the_hash_depends_on_where_a_part_ends() {
        assert_ne!(hash(&["ab", "c"]), hash(&["a", "bc"]));
        assert_eq!(hash(&["ab", "c"]), hash(&["ab", "c"]));
    }

    /// Needs NVRTC but no device.
    #[test]
    fn a_program_with_headers_compiles_where_nvrtc_is_installed() {
        if library::nvrtc().is_ok() {
            static SOFTMAX: Source = source!("softmax.cu");
            let variant = Variant { source: &SOFTMAX, defines: "" };
            let code = machine_code(variant, "sm_80").expect("the program compiles");
            assert!(is_elf(&code));
        }
    }
}
