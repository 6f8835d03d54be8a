//! One pass of a model over a batch, and everything that can be asked about it later.

use crate::arrays::{Reals, ensure_room, to_numpy};
use crate::change::Changes;
use crate::error::problem;
use crate::model::{MOST_TOKENS, described};
use crate::work::work;
use anyhow::{Context as _, Result, bail, ensure};
use pyo3::prelude::*;
use regard::forward_pass::{EncodedInput, ForwardPass, Group, Input, Site, Token};
use regard::model::Opened;
use regard::standalone::{self, HeadFilter, PageContents, Start, VIEWS};
use regard_nn::models::{Inputs, Model, Predicts, Reads};
use regard_nn::tensor::{Ids, Mask, Tensor};
use regard_nn::{Context, Probe};
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// What a model reads at once, with the tokens of each example.
pub struct Read {
    pub inputs: Inputs,
    pub examples: Vec<One>,
}

/// One example of a batch.
#[derive(Clone)]
pub struct One {
    pub input: Option<Input>,
    pub source: Vec<Token>,
    pub target: Vec<Token>,
}

impl Read {
    /// Pictures if there are some, else texts.
    pub fn given(opened: &Opened, inputs: Vec<Input>, pictures: Option<&Tensor>) -> Result<Self> {
        match pictures {
            Some(pictures) => Self::pictures(opened, pictures),
            None => Self::texts(opened, inputs),
        }
    }

    /// Texts, padded at the end to the longest.
    pub fn texts(opened: &Opened, inputs: Vec<Input>) -> Result<Self> {
        ensure!(!inputs.is_empty(), "there is nothing to read: the list is empty");
        let spelt =
            inputs.iter().map(|input| input.encode(opened, MOST_TOKENS)).collect::<Result<Vec<_>>>()?;
        let (ids, present) = padded(spelt.iter().map(|one| one.inputs.ids.as_ref()))?;
        let (types, _) = padded(spelt.iter().map(|one| one.inputs.types.as_ref()))?;
        let (answer, answer_present) = padded(spelt.iter().map(|one| one.inputs.answer.as_ref()))?;
        let whole = Inputs { ids, present, types, answer, answer_present, ..Inputs::default() };
        let one = |(input, EncodedInput { source, target, .. })| One { input: Some(input), source, target };
        Ok(Self { inputs: whole, examples: inputs.into_iter().zip(spelt).map(one).collect() })
    }

    /// Pictures (batch, channels, height, width), as the model was trained to read them.
    pub fn pictures(opened: &Opened, pixels: &Tensor) -> Result<Self> {
        let Some(patches) = opened.model.abilities().pictures() else {
            bail!("this model reads text, not pictures");
        };
        let ([height, width], channels) = (patches.image, patches.channels);
        let [batch, c, h, w] = pixels.shape()[..] else {
            bail!("pictures must be (batch, channels, height, width), got {}", pixels.shape());
        };
        ensure!(batch > 0, "there is nothing to read: there is no picture");
        ensure!(
            [c, h, w] == [channels, height, width],
            "the model reads pictures of {channels} × {height} × {width}, got {c} × {h} × {w}"
        );
        let (rows, columns) = patches.grid();
        let class = Token { id: 0, text: "[class]".to_owned(), special: true, word: 0 };
        let patch = |i: usize| Token {
            id: i as u32 + 1,
            text: format!("{},{}", i / columns + 1, i % columns + 1),
            special: false,
            word: i + 1,
        };
        let source: Vec<Token> = std::iter::once(class).chain((0..rows * columns).map(patch)).collect();
        let one = One { input: None, source, target: Vec::new() };
        Ok(Self { inputs: Inputs::pictures(pixels), examples: vec![one; batch] })
    }
}

/// Rows of ids as one batch, and which of them are not padding if any are.
fn padded<'a>(rows: impl Iterator<Item = Option<&'a Ids>>) -> Result<(Option<Ids>, Option<Mask>)> {
    let Some(rows) = rows.collect::<Option<Vec<_>>>() else { return Ok((None, None)) };
    let longest = rows.iter().map(|row| row.count()).max().unwrap_or(0);
    let mut all = Vec::with_capacity(rows.len() * longest);
    for row in &rows {
        all.extend_from_slice(row.values());
        all.resize(all.len() + longest - row.count(), 0);
    }
    let shape = [rows.len(), longest];
    let even = rows.iter().all(|row| row.count() == longest);
    let present = (!even).then(|| Mask::from_fn(shape, |at| at[1] < rows[at[0]].count()));
    Ok((Some(Ids::new(&all, shape)?), present))
}

/// A pass. Attention weights are computed when someone looks at them, other values in another pass.
#[pyclass(frozen, module = "regard._regard")]
pub struct Pass {
    opened: Arc<Opened>,
    name: String,
    read: Read,
    changes: Changes,
    sites: Arc<Vec<Site>>,
    probe: Probe,
    hidden: Tensor,
    scores: OnceLock<Tensor>,
    known: Mutex<HashMap<String, Tensor>>,
}

/// Runs a model as far as its hidden states.
fn hidden(model: &dyn Model, inputs: &Inputs, probe: &Probe, cancel: &AtomicBool) -> Result<Tensor> {
    let context = Context::inference().with_cancel(cancel).with_probe(probe);
    Ok(model.hidden(&context, inputs)?)
}

impl Pass {
    pub fn new(
        opened: Arc<Opened>,
        (name, sites): (String, Arc<Vec<Site>>),
        read: Read,
        changes: Changes,
        record: &[String],
        cancel: &AtomicBool,
    ) -> Result<Self> {
        let probe =
            sites.iter().fold(changes.probe(), |probe, site| probe.record(format!("{}.weights", site.name)));
        let probe = record.iter().fold(probe, Probe::record);
        let hidden = hidden(&*opened.model, &read.inputs, &probe, cancel)?;
        let pass = Self {
            opened,
            name,
            read,
            changes,
            sites,
            probe,
            hidden,
            scores: OnceLock::new(),
            known: Mutex::default(),
        };
        if !pass.changes.is_empty() || !record.is_empty() {
            // Changes may be at the scores.
            if pass.opened.model.abilities().predicts != Predicts::Nothing {
                pass.scores(cancel)?;
            }
            if let Some(pattern) = pass.probe.unmatched().first() {
                bail!(pass.unknown(pattern));
            }
        }
        Ok(pass)
    }

    fn unknown(&self, pattern: &str) -> String {
        let known = self.site_names();
        let last = pattern.rsplit('.').next().unwrap_or_default();
        let near = known.iter().find(|site| site.rsplit('.').next() == Some(last)).or(known.first());
        match near {
            Some(near) => {
                format!("the model has no site {pattern}; one that it has is {near} (run.sites lists all)")
            }
            None => format!("the model has no site {pattern}"),
        }
    }

    fn scores(&self, cancel: &AtomicBool) -> Result<Tensor> {
        if let Some(scores) = self.scores.get() {
            return Ok(scores.clone());
        }
        let model = &*self.opened.model;
        if model.abilities().predicts == Predicts::Nothing {
            bail!("this {} has no head that answers anything: it gives no scores", model.kind());
        }
        let context = Context::inference().with_cancel(cancel).with_probe(&self.probe);
        let scores = model.scores(&context, &self.hidden)?;
        Ok(self.scores.get_or_init(|| scores).clone())
    }

    /// The names of all sites, layers in order.
    fn site_names(&self) -> Vec<String> {
        let mut names = self.probe.sites();
        // Scores before the mask are computed only if someone looks at them.
        names.extend(self.sites.iter().map(|site| format!("{}.scores", site.name)));
        if self.opened.model.abilities().predicts != Predicts::Nothing {
            names.push("logits".to_owned());
        }
        let key = |name: &String| -> Vec<(usize, String)> {
            name.split('.').map(|part| (part.parse().unwrap_or(usize::MAX), part.to_owned())).collect()
        };
        names.sort_by_cached_key(key);
        names.dedup();
        names
    }

    /// The values at a site for the whole batch.
    fn value(&self, site: &str, cancel: &AtomicBool) -> Result<Tensor> {
        if site == "logits" {
            return self.scores(cancel);
        }
        if let Some(attention) = site.strip_suffix(".weights").or_else(|| site.strip_suffix(".scores"))
            && let Some(weights) = self.probe.weights(attention)
        {
            ensure_room("attention weights", &weights.sizes())?;
        }
        if let Some(value) = self.probe.get(site)? {
            return Ok(value);
        }
        if let Some(value) = self.known().get(site) {
            return Ok(value.clone());
        }
        if !self.site_names().iter().any(|known| known == site) {
            bail!(self.unknown(site));
        }
        let probe = self.changes.probe().record(site);
        hidden(&*self.opened.model, &self.read.inputs, &probe, cancel)?;
        let value = probe.get(site)?.with_context(|| format!("the pass computes no {site}"))?;
        self.known().insert(site.to_owned(), value.clone());
        Ok(value)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, Tensor>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn one(&self, example: usize) -> Result<&One> {
        self.read.examples.get(example).with_context(|| format!("there is no example {example}"))
    }

    /// One example of what a site holds, without its padding.
    fn part(&self, site: &str, value: &Tensor, example: usize) -> Result<Tensor> {
        let one = self.one(example)?;
        if value.shape().rank() == 0 {
            return Ok(value.clone());
        }
        if value.shape()[0] != self.read.examples.len() {
            return Ok(value.clone());
        }
        let decodes = self.opened.model.abilities().reads == Reads::Source && !site.starts_with("encoder.");
        let cross = site.contains(".cross.");
        let side = |target: bool| if target { one.target.len() } else { one.source.len() };
        let queries = side(decodes);
        let keys = side(decodes && !cross);
        let mut part = value.select(0, example)?;
        let cut = |part: Tensor, axis: isize, length: usize| -> Result<Tensor> {
            match part.shape().get(axis as usize) {
                Some(&now) if now > length && length > 0 && self.read.examples.len() > 1 => {
                    Ok(part.slice(axis, 0, length)?)
                }
                _ => Ok(part),
            }
        };
        let name = site.rsplit('.').next().unwrap_or_default();
        if matches!(name, "weights" | "scores") && part.shape().rank() == 3 {
            part = cut(part, 1, queries)?;
            return cut(part, 2, keys);
        }
        let looked_at = matches!(name, "key" | "value" | "key_rotated");
        if part.shape().rank() == 1 && name != "weights" {
            return Ok(part);
        }
        cut(part, 0, if looked_at { keys } else { queries })
    }

    fn reading(&self, example: usize, cancel: &AtomicBool) -> Result<ForwardPass> {
        let One { source, target, .. } = self.one(example)?.clone();
        let row = |ids: &Option<Ids>, length: usize| -> Result<Option<Ids>> {
            let Some(ids) = ids else { return Ok(None) };
            let time = ids.shape().last();
            Ok(Some(Ids::new(&ids.values()[example * time..][..length], [1, length])?))
        };
        let Inputs { ids, types, answer, pictures, .. } = &self.read.inputs;
        let pictures = pictures.as_ref().map(|pictures| pictures.slice(0, example, 1)).transpose()?;
        let inputs = Inputs {
            ids: row(ids, source.len())?,
            types: row(types, source.len())?,
            answer: row(answer, target.len())?,
            pictures,
            ..Inputs::default()
        };
        ForwardPass::intervened(
            &self.opened,
            EncodedInput { inputs, source, target },
            self.changes.for_reading(),
            cancel,
        )
    }
}

#[pymethods]
impl Pass {
    fn __len__(&self) -> usize {
        self.read.examples.len()
    }

    /// The tokens of an example: id, text, whether it is special, number of its word.
    fn tokens(&self, example: usize, target: bool) -> PyResult<Vec<(u32, String, bool, usize)>> {
        let one = self.one(example).map_err(|error| problem(error.to_string()))?;
        Ok(described(if target { &one.target } else { &one.source }))
    }

    /// The names of all sites.
    fn sites(&self) -> Vec<String> {
        self.site_names()
    }

    /// The values at a site.
    fn get<'py>(&self, py: Python<'py>, site: &str, example: usize) -> PyResult<Reals<'py>> {
        let done = work(py, |cancel| self.part(site, &self.value(site, cancel)?, example));
        to_numpy(py, self.changes.settle(done)?)
    }

    /// The scores (logits): of every token, or of the classes of a whole input.
    fn logits<'py>(&self, py: Python<'py>, example: usize) -> PyResult<Reals<'py>> {
        let done = work(py, |cancel| {
            let scores = self.scores(cancel)?;
            let part = self.part("logits", &scores, example)?;
            Ok(match self.opened.model.abilities().predicts {
                Predicts::Class => part.reshape([part.count()])?,
                _ => part,
            })
        });
        to_numpy(py, self.changes.settle(done)?)
    }

    /// Some rows and columns of one head's weights.
    fn attention<'py>(
        &self,
        py: Python<'py>,
        site: &str,
        example: usize,
        head: usize,
        rows: (usize, usize),
        columns: (usize, usize),
    ) -> PyResult<Reals<'py>> {
        let block = work(py, |_| {
            let weights =
                self.probe.weights(site).with_context(|| format!("the model has no attention {site}"))?;
            let [_, heads, queries, keys] = weights.sizes();
            ensure!(head < heads, "{site} has {heads} heads: there is no head {head}");
            ensure!(rows.0 <= rows.1 && rows.1 <= queries, "{site} has {queries} queries, not rows {rows:?}");
            ensure!(
                columns.0 <= columns.1 && columns.1 <= keys,
                "{site} has {keys} keys, not columns {columns:?}"
            );
            ensure_room("attention weights", &[rows.1 - rows.0, columns.1 - columns.0])?;
            Ok(weights.block(example, head, rows.0..rows.1, columns.0..columns.1)?)
        })?;
        to_numpy(py, block)
    }

    /// What stands on the sides of a map: the tokens that ask and those that are looked at.
    fn sides(&self, site: &str, example: usize) -> PyResult<(usize, usize)> {
        let found = self.sites.iter().find(|known| known.name == site);
        let group = found
            .map(|found| found.group)
            .ok_or_else(|| problem(format!("the model has no attention {site}")))?;
        let one = self.one(example).map_err(|error| problem(error.to_string()))?;
        let side = |target: bool| if target { one.target.len() } else { one.source.len() };
        Ok((side(group.queries_target()), side(group.keys_target())))
    }

    /// The scores that the residual stream at a position would give after the embeddings and after each layer.
    fn lens<'py>(
        &self,
        py: Python<'py>,
        example: usize,
        position: i64,
    ) -> PyResult<Vec<(String, Reals<'py>)>> {
        let done = work(py, |cancel| {
            let layers = self.sites.iter().filter(|site| site.group == Group::Itself).count();
            ensure!(layers > 0, "the logit lens is for models that read one text");
            let names =
                (0..layers).map(|layer| (layer.to_string(), format!("layers.{layer}.residual.after")));
            let all = std::iter::once(("embeddings".to_owned(), "embeddings".to_owned())).chain(names);
            let scored = |(name, site): (String, String)| -> Result<(String, Tensor)> {
                let stream = self.part(&site, &self.value(&site, cancel)?, example)?; // (T, C)
                let [time, width] = stream.shape()[..] else { bail!("{site} is {}", stream.shape()) };
                let resolved = if position < 0 { position + time as i64 } else { position };
                let place = usize::try_from(resolved).ok().filter(|&place| place < time);
                let place = place.with_context(|| {
                    format!("there are {time} positions: there is no position {position}")
                })?;
                let residual = stream.slice(0, place, 1)?.reshape([1, 1, width])?;
                let scores = self.opened.model.lens(&Context::inference(), &residual)?;
                Ok((name, scores.reshape([scores.count()])?))
            };
            all.map(scored).collect::<Result<Vec<_>>>()
        });
        let scores = self.changes.settle(done)?;
        scores.into_iter().map(|(name, tensor)| Ok((name, to_numpy(py, tensor)?))).collect()
    }

    /// The page about an example, as one document without links.
    #[pyo3(signature = (example, view, group, layer, head, query, all))]
    #[allow(clippy::too_many_arguments)]
    fn page(
        &self,
        py: Python<'_>,
        example: usize,
        view: Option<&str>,
        group: Option<&str>,
        layer: Option<usize>,
        head: Option<usize>,
        query: Option<usize>,
        all: bool,
    ) -> PyResult<String> {
        let view = view.map(known_view).transpose()?;
        let group = group.map(known_group).transpose()?;
        let done = work(py, |cancel| {
            let reading = self.reading(example, cancel)?;
            let nothing = Input::Ids(Vec::new(), Vec::new());
            let input = self.one(example)?.input.as_ref().unwrap_or(&nothing);
            let chosen = HeadFilter { group, layer, head };
            // What is selected first must be there.
            chosen.heads(&reading)?;
            let filter = if all { HeadFilter::default() } else { chosen };
            let contents = PageContents::new(&self.name, &reading, input, filter)?;
            standalone::page(&contents.starting_at(Start { group, layer, head, query, view }))
        });
        self.changes.settle(done)
    }
}

/// A view of the page by its name.
pub fn known_view(name: &str) -> PyResult<&'static str> {
    let found = VIEWS.into_iter().find(|view| *view == name);
    found.ok_or_else(|| problem(format!("the page has no view {name}; it has {}", VIEWS.join(", "))))
}

/// What attends to what, by its name.
pub fn known_group(name: &str) -> PyResult<Group> {
    match name {
        "self" => Ok(Group::Itself),
        "encoder" => Ok(Group::Encoder),
        "decoder" => Ok(Group::Decoder),
        "cross" => Ok(Group::Cross),
        _ => Err(problem(format!("there is no attention {name}: it is self, encoder, decoder or cross"))),
    }
}

/// How many seconds so many passes take that are the library's alone, with what a run of Python records: the measure of what
/// Python adds (`bench/python_overhead.py`).
#[pyfunction]
pub fn library_passes(
    py: Python<'_>,
    model: &crate::model::Model,
    ids: Vec<u32>,
    calls: u32,
) -> PyResult<f64> {
    work(py, |cancel| {
        let started = std::time::Instant::now();
        for _ in 0..calls {
            let mut probe = Probe::new();
            for site in model.opened.model.attentions() {
                probe = probe.record(format!("{}.weights", site.name));
            }
            let inputs = Inputs::ids(&Ids::new(&ids, [1, ids.len()])?);
            hidden(&*model.opened.model, &inputs, &probe, cancel)?;
        }
        Ok(started.elapsed().as_secs_f64())
    })
}
