"""The result of a model's forward pass."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from ._arrays import Reals, whole
from ._page import Page
from ._regard import Error, Pass
from ._tables import Figure, heat_maps

if TYPE_CHECKING:
    from ._models import Model

Span: TypeAlias = slice | Sequence[int] | int | None
"""Some rows or columns: a slice, a list of numbers, one of them, or all. Negative numbers count from the end."""


class Token(NamedTuple):
    """A token of a text, or a patch of a picture."""

    id: int
    """Its id; patches have their number."""
    text: str
    """The part of the text that it stands for."""
    special: bool
    """Whether it is special, such as `[CLS]`."""
    word: int
    """The number of the word that it is part of."""


class Candidate(NamedTuple):
    """A token or class that a model may predict, with its probability."""

    text: str
    """The token, or the class."""
    probability: float
    """Its probability."""
    id: int
    """The id of the token or the number of the class."""
    logit: float
    """Its logit."""


class Run:
    """One forward pass of a model over one input. No n × n matrix is stored: attention is computed on access.

    >>> import regard
    >>> model = regard.GPT(11, d_model=8, n_layers=2, n_heads=2, context=8)
    >>> run = model([3, 1, 4])
    >>> run.logits.shape, run.attention(layer=1, head=0).shape
    ((3, 11), (3, 3))
    >>> run["layers.1.self.heads"].shape      # (time, heads, width)
    (3, 2, 4)
    """

    def __init__(self, model: Model, computed: Pass, example: int) -> None:
        self.model = model
        """The model that was run."""
        self._pass = computed
        self._example = example

    @property
    def details(self) -> list[Token]:
        """The tokens that were read, with ids, words and whether they are special."""
        return [Token(*token) for token in self._pass.tokens(self._example, False)]

    @property
    def tokens(self) -> list[str]:
        """The tokens that were read."""
        return [token[1] for token in self._pass.tokens(self._example, False)]

    @property
    def ids(self) -> list[int]:
        """The ids of the tokens that were read."""
        return [token[0] for token in self._pass.tokens(self._example, False)]

    @property
    def answer(self) -> list[str]:
        """The tokens that the decoder of an encoder–decoder model has read; none in other models."""
        return [token[1] for token in self._pass.tokens(self._example, True)]

    @property
    def logits(self) -> Reals:
        """The logits: (tokens, vocabulary), (tokens, classes), or (classes) if the model classifies the whole input."""
        return self._pass.logits(self._example)

    @property
    def probabilities(self) -> Reals:
        """The softmax of the logits."""
        scores = self.logits
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=-1, keepdims=True), dtype=np.float32)

    def top(self, count: int = 5, position: int = -1) -> list[Candidate]:
        """The most likely tokens at a position, or classes, best first.

        >>> import regard
        >>> best = regard.GPT(11, d_model=8, n_layers=1, n_heads=2, context=8)([3, 1, 4]).top(2)
        >>> len(best), best[0].probability >= best[1].probability
        (2, True)
        """
        scores = self.logits
        probabilities = self.probabilities
        if scores.ndim == 2:
            if not -len(scores) <= position < len(scores):
                raise Error(f"there are {len(scores)} positions: there is no position {position}")
            scores, probabilities = scores[position], probabilities[position]
        order = np.argsort(-scores, kind="stable")[:count]
        name = self.model.name_of
        return [Candidate(name(int(id)), float(probabilities[id]), int(id), float(scores[id])) for id in order]

    @property
    def sites(self) -> list[str]:
        """The names of all values that can be read: `run["layers.0.self.heads"]`."""
        return self._pass.sites()

    def __getitem__(self, site: str) -> Reals:
        """The values at a site, without an axis for the batch.

        Attention weights are computed on access; other values in another pass over the same input, with the same interventions
        and hooks, unless they were recorded.
        """
        return self._pass.get(site, self._example)

    def __contains__(self, site: object) -> bool:
        return site in self.sites

    def __iter__(self) -> Iterator[str]:
        return iter(self.sites)

    def attention(
        self,
        layer: int,
        head: int | None = None,
        *,
        rows: Span = None,
        columns: Span = None,
        kind: str | None = None,
    ) -> Reals:
        """The attention weights of a head, (queries, keys), or of all heads of a layer, (heads, queries, keys).

        Only the requested rows and columns are computed. `kind` selects the attention in models that have several:
        `"encoder"`, `"decoder"` or `"cross"`.

        >>> import regard
        >>> run = regard.GPT(11, d_model=8, n_layers=1, n_heads=2, context=8)([3, 1, 4])
        >>> run.attention(0, 1, rows=-1).shape, run.attention(0).shape
        ((1, 3), (2, 3, 3))
        """
        site = self.model.attention_name(layer, kind)
        queries, keys = self._pass.sides(site, self._example)
        (first_row, end_row), pick_rows = span(rows, queries, "rows")
        (first_column, end_column), pick_columns = span(columns, keys, "columns")

        def one(head: int) -> Reals:
            weights = self._pass.attention(
                site, self._example, head, (first_row, end_row), (first_column, end_column)
            )
            picked: Reals = weights[pick_rows][:, pick_columns]
            return picked

        if head is None:
            return np.stack([one(head) for head in range(self.model.heads_of(site))])
        return one(self.model.head_number(site, head))

    def lens(self, position: int = -1) -> list[tuple[str, Reals]]:
        """The logits that the residual stream at a position gives after the embeddings and after each layer."""
        return self._pass.lens(self._example, position)

    def plot(
        self,
        layer: int | None = None,
        head: int | None = None,
        *,
        kind: str | None = None,
        path: str | PathLike[str] | None = None,
    ) -> Figure:
        """A picture of one head, of the heads of a layer, or of all heads; with `path` it is also written, as .svg or .png.

        >>> import regard
        >>> run = regard.GPT(11, d_model=8, n_layers=2, n_heads=2, context=8)([3, 1, 4])
        >>> run.plot(layer=1, head=0).svg.startswith("<svg")
        True
        """
        layer, head = self.model.numbers(layer, head, kind)
        layers = range(self.model.layers_of(kind)) if layer is None else [layer]
        site = self.model.attention_name(layers[0], kind)
        source, target = self.tokens, self.answer or self.tokens
        crosses, decodes = ".cross" in site, site.startswith("decoder.")
        words = (target if decodes else source), (target if decodes and not crosses else source)
        maps: list[tuple[str, Reals]] = []
        for number in layers:
            weights = self.attention(number, kind=kind) if head is None else self.attention(number, head, kind=kind)[None]
            for i, values in enumerate(weights):
                name = f"head {i if head is None else head}"
                maps.append((name if layer is not None else f"{number}.{i}", values))
        causal = not crosses and all(not np.triu(values, 1).any() for _, values in maps) and len(words[0]) > 1
        if len(maps) == 1:
            title = f"{self.model.name}: layer {layers[0]}, {maps[0][0]}"
            figure = heat_maps(title, [("", maps[0][1])], rows=words[0], columns=words[1], causal=causal)
        else:
            title = f"{self.model.name}: " + (f"the heads of layer {layer}" if layer is not None else "all heads")
            wide = min(self.model.heads_of(site), 6) if layer is not None else self.model.heads_of(site)
            shown = words if layer is not None else (None, None)
            figure = heat_maps(title, maps, rows=shown[0], columns=shown[1], causal=causal, small=True, in_a_row=wide)
        if path is not None:
            figure.save(path)
        return figure

    def show(
        self,
        view: str | None = None,
        *,
        layer: int | None = None,
        head: int | None = None,
        query: int | None = None,
        kind: str | None = None,
        all_heads: bool = True,
        height: int = 640,
    ) -> Page:
        """The interactive page about this run.

        `view` is `"heads"`, `"head"`, `"lines"`, `"why"`, `"flow"`, `"classes"` or `"next"`. With `all_heads=False` the page
        holds only the numbers of the chosen layer and head, which long texts require.
        """
        layer, head = self.model.numbers(layer, head, kind)
        if query is not None:
            count = len(self.tokens if kind == "encoder" else self.answer or self.tokens)
            (query, _), _ = span(query, count, "queries")
        try:
            document = self._pass.page(self._example, view, kind, layer, head, query, all_heads)
        except Error as error:
            # The library's sentence names options of the program.
            reason, sign, _ = str(error).partition(": choose some with --layer")
            raise Error(f"{reason}: choose some with layer=, head= and all_heads=False") if sign else error from None
        return Page(document, height)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the page about this run as one file that opens offline."""
        self.show().save(path)

    def _repr_html_(self) -> str:
        try:
            return self.show()._repr_html_()
        except Error as error:
            reason = html.escape(str(error))
        # All heads of a long text are too much for one page.
        for head in (None, 0):
            try:
                page = self.show(layer=0, head=head, all_heads=False)
            except Error:
                continue
            return f"<p>Layer 0{'' if head is None else ', head 0'} only: {reason}</p>{page._repr_html_()}"
        return f"<pre>{html.escape(repr(self))}\n{reason}</pre>"

    def __repr__(self) -> str:
        return f"<regard.Run of {self.model.name}: {len(self.tokens)} tokens>"


def span(span: Span, length: int, what: str) -> tuple[tuple[int, int], Any]:
    """The half-open range to compute, and what to take from it."""
    if span is None:
        return (0, length), slice(None)
    if isinstance(span, slice):
        chosen = list(range(length)[span])
    else:
        several = span if isinstance(span, (Sequence, np.ndarray)) else [span]
        chosen = [whole(number, what, least=-(2**31), most=2**31) for number in several]
    chosen = [number + length if number < 0 else number for number in chosen]
    if not chosen:
        return (0, 0), slice(None)
    least, most = min(chosen), max(chosen)
    if least < 0 or most >= length:
        raise Error(f"{what}: there are {length}, so there is no {span}")
    if chosen == list(range(least, most + 1)):
        return (least, most + 1), slice(None)
    return (least, most + 1), [number - least for number in chosen]
