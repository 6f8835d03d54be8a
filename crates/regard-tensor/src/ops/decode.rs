//! Attention of one new token a text over a cache with room: the step of a generation.

use crate::error::{Error, Result, ensure_shape};
use crate::ids::Ids;
use crate::kernels::decode::{self, Decode};
use crate::tensor::{Tensor, ensure_same_device};

/// How the new token attends.
#[derive(Debug, Clone, Default)]
pub struct Decoding {
    /// What the scores are multiplied with, usually 1/√width.
    pub scale: f32,
    /// Scaled products s become cap·tanh(s / cap).
    pub soft_cap: Option<f32>,
    /// A logit a head that takes a share of the weight but adds nothing to the output.
    pub sink: Option<Tensor>,
}

/// Writes the key and value (batch, 1, key-value heads, width) of a new token to place `at` (batch, 1) of its text's caches
/// (batch, room, key-value heads, width), and attends from its query (batch, 1, heads, width) to all places up to it:
/// (batch, 1, heads, width). Nothing may be tracked.
///
/// Where in the cache it is comes from ids, so that a recorded step (see [`Recording`](crate::Recording)) can be replayed at
/// the next place.
///
/// ```
/// use regard_tensor::{Ids, Tensor, ops::{Decoding, decode}};
/// // A cache with room for three, one place taken. Both keys score 0, so the values 1 and 5 weigh the same.
/// let (mut keys, mut values) = (Tensor::new(&[0.0; 3], [1, 3, 1, 1])?, Tensor::new(&[1.0, 0.0, 0.0], [1, 3, 1, 1])?);
/// let [query, key, value] = [2.0, 0.0, 5.0].map(|x| Tensor::new(&[x], [1, 1, 1, 1]));
/// let at = Ids::new(&[1], [1, 1])?;
/// let how = Decoding { scale: 1.0, ..Decoding::default() };
/// let output = decode([&query?, &key?, &value?], [&mut keys, &mut values], &at, &how)?;
/// assert_eq!(output.to_vec(), [3.0]);
/// assert_eq!(values.to_vec(), [1.0, 5.0, 0.0]);
/// # Ok::<(), regard_tensor::Error>(())
/// ```
pub fn decode(
    [query, key, value]: [&Tensor; 3],
    [keys, values]: [&mut Tensor; 2],
    at: &Ids,
    how: &Decoding,
) -> Result<Tensor> {
    let (q, k) = (query.shape().clone(), key.shape().clone());
    let fits = q.rank() == 4
        && k.rank() == 4
        && keys.shape().rank() == 4
        && q[1] == 1
        && k[..] == [q[0], 1, keys.shape()[2], q[3]]
        && k[2] > 0
        && q[2] % k[2] == 0
        && value.shape() == &k
        && keys.shape() == values.shape()
        && keys.shape()[..] == [k[0], keys.shape()[1], k[2], k[3]];
    ensure_shape(
        fits,
        "decode",
        || {
            "query (B, 1, H, D), key and value (B, 1, G, D), caches (B, room, G, D) with H divisible by G"
                .into()
        },
        || format!("{q}, {k} and {}, {} and {}", value.shape(), keys.shape(), values.shape()),
    )?;
    let tracked = [query, key, value, &*keys, &*values].iter().any(|x| x.is_tracked());
    ensure_shape(!tracked, "decode", || "untracked tensors".into(), || "a tracked one".into())?;
    ensure_shape(
        at.shape()[..] == [q[0], 1],
        "decode",
        || format!("places of [{}×1]", q[0]),
        || at.shape().to_string(),
    )?;
    at.ensure_below(("decode", "id"), keys.shape()[1])?;
    if !how.scale.is_finite() {
        return Err(Error::setting("decode", "scale", "finite", how.scale));
    }
    if let Some(sink) = &how.sink {
        let fits = sink.shape()[..] == [q[2]];
        ensure_shape(fits, "decode", || format!("{} sinks", q[2]), || sink.shape().to_string())?;
    }
    ensure_same_device("decode", [query, key, value, &*keys, &*values].into_iter().chain(&how.sink))?;
    let sizes = Decode {
        batch: q[0],
        heads: q[2],
        kv_heads: k[2],
        room: keys.shape()[1],
        width: q[3],
        scale: how.scale,
        soft_cap: how.soft_cap,
    };
    let new = [&query.array, &key.array, &value.array];
    let caches = [&mut keys.array, &mut values.array];
    let sink = how.sink.as_ref().map(|sink| &sink.array);
    Ok(Tensor::from_array(decode::decode(new, caches, at, sink, sizes)?, &q))
}
