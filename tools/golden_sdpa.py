#!/usr/bin/env python3
"""Remakes crates/regard/src/experiments/sdpa.json: PyTorch's scaled_dot_product_attention on inputs that both sides
compute exactly, with the values and gradients that the experiment `exactness` compares with.

    python tools/golden_sdpa.py        needs PyTorch

Inputs are multiples of 2^-15 from a linear congruential generator, so that no file of inputs is needed. Of each result
every n-th value is kept, up to 64 of them.
"""

import json
from pathlib import Path

import torch

OUT = Path(__file__).resolve().parent.parent / "crates/regard/src/experiments/sdpa.json"
KEPT = 64


def values(count, seed):
    """Multiples of 2^-15 in [-2, 2): the upper bits of x <- 6364136223846793005 x + 1442695040888963407 mod 2^64."""
    state, out = seed, []
    for _ in range(count):
        state = (6364136223846793005 * state + 1442695040888963407) % 2**64
        out.append((state >> 47) / 2**15 - 2.0)
    return out


def sample(tensor):
    flat = tensor.detach().flatten()
    stride = max(1, flat.numel() // KEPT)
    return [float(value) for value in flat[::stride][:KEPT]]


def case(tokens, width, causal):
    tensors = [torch.tensor(values(tokens * width, seed)).reshape(tokens, width) for seed in (1, 2, 3, 4)]
    query, key, value = (tensor.requires_grad_() for tensor in tensors[:3])
    output = torch.nn.functional.scaled_dot_product_attention(
        query[None, None], key[None, None], value[None, None], is_causal=causal
    )[0, 0]
    output.backward(tensors[3])
    results = {"output": output, "query": query.grad, "key": key.grad, "value": value.grad}
    return {"tokens": tokens, "width": width, "causal": causal, **{name: sample(of) for name, of in results.items()}}


def main():
    torch.manual_seed(0)
    cases = [case(tokens, width, causal) for tokens, width in ((4, 8), (64, 32), (512, 64)) for causal in (False, True)]
    version = torch.__version__.split("+")[0]
    text = ",\n".join(json.dumps(of) for of in cases)
    OUT.write_text(f'{{"pytorch": "{version}", "cases": [\n{text}\n]}}\n')


if __name__ == "__main__":
    main()
