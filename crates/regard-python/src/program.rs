//! The program `regard`, run by the interpreter that loaded the extension.

use clap::Parser as _;
use pyo3::prelude::*;
use regard::commands::Arguments;
use std::path::PathBuf;

/// Names the file of this extension: results of experiments are kept by the code that computed them.
#[pyfunction]
pub fn set_file(path: PathBuf) {
    regard::machine::set_program(path);
}

/// Runs the program with these arguments, the first of which is its name, and returns its exit code.
///
/// The caller has given Ctrl-C back to the system, as a program of its own would have it.
#[pyfunction]
pub fn main(py: Python<'_>, arguments: Vec<String>) -> u8 {
    py.detach(|| regard::run_program(Arguments::parse_from(arguments)))
}
