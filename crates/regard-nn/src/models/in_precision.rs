//! A model whose activations have a type of their own, whoever runs it.

use super::form::Form;
use super::inputs::Inputs;
use super::model::{Abilities, AttentionSite, Model, Unembedding};
use crate::context::Context;
use crate::error::Result;
use crate::parameter::{Module, Parameter};
use regard_tensor::ops::CrossEntropy;
use regard_tensor::{DataType, Ids, Tensor};
use serde_json::Value;

/// Runs a model with activations of one type, such as bf16 on a GPU: every pass through it is a pass
/// [with that precision](Context::with_precision). Its scores are f32 again.
#[derive(Debug)]
pub struct InPrecision {
    model: Box<dyn Model>,
    precision: DataType,
}

impl InPrecision {
    /// The model as it is if the precision is f32, else wrapped.
    pub fn wrap(model: Box<dyn Model>, precision: DataType) -> Box<dyn Model> {
        match precision {
            DataType::F32 => model,
            _ => Box::new(Self { model, precision }),
        }
    }

    fn pass<'a>(&self, context: &Context<'a>) -> Context<'a> {
        context.clone().with_precision(self.precision)
    }
}

impl Module for InPrecision {
    fn visit<'a>(&'a self, path: &str, f: &mut dyn FnMut(String, &'a Parameter)) {
        self.model.visit(path, f);
    }

    fn visit_mut<'a>(&'a mut self, path: &str, f: &mut dyn FnMut(String, &'a mut Parameter)) {
        self.model.visit_mut(path, f);
    }
}

impl Model for InPrecision {
    fn kind(&self) -> &str {
        self.model.kind()
    }

    fn abilities(&self) -> Abilities {
        self.model.abilities()
    }

    fn attentions(&self) -> Vec<AttentionSite<'_>> {
        self.model.attentions()
    }

    fn hidden(&self, context: &Context, inputs: &Inputs) -> Result<Tensor> {
        self.model.hidden(&self.pass(context), inputs)
    }

    fn scores(&self, context: &Context, hidden: &Tensor) -> Result<Tensor> {
        Ok(self.model.scores(&self.pass(context), hidden)?.to_type(DataType::F32)?)
    }

    fn loss(
        &self,
        context: &Context,
        hidden: &Tensor,
        targets: &Ids,
        settings: CrossEntropy,
    ) -> Result<Tensor> {
        self.model.loss(&self.pass(context), hidden, targets, settings)
    }

    fn encode(&self, context: &Context, inputs: &Inputs) -> Result<Tensor> {
        self.model.encode(&self.pass(context), inputs)
    }

    fn token_embeddings(&self) -> Option<&Parameter> {
        self.model.token_embeddings()
    }

    fn token_embeddings_mut(&mut self) -> Option<&mut Parameter> {
        self.model.token_embeddings_mut()
    }

    fn lens(&self, context: &Context, residual: &Tensor) -> Result<Tensor> {
        Ok(self.model.lens(&self.pass(context), residual)?.to_type(DataType::F32)?)
    }

    fn unembedding(&self) -> Option<Unembedding<'_>> {
        self.model.unembedding()
    }

    fn fresh(&self, seed: u64) -> Result<Box<dyn Model>> {
        Ok(Self::wrap(self.model.fresh(seed)?, self.precision))
    }

    fn duplicate(&self) -> Box<dyn Model> {
        Self::wrap(self.model.duplicate(), self.precision)
    }

    fn settings(&self) -> Result<(&'static str, Value)> {
        self.model.settings()
    }

    fn form(&self) -> Option<&Form> {
        self.model.form()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::{GptConfig, Transformer};

    fn gpt() -> Box<dyn Model> {
        let sizes = GptConfig {
            vocabulary: 9,
            context: 8,
            n_layers: 1,
            n_heads: 2,
            d_model: 16,
            ..Default::default()
        };
        Box::new(Transformer::new(sizes.form(), 0).unwrap())
    }

    #[test]
    fn activations_are_rounded_and_scores_are_not() {
        let inputs = Inputs::ids(&Ids::new(&[1, 2, 3], [1, 3]).unwrap());
        let context = Context::inference();
        let exact = gpt().forward(&context, &inputs).unwrap();
        let rounded = InPrecision::wrap(gpt(), DataType::Bf16).forward(&context, &inputs).unwrap();
        assert_eq!(rounded.data_type(), DataType::F32);
        let distance =
            exact.to_vec().iter().zip(rounded.to_vec()).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
        let largest = exact.to_vec().into_iter().map(f32::abs).fold(0.0, f32::max);
        assert!(distance > 0.0 && distance < 0.02 * largest, "{distance} of {largest}");
    }

    #[test]
    fn f32_needs_no_wrapper_and_copies_stay_wrapped() {
        assert!(!format!("{:?}", InPrecision::wrap(gpt(), DataType::F32)).starts_with("InPrecision"));
        let wrapped = InPrecision::wrap(gpt(), DataType::Bf16);
        for copy in [wrapped.duplicate(), wrapped.fresh(1).unwrap()] {
            assert!(format!("{copy:?}").starts_with("InPrecision"));
        }
    }
}
