//! Reads a model and writes it again: what `tools/fidelity` opens with transformers.
//!
//! ```sh
//! cargo run --example copy_model -- FROM TO
//! ```

use regard_nn::checkpoint;
use serde_json::{Map, Value};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folders: Vec<String> = std::env::args().skip(1).collect();
    let [from, to] = &folders[..] else { return Err("two folders are needed: FROM TO".into()) };
    let loaded = checkpoint::load(Path::new(from))?;
    // Which tokens are special is no part of a model.
    let special = |(key, value): (String, Value)| key.ends_with("_token_id").then_some((key, value));
    let more: Map<String, Value> = loaded.config.into_iter().filter_map(special).collect();
    checkpoint::save(&*loaded.model, Path::new(to), &more)?;
    Ok(())
}
