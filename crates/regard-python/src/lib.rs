//! The extension module behind the Python package `regard`: the library and the program, as Python calls them.
//!
//! It is a thin layer. What is easier to say in Python (names, defaults, documentation, what notebooks show) is in
//! `python/regard`; here is what needs the library. Everything that takes time runs through [`work::work`].

// Arguments that Python converts for a function are its own.
#![allow(clippy::needless_pass_by_value)]

mod analysis;
mod arrays;
mod attention;
mod change;
mod data;
mod error;
mod exchange;
mod figure;
mod fit;
mod fit_data;
mod foreign;
mod generation;
mod gradient;
mod measures;
mod model;
mod pass;
mod program;
mod scores;
mod table;
mod tokenizer;
mod work;

use pyo3::prelude::*;

#[pymodule]
#[pyo3(name = "_regard")]
fn extension(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("Error", module.py().get_type::<error::Error>())?;
    module.add_class::<model::Model>()?;
    module.add_class::<pass::Pass>()?;
    module.add_class::<change::Change>()?;
    module.add_class::<generation::Generation>()?;
    module.add_class::<tokenizer::Tokenizer>()?;
    module.add_class::<attention::MultiHead>()?;
    module.add_class::<table::Columns>()?;
    module.add_class::<figure::Figure>()?;
    module.add_class::<fit::Trainer>()?;
    module.add_class::<measures::HeadMeasures>()?;
    module.add_function(wrap_pyfunction!(attention::scaled_dot_product, module)?)?;
    module.add_function(wrap_pyfunction!(attention::scaled_dot_product_gradient, module)?)?;
    module.add_function(wrap_pyfunction!(attention::sinusoidal, module)?)?;
    module.add_function(wrap_pyfunction!(attention::rotary, module)?)?;
    module.add_function(wrap_pyfunction!(attention::alibi_slopes, module)?)?;
    module.add_function(wrap_pyfunction!(attention::relative_bucket, module)?)?;
    module.add_function(wrap_pyfunction!(attention::pattern_mask, module)?)?;
    module.add_function(wrap_pyfunction!(analysis::heads, module)?)?;
    module.add_function(wrap_pyfunction!(analysis::ablation, module)?)?;
    module.add_function(wrap_pyfunction!(analysis::influence, module)?)?;
    module.add_function(wrap_pyfunction!(scores::score_parts, module)?)?;
    module.add_function(wrap_pyfunction!(data::read_texts, module)?)?;
    module.add_function(wrap_pyfunction!(data::read_tagged, module)?)?;
    module.add_function(wrap_pyfunction!(data::read_pairs, module)?)?;
    module.add_function(wrap_pyfunction!(data::read_pictures, module)?)?;
    module.add_function(wrap_pyfunction!(exchange::from_parts, module)?)?;
    module.add_function(wrap_pyfunction!(exchange::to_parts, module)?)?;
    module.add_function(wrap_pyfunction!(figure::maps, module)?)?;
    module.add_function(wrap_pyfunction!(figure::lines, module)?)?;
    module.add_function(wrap_pyfunction!(foreign::view, module)?)?;
    module.add_function(wrap_pyfunction!(pass::library_passes, module)?)?;
    module.add_function(wrap_pyfunction!(program::main, module)?)?;
    module.add_function(wrap_pyfunction!(program::set_file, module)?)?;
    module.add_function(wrap_pyfunction!(work::after_fork, module)?)?;
    module.add_function(wrap_pyfunction!(work::end_work, module)?)?;
    Ok(())
}
