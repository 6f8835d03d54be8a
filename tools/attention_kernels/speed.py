"""Times the kernels beside PyTorch's fused attention (cuDNN and FlashAttention 2) on causal shapes, interleaved, medians."""

import statistics

import torch
from check import distance
from inputs import Inputs
from problem import Case, Runner
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

SHAPES = [(32, 12, 1024, 64), (4, 16, 4096, 128), (1, 16, 16384, 128)]
F32_SHAPE = (4, 12, 1024, 64)
ROUNDS, SECONDS = 5, 0.06


def case_of(shape, bf16, engine):
    batch, heads, time, width = shape
    sizes = dict(batch=batch, heads=heads, kv_heads=heads, queries=time, keys=time, width=width, value_width=width)
    return Case(**sizes, causal=True, layout="fused", bf16=bf16, engine=engine)


def tflop(case):
    """Of a forward pass; causal pairs count, the others do not."""
    return 4 * case.batch * case.heads * case.queries * case.keys / 2 * case.width / 1e12


def library(case, inputs, backend):
    """Forward and backward of PyTorch on the same inputs, and its output and gradients."""
    tensors = [inputs.given[name].detach().transpose(1, 2).requires_grad_() for name in ("query", "key", "value")]
    upstream = inputs.upstream.transpose(1, 2)

    def forward():
        with sdpa_kernel([backend]):
            return scaled_dot_product_attention(*tensors, is_causal=True, scale=inputs.problem.scale)

    output = forward()
    backward = lambda: torch.autograd.grad(output, tensors, upstream, retain_graph=True)
    results = [output.detach(), *backward()]
    return forward, backward, [tensor.transpose(1, 2) for tensor in results]


def seconds(work, repeats):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(repeats):
        work()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1000 / repeats


def medians(works):
    """The median time of each of some functions, taken in turns."""
    repeats = {}
    for name, work in works.items():
        seconds(work, 2)
        repeats[name] = max(1, min(200, int(SECONDS / seconds(work, 3))))
    times = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            times[name].append(seconds(work, repeats[name]))
    return {name: statistics.median(values) for name, values in times.items()}


def compare(backend, shape, bf16, variants):
    """Lines of a table for one shape: TFLOP/s forward and backward, and how far results are from the first library's."""
    case = case_of(shape, bf16, "ffma")
    inputs = Inputs(case, backend.device)
    outputs = inputs.outputs()
    works, notes, reference = {}, {}, None
    peers = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "FlashAttention": SDPBackend.FLASH_ATTENTION}
    for name, kind in (peers if bf16 else {"efficient": SDPBackend.EFFICIENT_ATTENTION}).items():
        try:
            forward, backward, results = library(case, inputs, kind)
        except RuntimeError as error:
            print(f"{name}: {str(error).splitlines()[0]}")
            continue
        works[name, "forward"], works[name, "backward"] = forward, backward
        reference = reference or results
    for name, (engine, edits) in variants.items():
        case = case_of(shape, bf16, engine)
        if not case.is_supported(backend.architecture):
            continue
        runner = Runner(backend, case, edits)
        for tensor in outputs.values():
            tensor.fill_(float("nan"))
        try:
            runner.forward(inputs.problem)
            runner.backward(inputs.problem)
            backend.synchronize()
        except (RuntimeError, AssertionError) as error:
            print(f"{name}: {error}")
            continue
        own = [outputs[key] for key in ("output", "dquery", "dkey", "dvalue")]
        notes[name] = " ".join(f"{distance(a, b):.1e}" for a, b in zip(own, reference or own))
        works[name, "forward"] = lambda runner=runner: runner.forward(inputs.problem)
        works[name, "backward"] = lambda runner=runner: runner.backward(inputs.problem)
        # A pass alone is only timed where it needs no other before it each time.
        for each in runner.gradients() * (not case.together):
            works[name, each[1]] = lambda runner=runner, each=each: runner.passes(*each, inputs.problem)
    times, work = medians(works), tflop(case)
    lines = []
    for name in dict.fromkeys(name for name, _ in works):
        of = {part: time for (which, part), time in times.items() if which == name}
        line = f"{'x'.join(map(str, shape)):<17}{name:<24}{work / of['forward']:>7.0f} /{2.5 * work / of['backward']:>5.0f} TFLOP/s"
        line += f"{of['forward'] * 1e3:>9.3f} /{of['backward'] * 1e3:>7.3f} ms"
        parts = [f"{part.removeprefix('attention_')} {time * 1e3:.3f}" for part, time in of.items() if part.startswith("attention_")]
        line += f" ({', '.join(parts)})" * bool(parts)
        lines.append(line + (f"   differs by {notes[name]}" if name in notes else ""))
    return lines


def main(backend, edits):
    """`edits` are variants to time beside the kernels as they are: (name, ((file, old, new), …))."""
    torch.backends.cuda.matmul.allow_tf32 = False
    # An edit is of the engine whose file it changes.
    edited = {name: (changes[0][0].split("_")[0].split(".")[0], changes) for name, changes in edits}
    variants = {"wgmma": ("wgmma", ()), "mma": ("mma", ()), **edited}
    lines = []
    for shape in SHAPES:
        lines += compare(backend, shape, True, variants)
        torch.cuda.empty_cache()
    lines += compare(backend, F32_SHAPE, False, {"ffma": ("ffma", ())})
    print("\n".join(lines))
