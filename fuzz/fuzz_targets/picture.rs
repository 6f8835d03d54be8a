//! A picture as a request has it, PNG or JPEG.
#![no_main]

use libfuzzer_sys::fuzz_target;
use regard::image::{Preprocessing, decode};
use regard_nn::models::form::Patches;

fuzz_target!(|data: &[u8]| {
    let model = Patches::new([8, 8], 4, 3);
    drop(decode(data, &Preprocessing::default(), model));
});
