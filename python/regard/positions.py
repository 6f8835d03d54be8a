"""Position encodings: sinusoidal, rotary, ALiBi and T5's relative buckets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _regard
from ._arrays import Reals, reals, whole
from ._regard import Error

__all__ = ["alibi", "alibi_slopes", "relative_bucket", "rotary", "sinusoidal"]


# The largest number of positions.
_MOST = 2**24


def sinusoidal(positions: int | Sequence[int], width: int) -> Reals:
    """Sines at even features, cosines at odd ones: (positions, width) (Vaswani et al., 2017).

    `positions` is their number, or a list of them.

    >>> from regard.positions import sinusoidal
    >>> sinusoidal(2, 4).round(3)
    array([[0.   , 1.   , 0.   , 1.   ],
           [0.841, 0.54 , 0.01 , 1.   ]], dtype=float32)
    """
    return _regard.sinusoidal(_indices(positions), width)


def rotary(
    x: Any, positions: Sequence[int] | None = None, *, base: float = 10_000.0, interleaved: bool = False
) -> Reals:
    """Queries or keys (time, heads, width), or a batch of them, rotated by their positions (Su et al., 2021).

    Features half a head apart are rotated together (GPT-NeoX, Llama), or neighbours if `interleaved` (GPT-J).

    >>> import numpy as np
    >>> from regard.positions import rotary
    >>> x = np.random.default_rng(0).normal(size=(5, 1, 8))
    >>> q, k = rotary(x), rotary(x, positions=range(3, 8))
    >>> near = (q[2] * q[1]).sum(), (k[2] * k[1]).sum()      # the same distance: the same product
    >>> bool(abs(near[0] - near[1]) < 1e-4)
    True
    """
    given = reals(x, "x")
    single = given.ndim == 3
    batch = given[np.newaxis] if single else given
    if batch.ndim != 4:
        raise Error(f"rotary positions: vectors must be (time, heads, width), got {given.ndim} axes")
    indices = list(range(batch.shape[1])) if positions is None else _indices(positions)
    rotated = _regard.rotary(batch, indices, base, interleaved)
    return rotated[0] if single else rotated


def alibi_slopes(n_heads: int) -> Reals:
    """ALiBi's slope of each head (Press et al., 2021).

    >>> from regard.positions import alibi_slopes
    >>> alibi_slopes(2)
    array([0.0625    , 0.00390625], dtype=float32)
    """
    return np.asarray(_regard.alibi_slopes(n_heads), dtype=np.float32)


def alibi(n_heads: int, queries: int, keys: int | None = None) -> Reals:
    """The bias that ALiBi adds to the scores: −slope·distance, (heads, queries, keys). The last query is at the last key's position.

    >>> from regard.positions import alibi
    >>> alibi(2, 3)[0]
    array([[-0.    , -0.0625, -0.125 ],
           [-0.0625, -0.    , -0.0625],
           [-0.125 , -0.0625, -0.    ]], dtype=float32)
    """
    keys = queries if keys is None else keys
    distance = np.abs(np.arange(keys)[np.newaxis] - (np.arange(queries)[:, np.newaxis] + keys - queries))
    biases: Reals = -alibi_slopes(n_heads)[:, np.newaxis, np.newaxis] * distance.astype(np.float32)
    return biases


def relative_bucket(
    distance: int, buckets: int = 32, max_distance: int = 128, *, bidirectional: bool = True
) -> int:
    """T5's bucket of a distance, key minus query (Raffel et al., 2019).

    >>> from regard.positions import relative_bucket
    >>> [relative_bucket(distance) for distance in (-200, -3, 0, 3, 200)]
    [15, 3, 0, 19, 31]
    """
    return _regard.relative_bucket(distance, buckets, max_distance, bidirectional)


def _indices(positions: int | Sequence[int]) -> list[int]:
    if isinstance(positions, (int, np.integer)):
        return list(range(whole(positions, "the number of positions", most=_MOST)))
    return [whole(position, "a position", most=2**32 - 1) for position in positions]
