//! Where a judged verdict and one with the seeds of development differ.

use super::rows::Row;
use crate::experiment::verdict::Outcome;

/// A judged verdict that differs from what seeds of development had said.
#[derive(Debug)]
pub struct Contradiction<'a> {
    /// What they had said.
    pub developed: &'a Row,
    /// What was judged.
    pub(super) judged: Outcome,
}

impl Contradiction<'_> {
    /// Whether both are decided, so that one of them misleads; an open verdict contradicts nothing.
    pub fn is_decided(&self) -> bool {
        let decided = |outcome| matches!(outcome, Outcome::Holds | Outcome::InPart | Outcome::Fails);
        decided(self.judged) && decided(self.developed.outcome)
    }
}

/// In a sentence.
impl std::fmt::Display for Contradiction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Row { outcome, freeze, date, .. } = self.developed;
        let opening = match self.is_decided() {
            true => "This contradicts what the seeds of development had said",
            false => "The seeds of development had said something else",
        };
        let earlier = match freeze.as_str() {
            "" => ", before the freeze, when measures and settings were partly others",
            _ => "",
        };
        write!(f, "{opening}: {} ({date}{earlier}).", outcome.name())
    }
}
