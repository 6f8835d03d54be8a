"""PyTorch's layers: attention, multi-head attention and the LSTM. Queries are (B, H, Tq, D), keys and values (B, kv heads,
Tk, D)."""

import torch
from golden_engine import INFINITY, causal_mask
from torch.nn import functional as F

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
