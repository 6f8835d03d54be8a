"""Encoder–decoders: models that answer what they read."""

import torch
from goldens.case import NOTHING, build, record, record_task, run
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    MT5Config,
    MT5ForConditionalGeneration,
    T5Config,
    T5EncoderModel,
    T5ForConditionalGeneration,
    UMT5Config,
    UMT5ForConditionalGeneration,
)


def translated(case, model, lengths, decoder_lengths, first=1, limit=None):
    """The decoder reads the labels, from `first` on and below a limit, one position late, after the token that starts it."""
    config = model.config
    ids, mask = case.tokens(lengths, limit or config.vocab_size, first=2, pad=config.pad_token_id)
    labels, decoder_mask = case.tokens(decoder_lengths, limit or config.vocab_size, first=first)
    labels = labels.where(decoder_mask == 1, NOTHING)
    decoder_ids = model.prepare_decoder_input_ids_from_labels(labels)
    inputs = {"ids": ids, "mask": mask, "decoder_ids": decoder_ids, "decoder_mask": decoder_mask, "labels": labels}
    record_task(case, model, inputs)


def t5(case):
    """Longer than the exact buckets of the relative bias, so that the logarithmic ones are used on both sides."""
    sizes = {"vocab_size": 43, "d_model": 18, "d_kv": 6, "d_ff": 25, "num_layers": 2, "num_heads": 3}
    buckets = {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 20}
    config = T5Config(**sizes, **buckets, decoder_start_token_id=0)
    translated(case, build(case, T5ForConditionalGeneration, config, deviation=0.25), [13, 9], [8, 11])


def t5_gated(case):
    """Heads that do not add up to the model's width, more layers in the decoder, an output layer of its own."""
    sizes = {"vocab_size": 41, "d_model": 16, "d_kv": 5, "d_ff": 21, "num_layers": 1, "num_decoder_layers": 2}
    buckets = {"relative_attention_num_buckets": 10, "relative_attention_max_distance": 12}
    form = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
    config = T5Config(**sizes, **buckets, **form, num_heads=3, decoder_start_token_id=0)
    translated(case, build(case, T5ForConditionalGeneration, config, deviation=0.25), [6, 9, 11], [7, 5, 4])


def mt5(case):
    """Other activations than its own, and an output layer of its own."""
    sizes = {"vocab_size": 31, "d_model": 12, "d_kv": 5, "d_ff": 17, "num_layers": 2, "num_heads": 2}
    buckets = {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 12}
    config = MT5Config(**sizes, **buckets, num_decoder_layers=1, feed_forward_proj="gated-silu", decoder_start_token_id=0)
    translated(case, build(case, MT5ForConditionalGeneration, config, deviation=0.25), [9, 6], [5, 8])


def umt5(case):
    """A table of relative positions in each of its layers."""
    sizes = {"vocab_size": 31, "d_model": 12, "d_kv": 4, "d_ff": 17, "num_layers": 2, "num_heads": 3}
    buckets = {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 12}
    config = UMT5Config(**sizes, **buckets, num_decoder_layers=2, decoder_start_token_id=0)
    translated(case, build(case, UMT5ForConditionalGeneration, config, deviation=0.25), [9, 6], [5, 8])


def t5_encoder(case):
    """No head: the loss is Σ last states·upstream, at real positions."""
    sizes = {"vocab_size": 31, "d_model": 12, "d_kv": 4, "d_ff": 17, "num_layers": 2, "num_heads": 3}
    model = build(case, T5EncoderModel, T5Config(**sizes, relative_attention_num_buckets=10), deviation=0.25)
    ids, mask = case.tokens([9, 5, 7], 31, first=2, pad=0)
    inputs = {"ids": ids, "mask": mask}
    outputs = run(model, inputs)
    upstream = case.normal(*outputs.last_hidden_state.shape) * mask[:, :, None]
    record(case, model, inputs, outputs, (outputs.last_hidden_state * upstream).sum())
    case.store("inputs/hidden_upstream", upstream)


def with_bias(case, model):
    """The bias of the scores is a buffer that training leaves alone; as a parameter it has a gradient to compare."""
    bias = case.normal(*model.final_logits_bias.shape, deviation=0.5)
    del model.final_logits_bias
    model.final_logits_bias = torch.nn.Parameter(bias)
    return model


BART = {"vocab_size": 31, "d_model": 12, "max_position_embeddings": 14, "encoder_layers": 2, "decoder_layers": 1}
BART |= {"encoder_attention_heads": 2, "decoder_attention_heads": 3, "encoder_ffn_dim": 17, "decoder_ffn_dim": 19}


def bart(case):
    config = BartConfig(**BART, scale_embedding=True, activation_function="relu", decoder_start_token_id=2)
    model = with_bias(case, build(case, BartForConditionalGeneration, config, deviation=0.4))
    translated(case, model, [8, 5, 9], [6, 7, 4], first=2)


def marian(case):
    """An odd width has one sine more than cosines; the padding's id is the last, and gets no gradient from PyTorch."""
    sizes = {**BART, "d_model": 15, "encoder_attention_heads": 3, "encoder_layers": 1, "decoder_layers": 2}
    tokens = {"pad_token_id": 30, "decoder_start_token_id": 3, "eos_token_id": 0, "forced_eos_token_id": 0}
    config = MarianConfig(**sizes, **tokens, scale_embedding=True, activation_function="swish")
    model = with_bias(case, build(case, MarianMTModel, config, deviation=0.35))
    translated(case, model, [8, 5, 9], [6, 7, 4], limit=30)


# What docs/fidelity.md calls each.
CASES = {
    t5: "T5 1.0",
    t5_gated: "T5 1.1 (Flan)",
    t5_encoder: "T5's encoder alone",
    mt5: "mT5",
    umt5: "UMT5, relative positions in every layer",
    bart: "BART",
    marian: "Marian",
}
