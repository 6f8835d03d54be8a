"""Measures of heads, ablation, and the influence of words on a prediction."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from typing import Any

import numpy as np

from ._arrays import whole
from ._models import Model
from ._regard import Columns, Error, HeadMeasures
from ._regard import ablation as _ablation
from ._regard import heads as _heads
from ._regard import influence as _influence
from ._regard import score_parts as _score_parts
from ._run import Run, span
from ._tables import Figure, Table, heat_maps
from ._watch import Watched


class _Options:
    def __init__(self, limit: int, length: int | None, batch: int, seed: int) -> None:
        self.limit, self.seed = whole(limit, "limit"), whole(seed, "seed")
        self.length = None if length is None else whole(length, "length", least=1, most=2**31)
        self.batch = whole(batch, "batch", least=1, most=2**31)


def _given(texts: str | PathLike[str] | Sequence[str]) -> str | list[str]:
    if isinstance(texts, (str, PathLike)):
        return str(fspath(texts))
    several = list(texts)
    if not all(isinstance(text, str) for text in several):
        raise Error('texts is a list of texts, the path of a file, or "built-in"')
    return several


def _by_head(table: Table, column: str) -> np.ndarray[Any, Any]:
    """A value of every head as a matrix (layers, heads); NaN where it is unknown."""
    layers, heads, values = table["layer"], table["head"], table[column]
    if not len(table):
        raise Error("there is no such row in the table")
    matrix = np.full((int(layers.max()) + 1, int(heads.max()) + 1), np.nan, dtype=np.float32)
    matrix[layers, heads] = values
    return matrix


class Heads(Table):
    """Every measure of every head, with 95 % intervals from resampled texts, trained and untrained."""

    def __init__(self, columns: Columns, labels: Columns) -> None:
        super().__init__(columns)
        self.labels = Table(labels)
        """The heads that meet a rule for a label, corrected for the number of heads and rules."""

    @property
    def measures(self) -> list[str]:
        """The names of the measures."""
        return list(dict.fromkeys(self["measure"].tolist()))

    def plot(self, measure: str | None = None, *, path: str | PathLike[str] | None = None) -> Figure:
        """A measure of all heads, trained beside untrained. Framed heads are labelled by it. With `path` it is also written."""
        measure = measure or self.measures[0]
        if measure not in self.measures:
            raise Error(f"there is no measure {measure}; there are {', '.join(self.measures)}")
        names = [name for name in ("trained", "untrained") if name in self["model"]]
        chosen = [self.where(model=name, measure=measure, weights="attention") for name in names]
        maps = [_by_head(table, "mean") for table in chosen]
        top = float(max(np.nanmax(values) for values in maps))
        framed = [(row["layer"], row["head"]) for row in self.labels.where(measure=measure)]
        figure = heat_maps(
            f"“{measure}” head by head",
            list(zip(names if len(names) > 1 else [""], maps)),
            names=("layer", "head"),
            label=measure,
            range=(0.0, max(top, 1e-6)),
            in_a_row=2,
            framed=framed,
        )
        if path is not None:
            figure.save(path)
        return figure


def heads(
    model: Model | Watched | Sequence[Watched],
    texts: str | PathLike[str] | Sequence[str] = "built-in",
    *,
    kind: str | None = None,
    norms: bool = False,
    limit: int = 200,
    length: int | None = None,
    batch: int = 16,
    seed: int = 0,
    tokens: Sequence[Any] | None = None,
    baseline: Watched | Sequence[Watched] | None = None,
) -> Heads:
    """Measures what each head does over texts, compared with the same architecture untrained.

    `texts` is a list, or a corpus as the program names it: a file with one text per line, a table, `"built-in"`. Of a named corpus
    `limit` texts are read. `kind` selects the attention of an encoder–decoder model. docs/heads.md explains all measures and rules.

    For watched models (`regard.watch`), give one run or several: their texts are measured. `tokens` are the tokens of each text, as
    strings; without them, tokens are compared by id. `baseline` are runs of the same model untrained over the same texts: heads get
    labels by comparison with it.

    >>> import regard
    >>> texts = ["the cat sat on the mat", "a dog saw the cat"]
    >>> model = regard.GPT(tokenizer=regard.Tokenizer.words(texts), d_model=8, n_layers=2, n_heads=2, context=8)
    >>> found = regard.heads(model, texts)
    >>> found.where(model="trained", measure="previous", layer=1)["head"].tolist()
    [0, 1]
    """
    if isinstance(model, Model):
        measures, labels = _heads(model._inner, _given(texts), kind, norms, _Options(limit, length, batch, seed))
        return Heads(measures, labels)
    measured = _watched_heads(model, tokens, kind, seed)
    compared = None if baseline is None else _watched_heads(baseline, tokens, kind, seed)
    return Heads(*measured.tables(compared))


def _watched_heads(
    runs: Watched | Sequence[Watched], tokens: Sequence[Any] | None, kind: str | None, seed: int
) -> HeadMeasures:
    """The measures of all texts of some watched runs."""
    several = [runs] if isinstance(runs, Watched) else list(runs)
    if not several or not all(isinstance(run, Watched) for run in several):
        raise Error("heads measures a model, or what regard.watch saw")
    if tokens is not None and tokens and isinstance(tokens[0], str):
        tokens = [tokens]
    measures: HeadMeasures | None = None
    number = 0
    for run in several:
        for example in range(run.batch):
            layers = run.maps(example, kind)
            names = None if tokens is None else _tokens_of(tokens, number)
            queries, keys = layers[0].shape[1:]
            read = _named(run, example, kind, queries, names)
            source = None
            if kind == "cross":
                source = _named(run, example, "encoder", keys, None)
            if measures is None:
                measures = HeadMeasures([len(weights) for weights in layers], seed)
            measures.add(read, source, layers)
            number += 1
    if measures is None:
        raise Error("nothing was watched: there is no text to measure")
    return measures


def _tokens_of(tokens: Sequence[Any], number: int) -> list[str]:
    if number >= len(tokens):
        raise Error(f"there are tokens of {len(tokens)} texts, and more texts")
    return [str(token) for token in tokens[number]]


def _named(run: Watched, example: int, kind: str | None, count: int, names: list[str] | None) -> list[str]:
    """The tokens of a text: as given, else their ids, else all distinct."""
    if names is None:
        ids = run.ids(example, answer=kind in ("decoder", "cross"))
        names = [str(id) for id in ids] if ids is not None and len(ids) >= count else [f"#{i}" for i in range(count)]
    if len(names) < count:
        raise Error(f"there are {len(names)} tokens and attention over {count}")
    return names[:count]


class Ablation(Table):
    """The loss without each head."""

    def __init__(self, loss: float, columns: Columns) -> None:
        super().__init__(columns)
        self.loss = loss
        """The mean loss with all heads, in nats."""

    def plot(self) -> Figure:
        """The change of the loss without each head: zeroed, and set to its mean."""
        shown = {"zeroed": "zeroed", "averaged": "set to its mean"}
        trained = self.where(model="trained", kind="all")
        maps = [(title, _by_head(trained.where(measure=how), "value")) for how, title in shown.items()]
        most = float(max(np.nanmax(np.abs(values)) for _, values in maps)) or 1e-6
        return heat_maps(
            "What the loss becomes without each head",
            maps,
            subtitle=f"Change of the mean loss, {self.loss:.4f} nats with all heads; more than 0 is worse",
            names=("layer", "head"),
            label="change",
            diverging=True,
            range=(-most, most),
            in_a_row=2,
        )


def ablation(
    model: Model,
    texts: str | PathLike[str] | Sequence[str] = "built-in",
    *,
    labels: Sequence[str | int] | None = None,
    kind: str | None = None,
    limit: int = 200,
    length: int | None = None,
    batch: int = 16,
    seed: int = 0,
) -> Ablation:
    """Removes each head and measures how the loss changes, compared with the same architecture untrained.

    The loss is that of the next token, of masked tokens, of an answer, or of the class, whose `labels` are then needed.

    >>> import regard
    >>> texts = ["the cat sat on the mat", "a dog saw the cat"]
    >>> model = regard.GPT(tokenizer=regard.Tokenizer.words(texts), d_model=8, n_layers=1, n_heads=2, context=8)
    >>> found = regard.ablation(model, texts)
    >>> len(found.where(model="trained", measure="zeroed", kind="all"))
    2
    """
    named: tuple[list[str], list[int]] | None = None
    if labels is not None:
        classes = sorted({str(label) for label in labels})
        named = classes, [classes.index(str(label)) for label in labels]
    loss, table = _ablation(model._inner, _given(texts), named, kind, _Options(limit, length, batch, seed))
    return Ablation(loss, table)


class Influence(Table):
    """How much each token matters for a prediction, by several methods."""

    def __init__(self, answer: str, columns: Columns) -> None:
        super().__init__(columns)
        self.answer = answer
        """The prediction that is explained."""

    @property
    def methods(self) -> list[str]:
        """The names of the methods; `blank-out` is the reference for the others."""
        return list(dict.fromkeys(self["method"].tolist()))

    def plot(self) -> Figure:
        """Tokens by methods, each relative to its largest value."""
        positions = sorted(set(self["place"].tolist()))
        names = {row["place"]: row["token"] for row in self}
        matrix = np.full((len(self.methods), len(positions)), np.nan, dtype=np.float32)
        for row in self:
            matrix[self.methods.index(row["method"]), positions.index(row["place"])] = abs(row["value"])
        matrix /= np.maximum(np.nanmax(matrix, axis=1, keepdims=True), 1e-12)
        return heat_maps(
            f"Influence of each token on the prediction “{self.answer}”",
            [("", matrix)],
            rows=self.methods,
            columns=[names[position] for position in positions],
            names=("method", "token"),
            label="relative to the largest",
            range=(0.0, 1.0),
        )


def influence(model: Model, text: str, *, answer: str | None = None, flow_limit: int = 64) -> Influence:
    """Which words a prediction depends on, by raw attention, rollout, flow, gradients, and the effect of blanking out each word.

    The prediction is the model's own unless `answer` names one.

    >>> import regard
    >>> tokenizer = regard.Tokenizer.words(["the cat sat on the mat"])
    >>> model = regard.GPT(tokenizer=tokenizer, d_model=8, n_layers=1, n_heads=2, context=8)
    >>> found = regard.influence(model, "the cat sat")
    >>> "blank-out" in found.methods
    True
    """
    if not isinstance(text, str):
        raise Error(f"influence: text is a string, not {type(text).__name__}")
    explained, table = _influence(model._inner, text, answer, flow_limit)
    return Influence(explained, table)


class ScoreParts(Table):
    """One attention score as a sum over pairs of components that wrote the query and the key, the largest first."""

    def __init__(self, score: float, distance: float, columns: Columns) -> None:
        super().__init__(columns)
        self.score = score
        """The score, which all parts and `distance` add up to."""
        self.distance = distance
        """The bias by distance that is added to the score."""

    def plot(self) -> Figure:
        """The parts by the components of the query (rows) and of the key (columns)."""
        rows = sorted(set(self["query_writer"].tolist()))
        columns = sorted(set(self["key_writer"].tolist()))
        matrix = np.zeros((len(rows), len(columns)), dtype=np.float32)
        for row in self:
            matrix[rows.index(row["query_writer"]), columns.index(row["key_writer"])] += row["part"]
        most = max(float(np.abs(matrix).max()), 1e-12)
        return heat_maps(
            f"Parts of the score of {self.score:.3g}",
            [("", matrix)],
            rows=rows,
            columns=columns,
            names=("in the query", "in the key"),
            label="part of the score",
            range=(-most, most),
        )


def score_parts(model: Model, text: str, *, layer: int, head: int, query: int, key: int) -> ScoreParts:
    """Which earlier heads and layers made a head attend from one token to another.

    In a pre-norm model the score is exactly a sum over pairs of contributions of the embeddings, earlier heads and feed-forward
    layers to the query and to the key, with the norm's statistics held fixed.

    >>> import regard
    >>> tokenizer = regard.Tokenizer.words(["the cat sat on the mat"])
    >>> model = regard.GPT(tokenizer=tokenizer, d_model=8, n_layers=2, n_heads=2, context=8)
    >>> found = regard.score_parts(model, "the cat sat", layer=1, head=0, query=2, key=1)
    >>> bool(abs(found["part"].sum() + found.distance - found.score) < 1e-5)
    True
    """
    count = len(model.tokens(text))
    number, of_head = model.numbers(layer, head)
    (at, _), _ = span(query, count, "queries")
    (seen, _), _ = span(key, count, "keys")
    return ScoreParts(*_score_parts(model._inner, text, number or 0, of_head or 0, at, seen))


class LogitLens(Table):
    """The prediction of the residual stream after each layer."""

    def plot(self) -> Figure:
        """The probability of each layer's best tokens."""
        layers = list(dict.fromkeys(self["layer"].tolist()))
        ranks = sorted(set(self["rank"].tolist()))
        matrix = np.full((len(layers), len(ranks)), np.nan, dtype=np.float32)
        for row in self:
            matrix[layers.index(row["layer"]), row["rank"]] = row["probability"]
        best = [row["token"] for row in self.where(rank=0)]
        rows = [f"{layer}: {token.strip() or token!r}" for layer, token in zip(layers, best)]
        return heat_maps(
            "The logit lens",
            [("", matrix)],
            rows=rows,
            names=("layer and its best token", "rank"),
            label="probability",
            range=(0.0, 1.0),
        )


def logit_lens(run: Run, *, position: int = -1, count: int = 5) -> LogitLens:
    """The tokens that the residual stream at a position would predict if each layer were the last, interventions included.

    >>> import regard
    >>> run = regard.GPT(11, d_model=8, n_layers=2, n_heads=2, context=8)([3, 1, 4])
    >>> lens = regard.logit_lens(run, count=1)
    >>> lens["layer"].tolist(), lens.rows()[-1]["id"] == run.top(1)[0].id
    (['embeddings', '0', '1'], True)
    """
    if not isinstance(run, Run):
        raise Error(f"logit_lens takes a run of a model, as model(text) gives it, not {type(run).__name__}")
    columns: dict[str, list[Any]] = {name: [] for name in ("layer", "rank", "token", "id", "probability", "logit")}
    for layer, scores in run.lens(position):
        powers = np.exp(scores - scores.max())
        probabilities = powers / powers.sum()
        for rank, id in enumerate(np.argsort(-scores, kind="stable")[:count]):
            row = (layer, rank, run.model.name_of(int(id)), int(id), float(probabilities[id]), float(scores[id]))
            for name, value in zip(columns, row):
                columns[name].append(value)
    return LogitLens(columns)
