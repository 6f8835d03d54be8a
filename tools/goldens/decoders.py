"""Decoders: models that predict the next token."""

import transformers
from goldens.case import build, causal, classes, record, record_task, run
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


def tiny(case, name, lengths, **settings):
    """A decoder of three heads that share one key-value head, its sizes named as Llama's; `...` leaves one out."""
    config = getattr(transformers, f"{name}Config")
    sizes = {"vocab_size": 29, "hidden_size": 12, "num_hidden_layers": 2, "intermediate_size": 17}
    sizes |= {"num_attention_heads": 3, "num_key_value_heads": 1, "max_position_embeddings": 24}
    ends = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": None}
    settings = {key: value for key, value in {**sizes, **ends, **settings}.items() if value is not ...}
    kind = getattr(transformers, f"{name.removesuffix('Text')}ForCausalLM")
    causal(case, build(case, kind, config(**settings)), lengths)


def rope(theta=300.0, **settings):
    return {"rope_type": "default", "rope_theta": theta, **settings}


def mistral(case):
    tiny(case, "Mistral", [9, 5, 7], sliding_window=3, head_dim=6, rope_parameters=rope(), rms_norm_eps=1e-4)


def mixtral(case):
    experts = {"num_local_experts": 4, "num_experts_per_tok": 2}
    tiny(case, "Mixtral", [9, 7], **experts, sliding_window=4, rope_parameters=rope(), intermediate_size=9)


def qwen2(case):
    """A window in the last layer alone."""
    window = {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1}
    tiny(case, "Qwen2", [6, 9], **window, tie_word_embeddings=True, rope_parameters=rope())


def qwen3(case):
    yarn = rope(40.0, rope_type="yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=2.0, beta_slow=0.25)
    tiny(case, "Qwen3", [8, 4], head_dim=8, attention_bias=True, rope_parameters=yarn)


def qwen3_moe(case):
    """Experts in the first and the last of three layers, their weights not renormalised."""
    experts = {"num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 6, "mlp_only_layers": [1]}
    others = {"num_hidden_layers": 3, "head_dim": 4, "vocab_size": 23, "hidden_size": 9, "intermediate_size": 8}
    tiny(case, "Qwen3Moe", [9, 8, 9], **experts, **others, norm_topk_prob=False, rope_parameters=rope())


def gemma(case):
    tiny(case, "Gemma", [7, 9], head_dim=6, rope_parameters=rope())


def gemma2(case):
    """Caps that bite, the first layer with a window."""
    caps = {"attn_logit_softcapping": 3.0, "final_logit_softcapping": 2.5, "query_pre_attn_scalar": 5}
    tiny(case, "Gemma2", [9, 6], **caps, head_dim=4, sliding_window=4, rope_parameters=rope())


def gemma3(case):
    """Two layers with a window and a base of their own, then one without and with slower frequencies."""
    ropes = {"sliding_attention": rope(50.0), "full_attention": rope(900.0, rope_type="linear", factor=3.0)}
    types = ["sliding_attention", "sliding_attention", "full_attention"]
    sizes = {"num_hidden_layers": 3, "hidden_size": 9, "intermediate_size": 11, "head_dim": 4, "vocab_size": 23}
    others = {"layer_types": types, "sliding_window": 3, "query_pre_attn_scalar": 7, "rope_parameters": ropes}
    tiny(case, "Gemma3Text", [8, 6], **sizes, **others)


def phi(case):
    """Two of four features rotated, queries and keys normed, a bias of the scores."""
    tiny(case, "Phi", [7, 9], qk_layernorm=True, partial_rotary_factor=0.5, rope_parameters=rope())


def phi3(case):
    """Longer than the original context, so that the other factors count."""
    factors = {"short_factor": [1.1, 1.4], "long_factor": [2.0, 5.0]}
    long = rope(60.0, rope_type="longrope", **factors)
    contexts = {"original_max_position_embeddings": 6, "max_position_embeddings": 24}
    tiny(case, "Phi3", [9, 8], **contexts, rope_parameters=long, sliding_window=5)


def stablelm(case):
    """Sublayers side by side, each head normed, half of it rotated."""
    form = {"use_parallel_residual": True, "qk_layernorm": True, "partial_rotary_factor": 0.5}
    tiny(case, "StableLm", [6, 9], **form, rope_parameters=rope())


def stablelm_sequential(case):
    """One sublayer after the other, biases of queries, keys and values, a quarter of each head rotated."""
    tiny(case, "StableLm", [7, 5], use_qkv_bias=True, hidden_size=24, num_hidden_layers=1, rope_parameters=rope())


def olmo(case):
    """Projections that are cut off."""
    tiny(case, "Olmo", [9, 7], clip_qkv=1.5, tie_word_embeddings=True, rope_parameters=rope())


def olmo2(case):
    dynamic = rope(80.0, rope_type="dynamic", factor=2.0)
    tiny(case, "Olmo2", [8, 9], attention_bias=True, max_position_embeddings=6, rope_parameters=dynamic)


def smollm3(case):
    """Positions in the first and the last of three layers, a window in the one without."""
    sizes = {"num_hidden_layers": 3, "hidden_size": 9, "head_dim": 4, "intermediate_size": 11, "vocab_size": 23}
    form = {"no_rope_layers": [1, 0, 1], "use_sliding_window": True, "sliding_window": 4, "mlp_bias": True}
    tiny(case, "SmolLM3", [9, 7], **sizes, **form, rope_parameters=rope())


def granite(case):
    factors = {"embedding_multiplier": 3.0, "attention_multiplier": 0.7, "residual_multiplier": 0.4}
    tiny(case, "Granite", [7, 9], **factors, logits_scaling=2.0, rope_parameters=rope())


def cohere(case):
    tiny(case, "Cohere", [9, 6], use_qk_norm=True, logit_scale=1.5, rope_parameters=rope())


def cohere2(case):
    types = ["sliding_attention", "full_attention"]
    tiny(case, "Cohere2", [8, 9], layer_types=types, sliding_window=3, logit_scale=2.0, rope_parameters=rope())


def starcoder2(case):
    tiny(case, "Starcoder2", [9, 7], sliding_window=5, norm_epsilon=1e-4, rope_parameters=rope())


def gpt_oss(case):
    """A limit that bites."""
    experts = {"num_local_experts": 3, "num_experts_per_tok": 2, "swiglu_limit": 0.8, "intermediate_size": 8}
    yarn = rope(100.0, rope_type="yarn", factor=8.0, original_max_position_embeddings=12, truncate=False)
    tiny(case, "GptOss", [9, 9, 7], **experts, head_dim=4, sliding_window=4, rope_parameters=yarn)


def decoder(case, name, lengths, **settings):
    """A decoder whose sizes have names of their own."""
    config = getattr(transformers, f"{name}Config")(**settings, bos_token_id=0, eos_token_id=0, pad_token_id=None)
    causal(case, build(case, getattr(transformers, f"{name}ForCausalLM"), config), lengths)


def gpt_neox(case):
    """Half of each head rotated."""
    unknown = {"num_key_value_heads": ...}
    tiny(case, "GPTNeoX", [9, 7], **unknown, rope_parameters=rope(partial_rotary_factor=0.5))


def gpt_neox_sequential(case):
    """One sublayer after the other, without biases of attention, as older files name its positions."""
    form = {"use_parallel_residual": False, "attention_bias": False, "num_key_value_heads": ...}
    tiny(case, "GPTNeoX", [6, 8], **form, rotary_emb_base=200, rotary_pct=1.0, tie_word_embeddings=True)


def gpt_neo(case):
    """A window in the second layer."""
    sizes = {"vocab_size": 29, "hidden_size": 12, "num_layers": 2, "num_heads": 3, "intermediate_size": 17}
    kinds = {"attention_types": [[["global", "local"], 1]], "window_size": 4, "max_position_embeddings": 16}
    decoder(case, "GPTNeo", [7, 9], **sizes, **kinds)


def gptj(case):
    """Two of four features rotated."""
    sizes = {"vocab_size": 29, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_inner": 17, "n_positions": 16}
    decoder(case, "GPTJ", [9, 6], **sizes, rotary_dim=2)


def gpt_bigcode(case):
    sizes = {"vocab_size": 29, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_inner": 17, "n_positions": 16}
    decoder(case, "GPTBigCode", [8, 9], **sizes)


def opt(case):
    sizes = {"vocab_size": 29, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "ffn_dim": 17}
    decoder(case, "OPT", [9, 7], **sizes, max_position_embeddings=14, word_embed_proj_dim=12)


def opt_narrow(case):
    """Norms after the sums, and embeddings that are narrower than the model."""
    sizes = {"vocab_size": 29, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "ffn_dim": 17}
    form = {"do_layer_norm_before": False, "word_embed_proj_dim": 7, "activation_function": "gelu"}
    decoder(case, "OPT", [6, 9], **sizes, **form, max_position_embeddings=14)


def bloom(case):
    """Three heads, whose slopes are not powers of one number."""
    sizes = {"vocab_size": 29, "hidden_size": 12, "n_layer": 2, "n_head": 3}
    decoder(case, "Bloom", [9, 7], **sizes, layer_norm_epsilon=1e-4)


def falcon(case):
    """As the 7B has it: one key-value head, one norm."""
    sizes = {"vocab_size": 29, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3}
    decoder(case, "Falcon", [9, 7], **sizes, ffn_hidden_size=17, rope_parameters=rope())


def falcon_grouped(case):
    """As the 40B has it: groups of heads, two norms."""
    sizes = {"vocab_size": 29, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_kv_heads": 2}
    form = {"new_decoder_architecture": True, "bias": True, "ffn_hidden_size": 17, "tie_word_embeddings": False}
    decoder(case, "Falcon", [6, 8], **sizes, **form, rope_parameters=rope())


def mpt(case):
    """Three heads, projections that are cut off, another scale."""
    sizes = {"vocab_size": 29, "d_model": 12, "n_layers": 2, "n_heads": 3, "max_seq_len": 16}
    inner = {"clip_qkv": 1.5, "softmax_scale": 0.6}
    decoder(case, "Mpt", [8, 9], **sizes, attn_config=inner)


def decoder_classified(case, kind, config):
    """Classes by the last token; nothing but padding has the padding's id."""
    model = build(case, kind, config)
    ids, mask = case.tokens([7, 9, 4], config.vocab_size, first=1, pad=0)
    record_task(case, model, {"ids": ids, "mask": mask, "labels": case.ids(config.num_labels, 3)})


def llama_classifier(case):
    sizes = {"vocab_size": 29, "hidden_size": 12, "num_hidden_layers": 2, "intermediate_size": 17}
    heads = {"num_attention_heads": 3, "num_key_value_heads": 1, "max_position_embeddings": 24}
    config = LlamaConfig(**sizes, **heads, **classes(4), pad_token_id=0, bos_token_id=0, eos_token_id=0)
    decoder_classified(case, transformers.LlamaForSequenceClassification, config)


def gpt2_classifier(case):
    sizes = {"vocab_size": 29, "n_positions": 16, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_inner": 17}
    config = GPT2Config(**sizes, **classes(3), pad_token_id=0, bos_token_id=0, eos_token_id=0)
    decoder_classified(case, transformers.GPT2ForSequenceClassification, config)


def llama_base(case):
    """No head: the loss is Σ last states·upstream, at real positions."""
    sizes = {"vocab_size": 29, "hidden_size": 12, "num_hidden_layers": 2, "intermediate_size": 17}
    heads = {"num_attention_heads": 3, "num_key_value_heads": 1, "max_position_embeddings": 24}
    config = LlamaConfig(**sizes, **heads, tie_word_embeddings=True, bos_token_id=0, eos_token_id=0)
    model = build(case, transformers.LlamaModel, config)
    ids, mask = case.tokens([8, 6], config.vocab_size)
    inputs = {"ids": ids, "mask": mask}
    outputs = run(model, inputs)
    upstream = case.normal(*outputs.last_hidden_state.shape) * mask[:, :, None]
    record(case, model, inputs, outputs, (outputs.last_hidden_state * upstream).sum())
    case.store("inputs/hidden_upstream", upstream)


# What docs/fidelity.md calls each.
CASES = {
    bloom: "BLOOM",
    cohere2: "Cohere 2, windows, layers without positions",
    cohere: "Cohere, queries and keys normed by head",
    falcon_grouped: "Falcon, groups of heads, two norms",
    falcon: "Falcon, one key-value head",
    gemma: "Gemma",
    gemma2: "Gemma 2, soft caps, alternating windows",
    gemma3: "Gemma 3, text, two bases of rotary frequencies",
    gpt2: "GPT-2",
    gpt2_classifier: "GPT-2, classes",
    gpt2_scale: "GPT-2, scores scaled by layer, ReLU",
    gpt_bigcode: "GPT-BigCode",
    gptj: "GPT-J",
    gpt_neo: "GPT-Neo, a window in one layer",
    gpt_neox: "GPT-NeoX (Pythia)",
    gpt_neox_sequential: "GPT-NeoX, one sublayer after the other",
    gpt_oss: "gpt-oss, experts, sinks, alternating windows, YaRN",
    granite: "Granite",
    llama_tied: "Llama 3, tied, biases, scaled rotary positions",
    llama_base: "Llama without a head",
    llama_classifier: "Llama, classes",
    llama: "Llama, grouped queries",
    mistral: "Mistral, windows",
    mixtral: "Mixtral, experts, windows",
    mpt: "MPT, projections cut off",
    olmo2: "OLMo 2, dynamic rotary scaling",
    olmo: "OLMo, projections cut off",
    opt: "OPT",
    opt_narrow: "OPT, norms after the sums, narrow embeddings",
    phi: "Phi, queries and keys normed",
    phi3: "Phi-3, LongRoPE, windows",
    qwen2: "Qwen 2, tied, a window in one layer",
    qwen3_moe: "Qwen 3 MoE, experts in two of three layers",
    qwen3: "Qwen 3, YaRN",
    smollm3: "SmolLM3, layers without positions",
    stablelm_sequential: "StableLM, biases",
    stablelm: "StableLM, parallel sublayers, queries and keys normed by head",
    starcoder2: "StarCoder 2",
}
