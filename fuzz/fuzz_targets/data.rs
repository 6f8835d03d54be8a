//! Every reader of data: the first byte chooses one, the rest is its file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use regard_nn::data::file::Lines;
use regard_nn::data::idx::Images;
use regard_nn::data::imdb::Imdb;
use regard_nn::data::parallel::Parallel;
use regard_nn::data::table::{self, Columns, Format};
use regard_nn::data::text::{TokenStream, with_texts};
use regard_nn::data::treebank;
use regard_nn::data::vectors::WordVectors;

fuzz_target!(|data: &[u8]| {
    let Some((&reader, bytes)) = data.split_first() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, bytes).unwrap();
    match reader % 10 {
        0 => drop(table::read(&path, Format::Tsv, &Columns::default())),
        1 => drop(table::read(&path, Format::Csv, &Columns::default())),
        2 => drop(treebank::read(&path)),
        3 => drop(Parallel::open(&path, &path)),
        4 => drop(Images::open(&path, &path)),
        5 => drop(Imdb::open(&path)),
        6 => drop(WordVectors::open(&path, &["the", "cat"])),
        7 => {
            if let Ok(mut lines) = Lines::open(&path) {
                while let Ok(Some(_)) = lines.next() {}
            }
        }
        8 => drop(with_texts(&[&path], |texts| Ok(texts.count()))),
        _ => {
            if let Ok(stream) = TokenStream::open(&path) {
                let mut ids = vec![0; stream.len().min(1000)];
                let _ = stream.copy(0, &mut ids);
            }
        }
    }
});
