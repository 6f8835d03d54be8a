//! A model and what it reads.

use crate::arrays::{GivenReals, Reals, to_numpy, to_tensor};
use crate::change::{Change, Changes};
use crate::error::problem;
use crate::generation::Generation;
use crate::gradient::{Of, gradient};
use crate::pass::{Pass, Read};
use crate::tokenizer::Tokenizer;
use crate::work::work;
use anyhow::{Result, bail, ensure};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use regard::compute::Placement;
use regard::forward_pass::{Input, Site, Token};
use regard::model::{self, Opened};
use regard::run::memory::Needs;
use regard_nn::data::memory;
use regard_nn::models::{Predicts, Reads, Recipe};
use regard_nn::tensor::Device;
use regard_nn::train::Precision;
use regard_nn::{Parameter, checkpoint};
use serde_json::Map;
use std::path::PathBuf;
use std::sync::Arc;

/// The most tokens of a text.
pub const MOST_TOKENS: usize = 1 << 20;

/// A model with its tokenizer, if it has one.
#[pyclass(frozen, module = "regard._regard")]
pub struct Model {
    pub opened: Arc<Opened>,
    #[pyo3(get)]
    pub name: String,
    /// Its attentions, found once: every pass records their weights.
    sites: Arc<Vec<Site>>,
}

impl Model {
    pub fn new(opened: Opened, name: String) -> Self {
        let sites = Arc::new(Site::all(&*opened.model));
        Self { opened: Arc::new(opened), name, sites }
    }
}

/// The folder of a model that has none: no file system has files with this name, so that nothing is read beside the model.
pub fn nowhere() -> PathBuf {
    PathBuf::from("\0")
}

/// One thing to read: a text and perhaps a second one, or token ids and perhaps those of an answer.
#[derive(FromPyObject)]
pub enum Example {
    Text(String, Option<String>),
    Ids(Vec<u32>, Option<Vec<u32>>),
}

impl Example {
    /// As the program knows it.
    pub fn input(self) -> Input {
        match self {
            Self::Text(first, second) => Input::Text(first, second.unwrap_or_default()),
            Self::Ids(ids, said) => Input::Ids(ids, said.unwrap_or_default()),
        }
    }
}

/// Where a model computes and in which type.
pub fn placement(device: &str, precision: &str) -> Result<Placement> {
    let device = match device {
        "auto" => match regard_tensor::cuda_devices() {
            Ok(devices) if !devices.is_empty() => Device::Cuda(0),
            _ => Device::Cpu,
        },
        name => match name.parse() {
            Ok(device) => device,
            Err(_) => {
                bail!("device is \"auto\", \"cpu\", \"cuda\" or \"cuda:1\" and so on, not {name:?}")
            }
        },
    };
    let precision = match precision {
        "f32" => Precision::F32,
        "bf16" if matches!(device, Device::Cuda(_)) => Precision::Bf16,
        "bf16" => bail!("precision=\"bf16\" needs a CUDA device: the CPU computes in f32"),
        other => bail!("precision is \"f32\" or \"bf16\", not {other:?}"),
    };
    Ok(Placement { device, precision })
}

#[pymethods]
impl Model {
    /// Opens a folder, or a name in the Hugging Face cache.
    #[staticmethod]
    fn load(py: Python<'_>, name: String, device: &str, precision: &str) -> PyResult<Self> {
        let opened = work(py, |_| model::open_on(&name, placement(device, precision)?))?;
        Ok(Self::new(opened, name))
    }

    /// Builds a model with random weights from settings in JSON.
    #[staticmethod]
    fn build(
        py: Python<'_>,
        settings: &str,
        tokenizer: Option<&Tokenizer>,
        seed: u64,
        device: &str,
        precision: &str,
    ) -> PyResult<Self> {
        let recipe: Recipe = crate::error::settings(settings)?;
        let tokenizer = tokenizer.map(|tokenizer| tokenizer.0.clone());
        let opened = work(py, |_| {
            let placement = placement(device, precision)?;
            ensure_fits(&recipe)?;
            let model = placement.place(recipe.model(seed)?)?;
            if let (Some(tokenizer), Some(table)) = (&tokenizer, model.token_embeddings()) {
                tokenizer.ensure_fits(table.tensor().shape()[0])?;
            }
            Ok(Opened { model, tokenizer, config: Map::new(), folder: nowhere() })
        })?;
        let name = opened.model.kind().to_owned();
        Ok(Self::new(opened, name))
    }

    /// Writes the folder that `load` and Hugging Face's transformers open.
    fn save(&self, py: Python<'_>, folder: PathBuf) -> PyResult<()> {
        let opened = Arc::clone(&self.opened);
        work(py, move |_| {
            checkpoint::save(&*opened.model, &folder, &opened.config)?;
            if let Some(tokenizer) = &opened.tokenizer {
                tokenizer.save(folder.join("tokenizer.json"))?;
                let settings = tokenizer.configuration_json();
                std::fs::write(folder.join("tokenizer_config.json"), settings)?;
            }
            Ok(())
        })
    }

    /// What it is, for the Python side: kind, what it reads and predicts, its attentions.
    fn about<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let model = &*self.opened.model;
        let abilities = model.abilities();
        let about = PyDict::new(py);
        about.set_item("kind", model.kind())?;
        about.set_item(
            "reads",
            match abilities.reads {
                Reads::Pictures(_) => "pictures",
                Reads::Source => "source",
                _ => "tokens",
            },
        )?;
        about.set_item(
            "predicts",
            match abilities.predicts {
                Predicts::NextToken => "next token",
                Predicts::MaskedToken => "masked token",
                Predicts::Class => "class",
                Predicts::TokenClass => "token class",
                _ => "nothing",
            },
        )?;
        // As the program encodes a text with a second one.
        let pairs = match abilities.reads {
            Reads::Source => true,
            _ => abilities.predicts != Predicts::NextToken && abilities.types > 0,
        };
        about.set_item("pairs", pairs)?;
        about.set_item("classes", abilities.classes)?;
        about.set_item("context", abilities.context)?;
        about.set_item("device", model.device().to_string())?;
        about.set_item("parameters", model.parameter_count())?;
        about.set_item("vocabulary", model.token_embeddings().map(|table| table.tensor().shape()[0]))?;
        let site = |site: &Site| (site.name.clone(), group_name(site.group), site.layer, site.heads);
        let sites: Vec<(String, &str, usize, usize)> = self.sites.iter().map(site).collect();
        about.set_item("attentions", sites)?;
        Ok(about)
    }

    #[getter]
    fn tokenizer(&self) -> Option<Tokenizer> {
        self.opened.tokenizer.clone().map(Tokenizer)
    }

    /// The names and shapes of all parameters.
    fn parameters(&self) -> Vec<(String, Vec<usize>)> {
        let shape =
            |(name, parameter): (String, &regard_nn::Parameter)| (name, parameter.tensor().shape().to_vec());
        self.opened.model.parameters().into_iter().map(shape).collect()
    }

    /// The values of a parameter.
    fn parameter<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Reals<'py>> {
        let found = self.opened.model.parameters().into_iter().find(|(known, _)| known == name);
        let (_, parameter) = found.ok_or_else(|| problem(format!("the model has no parameter {name}")))?;
        to_numpy(py, parameter.tensor().detach())
    }

    /// A copy with other values of some parameters.
    fn with_parameters(&self, py: Python<'_>, values: Vec<(String, GivenReals<'_>)>) -> PyResult<Self> {
        let values = values
            .iter()
            .map(|(name, array)| Ok((name.clone(), to_tensor(array)?)))
            .collect::<PyResult<Vec<_>>>()?;
        let before = Arc::clone(&self.opened);
        let model = work(py, move |_| {
            let mut model = before.model.duplicate();
            for (name, value) in values {
                let found = model.parameters_mut().into_iter().find(|(known, _)| *known == name);
                let Some((_, parameter)) = found else { bail!("the model has no parameter {name}") };
                if parameter.tensor().shape() != value.shape() {
                    bail!("{name} is {}, got {}", parameter.tensor().shape(), value.shape());
                }
                // As f32, whatever type the file has: values are not rounded.
                *parameter = Parameter::new(&value.to(parameter.tensor().device())?);
            }
            Ok(model)
        })?;
        let Opened { tokenizer, config, folder, .. } = &*self.opened;
        let opened =
            Opened { model, tokenizer: tokenizer.clone(), config: config.clone(), folder: folder.clone() };
        Ok(Self::new(opened, self.name.clone()))
    }

    /// The tokens of a text without running the model: id, text, whether it is special, number of its word.
    fn tokens(&self, py: Python<'_>, example: Example) -> PyResult<Vec<(u32, String, bool, usize)>> {
        let (opened, input) = (Arc::clone(&self.opened), self.input(example)?);
        work(py, move |_| Ok(described(&input.encode(&opened, MOST_TOKENS)?.source)))
    }

    /// Reads texts or pictures in one batch.
    #[pyo3(signature = (examples, pictures, changes, record))]
    fn run(
        &self,
        py: Python<'_>,
        examples: Vec<Example>,
        pictures: Option<GivenReals<'_>>,
        changes: Vec<Py<Change>>,
        record: Vec<String>,
    ) -> PyResult<Pass> {
        let changes = Changes::new(&changes);
        let inputs = examples.into_iter().map(|example| self.input(example)).collect::<PyResult<Vec<_>>>()?;
        let pictures = pictures.as_ref().map(to_tensor).transpose()?;
        let (opened, name, sites) = (Arc::clone(&self.opened), self.name.clone(), Arc::clone(&self.sites));
        let done = work(py, |cancel| {
            let read = Read::given(&opened, inputs, pictures.as_ref())?;
            Pass::new(opened, (name, sites), read, changes.clone(), &record, cancel)
        });
        changes.settle(done)
    }

    /// The gradient of a score or of the loss with respect to sites and parameters.
    #[pyo3(signature = (example, picture, of, wrt, changes))]
    fn gradient<'py>(
        &self,
        py: Python<'py>,
        example: Option<Example>,
        picture: Option<GivenReals<'_>>,
        of: Of,
        wrt: Vec<String>,
        changes: Vec<Py<Change>>,
    ) -> PyResult<(f64, Vec<(String, Reals<'py>)>)> {
        let changes = Changes::new(&changes);
        let (opened, input) = (&self.opened, example.map(|example| self.input(example)).transpose()?);
        let picture = picture.as_ref().map(to_tensor).transpose()?;
        let done = work(py, |cancel| {
            let read = Read::given(opened, input.into_iter().collect(), picture.as_ref())?;
            gradient(&*opened.model, &read.inputs, &of, &wrt, changes.probe(), cancel)
        });
        let (value, gradients) = changes.settle(done)?;
        let arrays = gradients.into_iter().map(|(name, tensor)| Ok((name, to_numpy(py, tensor)?)));
        Ok((value, arrays.collect::<PyResult<_>>()?))
    }

    /// Begins to continue or answer a text.
    #[pyo3(signature = (example, tokens, settings, stop_at_end))]
    fn generate(
        &self,
        py: Python<'_>,
        example: Example,
        tokens: usize,
        settings: &str,
        stop_at_end: bool,
    ) -> PyResult<Generation> {
        let sampling = crate::error::settings(settings)?;
        let (opened, input) = (Arc::clone(&self.opened), self.input(example)?);
        work(py, move |_| Generation::new(opened, &input, tokens, sampling, stop_at_end))
    }
}

impl Model {
    /// An example as the program knows it, if the model can read it.
    fn input(&self, example: Example) -> PyResult<Input> {
        match (&example, &self.opened.tokenizer) {
            (Example::Text(..), None) => {
                Err(problem(format!("{} has no tokenizer; give token ids instead of text", self.name)))
            }
            _ => Ok(example.input()),
        }
    }
}

/// Rejects a model whose values alone do not fit memory.
fn ensure_fits(recipe: &Recipe) -> Result<()> {
    let (bytes, most) = (Needs::of(recipe)?.parameters * 4.0, memory::limit());
    ensure!(
        bytes <= most as f64,
        "a model of {:.0} million parameters takes {:.1} GB, {:.1} GB are available",
        bytes / 4e6,
        bytes / 1e9,
        most as f64 / 1e9
    );
    Ok(())
}

/// What attends to what, as the page names it.
pub fn group_name(group: regard::forward_pass::Group) -> &'static str {
    match group {
        regard::forward_pass::Group::Itself => "self",
        regard::forward_pass::Group::Encoder => "encoder",
        regard::forward_pass::Group::Decoder => "decoder",
        regard::forward_pass::Group::Cross => "cross",
    }
}

/// Tokens as Python gets them.
pub fn described(tokens: &[Token]) -> Vec<(u32, String, bool, usize)> {
    tokens.iter().map(|token| (token.id, token.text.clone(), token.special, token.word)).collect()
}
