//! Settings of a GGUF file as a `config.json`.

use super::file::GgufFile;
use crate::error::Result;
use serde_json::{Map, Value, json};

/// The architectures of GGUF that can be converted: their name there, the model type and the class here.
const KNOWN: [(&str, &str, &str); 6] = [
    ("llama", "llama", "LlamaForCausalLM"),
    ("qwen2", "qwen2", "Qwen2ForCausalLM"),
    ("qwen3", "qwen3", "Qwen3ForCausalLM"),
    ("gemma", "gemma", "GemmaForCausalLM"),
    ("gemma2", "gemma2", "Gemma2ForCausalLM"),
    ("gemma3", "gemma3_text", "Gemma3ForCausalLM"),
];

/// The architecture of a file.
pub(super) fn architecture(file: &GgufFile) -> Result<&str> {
    let Some(found) = file.text("general.architecture")? else {
        return Err(file.wrong("names no general.architecture"));
    };
    match KNOWN.iter().any(|known| known.0 == found) {
        true => Ok(found),
        false => {
            let found: String = found.chars().take(40).collect();
            let known = KNOWN.map(|known| known.0).join(", ");
            Err(file.wrong(format!("is a model of type {found:?}, which cannot be converted; {known} can")))
        }
    }
}

/// What `config.json` says of the model in a file.
pub(super) fn config(file: &GgufFile) -> Result<Map<String, Value>> {
    let kind = architecture(file)?;
    let (_, model_type, class) = KNOWN.iter().find(|known| known.0 == kind).copied().unwrap_or(KNOWN[0]);
    let name = |key: &str| format!("{kind}.{key}");
    let needed = |key: &str| -> Result<usize> {
        file.whole(&name(key))?.ok_or_else(|| file.wrong(format!("has no {}", name(key))))
    };
    if file.whole(&name("expert_count"))?.unwrap_or(0) > 0 {
        return Err(file.wrong("is a mixture of experts, which cannot be converted"));
    }
    let (width, heads) = (needed("embedding_length")?, needed("attention.head_count")?);
    if heads == 0 || width < heads {
        return Err(file.wrong(format!("has a width of {width} for {heads} heads")));
    }
    let head = file.whole(&name("attention.key_length"))?.unwrap_or(width / heads);
    if file.whole(&name("attention.value_length"))?.is_some_and(|value| value != head) {
        return Err(file.wrong("has values of another width than keys, which is not supported"));
    }
    let layers = needed("block_count")?;
    let epsilon = file.real(&name("attention.layer_norm_rms_epsilon"))?;
    let epsilon = epsilon.ok_or_else(|| file.wrong("has no attention.layer_norm_rms_epsilon"))?;
    let vocabulary = match file.tensors().get("token_embd.weight").map(|entry| &entry.shape[..]) {
        Some([rows, _]) => *rows,
        _ => return Err(file.wrong("has no table of embeddings, token_embd.weight")),
    };
    let base = file.real(&name("rope.freq_base"))?.unwrap_or(10_000.0);
    let mut config = super::super::options::object(json!({
        "architectures": [class],
        "model_type": model_type,
        "vocab_size": vocabulary,
        "max_position_embeddings": needed("context_length")?,
        "hidden_size": width,
        "intermediate_size": needed("feed_forward_length")?,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": file.whole(&name("attention.head_count_kv"))?.unwrap_or(heads),
        "head_dim": head,
        "rms_norm_eps": rounded(epsilon),
        "tie_word_embeddings": !file.tensors().contains_key("output.weight"),
    }));
    let rotated = file.whole(&name("rope.dimension_count"))?.unwrap_or(head);
    if rotated != head {
        return Err(file.wrong(format!("rotates {rotated} of {head} features, which is not supported")));
    }
    let scaling = scaling(file, kind, (head, base))?;
    let windowed = file.whole(&name("attention.sliding_window"))?;
    match kind {
        "gemma2" | "gemma3" => {
            config.insert("hidden_activation".to_owned(), json!("gelu_pytorch_tanh"));
            config.insert("sliding_window".to_owned(), json!(windowed.unwrap_or(4096)));
            // Files do not have this: it is the width of a head, save in the largest models, which the number of layers
            // betrays.
            let largest = if kind == "gemma2" { 46 } else { 62 };
            let scale = if layers == largest { width / heads } else { head };
            config.insert("query_pre_attn_scalar".to_owned(), json!(scale));
            let cap = |key: &str| -> Result<Value> { Ok(json!(file.real(&name(key))?.map(rounded))) };
            config.insert("attn_logit_softcapping".to_owned(), cap("attn_logit_softcapping")?);
            config.insert("final_logit_softcapping".to_owned(), cap("final_logit_softcapping")?);
        }
        "gemma" => {
            config.insert("hidden_act".to_owned(), json!("gelu_pytorch_tanh"));
        }
        _ => {
            if windowed.is_some_and(|window| window > 0) {
                return Err(file.wrong("has layers with a window, which cannot be converted for this type"));
            }
            config.insert("hidden_act".to_owned(), json!("silu"));
            if kind == "llama" {
                let bias = file.tensors().contains_key("blk.0.attn_q.bias");
                config.insert("attention_bias".to_owned(), json!(bias));
            }
        }
    }
    if kind == "gemma3" {
        // Layers with a window have the base of the first Gemma; files name the other alone.
        let mut global = Map::from_iter([("rope_theta".to_owned(), json!(rounded(base)))]);
        global.extend(
            scaling.unwrap_or_else(|| super::super::options::object(json!({"rope_type": "default"}))),
        );
        let local = json!({"rope_type": "default", "rope_theta": 10_000.0});
        config.insert(
            "rope_parameters".to_owned(),
            json!({"full_attention": global, "sliding_attention": local}),
        );
        let kinds = (0..layers.min(10_000))
            .map(|i| if (i + 1) % 6 == 0 { "full_attention" } else { "sliding_attention" });
        config.insert("layer_types".to_owned(), kinds.collect());
    } else {
        config.insert("rope_theta".to_owned(), json!(rounded(base)));
        if let Some(scaling) = scaling {
            config.insert("rope_scaling".to_owned(), Value::Object(scaling));
        }
    }
    Ok(config)
}

/// The shortest decimal number that is the same f32: files store 1e-6 as 9.99999997e-7.
fn rounded(value: f64) -> f64 {
    let short = value as f32;
    short.to_string().parse().unwrap_or(value)
}

/// The scaling of rotary frequencies, as `rope_scaling` has it.
fn scaling(file: &GgufFile, kind: &str, (head, base): (usize, f64)) -> Result<Option<Map<String, Value>>> {
    let name = |key: &str| format!("{kind}.rope.scaling.{key}");
    let object = |value: Value| Some(super::super::options::object(value));
    let factor = file.real(&name("factor"))?.map(rounded);
    match file.text(&name("type"))? {
        Some("linear") if factor.is_some() => {
            return Ok(object(json!({"rope_type": "linear", "factor": factor})));
        }
        Some("yarn") if factor.is_some() => {
            let original = file.whole(&name("original_context_length"))?;
            let Some(original) = original else { return Err(file.wrong("has no context for its YaRN")) };
            return Ok(object(json!({
                "rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original,
            })));
        }
        None | Some("none" | "") => {}
        Some("linear") if factor.is_none() => {}
        Some(other) => {
            let other: String = other.chars().take(40).collect();
            return Err(file.wrong(format!("scales positions by {other:?}, which cannot be converted")));
        }
    }
    let Some(entry) = file.tensors().get("rope_freqs.weight") else { return Ok(None) };
    let mut divisors = Vec::new();
    entry.block.widen(file.bytes(entry), &mut divisors);
    if divisors.len() != head / 2 {
        return Err(file.wrong("has rope_freqs of another width than its heads"));
    }
    if divisors.iter().all(|&divisor| divisor == 1.0) {
        return Ok(None);
    }
    // Llama 3.1 and later: files hold what its rule makes of its four numbers, of which all published models share three.
    let (low, high, original) = (1.0_f64, 4.0_f64, 8192.0_f64);
    let factor = divisors.iter().fold(0.0_f32, |most, &divisor| most.max(divisor));
    let rule = |pair: usize| {
        let frequency = base.powf(-(2.0 * pair as f64) / head as f64);
        let turns = original * frequency / (2.0 * std::f64::consts::PI);
        let smooth = ((turns - low) / (high - low)).clamp(0.0, 1.0);
        1.0 / ((1.0 - smooth) / f64::from(factor) + smooth)
    };
    let agrees =
        |(pair, &divisor): (usize, &f32)| (rule(pair) - f64::from(divisor)).abs() < 1e-4 * rule(pair);
    if !divisors.iter().enumerate().all(agrees) {
        return Err(file.wrong("scales its rotary frequencies by a rule that is not known (rope_freqs)"));
    }
    Ok(object(json!({
        "rope_type": "llama3", "factor": rounded(factor.into()), "low_freq_factor": low, "high_freq_factor": high,
        "original_max_position_embeddings": original as u64,
    })))
}
