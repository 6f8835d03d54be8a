//! From the last hidden states to scores of tokens or classes.

use crate::context::Context;
use crate::error::Result;
use crate::layers::{Embedding, Linear, LinearConfig, Norm};
use crate::models::form::{Form, Pooling};
use crate::parameter::{Draw, Initial, Parameter, module};
use regard_tensor::Tensor;

/// What scores hidden states.
#[derive(Debug, Clone)]
pub(super) struct Heads {
    /// The table that scores tokens, where it is not the embedding table.
    pub head: Option<Embedding>,
    pooler: Option<Linear>,
    pub token_head: TokenHead,
    pub classifier: Option<Linear>,
}

module!(Heads { head, pooler, token_head, classifier });

/// What stands between hidden states and the table that scores tokens.
#[derive(Debug, Clone)]
pub(super) struct TokenHead {
    transform: Option<Linear>,
    norm: Option<Norm>,
    projection: Option<Linear>,
    pub bias: Option<Parameter>,
}

module!(TokenHead { transform, norm, projection, bias });

impl Heads {
    pub fn new(form: &Form, initial: &Initial) -> Result<Self> {
        let (d_model, inner) = (form.d_model, Draw::Normal(form.deviations.inner));
        let linear = |name: &str, outputs: usize, bias: bool| {
            let config = LinearConfig { bias, ..LinearConfig::new(d_model, outputs) };
            Linear::new(&initial.part(name), config, inner)
        };
        let bias = form.output.pooling == Pooling::First;
        let mut token_head = TokenHead { transform: None, norm: None, projection: None, bias: None };
        let mut head = None;
        if let Some(scores) = form.output.tokens {
            let part = initial.part("token_head");
            if let Some((_, norm)) = scores.transform {
                let width = if scores.tied { form.d_embedding() } else { d_model };
                let config = LinearConfig::new(d_model, width);
                token_head.transform = Some(Linear::new(&part.part("transform"), config, inner)?);
                token_head.norm = Some(Norm::new(&part.part("norm"), norm, [width])?);
            }
            if scores.projected {
                let config = LinearConfig { bias: false, ..LinearConfig::new(d_model, form.d_embedding()) };
                token_head.projection = Some(Linear::new(&part.part("projection"), config, inner)?);
            }
            if scores.bias {
                token_head.bias = Some(part.parameter("bias", [form.vocabulary()], Draw::Constant(0.0))?);
            }
            if !scores.tied {
                head = Some(Embedding::new(&initial.part("head"), (form.vocabulary(), d_model), inner)?);
            }
        }
        Ok(Self {
            head,
            pooler: form.output.pooler.map(|_| linear("pooler", d_model, true)).transpose()?,
            token_head,
            classifier: form.output.classes.map(|classes| linear("classifier", classes, bias)).transpose()?,
        })
    }

    /// What the table of tokens scores.
    pub fn before_scores(&self, context: &Context, form: &Form, hidden: &Tensor) -> Result<Tensor> {
        let scores = form.output.tokens;
        let mut x = hidden.clone();
        if let (Some(transform), Some(norm), Some((activation, _))) =
            (&self.token_head.transform, &self.token_head.norm, scores.and_then(|scores| scores.transform))
        {
            let transformed = transform.forward_then(context, &x, activation)?;
            x = norm.forward(context, &transformed)?;
        }
        if let Some(projection) = &self.token_head.projection {
            x = projection.forward(context, &x)?;
        }
        match scores.map_or(1.0, |scores| scores.scale) {
            1.0 => Ok(x),
            scale => Ok(x.scale(scale)?),
        }
    }

    /// One vector for each input, (batch, width): that of the first token, through the pooler if there is one.
    pub fn pool(&self, context: &Context, form: &Form, hidden: &Tensor) -> Result<Tensor> {
        let first = hidden.select(1, 0)?;
        match (&self.pooler, form.output.pooler) {
            (Some(pooler), Some(form)) => pooler.forward_then(context, &first, form.activation),
            _ => Ok(first),
        }
    }

    /// Scores of the classes of each input, (batch, 1, classes).
    pub fn classify(
        &self,
        context: &Context,
        form: &Form,
        (classifier, hidden): (&Linear, &Tensor),
    ) -> Result<Tensor> {
        let pooled = self.pool(context, form, hidden)?;
        let pooled = context.drop_out("pooled", form.dropout.pooled, pooled)?;
        let scores = context.see("logits", classifier.forward(context, &pooled)?)?;
        Ok(scores.reshape([scores.shape()[0], 1, scores.shape().last()])?)
    }
}
