//! Attention and positions on arrays.

use crate::arrays::{GivenReals, Reals, ensure_room, mask_to_numpy, to_mask, to_numpy, to_tensor};
use crate::error::OrRaise as _;
use crate::work::work;
use anyhow::{Result, bail, ensure};
use numpy::{PyArrayDyn, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use regard_nn::attention::{self, AttentionConfig, Pattern, Rules, Scale};
use regard_nn::position::{self, RotaryConfig};
use regard_nn::tensor::{Ids, Mask, Tensor};
use regard_nn::{Context, Draw, Initial, Module as _, Probe};

fn scale(factor: Option<f32>) -> Scale {
    factor.map_or(Scale::InverseRoot, Scale::Factor)
}

/// Output and weights of scaled dot-product attention.
#[pyfunction]
#[pyo3(signature = (query, key, value, mask, factor))]
pub fn scaled_dot_product<'py>(
    py: Python<'py>,
    query: GivenReals<'py>,
    key: GivenReals<'py>,
    value: GivenReals<'py>,
    mask: Option<PyReadonlyArrayDyn<'py, bool>>,
    factor: Option<f32>,
) -> PyResult<(Reals<'py>, Reals<'py>)> {
    let (query, key, value) = (to_tensor(&query)?, to_tensor(&key)?, to_tensor(&value)?);
    let mask = mask.as_ref().map(to_mask).transpose()?;
    let (output, weights) = work(py, |_| {
        ensure_weights_fit(&query, &key)?;
        Ok(attention::scaled_dot_product(&query, &key, &value, mask.as_ref(), scale(factor))?)
    })?;
    Ok((to_numpy(py, output)?, to_numpy(py, weights)?))
}

/// The gradient of the output, weighted by `upstream` and summed, with respect to queries, keys and values.
#[pyfunction]
#[pyo3(signature = (query, key, value, upstream, mask, factor))]
pub fn scaled_dot_product_gradient<'py>(
    py: Python<'py>,
    query: GivenReals<'py>,
    key: GivenReals<'py>,
    value: GivenReals<'py>,
    upstream: Option<GivenReals<'py>>,
    mask: Option<PyReadonlyArrayDyn<'py, bool>>,
    factor: Option<f32>,
) -> PyResult<(Reals<'py>, Reals<'py>, Reals<'py>)> {
    let inputs = [to_tensor(&query)?.tracked(), to_tensor(&key)?.tracked(), to_tensor(&value)?.tracked()];
    let upstream = upstream.as_ref().map(to_tensor).transpose()?;
    let mask = mask.as_ref().map(to_mask).transpose()?;
    let [query, key, value] = work(py, |_| {
        let [query, key, value] = &inputs;
        ensure_weights_fit(query, key)?;
        let (output, _) = attention::scaled_dot_product(query, key, value, mask.as_ref(), scale(factor))?;
        let gradients = weighted(output, upstream.as_ref())?.sum_all()?.backward()?;
        Ok([query, key, value]
            .map(|input| gradients.get(input).unwrap_or_else(|| Tensor::zeros(input.shape().clone()))))
    })?;
    Ok((to_numpy(py, query)?, to_numpy(py, key)?, to_numpy(py, value)?))
}

/// All weights are computed and returned: of every query for every key.
fn ensure_weights_fit(query: &Tensor, key: &Tensor) -> Result<()> {
    let (Some((_, rows)), [.., keys, _]) = (query.shape().split_last(), &key.shape()[..]) else {
        return Ok(());
    };
    ensure_room("attention weights", &[rows.iter().product(), *keys])
}

/// An output, multiplied by what its gradient is weighted by.
fn weighted(output: Tensor, upstream: Option<&Tensor>) -> Result<Tensor> {
    match upstream {
        Some(upstream) if upstream.shape() != output.shape() => {
            bail!("upstream must be {}, as the output is, got {}", output.shape(), upstream.shape())
        }
        Some(upstream) => Ok(output.multiply(upstream)?),
        None => Ok(output),
    }
}

/// Sines and cosines of positions: (positions, width).
#[pyfunction]
pub fn sinusoidal(py: Python<'_>, positions: Vec<u32>, width: usize) -> PyResult<Reals<'_>> {
    let table = work(py, |_| {
        ensure_room("positions", &[positions.len(), width])?;
        Ok(position::sinusoidal(&Ids::new(&positions, [positions.len()])?, width)?)
    })?;
    to_numpy(py, table)
}

/// Queries or keys (batch, time, heads, width), turned by their positions.
#[pyfunction]
pub fn rotary<'py>(
    py: Python<'py>,
    x: GivenReals<'py>,
    positions: Vec<u32>,
    base: f32,
    interleaved: bool,
) -> PyResult<Reals<'py>> {
    let x = to_tensor(&x)?;
    let turned = work(py, |_| {
        let [batch, time, _, width] = x.shape()[..] else {
            bail!("rotary positions: vectors must be (batch, time, heads, width), got {}", x.shape());
        };
        if positions.len() != time || !width.is_multiple_of(2) || !(base > 0.0 && base.is_finite()) {
            bail!("rotary positions: {time} positions, an even width and a base above 0 are needed");
        }
        let rotary = RotaryConfig { base, interleaved, ..RotaryConfig::default() }.rotary(width);
        Ok(rotary.rotation(&Ids::new(&positions, [1, time])?, batch)?.apply(&x)?)
    })?;
    to_numpy(py, turned)
}

/// ALiBi's slope of each head.
#[pyfunction]
pub fn alibi_slopes(py: Python<'_>, n_heads: usize) -> PyResult<Vec<f32>> {
    work(py, |_| {
        ensure_room("slopes", &[n_heads])?;
        Ok(position::alibi_slopes(n_heads))
    })
}

/// T5's bucket of a distance.
#[pyfunction]
pub fn relative_bucket(
    py: Python<'_>,
    distance: i64,
    buckets: usize,
    max_distance: usize,
    bidirectional: bool,
) -> PyResult<u32> {
    work(py, |_| {
        // Half of them are for single distances, and half of all for keys after the query.
        let fewest = if bidirectional { 4 } else { 2 };
        ensure!((fewest..=1 << 24).contains(&buckets), "buckets is {fewest} to {}, not {buckets}", 1 << 24);
        ensure!(
            max_distance > buckets / fewest,
            "max_distance is above {}, not {max_distance}",
            buckets / fewest
        );
        ensure!(distance.unsigned_abs() < 1 << 53, "no text is {distance} tokens long");
        Ok(position::relative_bucket(distance, buckets, max_distance, bidirectional))
    })
}

/// A pattern, given in JSON, as a mask (queries, keys).
#[pyfunction]
pub fn pattern_mask<'py>(
    py: Python<'py>,
    pattern: &str,
    queries: usize,
    keys: usize,
) -> PyResult<Bound<'py, PyArrayDyn<bool>>> {
    let pattern: Pattern = serde_json::from_str(pattern).or_raise()?;
    let mask = work(py, |_| {
        ensure_room("a mask", &[queries, keys])?;
        Ok(pattern.mask(queries, keys)?)
    })?;
    mask_to_numpy(py, &mask)
}

/// Attention with several heads, called on arrays.
#[pyclass(frozen, module = "regard._regard")]
pub struct MultiHead(attention::MultiHead);

#[pymethods]
impl MultiHead {
    #[new]
    fn new(
        py: Python<'_>,
        d_model: usize,
        n_heads: usize,
        n_kv_heads: usize,
        bias: bool,
        seed: u64,
    ) -> PyResult<Self> {
        let mut config = AttentionConfig::new(d_model, n_heads);
        config.n_kv_heads = n_kv_heads;
        config.fused = false;
        config.bias = regard_nn::attention::Biases::all(bias);
        let spread = Draw::Uniform((1.0 / d_model.max(1) as f32).sqrt());
        work(py, |_| {
            ensure_room("the projections", &[4, d_model, d_model])?;
            Ok(Self(attention::MultiHead::new(&Initial::new(seed), config, (spread, spread))?))
        })
    }

    /// Output (batch, queries, width) and weights (batch, heads, queries, keys).
    fn forward<'py>(
        &self,
        py: Python<'py>,
        x: GivenReals<'py>,
        memory: Option<GivenReals<'py>>,
        mask: Option<PyReadonlyArrayDyn<'py, bool>>,
    ) -> PyResult<(Reals<'py>, Reals<'py>)> {
        let x = to_tensor(&x)?;
        let memory = memory.as_ref().map(to_tensor).transpose()?;
        let mask = mask.as_ref().map(to_mask).transpose()?;
        let (output, weights) = work(py, |cancel| {
            let probe = Probe::new().record("weights");
            let context = Context::inference().with_cancel(cancel).with_probe(&probe);
            let output = self.attend(&context, &x, memory.as_ref(), mask)?;
            let weights = probe.weights("").map(|weights| weights.all());
            Ok((output, weights.unwrap_or_else(|| Tensor::zeros([0]))))
        })?;
        Ok((to_numpy(py, output)?, to_numpy(py, weights)?))
    }

    /// The gradient of Σ upstream·output with respect to x, to what is attended to, and to every parameter.
    #[pyo3(signature = (x, memory, mask, upstream))]
    fn gradient<'py>(
        &self,
        py: Python<'py>,
        x: GivenReals<'py>,
        memory: Option<GivenReals<'py>>,
        mask: Option<PyReadonlyArrayDyn<'py, bool>>,
        upstream: Option<GivenReals<'py>>,
    ) -> PyResult<Vec<(String, Reals<'py>)>> {
        let x = to_tensor(&x)?.tracked();
        let memory = memory.as_ref().map(to_tensor).transpose()?.map(|memory| memory.tracked());
        let upstream = upstream.as_ref().map(to_tensor).transpose()?;
        let mask = mask.as_ref().map(to_mask).transpose()?;
        let found = work(py, |cancel| {
            let context = Context::differentiated().with_cancel(cancel);
            let output = self.attend(&context, &x, memory.as_ref(), mask)?;
            let gradients = weighted(output, upstream.as_ref())?.sum_all()?.backward()?;
            let of = |tensor: &Tensor| {
                gradients.get(tensor).unwrap_or_else(|| Tensor::zeros(tensor.shape().clone()))
            };
            let mut found = vec![("x".to_owned(), of(&x))];
            found.extend(memory.iter().map(|memory| ("memory".to_owned(), of(memory))));
            let parameters = self.0.parameters().into_iter();
            found.extend(parameters.map(|(name, parameter)| (name, of(parameter.tensor()))));
            Ok(found)
        })?;
        found.into_iter().map(|(name, tensor)| Ok((name, to_numpy(py, tensor)?))).collect()
    }

    /// The names and values of its parameters.
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Vec<(String, Reals<'py>)>> {
        let array = |(name, parameter): (String, &regard_nn::Parameter)| {
            Ok((name, to_numpy(py, parameter.tensor().detach())?))
        };
        self.0.parameters().into_iter().map(array).collect()
    }
}

impl MultiHead {
    fn attend(
        &self,
        context: &Context,
        x: &Tensor,
        memory: Option<&Tensor>,
        mask: Option<Mask>,
    ) -> Result<Tensor> {
        let looked_at = memory.unwrap_or(x);
        let (Some(&queries), Some(&keys)) = (x.shape().get(1), looked_at.shape().get(1)) else {
            bail!("multi-head attention: vectors must be (batch, time, width), got {}", x.shape());
        };
        ensure_room("attention weights", &[x.shape()[0], self.0.config().n_heads, queries, keys])?;
        let pattern = mask.map_or(Pattern::Full, Pattern::Explicit);
        Ok(self.0.forward(context, x, memory, &Rules::new(pattern, queries, keys)?)?)
    }
}
