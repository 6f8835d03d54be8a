"""Interventions on the values inside a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ._arrays import Reals, number, reals, whole
from ._guard import passed_through
from ._regard import Change, Error, Pass

if TYPE_CHECKING:
    from ._models import Model
    from ._run import Run

Hook: TypeAlias = Callable[[str, Reals], Any]
"""A function of a site's name and its values, (batch, …), that returns other values or None."""


class Intervention:
    """A change that `Model.run` makes: see `ablate`, `patch`, `steer` and `block`."""

    def changes(self, model: Model) -> list[Change]:
        """The changes to a given model."""
        raise NotImplementedError

    def check(self, model: Model, computed: Pass) -> None:
        """Raises an error if it had no effect on a pass."""


@dataclass(frozen=True)
class _Ablate(Intervention):
    layer: int
    head: int
    kind: str | None
    to: Any

    def changes(self, model: Model) -> list[Change]:
        attention = model.attention_name(self.layer, self.kind)
        head = model.head_number(attention, self.head)
        if isinstance(self.to, str):
            if self.to == "mean":
                return [Change.mean_head(attention, head)]
            if self.to != "zero":
                raise Error(f'ablate: to is "zero", "mean" or a vector, not {self.to!r}')
            vector = np.zeros(1, dtype=np.float32)
        else:
            vector = reals(self.to, "ablate")
        return [Change.put(f"{attention}.heads", vector, add=False, heads=[head])]


@dataclass(frozen=True)
class _Put(Intervention):
    site: str
    values: Any
    add: bool
    positions: int | Sequence[int] | None
    heads: int | Sequence[int] | None

    def changes(self, model: Model) -> list[Change]:
        values = reals(self.values, self.site)
        positions, heads = _numbers(self.positions, "positions"), _numbers(self.heads, "heads")
        return [Change.put(self.site, values, add=self.add, positions=positions, heads=heads)]


def _numbers(given: Any, what: str) -> list[int] | None:
    """Some positions or heads: one number, or several."""
    if given is None:
        return None
    several = given if isinstance(given, (Sequence, np.ndarray)) else [given]
    return [whole(number, what, least=-(2**31), most=2**31) for number in several]


@dataclass(frozen=True)
class _Block(Intervention):
    layer: int
    query: int
    key: int
    head: int | None
    kind: str | None

    def changes(self, model: Model) -> list[Change]:
        attention = model.attention_name(self.layer, self.kind)
        head = None if self.head is None else model.head_number(attention, self.head)
        if self.query < 0 or self.key < 0:
            raise Error("block: positions count from 0")
        return [Change.block(attention, head, self.query, self.key)]

    def check(self, model: Model, computed: Pass) -> None:
        attention = model.attention_name(self.layer, self.kind)
        sides = [computed.sides(attention, example) for example in range(len(computed))]
        if not any(self.query < queries and self.key < keys for queries, keys in sides):
            queries, keys = max(sides)
            raise Error(f"block: there are {queries} queries and {keys} keys: none can attend from {self.query} to {self.key}")


def ablate(layer: int, head: int, *, to: Any = "zero", kind: str | None = None) -> Intervention:
    """Ablates a head: its output becomes zero, its mean over the text (`to="mean"`), or a vector.

    `kind` selects the attention in models that have several: `"encoder"`, `"decoder"` or `"cross"`.

    >>> import regard
    >>> model = regard.GPT(11, d_model=8, n_layers=2, n_heads=2, context=8)
    >>> run = model.run([3, 1, 4], interventions=[regard.ablate(1, 0)])
    >>> float(abs(run["layers.1.self.heads"][:, 0]).max())
    0.0
    """
    return _Ablate(layer, head, kind, to)


def patch(
    site: str,
    source: Run | Any,
    *,
    positions: int | Sequence[int] | None = None,
    heads: int | Sequence[int] | None = None,
) -> Intervention:
    """Replaces a site's values by another run's (or by an array): all of them, or at some positions or heads.

    >>> import regard
    >>> model = regard.GPT(11, d_model=8, n_layers=2, n_heads=2, context=8)
    >>> clean, other = model([3, 1, 4]), model([3, 9, 4])
    >>> patched = model.run([3, 9, 4], interventions=[regard.patch("layers.0.residual.before", clean, positions=[1])])
    >>> bool(abs(patched.logits - clean.logits).max() < 1e-5 < abs(other.logits - clean.logits).max())
    True
    """
    from ._run import Run

    values = source[site] if isinstance(source, Run) else source
    return _Put(site, values, False, positions, heads)


def steer(
    site: str,
    vector: Any,
    *,
    scale: float = 1.0,
    positions: int | Sequence[int] | None = None,
    heads: int | Sequence[int] | None = None,
) -> Intervention:
    """Adds a vector to a site's values: to all of them, or at some positions or heads.

    >>> import numpy as np, regard
    >>> model = regard.GPT(11, d_model=8, n_layers=2, n_heads=2, context=8)
    >>> plain = model([3, 1, 4])
    >>> steered = model.run([3, 1, 4], interventions=[regard.steer("layers.0.residual.after", np.ones(8), scale=2.0)])
    >>> difference = steered["layers.0.residual.after"] - plain["layers.0.residual.after"]
    >>> bool(np.allclose(difference, 2.0, atol=1e-5))
    True
    """
    return _Put(site, reals(vector, "steer") * np.float32(number(scale, "scale")), True, positions, heads)


def block(layer: int, query: int, key: int, *, head: int | None = None, kind: str | None = None) -> Intervention:
    """Prevents a query position from attending to a key position, in one head or in all. The weight goes to the other keys.

    >>> import regard
    >>> model = regard.GPT(11, d_model=8, n_layers=1, n_heads=2, context=8)
    >>> run = model.run([3, 1, 4], interventions=[regard.block(0, query=2, key=0)])
    >>> float(run.attention(0, 1)[2, 0])
    0.0
    """
    return _Block(layer, query, key, head, kind)


def as_list(interventions: Intervention | Sequence[Intervention]) -> list[Intervention]:
    """One intervention, or several."""
    given = [interventions] if isinstance(interventions, Intervention) else list(interventions)
    for intervention in given:
        if not isinstance(intervention, Intervention):
            raise Error(f"interventions are made by ablate, patch, steer and block, not {type(intervention).__name__}")
    return given


def as_changes(model: Model, interventions: Sequence[Intervention], hooks: Mapping[str, Hook] | None) -> list[Change]:
    """All changes of a pass, interventions first."""
    changes = [change for intervention in interventions for change in intervention.changes(model)]
    if hooks is not None and not isinstance(hooks, Mapping):
        raise Error(f"hooks is a dictionary: for the pattern of a site's name a function, not {type(hooks).__name__}")
    for pattern, function in (hooks or {}).items():
        if not callable(function):
            raise Error(f"the hook at {pattern} is not a function, but {type(function).__name__}")
        changes.append(Change.hook(pattern, _returning_reals(function)))
    return changes


def _returning_reals(function: Hook) -> Callable[[str, Reals], Reals | None]:
    def call(site: str, values: Reals) -> Reals | None:
        try:
            returned = function(site, values)
        except BaseException as error:
            passed_through(error)
            raise
        return None if returned is None else reals(returned, f"the result of the hook at {site}")

    return call
