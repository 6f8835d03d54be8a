//! A PNG as a request has it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use regard::image::{Preprocessing, decode};
use regard_nn::models::form::Patches;

fuzz_target!(|data: &[u8]| {
    let model = Patches { image: [8, 8], size: 4, channels: 3 };
    drop(decode(data, &Preprocessing::default(), model));
});
