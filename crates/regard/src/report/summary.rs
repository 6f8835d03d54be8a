//! The most telling results in plain words, for who reads nothing else. Each sentence is chosen by what came out.

use super::results::Results;
use crate::experiment::claims::claim;
use crate::experiment::{Outcome, true_minus};
use crate::experiments::extensions::{self, Measure};
use crate::experiments::instruments::savings::Saving;
use crate::experiments::models::sentiment::Variant;
use crate::experiments::models::tagger::Stage;
use crate::experiments::negation::{self, Kind};
use crate::experiments::norm_placement::{self, Norm};
use crate::experiments::positions::{self, Encoding};
use crate::experiments::{pooled_words, scale_sweep, training_smooths};
use crate::figure::fixed;
use anyhow::{Context as _, Result};

/// A sentence or two for each topic.
pub fn summary(results: &Results) -> Result<Vec<String>> {
    let topics = [scale, training, negated_sentences, pooling, norms, beyond_the_length, tiles];
    topics.into_iter().map(|topic| Ok(true_minus(&topic(results)?))).collect()
}

fn outcome(results: &Results, id: &str) -> Result<Outcome> {
    Ok(results.verdict(id)?.1.outcome)
}

/// What there is to say of claims that came out otherwise than they usually do.
fn plainly(results: &Results, ids: &[&str]) -> Result<String> {
    let one = |id: &&str| {
        let statement = claim(id).with_context(|| format!("there is no claim {id}"))?.statement;
        anyhow::Ok(format!(
            "“{}” {}.",
            statement.trim_end_matches('.').replace('“', "‘").replace('”', "’"),
            match outcome(results, id)? {
                Outcome::Holds => "holds",
                Outcome::Fails => "fails",
                Outcome::Undecided => "is undecided",
                Outcome::NotMeasured => "was not measured",
            }
        ))
    };
    Ok(ids.iter().map(one).collect::<Result<Vec<_>>>()?.join(" "))
}

fn scale(results: &Results) -> Result<String> {
    let [without, with] = scale_sweep::Kind::ALL.map(|kind| results.fact(scale_sweep::LARGEST.of(kind)));
    let (without, with) = (without?, with?);
    let grows = outcome(results, "D4")? == Outcome::Fails && results.effect("D4", 0)?.mean > 0.0;
    match outcome(results, "D3")? == Outcome::Holds && grows {
        true => Ok(format!(
            "The scale $1/\\sqrt{{d_k}}$ does what is said of it: with keys of 256 numbers the largest of eight weights is {without:.2} on \
             average without it and {with:.2} with it. But without it the gradients do not vanish; on average they grow."
        )),
        false => plainly(results, &["D3", "D4"]),
    }
}

fn training(results: &Results) -> Result<String> {
    let [before, after] = Stage::ALL.map(|stage| results.fact(training_smooths::MEAN_ENTROPY.of(stage)));
    let (before, after) = (before?, after?);
    match outcome(results, "B2")? == Outcome::Fails && after < before {
        true => Ok(format!(
            "Training makes attention sharper, not smoother: the entropy of a head's weights goes from {before:.2} to {after:.2} of that of \
             equal weights."
        )),
        false => Ok(format!(
            "In training the entropy of a head's weights goes from {before:.2} to {after:.2} of that of equal weights."
        )),
    }
}

fn negated_sentences(results: &Results) -> Result<String> {
    let right = |kind, model| anyhow::Ok(100.0 * results.fact(negation::ACCURACY.of((kind, model)))?);
    let (plain, negated) = (right(Kind::Plain, Variant::Heads)?, right(Kind::Negated, Variant::Heads)?);
    match outcome(results, "C3")? == Outcome::Fails && negated < 50.0 {
        true => Ok(format!(
            "A BiLSTM with self-attention reads plain sentences right in {plain:.0} % of cases and negated ones, such as *not good*, in \
             {negated:.0} %: it takes the judging word at its face value."
        )),
        false => Ok(format!(
            "Negated sentences, such as *not good*, are read right in {negated:.0} % of cases by a BiLSTM with self-attention and in {:.0} % \
             by one with a max pool; plain ones in {plain:.0} % and {:.0} %.",
            right(Kind::Negated, Variant::Max)?,
            right(Kind::Plain, Variant::Max)?,
        )),
    }
}

fn pooling(results: &Results) -> Result<String> {
    let excess = |model| results.fact(pooled_words::EXCESS.of((pooled_words::Kind::Sentiment, model)));
    let (additive, max) = (excess(Variant::Additive)?, excess(Variant::Max)?);
    let (additive, max) = (100.0 * additive, 100.0 * max);
    match outcome(results, "C2")? == Outcome::Holds && max >= additive {
        true => Ok(format!(
            "Additive attention rests on the words that judge ({additive:+.0} points of weight beyond their share); so does a max pool, which \
             has no attention ({max:+.0})."
        )),
        false => Ok(format!(
            "Additive attention gives the words that judge {additive:+.0} points of weight beyond their share; a max pool, which has no \
             attention, gives them {max:+.0}."
        )),
    }
}

fn norms(results: &Results) -> Result<String> {
    let runs = results.fact(norm_placement::RUNS.of(Norm::Post))?;
    let [pre, post] = Norm::ALL.map(|norm| results.fact(norm_placement::FAILURES.of(norm)));
    let (pre, post) = (pre?, post?);
    match outcome(results, "E5")? {
        Outcome::Holds => Ok(format!(
            "{post:.0} of {runs:.0} post-norm language models failed to learn, and {pre:.0} of as many pre-norm ones: all without the warm-up \
             that post-norm models usually get."
        )),
        _ => plainly(results, &["E5"]),
    }
}

fn beyond_the_length(results: &Results) -> Result<String> {
    let rise = |encoding| anyhow::Ok(100.0 * results.fact(positions::RISE.of(encoding))?);
    let (rotary, learned) = (rise(Encoding::Rotary)?, rise(Encoding::Learned)?);
    let (sinusoidal, alibi, bias) =
        (rise(Encoding::Sinusoidal)?, rise(Encoding::Alibi)?, rise(Encoding::Bias)?);
    match alibi.max(bias) < rotary.min(learned).min(sinusoidal) {
        true => Ok(format!(
            "Of five ways to tell a language model positions, those that make distance a bias on the scores lose least when it reads twice the \
             length that it was trained on: perplexity changes by {alibi:+.0} % with ALiBi and {bias:+.0} % with T5's bias, by {rotary:+.0} % with \
             rotary, {sinusoidal:+.0} % with sinusoidal and {learned:+.0} % with learned positions."
        )),
        false => Ok(format!(
            "Read at twice the length that it was trained on, a language model's perplexity changes by {learned:+.0} % with learned \
             positions, {sinusoidal:+.0} % with sinusoidal and {rotary:+.0} % with rotary ones, {alibi:+.0} % with ALiBi and {bias:+.0} % with T5's \
             bias."
        )),
    }
}

fn tiles(results: &Results) -> Result<String> {
    let share = |measure| anyhow::Ok(100.0 * results.fact(extensions::COST.of((Saving::Tiled, measure)))?);
    let (memory, time) = (share(Measure::Memory)?, share(Measure::Time)?);
    let length = results.fact(extensions::LENGTH)?;
    // E8 is about how time and memory grow, E10 about whether tiles give the same numbers.
    match [outcome(results, "E8")?, outcome(results, "E10")?] {
        [Outcome::Holds, Outcome::Holds] => Ok(format!(
            "Attention written out takes time and memory that grow as the square of the length. In tiles it gives the same numbers with \
             {memory:.0} % of the memory and {time:.0} % of the time, at {} tokens.",
            fixed(length, 0)
        )),
        _ => plainly(results, &["E8", "E10"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Bound, Check, Findings, Key, Verdict};
    use crate::experiments::find;
    use crate::statistics::exact;

    fn results(facts: Vec<(Key, f64)>, verdict: Option<Verdict>) -> Results<'static> {
        let mut findings = Findings::default();
        let experiment = facts[0].0.experiment;
        for (key, value) in facts {
            findings.fact(key, value);
        }
        findings.verdicts.extend(verdict);
        let mut results = Results::default();
        results.add(find(experiment).unwrap(), findings);
        results
    }

    #[test]
    fn what_is_said_of_negation_follows_how_often_it_is_read_right() {
        let said = |negated: f64| {
            let facts = [
                (Kind::Plain, Variant::Heads, 0.98),
                (Kind::Negated, Variant::Heads, negated),
                (Kind::Plain, Variant::Max, 0.97),
                (Kind::Negated, Variant::Max, 0.3),
            ];
            let facts = facts.map(|(kind, model, value)| (negation::ACCURACY.of((kind, model)), value));
            let check = Check::new("accuracy", exact(negated), Bound::Above(0.5));
            let verdict = Verdict::new("C3", vec![check], String::new());
            negated_sentences(&results(facts.into(), Some(verdict))).unwrap()
        };
        assert!(said(0.36).contains("in 36 %: it takes the judging word at its face value"));
        let mostly_right = said(0.72);
        assert!(
            mostly_right.contains("in 72 % of cases") && mostly_right.contains("in 30 %"),
            "{mostly_right}"
        );
        assert!(!mostly_right.contains("face value"));
    }

    #[test]
    fn a_bias_is_said_to_lose_least_only_if_it_does() {
        let said = |rotary: f64, sinusoidal: f64| {
            let facts = [
                (Encoding::Rotary, rotary),
                (Encoding::Learned, 0.5),
                (Encoding::Sinusoidal, sinusoidal),
                (Encoding::Alibi, -0.02),
                (Encoding::Bias, 0.17),
            ];
            let facts = facts.map(|(encoding, value)| (positions::RISE.of(encoding), value));
            beyond_the_length(&results(facts.into(), None)).unwrap()
        };
        assert!(said(0.45, 0.4).contains("a bias on the scores lose least"));
        let rotary_is_better = said(0.06, 0.4);
        assert!(!rotary_is_better.contains("lose least"));
        assert!(!said(0.45, 0.1).contains("lose least"), "sinusoidal ones lose less than T5's bias");
        assert!(rotary_is_better.contains("+6 % with rotary"), "{rotary_is_better}");
    }
}
