#!/usr/bin/env python3
"""What a call from Python costs above the library's own: a tiny model, many calls.

    python bench/python_overhead.py        in an environment with the package, built for release (`pip install .`)

Prints microseconds a call (median of rounds). The library's own time for the same pass:
`cargo run --release --package regard-nn --example tiny_pass`.
"""

import statistics
import time

import numpy as np

import regard

ROUNDS, CALLS = 15, 400


def microseconds(call) -> float:
    call()
    rounds = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for _ in range(CALLS):
            call()
        rounds.append((time.perf_counter() - started) / CALLS * 1e6)
    return statistics.median(rounds)


def main() -> None:
    model = regard.GPT(11, d_model=8, n_layers=1, n_heads=2, context=8, device="cpu")
    ids = [3, 1, 4, 1]
    run = model(ids)
    q = np.ones((4, 8), dtype=np.float32)
    calls = {
        "model(ids)": lambda: model(ids),
        "the extension's part of it": lambda: model._inner.run([(ids, None)], None, [], []),
        "model.run(ids, interventions=[ablate])": lambda: model.run(ids, interventions=[regard.ablate(0, 1)]),
        "run.attention(0, 1)": lambda: run.attention(0, 1),
        "run.logits": lambda: run.logits,
        "scaled_dot_product of 4 × 8": lambda: regard.attention.scaled_dot_product(q, q, q),
        "tokenizer-free work (alibi_slopes)": lambda: regard.positions.alibi_slopes(2),
    }
    for name, call in calls.items():
        print(f"{name:42} {microseconds(call):8.1f} µs")


if __name__ == "__main__":
    main()
