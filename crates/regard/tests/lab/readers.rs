//! Every reader of data and settings with files that were changed at random: a result or an error, and never a panic.

use crate::checkpoints::made;
use crate::mutation::{attack, attack_times, count};
use crate::train::{succeeds, train};
use flate2::Compression;
use flate2::write::GzEncoder;
use regard::compute::Placement;
use regard::image::{Preprocessing, decode};
use regard::run::{Reporting, RunFolder, Session};
use regard_nn::data::file::Lines;
use regard_nn::data::idx::Images;
use regard_nn::data::imdb::Imdb;
use regard_nn::data::parallel::Parallel;
use regard_nn::data::table::{self, Columns, Format};
use regard_nn::data::text::TokenStream;
use regard_nn::data::treebank;
use regard_nn::data::vectors::WordVectors;
use regard_nn::models::form::Patches;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut file = GzEncoder::new(Vec::new(), Compression::default());
    file.write_all(bytes).unwrap();
    file.finish().unwrap()
}

fn written(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Tries a file plain and gzipped.
fn attack_both(name: &str, file: &str, bytes: &[u8], open: impl Fn(&Path) -> bool) {
    let folder = TempDir::new().unwrap();
    let plain = written(&folder, file, bytes);
    attack(name, &plain, || open(&plain));
    let compressed = written(&folder, &format!("{file}.gz"), &gzip(bytes));
    attack(&format!("{name}, gzip"), &compressed, || open(&compressed));
}

#[test]
fn tables() {
    let tsv = "sentence\tlabel\nthe plot is good\t1\nthe \"plot\" is bad\t0\nfine\t1\n";
    let csv = "sentence,label\n\"good, and \"\"new\"\"\",1\nbad,0\n\"two\nlines\",1\n";
    for (name, file, text, format) in [("tsv", "a.tsv", tsv, Format::Tsv), ("csv", "a.csv", csv, Format::Csv)]
    {
        attack_both(name, file, text.as_bytes(), |path| {
            table::read(path, format, &Columns::default()).is_ok()
        });
    }
}

#[test]
fn treebanks() {
    let text = "# text = the cat sat\n1\tthe\tthe\tDET\t_\t_\t2\tdet\t_\t_\n2\tcat\tcat\tNOUN\t_\t_\t3\tnsubj\t_\t_\n\
                3\tsat\tsit\tVERB\t_\t_\t0\troot\t_\tSpaceAfter=No\n\n1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_\n\
                1\tde\tde\tADP\t_\t_\t0\troot\t_\t_\n2\tle\tle\tDET\t_\t_\t1\tdet\t_\t_\n\n";
    attack_both("treebank", "a.conllu", text.as_bytes(), |path| treebank::read(path).is_ok());
}

#[test]
fn parallel_texts() {
    let folder = TempDir::new().unwrap();
    let target = written(&folder, "a.de", "eins\nzwei\n\ndrei vier\n".as_bytes());
    attack_both("parallel", "a.en", b"one\ntwo\n\nthree four\n", |path| {
        Parallel::open(path, &target).is_ok()
    });
}

#[test]
fn images_and_labels() {
    let (mut images, mut labels) = (vec![0, 0, 8, 3], vec![0, 0, 8, 1]);
    for length in [3_u32, 4, 5] {
        images.extend(length.to_be_bytes());
    }
    images.extend((0..60).map(|value| value * 4));
    labels.extend(3_u32.to_be_bytes());
    labels.extend([1, 0, 2]);
    let folder = TempDir::new().unwrap();
    let (sound_images, sound_labels) =
        (written(&folder, "images", &images), written(&folder, "labels", &labels));
    attack_both("idx images", "i", &images, |path| Images::open(path, &sound_labels).is_ok());
    attack_both("idx labels", "l", &labels, |path| Images::open(&sound_images, path).is_ok());
}

#[test]
fn archives() {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, text) in [
        ("aclImdb/train/pos/0_9.txt", "a good<br />film"),
        ("aclImdb/train/neg/0_2.txt", "a bad film"),
        ("aclImdb/test/pos/0_10.txt", "fine"),
        ("aclImdb/test/neg/0_1.txt", "not fine"),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        archive.append_data(&mut header, name, text.as_bytes()).unwrap();
    }
    let bytes = archive.into_inner().unwrap();
    let folder = TempDir::new().unwrap();
    // Most of an archive is padding, in which changes do nothing: of so few files, refusals are counted compressed only.
    let compressed = written(&folder, "a.tar.gz", &gzip(&bytes));
    attack("tar, gzip", &compressed, || Imdb::open(&compressed).is_ok());
    let plain = written(&folder, "a.tar", &bytes);
    attack("tar", &plain, || Imdb::open(&plain).is_ok());
}

#[test]
fn word_vectors() {
    let glove = "the 0.1 0.2 -0.3\ncat 1 2 3\n. . 1 2 3\n";
    let fast = "2 3\nthe 0.1 0.2 -0.3\ncat 1e-3 2 3\n";
    for (name, text) in [("glove", glove), ("fasttext", fast)] {
        attack_both(name, "a.vec", text.as_bytes(), |path| WordVectors::open(path, &["the", "cat"]).is_ok());
    }
}

#[test]
fn texts_and_token_files() {
    let tokenizer = made::tokenizer(true);
    let text = "The cät sat on the mat.\r\nThe dog sat by the cat.\n".repeat(4);
    attack_both("text", "a.txt", text.as_bytes(), |path| {
        let mut sound = TokenStream::read(&[path], &tokenizer).is_ok();
        let mut lines = Lines::open(path).ok();
        while let Some(lines) = &mut lines {
            match lines.next() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => {
                    sound = false;
                    break;
                }
            }
        }
        sound
    });
    let folder = TempDir::new().unwrap();
    let source = written(&folder, "a.txt", text.as_bytes());
    let ids = folder.path().join("a.ids");
    TokenStream::read_through(&[&source], &tokenizer, &ids).unwrap();
    attack("token file", &ids, || {
        let Ok(stream) = TokenStream::open(&ids) else { return false };
        let mut read = vec![0; stream.len().min(1000)];
        stream.copy(0, &mut read).is_ok()
    });
}

#[test]
fn pictures() {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 9, 7);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&(0..9 * 7 * 3).map(|value| value as u8).collect::<Vec<_>>()).unwrap();
    writer.finish().unwrap();
    let folder = TempDir::new().unwrap();
    let path = written(&folder, "a.png", &bytes);
    let model = Patches::new([8, 8], 4, 3);
    attack("png", &path, || decode(&std::fs::read(&path).unwrap(), &Preprocessing::default(), model).is_ok());
}

#[test]
fn files_of_a_run() {
    let folder = TempDir::new().unwrap();
    succeeds(&train(folder.path(), "run"));
    let run = folder.path().join("run");
    attack("train.toml", &run.join("train.toml"), || RunFolder::open(&run).is_ok());
    // Each reads the data and builds the model again.
    let count = count().div_ceil(20);
    attack_times("state", &run.join("state.safetensors"), count, || {
        Session::resume(&run, Placement::CPU.into(), Reporting::Silent).is_ok()
    });
}

#[test]
fn preprocessing() {
    let folder = TempDir::new().unwrap();
    let text = r#"{"do_resize": true, "size": {"height": 8, "width": 8}, "resample": 2, "do_rescale": true,
        "rescale_factor": 0.00392, "do_normalize": true, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.5]}"#;
    let path = written(&folder, "preprocessor_config.json", text.as_bytes());
    attack("preprocessor", &path, || Preprocessing::of(folder.path()).is_ok());
}
