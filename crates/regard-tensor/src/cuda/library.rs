//! Finding the shared libraries of CUDA.
//!
//! The bindings panic when a library is missing, so each is loaded here first. One that is not on the loader's path is
//! searched where NVIDIA's installers and Python packages put it; the loader then knows it by its name, which is how the
//! bindings find it again.

use super::error::{Error, Result};
use libloading::Library;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A shared library, its file names from new to old, and how to get it.
struct Shared {
    name: &'static str,
    files: &'static [&'static str],
    remedy: &'static str,
    loaded: OnceLock<Option<Library>>,
}

/// Names one or more folders (separated as in `PATH`) that hold the libraries.
const FOLDERS: &str = "REGARD_CUDA_LIBRARIES";

static DRIVER: Shared = Shared {
    name: "libcuda.so.1",
    files: &["libcuda.so", "libcuda.so.1", "nvcuda.dll"],
    remedy: "install NVIDIA's driver",
    loaded: OnceLock::new(),
};

static NVRTC: Shared = Shared {
    name: "libnvrtc",
    files: &["libnvrtc.so.13", "libnvrtc.so.12", "nvrtc64_130_0.dll", "nvrtc64_120_0.dll"],
    remedy: "install the CUDA toolkit, or `pip install nvidia-cuda-nvrtc` and set REGARD_CUDA_LIBRARIES to the folder \
             nvidia/cu13/lib of that Python's site-packages",
    loaded: OnceLock::new(),
};

static CUBLASLT: Shared = Shared {
    name: "libcublasLt",
    files: &["libcublasLt.so.13", "libcublasLt.so.12", "cublasLt64_13.dll", "cublasLt64_12.dll"],
    remedy: "install the CUDA toolkit, or `pip install nvidia-cublas` and set REGARD_CUDA_LIBRARIES to the folder \
             nvidia/cu13/lib of that Python's site-packages",
    loaded: OnceLock::new(),
};

static NCCL: Shared = Shared {
    name: "libnccl",
    files: &["libnccl.so.2", "libnccl.so"],
    remedy: "install NVIDIA's package libnccl2, or `pip install nvidia-nccl-cu13` and set REGARD_CUDA_LIBRARIES to the folder \
             nvidia/nccl/lib of that Python's site-packages",
    loaded: OnceLock::new(),
};

/// Loads the driver.
pub(super) fn driver() -> Result<()> {
    DRIVER.load()
}

/// Loads the compiler of kernels.
pub(super) fn nvrtc() -> Result<()> {
    NVRTC.load()
}

/// Loads the matrix products.
pub(super) fn cublaslt() -> Result<()> {
    CUBLASLT.load()
}

/// Loads what moves values between GPUs.
pub(super) fn nccl() -> Result<&'static Library> {
    NCCL.load()?;
    NCCL.loaded.get().and_then(Option::as_ref).ok_or_else(|| Error::Library {
        library: NCCL.name,
        reason: "it is gone".to_owned(),
        remedy: NCCL.remedy,
    })
}

/// Whether the driver has a function: old drivers lack new ones.
pub(super) fn driver_has(function: &str) -> bool {
    let Some(Some(library)) = DRIVER.loaded.get() else { return false };
    // SAFETY: the symbol is only looked up, not called.
    unsafe { library.get::<unsafe extern "C" fn()>(function.as_bytes()).is_ok() }
}

impl Shared {
    fn load(&'static self) -> Result<()> {
        match self.loaded.get_or_init(|| self.find()) {
            Some(_) => Ok(()),
            None => Err(Error::Library {
                library: self.name,
                reason: format!("tried {} on the loader's path and in {}", self.files.join(", "), searched()),
                remedy: self.remedy,
            }),
        }
    }

    fn find(&self) -> Option<Library> {
        // A folder that the user names goes before what the loader would find.
        let named = folders_of(FOLDERS);
        let everywhere = named.into_iter().chain([PathBuf::new()]).chain(usual_folders());
        everywhere.flat_map(|folder| self.files.iter().map(move |file| folder.join(file))).find_map(|path| {
            // SAFETY: these are NVIDIA's libraries, whose initialisers have no requirements.
            unsafe { Library::new(path) }.ok()
        })
    }
}

fn folders_of(variable: &str) -> Vec<PathBuf> {
    std::env::var_os(variable).map(|paths| std::env::split_paths(&paths).collect()).unwrap_or_default()
}

/// Where toolkits and Python packages put the libraries.
fn usual_folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for toolkit in ["CUDA_HOME", "CUDA_PATH"].iter().flat_map(|name| folders_of(name)) {
        folders.push(toolkit.join("lib64"));
        folders.push(toolkit.join("bin"));
    }
    folders.push("/usr/local/cuda/lib64".into());
    for environment in ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().flat_map(|name| folders_of(name)) {
        // lib/python3.12/site-packages/nvidia/cu13/lib
        for python in children(&environment.join("lib")) {
            for package in children(&python.join("site-packages/nvidia")) {
                folders.push(package.join("lib"));
            }
        }
    }
    folders
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    // Folders come in no particular order; the newest version sorts last.
    paths.sort();
    paths.reverse();
    paths
}

fn searched() -> String {
    let folders: Vec<String> = folders_of(FOLDERS)
        .into_iter()
        .chain(usual_folders())
        .map(|path| path.display().to_string())
        .collect();
    folders.join(", ")
}
