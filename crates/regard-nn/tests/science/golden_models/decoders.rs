//! Decoders, which predict the next token.

use super::{Case, IGNORED, agree_where_present, of_texts};
use crate::golden::Golden;
use regard_nn::checkpoint;
use regard_nn::models::Inputs;
use regard_nn::tensor::{Ids, Tensor};
use serde_json::{Map, Value, json};

/// A causal model's loss: each token is the target of the one before it.
fn causal_loss(logits: &Tensor, labels: &Ids) -> Tensor {
    let [batch, time] = labels.shape()[..] else { panic!() };
    let targets: Vec<u32> = labels.values().chunks(time).flat_map(|row| row[1..].to_vec()).collect();
    let targets = Ids::new(&targets, [batch, time - 1]).unwrap();
    logits.slice(1, 0, time - 1).unwrap().cross_entropy(&targets, IGNORED).unwrap()
}

fn causal(name: &str) {
    let case = Case::open(name);
    let (ids, mask) = (case.ids(), case.mask());
    let context = case.context();
    let hidden = case.model.hidden(&context, &Inputs::masked(&ids, Some(&mask))).unwrap();
    let last = format!("hidden/{}", case.model.attentions().len());
    if case.golden.has(&last) {
        agree_where_present("hidden", &hidden, &case.golden.tensor(&last), Some(&mask));
    }
    let logits = case.model.scores(&context, &hidden).unwrap();
    case.check(&logits, &causal_loss(&logits, &case.golden.ids("inputs/labels")), Some(&mask));
}

/// A test for each golden file.
macro_rules! causal {
    ($($test:ident: $file:literal,)*) => {
        $(#[test]
        fn $test() {
            causal($file);
        })*
    };
}

causal! {
    bloom: "bloom",
    cohere_2_with_layers_without_positions: "cohere2",
    cohere_with_queries_and_keys_normed_by_head: "cohere",
    falcon_with_groups_of_heads_and_two_norms: "falcon-grouped",
    falcon_with_one_key_value_head: "falcon",
    gemma_1: "gemma",
    gemma_2_with_soft_caps_and_alternating_windows: "gemma2",
    gemma_3_with_two_bases_of_rotary_frequencies: "gemma3",
    gpt2: "gpt2",
    gpt2_with_scores_scaled_by_layer: "gpt2-scale",
    gpt_bigcode: "gpt-bigcode",
    gpt_j: "gptj",
    gpt_neo_with_a_window_in_one_layer: "gpt-neo",
    gpt_neox: "gpt-neox",
    gpt_neox_with_one_sublayer_after_the_other: "gpt-neox-sequential",
    gpt_oss_with_experts_and_sinks: "gpt-oss",
    granite: "granite",
    llama_tied_with_biases_and_scaled_rotary_positions: "llama-tied",
    llama_with_grouped_queries: "llama",
    mistral_with_windows: "mistral",
    mixtral: "mixtral",
    mpt_with_projections_cut_off: "mpt",
    olmo_2_with_dynamic_rotary_scaling: "olmo2",
    olmo_with_projections_cut_off: "olmo",
    opt: "opt",
    opt_with_norms_after_the_sums_and_narrow_embeddings: "opt-narrow",
    phi_3_with_longrope: "phi3",
    phi_with_queries_and_keys_normed: "phi",
    qwen_2_with_a_window_in_one_layer: "qwen2",
    qwen_3_with_experts_in_two_of_three_layers: "qwen3-moe",
    qwen_3_with_yarn: "qwen3",
    smollm3_with_layers_without_positions: "smollm3",
    stablelm_with_biases: "stablelm-sequential",
    stablelm_with_parallel_sublayers_and_norms_by_head: "stablelm",
    starcoder_2: "starcoder2",
}

/// The reason why a golden model with one other setting is rejected.
fn rejected(name: &str, key: &str, value: Value) -> String {
    let golden = Golden::open(&format!("models/{name}"));
    let mut config: Map<String, Value> = serde_json::from_str(&golden.metadata["config"]).unwrap();
    config.insert(key.to_owned(), value);
    let folder = tempfile::tempdir().unwrap();
    golden.write_below("weights/", &folder.path().join("model.safetensors"));
    std::fs::write(folder.path().join("config.json"), serde_json::to_vec(&config).unwrap()).unwrap();
    match checkpoint::load(folder.path()) {
        Ok(_) => panic!("{name} with another {key} opened"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_a_configuration_requests_in_vain_is_named() {
    let only = |key: &str, value: &str, implemented: &str| {
        format!("config.json: {key} is {value}, of which only {implemented} is implemented")
    };
    let post_norm = "apply_residual_connection_post_layernorm";
    let both_ways = "use_bidirectional_attention";
    for (name, key, value, problem) in [
        ("falcon", "alibi", json!(true), only("alibi", "true", "false")),
        ("mpt", "attn_config", json!({"qk_ln": true}), only("qk_ln", "true", "false")),
        ("mpt", "expansion_ratio", json!(2), only("expansion_ratio", "2", "4")),
        ("bloom", post_norm, json!(true), only(post_norm, "true", "false")),
        ("gemma", both_ways, json!(true), only(both_ways, "true", "false")),
        ("gemma3", both_ways, json!(true), only(both_ways, "true", "false")),
        ("mixtral", "router_jitter_noise", json!(0.1), only("router_jitter_noise", "0.1", "0.0")),
        ("gpt-oss", "swiglu_alpha", json!(2.0), only("swiglu_alpha", "2.0", "1.702")),
        ("starcoder2", "mlp_type", json!("gated"), only("mlp_type", "\"gated\"", "\"default\"")),
        ("granite", "logits_scaling", json!(0), "config.json: logits_scaling is 0".to_owned()),
        (
            "qwen2",
            "layer_types",
            json!(["linear_attention", "full_attention"]),
            "config.json: layers of type \"linear_attention\" are not implemented; full_attention and \
             sliding_attention are"
                .to_owned(),
        ),
        (
            "cohere2",
            "layer_types",
            json!(["full_attention"]),
            "config.json: layer_types has 1 entries for 2 layers".to_owned(),
        ),
        (
            "gpt-neo",
            "attention_types",
            json!([[["global"], 1]]),
            "config.json: attention_types does not describe 2 layers".to_owned(),
        ),
        (
            "phi3",
            "rope_parameters",
            json!({"rope_type": "longrope", "short_factor": [1.0], "long_factor": [1.0, 2.0]}),
            "rotary positions: 2 factors above 0 are needed, got 1 and 2".to_owned(),
        ),
        (
            "mixtral",
            "num_experts_per_tok",
            json!(5),
            "mixture of experts: a token cannot take 5 of 4 experts".to_owned(),
        ),
    ] {
        assert_eq!(rejected(name, key, value), problem, "{name}");
    }
    let quantised = rejected("gpt-oss", "quantization_config", json!({"quant_method": "mxfp4"}));
    assert!(quantised.starts_with("config.json has quantization_config = "), "{quantised}");
}

fn classified(name: &str) {
    let case = Case::open(name);
    let (ids, mask) = (case.ids(), case.mask());
    let logits = case.model.forward(&case.context(), &Inputs::masked(&ids, Some(&mask))).unwrap();
    let logits = of_texts(&logits);
    let loss = logits.cross_entropy(&case.golden.ids("inputs/labels"), IGNORED).unwrap();
    case.check(&logits, &loss, Some(&mask));
}

#[test]
fn gpt2_classifying_by_the_last_token() {
    classified("gpt2-classifier");
}

#[test]
fn llama_classifying_by_the_last_token() {
    classified("llama-classifier");
}

#[test]
fn llama_without_a_head() {
    let case = Case::open("llama-base");
    let (ids, mask) = (case.ids(), case.mask());
    let hidden = case.model.hidden(&case.context(), &Inputs::masked(&ids, Some(&mask))).unwrap();
    agree_where_present("hidden", &hidden, &case.golden.tensor("hidden/2"), Some(&mask));
    let upstream = case.golden.tensor("inputs/hidden_upstream");
    case.check_loss(&hidden.multiply(&upstream).unwrap().sum_all().unwrap());
}
