//! Batches for language models: windows of a long text.

use crate::data::text::TokenStream;
use crate::error::{Error, Result};
use regard_tensor::Ids;
use regard_tensor::random::Key;

/// Windows of a text, and the same windows shifted by one token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowBatch {
    /// Ids (batch, time).
    pub ids: Ids,
    /// The next id at each position: (batch, time).
    pub targets: Ids,
    /// The number of windows before these, for draws that are keyed by example.
    pub first: u64,
}

/// Windows at random positions of a text, as in nanoGPT: each start is drawn for its step and its index in the batch. The
/// step alone determines a batch.
///
/// ```
/// use regard_nn::data::{batches::RandomWindows, text::TokenStream};
/// use regard_nn::tensor::random::Key;
/// let windows = RandomWindows::new(TokenStream::new(&[1, 2, 3, 4, 5].repeat(20))?, 8, 4, Key::new(1))?;
/// let batch = windows.batch(3)?;
/// assert_eq!(batch.ids.values()[1], batch.targets.values()[0]);
/// assert_eq!(batch, windows.batch(3)?);
/// # Ok::<(), regard_nn::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct RandomWindows {
    stream: TokenStream,
    context: usize,
    batch_size: usize,
    key: Key,
}

impl RandomWindows {
    /// Windows of `context` ids, `batch_size` at a time.
    pub fn new(stream: TokenStream, context: usize, batch_size: usize, key: Key) -> Result<Self> {
        check(&stream, context, batch_size, context.saturating_add(1))?;
        Ok(Self { stream, context, batch_size, key: key.site("data.windows") })
    }

    /// The batch of a step.
    pub fn batch(&self, step: u64) -> Result<WindowBatch> {
        let key = self.key.step(step);
        let starts: Vec<usize> = (0..self.batch_size as u64)
            .map(|window| key.below(window, 0, self.stream.len() - self.context))
            .collect();
        let first = step.wrapping_mul(self.batch_size as u64);
        windows(&self.stream, &starts, self.context, first)
    }
}

/// Consecutive windows that cover a text once: every id but the first is a target exactly once. For evaluation.
#[derive(Debug, Clone)]
pub struct PackedWindows {
    stream: TokenStream,
    context: usize,
    batch_size: usize,
}

impl PackedWindows {
    /// Windows of `context` ids, `batch_size` at a time. The last window may be shorter and then has a batch of its own.
    pub fn new(stream: TokenStream, context: usize, batch_size: usize) -> Result<Self> {
        check(&stream, context, batch_size, 2)?;
        Ok(Self { stream, context, batch_size })
    }

    /// The total number of targets: one less than the number of ids.
    pub fn targets(&self) -> usize {
        self.stream.len() - 1
    }

    /// The number of batches.
    pub fn batches(&self) -> usize {
        let rest = usize::from(!self.targets().is_multiple_of(self.context));
        self.full().div_ceil(self.batch_size) + rest
    }

    /// The number of windows of full length.
    fn full(&self) -> usize {
        self.targets() / self.context
    }

    /// One of the batches.
    pub fn batch(&self, index: usize) -> Result<WindowBatch> {
        if index >= self.batches() {
            let problem = format!("batch {index} is out of range, there are {}", self.batches());
            return Err(Error::data("batches", problem));
        }
        let first = index.saturating_mul(self.batch_size).min(self.full());
        let last = (first + self.batch_size).min(self.full());
        if first == last {
            let start = self.full() * self.context;
            return windows(&self.stream, &[start], self.targets() - start, first as u64);
        }
        let starts: Vec<usize> = (first..last).map(|window| window * self.context).collect();
        windows(&self.stream, &starts, self.context, first as u64)
    }

    /// At most `limit` windows, in batches, evenly spaced over the text.
    pub fn evenly(&self, limit: usize) -> Box<dyn Iterator<Item = Result<WindowBatch>> + '_> {
        if limit >= self.full() {
            return Box::new(self.iter());
        }
        let start = move |window: usize| window * self.full() / limit * self.context;
        let firsts = (0..limit).step_by(self.batch_size);
        Box::new(firsts.map(move |first| {
            let starts: Vec<usize> = (first..limit.min(first + self.batch_size)).map(start).collect();
            windows(&self.stream, &starts, self.context, first as u64)
        }))
    }

    /// All batches in order.
    pub fn iter(&self) -> impl Iterator<Item = Result<WindowBatch>> {
        (0..self.batches()).map(|index| self.batch(index))
    }
}

fn check(stream: &TokenStream, context: usize, batch_size: usize, least: usize) -> Result<()> {
    if context == 0 || batch_size == 0 {
        let problem = format!("invalid sizes: windows of {context} ids in batches of {batch_size}");
        return Err(Error::data("batches", problem));
    }
    if stream.len() < least {
        let problem = format!(
            "the text has {} ids, shorter than the {least} that a context of {context} needs",
            stream.len()
        );
        return Err(Error::data("text", problem));
    }
    Ok(())
}

fn windows(stream: &TokenStream, starts: &[usize], length: usize, first: u64) -> Result<WindowBatch> {
    let mut ids = Vec::with_capacity(starts.len() * length);
    let mut targets = Vec::with_capacity(starts.len() * length);
    let mut window = vec![0; length + 1];
    for &start in starts {
        stream.copy(start, &mut window)?;
        ids.extend_from_slice(&window[..length]);
        targets.extend_from_slice(&window[1..]);
    }
    let shape = [starts.len(), length];
    Ok(WindowBatch { ids: Ids::new(&ids, shape)?, targets: Ids::new(&targets, shape)?, first })
}
