//! Decoders, which predict the next token.

use super::{Case, IGNORED, agree_where_present};
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
    let last = case.model.attentions().len();
    agree_where_present("hidden", &hidden, &case.golden.tensor(&format!("hidden/{last}")), Some(&mask));
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
    cohere_2_with_layers_without_positions: "cohere2",
    cohere_with_queries_and_keys_normed_by_head: "cohere",
    gemma_1: "gemma",
    gemma_2_with_soft_caps_and_alternating_windows: "gemma2",
    gemma_3_with_two_bases_of_rotary_frequencies: "gemma3",
    gpt2: "gpt2",
    gpt2_with_scores_scaled_by_layer: "gpt2-scale",
    gpt_oss_with_experts_and_sinks: "gpt-oss",
    granite: "granite",
    llama_tied_with_biases_and_scaled_rotary_positions: "llama-tied",
    llama_with_grouped_queries: "llama",
    mistral_with_windows: "mistral",
    mixtral: "mixtral",
    olmo_2_with_dynamic_rotary_scaling: "olmo2",
    olmo_with_projections_cut_off: "olmo",
    phi_3_with_longrope: "phi3",
    phi_with_queries_and_keys_normed: "phi",
    qwen_2_with_a_window_in_one_layer: "qwen2",
    qwen_3_with_experts_in_two_of_three_layers: "qwen3-moe",
    qwen_3_with_yarn: "qwen3",
    smollm3_with_layers_without_positions: "smollm3",
    stablelm_with_parallel_sublayers: "stablelm",
    starcoder_2: "starcoder2",
}
