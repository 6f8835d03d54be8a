//! The numbers that a file of its own holds.

use crate::image;
use crate::inside::answer::{Candidate, Classes, Kind, candidates, classes};
use crate::inside::flow::{MOST_TOKENS, flows};
use crate::inside::{Grid, Group, HeadMeasures, Input, Reading, Scale, Shown, Which, measure};
use crate::server::{Description, describe};
use crate::usage::Usage;
use anyhow::{Result, bail};
use base64::Engine as _;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// Which heads are wanted; all if nothing is said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Who looks at whom.
    pub group: Option<Group>,
    /// A layer.
    pub layer: Option<usize>,
    /// A head.
    pub head: Option<usize>,
}

/// So many bytes of numbers fit in a file that a browser opens gladly.
const MOST_BYTES: usize = 32 << 20;
/// One head alone may have so many: a text of 4,096 tokens.
const MOST_ALONE: usize = 80 << 20;
/// So many of them may be flow.
const MOST_FLOW: usize = 8 << 20;
/// So many of the best next tokens are spelt.
const SPELT: usize = 200;

/// Everything that the page may ask for.
#[derive(Debug, Serialize)]
pub struct Held {
    reading: Description,
    text: String,
    second: String,
    picture: Option<String>,
    start: Start,
    heads: BTreeMap<String, BTreeMap<&'static str, String>>,
    measures: BTreeMap<String, HeadMeasures>,
    flow: BTreeMap<String, HeldFlow>,
    classes: Option<Classes>,
    next: Option<Next>,
}

/// What is selected when the file is opened.
#[derive(Debug, Serialize)]
struct Start {
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<Group>,
    #[serde(skip_serializing_if = "Option::is_none")]
    layer: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<usize>,
    view: &'static str,
}

#[derive(Debug, Serialize)]
struct HeldFlow {
    layers: usize,
    tokens: usize,
    raw: String,
    rollout: String,
}

#[derive(Debug, Serialize)]
struct Next {
    best: Vec<Candidate>,
    scores: String,
}

impl Wanted {
    /// Whether an attention is wanted.
    fn site(self, reading: &Reading, site: usize) -> bool {
        let about = &reading.sites()[site];
        self.group.is_none_or(|group| group == about.group)
            && self.layer.is_none_or(|layer| layer == about.layer)
    }

    /// The wanted heads: attention and head.
    pub fn heads(self, reading: &Reading) -> Result<Vec<(usize, usize)>> {
        let sites = (0..reading.sites().len()).filter(|&site| self.site(reading, site));
        let of_site = |site: usize| {
            let heads = 0..reading.sites()[site].heads;
            heads.filter(|&head| self.head.is_none_or(|wanted| wanted == head)).map(move |head| (site, head))
        };
        let heads: Vec<(usize, usize)> = sites.flat_map(of_site).collect();
        if heads.is_empty() && !reading.sites().is_empty() {
            bail!(Usage(format!("there is no such head in this model: it has {}", listed(reading))));
        }
        Ok(heads)
    }
}

/// The heads that there are, in words.
fn listed(reading: &Reading) -> String {
    let mut groups: Vec<String> = Vec::new();
    for (name, group) in [
        ("self", Group::Itself),
        ("encoder", Group::Encoder),
        ("decoder", Group::Decoder),
        ("cross", Group::Cross),
    ] {
        let layers: Vec<usize> =
            reading.sites().iter().filter(|site| site.group == group).map(|site| site.heads).collect();
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

impl Held {
    /// What a reading has to show of the wanted heads.
    pub fn new(model: &str, reading: &Reading, input: &Input, wanted: Wanted) -> Result<Self> {
        let (text, second, picture) = match input {
            Input::Text(text, second) => (text.clone(), second.clone(), None),
            Input::Picture(bytes) => {
                let base64 = base64::engine::general_purpose::STANDARD.encode(bytes);
                (
                    String::new(),
                    String::new(),
                    Some(format!("data:{};base64,{base64}", image::media_type(bytes))),
                )
            }
        };
        let heads = wanted.heads(reading)?;
        ensure_small(reading, &heads)?;
        let kind = Kind::of(reading.model());
        let scores = reading.scores().map(|scores| base64(&scores.values())).unwrap_or_default();
        let view = match (wanted.head, reading.sites().is_empty()) {
            (Some(_), _) => "head",
            (None, false) => "heads",
            (None, true) => "classes",
        };
        Ok(Self {
            reading: describe("held", model, reading),
            text,
            second,
            picture,
            start: Start { group: wanted.group, layer: wanted.layer, head: wanted.head, view },
            measures: measures(reading)?,
            heads: numbers(reading, &heads)?,
            flow: held_flows(reading)?,
            classes: if kind == Kind::Class { Some(classes(reading)?) } else { None },
            next: match kind {
                Kind::Next => Some(Next { best: candidates(reading, SPELT)?, scores }),
                _ => None,
            },
        })
    }
}

/// `f32` numbers, little-endian, in base64.
fn base64(values: &[f32]) -> String {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// How many weights of a head there are: those that a mask hides are not.
fn pairs(reading: &Reading, site: usize) -> usize {
    let about = &reading.sites()[site];
    let (queries, keys) = reading.sides(about.group);
    match about.causal {
        true => (1..=queries.len()).map(|seen| seen.min(keys.len())).sum(),
        false => queries.len() * keys.len(),
    }
}

/// Whether the scores of a head are held too: where something is added by distance the vectors do not tell them.
fn holds_scores(reading: &Reading, site: usize) -> bool {
    reading.sites()[site].biased || pairs(reading, site) <= FEW_PAIRS
}

/// Of so many weights the scores are held, to be told as they were computed and not only computed again.
const FEW_PAIRS: usize = 1 << 18;

/// Fails if the numbers would not fit, and says what would.
fn ensure_small(reading: &Reading, heads: &[(usize, usize)]) -> Result<()> {
    let bytes = |&(site, _): &(usize, usize)| {
        let about = &reading.sites()[site];
        let (queries, keys) = reading.sides(about.group);
        let each = if holds_scores(reading, site) { 8 } else { 4 };
        each * pairs(reading, site) + 12 * (queries.len() + keys.len()) * about.width
    };
    let total: usize = heads.iter().map(bytes).sum();
    if total > if heads.len() == 1 { MOST_ALONE } else { MOST_BYTES } {
        let size = total / 750_000;
        let problem = match heads.len() {
            1 => format!(
                "the numbers of this head would make a file of {size} MB: look at it with regard serve"
            ),
            count => {
                let fitting = (MOST_BYTES / (total / count).max(1)).max(1);
                format!(
                    "the numbers of {count} heads would make a file of {size} MB; {fitting} would fit: choose some with \
                     --layer and --head, or look at them with regard serve"
                )
            }
        };
        bail!(Usage(problem));
    }
    Ok(())
}

/// Weights, scores and vectors of each head.
fn numbers(
    reading: &Reading,
    heads: &[(usize, usize)],
) -> Result<BTreeMap<String, BTreeMap<&'static str, String>>> {
    let going = AtomicBool::new(false);
    let mut all = BTreeMap::new();
    for &(site, head) in heads {
        let about = &reading.sites()[site];
        let vectors = reading.vectors(site, &going)?;
        let which = Which { site, head, scale: Scale::Raw, shown: Shown::default() };
        let grid = Grid::new(reading, which, &going)?;
        let (rows, columns) = grid.size();
        // Of each row, what a mask does not hide.
        let seen = |row: usize| if about.causal { (row + 1).min(columns) } else { columns };
        let mut weights = Vec::with_capacity(pairs(reading, site));
        for row in 0..rows {
            weights.extend(grid.block(row..row + 1, 0..seen(row))?);
        }
        let mut numbers =
            BTreeMap::from([("weights", base64(&weights)), ("norms", base64(&vectors.norms(head)?))]);
        for name in vectors.names() {
            let asking = name.starts_with("query") || name == "heads";
            let positions: Vec<usize> = (0..if asking { rows } else { columns }).collect();
            numbers.insert(name, base64(&vectors.rows(name, head, &positions)?));
        }
        if holds_scores(reading, site) {
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
fn measures(reading: &Reading) -> Result<BTreeMap<String, HeadMeasures>> {
    let going = AtomicBool::new(false);
    let of = |site: usize| Ok((reading.sites()[site].name.clone(), measure(reading, site, &going)?));
    (0..reading.sites().len()).map(of).collect()
}

/// Every position through the layers, where that is little.
fn held_flows(reading: &Reading) -> Result<BTreeMap<String, HeldFlow>> {
    let going = AtomicBool::new(false);
    let mut all = BTreeMap::new();
    for group in [Group::Itself, Group::Encoder, Group::Decoder] {
        let layers = reading.sites().iter().filter(|site| site.group == group).count();
        let tokens = reading.sides(group).0.len();
        if layers == 0 || tokens > MOST_TOKENS || 8 * layers * tokens * tokens > MOST_FLOW {
            continue;
        }
        let followed = flows(reading, group, &(0..tokens).collect::<Vec<_>>(), &going)?;
        let join = |part: fn(&crate::inside::flow::Flow) -> &Vec<f32>| {
            base64(&followed.iter().flat_map(part).copied().collect::<Vec<f32>>())
        };
        let name = serde_json::to_value(group)?.as_str().unwrap_or_default().to_owned();
        let (raw, rollout) = (join(|flow| &flow.raw), join(|flow| &flow.rollout));
        all.insert(name, HeldFlow { layers, tokens, raw, rollout });
    }
    Ok(all)
}
