//! Training on real ranks, started by `mpirun`. Needs MPI and the feature `mpi`: `./test` finds or installs it and runs these,
//! which `cargo test` leaves out.

mod failures;
mod launch;

use launch::{TINY, alone, assert_same, begun, mpirun, succeeds};
use tempfile::TempDir;

/// Trains a preset on several numbers of ranks, and in one process that accumulates as many batches.
fn ranks_train_what_one_process_trains(preset: &str, settings: &[&str], counts: &[usize]) {
    let folder = TempDir::new().unwrap();
    for &ranks in counts {
        let [together, one] = ["together", "one"].map(|name| folder.path().join(format!("{name}-{ranks}")));
        let accumulate = format!("train.accumulate={ranks}");
        let more = [TINY, settings].concat();
        succeeds(&mpirun(ranks, &begun(preset, &more, &together)).output().unwrap());
        succeeds(&alone(&begun(preset, &[&more[..], &[&accumulate]].concat(), &one)).output().unwrap());
        assert_same(&together, &one);
    }
}

#[test]
#[ignore = "needs MPI"]
fn a_gpt_with_dropout() {
    ranks_train_what_one_process_trains("words-gpt", &["model.dropout=0.3"], &[1, 2, 3, 4]);
}

#[test]
#[ignore = "needs MPI"]
fn a_classifier_with_sparse_gradients_and_padding() {
    ranks_train_what_one_process_trains("sentiment-heads", &["data.limit=40"], &[2, 3]);
}

#[test]
#[ignore = "needs MPI"]
fn a_tagger_with_unequal_numbers_of_targets() {
    ranks_train_what_one_process_trains("tagger", &["data.limit=40"], &[3, 4]);
}
