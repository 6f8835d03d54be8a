"""Encoder–decoders: models that answer what they read."""

from goldens.case import NOTHING, build, record_task
from transformers import T5Config, T5ForConditionalGeneration


def translated(case, model, lengths, decoder_lengths):
    """The decoder reads the labels one position late, after the padding's id."""
    config = model.config
    ids, mask = case.tokens(lengths, config.vocab_size, first=2, pad=config.pad_token_id)
    labels, decoder_mask = case.tokens(decoder_lengths, config.vocab_size, first=1)
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


# What docs/fidelity.md calls each.
CASES = {
    t5: "T5 1.0",
    t5_gated: "T5 1.1 (Flan)",
}
