//! A description of the machine.

use regard_tensor::Level;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Processor, cores and the vector instructions in use.
pub fn describe() -> String {
    let processor = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let processor = processor.unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let instructions = match regard_tensor::level() {
        Level::Avx512 => "AVX-512",
        Level::Avx2 => "AVX2",
        Level::Neon => "NEON",
        Level::Portable => "portable kernels",
    };
    format!("{processor}, {cores} {}, {instructions}", if cores == 1 { "core" } else { "cores" })
}

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// The file whose code runs: the program's own, unless another was named.
pub fn program() -> std::io::Result<PathBuf> {
    PROGRAM.get().map_or_else(std::env::current_exe, |path| Ok(path.clone()))
}

/// Names that file for a library inside another program, such as Python's interpreter.
pub fn set_program(path: PathBuf) {
    // Said twice, it is the same.
    let _ = PROGRAM.set(path);
}
