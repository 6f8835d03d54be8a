//! Parameters, and how modules list them.

use crate::error::{Error, Result};
use regard_tensor::optimiser::Update;
use regard_tensor::random::Key;
use regard_tensor::{DataType, Device, Gradients, Shape, Tensor};
use std::sync::Arc;

/// A learned tensor: a leaf of every graph that uses it.
///
/// Its values are f32, or of the 16-bit type that a file has them in: products widen such values as they read them, with the
/// results of f32. Training needs f32 ([`Module::widen`]).
///
/// A clone is a second handle to the same leaf: gradients of one are gradients of the other, until either is updated.
/// [`Module::independent`] copies a whole model with new leaves.
#[derive(Debug, Clone)]
pub struct Parameter {
    tensor: Tensor,
}

impl Parameter {
    /// A parameter with the given values.
    pub fn new(values: &Tensor) -> Self {
        Self { tensor: values.tracked() }
    }

    /// The values, tracked.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// The values, mutable for an optimiser or a loader.
    pub fn tensor_mut(&mut self) -> &mut Tensor {
        &mut self.tensor
    }
}

/// Reads the parameter with a given name and shape, for example from a file.
pub type Reader = dyn Fn(&str, &Shape) -> Result<Tensor> + Send + Sync;

/// The source of a model's initial parameters: random draws or a reader, both by name.
///
/// The same seed gives a parameter the same values whatever else the model contains.
#[derive(Clone)]
pub struct Initial {
    source: InitialSource,
    path: String,
}

#[derive(Clone)]
enum InitialSource {
    /// Draws by name; some parameters are drawn under another name than their own.
    Drawn(Key, &'static [(&'static str, &'static str)]),
    Read(Arc<Reader>),
}

/// The distribution of a parameter's initial values.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Draw {
    /// Normal with mean 0 and this standard deviation.
    Normal(f32),
    /// Uniform between minus and plus this limit.
    Uniform(f32),
    /// A constant.
    Constant(f32),
}

impl Initial {
    /// Random values.
    pub fn new(seed: u64) -> Self {
        Self { source: InitialSource::Drawn(Key::new(seed).site("initial"), &[]), path: String::new() }
    }

    /// Keeps the draws of renamed parameters: pairs of prefixes of the new and the old name.
    #[must_use]
    pub(crate) fn drawn_as(self, names: &'static [(&'static str, &'static str)]) -> Self {
        match self.source {
            InitialSource::Drawn(key, _) => Self { source: InitialSource::Drawn(key, names), ..self },
            InitialSource::Read(_) => self,
        }
    }

    /// Values that `reader` returns by name, for example from a file.
    pub fn read(reader: Arc<Reader>) -> Self {
        Self { source: InitialSource::Read(reader), path: String::new() }
    }

    /// The source for a part of the model.
    #[must_use]
    pub fn part(&self, name: impl std::fmt::Display) -> Self {
        Self { source: self.source.clone(), path: join(&self.path, &name.to_string()) }
    }

    /// A parameter by its name within this part.
    pub fn parameter(&self, name: &str, shape: impl Into<Shape>, draw: Draw) -> Result<Parameter> {
        let (path, shape) = (join(&self.path, name), shape.into());
        let key = match &self.source {
            InitialSource::Read(reader) => return Ok(Parameter::new(&reader(&path, &shape)?)),
            InitialSource::Drawn(key, names) => {
                let older =
                    names.iter().find_map(|(new, old)| Some(format!("{old}{}", path.strip_prefix(new)?)));
                key.site(older.as_ref().unwrap_or(&path))
            }
        };
        // A failed allocation would abort the process, so it is tried here first.
        if Vec::<f32>::new().try_reserve_exact(shape.count().saturating_add(3)).is_err() {
            return Err(Error::configuration(
                "parameter",
                format!("{path} of {shape} is too large for this machine"),
            ));
        }
        let values = match draw {
            Draw::Normal(deviation) => key.normal(shape.count(), deviation),
            Draw::Uniform(limit) => key.uniforms(shape.count(), -limit, limit),
            Draw::Constant(value) => return Ok(Parameter::new(&Tensor::full(shape, value))),
        };
        Ok(Parameter::new(&Tensor::new(&values, shape)?))
    }
}

/// A type with named parameters in a fixed order.
pub trait Module {
    /// Calls `f` with the path and the value of each parameter.
    fn visit<'a>(&'a self, path: &str, f: &mut dyn FnMut(String, &'a Parameter));

    /// Like [`visit`](Self::visit), with mutable parameters.
    fn visit_mut<'a>(&'a mut self, path: &str, f: &mut dyn FnMut(String, &'a mut Parameter));

    /// All parameters by name.
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        let mut all = Vec::new();
        self.visit("", &mut |name, parameter| all.push((name, parameter)));
        all
    }

    /// All parameters by name, mutable.
    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        let mut all = Vec::new();
        self.visit_mut("", &mut |name, parameter| all.push((name, parameter)));
        all
    }

    /// The number of learned values.
    fn parameter_count(&self) -> usize {
        self.parameters().iter().map(|(_, parameter)| parameter.tensor().count()).sum()
    }

    /// The number of learned values of each part, by the first `depth` components of its name.
    fn parameter_count_by_part(&self, depth: usize) -> Vec<(String, usize)> {
        let mut parts: Vec<(String, usize)> = Vec::new();
        for (name, parameter) in self.parameters() {
            let part = name.split('.').take(depth).collect::<Vec<_>>().join(".");
            let count = parameter.tensor().count();
            match parts.last_mut() {
                Some((last, sum)) if *last == part => *sum += count,
                _ => parts.push((part, count)),
            }
        }
        parts
    }

    /// A copy whose parameters are new leaves.
    #[must_use]
    fn independent(&self) -> Self
    where
        Self: Clone,
    {
        let mut copy = self.clone();
        copy.visit_mut("", &mut |_, parameter| *parameter = Parameter::new(parameter.tensor()));
        copy
    }

    /// The device of its parameters; the CPU if it has none.
    fn device(&self) -> Device {
        let mut device = None;
        self.visit("", &mut |_, parameter| {
            device.get_or_insert_with(|| parameter.tensor().device());
        });
        device.unwrap_or(Device::Cpu)
    }

    /// Converts parameters of 16-bit types to f32, as training needs them. They become new leaves; f32 ones stay as they are.
    fn widen(&mut self) -> Result<()> {
        let mut widened = Ok(());
        self.visit_mut("", &mut |_, parameter| {
            let tensor = parameter.tensor();
            if widened.is_ok() && tensor.data_type() != DataType::F32 {
                widened =
                    tensor.detach().to_type(DataType::F32).map(|tensor| *parameter = Parameter::new(&tensor));
            }
        });
        Ok(widened?)
    }

    /// Moves all parameters to a device. They become new leaves: earlier gradients do not apply to them. Devices other than
    /// the CPU hold them as f32.
    fn to(&mut self, device: Device) -> Result<()> {
        if device != Device::Cpu {
            self.widen()?;
        }
        let mut moved = Ok(());
        self.visit_mut("", &mut |_, parameter| {
            if moved.is_ok() {
                moved =
                    parameter.tensor().detach().to(device).map(|tensor| *parameter = Parameter::new(&tensor));
            }
        });
        Ok(moved?)
    }

    /// Parameters with their gradients for an optimiser. Weight decay applies to matrices, not to vectors.
    fn updates<'a>(&'a mut self, gradients: &'a Gradients) -> Vec<Update<'a>> {
        let pair = |(_, parameter): (String, &'a mut Parameter)| Update {
            gradient: gradients.find(&parameter.tensor),
            decays: parameter.tensor.shape().rank() >= 2,
            parameter: &mut parameter.tensor,
        };
        self.parameters_mut().into_iter().map(pair).collect()
    }
}

impl Module for Parameter {
    fn visit<'a>(&'a self, path: &str, f: &mut dyn FnMut(String, &'a Parameter)) {
        f(path.to_owned(), self);
    }

    fn visit_mut<'a>(&'a mut self, path: &str, f: &mut dyn FnMut(String, &'a mut Parameter)) {
        f(path.to_owned(), self);
    }
}

impl<M: Module> Module for Option<M> {
    fn visit<'a>(&'a self, path: &str, f: &mut dyn FnMut(String, &'a Parameter)) {
        if let Some(module) = self {
            module.visit(path, f);
        }
    }

    fn visit_mut<'a>(&'a mut self, path: &str, f: &mut dyn FnMut(String, &'a mut Parameter)) {
        if let Some(module) = self {
            module.visit_mut(path, f);
        }
    }
}

impl<M: Module> Module for Vec<M> {
    fn visit<'a>(&'a self, path: &str, f: &mut dyn FnMut(String, &'a Parameter)) {
        for (i, module) in self.iter().enumerate() {
            module.visit(&join(path, &i.to_string()), f);
        }
    }

    fn visit_mut<'a>(&'a mut self, path: &str, f: &mut dyn FnMut(String, &'a mut Parameter)) {
        for (i, module) in self.iter_mut().enumerate() {
            module.visit_mut(&join(path, &i.to_string()), f);
        }
    }
}

/// The full name of `name` within the part `path`.
pub fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Implements [`Module`] for a struct by listing the fields that hold parameters.
///
/// ```
/// use regard_nn::layers::Linear;
/// use regard_nn::module;
///
/// struct Two {
///     first: Linear,
///     second: Option<Linear>,
/// }
///
/// module!(Two { first, second });
/// ```
#[macro_export]
macro_rules! module {
    ($type:ty { $($field:ident),* $(,)? }) => {
        impl $crate::Module for $type {
            fn visit<'a>(&'a self, path: &str, f: &mut dyn FnMut(String, &'a $crate::Parameter)) {
                $($crate::Module::visit(&self.$field, &$crate::join_path(path, stringify!($field)), f);)*
            }

            fn visit_mut<'a>(&'a mut self, path: &str, f: &mut dyn FnMut(String, &'a mut $crate::Parameter)) {
                $($crate::Module::visit_mut(&mut self.$field, &$crate::join_path(path, stringify!($field)), f);)*
            }
        }
    };
}
pub(crate) use crate::module;
