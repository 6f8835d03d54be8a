//! Where the tokens of a batch stand, and which of them are real.

use crate::attention::Cache;
use crate::context::Context;
use crate::error::{Error, Result};
use regard_tensor::{Ids, Mask, Tensor};

/// What belongs to the last token of each sequence, (batch, 1, width) of (batch, time, width).
pub(super) fn last(x: &Tensor) -> Result<Tensor> {
    Ok(x.slice(1, x.shape()[1] - 1, 1)?)
}

/// A batch of token sequences as a model reads them, perhaps after others that a cache remembers.
pub(super) struct Sequence {
    pub batch: usize,
    pub time: usize,
    /// The number of keys: what was read before and what is read now.
    pub keys: usize,
    /// The place of each token, (1, time), or (batch, time) if there is padding.
    pub positions: Ids,
    /// Which keys are real, (batch, keys), if there is padding.
    pub present: Option<Mask>,
}

impl Sequence {
    /// Tokens (batch, time), of which `present` names the real ones. A token's place is the number of real ones before
    /// it, so that padding on either side changes nothing.
    pub fn new(model: &'static str, context: &Context, ids: &Ids, present: Option<&Mask>) -> Result<Self> {
        let [batch, time] = ids.shape()[..] else {
            return Err(Error::input(model, format!("ids must be (batch, time), got {}", ids.shape())));
        };
        if batch == 0 || time == 0 {
            return Err(Error::input(model, format!("there is nothing to read: ids are {}", ids.shape())));
        }
        if let Some(present) = present
            && present.shape()[..] != [batch, time]
        {
            let problem = format!("the mask must be [{batch}×{time}], got {}", present.shape());
            return Err(Error::input(model, problem));
        }
        if let Some(cache) = context.cache() {
            cache.begin(model, batch)?;
        }
        let past = context.cache().map_or(0, Cache::length);
        let present = match context.cache() {
            Some(cache) => cache.present_with(present, [batch, time]),
            None => present.cloned(),
        };
        let keys = past + time;
        let positions = match &present {
            None => Ids::new(&(past as u32..keys as u32).collect::<Vec<_>>(), [1, time])?,
            Some(present) => {
                let mut places = Vec::with_capacity(batch * time);
                for row in present.values().chunks(keys) {
                    let mut before = 0_u32;
                    for (column, &real) in row.iter().enumerate() {
                        // Padding stands where the last token does: never beyond what a model can tell.
                        if column >= past {
                            places.push(if real { before } else { before.saturating_sub(1) });
                        }
                        before += u32::from(real);
                    }
                }
                Ids::new(&places, [batch, time])?
            }
        };
        Ok(Self { batch, time, keys, positions, present })
    }

    /// Fails if a place lies beyond what a model can tell.
    pub fn ensure_within(&self, model: &'static str, limit: usize) -> Result<()> {
        match self.positions.values().iter().max() {
            Some(&last) if last as usize >= limit => {
                let problem = format!("{} tokens do not fit its context of {limit}", last as usize + 1);
                Err(Error::input(model, problem))
            }
            _ => Ok(()),
        }
    }

    /// Tells the cache that these tokens have been read.
    pub fn finish(self, context: &Context) {
        if let Some(cache) = context.cache() {
            cache.advance(self.time, self.present);
        }
    }
}

/// The mask (batch, time) of texts with these lengths, after checking them.
pub(super) fn lengths_to_mask(
    model: &'static str,
    ids: &Ids,
    lengths: Option<&[usize]>,
) -> Result<Option<Mask>> {
    let [batch, time] = ids.shape()[..] else {
        return Err(Error::input(model, format!("ids must be (batch, time), got {}", ids.shape())));
    };
    if batch == 0 || time == 0 {
        return Err(Error::input(model, format!("there is nothing to read: ids are {}", ids.shape())));
    }
    let Some(lengths) = lengths else { return Ok(None) };
    if lengths.len() != batch || lengths.iter().any(|&length| length == 0 || length > time) {
        let problem = format!("{batch} lengths between 1 and {time} are needed, got {lengths:?}");
        return Err(Error::input(model, problem));
    }
    Ok(Some(Mask::from_fn([batch, time], |at| at[1] < lengths[at[0]])))
}
