"""Decoders: models that predict the next token."""

from goldens.case import build, causal
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM


def gpt2(case):
    sizes = {"vocab_size": 53, "n_positions": 24, "n_embd": 18, "n_layer": 2, "n_head": 3}
    config = GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
    causal(case, build(case, GPT2LMHeadModel, config), [9, 5, 7])


def gpt2_scale(case):
    sizes = {"vocab_size": 37, "n_positions": 11, "n_embd": 15, "n_layer": 3, "n_head": 3, "n_inner": 37}
    others = {"scale_attn_by_inverse_layer_idx": True, "activation_function": "relu", "layer_norm_epsilon": 1e-4}
    config = GPT2Config(**sizes, **others, bos_token_id=0, eos_token_id=0)
    causal(case, build(case, GPT2LMHeadModel, config), [4, 8])


def llama(case):
    sizes = {"vocab_size": 47, "hidden_size": 18, "num_hidden_layers": 2, "intermediate_size": 29}
    heads = {"num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 4}
    others = {"rope_parameters": {"rope_type": "default", "rope_theta": 350.0}, "rms_norm_eps": 1e-4}
    config = LlamaConfig(**sizes, **heads, **others, max_position_embeddings=24, bos_token_id=0, eos_token_id=0)
    causal(case, build(case, LlamaForCausalLM, config), [7, 4, 9])


def llama_tied(case):
    """Biases everywhere. Llama 3's rotary scaling: of four pairs one turns as ever, one is between, two are slowed."""
    sizes = {"vocab_size": 39, "hidden_size": 24, "num_hidden_layers": 2, "intermediate_size": 23}
    rope = {"rope_type": "llama3", "rope_theta": 50.0, "factor": 8.0, "original_max_position_embeddings": 32}
    rope |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    form = {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True, "rope_parameters": rope}
    others = {"num_attention_heads": 3, "max_position_embeddings": 64, "bos_token_id": 0, "eos_token_id": 0}
    config = LlamaConfig(**sizes, **form, **others)
    causal(case, build(case, LlamaForCausalLM, config), [9, 6])


# What docs/fidelity.md calls each.
CASES = {
    gpt2: "GPT-2",
    gpt2_scale: "GPT-2, scores scaled by layer, ReLU",
    llama: "Llama, grouped queries",
    llama_tied: "Llama 3, tied, biases, scaled rotary positions",
}
