use regard_nn::analysis::eigen;
use regard_nn::analysis::projection::{neighbours, pca};
use regard_nn::tensor::Tensor;
use regard_nn::tensor::random::Key;

#[test]
fn eigenvalues_by_hand() {
    let pairs = eigen::symmetric(vec![2.0, 1.0, 1.0, 2.0], 2);
    assert!((pairs[0].0 - 3.0).abs() < 1e-12 && (pairs[1].0 - 1.0).abs() < 1e-12);
    assert!((pairs[0].1[0] - pairs[0].1[1]).abs() < 1e-12);
}

/// A·v = λ·v with orthonormal vectors: for random matrices, for few distinct entries, and for repeated eigenvalues.
#[test]
fn eigenvectors_satisfy_their_definition() {
    let draws = Key::new(4).normal(60 * 60, 1.0);
    let without_plan = |i: usize, j: usize| f64::from(draws[i * 60 + j] + draws[j * 60 + i]);
    let of_rank_two = |i: usize, j: usize| f64::from(draws[i] * draws[j] + draws[60 + i] * draws[60 + j]);
    let mostly_equal = |i: usize, j: usize| if i == j { 3.0 } else { f64::from(u8::from(i + j == 5)) };
    let tridiagonal = |i: usize, j: usize| [2.0, -1.0, 0.0][i.abs_diff(j).min(2)];
    let kinds: [&dyn Fn(usize, usize) -> f64; 5] =
        [&without_plan, &of_rank_two, &mostly_equal, &tridiagonal, &|_, _| 0.0];
    for kind in kinds {
        for n in [1, 2, 3, 20, 60] {
            let a: Vec<f64> = (0..n * n).map(|at| kind(at / n, at % n)).collect();
            check(&a, n, &eigen::symmetric(a.clone(), n));
        }
    }
    assert!(eigen::symmetric(vec![], 0).is_empty());
    assert_eq!(eigen::symmetric(vec![f64::NAN; 9], 3).len(), 3, "terminates");
}

fn check(a: &[f64], n: usize, pairs: &[(f64, Vec<f64>)]) {
    assert_eq!(pairs.len(), n);
    assert!(pairs.is_sorted_by(|x, y| x.0 >= y.0));
    let size = a.iter().map(|x| x.abs()).fold(1.0, f64::max) * n as f64;
    for (i, (value, vector)) in pairs.iter().enumerate() {
        for row in 0..n {
            let product: f64 = (0..n).map(|k| a[row * n + k] * vector[k]).sum();
            assert!(
                (product - value * vector[row]).abs() < 1e-13 * size,
                "{product} {}",
                value * vector[row]
            );
        }
        for (j, (_, other)) in pairs.iter().enumerate() {
            let dot: f64 = vector.iter().zip(other).map(|(x, y)| x * y).sum();
            assert!((dot - f64::from(u8::from(i == j))).abs() < 1e-12);
        }
    }
}

/// The matrix of second differences has the eigenvalues 2 − 2·cos(kπ/(n + 1)).
#[test]
fn eigenvalues_of_second_differences() {
    let n = 30_usize;
    let a = (0..n * n).map(|at| [2.0, -1.0, 0.0][(at / n).abs_diff(at % n).min(2)]).collect();
    for (i, (value, _)) in eigen::symmetric(a, n).iter().enumerate() {
        let angle = (n - i) as f64 * std::f64::consts::PI / (n + 1) as f64;
        assert!((value - (2.0 - 2.0 * angle.cos())).abs() < 1e-12);
    }
}

/// Points on a line through (1, 2, 3) in the direction (2, −1, 2)/3, with small deviations in a known direction.
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
fn neighbours_by_cosine() {
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
