//! The configuration of a run.
#![no_main]

use libfuzzer_sys::fuzz_target;
use regard::run::RunFolder;

fuzz_target!(|data: &[u8]| {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("train.toml"), data).unwrap();
    drop(RunFolder::open(folder.path()));
});
