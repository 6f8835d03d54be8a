"""Attention in float64 as the formula says, with gradients by PyTorch's autograd: what the kernels are compared with."""

import numpy
import torch


def philox(key, example, block):
    """Philox4x32-10: four words (…, 4) for arrays of examples and blocks."""
    example, block = numpy.broadcast_arrays(example.astype(numpy.uint64), block.astype(numpy.uint64))
    low, half = numpy.uint64(0xFFFFFFFF), numpy.uint64(32)
    c = [block & low, block >> half, example & low, example >> half]
    k = list(key)
    for _ in range(10):
        a, b = c[0] * numpy.uint64(0xD2511F53), c[2] * numpy.uint64(0xCD9E8D57)
        k0, k1 = numpy.uint64(k[0]), numpy.uint64(k[1])
        c = [(b >> half) ^ c[1] ^ k0, b & low, (a >> half) ^ c[3] ^ k1, a & low]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return numpy.stack(c, -1)


def dropout_factors(case, dropout):
    """(batch, heads, queries, keys): 0 or the scale, drawn as the kernels draw."""
    groups = -(-case.keys // 4)
    example = numpy.arange(case.batch)[:, None] + dropout.first_example
    block = numpy.arange(case.heads * case.queries * groups)[None]
    words = philox(dropout.key, example, block).reshape(case.batch, case.heads, case.queries, groups * 4)
    return torch.from_numpy((words[..., : case.keys] >= dropout.threshold) * float(dropout.scale))


def allowed(case, inputs):
    """(batch, heads, queries, keys): who may attend to whom."""
    device = inputs["query"].device
    mask = torch.ones(case.batch, case.heads, case.queries, case.keys, dtype=torch.bool, device=device)
    if case.causal:
        mask = mask.tril(case.keys - case.queries)
    if case.key_mask:
        mask = mask & inputs["key_mask"].bool()[:, None, None]
    if case.pattern:
        mask = mask & inputs["pattern_mask"]
    return mask


def attention(case, inputs, upstream, scale, dropout=None):
    """Output, log-sum-exp, weights (before dropout) and gradients by name."""
    names = ["query", "key", "value"] + ["bias"] * bool(case.bias) + ["sink"] * case.sink
    given = {name: inputs[name].detach().double().requires_grad_() for name in names}
    group = case.heads // case.kv_heads
    query = given["query"].transpose(1, 2)
    key, value = (given[name].transpose(1, 2).repeat_interleave(group, 1) for name in ("key", "value"))
    scores = scale * query @ key.transpose(2, 3)
    if case.soft_cap:
        scores = case.soft_cap * torch.tanh(scores / case.soft_cap)
    if case.bias == "distance":
        positions = [torch.arange(n, device=scores.device) for n in (case.queries, case.keys)]
        scores = scores + given["bias"][:, positions[0][:, None] - positions[1][None] + case.keys - 1]
    elif case.bias:
        scores = scores + given["bias"]
    scores = scores.masked_fill(~allowed(case, inputs), -torch.inf)
    most = scores.detach().amax(3, keepdim=True)
    if case.sink:
        sink = given["sink"][:, None, None]
        most = torch.maximum(most, sink.detach())
    most = most.clamp(min=-1e30)
    weights = torch.exp(scores - most)
    total = weights.sum(3, keepdim=True)
    if case.sink:
        total = total + torch.exp(sink - most)
    lse = torch.where(total > 0, most + torch.log(total), -torch.inf)
    weights = weights / torch.where(total > 0, total, 1.0)
    kept = weights
    if dropout is not None:
        kept = weights * dropout_factors(case, dropout).to(weights.device)
    output = (kept @ value).transpose(1, 2)
    gradients = torch.autograd.grad(output, list(given.values()), upstream.double())
    return output.detach(), lse[..., 0].detach(), weights.detach(), dict(zip(given, gradients))


def sink_gradient(output, lse, upstream, sink):
    """−Σ P_sink·delta from a given output (batch, queries, heads, width) and log-sum-exp, and nothing else."""
    output, lse, upstream, sink = (tensor.double() for tensor in (output, lse, upstream, sink))
    delta = (output * upstream).sum(3).transpose(1, 2)
    share = torch.where(lse > -torch.inf, torch.exp(sink[:, None] - lse), 0.0)
    return -(share * delta).sum((0, 2))
