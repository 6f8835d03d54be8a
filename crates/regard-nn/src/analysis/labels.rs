//! Labels for heads, such as "previous token" or "induction", by explicit rules.
//!
//! A head gets a label if its measure reaches the rule's threshold and is significantly larger than the largest value of
//! that measure among the heads of the untrained model. The test is Student's one-sided test on the two means with their
//! standard errors over texts, with Holm's correction for all heads × rules.

use super::heads::{Row, Table};
use super::measures::Measure;
use super::statistics::{holm, one_sided};

/// When a head gets a label.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// The label.
    pub label: &'static str,
    /// The measure that must be large.
    pub measure: Measure,
    /// Its threshold.
    pub at_least: f64,
}

const fn rule(label: &'static str, measure: Measure, at_least: f64) -> Rule {
    Rule { label, measure, at_least }
}

/// The rules.
pub const RULES: [Rule; 10] = [
    rule("previous token", Measure::Previous, 0.4),
    rule("next token", Measure::Next, 0.4),
    rule("itself", Measure::Itself, 0.4),
    rule("first token", Measure::First, 0.5),
    rule("delimiters", Measure::Delimiters, 0.4),
    rule("special tokens", Measure::Special, 0.5),
    rule("duplicate token", Measure::Duplicate, 0.4),
    rule("induction", Measure::PrefixMatching, 0.4),
    rule("far tokens", Measure::Far, 0.6),
    rule("single token", Measure::Confidence, 0.8),
];

/// A label of a head, with the evidence for it.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Label {
    /// The layer.
    pub layer: usize,
    /// The head in it.
    pub head: usize,
    /// The rule.
    pub rule: Rule,
    /// The head's mean.
    pub mean: f64,
    /// The largest mean among untrained heads.
    pub untrained: f64,
    /// The p-value, corrected for all heads and rules.
    pub p_value: f64,
}

/// The labels of a model's heads, compared with the same model untrained.
pub fn label_heads(trained: &Table, untrained: &Table, significance: f64) -> Vec<Label> {
    let mut candidates = Vec::new();
    for rule in RULES {
        let Some(baseline) = untrained.of(rule.measure).max_by(|a, b| a.mean.total_cmp(&b.mean)) else {
            continue;
        };
        candidates.extend(trained.of(rule.measure).map(|row| (rule, row, baseline)));
    }
    let p_values: Vec<f64> = candidates.iter().map(|(_, row, baseline)| larger(row, baseline)).collect();
    let corrected = holm(&p_values);
    let kept = candidates
        .into_iter()
        .zip(corrected)
        .filter(|((rule, row, _), p_value)| row.mean >= rule.at_least && *p_value < significance);
    let mut labels: Vec<Label> = kept
        .map(|((rule, row, baseline), p_value)| Label {
            layer: row.layer,
            head: row.head,
            rule,
            mean: row.mean,
            untrained: baseline.mean,
            p_value,
        })
        .collect();
    labels.sort_by_key(|label| (label.layer, label.head));
    labels
}

/// The p-value of the difference of two means.
fn larger(row: &Row, baseline: &Row) -> f64 {
    one_sided(row.mean - baseline.mean, row.error.hypot(baseline.error), row.count.min(baseline.count))
}
