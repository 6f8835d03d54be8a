//! Batches of examples: every example once per epoch, in an order that can be resumed.

use proptest::prelude::*;
use regard_nn::data::batches::{
    Batches, Classification, DataPosition, Examples, Hiding, IGNORED, Masked, Masking, Order, Tagging,
    Translation,
};
use regard_nn::tensor::random::Key;
use regard_nn::tokens::{Tokenizer, WordPieceSettings, WordSettings};

fn order(lengths: Vec<usize>, batch_size: usize, seed: u64) -> Order {
    Order::new(lengths, batch_size, Key::new(seed)).expect("an order")
}

/// Texts of ids above 10, of lengths 0 to 16.
fn texts(count: usize) -> Vec<Vec<u32>> {
    (0..count).map(|i| (0..(i * 7) % 17).map(|j| 10 + (i * 31 + j) as u32 % 90).collect()).collect()
}

proptest! {
    #[test]
    fn every_example_occurs_once_per_epoch(
        lengths in proptest::collection::vec(0_usize..50, 1..300), batch_size in 1_usize..40, seed in any::<u64>()
    ) {
        let mut order = order(lengths.clone(), batch_size, seed);
        let mut used = 0;
        for epoch in 0..3 {
            let mut seen = Vec::new();
            for batch in 0..order.batches() {
                prop_assert_eq!(order.position(), DataPosition { epoch, batch: batch as u64 });
                let selection = order.next();
                prop_assert_eq!((selection.first, selection.epoch), (used, epoch));
                used += selection.examples.len() as u64;
                seen.extend(selection.examples);
            }
            seen.sort_unstable();
            prop_assert!(seen.iter().copied().eq(0..lengths.len()));
        }
        let mut once: Vec<usize> = order.once().into_iter().flat_map(|selection| selection.examples).collect();
        prop_assert!(once.windows(2).all(|pair| lengths[pair[0]] >= lengths[pair[1]]));
        once.sort_unstable();
        prop_assert!(once.into_iter().eq(0..lengths.len()));
    }

    #[test]
    fn resuming_from_a_saved_position_gives_the_same_batches(steps in 0_usize..60, seed in any::<u64>()) {
        let lengths: Vec<usize> = (0..100).map(|i| i % 13).collect();
        let mut straight = order(lengths.clone(), 8, seed);
        for _ in 0..steps {
            straight.next();
        }
        let saved = serde_json::to_string(&straight.position()).expect("JSON");
        let mut resumed = order(lengths, 8, seed);
        resumed.seek(serde_json::from_str(&saved).expect("JSON")).expect("a position");
        for _ in 0..30 {
            prop_assert_eq!(straight.next(), resumed.next());
        }
    }
}

#[test]
fn epochs_and_seeds_have_different_orders() {
    let first = |seed, epoch| {
        let mut order = order(vec![1; 1000], 1000, seed);
        order.seek(DataPosition { epoch, batch: 0 }).expect("a position");
        order.next().examples
    };
    assert_ne!(first(1, 0), first(1, 1));
    assert_ne!(first(1, 0), first(2, 0));
    assert_eq!(first(1, 1), first(1, 1));
}

#[test]
fn examples_of_similar_length_share_a_batch() {
    let lengths: Vec<usize> = (0..3200).map(|i| (i * 7919) % 200).collect();
    let mut order = order(lengths.clone(), 32, 3);
    let mut padding = 0;
    for _ in 0..order.batches() {
        let batch = order.next();
        let longest = batch.examples.iter().map(|&example| lengths[example]).max().expect("examples");
        padding += batch.examples.iter().map(|&example| longest - lengths[example]).sum::<usize>();
    }
    let words: usize = lengths.iter().sum();
    assert!(padding * 20 < words, "{padding} of padding for {words}");
}

#[test]
fn invalid_orders_are_rejected() {
    assert!(Order::new(vec![], 4, Key::new(1)).is_err());
    assert!(Order::new(vec![1], 0, Key::new(1)).is_err());
    let mut order = order(vec![1; 10], 4, 1);
    let error = order.seek(DataPosition { epoch: 0, batch: 3 }).expect_err("three batches").to_string();
    assert!(error.contains("batch 3 of an epoch of 3"), "{error}");
    order.seek(DataPosition { epoch: u64::MAX, batch: 2 }).expect("far, but there");
    order.next();
}

#[test]
fn classification_pads_to_the_longest_and_keeps_labels_aligned() {
    let texts = texts(50);
    let labels: Vec<usize> = (0..50).map(|i| i % 3).collect();
    let examples = Classification::new(texts.clone(), labels.clone(), 0).expect("examples");
    let mut batches = Batches::new(examples, 8, Key::new(1)).expect("batches");
    let mut batch_list: Vec<_> =
        (0..batches.batches_per_epoch()).map(|_| batches.next().expect("a batch")).collect();
    batch_list.extend(batches.once().map(|batch| batch.expect("a batch")));
    for batch in batch_list {
        let [rows, time] = batch.ids.shape()[..] else { panic!("two axes") };
        assert_eq!(batch.present.shape(), batch.ids.shape());
        assert_eq!(time, *batch.lengths.iter().max().expect("texts"));
        assert_eq!(rows, batch.selection.examples.len());
        for (row, &example) in batch.selection.examples.iter().enumerate() {
            let ids = &batch.ids.values()[row * time..][..time];
            let present = &batch.present.values()[row * time..][..time];
            let text = &texts[example];
            assert_eq!(&ids[..text.len()], text);
            assert!(ids[text.len()..].iter().all(|&id| id == 0));
            assert_eq!(batch.lengths[row], text.len().max(1));
            assert_eq!(present.iter().filter(|&&here| here).count(), text.len().max(1));
            assert_eq!(batch.labels.values()[row] as usize, labels[example]);
        }
    }
    assert!(Classification::new(texts, vec![0], 0).is_err());
}

#[test]
fn tagging_has_a_class_for_every_token() {
    let texts = texts(30);
    let classes: Vec<Vec<u32>> = texts.iter().map(|text| text.iter().map(|id| id % 5).collect()).collect();
    let examples = Tagging::new(texts.clone(), classes.clone(), 0).expect("examples");
    for batch in Batches::new(examples, 7, Key::new(1)).expect("batches").once() {
        let batch = batch.expect("a batch");
        for (&id, &class) in batch.ids.values().iter().zip(batch.targets.values()) {
            assert_eq!(class, if id == 0 { IGNORED } else { id % 5 });
        }
    }
    assert!(Tagging::new(texts.clone(), classes[1..].to_vec(), 0).is_err());
    let error = Tagging::new(vec![vec![1, 2]], vec![vec![1]], 0).expect_err("one class").to_string();
    assert!(error.contains("text 0 has 2 ids, but 1 classes"), "{error}");
}

#[test]
fn each_epoch_hides_other_words_and_asks_for_their_classes() {
    let texts = texts(30);
    let classes: Vec<Vec<u32>> = texts.iter().map(|text| text.iter().map(|id| id % 5).collect()).collect();
    let hiding = Hiding::new(999, Key::new(3));
    let examples = Tagging::new(texts.clone(), classes.clone(), 0).expect("examples").hiding(hiding);
    for batch in Batches::new(examples, 7, Key::new(1)).expect("batches").once() {
        let batch = batch.expect("a batch");
        let time = batch.ids.shape()[1];
        for (row, &example) in batch.selection.examples.iter().enumerate() {
            let (text, hidden) = (&texts[example], hiding.places(texts[example].len(), 0, example as u64));
            assert!(text.is_empty() || hidden.contains(&true), "at least one word is hidden");
            for place in 0..text.len() {
                let at = row * time + place;
                let expected = if hidden[place] { (999, text[place] % 5) } else { (text[place], IGNORED) };
                assert_eq!((batch.ids.values()[at], batch.targets.values()[at]), expected);
            }
        }
    }
    let often =
        |epoch| (0..200).flat_map(|example| hiding.places(20, epoch, example)).filter(|&one| one).count();
    // One in seven of 20, and one in 20 that always is: 3.71 a text.
    assert!((often(0) as f64 / 200.0 - 3.71).abs() < 0.4, "{}", often(0));
    assert_ne!(hiding.places(40, 0, 0), hiding.places(40, 1, 0), "another epoch hides others");
}

#[test]
fn the_decoder_input_is_the_shifted_target() {
    let pairs: Vec<(Vec<u32>, Vec<u32>)> =
        (1..40).map(|i| ((0..=i % 7).collect(), (10..=10 + i % 5).chain([1]).collect())).collect();
    let examples = Translation::new(pairs.clone(), 0, 99).expect("examples");
    for batch in Batches::new(examples, 6, Key::new(1)).expect("batches").once() {
        let batch = batch.expect("a batch");
        let time = batch.targets.shape()[1];
        assert_eq!(batch.input.shape(), batch.targets.shape());
        for (row, &example) in batch.selection.examples.iter().enumerate() {
            let target = &pairs[example].1;
            let input = &batch.input.values()[row * time..][..time];
            let targets = &batch.targets.values()[row * time..][..time];
            assert_eq!(input[0], 99);
            assert_eq!(&input[1..target.len()], &target[..target.len() - 1]);
            assert_eq!(&targets[..target.len()], target);
            assert!(targets[target.len()..].iter().all(|&id| id == IGNORED));
            assert!(input[target.len()..].iter().all(|&id| id == 0));
            let present = &batch.target_present.values()[row * time..][..time];
            assert!(present.iter().enumerate().all(|(at, &here)| here == (at < target.len())));
        }
        assert_eq!(batch.source_present.shape(), batch.source.shape());
    }
    assert!(Translation::new(vec![(vec![], vec![1])], 0, 0).is_err());
}

fn bert() -> Tokenizer {
    let letters = "the quick brown fox jumps over the lazy dog ".repeat(3);
    let settings = WordPieceSettings { size: 74, ..WordPieceSettings::default() };
    Tokenizer::word_pieces([letters], &settings).expect("training")
}

/// Long texts of ordinary tokens between `[CLS]` and `[SEP]`.
fn framed(tokenizer: &Tokenizer, count: usize) -> Vec<Vec<u32>> {
    let size = tokenizer.vocabulary_size() as u32;
    (0..count as u32)
        .map(|i| [2].into_iter().chain((0..198).map(|j| 5 + (i * 37 + j) % (size - 5))).chain([3]).collect())
        .collect()
}

#[test]
fn masking_has_the_published_shares() {
    let tokenizer = bert();
    let texts = framed(&tokenizer, 400);
    let masked = Masked::new(texts.clone(), Masking::new(&tokenizer).expect("a mask"), Key::new(1));
    let (mut chosen, mut hidden, mut same, mut total) = (0, 0, 0, 0);
    for batch in Batches::new(masked, 50, Key::new(1)).expect("batches").once() {
        let batch = batch.expect("a batch");
        let originals = batch.selection.examples.iter().flat_map(|&example| &texts[example]);
        for ((&original, &id), &target) in originals.zip(batch.ids.values()).zip(batch.targets.values()) {
            if original < 5 {
                assert_eq!((id, target), (original, IGNORED), "special tokens are not masked");
                continue;
            }
            total += 1;
            if target == IGNORED {
                assert_eq!(id, original);
            } else {
                assert_eq!(target, original);
                chosen += 1;
                hidden += usize::from(id == 4);
                same += usize::from(id == original);
                assert!(id >= 4, "no special token but the mask is inserted");
            }
        }
    }
    // 79,200 tokens; five standard errors of a share.
    let near = |part: usize, whole: usize, share: f64| {
        let error = 5.0 * (share * (1.0 - share) / whole as f64).sqrt();
        assert!((part as f64 / whole as f64 - share).abs() < error, "{part} of {whole}, expected {share}");
    };
    near(chosen, total, 0.15);
    near(hidden, chosen, 0.8);
    // A random token is the original itself once in 69 draws.
    near(same, chosen, 0.1 + 0.1 / (tokenizer.vocabulary_size() - 5) as f64);
}

#[test]
fn masking_depends_on_the_epoch_and_not_on_the_batch() {
    let tokenizer = bert();
    let texts = framed(&tokenizer, 20);
    let masking = Masking::new(&tokenizer).expect("a mask");
    let masked = |batch_size| {
        let examples = Masked::new(texts.clone(), masking.clone(), Key::new(1));
        let mut batches = Batches::new(examples, batch_size, Key::new(2)).expect("batches");
        let mut epochs = Vec::new();
        for _ in 0..2 {
            let mut rows = vec![Vec::new(); 20];
            for _ in 0..batches.batches_per_epoch() {
                let batch = batches.next().expect("a batch");
                let time = batch.ids.shape()[1];
                for (row, &example) in batch.selection.examples.iter().enumerate() {
                    rows[example] = batch.ids.values()[row * time..][..time].to_vec();
                }
            }
            epochs.push(rows);
        }
        epochs
    };
    assert_eq!(masked(3), masked(20));
    let epochs = masked(5);
    assert!(epochs[0].iter().zip(&epochs[1]).all(|(first, second)| first != second));
}

#[test]
fn short_texts_have_a_masked_token_and_empty_ones_none() {
    let tokenizer = bert();
    let texts: Vec<Vec<u32>> =
        (0..200).map(|i| vec![2, 10 + i % 20, 3]).chain([vec![2, 3], vec![]]).collect();
    let masked = Masked::new(texts, Masking::new(&tokenizer).expect("a mask"), Key::new(1));
    let lengths = masked.lengths();
    assert_eq!(lengths.len(), 202);
    for batch in Batches::new(masked, 10, Key::new(1)).expect("batches").once() {
        let batch = batch.expect("a batch");
        let time = batch.ids.shape()[1];
        for (row, &example) in batch.selection.examples.iter().enumerate() {
            let targets = &batch.targets.values()[row * time..][..time];
            let guessed = targets.iter().filter(|&&target| target != IGNORED).count();
            assert_eq!(guessed, usize::from(example < 200), "example {example}");
        }
    }
}

#[test]
fn masking_needs_a_mask_token() {
    let words = Tokenizer::words(["a b"], &WordSettings::default()).expect("training");
    assert!(Masking::new(&words).expect_err("no mask").to_string().contains("no mask token"));
}
