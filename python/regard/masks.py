"""Masks and sparse patterns: which query may attend to which key.

Masks are arrays of booleans (queries, keys). They compose: `causal(n) & window(n, 2)`, `window(n, 2) | everywhere(n, [0])`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _regard
from ._arrays import Bools
from ._regard import Error

__all__ = ["big_bird", "causal", "everywhere", "longformer", "padding", "random_blocks", "strided", "window"]


def _mask(pattern: Any, queries: int, keys: int | None) -> Bools:
    return _regard.pattern_mask(json.dumps(pattern), queries, queries if keys is None else keys)


def causal(queries: int, keys: int | None = None) -> Bools:
    """Only the same position and earlier ones. With fewer queries than keys, the last query is at the last key's position.

    >>> from regard.masks import causal
    >>> causal(3).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 1]])
    """
    return _mask("causal", queries, keys)


def window(queries: int, before: int, after: int | None = None, *, keys: int | None = None) -> Bools:
    """Up to so many positions before and after (as many as before, if not given).

    >>> from regard.masks import window
    >>> window(3, 1).astype(int)
    array([[1, 1, 0],
           [1, 1, 1],
           [0, 1, 1]])
    """
    return _mask({"window": {"before": before, "after": before if after is None else after}}, queries, keys)


def everywhere(queries: int, positions: Sequence[int], *, keys: int | None = None) -> Bools:
    """These positions attend to all, and all attend to these: global tokens.

    >>> from regard.masks import everywhere
    >>> everywhere(3, [0]).astype(int)
    array([[1, 1, 1],
           [1, 0, 0],
           [1, 0, 0]])
    """
    return _mask({"global": [int(position) for position in positions]}, queries, keys)


def strided(queries: int, stride: int, *, keys: int | None = None) -> Bools:
    """Every position whose distance is a multiple of the stride (Child et al., 2019).

    >>> from regard.masks import strided
    >>> strided(4, 2)[0].astype(int)
    array([1, 0, 1, 0])
    """
    return _mask({"strided": stride}, queries, keys)


def random_blocks(queries: int, count: int, *, seed: int = 0, keys: int | None = None) -> Bools:
    """Each block of 64 positions attends to so many blocks drawn at random.

    >>> from regard.masks import random_blocks
    >>> int(random_blocks(256, 1, seed=3)[0].sum())
    64
    """
    return _mask({"random-blocks": {"count": count, "seed": seed}}, queries, keys)


def longformer(queries: int, reach: int, positions: Sequence[int] = (0,)) -> Bools:
    """A window and global tokens (Beltagy et al., 2020).

    >>> from regard.masks import longformer
    >>> longformer(5, 1, [0])[3].astype(int)
    array([1, 0, 1, 1, 1])
    """
    return window(queries, reach) | everywhere(queries, positions)


def big_bird(queries: int, reach: int, positions: Sequence[int] = (0,), random: int = 1, *, seed: int = 0) -> Bools:
    """A window, global tokens and random blocks (Zaheer et al., 2020).

    >>> from regard.masks import big_bird, longformer
    >>> bool((big_bird(200, 2) >= longformer(200, 2)).all())
    True
    """
    return longformer(queries, reach, positions) | random_blocks(queries, random, seed=seed)


def padding(lengths: Sequence[int], keys: int | None = None) -> Bools:
    """For a batch of texts, (batch, 1, 1, keys): no query attends beyond the end of its text.

    >>> from regard.masks import padding
    >>> padding([2, 3])[:, 0, 0].astype(int)
    array([[1, 1, 0],
           [1, 1, 1]])
    """
    longest = max(lengths, default=0) if keys is None else keys
    if any(not 0 < length <= longest for length in lengths):
        raise Error(f"lengths must be between 1 and {longest}")
    mask: Bools = np.arange(longest) < np.asarray(lengths)[:, np.newaxis, np.newaxis, np.newaxis]
    return mask
