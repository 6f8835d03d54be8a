//! Combined CLIP and SigLIP models: two towers in one file, each of which is a model of its own.

use super::{StoredWeights, options, read_config, write_tensors};
use crate::data::file::write_whole;
use crate::error::{Error, Result};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// A tower: its name, the key of its configuration, and what its tensors begin with.
struct Tower {
    name: &'static str,
    config: &'static str,
    tensors: [&'static str; 2],
}

const TOWERS: [Tower; 2] = [
    Tower { name: "text", config: "text_config", tensors: ["text_model.", "text_projection."] },
    Tower { name: "vision", config: "vision_config", tensors: ["vision_model.", "visual_projection."] },
];

/// Whether a model type is that of a file with two towers.
pub(super) fn is_combined(model_type: &str) -> bool {
    ["clip", "siglip"].contains(&model_type)
}

/// What configurations leave out, because transformers has it as the default.
fn defaults(kind: &str, tower: &str) -> Map<String, Value> {
    options::object(match (kind, tower) {
        ("clip", "text") => json!({
            "vocab_size": 49408, "hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 12,
            "num_attention_heads": 8, "max_position_embeddings": 77,
        }),
        ("clip", _) => json!({
            "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
            "num_channels": 3, "image_size": 224, "patch_size": 32,
        }),
        (_, "text") => json!({
            "vocab_size": 32000, "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
            "num_attention_heads": 12, "max_position_embeddings": 64,
        }),
        _ => json!({
            "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
            "num_channels": 3, "image_size": 224, "patch_size": 16,
        }),
    })
}

/// Writes the two towers of a combined model as the folders `text` and `vision` in another one, and returns their names.
pub fn split(folder: &Path, out: &Path) -> Result<Vec<&'static str>> {
    let config = read_config(folder)?;
    let kind = config.get("model_type").and_then(Value::as_str).unwrap_or_default();
    if !is_combined(kind) {
        let kind: String = kind.chars().take(80).collect();
        return Err(Error::checkpoint(format!(
            "{kind:?} is not a model with two towers; clip and siglip are"
        )));
    }
    let weights = StoredWeights::open(folder)?;
    for tower in &TOWERS {
        let mut own = defaults(kind, tower.name);
        if let Some(Value::Object(given)) = config.get(tower.config) {
            own.extend(given.clone());
        }
        let (class, suffix) = match kind {
            "clip" => ("CLIP", "WithProjection"),
            _ => ("Siglip", ""),
        };
        let title = if tower.name == "text" { "Text" } else { "Vision" };
        own.insert("architectures".to_owned(), json!([format!("{class}{title}Model{suffix}")]));
        own.insert("model_type".to_owned(), json!(format!("{kind}_{}_model", tower.name)));
        if kind == "clip" {
            let width = config.get("projection_dim").cloned().unwrap_or(json!(512));
            own.insert("projection_dim".to_owned(), width);
        }
        own.insert("torch_dtype".to_owned(), json!("float32"));
        let mut tensors = BTreeMap::new();
        for name in weights.names().filter(|name| tower.tensors.iter().any(|start| name.starts_with(start))) {
            // A buffer of older files, which is no weight.
            if !name.ends_with("position_ids") {
                tensors.extend(weights.read(name)?.map(|tensor| (name.to_owned(), tensor)));
            }
        }
        let folder = out.join(tower.name);
        std::fs::create_dir_all(&folder).map_err(|error| Error::file(&folder, error))?;
        write_tensors(&folder.join("model.safetensors"), &tensors, &[("format", "pt")])?;
        let text = format!("{:#}\n", Value::Object(own));
        write_whole(&folder.join("config.json"), |file| file.write_all(text.as_bytes()))?;
    }
    Ok(TOWERS.iter().map(|tower| tower.name).collect())
}
