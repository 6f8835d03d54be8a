//! What all experiments found, by name and by claim.

use crate::experiment::claims::CLAIMS;
use crate::experiment::ledger::Ledger;
use crate::experiment::{Experiment, Figure, Findings, Key, Outcome, Verdict};
use crate::statistics::Interval;
use anyhow::{Context as _, Result};

/// The findings of several experiments, and what larger runs before them found.
#[derive(Default)]
pub struct Results<'a> {
    all: Vec<(&'a Experiment, Findings)>,
    ledger: Ledger,
}

impl<'a> Results<'a> {
    /// No findings yet, beside a ledger.
    pub fn beside(ledger: Ledger) -> Self {
        Self { all: Vec::new(), ledger }
    }

    /// What larger runs found.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Adds an experiment's findings.
    pub fn add(&mut self, experiment: &'a Experiment, findings: Findings) {
        self.all.push((experiment, findings));
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a Experiment, &Findings)> {
        self.all.iter().map(|(experiment, findings)| (*experiment, findings))
    }

    /// The findings of an experiment.
    pub fn findings(&self, experiment: &str) -> Result<&Findings> {
        let found = self.all.iter().find(|(known, _)| known.name == experiment);
        Ok(&found.with_context(|| format!("there is no experiment {experiment}"))?.1)
    }

    /// A figure of an experiment.
    pub fn figure(&self, experiment: &str, name: &str) -> Result<&Figure> {
        let figures = &self.findings(experiment)?.figures;
        let found = figures.iter().find(|figure| figure.name == name);
        found.with_context(|| format!("{experiment} has no figure {name}"))
    }

    /// The verdict on a claim, and the experiment that reached it.
    pub fn verdict(&self, claim: &str) -> Result<(&'static str, &Verdict)> {
        let verdicts = self.all.iter().flat_map(|(experiment, findings)| {
            findings.verdicts.iter().map(move |verdict| (experiment.name, verdict))
        });
        let mut of_claim = verdicts.filter(|(_, verdict)| verdict.claim == claim);
        of_claim.next().with_context(|| format!("no experiment has a verdict on {claim}"))
    }

    /// How many claims about attention hold, hold in part, fail and so on, in words.
    pub fn counts(&self) -> Result<String> {
        let outcomes: Vec<Outcome> = CLAIMS
            .iter()
            .filter(|claim| claim.is_counted())
            .map(|claim| Ok(self.verdict(claim.id)?.1.outcome))
            .collect::<Result<_>>()?;
        let count = |outcome| outcomes.iter().filter(|known| **known == outcome).count();
        let words: Vec<String> = Outcome::ALL
            .into_iter()
            .filter(|&outcome| count(outcome) > 0)
            .map(|outcome| format!("{} {}", count(outcome), outcome.plural()))
            .collect();
        Ok(format!("{} claims about attention: {}", outcomes.len(), words.join(", ")))
    }

    /// What was changed after results about a claim had been seen, if anything. A note that names claims is about these.
    pub fn changed(&self, claim: &str) -> Result<Option<&'static str>> {
        let (name, _) = self.verdict(claim)?;
        let of_claim = self.all.iter().find(|(experiment, _)| experiment.name == name);
        Ok(of_claim.and_then(|(experiment, _)| {
            let note = experiment.changed?;
            let names_some = experiment.claims.iter().any(|known| note.contains(known));
            let about = note.contains(claim) || !names_some;
            about.then_some(note)
        }))
    }

    /// A number that an experiment states.
    pub fn fact(&self, key: impl Into<Key>) -> Result<f64> {
        let Key { experiment, name } = key.into();
        let facts = &self.findings(experiment)?.facts;
        facts.get(&name).copied().with_context(|| format!("{experiment} has no fact {name}"))
    }

    /// Words that an experiment states.
    pub fn words(&self, key: impl Into<Key>) -> Result<&str> {
        let Key { experiment, name } = key.into();
        let words = &self.findings(experiment)?.words;
        words.get(&name).map(String::as_str).with_context(|| format!("{experiment} has no words {name}"))
    }

    /// The n-th effect that a claim rests on.
    pub fn effect(&self, claim: &str, index: usize) -> Result<Interval> {
        let (_, verdict) = self.verdict(claim)?;
        let check = verdict.checks.get(index);
        Ok(check.with_context(|| format!("{claim} has no check {index}"))?.effect)
    }
}
