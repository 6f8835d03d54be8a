//! Random draws by name.

use regard_tensor::random::Key;

#[test]
fn uniform_draws_fill_the_unit_interval() {
    let key = Key::new(1).site("test");
    let draws: Vec<f64> = (0..100_000).map(|i| f64::from(key.uniform(i / 1000, i % 1000))).collect();
    assert!(draws.iter().all(|x| (0.0..1.0).contains(x)));
    let mean = draws.iter().sum::<f64>() / 1e5;
    // Five standard errors of 1/√12 over 100 000 draws.
    assert!((mean - 0.5).abs() < 5.0 * 0.2887 / 316.2, "{mean}");
    let mut bins = [0_i32; 16];
    for x in &draws {
        bins[(x * 16.0) as usize] += 1;
    }
    // 6250 each, with a deviation of 77.
    assert!(bins.iter().all(|n| (n - 6250).abs() < 5 * 77), "{bins:?}");
}

#[test]
fn uniform_uses_the_upper_bits_of_the_word() {
    let key = Key::new(9).step(1);
    for element in 0..9 {
        let word = key.words(3, element / 4)[(element % 4) as usize];
        assert_eq!(key.uniform(3, element), (word >> 8) as f32 / 16_777_216.0);
    }
}

#[test]
fn uniforms_stay_below_their_upper_bound() {
    // The largest draw of all, (2²⁴ − 1)/2²⁴, times 1 plus 1 rounds to 2 in f32.
    let largest = |seed: u64| Key::new(seed).words(0, 0).iter().any(|word| word >> 8 == 0xff_ffff);
    let seed = (0..1 << 26).find(|&seed| largest(seed)).unwrap();
    assert!(Key::new(seed).uniforms(4, 1.0, 2.0).iter().all(|x| (1.0..2.0).contains(x)), "seed {seed}");
}

#[test]
fn integers_below_a_limit() {
    let key = Key::new(2);
    let mut seen = [0; 7];
    (0..7000).for_each(|i| seen[key.below(1, i, 7)] += 1);
    // 1000 each, with a deviation of 29.
    assert!(seen.iter().all(|&n: &i32| (n - 1000).abs() < 150), "{seen:?}");
    assert_eq!((key.below(0, 0, 0), key.below(0, 0, 1)), (0, 0));
}

#[test]
fn normal_draws_are_prefixes_of_one_another() {
    let key = Key::new(3).site("weights");
    let long = key.normal(1000, 0.5);
    for count in [0, 1, 2, 3, 5, 999] {
        assert_eq!(key.normal(count, 0.5), long[..count]);
    }
    assert!(long.iter().all(|x| x.is_finite()));
}

#[test]
fn permutations_are_fair() {
    let key = Key::new(4);
    let mut first = [0; 5];
    for example in 0..5000 {
        let order = key.permutation(example, 5);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3, 4]);
        first[order[0]] += 1;
    }
    // 1000 each, with a deviation of 28.
    assert!(first.iter().all(|&n: &i32| (n - 1000).abs() < 141), "{first:?}");
    assert!(key.permutation(0, 0).is_empty());
    assert_eq!(key.permutation(0, 1), [0]);
}

#[test]
fn seeds_steps_and_sites_give_different_sources() {
    let base = Key::new(5);
    assert_ne!(base, Key::new(6));
    assert_ne!(base.step(0), base);
    assert_ne!(base.site(""), base);
    assert_ne!(base.step(1).site("a"), base.step(2).site("a"));
    assert_ne!(base.site("a").site("b"), base.site("b").site("a"));
    assert_ne!(base.words(0, 1), base.words(1, 0));
}
