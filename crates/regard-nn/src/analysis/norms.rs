//! Value-weighted attention norms.
//!
//! A head adds Σⱼ α(i, j)·f(xⱼ) to position i, with f(x) = (x·W_V + b_V)·W_O: a large weight on a small vector has little
//! effect. Kobayashi et al. (2020) therefore analyse ‖α(i, j)·f(xⱼ)‖ instead of α(i, j), and ‖Σₕ αₕ(i, j)·fₕ(xⱼ)‖ for all
//! heads of a layer together.

use super::heads::{record_values, record_weights};
use super::{Subject, Tokens};
use crate::attention::MultiHead;
use crate::error::{Error, Result};
use regard_tensor::Tensor;
use regard_tensor::ops::concatenate;

/// f(x) of every head: (batch, heads, time, model width), from values (batch, time, key-value heads, head width).
pub fn transformed(attention: &MultiHead, values: &Tensor) -> Result<Tensor> {
    let [batch, time, kv_heads, width] = values.shape()[..] else {
        return Err(Error::input(
            "value norms",
            format!("values must have four axes, got {}", values.shape()),
        ));
    };
    let config = attention.config();
    let shared = config.n_heads / kv_heads.max(1);
    let of_head = |head: usize| -> Result<Tensor> {
        let value = values.slice(2, head / shared.max(1), 1)?.reshape([batch * time, width])?;
        Ok(value.matmul(&attention.head_output(head)?)?.reshape([batch, 1, time, config.d_model])?)
    };
    let heads = (0..config.n_heads).map(of_head).collect::<Result<Vec<_>>>()?;
    Ok(concatenate(&heads.iter().collect::<Vec<_>>(), 1)?)
}

/// ‖α(i, j)·f(xⱼ)‖ for every head: (batch, heads, queries, keys), from weights of that shape and the result of
/// [`transformed`].
pub fn weigh(weights: &Tensor, transformed: &Tensor) -> Result<Tensor> {
    let [batch, heads, time, _] = transformed.shape()[..] else {
        return Err(Error::input(
            "value norms",
            format!("vectors must have four axes, got {}", transformed.shape()),
        ));
    };
    let norms = transformed.multiply(transformed)?.sum(-1)?.sqrt()?.reshape([batch, heads, 1, time])?;
    Ok(weights.multiply(&norms)?)
}

/// ‖Σₕ αₕ(i, j)·fₕ(xⱼ)‖ for all heads together: (batch, queries, keys).
pub fn weigh_together(weights: &Tensor, transformed: &Tensor) -> Result<Tensor> {
    let ([batch, heads, queries, keys], [_, _, time, width]) =
        (&weights.shape()[..], &transformed.shape()[..])
    else {
        let problem =
            format!("weights and vectors do not fit: {} and {}", weights.shape(), transformed.shape());
        return Err(Error::input("value norms", problem));
    };
    let (batch, heads, queries, keys, width) = (*batch, *heads, *queries, *keys, *width);
    if *time != keys {
        return Err(Error::input("value norms", format!("{keys} keys but {time} vectors")));
    }
    let mut all = Vec::with_capacity(batch * queries * keys);
    for example in 0..batch {
        let mut columns = Vec::with_capacity(keys);
        for key in 0..keys {
            // Σₕ αₕ(i, key)·fₕ: (queries, heads) · (heads, width)
            let alpha = weights.select(0, example)?.select(2, key)?; // (H, Q)
            let vectors = transformed.select(0, example)?.select(1, key)?; // (H, C)
            let sum = alpha.reshape([heads, queries])?.matmul_transposed(
                &vectors.reshape([heads, width])?,
                true,
                false,
            )?;
            columns.push(sum.multiply(&sum)?.sum(-1)?.sqrt()?.to_vec());
        }
        for query in 0..queries {
            all.extend(columns.iter().map(|column| column[query]));
        }
    }
    Ok(Tensor::new(&all, [batch, queries, keys])?.to(weights.device())?)
}

/// Rows divided by their sums; rows of zeros stay zero.
pub fn normalise_rows(x: &Tensor) -> Result<Tensor> {
    let mut values = x.to_vec();
    for row in values.chunks_mut(x.shape().last().max(1)) {
        let sum: f64 = row.iter().map(|&value| f64::from(value)).sum();
        if sum > 0.0 {
            for value in row {
                *value = (f64::from(*value) / sum) as f32;
            }
        }
    }
    Ok(Tensor::new(&values, x.shape().clone())?.to(x.device())?)
}

/// For each layer, the weights (1, heads, time, time) and the transformed vectors (1, heads, time, width) of one text.
pub fn weights_and_vectors<'a>(
    subject: impl Into<Subject<'a>>,
    tokens: &Tokens,
) -> Result<Vec<(Tensor, Tensor)>> {
    let (subject, texts) = (subject.into(), std::slice::from_ref(tokens));
    let (layers, weights, values) =
        (subject.attentions()?, record_weights(subject, texts)?, record_values(subject, texts)?);
    let each = layers.iter().zip(weights).zip(values);
    each.map(|((site, weights), values)| Ok((weights.all(), transformed(site.projections()?, &values)?)))
        .collect()
}
