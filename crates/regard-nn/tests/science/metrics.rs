//! Metrics against scikit-learn and sacreBLEU, on paper, and on bad input.

use proptest::prelude::*;
use regard_nn::metrics::{Bleu, Confusion, RocCurve, perplexity, tokenize_13a};
use serde_json::Value;

/// The cases of one family of the golden file, which `tools/golden_metrics.py` makes.
fn cases(family: &str) -> Vec<Value> {
    let golden: Value = serde_json::from_str(include_str!("../golden/metrics.json")).unwrap();
    let cases = golden[family].as_array().unwrap().clone();
    assert!(!cases.is_empty());
    cases
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn indices(value: &Value) -> Vec<usize> {
    value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap() as usize).collect()
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

/// Both compute in f64, in another order.
fn assert_close(ours: &[f64], theirs: &[f64], what: &str) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (our, their) in ours.iter().zip(theirs) {
        assert!((our - their).abs() <= 1e-12 * their.abs().max(1.0), "{what}: {ours:?} {theirs:?}");
    }
}

#[test]
fn classification_equals_scikit_learn() {
    for case in cases("classification") {
        let name = case["name"].as_str().unwrap();
        let classes = case["classes"].as_u64().unwrap() as usize;
        let confusion =
            Confusion::of(classes, &indices(&case["truth"]), &indices(&case["predicted"])).unwrap();
        for (truth, row) in case["confusion"].as_array().unwrap().iter().enumerate() {
            for (predicted, count) in indices(row).into_iter().enumerate() {
                assert_eq!(confusion.count(truth, predicted), count as u64, "{name}");
            }
        }
        let each = |measure: fn(&Confusion, usize) -> f64| -> Vec<f64> {
            (0..classes).map(|class| measure(&confusion, class)).collect()
        };
        assert_close(&[confusion.accuracy()], &[case["accuracy"].as_f64().unwrap()], name);
        assert_close(&each(Confusion::precision), &numbers(&case["precision"]), name);
        assert_close(&each(Confusion::recall), &numbers(&case["recall"]), name);
        assert_close(&each(Confusion::f1), &numbers(&case["f1"]), name);
        let means = [confusion.macro_precision(), confusion.macro_recall(), confusion.macro_f1()];
        assert_close(&means, &numbers(&case["macro"]), name);
    }
}

#[test]
fn curves_equal_scikit_learn() {
    for case in cases("ranking") {
        let name = case["name"].as_str().unwrap();
        let truth: Vec<bool> = indices(&case["truth"]).iter().map(|&class| class == 1).collect();
        let scores: Vec<f32> = numbers(&case["scores"]).iter().map(|&score| score as f32).collect();
        let curve = RocCurve::of(&truth, &scores).unwrap();
        let points = curve.points();
        let rates: Vec<f64> = points.iter().map(|point| point.false_positive_rate).collect();
        assert_close(&rates, &numbers(&case["false_positive_rates"]), name);
        let rates: Vec<f64> = points.iter().map(|point| point.true_positive_rate).collect();
        assert_close(&rates, &numbers(&case["true_positive_rates"]), name);
        assert_eq!(points[0].threshold, f32::INFINITY);
        let thresholds: Vec<f64> = points[1..].iter().map(|point| f64::from(point.threshold)).collect();
        assert_close(&thresholds, &numbers(&case["thresholds"]), name);
        assert_close(&[curve.area()], &[case["area"].as_f64().unwrap()], name);
    }
}

#[test]
fn bleu_equals_sacrebleu() {
    for case in cases("bleu") {
        let name = case["name"].as_str().unwrap();
        let mut bleu = Bleu::default();
        for segment in case["segments"].as_array().unwrap() {
            bleu.add(segment["output"].as_str().unwrap(), &strings(&segment["references"])).unwrap();
        }
        let score = bleu.score().unwrap();
        let counts =
            |key: &str| -> Vec<u64> { indices(&case[key]).iter().map(|&count| count as u64).collect() };
        assert_eq!(score.matches.to_vec(), counts("matches"), "{name}");
        assert_eq!(score.totals.to_vec(), counts("totals"), "{name}");
        assert_eq!(score.output_length, case["output_length"].as_u64().unwrap(), "{name}");
        assert_eq!(score.reference_length, case["reference_length"].as_u64().unwrap(), "{name}");
        assert_close(&score.precisions, &numbers(&case["precisions"]), name);
        assert_close(&[score.brevity_penalty], &[case["brevity_penalty"].as_f64().unwrap()], name);
        assert_close(&[score.score], &[case["score"].as_f64().unwrap()], name);
    }
}

#[test]
fn tokens_equal_sacrebleu() {
    for case in cases("tokens") {
        assert_eq!(
            tokenize_13a(case["line"].as_str().unwrap()),
            strings(&case["tokens"]),
            "{}",
            case["line"]
        );
    }
}

#[test]
fn perplexity_equals_the_exponential_of_the_mean() {
    for case in cases("perplexity") {
        let ours = perplexity(case["loss"].as_f64().unwrap(), case["tokens"].as_u64().unwrap()).unwrap();
        let theirs = case["perplexity"].as_f64().unwrap();
        assert!((ours - theirs).abs() <= 1e-12 * theirs, "{ours} {theirs}");
    }
}

#[test]
fn on_paper() {
    // Of three positive pairs with negatives 0.1 and 0.4: (0.8: both), (0.4: one and a tie), so 3.5 of 4.
    let curve = RocCurve::of(&[false, true, false, true], &[0.1, 0.4, 0.4, 0.8]).unwrap();
    assert_eq!(curve.area(), 3.5 / 4.0);
    // A uniform guess among 50 words has a perplexity of 50.
    assert!((perplexity(10.0 * 50_f64.ln(), 10).unwrap() - 50.0).abs() < 1e-12);
    // 4, 2, 1 and 0 matching n-grams of 5, 4, 3 and 2; the last counts as half a match.
    let mut bleu = Bleu::default();
    bleu.add("a b c x e", &["a b c d e"]).unwrap();
    let expected = 100.0 * (4.0 / 5.0 * 2.0 / 4.0 * 1.0 / 3.0 * 0.5 / 2.0_f64).powf(0.25);
    assert!((bleu.score().unwrap().score - expected).abs() < 1e-12);
}

#[test]
fn what_cannot_be_measured_is_an_error() {
    let problem = |result: regard_nn::Result<f64>| result.unwrap_err().to_string();
    let area = |truth: &[bool], scores: &[f32]| RocCurve::of(truth, scores).map(|curve| curve.area());
    assert_eq!(
        problem(area(&[true, true], &[0.1, 0.2])),
        "ROC curve: both classes must occur, got 2 positive and 0 negative examples"
    );
    assert_eq!(problem(area(&[true], &[])), "ROC curve: 1 true classes and 0 scores");
    assert_eq!(
        problem(area(&[], &[])),
        "ROC curve: both classes must occur, got 0 positive and 0 negative examples"
    );
    assert_eq!(
        problem(area(&[true, false], &[0.0, f32::NAN])),
        "ROC curve: the score of example 1 is not a number"
    );
    let accuracy = |classes, truth: &[usize], predicted: &[usize]| {
        Confusion::of(classes, truth, predicted).map(|confusion| confusion.accuracy())
    };
    assert_eq!(problem(accuracy(2, &[0, 2], &[0, 1])), "confusion matrix: class 2 of 2 classes");
    assert_eq!(problem(accuracy(2, &[0], &[0, 1])), "confusion matrix: 1 true classes and 2 predicted ones");
    assert_eq!(problem(accuracy(2, &[], &[])), "confusion matrix: 0 true classes and 0 predicted ones");
    assert!(problem(accuracy(0, &[0], &[0])).contains("0 classes"));
    assert!(problem(accuracy(usize::MAX, &[0], &[0])).contains("expected 1 to"));
    assert_eq!(problem(perplexity(1.0, 0)), "perplexity: there are no tokens");
    assert_eq!(problem(perplexity(f64::NAN, 1)), "perplexity: the loss is not a number");
    assert_eq!(problem(Bleu::default().score().map(|score| score.score)), "BLEU: there are no segments");
    let mut bleu = Bleu::default();
    assert_eq!(bleu.add("a", &[]).unwrap_err().to_string(), "BLEU: segment 1 has no reference");
    assert_eq!(bleu.add("a", &["", ""]).unwrap_err().to_string(), "BLEU: segment 1 has no reference");
}

proptest! {
    /// The area is the share of pairs of a positive and a negative example that are ordered right.
    #[test]
    fn the_area_counts_pairs(examples in prop::collection::vec((any::<bool>(), 0_u8..6), 2..40)) {
        let (truth, scores): (Vec<bool>, Vec<f32>) = examples.iter().map(|&(t, s)| (t, f32::from(s))).unzip();
        let (mut ordered, mut pairs) = (0.0, 0.0);
        for (i, _) in truth.iter().enumerate().filter(|(_, positive)| **positive) {
            for (j, _) in truth.iter().enumerate().filter(|(_, positive)| !**positive) {
                pairs += 1.0;
                ordered += if scores[i] > scores[j] { 1.0 } else if scores[i] == scores[j] { 0.5 } else { 0.0 };
            }
        }
        let curve = RocCurve::of(&truth, &scores);
        prop_assert_eq!(curve.is_ok(), pairs > 0.0);
        if let Ok(curve) = curve {
            prop_assert!((curve.area() - ordered / pairs).abs() < 1e-12);
            let last = curve.points().last().unwrap();
            prop_assert_eq!((last.false_positive_rate, last.true_positive_rate), (1.0, 1.0));
            let rises = |points: &[regard_nn::metrics::RocPoint]| {
                points[0].threshold > points[1].threshold
                    && points[0].false_positive_rate <= points[1].false_positive_rate
                    && points[0].true_positive_rate <= points[1].true_positive_rate
            };
            prop_assert!(curve.points().windows(2).all(rises));
        }
    }

    /// Whatever is compared, the score is a number from 0 to 100, and 100 for four or more equal tokens.
    #[test]
    fn bleu_has_its_bounds(output in "\\PC{0,40}", reference in "\\PC{1,40}") {
        let mut bleu = Bleu::default();
        bleu.add(&output, &[&reference]).unwrap();
        let score = bleu.score().unwrap().score;
        prop_assert!((0.0..=100.0 + 1e-9).contains(&score), "{}", score);
        let mut same = Bleu::default();
        same.add(&reference, &[&reference]).unwrap();
        if tokenize_13a(&reference).len() >= 4 {
            prop_assert!((same.score().unwrap().score - 100.0).abs() < 1e-9);
        }
    }

    /// No sign is lost but white space.
    #[test]
    fn tokens_keep_the_letters(text in "[a-zé.,0-9 '()-]{0,40}") {
        let tokens = tokenize_13a(&text);
        prop_assert_eq!(tokens.concat(), text.split_whitespace().collect::<String>());
        prop_assert!(tokens.iter().all(|token| !token.is_empty()));
    }
}
