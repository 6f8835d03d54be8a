//! Where the tokens of a batch stand, and which of them are real.

use crate::attention::Cache;
use crate::context::Context;
use crate::error::{Error, Result};
use regard_tensor::{Ids, Mask};

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
    /// While a step is recorded: positions are (batch, 1), stand in memory of a device, and stay below this.
    pub room: Option<usize>,
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
        if let Some((positions, room)) = context.cache().and_then(Cache::place) {
            if present.is_some() || time != 1 {
                return Err(Error::input(model, "a recorded step reads one token a text, without padding"));
            }
            return Ok(Self { batch, time, keys: room, positions, present: None, room: Some(room) });
        }
        let past = context.cache().map_or(0, Cache::length);
        let present = match context.cache() {
            Some(cache) => cache.present_with(present, [batch, time]),
            None => present.cloned(),
        };
        let keys = past + time;
        let positions = match &present {
            None => Ids::new(&(past as u32..keys as u32).collect::<Vec<_>>(), [1, time])?,
            Some(present) => present.derive([batch, time], move |mask| places(mask, keys, past))?,
        };
        Ok(Self { batch, time, keys, positions, present, room: None })
    }

    /// So many vectors that are no tokens, such as patches, without padding.
    pub fn plain(batch: usize, time: usize) -> Result<Self> {
        let positions = Ids::new(&(0..time as u32).collect::<Vec<_>>(), [1, time])?;
        Ok(Self { batch, time, keys: time, positions, present: None, room: None })
    }

    /// Tells the cache that these tokens have been read.
    pub fn finish(self, context: &Context) {
        if let Some(cache) = context.cache() {
            cache.advance(self.time, self.present);
        }
    }
}

/// The place of each token after the first `past`: how many real ones come before it in its row of `keys`.
fn places(mask: &[bool], keys: usize, past: usize) -> Vec<u32> {
    let row = |row: &[bool]| {
        let mut before = 0_u32;
        let place = |&real: &bool| {
            // Padding stands where the last token does: never beyond what a model can tell.
            let place = if real { before } else { before.saturating_sub(1) };
            before += u32::from(real);
            place
        };
        row.iter().map(place).skip(past).collect::<Vec<_>>()
    };
    mask.chunks(keys).flat_map(row).collect()
}
