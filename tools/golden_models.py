#!/usr/bin/env python3
"""Makes the golden files of the library's tests from Hugging Face's models and PyTorch's layers:
crates/regard-nn/tests/golden/models/*.safetensors.

    golden_models.py             writes them
    golden_models.py --check     compares the files with what these versions compute

Needs torch, numpy, safetensors and transformers. A model's file is one case: a tiny model of odd sizes with random
weights, none of them trivial, run in f32 on a padded batch. Its metadata has `config`, the config.json that belongs to
the weights; its tensors are

    weights/<name>      as `save_pretrained` names and shapes them, tied ones once
    gradients/<name>    of the loss, under the same names
    inputs/…            ids, mask (1 at real positions), types, pixels, decoder_ids, decoder_mask, labels (−100: none)
    logits, loss        as Hugging Face computes them from the labels
    attentions/<site>   every layer's weights (B, H, Tq, Tk), by the names of the probe's sites
    hidden/<i>          the states before layer i; the last after all layers and, save in ViT, after the final norm

What is at padded queries means nothing: compare at real ones. `generation.safetensors` has what the models of some of
these cases go on to say, `layers.safetensors` PyTorch's attention, multi-head attention and LSTM in the form of the
engine's golden files: inputs, `out`, `upstream`, `grad/<input>`, computed in f64 from f32 inputs and rounded once.
"""

import argparse
import copy
import functools
import json
import struct
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from golden_engine import INFINITY, Family, causal_mask
from safetensors import safe_open
from safetensors.torch import load_file
from torch.nn import functional as F
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertModel,
    DistilBertConfig,
    DistilBertForMaskedLM,
    DistilBertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaForSequenceClassification,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTForImageClassification,
)

FOLDER = Path(__file__).resolve().parents[1] / "crates/regard-nn/tests/golden/models"
LARGEST_TOTAL = 2_500_000  # bytes
NOTHING = -100  # the label of a position without loss
DATA_TYPES = {torch.int64: "I64", torch.float32: "F32", torch.uint8: "U8"}  # the widest first


def demand(condition, complaint):
    """Stops where a golden value would test nothing, or test the order of a sum."""
    if not condition:
        sys.exit(f"golden_models.py: {complaint}")


class Case(Family):
    """One file."""

    def __init__(self, name):
        super().__init__(name)
        versions = {"transformers": transformers.__version__, "torch": torch.__version__}
        self.metadata = {"case": name, **versions}

    def tokens(self, lengths, limit, first=0, pad=None):
        """Random ids from `first` to below a limit and their mask, padded on the right; with anything if no `pad`."""
        ids = self.ids(limit - first, len(lengths), max(lengths)) + first
        mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
        return (ids if pad is None else ids.where(mask == 1, pad)), mask


# The models. Hugging Face's names of our inputs:

ARGUMENTS = {
    "ids": "input_ids",
    "mask": "attention_mask",
    "types": "token_type_ids",
    "pixels": "pixel_values",
    "decoder_ids": "decoder_input_ids",
    "decoder_mask": "decoder_attention_mask",
    "labels": "labels",
}


def build(case, kind, config, deviation=0.3):
    """A model whose every parameter matters: wide weights, norms away from 1, biases away from 0."""
    config._attn_implementation = "eager"
    for name, value in vars(config).items():
        if "drop" in name and value is not None:
            setattr(config, name, 0.0)
    model = kind(config).eval()
    if kind is T5ForConditionalGeneration and not config.scale_decoder_outputs:
        # T5 1.1 has an output layer of its own. Transformers 5 ties it, unless a checkpoint says otherwise.
        model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.lm_head.weight))
    for name, parameter in model.named_parameters():
        is_norm = parameter.dim() == 1 and name.endswith("weight")
        values = case.normal(*parameter.shape, deviation=0.3 if parameter.dim() == 1 else deviation)
        if "relative_attention_bias" in name or name == "shared.weight":
            values = values / deviation  # T5 is made for embeddings and biases of deviation 1
        parameter.data = values + 1.0 if is_norm else values
    case.model = model
    return model


def run(model, inputs):
    arguments = {ARGUMENTS[name]: value for name, value in inputs.items()}
    return model(**arguments, output_attentions=True, output_hidden_states=True)


def saved(model):
    """The config.json and the tensors of a checkpoint, and the model that Hugging Face reads back from it."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        config = (Path(folder) / "config.json").read_text()
        tensors = load_file(Path(folder) / "model.safetensors")
        again = type(model).from_pretrained(folder, attn_implementation="eager").eval()
    return config, tensors, again


def gradients_of(model):
    """The gradients, as the checkpoint of a model of which they are the parameters: with the names of the weights."""
    twin = copy.deepcopy(model)
    for parameter, place in zip(model.parameters(), twin.parameters()):
        place.data = parameter.grad.clone()
    return saved(twin)[1]


def record(case, model, inputs, outputs, loss):
    """Stores everything but the logits."""
    loss.backward()
    case.metadata["config"], weights, again = saved(model)
    with torch.no_grad():
        same = torch.equal(run(again, inputs)[0], outputs[0].detach())
    demand(same, f"{case.name}: the checkpoint does not give the model back")
    gradients = gradients_of(model)
    demand(gradients.keys() == weights.keys(), f"{case.name}: weights and gradients differ in their names")
    for folder, tensors in {"weights": weights, "gradients": gradients, "inputs": inputs}.items():
        for name, tensor in tensors.items():
            case.store(f"{folder}/{name}", tensor)
    case.store("loss", loss)
    for site, tensor in attentions(outputs).items():
        demand(tensor.max() > 0.5, f"{case.name}: nothing to see in {site}")
        case.store(f"attentions/{site}.weights", tensor)
    for name, tensor in hidden(outputs).items():
        case.store(f"hidden/{name}", tensor)
    for name, gradient in gradients.items():
        # A shift of all keys shifts all scores of a query alike, which no softmax notices.
        of_keys = any(name.endswith(ending) for ending in ("key.bias", "k_lin.bias"))
        demand(of_keys or gradient.abs().max() > 5e-3, f"{case.name}: hardly a gradient of {name}")


def attentions(outputs):
    """By our names of their sites, without the last part."""
    if "encoder_attentions" not in outputs:
        return {f"layers.{i}.self": weights for i, weights in enumerate(outputs.attentions)}
    kinds = {
        "encoder.layers.{}.self": outputs.encoder_attentions,
        "decoder.layers.{}.self": outputs.decoder_attentions,
        "decoder.layers.{}.cross": outputs.cross_attentions,
    }
    return {name.format(i): weights for name, layers in kinds.items() for i, weights in enumerate(layers)}


def hidden(outputs):
    if "encoder_hidden_states" not in outputs:
        return {str(i): states for i, states in enumerate(outputs.hidden_states)}
    parts = {"encoder": outputs.encoder_hidden_states, "decoder": outputs.decoder_hidden_states}
    return {f"{part}.{i}": states for part, layers in parts.items() for i, states in enumerate(layers)}


def record_task(case, model, inputs):
    """A model with a head, and the loss that it computes from labels."""
    outputs = run(model, inputs)
    case.store("logits", outputs.logits)
    record(case, model, inputs, outputs, outputs.loss)


def causal(case, model, lengths):
    """Language modelling: the labels are the ids (they are shifted inside the model)."""
    ids, mask = case.tokens(lengths, model.config.vocab_size)
    record_task(case, model, {"ids": ids, "mask": mask, "labels": ids.where(mask == 1, NOTHING)})


def masked(case, model, lengths, with_types=False):
    """Masked-word prediction, with a loss at some of the real positions."""
    inputs = encoder_inputs(case, model.config, lengths, with_types)
    chosen = case.mask(*inputs["ids"].shape) & (inputs["mask"] == 1)
    labels = case.ids(model.config.vocab_size, *inputs["ids"].shape)
    record_task(case, model, {**inputs, "labels": labels.where(chosen, NOTHING)})


def classified(case, model, lengths, with_types=False):
    inputs = encoder_inputs(case, model.config, lengths, with_types)
    labels = case.ids(model.config.num_labels, len(lengths))
    record_task(case, model, {**inputs, "labels": labels})
    return inputs


def encoder_inputs(case, config, lengths, with_types):
    """Padded as their tokenizers do it. At a real position, the padding's id would get no gradient from PyTorch."""
    ids, mask = case.tokens(lengths, config.vocab_size, config.pad_token_id + 1, config.pad_token_id)
    types = {"types": case.ids(config.type_vocab_size, *ids.shape) * mask} if with_types else {}
    return {"ids": ids, "mask": mask, **types}


def gpt2(case):
    sizes = {"vocab_size": 53, "n_positions": 24, "n_embd": 18, "n_layer": 2, "n_head": 3}
    config = GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
    causal(case, build(case, GPT2LMHeadModel, config), [9, 5, 7])


def gpt2_scale(case):
    sizes = {"vocab_size": 37, "n_positions": 11, "n_embd": 15, "n_layer": 3, "n_head": 3, "n_inner": 37}
    others = {"scale_attn_by_inverse_layer_idx": True, "activation_function": "relu", "layer_norm_epsilon": 1e-4}
    config = GPT2Config(**sizes, **others, bos_token_id=0, eos_token_id=0)
    causal(case, build(case, GPT2LMHeadModel, config), [4, 8])


def classes(count):
    return {"num_labels": count, "problem_type": "single_label_classification"}


def bert_config(**settings):
    sizes = {"hidden_size": 18, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 35}
    return BertConfig(**{**sizes, "vocab_size": 47, "max_position_embeddings": 13, **settings})


def bert_mlm(case):
    model = build(case, BertForMaskedLM, bert_config())
    masked(case, model, [6, 9, 4], with_types=True)


def bert_classifier(case):
    config = bert_config(**classes(3), type_vocab_size=3, num_attention_heads=6)
    model = build(case, BertForSequenceClassification, config)
    inputs = classified(case, model, [7, 5, 8], with_types=True)
    case.store("pooled", run(model.bert, inputs).pooler_output)


def bert_base(case):
    """No head: the loss is Σ pooled·upstream + Σ last states·upstream, at real positions."""
    config = bert_config(hidden_size=15, intermediate_size=22, hidden_act="gelu_new", layer_norm_eps=1e-5)
    model = build(case, BertModel, config)
    inputs = encoder_inputs(case, config, [5, 8], with_types=True)
    outputs = run(model, inputs)
    of_pooled = case.normal(*outputs.pooler_output.shape)
    of_states = case.normal(*outputs.last_hidden_state.shape) * inputs["mask"][:, :, None]
    loss = (outputs.pooler_output * of_pooled).sum() + (outputs.last_hidden_state * of_states).sum()
    record(case, model, inputs, outputs, loss)
    case.store("pooled", outputs.pooler_output)
    case.store("inputs/pooled_upstream", of_pooled)
    case.store("inputs/hidden_upstream", of_states)


def roberta_config(**settings):
    sizes = {"hidden_size": 18, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 31}
    sizes |= {"vocab_size": 43, "max_position_embeddings": 12, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
    return RobertaConfig(**sizes, **settings)


def roberta(case):
    masked(case, build(case, RobertaForMaskedLM, roberta_config()), [5, 9, 7])


def roberta_classifier(case):
    config = roberta_config(**classes(4))
    classified(case, build(case, RobertaForSequenceClassification, config), [8, 3, 6])


def distilbert_config(**settings):
    sizes = {"dim": 18, "n_layers": 2, "n_heads": 3, "hidden_dim": 29, "vocab_size": 41}
    return DistilBertConfig(**sizes, max_position_embeddings=11, **settings)


def distilbert(case):
    masked(case, build(case, DistilBertForMaskedLM, distilbert_config()), [8, 5, 6])


def distilbert_classifier(case):
    config = distilbert_config(**classes(3))
    classified(case, build(case, DistilBertForSequenceClassification, config), [4, 9, 6])


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


def vit(case):
    """Three patches high and two wide."""
    sizes = {"hidden_size": 18, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 31}
    image = {"image_size": [12, 8], "patch_size": 4, "num_channels": 3}
    config = ViTConfig(**sizes, **image, **classes(5))
    model = build(case, ViTForImageClassification, config)
    record_task(case, model, {"pixels": case.normal(3, 3, 12, 8), "labels": case.ids(5, 3)})


# Generation. `settings` in the metadata has, for each result, the arguments of `generate`.

PADDING = 0
NEW_TOKENS = 12
BEAM_END = 15  # an id with which some beams end, at different lengths, and some do not
PLAIN = {"do_sample": False, "num_beams": 1, "max_new_tokens": NEW_TOKENS}
BEAMS = {"do_sample": False, "num_beams": 3, "num_return_sequences": 3, "max_new_tokens": NEW_TOKENS}
SAMPLED = {"do_sample": True, "max_new_tokens": 1}
UNCHANGED = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "repetition_penalty": 1.0}
CHANGED = {"temperature": 0.7, "top_k": 5, "top_p": 0.8, "repetition_penalty": 1.3}


def generation(case):
    """Of the models of the cases gpt2, llama and t5-gated; a tensor's name begins with its case."""
    case.metadata["settings"] = {}
    for function in (gpt2, llama):
        model = make(function).model
        greedy(case, model, function.__name__, *prompts(case, model, [4, 1, 7]))
        sampling(case, model, function.__name__)
    model = make(t5_gated).model
    ids, mask = prompts(case, model, [10, 3, 7])
    greedy(case, model, "t5-gated", ids, mask)
    beams(case, model, ids, mask)
    case.metadata["settings"] = json.dumps(case.metadata["settings"], sort_keys=True)


def prompts(case, model, lengths):
    """Padded on the left: they end together, where their continuations begin."""
    ids, mask = case.tokens(lengths, model.config.vocab_size, first=1, pad=PADDING)
    shifts = [max(lengths) - length for length in lengths]
    return [torch.stack([row.roll(shift) for row, shift in zip(x, shifts)]) for x in (ids, mask)]


def generate(case, name, model, ids, mask, **settings):
    case.metadata["settings"][name] = settings
    # Transformers' cache takes a T5 decoder to have as many layers as the encoder.
    settings = {**settings, "use_cache": not model.config.is_encoder_decoder}
    everything = {"return_dict_in_generate": True, "output_scores": True, "output_logits": True}
    with torch.no_grad():
        return model.generate(ids, attention_mask=mask, pad_token_id=PADDING, **settings, **everything)


def sturdy(model, function):
    """What the function makes of a model; no choice in it may hang on the fourth digit of a weight."""
    result, choices = function(model)
    for seed in range(3):
        shaken, noise = copy.deepcopy(model), torch.Generator().manual_seed(seed)
        for parameter in shaken.parameters():
            parameter.data *= 1 + 1e-4 * torch.randn(parameter.shape, generator=noise)
        demand(torch.equal(function(shaken)[1], choices), "two choices of a generation are too close")
    return result


def greedy(case, model, name, ids, mask):
    """Without an end, and with the sixth token of the last example's continuation as the end."""

    def sequences(key, **settings):
        def function(model):
            result = generate(case, f"{name}/{key}", model, ids, mask, **PLAIN, **settings).sequences
            return result, result

        return sturdy(model, function)

    case.store(f"{name}/ids", ids)
    case.store(f"{name}/mask", mask)
    endless = sequences("greedy", eos_token_id=None)
    end = endless[-1, -7].item()
    stopped = sequences("stopped", eos_token_id=end)
    demand(len(endless[:, -NEW_TOKENS:].unique()) > 9, f"{name}: it says the same again and again")
    demand(not torch.equal(stopped, endless[:, : stopped.shape[1]]), f"{name}: nothing stops early")
    case.store(f"{name}/greedy", endless)
    case.store(f"{name}/stopped", stopped)


def beams(case, model, ids, mask):
    """Three beams, all three returned; their scores are Σ log p / length^penalty, the end counted.

    What follows an end is more of it: transformers takes a padding of 0 for none.
    """
    end = {"eos_token_id": BEAM_END}
    kinds = {
        "late": {"early_stopping": False, "length_penalty": 1.0},
        "early": {"early_stopping": True, "length_penalty": 1.0},
        "short": {"early_stopping": False, "length_penalty": 0.4},
    }
    found = []
    for key, settings in kinds.items():

        def function(model):
            result = generate(case, f"t5-gated/beams/{key}", model, ids, mask, **BEAMS, **settings, **end)
            return result, result.sequences

        result = sturdy(model, function)
        case.store(f"t5-gated/beams/{key}/sequences", result.sequences)
        case.store(f"t5-gated/beams/{key}/scores", result.sequences_scores)
        found.append(result.sequences.tolist())
    demand(found[0] != found[1] and found[0] != found[2], "the settings of the beam search make no difference")


def sampling(case, model, name):
    """The next token's probabilities after one prompt, for each setting alone, for two and for all."""
    ids, _ = case.tokens([8], model.config.vocab_size, first=1)
    ids[0, 5:7] = ids[0, 1]  # a token is penalised once, however often it was said
    case.store(f"{name}/sampling/ids", ids)
    groups = [(), *((key,) for key in CHANGED), ("temperature", "top_p"), ("top_k", "top_p"), tuple(CHANGED)]
    for group in groups:
        key = f"{name}/sampling/" + ("all" if len(group) == len(CHANGED) else "+".join(group) or "none")
        settings = UNCHANGED | {setting: CHANGED[setting] for setting in group}

        def function(model):
            result = generate(case, key, model, ids, torch.ones_like(ids), **SAMPLED, **settings)
            probabilities = result.scores[0][0].softmax(-1)
            return (probabilities, result.logits[0][0]), probabilities > 0

        probabilities, logits = sturdy(model, function)
        case.store(key, probabilities)
    said = logits[ids[0]]
    demand(said.min() < 0 < said.max(), f"{name}: the penalty meets logits of one sign only")
    case.store(f"{name}/sampling/logits", logits)


# PyTorch's layers. Queries are (B, H, Tq, D), keys and values (B, kv heads, Tk, D).

SCALE = 0.37  # of the cases that do not scale by 1/√D


def layers(case):
    """Who may attend × equal and fewer queries × heads. Causal: the last query stands at the last key."""
    case.metadata["scale"] = str(SCALE)
    single = ("none", "causal", "padding", "bias")
    for kind in (*single, "causal_padding", "causal_bias", "padding_bias", "causal_padding_bias"):
        for lengths, (queries, keys) in {"square": (5, 5), "fewer": (3, 5)}.items():
            for grouping, (heads, kv_heads) in {"plain": (2, 2), "grouped": (4, 2)}.items():
                inputs = attention_inputs(case, kind, queries, keys, heads, kv_heads)
                attention(case, f"{kind}_{lengths}_{grouping}", kind, *inputs)
    for kind in ("none", "causal_padding_bias"):
        attention(case, f"{kind}_scaled", kind, *attention_inputs(case, kind, 3, 5, 4, 2), scale=SCALE)
    # The first queries of the second example may look at nothing: zeros, and no gradient.
    inputs, fixed = attention_inputs(case, "causal_padding", 4, 6, 2, 2)
    fixed["key_mask"] = torch.arange(6) >= torch.tensor([[0], [4]])
    attention(case, "nothing_allowed", "causal_padding", inputs, fixed)
    multi_head(case)
    lstm(case)


def attention_inputs(case, kind, queries, keys, heads, kv_heads, batch=2, width=3):
    inputs = {
        "query": case.normal(batch, heads, queries, width, deviation=1.5),
        "key": case.normal(batch, kv_heads, keys, width),
        "value": case.normal(batch, kv_heads, keys, width),
    }
    if "bias" in kind:
        inputs["bias"] = case.normal(1, heads, queries, keys)
    return inputs, {"key_mask": torch.arange(keys) < torch.tensor([[keys], [3]])} if "padding" in kind else {}


def attention(case, name, kind, inputs, fixed, scale=None):
    """PyTorch does not return the weights: they are what it makes of the identity as values."""

    def attend(query, key, value, bias=None, key_mask=None):
        queries, keys = query.shape[2], key.shape[2]
        settings = {"scale": scale, "enable_gqa": query.shape[1] != key.shape[1]}
        if kind == "causal" and queries == keys:
            settings["is_causal"] = True  # with fewer queries, PyTorch would align the first query with the first key
        elif kind != "none":
            settings["attn_mask"] = combined(queries, keys, bias, key_mask)
        function = lambda value: F.scaled_dot_product_attention(query, key, value, **settings)
        identity = torch.eye(keys, dtype=torch.float64).expand(*key.shape[:2], keys, keys)
        return {"out": function(value), "weights": function(identity)}

    def combined(queries, keys, bias, key_mask):
        allowed = torch.ones(1, 1, queries, keys, dtype=torch.bool)
        if "causal" in kind:
            allowed = allowed & causal_mask(queries, keys)
        if key_mask is not None:
            allowed = allowed & key_mask[:, None, None, :]
        return allowed if bias is None else bias.masked_fill(~allowed, -INFINITY)

    case.case(f"attention/{name}", attend, inputs, fixed)


def multi_head(case):
    """torch.nn.MultiheadAttention with three heads; its parameters have its names."""
    width, heads = 12, 3
    x, key, value = case.normal(2, 5, width), case.normal(2, 7, width), case.normal(2, 7, width)
    key_mask = {"key_mask": torch.arange(7) < torch.tensor([[4], [7]])}
    fused = {"in_proj_weight": case.normal(3 * width, width, deviation=0.5)}
    out = {"out_proj.weight": case.normal(width, width, deviation=0.5)}
    biases = {"in_proj_bias": case.normal(3 * width, deviation=0.5), "out_proj.bias": case.normal(width, deviation=0.5)}
    split_widths = {"q_proj_weight": width, "k_proj_weight": 10, "v_proj_weight": 7}
    split = {name: case.normal(width, inputs, deviation=0.5) for name, inputs in split_widths.items()}

    def attend(query, key=None, value=None, key_mask=None, causal=False, **weights):
        key = query if key is None else key
        value = key if value is None else value
        widths = {"kdim": key.shape[-1], "vdim": value.shape[-1], "bias": "in_proj_bias" in weights}
        module = torch.nn.MultiheadAttention(width, heads, **widths, batch_first=True)
        settings = {"key_padding_mask": None if key_mask is None else ~key_mask, "average_attn_weights": False}
        settings["attn_mask"] = ~causal_mask(query.shape[1], key.shape[1]) if causal else None
        names = ("out", "weights")
        return dict(zip(names, torch.func.functional_call(module, weights, (query, key, value), settings)))

    own_mask = {"key_mask": torch.arange(5) < torch.tensor([[5], [3]])}
    case.case("multi_head/self", attend, {"query": x, **fused, **out, **biases})
    case.case("multi_head/self_padded", attend, {"query": x, **fused, **out, **biases}, own_mask)
    masked = lambda **tensors: attend(**tensors, causal=True)
    case.case("multi_head/self_causal", masked, {"query": x, **fused, **out, **biases}, own_mask)
    case.case("multi_head/self_without_bias", attend, {"query": x, **fused, **out})
    cross = {"query": x, "key": key, "value": value}
    case.case("multi_head/cross", attend, {**cross, **fused, **out, **biases})
    case.case("multi_head/cross_padded", attend, {**cross, **fused, **out, **biases}, key_mask)
    other_widths = {"query": x, "key": case.normal(2, 7, 10), "value": case.normal(2, 7, 7)}
    case.case("multi_head/cross_widths", attend, {**other_widths, **split, **out, **biases}, key_mask)


def lstm(case):
    """torch.nn.LSTM on packed sequences; its parameters have its names, (i, f, g, o) being the order of its gates."""
    inputs, hidden = 5, 4
    shapes = {"weight_ih": (4 * hidden, inputs), "weight_hh": (4 * hidden, hidden)}
    shapes |= {"bias_ih": (4 * hidden,), "bias_hh": (4 * hidden,)}

    def read(x, lengths, **weights):
        module = torch.nn.LSTM(inputs, hidden, batch_first=True, bidirectional="bias_ih_l0_reverse" in weights)
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        states, (last, cell) = torch.func.functional_call(module, weights, (packed,))
        out = torch.nn.utils.rnn.pad_packed_sequence(states, batch_first=True, total_length=x.shape[1])[0]
        return {"out": out, "last": last, "cell": cell}

    lengths = {"lengths": torch.tensor([5, 1, 7, 6])}
    for name, ends in {"forward": ("",), "both": ("", "_reverse")}.items():
        weights = {f"{key}_l0{end}": case.normal(*shapes[key], deviation=0.6) for end in ends for key in shapes}
        case.case(f"lstm/{name}", read, {"x": case.normal(4, 7, inputs), **weights}, lengths)


CASES = (
    gpt2,
    gpt2_scale,
    bert_mlm,
    bert_classifier,
    bert_base,
    roberta,
    roberta_classifier,
    distilbert,
    distilbert_classifier,
    t5,
    t5_gated,
    llama,
    llama_tied,
    vit,
    generation,
    layers,
)


@functools.cache
def make(function):
    case = Case(function.__name__.replace("_", "-"))
    function(case)
    return case


def path_of(case):
    return FOLDER / f"{case.name}.safetensors"


def write(case):
    """The same bytes each time: the library's own writer leaves the order of the metadata to chance."""
    order = list(DATA_TYPES)
    names = sorted(case.tensors, key=lambda name: (order.index(case.tensors[name].dtype), name))
    header, data = {"__metadata__": dict(sorted(case.metadata.items()))}, b""
    for name in names:
        tensor = case.tensors[name]
        values = tensor.numpy().tobytes()
        span = [len(data), len(data) + len(values)]
        header[name] = {"dtype": DATA_TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": span}
        data += values
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    FOLDER.mkdir(parents=True, exist_ok=True)
    path_of(case).write_bytes(struct.pack("<Q", len(text)) + text + data)


def comparable(metadata):
    """Without what only says which versions made it."""
    kept = {key: value for key, value in metadata.items() if key not in ("transformers", "torch")}
    if "config" in kept:
        kept["config"] = {**json.loads(kept["config"]), "transformers_version": ""}
    return kept


def differences(case):
    """What the file has that is not computed now, a line each."""
    if not path_of(case).exists():
        return [f"{case.name}: no such file"]
    with safe_open(path_of(case), "pt") as file:
        metadata, stored = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}
    lines = [f"{case.name}: only in the file: {name}" for name in stored.keys() - case.tensors.keys()]
    if comparable(metadata) != comparable(case.metadata):
        lines.append(f"{case.name}: other metadata")
    for name, tensor in case.tensors.items():
        if name not in stored:
            lines.append(f"{case.name}: not in the file: {name}")
        elif stored[name].dtype != tensor.dtype or stored[name].shape != tensor.shape:
            lines.append(f"{case.name}: another type or shape: {name}")
        elif not torch.allclose(stored[name], tensor, rtol=1e-5, atol=1e-5):
            lines.append(f"{case.name}: other values: {name}")
    return sorted(lines)


def main():
    parser = argparse.ArgumentParser(description="Makes the golden files of the library's tests.")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    cases = [make(function) for function in CASES]
    if options.check:
        lines = [line for case in cases for line in differences(case)]
        sys.exit("\n".join(lines) if lines else None)
    for case in cases:
        write(case)
    total = sum(path_of(case).stat().st_size for case in cases)
    print(f"{len(cases)} files, {total / 1000:.0f} kB")
    demand(total <= LARGEST_TOTAL, f"more than the {LARGEST_TOTAL / 1000:.0f} kB a repository should carry")


if __name__ == "__main__":
    main()
