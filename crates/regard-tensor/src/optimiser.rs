//! Optimisers: SGD with momentum, Adam and AdamW, and clipping by the global norm.
//!
//! An update walks all parameters in one pass. Sparse gradients give the same update as dense ones: moments of
//! untouched rows decay too.

use crate::array::Array;
use crate::cpu::optimiser::{self as kernel, Decay, Job, Rule};
use crate::cpu::reduce;
use crate::error::{Result, ensure_shape};
use crate::tape::Gradient;
use crate::tensor::Tensor;

/// A parameter and its gradient, for an update.
pub struct Update<'a> {
    /// The parameter, changed in place.
    pub parameter: &'a mut Tensor,
    /// Its gradient; a parameter without one is left alone.
    pub gradient: Option<&'a Gradient>,
    /// Whether weight decay applies to it (usually to matrices, not to biases and norms).
    pub decays: bool,
}

/// Which rule an [`Optimiser`] follows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Method {
    /// p −= rate·m with m = momentum·m + g.
    Sgd {
        /// The share of the last step that is kept, 0 for none.
        momentum: f32,
    },
    /// Adam (Kingma & Ba, 2014); with `decoupled`, AdamW (Loshchilov & Hutter, 2017).
    Adam {
        /// Decay of the running mean of gradients, and of their squares.
        betas: (f32, f32),
        /// Added to the root of the running mean of squares.
        epsilon: f32,
        /// Whether weight decay acts on the parameter itself (AdamW) rather than through the gradient.
        decoupled: bool,
    },
}

impl Method {
    /// Adam with the settings most use.
    pub fn adam() -> Self {
        Self::Adam { betas: (0.9, 0.999), epsilon: 1e-8, decoupled: false }
    }

    /// AdamW with the settings most use.
    pub fn adamw() -> Self {
        Self::Adam { betas: (0.9, 0.999), epsilon: 1e-8, decoupled: true }
    }
}

/// An optimiser with its memory of past gradients.
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
    /// An optimiser that has seen nothing yet.
    pub fn new(method: Method, weight_decay: f32) -> Self {
        Self { method, weight_decay, relative: false, steps: 0, moments: Vec::new() }
    }

    /// With `relative`, each parameter's rate is multiplied by the root mean square of its values (at least
    /// [`SMALLEST_SIZE`]), so that large and small ones change by the same share: Shazeer & Stern, 2018.
    #[must_use]
    pub fn relative(self, relative: bool) -> Self {
        Self { relative, ..self }
    }

    /// How many updates were made.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// Updates all parameters, which come in the same order each time. `scale` multiplies every gradient, see
    /// [`clip_scale`].
    pub fn step(&mut self, updates: &mut [Update], learning_rate: f32, scale: f32) -> Result<()> {
        let keeps_squares = matches!(self.method, Method::Adam { .. });
        if self.moments.is_empty() {
            self.moments = updates
                .iter()
                .map(|update| {
                    let count = update.parameter.count();
                    Moments {
                        first: Array::zeros(count),
                        second: Array::zeros(if keeps_squares { count } else { 0 }),
                    }
                })
                .collect();
        }
        ensure_shape(
            self.moments.len() == updates.len()
                && self.moments.iter().zip(updates.iter()).all(|(moments, update)| {
                    let count = update.parameter.count();
                    let squares = if keeps_squares { count } else { 0 };
                    moments.first.len() == count && moments.second.len() == squares
                }),
            "optimiser",
            || format!("the same {} parameters as before", self.moments.len()),
            || format!("{} parameters", updates.len()),
        )?;
        for update in updates.iter() {
            if let Some(gradient) = update.gradient {
                let fits = match gradient {
                    Gradient::Dense(tensor) => tensor.shape() == update.parameter.shape(),
                    Gradient::Rows(rows) => {
                        update.parameter.shape()[..] == [rows.table_rows(), rows.values().shape().last()]
                    }
                };
                ensure_shape(
                    fits,
                    "optimiser",
                    || format!("a gradient of {}", update.parameter.shape()),
                    || gradient.to_dense().shape().to_string(),
                )?;
            }
        }
        self.steps += 1;
        let rule = match self.method {
            Method::Sgd { momentum } => Rule::Momentum { rate: learning_rate, momentum },
            Method::Adam { betas: (beta1, beta2), epsilon, .. } => {
                Rule::Adam { rate: learning_rate, beta1, beta2, epsilon, step: self.steps.cast_signed() }
            }
        };
        let decoupled = matches!(self.method, Method::Adam { decoupled: true, .. });
        let mut jobs: Vec<Job> = Vec::with_capacity(updates.len());
        for (update, moments) in updates.iter_mut().zip(&mut self.moments) {
            let Some(gradient) = update.gradient else { continue };
            let amount = if update.decays { self.weight_decay } else { 0.0 };
            let decay = Decay {
                coupled: if decoupled { 0.0 } else { amount },
                decoupled: if decoupled { amount } else { 0.0 },
            };
            let slope = match gradient {
                Gradient::Dense(tensor) => kernel::slope(&tensor.array, None, 0),
                Gradient::Rows(rows) => {
                    let values = rows.values();
                    kernel::slope(&values.array, Some(rows.rows()), values.shape().last())
                }
            };
            let pace = if self.relative { size(&update.parameter.array).max(SMALLEST_SIZE) } else { 1.0 };
            jobs.push(kernel::job(
                &mut update.parameter.array,
                slope,
                (&mut moments.first, &mut moments.second),
                (decay, pace),
            ));
        }
        kernel::update(rule, scale, &mut jobs);
        Ok(())
    }

    /// The memory of each parameter, in their order: running mean and running mean of squares (empty for SGD).
    pub fn moments(&self) -> Vec<(Tensor, Tensor)> {
        let tensor = |array: &Array| Tensor::from_array(array.clone(), [array.len()]);
        self.moments.iter().map(|moments| (tensor(&moments.first), tensor(&moments.second))).collect()
    }

    /// Takes up where another optimiser stopped.
    pub fn restore(&mut self, steps: u32, moments: &[(Tensor, Tensor)]) {
        self.steps = steps;
        self.moments = moments
            .iter()
            .map(|(first, second)| Moments { first: first.array.clone(), second: second.array.clone() })
            .collect();
    }
}

/// The size that relative steps take a smaller parameter to have, so that one that starts from zeros moves at all.
pub const SMALLEST_SIZE: f32 = 1e-3;

/// The root mean square of a parameter's values.
fn size(parameter: &Array) -> f32 {
    (reduce::sum_of_squares(parameter) / parameter.len().max(1) as f64).sqrt() as f32
}

/// The Euclidean norm of all gradients together, summed in their order.
pub fn global_norm<'a>(gradients: impl IntoIterator<Item = &'a Gradient>) -> f32 {
    let squares = gradients.into_iter().map(|gradient| match gradient {
        Gradient::Dense(tensor) => reduce::sum_of_squares(&tensor.array),
        Gradient::Rows(rows) => reduce::sum_of_squares(&rows.values().array),
    });
    squares.sum::<f64>().sqrt() as f32
}

/// What to multiply gradients with so that their norm is at most `limit`.
pub fn clip_scale(norm: f32, limit: f32) -> f32 {
    if norm > limit { limit / norm } else { 1.0 }
}
