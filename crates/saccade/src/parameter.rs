//! Learned tensors, and how the parts of a model list theirs.

use saccade_tensor::optimiser::Update;
use saccade_tensor::random::Key;
use saccade_tensor::{Gradients, Shape, Tensor};

/// A learned tensor: a leaf of every graph it is used in.
#[derive(Debug, Clone)]
pub struct Parameter {
    tensor: Tensor,
}

impl Parameter {
    /// A parameter with these values.
    pub fn new(values: &Tensor) -> Self {
        Self { tensor: values.tracked() }
    }

    /// The values, tracked.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// The values, for an optimiser or a loader to change.
    pub fn tensor_mut(&mut self) -> &mut Tensor {
        &mut self.tensor
    }
}

/// Initial values by name: the same seed gives a parameter the same values whatever else the model contains.
#[derive(Debug, Clone)]
pub struct Initial {
    key: Key,
    path: String,
}

impl Initial {
    /// The source of a whole model's initial values.
    pub fn new(seed: u64) -> Self {
        Self { key: Key::new(seed).site("initial"), path: String::new() }
    }

    /// The source for a part of the model.
    #[must_use]
    pub fn part(&self, name: impl std::fmt::Display) -> Self {
        Self { key: self.key, path: format!("{}.{name}", self.path) }
    }

    /// Draws from a normal distribution with mean 0.
    pub fn normal(&self, name: &str, shape: impl Into<Shape>, deviation: f32) -> Parameter {
        let shape = shape.into();
        let values = self.key.site(&format!("{}.{name}", self.path)).normal(shape.count(), deviation);
        Parameter::new(&Tensor::new(&values, shape).expect("one value a place"))
    }

    /// Draws from a uniform distribution on [−limit, limit).
    pub fn uniform(&self, name: &str, shape: impl Into<Shape>, limit: f32) -> Parameter {
        let shape = shape.into();
        let values = self.key.site(&format!("{}.{name}", self.path)).uniforms(shape.count(), -limit, limit);
        Parameter::new(&Tensor::new(&values, shape).expect("one value a place"))
    }

    /// The same value throughout.
    pub fn constant(shape: impl Into<Shape>, value: f32) -> Parameter {
        Parameter::new(&Tensor::full(shape, value))
    }
}

/// Anything with parameters: they have names, in a fixed order.
pub trait Module {
    /// Calls `f` with the path and the parameter, for each.
    fn visit<'a>(&'a self, path: &str, f: &mut dyn FnMut(String, &'a Parameter));

    /// The same with parameters to change.
    fn visit_mut<'a>(&'a mut self, path: &str, f: &mut dyn FnMut(String, &'a mut Parameter));

    /// All parameters by name.
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        let mut all = Vec::new();
        self.visit("", &mut |name, parameter| all.push((name, parameter)));
        all
    }

    /// All parameters by name, to change.
    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        let mut all = Vec::new();
        self.visit_mut("", &mut |name, parameter| all.push((name, parameter)));
        all
    }

    /// The number of learned values.
    fn parameter_count(&self) -> usize {
        self.parameters().iter().map(|(_, parameter)| parameter.tensor().count()).sum()
    }

    /// Parameters with their gradients, ready for an optimiser. Matrices decay, vectors do not.
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

pub(crate) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Makes a struct a [`Module`] by naming the fields that hold parameters: `module!(Linear { weight, bias });`.
macro_rules! module {
    ($type:ty { $($field:ident),* $(,)? }) => {
        impl $crate::Module for $type {
            fn visit<'a>(&'a self, path: &str, f: &mut dyn FnMut(String, &'a $crate::Parameter)) {
                $($crate::Module::visit(&self.$field, &$crate::parameter::join(path, stringify!($field)), f);)*
            }

            fn visit_mut<'a>(&'a mut self, path: &str, f: &mut dyn FnMut(String, &'a mut $crate::Parameter)) {
                $($crate::Module::visit_mut(&mut self.$field, &$crate::parameter::join(path, stringify!($field)), f);)*
            }
        }
    };
}
pub(crate) use module;
