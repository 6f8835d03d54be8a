//! Beam search: the best few hypotheses are kept at every step.

use super::slide::Slide;
use super::{NextToken, checked};
use crate::attention::Cache;
use crate::context::Context;
use crate::error::{Error, Result};
use regard_tensor::Ids;

/// Settings of [`beam_search`].
#[derive(Debug, Clone)]
pub struct BeamSettings {
    /// The number of beams for each text.
    pub beams: usize,
    /// The maximum number of new tokens.
    pub max_tokens: usize,
    /// Hypotheses are ranked by log probability divided by length to this power: values above 0 favour longer ones.
    pub length_penalty: f32,
    /// Whether to stop as soon as there are as many finished hypotheses as beams, or only when no open one can become
    /// better.
    pub early_stopping: bool,
    /// Tokens that end a text.
    pub stop_tokens: Vec<u32>,
    /// How the window slides when a text outgrows the model's context; without it, texts end there.
    pub slide: Option<Slide>,
}

impl Default for BeamSettings {
    fn default() -> Self {
        Self {
            beams: 4,
            max_tokens: 100,
            length_penalty: 1.0,
            early_stopping: false,
            stop_tokens: Vec::new(),
            slide: None,
        }
    }
}

/// A finished hypothesis.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Hypothesis {
    /// The new tokens, a stop token included.
    pub tokens: Vec<u32>,
    /// Its log probability divided by its length to the power of the penalty.
    pub score: f32,
}

/// The beams of one text.
struct Search {
    /// Log probability and tokens of the open hypotheses.
    open: Vec<(f32, Vec<u32>)>,
    /// Finished hypotheses, best first.
    finished: Vec<Hypothesis>,
    done: bool,
}

/// The best continuations of each text, best first.
///
/// The model's batch has `beams` rows for each text, with equal starts; `starts` has one entry per row.
pub fn beam_search(
    model: &impl NextToken,
    context: &Context,
    starts: &[Vec<u32>],
    settings: &BeamSettings,
) -> Result<Vec<Vec<Hypothesis>>> {
    let beams = settings.beams;
    if beams == 0 || starts.is_empty() || !starts.len().is_multiple_of(beams) {
        let problem = format!("{} rows cannot hold {beams} beams for each text", starts.len());
        return Err(Error::input("beam search", problem));
    }
    let length = starts[0].len();
    let sliding = settings.slide.zip(model.limit());
    if let Some((slide, limit)) = sliding {
        slide.check(limit)?;
    }
    // The last token is not fed back, so the text may be one longer than the context.
    let room = match (sliding, model.limit()) {
        (None, Some(limit)) => limit.saturating_add(1).saturating_sub(length).max(1),
        _ => usize::MAX,
    };
    let last_step = settings.max_tokens.min(room);
    if length == 0 || starts.iter().any(|start| start.len() != length) {
        return Err(Error::input("beam search", "all starts need the same number of tokens, at least one"));
    }
    // At first all beams of a text are equal, so only one of them counts.
    let search = |_| Search {
        open: (0..beams).map(|beam| (if beam == 0 { 0.0 } else { f32::NEG_INFINITY }, Vec::new())).collect(),
        finished: Vec::new(),
        done: false,
    };
    let mut searches: Vec<Search> = (0..starts.len() / beams).map(search).collect();
    let mut cache = Cache::new();
    let mut windows = Windows { rows: starts.to_vec(), sliding };
    windows.slide();
    let mut ids = windows.whole()?;
    for step in 1..=last_step {
        context.check()?;
        let scores = model.next_scores(&context.clone().with_cache(&cache), &ids, None)?;
        let scores = checked(scores, starts.len())?;
        let (vocabulary, log) = (scores.shape().last(), scores.log_softmax()?);
        let rows = log.values();
        let (mut parents, mut tokens) = (Vec::new(), Vec::new());
        for (i, (search, rows)) in searches.iter_mut().zip(rows.chunks(beams * vocabulary)).enumerate() {
            for (parent, token) in search.step(rows, vocabulary, (step, step == last_step), settings) {
                parents.push(i * beams + parent);
                tokens.push(token);
            }
        }
        if searches.iter().all(|search| search.done) {
            break;
        }
        windows.grow(&parents, &tokens);
        if windows.slide() {
            // Those that stay have other positions, and are read again.
            cache = Cache::new();
            ids = windows.whole()?;
        } else {
            cache.reorder(&parents)?;
            ids = Ids::new(&tokens, [starts.len(), 1])?;
        }
    }
    Ok(searches.into_iter().map(|search| search.finished).collect())
}

/// What the model reads of each hypothesis: all are as long, so that all slide at once.
struct Windows {
    rows: Vec<Vec<u32>>,
    /// How they slide, and the context that they fit.
    sliding: Option<(Slide, usize)>,
}

impl Windows {
    /// Each row becomes its parent's with one more token.
    fn grow(&mut self, parents: &[usize], tokens: &[u32]) {
        let grown = parents.iter().zip(tokens).map(|(&parent, &token)| {
            let mut row = self.rows[parent].clone();
            row.push(token);
            row
        });
        self.rows = grown.collect();
    }

    /// Lets tokens leave if there are too many; returns whether any did.
    fn slide(&mut self) -> bool {
        let Some((slide, limit)) = self.sliding else { return false };
        let mut slid = false;
        for row in &mut self.rows {
            slid |= row.len() > limit;
            row.drain(slide.leaving(row.len(), limit));
        }
        slid
    }

    fn whole(&self) -> Result<Ids> {
        Ok(Ids::new(&self.rows.concat(), [self.rows.len(), self.rows[0].len()])?)
    }
}

impl Search {
    /// Takes one step; returns the parent and the new token of each open hypothesis.
    fn step(
        &mut self,
        rows: &[f32],
        vocabulary: usize,
        (step, out_of_room): (usize, bool),
        settings: &BeamSettings,
    ) -> Vec<(usize, u32)> {
        let beams = settings.beams;
        if self.done {
            return (0..beams).map(|beam| (beam, 0)).collect();
        }
        let total = |i: usize| self.open[i / vocabulary].0 + rows[i];
        // Twice as many candidates as beams (more with several stop tokens), so that enough are left if the best all stop.
        let wanted = (beams * (1 + settings.stop_tokens.len()).max(2)).min(rows.len());
        let mut order: Vec<usize> = (0..rows.len()).collect();
        let by_score = |&a: &usize, &b: &usize| total(b).total_cmp(&total(a)).then(a.cmp(&b));
        order.select_nth_unstable_by(wanted - 1, by_score);
        order.truncate(wanted);
        order.sort_by(by_score);
        let (mut open, mut grown) = (Vec::new(), Vec::new());
        let mut ended = Vec::new();
        for (rank, &i) in order.iter().enumerate() {
            // Beams that are not filled yet.
            if total(i) == f32::NEG_INFINITY {
                break;
            }
            let (parent, token) = (i / vocabulary, (i % vocabulary) as u32);
            let mut text = self.open[parent].1.clone();
            text.push(token);
            if settings.stop_tokens.contains(&token) || out_of_room {
                if rank < beams {
                    let score = total(i) / (step as f32).powf(settings.length_penalty);
                    ended.push(Hypothesis { tokens: text, score });
                }
            } else if open.len() < beams {
                open.push((total(i), text));
                grown.push((parent, token));
            }
        }
        // With early stopping, nothing is added once there are enough.
        self.finished.extend(ended);
        self.finished.sort_by(|a, b| b.score.total_cmp(&a.score));
        self.finished.truncate(beams);
        self.done = out_of_room || open.is_empty() || self.cannot_improve(&open, step, settings);
        while open.len() < beams {
            open.push((f32::NEG_INFINITY, Vec::new()));
            grown.push((0, 0));
        }
        self.open = open;
        grown
    }

    fn cannot_improve(&self, open: &[(f32, Vec<u32>)], step: usize, settings: &BeamSettings) -> bool {
        if self.finished.len() < settings.beams {
            return false;
        }
        let worst = self.finished.last().map_or(f32::NEG_INFINITY, |text| text.score);
        let best = open[0].0 / (step as f32).powf(settings.length_penalty);
        settings.early_stopping || best <= worst
    }
}
