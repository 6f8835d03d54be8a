#!/usr/bin/env python3
"""Makes the golden files of the library's tests from Hugging Face's models and PyTorch's layers:
crates/regard-nn/tests/golden/models/*.safetensors.

    golden_models.py [CASE…]             writes them, or some of them
    golden_models.py --check [CASE…]     compares the files with what these versions compute

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
import json
import struct
import sys
from pathlib import Path

import torch
import transformers
from goldens import decoders, encoder_decoders, encoders, vision
from goldens.case import demand, make
from goldens.generation import generation
from goldens.layers import layers
from safetensors import safe_open

FOLDER = Path(__file__).resolve().parents[1] / "crates/regard-nn/tests/golden/models"
LARGEST_TOTAL = 5_000_000  # bytes
DATA_TYPES = {torch.int64: "I64", torch.float32: "F32", torch.uint8: "U8"}  # the widest first

# The models, with what docs/fidelity.md calls them.
MODELS = {**decoders.CASES, **encoders.CASES, **encoder_decoders.CASES, **vision.CASES}
CASES = (*MODELS, generation, layers)


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
    parser.add_argument("cases", nargs="*", metavar="CASE", help="a file's name without its ending; all if none is given")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    known = {function.__name__.replace("_", "-"): function for function in CASES}
    unknown = [name for name in options.cases if name not in known]
    demand(not unknown, f"no such case: {', '.join(unknown)}")
    cases = [make(known[name]) for name in options.cases or known]
    if options.check:
        lines = [line for case in cases for line in differences(case)]
        sys.exit("\n".join(lines) if lines else None)
    for case in cases:
        write(case)
    total = sum(path.stat().st_size for path in FOLDER.glob("*.safetensors"))
    print(f"{len(cases)} files written; all have {total / 1000:.0f} kB")
    demand(total <= LARGEST_TOTAL, f"more than the {LARGEST_TOTAL / 1000:.0f} kB a repository should carry")


if __name__ == "__main__":
    main()
