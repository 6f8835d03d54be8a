#!/usr/bin/env python3
"""What a llama2.c model computes, in NumPy and from its file alone, to compare an imported model with.

    llama2c_reference.py MODEL.bin --tokenizer TOKENIZER.bin --text TEXT -o REFERENCE.safetensors
    regard verify IMPORTED REFERENCE.safetensors

Needs numpy and safetensors. The forward pass is written position by position, in f64, with rotary pairs side by side as
the file has them. The tokenizer joins the best-scored neighbours, as llama2.c does. With --greedy N it also prints the
model's greedy continuation.
"""

import argparse
import struct
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

EPSILON = 1e-5
START, END, FIRST_BYTE = 1, 2, 3


class Model:
    def __init__(self, path):
        data = Path(path).read_bytes()
        names = ("width", "hidden", "layers", "heads", "kv_heads", "vocabulary", "context")
        self.__dict__.update(zip(names, struct.unpack_from("<7i", data)))
        tied, self.vocabulary = self.vocabulary > 0, abs(self.vocabulary)
        self.head_width = self.width // self.heads
        values = np.frombuffer(data, "<f4", offset=28).astype(np.float64)
        place = 0

        def take(*shape):
            nonlocal place
            place += np.prod(shape)
            return values[place - np.prod(shape) : place].reshape(shape)

        layers, width, keys = self.layers, self.width, self.kv_heads * self.head_width
        self.tokens = take(self.vocabulary, width)
        self.attention_norm = take(layers, width)
        self.query, self.key = take(layers, width, width), take(layers, keys, width)
        self.value, self.output = take(layers, keys, width), take(layers, width, width)
        self.ffn_norm = take(layers, width)
        self.gate = take(layers, self.hidden, width)
        self.down = take(layers, width, self.hidden)
        self.up = take(layers, self.hidden, width)
        self.norm = take(width)
        take(self.context, self.head_width)  # cosines and sines, which are computed here
        self.head = self.tokens if tied else take(self.vocabulary, width)
        if place != len(values):
            sys.exit(f"{path} has {len(values)} values, {place} were expected")

    def forward(self, ids):
        """Logits (time, vocabulary), and the weights of each layer (heads, time, time)."""
        logits, weights = [], np.zeros((self.layers, self.heads, len(ids), len(ids)))
        cache = [([], []) for _ in range(self.layers)]
        for position, token in enumerate(ids):
            x = self.tokens[token].copy()
            for layer, (keys, values) in enumerate(cache):
                y = normed(x, self.attention_norm[layer])
                query = turned((self.query[layer] @ y).reshape(self.heads, -1), position)
                keys.append(turned((self.key[layer] @ y).reshape(self.kv_heads, -1), position))
                values.append((self.value[layer] @ y).reshape(self.kv_heads, -1))
                said = []
                for head in range(self.heads):
                    shared = head // (self.heads // self.kv_heads)
                    scores = [query[head] @ key[shared] / self.head_width**0.5 for key in keys]
                    share = np.exp(np.array(scores) - max(scores))
                    share /= share.sum()
                    weights[layer, head, position, : position + 1] = share
                    said.append(sum(part * value[shared] for part, value in zip(share, values)))
                x += self.output[layer] @ np.concatenate(said)
                y = normed(x, self.ffn_norm[layer])
                gate = self.gate[layer] @ y
                x += self.down[layer] @ (gate / (1 + np.exp(-gate)) * (self.up[layer] @ y))
            logits.append(self.head @ normed(x, self.norm))
        return np.array(logits), weights


def normed(x, weight):
    return x / np.sqrt(np.mean(x * x) + EPSILON) * weight


def turned(heads, position):
    """Every pair of neighbours, turned by an angle that grows with the position."""
    width = heads.shape[1]
    angles = position * 10000.0 ** (-np.arange(0, width, 2) / width)
    first, second = heads[:, 0::2], heads[:, 1::2]
    result = np.empty_like(heads)
    result[:, 0::2] = first * np.cos(angles) - second * np.sin(angles)
    result[:, 1::2] = first * np.sin(angles) + second * np.cos(angles)
    return result


class Tokenizer:
    def __init__(self, path, vocabulary):
        data, place = Path(path).read_bytes(), 4
        self.scores, self.pieces = [], []
        for _ in range(vocabulary):
            score, length = struct.unpack_from("<fi", data, place)
            self.scores.append(score)
            self.pieces.append(data[place + 8 : place + 8 + length])
            place += 8 + length
        self.ids = {piece: id for id, piece in reversed(list(enumerate(self.pieces)))}

    def encode(self, text):
        ids = [self.ids[b" "]] if text else []
        for character in text:
            known = self.ids.get(character.encode())
            ids += [known] if known is not None else [byte + FIRST_BYTE for byte in character.encode()]
        while True:
            pairs = ((self.ids.get(self.pieces[a] + self.pieces[b]), i) for i, (a, b) in enumerate(zip(ids, ids[1:])))
            found = [(self.scores[union], -i, union) for union, i in pairs if union is not None]
            if not found:
                return [START, *ids]
            _, place, union = max(found)
            ids[-place : -place + 2] = [union]

    def decode(self, ids):
        def bytes_of(id):
            return bytes([id - FIRST_BYTE]) if FIRST_BYTE <= id < FIRST_BYTE + 256 else self.pieces[id]

        text = b"".join(bytes_of(id) for id in ids if id not in (START, END)).decode(errors="replace")
        return text.removeprefix(" ")


def main():
    parser = argparse.ArgumentParser(description="What a llama2.c model computes, in NumPy.")
    parser.add_argument("model")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--greedy", type=int, metavar="N", help="also print a continuation of at most N tokens")
    parser.add_argument("-o", "--out", required=True)
    options = parser.parse_args()
    model = Model(options.model)
    tokenizer = Tokenizer(options.tokenizer, model.vocabulary)
    ids = tokenizer.encode(options.text)
    logits, weights = model.forward(ids)
    tensors = {"inputs/ids": np.array([ids], np.int64), "logits": logits[None].astype(np.float32)}
    for layer, values in enumerate(weights):
        tensors[f"layers.{layer}.self.weights"] = values[None].astype(np.float32)
    save_file(tensors, options.out)
    if options.greedy:
        for _ in range(options.greedy):
            best = int(logits[-1].argmax())
            if best in (START, END) or len(ids) == model.context:
                break
            ids.append(best)
            logits, _ = model.forward(ids)
        print(tokenizer.decode(ids))


if __name__ == "__main__":
    main()
