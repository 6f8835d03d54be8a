#!/usr/bin/env python3
"""Makes the golden files of the engine's tests from PyTorch: crates/regard-tensor/tests/golden/*.safetensors.

    golden_engine.py             writes them
    golden_engine.py --check     compares the files with what this PyTorch computes

Needs torch, numpy, safetensors and, for the small GPT, transformers. A file holds a family of operations. A case in it
has its inputs (`softmax/x`), its result (`softmax/out`), a random gradient of that result (`softmax/upstream`) and the
gradient of each input under it (`softmax/grad/x`), which is that of the loss Σ out·upstream. Everything is computed
in f64 from f32 inputs and rounded once, so that a test's tolerance is spent on the engine's error alone. The small GPT
is trained in f32, as anyone would train it.
"""

import argparse
import sys
import zlib
from pathlib import Path

import numpy
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

FOLDER = Path(__file__).resolve().parents[1] / "crates/regard-tensor/tests/golden"
LARGEST_TOTAL = 400_000  # bytes
INFINITY = float("inf")


class Family:
    """The cases of one file. Draws come from NumPy's frozen generator, so every machine makes the same ones."""

    def __init__(self, name):
        self.name = name
        self.tensors = {}
        self.random = numpy.random.RandomState(zlib.crc32(name.encode()))

    def normal(self, *shape, deviation=1.0):
        """Random f32 values."""
        values = numpy.asarray(self.random.standard_normal(shape) * deviation, dtype=numpy.float32)
        return torch.from_numpy(values)

    def ids(self, limit, *shape):
        """Random whole numbers below a limit."""
        return torch.from_numpy(self.random.randint(limit, size=shape, dtype=numpy.int64))

    def mask(self, *shape, share=0.6):
        """Random yes or no, mostly yes."""
        return torch.from_numpy(self.random.random_sample(shape) < share)

    def store(self, name, tensor):
        """Adds a tensor: f64 rounded to f32, masks as bytes."""
        tensor = tensor.detach()
        if tensor.dtype == torch.float64:
            tensor = tensor.float()
        elif tensor.dtype == torch.bool:
            tensor = tensor.to(torch.uint8)
        self.tensors[name] = tensor.clone(memory_format=torch.contiguous_format)

    def case(self, name, function, inputs, fixed=None, upstream_mask=None):
        """Stores the value of `function(**inputs, **fixed)` and the gradient of every input; `fixed` has none.

        A function may return a dictionary instead, with `out` and further results that carry no gradient. The
        random upstream gradient is 0 outside `upstream_mask`.
        """
        fixed = fixed or {}
        leaves = {key: value.double().requires_grad_() for key, value in inputs.items()}
        exact = {key: value.double() if value.is_floating_point() else value for key, value in fixed.items()}
        results = function(**leaves, **exact)
        if not isinstance(results, dict):
            results = {"out": results}
        out = results["out"]
        upstream = self.normal(*out.shape)
        if upstream_mask is not None:
            upstream = upstream * upstream_mask
        gradients = torch.autograd.grad(out, list(leaves.values()), upstream.double())
        for key, value in {**inputs, **fixed, **results, "upstream": upstream}.items():
            self.store(f"{name}/{key}", value)
        for key, gradient in zip(leaves, gradients):
            self.store(f"{name}/grad/{key}", gradient)


ACTIVATIONS = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}


def pointwise(family):
    for name, function in {**ACTIVATIONS, "exp": torch.exp}.items():
        family.case(name, lambda x, f=function: f(x), {"x": family.normal(2, 35, deviation=2.0)})
    for name, function in {"ln": torch.log, "sqrt": torch.sqrt}.items():
        family.case(name, lambda x, f=function: f(x), {"x": family.normal(2, 35).abs() + 0.05})


def arithmetic(family):
    functions = {"add": torch.add, "subtract": torch.sub, "multiply": torch.mul, "divide": torch.div}
    for name, function in functions.items():
        away_from_zero = family.normal(4, 1)
        away_from_zero = away_from_zero + away_from_zero.sign() * 0.5
        inputs = {"a": family.normal(3, 1, 7), "b": away_from_zero}
        family.case(name, lambda a, b, f=function: f(a, b), inputs)
    family.case("affine", lambda x: x * 1.7 - 0.3, {"x": family.normal(5, 9)})


def layout(family):
    x = {"x": family.normal(3, 5, 4)}
    family.case("reshape", lambda x: x.reshape(6, 10), x)
    family.case("permute", lambda x: x.permute(2, 0, 1), x)
    family.case("transpose", lambda x: x.transpose(-1, 0), x)
    family.case("slice", lambda x: x[:, 1:4], x)
    family.case("select", lambda x: x[:, :, 2], x)
    parts = {"a": family.normal(3, 2, 5), "b": family.normal(3, 1, 5), "c": family.normal(3, 4, 5)}
    family.case("concatenate", lambda a, b, c: torch.cat([a, b, c], dim=1), parts)


def reductions(family):
    x = {"x": family.normal(3, 5, 7)}
    for axis in (0, 1, 2):
        family.case(f"sum_{axis}", lambda x, axis=axis: x.sum(axis), x)
        family.case(f"mean_{axis}", lambda x, axis=axis: x.mean(axis), x)
        family.case(f"max_{axis}", lambda x, axis=axis: dict(zip(("out", "places"), x.max(axis))), x)
    family.case("sum_all", lambda x: x.sum(), {"x": family.normal(11, 13)})
    family.case("mean_all", lambda x: x.mean(), {"x": family.normal(11, 13)})
    family.case("sum_rows", lambda x: x.sum((0, 1)), x)


def matmul(family):
    def product(a, b, transposed):
        a = a.transpose(-1, -2) if transposed[0] else a
        return a @ (b.transpose(-1, -2) if transposed[1] else b)

    def sides(outer_a, outer_b, transposed):
        a, b = ((7, 3), (3, 5))
        a, b = (a[::-1] if transposed[0] else a), (b[::-1] if transposed[1] else b)
        return {"a": family.normal(*outer_a, *a), "b": family.normal(*outer_b, *b)}

    outers = {"single": ((), ()), "batched": ((2, 2), (2, 2)), "shared_a": ((), (3,)), "shared_b": ((3,), ())}
    for outer, (outer_a, outer_b) in outers.items():
        for letters in ("nn", "nt", "tn", "tt"):
            transposed = [letter == "t" for letter in letters]
            function = lambda a, b, transposed=transposed: product(a, b, transposed)
            family.case(f"{outer}_{letters}", function, sides(outer_a, outer_b, transposed))


def linear(family):
    for name, function in {**ACTIVATIONS, "plain": lambda x: x}.items():
        inputs = {"x": family.normal(2, 3, 5), "weight": family.normal(7, 5), "bias": family.normal(7)}
        layer = lambda x, weight, bias, f=function: f(F.linear(x, weight, bias))
        family.case(f"out_in_{name}", layer, inputs)
        inputs = {**inputs, "weight": inputs["weight"].T}
        layer = lambda x, weight, bias, f=function: f(x @ weight + bias)
        family.case(f"in_out_{name}", layer, inputs)
    inputs = {"x": family.normal(7, 3), "weight": family.normal(5, 3)}
    family.case("without_bias", lambda x, weight: F.linear(x, weight), inputs)


def embedding(family):
    fixed = {"ids": family.ids(9, 4, 5)}
    family.case("embedding", lambda table, ids: F.embedding(ids, table), {"table": family.normal(9, 7)}, fixed)


def softmax(family):
    x = {"x": family.normal(2, 3, 19, deviation=3.0)}
    family.case("softmax", lambda x: x.softmax(-1), x)
    family.case("log_softmax", lambda x: x.log_softmax(-1), x)
    mask = family.mask(3, 19)
    mask[:, 0] = True
    hide = lambda x, mask: x.masked_fill(~mask, -INFINITY)
    family.case("softmax_masked", lambda x, mask: hide(x, mask).softmax(-1), x, {"mask": mask})
    # The logarithm of nothing has no gradient to give.
    log = lambda x, mask: hide(x, mask).log_softmax(-1)
    family.case("log_softmax_masked", log, x, {"mask": mask}, upstream_mask=mask)


def norm(family):
    def rms_norm(x, weight):
        return F.rms_norm(x, weight.shape, weight, eps=1e-6)

    def layer_norm(x, weight, bias=None):
        return F.layer_norm(x, weight.shape, weight, bias, eps=1e-5)

    for width in (37, 3):
        x = family.normal(5, width, deviation=2.0) + 0.7
        inputs = {"x": x, "weight": family.normal(width), "bias": family.normal(width)}
        family.case(f"layer_norm_{width}", layer_norm, inputs)
        del inputs["bias"]
        family.case(f"layer_norm_without_bias_{width}", layer_norm, inputs)
        family.case(f"rms_norm_{width}", rms_norm, inputs)


def losses(family):
    ignored = 99
    logits = {"logits": family.normal(4, 3, 11, deviation=2.0)}
    targets = family.ids(11, 4, 3)
    some_ignored = targets.clone()
    some_ignored[0, 1] = some_ignored[3, 2] = ignored

    def cross_entropy(logits, targets, **settings):
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=ignored, **settings)
        return loss.view(targets.shape) if loss.dim() else loss

    def smoothed(logits, targets, **settings):
        return cross_entropy(logits, targets, label_smoothing=0.1, **settings)

    def each(function):
        return lambda logits, targets: function(logits, targets, reduction="none")

    family.case("cross_entropy", cross_entropy, logits, {"targets": targets})
    family.case("cross_entropy_rows", each(cross_entropy), logits, {"targets": targets})
    family.case("cross_entropy_ignored", cross_entropy, logits, {"targets": some_ignored})
    family.case("cross_entropy_smoothed", smoothed, logits, {"targets": some_ignored})
    family.case("cross_entropy_smoothed_rows", each(smoothed), logits, {"targets": some_ignored})

    x = {"logits": torch.cat([family.normal(9, deviation=3.0), torch.tensor([60.0, -60.0])])}
    binary = torch.cat([family.ids(2, 6).float(), torch.tensor([0.3, 0.9, 0.5, 0.0, 1.0])])
    bce = F.binary_cross_entropy_with_logits
    family.case("binary_cross_entropy", lambda logits, targets: bce(logits, targets), x, {"targets": binary})
    rows = lambda logits, targets: bce(logits, targets, reduction="none")
    family.case("binary_cross_entropy_rows", rows, x, {"targets": binary})


# Attention. In the files, queries are (batch, queries, heads, width), keys and values (batch, keys, kv heads, width).


def causal_mask(queries, keys):
    """The last query stands at the last key."""
    return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)


def distances(queries, keys):
    """Query position − key position, the last query standing at the last key."""
    return (torch.arange(queries) + keys - queries)[:, None] - torch.arange(keys)


def attend(query, key, value, allowed=None, bias=None, scale=None):
    """PyTorch's attention, and the log-sum-exp and weights by the formula."""
    query, key, value = (x.transpose(1, 2) for x in (query, key, value))  # (B, H, T, D)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    repeated = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
    scores = query @ repeated.transpose(-1, -2) * scale
    mask = bias
    if bias is not None:
        scores = scores + bias
        mask = bias if allowed is None else bias.masked_fill(~allowed, -INFINITY)
    elif allowed is not None:
        mask = allowed
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -INFINITY)
    grouped = key.shape[1] != query.shape[1]
    out = F.scaled_dot_product_attention(query, key, value, mask, scale=scale, enable_gqa=grouped)
    weights = scores.softmax(-1).nan_to_num(0.0)
    return {"out": out.transpose(1, 2), "log_sum_exp": scores.logsumexp(-1), "weights": weights}


def with_sink(query, key, value, sink):
    """A logit a head joins the softmax and is thrown away after it; there is no such option in PyTorch."""
    query, key, value = (x.transpose(1, 2) for x in (query, key, value))
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    extended = torch.cat([scores, sink.view(-1, 1, 1).expand(*scores.shape[:3], 1)], dim=-1)
    weights = extended.softmax(-1)[..., :-1]
    return {"out": (weights @ value).transpose(1, 2), "log_sum_exp": extended.logsumexp(-1), "weights": weights}


def unpack(packed, heads, kv_heads):
    """Queries, keys and values of a fused projection."""
    batch, time, row = packed.shape
    width = row // (heads + 2 * kv_heads)
    parts = packed.split([heads * width, kv_heads * width, kv_heads * width], dim=-1)
    return [part.reshape(batch, time, -1, width) for part in parts]


def attention(family):
    def inputs(queries=5, keys=7, heads=3, kv_heads=3, width=3, value_width=3, batch=2):
        return {
            "query": family.normal(batch, queries, heads, width),
            "key": family.normal(batch, keys, kv_heads, width),
            "value": family.normal(batch, keys, kv_heads, value_width),
        }

    family.case("full", attend, inputs())
    family.case("value_width", attend, inputs(value_width=4))
    family.case("scale", lambda **qkv: attend(**qkv, scale=0.31), inputs())
    family.case("causal", lambda **qkv: attend(**qkv, allowed=causal_mask(7, 7)), inputs(queries=7))
    family.case("causal_fewer_queries", lambda **qkv: attend(**qkv, allowed=causal_mask(5, 7)), inputs())
    family.case("grouped", lambda **qkv: attend(**qkv, allowed=causal_mask(5, 7)), inputs(heads=6, kv_heads=2))
    family.case("multi_query", attend, inputs(heads=3, kv_heads=1))
    # Longer than a tile of 64, with an odd rest.
    long = inputs(queries=67, keys=67, heads=2, kv_heads=1, width=5, batch=1)
    family.case("long_causal", lambda **qkv: without_weights(attend(**qkv, allowed=causal_mask(67, 67))), long)
    masked_attention(family, inputs)
    biased_attention(family, inputs)
    family.case("sink", with_sink, inputs() | {"sink": family.normal(3)})
    packed = {"packed": family.normal(2, 7, (4 + 2 * 2) * 3)}
    family.case("fused", lambda packed: attend(*unpack(packed, 4, 2), allowed=causal_mask(7, 7)), packed)


def without_weights(results):
    """Large weights are not worth their place in the repository."""
    return {key: value for key, value in results.items() if key != "weights"}


def masked_attention(family, inputs):
    def padded(query, key, value, key_mask, causal=False):
        allowed = key_mask[:, None, None, :]
        return attend(query, key, value, allowed & causal_mask(5, 7) if causal else allowed)

    key_mask = torch.arange(7) < torch.tensor([[4], [7]])
    family.case("padding", padded, inputs(), {"key_mask": key_mask})
    causal = lambda **tensors: padded(**tensors, causal=True)
    family.case("padding_causal", causal, inputs(), {"key_mask": key_mask})
    # The first three queries of the second example may attend to nothing: zeros, and no gradient.
    at_the_start = torch.arange(7) >= torch.tensor([[0], [5]])
    family.case("nothing_allowed", causal, inputs(), {"key_mask": at_the_start})
    masked = lambda query, key, value, mask: attend(query, key, value, mask)
    family.case("mask", masked, inputs(), {"mask": family.mask(5, 7)})
    family.case("mask_of_each", masked, inputs(), {"mask": family.mask(2, 3, 5, 7)})


def biased_attention(family, inputs):
    def biased(query, key, value, bias, allowed=None):
        return attend(query, key, value, allowed, bias)

    def sloped(query, key, value, slopes, allowed=None):
        away = distances(query.shape[1], key.shape[1]).abs()
        return attend(query, key, value, allowed, -slopes[None, :, None, None] * away)

    def bucketed(query, key, value, table, buckets):
        queries, keys = query.shape[1], key.shape[1]
        by_pair = table[buckets[distances(queries, keys) + queries - 1]]  # (queries, keys, heads)
        return attend(query, key, value, bias=by_pair.permute(2, 0, 1)[None])

    planes = {"bias": (2, 3), "bias_of_heads": (1, 3), "bias_of_examples": (2, 1), "bias_shared": (1, 1)}
    for name, plane in planes.items():
        family.case(name, biased, inputs() | {"bias": family.normal(*plane, 5, 7)})
    bias = {"bias": family.normal(1, 3, 5, 7)}
    family.case("bias_causal", lambda **x: biased(**x, allowed=causal_mask(5, 7)), inputs() | bias)
    slopes = {"slopes": torch.tensor([0.5, 0.25, 0.125])}
    family.case("slopes", sloped, inputs() | slopes)
    family.case("slopes_causal", lambda **x: sloped(**x, allowed=causal_mask(5, 7)), inputs() | slopes)
    # A bucket for each distance from −3 to 3, the outer ones for all beyond. Entry 0 is the distance 1 − queries.
    buckets = (torch.arange(5 + 7 - 1) + 1 - 5).clamp(-3, 3) + 3
    family.case("buckets", bucketed, inputs() | {"table": family.normal(7, 3)}, {"buckets": buckets})


def lstm(family):
    def direction(suffix, inputs, hidden):
        shapes = {"input": (4 * hidden, inputs), "hidden": (4 * hidden, hidden), "bias": (4 * hidden,)}
        return {f"{name}_{suffix}": family.normal(*shape, deviation=0.4) for name, shape in shapes.items()}

    def run(x, lengths=None, **weights):
        """The module's own code, its weights replaced by ours. Its two biases share ours: only their sum matters."""
        both = "input_1" in weights
        module = torch.nn.LSTM(x.shape[2], weights["hidden_0"].shape[1], batch_first=True, bidirectional=both)
        names = {}
        for suffix, end in (("0", ""), ("1", "_reverse"))[: 1 + both]:
            names[f"weight_ih_l0{end}"] = weights[f"input_{suffix}"]
            names[f"weight_hh_l0{end}"] = weights[f"hidden_{suffix}"]
            names[f"bias_ih_l0{end}"] = 0.25 * weights[f"bias_{suffix}"]
            names[f"bias_hh_l0{end}"] = 0.75 * weights[f"bias_{suffix}"]
        if lengths is None:
            return torch.func.functional_call(module, names, (x,))[0]
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        states, _ = torch.func.functional_call(module, names, (packed,))
        return torch.nn.utils.rnn.pad_packed_sequence(states, batch_first=True, total_length=x.shape[1])[0]

    inputs, hidden = 3, 5
    x = {"x": family.normal(4, 7, inputs)}
    forward, backward = direction("0", inputs, hidden), direction("1", inputs, hidden)
    lengths = {"lengths": torch.tensor([3, 7, 1, 6])}
    family.case("forward", run, x | forward)
    family.case("both", run, x | forward | backward)
    family.case("forward_padded", run, x | forward, lengths)
    family.case("both_padded", run, x | forward | backward, lengths)


def rotary(family):
    def turn(x, cos, sin, positions, pair, unpair):
        """The pairs (a, b) of the leading features become (a·cos − b·sin, b·cos + a·sin)."""
        rotated = 2 * cos.shape[1]
        cos, sin = (table[positions][:, :, None] for table in (cos, sin))  # (B, T, 1, pairs)
        a, b = pair(x[..., :rotated])
        turned = unpair(a * cos - b * sin, b * cos + a * sin)
        return torch.cat([turned, x[..., rotated:]], dim=-1)

    def halves(**tensors):
        return turn(**tensors, pair=lambda x: x.chunk(2, dim=-1), unpair=lambda *pair: torch.cat(pair, dim=-1))

    def interleaved(**tensors):
        unpair = lambda *pair: torch.stack(pair, dim=-1).flatten(-2)
        return turn(**tensors, pair=lambda x: (x[..., ::2], x[..., 1::2]), unpair=unpair)

    x = {"x": family.normal(2, 3, 2, 11)}
    for rotated in (10, 6):
        angles = torch.arange(13)[:, None] * 10000.0 ** (-torch.arange(0, rotated, 2) / rotated)
        fixed = {"cos": angles.cos(), "sin": angles.sin(), "positions": family.ids(13, 2, 3)}
        family.case(f"halves_{rotated}", halves, x, fixed)
        family.case(f"interleaved_{rotated}", interleaved, x, fixed)


def patches(family):
    def unfold(x):
        return F.unfold(x, kernel_size=3, stride=3).transpose(1, 2)

    def convolve(x, weight, bias):
        """(batch, patches, channels out), which is what a linear layer on the patches gives."""
        return F.conv2d(x, weight.view(7, 2, 3, 3), bias, stride=3).flatten(2).transpose(1, 2)

    x = {"x": family.normal(2, 2, 6, 9)}
    family.case("patches", unfold, x)
    family.case("convolution", convolve, x | {"weight": family.normal(7, 2 * 3 * 3), "bias": family.normal(7)})


# Training: ten steps.

STEPS = 10


def optimisers(family):
    methods = {
        "sgd": lambda groups: torch.optim.SGD(groups, lr=0.05, momentum=0.9),
        "adam": lambda groups: torch.optim.Adam(groups, lr=0.02),
        "adamw": lambda groups: torch.optim.AdamW(groups, lr=0.02, betas=(0.9, 0.95)),
    }
    start = {"matrix": family.normal(5, 7), "vector": family.normal(7)}
    gradients = {name: family.normal(STEPS, *value.shape) for name, value in start.items()}
    for name, method in methods.items():
        ten_updates(family, name, method, start, gradients)
    gradients_of_rows(family)
    clipping(family)


def ten_updates(family, name, method, start, gradients):
    """The parameters after each step; weight decay 0.1 on the matrix only."""
    parameters = {key: value.double().requires_grad_() for key, value in start.items()}
    decays = {"matrix": 0.1, "vector": 0.0}
    optimiser = method([{"params": [parameters[key]], "weight_decay": decays[key]} for key in parameters])
    after = {key: [] for key in parameters}
    for step in range(STEPS):
        for key, parameter in parameters.items():
            parameter.grad = gradients[key][step].double()
        optimiser.step()
        for key, parameter in parameters.items():
            after[key].append(parameter.detach().clone())
    for key in parameters:
        family.store(f"{name}/{key}", start[key])
        family.store(f"{name}/gradients/{key}", gradients[key])
        family.store(f"{name}/after/{key}", torch.stack(after[key]))


def gradients_of_rows(family):
    """Adam on a table of which each step reads a few rows; the moments of the others decay all the same."""
    start, ids, upstream = family.normal(9, 3), family.ids(9, STEPS, 4), family.normal(STEPS, 4, 3)
    table = start.double().requires_grad_()
    optimiser = torch.optim.Adam([table], lr=0.02)
    after = []
    for step in range(STEPS):
        optimiser.zero_grad()
        F.embedding(ids[step], table).backward(upstream[step].double())
        optimiser.step()
        after.append(table.detach().clone())
    tensors = {"table": start, "ids": ids, "upstream": upstream, "after/table": torch.stack(after)}
    for key, tensor in tensors.items():
        family.store(f"adam_rows/{key}", tensor)


def clipping(family):
    """The global norm of two gradients, and both after clipping to a norm of 1."""
    gradients = {"a": family.normal(5, 3), "b": family.normal(7)}
    parameters = [torch.zeros_like(value, dtype=torch.float64) for value in gradients.values()]
    for parameter, gradient in zip(parameters, gradients.values()):
        parameter.grad = gradient.double()
    norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    family.store("clip/norm", norm)
    for (key, gradient), parameter in zip(gradients.items(), parameters):
        family.store(f"clip/{key}", gradient)
        family.store(f"clip/clipped/{key}", parameter.grad)


def gpt(family):
    """Ten steps of training a tiny GPT-2 of Hugging Face's, with its names and layouts."""
    from transformers import GPT2Config, GPT2LMHeadModel

    vocabulary, time, batch = 13, 10, 3
    no_dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    sizes = {"vocab_size": vocabulary, "n_positions": time, "n_embd": 24, "n_layer": 2, "n_head": 3}
    special = {"bos_token_id": 0, "eos_token_id": 0}
    model = GPT2LMHeadModel(GPT2Config(**sizes, **no_dropout, **special))
    model.train()
    for name, parameter in model.named_parameters():
        # Wide enough that attention and every bias matter from the first step on.
        around = 1.0 if name.endswith("weight") and parameter.dim() == 1 else 0.0
        parameter.data = family.normal(*parameter.shape, deviation=0.1) + around
        family.store(name, parameter)
    # Each id follows from the one before it, so that there is something to learn.
    ids = family.ids(vocabulary, STEPS, batch, 1)
    for _ in range(time):
        ids = torch.cat([ids, (2 * ids[..., -1:] + 1) % vocabulary], dim=-1)
    family.store("ids", ids)
    family.store("losses", torch.tensor(train(model, ids)))


def train(model, ids):
    """The losses before each update."""
    matrices = [parameter for parameter in model.parameters() if parameter.dim() == 2]
    others = [parameter for parameter in model.parameters() if parameter.dim() != 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for batch in ids:
        logits = model(batch[:, :-1]).logits
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(loss.item())
    return losses


FAMILIES = (
    pointwise,
    arithmetic,
    layout,
    reductions,
    matmul,
    linear,
    embedding,
    softmax,
    norm,
    losses,
    attention,
    lstm,
    rotary,
    patches,
    optimisers,
    gpt,
)


def make(function):
    family = Family(function.__name__)
    function(family)
    return family


def path_of(family):
    return FOLDER / f"{family.name}.safetensors"


def write(family):
    FOLDER.mkdir(parents=True, exist_ok=True)
    save_file(family.tensors, path_of(family))


def differences(family):
    """What the file has that PyTorch does not compute now, a line each."""
    if not path_of(family).exists():
        return [f"{family.name}: no such file"]
    stored = load_file(path_of(family))
    lines = [f"{family.name}: only in the file: {name}" for name in stored.keys() - family.tensors.keys()]
    for name, tensor in family.tensors.items():
        if name not in stored:
            lines.append(f"{family.name}: not in the file: {name}")
        elif stored[name].dtype != tensor.dtype or stored[name].shape != tensor.shape:
            lines.append(f"{family.name}: another type or shape: {name}")
        elif not torch.allclose(stored[name], tensor, rtol=1e-5, atol=1e-6, equal_nan=True):
            lines.append(f"{family.name}: other values: {name}")
    return lines


def main():
    parser = argparse.ArgumentParser(description="Makes the golden files of the engine's tests from PyTorch.")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    options = parser.parse_args()
    families = [make(function) for function in FAMILIES]
    if options.check:
        lines = [line for family in families for line in differences(family)]
        sys.exit("\n".join(lines) if lines else None)
    for family in families:
        write(family)
    total = sum(path_of(family).stat().st_size for family in families)
    print(f"{len(families)} files, {total / 1000:.0f} kB")
    if total > LARGEST_TOTAL:
        sys.exit(f"more than the {LARGEST_TOTAL / 1000:.0f} kB a repository should carry")


if __name__ == "__main__":
    main()
