//! From the last hidden states to scores of tokens or classes.

use super::pooling::AttentionPooler;
use crate::context::Context;
use crate::error::Result;
use crate::layers::{Embedding, Linear, LinearConfig, Norm};
use crate::models::form::{Form, Pooler, Pooling, TokenClasses};
use crate::parameter::{Draw, Initial, Parameter, module};
use regard_tensor::ops::{CrossEntropy, concatenate};
use regard_tensor::{Ids, Tensor};

/// What scores hidden states.
#[derive(Debug, Clone)]
pub(super) struct Heads {
    /// The table that scores tokens, where it is not the embedding table.
    pub head: Option<Embedding>,
    pooler: Option<Linear>,
    pooler_norm: Option<Norm>,
    attention_pooler: Option<AttentionPooler>,
    vector: Option<Linear>,
    pub token_head: TokenHead,
    pub classifier: Option<Linear>,
    distillation_classifier: Option<Linear>,
    token_classifier: Option<TokenClassifier>,
    spans: Option<Linear>,
    pair: Option<Linear>,
}

module!(Heads {
    head,
    pooler,
    pooler_norm,
    attention_pooler,
    vector,
    token_head,
    classifier,
    distillation_classifier,
    token_classifier,
    spans,
    pair,
});

/// What stands between hidden states and the table that scores tokens.
#[derive(Debug, Clone)]
pub(super) struct TokenHead {
    transform: Option<Linear>,
    norm: Option<Norm>,
    projection: Option<Linear>,
    pub bias: Option<Parameter>,
}

module!(TokenHead { transform, norm, projection, bias });

/// What scores the classes of each token.
#[derive(Debug, Clone)]
struct TokenClassifier {
    transform: Option<Linear>,
    norm: Option<Norm>,
    scores: Linear,
}

module!(TokenClassifier { transform, norm, scores });

impl Heads {
    pub fn new(form: &Form, initial: &Initial) -> Result<Self> {
        let (d_model, inner) = (form.d_model, Draw::Normal(form.deviations.inner));
        let linear = |name: &str, outputs: usize, bias: bool| {
            let config = LinearConfig { bias, ..LinearConfig::new(d_model, outputs) };
            Linear::new(&initial.part(name), config, inner)
        };
        let norm = |name: &str, pooler: Option<Pooler>| {
            let norm = pooler.and_then(|pooler| pooler.norm);
            norm.map(|norm| Norm::new(&initial.part(name), norm, [d_model])).transpose()
        };
        let classifier = |name: &str, classes: usize| {
            let width = if form.output.pooling == Pooling::FirstAndMean { 2 * d_model } else { d_model };
            let bias = form.output.pooling != Pooling::Last;
            Linear::new(
                &initial.part(name),
                LinearConfig { bias, ..LinearConfig::new(width, classes) },
                inner,
            )
        };
        let mut token_head = TokenHead { transform: None, norm: None, projection: None, bias: None };
        let mut head = None;
        if let Some(scores) = form.output.tokens {
            let part = initial.part("token_head");
            if let Some((_, norm)) = scores.transform {
                let width = if scores.tied { form.d_embedding() } else { d_model };
                let config =
                    LinearConfig { bias: scores.transform_bias, ..LinearConfig::new(d_model, width) };
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
        let token_classifier = |TokenClasses { classes, transform }| -> Result<TokenClassifier> {
            let norm = norm("token_classifier.norm", transform)?;
            let transform = transform
                .map(|layer| linear("token_classifier.transform", d_model, layer.bias))
                .transpose()?;
            Ok(TokenClassifier { transform, norm, scores: linear("token_classifier.scores", classes, true)? })
        };
        let output = &form.output;
        Ok(Self {
            head,
            pooler: output.pooler.map(|pooler| linear("pooler", d_model, pooler.bias)).transpose()?,
            pooler_norm: norm("pooler_norm", output.pooler)?,
            attention_pooler: output
                .attention_pooler
                .map(|pooler| AttentionPooler::new(&initial.part("attention_pooler"), pooler, form))
                .transpose()?,
            vector: output
                .vector
                .and_then(|vector| vector.projection)
                .map(|(width, bias)| linear("vector", width, bias))
                .transpose()?,
            token_head,
            classifier: output.classes.map(|classes| classifier("classifier", classes)).transpose()?,
            distillation_classifier: output
                .classes
                .filter(|_| output.distilled)
                .map(|classes| classifier("distillation_classifier", classes))
                .transpose()?,
            token_classifier: form.output.token_classes.map(token_classifier).transpose()?,
            spans: form.output.spans.then(|| linear("spans", 2, true)).transpose()?,
            pair: form.output.pair.map(|classes| linear("pair", classes, true)).transpose()?,
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

    /// One vector for each input, (batch, width): what a query of its own gathers, or that of the first token, through
    /// the pooler if there is one.
    pub fn pool(&self, context: &Context, form: &Form, hidden: &Tensor) -> Result<Tensor> {
        if let Some(pooler) = &self.attention_pooler {
            return pooler.forward(context, hidden);
        }
        let first = hidden.select(1, 0)?;
        let (Some(pooler), Some(form)) = (&self.pooler, form.output.pooler) else { return Ok(first) };
        transformed(context, (pooler, self.pooler_norm.as_ref()), form, &first)
    }

    /// The vector of each input, (batch, 1, width), shown as (batch, width).
    fn vector_of(&self, context: &Context, form: &Form, hidden: &Tensor) -> Result<Tensor> {
        let pooled = self.pool(context, form, hidden)?;
        let vector = match &self.vector {
            Some(projection) => projection.forward(context, &pooled)?,
            None => pooled,
        };
        let vector = context.see("vector", vector)?;
        Ok(vector.reshape([vector.shape()[0], 1, vector.shape().last()])?)
    }

    /// Scores of classes or spans, if that is what it predicts: (batch, time, classes), or (batch, 1, classes) of whole
    /// inputs.
    pub fn classify(&self, context: &Context, form: &Form, hidden: &Tensor) -> Result<Option<Tensor>> {
        if let Some(classifier) = &self.classifier {
            let mut scores = self.of_whole(context, form, (classifier, hidden))?;
            if let Some(second) = &self.distillation_classifier {
                let taught = second.forward(context, &hidden.select(1, 1)?)?;
                scores = scores.add(&taught)?.scale(0.5)?;
            }
            let scores = context.see("logits", scores)?;
            return Ok(Some(scores.reshape([scores.shape()[0], 1, scores.shape().last()])?));
        }
        if let Some(classifier) = &self.token_classifier {
            return classifier.classify(context, form, hidden).map(Some);
        }
        if form.output.vector.is_some() {
            return self.vector_of(context, form, hidden).map(Some);
        }
        let Some(spans) = &self.spans else { return Ok(None) };
        let hidden = context.drop_out("pooled", form.dropout.pooled, hidden.clone())?;
        context.see("logits", spans.forward(context, &hidden)?).map(Some) // (B, T, 2)
    }

    /// Shows the scores of a pair of sentences, which nothing else reads.
    pub fn show_pair(&self, context: &Context, form: &Form, hidden: &Tensor) -> Result<()> {
        let Some(pair) = self.pair.as_ref().filter(|_| context.watches("pair.logits")) else { return Ok(()) };
        context.see("pair.logits", self.of_whole(context, form, (pair, hidden))?)?;
        Ok(())
    }

    /// Scores of the classes of each input, (batch, classes).
    fn of_whole(
        &self,
        context: &Context,
        form: &Form,
        (scores, hidden): (&Linear, &Tensor),
    ) -> Result<Tensor> {
        let pooled = self.pool(context, form, hidden)?;
        let pooled = context.drop_out("pooled", form.dropout.pooled, pooled)?;
        scores.forward(context, &pooled)
    }
}

impl TokenClassifier {
    /// Scores of the classes of each token. A single logit is shown as (batch, time, 1) and is the score of the second of
    /// two classes; the first one's is 0.
    fn classify(&self, context: &Context, form: &Form, hidden: &Tensor) -> Result<Tensor> {
        let layer = form.output.token_classes.and_then(|of_tokens| of_tokens.transform);
        let mut x = hidden.clone();
        if let (Some(transform), Some(layer)) = (&self.transform, layer) {
            x = transformed(context, (transform, self.norm.as_ref()), layer, &x)?;
        }
        let x = context.drop_out("pooled", form.dropout.pooled, x)?;
        let scores = context.see("logits", self.scores.forward(context, &x)?)?; // (B, T, classes)
        if scores.shape().last() > 1 {
            return Ok(scores);
        }
        let zeros = Tensor::full_on(scores.device(), scores.shape().clone(), 0.0)?;
        Ok(concatenate(&[&zeros, &scores], 2)?)
    }
}

/// A layer, its function and its norm.
fn transformed(
    context: &Context,
    (layer, norm): (&Linear, Option<&Norm>),
    form: Pooler,
    x: &Tensor,
) -> Result<Tensor> {
    let x = layer.forward_then(context, x, form.activation)?;
    norm.map_or(Ok(x.clone()), |norm| norm.forward(context, &x))
}

/// The mean cross-entropy of the first and last tokens of answers, (batch, 2), under scores (batch, time, 2).
pub(super) fn span_loss(scores: &Tensor, targets: &Ids, settings: CrossEntropy) -> Result<Tensor> {
    Ok(scores.permute(&[0, 2, 1])?.cross_entropy(targets, settings)?)
}
