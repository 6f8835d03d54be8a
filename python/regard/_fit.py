"""Training of a model on data in memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from ._arrays import Reals, is_ids, number, on_host, reals, whole
from ._progress import Progress
from ._regard import Error, Trainer
from ._tables import Figure, Table, line_chart

if TYPE_CHECKING:
    from ._models import Model

# How long the extension trains before Python shows progress and handles signals.
_STRETCH = 0.25


class Fit:
    """The record of a call of `Model.fit`: a notebook shows its curve.

    >>> import regard
    >>> model = regard.GPT(11, d_model=8, n_layers=1, n_heads=2, context=8)
    >>> fit = model.fit([[1, 2, 3, 4], [2, 3, 4, 5]], steps=20, lr=0.01)
    >>> fit.steps, bool(fit.loss < fit.history["loss"][0])
    (20, True)
    """

    def __init__(self) -> None:
        self._steps: list[tuple[int, float, float, float]] = []
        self._evaluations: list[dict[str, Any]] = []
        self.end = "stopped"
        """Why training ended: `finished`, or `patience` (held-out data no longer improved)."""

    @property
    def steps(self) -> int:
        """The number of updates."""
        return len(self._steps)

    @property
    def loss(self) -> float:
        """The mean training loss of the last tenth of the steps."""
        last = self._steps[-max(1, len(self._steps) // 10) :]
        return float(np.mean([loss for _, loss, *_ in last])) if last else float("nan")

    @property
    def history(self) -> Table:
        """The training loss, the learning rate and the norm of the gradients at every step."""
        columns: list[tuple[Any, ...]] = list(zip(*self._steps)) or [()] * 4
        return Table({name: list(values) for name, values in zip(("step", "loss", "rate", "gradient_norm"), columns)})

    @property
    def evaluations(self) -> Table:
        """The loss on held-out data, and the accuracy where one is defined, at every evaluation."""
        names = list(self._evaluations[0]) if self._evaluations else ["step", "val_loss"]
        return Table({name: [row[name] for row in self._evaluations] for name in names})

    def plot(self) -> Figure:
        """The losses over the steps."""
        # A point for each of about 200 stretches, so that the curve of a long run is readable.
        width = max(1, len(self._steps) // 200)
        groups = [self._steps[i : i + width] for i in range(0, len(self._steps), width)]
        curves = {"training": [(float(group[-1][0]), float(np.mean([s[1] for s in group]))) for group in groups]}
        if self._evaluations:
            curves["held out"] = [(float(row["step"]), float(row["val_loss"])) for row in self._evaluations]
        return line_chart("Loss", curves, x="step", y="loss")

    def _repr_svg_(self) -> str:
        return self.plot().svg

    def __repr__(self) -> str:
        return f"<regard.Fit: {self.steps:,} steps, loss {self.loss:.4f}, {self.end}>"


class _Given:
    """Data in the form that the extension takes; pictures separately."""

    def __init__(self, model: Model, inputs: Any, targets: Any, mask: int | None) -> None:
        self.mask = mask
        self.windows = False
        self.pictures: Reals | None = None
        self.inputs: list[str] | list[list[int]] = []
        self.targets = _targets(targets)
        if model.reads == "pictures":
            self.pictures = reals(inputs, "pictures")
        elif isinstance(inputs, str):
            self._one_text([inputs], model)
        elif isinstance(inputs, PathLike):
            raise Error("a file is read by regard.data: fit(*regard.data.texts(path)), or a string of its text")
        elif is_ids(inputs):
            rows = on_host(inputs)
            if rows.ndim == 1:
                self._one_text([rows.tolist()], model)
            else:
                self.inputs = _rows(rows)
        else:
            self.inputs = _rows(inputs)

    def _one_text(self, text: list[Any], model: Model) -> None:
        if model.predicts != "next token" or model.reads != "tokens":
            raise Error("one long text is for models that predict the next token: give a list of texts or rows of ids")
        self.inputs, self.windows = text, self.targets is None


def _rows(rows: Any) -> list[Any]:
    """A list of texts, or of rows of ids."""
    try:
        items = list(rows)
    except TypeError:
        raise Error(f"a list of texts or rows of ids was expected, got {type(rows).__name__}") from None
    if all(isinstance(item, str) for item in items):
        return items
    return [_row(item) for item in items]


def _row(row: Any) -> list[int]:
    array = on_host(row)
    if array.ndim != 1 or (array.size > 0 and array.dtype.kind not in "iu"):
        raise Error(f"a text or a row of whole numbers was expected, got {type(row).__name__}")
    values: list[int] = array.tolist()
    return values


def _targets(targets: Any) -> list[Any] | None:
    """Classes, rows of classes or tokens, or texts."""
    if targets is None:
        return None
    if isinstance(targets, (list, tuple)):
        if all(isinstance(item, str) for item in targets):
            return list(targets)
        if any(isinstance(item, (list, tuple, np.ndarray)) for item in targets):
            return [_row(item) for item in targets]
    array = on_host(targets)
    if array.dtype.kind == "b":
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu" or array.ndim not in (1, 2):
        raise Error("targets are whole numbers: a class for each input, or a row for each; or texts")
    values: list[Any] = array.tolist()
    return values


def fit(
    model: Model,
    inputs: Any,
    targets: Any,
    *,
    steps: int,
    lr: float,
    batch: int,
    validation: Any,
    evaluate_every: int,
    mask: int | None,
    progress: bool,
    settings: dict[str, Any],
) -> Fit:
    """See `Model.fit`."""
    for name, value in {"steps": steps, "batch": batch, "evaluate_every": evaluate_every}.items():
        whole(value, name, least=1 if name == "batch" else 0)
    for name in ("warmup", "accumulate", "patience", "seed"):
        whole(settings[name], name)
    for name, value in {"lr": lr, **{name: settings[name] for name in ("weight_decay", "clip")}}.items():
        number(value, name, least=0.0)
    if mask is not None:
        whole(mask, "mask", most=2**32 - 1)
    if settings["decay"] not in ("constant", "linear", "cosine"):
        raise Error(f"decay is \"constant\", \"linear\" or \"cosine\", not {settings['decay']!r}")
    if settings["optimiser"] not in ("adamw", "adam", "sgd"):
        raise Error(f"optimiser is \"adamw\", \"adam\" or \"sgd\", not {settings['optimiser']!r}")
    rate = {"highest": lr, "warmup": settings.pop("warmup"), "decay": settings.pop("decay")}
    if evaluate_every == 0 and validation is not None:
        evaluate_every = max(1, steps // 10)
    config = {"steps": steps, "batch_size": batch, "rate": rate, "evaluate_every": evaluate_every, **settings}
    data, held_out = _Given(model, inputs, targets, mask), None
    pictures: Reals | None = None
    if validation is not None:
        alone = not (isinstance(validation, tuple) and len(validation) == 2)
        pair: tuple[Any, Any] = (validation, None) if alone else validation
        held_out = _Given(model, *pair, mask)
        pictures = held_out.pictures
    trainer = Trainer(model._inner, data, held_out, data.pictures, pictures, json.dumps(config))
    done, show = Fit(), Progress(steps)
    try:
        end: str | None = None
        while end is None:
            made, measured, end = trainer.advance(_STRETCH)
            done._steps += made
            done._evaluations += measured
            if progress and made:
                show(made[-1][0], made[-1][1], done.plot, last=end is not None)
        done.end = end
    except KeyboardInterrupt:
        model._become(trainer.model())
        raise
    model._become(trainer.model())
    return done


__all__: Sequence[str] = ["Fit", "fit"]
