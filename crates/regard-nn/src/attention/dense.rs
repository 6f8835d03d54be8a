//! Attention step by step, with every pair in memory: the reference with all the rules.

use super::rules::{How, Rules, Score, Weigh};
use super::{Pattern, linear};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::probe::without_blocked;
use regard_tensor::ops::{Allowed, Bias, concatenate};
use regard_tensor::{Ids, Mask, Tensor};

/// The output (batch, queries, heads, value width) and the weights (batch, heads, queries, keys) of queries, keys and
/// values (batch, time, heads, width), all of which the probe may change on the way.
pub(super) fn attend(
    context: &Context,
    [query, key, value]: [&Tensor; 3],
    how: &How,
    rules: &Rules,
) -> Result<(Tensor, Tensor)> {
    let scores = context.see("scores", scores(context, query, key, how, rules)?)?; // (B, H, Tq, Tk)
    let mask = allowed(context, rules, &scores)?;
    let weights = weigh(&scores, mask.as_ref(), &how.weigh)?;
    let weights = context.see("weights", weights)?;
    let used = drop_out(context, how, &weights)?;

    let [batch, heads, queries, keys] = sizes(&used)?;
    let (kv_heads, width) = (value.shape()[2], value.shape()[3]);
    // Query heads that share a key-value head lie side by side: they are more rows of one product.
    let used = used.reshape([batch * kv_heads, heads / kv_heads * queries, keys])?;
    let output = used.matmul(&heads_first(value, kv_heads)?)?; //                  (B·G, R·Tq, Dv)
    let output = output.reshape([batch, heads, queries, width])?.permute(&[0, 2, 1, 3])?;
    Ok((output, weights))
}

/// Weights after dropout, the same ones as the tiled kernel drops: it draws for rows of a whole number of fours.
///
/// Linear attention drops none, because its own form has none.
fn drop_out(context: &Context, how: &How, weights: &Tensor) -> Result<Tensor> {
    let keys = weights.shape().last();
    if matches!(how.weigh, Weigh::Linear) {
        return Ok(weights.clone());
    }
    let Some(dropout) = context.dropout("weights", how.dropout).filter(|_| !keys.is_multiple_of(4)) else {
        return context.drop_out("weights", how.dropout, weights.clone());
    };
    let [batch, heads, queries, _] = sizes(weights)?;
    let missing = keys.next_multiple_of(4) - keys;
    let room = Tensor::full_on(weights.device(), [batch, heads, queries, missing], 0.0)?;
    Ok(concatenate(&[weights, &room], -1)?.dropout(&dropout)?.slice(-1, 0, keys)?)
}

/// scale·Q·Kᵀ + bias, or φ(Q)·φ(K)ᵀ for linear attention: (batch, heads, queries, keys).
pub(super) fn scores(
    context: &Context,
    query: &Tensor,
    key: &Tensor,
    how: &How,
    rules: &Rules,
) -> Result<Tensor> {
    let [batch, queries, heads, width] = query.shape()[..] else {
        return Err(Error::input("attention", format!("queries of {}", query.shape())));
    };
    let [_, keys, kv_heads, _] = key.shape()[..] else {
        return Err(Error::input("attention", format!("keys of {}", key.shape())));
    };
    if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
        let problem = format!("{heads} query heads cannot share {kv_heads} key-value heads");
        return Err(Error::input("attention", problem));
    }
    let group = heads / kv_heads;
    let together = |query: &Tensor, key: &Tensor| -> Result<Tensor> {
        let query = heads_first(query, heads)?.reshape([batch * kv_heads, group * queries, width])?;
        let scores = query.matmul_transposed(&heads_first(key, kv_heads)?, false, true)?;
        Ok(scores.reshape([batch, heads, queries, keys])?)
    };
    if matches!(how.weigh, Weigh::Linear) {
        return together(&linear::features(query, None)?, &linear::features(key, None)?);
    }
    let scores = match &how.score {
        Score::Dot(scale) => together(query, key)?.scale(scale.factor(width))?,
        Score::Additive(network) => {
            if group > 1 {
                let problem = "additive scores need a key head for each query head";
                return Err(Error::configuration("attention", problem));
            }
            let scores = network.scores(context, &heads_first(query, heads)?, &heads_first(key, heads)?)?;
            scores.reshape([batch, heads, queries, keys])?
        }
    };
    let scores = match how.soft_cap {
        Some(cap) => scores.scale(1.0 / cap)?.tanh()?.scale(cap)?,
        None => scores,
    };
    match bias(&rules.bias, queries, keys)? {
        Some(bias) => Ok(scores.add(&bias)?),
        None => Ok(scores),
    }
}

/// (batch, time, heads, width) → (batch·heads, time, width).
pub(super) fn heads_first(x: &Tensor, heads: usize) -> Result<Tensor> {
    let shape = x.shape();
    let (batch, time, width) = (shape[0], shape[1], shape[3]);
    Ok(x.permute(&[0, 2, 1, 3])?.reshape([batch * heads, time, width])?)
}

fn sizes(x: &Tensor) -> Result<[usize; 4]> {
    match x.shape()[..] {
        [a, b, c, d] => Ok([a, b, c, d]),
        _ => Err(Error::input("attention", format!("weights of {}", x.shape()))),
    }
}

/// The bias of every pair, (batch or 1, heads or 1, queries, keys), differentiable by its own parameters.
fn bias(bias: &Bias, queries: usize, keys: usize) -> Result<Option<Tensor>> {
    // The last query stands at the last key.
    let distance = |i: usize| {
        let (query, key) = (i / keys, i % keys);
        (query + keys) as isize - queries as isize - key as isize
    };
    Ok(match bias {
        Bias::None => None,
        Bias::Dense(values) => Some(values.clone()),
        Bias::Slopes(slopes) => {
            let far: Vec<f32> = (0..queries * keys).map(|i| -(distance(i).unsigned_abs() as f32)).collect();
            let slopes = slopes.reshape([1, slopes.count(), 1, 1])?;
            Some(Tensor::new(&far, [1, 1, queries, keys])?.to(slopes.device())?.multiply(&slopes)?)
        }
        Bias::Buckets { table, buckets } => {
            let entry = |i: usize| buckets.values()[(distance(i) + queries as isize - 1) as usize];
            let each: Vec<u32> = (0..queries * keys).map(entry).collect();
            let heads = table.shape().last();
            let values = table.embedding(&Ids::new(&each, [queries, keys])?)?; // (Tq, Tk, H)
            Some(values.permute(&[2, 0, 1])?.reshape([1, heads, queries, keys])?)
        }
    })
}

/// Everything that forbids a pair, in one mask that broadcasts to (batch, heads, queries, keys).
fn allowed(context: &Context, rules: &Rules, scores: &Tensor) -> Result<Option<Mask>> {
    let [batch, heads, queries, keys] = sizes(scores)?;
    let Allowed { causal, keys: present, blocks } = &rules.allowed;
    let planes = blocks.as_ref().map_or((1, 1), |blocks| blocks.planes());
    let mask = (*causal || present.is_some() || blocks.is_some()).then(|| {
        let examples = if present.is_some() { batch } else { planes.0 };
        Mask::from_fn([examples, planes.1, queries, keys], |at| {
            let &[example, head, query, key] = at else { return false };
            (!causal || key + queries <= query + keys)
                && present.as_ref().is_none_or(|present| present.values()[example * keys + key])
                && blocks.as_ref().is_none_or(|blocks| blocks.allows((example, head), query, key))
        })
    });
    let blocked = context.probe().map(|probe| probe.blocked(context.path())).unwrap_or_default();
    let mask = without_blocked(mask.as_ref(), &blocked, [batch, heads, queries, keys]);
    if !rules.pattern.by_content() {
        return Ok(mask);
    }
    let open = |i: usize| {
        let Some(mask) = &mask else { return true };
        let shape = mask.shape();
        let (pair, plane) = (i % (queries * keys), i / (queries * keys));
        let (example, head) = (plane / heads % shape[0], plane % heads % shape[1]);
        mask.values()[(example * shape[1] + head) * queries * keys + pair]
    };
    let within: Vec<bool> = (0..scores.count()).map(open).collect();
    let chosen = by_content(&rules.pattern, &scores.values(), within, [queries, keys])?;
    Ok(Some(Mask::new(&chosen, [batch, heads, queries, keys])?))
}

/// The pairs that a pattern with content in it allows, among those in `within`.
fn by_content(
    pattern: &Pattern,
    scores: &[f32],
    mut within: Vec<bool>,
    [queries, keys]: [usize; 2],
) -> Result<Vec<bool>> {
    match pattern {
        Pattern::TopK(k) => {
            for (row, scores) in within.chunks_mut(keys.max(1)).zip(scores.chunks(keys.max(1))) {
                let mut order: Vec<usize> = (0..row.len()).filter(|&key| row[key]).collect();
                order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
                order.iter().skip(*k).for_each(|&key| row[key] = false);
            }
            Ok(within)
        }
        Pattern::All(parts) => {
            // Positions first, so that the best are chosen among those that may be seen at all.
            let (content, position): (Vec<_>, Vec<_>) = parts.iter().partition(|part| part.by_content());
            for part in position.into_iter().chain(content) {
                within = by_content(part, scores, within, [queries, keys])?;
            }
            Ok(within)
        }
        Pattern::Any(parts) => {
            let mut any = vec![false; within.len()];
            for part in parts {
                let chosen = by_content(part, scores, within.clone(), [queries, keys])?;
                any.iter_mut().zip(chosen).for_each(|(any, chosen)| *any |= chosen);
            }
            Ok(any)
        }
        // A mask by example stands beside the content, and was applied before.
        Pattern::Explicit(mask) if mask.shape().rank() == 4 => Ok(within),
        other => {
            let mask = other.mask(queries, keys)?;
            for plane in within.chunks_mut((queries * keys).max(1)) {
                plane.iter_mut().zip(mask.values()).for_each(|(open, &allowed)| *open &= allowed);
            }
            Ok(within)
        }
    }
}

fn weigh(scores: &Tensor, mask: Option<&Mask>, weigh: &Weigh) -> Result<Tensor> {
    let softmax = |scores: &Tensor, mask: Option<&Mask>| match mask {
        Some(mask) => scores.softmax_masked(mask),
        None => scores.softmax(),
    };
    let [batch, heads, queries, keys] = sizes(scores)?;
    match weigh {
        Weigh::Softmax => Ok(softmax(scores, mask)?),
        Weigh::Sink(sink) => {
            // One more key that may always be seen, and is cut off again.
            let sink = match sink {
                Some(sink) => sink.reshape([1, heads, 1, 1])?,
                None => Tensor::full_on(scores.device(), [1, heads, 1, 1], 0.0)?,
            };
            let column = Tensor::full_on(scores.device(), [batch, heads, queries, 1], 0.0)?.add(&sink)?;
            let wider = mask.map(|mask| {
                let shape = mask.shape();
                Mask::from_fn([shape[0], shape[1], queries, keys + 1], |at| {
                    let row = (at[0] * shape[1] + at[1]) * queries + at[2];
                    at[3] == keys || mask.values()[row * keys + at[3]]
                })
            });
            let weights = softmax(&concatenate(&[scores, &column], -1)?, wider.as_ref())?;
            let weights = weights.slice(-1, 0, keys)?;
            // A row that may attend to nothing gives all its weight to the sink already.
            Ok(weights)
        }
        Weigh::Sigmoid { shift: Some(shift) } => Ok(times(&scores.shift(*shift)?.sigmoid()?, mask)?),
        Weigh::Sigmoid { shift: None } => {
            let shifted = match mask {
                None => scores.shift(-(keys as f32).ln())?,
                Some(mask) => scores.add(&minus_log_counts(mask)?.to(scores.device())?)?,
            };
            Ok(times(&shifted.sigmoid()?, mask)?)
        }
        Weigh::Linear => {
            let kept = times(scores, mask)?;
            let total = kept.sum(-1)?.reshape([batch, heads, queries, 1])?;
            let empty: Vec<f32> = total.values().iter().map(|&total| f32::from(total == 0.0)).collect();
            let empty = Tensor::new(&empty, total.shape())?.to(total.device())?;
            Ok(kept.divide(&total.add(&empty)?)?)
        }
    }
}

/// −ln of the number of keys that each query may attend to: (…, queries, 1).
fn minus_log_counts(mask: &Mask) -> Result<Tensor> {
    let keys = mask.shape().last();
    let count = |row: &[bool]| row.iter().filter(|&&open| open).count().max(1) as f32;
    let shifts: Vec<f32> = mask.values().chunks(keys.max(1)).map(|row| -count(row).ln()).collect();
    let mut shape = mask.shape().to_vec();
    if let Some(last) = shape.last_mut() {
        *last = 1;
    }
    Ok(Tensor::new(&shifts, shape)?)
}

/// Values with those that are not allowed set to 0.
fn times(x: &Tensor, mask: Option<&Mask>) -> Result<Tensor> {
    let Some(mask) = mask else { return Ok(x.clone()) };
    let values: Vec<f32> = mask.values().iter().map(|&open| f32::from(open)).collect();
    Ok(x.multiply(&Tensor::new(&values, mask.shape())?.to(x.device())?)?)
}
