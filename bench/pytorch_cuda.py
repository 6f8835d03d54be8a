#!/usr/bin/env python3
"""The peers of `bench/compare --device cuda`: each workload in PyTorch as fast as it goes, in bf16 on the first CUDA device.

    bench/pytorch_cuda.py WORK --seconds 5

Prints {"ready": true} once everything is compiled and warm; then, for each line of standard input, one line of JSON with the median time of a
step over that many seconds. Training: f32 parameters under autocast, fused AdamW or Adam, gradients clipped at a norm of 1.

How each is run ("mode" in the workloads):
    compile        torch.compile
    graphs         torch.compile(mode="reduce-overhead"), which replays CUDA graphs
    graph          the whole step captured in one CUDA graph; LSTMs are cuDNN's and not compiled
    cudnn          scaled_dot_product_attention with cuDNN
    static-cache   transformers' generation with a static cache, which compiles the decoding step by itself
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import torch
from pytorch import BiLstm, Gpt, initialise
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

WORKLOADS = {
    work["name"]: work for work in json.loads(Path(__file__).with_name("workloads.json").read_text(encoding="utf-8"))["cuda"]
}
DEVICE = "cuda"
# Steps are timed in groups of about this many seconds: waiting for the device after each would be part of the time.
GROUP = 0.1


class DroppedGpt(Gpt):
    """nanoGPT's three places of dropout around the blocks of `pytorch.py`."""

    def __init__(self, shape):
        super().__init__(shape)
        share = shape["dropout"]
        self.drop = nn.Dropout(share)
        for block in self.blocks:
            attention, feed_forward = block.attention, block.feed_forward
            attention.output = nn.Sequential(attention.output, nn.Dropout(share))
            feed_forward.append(nn.Dropout(share))
            attention.forward = lambda x, attention=attention: dropped_attention(attention, x, share)

    def forward(self, ids, targets):
        x = self.drop(self.tokens(ids) + self.positions.weight[: ids.shape[1]])
        logits = F.linear(self.norm(self.blocks(x)), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def dropped_attention(attention, x, share):
    batch, length, width = x.shape
    split = lambda part: part.view(batch, length, attention.heads, -1).transpose(1, 2)
    query, key, value = (split(part) for part in attention.project(x).chunk(3, dim=-1))
    heads = F.scaled_dot_product_attention(query, key, value, is_causal=True, dropout_p=share)
    return attention.output(heads.transpose(1, 2).reshape(x.shape))


def model_of(work):
    shape = work["shape"]
    if work["kind"] == "bilstm":
        return BiLstm(shape, work["pool"])
    return DroppedGpt(shape) if shape.get("dropout") else Gpt(shape)


def training_step(work):
    """Forward, loss, backward, clipping and the optimiser's update on one fixed batch."""
    model = model_of(work)
    initialise(model)
    model.to(DEVICE)
    batch = [part.to(DEVICE) for part in model.batch(work["shape"])]
    optimiser = model.optimiser()
    captured = work["mode"] == "graph"
    for group in optimiser.param_groups:
        group["capturable"] = captured
    mode = {"graphs": "reduce-overhead"}.get(work["mode"])
    loss = model if captured else torch.compile(model, mode=mode)

    def step():
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE, torch.bfloat16):
            value = loss(*batch)
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()

    return graphed(step) if captured else step


def graphed(step):
    """The step as one CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def attention_step(work):
    """Causal attention on random heads (B, H, T, D): forward, backward, or both."""
    sizes = [work["shape"][axis] for axis in ("batch", "heads", "time", "width")]
    query, key, value, upstream = (torch.randn(sizes, device=DEVICE, dtype=torch.bfloat16) for _ in range(4))

    def forward():
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
            return F.scaled_dot_product_attention(query, key, value, is_causal=True)

    if work["passes"] == "forward":
        return torch.no_grad()(forward)
    inputs = query, key, value = [part.requires_grad_() for part in (query, key, value)]
    if work["passes"] == "both":
        return lambda: torch.autograd.grad(forward(), inputs, upstream)
    output = forward()
    return lambda: torch.autograd.grad(output, inputs, upstream, retain_graph=True)


def generation_step(work):
    """A prompt read and continued by transformers, with random weights of GPT-2's sizes in bf16."""
    import transformers

    shape = work["shape"]
    config = transformers.GPT2Config(
        vocab_size=shape["vocabulary"], n_positions=shape["time"], n_embd=shape["width"], n_layer=shape["layers"], n_head=shape["heads"]
    )
    model = transformers.GPT2LMHeadModel(config).eval().to(DEVICE, torch.bfloat16)
    prompt = torch.randint(shape["vocabulary"], (1, shape["prompt"]), device=DEVICE)
    length = {"max_new_tokens": shape["tokens"], "min_new_tokens": shape["tokens"]}

    def step():
        with torch.inference_mode():
            said = model.generate(
                prompt, attention_mask=torch.ones_like(prompt), do_sample=False, pad_token_id=0, cache_implementation="static", **length
            )
        assert said.shape[1] == shape["prompt"] + shape["tokens"]

    return step


STEPS = {"gpt": training_step, "bilstm": training_step, "attention": attention_step, "generate": generation_step}


def timed(step, count):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / count


def result(name, step, seconds):
    """One turn: the median over groups of steps."""
    group = max(1, min(1000, int(GROUP / timed(step, 1))))
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        times.append(timed(step, group) * 1e3)
    low, _, high = statistics.quantiles(times, n=4, method="inclusive")
    memory = torch.cuda.max_memory_allocated() / 1e6
    return {
        "work": name,
        "engine": "pytorch",
        "ms": statistics.median(times),
        "spread": high - low,
        "repeats": len(times) * group,
        "peak_mb": round(memory, 1),
    }


def say(message):
    print(json.dumps(message), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", choices=WORKLOADS)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    torch.manual_seed(1)
    work = WORKLOADS[options.work]
    try:
        step = STEPS[work["kind"]](work)
        for _ in range(5):
            timed(step, 2)
    # Compilers and libraries fail in many ways; the comparison goes on with the other rows.
    except Exception as error:
        say({"work": options.work, "engine": "pytorch", "error": (str(error).strip().splitlines() or [type(error).__name__])[0][:200]})
        return
    say({"ready": True, "torch": torch.__version__, "device": torch.cuda.get_device_name()})
    for _ in sys.stdin:
        say(result(options.work, step, options.seconds))


if __name__ == "__main__":
    main()
