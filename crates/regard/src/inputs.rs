//! What a model reads, and how any model is run on it.

use crate::tensors::Held;
use crate::usage::Usage;
use anyhow::{Context as _, Result, anyhow, bail};
use regard_nn::Context;
use regard_nn::checkpoint::StoredWeights;
use regard_nn::models::Model;
use regard_nn::tensor::{Ids, Mask, Tensor};
use std::collections::BTreeMap;

/// Everything that a model may read; which of it depends on the model.
#[derive(Default)]
pub struct Inputs {
    /// Tokens (batch, time).
    pub ids: Option<Ids>,
    /// Which of them are not padding.
    pub mask: Option<Mask>,
    /// The segment of each token.
    pub types: Option<Ids>,
    /// What the decoder has said so far, its start included.
    pub decoder_ids: Option<Ids>,
    /// Which of that is not padding.
    pub decoder_mask: Option<Mask>,
    /// Images (batch, channels, height, width).
    pub pixels: Option<Tensor>,
}

impl Inputs {
    /// What a file may have.
    const KNOWN: [&str; 6] = ["ids", "mask", "types", "decoder_ids", "decoder_mask", "pixels"];

    /// The inputs in a file of tensors.
    pub fn read(file: &StoredWeights) -> Result<Self> {
        let ids = |name: &str| file.read_ids(&format!("inputs/{name}"));
        let mask = |name: &str| -> Result<Option<Mask>> {
            let Some(ids) = ids(name)? else { return Ok(None) };
            let present: Vec<bool> = ids.values().iter().map(|&value| value != 0).collect();
            Ok(Some(Mask::new(&present, ids.shape())?))
        };
        let inputs = file.names().filter_map(|name| name.strip_prefix("inputs/"));
        if let Some(other) = inputs.into_iter().find(|name| !Self::KNOWN.contains(name)) {
            bail!("inputs/{other} is none of the inputs that models here take: {}", Self::KNOWN.join(", "));
        }
        Ok(Self {
            ids: ids("ids")?,
            mask: mask("mask")?,
            types: ids("types")?,
            decoder_ids: ids("decoder_ids")?,
            decoder_mask: mask("decoder_mask")?,
            pixels: file.read("inputs/pixels")?,
        })
    }

    /// The inputs as a file has them.
    pub fn held(&self) -> BTreeMap<String, Held> {
        let whole = |mask: &Mask| {
            let ones: Vec<u32> = mask.values().iter().map(|&present| u32::from(present)).collect();
            Ids::new(&ones, mask.shape()).ok()
        };
        let wholes = [
            ("ids", self.ids.clone()),
            ("mask", self.mask.as_ref().and_then(whole)),
            ("types", self.types.clone()),
            ("decoder_ids", self.decoder_ids.clone()),
            ("decoder_mask", self.decoder_mask.as_ref().and_then(whole)),
        ];
        let wholes = wholes.into_iter().filter_map(|(name, ids)| Some((name, Held::Whole(ids?))));
        let pixels = self.pixels.clone().map(|pixels| ("pixels", Held::Reals(pixels)));
        wholes.chain(pixels).map(|(name, held)| (format!("inputs/{name}"), held)).collect()
    }

    /// Which queries of a site are not padding.
    pub fn queries(&self, site: &str) -> Option<&Mask> {
        match &self.decoder_ids {
            Some(_) if !site.starts_with("encoder.") => self.decoder_mask.as_ref(),
            _ => self.mask.as_ref(),
        }
    }

    /// Runs a model, with all of its heads, for what a probe sees of it.
    pub fn run(&self, model: &Model, context: &Context) -> Result<()> {
        if let Model::Vit(vit) = model {
            let pixels = self.pixels.as_ref().ok_or_else(|| Usage::error("this model reads images"))?;
            match vit.config().classes {
                0 => vit.encode(context, pixels)?,
                _ => vit.forward(context, pixels)?,
            };
            return Ok(());
        }
        let ids = self.ids.as_ref().ok_or_else(|| Usage::error("this model reads text, not images"))?;
        self.check(model, ids)?;
        let mask = self.mask.as_ref();
        match model {
            Model::Gpt(model) => {
                model.forward(context, ids, mask)?;
            }
            Model::Llama(model) => {
                model.forward(context, ids, mask)?;
            }
            Model::Bert(model) => {
                let encoded = model.encode(context, ids, self.types.as_ref(), mask)?;
                let heads = model.config().heads;
                if heads.words {
                    model.words(context, &encoded)?;
                } else if heads.classes.is_some() {
                    model.classify(context, &encoded)?;
                }
            }
            Model::T5(model) => {
                let target = self.decoder_ids.as_ref().context("a T5 also needs what its decoder reads")?;
                model.forward(context, (ids, mask), (target, self.decoder_mask.as_ref()))?;
            }
            Model::Sentiment(model) => {
                model.forward(context, ids, self.lengths()?.as_deref())?;
            }
            Model::Bag(model) => {
                model.forward(context, ids, self.lengths()?.as_deref())?;
            }
            Model::Tagger(model) => {
                model.forward(context, ids, self.lengths()?.as_deref())?;
            }
            Model::Vit(_) => {}
        }
        Ok(())
    }

    /// Names the first token that the model does not have.
    fn check(&self, model: &Model, ids: &Ids) -> Result<()> {
        let rows = model.token_embeddings().map_or(0, |table| table.shape()[0]);
        let decoder = self.decoder_ids.iter().flat_map(Ids::values);
        match ids.values().iter().chain(decoder).find(|&&id| id as usize >= rows) {
            Some(id) => Err(anyhow!("there is no token {id}: the model has {rows}, counted from 0")),
            None => Ok(()),
        }
    }

    /// How many tokens each text has, for models that know padding only at the end.
    fn lengths(&self) -> Result<Option<Vec<usize>>> {
        let Some(mask) = &self.mask else { return Ok(None) };
        let rows = mask.values().chunks(mask.shape().last().max(1));
        let lengths = rows.map(|row| {
            let length = row.iter().take_while(|&&present| present).count();
            if row[length..].contains(&true) {
                bail!("this model takes padding at the end of a text only");
            }
            Ok(length)
        });
        lengths.collect::<Result<Vec<_>>>().map(Some)
    }
}
