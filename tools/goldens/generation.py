"""Generation: what the models of some cases go on to say. `settings` in the metadata has, for each result, the arguments
of `generate`."""

import copy
import json

import torch
from goldens.case import demand, make
from goldens.decoders import gpt2, llama
from goldens.encoder_decoders import t5_gated

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
