//! Decoders, which predict the next token.

use super::{Case, IGNORED, agree_where_present, of_texts};
use regard_nn::models::Inputs;
use regard_nn::tensor::{Ids, Tensor};

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
