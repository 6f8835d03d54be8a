#!/usr/bin/env python3
"""The workloads of workloads.json in PyTorch, at its best on a CPU.

Denormals are flushed, optimisers are fused, weights start at a standard deviation of 0.02, attention is
`scaled_dot_product_attention`, the LSTM is the library's own, threads are the default ones.

    pytorch.py                       all workloads, each in a process of its own
    pytorch.py gpt-char bilstm       some of them
    pytorch.py --serve               says that it is ready, then reads names from standard input, one a line, and answers
                                     each with one batch of repeats; models stay warm, so a comparison can interleave

Each result is one line of JSON: the median time of a step in milliseconds, the interquartile range of the times, how
many there were, and the peak of resident memory of the process in MB (`base_mb` of it before there was a model: the
interpreter and PyTorch itself).
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

# Worker threads inherit this from the thread that starts them, so it comes before any work.
torch.set_flush_denormal(True)

WORKLOADS = {
    work["name"]: work
    for work in json.loads(Path(__file__).with_name("workloads.json").read_text(encoding="utf-8"))["workloads"]
}
SEED = 1
DEVIATION = 0.02
LEARNING_RATE = 1e-3


# The models. B batch, T time, C model width, H heads, D head width, V vocabulary.


def split_heads(x, heads):
    """(B, T, C) -> (B, H, T, D), without a copy."""
    batch, length, width = x.shape
    return x.view(batch, length, heads, width // heads).transpose(1, 2)


class SelfAttention(nn.Module):
    """Multi-head self-attention with a fused projection to queries, keys and values."""

    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.project = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x):
        query, key, value = (split_heads(part, self.heads) for part in self.project(x).chunk(3, dim=-1))
        heads = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        return self.output(heads.transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, width, heads):
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = SelfAttention(width, heads, causal=True)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.GELU(approximate="tanh"),
            nn.Linear(4 * width, width),
        )

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(x)


class Gpt(nn.Module):
    """GPT-2's architecture: learned positions, biases, tied embeddings; no dropout. Its value is the loss."""

    def __init__(self, shape):
        super().__init__()
        width = shape["width"]
        self.tokens = nn.Embedding(shape["vocabulary"], width)
        self.positions = nn.Embedding(shape["time"], width)
        self.blocks = nn.Sequential(*(Block(width, shape["heads"]) for _ in range(shape["layers"])))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        logits = F.linear(self.norm(self.blocks(x)), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def optimiser(self):
        """AdamW; weight decay on matrices only."""
        matrices = [p for p in self.parameters() if p.dim() >= 2]
        others = [p for p in self.parameters() if p.dim() < 2]
        groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=LEARNING_RATE, betas=(0.9, 0.95), fused=True)

    @staticmethod
    def batch(shape):
        """Random ids, and random targets."""
        size = (2, shape["batch"], shape["time"])
        return torch.randint(shape["vocabulary"], size).unbind()


class MaxPool(nn.Module):
    """The maximum over time."""

    def forward(self, states):
        return states.max(dim=1).values


class AdditivePool(nn.Module):
    """The mean over time weighted by softmax(v·tanh(W·h + b))."""

    def __init__(self, width, attention):
        super().__init__()
        self.project = nn.Linear(width, attention)
        self.score = nn.Linear(attention, 1, bias=False)

    def forward(self, states):
        weights = self.score(torch.tanh(self.project(states))).softmax(dim=1)  # (B, T, 1)
        return torch.bmm(weights.transpose(1, 2), states).squeeze(1)


class BiLstm(nn.Module):
    """A classifier of sequences: embedding, bidirectional LSTM, pool, one logit. Its value is the loss.

    The embedding's gradient is dense, PyTorch's default: its sparse one has no exact Adam (`SparseAdam` leaves the
    moments of untouched rows alone).
    """

    def __init__(self, shape, pool):
        super().__init__()
        width = 2 * shape["hidden"]
        self.embedding = nn.Embedding(shape["vocabulary"], shape["embedding"])
        self.lstm = nn.LSTM(shape["embedding"], shape["hidden"], bidirectional=True, batch_first=True)
        self.pool = {
            "max": lambda: MaxPool(),
            "additive": lambda: AdditivePool(width, shape["attention"]),
            "heads": lambda: nn.Sequential(SelfAttention(width, shape["heads"], causal=False), MaxPool()),
        }[pool]()
        self.classify = nn.Linear(width, 1)

    def forward(self, ids, targets):
        states, _ = self.lstm(self.embedding(ids))  # (B, T, 2·hidden)
        logits = self.classify(self.pool(states)).squeeze(1)
        return F.binary_cross_entropy_with_logits(logits, targets)

    def optimiser(self):
        return torch.optim.Adam(self.parameters(), lr=LEARNING_RATE, fused=True)

    @staticmethod
    def batch(shape):
        """Random ids without padding, and random labels."""
        ids = torch.randint(shape["vocabulary"], (shape["batch"], shape["time"]))
        return ids, torch.randint(2, (shape["batch"],)).float()


def initialise(model):
    """Matrices from a normal distribution, vectors 0, except the scales of norms, which stay 1."""
    for name, parameter in model.named_parameters():
        if parameter.dim() >= 2:
            nn.init.normal_(parameter, std=DEVIATION)
        elif "bias" in name:
            nn.init.zeros_(parameter)


# The steps: what is timed.


def training_step(work, compiled):
    """Forward, loss, backward and the optimiser's update on one fixed batch."""
    shape = work["shape"]
    model = Gpt(shape) if work["kind"] == "gpt" else BiLstm(shape, work["pool"])
    initialise(model)
    optimiser = model.optimiser()
    batch = model.batch(shape)
    loss = torch.compile(model) if compiled else model

    def step():
        optimiser.zero_grad(set_to_none=True)
        loss(*batch).backward()
        optimiser.step()

    return step


def attention_step(work, compiled):
    """Attention on fixed random heads (B, H, T, D); when training, also the three gradients."""
    sizes = [work["shape"][axis] for axis in ("batch", "heads", "time", "width")]
    query, key, value, upstream = torch.randn(4, *sizes).unbind()

    def attend(query, key, value):
        return F.scaled_dot_product_attention(query, key, value, is_causal=work["causal"])

    attend = torch.compile(attend) if compiled else attend
    if not work["train"]:
        return torch.no_grad()(lambda: attend(query, key, value))
    inputs = [part.clone().requires_grad_() for part in (query, key, value)]
    return lambda: torch.autograd.grad(attend(*inputs), inputs, upstream)


def generation_step(work, compiled):
    """A prompt read and continued by Hugging Face's transformers, with random weights of GPT-2's sizes."""
    if compiled:
        raise RuntimeError("generation is not compiled: its shapes change with every token")
    import transformers

    shape = work["shape"]
    config = transformers.GPT2Config(
        vocab_size=shape["vocabulary"],
        n_positions=shape["time"],
        n_embd=shape["width"],
        n_layer=shape["layers"],
        n_head=shape["heads"],
        attn_implementation="sdpa",
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    prompt = torch.randint(shape["vocabulary"], (1, shape["prompt"]))
    length = {"max_new_tokens": shape["tokens"], "min_new_tokens": shape["tokens"]}

    def step():
        with torch.inference_mode():
            said = model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, pad_token_id=0, **length)
        assert said.shape[1] == shape["prompt"] + shape["tokens"]

    return step


STEPS = {
    "attention": attention_step,
    "gpt": training_step,
    "bilstm": training_step,
    "generate": generation_step,
}


def build(name, compiled):
    """The step of a workload, with fixed weights and data."""
    torch.manual_seed(SEED)
    work = WORKLOADS[name]
    return STEPS[work["kind"]](work, compiled)


# Measuring.


def resident_mb(field):
    """A line of /proc/self/status in MB; where there is none, the peak is all that can be known."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
    return next(int(line.split()[1]) * 1024 / 1e6 for line in status.splitlines() if line.startswith(field + ":"))


def times_of(step, seconds, at_least):
    """Times of repeated steps in milliseconds, until the budget is used up."""
    times = []
    end = time.perf_counter() + seconds
    while len(times) < at_least or time.perf_counter() < end:
        start = time.perf_counter()
        step()
        times.append((time.perf_counter() - start) * 1e3)
    return times


class Bench:
    """Measures workloads and keeps their models warm."""

    def __init__(self, seconds, compiled):
        self.seconds, self.compiled = seconds, compiled
        self.engine = "pytorch-compiled" if compiled else "pytorch"
        self.steps = {}
        self.base_mb = resident_mb("VmRSS")

    def step(self, name):
        """The workload's step, built and warmed up when it is first asked for."""
        if name not in self.steps:
            step = build(name, self.compiled)
            times_of(step, min(1.0, self.seconds / 3), at_least=2)
            self.steps[name] = step
        return self.steps[name]

    def result(self, name):
        """One batch of repeats."""
        if name not in WORKLOADS:
            return self.error(name, "unknown workload")
        try:
            times = times_of(self.step(name), self.seconds, at_least=3)
        # torch.compile fails in many ways: no C++ compiler, an operation it cannot lower, ...
        except Exception as error:
            return self.error(name, (str(error).strip().splitlines() or [type(error).__name__])[0])
        low, _, high = statistics.quantiles(times, n=4, method="inclusive")
        return {
            "work": name,
            "ms": round(statistics.median(times), 4),
            "spread": round(high - low, 4),
            "repeats": len(times),
            "peak_mb": round(resident_mb("VmHWM"), 1),
            "base_mb": round(self.base_mb, 1),
            "engine": self.engine,
        }

    def error(self, name, reason):
        return {"work": name, "engine": self.engine, "error": reason}


def say(result):
    print(json.dumps(result), flush=True)


def parse():
    parser = argparse.ArgumentParser(description="The workloads of workloads.json in PyTorch on the CPU.")
    parser.add_argument("work", nargs="*", help="names of workloads (default: all)")
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each (default: 3)")
    parser.add_argument("--compile", action="store_true", help="with torch.compile")
    parser.add_argument("--serve", action="store_true", help="read names from standard input, one a line")
    options = parser.parse_args()
    unknown = [name for name in options.work if name not in WORKLOADS]
    if unknown:
        parser.error(f"unknown workload {unknown[0]}; there are: {', '.join(WORKLOADS)}")
    return options


def main():
    options = parse()
    names = options.work or list(WORKLOADS)
    if options.serve:
        bench = Bench(options.seconds, options.compile)
        say({"engine": bench.engine, "ready": True})
        for line in sys.stdin:
            say(bench.result(line.strip()))
    elif len(names) == 1:
        result = Bench(options.seconds, options.compile).result(names[0])
        say(result)
        sys.exit("error" in result and not options.compile)
    else:
        # A process each, so that the peak of memory belongs to the workload.
        flags = ["--seconds", str(options.seconds)] + ["--compile"] * options.compile
        failed = [subprocess.run([sys.executable, __file__, name, *flags]).returncode for name in names]
        sys.exit(any(failed))


if __name__ == "__main__":
    main()
