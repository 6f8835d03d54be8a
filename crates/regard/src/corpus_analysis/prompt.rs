//! One prompt in detail: direct logit contributions of each part, the logit lens of each layer, and activation patching
//! from another prompt.

use super::target::{TargetedText, answer_name, spelt};
use super::{Output, columns, name};
use crate::figure::{Axis, Bar, Bars, ColourScale, HeatMap, Matrix, Picture, fixed};
use crate::model::Opened;
use crate::terminal::{line, remark};
use anyhow::Result;
use regard_nn::analysis::contribution::{Contributions, contributions, logit_lens};
use regard_nn::analysis::patching::Patching;
use regard_nn::analysis::{Head, Target};
use regard_nn::models::Reads;

/// Tokens that are shown of each layer's answer.
const TOP: usize = 3;

/// Shows and writes direct contributions and the logit lens, where the model has them.
pub fn report(opened: &Opened, targeted: &TargetedText, output: &Output) -> Result<()> {
    let abilities = opened.model.abilities();
    if abilities.continues() {
        match contributions(&*opened.model, &targeted.tokens, targeted.target) {
            Ok(found) => report_contributions(&found, &targeted.answer, output)?,
            Err(error) => remark(format!("no direct contributions: {error}")),
        }
    }
    let tokens = abilities.predicts_tokens() && abilities.reads == Reads::Tokens;
    match targeted.target.position {
        Some(position) if tokens => report_lens(opened, targeted, position, output),
        _ => Ok(()),
    }
}

fn report_contributions(found: &Contributions, answer: &str, output: &Output) -> Result<()> {
    let heads = found.heads.iter().enumerate().flat_map(|(layer, heads)| {
        heads
            .iter()
            .enumerate()
            .map(move |(head, value)| (format!("head {}", name(Head { layer, head })), *value))
    });
    let by_layer = |what: &'static str, values: &[f64]| {
        let named = |(layer, &value): (usize, &f64)| (format!("{what} {layer}"), value);
        values.iter().enumerate().map(named).collect::<Vec<_>>()
    };
    let others: Vec<(String, f64)> = [("embeddings".to_owned(), found.embeddings)]
        .into_iter()
        .chain(by_layer("feed-forward", &found.ffn))
        .chain(by_layer("output bias", &found.attention_bias))
        .chain([("last norm's bias".to_owned(), found.norm_bias)])
        .filter(|(_, value)| *value != 0.0)
        .collect();
    let mut parts: Vec<(String, f64)> = heads.chain(others.clone()).collect();
    let rows = parts.iter().map(|(part, value)| vec![part.clone(), value.to_string()]);
    output.csv("contributions", &["part", "logit"], rows)?;
    let layers = found.heads.len();
    let width = found.heads.iter().map(Vec::len).max().unwrap_or(0);
    let at = |layer: usize, head: usize| found.heads[layer].get(head).map_or(f32::NAN, |&value| value as f32);
    let map = HeatMap::new(Matrix::from_fn(layers, width, at), ColourScale::diverging("logit"))
        .names("layer", "head");
    let (names, bars): (Vec<String>, Vec<Bar>) =
        others.iter().map(|(part, value)| (part.clone(), Bar::new(*value))).unzip();
    let picture = Picture::new(format!("What each part adds to the answer “{answer}”"))
        .subtitle(format!("All parts sum to its logit, {:.2}", found.logit))
        .columns(2)
        .titled_panel("heads", map)
        .titled_panel(
            "other parts",
            Bars::lying(names, Axis::linear("logit"))
                .series("logit", bars)
                .size(420.0, 44.0 + 24.0 * others.len() as f64),
        );
    output.picture("contributions", &picture)?;
    parts.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    let largest = parts.iter().take(6).map(|(part, value)| format!("{part} {value:+.2}"));
    line("");
    line(format!(
        "the logit of “{answer}” is {:.2}; most of it from: {}",
        found.logit,
        largest.collect::<Vec<_>>().join(", ")
    ));
    Ok(())
}

fn report_lens(opened: &Opened, targeted: &TargetedText, position: usize, output: &Output) -> Result<()> {
    let tokenizer = opened.tokenizer()?;
    let mut rows = Vec::new();
    let mut shown = vec![
        ["after".to_owned(), format!("probability of “{}”", targeted.answer), "would answer".to_owned()]
            .to_vec(),
    ];
    for (layer, scores) in logit_lens(&*opened.model, &targeted.tokens, position)?.iter().enumerate() {
        let after = match layer.checked_sub(1) {
            None => "embeddings".to_owned(),
            Some(layer) => format!("layer {layer}"),
        };
        let probabilities = scores.softmax()?.to_vec();
        let mut order: Vec<usize> = (0..probabilities.len()).collect();
        order.sort_by(|&a, &b| probabilities[b].total_cmp(&probabilities[a]).then(a.cmp(&b)));
        let own = probabilities.get(targeted.target.class).copied().unwrap_or(0.0);
        let mut best = Vec::new();
        for (rank, &id) in order.iter().take(TOP).enumerate() {
            let token = spelt(tokenizer, id as u32)?;
            best.push(format!("{token} {:.2}", probabilities[id]));
            rows.push(vec![
                after.clone(),
                (rank + 1).to_string(),
                token,
                probabilities[id].to_string(),
                own.to_string(),
            ]);
        }
        shown.push(vec![after, format!("{own:.3}"), best.join(", ")]);
    }
    output.csv("lens", &["after", "rank", "token", "probability", "answer_probability"], rows.into_iter())?;
    line("");
    columns(&shown);
    Ok(())
}

/// Shows and writes what brings the answer of a prompt back when another one is read: each head, and the stream before each
/// layer at each position.
pub fn patch(opened: &Opened, clean: &TargetedText, other: &TargetedText, output: &Output) -> Result<()> {
    // Where the answers differ, the difference of the two logits is more telling than one logit.
    let against = Some(other.target.class).filter(|&class| class != clean.target.class);
    let target = Target { against, ..clean.target };
    let patching = Patching::new(&*opened.model, &clean.tokens, &other.tokens, target)?;
    let restored = |logit: f64| patching.restored(logit).unwrap_or(f64::NAN);
    let shown = |logit: f64| patching.restored(logit).map(|share| share.to_string()).unwrap_or_default();
    let heads = patching.heads()?;
    let rows = heads.iter().map(|(head, logit)| {
        vec![head.layer.to_string(), head.head.to_string(), logit.to_string(), shown(*logit)]
    });
    output.csv("patching-heads", &["layer", "head", "logit", "restored"], rows)?;
    let streams = patching.residual_by_position()?;
    let pieces = &clean.encoding.pieces;
    let rows = streams.iter().enumerate().flat_map(|(layer, places)| {
        places.iter().enumerate().map(move |(place, logit)| {
            vec![
                layer.to_string(),
                place.to_string(),
                pieces[place].clone(),
                logit.to_string(),
                shown(*logit),
            ]
        })
    });
    output.csv("patching-positions", &["layer", "place", "token", "logit", "restored"], rows)?;
    let layers = heads.iter().map(|(head, _)| head.layer + 1).max().unwrap_or(0);
    let width = heads.iter().map(|(head, _)| head.head + 1).max().unwrap_or(0);
    let by_head = Matrix::from_fn(layers, width, |layer, head| {
        let found = heads.iter().find(|(of, _)| (of.layer, of.head) == (layer, head));
        found.map_or(f32::NAN, |(_, logit)| restored(*logit) as f32)
    });
    let scale = || ColourScale::diverging("restored");
    let mut picture =
        Picture::new(format!("What brings “{}” back", answer_name(opened, clean.target.class)?))
            .subtitle(
            "One value at a time is taken from the first prompt while the other one is read: 0 changes nothing, 1 brings the \
             answer back",
        )
            .titled_panel("each head, at all positions", HeatMap::new(by_head, scale()).names("layer", "head"));
    if !streams.is_empty() {
        let by_place = Matrix::from_fn(streams.len(), pieces.len(), |layer, place| {
            restored(streams[layer][place]) as f32
        });
        let words = (0..pieces.len()).map(|piece| {
            let part = clean.text.get(clean.encoding.offsets[piece].clone()).map(str::trim);
            part.filter(|part| !part.is_empty()).unwrap_or(&pieces[piece]).to_owned()
        });
        let map =
            HeatMap::new(by_place, scale()).column_words(words.collect()).names("before layer", "position");
        picture = picture.titled_panel("the residual stream, at each position", map);
    }
    output.picture("patching", &picture)?;
    let best = strongest(&patching, &heads);
    let mut rows = Vec::new();
    for (head, _) in &best {
        for (place, logit) in patching.head_by_position(*head)?.into_iter().enumerate() {
            let front = [head.layer, head.head, place].map(|number| number.to_string());
            let end = [pieces[place].clone(), logit.to_string(), shown(logit)];
            rows.push(front.into_iter().chain(end).collect());
        }
    }
    let header = ["layer", "head", "place", "token", "logit", "restored"];
    output.csv("patching-heads-by-position", &header, rows.into_iter())?;
    let answer = |class: usize| answer_name(opened, class);
    let what = match against {
        Some(against) => {
            format!("logit of “{}” minus that of “{}”", answer(clean.target.class)?, answer(against)?)
        }
        None => format!("logit of “{}”", answer(clean.target.class)?),
    };
    show_patching(&patching, &best, &what, against.is_none());
    Ok(())
}

/// The heads that bring most of the answer back, from the first.
fn strongest(patching: &Patching, heads: &[(Head, f64)]) -> Vec<(Head, f64)> {
    let mut best: Vec<(Head, f64)> =
        heads.iter().filter_map(|&(head, logit)| Some((head, patching.restored(logit)?))).collect();
    best.sort_by(|a, b| b.1.total_cmp(&a.1));
    best.truncate(5);
    best
}

fn show_patching(patching: &Patching, best: &[(Head, f64)], what: &str, same: bool) {
    line("");
    let [first, other] = [patching.clean, patching.corrupted].map(|logit| fixed(logit, 2));
    line(format!("{what}: first prompt {first}, other {other}"));
    if same {
        line("both prompts have the same answer, so that there is little to bring back: see --other-answer");
    }
    if !best.is_empty() {
        let shown = best.iter().map(|(head, share)| format!("{} {:.0} %", name(*head), 100.0 * share));
        line(format!("heads that bring it back: {}", shown.collect::<Vec<_>>().join(", ")));
    }
}
