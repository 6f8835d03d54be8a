"""The interactive page for attention weights from other frameworks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ._arrays import Reals, on_host, reals
from ._page import Page
from ._regard import Error
from ._regard import view as _view


# Views that compute with the model.
_NEED_A_MODEL = ("why", "lens", "classes", "next", "without", "patching", "compare", "search")


def _layers(attentions: Any, what: str) -> list[Reals]:
    """Layers of (heads, queries, keys), from a tuple of them with or without a batch of one, or from one array."""
    if isinstance(attentions, (list, tuple)):
        if all(layer is None for layer in attentions):
            raise Error(
                f"{what}: there are no weights; transformers gives them with attn_implementation=\"eager\" only, "
                "and regard.watch needs none"
            )
        layers = [reals(layer, what) for layer in attentions]
    else:
        whole = reals(on_host(attentions), what)
        if whole.ndim == 2:
            whole = whole[None, None]
        if whole.ndim == 3:
            whole = whole[None]
        layers = list(whole)
    found: list[Reals] = []
    for number, layer in enumerate(layers):
        if layer.ndim == 4:
            if layer.shape[0] != 1:
                raise Error(f"{what}, layer {number}: choose one text of the batch of {layer.shape[0]}")
            layer = layer[0]
        if layer.ndim != 3:
            raise Error(f"{what}, layer {number}: weights are (heads, queries, keys), got {layer.shape}")
        if not np.isfinite(layer).all():
            raise Error(f"{what}, layer {number}: there are weights that are no numbers (NaN or infinite)")
        found.append(layer)
    return found


def view(
    attentions: Any = None,
    tokens: Sequence[str] | None = None,
    answer: Sequence[str] | None = None,
    *,
    encoder: Any = None,
    decoder: Any = None,
    cross: Any = None,
    show: str | None = None,
    kind: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    name: str = "attention",
    height: int = 640,
) -> Page:
    """Opens attention weights that any framework computed in the interactive page.

    `attentions` is the result of `output_attentions=True`: a tuple of arrays, one per layer, (1, heads, queries, keys) or (heads,
    queries, keys); or one array (layers, heads, queries, keys). `tokens` are the tokens as strings, or their numbers if not given. For an encoder–decoder model
    give `encoder`, `decoder` and `cross` instead, with the tokens of the source and of the `answer`. `show` is the view:
    `"heads"` (BertViz's `model_view`), `"lines"` (`head_view`), `"head"`, `"flow"`.

    >>> import numpy as np, regard
    >>> weights = np.full((2, 4, 3, 3), 1 / 3)      # 2 layers, 4 heads, 3 tokens
    >>> page = regard.view(weights, ["the", "cat", "sat"])
    >>> "the" in page.html
    True
    """
    groups: list[tuple[str, list[Reals]]] = []
    given: Mapping[str, Any] = {"self": attentions, "encoder": encoder, "decoder": decoder, "cross": cross}
    for what, weights in given.items():
        if weights is not None:
            groups.append((what, _layers(weights, what)))
    if attentions is not None and len(groups) > 1:
        raise Error("attentions is for models that read one text; give encoder, decoder and cross instead")
    if not groups:
        raise Error("there are no weights to show: give attentions, or encoder, decoder and cross")
    if show is not None and show in _NEED_A_MODEL:
        raise Error(f"the view {show!r} needs more than weights: a model that Regard runs")
    if tokens is None:
        # Without words, positions.
        what, layers = groups[0]
        tokens = [str(i) for i in range(layers[0].shape[1 if what == "decoder" else 2])]
    if answer is None and any(what in ("decoder", "cross") for what, _ in groups):
        raise Error("the attention of a decoder needs the tokens of the answer")
    texts = [str(token) for token in tokens], [str(token) for token in answer or ()]
    return Page(_view(name, groups, *texts, show, kind, layer, head), height)
