"""Attention on arrays of any framework."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import _regard
from ._arrays import Reals, bools, reals
from ._regard import Error

__all__ = ["Attended", "Gradient", "MultiHeadAttention", "gradient", "scaled_dot_product"]


class Attended(NamedTuple):
    """The result of attention."""

    output: Reals
    """The weighted values."""
    weights: Reals
    """The weights: each row sums to 1."""


def scaled_dot_product(query: Any, key: Any, value: Any, mask: Any = None, *, scale: float | None = None) -> Attended:
    """softmax(Q·Kᵀ/√d)·V, step by step as the paper writes it (Vaswani et al., 2017, equation 1).

    Queries are (…, queries, d), keys (…, keys, d), values (…, keys, dv). `mask` is True where a query may attend to a key.
    `scale` replaces 1/√d. Arrays may be NumPy's, PyTorch's, JAX's: anything in main memory with `__dlpack__` or a
    buffer.

    >>> from regard.attention import scaled_dot_product
    >>> output, weights = scaled_dot_product([[0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], [[10.0], [20.0]])
    >>> weights, output      # a query of zeros attends to all keys equally
    (array([[0.5, 0.5]], dtype=float32), array([[15.]], dtype=float32))
    """
    given = None if mask is None else bools(mask)
    return Attended(
        *_regard.scaled_dot_product(reals(query, "query"), reals(key, "key"), reals(value, "value"), given, scale)
    )


class Gradient(NamedTuple):
    """The gradient of attention's output with respect to its inputs."""

    query: Reals
    key: Reals
    value: Reals


def gradient(
    query: Any, key: Any, value: Any, upstream: Any = None, mask: Any = None, *, scale: float | None = None
) -> Gradient:
    """The gradient of Σ upstream·output (of the sum of the output, if not given) with respect to queries, keys and values.

    >>> import numpy as np
    >>> from regard.attention import gradient
    >>> q, k, v = np.random.default_rng(0).normal(size=(3, 4, 8))
    >>> gradient(q, k, v).value.sum(axis=0).round(5)      # every query gives weights that sum to 1
    array([4., 4., 4., 4., 4., 4., 4., 4.], dtype=float32)
    """
    inputs = reals(query, "query"), reals(key, "key"), reals(value, "value")
    given = None if upstream is None else reals(upstream, "upstream")
    masked = None if mask is None else bools(mask)
    return Gradient(*_regard.scaled_dot_product_gradient(*inputs, given, masked, scale))


class MultiHeadAttention:
    """Attention with several heads and random weights, called on arrays.

    >>> import numpy as np, regard
    >>> attend = regard.MultiHeadAttention(d_model=8, n_heads=2)
    >>> output, weights = attend(np.ones((3, 8)), mask=regard.masks.causal(3))
    >>> output.shape, weights.shape
    ((3, 8), (2, 3, 3))
    """

    def __init__(
        self, d_model: int, n_heads: int, *, n_kv_heads: int | None = None, bias: bool = True, seed: int = 0
    ) -> None:
        self.d_model = d_model
        self.n_heads = n_heads
        self._inner = _regard.MultiHead(d_model, n_heads, n_kv_heads or n_heads, bias, seed)

    def __call__(self, x: Any, memory: Any = None, mask: Any = None) -> Attended:
        """Output and weights for x, (time, width) or (batch, time, width), attending to itself or to `memory`.

        The weights are (heads, queries, keys), after a batch axis if there is one. `mask` is (queries, keys), or (batch, heads,
        queries, keys) with 1 for axes that are shared.
        """
        vectors, attended, single = self._batched(x, memory)
        output, weights = self._inner.forward(vectors, attended, None if mask is None else bools(mask))
        return Attended(output[0], weights[0]) if single else Attended(output, weights)

    def gradient(self, x: Any, upstream: Any = None, memory: Any = None, mask: Any = None) -> dict[str, Reals]:
        """The gradient of Σ upstream·output (of the sum of the output, if not given) with respect to `x`, `memory` and parameters.

        >>> import numpy as np, regard
        >>> attend = regard.MultiHeadAttention(d_model=8, n_heads=2)
        >>> found = attend.gradient(np.ones((3, 8)))
        >>> found["x"].shape, found["query.weight"].shape
        ((3, 8), (8, 8))
        """
        vectors, attended, single = self._batched(x, memory)
        given = None if upstream is None else reals(upstream, "upstream")
        if given is not None and single:
            given = given[np.newaxis]
        found = dict(self._inner.gradient(vectors, attended, None if mask is None else bools(mask), given))
        if single:
            found.update({name: found[name][0] for name in ("x", "memory") if name in found})
        return found

    @property
    def parameters(self) -> dict[str, Reals]:
        """Its weights by name."""
        return dict(self._inner.parameters())

    def _batched(self, x: Any, memory: Any) -> tuple[Reals, Reals | None, bool]:
        """Vectors with an axis for the batch, and whether they had none."""
        vectors = reals(x, "x")
        single = vectors.ndim == 2
        attended = None if memory is None else reals(memory, "memory")
        for what, given in (("x", vectors), ("memory", attended)):
            if given is not None and (given.ndim not in (2, 3) or given.shape[-1] != self.d_model):
                raise Error(f"{what} is (time, {self.d_model}) or (batch, time, {self.d_model}), got {given.shape}")
        if single:
            vectors = vectors[np.newaxis]
            attended = attended[np.newaxis] if attended is not None and attended.ndim == 2 else attended
        return vectors, attended, single
