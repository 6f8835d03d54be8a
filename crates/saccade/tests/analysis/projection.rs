use saccade::analysis::eigen;
use saccade::analysis::projection::{neighbours, pca};
use saccade::tensor::Tensor;
use saccade::tensor::random::Key;

#[test]
fn eigenvalues_by_hand() {
    let pairs = eigen::symmetric(vec![2.0, 1.0, 1.0, 2.0], 2);
    assert!((pairs[0].0 - 3.0).abs() < 1e-12 && (pairs[1].0 - 1.0).abs() < 1e-12);
    assert!((pairs[0].1[0] - pairs[0].1[1]).abs() < 1e-12);
}

/// A·v = λ·v, vectors of length 1 at right angles, for matrices without a plan.
#[test]
fn eigenvectors_are_what_they_should_be() {
    let n = 20;
    let draws = Key::new(4).normal(n * n, 1.0);
    let a: Vec<f64> = (0..n * n).map(|at| f64::from(draws[at] + draws[at % n * n + at / n])).collect();
    let pairs = eigen::symmetric(a.clone(), n);
    assert!(pairs.is_sorted_by(|x, y| x.0 >= y.0));
    for (i, (value, vector)) in pairs.iter().enumerate() {
        for row in 0..n {
            let product: f64 = (0..n).map(|k| a[row * n + k] * vector[k]).sum();
            assert!((product - value * vector[row]).abs() < 1e-10);
        }
        for (j, (_, other)) in pairs.iter().enumerate() {
            let dot: f64 = vector.iter().zip(other).map(|(x, y)| x * y).sum();
            assert!((dot - f64::from(u8::from(i == j))).abs() < 1e-10);
        }
    }
}

/// Points on a line through (1, 2, 3) in the direction (2, −1, 2)/3, with a little beside it in a known direction.
#[test]
fn components_of_a_known_cloud() {
    let direction = [2.0 / 3.0, -1.0 / 3.0, 2.0 / 3.0];
    let beside = [1.0 / 2.0_f64.sqrt(), 0.0, -1.0 / 2.0_f64.sqrt()];
    let mut rows = Vec::new();
    for (along, across) in [(-3.0, 0.5), (-3.0, -0.5), (3.0, 0.5), (3.0, -0.5)] {
        rows.extend((0..3).map(|i| (1.0 + i as f64 + along * direction[i] + across * beside[i]) as f32));
    }
    let found = pca(&Tensor::new(&rows, [4, 3]).unwrap(), 2).unwrap();
    let total = 4.0 * (9.0 + 0.25);
    assert!(
        (found.explained[0] - 36.0 / total).abs() < 1e-6 && (found.explained[1] - 1.0 / total).abs() < 1e-6
    );
    let cosine: f64 = found.components[0].iter().zip(direction).map(|(x, y)| x * y).sum();
    assert!((cosine.abs() - 1.0).abs() < 1e-6);
    assert!(
        found
            .coordinates
            .iter()
            .all(|place| (place[0].abs() - 3.0).abs() < 1e-5 && (place[1].abs() - 0.5).abs() < 1e-5)
    );
    assert!(found.mean.iter().zip([1.0, 2.0, 3.0]).all(|(got, expected)| (got - expected).abs() < 1e-6));
}

#[test]
fn neighbours_by_direction() {
    let table = Tensor::new(&[1.0, 0.0, 5.0, 5.0, 0.0, 2.0, -1.0, 0.0, 0.0, 0.0], [5, 2]).unwrap();
    let found = neighbours(&table, 0, 3).unwrap();
    assert_eq!(found.iter().map(|near| near.0).collect::<Vec<_>>(), [1, 2, 4]);
    assert!((found[0].1 - 0.5_f64.sqrt()).abs() < 1e-12);
    assert_eq!(neighbours(&table, 0, 99).unwrap().last(), Some(&(3, -1.0)));
    assert!(neighbours(&table, 5, 1).is_err());
    assert!(neighbours(&Tensor::zeros([0, 2]), 0, 1).is_err());
    assert!(pca(&Tensor::zeros([3]), 1).is_err());
    assert_eq!(pca(&Tensor::zeros([3, 2]), 5).unwrap().explained, [0.0, 0.0]);
}
