//! What an experiment concludes about a claim: intervals against bounds that were stated beforehand.

use crate::figure::{self, number};
use crate::statistics::{Interval, LEVEL};
use serde::Serialize;

/// How a claim, or a part of one, came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The whole interval lies where the claim says.
    Holds,
    /// Some parts hold; others fail or were not measured.
    InPart,
    /// The whole interval lies elsewhere.
    Fails,
    /// The interval has the bound inside it.
    Undecided,
    /// The model did not learn the task that the claim is about.
    NotTestable,
    /// Something that it needs was not at hand.
    NotMeasured,
}

impl Outcome {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Self; 6] =
        [Self::Holds, Self::InPart, Self::Fails, Self::Undecided, Self::NotTestable, Self::NotMeasured];

    /// In a few words.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Holds => "holds",
            Outcome::InPart => "holds in part",
            Outcome::Fails => "fails",
            Outcome::Undecided => "undecided",
            Outcome::NotTestable => "not testable at this size",
            Outcome::NotMeasured => "not measured",
        }
    }

    /// What several claims do: "3 hold".
    pub fn plural(self) -> &'static str {
        match self {
            Outcome::Holds => "hold",
            Outcome::InPart => "hold in part",
            Outcome::Fails => "fail",
            other => other.name(),
        }
    }

    /// The outcome of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.name() == name)
    }

    /// How pictures show it.
    pub fn in_figures(self) -> Option<figure::VerdictStyle> {
        match self {
            Outcome::Holds => Some(figure::VerdictStyle::Holds),
            Outcome::Fails => Some(figure::VerdictStyle::Fails),
            Outcome::Undecided | Outcome::InPart => Some(figure::VerdictStyle::Undecided),
            Outcome::NotTestable | Outcome::NotMeasured => None,
        }
    }

    /// The outcome of several things that are stated together. Any that is shown false makes the whole false, unless others are
    /// shown true: then it holds in part. What could not be measured or tested leaves the rest a part of the whole.
    fn of_all(outcomes: &[Self]) -> Self {
        let any = |outcome| outcomes.contains(&outcome);
        let missing = any(Self::NotMeasured) || any(Self::NotTestable);
        match (any(Self::Holds) || any(Self::InPart), any(Self::Fails) || any(Self::InPart)) {
            (true, true) => Self::InPart,
            (false, true) => Self::Fails,
            _ if any(Self::Undecided) => Self::Undecided,
            (true, false) if missing => Self::InPart,
            (true, false) => Self::Holds,
            _ if any(Self::NotTestable) => Self::NotTestable,
            _ => Self::NotMeasured,
        }
    }
}

/// Where a quantity must lie for the claim to hold. Stated before anything is measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// Above a value.
    Above(f64),
    /// Below a value.
    Below(f64),
    /// Between two values.
    Between(f64, f64),
}

impl Bound {
    fn outcome(self, interval: &Interval) -> Outcome {
        // An interval that is not a number decides nothing: every comparison with it is false.
        let (inside, outside) = match self {
            Bound::Above(bound) => (interval.low > bound, interval.high < bound),
            Bound::Below(bound) => (interval.high < bound, interval.low > bound),
            Bound::Between(from, to) => {
                (interval.low > from && interval.high < to, interval.high < from || interval.low > to)
            }
        };
        match (inside, outside) {
            (true, _) => Outcome::Holds,
            (_, true) => Outcome::Fails,
            _ => Outcome::Undecided,
        }
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bound::Above(bound) => write!(f, "above {}", number(*bound)),
            Bound::Below(bound) => write!(f, "below {}", number(*bound)),
            Bound::Between(from, to) => write!(f, "between {} and {}", number(*from), number(*to)),
        }
    }
}

/// One quantity that a claim rests on.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// What was measured, such as "accuracy with attention − without".
    pub what: String,
    /// The part of the claim that it belongs to, where the claim has several.
    pub part: Option<String>,
    /// The claim whose part this is already: it is shown, but not counted again.
    pub repeats: Option<&'static str>,
    /// Its mean and interval.
    #[serde(serialize_with = "interval")]
    pub effect: Interval,
    /// Where it must lie.
    pub bound: Bound,
    /// What follows.
    pub outcome: Outcome,
}

impl Check {
    /// Compares an effect with its bound.
    pub fn new(what: impl Into<String>, effect: Interval, bound: Bound) -> Self {
        Self { what: what.into(), part: None, repeats: None, effect, bound, outcome: bound.outcome(&effect) }
    }

    /// A check for which something was missing.
    pub fn not_measured(what: impl Into<String>, bound: Bound) -> Self {
        Self { outcome: Outcome::NotMeasured, ..Self::new(what, Interval::nothing(), bound) }
    }

    /// The same as a check of a part of the claim.
    #[must_use]
    pub fn part(self, name: impl Into<String>) -> Self {
        Self { part: Some(name.into()), ..self }
    }

    /// The same as a check that another claim rests on, which counts it.
    #[must_use]
    pub fn repeats(self, claim: &'static str) -> Self {
        Self { repeats: Some(claim), ..self }
    }

    /// Whether it fails, taken by itself.
    pub fn fails(&self) -> bool {
        self.outcome == Outcome::Fails
    }

    /// Whether it fails even if it is one of so many that could have failed by chance (Bonferroni's correction).
    fn fails_among(&self, checks: usize) -> bool {
        let level = 1.0 - (1.0 - LEVEL) / checks.max(1) as f64;
        self.fails() && self.bound.outcome(&self.effect.at(level)) == Outcome::Fails
    }
}

/// A part of a claim that can be true or false by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Its name; empty if the claim has no parts.
    pub name: String,
    /// How it came out.
    pub outcome: Outcome,
    /// The claim that counts it, if another one does.
    pub repeats: Option<&'static str>,
}

/// A published figure beside ours.
#[derive(Debug, Clone, Serialize)]
pub struct Published {
    /// What was published.
    pub what: String,
    /// Their value.
    pub theirs: f64,
    /// Ours, if it was measured.
    pub ours: Option<f64>,
    /// Where it was published.
    pub source: &'static str,
}

/// The conclusion about one claim.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    /// The claim, such as "D3".
    pub claim: &'static str,
    /// How it came out.
    pub outcome: Outcome,
    /// How each of its parts came out; a single one without a name if it has no parts.
    pub parts: Vec<Part>,
    /// What must be so for the claim to be testable: that the model learned its task.
    pub preconditions: Vec<Check>,
    /// What it rests on, the main one first.
    pub checks: Vec<Check>,
    /// Whether it rests on the built-in text alone, whose grammar is simpler than that of real text.
    pub builtin_text_only: bool,
    /// What was found, in a sentence or two, with numbers.
    pub finding: String,
    /// Of a claim that fails, or holds in part: why, as far as the measurements tell.
    pub why: Option<String>,
    /// What others published.
    pub published: Vec<Published>,
}

impl Verdict {
    /// A part holds if all of its checks do. It fails if any of them does: the more checks a claim has, the likelier it is that one
    /// fails by chance, so that the level is corrected for their number. A claim holds if all of its parts do, fails if some fail and
    /// none holds, and holds in part if some hold and others fail or could not be measured.
    pub fn new(claim: &'static str, checks: Vec<Check>, finding: impl Into<String>) -> Self {
        let finding = true_minus(&finding.into());
        let mut verdict = Self {
            claim,
            outcome: Outcome::NotMeasured,
            parts: Vec::new(),
            preconditions: Vec::new(),
            checks,
            builtin_text_only: false,
            finding,
            why: None,
            published: Vec::new(),
        };
        verdict.conclude();
        verdict
    }

    /// States what must be so for the claim, or for a part of it, to be testable at all. Without it there is no verdict.
    #[must_use]
    pub fn requires(mut self, precondition: Check) -> Self {
        self.preconditions.push(precondition);
        self.conclude();
        self
    }

    /// The preconditions that are not met.
    pub fn unmet(&self) -> impl Iterator<Item = &Check> {
        self.preconditions.iter().filter(|check| check.outcome != Outcome::Holds)
    }

    /// How many checks are counted: the level at which one of them fails is corrected for this number.
    pub fn counted(&self) -> usize {
        self.checks.iter().filter(|check| check.repeats.is_none()).count()
    }

    /// Whether a check fails by itself, but not at the level that is corrected for their number.
    pub fn fails_alone(&self, check: &Check) -> bool {
        let name = check.part.clone().unwrap_or_default();
        let part = self.parts.iter().find(|part| part.name == name);
        check.fails() && part.is_some_and(|part| part.outcome == Outcome::Undecided)
    }

    fn conclude(&mut self) {
        let counted = self.counted();
        let mut parts: Vec<Part> = Vec::new();
        for check in &self.checks {
            let name = check.part.clone().unwrap_or_default();
            if parts.iter().all(|part| part.name != name) {
                let of_part: Vec<&Check> = self.checks.iter().filter(|one| one.part == check.part).collect();
                let untestable = self.unmet().any(|unmet| unmet.part.is_none() || unmet.part == check.part);
                let outcome = match untestable {
                    true => Outcome::NotTestable,
                    false => of_checks(&of_part, counted),
                };
                parts.push(Part { name, outcome, repeats: check.repeats });
            }
        }
        let counted = parts.iter().filter(|part| part.repeats.is_none());
        self.outcome = Outcome::of_all(&counted.map(|part| part.outcome).collect::<Vec<_>>());
        self.parts = parts;
    }

    /// Says why the claim, or a part of it, fails, if it does, from the checks that it rests on.
    #[must_use]
    pub fn because(mut self, why: impl FnOnce(&[Check]) -> String) -> Self {
        if self.parts.iter().any(|part| part.outcome == Outcome::Fails) {
            self.why = Some(true_minus(&why(&self.checks))).filter(|why| !why.is_empty());
        }
        self
    }

    /// What fails where something does: the claim, or a part of it.
    pub fn failing(&self) -> &'static str {
        if self.outcome == Outcome::Fails { "it" } else { "a part" }
    }

    /// A claim that could not be tested, and what is missing.
    pub fn not_measured(claim: &'static str, why: impl Into<String>) -> Self {
        Self::new(claim, Vec::new(), why)
    }

    /// Puts a published figure beside ours.
    #[must_use]
    pub fn published(
        mut self,
        what: impl Into<String>,
        theirs: f64,
        ours: Option<f64>,
        source: &'static str,
    ) -> Self {
        self.published.push(Published { what: what.into(), theirs, ours, source });
        self
    }
}

/// The outcome of checks that must all hold, among so many that could fail by chance.
fn of_checks(checks: &[&Check], counted: usize) -> Outcome {
    let any = |outcome| checks.iter().any(|check| check.outcome == outcome);
    match () {
        () if checks.iter().any(|check| check.fails_among(counted)) => Outcome::Fails,
        () if any(Outcome::Fails) || any(Outcome::Undecided) => Outcome::Undecided,
        () if any(Outcome::Holds) && any(Outcome::NotMeasured) => Outcome::Undecided,
        () if any(Outcome::NotMeasured) => Outcome::NotMeasured,
        () => Outcome::Holds,
    }
}

/// Those of several sentences that apply, one after the other.
pub fn those_that_apply<'a>(sentences: impl IntoIterator<Item = (bool, &'a str)>) -> String {
    let sentences: Vec<&str> =
        sentences.into_iter().filter(|(applies, _)| *applies).map(|(_, one)| one).collect();
    sentences.join(" ")
}

/// A sentence in which numbers have the minus sign of the tables and figures; formatting writes a hyphen.
pub fn true_minus(sentence: &str) -> String {
    let mut out = String::with_capacity(sentence.len());
    let mut before = ' ';
    let mut rest = sentence.chars().peekable();
    while let Some(sign) = rest.next() {
        let number = rest.peek().is_some_and(char::is_ascii_digit);
        let begins = before.is_whitespace() || "([^".contains(before);
        out.push(if sign == '-' && number && begins { '−' } else { sign });
        before = sign;
    }
    out
}

/// Ends that are infinite (a single value) are `null` in JSON, which has no infinity.
fn interval<S: serde::Serializer>(interval: &Interval, serializer: S) -> Result<S::Ok, S::Error> {
    use serde::ser::SerializeStruct;
    let finite = |value: f64| value.is_finite().then_some(value);
    let mut out = serializer.serialize_struct("Interval", 4)?;
    out.serialize_field("mean", &finite(interval.mean))?;
    out.serialize_field("low", &finite(interval.low))?;
    out.serialize_field("high", &finite(interval.high))?;
    out.serialize_field("n", &interval.count)?;
    out.end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::mean;

    fn outcome(values: &[f64], bound: Bound) -> Outcome {
        Check::new("x", mean(values), bound).outcome
    }

    #[test]
    fn verdicts_follow_the_data() {
        let (high, low, wide) = ([1.0, 1.1, 0.9], [-1.0, -1.1, -0.9], [-1.0, 0.1, 1.0]);
        assert_eq!(outcome(&high, Bound::Above(0.0)), Outcome::Holds);
        assert_eq!(outcome(&low, Bound::Above(0.0)), Outcome::Fails);
        assert_eq!(outcome(&wide, Bound::Above(0.0)), Outcome::Undecided);
        assert_eq!(outcome(&high, Bound::Below(0.0)), Outcome::Fails);
        assert_eq!(outcome(&high, Bound::Between(0.5, 1.5)), Outcome::Holds);
        assert_eq!(outcome(&low, Bound::Between(0.5, 1.5)), Outcome::Fails);
        assert_eq!(outcome(&[1.0], Bound::Above(0.0)), Outcome::Undecided, "one seed decides nothing");
        assert_eq!(outcome(&[f64::NAN; 3], Bound::Above(0.0)), Outcome::Undecided);
    }

    #[test]
    fn a_claim_is_as_good_as_its_weakest_check() {
        let check = |values: &[f64]| Check::new("x", mean(values), Bound::Above(0.0));
        let (holds, fails, open) = ([1.0, 1.1, 0.9], [-1.0, -1.1, -0.9], [-1.0, 0.1, 1.0]);
        let of = |checks: &[&[f64]]| {
            Verdict::new("A1", checks.iter().map(|values| check(values)).collect(), "").outcome
        };
        assert_eq!(of(&[&holds, &holds]), Outcome::Holds);
        assert_eq!(of(&[&holds, &open]), Outcome::Undecided);
        assert_eq!(of(&[&open, &fails, &holds]), Outcome::Fails);
        assert_eq!(of(&[]), Outcome::NotMeasured);
        let missing = || Check::not_measured("x", Bound::Above(0.0));
        assert_eq!(Verdict::new("A1", vec![missing()], "").outcome, Outcome::NotMeasured);
        assert_eq!(Verdict::new("A1", vec![missing(), check(&holds)], "").outcome, Outcome::Undecided);
        assert_eq!(Verdict::new("A1", vec![missing(), check(&fails)], "").outcome, Outcome::Fails);
    }

    #[test]
    fn numbers_have_a_minus_and_words_keep_their_hyphen() {
        let finding =
            Verdict::new("A1", Vec::new(), "by -0.5 [-1, 2] and n^-2, 1e-5, pre-norm, 3-4, d_k -x, --data")
                .finding;
        assert_eq!(finding, "by −0.5 [−1, 2] and n^−2, 1e-5, pre-norm, 3-4, d_k -x, --data");
    }

    #[test]
    fn a_claim_of_several_parts_is_judged_part_by_part() {
        let (holds, fails, open) = ([1.0, 1.1, 0.9], [-1.0, -1.1, -0.9], [-1.0, 0.1, 1.0]);
        let check = |part: &str, values: &[f64]| Check::new("x", mean(values), Bound::Above(0.0)).part(part);
        let missing = |part: &str| Check::not_measured("x", Bound::Above(0.0)).part(part);
        let of = |checks: Vec<Check>| Verdict::new("A1", checks, "");
        let parts = of(vec![check("a", &holds), check("b", &fails)]);
        assert_eq!(parts.outcome, Outcome::InPart);
        let outcomes: Vec<_> = parts.parts.iter().map(|part| (part.name.as_str(), part.outcome)).collect();
        assert_eq!(outcomes, [("a", Outcome::Holds), ("b", Outcome::Fails)]);
        assert_eq!(of(vec![check("a", &holds), check("b", &holds)]).outcome, Outcome::Holds);
        assert_eq!(of(vec![check("a", &fails), check("b", &fails)]).outcome, Outcome::Fails);
        assert_eq!(of(vec![check("a", &fails), check("b", &open)]).outcome, Outcome::Fails);
        assert_eq!(of(vec![check("a", &holds), check("b", &open)]).outcome, Outcome::Undecided);
        assert_eq!(of(vec![check("a", &holds), missing("b")]).outcome, Outcome::InPart);
        assert_eq!(of(vec![check("a", &open), missing("b")]).outcome, Outcome::Undecided);
        assert_eq!(of(vec![missing("a"), missing("b")]).outcome, Outcome::NotMeasured);
        let twice = of(vec![check("a", &holds), check("a", &fails)]);
        assert_eq!((twice.outcome, twice.parts.len()), (Outcome::Fails, 1), "a part needs all of its checks");
    }

    #[test]
    fn what_another_claim_counts_is_shown_and_not_counted() {
        let (holds, fails) = ([1.0, 1.1, 0.9], [-1.0, -1.1, -0.9]);
        let check = |part: &str, values: &[f64]| Check::new("x", mean(values), Bound::Above(0.0)).part(part);
        let verdict =
            Verdict::new("B6", vec![check("own", &holds), check("other", &fails).repeats("B2")], "");
        assert_eq!(verdict.outcome, Outcome::Holds);
        assert_eq!((verdict.parts[1].outcome, verdict.parts[1].repeats), (Outcome::Fails, Some("B2")));
    }

    #[test]
    fn a_model_that_did_not_learn_its_task_proves_nothing() {
        let (holds, fails) = ([1.0, 1.1, 0.9], [-1.0, -1.1, -0.9]);
        let check = |values: &[f64]| Check::new("x", mean(values), Bound::Above(0.0));
        let of = |precondition: Check| {
            let checks = vec![check(&holds).part("a"), check(&fails).part("b")];
            Verdict::new("A1", checks, "").requires(precondition)
        };
        assert_eq!(of(check(&holds)).outcome, Outcome::InPart);
        let idle = of(check(&fails));
        assert_eq!((idle.outcome, idle.unmet().count()), (Outcome::NotTestable, 1));
        assert!(idle.because(|_| "because".to_owned()).why.is_none());
        assert_eq!(of(check(&[1.0])).outcome, Outcome::NotTestable, "one seed shows nothing");
        assert_eq!(of(check(&fails).part("b")).outcome, Outcome::InPart, "the other part is tested");
        assert_eq!(of(check(&fails).part("a")).outcome, Outcome::Fails);
    }

    #[test]
    fn only_what_fails_has_a_reason() {
        let verdict = |values: &[f64]| {
            let check = Check::new("x", mean(values), Bound::Above(0.0));
            Verdict::new("A1", vec![check], "").because(|checks| {
                format!("{} check does not", checks.iter().filter(|check| check.fails()).count())
            })
        };
        assert_eq!(verdict(&[1.0, 1.1, 0.9]).why, None);
        assert_eq!(verdict(&[-1.0, -1.1, -0.9]).why.as_deref(), Some("1 check does not"));
    }

    #[test]
    fn one_of_many_checks_must_fail_more_clearly_than_an_only_one() {
        // With three seeds, 95 % reach 4.3 standard errors and 99 % reach 9.9.
        let barely = [-1.0, -1.5, -0.5];
        let check = |values: &[f64]| Check::new("x", mean(values), Bound::Above(0.3));
        let holds = [1.0, 1.1, 0.9];
        assert_eq!(Verdict::new("A1", vec![check(&barely)], "").outcome, Outcome::Fails);
        let five = vec![check(&barely), check(&holds), check(&holds), check(&holds), check(&holds)];
        assert_eq!(Verdict::new("A1", five, "").outcome, Outcome::Undecided);
    }
}
