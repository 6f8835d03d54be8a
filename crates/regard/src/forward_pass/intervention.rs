//! Interventions as data: the changes inside a model that a link, a request or `regard view --change` names.
//!
//! ```text
//! zero:layers.5.self:1                    head 1 of the attention layers.5.self outputs zero
//! mean:layers.5.self:1                    it outputs its mean over the text
//! block:layers.5.self:1:7:2               query 7 does not attend to key 2 in head 1; * instead of 1: in all heads
//! off:layers.5.self, off:layers.5.ffn     a whole sublayer adds nothing
//! scale:layers.5.residual.after:*:0.5     the residual stream is halved; 7 instead of *: at position 7
//! steer:layers.5.residual.after:*:1:TEXT  the residual stream is moved toward that of another text
//! strike:3                                the text is read without its token 3
//! ```

use super::input::{EncodedInput, Input};
use super::pass::Interventions;
use super::site::Site;
use crate::error::usage_error;
use crate::model::Opened;
use anyhow::{Context as _, Result};
use regard_nn::models::Predicts;
use regard_nn::tensor::{Ids, Tensor};
use regard_nn::{Context, Probe};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The most interventions of a pass.
pub const MOST_INTERVENTIONS: usize = 256;
/// The largest factor.
const LARGEST_FACTOR: f32 = 1000.0;

/// One change inside a model.
#[derive(Debug, Clone, PartialEq)]
pub enum Intervention {
    /// Zero ablation of a head.
    Zero {
        /// The attention, such as `layers.5.self`.
        attention: String,
        /// The head in it.
        head: usize,
    },
    /// Mean ablation of a head, by its mean over the text.
    Mean {
        /// The attention.
        attention: String,
        /// The head in it.
        head: usize,
    },
    /// Attention knockout of one pair.
    Block {
        /// The attention.
        attention: String,
        /// One head, or all.
        head: Option<usize>,
        /// The position of the query.
        query: usize,
        /// The position of the key.
        key: usize,
    },
    /// A sublayer that adds nothing to the residual stream.
    Off {
        /// An attention or feed-forward layer, such as `layers.5.ffn`.
        sublayer: String,
    },
    /// A residual stream that is multiplied.
    Scale {
        /// Such as `layers.5.residual.after`.
        site: String,
        /// One position, or all.
        position: Option<usize>,
        /// What it is multiplied with.
        factor: f32,
    },
    /// A text that is read without one of its tokens.
    Strike {
        /// The position of the token in the whole text.
        position: usize,
    },
    /// A residual stream that is moved toward that of another text, as it is where that text is continued or classified.
    Steer {
        /// Such as `layers.5.residual.after`.
        site: String,
        /// One position, or all.
        position: Option<usize>,
        /// How far: 1 is all the way.
        factor: f32,
        /// The other text.
        text: String,
    },
}

impl FromStr for Intervention {
    type Err = anyhow::Error;

    fn from_str(written: &str) -> Result<Self> {
        let wrong = || {
            usage_error(format!(
                "“{written}” is no change: write zero:ATTENTION:HEAD, mean:ATTENTION:HEAD, block:ATTENTION:HEAD:QUERY:KEY, \
                 off:SUBLAYER, scale:SITE:POSITION:FACTOR, steer:SITE:POSITION:FACTOR:TEXT or strike:POSITION"
            ))
        };
        let (kind, rest) = written.split_once(':').ok_or_else(wrong)?;
        let count = if kind == "steer" { 4 } else { usize::MAX };
        let parts: Vec<&str> = rest.splitn(count, ':').collect();
        let number = |text: &str| text.parse::<usize>().map_err(|_| wrong());
        let some = |text: &str| if text == "*" { Ok(None) } else { number(text).map(Some) };
        let factor = |text: &str| {
            let factor = text.parse::<f32>().ok().filter(|factor| factor.abs() <= LARGEST_FACTOR);
            factor.ok_or_else(|| {
                usage_error(format!("“{text}” is no factor from -{LARGEST_FACTOR} to {LARGEST_FACTOR}"))
            })
        };
        let own = |text: &str| text.to_owned();
        Ok(match (kind, &parts[..]) {
            ("zero", &[attention, head]) => Self::Zero { attention: own(attention), head: number(head)? },
            ("mean", &[attention, head]) => Self::Mean { attention: own(attention), head: number(head)? },
            ("block", &[attention, head, query, key]) => Self::Block {
                attention: own(attention),
                head: some(head)?,
                query: number(query)?,
                key: number(key)?,
            },
            ("strike", &[position]) => Self::Strike { position: number(position)? },
            ("off", &[sublayer]) => Self::Off { sublayer: own(sublayer) },
            ("scale", &[site, position, by]) => {
                Self::Scale { site: own(site), position: some(position)?, factor: factor(by)? }
            }
            ("steer", &[site, position, by, text]) => Self::Steer {
                site: own(site),
                position: some(position)?,
                factor: factor(by)?,
                text: own(text),
            },
            _ => return Err(wrong()),
        })
    }
}

impl fmt::Display for Intervention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let some =
            |number: &Option<usize>| number.map_or_else(|| "*".to_owned(), |number| number.to_string());
        match self {
            Self::Zero { attention, head } => write!(f, "zero:{attention}:{head}"),
            Self::Mean { attention, head } => write!(f, "mean:{attention}:{head}"),
            Self::Block { attention, head, query, key } => {
                write!(f, "block:{attention}:{}:{query}:{key}", some(head))
            }
            Self::Strike { position } => write!(f, "strike:{position}"),
            Self::Off { sublayer } => write!(f, "off:{sublayer}"),
            Self::Scale { site, position, factor } => write!(f, "scale:{site}:{}:{factor}", some(position)),
            Self::Steer { site, position, factor, text } => {
                write!(f, "steer:{site}:{}:{factor}:{text}", some(position))
            }
        }
    }
}

impl Intervention {
    /// The layer that it changes, such as `layers.5`, and whether it changes what that layer reads; none if it changes the text.
    pub(super) fn layer(&self) -> Option<(&str, bool)> {
        let site = match self {
            Self::Zero { attention, .. } | Self::Mean { attention, .. } | Self::Block { attention, .. } => {
                attention
            }
            Self::Off { sublayer } => sublayer,
            Self::Scale { site, .. } | Self::Steer { site, .. } => site,
            Self::Strike { .. } => return None,
        };
        let (layer, part) = site.split_once(".residual.").or_else(|| site.rsplit_once('.'))?;
        Some((layer, part == "before"))
    }

    /// The position of the token that it strikes out.
    fn struck(&self) -> Option<usize> {
        match self {
            Self::Strike { position } => Some(*position),
            _ => None,
        }
    }
}

/// Whether a text is the same after these changes as after those.
pub fn strike_alike(these: &[Intervention], those: &[Intervention]) -> bool {
    let struck =
        |changes: &[Intervention]| changes.iter().filter_map(Intervention::struck).collect::<BTreeSet<_>>();
    struck(these) == struck(those)
}

/// Interventions as they were written.
pub fn parse(written: &[String]) -> Result<Vec<Intervention>> {
    if written.len() > MOST_INTERVENTIONS {
        return Err(usage_error(format!(
            "{} changes are too many: at most {MOST_INTERVENTIONS} are made",
            written.len()
        )));
    }
    written.iter().map(|one| one.parse()).collect()
}

/// Leaves the struck tokens out of what a model reads. Positions are those of the whole text.
pub fn strike(interventions: &[Intervention], opened: &Opened, input: &mut EncodedInput) -> Result<()> {
    let struck: Vec<usize> = interventions.iter().filter_map(Intervention::struck).collect();
    if struck.is_empty() {
        return Ok(());
    }
    if opened.model.abilities().pictures().is_some() {
        return Err(usage_error("patches of a picture cannot be struck out"));
    }
    let count = input.source.len();
    if let Some(position) = struck.iter().find(|&&position| position >= count) {
        return Err(usage_error(format!(
            "there are {count} tokens: there is no position {position} to strike"
        )));
    }
    let kept: Vec<usize> = (0..count).filter(|position| !struck.contains(position)).collect();
    if kept.is_empty() {
        return Err(usage_error("no token would be left to read"));
    }
    let some = |ids: &Option<Ids>| -> Result<Option<Ids>> {
        let Some(ids) = ids else { return Ok(None) };
        let values: Vec<u32> = kept.iter().map(|&position| ids.values()[position]).collect();
        Ok(Some(Ids::new(&values, [1, kept.len()])?))
    };
    input.inputs.ids = some(&input.inputs.ids)?;
    input.inputs.types = some(&input.inputs.types)?;
    input.source = kept.iter().map(|&position| input.source[position].clone()).collect();
    Ok(())
}

/// What interventions do to the probe of a pass over an input. Fails if the model has no such head, site or position.
pub fn resolve(
    interventions: &[Intervention],
    opened: &Opened,
    input: &EncodedInput,
    (most, cancel): (usize, &AtomicBool),
) -> Result<Option<Interventions>> {
    if interventions.is_empty() {
        return Ok(None);
    }
    let sites = Site::all(&*opened.model);
    let resolver = Resolver { opened, input, sites: &sites, most, cancel };
    let edits = interventions.iter().map(|one| resolver.edit(one)).collect::<Result<Vec<_>>>()?;
    Ok(Some(Arc::new(move |probe| edits.iter().fold(probe, |probe, edit| edit(probe)))))
}

struct Resolver<'a> {
    opened: &'a Opened,
    input: &'a EncodedInput,
    sites: &'a [Site],
    most: usize,
    cancel: &'a AtomicBool,
}

impl Resolver<'_> {
    fn edit(&self, intervention: &Intervention) -> Result<Interventions> {
        Ok(match intervention.clone() {
            Intervention::Zero { attention, head } => {
                self.check_head(&attention, head)?;
                Arc::new(move |probe| probe.zero_head(&attention, head))
            }
            Intervention::Mean { attention, head } => {
                self.check_head(&attention, head)?;
                Arc::new(move |probe| probe.mean_head(&attention, head))
            }
            Intervention::Block { attention, head, query, key } => {
                let site = self.check_head(&attention, head.unwrap_or(0))?;
                self.check_position(site.group.queries_target(), query)?;
                self.check_position(site.group.keys_target(), key)?;
                Arc::new(move |probe| probe.block(&attention, head, query, key))
            }
            // Done before the text is read: see `strike`.
            Intervention::Strike { .. } => Arc::new(|probe| probe),
            Intervention::Off { sublayer } => {
                self.check_layer(&sublayer, &["self", "cross", "ffn"])?;
                let site = format!("{sublayer}.output");
                Arc::new(move |probe| probe.scale(&site, None, 0.0))
            }
            Intervention::Scale { site, position, factor } => {
                self.check_residual(&site, position)?;
                Arc::new(move |probe| probe.scale(&site, position, factor))
            }
            Intervention::Steer { site, position, factor, text } => {
                self.check_residual(&site, position)?;
                let from = self.predicting(&site, self.input);
                let toward = self.stream_of(&site, &text)?;
                Arc::new(move |probe| probe.steer(&site, position, (from, toward.clone()), factor))
            }
        })
    }

    fn check_head(&self, attention: &str, head: usize) -> Result<&Site> {
        let site = self.sites.iter().find(|site| site.name == attention);
        let site = site.ok_or_else(|| usage_error(format!("the model has no attention {attention}")))?;
        match head < site.heads {
            true => Ok(site),
            false => {
                Err(usage_error(format!("{attention} has {} heads: there is no head {head}", site.heads)))
            }
        }
    }

    fn check_position(&self, target: bool, position: usize) -> Result<()> {
        let count = if target { self.input.target.len() } else { self.input.source.len() };
        match position < count {
            true => Ok(()),
            false => Err(usage_error(format!(
                "there are {count} tokens: there is no position {position} to change"
            ))),
        }
    }

    /// A part of a layer that has attention.
    fn check_layer(&self, name: &str, parts: &[&str]) -> Result<()> {
        let known = parts.iter().any(|part| {
            let layer = name.strip_suffix(part).and_then(|name| name.strip_suffix('.'));
            let crosses = *part == "cross";
            layer.is_some_and(|layer| {
                let own = format!("{layer}.{}", if crosses { "cross" } else { "self" });
                self.sites.iter().any(|site| site.name == own)
            })
        });
        match known {
            true => Ok(()),
            false => Err(usage_error(format!(
                "the model has no {name}: a layer's parts are {}, as in layers.0.{}",
                parts.join(", "),
                parts[0]
            ))),
        }
    }

    fn check_residual(&self, site: &str, position: Option<usize>) -> Result<()> {
        self.check_layer(site, &["residual.before", "residual.middle", "residual.after"])?;
        position.map_or(Ok(()), |position| self.check_position(self.is_target(site), position))
    }

    fn is_target(&self, site: &str) -> bool {
        !self.input.target.is_empty() && !site.starts_with("encoder.")
    }

    /// The position from which a text is continued or classified.
    fn predicting(&self, site: &str, input: &EncodedInput) -> usize {
        let last = match self.opened.model.abilities().predicts {
            Predicts::NextToken if self.is_target(site) => input.target.len(),
            Predicts::NextToken => input.source.len(),
            _ => 1,
        };
        last.saturating_sub(1)
    }

    /// The residual stream of another text where that is continued or classified.
    fn stream_of(&self, site: &str, text: &str) -> Result<Tensor> {
        let other = Input::Text(text.to_owned(), String::new()).encode(self.opened, self.most);
        let other = other.context("the text to steer toward")?;
        let layer = site.split_once(".residual.").map_or(site, |(layer, _)| layer);
        let probe = Probe::new().record(site).stop_after(layer);
        let context = Context::inference().with_cancel(self.cancel).with_probe(&probe);
        self.opened.model.hidden(&context, &other.inputs)?;
        let stream = probe.get(site)?.with_context(|| format!("the model did not pass {site}"))?; // (1, T, C)
        Ok(stream.select(1, self.predicting(site, &other))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for written in [
            "zero:layers.5.self:1",
            "mean:decoder.layers.0.cross:0",
            "block:layers.5.self:1:7:2",
            "block:layers.5.self:*:7:2",
            "off:layers.5.ffn",
            "strike:3",
            "scale:layers.5.residual.after:*:0.5",
            "steer:layers.5.residual.after:3:-1.5:time: 12:30; a text",
        ] {
            assert_eq!(written.parse::<Intervention>().unwrap().to_string(), written);
        }
        for written in [
            "",
            "zero",
            "zero:layers.0.self",
            "zero:layers.0.self:x",
            "zero:layers.0.self:1:2",
            "off:",
            "scale:layers.0.residual.after:*:inf",
            "scale:layers.0.residual.after:*:1e9",
            "steer:a:*:1",
            "melt:a:1",
        ] {
            let parsed = written.parse::<Intervention>();
            assert!(parsed.is_err() || written == "off:", "{written}");
        }
    }
}
