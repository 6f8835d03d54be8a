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
class _Keys:
    """Keys, which the steps of a generation share: each reads the keys of the steps before it."""

    values: Any


@dataclass
class _Call:
    """One call of an attention: (batch, heads, queries, width) and (batch, key-value heads, keys, width)."""

    query: Any
    keys: _Keys
    count: int
    mask: Any
    scaling: float
    causal: bool
    window: int | None
    # Whether a causal kernel counts positions from the first key, as PyTorch's own does, and not from the last.
    top_left: bool
    sinks: Any
    soft_cap: float | None
    bias: Any

    @property
    def key(self) -> Any:
        """The keys of this call."""
        return self.keys.values[:, :, : self.count]

    def weights(self, example: int, head: int, rows: slice) -> Reals:
        """softmax(scale·q·kᵀ + bias) over the keys that are not masked, as in the model's own code."""
        heads, queries, keys = self.query.shape[1], self.query.shape[2], self.count
        group = heads // self.keys.values.shape[1]
        query, key = _numpy(self.query[example, head, rows]), _numpy(self.key[example, head // group])
        scores = (query @ key.T) * np.float32(self.scaling)
        if self.soft_cap is not None:
            scores = np.tanh(scores / self.soft_cap) * np.float32(self.soft_cap)
        if self.bias is not None:
            scores = scores + _numpy(_plane(self.bias, example, head)[rows][:, :keys])
        if getattr(self.mask, "ndim", 0) == 4:
            allowed = _numpy(_plane(self.mask, example, head)[rows][:, :keys], None)
            scores = np.where(allowed, scores, -np.inf) if allowed.dtype == np.bool_ else scores + allowed.astype(np.float32)
        else:
            scores = np.where(self._allowed(example, head, np.arange(queries)[rows], keys), scores, -np.inf)
        if self.sinks is not None:
            sink = np.full((len(scores), 1), float(_numpy(self.sinks.reshape(-1)[head])), dtype=np.float32)
            return _softmax(np.concatenate([scores, sink], axis=-1))[:, :-1]
        return _softmax(scores)

    def _allowed(self, example: int, head: int, rows: NDArray[Any], keys: int) -> NDArray[np.bool_]:
        """Which keys some queries attend to, where the kernel does not take a matrix that says so."""
        if hasattr(self.mask, "mask_mod"):
            # Of flex attention: a function of the numbers of text, head, query and key.
            numbers = (np.array(example), np.array(head), rows[:, np.newaxis], np.arange(keys)[np.newaxis])
            of_framework = (_like(self.query, number) for number in numbers)
            return np.broadcast_to(_numpy(self.mask.mask_mod(*of_framework), None), (len(rows), keys))
        allowed = np.ones((1, keys), dtype=np.bool_)
        if self.mask is not None:
            # Of flash attention: which keys are not padding. A cache may have room for more keys.
            present = _numpy(self.mask[example % len(self.mask)], None) != 0
            keys = min(keys, len(present))
            allowed = np.zeros_like(allowed)
            allowed[0, :keys] = present[:keys]
        shift = 0 if self.top_left else keys - int(self.query.shape[2])
        distance = (rows + shift)[:, np.newaxis] - np.arange(allowed.shape[1])[np.newaxis]
        if self.causal:
            allowed = allowed & (distance >= 0)
        if self.window is not None and keys > self.window:
            allowed = allowed & (np.abs(distance) < self.window)
        return allowed


def _plane(values: Any, example: int, head: int) -> Any:
    """(1 or batch, 1 or heads, queries, keys): those of one head."""
    return values[example % values.shape[0], head % values.shape[1]]


def _like(values: Any, number: NDArray[Any]) -> Any:
    """A number, or numbers, of the framework and on the device of other values."""
    if not hasattr(values, "detach"):
        return number
    return importlib.import_module("torch").as_tensor(number, device=values.device)


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

    @property
    def crosses(self) -> bool:
        """Whether queries and keys are of different texts."""
        return any(part in self.name for part in _CROSS)

    def starts(self) -> list[tuple[int, int]]:
        """For each call, the positions of its first query and of its first key."""
        found, queries = [], 0
        for call in self.calls:
            start, queries = queries, queries + int(call.query.shape[2])
            # A cache with a window holds only the last keys.
            found.append((start, 0 if self.crosses else max(0, queries - call.count)))
        return found


# In the names of attentions to the encoder's output.
_CROSS = ("EncDecAttention", "encoder_attn", "cross")


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
        self._sites: dict[tuple[int, int], _Site] = {}
        self._names: dict[int, str] = {}
        self._read: list[Any] = []
        self._answered: list[Any] = []
        self._present: Any = None
        # The calls of the model: how many there were, how deep the present one is nested, how often it has called each module.
        self._passes = 0
        self._depth = 0
        self._turns: dict[int, int] = {}
        # The pass that reads its whole input again, and the ids of the present one.
        self._again = -1
        self._given: dict[str, Any] = {}
        self._problem: str | None = None

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
        sliding_window: int | None = None,
        kernel: str | None = None,
        **_: Any,
    ) -> None:
        """Stores the inputs of one call of an attention."""
        # Outside a call of the model, layers run only to compute gradients again.
        if self._passes and not self._depth:
            return
        site = self._site_of(module)
        # As in the library's own kernels: without a mask, several queries of a causal module get a causal mask.
        causal = is_causal if is_causal is not None else getattr(module, "is_causal", True)
        several = query.shape[2] > 1
        # Masks of other kernels have the window in them.
        windowed = kernel not in ("sdpa", "eager", "flex_attention")
        if site.calls and self._reads_again(site, query.shape[2] == key.shape[2]):
            site.calls.clear()
        call = _Call(
            _kept(query),
            self._keys(site, query.shape[2], key),
            int(key.shape[2]),
            mask,
            float(scaling if scaling is not None else query.shape[-1] ** -0.5),
            bool(causal) and several and (mask is None or getattr(mask, "ndim", 0) == 2),
            sliding_window if windowed else None,
            kernel == "sdpa",
            s_aux,
            softcap,
            position_bias,
        )
        site.calls.append(call)

    def _site_of(self, module: Any) -> _Site:
        """Where a call belongs. If layers share a module, each of its calls in a pass is a layer."""
        turn = self._turns.get(id(module), 0) if self._passes else 0
        self._turns[id(module)] = turn + 1
        key = (id(module), turn)
        if key not in self._sites:
            name = self._names.get(id(module), f"attention.{len(self._sites)}")
            self._sites[key] = _Site(name if turn == 0 else f"{name} ({turn + 1})", module)
        return self._sites[key]

    def _reads_again(self, site: _Site, whole: bool) -> bool:
        """Whether a call does not continue the one before, but reads the input from its beginning."""
        if site.crosses:
            return self._passes > 0 and self._again == self._passes
        if not whole:
            return False
        if not self._passes or self._again != self._passes:
            self._again = self._passes
            self._replace_ids()
        return True

    def _replace_ids(self) -> None:
        """The present pass takes the place of those before, if it reads the same text and perhaps more of it."""
        extends = bool(self._given)
        for name, ids in self._given.items():
            kept = self._read if name == "input_ids" else self._answered
            before = np.concatenate(kept[:-1], axis=1) if len({len(part) for part in kept}) == 1 and len(kept) > 1 else None
            extends &= before is not None and np.array_equal(ids[:, : before.shape[1]], before)
            kept[:] = [ids]
        if not extends:
            self._problem = (
                "the model read several inputs one after the other: "
                "watch each of them in a block of its own, or all of them as one batch"
            )

    def _keys(self, site: _Site, queries: int, key: Any) -> _Keys:
        """The keys of a call: those of the call before with more at their end, or others."""
        if site.calls:
            before, count = site.calls[-1], site.calls[-1].count
            if _same(key[:, :, :count], before.key):
                if key.shape[2] > before.keys.values.shape[2]:
                    before.keys.values = _kept(key)
                return before.keys
            if key.shape[2] == count + queries:
                self._problem = (
                    "earlier keys changed while the model generated, as in beam search: "
                    "such a generation cannot be watched (num_beams=1 can)"
                )
        return _Keys(_kept(key))

    def begin(self, inputs: dict[str, Any]) -> None:
        """Notes that a call of the model begins, which `end` ends; calls inside it belong to it."""
        self._depth += 1
        if self._depth == 1:
            self._passes += 1
            self._turns.clear()
            self.note(inputs)

    def end(self) -> None:
        """Notes that a call of the model has ended."""
        self._depth -= 1

    def note(self, inputs: dict[str, Any]) -> None:
        """Stores the ids that the model was called with, and which of them are not padding."""
        self._given = {}
        for name, kept in (("input_ids", self._read), ("decoder_input_ids", self._answered)):
            if getattr(inputs.get(name), "ndim", 0) == 2:
                self._given[name] = _numpy(_kept(inputs[name]), np.int64)
                kept.append(self._given[name])
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
        if self._problem is not None:
            raise Error(self._problem)
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
        cross = [site.name for site in self._sites.values() if site.crosses]
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
        if self._problem is not None:
            raise Error(self._problem)
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
        starts = site.starts()
        keys = max(offset + call.count for (_, offset), call in zip(starts, site.calls))
        queries = sum(call.query.shape[2] for call in site.calls)
        (first, end), pick = span(rows, queries, "rows")
        (left, right), pick_columns = span(columns, keys, "columns")
        found = np.zeros((end - first, keys), dtype=np.float32)
        for (start, offset), call in zip(starts, site.calls):
            here = slice(max(first - start, 0), max(min(end - start, call.query.shape[2]), 0))
            if here.start < here.stop:
                weights = call.weights(example, head, here)
                found[start + here.start - first : start + here.stop - first, offset : offset + call.count] = weights
        picked: Reals = found[pick][:, left:right][:, pick_columns]
        return picked

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
            # The last generated token was not read by the model.
            if not shared <= len(texts) <= shared + 1:
                raise Error(f"the model read {shared} tokens, and {len(texts)} are given")
            square = [weights[:, :shared, :shared] for weights in layers]
            return view(square, texts[:shared], **chosen)
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


def _same(values: Any, others: Any) -> bool:
    """Whether two arrays hold the same."""
    if values.shape != others.shape:
        return False
    return bool((values == others).all())


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

    A block is about one call of the model, on a text or a batch of them, or about one generation. Beam search is an error.
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
    ended = _following(watched, model, getattr(transformers, "PreTrainedModel", ()))
    try:
        for config, chosen in before:
            if chosen is not None:
                config._attn_implementation = registered[chosen]
        yield watched
    finally:
        ended()
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


def _following(watched: Watched, model: Any, kind: Any) -> Callable[[], None]:
    """Follows the calls of a model and of the models in it, and the ids that they are given; returns a function that ends this."""
    if not hasattr(model, "register_forward_pre_hook"):
        return lambda: None

    def begin(module: Any, arguments: Any, named: Any) -> None:
        try:
            bound = inspect.signature(type(module).forward).bind_partial(module, *arguments, **named)
            watched.begin(bound.arguments)
        except TypeError:
            watched.begin({})

    def end(*_: Any) -> None:
        watched.end()

    handles: list[Any] = []
    for module in model.modules():
        if module is model or isinstance(module, kind):
            handles.append(module.register_forward_pre_hook(begin, with_kwargs=True))
            handles.append(module.register_forward_hook(end, always_call=True))

    def remove() -> None:
        for handle in handles:
            handle.remove()

    return remove


def _recording(watched: Watched, chosen: str, functions: Any) -> Callable[..., Any]:
    def attend(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **settings: Any) -> Any:
        watched.record(module, query, key, attention_mask, **settings, kernel=chosen)
        if chosen == "eager":
            # Every architecture has its own, in its modelling file.
            own = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
            if own is None:
                raise Error(f"{type(module).__name__} has no attention that can be watched")
        else:
            own = functions[chosen]
        return own(module, query, key, value, attention_mask, **settings)

    return attend
