use super::planted;
use regard_nn::analysis::clusters::{against_shuffled, clusters, silhouette};
use regard_nn::analysis::distance::{
    Distances, divergence_of_weights, head_divergences, jensen_shannon, map, root,
};
use regard_nn::analysis::{Head, Tokens, Visibility, repeated_random};
use regard_nn::tensor::random::Key;

#[test]
fn jensen_shannon_by_hand() {
    assert_eq!(jensen_shannon(&[0.5, 0.5], &[0.5, 0.5]), 0.0);
    assert_eq!(jensen_shannon(&[1.0, 0.0], &[0.0, 1.0]), 1.0);
    // The mean of (1, 0) and (½, ½) is (¾, ¼), with 2 − ¾·log₂3 bits; the two have 0 and 1 bits.
    let expected = 2.0 - 0.75 * 3.0_f64.log2() - 0.5;
    assert!((jensen_shannon(&[1.0, 0.0], &[0.5, 0.5]) - expected).abs() < 1e-12);
}

#[test]
fn divergence_of_two_matrices() {
    let causal = Visibility { causal: true, window: None };
    // Query 0 has a single key; query 1 is the case above; the rows of query 2 are disjoint.
    let a = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0];
    let b = [1.0, 0.0, 0.0, 0.5, 0.5, 0.0, 0.0, 0.5, 0.5];
    let expected = f64::midpoint(1.5 - 0.75 * 3.0_f64.log2(), 1.0);
    let got = divergence_of_weights(&a, &b, 3, causal).unwrap().unwrap();
    assert!((got - expected).abs() < 1e-12, "{got} {expected}");
    assert_eq!(divergence_of_weights(&[1.0], &[1.0], 1, causal).unwrap(), None);
    assert!(divergence_of_weights(&a, &b, 2, causal).is_err());
}

/// Uniform heads are equal to each other and differ from focused heads.
#[test]
fn divergences_of_planted_heads() {
    let texts: Vec<Tokens> = repeated_random(0..16, 7, 4, Key::new(3)).collect();
    let (heads, divergences) = head_divergences(&planted::model(), texts.into_iter().map(Ok)).unwrap();
    let index = |layer, head| heads.iter().position(|&h| h == Head { layer, head }).unwrap();
    assert!(divergences.between(index(0, 2), index(1, 3)) < 1e-9);
    // A previous-token head and a self head are disjoint at every query.
    assert!((divergences.between(index(0, 0), index(0, 3)) - 1.0).abs() < 1e-6);
    let (a, b) =
        (divergences.between(index(0, 0), index(0, 2)), divergences.between(index(0, 2), index(0, 0)));
    assert!(a == b && a > 0.3);
    // One key compared with i + 1 equal ones, averaged over queries 1 … 13.
    let by_query = |i: u32| {
        let n = f64::from(i + 1);
        let (one, each) = (f64::midpoint(1.0, 1.0 / n), 1.0 / n / 2.0);
        -one * one.log2() - (n - 1.0) * each * each.log2() - n.log2() / 2.0
    };
    let expected = (1..14).map(by_query).sum::<f64>() / 13.0;
    assert!((a - expected).abs() < 1e-5, "{a} {expected}");
    assert!((root(&divergences).between(0, 2) - divergences.between(0, 2).sqrt()).abs() < 1e-12);
    assert!(head_divergences(&planted::model(), std::iter::empty()).is_err());
    let single = std::iter::once(Ok(Tokens::new(vec![1])));
    assert!(head_divergences(&planted::model(), single).is_err(), "a single token has a single key");
}

#[test]
fn maps_keep_distances_that_fit() {
    let points: [(f64, f64); 5] = [(0.0, 0.0), (3.0, 0.0), (0.0, 4.0), (3.0, 4.0), (1.0, 1.0)];
    let apart = |i: usize, j: usize| (points[i].0 - points[j].0).hypot(points[i].1 - points[j].1);
    let (found, kept) = map(&Distances::from_fn(5, apart), 2);
    for i in 0..5 {
        for j in 0..5 {
            let got = (found[i][0] - found[j][0]).hypot(found[i][1] - found[j][1]);
            assert!((got - apart(i, j)).abs() < 1e-9);
        }
    }
    assert!((kept.iter().sum::<f64>() - 1.0).abs() < 1e-9 && kept[0] > kept[1]);
    assert_eq!(map(&Distances::from_fn(0, |_, _| 0.0), 2).0.len(), 0);
}

fn two_groups() -> Distances {
    let points = [0.0, 1.0, 2.0, 10.0, 11.0, 12.0, 13.0_f64];
    Distances::from_fn(7, |i, j| (points[i] - points[j]).abs())
}

#[test]
fn clusters_and_silhouettes_by_hand() {
    let groups = clusters(&two_groups(), 2).unwrap();
    assert!(groups[..3].iter().all(|&g| g == groups[0]) && groups[3..].iter().all(|&g| g == groups[3]));
    assert_ne!(groups[0], groups[3]);
    let line = Distances::from_fn(3, |i, j| [[0.0, 1.0, 4.0], [1.0, 0.0, 3.0], [4.0, 3.0, 0.0]][i][j]);
    // (4 − 1)/4, (3 − 1)/3, and 0 for the one alone.
    let expected = (0.75 + 2.0 / 3.0) / 3.0;
    assert!((silhouette(&line, &[0, 0, 1]) - expected).abs() < 1e-12);
    // Grouped wrongly: (1 − 4)/4, 0, (3 − 4)/4.
    assert!((silhouette(&line, &[0, 1, 0]) + 1.0 / 3.0).abs() < 1e-12);
    assert!(clusters(&line, 4).is_err() && clusters(&line, 0).is_err());
}

#[test]
fn true_groups_beat_shuffled_ones_and_noise_does_not() {
    let found = against_shuffled(&two_groups(), 2, Key::new(1), 99).unwrap();
    assert!(found.silhouette > 0.8 && found.p_value < 0.05, "{found:?}");
    assert_eq!(found, against_shuffled(&two_groups(), 2, Key::new(1), 99).unwrap());
    let key = Key::new(9);
    let noise = Distances::from_fn(9, |i, j| f64::from(key.uniform(i as u64, j as u64)));
    let found = against_shuffled(&noise, 2, Key::new(1), 99).unwrap();
    assert!(found.p_value > 0.05, "{}", found.p_value);
}
