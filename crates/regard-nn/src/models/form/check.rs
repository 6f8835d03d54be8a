//! Whether a form can be built: each part checks itself, here is what parts demand of each other.

use super::{Form, Input, Layer, Pooling, Positions, Stack};
use crate::error::{Error, Result};
use crate::models::sizes::ensure_sizes;

impl Form {
    /// Rejects forms that cannot be built, before anything is allocated.
    pub fn check(&self) -> Result<()> {
        ensure_sizes("transformer", &[("d_model", self.d_model), ("context", self.context.unwrap_or(1))])?;
        self.input.check()?;
        for stack in self.encoder.iter().chain(&self.decoder) {
            stack.check(self.d_model)?;
        }
        if let Some(problem) = self.misfit() {
            return Err(Error::configuration("transformer", problem));
        }
        self.dropout.check()?;
        self.output.check()?;
        self.deviations.check()
    }

    /// Parts that do not fit together.
    fn misfit(&self) -> Option<&'static str> {
        let crosses = |stack: &Option<Stack>| {
            stack.iter().flat_map(|stack| &stack.layers).any(|layer| layer.cross.is_some())
        };
        let all_cross =
            self.decoder.iter().flat_map(|stack| &stack.layers).all(|layer| layer.cross.is_some());
        let scores = self.output.tokens;
        if self.encoder.is_none() && self.decoder.is_none() {
            Some("it needs an encoder, a decoder or both")
        } else if matches!(self.input, Input::Patches(_)) && (self.decoder.is_some() || scores.is_some()) {
            Some("a transformer that reads pictures has an encoder and classes only")
        } else if crosses(&self.encoder)
            || !self.has_both() && crosses(&self.decoder)
            || self.has_both() && !all_cross
        {
            Some("the layers of a decoder have cross-attention if there is an encoder, and no others have it")
        } else if scores.is_some_and(|scores| scores.tied && scores.transform.is_none() && !scores.projected)
            && self.d_embedding() != self.d_model
        {
            Some(
                "a table of narrower embeddings scores tokens only after a transform or a projection to its width",
            )
        } else if self.decoder.iter().flat_map(|stack| &stack.layers).any(Layer::is_disentangled) {
            Some("disentangled positions are for encoders, which read everything at once")
        } else if let Some(Stack { positions: Positions::Learned { skips_padding: true, .. }, .. }) =
            self.decoder
        {
            Some("positions that skip padding are for encoders, which read everything at once")
        } else if self.output.pooling == Pooling::Last && self.decoder.is_none() {
            Some("the last token stands for the whole input in decoders only")
        } else if scores.is_some_and(|scores| scores.projected && !scores.tied) {
            Some("hidden states are projected for a tied table only")
        } else {
            None
        }
    }
}
