//! Gradients of what a model says with respect to what is inside it.

use anyhow::{Result, bail, ensure};
use pyo3::prelude::*;
use regard_nn::models::{Inputs, Model, Predicts};
use regard_nn::tensor::ops::CrossEntropy;
use regard_nn::tensor::{Ids, Pass, Tensor};
use regard_nn::{Context, Parameter, Probe};
use std::sync::atomic::AtomicBool;

/// What is differentiated.
#[derive(FromPyObject)]
pub enum Of {
    /// The score of a token or class at a position; of the highest if not given.
    Score(i64, Option<usize>),
    /// The mean loss of a text's tokens after the first.
    Loss(String),
}

/// The value, and its gradient with respect to every site and parameter that a pattern names.
pub fn gradient(
    model: &dyn Model,
    inputs: &Inputs,
    of: &Of,
    wrt: &[String],
    probe: Probe,
    cancel: &AtomicBool,
) -> Result<(f64, Vec<(String, Tensor)>)> {
    ensure!(!wrt.is_empty(), "gradient: wrt names nothing to differentiate by");
    let parameters = model.parameters();
    let is_parameter = |pattern: &str| parameters.iter().any(|(name, _)| matches(pattern, name));
    let (of_parameters, of_sites): (Vec<&String>, Vec<&String>) =
        wrt.iter().partition(|pattern| is_parameter(pattern));
    let probe = of_sites.iter().fold(probe, |probe, pattern| probe.track(pattern.as_str()));
    let context = if of_parameters.is_empty() { Context::inference() } else { Context::differentiated() };
    let context = context.with_cancel(cancel).with_probe(&probe);
    let hidden = model.hidden(&context, inputs)?;
    let value = match of {
        Of::Score(position, class) => score(model, &model.scores(&context, &hidden)?, *position, *class)?,
        Of::Loss(name) if name == "loss" => loss(model, &context, &hidden, inputs)?,
        Of::Loss(other) => bail!(
            "gradient: of is \"loss\", a token or class, or a pair of position and token, not {other:?}"
        ),
    };
    if let Some(pattern) = probe.unmatched().first() {
        bail!("the model has no site or parameter {pattern}");
    }
    let number = f64::from(value.item()?);
    let sites = probe.recorded().into_iter().map(|name| Ok((probe.get(&name)?, name)));
    let sites = sites.collect::<Result<Vec<_>>>()?;
    // One site may depend on another, and is then no leaf of the graph.
    let pass = sites.iter().flat_map(|(tensor, _)| tensor).fold(Pass::new(), Pass::with_respect_to);
    let gradients = value.gradients(&pass)?;
    let zeros = |tensor: &Tensor| Tensor::zeros(tensor.shape().clone());
    let mut found = Vec::new();
    for (tensor, name) in sites {
        if let Some(tensor) = tensor {
            let gradient = gradients.get(&tensor).unwrap_or_else(|| zeros(&tensor));
            // A batch of one.
            let gradient = if gradient.shape().rank() > 0 && gradient.shape()[0] == 1 {
                gradient.select(0, 0)?
            } else {
                gradient
            };
            found.push((name, gradient));
        }
    }
    let wanted =
        |(name, _): &&(String, &Parameter)| of_parameters.iter().any(|pattern| matches(pattern, name));
    for (name, parameter) in parameters.iter().filter(wanted) {
        let tensor = parameter.tensor();
        found.push((name.clone(), gradients.get(tensor).unwrap_or_else(|| zeros(tensor))));
    }
    Ok((number, found))
}

/// Whether a pattern names a parameter: part by part, `*` being any.
fn matches(pattern: &str, name: &str) -> bool {
    let (wanted, found): (Vec<&str>, Vec<&str>) = (pattern.split('.').collect(), name.split('.').collect());
    wanted.len() == found.len()
        && wanted.iter().zip(&found).all(|(wanted, found)| *wanted == "*" || wanted == found)
}

fn score(model: &dyn Model, scores: &Tensor, position: i64, class: Option<usize>) -> Result<Tensor> {
    let [_, time, classes] = scores.shape()[..] else { bail!("scores are {}", scores.shape()) };
    let resolved = if position < 0 { position + time as i64 } else { position };
    let Some(place) = usize::try_from(resolved).ok().filter(|&place| place < time) else {
        bail!("there are {time} positions that a {} scores: there is no position {position}", model.kind())
    };
    let row = scores.select(0, 0)?.select(0, place)?;
    let class = match class {
        Some(class) => class,
        None => row.detach().argmax(-1)?.values().first().copied().unwrap_or(0) as usize,
    };
    ensure!(class < classes, "there are {classes} tokens or classes: there is no {class}");
    Ok(row.slice(0, class, 1)?.reshape([])?)
}

fn loss(model: &dyn Model, context: &Context, hidden: &Tensor, inputs: &Inputs) -> Result<Tensor> {
    ensure!(
        model.abilities().predicts == Predicts::NextToken,
        "gradient: only a model that says what comes next has a loss of its text; name a class instead"
    );
    let ids = inputs.answer.as_ref().or(inputs.ids.as_ref());
    let values = ids.map(Ids::values).unwrap_or_default();
    ensure!(values.len() > 1, "gradient: the loss needs a text of two tokens or more");
    let read = hidden.slice(1, 0, values.len() - 1)?;
    let targets = Ids::new(&values[1..], [1, values.len() - 1])?;
    Ok(model.loss(context, &read, &targets, CrossEntropy::default())?)
}
