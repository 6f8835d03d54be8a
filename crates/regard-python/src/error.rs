//! `regard.Error`: every failure, in the library's own sentence.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use serde::de::DeserializeOwned;

create_exception!(
    regard,
    Error,
    PyException,
    "Anything that regard cannot do, with the reason in one sentence."
);

/// An error of the library as Python sees it.
pub fn to_python(error: &anyhow::Error) -> PyErr {
    Error::new_err(format!("{error:#}"))
}

/// An error with a sentence of its own.
pub fn problem(text: impl Into<String>) -> PyErr {
    Error::new_err(text.into())
}

/// Turns the library's results into Python's.
pub trait OrRaise<T> {
    /// The value, or `regard.Error`.
    fn or_raise(self) -> PyResult<T>;
}

impl<T, E: Into<anyhow::Error>> OrRaise<T> for Result<T, E> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|error| to_python(&error.into()))
    }
}

/// Settings that Python wrote as JSON. What is wrong is said without the place in that text, which the caller has not seen.
pub fn settings<T: DeserializeOwned>(json: &str) -> PyResult<T> {
    serde_json::from_str(json).map_err(|error| {
        let said = error.to_string();
        problem(said.split(" at line ").next().unwrap_or(&said))
    })
}
