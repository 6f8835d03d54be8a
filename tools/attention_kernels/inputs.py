"""Fresh random inputs for a case, and the structures that point to them."""

import torch
from problem import BLOCK, PADDING, Dropout, Heads, Pattern, Problem

POISON = float("nan")


def heads_first(case, device):
    """Query, key and value (batch, time, heads, width), as separate tensors, as parts of a fused one, or with room for more keys."""
    dtype = torch.bfloat16 if case.bf16 else torch.float32
    draw = lambda *shape: torch.randn(*shape, device=device).to(dtype)
    if case.layout == "fused":
        assert case.queries == case.keys and case.width == case.value_width
        packed = draw(case.batch, case.keys, case.heads + 2 * case.kv_heads, case.width)
        return packed.split([case.heads, case.kv_heads, case.kv_heads], 2), packed
    room = case.keys + (40 if case.layout == "room" else 0)
    query = draw(case.batch, case.queries, case.heads, case.width)
    key = draw(case.batch, room, case.kv_heads, case.width)[:, : case.keys]
    value = draw(case.batch, room, case.kv_heads, case.value_width)[:, : case.keys]
    return (query, key, value), None


def pattern_mask(case, device):
    """(batch or 1, heads or 1, queries, keys)."""
    q = torch.arange(case.queries, device=device)[:, None]
    k = torch.arange(case.keys, device=device)[None]
    if case.pattern == "window":
        return ((q - k).abs() <= 40)[None, None]
    if case.pattern == "own":
        # Random blocks of random pairs, another pattern for each example and head; some rows may attend to nothing.
        shape = (case.batch, case.heads, -(-case.queries // BLOCK), -(-case.keys // BLOCK))
        kind = torch.randint(0, 3, shape, device=device).repeat_interleave(BLOCK, 2).repeat_interleave(BLOCK, 3)
        kind = kind[:, :, : case.queries, : case.keys]
        return (kind == 2) | ((kind == 1) & (torch.rand(kind.shape, device=device) < 0.3))
    raise ValueError(case.pattern)


def block_lists(case, mask):
    """The tensors of a Pattern: starts and blocks by rows and by columns, and bits."""
    device, rows, columns = mask.device, -(-case.queries // BLOCK), -(-case.keys // BLOCK)
    planes = mask.reshape(-1, case.queries, case.keys).cpu()
    words, by_rows, by_columns, row_starts, column_starts = [], [], [], [], []
    for plane in planes:
        lists = {}
        for r in range(rows):
            for c in range(columns):
                block = plane[r * BLOCK : (r + 1) * BLOCK, c * BLOCK : (c + 1) * BLOCK]
                if block.all():
                    lists[r, c] = -1
                elif block.any():
                    lists[r, c] = len(words)
                    bits = [sum(1 << int(i) for i in column.nonzero()) for column in block.T]
                    words.append(bits + [0] * (BLOCK - len(bits)))
        for starts, blocks, count, axis in ((row_starts, by_rows, rows, 0), (column_starts, by_columns, columns, 1)):
            for i in range(count):
                starts.append(len(blocks))
                blocks += sorted((at[1 - axis], bits) for at, bits in lists.items() if at[axis] == i)
            starts.append(len(blocks))
    signed = [[word - (1 << 64) if word >> 63 else word for word in bits] for bits in words]
    int32 = lambda values: torch.tensor(values or [0], dtype=torch.int32, device=device)
    bits = torch.tensor(signed or [0], dtype=torch.int64, device=device)
    return [int32(row_starts), int32(by_rows), int32(column_starts), int32(by_columns), bits]


class Inputs:
    """Everything a case reads and writes, outputs poisoned."""

    def __init__(self, case, device):
        self.case, self.given = case, {}
        (query, key, value), self.packed = heads_first(case, device)
        self.given.update(query=query, key=key, value=value)
        floats = lambda *shape: torch.randn(*shape, device=device)
        span = case.queries + case.keys - 1
        problem = self.problem = Problem()
        problem.scale = case.scale or case.width**-0.5
        problem.soft_cap = case.soft_cap
        for name in ("batch", "heads", "kv_heads", "queries", "keys"):
            setattr(problem, name, getattr(case, name))
        for name in ("query", "key", "value"):
            setattr(problem, name, Heads.of(self.given[name]))
        self.upstream = floats(case.batch, case.queries, case.heads, case.value_width).to(query.dtype)
        problem.upstream = Heads.of(self.upstream)
        if case.key_mask:
            mask = torch.rand(case.batch, case.keys, device=device) < 0.7
            mask[0, :] = False
            mask[0, : case.keys // 3] = True
            self.put("key_mask", mask.to(torch.uint8))
        if case.pattern:
            self.given["pattern_mask"] = mask = pattern_mask(case, device)
            self.lists = block_lists(case, mask)
            problem.pattern = Pattern(*(each.data_ptr() for each in self.lists), mask.shape[0], mask.shape[1])
        self.planes, self.parts = 1, 0
        if case.bias == "distance":
            self.put("bias", floats(case.heads, span))
            diagonals = -(-case.queries // BLOCK) + -(-case.keys // BLOCK) - 1
            self.parts = case.heads * diagonals * 128
        elif case.bias:
            batch = case.batch if "b" in case.bias[5:] else 1
            heads = case.heads if "h" in case.bias[5:] else 1
            self.planes = batch * heads
            self.put("bias", floats(batch, heads, case.queries, case.keys))
            plane = case.queries * case.keys
            problem.bias_batch_stride = heads * plane if batch > 1 else 0
            problem.bias_head_stride = plane if heads > 1 else 0
        if case.sink:
            self.put("sink", floats(case.heads))
        self.dropout = None
        if case.dropout:
            threshold = int(case.dropout * 2**32)
            self.dropout = problem.dropout = Dropout(0, (0x1234567, 0x89ABCDEF), 2**33 + 5, threshold, 1 / (1 - case.dropout))

    def put(self, name, tensor):
        self.given[name] = tensor
        setattr(self.problem, name, tensor.data_ptr())

    def outputs(self):
        """Poisoned tensors by name, set as the targets of the problem."""
        case, problem, device = self.case, self.problem, self.upstream.device
        dtype = self.upstream.dtype
        poisoned = lambda *shape, dtype=torch.float32: torch.full(shape, POISON, dtype=dtype, device=device)
        out = {"output": torch.full_like(self.upstream, POISON)}
        if self.packed is not None:
            whole = torch.full_like(self.packed, POISON)
            parts = whole.split([case.heads, case.kv_heads, case.kv_heads], 2)
        else:
            parts = [poisoned(*self.given[name].shape, dtype=dtype) for name in ("query", "key", "value")]
        for name, part in zip(("query", "key", "value"), parts):
            out[f"d{name}"] = part
            setattr(problem, f"{name}_gradient", Heads.of(part))
        problem.output = Heads.of(out["output"])
        out["lse"] = poisoned(case.batch, case.heads, case.queries)
        problem.log_sum_exp = out["lse"].data_ptr()
        padded = -(-case.queries // PADDING) * PADDING
        self.saved_rows = poisoned(case.batch, case.heads, padded, 2)
        problem.saved_rows = self.saved_rows.data_ptr()
        self.query_sums = poisoned(case.batch, case.heads, padded, -(-case.width // 64) * 64)
        self.turns = poisoned(case.batch, case.heads, padded // 32)
        problem.query_sums, problem.turns = self.query_sums.data_ptr(), self.turns.data_ptr()
        if case.bias:
            out["dbias"] = torch.full_like(self.given["bias"], POISON)
            self.bias_parts = poisoned(self.parts) if self.parts else out["dbias"]
            problem.bias_gradient = self.bias_parts.data_ptr()
        if case.sink:
            out["dsink"] = torch.full_like(self.given["sink"], POISON)
            problem.sink_gradient = out["dsink"].data_ptr()
        return out
