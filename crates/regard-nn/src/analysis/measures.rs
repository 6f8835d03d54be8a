//! Measures of one head on one text.
//!
//! Let a(i, k) be the weight of query i on key k, V(i) the visible keys and p(i, k) = a(i, k) / Σ a(i, ·). Each measure is
//! defined per query and averaged over the queries for which it is defined. Queries with a single visible key are left
//! out.

use super::{Part, Tokens, Visibility};
use crate::error::{Error, Result};
use crate::models::AttentionSite;
use std::ops::Range;

macro_rules! measures {
    ($($(#[doc = $doc:literal])+ $variant:ident => $name:literal,)+) => {
        /// A measure of a head: one list for tables, rules and figures.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Measure {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Measure {
            /// All measures, in the order of tables.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Its name in files.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Its definition.
            pub fn description(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($doc),+).trim_start(),)+
                }
            }
        }
    };
}

measures! {
    /// −Σₖ p(i, k) ln p(i, k), in nats (Ghader & Monz, 2017).
    Entropy => "entropy",
    /// Entropy / ln |V(i)|: 1 is uniform, 0 a single key (Clark et al., 2019, compare with uniform attention).
    RelativeEntropy => "relative-entropy",
    /// maxₖ a(i, k) (Voita et al., 2019).
    Confidence => "confidence",
    /// Σₖ p(i, k)·|i − k|: the mean attention distance in tokens (Vig & Belinkov, 2019).
    Distance => "distance",
    /// Σ a(i, k) over |i − k| ≥ 8, for queries with such a key (long-range heads: Vig & Belinkov, 2019).
    Far => "far",
    /// a(i, i − 1), the weight on the token before (Clark et al., 2019).
    Previous => "previous",
    /// a(i, i + 1), the weight on the token after; not defined for causal models (Clark et al., 2019).
    Next => "next",
    /// a(i, i), the weight on the token itself (Clark et al., 2019).
    Itself => "self",
    /// a(i, 0), the weight on the first token, for i > 0 (Vig & Belinkov, 2019).
    First => "first",
    /// Σ a(i, k) over delimiters k ≠ i, for queries that can see one (Clark et al., 2019).
    Delimiters => "delimiters",
    /// Σ a(i, k) over special tokens k ≠ i such as `[CLS]` and `[SEP]`, for queries that can see one (Clark et al., 2019).
    Special => "special",
    /// 1 if a(i, 0) > 0.3, else 0, for i > 0: the share of queries with an attention sink (Xiao et al., 2023; Gu et al., 2024).
    Sink => "sink",
    /// 1 − Σₖ a(i, k): the share of the weight that a sink logit takes, where attention has one (Miller, 2023; OpenAI, 2025).
    SinkLogit => "sink-logit",
    /// Σ a(i, k) over k < i with the same token as i, where there is one (Wang et al., 2022).
    Duplicate => "duplicate",
    /// Σ a(i, k) over k < i that follow the same token as i, where there is one (Olsson et al., 2022).
    Induction => "induction",
    /// Induction on repeated random tokens, where semantics cannot help (Olsson et al., 2022).
    PrefixMatching => "prefix-matching",
}

/// The weight on the first token above which a query counts as an attention sink.
pub const SINK: f32 = 0.3;

/// The distance from which a token counts as far.
pub const FAR: usize = 8;

/// One value per measure, in the order of [`Measure::ALL`]; `None` where it is undefined.
pub type Values = [Option<f64>; Measure::ALL.len()];

/// The keys to sum for each query of a text, the same for all heads.
#[derive(Debug, Clone)]
pub struct MeasurePlan {
    /// The visible keys of each query.
    keys: Vec<Range<usize>>,
    /// The number of keys.
    columns: usize,
    /// Whether queries and keys are the same tokens, so that a query has a position among the keys.
    same: bool,
    /// Whether a sink logit takes what the keys' weights lack to a sum of 1.
    has_sink: bool,
    /// Whether each query is measured.
    measured: Vec<bool>,
    /// For each query and each measure that sums weights over a set of keys: that set.
    sets: Vec<Vec<(Measure, Vec<usize>)>>,
}

impl MeasurePlan {
    /// The plan for a text.
    pub fn new(tokens: &Tokens, visibility: Visibility) -> Result<Self> {
        tokens.check()?;
        let length = tokens.len();
        let sets = (0..length).map(|query| sets(tokens, visibility, query)).collect();
        let keys = (0..length).map(|query| visibility.keys(query, length)).collect();
        let measured = vec![true; length];
        Ok(Self { keys, columns: length, same: true, has_sink: false, measured, sets })
    }

    /// The plan for one attention layer of a model on a text.
    pub fn of(site: &AttentionSite, tokens: &Tokens) -> Result<Self> {
        let plan = match (site.part, tokens.source.as_deref()) {
            (Part::Reader | Part::Decoder, _) => Self::new(tokens, site.visibility)?,
            (Part::Cross, Some(source)) => Self::across(tokens, source)?,
            (Part::Cross, None) => {
                return Err(Error::input("measures of a head", "cross-attention needs a text with a source"));
            }
        };
        Ok(Self { has_sink: site.has_sink(), ..plan })
    }

    /// The plan for cross-attention. Positions in the target mean nothing in the source, so only measures of a row's
    /// distribution and of the first, special and delimiter tokens are defined.
    fn across(tokens: &Tokens, source: &Tokens) -> Result<Self> {
        tokens.check()?;
        source.check()?;
        let flagged = |flags: &[bool]| (0..source.len()).filter(|&key| flags[key]).collect::<Vec<_>>();
        let chosen = [
            (Measure::First, vec![0]),
            (Measure::Delimiters, flagged(&source.delimiter)),
            (Measure::Special, flagged(&source.special)),
        ];
        let sets: Vec<_> = chosen.into_iter().filter(|(_, keys)| !keys.is_empty()).collect();
        let count = tokens.len();
        Ok(Self {
            keys: vec![0..source.len(); count],
            columns: source.len(),
            same: false,
            has_sink: false,
            measured: vec![true; count],
            sets: vec![sets; count],
        })
    }

    /// The same plan for some queries only, such as one class of words.
    #[must_use]
    pub fn only(mut self, measured: impl Fn(usize) -> bool) -> Self {
        self.measured = (0..self.keys.len()).map(measured).collect();
        self
    }

    /// The mean of each measure over the queries of a head. Row q of the weights starts at q · `stride`.
    pub fn measure(&self, weights: &[f32], stride: usize) -> Result<Values> {
        let (rows, columns) = (self.keys.len(), self.columns);
        if stride < columns || weights.len() < (rows - 1) * stride + columns {
            let problem = format!(
                "{rows} rows and {columns} columns are needed, got {} weights in rows of {stride}",
                weights.len()
            );
            return Err(Error::input("measures of a head", problem));
        }
        let mut sums = [(0.0, 0_u32); Measure::ALL.len()];
        for query in 0..rows {
            let keys = self.keys[query].clone();
            if keys.len() < 2 || !self.measured[query] {
                continue;
            }
            let row = &weights[query * stride..query * stride + columns];
            let mut add = |measure: Measure, value: f64| {
                let (sum, count) = &mut sums[measure as usize];
                *sum += value;
                *count += 1;
            };
            let here = self.same.then(|| query - keys.start.min(query));
            shape(&row[keys.clone()], here, &mut add);
            for (measure, keys) in &self.sets[query] {
                add(*measure, keys.iter().map(|&key| f64::from(row[key])).sum());
            }
            if self.has_sink {
                add(
                    Measure::SinkLogit,
                    1.0 - row[keys.clone()].iter().map(|&weight| f64::from(weight)).sum::<f64>(),
                );
            }
            if keys.start == 0 && (query > 0 || !self.same) {
                add(Measure::Sink, f64::from(u8::from(row[0] > SINK)));
            }
        }
        Ok(sums.map(|(sum, count)| (count > 0).then(|| sum / f64::from(count))))
    }
}

/// Measures of a row's distribution. `here` is the position of the query among the keys, if it has one.
fn shape(row: &[f32], here: Option<usize>, add: &mut impl FnMut(Measure, f64)) {
    let total: f64 = row.iter().map(|&weight| f64::from(weight)).sum();
    add(Measure::Confidence, f64::from(row.iter().copied().fold(0.0, f32::max)));
    if total <= 0.0 {
        return;
    }
    let (mut entropy, mut distance) = (0.0, 0.0);
    for (key, &weight) in row.iter().enumerate() {
        let p = f64::from(weight) / total;
        if p > 0.0 {
            entropy -= p * p.ln();
            distance += p * here.map_or(0.0, |here| key.abs_diff(here) as f64);
        }
    }
    add(Measure::Entropy, entropy);
    add(Measure::RelativeEntropy, entropy / (row.len() as f64).ln());
    if here.is_some() {
        add(Measure::Distance, distance);
    }
}

/// The keys over which each measure sums the weights of a query.
fn sets(tokens: &Tokens, visibility: Visibility, query: usize) -> Vec<(Measure, Vec<usize>)> {
    let seen = visibility.keys(query, tokens.len());
    let token = tokens.ids[query];
    let earlier = || seen.clone().filter(|&key| key < query);
    // A delimiter that attends to itself counts as self-attention, not as attention to a delimiter.
    let others = |flags: &[bool]| seen.clone().filter(|&key| key != query && flags[key]).collect();
    let chosen = [
        (Measure::Far, seen.clone().filter(|key| key.abs_diff(query) >= FAR).collect()),
        (Measure::Previous, query.checked_sub(1).into_iter().collect()),
        (Measure::Next, if visibility.causal { vec![] } else { vec![query + 1] }),
        (Measure::Itself, vec![query]),
        (Measure::First, if query > 0 { vec![0] } else { vec![] }),
        (Measure::Delimiters, others(&tokens.delimiter)),
        (Measure::Special, others(&tokens.special)),
        (Measure::Duplicate, earlier().filter(|&key| tokens.ids[key] == token).collect()),
        (Measure::Induction, earlier().filter(|&key| key > 0 && tokens.ids[key - 1] == token).collect()),
    ];
    let visible = |keys: &Vec<usize>| !keys.is_empty() && keys.iter().all(|key| seen.contains(key));
    chosen.into_iter().filter(|(_, keys): &(Measure, Vec<usize>)| visible(keys)).collect()
}
