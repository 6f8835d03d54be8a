//! Tells the linker of macOS that Python's symbols come from the interpreter that loads the extension.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
