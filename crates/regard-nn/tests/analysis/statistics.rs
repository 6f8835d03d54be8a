use regard_nn::analysis::statistics::*;

fn close(got: f64, expected: f64, tolerance: f64) {
    assert!((got - expected).abs() <= tolerance, "{got} is not {expected}");
}

#[test]
fn moments_match_the_definition() {
    let mut moments = Moments::default();
    for value in [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0] {
        moments.add(value);
    }
    close(moments.mean, 5.0, 1e-12);
    close(moments.variance(), 32.0 / 7.0, 1e-12);
    close(moments.error(), (32.0 / 56.0_f64).sqrt(), 1e-12);
    assert_eq!(Moments::default().error(), 0.0);
}

#[test]
fn ranks_share_ties() {
    assert_eq!(ranks(&[10.0, 20.0, 20.0, 5.0]), [2.0, 3.5, 3.5, 1.0]);
}

#[test]
fn spearman_by_hand() {
    // Without ties: 1 − 6·Σd²/(n(n² − 1)), here Σd² = 4 + 1 + 1 and n = 5.
    let rho = spearman(&[1.0, 2.0, 3.0, 4.0, 5.0], &[3.0, 1.0, 2.0, 4.0, 5.0]).unwrap().unwrap();
    close(rho, 1.0 - 6.0 * 6.0 / 120.0, 1e-12);
    // With ties: ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4 give 4.5/√(4.5·5).
    let tied = spearman(&[1.0, 2.0, 2.0, 3.0], &[1.0, 2.0, 3.0, 4.0]).unwrap().unwrap();
    close(tied, 4.5 / (4.5_f64 * 5.0).sqrt(), 1e-12);
    assert_eq!(spearman(&[1.0, 1.0], &[1.0, 2.0]).unwrap(), None);
    assert_eq!(spearman(&[], &[]).unwrap(), None);
    assert!(spearman(&[1.0], &[1.0, 2.0]).is_err());
    assert!(spearman(&[f64::NAN, 1.0], &[1.0, 2.0]).is_err());
}

#[test]
fn corrections_by_hand() {
    let p = [0.01, 0.04, 0.03, 0.005];
    let holm = holm(&p);
    for (got, expected) in holm.iter().zip([0.03, 0.06, 0.06, 0.02]) {
        close(*got, expected, 1e-12);
    }
    let bh = benjamini_hochberg(&p);
    for (got, expected) in bh.iter().zip([0.02, 0.04, 0.04, 0.02]) {
        close(*got, expected, 1e-12);
    }
    assert_eq!(benjamini_hochberg(&[]), Vec::<f64>::new());
}

#[test]
fn students_tail_matches_known_values() {
    // From a table: t with 1, 4 and 30 degrees of freedom at 97.5 %.
    for (freedom, t) in [(1, 12.706205), (4, 2.776445), (30, 2.042272)] {
        close(student_tail(t, freedom), 0.025, 1e-7);
        close(student_tail(-t, freedom), 0.975, 1e-7);
    }
    close(student_tail(0.0, 7), 0.5, 1e-12);
}

#[test]
fn few_values_give_large_p_values() {
    assert_eq!(one_sided(1.0, 0.0, 1), 1.0);
    assert!(one_sided(1.0, 0.01, 2) > 0.003, "100 standard errors, but only two values");
    assert!(one_sided(1.0, 0.01, 100) < 1e-50);
    assert_eq!(one_sided(-1.0, 0.01, 100), 1.0);
    let one = Resampling::new(0).mean(&[0.3]);
    assert_eq!((one.mean, one.low, one.high), (0.3, f64::NEG_INFINITY, f64::INFINITY));
}

/// Sentences of several words: the interval is over sentences, which is wider than over words if all words of a sentence
/// are right or all are wrong.
#[test]
fn intervals_of_shares_resample_sentences() {
    let resampling = Resampling { resamples: 2000, ..Resampling::new(3) };
    let (mut right, mut other, mut all) = (Total::default(), Total::default(), Total::default());
    for sentence in 0..200_u64 {
        let draws = resampling.draws(sentence);
        right.add(if sentence % 4 == 0 { 0.0 } else { 5.0 }, &draws);
        // Four of five words right in each sentence of the second kind: better on average, with the same uncertainty.
        other.add(if sentence % 4 == 0 { 0.0 } else { 4.0 }, &draws);
        all.add(5.0, &draws);
    }
    let share = right.share(&all, 0.95);
    close(share.mean, 0.75, 1e-12);
    assert_eq!(share.count, 200);
    let reach = 1.96 * (0.75_f64 * 0.25 / 200.0).sqrt();
    close(share.high - share.mean, reach, 0.1 * reach);
    close(share.mean - share.low, reach, 0.1 * reach);
    assert!(right.larger(&other, &all) < 1e-6, "a paired test removes the noise that both share");
    assert_eq!(other.larger(&right, &all), 1.0);
    assert_eq!(Total::default().over(&Total::default()), 0.0);
}

#[test]
fn quantiles_interpolate() {
    assert_eq!(quantile(&[1.0, 2.0, 3.0], 0.25), Some(1.5));
    assert_eq!(quantile(&[], 0.5), None);
}

/// The interval of a mean of n values is about ±1.96·s/√n, and the draws are those of Poisson(1).
#[test]
fn resampled_intervals_have_the_theoretical_width() {
    let values: Vec<f64> = (0..400).map(|i| f64::from((i * 37) % 100)).collect();
    let resampling = Resampling { resamples: 2000, ..Resampling::new(7) };
    let interval = resampling.mean(&values);
    let mut moments = Moments::default();
    for &value in &values {
        moments.add(value);
    }
    let half = 1.96 * moments.error();
    close(interval.mean, 49.5, 1e-9);
    close(interval.high - interval.mean, half, 0.1 * half);
    close(interval.mean - interval.low, half, 0.1 * half);
    assert_eq!(interval, resampling.mean(&values));
    assert_ne!(interval, Resampling { resamples: 2000, ..Resampling::new(8) }.mean(&values));
    let mut draws = Moments::default();
    for times in (0..50).flat_map(|sentence| resampling.draws(sentence)) {
        draws.add(times);
    }
    close(draws.mean, 1.0, 0.02);
    close(draws.variance(), 1.0, 0.03);
}

/// Nine of ten 90 % intervals contain the true mean.
#[test]
fn resampled_intervals_have_the_nominal_coverage() {
    let key = regard_nn::tensor::random::Key::new(5);
    let covered = (0..300_u64).filter(|&trial| {
        let values: Vec<f64> = (0..60).map(|i| f64::from(key.uniform(trial, i))).collect();
        let interval = Resampling { level: 0.9, ..Resampling::new(trial) }.mean(&values);
        interval.low <= 0.5 && 0.5 <= interval.high
    });
    let covered = covered.count();
    assert!((252..=286).contains(&covered), "{covered} of 300");
}
