//! Why a head attends there, one level deeper: the score of one query and key as a sum over pairs of what wrote them.
//!
//! In a pre-norm model the residual stream before a layer is a sum over writers: the embeddings, every earlier head, the bias
//! of every attention's output, every earlier feed-forward layer. The norm is linear once its statistics are held fixed, and so
//! are the projections to queries and keys and the rotation. The score is bilinear, hence exactly a sum over pairs:
//!
//! ```text
//! scale · qᵢ · kⱼ = Σ_a Σ_b scale · (R_i W_q a) · (R_j W_k b)      a, b: writers at positions i and j, biases as one more writer
//! ```

use super::{Shown, Tokens, attentions, pad};
use crate::attention::{AttentionConfig, AttentionKind};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::models::{AttentionSite, Model};
use crate::parameter::Parameter;
use crate::probe::Probe;
use regard_tensor::ops::concatenate;
use regard_tensor::{Ids, Tensor};

/// What writes to the residual stream before a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Writer {
    /// The embeddings, positions included.
    Embeddings,
    /// A head of an earlier layer.
    Head {
        /// Its layer.
        layer: usize,
        /// The head in it.
        head: usize,
    },
    /// The bias of an earlier attention's output, which belongs to no head.
    AttentionBias {
        /// Its layer.
        layer: usize,
    },
    /// An earlier feed-forward layer.
    FeedForward {
        /// Its layer.
        layer: usize,
    },
    /// The biases of the norm and of the projection, which nothing wrote.
    Bias,
}

/// A score as a sum over pairs of writers.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ScoreParts {
    /// The writers, the same on both sides.
    pub writers: Vec<Writer>,
    /// What each pair contributes: one row for each writer at the query, one column for each at the key.
    pub parts: Vec<f64>,
    /// What is added to the score by distance.
    pub distance: f64,
    /// The score itself, as the model computed it.
    pub score: f64,
}

impl ScoreParts {
    /// The sum of all parts, which is the score but for rounding.
    pub fn sum(&self) -> f64 {
        self.distance + self.parts.iter().sum::<f64>()
    }
}

/// The score of a query and a key in one head of a layer, as a sum over pairs of writers.
pub fn score_parts(
    model: &dyn Model,
    tokens: &Tokens,
    (layer, head): (usize, usize),
    (query, key): (usize, usize),
) -> Result<ScoreParts> {
    let sites = attentions(model)?;
    let wrong = |problem: String| Error::input("parts of a score", problem);
    let site = sites.get(layer).ok_or_else(|| wrong(format!("there is no layer {layer}")))?;
    if head >= site.n_heads || query.max(key) >= tokens.len() {
        let problem = format!("there are {} heads and {} tokens", site.n_heads, tokens.len());
        return Err(wrong(problem));
    }
    check(model, site)?;
    let own = |name: &str| format!("{}.{name}", site.name);
    let names = if site.rotary { ["query_rotated", "key_rotated"] } else { ["query", "key"] };
    let before = own("").replace(".self.", ".residual.before");
    let earlier = sites[..layer].iter().flat_map(|site| {
        let ffn = site.name.replace(".self", ".ffn.output");
        [format!("{}.heads", site.name), ffn]
    });
    let recorded = [own("scores"), before.clone(), "layers.0.residual.before".to_owned()];
    let probe = recorded.into_iter().chain(names.map(own)).chain(earlier).fold(Probe::new(), Probe::record);
    let (ids, lengths) = pad(std::slice::from_ref(tokens))?;
    Shown::padded(ids, lengths).attend(model, &Context::inference().with_probe(&probe))?;
    let take = |site: &str| -> Result<Tensor> {
        probe.get(site)?.ok_or_else(|| wrong(format!("the model has no site {site}")))
    };
    let stream = take(&before)?; // (1, T, C)
    let mut sides = Vec::new();
    let mut writers = Vec::new();
    for position in [query, key] {
        let (rows, known) = written(&sites[..layer], position, &take)?;
        let stream = stream.select(1, position)?; // (1, C)
        sides.push(projected(site, &rows, &stream, (position, tokens.len()))?);
        writers = known;
    }
    writers.push(Writer::Bias);
    let config = site.projections()?.config();
    let scale = f64::from(config.scale.factor(config.d_head));
    let shared = head * config.n_kv_heads / config.n_heads;
    let (queries, keys) = (rows_of(&sides[0].0, head)?, rows_of(&sides[1].1, shared)?);
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
    let parts = queries.iter().flat_map(|q| keys.iter().map(move |k| scale * dot(q, k))).collect();
    // What is added by distance is what the score has beyond the product.
    let whole = |name: &str, position: usize, head: usize| -> Result<Vec<f32>> {
        Ok(take(&own(name))?.select(1, position)?.select(1, head)?.to_vec())
    };
    let product = scale * dot(&whole(names[0], query, head)?, &whole(names[1], key, shared)?);
    let scores = take(&own("scores"))?.select(0, 0)?.select(0, head)?; // (T, T)
    let score = f64::from(scores.values()[query * tokens.len() + key]);
    let distance = if site.biased { score - product } else { 0.0 };
    Ok(ScoreParts { writers, parts, distance, score })
}

/// Fails unless the residual stream is a plain sum and the score is bilinear in it.
fn check(model: &dyn Model, site: &AttentionSite) -> Result<()> {
    let AttentionConfig { kind, query_key_norm, clip, disentangled, soft_cap, .. } =
        *site.projections()?.config();
    let plain = model.unembedding().is_some_and(|last| last.plain_sum);
    let dot = !matches!(kind, AttentionKind::Additive | AttentionKind::Linear);
    let linear = query_key_norm.is_none() && clip.is_none() && disentangled.is_none() && soft_cap.is_none();
    match plain && dot && linear {
        true => Ok(()),
        false => Err(Error::input(
            "parts of a score",
            format!("the scores of this {} are no sum over what earlier layers wrote", model.kind()),
        )),
    }
}

/// What every writer has written at a position, (writers, width).
fn written(
    sites: &[AttentionSite],
    position: usize,
    take: &dyn Fn(&str) -> Result<Tensor>,
) -> Result<(Tensor, Vec<Writer>)> {
    let here = |site: &str| -> Result<Tensor> { Ok(take(site)?.select(1, position)?) };
    let mut rows = vec![here("layers.0.residual.before")?];
    let mut writers = vec![Writer::Embeddings];
    for (layer, site) in sites.iter().enumerate() {
        let attention = site.projections()?;
        let heads = here(&format!("{}.heads", site.name))?; // (1, H, D)
        for head in 0..site.n_heads {
            rows.push(heads.select(1, head)?.matmul(&attention.head_output(head)?)?);
            writers.push(Writer::Head { layer, head });
        }
        if let Some(bias) = attention.output_bias() {
            rows.push(bias.detach().reshape([1, bias.count()])?);
            writers.push(Writer::AttentionBias { layer });
        }
        rows.push(here(&site.name.replace(".self", ".ffn.output"))?);
        writers.push(Writer::FeedForward { layer });
    }
    Ok((concatenate(&rows.iter().collect::<Vec<_>>(), 0)?, writers))
}

/// Queries and keys of each row alone, biases as one more row: (rows + 1, heads, head width) each.
fn projected(
    site: &AttentionSite,
    rows: &Tensor,
    stream: &Tensor,
    (position, time): (usize, usize),
) -> Result<(Tensor, Tensor)> {
    let context = Context::inference();
    let (count, width) = (rows.shape()[0], rows.shape()[1]);
    let (rows, bias) = match site.norm {
        Some(norm) => {
            (norm.linear_at(&context, stream, rows)?, norm.bias().map(Parameter::tensor).map(Tensor::detach))
        }
        None => (rows.clone(), None),
    };
    let nothing = Tensor::zeros([1, width]);
    let bias = bias.map_or(Ok(nothing.clone()), |bias| bias.reshape([1, width]))?;
    let all = concatenate(&[&rows, &bias, &nothing], 0)?.reshape([count + 2, 1, width])?;
    let (query, key) = site.projections()?.queries_and_keys(&context, &all)?; // (rows + 2, 1, heads, D)
    let rotate = |x: Tensor| -> Result<Tensor> {
        let Some(rotary) = site.rotation else { return Ok(x) };
        // Beside the position stands the last one: scaled rotations depend on how long a text is.
        let positions = Ids::new(&[position as u32, time as u32 - 1], [1, 2])?;
        let both = concatenate(&[&x, &x], 1)?;
        Ok(rotary.rotation(&positions, count + 2)?.apply(&both)?.slice(1, 0, 1)?)
    };
    let alone = |x: Tensor| -> Result<Tensor> {
        let x = rotate(x)?.select(1, 0)?; // (rows + 2, heads, D)
        // The last row is the projection's bias, which every row has: it counts once, with that of the norm.
        let last = x.slice(0, count + 1, 1)?;
        let rows = x.slice(0, 0, count)?.subtract(&last)?;
        Ok(concatenate(&[&rows, &x.slice(0, count, 1)?], 0)?)
    };
    Ok((alone(query)?, alone(key)?))
}

fn rows_of(x: &Tensor, head: usize) -> Result<Vec<Vec<f32>>> {
    let own = x.select(1, head)?;
    let width = own.shape().last().max(1);
    Ok(own.values().chunks(width).map(<[f32]>::to_vec).collect())
}
