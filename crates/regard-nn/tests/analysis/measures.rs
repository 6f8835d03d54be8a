use super::planted;
use regard_nn::analysis::{
    HeadSettings, Measure, MeasurePlan, Tokens, Visibility, measure_heads, prefix_matching, repeated_random,
};
use regard_nn::models::form::Window;
use regard_nn::tensor::random::Key;

const CAUSAL: Visibility = Visibility { causal: true, window: None };
const FULL: Visibility = Visibility { causal: false, window: None };

fn close(got: Option<f64>, expected: f64) {
    assert!(got.is_some_and(|got| (got - expected).abs() < 1e-6), "{got:?} is not {expected}");
}

#[test]
fn causal_measures_by_hand() {
    let mut tokens = Tokens::new(vec![5, 7, 5, 5]);
    tokens.special = vec![true, false, false, false];
    tokens.delimiter = vec![false, true, false, false];
    #[rustfmt::skip]
    let weights = [
        1.0, 0.0, 0.0, 0.0,
        0.5, 0.5, 0.0, 0.0,
        0.25, 0.25, 0.5, 0.0,
        0.25, 0.5, 0.125, 0.125,
    ];
    let values = MeasurePlan::new(&tokens, CAUSAL).unwrap().measure(&weights, 4).unwrap();
    let of = |measure: Measure| values[measure as usize];
    // Query 0 has one key and is left out. In bits the entropies are 1, 1.5 and 1.75.
    let ln2 = 2.0_f64.ln();
    close(of(Measure::Entropy), (1.0 + 1.5 + 1.75) * ln2 / 3.0);
    close(of(Measure::RelativeEntropy), (1.0 + 1.5 * ln2 / 3.0_f64.ln() + 1.75 / 2.0) / 3.0);
    close(of(Measure::Confidence), 0.5);
    close(of(Measure::Distance), (0.5 + 0.75 + (0.75 + 1.0 + 0.125)) / 3.0);
    close(of(Measure::Previous), (0.5 + 0.25 + 0.125) / 3.0);
    assert_eq!(of(Measure::Next), None);
    close(of(Measure::Itself), (0.5 + 0.5 + 0.125) / 3.0);
    close(of(Measure::First), (0.5 + 0.25 + 0.25) / 3.0);
    close(of(Measure::Special), (0.5 + 0.25 + 0.25) / 3.0);
    // Query 1 is the delimiter itself.
    close(of(Measure::Delimiters), f64::midpoint(0.25, 0.5));
    close(of(Measure::Sink), 1.0 / 3.0);
    // The token of query 2 occurred at 0, that of query 3 at 0 and 2.
    close(of(Measure::Duplicate), f64::midpoint(0.25, 0.25 + 0.125));
    // The token after the 5 at 0 is at 1; for query 3 the token after the 5 at 2 is itself, which does not count.
    close(of(Measure::Induction), f64::midpoint(0.25, 0.5));
}

#[test]
fn bidirectional_measures_by_hand() {
    let weights = [0.2, 0.3, 0.5, 0.1, 0.1, 0.8, 0.6, 0.4, 0.0];
    let values = MeasurePlan::new(&Tokens::new(vec![1, 2, 3]), FULL).unwrap().measure(&weights, 3).unwrap();
    let of = |measure: Measure| values[measure as usize];
    close(of(Measure::Previous), f64::midpoint(0.1, 0.4));
    close(of(Measure::Next), f64::midpoint(0.3, 0.8));
    close(of(Measure::Itself), (0.2 + 0.1 + 0.0) / 3.0);
    close(of(Measure::First), f64::midpoint(0.1, 0.6));
    close(of(Measure::Sink), 0.5);
    close(of(Measure::Confidence), (0.5 + 0.8 + 0.6) / 3.0);
    for undefined in [Measure::Duplicate, Measure::Induction, Measure::Special, Measure::Delimiters] {
        assert_eq!(of(undefined), None, "{}", undefined.name());
    }
}

#[test]
fn windows_limit_the_visible_keys() {
    let near = Visibility { causal: true, window: Some(Window { before: 1, after: 0 }) };
    let weights = [1.0, 0.0, 0.0, 0.5, 0.5, 0.0, 0.0, 0.5, 0.5];
    let values = MeasurePlan::new(&Tokens::new(vec![4, 4, 4]), near).unwrap().measure(&weights, 3).unwrap();
    close(values[Measure::RelativeEntropy as usize], 1.0);
    close(values[Measure::First as usize], 0.5); // not visible to query 2
}

#[test]
fn plans_can_be_restricted_to_some_queries() {
    let weights = [0.2, 0.3, 0.5, 0.1, 0.1, 0.8, 0.6, 0.4, 0.0];
    let plan = MeasurePlan::new(&Tokens::new(vec![1, 2, 3]), FULL).unwrap();
    let values = plan.clone().only(|query| query == 1).measure(&weights, 3).unwrap();
    close(values[Measure::Confidence as usize], 0.8);
    close(values[Measure::Next as usize], 0.8);
    assert_eq!(plan.only(|_| false).measure(&weights, 3).unwrap(), [None; Measure::ALL.len()]);
}

#[test]
fn far_tokens_are_eight_positions_away() {
    let length = 10;
    let weights = vec![0.1; length * length];
    let values =
        MeasurePlan::new(&Tokens::new((0..10).collect()), FULL).unwrap().measure(&weights, length).unwrap();
    // Queries 0 and 9 have two far tokens, 1 and 8 have one.
    close(values[Measure::Far as usize], f64::midpoint(0.2, 0.1));
}

#[test]
fn wrong_sizes_are_errors() {
    let plan = MeasurePlan::new(&Tokens::new(vec![1, 2]), CAUSAL).unwrap();
    assert!(plan.measure(&[1.0, 0.0, 0.5], 2).is_err());
    assert!(plan.measure(&[1.0, 0.0, 0.5, 0.5], 1).is_err());
    assert!(MeasurePlan::new(&Tokens::new(vec![]), CAUSAL).is_err());
    let uneven = Tokens { special: vec![], ..Tokens::new(vec![1]) };
    assert!(MeasurePlan::new(&uneven, CAUSAL).is_err());
}

/// Each measure finds its planted head and no other.
#[test]
fn planted_heads_are_found() {
    let model = planted::model();
    let texts: Vec<Tokens> = repeated_random(0..16, 7, 12, Key::new(3)).collect();
    let mut table =
        measure_heads(&model, texts.clone().into_iter().map(Ok), HeadSettings::default()).unwrap();
    table.extend(prefix_matching(&model, texts.into_iter(), HeadSettings::default()).unwrap());
    for (measure, planted) in [
        (Measure::Previous, (0, 0)),
        (Measure::Duplicate, (0, 1)),
        (Measure::Itself, (0, 3)),
        (Measure::Induction, (1, 0)),
        (Measure::PrefixMatching, (1, 0)),
    ] {
        for row in table.of(measure) {
            if (row.layer, row.head) == planted {
                assert!(row.mean > 0.99, "{} of the planted head is {}", measure.name(), row.mean);
            } else {
                assert!(row.mean < 0.4, "{} of {}.{} is {}", measure.name(), row.layer, row.head, row.mean);
            }
        }
    }
    // The other heads are uniform.
    for (layer, head) in [(0, 2), (1, 1), (1, 2), (1, 3)] {
        let row = table.find(layer, head, Measure::RelativeEntropy).unwrap();
        assert!((row.mean - 1.0).abs() < 1e-6);
    }
}

#[test]
fn names_are_unique_and_described() {
    let mut names: Vec<&str> = Measure::ALL.iter().map(|measure| measure.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Measure::ALL.len());
    for (i, measure) in Measure::ALL.iter().enumerate() {
        assert_eq!(*measure as usize, i);
        assert!(measure.description().len() > 20);
    }
}
