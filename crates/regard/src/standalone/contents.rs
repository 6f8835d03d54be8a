//! The numbers of the standalone page.

use crate::error::UsageError;
use crate::forward_pass::flow::{MOST_TOKENS, flows};
use crate::forward_pass::lens::{LensCell, lens, scores_at};
use crate::forward_pass::prediction::{Candidate, Classes, PredictionKind, best, classes};
use crate::forward_pass::{
    AttentionMap, ForwardPass, Group, HeadMeasures, Input, MapKey, MapScale, TokenDisplay, measure,
};
use crate::image;
use crate::server::{Description, describe};
use anyhow::{Result, bail};
use base64::Engine as _;
use regard_nn::tensor::Tensor;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// Which heads to include; all by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeadFilter {
    /// Which tokens are queries and which are keys.
    pub group: Option<Group>,
    /// A layer.
    pub layer: Option<usize>,
    /// A head.
    pub head: Option<usize>,
}

/// The most bytes of numbers in a file that browsers open easily.
const MOST_BYTES: usize = 32 << 20;
/// The most bytes of one head alone: a text of 4,096 tokens.
const MOST_ALONE: usize = 80 << 20;
/// The most bytes of attention flow.
const MOST_FLOW: usize = 8 << 20;
/// The number of best next tokens that are spelled out.
const SPELT: usize = 200;

/// Everything that the page may request.
#[derive(Debug, Serialize)]
pub struct PageContents {
    reading: Description,
    text: String,
    second: String,
    picture: Option<String>,
    start: Start,
    heads: BTreeMap<String, BTreeMap<&'static str, String>>,
    measures: BTreeMap<String, HeadMeasures>,
    flow: BTreeMap<String, FlowNumbers>,
    lens: Option<LensNumbers>,
    #[serde(flatten)]
    prediction: Prediction,
    /// The same input without changes inside the model, if there are any.
    base: Option<Base>,
}

/// What the model predicts.
#[derive(Debug, Serialize)]
struct Prediction {
    classes: Option<Classes>,
    next: Option<Next>,
}

/// The prediction without changes inside the model.
#[derive(Debug, Serialize)]
struct Base {
    reading: Description,
    /// The same heads as with the changes, where the file does not become too large.
    heads: BTreeMap<String, BTreeMap<&'static str, String>>,
    #[serde(flatten)]
    prediction: Prediction,
}

/// What each layer would predict at some positions.
#[derive(Debug, Serialize)]
struct LensNumbers {
    positions: [usize; 2],
    cells: Vec<LensCell>,
}

/// The selection when the file is opened.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Start {
    /// Which tokens are queries and which are keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Group>,
    /// A layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layer: Option<usize>,
    /// A head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<usize>,
    /// The position of a query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<usize>,
    /// One of [`VIEWS`](super::VIEWS).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub view: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct FlowNumbers {
    layers: usize,
    tokens: usize,
    raw: String,
    rollout: String,
}

#[derive(Debug, Serialize)]
struct Next {
    position: usize,
    best: Vec<Candidate>,
    scores: String,
}

impl HeadFilter {
    /// Whether an attention is chosen.
    fn site(self, pass: &ForwardPass, site: usize) -> bool {
        let about = &pass.sites()[site];
        self.group.is_none_or(|group| group == about.group)
            && self.layer.is_none_or(|layer| layer == about.layer)
    }

    /// The chosen heads: attention and head.
    pub fn heads(self, pass: &ForwardPass) -> Result<Vec<(usize, usize)>> {
        let sites = (0..pass.sites().len()).filter(|&site| self.site(pass, site));
        let of_site = |site: usize| {
            let heads = 0..pass.sites()[site].heads;
            heads.filter(|&head| self.head.is_none_or(|wanted| wanted == head)).map(move |head| (site, head))
        };
        let heads: Vec<(usize, usize)> = sites.flat_map(of_site).collect();
        if heads.is_empty() && !pass.sites().is_empty() {
            bail!(UsageError(format!("there is no such head in this model: it has {}", listed(pass))));
        }
        Ok(heads)
    }
}

/// The heads that there are, in words.
fn listed(pass: &ForwardPass) -> String {
    let mut groups: Vec<String> = Vec::new();
    for (name, group) in [
        ("self", Group::Itself),
        ("encoder", Group::Encoder),
        ("decoder", Group::Decoder),
        ("cross", Group::Cross),
    ] {
        let layers: Vec<usize> =
            pass.sites().iter().filter(|site| site.group == group).map(|site| site.heads).collect();
        if let Some(heads) = layers.iter().max() {
            groups.push(format!(
                "{name} attention in layers 0–{} with heads 0–{}",
                layers.len() - 1,
                heads - 1
            ));
        }
    }
    groups.join(", ")
}

impl PageContents {
    /// The numbers of a forward pass, for the chosen heads.
    pub fn new(model: &str, pass: &ForwardPass, input: &Input, filter: HeadFilter) -> Result<Self> {
        let (text, second, picture) = match input {
            Input::Text(text, second) => (text.clone(), second.clone(), None),
            Input::Ids(..) => Default::default(),
            Input::Picture(bytes) => {
                let base64 = base64::engine::general_purpose::STANDARD.encode(bytes);
                (
                    String::new(),
                    String::new(),
                    Some(format!("data:{};base64,{base64}", image::media_type(bytes))),
                )
            }
        };
        let heads = filter.heads(pass)?;
        ensure_small(pass, &heads)?;
        let view = match (filter.head, pass.sites().is_empty()) {
            (Some(_), _) => "head",
            (None, false) => "heads",
            (None, true) => "classes",
        };
        Ok(Self {
            reading: describe("held", model, pass),
            text,
            second,
            picture,
            start: Start {
                group: filter.group,
                layer: filter.layer,
                head: filter.head,
                query: None,
                view: Some(view),
            },
            measures: measures(pass)?,
            heads: numbers(pass, &heads)?,
            flow: flow_numbers(pass)?,
            lens: lens_numbers(pass)?,
            prediction: Prediction::new(pass)?,
            base: None,
        })
    }

    /// The same with the prediction of a pass over the same input without changes inside the model.
    pub fn compared_with(mut self, base: &ForwardPass) -> Result<Self> {
        let reading = describe("base", &self.reading.model, base);
        let bytes: usize = self.heads.values().flat_map(BTreeMap::values).map(String::len).sum();
        let held = |site: usize, head: usize| {
            self.heads.contains_key(&format!("{}/{head}", base.sites()[site].name)) && bytes <= MOST_BYTES / 2
        };
        let all = (0..base.sites().len())
            .flat_map(|site| (0..base.sites()[site].heads).map(move |head| (site, head)));
        let heads: Vec<_> = all.filter(|&(site, head)| held(site, head)).collect();
        self.base = Some(Base { reading, heads: numbers(base, &heads)?, prediction: Prediction::new(base)? });
        Ok(self)
    }

    /// The same with something else selected when it is opened; what is not given stays.
    #[must_use]
    pub fn starting_at(mut self, start: Start) -> Self {
        let Start { group, layer, head, query, view } = self.start;
        let usual = if start.head.is_some() { Some("head") } else { view };
        self.start = Start {
            group: start.group.or(group),
            layer: start.layer.or(layer),
            head: start.head.or(head),
            query: start.query.or(query),
            view: start.view.or(usual),
        };
        self
    }
}

impl Prediction {
    fn new(pass: &ForwardPass) -> Result<Self> {
        let kind = PredictionKind::of(pass.model());
        let last = pass.predicting().len().saturating_sub(1);
        // The mask, or the last word.
        let ordinary = || pass.predicting().iter().rposition(|token| !token.special).unwrap_or(last);
        let masked = |text: &str| text.to_lowercase().contains("mask");
        let mask = || pass.predicting().iter().position(|token| token.special && masked(&token.text));
        let next = match kind {
            PredictionKind::Next => Some((last, pass.scores().map(Tensor::to_vec))),
            PredictionKind::Masked => {
                let position = mask().unwrap_or_else(ordinary);
                Some((position, Some(scores_at(pass, None, position)?)))
            }
            _ => None,
        };
        let next = next.map(|(position, scores)| {
            let scores = scores.unwrap_or_default();
            let best = best(pass, position, &scores, SPELT)?;
            anyhow::Ok(Next { position, best, scores: base64(&scores) })
        });
        let classes = if kind == PredictionKind::Class { Some(classes(pass)?) } else { None };
        Ok(Self { classes, next: next.transpose()? })
    }
}

/// The most positions whose answers, layer by layer, are in a file.
const LENS_POSITIONS: usize = 24;

fn lens_numbers(pass: &ForwardPass) -> Result<Option<LensNumbers>> {
    let tokens = matches!(PredictionKind::of(pass.model()), PredictionKind::Next | PredictionKind::Masked);
    if !tokens || pass.residuals().stream().is_empty() {
        return Ok(None);
    }
    let end = pass.predicting().len();
    let positions = end.saturating_sub(LENS_POSITIONS)..end;
    let cells = lens(pass, positions.clone(), None, &AtomicBool::new(false))?.cells;
    Ok(Some(LensNumbers { positions: [positions.start, positions.end], cells }))
}

/// `f32` numbers, little-endian, in base64.
fn base64(values: &[f32]) -> String {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// How many weights of a head there are: those that a mask hides are not.
fn pairs(pass: &ForwardPass, site: usize) -> usize {
    let about = &pass.sites()[site];
    let (queries, keys) = pass.sides(about.group);
    match about.causal {
        true => (1..=queries.len()).map(|seen| seen.min(keys.len())).sum(),
        false => queries.len() * keys.len(),
    }
}

/// Whether the scores of a head are held too: with a bias by distance they do not follow from the vectors.
fn holds_scores(pass: &ForwardPass, site: usize) -> bool {
    pass.sites()[site].biased || pairs(pass, site) <= FEW_PAIRS
}

/// Up to so many weights, scores are included as they were computed, not recomputed by the page.
const FEW_PAIRS: usize = 1 << 18;

/// Fails if the numbers would not fit, with a hint at what would.
fn ensure_small(pass: &ForwardPass, heads: &[(usize, usize)]) -> Result<()> {
    let bytes = |&(site, _): &(usize, usize)| {
        let about = &pass.sites()[site];
        let (queries, keys) = pass.sides(about.group);
        let each = if holds_scores(pass, site) { 8 } else { 4 };
        each * pairs(pass, site) + 12 * (queries.len() + keys.len()) * about.width
    };
    let total: usize = heads.iter().map(bytes).sum();
    if total > if heads.len() == 1 { MOST_ALONE } else { MOST_BYTES } {
        let size = total / 750_000;
        let problem = match heads.len() {
            1 => {
                format!("the numbers of this head would make a file of {size} MB: view it with regard serve")
            }
            count => {
                let fitting = (MOST_BYTES / (total / count).max(1)).max(1);
                format!(
                    "the numbers of {count} heads would make a file of {size} MB; {fitting} would fit: choose some with \
                     --layer and --head, or view them with regard serve"
                )
            }
        };
        bail!(UsageError(problem));
    }
    Ok(())
}

/// Weights, scores and vectors of each head.
fn numbers(
    pass: &ForwardPass,
    heads: &[(usize, usize)],
) -> Result<BTreeMap<String, BTreeMap<&'static str, String>>> {
    let going = AtomicBool::new(false);
    let mut all = BTreeMap::new();
    for &(site, head) in heads {
        let about = &pass.sites()[site];
        let vectors = pass.vectors(site, &going)?;
        let which = MapKey { site, head, scale: MapScale::Raw, shown: TokenDisplay::default() };
        let grid = AttentionMap::new(pass, which, &going)?;
        let (rows, columns) = grid.size();
        // Of each row, what a mask does not hide.
        let seen = |row: usize| if about.causal { (row + 1).min(columns) } else { columns };
        let mut weights = Vec::with_capacity(pairs(pass, site));
        for row in 0..rows {
            weights.extend(grid.block(row..row + 1, 0..seen(row))?);
        }
        let mut numbers = BTreeMap::from([("weights", base64(&weights))]);
        if vectors.has_norms() {
            numbers.insert("norms", base64(&vectors.norms(head)?));
        }
        for name in vectors.names() {
            let asking = name.starts_with("query") || name == "heads";
            let positions: Vec<usize> = (0..if asking { rows } else { columns }).collect();
            numbers.insert(name, base64(&vectors.rows(name, head, &positions)?));
        }
        if holds_scores(pass, site) {
            let of = |row: usize| Ok(vectors.scores(head, row)?.map(|scores| scores[..seen(row)].to_vec()));
            if let Some(scores) = (0..rows).map(of).collect::<Result<Option<Vec<_>>>>()? {
                numbers.insert("scores", base64(&scores.concat()));
            }
        }
        all.insert(format!("{}/{head}", about.name), numbers);
    }
    Ok(all)
}

/// The measures of all heads: the page orders them by these.
fn measures(pass: &ForwardPass) -> Result<BTreeMap<String, HeadMeasures>> {
    let going = AtomicBool::new(false);
    let of = |site: usize| Ok((pass.sites()[site].name.clone(), measure(pass, site, &going)?));
    (0..pass.sites().len()).map(of).collect()
}

/// Every position through the layers, where that is little.
fn flow_numbers(pass: &ForwardPass) -> Result<BTreeMap<String, FlowNumbers>> {
    let going = AtomicBool::new(false);
    let mut all = BTreeMap::new();
    for group in [Group::Itself, Group::Encoder, Group::Decoder] {
        let layers = pass.sites().iter().filter(|site| site.group == group).count();
        let tokens = pass.sides(group).0.len();
        if layers == 0 || tokens > MOST_TOKENS || 8 * layers * tokens * tokens > MOST_FLOW {
            continue;
        }
        let followed = flows(pass, group, &(0..tokens).collect::<Vec<_>>(), &going)?;
        let join = |part: fn(&crate::forward_pass::flow::Flow) -> &Vec<f32>| {
            base64(&followed.iter().flat_map(part).copied().collect::<Vec<f32>>())
        };
        let name = serde_json::to_value(group)?.as_str().unwrap_or_default().to_owned();
        let (raw, rollout) = (join(|flow| &flow.raw), join(|flow| &flow.rollout));
        all.insert(name, FlowNumbers { layers, tokens, raw, rollout });
    }
    Ok(all)
}
