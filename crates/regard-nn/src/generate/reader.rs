//! Reads what a text has grown by: token after token, with a cache.
//!
//! A step of a generation is hundreds of short kernels, and launching them one by one takes longer than running them. A CUDA
//! device notes down the step of a token and runs all of it at one call, with the token and its place in memory. The first
//! step of a kind runs as usual and shows whether it can be recorded: it must read no value to the host. Texts with
//! padding, and models whose attention has no kernel for it, are read as on the CPU.

use super::NextToken;
use crate::attention::Cache;
use crate::context::Context;
use crate::error::{Error, Result};
use regard_tensor::random::Key;
use regard_tensor::traffic;
use regard_tensor::{Device, Exchange, Ids, Mask, Recording, Tensor};

/// Fewer tokens than this are not worth a recording.
const FEWEST: usize = 8;

/// Room is made for this many tokens at a time; then the step is recorded anew.
const STRIDE: usize = 1024;

/// The cache of a generation, and its step if it has been recorded.
pub(super) struct Reader {
    cache: Cache,
    /// The most tokens that will be read.
    room: usize,
    recorded: Option<Recorded>,
    rehearsed: bool,
    off: bool,
}

/// A recorded step: the ids that it reads and the scores that it leaves.
struct Recorded {
    recording: Recording,
    ids: Ids,
    place: Ids,
    scores: Tensor,
    /// The number of tokens read so far, and the most that fit.
    length: usize,
    room: usize,
}

impl Reader {
    /// Has read nothing; will read so many tokens at most, of which the first pass reads `first`.
    pub fn new(first: usize, room: usize) -> Self {
        let off = room < first + FEWEST;
        Self { cache: Cache::new(), room, recorded: None, rehearsed: false, off }
    }

    /// Logits after the last of the ids (batch, time), which follow all ids before.
    pub fn read(
        &mut self,
        model: &impl NextToken,
        context: &Context,
        ids: &Ids,
        present: Option<&Mask>,
    ) -> Result<Tensor> {
        let one = ids.shape().last() == 1 && present.is_none() && self.cache.length() > 0;
        let cuda = matches!(model.device(), Device::Cuda(_)) && context.probe().is_none();
        if one && cuda && !self.off {
            if let Some(scores) = self.next(model, context, ids)? {
                return Ok(scores);
            }
            self.off = true;
        }
        if let Some(recorded) = self.recorded.take() {
            self.cache.leave_places(recorded.length);
        }
        model.next_scores(&context.clone().with_cache(&self.cache), ids, present)
    }

    /// The same for one id a text; `None` if such a step cannot be recorded; the cache is unchanged then.
    fn next(&mut self, model: &impl NextToken, context: &Context, ids: &Ids) -> Result<Option<Tensor>> {
        match &mut self.recorded {
            Some(recorded) if recorded.length < recorded.room => return recorded.replay(ids).map(Some),
            Some(recorded) => self.cache.leave_places(recorded.length),
            None => {}
        }
        self.recorded = None;
        let (device, length) = (model.device(), self.cache.length());
        let room = self.room.min(length + STRIDE);
        let ids = ids.slot(device)?;
        let place = self.cache.place_next(device, room)?;
        let step = || model.next_scores(&context.clone().with_cache(&self.cache), &ids, None);
        if self.rehearsed {
            let recorded = Recording::record(device, Key::new(0), || step().map_err(as_tensor_error));
            if let Ok((recording, scores)) = recorded {
                let length = length + 1;
                let kept = scores.clone();
                self.recorded = Some(Recorded { recording, ids, place, scores, length, room });
                return Ok(Some(kept));
            }
        } else {
            let before = traffic::snapshot();
            let scores = step();
            let counted = traffic::snapshot().since(&before);
            self.rehearsed = counted.host_reads == 0 && counted.fallbacks.is_empty();
            if let (Ok(scores), true) = (scores, self.rehearsed) {
                return Ok(Some(scores));
            }
        }
        self.cache.leave_places(length);
        Ok(None)
    }
}

impl Recorded {
    fn replay(&mut self, ids: &Ids) -> Result<Tensor> {
        let place = Ids::new(&vec![self.length as u32; self.place.count()], self.place.shape())?;
        let mut slots = Exchange::new();
        if !slots.put(&self.ids, ids) || !slots.put(&self.place, &place) {
            return Err(Error::input(
                "generate",
                format!("ids of {} do not fit the recorded step", ids.shape()),
            ));
        }
        self.recording.replay_inference(&slots)?;
        self.length += 1;
        Ok(self.scores.clone())
    }
}

fn as_tensor_error(error: Error) -> regard_tensor::Error {
    match error {
        Error::Tensor(error) => error,
        other => regard_tensor::Error::Segment(other.to_string()),
    }
}
