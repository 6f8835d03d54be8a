//! Validation splits.

use proptest::prelude::*;
use regard_nn::data::idx::Images;
use regard_nn::data::{Example, Labelled};
use regard_nn::tensor::random::Key;

fn labelled(texts: &[(u8, usize)]) -> Labelled {
    let examples =
        texts.iter().map(|&(text, label)| Example { text: text.to_string(), second: None, label }).collect();
    Labelled { classes: vec!["a".into(), "b".into(), "c".into()], examples }
}

#[test]
fn invalid_shares_are_rejected() {
    for share in [0.0, 1.0, -0.5, 2.0, f64::NAN] {
        assert!(labelled(&[(0, 0), (1, 1)]).hold_out(share, Key::new(1)).is_err(), "{share}");
    }
}

#[test]
fn images_are_held_out_by_class() {
    let labels: Vec<u8> = (0..100).map(|i| i / 50).collect();
    let images = Images { rows: 1, columns: 2, pixels: (0..200).collect(), labels };
    let (left, held) = images.hold_out(0.1, Key::new(3)).expect("a split");
    assert_eq!((left.len(), held.len()), (90, 10));
    assert_eq!(held.labels, [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]);
    // Every image is on one side, with its label.
    let mut all: Vec<(&[u8], u8)> = Vec::new();
    for side in [&left, &held] {
        all.extend((0..side.len()).map(|i| (side.image(i).expect("an image"), side.labels[i])));
    }
    all.sort_unstable();
    assert!(
        all.iter()
            .enumerate()
            .all(|(i, (pixels, label))| { pixels[0] == 2 * i as u8 && usize::from(*label) == i / 50 })
    );
    assert_eq!(images.hold_out(0.1, Key::new(3)).expect("a split").1, held);
    assert!(images.hold_out(0.001, Key::new(3)).is_err());
}

#[test]
fn an_error_names_the_class_with_too_few_examples() {
    let error = labelled(&[(0, 0), (1, 0), (2, 1), (3, 1), (4, 2)]).hold_out(0.5, Key::new(1));
    let error = error.expect_err("one example of class c").to_string();
    assert!(error.contains("none of class \"c\""), "{error}");
}

proptest! {
    #[test]
    fn every_example_is_on_one_side_and_equal_texts_on_the_same(
        texts in proptest::collection::vec((any::<u8>(), 0_usize..3), 30..200), seed in any::<u64>()
    ) {
        let all = labelled(&texts);
        let Ok((left, held_out)) = all.clone().hold_out(0.3, Key::new(seed)) else { return Ok(()) };
        let mut together: Vec<&Example> = left.examples.iter().chain(&held_out.examples).collect();
        let mut expected: Vec<&Example> = all.examples.iter().collect();
        let key = |example: &&Example| (example.text.clone(), example.label);
        together.sort_by_key(key);
        expected.sort_by_key(key);
        prop_assert_eq!(together, expected);
        for example in &held_out.examples {
            prop_assert!(left.examples.iter().all(|other| other.text != example.text));
        }
        for (held, all) in held_out.class_counts().iter().zip(all.class_counts()) {
            prop_assert!(*held <= (all as f64 * 0.3).round() as usize);
        }
    }
}
