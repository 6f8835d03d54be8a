//! Optimisers: SGD with momentum, Adam and AdamW, and clipping by the global norm.
//!
//! An update walks all parameters in one pass. Sparse gradients give the same update as dense ones: moments of
//! untouched rows decay too.

use crate::array::Array;
use crate::error::{Result, ensure_shape};
use crate::kernels::optimiser::{self as kernel, Decay, Job, Rule, Slope};
use crate::kernels::{memory, reduce};
use crate::storage::Device;
use crate::tape::Gradient;
use crate::tensor::{Tensor, ensure_same_device};

/// A parameter and its gradient, for an update.
pub struct Update<'a> {
    /// The parameter, changed in place.
    pub parameter: &'a mut Tensor,
    /// Its gradient; a parameter without one is not changed.
    pub gradient: Option<&'a Gradient>,
    /// Whether weight decay applies to it (usually to matrices, not to biases and norms).
    pub decays: bool,
}

/// The update rule of an [`Optimiser`].
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Method {
    /// p −= rate·m with m = momentum·m + g.
    Sgd {
        /// The fraction of the last step that is kept, 0 for none.
        momentum: f32,
    },
    /// Adam (Kingma & Ba, 2014); with `decoupled`, AdamW (Loshchilov & Hutter, 2017).
    Adam {
        /// Decay rates of the running mean of gradients and of their squares.
        betas: (f32, f32),
        /// Added to the root of the running mean of squares.
        epsilon: f32,
        /// Whether weight decay acts on the parameter itself (AdamW) rather than through the gradient.
        decoupled: bool,
    },
}

impl Method {
    /// Adam with the usual settings.
    pub fn adam() -> Self {
        Self::Adam { betas: (0.9, 0.999), epsilon: 1e-8, decoupled: false }
    }

    /// AdamW with the usual settings.
    pub fn adamw() -> Self {
        Self::Adam { betas: (0.9, 0.999), epsilon: 1e-8, decoupled: true }
    }
}

/// An optimiser with its running means of past gradients.
///
/// ```
/// use regard_tensor::{Tensor, optimiser::{Method, Optimiser, Update}};
/// let mut x = Tensor::scalar(3.0).tracked();
/// let mut optimiser = Optimiser::new(Method::adam(), 0.0);
/// for _ in 0..200 {
///     let gradients = (&x * &x)?.backward()?;
///     let gradient = gradients.find(&x);
///     optimiser.step(&mut [Update { gradient, parameter: &mut x, decays: false }], 0.1, 1.0)?;
/// }
/// assert!(x.item()?.abs() < 0.05);
/// # Ok::<(), regard_tensor::Error>(())
/// ```
pub struct Optimiser {
    method: Method,
    weight_decay: f32,
    relative: bool,
    steps: u32,
    moments: Vec<Moments>,
}

/// Running means of one parameter.
#[derive(Clone)]
struct Moments {
    first: Array,
    second: Array,
}

impl Optimiser {
    /// An optimiser before its first step.
    pub fn new(method: Method, weight_decay: f32) -> Self {
        Self { method, weight_decay, relative: false, steps: 0, moments: Vec::new() }
    }

    /// With `relative`, each parameter's rate is multiplied by the root mean square of its values (at least
    /// [`MINIMUM_SCALE`]), so that large and small parameters change by the same fraction (Shazeer & Stern, 2018).
    #[must_use]
    pub fn relative(self, relative: bool) -> Self {
        Self { relative, ..self }
    }

    /// The number of updates made so far.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// Updates all parameters, which must have the same order in every call. `scale` multiplies every gradient: a number,
    /// or a tensor with one value as returned by [`clip_scale`].
    pub fn step<'a>(
        &mut self,
        updates: &mut [Update],
        learning_rate: f32,
        scale: impl Into<Scale<'a>>,
    ) -> Result<()> {
        let device = updates.first().map_or(Device::Cpu, |update| update.parameter.device());
        let scale = match scale.into() {
            Scale::Number(value) => Tensor::full_on(device, [], value)?,
            Scale::Tensor(tensor) => tensor.detach(),
        };
        let fits = scale.count() == 1;
        ensure_shape(fits, "optimiser", || "a scale of one value".into(), || scale.shape().to_string())?;
        let parameters = updates.iter().map(|update| &*update.parameter);
        ensure_same_device("optimiser", parameters.chain([&scale]))?;
        self.prepare_moments(updates)?;
        for update in updates.iter() {
            update.check()?;
        }
        let mut jobs: Vec<Job> = Vec::with_capacity(updates.len());
        for (update, moments) in updates.iter_mut().zip(&mut self.moments) {
            let Some(gradient) = update.gradient else { continue };
            let decay = decay(self.method, if update.decays { self.weight_decay } else { 0.0 });
            jobs.push(Job {
                parameter: &mut update.parameter.array,
                slope: slope(gradient),
                first: &mut moments.first,
                second: &mut moments.second,
                decay,
            });
        }
        let update = kernel::Update {
            rule: rule(self.method, learning_rate, self.steps + 1),
            scale: &scale.array,
            relative: self.relative.then_some(MINIMUM_SCALE),
        };
        kernel::update(update, &mut jobs)?;
        self.steps += 1;
        Ok(())
    }

    /// The rule of one more update, which a recording makes.
    pub(crate) fn replayed(&mut self, learning_rate: f32) -> Rule {
        self.steps += 1;
        rule(self.method, learning_rate, self.steps)
    }

    /// Where its memory of past gradients is.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = &Array> {
        self.moments.iter().flat_map(|moments| [&moments.first, &moments.second])
    }

    /// Allocates running means at the first step; later steps fail if the parameters have changed.
    fn prepare_moments(&mut self, updates: &[Update]) -> Result<()> {
        let keeps_squares = matches!(self.method, Method::Adam { .. });
        let squares = |count: usize| if keeps_squares { count } else { 0 };
        if self.moments.is_empty() {
            for update in updates {
                let (device, count) = (update.parameter.device(), update.parameter.count());
                let first = memory::filled(device, count, 0.0)?;
                let second = memory::filled(device, squares(count), 0.0)?;
                self.moments.push(Moments { first, second });
            }
        }
        ensure_shape(
            self.moments.len() == updates.len()
                && self.moments.iter().zip(updates).all(|(moments, update)| {
                    let count = update.parameter.count();
                    moments.first.len() == count && moments.second.len() == squares(count)
                }),
            "optimiser",
            || format!("the same {} parameters as before", self.moments.len()),
            || format!("{} parameters", updates.len()),
        )?;
        // A state restored from a file is in main memory.
        for (moments, update) in self.moments.iter_mut().zip(updates) {
            let device = update.parameter.device();
            moments.first = moments.first.to_device(device)?;
            moments.second = moments.second.to_device(device)?;
        }
        Ok(())
    }

    /// The running mean and the running mean of squares (empty for SGD) of each parameter, in order.
    pub fn moments(&self) -> Vec<(Tensor, Tensor)> {
        let tensor = |array: &Array| Tensor::from_array(array.clone(), [array.len()]);
        self.moments.iter().map(|moments| (tensor(&moments.first), tensor(&moments.second))).collect()
    }

    /// Continues from the state of another optimiser.
    pub fn restore(&mut self, steps: u32, moments: &[(Tensor, Tensor)]) {
        self.steps = steps;
        self.moments = moments
            .iter()
            .map(|(first, second)| Moments { first: first.array.clone(), second: second.array.clone() })
            .collect();
    }
}

/// The smallest root mean square that relative steps assume, so that a parameter of zeros can change.
pub const MINIMUM_SCALE: f32 = 1e-3;

/// The factor that multiplies every gradient of an update.
#[derive(Debug, Clone, Copy)]
pub enum Scale<'a> {
    /// A number.
    Number(f32),
    /// A tensor with one value, which is not read to the host.
    Tensor(&'a Tensor),
}

impl From<f32> for Scale<'_> {
    fn from(value: f32) -> Self {
        Self::Number(value)
    }
}

impl<'a> From<&'a Tensor> for Scale<'a> {
    fn from(value: &'a Tensor) -> Self {
        Self::Tensor(value)
    }
}

impl Update<'_> {
    /// Returns an error unless the gradient fits the parameter.
    fn check(&self) -> Result<()> {
        let Some(gradient) = self.gradient else { return Ok(()) };
        let (values, shape) = match gradient {
            Gradient::Dense(tensor) => (tensor, tensor.shape().clone()),
            Gradient::Rows(rows) => (rows.values(), [rows.table_rows(), rows.values().shape().last()].into()),
        };
        ensure_shape(
            shape == *self.parameter.shape(),
            "optimiser",
            || format!("a gradient of {}", self.parameter.shape()),
            || shape.to_string(),
        )?;
        ensure_same_device("optimiser", [&*self.parameter, values])
    }
}

fn rule(method: Method, rate: f32, step: u32) -> Rule {
    match method {
        Method::Sgd { momentum } => Rule::Momentum { rate, momentum },
        Method::Adam { betas: (beta1, beta2), epsilon, .. } => {
            Rule::Adam { rate, beta1, beta2, epsilon, step: step.cast_signed() }
        }
    }
}

fn decay(method: Method, amount: f32) -> Decay {
    match method {
        Method::Adam { decoupled: true, .. } => Decay { coupled: 0.0, decoupled: amount },
        _ => Decay { coupled: amount, decoupled: 0.0 },
    }
}

fn slope(gradient: &Gradient) -> Slope<'_> {
    match gradient {
        Gradient::Dense(tensor) => Slope::Dense(&tensor.array),
        Gradient::Rows(rows) => {
            let values = rows.values();
            Slope::Rows { rows: rows.row_ids(), values: &values.array, width: values.shape().last() }
        }
    }
}

/// The Euclidean norm of all gradients together, as one value on their device. The order of summation is fixed.
pub fn global_norm<'a>(gradients: impl IntoIterator<Item = &'a Gradient>) -> Result<Tensor> {
    let values = gradients.into_iter().map(|gradient| match gradient {
        Gradient::Dense(tensor) => tensor,
        Gradient::Rows(rows) => rows.values(),
    });
    let values: Vec<&Tensor> = values.collect();
    ensure_same_device("global_norm", values.iter().copied())?;
    let arrays: Vec<&Array> = values.iter().map(|tensor| &tensor.array).collect();
    Ok(Tensor::from_array(reduce::norm(&arrays)?, []))
}

/// The factor that brings a norm (one value) down to at most `limit`, as one value on the same device.
pub fn clip_scale(norm: &Tensor, limit: f32) -> Result<Tensor> {
    let fits = norm.count() == 1;
    ensure_shape(fits, "clip_scale", || "a norm of one value".into(), || norm.shape().to_string())?;
    Ok(Tensor::from_array(kernel::clip_scale(&norm.array, limit)?, []))
}
