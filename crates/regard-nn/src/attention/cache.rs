//! Keys and values of the tokens read so far, so that each new token costs only itself.

use crate::error::{Error, Result};
use regard_tensor::ops::{Decoding, decode};
use regard_tensor::{Device, Ids, Mask, Tensor};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What attention remembers between the forward passes of one generation.
#[derive(Debug, Default)]
pub struct Cache(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// How many tokens have been read.
    length: usize,
    /// Whether each of them was a real token: (batch, length).
    present: Option<Mask>,
    entries: HashMap<String, Entry>,
    /// Where the next token goes, (batch, 1), while a step is recorded: ids that a replay exchanges.
    place: Option<Ids>,
    /// Keys and values that do not grow.
    fixed: HashMap<String, (Tensor, Tensor)>,
}

/// Keys and values of one attention: (batch, room, heads, width), of which the first `length` are used.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The keys.
    pub key: Tensor,
    /// The values.
    pub value: Tensor,
    /// How many there are.
    pub length: usize,
}

/// Room for this many more tokens is made at a time, at least.
const ROOM: usize = 64;

impl Cache {
    /// An empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many tokens have been read so far.
    pub fn length(&self) -> usize {
        self.state().length
    }

    /// Forgets what a pass that failed left behind, before a model reads tokens (batch, …).
    pub(crate) fn begin(&self, model: &'static str, batch: usize) -> Result<()> {
        let mut state = self.state();
        let length = state.length;
        for entry in state.entries.values_mut() {
            entry.length = entry.length.min(length);
            let rows = entry.key.shape()[0];
            if length > 0 && rows != batch {
                let problem = format!("a cache of {rows} texts cannot go on with {batch}");
                return Err(Error::input(model, problem));
            }
        }
        if length == 0 {
            state.entries.clear();
        }
        Ok(())
    }

    /// Which of the tokens read so far were real, and those of a new piece of text: (batch, past + time).
    pub(crate) fn present_with(&self, present: Option<&Mask>, [batch, time]: [usize; 2]) -> Option<Mask> {
        let state = self.state();
        if state.present.is_none() && present.is_none() {
            return None;
        }
        let past = state.length;
        let at = |mask: Option<&Mask>, width: usize, row: usize, column: usize| {
            mask.is_none_or(|mask| mask.values().get(row * width + column).copied().unwrap_or(false))
        };
        Some(Mask::from_fn([batch, past + time], |place| match place[1].checked_sub(past) {
            None => at(state.present.as_ref(), past, place[0], place[1]),
            Some(column) => at(present, time, place[0], column),
        }))
    }

    /// Notes that a model has read `time` tokens more, with their presence and that of all before.
    pub(crate) fn advance(&self, time: usize, present: Option<Mask>) {
        let mut state = self.state();
        state.length += time;
        state.present = present;
    }

    /// Appends keys and values (batch, time, heads, width) of one attention, and returns all of them.
    pub(crate) fn extend(&self, site: &str, key: &Tensor, value: &Tensor) -> Result<Entry> {
        let mut state = self.state();
        if let Some(entry) = state.entries.get(site)
            && !(follows(key, &entry.key) && follows(value, &entry.value))
        {
            let problem = format!("keys of {} cannot follow those of {}", key.shape(), entry.key.shape());
            return Err(Error::input("cache", problem));
        }
        // Taken out while it grows, so that nobody else holds it and it can grow in place.
        let mut entry = match state.entries.remove(site) {
            Some(entry) => entry,
            None => Entry { key: emptied(key)?, value: emptied(value)?, length: 0 },
        };
        let time = key.shape().get(1).copied().unwrap_or(0);
        entry.key = with_room(entry.key, entry.length, time)?;
        entry.value = with_room(entry.value, entry.length, time)?;
        entry.key.overwrite(1, entry.length, &key.detach())?;
        entry.value.overwrite(1, entry.length, &value.detach())?;
        entry.length += time;
        state.entries.insert(site.to_owned(), entry.clone());
        Ok(entry)
    }

    /// Has the next token of each text go to a place that is read from memory of a device, so that its step can be
    /// recorded; there is room for `room` tokens in all.
    pub(crate) fn place_next(&self, device: Device, room: usize) -> Result<Ids> {
        let mut state = self.state();
        let (length, mut batch) = (state.length, 0);
        for entry in state.entries.values_mut() {
            for tensor in [&mut entry.key, &mut entry.value] {
                if let Some(larger) = enlarged(tensor, length, room.next_multiple_of(ROOM))? {
                    *tensor = larger;
                }
                batch = tensor.shape()[0];
            }
        }
        let place = Ids::new(&vec![length as u32; batch], [batch, 1])?.slot(device)?;
        state.place = Some(place.clone());
        Ok(place)
    }

    /// Goes on without places in memory, with so many tokens.
    pub(crate) fn leave_places(&self, length: usize) {
        let mut state = self.state();
        (state.place, state.length) = (None, length);
        state.entries.values_mut().for_each(|entry| entry.length = length);
    }

    /// Where the next token goes and the room that there is, while its step is recorded.
    pub(crate) fn place(&self) -> Option<(Ids, usize)> {
        let state = self.state();
        let room = state.entries.values().map(|entry| entry.key.shape()[1]).min()?;
        state.place.clone().map(|place| (place, room))
    }

    /// Puts the key and value of the next token where [`Cache::place_next`] says, and attends from its query.
    pub(crate) fn decode(&self, site: &str, new: [&Tensor; 3], how: &Decoding) -> Result<Tensor> {
        let mut state = self.state();
        let length = state.length + 1;
        let State { place: Some(place), entries, .. } = &mut *state else {
            return Err(Error::input("cache", "no place in memory was set for the next token"));
        };
        let Some(entry) = entries.get_mut(site) else {
            return Err(Error::input("cache", format!("{site} has read nothing yet")));
        };
        let output = decode(new, [&mut entry.key, &mut entry.value], place, how)?;
        entry.length = length;
        Ok(output)
    }

    /// Keys and values that do not grow (of an encoder's output), computed the first time.
    pub(crate) fn fixed(
        &self,
        site: &str,
        compute: impl FnOnce() -> Result<(Tensor, Tensor)>,
    ) -> Result<(Tensor, Tensor)> {
        if let Some(pair) = self.state().fixed.get(site) {
            return Ok(pair.clone());
        }
        let (key, value) = compute()?;
        self.state().fixed.insert(site.to_owned(), (key.detach(), value.detach()));
        Ok((key, value))
    }

    /// Lets row i of the batch continue what row `rows[i]` was: the step of a beam search.
    pub fn reorder(&self, rows: &[usize]) -> Result<()> {
        let mut state = self.state();
        let grown = state.entries.values().map(|entry| &entry.key);
        let known = grown.chain(state.fixed.values().map(|(key, _)| key)).map(|key| key.shape()[0]).min();
        if let Some(known) = known
            && (rows.is_empty() || rows.iter().any(|&row| row >= known))
        {
            let problem = format!("rows {rows:?} were asked for, of which there are {known}");
            return Err(Error::input("cache", problem));
        }
        let pick = |tensor: &Tensor| -> Result<Tensor> {
            let parts = rows.iter().map(|&row| Ok(tensor.slice(0, row, 1)?)).collect::<Result<Vec<_>>>()?;
            Ok(regard_tensor::ops::concatenate(&parts.iter().collect::<Vec<_>>(), 0)?)
        };
        for entry in state.entries.values_mut() {
            *entry = Entry { key: pick(&entry.key)?, value: pick(&entry.value)?, length: entry.length };
        }
        for pair in state.fixed.values_mut() {
            *pair = (pick(&pair.0)?, pick(&pair.1)?);
        }
        if let Some(present) = &state.present {
            let length = state.length;
            let picked = Mask::from_fn([rows.len(), length], |at| {
                rows.get(at[0]).and_then(|row| present.values().get(row * length + at[1])).copied()
                    == Some(true)
            });
            state.present = Some(picked);
        }
        Ok(())
    }
}

/// Whether (batch, time, heads, width) differs from what is there in its time only.
fn follows(new: &Tensor, old: &Tensor) -> bool {
    let (new, old) = (new.shape(), old.shape());
    new.rank() == 4 && old.rank() == 4 && new[0] == old[0] && new[2..] == old[2..]
}

/// (batch, 0, heads, width) like a tensor.
fn emptied(like: &Tensor) -> Result<Tensor> {
    Ok(like.detach().slice(1, 0, 0)?)
}

/// The same rows in a tensor with room for more, if it has none left.
fn with_room(tensor: Tensor, length: usize, more: usize) -> Result<Tensor> {
    let shape = tensor.shape();
    if shape[1] >= length + more {
        return Ok(tensor);
    }
    let room = (length + more).max(2 * shape[1]).max(ROOM);
    Ok(enlarged(&tensor, length, room)?.unwrap_or(tensor))
}

/// The first `length` rows in a tensor with so much room; `None` if it has as much.
fn enlarged(tensor: &Tensor, length: usize, room: usize) -> Result<Option<Tensor>> {
    let shape = tensor.shape();
    if shape[1] >= room {
        return Ok(None);
    }
    let larger = Tensor::full_on(tensor.device(), [shape[0], room, shape[2], shape[3]], 0.0)?;
    let mut larger = larger.to_type(tensor.data_type())?;
    larger.overwrite(1, 0, &tensor.slice(1, 0, length)?)?;
    Ok(Some(larger))
}
