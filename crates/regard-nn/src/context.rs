//! The context of a forward pass: gradients, dropout, probe, cache, precision.

use crate::attention::Cache;
use crate::error::{Error, Result};
use crate::parameter::{Parameter, join};
use crate::probe::Probe;
use regard_tensor::ops::Dropout;
use regard_tensor::random::Key;
use regard_tensor::{DataType, Tensor};
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};

/// The context of one forward pass. There is no global state.
///
/// A context has a path in the model: [`Context::within`] enters a part, and every name given to [`Context::see`] or
/// [`Context::drop_out`] is relative to that part.
#[derive(Clone)]
pub struct Context<'a> {
    gradients: bool,
    draws: Option<(Key, u64)>,
    probe: Option<&'a Probe>,
    cache: Option<&'a Cache>,
    cancel: Option<&'a AtomicBool>,
    precision: DataType,
    path: String,
}

impl<'a> Context<'a> {
    /// A pass without gradients and without dropout.
    pub fn inference() -> Self {
        Self {
            gradients: false,
            draws: None,
            probe: None,
            cache: None,
            cancel: None,
            precision: DataType::F32,
            path: String::new(),
        }
    }

    /// A pass with gradients and without dropout.
    pub fn differentiated() -> Self {
        Self { gradients: true, ..Self::inference() }
    }

    /// A training pass: gradients, and dropout drawn from `key` (which should include the step) for examples counted from
    /// `first_example`.
    pub fn training(key: Key, first_example: u64) -> Self {
        Self { draws: Some((key, first_example)), ..Self::differentiated() }
    }

    /// The same pass with a probe.
    #[must_use]
    pub fn with_probe<'b>(self, probe: &'b Probe) -> Context<'b>
    where
        'a: 'b,
    {
        Context { probe: Some(probe), ..self }
    }

    /// The same pass with a cache of the keys and values of earlier passes.
    #[must_use]
    pub fn with_cache<'b>(self, cache: &'b Cache) -> Context<'b>
    where
        'a: 'b,
    {
        Context { cache: Some(cache), ..self }
    }

    /// The same pass, which returns [`Error::Cancelled`] at the next layer once the flag is set.
    #[must_use]
    pub fn with_cancel<'b>(self, cancel: &'b AtomicBool) -> Context<'b>
    where
        'a: 'b,
    {
        Context { cancel: Some(cancel), ..self }
    }

    /// The same pass with activations of this type. Parameters stay f32, and so do their gradients and the loss.
    ///
    /// Devices other than the CPU compute in the type of the activations; the CPU computes in f32.
    #[must_use]
    pub fn with_precision(self, precision: DataType) -> Self {
        Self { precision, ..self }
    }

    /// Converts an input to the type of the activations.
    pub fn activations(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.to_type(self.precision)?)
    }

    /// The context of a part of the model.
    #[must_use]
    pub fn within(&self, part: impl Display) -> Self {
        Self { path: self.site(&part.to_string()), ..self.clone() }
    }

    /// The context of a part whose sites no probe sees.
    pub(crate) fn without_probe(&self) -> Self {
        Self { probe: None, ..self.clone() }
    }

    /// The context of a part with frozen parameters. Gradients still flow through it.
    #[must_use]
    pub fn frozen(self) -> Self {
        Self { gradients: false, ..self }
    }

    /// The full name of a site in this part.
    pub fn site(&self, name: &str) -> String {
        join(&self.path, name)
    }

    /// The path of this part, such as `layers.0.self`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns an error if the pass was cancelled.
    pub fn check(&self) -> Result<()> {
        match self.cancel {
            Some(flag) if flag.load(Ordering::Relaxed) => Err(Error::Cancelled),
            _ => Ok(()),
        }
    }

    /// A parameter's values: tracked in a pass with gradients, otherwise detached.
    pub fn parameter(&self, parameter: &Parameter) -> Tensor {
        if self.gradients { parameter.tensor().clone() } else { parameter.tensor().detach() }
    }

    /// Passes a value through the probe, which may record it or replace it.
    pub fn see(&self, name: &str, value: Tensor) -> Result<Tensor> {
        match self.probe {
            None => Ok(value),
            Some(probe) => probe.visit(&self.site(name), value),
        }
    }

    /// The probe, for values that are computed only if they are recorded.
    pub fn probe(&self) -> Option<&'a Probe> {
        self.probe
    }

    /// Whether the probe records or changes a site.
    pub fn watches(&self, name: &str) -> bool {
        self.probe.is_some_and(|probe| probe.watches(&self.site(name)))
    }

    /// Whether the probe changes or differentiates the value at a site.
    pub fn intervenes(&self, name: &str) -> bool {
        self.probe.is_some_and(|probe| probe.intervenes(&self.site(name)))
    }

    /// The same pass without a cache, for models that read the whole input at once.
    #[must_use]
    pub(crate) fn without_cache(&self) -> Self {
        Self { cache: None, ..self.clone() }
    }

    /// The cache of keys and values of earlier passes.
    pub fn cache(&self) -> Option<&'a Cache> {
        self.cache
    }

    /// The dropout settings of a site; `None` outside training.
    pub fn dropout(&self, name: &str, probability: f32) -> Option<Dropout> {
        match self.draws {
            Some((key, first_example)) if probability > 0.0 => {
                Some(Dropout { probability, key: key.site(&self.site(name)), first_example })
            }
            _ => None,
        }
    }

    /// Applies dropout to a value at a site.
    pub fn drop_out(&self, name: &str, probability: f32, x: Tensor) -> Result<Tensor> {
        match self.dropout(name, probability) {
            Some(dropout) => Ok(x.dropout(&dropout)?),
            None => Ok(x),
        }
    }

    /// Gradient checkpointing: runs a segment without keeping its activations, which the backward pass recomputes.
    ///
    /// A pass with a probe keeps all activations, because the probe needs them in the graph.
    pub fn checkpoint(
        &self,
        inputs: &[&Tensor],
        segment: impl Fn(&Context, &[Tensor]) -> Result<Tensor> + Send + Sync + 'static,
    ) -> Result<Tensor> {
        self.check()?;
        if !self.gradients || self.probe.is_some() || self.cache.is_some() {
            let inputs: Vec<Tensor> = inputs.iter().map(|&input| input.clone()).collect();
            return segment(self, &inputs);
        }
        let context = Context {
            path: self.path.clone(),
            draws: self.draws,
            precision: self.precision,
            ..Context::differentiated()
        };
        let run = move |inputs: &[Tensor]| {
            segment(&context, inputs).map_err(|error| match error {
                Error::Tensor(error) => error,
                other => regard_tensor::Error::Segment(other.to_string()),
            })
        };
        Ok(regard_tensor::checkpoint(inputs, run)?)
    }
}
