//! Windows of a text for language models.

use super::made::Folder;
use proptest::prelude::*;
use regard_nn::data::batches::{PackedWindows, RandomWindows};
use regard_nn::data::text::TokenStream;
use regard_nn::tensor::random::Key;
use regard_nn::tokens::{Tokenizer, UnknownCharacter};

/// Ids equal to their positions.
fn counted(count: usize) -> TokenStream {
    TokenStream::new(&(0..count as u32).collect::<Vec<_>>()).expect("ids")
}

#[test]
fn random_windows_start_anywhere_and_targets_are_shifted_by_one() {
    let windows = RandomWindows::new(counted(100), 10, 50, Key::new(1)).expect("windows");
    let mut starts = Vec::new();
    for step in 0..40 {
        let batch = windows.batch(step).expect("a batch");
        assert_eq!(batch.ids.shape()[..], [50, 10]);
        assert_eq!(batch.first, step * 50);
        for (&id, &target) in batch.ids.values().iter().zip(batch.targets.values()) {
            assert_eq!(target, id + 1);
        }
        for row in batch.ids.values().chunks_exact(10) {
            assert!(row.windows(2).all(|pair| pair[1] == pair[0] + 1));
            starts.push(row[0]);
        }
    }
    starts.sort_unstable();
    starts.dedup();
    // 2,000 draws from 90 positions miss one with probability below 1e-7.
    assert!(starts.into_iter().eq(0..90), "every position, and none beyond the last");
}

#[test]
fn the_windows_of_a_step_do_not_depend_on_earlier_steps() {
    let windows = RandomWindows::new(counted(1000), 8, 4, Key::new(1)).expect("windows");
    let late = windows.batch(7).expect("a batch");
    windows.batch(0).expect("a batch");
    assert_eq!(windows.batch(7).expect("a batch"), late);
    assert_ne!(windows.batch(8).expect("a batch").ids, late.ids);
    let other = RandomWindows::new(counted(1000), 8, 4, Key::new(2)).expect("windows");
    assert_ne!(other.batch(7).expect("a batch").ids, late.ids);
    // A larger batch begins with the same windows.
    let larger = RandomWindows::new(counted(1000), 8, 6, Key::new(1)).expect("windows");
    assert_eq!(larger.batch(7).expect("a batch").ids.values()[..32], *late.ids.values());
}

#[test]
fn a_file_of_ids_gives_the_same_windows_as_memory() {
    let folder = Folder::new();
    let text = "to be or not to be, that is the question. ".repeat(50);
    let path = folder.write("a", &text);
    let tokenizer = Tokenizer::characters([&text], UnknownCharacter::Error).expect("training");
    let memory = TokenStream::read(&[&path], &tokenizer).expect("reading");
    let file = TokenStream::read_through(&[&path], &tokenizer, &folder.path().join("ids")).expect("reading");
    let (_, memory) = memory.hold_out(0.3).expect("a split");
    let (_, file) = file.hold_out(0.3).expect("a split");
    let memory = RandomWindows::new(memory, 16, 8, Key::new(1)).expect("windows");
    let file = RandomWindows::new(file, 16, 8, Key::new(1)).expect("windows");
    for step in 0..20 {
        assert_eq!(memory.batch(step), file.batch(step));
    }
}

#[test]
fn a_few_windows_are_evenly_spaced() {
    let windows = PackedWindows::new(counted(1001), 10, 3).expect("windows");
    let starts = |limit: usize| -> Vec<u32> {
        let batches = windows.evenly(limit).map(|batch| batch.expect("a batch").ids);
        batches.flat_map(|ids| ids.values().chunks(10).map(|row| row[0]).collect::<Vec<_>>()).collect()
    };
    assert_eq!(starts(5), [0, 200, 400, 600, 800]);
    assert!(starts(0).is_empty());
    assert_eq!(starts(100).len(), 100);
    assert_eq!(starts(usize::MAX).len(), 100);
    assert_eq!(PackedWindows::new(counted(5), 10, 3).expect("windows").evenly(2).count(), 1);
}

#[test]
fn a_text_shorter_than_the_context_is_rejected() {
    let error = RandomWindows::new(counted(10), 10, 1, Key::new(1)).expect_err("too short").to_string();
    assert!(error.contains("10 ids, shorter than the 11 that a context of 10 needs"), "{error}");
    let windows = RandomWindows::new(counted(11), 10, 3, Key::new(1)).expect("just long enough");
    assert_eq!(windows.batch(0).expect("a batch").ids.values()[..10], (0..10).collect::<Vec<_>>());
    assert!(RandomWindows::new(counted(11), 0, 1, Key::new(1)).is_err());
    assert!(RandomWindows::new(counted(11), 5, 0, Key::new(1)).is_err());
    assert!(RandomWindows::new(counted(11), usize::MAX, 1, Key::new(1)).is_err());
    assert!(PackedWindows::new(counted(1), 5, 1).is_err());
    assert!(PackedWindows::new(counted(2), 5, 1).is_ok());
}

proptest! {
    #[test]
    fn packed_windows_cover_the_text_once(count in 2_usize..400, context in 1_usize..50, batch_size in 1_usize..9) {
        let windows = PackedWindows::new(counted(count), context, batch_size).expect("windows");
        let mut targets = Vec::new();
        let mut before = 0;
        for batch in windows.iter() {
            let batch = batch.expect("a batch");
            let [rows, time] = batch.ids.shape()[..] else { panic!("two axes") };
            prop_assert!(rows <= batch_size && time <= context);
            prop_assert_eq!(batch.first, before);
            before += rows as u64;
            prop_assert!(batch.ids.values().iter().zip(batch.targets.values()).all(|(id, target)| id + 1 == *target));
            targets.extend_from_slice(batch.targets.values());
        }
        prop_assert_eq!(targets.len(), windows.targets());
        prop_assert!(targets.into_iter().eq(1..count as u32));
        prop_assert!(windows.batch(windows.batches()).is_err());
    }
}
