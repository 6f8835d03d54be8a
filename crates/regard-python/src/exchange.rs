//! Models from and to other programs in memory: a configuration in JSON and tensors by the names that Hugging Face's families give
//! them.

use crate::arrays::{GivenReals, Reals, to_numpy};
use crate::error::{OrRaise as _, problem};
use crate::model::{Model, nowhere, placement};
use crate::tokenizer::Tokenizer;
use crate::work::work;
use numpy::PyUntypedArrayMethods as _;
use pyo3::prelude::*;
use regard::model::Opened;
use regard_nn::checkpoint::{self, StoredWeights};
use serde_json::{Map, Value};

/// Builds a model from a configuration and tensors.
#[pyfunction]
#[pyo3(signature = (name, config, tensors, tokenizer, device, precision))]
pub fn from_parts(
    py: Python<'_>,
    name: String,
    config: &str,
    tensors: Vec<(String, GivenReals<'_>)>,
    tokenizer: Option<&Tokenizer>,
    device: &str,
    precision: &str,
) -> PyResult<Model> {
    let config: Map<String, Value> = serde_json::from_str(config).or_raise()?;
    let tokenizer = tokenizer.map(|tokenizer| tokenizer.0.clone());
    let values = tensors
        .iter()
        .map(|(name, array)| {
            let values = array.as_slice().map_err(|_| problem(format!("{name} is not in one piece")))?;
            Ok((name.clone(), array.shape().to_vec(), values))
        })
        .collect::<PyResult<Vec<_>>>()?;
    let opened = work(py, |_| {
        let model = checkpoint::from_parts(&config, StoredWeights::from_values(&values)?)?;
        if let (Some(tokenizer), Some(table)) = (&tokenizer, model.token_embeddings()) {
            tokenizer.ensure_fits(table.tensor().shape()[0])?;
        }
        let model = placement(device, precision)?.place(model)?;
        Ok(Opened { model, tokenizer, config, folder: nowhere() })
    })?;
    Ok(Model::new(opened, name))
}

/// A configuration in JSON, and tensors by name.
type Parts<'py> = (String, Vec<(String, Reals<'py>)>);

/// A model's configuration and its tensors, named and shaped as files have them.
#[pyfunction]
pub fn to_parts<'py>(py: Python<'py>, model: &Model) -> PyResult<Parts<'py>> {
    let checkpoint::Written { config, tensors } =
        work(py, |_| Ok(checkpoint::to_parts(&*model.opened.model)?))?;
    let arrays = tensors.into_iter().map(|(name, tensor)| Ok((name, to_numpy(py, tensor)?)));
    Ok((serde_json::to_string(&config).or_raise()?, arrays.collect::<PyResult<_>>()?))
}
