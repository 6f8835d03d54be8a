//! What is changed inside a model during a pass: values set, added to or forbidden, and functions of Python.

use crate::arrays::{GivenReals, to_numpy, to_tensor};
use crate::error::problem;
use pyo3::prelude::*;
use regard_nn::{Error, Probe, Result};
use regard_tensor::Tensor;
use std::sync::{Arc, Mutex, PoisonError};

type Edit = dyn Fn(Probe) -> Probe + Send + Sync;

/// One change, made in every pass over an input.
#[pyclass(frozen, module = "regard._regard")]
pub struct Change {
    edit: Arc<Edit>,
    /// What a function of Python raised.
    raised: Arc<Mutex<Option<PyErr>>>,
}

/// Which values of a site a change is about: some positions, some heads, or all.
#[derive(Clone)]
struct Where {
    positions: Option<Vec<i64>>,
    heads: Option<Vec<usize>>,
}

#[pymethods]
impl Change {
    /// Puts values in the place of a site's, or adds them. They have the site's axes without that of the batch, each as long
    /// as the site's or 1; where positions are chosen, the axis of positions may be of another length.
    #[staticmethod]
    #[pyo3(signature = (site, values, *, add, positions=None, heads=None))]
    fn put(
        site: String,
        values: GivenReals<'_>,
        add: bool,
        positions: Option<Vec<i64>>,
        heads: Option<Vec<usize>>,
    ) -> PyResult<Self> {
        let values = to_tensor(&values)?;
        let chosen = Where { positions, heads };
        Ok(Self::editing(move |probe| {
            let (values, chosen) = (values.clone(), chosen.clone());
            probe.change(site.clone(), move |site, current| chosen.put(site, &current, &values, add))
        }))
    }

    /// Sets a head's output to its mean over all positions.
    #[staticmethod]
    fn mean_head(attention: String, head: usize) -> Self {
        Self::editing(move |probe| probe.mean_head(&attention, head))
    }

    /// Forbids a query to attend to a key.
    #[staticmethod]
    fn block(attention: String, head: Option<usize>, query: usize, key: usize) -> Self {
        Self::editing(move |probe| probe.block(&attention, head, query, key))
    }

    /// Calls a function with the name and the values of every site that a pattern names; what it returns takes their place,
    /// unless that is None.
    #[staticmethod]
    fn hook(pattern: String, function: Py<PyAny>) -> Self {
        let raised: Arc<Mutex<Option<PyErr>>> = Arc::default();
        let slot = Arc::clone(&raised);
        let function = Arc::new(function);
        let edit = move |probe: Probe| {
            let (function, slot) = (Arc::clone(&function), Arc::clone(&slot));
            probe.change(pattern.clone(), move |site, current| {
                let called = Python::attach(|py| call(py, &function, site, &current));
                called.map_err(|error| {
                    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    Error::Cancelled
                })
            })
        };
        Self { edit: Arc::new(edit), raised }
    }
}

impl Change {
    fn editing(edit: impl Fn(Probe) -> Probe + Send + Sync + 'static) -> Self {
        Self { edit: Arc::new(edit), raised: Arc::default() }
    }
}

fn call(py: Python<'_>, function: &Py<PyAny>, site: &str, current: &Tensor) -> PyResult<Tensor> {
    let returned = function.bind(py).call1((site, to_numpy(py, current.clone())?))?;
    if returned.is_none() {
        return Ok(current.clone());
    }
    let returned: GivenReals = returned
        .extract()
        .map_err(|_| problem(format!("the hook at {site} returned no array of numbers")))?;
    let tensor = to_tensor(&returned)?;
    tensor.to(current.device()).map_err(|error| problem(error.to_string()))
}

/// The changes of a pass.
#[derive(Clone, Default)]
pub struct Changes {
    edits: Vec<Arc<Edit>>,
    raised: Vec<Arc<Mutex<Option<PyErr>>>>,
}

impl Changes {
    /// In the order in which they are made.
    pub fn new(changes: &[Py<Change>]) -> Self {
        let edits = changes.iter().map(|change| Arc::clone(&change.get().edit)).collect();
        let raised = changes.iter().map(|change| Arc::clone(&change.get().raised)).collect();
        Self { edits, raised }
    }

    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// A probe that makes them.
    pub fn probe(&self) -> Probe {
        self.edits.iter().fold(Probe::new(), |probe, edit| edit(probe))
    }

    /// The same for the program's readings.
    pub fn for_reading(&self) -> Option<regard::forward_pass::Interventions> {
        let edits = self.edits.clone();
        (!edits.is_empty()).then(|| {
            let all: regard::forward_pass::Interventions =
                Arc::new(move |probe| edits.iter().fold(probe, |probe, edit| edit(probe)));
            all
        })
    }

    /// What the pass returned, or what a function of Python raised in it.
    pub fn settle<T>(&self, done: PyResult<T>) -> PyResult<T> {
        for slot in &self.raised {
            if let Some(error) = slot.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return Err(error);
            }
        }
        done
    }
}

/// Whether a site has heads on axis 1 and positions on axis 2, rather than positions on axis 1 and heads on axis 2.
fn is_map(site: &str) -> bool {
    site.ends_with(".weights") || site.ends_with(".scores")
}

impl Where {
    /// current·keep + inserted, where `keep` is 0 at the chosen places when values are set: gradients flow through the rest.
    fn put(&self, site: &str, current: &Tensor, values: &Tensor, add: bool) -> Result<Tensor> {
        let shape = current.shape().to_vec();
        let (positions_axis, heads_axis) = if is_map(site) { (2, 1) } else { (1, 2) };
        let positions = self.positions(site, shape.get(positions_axis).copied().unwrap_or(1))?;
        if let (Some(heads), length) = (&self.heads, shape.get(heads_axis).copied().unwrap_or(0)) {
            let known = shape.len() == 4;
            if let Some(head) = heads.iter().find(|&&head| !known || head >= length) {
                let problem = if known {
                    format!("{site} has {length} heads: there is no head {head}")
                } else {
                    format!("{site} has no heads")
                };
                return Err(Error::input("intervention", problem));
            }
        }
        let expand = Expand::new(site, values, &shape, positions.as_ref().map(|_| positions_axis))?;
        let count = shape.iter().product();
        let (mut keep, mut inserted) = (vec![1.0_f32; count], vec![0.0_f32; count]);
        let mut at = vec![0; shape.len()];
        for flat in 0..count {
            let mut rest = flat;
            for (index, &length) in at.iter_mut().zip(&shape).rev() {
                (*index, rest) = (rest % length, rest / length);
            }
            let here = positions.as_ref().is_none_or(|some| some.contains(&at[positions_axis]))
                && self.heads.as_ref().is_none_or(|some| some.contains(&at[heads_axis]));
            if here {
                keep[flat] = if add { 1.0 } else { 0.0 };
                inserted[flat] = expand.at(&at)?;
            }
        }
        let device = current.device();
        let inserted = Tensor::new(&inserted, shape.clone())?.to(device)?;
        let kept =
            if add { current.clone() } else { current.multiply(&Tensor::new(&keep, shape)?.to(device)?)? };
        Ok(kept.add(&inserted)?)
    }

    /// The chosen positions of so many, counted from the end if negative.
    fn positions(&self, site: &str, length: usize) -> Result<Option<Vec<usize>>> {
        let Some(positions) = &self.positions else { return Ok(None) };
        let resolve = |&position: &i64| {
            let resolved = if position < 0 { position + length as i64 } else { position };
            usize::try_from(resolved).ok().filter(|&resolved| resolved < length).ok_or_else(|| {
                Error::input(
                    "intervention",
                    format!("{site} has {length} positions: there is no position {position}"),
                )
            })
        };
        positions.iter().map(resolve).collect::<Result<Vec<_>>>().map(Some)
    }
}

/// Values without a batch axis, repeated to the shape of a site.
struct Expand {
    values: Vec<f32>,
    shape: Vec<usize>,
    site: String,
}

impl Expand {
    fn new(site: &str, values: &Tensor, target: &[usize], free: Option<usize>) -> Result<Self> {
        let shape = values.shape().to_vec();
        let wrong = || {
            let wanted = &target[1.min(target.len())..];
            Error::input(
                "intervention",
                format!("values for {site} must be {wanted:?} or have axes of length 1, got {shape:?}"),
            )
        };
        if shape.len() + 1 > target.len() {
            return Err(wrong());
        }
        // Missing axes stand in front, as everywhere.
        let first = target.len() - shape.len();
        for (i, &length) in shape.iter().enumerate() {
            if length != 1 && length != target[first + i] && Some(first + i) != free {
                return Err(wrong());
            }
        }
        Ok(Self { values: values.to_vec(), shape, site: site.to_owned() })
    }

    fn at(&self, index: &[usize]) -> Result<f32> {
        let first = index.len() - self.shape.len();
        let mut flat = 0;
        for (&length, &i) in self.shape.iter().zip(&index[first..]) {
            let i = if length == 1 { 0 } else { i };
            if i >= length {
                let problem =
                    format!("the values for {} have {length} positions: there is no position {i}", self.site);
                return Err(Error::input("intervention", problem));
            }
            flat = flat * length + i;
        }
        Ok(self.values[flat])
    }
}
