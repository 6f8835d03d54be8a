"""Conversion of arrays from any framework to NumPy."""

from __future__ import annotations

from array import array
from math import inf, isfinite
from operator import index
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ._regard import Error

Reals: TypeAlias = NDArray[np.float32]
"""An array of 32-bit floating-point numbers."""

Bools: TypeAlias = NDArray[np.bool_]
"""An array of booleans."""

# Main memory, and main memory that a GPU can reach: device types of DLPack.
_ON_HOST = (1, 3, 11, 13)


def on_host(x: Any) -> NDArray[Any]:
    """Any array in main memory as a NumPy array, without a copy where its framework allows it."""
    if isinstance(x, np.ndarray):
        return x
    if callable(getattr(x, "detach", None)):
        x = x.detach()
    if hasattr(x, "__dlpack_device__"):
        kind, _ = x.__dlpack_device__()
        if int(kind) not in _ON_HOST:
            raise Error("the array is on another device: move it to the host first, as x.cpu() does in PyTorch")
        try:
            return np.from_dlpack(x)
        except (BufferError, RuntimeError, TypeError):
            # A type that NumPy does not have, such as bfloat16: PyTorch converts it.
            if callable(getattr(x, "float", None)):
                x = x.float()
    try:
        return np.asarray(x)
    except (TypeError, ValueError, RuntimeError) as error:
        raise Error(f"an array was expected, got {type(x).__name__}: {error}") from None


def reals(x: Any, what: str = "array") -> Reals:
    """Numbers as 32-bit floating point."""
    given = on_host(x)
    if given.dtype.kind not in "fiub":
        raise Error(f"{what}: numbers were expected, got {given.dtype}")
    return np.asarray(given, dtype=np.float32, order="C")


def bools(x: Any, what: str = "mask") -> Bools:
    """A mask: booleans, or whole numbers, where 0 is False."""
    given = on_host(x)
    if given.dtype.kind not in "biu":
        raise Error(f"{what}: booleans were expected (True where a query may attend), got {given.dtype}")
    return np.asarray(given, dtype=np.bool_, order="C")


def is_ids(x: Any) -> bool:
    """Whether something is token ids: a list of whole numbers or an array of them."""
    if isinstance(x, (list, tuple)):
        return len(x) > 0 and all(isinstance(item, (int, np.integer)) and not isinstance(item, bool) for item in x)
    buffer = isinstance(x, (array, memoryview)) or hasattr(x, "__array__") or hasattr(x, "__dlpack__")
    return buffer and on_host(x).dtype.kind in "iu"


def ids(x: Any) -> list[int]:
    """Token ids in one row."""
    row = np.asarray(on_host(x))
    if row.ndim != 1:
        raise Error(f"token ids of one text must be a row, got {row.ndim} axes")
    if row.size and int(row.min()) < 0:
        raise Error(f"token ids count from 0: there is no token {int(row.min())}")
    return [int(id) for id in row]


def whole(value: Any, what: str, *, least: int = 0, most: int = 2**63 - 1) -> int:
    """A whole number within bounds; anything else is an error that names it."""
    try:
        found = index(value)
    except TypeError:
        raise Error(f"{what} is a whole number, not {type(value).__name__}") from None
    if isinstance(value, (bool, np.bool_)) or not least <= found <= most:
        raise Error(f"{what} is a whole number from {least} to {most}, not {value}")
    return found


def number(value: Any, what: str, *, least: float = -inf) -> float:
    """A finite number; anything else is an error that names it."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        raise Error(f"{what} is a number, not {type(value).__name__}") from None
    if isinstance(value, (str, bytes)) or not isfinite(found) or found < least:
        raise Error(f"{what} is a number{'' if least == -inf else f' of at least {least:g}'}, not {value}")
    return found
