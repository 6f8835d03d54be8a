//! The files of a checkpoint: the first byte chooses which of them the rest is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use regard::chat::{ChatTemplate, Message};
use regard::image::Preprocessing;
use regard_nn::checkpoint::{self, StoredWeights, gguf, llama2c};
use regard_nn::tokens::Tokenizer;
use std::collections::BTreeMap;

fuzz_target!(|data: &[u8]| {
    let Some((&file, bytes)) = data.split_first() else { return };
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    match file % 9 {
        0 => {
            write("model.safetensors", bytes);
            drop(StoredWeights::open(folder.path()));
        }
        1 => {
            // Without tensors: whatever the configuration describes is missing.
            write("model.safetensors", b"\x02\0\0\0\0\0\0\0{}");
            write("config.json", bytes);
            drop(checkpoint::load(folder.path()));
        }
        2 => {
            write("tokenizer.json", bytes);
            drop(Tokenizer::from_folder(folder.path()));
        }
        3 => {
            write("model.safetensors.index.json", bytes);
            drop(StoredWeights::open(folder.path()));
        }
        4 => {
            write("model.bin", bytes);
            drop(llama2c::read_model(&folder.path().join("model.bin")));
        }
        5 => {
            write("model.gguf", bytes);
            let (from, to) = (folder.path().join("model.gguf"), folder.path().join("model"));
            drop(gguf::convert(&from, &to, gguf::WeightType::F32));
        }
        6 => {
            write("preprocessor_config.json", bytes);
            drop(Preprocessing::of(folder.path()));
        }
        7 => {
            if let Ok(source) = std::str::from_utf8(bytes) {
                let message = Message { role: "user".to_owned(), content: "hello".to_owned() };
                drop(ChatTemplate::new(source.to_owned(), BTreeMap::new()).render(&[message]));
            }
        }
        _ => {
            write("tokenizer.bin", bytes);
            drop(llama2c::read_tokenizer(&folder.path().join("tokenizer.bin"), 16));
        }
    }
});
