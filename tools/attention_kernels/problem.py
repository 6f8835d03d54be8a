"""One attention as the kernels take it: the C structures of problem.cuh, variants, and how each kernel is launched."""

import ctypes
import os
from ctypes import c_float, c_int, c_int64, c_uint32, c_uint64
from dataclasses import dataclass
from pathlib import Path

KERNELS = Path(__file__).resolve().parents[2] / "crates/regard-tensor/src/cuda/attention"
HEADERS = sorted(KERNELS.glob("*.cuh"))
BLOCK = 64
# Queries are padded to a multiple of this in the rows that the backward pass saves.
PADDING = 128

Pointer = c_uint64


class Heads(ctypes.Structure):
    _fields_ = [("data", Pointer), ("batch", c_int64), ("head", c_int64), ("row", c_int64)]

    @classmethod
    def of(cls, tensor):
        """A tensor (batch, time, heads, width), with any strides but the last."""
        if tensor is None:
            return cls()
        assert tensor.stride(3) == 1
        batch, row, head, _ = tensor.stride()
        return cls(tensor.data_ptr(), batch, head, row)


class Pattern(ctypes.Structure):
    _fields_ = [
        ("row_starts", Pointer), ("row_blocks", Pointer), ("column_starts", Pointer), ("column_blocks", Pointer),
        ("bits", Pointer), ("batch", c_int), ("heads", c_int),
    ]  # fmt: skip


class Dropout(ctypes.Structure):
    _fields_ = [("key_at", Pointer), ("key", c_uint32 * 2), ("first_example", c_uint64), ("threshold", c_uint32), ("scale", c_float)]


class Problem(ctypes.Structure):
    _fields_ = [
        ("query", Heads), ("key", Heads), ("value", Heads), ("output", Heads), ("log_sum_exp", Pointer),
        ("upstream", Heads), ("query_gradient", Heads), ("key_gradient", Heads), ("value_gradient", Heads),
        ("saved_rows", Pointer), ("query_sums", Pointer), ("turns", Pointer), ("key_mask", Pointer), ("bias", Pointer), ("bias_gradient", Pointer),
        ("bias_batch_stride", c_int64), ("bias_head_stride", c_int64), ("sink", Pointer), ("sink_gradient", Pointer),
        ("pattern", Pattern), ("dropout", Dropout), ("batch", c_int), ("heads", c_int), ("kv_heads", c_int),
        ("queries", c_int), ("keys", c_int), ("scale", c_float), ("soft_cap", c_float),
    ]  # fmt: skip


class WeightsBlock(ctypes.Structure):
    _fields_ = [
        ("out", Pointer), ("first_plane", c_int), ("query_start", c_int), ("queries", c_int), ("key_start", c_int),
        ("keys", c_int),
    ]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Sizes and rules. `bias` is "", "distance", or "dense" followed by which axes it has of its own ("b", "h", "bh")."""

    batch: int = 2
    heads: int = 2
    kv_heads: int = 2
    queries: int = 128
    keys: int = 128
    width: int = 64
    value_width: int = 64
    causal: bool = False
    key_mask: bool = False
    pattern: str = ""
    bias: str = ""
    soft_cap: float = 0.0
    sink: bool = False
    dropout: float = 0.0
    recorded: bool = False
    layout: str = "separate"
    scale: float = 0.0
    bf16: bool = False
    engine: str = "ffma"

    def options(self, architecture):
        """What the compiler needs to make this variant."""
        defines = {
            "ELEMENT_BF16": self.bf16,
            "WIDTH": self.width,
            "VALUE_WIDTH": self.value_width,
            "CAUSAL": self.causal,
            "KEY_MASK": self.key_mask,
            "PATTERN": bool(self.pattern),
            "BIAS": 2 if self.bias == "distance" else int(bool(self.bias)),
            "SOFT_CAP": bool(self.soft_cap),
            "SINK": self.sink,
            "DROPOUT": bool(self.dropout) * (1 + self.recorded),
        }
        return [f"-arch={architecture}", "-std=c++17", *(f"-D{name}={int(value)}" for name, value in defines.items())]

    def is_supported(self, architecture):
        """Whether its engine has kernels for it. Those for Hopper leave out what has more registers than they can hold."""
        simple = not self.pattern and not self.soft_cap and max(self.width, self.value_width) <= 128
        return self.engine != "wgmma" or (architecture == "sm_90a" and self.bf16 and simple)

    @property
    def together(self):
        """Whether one pass computes all gradients, as in the library."""
        return self.engine == "wgmma" and os.environ.get("REGARD_ATTENTION") == "one-pass"

    def differences(self):
        """What sets this case apart, in words, for tables."""
        sizes = f"{self.batch}x{self.heads}/{self.kv_heads}x{self.queries}x{self.keys}x{self.width}"
        if self.value_width != self.width:
            sizes += f":{self.value_width}"
        rules = ["causal"] * self.causal + ["key-mask"] * self.key_mask + ["sink"] * self.sink
        rules += [f"pattern-{self.pattern}"] * bool(self.pattern) + [f"bias-{self.bias}"] * bool(self.bias)
        rules += ["soft-cap"] * bool(self.soft_cap) + ["dropout"] * bool(self.dropout) + ["recorded"] * self.recorded
        rules += [self.layout] * (self.layout != "separate") + [f"scale{self.scale:g}"] * bool(self.scale)
        return f"{self.engine} {'bf16' if self.bf16 else 'f32'} {sizes} {' '.join(rules)}"


class Runner:
    """Launches the kernels of a case on a backend (driver.py)."""

    def __init__(self, backend, case, edits=()):
        self.backend, self.case, self.edits, self.made = backend, case, edits, {}

    def module(self, file):
        return self.backend.module(KERNELS / file, self.case, HEADERS, self.edits)

    def tiled(self, file, kernel, rows, heads, problem, *rest):
        """A kernel with a thread block for each tile of rows of each head of each example."""
        self.launch(file, kernel, rows, heads, problem, *rest, grid=lambda *grid: grid)

    def launch(self, file, kernel, rows, heads, problem, *rest, grid):
        module = self.module(file)
        threads, shared, tile = module.integers(f"{kernel}_launch", 3)
        module.launch(kernel, grid(-(-rows // tile), heads, self.case.batch), threads, shared, problem, *rest)

    def passes(self, file, kernel, rows, heads, problem):
        """One of the passes. The thread blocks of those for Hopper stay on their multiprocessor, and take tensor maps."""
        if self.case.engine != "wgmma":
            return self.tiled(file, kernel, rows, heads, problem)
        stay = lambda tiles, heads, batch: (min(tiles * heads * batch, self.backend.multiprocessors), 1, 1)
        self.launch(file, kernel, rows, heads, problem, self.maps(problem), grid=stay)

    def maps(self, problem):
        """The structure `Maps` of wgmma.cuh."""
        case, sizes = self.case, {}
        sizes["query"] = (problem.query, case.width, case.queries, case.heads)
        sizes["key"] = (problem.key, case.width, case.keys, case.kv_heads)
        sizes["value"] = (problem.value, case.value_width, case.keys, case.kv_heads)
        sizes["upstream"] = (problem.upstream, case.value_width, case.queries, case.heads)
        key = tuple((name, heads.data) for name, (heads, *_) in sizes.items())
        if key not in self.made:
            self.made[key] = self.backend.tensor_maps([
                (heads.data, (width, rows, count, case.batch), (2 * heads.row, 2 * heads.head, 2 * heads.batch))
                for heads, width, rows, count in sizes.values()
            ])  # fmt: skip
        return self.made[key]

    def forward(self, problem):
        case = self.case
        self.passes(f"{case.engine}_forward.cu", "attention_forward", case.queries, case.heads, problem)

    def gradients(self):
        """The passes that compute the gradients of queries, keys and values: file, kernel, rows and heads of each."""
        case = self.case
        queries, keys = (case.queries, case.heads), (case.keys, case.kv_heads)
        if case.together:
            return [("wgmma_gradients.cu", "attention_gradients", *keys)]
        parts = {"query": queries, "key_value": keys}
        return [(f"{case.engine}_{part}_gradient.cu", f"attention_{part}_gradient", *sizes) for part, sizes in parts.items()]

    def backward(self, problem):
        """Gradients of queries, keys, values and sink."""
        case = self.case
        self.tiled("delta.cu", "attention_delta", -(-case.queries // PADDING) * PADDING, case.heads, problem)
        for each in self.gradients():
            self.passes(*each, problem)
        if case.together:
            self.tiled("wgmma_gradients.cu", "attention_finish_query_gradient", case.queries, case.heads, problem)
        if case.sink:
            self.module("delta.cu").launch("attention_sink_gradient", (case.heads, 1, 1), 256, 256 * 8, problem)

    def bias_gradient(self, problem, planes, total):
        """After `backward`. By distance, `bias_gradient` holds the parts and `total` gets the sums."""
        case, module = self.case, self.module("ffma_bias_gradient.cu")
        threads, shared, tile = module.integers("attention_bias_gradient_launch", 3)
        query_tiles, key_tiles = -(-case.queries // tile), -(-case.keys // tile)
        if case.bias == "distance":
            grid = (query_tiles + key_tiles - 1, case.heads, 1)
            module.launch("attention_bias_gradient", grid, threads, shared, problem)
            grid = (-(-(case.queries + case.keys - 1) // 256), case.heads, 1)
            module.launch("attention_distance_gradient", grid, 256, 0, problem, Pointer(total.data_ptr()))
        else:
            module.launch("attention_bias_gradient", (key_tiles, query_tiles, planes), threads, shared, problem)

    def weights(self, problem, block, planes):
        module = self.module("weights.cu")
        threads, shared, tile = module.integers("attention_weights_launch", 3)
        grid = (-(-block.keys // tile), -(-block.queries // tile), planes)
        module.launch("attention_weights", grid, threads, shared, problem, block)
