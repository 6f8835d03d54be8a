//! Attention by its definition, with every weight in memory.

use super::Array;

/// A number for (example, head, query, key).
pub type PerPair<'a, T> = &'a dyn Fn(usize, usize, usize, usize) -> T;

/// How to attend.
pub struct Attention<'a> {
    pub scale: f64,
    /// Scaled products s become cap·tanh(s / cap).
    pub soft_cap: Option<f64>,
    pub allowed: PerPair<'a, bool>,
    pub bias: PerPair<'a, f64>,
    /// One logit per head, without a value.
    pub sink: Option<&'a Array>,
    /// The dropout factor of each weight.
    pub factor: PerPair<'a, f64>,
}

impl Attention<'_> {
    /// Every query may attend to every key.
    pub fn scaled(scale: f64) -> Self {
        Self {
            scale,
            soft_cap: None,
            allowed: &|_, _, _, _| true,
            bias: &|_, _, _, _| 0.0,
            sink: None,
            factor: &|_, _, _, _| 1.0,
        }
    }
}

/// The output (batch, queries, heads, value width), the log-sum-exp (batch, heads, queries) and the weights before
/// dropout (batch, heads, queries, keys).
pub struct Attended {
    pub output: Array,
    pub log_sum_exp: Array,
    pub weights: Array,
}

/// Query (batch, queries, heads, width), key (batch, keys, kv heads, width), value (…, value width).
pub fn attend(query: &Array, key: &Array, value: &Array, how: &Attention) -> Attended {
    let [batch, queries, heads, width] = query.shape[..] else { panic!("queries") };
    let [_, keys, kv_heads, value_width] = value.shape[..] else { panic!("values") };
    let mut output = Array::from_fn(&[batch, queries, heads, value_width], |_| 0.0);
    let mut log_sum_exp = Array::from_fn(&[batch, heads, queries], |_| f64::NEG_INFINITY);
    let mut weights = Array::from_fn(&[batch, heads, queries, keys], |_| 0.0);
    for row in 0..batch * heads * queries {
        let (b, h, q) = (row / (heads * queries), row / queries % heads, row % queries);
        let kv_head = h / (heads / kv_heads);
        let query = &query.values[((b * queries + q) * heads + h) * width..][..width];
        let score = |k: usize| {
            let key = &key.values[((b * keys + k) * kv_heads + kv_head) * width..][..width];
            let dot: f64 = query.iter().zip(key).map(|(q, k)| q * k).sum();
            if (how.allowed)(b, h, q, k) {
                let score = how.scale * dot;
                how.soft_cap.map_or(score, |cap| cap * (score / cap).tanh()) + (how.bias)(b, h, q, k)
            } else {
                f64::NEG_INFINITY
            }
        };
        let scores: Vec<f64> = (0..keys).map(score).collect();
        let sink = how.sink.map_or(f64::NEG_INFINITY, |sink| sink.at(&[h]));
        let max = scores.iter().copied().fold(sink, f64::max);
        if max == f64::NEG_INFINITY {
            continue;
        }
        let total = scores.iter().map(|s| (s - max).exp()).sum::<f64>() + (sink - max).exp();
        log_sum_exp.values[row] = max + total.ln();
        let out = &mut output.values[((b * queries + q) * heads + h) * value_width..][..value_width];
        for (k, score) in scores.iter().enumerate() {
            let weight = (score - max).exp() / total;
            weights.values[row * keys + k] = weight;
            let kept = weight * (how.factor)(b, h, q, k);
            let value = &value.values[((b * keys + k) * kv_heads + kv_head) * value_width..][..value_width];
            out.iter_mut().zip(value).for_each(|(out, v)| *out += kept * v);
        }
    }
    Attended { output, log_sum_exp, weights }
}
