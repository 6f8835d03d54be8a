//! Model inputs in trace files: reading them, writing them, and running a model on them.

use crate::error::usage_error;
use crate::trace_file::StoredTensor;
use anyhow::{Result, anyhow, bail};
use regard_nn::Context;
use regard_nn::checkpoint::StoredWeights;
use regard_nn::models::{Inputs, Model, Predicts, Reads};
use regard_nn::tensor::{Ids, Mask};
use std::collections::BTreeMap;

/// The names of inputs that a file may have.
const KNOWN: [&str; 6] = ["ids", "mask", "types", "decoder_ids", "decoder_mask", "pixels"];

/// Reads the inputs of a trace file.
pub fn read(file: &StoredWeights) -> Result<Inputs> {
    let ids = |name: &str| file.read_ids(&format!("inputs/{name}"));
    let mask = |name: &str| -> Result<Option<Mask>> {
        let Some(ids) = ids(name)? else { return Ok(None) };
        let present: Vec<bool> = ids.values().iter().map(|&value| value != 0).collect();
        Ok(Some(Mask::new(&present, ids.shape())?))
    };
    let inputs = file.names().filter_map(|name| name.strip_prefix("inputs/"));
    if let Some(other) = inputs.into_iter().find(|name| !KNOWN.contains(name)) {
        bail!("inputs/{other} is none of the inputs that models here take: {}", KNOWN.join(", "));
    }
    Ok(Inputs {
        ids: ids("ids")?,
        present: mask("mask")?,
        types: ids("types")?,
        answer: ids("decoder_ids")?,
        answer_present: mask("decoder_mask")?,
        memory: None,
        pictures: file.read("inputs/pixels")?,
    })
}

/// The inputs as tensors of a trace file.
pub fn to_tensors(inputs: &Inputs) -> BTreeMap<String, StoredTensor> {
    let integers = |mask: &Mask| {
        let ones: Vec<u32> = mask.values().iter().map(|&present| u32::from(present)).collect();
        Ids::new(&ones, mask.shape()).ok()
    };
    let tensors = [
        ("ids", inputs.ids.clone()),
        ("mask", inputs.present.as_ref().and_then(integers)),
        ("types", inputs.types.clone()),
        ("decoder_ids", inputs.answer.clone()),
        ("decoder_mask", inputs.answer_present.as_ref().and_then(integers)),
    ];
    let tensors = tensors.into_iter().filter_map(|(name, ids)| Some((name, StoredTensor::Integers(ids?))));
    let pixels = inputs.pictures.clone().map(|pixels| ("pixels", StoredTensor::Floats(pixels)));
    tensors.chain(pixels).map(|(name, tensor)| (format!("inputs/{name}"), tensor)).collect()
}

/// Which queries of a site are not padding.
pub fn queries<'a>(inputs: &'a Inputs, site: &str) -> Option<&'a Mask> {
    match &inputs.answer {
        Some(_) if !site.starts_with("encoder.") => inputs.answer_present.as_ref(),
        _ => inputs.present.as_ref(),
    }
}

/// Runs a model with its output head, so that a probe records all sites.
pub fn run(model: &dyn Model, inputs: &Inputs, context: &Context) -> Result<()> {
    check(model, inputs)?;
    let hidden = model.hidden(context, inputs)?;
    if model.abilities().predicts != Predicts::Nothing {
        model.scores(context, &hidden)?;
    }
    Ok(())
}

/// Rejects inputs of another kind than the model reads, and tokens that it does not have.
fn check(model: &dyn Model, inputs: &Inputs) -> Result<()> {
    let abilities = model.abilities();
    match (abilities.reads, &inputs.ids, &inputs.pictures) {
        (Reads::Pictures(_), _, None) => return Err(usage_error("this model reads images")),
        (Reads::Pictures(_), ..) => return Ok(()),
        (_, None, _) => return Err(usage_error("this model reads text, not images")),
        (Reads::Source, ..) if inputs.answer.is_none() => {
            bail!("an encoder–decoder model also needs what its decoder reads")
        }
        _ => {}
    }
    let rows = model.token_embeddings().map_or(0, |table| table.tensor().shape()[0]);
    let all = [&inputs.ids, &inputs.answer].into_iter().flatten().flat_map(Ids::values);
    match all.into_iter().find(|&&id| id as usize >= rows) {
        Some(id) => Err(anyhow!("there is no token {id}: the model has {rows}, counted from 0")),
        None => Ok(()),
    }
}
