"""The attention of any model of Hugging Face's transformers, whatever kernel computes it.

While a model is watched, a wrapper replaces the attention that the user chose (sdpa, flash, flex, eager). It keeps queries, keys,
masks and scales, from which every weight can be computed later, and calls the chosen attention. No n × n matrix is stored, and
the model's results do not change.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._arrays import Reals
from ._page import Page
from ._regard import Error
from ._run import Span, span
from ._tables import Figure, heat_maps
from ._view import view

_numbers = itertools.count()


@dataclass
class _Call:
    """One call of an attention: (batch, heads, queries, width) and (batch, key-value heads, keys, width)."""

    query: Any
    key: Any
    mask: Any
    scaling: float
    causal: bool
    sinks: Any
    soft_cap: float | None
    bias: Any

    def weights(self, example: int, head: int, rows: slice) -> Reals:
        """softmax(scale·q·kᵀ + bias) over the keys that are not masked, as in the model's own code."""
        heads, queries, keys = self.query.shape[1], self.query.shape[2], self.key.shape[2]
        group = heads // self.key.shape[1]
        query, key = _numpy(self.query[example, head, rows]), _numpy(self.key[example, head // group])
        scores = (query @ key.T) * np.float32(self.scaling)
        if self.soft_cap is not None:
            scores = np.tanh(scores / self.soft_cap) * np.float32(self.soft_cap)
        if self.bias is not None:
            scores = scores + _numpy(_plane(self.bias, example, head)[rows][:, :keys])
        if self.mask is not None:
            mask = _plane(self.mask, example, head)[rows][:, :keys]
            allowed = _numpy(mask, None)
            scores = np.where(allowed, scores, -np.inf) if allowed.dtype == np.bool_ else scores + allowed.astype(np.float32)
        elif self.causal:
            later = np.arange(keys)[np.newaxis] > (np.arange(queries)[rows] + keys - queries)[:, np.newaxis]
            scores = np.where(later, -np.inf, scores)
        if self.sinks is not None:
            sink = np.full((len(scores), 1), float(_numpy(self.sinks.reshape(-1)[head])), dtype=np.float32)
            return _softmax(np.concatenate([scores, sink], axis=-1))[:, :-1]
        return _softmax(scores)


def _plane(values: Any, example: int, head: int) -> Any:
    """(1 or batch, 1 or heads, queries, keys): those of one head."""
    return values[example % values.shape[0], head % values.shape[1]]


def _numpy(values: Any, kind: Any = np.float32) -> NDArray[Any]:
    """Values of any device as an array in main memory."""
    if hasattr(values, "detach"):
        values = values.detach()
        if str(values.dtype) != "torch.bool":
            values = values.float()
        values = values.cpu().numpy()
    array = np.asarray(values)
    return array if kind is None else array.astype(kind, copy=False)


def _softmax(scores: NDArray[Any]) -> Reals:
    most = scores.max(axis=-1, keepdims=True)
    # A row whose keys are all masked, as in padding, has zero weights.
    powers = np.exp(scores - np.where(np.isfinite(most), most, 0.0))
    total = powers.sum(axis=-1, keepdims=True)
    weights: Reals = np.divide(powers, total, out=np.zeros_like(powers), where=total > 0).astype(np.float32, copy=False)
    return weights


@dataclass
class _Site:
    name: str
    # Kept alive, so that no other module gets its id.
    module: Any
    calls: list[_Call] = field(default_factory=list[_Call])


class Watched:
    """The attention of a watched model: every map of every head, computed on access.

    `watch` calls `record` for every attention; queries and keys of another framework can be recorded by hand.

    >>> import numpy as np, regard
    >>> run, layer = regard.Watched(), object()
    >>> queries, keys = np.random.default_rng(0).normal(size=(2, 1, 4, 3, 8))      # (batch, heads, time, width) each
    >>> run.record(layer, queries, keys, None, is_causal=True)
    >>> run.attention(0, head=2).round(2)[0].tolist()
    [1.0, 0.0, 0.0]
    """

    def __init__(self) -> None:
        self._sites: dict[int, _Site] = {}
        self._names: dict[int, str] = {}
        self._read: list[Any] = []
        self._answered: list[Any] = []
        self._present: Any = None

    def record(
        self,
        module: Any,
        query: Any,
        key: Any,
        mask: Any,
        *,
        scaling: float | None = None,
        is_causal: bool | None = None,
        s_aux: Any = None,
        softcap: float | None = None,
        position_bias: Any = None,
        **_: Any,
    ) -> None:
        """Stores the inputs of one call of an attention."""
        # As in the library's own kernels: without a mask, several queries of a causal module get a causal mask.
        causal = is_causal if is_causal is not None else getattr(module, "is_causal", True)
        several = query.shape[2] > 1
        call = _Call(
            _kept(query),
            _kept(key),
            mask,
            float(scaling if scaling is not None else query.shape[-1] ** -0.5),
            bool(causal) and several and mask is None,
            s_aux,
            softcap,
            position_bias,
        )
        site = self._sites.setdefault(id(module), _Site(self._names.get(id(module), f"attention.{len(self._sites)}"), module))
        site.calls.append(call)

    def note(self, inputs: dict[str, Any]) -> None:
        """Stores the ids that the model was called with, and which of them are not padding."""
        for name, kept in (("input_ids", self._read), ("decoder_input_ids", self._answered)):
            if getattr(inputs.get(name), "ndim", 0) == 2:
                kept.append(_numpy(_kept(inputs[name]), np.int64))
        mask = inputs.get("attention_mask")
        if getattr(mask, "ndim", 0) == 2 and self._present is None:
            self._present = _numpy(_kept(mask), np.int64) != 0

    def ids(self, example: int = 0, *, answer: bool = False) -> list[int] | None:
        """The token ids of a text (or of its decoder's input) without padding; None if the model was not given ids."""
        kept = self._answered if answer else self._read
        if not kept:
            return None
        row = np.concatenate([part[example] for part in kept if example < len(part)])
        present = self._unpadded(example, len(row)) if not answer else slice(None)
        found: list[int] = row[present].tolist()
        return found

    def _unpadded(self, example: int, count: int) -> Any:
        """Which of a text's positions are not padding."""
        if self._present is None or example >= len(self._present):
            return slice(None)
        known = self._present[example]
        # Tokens that were generated afterwards are not padding.
        return np.concatenate([known, np.ones(max(0, count - len(known)), dtype=np.bool_)])[:count]

    @property
    def batch(self) -> int:
        """The number of texts that were read at once."""
        return max((int(site.calls[0].query.shape[0]) for site in self._sites.values()), default=0)

    def maps(self, example: int = 0, kind: str | None = None) -> list[Reals]:
        """All weights of one kind of attention without padding: for each layer, (heads, queries, keys)."""
        names = self.kinds.get(kind or next(iter(self.kinds)), [])
        found: list[Reals] = []
        for layer in range(max(len(names), 1)):
            weights = self.attention(layer, kind=kind, example=example)
            if kind in (None, "self", "encoder"):
                # The last generated token was not read by the model: it is not a key.
                count = min(weights.shape[1:])
                weights = weights[:, :count, :count]
                unpadded = self._unpadded(example, count)
                weights = weights[:, unpadded][:, :, unpadded]
            elif kind == "cross":
                weights = weights[:, :, self._unpadded(example, weights.shape[2])]
            found.append(np.ascontiguousarray(weights))
        return found

    @property
    def attentions(self) -> list[str]:
        """The names of the attentions that were called, in order."""
        return [site.name for site in self._sites.values()]

    @property
    def kinds(self) -> dict[str, list[str]]:
        """The names by kind: `self`, or `encoder`, `decoder` and `cross`."""
        names = self.attentions
        cross = [name for name in names if any(part in name for part in ("EncDecAttention", "encoder_attn", "cross"))]
        if not cross:
            return {"self": names}
        rest = [name for name in names if name not in cross]
        encoder = [name for name in rest if "encoder" in name]
        return {"encoder": encoder, "decoder": [name for name in rest if name not in encoder], "cross": cross}

    def _site(self, layer: int, kind: str | None) -> _Site:
        kinds = {known: names for known, names in self.kinds.items() if names}
        if not kinds:
            raise Error("nothing was watched: no attention of the model was called")
        if kind is None and len(kinds) > 1:
            raise Error(f"the model has several attentions: choose one with kind={' or kind='.join(map(repr, kinds))}")
        wanted = kind or next(iter(kinds))
        if wanted not in kinds:
            raise Error(f"the model has no attention of the kind {wanted!r}: it has {', '.join(kinds)}")
        names = kinds[wanted]
        if not -len(names) <= layer < len(names):
            raise Error(f"there are layers 0 to {len(names) - 1}: there is no layer {layer}")
        return next(site for site in self._sites.values() if site.name == names[layer])

    def attention(
        self,
        layer: int,
        head: int | None = None,
        *,
        rows: Span = None,
        columns: Span = None,
        kind: str | None = None,
        example: int = 0,
    ) -> Reals:
        """The weights of a head, (queries, keys), or of all heads of a layer, (heads, queries, keys).

        For a generation, the queries of all steps are stacked; keys that did not exist yet have weight 0.
        """
        site = self._site(layer, kind)
        batch, heads = site.calls[0].query.shape[:2]
        if not 0 <= example < batch:
            raise Error(f"the batch has {batch} texts: there is no text {example}")
        if head is None:
            return np.stack([self.attention(layer, h, rows=rows, columns=columns, kind=kind, example=example) for h in range(heads)])
        if not 0 <= head < heads:
            raise Error(f"{site.name} has {heads} heads: there is no head {head}")
        keys = max(call.key.shape[2] for call in site.calls)
        queries = sum(call.query.shape[2] for call in site.calls)
        (first, end), pick = span(rows, queries, "rows")
        (left, right), pick_columns = span(columns, keys, "columns")
        found, start = np.zeros((end - first, keys), dtype=np.float32), 0
        for call in site.calls:
            count = call.query.shape[2]
            here = slice(max(first - start, 0), max(min(end - start, count), 0))
            if here.start < here.stop:
                weights = call.weights(example, head, here)
                found[start + here.start - first : start + here.stop - first, : weights.shape[1]] = weights
            start += count
        return found[pick, left:right][:, pick_columns]

    def show(
        self,
        tokens: Sequence[str] | None = None,
        answer: Sequence[str] | None = None,
        *,
        example: int = 0,
        **chosen: Any,
    ) -> Page:
        """The interactive page: `tokens` (and those of the `answer`) are numbers if not given. See `regard.view`."""
        maps: dict[str, Any] = {
            kind: [self.attention(layer, kind=kind, example=example) for layer in range(len(names))]
            for kind, names in self.kinds.items()
            if names
        }
        if "self" in maps:
            layers = maps["self"]
            shared = min(layers[0].shape[1], layers[0].shape[2])
            texts = [str(i) for i in range(shared)] if tokens is None else list(tokens)
            # The last generated token was not read by the model: it is not a key.
            square = [weights[:, : len(texts), : len(texts)] for weights in layers]
            return view(square, texts, **chosen)
        _, queries, keys = maps["cross"][0].shape
        source = [str(i) for i in range(keys)] if tokens is None else list(tokens)
        target = [str(i) for i in range(queries)] if answer is None else list(answer)
        return view(tokens=source, answer=target, **maps, **chosen)

    def plot(
        self,
        layer: int,
        head: int | None = None,
        *,
        kind: str | None = None,
        example: int = 0,
        path: str | PathLike[str] | None = None,
    ) -> Figure:
        """A picture of one head, or of the heads of a layer; with `path` it is also written, as .svg or .png."""
        weights = self.attention(layer, head, kind=kind, example=example)
        if head is not None:
            figure = heat_maps(f"Layer {layer}, head {head}", [("", weights)])
        else:
            maps = [(f"head {number}", values) for number, values in enumerate(weights)]
            figure = heat_maps(f"The heads of layer {layer}", maps, small=True, in_a_row=min(len(maps), 6))
        if path is not None:
            figure.save(path)
        return figure

    def _repr_html_(self) -> str:
        try:
            return self.show()._repr_html_()
        except Error as error:
            return f"<pre>{error}</pre>"

    def __repr__(self) -> str:
        return f"<regard.Watched: {len(self._sites)} attentions>"


def _kept(values: Any) -> Any:
    """A copy that later steps of a generation cannot change: some caches are updated in place."""
    return values.detach().clone() if hasattr(values, "detach") else values


@contextmanager
def watch(model: Any) -> Iterator[Watched]:
    """Records the attention of a transformers model while it runs.

    ```python
    with regard.watch(hf_model) as run:
        hf_model(ids)
    run.attention(layer=3, head=2)
    run.show(tokens)
    ```
    """
    try:
        transformers: Any = importlib.import_module("transformers")
        AttentionInterface, AttentionMaskInterface = transformers.AttentionInterface, transformers.AttentionMaskInterface
    except (ImportError, AttributeError):
        raise Error("watch needs PyTorch and a transformers with an attention interface: pip install transformers torch") from None
    if not hasattr(model, "named_modules") or not hasattr(model, "config"):
        raise Error(f"watch takes a model of transformers, not {type(model).__name__}")
    watched = Watched()
    configs: dict[int, Any] = {}
    for name, module in model.named_modules():
        watched._names[id(module)] = name
        config = getattr(module, "config", None)
        if hasattr(config, "_attn_implementation"):
            configs.setdefault(id(config), config)
    before = [(config, config._attn_implementation) for config in configs.values()]
    functions, masks = AttentionInterface(), AttentionMaskInterface()
    registered: dict[str, str] = {}
    for _, chosen in before:
        if chosen is None or chosen in registered:
            continue
        name = f"regard_watch_{next(_numbers)}_{chosen}"
        AttentionInterface.register(name, _recording(watched, chosen, functions))
        if chosen in masks:
            AttentionMaskInterface.register(name, masks[chosen])
        registered[chosen] = name
    noted = _noting(watched, model)
    try:
        for config, chosen in before:
            if chosen is not None:
                config._attn_implementation = registered[chosen]
        yield watched
    finally:
        noted()
        for config, chosen in before:
            config._attn_implementation = chosen
        for name in registered.values():
            AttentionInterface._global_mapping.pop(name, None)
            AttentionMaskInterface._global_mapping.pop(name, None)
    if not watched._sites:
        raise Error(
            "nothing was watched: the model was not called, or its attention does not pass through transformers' "
            "attention interface (load it with output_attentions=True and use regard.view)"
        )


def _noting(watched: Watched, model: Any) -> Callable[[], None]:
    """Records the ids of every call of a model; returns a function that ends this."""
    if not hasattr(model, "register_forward_pre_hook"):
        return lambda: None
    signature = inspect.signature(type(model).forward)

    def note(module: Any, arguments: Any, named: Any) -> None:
        try:
            bound = signature.bind_partial(module, *arguments, **named)
        except TypeError:
            return
        watched.note(bound.arguments)

    handle = model.register_forward_pre_hook(note, with_kwargs=True)
    return lambda: handle.remove()


def _recording(watched: Watched, chosen: str, functions: Any) -> Callable[..., Any]:
    def attend(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **settings: Any) -> Any:
        watched.record(module, query, key, attention_mask, **settings)
        if chosen == "eager":
            # Every architecture has its own, in its modelling file.
            own = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
            if own is None:
                raise Error(f"{type(module).__name__} has no attention that can be watched")
        else:
            own = functions[chosen]
        return own(module, query, key, value, attention_mask, **settings)

    return attend
