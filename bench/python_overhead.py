#!/usr/bin/env python3
"""What a call from Python costs above the library's own: a tiny model, many calls.

    python bench/python_overhead.py        in an environment with the package, built for release (`pip install .`)

Rounds of calls from Python and of the library's own passes alternate in one process. The best round of each counts: whatever else the
machine does only makes a round slower.
"""

import time

import numpy as np

import regard
from regard import _regard

ROUNDS, CALLS = 60, 100


def microseconds(call) -> float:
    started = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - started) / CALLS * 1e6


def main() -> None:
    model = regard.GPT(11, d_model=8, n_layers=1, n_heads=2, context=8, device="cpu")
    ids = [3, 1, 4, 1]
    run = model(ids)
    q = np.ones((4, 8), dtype=np.float32)
    calls = {
        "model(ids)": lambda: model(ids),
        "run.attention(0, 1)": lambda: run.attention(0, 1),
        "run.logits": lambda: run.logits,
        "scaled_dot_product of 4 × 8": lambda: regard.attention.scaled_dot_product(q, q, q),
        "regard.positions.alibi_slopes(2)": lambda: regard.positions.alibi_slopes(2),
    }
    own, best = float("inf"), dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        own = min(own, _regard.library_passes(model._inner, ids, CALLS) / CALLS * 1e6)
        for name, call in calls.items():
            best[name] = min(best[name], microseconds(call))
    for name, least in {"the library's own pass": own, **best, "model(ids) above the library": best["model(ids)"] - own}.items():
        print(f"{name:36} {least:8.1f} µs")


if __name__ == "__main__":
    main()
